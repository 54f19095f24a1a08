"""Logs, traces, checks, switches and promises about refs: what they take, and what they refuse."""

from __future__ import annotations

from typing import Any

import pytest

from mosaic_tpu.builder import Args, Builder, bf16, f32, i32
from mosaic_tpu.builder import errors as e

from .conftest import Raises


def test_reports_are_written(b: Builder, a: Args) -> None:
    b.tpu_log('with "quotes" and ünïcode')
    b.tpu_log("$s0 $f1", a.i, b.lift(1.0), formatted=True)
    b.tpu_log("as they are", a.i > 0, b.lift_as(1, bf16))
    b.log_buffer(a.x, "x", (4, 128))
    b.trace_value("i", a.i)
    b.trace_value("one", b.lift(1.0))
    b.assert_(a.i >= 0, "negative")
    b.plain_vector_store(a.y, b.zeros((1, 128), f32), [b.to_index(a.i), 0])
    b.finish().serialize()


def test_promises_are_kept(b: Builder, a: Args) -> None:
    assert b.annotate(a.x, no_hazard=True, no_bank_conflict=True)._info is a.x._info
    text = b.finish().text(canonical=False)
    assert "no_hazard = true" in text and "no_bank_conflict = true" in text


def test_a_switch_has_a_branch_a_case(b: Builder, a: Args) -> None:
    with b.index_switch(b.to_index(a.i), [1, -3]) as switch:
        for case in (switch.case(1), switch.case(-3), switch.default):
            with case:
                b.tpu_log("here")
    assert switch.results == ()
    b.finish().serialize()


def test_a_switch_needs_every_branch(b: Builder, a: Args, raises: Raises) -> None:
    switch = b.index_switch(b.to_index(a.i), [1])
    with switch.case(1):
        pass
    with raises(e.YieldMissingError, "scf.index_switch", "'default'"):
        switch.__exit__(None, None, None)
    with raises(e.ArityError, "no case 2", hint="1"):
        switch.case(2)
    with raises(e.RegionOrderError, "before the regions"):
        _ = switch.results


def test_a_branch_yields_what_the_switch_returns(b: Builder, a: Args, raises: Raises) -> None:
    switch = b.index_switch(b.to_index(a.i), [], [b.scalar_ty(i32)])
    with switch.default as case:
        with raises(e.YieldTypeError, "f32"):
            case.yield_(b.lift(1.0))
        case.yield_(a.i)
    assert switch.results[0].dtype is i32
    b.finish()


def test_a_loop_is_unrolled_late(b: Builder, a: Args, raises: Raises) -> None:
    with raises(e.AttributeValueError, "scf.for", "late_unroll -1"):
        b.for_(0, 4, late_unroll=-1)
    with b.for_(0, 4, late_unroll=2):
        b.tpu_log("here")
    assert "tpu.late_unroll = 2 : i32" in b.finish().text(canonical=False)


@pytest.mark.parametrize(
    ("error", "words", "call"),
    [
        (e.AttributeValueError, "message", lambda b, a: b.tpu_log(3)),
        (e.AttributeValueError, "message", lambda b, a: b.tpu_log("\ud800")),
        (e.KindError, "tpu.log", lambda b, a: b.tpu_log("x", a.x)),
        (e.KindError, "not a value", lambda b, a: b.tpu_log("x", 1)),
        (e.DTypeError, "formats", lambda b, a: b.tpu_log("$s0", b.lift_as(1, bf16), formatted=True)),
        (e.DTypeError, "formats", lambda b, a: b.tpu_log("$f0", b.zeros((8, 128), f32), formatted=True)),
        (e.AttributeValueError, "formatted", lambda b, a: b.tpu_log("x", formatted=1)),
        (e.KindError, "ref", lambda b, a: b.log_buffer(b.zeros((8, 128), f32), "x")),
        (e.ShapeError, "(8,)", lambda b, a: b.log_buffer(a.x, "x", (8,))),
        (e.DTypeError, "traces", lambda b, a: b.trace_value("x", b.lift_as(1, bf16))),
        (e.DTypeError, "traces", lambda b, a: b.trace_value("x", b.zeros((8, 128), f32))),
        (e.AttributeValueError, "label", lambda b, a: b.trace_value(None, a.i)),
        (e.DTypeError, "i1", lambda b, a: b.assert_(a.i, "x")),
        (e.DTypeError, "i1", lambda b, a: b.assert_(b.zeros((8, 128), f32).lt(1), "x")),
        (e.AttributeValueError, "message", lambda b, a: b.assert_(a.i > 0, b"x")),
        (e.AttributeValueError, "contradict", lambda b, a: b.annotate(a.x, no_store=True, no_hazard=True)),
        (e.AttributeValueError, "no_store", lambda b, a: b.annotate(a.x, no_store=1)),
        (e.KindError, "ref", lambda b, a: b.annotate(a.i, no_store=True)),
        (e.MemorySpaceError, "nowhere", lambda b, a: b.memref_memory_space_is(a.hbm, "nowhere")),
        (e.KindError, "ref", lambda b, a: b.memref_memory_space_is(a.i, "vmem")),
        (e.MemorySpaceError, "vector.store", lambda b, a: b.plain_vector_store(a.lens, b.zeros((4,), i32))),
        (e.DTypeError, "holds f32", lambda b, a: b.plain_vector_store(a.x, b.zeros((8, 128), i32))),
        (e.ShapeError, "larger", lambda b, a: b.plain_vector_store(a.x, b.zeros((16, 128), f32))),
        (e.DTypeError, "index", lambda b, a: b.index_switch(a.i, [0])),
        (e.ArityError, "repeat", lambda b, a: b.index_switch(b.to_index(a.i), [0, 0])),
        (e.ConcreteValueError, "static", lambda b, a: b.index_switch(b.to_index(a.i), [a.i])),
    ],
)
def test_bad_input_is_refused(
    b: Builder, a: Args, raises: Raises, error: type[e.MosaicError], words: str, call: Any
) -> None:
    with raises(error, words):
        call(b, a)
    b.finish()
