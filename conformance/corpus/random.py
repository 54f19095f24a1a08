"""Random numbers: the TPU's own generator, and JAX's."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from conformance.corpus.case import Cases, arrays

CASES = Cases("random")


@CASES.refs(("prng_seed", "prng_random_bits"), ("s32[2] smem",), ("s32[8,128]",))
def bits(seed: Any, o: Any) -> None:
    pltpu.prng_seed(seed[0])
    o[...] = pltpu.prng_random_bits((8, 128))


@CASES.refs(("prng_seed", "prng_random_bits"), ("s32[2] smem",), ("s32[2,8,128]",), grid=(2,))
def bits_of_two_seeds(seed: Any, o: Any) -> None:
    pltpu.prng_seed(seed[0], seed[1] + pl.program_id(0), 3)
    o[...] = pltpu.prng_random_bits((2, 8, 128))


@CASES.refs(("prng_random_bits",), ("s32[2] smem",), ("f32[8,128]",))
def stateful(seed: Any, o: Any) -> None:
    pltpu.prng_seed(seed[0])
    o[...] = pltpu.stateful_uniform((8, 128), minval=0.0, maxval=1.0)


@CASES.refs(("prng_random_bits",), ("s32[2] smem",), ("f32[8,128]",))
def stateful_normal(seed: Any, o: Any) -> None:
    pltpu.prng_seed(seed[0])
    o[...] = pltpu.stateful_normal((8, 128), jnp.float32)


@CASES.refs(("prng_random_bits",), ("s32[2] smem",), ("pred[8,128]",))
def stateful_bernoulli(seed: Any, o: Any) -> None:
    pltpu.prng_seed(seed[0])
    o[...] = pltpu.stateful_bernoulli(0.5, (8, 128))


# --- keys ------------------------------------------------------------------------------------------------------------


def _with_key(body: Any, shape: tuple[int, ...] = (8, 128), dtype: Any = jnp.float32) -> Any:
    """A kernel of one key of the TPU's generator, which it finds in SMEM."""

    def kernel(key: Any, o: Any) -> None:
        o[...] = body(key[...])

    def function(seed: Any) -> Any:
        key = pltpu.to_pallas_key(jax.random.key(seed[0]))
        return pl.pallas_call(
            kernel,
            out_shape=jax.ShapeDtypeStruct(shape, dtype),
            in_specs=[pl.BlockSpec(memory_space=pltpu.SMEM)],
        )(key)

    return function


_SEED = arrays("s32[1]")
CASES.add("key-uniform", ("random_bits", "prng_seed"), _with_key(lambda key: jax.random.uniform(key, (8, 128))), _SEED)
CASES.add(
    "key-bits",
    ("random_bits",),
    _with_key(lambda key: jax.random.bits(key, (2, 8, 128)), (2, 8, 128), jnp.uint32),
    _SEED,
)
CASES.add(
    "key-fold_in",
    ("random_fold_in", "prng_split", "prng_join"),
    _with_key(lambda key: jax.random.uniform(jax.random.fold_in(key, 7), (8, 128))),
    _SEED,
)
CASES.add("key-normal", ("random_bits", "erf_inv"), _with_key(lambda key: jax.random.normal(key, (8, 128))), _SEED)


@CASES.refs(("random_seed", "random_unwrap"), ("s32[1] smem",), ("f32[8,128]",))
def key_from_a_seed(seed: Any, o: Any) -> None:
    key = jax.random.key(seed[0], impl="threefry2x32")
    o[...] = jax.random.uniform(key, (8, 128))


def _with_threefry(body: Any, dtype: Any = jnp.float32) -> Any:
    """A kernel of the data of a threefry key."""

    def kernel(data: Any, o: Any) -> None:
        o[...] = body(jax.random.wrap_key_data(data[0], impl="threefry2x32"))

    def function(data: Any) -> Any:
        return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((8, 128), dtype))(data)

    return function


_DATA = arrays("u32[1,2]")
_THREEFRY = ("random_bits", "random_wrap", "random_unwrap", "threefry2x32", "iota_2x32_shape")
CASES.add("threefry-uniform", _THREEFRY, _with_threefry(lambda key: jax.random.uniform(key, (8, 128))), _DATA)
CASES.add("threefry-bits", _THREEFRY, _with_threefry(lambda key: jax.random.bits(key, (8, 128)), jnp.uint32), _DATA)
CASES.add(
    "threefry-fold_in",
    ("random_fold_in", "threefry2x32"),
    _with_threefry(lambda key: jax.random.uniform(jax.random.fold_in(key, 7), (8, 128))),
    _DATA,
)


def _blocks(key: Any) -> Any:
    def kernel(key: Any, o: Any) -> None:
        o[...] = pltpu.sample_block(
            jax.random.uniform,
            key[...],
            block_size=(16, 128),
            tile_size=(8, 128),
            total_size=(32, 128),
            block_index=(pl.program_id(0), 0),
        )

    return pl.pallas_call(
        kernel,
        grid=(2,),
        out_shape=jax.ShapeDtypeStruct((32, 128), jnp.float32),
        in_specs=[pl.BlockSpec(memory_space=pltpu.SMEM)],
        out_specs=pl.BlockSpec((16, 128), lambda i: (i, 0)),
    )(pltpu.to_pallas_key(jax.random.key(key[0])))


CASES.add("sample_block", ("random_bits", "random_fold_in"), _blocks, _SEED)
