"""A record keeps what happened, in order: regions, the kernel's copies and waits, and those of its windows."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from mosaic_tpu.sim import Report, errors, simulate, simulate_devices
from mosaic_tpu.sim.record import Entered, Moved, Started, Waited
from packages.sim.tests.conftest import lowered, ramp

X = ramp(32, 128)
BLOCK = 8 * 128 * 4


def copying(x_ref: Any, o_ref: Any, tiles: Any, arrived: Any) -> None:
    """Two tiles, on two semaphores; the first is waited for last."""
    first, second = (pltpu.make_async_copy(x_ref.at[pl.ds(8 * n, 8)], tiles.at[n], arrived.at[n]) for n in (0, 1))
    first.start()
    second.start()
    second.wait()
    o_ref[...] = tiles[1]

    @pl.when(o_ref[0, 0] < 0)
    def _() -> None:
        o_ref[...] = tiles[0]

    first.wait()


def recorded(**options: Any) -> Report:
    call = pl.pallas_call(
        copying,
        out_shape=jax.ShapeDtypeStruct((8, 128), jnp.float32),
        in_specs=[pl.BlockSpec(memory_space=pl.ANY)],
        scratch_shapes=[pltpu.VMEM((2, 8, 128), jnp.float32), pltpu.SemaphoreType.DMA((2,))],
    )
    return simulate(lowered(call, X), X, **options)


def test_copies_and_waits_stand_in_the_order_of_the_run() -> None:
    body, first, second, *rest = recorded(record=True).record
    assert isinstance(body, Entered)
    assert isinstance(first, Started)
    assert isinstance(second, Started)
    assert (first.semaphores, first.size, first.source, first.target) == ((0,), BLOCK, "any", "vmem")
    assert second.semaphores == (1,)
    waits = [(e.semaphore, e.amount) for e in rest if isinstance(e, Waited)]
    assert waits == [(1, BLOCK), (0, BLOCK)]
    assert isinstance(rest[-1], Moved)  # the result


@pytest.mark.parametrize("options", [{}, {"checks": False}, {"dma": "wait"}, {"seed": 7}])
def test_schedules_and_checks_do_not_change_it(options: dict[str, Any]) -> None:
    assert recorded(record=True, **options).record == recorded(record=True).record
    assert recorded(**options).record == ()


def gridded(mode: Any = None) -> Report:
    def kernel(x_ref: Any, o_ref: Any) -> None:
        @pl.when(jax.lax.rem(pl.program_id(0), 2) == 0)
        def _() -> None:
            o_ref[...] = jnp.zeros_like(o_ref)

        o_ref[...] += x_ref[...]

    call = pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((16, 128), jnp.float32),
        grid=(4,),
        in_specs=[pl.BlockSpec((8, 128), lambda i: (i, 0), pipeline_mode=mode)],
        out_specs=pl.BlockSpec((8, 128), lambda i: (jax.lax.div(i, 2), 0)),
    )
    return simulate(lowered(call, X), X, record=True)


def shown(report: Report) -> str:
    """A letter for each entry: s a step, i a branch that was taken, f and a blocks fetched, w one written."""
    (body,) = {(e.op, e.region) for e in report.record[:3] if isinstance(e, Entered)}
    letters = {
        Entered: lambda e: "s" if (e.op, e.region) == body else "i",
        Moved: lambda e: "w" if not e.fetched else "a" if e.ahead else "f",
    }
    return "".join(letters[type(e)](e) for e in report.record)


def test_blocks_of_windows_are_fetched_a_step_ahead_and_written_when_they_change() -> None:
    assert shown(gridded()) == "fasi" + "as" + "w" + "asi" + "s" + "w"
    assert {e.size for e in gridded().record if isinstance(e, Moved)} == {BLOCK}


def test_with_one_buffer_they_are_fetched_when_they_are_needed() -> None:
    assert shown(gridded(pl.Buffered(1))) == "fsi" + "fs" + "w" + "fsi" + "fs" + "w"


def test_regions_are_counted_as_often_as_they_are_entered() -> None:
    report = gridded()
    for region, count in report.region_counts.items():
        assert report.record.count(Entered(*region)) == count


@pytest.mark.parametrize("options", [{"engine": "xla"}, {"cores": 2}, {"record": 1}, {"record": "yes"}])
def test_a_record_is_kept_by_the_reference_engine_of_one_core(options: dict[str, Any]) -> None:
    with pytest.raises(errors.InputError, match="record"):
        recorded(**{"record": True} | options)


def test_several_devices_have_none() -> None:
    with pytest.raises(TypeError, match="record"):
        simulate_devices("", [[np.zeros(1)]], record=True)  # type: ignore[call-arg]
