"""Programs spoiled on purpose, one hazard each, which the reference engine must report."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from conformance.fuzz.draw_views import whole
from conformance.fuzz.program import (
    Block,
    Buffer,
    Copy,
    Let,
    Load,
    Program,
    Scalar,
    Scope,
    Slice,
    Start,
    Statement,
    Store,
    View,
    results_of,
)
from mosaic_tpu.sim import HazardError
from mosaic_tpu.sim.errors import (
    OutOfBoundsError,
    ReadBeforeWaitError,
    WriteToDestinationError,
    WriteToSourceError,
)

#: A statement's replacement, from the program, the statement and the number of values before it.
Change = Callable[[Program, Statement, int], Statement | None]


@dataclass(frozen=True)
class Fault:
    """A way to spoil a program, and what must be reported."""

    change: Change
    error: type[HazardError]


def spoiled(program: Program, fault: Fault) -> Iterator[Program]:
    """The program with the fault in one place, for each place in the steps that always run."""
    known = 0
    body = program.body.body
    for n, statement in enumerate(body):
        changed = fault.change(program, statement, known)
        if changed is not None:
            yield replace(program, body=replace(program.body, body=(*body[:n], changed, *body[n + 1 :])))
        known += results_of(statement)


# --- copies ----------------------------------------------------------------------------------------------------------


def _changed(**fields: int | bool) -> Change:
    """The copy with other fields."""

    def change(program: Program, statement: Statement, known: int) -> Statement | None:
        return replace(statement, **fields) if isinstance(statement, Copy) else None  # pyright: ignore[reportArgumentType]

    return change


def _reads_early(program: Program, statement: Statement, known: int) -> Statement | None:
    if not isinstance(statement, Copy) or program.types[statement.target.buffer].space != "vmem":
        return None
    # What is read is stored: nobody misses a load whose result is not used.
    type_ = statement.target.type
    seen = Buffer("seen", type_, "vmem", "scoped")
    read = Block((Load(statement.target), Store(whole(seen), known)))
    return replace(statement, meanwhile=Block((Scope((seen,), read),)))


def _writes_early(which: str) -> Change:
    """The copy's target or source is written while it is in flight."""

    def change(program: Program, statement: Statement, known: int) -> Statement | None:
        if not isinstance(statement, Copy):
            return None
        view: View = getattr(statement, which)
        buffer = program.types[view.buffer]
        if buffer.space != "vmem" or buffer.role == "input":
            return None
        zero = Let("full", (), (view.type.shape, view.type.dtype, 0), view.type)
        return replace(statement, meanwhile=Block((zero, Store(view, known))))

    return change


# --- bounds ----------------------------------------------------------------------------------------------------------


def _out_of_bounds(program: Program, statement: Statement, known: int) -> Statement | None:
    """The first dimension starts one to three past the last place, known at run time only."""
    match statement:
        case Store(view):
            moved = _moved(program, view)
            return None if moved is None else replace(statement, view=moved)
        case Copy():
            moved = _moved(program, statement.target)
            return None if moved is None else replace(statement, target=moved)
        case _:
            return None


def _moved(program: Program, view: View) -> View | None:
    beyond = next((n for n, s in enumerate(program.scalars) if s), None)
    last = view.transforms[-1]
    if beyond is None or not isinstance(last, Slice):
        return None
    size = (view.transforms[-2].shape if len(view.transforms) > 1 else program.types[view.buffer].type.shape)[0]
    first = last.dims[0]
    room = size - 1 - (first.size - 1) * first.stride
    dims = (replace(first, start=Start(room, 1, Scalar("s", beyond))), *last.dims[1:])
    return replace(view, transforms=(*view.transforms[:-1], Slice(dims)))


FAULTS: Final = {
    "no wait": Fault(_changed(waits=0), HazardError),
    "no start": Fault(_changed(starts=False), HazardError),
    "a wait too many": Fault(_changed(waits=2), HazardError),
    "read before the wait": Fault(_reads_early, ReadBeforeWaitError),
    "write to the target": Fault(_writes_early("target"), WriteToDestinationError),
    "write to the source": Fault(_writes_early("source"), WriteToSourceError),
    "out of bounds": Fault(_out_of_bounds, OutOfBoundsError),
}
