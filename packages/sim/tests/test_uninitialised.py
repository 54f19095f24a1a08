"""What an output makes of memory that nobody wrote is found, whatever the type and whatever is done with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from mosaic_tpu.sim import simulate
from mosaic_tpu.sim.errors import UninitializedError, UnwrittenOutputError
from packages.sim.tests.conftest import TILE, lowered, ramp
from packages.sim.tests.rules_kit import kernel, memref

DTYPES: Final = (np.int32, np.float32, ml_dtypes.bfloat16)
#: What a step makes of the memory and its block.
USES: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "sum": lambda a, x: a + x,
    "maximum": jnp.maximum,
    "minimum": jnp.minimum,
    "whether it is positive": lambda a, x: jnp.where(a > 0, x + a.dtype.type(1), x),
    "whether it is negative": lambda a, x: jnp.where(a < 0, x + a.dtype.type(1), x),
    "a scaled copy": lambda a, x: x + a * a.dtype.type(2),
}


def program(dtype: Any, use: Callable[[Any, Any], Any], *, cleared: bool) -> tuple[Any, np.ndarray]:
    """One step of an accumulator in scratch."""
    x = ramp(*TILE).astype(dtype)

    def kernel(x_ref: Any, o_ref: Any, total: Any) -> None:
        if cleared:
            total[...] = jnp.zeros(TILE, dtype)
        total[...] = use(total[...], x_ref[...])
        o_ref[...] = total[...]

    shape = jax.ShapeDtypeStruct(TILE, dtype)
    return lowered(pl.pallas_call(kernel, out_shape=shape, scratch_shapes=[pltpu.VMEM(TILE, dtype)]), x), x


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("use", USES)
def test_a_forgotten_start_is_found(use: str, dtype: Any) -> None:
    source, x = program(dtype, USES[use], cleared=False)
    # Without being asked, NaNs are compared with large numbers: both are not negative.
    asked = use == "whether it is negative" and dtype is not np.int32
    # A maximum or a copy may be what uninitialised memory holds, in each run.
    with pytest.raises((UninitializedError, UnwrittenOutputError), match="elements of the output o_ref") as caught:
        simulate(source, x, compare_fills=asked)
    related = str(caught.value.related)
    assert related.startswith("vector.load at ")
    assert "test_uninitialised.py:" in related
    assert "reads total (vmem " in related


@pytest.mark.parametrize("asked", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("use", USES)
def test_a_start_is_enough(use: str, dtype: Any, asked: bool) -> None:
    source, x = program(dtype, USES[use], cleared=True)
    assert simulate(source, x, compare_fills=asked).hazards == ()


def test_numbers_of_scalar_memory() -> None:
    def kernel(x_ref: Any, o_ref: Any, count: Any) -> None:
        count[0] = count[0] + 1
        o_ref[...] = x_ref[...] + count[0]

    x = ramp(*TILE).astype(np.int32)
    shape = jax.ShapeDtypeStruct(TILE, np.int32)
    call = pl.pallas_call(kernel, out_shape=shape, scratch_shapes=[pltpu.SMEM((1,), jnp.int32)])
    with pytest.raises(UninitializedError) as caught:
        simulate(lowered(call, x), x)
    assert str(caught.value.related).startswith("memref.load at ")


def test_what_is_read_and_masked_is_no_hazard() -> None:
    """The load is seen, the run compared with another, and nothing depends on it."""

    def kernel(x_ref: Any, o_ref: Any, total: Any) -> None:
        o_ref[...] = jnp.where(x_ref[...] < 0, total[...], x_ref[...])

    x = ramp(*TILE).astype(np.int32)
    shape = jax.ShapeDtypeStruct(TILE, np.int32)
    call = pl.pallas_call(kernel, out_shape=shape, scratch_shapes=[pltpu.VMEM(TILE, jnp.int32)])
    report = simulate(lowered(call, np.abs(x)), np.abs(x))
    np.testing.assert_array_equal(report.outputs[0], np.abs(x))
    assert report.hazards == ()


MASKED: Final = """%f = arith.constant dense<{fill}> : vector<8x128xi1>
%c = arith.constant 0 : index
%m = "tpu.vector_load"(%x, %c, %c, %f) {{operandSegmentSizes = array<i32: 1, 2, 1>, strides = array<i32>}}
  : (memref<8x128x{t}, #tpu.memory_space<vmem>>, index, index, vector<8x128xi1>) -> vector<8x128x{t}>
%y = arith.{add} %m, %m : vector<8x128x{t}>
vector.store %y, %o[%c, %c] : memref<8x128x{t}, #tpu.memory_space<vmem>>, vector<8x128x{t}>"""


@pytest.mark.parametrize(("element", "add", "dtype"), [("f32", "addf", np.float32), ("i32", "addi", np.int32)])
@pytest.mark.parametrize("kept", [True, False])
def test_what_a_mask_leaves_out(element: str, add: str, dtype: Any, kept: bool) -> None:
    lines = MASKED.format(fill=str(kept).lower(), t=element, add=add)
    source = kernel([f"%{name}: {memref(TILE, element)}" for name in "xo"], lines)
    x = ramp(*TILE).astype(dtype)
    if kept:
        for engine in ("numpy", "xla"):
            report = simulate(source, x, outputs=[(TILE, dtype)], engine=engine)
            np.testing.assert_array_equal(report.outputs[0], 2 * x)
            assert report.hazards == ()
        return
    with pytest.raises(UninitializedError, match="1024 of 1024") as caught:
        simulate(source, x, outputs=[(TILE, dtype)])
    assert "tpu.vector_load" in str(caught.value.related)
    assert "leaves undefined what its mask leaves out" in str(caught.value.related)
    assert not np.any(simulate(source, x, outputs=[(TILE, dtype)], engine="xla").outputs[0] == 2 * x)


@pytest.mark.parametrize("written", [32, 64])
@pytest.mark.parametrize("compared", [False, True])
@pytest.mark.parametrize("name", ["float8_e5m2", "float8_e4m3fn", "bfloat16", "float32", "int8", "int32"])
def test_memory_that_was_written_in_part(name: str, compared: bool, written: int) -> None:
    """A comparison swallows NaNs."""
    dtype = np.dtype(getattr(ml_dtypes, name, None) or name)

    def kernel_of_rows(x_ref: Any, o_ref: Any, total: Any) -> None:
        total[0:written, :] = x_ref[0:written, :]
        wide = total[...].astype(jnp.float32)
        o_ref[...] = jnp.where(wide > 0, 1.0, 2.0) if compared else wide * 2

    x = np.ones((64, 128), np.float32).astype(dtype)
    shape = jax.ShapeDtypeStruct(x.shape, np.float32)
    source = lowered(pl.pallas_call(kernel_of_rows, out_shape=shape, scratch_shapes=[pltpu.VMEM(x.shape, dtype)]), x)
    if written == 64:
        assert simulate(source, x).hazards == ()
        return
    with pytest.raises(UninitializedError, match="4096 of 8192") as caught:
        simulate(source, x)
    assert "reads total (vmem " in str(caught.value.related)


def test_the_rows_past_the_edge() -> None:
    def kernel_of_edge(x_ref: Any, o_ref: Any) -> None:
        o_ref[...] = jnp.where(x_ref[...] > 0, 1, 2).sum(0, keepdims=True) + jnp.zeros(TILE, jnp.int32)

    x = np.ones((12, 128), np.float32)
    specs = dict(in_specs=[pl.BlockSpec(TILE, lambda i: (i, 0))], out_specs=pl.BlockSpec(TILE, lambda i: (i, 0)))
    call = pl.pallas_call(kernel_of_edge, grid=(2,), out_shape=jax.ShapeDtypeStruct((16, 128), jnp.int32), **specs)
    with pytest.raises(UninitializedError) as caught:
        simulate(lowered(call, x), x)
    assert "reads x_ref window" in str(caught.value.related)
    whole = np.ones((16, 128), np.float32)
    assert simulate(lowered(call, whole), whole).hazards == ()
