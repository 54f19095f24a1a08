"""A record keeps what happened, in order: regions, the kernel's copies and waits, and those of its windows."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from mosaic_tpu.sim import Report, errors, ir, simulate
from mosaic_tpu.sim.record import Entered, Moved, Started, Waited, recorded
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


def made(kernel: Any, **specs: Any) -> ir.Module:
    return ir.read(lowered(pl.pallas_call(kernel, **specs), X))


def copied() -> Report:
    module = made(
        copying,
        out_shape=jax.ShapeDtypeStruct((8, 128), jnp.float32),
        in_specs=[pl.BlockSpec(memory_space=pl.ANY)],
        scratch_shapes=[pltpu.VMEM((2, 8, 128), jnp.float32), pltpu.SemaphoreType.DMA((2,))],
    )
    return recorded(module, X)


def test_copies_and_waits_stand_in_the_order_of_the_run() -> None:
    body, first, second, *rest = copied().record
    assert isinstance(body, Entered)
    assert isinstance(first, Started)
    assert isinstance(second, Started)
    assert (first.semaphores, first.size, first.source, first.target) == ((0,), BLOCK, "any", "vmem")
    assert second.semaphores == (1,)
    waits = [(e.semaphore, e.amount) for e in rest if isinstance(e, Waited)]
    assert waits == [(1, BLOCK), (0, BLOCK)]
    assert isinstance(rest[-1], Moved)  # the result


def test_only_who_asks_has_one() -> None:
    report = simulate(made(lambda x_ref, o_ref: o_ref.__setitem__(..., x_ref[...]), out_shape=X), X)
    assert (report.dmas, report.record) == (2, ())


def gridded(mode: Any = None) -> Report:
    def kernel(x_ref: Any, o_ref: Any) -> None:
        @pl.when(jax.lax.rem(pl.program_id(0), 2) == 0)
        def _() -> None:
            o_ref[...] = jnp.zeros_like(o_ref)

        o_ref[...] += x_ref[...]

    module = made(
        kernel,
        out_shape=jax.ShapeDtypeStruct((16, 128), jnp.float32),
        grid=(4,),
        in_specs=[pl.BlockSpec((8, 128), lambda i: (i, 0), pipeline_mode=mode)],
        out_specs=pl.BlockSpec((8, 128), lambda i: (jax.lax.div(i, 2), 0)),
    )
    return recorded(module, X)


def shown(report: Report) -> str:
    """A letter for each entry: s a step, i a branch that was taken, f and a blocks fetched, w one written."""
    body = next(e for e in report.record if isinstance(e, Entered))
    letters = {
        Entered: lambda e: "s" if e == body else "i",
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


def test_a_run_that_takes_too_long_is_given_up() -> None:
    def endless(x_ref: Any, o_ref: Any) -> None:
        o_ref[...] = jax.lax.fori_loop(0, 1 << 30, lambda _, value: value + 1.0, x_ref[...])

    with pytest.raises(errors.LimitError):
        recorded(made(endless, out_shape=X), X, timeout=0.2)
