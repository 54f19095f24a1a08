# ruff: noqa: N801, N805 - a pair is a class that holds two functions
# pyright: basic
"""Random numbers of the core's generator."""

from __future__ import annotations

import jax.numpy as jnp
from jax.experimental.pallas import tpu as pltpu

from conformance.cases.cheat_sheet.pairs import Pairs, out, smem
from mosaic_tpu.builder import f32, i32, u32

PAIRS = Pairs("random")
STORES = ("load", "store")
for name, seeds in (("scalar", "s[0]"), ("number", "7"), ("several", "s[0], 3, s[1]")):
    PAIRS.refs(
        f"prng-seed-{name}",
        f"pltpu.prng_seed({seeds})",
        f"b.pallas.prng_seed({seeds})",
        uses=("load",),
        s=smem(i32),
        o=out(i32),
    )
for shape in ((8, 128), (2, 8, 128)):
    PAIRS.refs(
        f"prng-random-bits-{len(shape)}d",
        f"o[...] = pltpu.prng_random_bits({shape})",
        f"o[...] = b.pallas.prng_random_bits({shape})",
        uses=("store",),
        o=out(i32, shape),
    )
    for name, dtype in (("stateful_bits", u32), ("stateful_uniform", f32), ("stateful_normal", f32)):
        PAIRS.refs(
            f"{name}-{len(shape)}d",
            f"o[...] = pltpu.{name}({shape})",
            f"o[...] = b.pallas.{name}({shape})",
            uses=("store",),
            o=out(dtype, shape),
        )
PAIRS.refs(
    "stateful-uniform-limits",
    "o[...] = pltpu.stateful_uniform((8, 128), minval=-1.0, maxval=2.0)",
    "o[...] = b.pallas.stateful_uniform((8, 128), minval=-1.0, maxval=2.0)",
    uses=("store",),
    o=out(f32),
)


@PAIRS.add(s=smem(i32), o=out(i32), uses=STORES)
class stateful_bernoulli:
    def pallas(s, o):
        pltpu.prng_seed(s[0])
        o[...] = pltpu.stateful_bernoulli(0.25, (8, 128)).astype(jnp.int32)

    def ours(b, s, o):
        b.pallas.prng_seed(s[0])
        o[...] = b.pallas.astype(b.pallas.stateful_bernoulli(0.25, (8, 128)), i32)


@PAIRS.add(s=smem(i32), o=out(f32), uses=STORES)
class stateful_uniform_after_a_seed:
    def pallas(s, o):
        pltpu.prng_seed(s[0], s[1])
        o[...] = pltpu.stateful_uniform((8, 128)) + pltpu.stateful_uniform((8, 128))

    def ours(b, s, o):
        b.pallas.prng_seed(s[0], s[1])
        o[...] = b.pallas.stateful_uniform((8, 128)) + b.pallas.stateful_uniform((8, 128))
