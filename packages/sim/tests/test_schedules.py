"""Schedules: what a seed fixes, what the modes of DMA timing mean, and what no schedule may change."""

from __future__ import annotations

import threading
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from mosaic_tpu.sim import Report, read, simulate
from packages.sim.tests.conftest import DMA, HBM, MODES, lowered, on_devices, ramp, run, run_devices

X = ramp(64, 128)


def rolling(x: Any, o: Any, slots: Any, arrived: Any, left: Any) -> None:
    """Eight blocks through four slots, several DMAs in flight at a time."""

    def fetch(step: Any) -> Any:
        slot = lax.rem(step, 4)
        return pltpu.make_async_copy(x.at[pl.ds(step * 8, 8)], slots.at[slot], arrived.at[slot])

    def store(step: Any) -> Any:
        slot = lax.rem(step, 4)
        return pltpu.make_async_copy(slots.at[slot], o.at[pl.ds(step * 8, 8)], left.at[slot])

    def body(step: Any, _: Any) -> None:
        fetch(step).wait()
        store(step).start()

        @pl.when(step + 4 < 8)
        def more() -> None:
            store(step).wait()
            fetch(step + 4).start()

    for step in range(4):
        fetch(step).start()
    lax.fori_loop(0, 8, body, None)
    for step in range(4, 8):
        store(step).wait()


def program() -> str:
    call = pl.pallas_call(
        rolling,
        out_shape=jax.ShapeDtypeStruct(X.shape, X.dtype),
        in_specs=[HBM],
        out_specs=HBM,
        scratch_shapes=[pltpu.VMEM((4, 8, 128), jnp.float32), DMA((4,)), DMA((4,))],
    )
    return lowered(call, X)


def swap(x: Any, o: Any, sent: Any, received: Any) -> None:
    me = lax.axis_index("x")
    barrier = pltpu.get_barrier_semaphore()
    pl.semaphore_signal(barrier, 1, device_id=1 - me)
    pl.semaphore_wait(barrier, 1)
    pltpu.async_remote_copy(x, o, sent, received, device_id=1 - me).wait()


def trace(report: Report) -> list[tuple[str, str, str, int]]:
    return [(e.kind, e.core, e.what, e.amount) for e in report.trace]


def test_a_seed_fixes_a_schedule() -> None:
    shards = list(ramp(2, 8, 128))
    text = on_devices(swap, shards, scratch=[DMA, DMA])
    runs = [run_devices(text, shards, seed=3) for _ in range(3)]
    assert trace(runs[0]) == trace(runs[1]) == trace(runs[2])
    assert len({tuple(trace(run_devices(text, shards, seed=seed))) for seed in range(10)}) > 1


@pytest.mark.parametrize("mode", MODES)
def test_no_schedule_changes_a_healthy_kernel(mode: str) -> None:
    text = program()
    for seed in range(30):
        report = simulate(text, X, dma=mode, seed=seed)
        np.testing.assert_array_equal(report.outputs[0], X)
        assert not report.hazards


@pytest.mark.parametrize("mode", MODES)
def test_without_checks_the_timing_decides_what_a_missing_wait_reads(mode: str) -> None:
    """At its start a copy is there at once, at the wait not before: that is what the modes mean."""

    def early(x: Any, o: Any, scratch: Any, kept: Any, first: Any, second: Any) -> None:
        fetch = pltpu.make_async_copy(x, scratch, first)
        fetch.start()
        kept[...] = scratch[...]
        fetch.wait()
        pltpu.async_copy(kept, o, second).wait()

    vmem = pltpu.VMEM((8, 128), jnp.float32)
    options = {"scratch": [vmem, vmem, DMA, DMA], "dma": mode, "checks": False}
    seen = [np.array_equal(run(early, X[:8], **options, seed=seed).outputs[0], X[:8]) for seed in range(20)]
    assert set(seen) == {"eager": {True}, "wait": {False}, "random": {True, False}}[mode]


def test_threads_that_run_one_module_get_the_same_results() -> None:
    module = read(program())
    alone = [trace(simulate(module, X, seed=seed)) for seed in range(6)]
    fresh = read(program() + "\n")
    found: dict[tuple[int, int], Any] = {}

    def work(thread: int) -> None:
        for seed in range(6):
            report = simulate(fresh, X + thread, seed=seed)
            found[thread, seed] = trace(report), np.array_equal(report.outputs[0], X + thread)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {(thread, seed): (alone[seed], True) for thread in range(4) for seed in range(6)}


@pytest.mark.parametrize("mode", MODES)
def test_a_kernel_may_ask_for_a_semaphore_until_it_is_reached(mode: str) -> None:
    def polling(x: Any, o: Any, semaphore: Any) -> None:
        copy = pltpu.make_async_copy(x, o, semaphore)
        copy.start()
        lax.while_loop(lambda seen: seen < X.nbytes, lambda _: pl.semaphore_read(semaphore), jnp.int32(0))
        copy.wait()

    for seed in range(10):
        report = run(polling, X, scratch=[DMA], dma=mode, seed=seed, max_steps=10_000)
        np.testing.assert_array_equal(report.outputs[0], X)


def test_inputs_are_not_written_and_outputs_are_the_callers() -> None:
    given = X.copy()
    first = simulate(program(), given)
    first.outputs[0][...] = 0
    np.testing.assert_array_equal(given, X)
    np.testing.assert_array_equal(simulate(program(), given).outputs[0], X)
