"""A static index of a view that was made outside of a branch is an operand of the branch, where an idiom made that."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from mosaic_tpu.builder import Args, Builder, RefView


def _body(b: Builder) -> list[str]:
    """The ops of the kernel's own block so far, and the number in each constant."""
    found: list[str] = []
    for op in b.current_block.operations:
        number = f" {op.attributes['value'].value}" if op.name == "arith.constant" else ""
        found.append(op.name + number)
    return found


def _when(b: Builder, a: Args, view: RefView) -> None:
    with b.pallas.when(a.i < 2):
        b.pallas.async_copy(view, a.scratch.at[0], a.sems.at[1]).start()


def _cond(b: Builder, a: Args, view: RefView) -> None:
    def copy() -> None:
        b.pallas.async_copy(view, a.scratch.at[0], a.sems.at[1]).start()

    b.pallas.cond(a.i < 2, copy, copy)


def _switch(b: Builder, a: Args, view: RefView) -> None:
    def copy() -> None:
        b.pallas.async_copy(view, a.scratch.at[0], a.sems.at[1]).start()

    b.pallas.switch(a.i, [copy, copy, copy])


@pytest.mark.parametrize("branch", [_when, _cond, _switch])
def test_the_constant_is_made_before_the_branch_once(b: Builder, a: Args, branch: Callable[..., None]) -> None:
    branch(b, a, a.hbm.at[5])
    assert _body(b).count("arith.constant 5") == 1
    b.finish()


def test_each_branch_has_operands_of_its_own(b: Builder, a: Args) -> None:
    view = a.hbm.at[5]
    for _ in range(3):
        _when(b, a, view)
    assert _body(b).count("arith.constant 5") == 3
    b.finish()


def test_a_raw_branch_takes_over_nothing(b: Builder, a: Args) -> None:
    view = a.hbm.at[5]
    with b.if_(b.cmpi("ne", a.i, b.lift(0))):
        b.pallas.async_copy(view, a.scratch.at[0], a.sems.at[1]).start()
    assert "arith.constant 5" not in _body(b)
    b.finish()


def test_a_view_of_the_branch_itself_is_no_operand(b: Builder, a: Args) -> None:
    with b.pallas.when(a.i < 2):
        b.pallas.async_copy(a.hbm.at[5], a.scratch.at[0], a.sems.at[1]).start()
    assert "arith.constant 5" not in _body(b)
    b.finish()


def _lines(run: Callable[[], object]) -> int:
    """How many lines of Python run."""
    count = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    outer = sys.gettrace()
    sys.settrace(trace)
    try:
        run()
    finally:
        sys.settrace(outer)
    return count


def test_the_five_hundredth_branch_of_a_view_costs_what_the_tenth_does(b: Builder, a: Args) -> None:
    view = a.hbm.at[5]
    costs = [_lines(lambda: _when(b, a, view)) for _ in range(10)]
    for _ in range(490):
        _when(b, a, view)
    assert _lines(lambda: _when(b, a, view)) < costs[-1] + 100  # a line or more for each branch were 490
