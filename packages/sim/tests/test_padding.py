"""HBM holds whole tiles: a pipeline's last block may reach into the padding of an array's last one, nothing further."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from conformance.harness import pallas
from mosaic_tpu.sim import errors, simulate

ANY = pl.BlockSpec(memory_space=pl.ANY)


def program(kernel: Any, x: np.ndarray[Any, Any], *more: Any) -> str:
    out = jax.ShapeDtypeStruct(x.shape, x.dtype)
    call = pl.pallas_call(kernel, out_shape=out, in_specs=[ANY, *more], out_specs=ANY)
    arrays = (x, *([np.zeros(1, np.int32)] * len(more)))
    return pallas.lower_to_stablehlo(lambda *a: call(*a), *arrays)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8"])
@pytest.mark.parametrize(("shape", "block"), [((20, 256), (8, 256)), ((20, 200), (8, 128)), ((33, 129), (32, 128))])
def test_a_pipeline_over_an_array_that_ends_within_a_tile(
    shape: tuple[int, int], block: tuple[int, int], dtype: str
) -> None:
    if dtype != "float32" and block[0] % 32:
        block = (32, block[1])

    def kernel(x: Any, o: Any) -> None:
        def body(x_block: Any, o_block: Any) -> None:
            o_block[...] = x_block[...] + x_block[...]

        grid = tuple(pl.cdiv(n, b) for n, b in zip(shape, block, strict=True))
        spec = pl.BlockSpec(block, lambda i, j: (i, j))
        pltpu.emit_pipeline(body, grid=grid, in_specs=[spec], out_specs=[spec])(x, o)

    x = np.arange(shape[0] * shape[1]).reshape(shape).astype(dtype)
    report = simulate(program(kernel, x), x)
    np.testing.assert_array_equal(report.outputs[0], x + x)
    assert report.hazards == ()


def test_a_copy_of_a_size_of_the_run_may_not_reach_past_the_tile() -> None:
    """Nor may one of a size that the kernel says reach past the array."""

    def kernel(x: Any, n: Any, o: Any) -> None:
        def body(scratch: Any, semaphore: Any) -> None:
            rows = pl.ds(pl.multiple_of(n[0], 8), 8)
            pltpu.async_copy(x.at[rows], scratch, semaphore).wait()
            pltpu.async_copy(scratch, o.at[rows], semaphore).wait()

        pl.run_scoped(body, pltpu.VMEM((8, 128), np.float32), pltpu.SemaphoreType.DMA)

    x = np.ones((20, 128), np.float32)
    text = program(kernel, x, pl.BlockSpec(memory_space=pltpu.SMEM))
    simulate(text, x, np.array([8], np.int32), allow_unwritten=True)
    with pytest.raises(errors.OutOfBoundsError, match="index 16 of dimension 0, 8 long, in a size of 20"):
        simulate(text, x, np.array([16], np.int32), allow_unwritten=True)


def test_a_row_of_memory_has_no_tiles_to_reach_into() -> None:
    text = """
    func.func @part(%x: memref<256xf32, #tpu.memory_space<any>>, %n: memref<1xi32, #tpu.memory_space<smem>>,
                    %y: memref<256xf32, #tpu.memory_space<any>>, %s: memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>)
        attributes {scratch_operands = 1 : i64} {
      %zero = arith.constant 0 : index
      %c0 = arith.constant 0 : i32
      %size = memref.load %n[%zero] : memref<1xi32, #tpu.memory_space<smem>>
      %a = tpu.memref_slice %x[%c0] <%size> : memref<256xf32, #tpu.memory_space<any>> -> memref<?xf32, #tpu.memory_space<any>>
      %b = tpu.memref_slice %y[%c0] <%size> : memref<256xf32, #tpu.memory_space<any>> -> memref<?xf32, #tpu.memory_space<any>>
      tpu.enqueue_dma source(%a : memref<?xf32, #tpu.memory_space<any>>) target(%b : memref<?xf32, #tpu.memory_space<any>>) target_semaphore(%s : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>)
      tpu.wait_dma source(%a : memref<?xf32, #tpu.memory_space<any>>) target(%b : memref<?xf32, #tpu.memory_space<any>>) target_semaphore(%s : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) {wait_target = true}
      return
    }"""  # noqa: E501
    x = np.arange(256, dtype=np.float32)
    found = simulate(text, x, np.array([100], np.int32), allow_unwritten=True).outputs[0]
    np.testing.assert_array_equal(found[:100], x[:100])
    with pytest.raises(errors.OutOfBoundsError):
        simulate(text, x, np.array([257], np.int32), allow_unwritten=True)
