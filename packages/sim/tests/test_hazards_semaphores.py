"""What a wait proves: several DMAs on one semaphore, arrays of semaphores, sizes that do not fit, imbalance."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from mosaic_tpu.sim import errors
from packages.sim.tests.conftest import DMA, MODES, REGULAR, TILE, ramp, run

X = ramp(16, 128)
FIRST, SECOND = pl.ds(0, 8), pl.ds(8, 8)
VMEM = pltpu.VMEM((16, 128), jnp.float32)


def two_halves(waits: int, used: pl.Slice) -> Callable[..., None]:
    """Two DMAs on one semaphore; after this many waits a half is read."""

    def kernel(x: Any, o: Any, scratch: Any, kept: Any, semaphore: Any) -> None:
        halves = [pltpu.make_async_copy(x.at[rows], scratch.at[rows], semaphore) for rows in (FIRST, SECOND)]
        for half in halves:
            half.start()
        for half in halves[:waits]:
            half.wait()
        kept[...] = scratch[used]
        for half in halves[waits:]:
            half.wait()
        pltpu.async_copy(scratch, o, semaphore).wait()

    return kernel


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("used", [FIRST, SECOND])
def test_one_wait_of_two_on_a_semaphore_does_not_say_which_dma_is_over(mode: str, used: pl.Slice) -> None:
    scratch = [VMEM, pltpu.VMEM(TILE, jnp.float32), DMA]
    with pytest.raises(errors.ReadBeforeWaitError):
        run(two_halves(1, used), X, scratch=scratch, dma=mode)
    report = run(two_halves(2, used), X, scratch=scratch, dma=mode)
    np.testing.assert_array_equal(report.outputs[0], X)


@pytest.mark.parametrize("mode", MODES)
def test_one_dma_may_be_waited_for_in_parts_and_two_at_once(mode: str) -> None:
    def kernel(x: Any, o: Any, scratch: Any, semaphore: Any) -> None:
        pltpu.make_async_copy(x, scratch, semaphore).start()
        for rows in (FIRST, SECOND):
            pltpu.make_async_copy(x.at[rows], scratch.at[rows], semaphore).wait()
        for rows in (FIRST, SECOND):
            pltpu.make_async_copy(scratch.at[rows], o.at[rows], semaphore).start()
        pltpu.make_async_copy(scratch, o, semaphore).wait()

    np.testing.assert_array_equal(run(kernel, X, scratch=[VMEM, DMA], dma=mode).outputs[0], X)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("waited", [8, 16, 24])
def test_a_wait_is_for_as_many_bytes_as_the_dma_has(mode: str, waited: int) -> None:
    x = ramp(24, 128)

    def kernel(x: Any, o: Any, semaphore: Any) -> None:
        pltpu.async_copy(x, o, semaphore).wait()
        pltpu.make_async_copy(x.at[pl.ds(0, 16)], o.at[pl.ds(0, 16)], semaphore).start()
        pltpu.make_async_copy(x.at[pl.ds(0, waited)], o.at[pl.ds(0, waited)], semaphore).wait()

    kinds = {8: errors.MissingWaitError, 24: errors.DoubleWaitError}
    if waited in kinds:
        with pytest.raises(kinds[waited]):
            run(kernel, x, scratch=[DMA], dma=mode)
    else:
        assert not run(kernel, x, scratch=[DMA], dma=mode).hazards


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("started", "waited"), [(1, 1), (1, 2), (2, 0)])
def test_semaphores_of_an_array_are_told_apart(mode: str, started: int, waited: int) -> None:
    def kernel(x: Any, o: Any, semaphores: Any) -> None:
        pltpu.make_async_copy(x, o, semaphores.at[1, started]).start()
        pltpu.make_async_copy(x, o, semaphores.at[1, waited]).wait()

    if started == waited:
        assert not run(kernel, X, scratch=[DMA((2, 3))], dma=mode).hazards
    else:
        with pytest.raises(errors.WaitWithoutDMAError) as caught:
            run(kernel, X, scratch=[DMA((2, 3))], dma=mode)
        assert caught.value.buffer == f"semaphores[1, {waited}]"


@pytest.mark.parametrize("index", [3, -1])
def test_a_semaphore_past_the_end_of_its_array_is_out_of_bounds(index: int) -> None:
    at = np.full(TILE, index, np.int32)

    def kernel(at: Any, x: Any, o: Any, smem: Any, semaphore: Any, semaphores: Any) -> None:
        pltpu.async_copy(at, smem, semaphore).wait()
        pltpu.async_copy(x, o, semaphores.at[smem[0, 0]]).wait()

    scratch = [pltpu.SMEM(TILE, jnp.int32), DMA, DMA((3,))]
    with pytest.raises(errors.OutOfBoundsError, match=f"index {index} of dimension 0"):
        run(kernel, at, X, scratch=scratch, out=X)
    assert not run(kernel, at * 0 + 2, X, scratch=scratch, out=X).hazards


@pytest.mark.parametrize("amount", [0, 1, 2])
def test_a_regular_semaphore_ends_at_zero(amount: int) -> None:
    def kernel(x: Any, o: Any, semaphore: Any, counter: Any) -> None:
        pltpu.async_copy(x, o, semaphore).wait()
        pl.semaphore_signal(counter, 1)
        if amount:
            pl.semaphore_wait(counter, amount)

    if amount == 1:
        assert not run(kernel, X, scratch=[DMA, REGULAR]).hazards
    else:
        with pytest.raises(errors.DeadlockError if amount else errors.SemaphoreImbalanceError) as caught:
            run(kernel, X, scratch=[DMA, REGULAR])
        assert caught.value.buffer == "counter"


def test_the_pattern_of_uninitialised_memory_in_an_output_is_no_fault_where_it_is_written() -> None:
    """0xA5 is an ordinary number of eight-bit types; only a second run with another pattern tells."""
    for dtype in (jnp.int8, jnp.uint8, jnp.float8_e4m3fn, jnp.float8_e5m2):
        x = np.full((32, 128), 0xA5, np.uint8).view(dtype)

        def kernel(x: Any, o: Any, semaphore: Any) -> None:
            pltpu.async_copy(x, o, semaphore).wait()

        report = run(kernel, x, scratch=[DMA])
        assert not report.unwritten
        np.testing.assert_array_equal(report.outputs[0].view(np.uint8), x.view(np.uint8))


def test_hazards_are_gathered_one_for_each_op() -> None:
    def kernel(x: Any, o: Any, scratch: Any, kept: Any, semaphore: Any) -> None:
        for rows in (FIRST, SECOND):
            fetch = pltpu.make_async_copy(x.at[rows], scratch.at[rows], semaphore)
            fetch.start()
            kept[...] = scratch[rows]
            fetch.wait()
        pltpu.make_async_copy(scratch, o, semaphore).start()

    scratch = [VMEM, pltpu.VMEM(TILE, jnp.float32), DMA]
    report = run(kernel, X, scratch=scratch, collect=True)
    kinds = [type(hazard) for hazard in report.hazards]
    assert kinds == [errors.ReadBeforeWaitError, errors.ReadBeforeWaitError, errors.MissingWaitError]
    with pytest.raises(errors.ReadBeforeWaitError):
        report.raise_for_hazards()
    assert not run(kernel, X, scratch=scratch, checks=False).hazards
