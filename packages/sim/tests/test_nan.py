"""What kernels make of NaN and infinities, against Pallas's interpreter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from mosaic_tpu.sim import simulate

TILE: Final = jax.ShapeDtypeStruct((8, 128), jnp.float32)
NUMBERS: Final = np.array([np.nan, -np.inf, -1.5, -0.0, 0.0, 1.0, 2.5, np.inf], np.float32)
#: Every number beside every other one.
X: Final = np.resize(np.repeat(NUMBERS, 8), TILE.shape)
Y: Final = np.resize(NUMBERS, TILE.shape)

EXPRESSIONS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "isnan": lambda x, y: jnp.isnan(x),
    "isinf": lambda x, y: jnp.isinf(x),
    "isfinite": lambda x, y: jnp.isfinite(x),
    "equal": lambda x, y: x == y,
    "not equal": lambda x, y: x != y,
    "not equal to itself": lambda x, y: x != x,
    "less": lambda x, y: x < y,
    "greater or equal": lambda x, y: x >= y,
    "not less": lambda x, y: ~(x < y),
    "a bool": lambda x, y: x.astype(jnp.bool_),
    "logical and": lambda x, y: jnp.logical_and(x, y),
    "logical or": lambda x, y: jnp.logical_or(x, y),
    "logical xor": lambda x, y: jnp.logical_xor(x, y),
    "logical not": lambda x, y: jnp.logical_not(x),
    "where": lambda x, y: jnp.where(jnp.isnan(x), 7.0, x),
    "nan_to_num": lambda x, y: jnp.nan_to_num(x),
    "heaviside": lambda x, y: jnp.heaviside(x, y),
    "maximum": lambda x, y: jnp.maximum(x, y),
    "minimum": lambda x, y: jnp.minimum(x, y),
    "fmax": lambda x, y: jnp.fmax(x, y),
    "fmin": lambda x, y: jnp.fmin(x, y),
    "logaddexp": lambda x, y: jnp.logaddexp(x, y),
    "logaddexp2": lambda x, y: jnp.logaddexp2(x, y),
    "nanmax": lambda x, y: jnp.broadcast_to(jnp.nanmax(x, 1, keepdims=True), x.shape),
    "nansum": lambda x, y: jnp.broadcast_to(jnp.nansum(jnp.where(jnp.isinf(x), 0, x), 1, keepdims=True), x.shape),
    "any": lambda x, y: jnp.broadcast_to(jnp.any(x != x, 1, keepdims=True), x.shape),
}


@pytest.mark.parametrize("engine", ["numpy", "xla"])
@pytest.mark.parametrize("name", EXPRESSIONS)
def test_numbers_that_are_none_are_compared_as_in_jax(name: str, engine: Any) -> None:
    def kernel(x: Any, y: Any, o: Any) -> None:
        o[...] = EXPRESSIONS[name](x[...], y[...]).astype(jnp.float32)

    lowered = jax.jit(pl.pallas_call(kernel, out_shape=TILE)).trace(X, Y).lower(lowering_platforms=("tpu",))
    (found,) = simulate(lowered, X, Y, engine=engine).outputs
    wanted = pl.pallas_call(kernel, out_shape=TILE, interpret=True)(X, Y)
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


@pytest.mark.parametrize("engine", ["numpy", "xla"])
def test_a_number_in_scalar_memory_is_compared_alike(engine: Any) -> None:
    def kernel(x: Any, o: Any) -> None:
        for n in range(len(NUMBERS)):
            o[n] = (x[n] != x[0]).astype(jnp.int32) + 2 * (x[n] != 1.0).astype(jnp.int32)

    shape = jax.ShapeDtypeStruct((len(NUMBERS),), jnp.int32)
    space = pl.BlockSpec(memory_space=pltpu.SMEM)
    call = pl.pallas_call(kernel, out_shape=shape, in_specs=[space], out_specs=space)
    lowered = jax.jit(call).trace(NUMBERS).lower(lowering_platforms=("tpu",))
    (found,) = simulate(lowered, NUMBERS, engine=engine).outputs
    np.testing.assert_array_equal(found, [3, 3, 3, 3, 3, 1, 3, 3])
