"""What may not be touched while a DMA is in flight: views, parts, bit patterns, numbers in SMEM, scopes, windows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from mosaic_tpu.sim import errors, simulate
from packages.sim.tests.conftest import DMA, MODES, TILE, lowered, ramp, run

X = ramp(16, 128)
VMEM = pltpu.VMEM((16, 128), jnp.float32)
Kernel = Callable[..., None]


def copy(source: Any, target: Any, semaphore: Any) -> None:
    pltpu.async_copy(source, target, semaphore).wait()


def reads(rows: pl.Slice, *, wait_first: bool = False) -> Kernel:
    """Rows 0 to 7 of a scratch are filled; these rows of it are read meanwhile."""

    def kernel(x: Any, o: Any, scratch: Any, kept: Any, semaphore: Any) -> None:
        copy(x, scratch, semaphore)
        fetch = pltpu.make_async_copy(x.at[pl.ds(8, 8)], scratch.at[pl.ds(0, 8)], semaphore)
        fetch.start()
        if wait_first:
            fetch.wait()
        kept[...] = scratch[rows]
        if not wait_first:
            fetch.wait()
        copy(scratch, o, semaphore)

    return kernel


def run_reads(kernel: Kernel, mode: str) -> Any:
    return run(kernel, X, scratch=[VMEM, pltpu.VMEM(TILE, jnp.float32), DMA], dma=mode)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("start", [0, 1, 7])
def test_a_read_that_overlaps_a_destination_in_part_is_found(mode: str, start: int) -> None:
    with pytest.raises(errors.ReadBeforeWaitError) as caught:
        run_reads(reads(pl.ds(start, 8)), mode)
    assert f"[{start}:{start + 8}, 0:128]" in str(caught.value.buffer)


@pytest.mark.parametrize("mode", MODES)
def test_rows_beside_a_destination_and_rows_after_the_wait_may_be_read(mode: str) -> None:
    assert not run_reads(reads(pl.ds(8, 8)), mode).hazards
    assert not run_reads(reads(pl.ds(0, 8), wait_first=True), mode).hazards


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("rows", "found"), [(0, True), (8, False)])
def test_a_store_through_a_bitcast_ref_is_a_write_to_the_memory_under_it(mode: str, rows: int, found: bool) -> None:
    def kernel(x: Any, o: Any, scratch: Any, semaphore: Any) -> None:
        copy(x, scratch, semaphore)
        store = pltpu.make_async_copy(scratch.at[pl.ds(0, 8)], o.at[pl.ds(0, 8)], semaphore)
        store.start()
        scratch.bitcast(jnp.int32)[pl.ds(rows, 8)] = jnp.zeros(TILE, jnp.int32)
        store.wait()
        copy(scratch.at[pl.ds(8, 8)], o.at[pl.ds(8, 8)], semaphore)

    if found:
        with pytest.raises(errors.WriteToSourceError):
            run(kernel, X, scratch=[VMEM, DMA], dma=mode)
    else:
        assert not run(kernel, X, scratch=[VMEM, DMA], dma=mode).hazards


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("rows", "found"), [(0, True), (4, True), (8, False)])
def test_a_load_through_a_packed_bitcast_is_a_read_of_the_rows_under_it(mode: str, rows: int, found: bool) -> None:
    """An i32 row holds two bf16 rows: bf16 rows 0 to 15 are in flight, i32 rows 0 to 7."""
    x = ramp(32, 128, dtype=jnp.bfloat16)

    def kernel(x: Any, o: Any, scratch: Any, kept: Any, semaphore: Any) -> None:
        copy(x, scratch, semaphore)
        fetch = pltpu.make_async_copy(x.at[pl.ds(0, 16)], scratch.at[pl.ds(0, 16)], semaphore)
        fetch.start()
        kept[...] = scratch.bitcast(jnp.int32)[pl.ds(rows, 8)]
        fetch.wait()
        copy(scratch, o, semaphore)

    scratch = [pltpu.VMEM((32, 128), jnp.bfloat16), pltpu.VMEM(TILE, jnp.int32), DMA]
    if found:
        with pytest.raises(errors.ReadBeforeWaitError):
            run(kernel, x, scratch=scratch, dma=mode)
    else:
        assert not run(kernel, x, scratch=scratch, dma=mode).hazards


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("wait_first", [True, False])
def test_a_number_in_smem_is_memory_too(mode: str, wait_first: bool) -> None:
    def kernel(x: Any, o: Any, numbers: Any, kept: Any, semaphore: Any) -> None:
        fetch = pltpu.make_async_copy(x, numbers, semaphore)
        fetch.start()
        if wait_first:
            fetch.wait()
        kept[0] = numbers[0, 3]
        if not wait_first:
            fetch.wait()
        copy(numbers, o, semaphore)

    scratch = [pltpu.SMEM(TILE, jnp.int32), pltpu.SMEM((8,), jnp.int32), DMA]
    if wait_first:
        assert not run(kernel, ramp(*TILE, dtype=np.int32), scratch=scratch, dma=mode).hazards
    else:
        with pytest.raises(errors.ReadBeforeWaitError) as caught:
            run(kernel, ramp(*TILE, dtype=np.int32), scratch=scratch, dma=mode)
        assert caught.value.op == "memref.load"


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("rows", "found"), [(4, True), (8, False)])
def test_dmas_between_arrays_in_hbm_conflict_with_each_other(mode: str, rows: int, found: bool) -> None:
    def kernel(x: Any, o: Any, first: Any, second: Any) -> None:
        a = pltpu.make_async_copy(x.at[pl.ds(0, 8)], o.at[pl.ds(0, 8)], first)
        b = pltpu.make_async_copy(x.at[pl.ds(8, 8)], o.at[pl.ds(rows, 8)], second)
        a.start()
        b.start()
        a.wait()
        b.wait()

    if found:
        with pytest.raises(errors.WriteToDestinationError) as caught:
            run(kernel, X, scratch=[DMA, DMA], dma=mode)
        assert "the DMA was started by tpu.enqueue_dma" in str(caught.value.related)
    else:
        assert not run(kernel, X, scratch=[DMA, DMA], dma=mode).hazards


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("rows", "found"), [(0, True), (4, True), (8, False)])
def test_the_source_and_the_destination_of_a_dma_do_not_overlap(mode: str, rows: int, found: bool) -> None:
    def kernel(x: Any, o: Any, scratch: Any, semaphore: Any) -> None:
        copy(x, scratch, semaphore)
        copy(scratch.at[pl.ds(0, 8)], scratch.at[pl.ds(rows, 8)], semaphore)
        copy(scratch, o, semaphore)

    if found:
        with pytest.raises(errors.WriteToSourceError, match="overlap"):
            run(kernel, X, scratch=[VMEM, DMA], dma=mode)
    else:
        assert not run(kernel, X, scratch=[VMEM, DMA], dma=mode).hazards


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("steps", [1, 2])
def test_a_window_is_not_fetched_into_a_buffer_that_a_dma_still_reads(mode: str, steps: int) -> None:
    """A step's DMA out of its window is waited for in the same step, or one step later: by then it is overwritten."""

    def kernel(x: Any, o: Any, semaphore: Any) -> None:
        step = pl.program_id(0)

        def store(at: Any) -> Any:
            return pltpu.make_async_copy(x, o.at[pl.ds(at * 8, 8)], semaphore)

        if steps == 2:

            @pl.when(step > 0)
            def before() -> None:
                store(step - 1).wait()

        store(step).start()

        @pl.when((step == 3) | (steps == 1))
        def now() -> None:
            store(step).wait()

    x = ramp(32, 128)
    call = pl.pallas_call(
        kernel,
        grid=(4,),
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        in_specs=[pl.BlockSpec(TILE, lambda i: (i, 0))],
        out_specs=pl.BlockSpec(memory_space=pl.ANY),
        scratch_shapes=[DMA],
    )
    program = lowered(call, x)
    if steps == 1:
        np.testing.assert_array_equal(simulate(program, x, dma=mode).outputs[0], x)
    else:
        with pytest.raises(errors.WriteToSourceError, match="the copy of a window, x to x window"):
            simulate(program, x, dma=mode)


SCOPE = """
func.func @scope(%x: memref<8x128xf32, #tpu.memory_space<any>>, %o: memref<8x128xf32, #tpu.memory_space<any>>,
                 %s: memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>)
    attributes {{scratch_operands = 1 : i64}} {{
  "tpu.region"() ({{
    %v = memref.alloca() : memref<8x128xf32, #tpu.memory_space<vmem>>
    %t = memref.alloca() : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
    {start} {{operandSegmentSizes = array<i32: 1, 0, 1, 1, 0, 0, 0>}} : {types}
    {inside}
    "tpu.yield"() : () -> ()
  }}) : () -> ()
  {outside}
  "tpu.enqueue_dma"(%x, %o, %s) {{operandSegmentSizes = array<i32: 1, 0, 1, 1, 0, 0, 0>}} : {hbm}
  "tpu.wait_dma"(%x, %o, %s) {{operandSegmentSizes = array<i32: 1, 0, 1, 1, 0, 0, 0>, wait_target = true}} : {hbm}
  return
}}"""


def test_a_scope_does_not_end_before_its_dmas() -> None:
    space = "#tpu.memory_space"
    hbm, vmem = f"memref<8x128xf32, {space}<any>>", f"memref<8x128xf32, {space}<vmem>>"
    semaphore = f"memref<!tpu.dma_semaphore, {space}<semaphore_mem>>"
    sizes = "{operandSegmentSizes = array<i32: 1, 0, 1, 1, 0, 0, 0>, wait_target = true}"

    def text(name: str, inside: bool, outside: bool) -> str:
        types = f"({hbm}, {vmem}, {semaphore}) -> ()"
        of_hbm = f"({hbm}, {hbm}, {semaphore}) -> ()"
        wait = f'"tpu.wait_dma"(%x, %v, %{name}) {sizes} : {types}' if inside else ""
        late = f'"tpu.wait_dma"(%x, %o, %{name}) {sizes} : {of_hbm}' if outside else ""
        start = f'"tpu.enqueue_dma"(%x, %v, %{name})'
        return SCOPE.format(start=start, types=types, inside=wait, outside=late, hbm=of_hbm)

    x = ramp(8, 128)
    for name in "st":
        np.testing.assert_array_equal(simulate(text(name, inside=True, outside=False), x).outputs[0], x)
        with pytest.raises(errors.MissingWaitError):
            simulate(text(name, inside=False, outside=name == "s"), x)
