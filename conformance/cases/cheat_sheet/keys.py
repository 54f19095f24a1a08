# ruff: noqa: N801, N805 - a pair is a class that holds two functions
# pyright: basic
"""Keys of the TPU's generator, and what is drawn with them."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl

from conformance.cases.cheat_sheet.pairs import Pairs, out, pallas_key, smem
from mosaic_tpu.builder import f32, i32, u32

PAIRS = Pairs("keys")
STORES = ("store",)
for name in ("bits", "uniform", "normal", "exponential", "laplace", "logistic"):
    for shape in ((8, 128), (2, 8, 128)):
        PAIRS.refs(
            f"random-{name}-{len(shape)}d",
            f"o[...] = jax.random.{name}(k[...], {shape})",
            f"o[...] = b.pallas.random_{name}(b.pallas.load_key(k), {shape})",
            uses=STORES,
            k=pallas_key(),
            o=out(u32 if name == "bits" else f32, shape),
        )
PAIRS.refs(
    "random-uniform-limits",
    "o[...] = jax.random.uniform(k[...], (8, 128), minval=-1.0, maxval=2.0)",
    "o[...] = b.pallas.random_uniform(b.pallas.load_key(k), (8, 128), minval=-1.0, maxval=2.0)",
    uses=STORES,
    k=pallas_key(),
    o=out(f32),
)
for name, data in (("number", "3"), ("scalar", "s[0]")):
    PAIRS.refs(
        f"fold-in-{name}",
        f"o[...] = jax.random.bits(jax.random.fold_in(k[...], {data}), (8, 128))",
        f"o[...] = b.pallas.random_bits(b.pallas.fold_in(b.pallas.load_key(k), {data}), (8, 128))",
        uses=STORES if name == "number" else ("load", *STORES),
        k=pallas_key(),
        s=smem(i32),
        o=out(u32),
    )


@PAIRS.add(k=pallas_key(), o=out(i32), uses=STORES)
class random_bernoulli:
    def pallas(k, o):
        o[...] = jax.random.bernoulli(k[...], 0.25, (8, 128)).astype(jnp.int32)

    def ours(b, k, o):
        o[...] = b.pallas.astype(b.pallas.random_bernoulli(b.pallas.load_key(k), 0.25, (8, 128)), i32)


@PAIRS.add(k=pallas_key(), o=out(f32, (2, 8, 128)), grid=(2,), uses=STORES)
class random_of_a_step:
    def pallas(k, o):
        key = jax.random.fold_in(k[...], pl.program_id(0))
        o[...] = jax.random.uniform(key, (2, 8, 128))

    def ours(b, i, k, o):
        key = b.pallas.fold_in(b.pallas.load_key(k), i)
        o[...] = b.pallas.random_uniform(key, (2, 8, 128))
