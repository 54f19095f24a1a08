"""A vector that a loop or a branch hands on is the value that was loaded, not the memory it was loaded from."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from conformance.harness import pallas
from mosaic_tpu.sim import simulate

SMEM, VMEM = pl.BlockSpec(memory_space=pltpu.SMEM), pl.BlockSpec(memory_space=pltpu.VMEM)


def swapped_in_a_loop(n: Any, values: Any) -> Any:
    return lax.fori_loop(0, n, lambda _, c: (c[1], c[0]), values)


def swapped_by_a_branch_in_a_loop(n: Any, values: Any) -> Any:
    return lax.fori_loop(0, n, lambda j, c: lax.cond(n + j > 2, lambda a, b: (a, b), lambda a, b: (b, a), *c), values)


def counted_down(n: Any, values: Any) -> Any:
    _, *found = lax.while_loop(lambda c: c[0] > 0, lambda c: (c[0] - 1, c[2], c[1]), (n, *values))
    return tuple(found)


@pytest.mark.parametrize("engine", ["numpy", "xla"])
@pytest.mark.parametrize("trips", range(4))
@pytest.mark.parametrize("carry", [swapped_in_a_loop, swapped_by_a_branch_in_a_loop, counted_down])
def test_what_a_loop_hands_on(carry: Any, trips: int, engine: Any) -> None:
    def kernel(n: Any, x: Any, o: Any) -> None:
        o[...] = x[...]
        first, second = carry(n[0], (o[0:8, :], o[8:16, :]))
        o[0:8, :] = first
        o[8:16, :] = second

    def call(*arrays: Any, interpret: bool = False) -> Any:
        shape = jax.ShapeDtypeStruct((16, 128), jnp.float32)
        made = pl.pallas_call(kernel, out_shape=shape, in_specs=[SMEM, VMEM], out_specs=VMEM, interpret=interpret)
        return made(*arrays)

    arrays = np.array([trips], np.int32), np.arange(16 * 128, dtype=np.float32).reshape(16, 128)
    found = simulate(pallas.lower_to_stablehlo(call, *arrays), *arrays, engine=engine).outputs[0]
    np.testing.assert_array_equal(found, call(*arrays, interpret=True))
