"""Devices and cores that use the same memory: what orders them, and what does not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from mosaic_tpu.sim import errors, simulate, simulate_devices
from packages.sim.tests.conftest import DMA, MODES, REGULAR, TILE, on_devices, ramp, run_devices

SEEDS = range(10)
SCHEDULES = [(mode, seed) for mode in MODES for seed in SEEDS]
VMEM = pltpu.VMEM(TILE, jnp.float32)


def shards(count: int) -> list[Any]:
    return list(ramp(count, *TILE))


def meet(*devices: Any) -> None:
    barrier = pltpu.get_barrier_semaphore()
    for device in devices:
        pl.semaphore_signal(barrier, 1, device_id=device)
    pl.semaphore_wait(barrier, len(devices))


def found(kernel: Callable[..., None], count: int, scratch: list[Any]) -> set[type | None]:
    """What the schedules end in."""
    program = on_devices(kernel, shards(count), scratch=scratch)
    kinds: set[type | None] = set()
    for mode, seed in SCHEDULES:
        try:
            run_devices(program, shards(count), dma=mode, seed=seed)
            kinds.add(None)
        except errors.HazardError as error:
            kinds.add(type(error))
    return kinds


def exchange(*, barrier: bool = True, receive: bool = True, send: bool = True) -> Callable[..., None]:
    """Two devices swap their shards."""

    def kernel(x: Any, o: Any, sent: Any, received: Any) -> None:
        me = lax.axis_index("x")
        meet(*([1 - me] if barrier else [me]))
        swap = pltpu.make_async_remote_copy(x, o, sent, received, device_id=1 - me)
        swap.start()
        if send:
            swap.wait_send()
        if receive:
            swap.wait_recv()

    return kernel


def test_two_devices_that_meet_may_swap() -> None:
    program = on_devices(exchange(), shards(2), scratch=[DMA, DMA])
    for mode, seed in SCHEDULES:
        report = run_devices(program, shards(2), dma=mode, seed=seed)
        assert not report.hazards
        np.testing.assert_array_equal([o[0] for o in report.outputs_of], shards(2)[::-1])


def test_they_may_not_without_a_meeting_or_a_wait() -> None:
    assert found(exchange(barrier=False), 2, [DMA, DMA]) == {errors.MissingEntryBarrierError}
    assert found(exchange(receive=False), 2, [DMA, DMA]) == {errors.MissingReceiveWaitError}
    assert found(exchange(send=False), 2, [DMA, DMA]) == {errors.MissingWaitError}


@pytest.mark.parametrize("wait", [True, False])
def test_a_remote_dma_to_oneself_is_a_dma(wait: bool) -> None:
    def kernel(x: Any, o: Any, scratch: Any, kept: Any, sent: Any, received: Any) -> None:
        me = lax.axis_index("x")
        meet(me)
        loop = pltpu.make_async_remote_copy(x, scratch, sent, received, device_id=me)
        loop.start()
        if wait:
            loop.wait()
        kept[...] = scratch[...]
        if not wait:
            loop.wait()
        pltpu.async_copy(kept, o, sent).wait()

    scratch = [VMEM, VMEM, DMA, DMA]
    assert found(kernel, 2, scratch) == ({None} if wait else {errors.ReadBeforeWaitError})


@pytest.mark.parametrize("both", [True, False])
def test_of_two_senders_to_one_semaphore_one_wait_proves_neither(both: bool) -> None:
    """Devices 1 and 2 send to device 0, which reads what 1 sent after one wait, or after both."""

    def kernel(x: Any, o: Any, slots: Any, copied: Any, sent: Any, received: Any) -> None:
        me = lax.axis_index("x")
        meet(*(lax.rem(me + n, 3) for n in range(3)))
        send = pltpu.make_async_remote_copy(x, slots.at[lax.max(me - 1, 0)], sent, received, device_id=0)

        @pl.when(me > 0)
        def give() -> None:
            send.start()
            send.wait_send()
            pltpu.async_copy(x, o, copied).wait()

        @pl.when(me == 0)
        def take() -> None:
            send.wait_recv()
            if both:
                send.wait_recv()
            pltpu.async_copy(slots.at[0], o, copied).wait()
            if not both:
                send.wait_recv()

    kinds = found(kernel, 3, [pltpu.VMEM((2, *TILE), jnp.float32), DMA, DMA, DMA])
    if both:
        assert kinds == {None}
    else:
        assert errors.MissingReceiveWaitError in kinds


@pytest.mark.parametrize("told", [True, False])
def test_a_slot_that_a_local_dma_still_reads_is_not_free(told: bool) -> None:
    """Device 1 copies a slot away; the wait for that copy, not its start, frees the slot."""

    def kernel(x: Any, o: Any, slot: Any, copied: Any, sent: Any, received: Any, free: Any) -> None:
        me = lax.axis_index("x")
        meet(1 - me)
        send = pltpu.make_async_remote_copy(x, slot, sent, received, device_id=1)
        away = pltpu.make_async_copy(slot, o, copied)

        @pl.when(me == 0)
        def give() -> None:
            send.start()
            send.wait_send()
            pl.semaphore_wait(free, 1)
            send.start()
            send.wait_send()
            pltpu.async_copy(x, o, copied).wait()

        @pl.when(me == 1)
        def take() -> None:
            send.wait_recv()
            away.start()
            if told:
                away.wait()
            pl.semaphore_signal(free, 1, device_id=0)
            if not told:
                away.wait()
            send.wait_recv()

    kinds = found(kernel, 2, [VMEM, DMA, DMA, DMA, REGULAR])
    assert kinds == ({None} if told else {errors.SlotReuseRaceError})


def test_a_send_wait_does_not_prove_the_arrival() -> None:
    """The sender tells the receiver that it has sent; that the bytes are there only the receive semaphore says."""

    def kernel(x: Any, o: Any, slot: Any, copied: Any, sent: Any, received: Any, told: Any) -> None:
        me = lax.axis_index("x")
        meet(1 - me)
        send = pltpu.make_async_remote_copy(x, slot, sent, received, device_id=1 - me)
        send.start()
        send.wait_send()
        pl.semaphore_signal(told, 1, device_id=1 - me)
        pl.semaphore_wait(told, 1)
        pltpu.async_copy(slot, o, copied).wait()
        send.wait_recv()

    assert found(kernel, 2, [VMEM, DMA, DMA, DMA, REGULAR]) == {errors.MissingReceiveWaitError}


def test_devices_are_named_and_the_seed_is_kept() -> None:
    with pytest.raises(errors.MissingEntryBarrierError) as caught:
        run_devices(on_devices(exchange(barrier=False), shards(2), scratch=[DMA, DMA]), shards(2), seed=7)
    assert caught.value.device in ("device 0", "device 1")
    assert caught.value.seed == 7
    assert "test_races.py:" in str(caught.value.location)


def test_a_device_that_is_not_there() -> None:
    def kernel(x: Any, o: Any, sent: Any, received: Any) -> None:
        meet(lax.axis_index("x"))
        pltpu.async_remote_copy(x, o, sent, received, device_id=5).wait()

    with pytest.raises(errors.OutOfBoundsError, match="device 5 of 2"):
        run_devices(on_devices(kernel, shards(2), scratch=[DMA, DMA]), shards(2))


# --- several cores of one device -----------------------------------------------------------------------------------

CORES = """
module {{
func.func @cores(%i: i32, %x: memref<16x128xf32, #tpu.memory_space<vmem>>,
                 %o: memref<16x128xf32, #tpu.memory_space<vmem>>) attributes {{
    dimension_semantics = [#tpu.dimension_semantics<core_parallel>], iteration_bounds = array<i64: 4>,
    scalar_prefetch = 0 : i64, scratch_operands = 0 : i64,
    window_params = [
      {{transform_indices = @t0, window_bounds = array<i64: 16, 128>}},
      {{transform_indices = @{out}, window_bounds = array<i64: 16, 128>}}]}} {{
  %c = arith.constant 0 : index
  %v = vector.load %x[%c, %c] : memref<16x128xf32, #tpu.memory_space<vmem>>, vector<16x128xf32>
  vector.store %v, %o[%c, %c] : memref<16x128xf32, #tpu.memory_space<vmem>>, vector<16x128xf32>
  return
}}
func.func @t0(%i: i32) -> (i32, i32) {{
  %c = arith.constant 0 : i32
  return %i, %c : i32, i32
}}
func.func @t1(%i: i32) -> (i32, i32) {{
  %c = arith.constant 0 : i32
  %two = arith.constant 2 : i32
  %m = arith.remsi %i, %two : i32
  return %m, %c : i32, i32
}}
}}"""


@pytest.mark.parametrize("cores", [1, 2, 3, 5])
def test_cores_share_a_core_parallel_dimension(cores: int) -> None:
    x = ramp(64, 128)
    for mode, seed in SCHEDULES:
        options = {"outputs": [((64, 128), np.float32)], "cores": cores, "dma": mode, "seed": seed}
        report = simulate(CORES.format(out="t0"), x, **options)
        np.testing.assert_array_equal(report.outputs[0], x)
        assert report.steps == 4


def test_two_cores_do_not_write_the_same_block() -> None:
    x = ramp(64, 128)
    text = CORES.format(out="t1")
    options = {"outputs": [((32, 128), np.float32)]}
    for mode, seed in SCHEDULES:
        with pytest.raises(errors.RaceError) as caught:
            simulate(text, x, cores=2, dma=mode, seed=seed, **options)
        assert "core" in str(caught.value.device)
    assert not simulate(text, x, **options).hazards


def test_devices_with_cores_are_told_apart() -> None:
    x = ramp(64, 128)
    report = simulate_devices(CORES.format(out="t0"), [[x], [x + 1]], outputs=[((64, 128), np.float32)], cores=2)
    np.testing.assert_array_equal(report.outputs_of[1][0], x + 1)
