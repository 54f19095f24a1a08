"""Many programs: what they cover, and the first that fails, shrunk."""

from __future__ import annotations

import traceback
from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from hypothesis import HealthCheck, Phase, given, seed, settings

from conformance.fuzz.engines import Engine, check
from conformance.fuzz.ops import OPS
from conformance.fuzz.program import (
    Bitcast,
    Copy,
    For,
    If,
    Let,
    Load,
    Program,
    Reshape,
    Scalar,
    Slice,
    Store,
    View,
    walk,
)
from conformance.fuzz.source import source
from conformance.fuzz.strategies import programs

#: One program in so many is compiled whole by the fast engine; the others run op by op.
COMPILED_EVERY: Final = 8
#: What a large enough campaign covers, besides every operation of `OPS`.
FEATURES: Final = (
    "Load", "Store", "Read", "Copy", "For", "While", "If", "Scope", "EdgeLoad", "a view of a view", "a squeeze",
    "a reshaped ref", "a bitcast ref", "a wider bitcast ref", "a narrower bitcast ref", "a dynamic start",
    "a strided load", "a strided store", "a masked store", "a loop with a dynamic end", "an unrolled loop",
    "a loop's carry", "a branch with results", "a copy of a part", "work during a copy", "a semaphore of an array",
    "far memory", "an alias", "a grid", "a grid of two dimensions", "an edge block", "a revisited output",
    "a prefetched index map", "scratch over the steps of a grid",
)  # fmt: skip


@dataclass
class Coverage:
    """What programs had in them, and how much of their outputs the oracle knew."""

    programs: int = 0
    elements: int = 0
    known: int = 0
    counts: Counter[str] = field(default_factory=Counter[str])

    def add(self, program: Program) -> None:
        """Count a program once for each thing in it."""
        self.programs += 1
        self.counts.update(set(features(program)))

    def merge(self, other: Coverage) -> None:
        """Add what other programs had."""
        self.programs += other.programs
        self.elements += other.elements
        self.known += other.known
        self.counts.update(other.counts)

    def missing(self) -> list[str]:
        """What no program had."""
        return [name for name in (*OPS, *FEATURES) if not self.counts[name]]

    def __str__(self) -> str:
        rows = [f"{self.programs} programs; the oracle knows {self.known / max(1, self.elements):.2%} of all outputs"]
        for title, names in (("operations", tuple(OPS)), ("features", FEATURES)):
            found = sorted(names, key=lambda n: -self.counts[n])
            rows.append(f"{title}: {', '.join(f'{n} {self.counts[n]}' for n in found)}")
        return "\n".join(rows)


def features(program: Program) -> list[str]:
    """The operations and `FEATURES` of a program."""
    found = ["a grid"] * bool(program.grid) + ["a grid of two dimensions"] * (len(program.grid) == 2)
    for b in program.buffers:
        found += ["far memory"] * (b.space == "any") + ["an alias"] * (b.alias is not None)
        found += ["a prefetched index map"] * (b.map == "t[i], 0")
        found += ["an edge block"] * b.has_edge
        found += ["a revisited output"] * (b.role == "output" and b.map in ("0, 0", "i // 2, 0", "i, 0 of 2"))
        found += ["scratch over the steps of a grid"] * (b.role == "scratch" and bool(program.grid))
    for statement in walk(program.body):
        found.append(statement.op if isinstance(statement, Let) else type(statement).__name__)
        match statement:
            case Load(view):
                found += [*_views(program, view), *["a strided load"] * _strided(view)]
            case Store(view, _, mask):
                found += [
                    *_views(program, view),
                    *["a strided store"] * _strided(view),
                    *["a masked store"] * (mask is not None),
                ]
            case Copy():
                found += [*_views(program, statement.source), *_views(program, statement.target)]
                found += ["a copy of a part"] * any(
                    v.type.size != _size(program, v) for v in (statement.source, statement.target)
                )
                found += ["work during a copy"] * bool(statement.meanwhile.body)
                found += ["a semaphore of an array"] * (statement.semaphore is not None)
            case For():
                found += ["a loop with a dynamic end"] * isinstance(statement.upper, Scalar)
                found += ["an unrolled loop"] * (statement.unroll is True) + ["a loop's carry"] * bool(statement.carry)
            case If():
                found += ["a branch with results"] * bool(statement.types)
            case _:
                pass
    return found


def _size(program: Program, view: View) -> int:
    buffer = program.types.get(view.buffer)
    return view.type.size if buffer is None else buffer.type.size


def _strided(view: View) -> bool:
    last = view.transforms[-1]
    return isinstance(last, Slice) and any(d.stride != 1 for d in last.dims)


def _views(program: Program, view: View) -> list[str]:
    found = ["a view of a view"] * (sum(isinstance(t, Slice) for t in view.transforms) > 1)
    buffer = program.types.get(view.buffer)
    shape = () if buffer is None else buffer.type.shape
    for t in view.transforms:
        match t:
            case Slice(dims):
                found += ["a dynamic start"] * any(d.start.scalar is not None for d in dims)
                found += ["a squeeze"] * any(d.drop for d in dims)
            case Reshape():
                found.append("a reshaped ref")
            case Bitcast():
                found.append("a bitcast ref")
                if shape and t.shape != shape:
                    found.append("a wider bitcast ref" if t.shape[-2] < shape[-2] else "a narrower bitcast ref")
        shape = t.shape
    return found


def run(
    number: int,
    count: int,
    *,
    shrinks: bool = True,
    derandomize: bool = False,
) -> Coverage:
    """Draw ``count`` programs from a seed and check each.

    Args:
        number: the seed.
        count: of programs.
        shrinks: look for the simplest program that fails.
        derandomize: as hypothesis has it, in CI.

    Raises:
        Exception: what the simplest failing program raised, with its text as a note.
    """
    covered = Coverage()

    @seed(number)
    @settings(
        max_examples=count,
        derandomize=derandomize,
        database=None,
        deadline=None,
        print_blob=False,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate, Phase.shrink] if shrinks else [Phase.generate],
    )
    @given(programs())
    def campaign(program: Program) -> None:
        engines = engines_for(program)
        try:
            found = check(program, engines)
        except Exception as error:
            error.add_note(
                f"{source(program)}\nengines: {', '.join(engines)}; campaign: seed {number}, {count} programs"
            )
            raise
        covered.add(program)
        covered.elements += found.elements
        covered.known += found.known

    campaign()
    return covered


def outcome(number: int, count: int) -> Coverage | str:
    """What the programs of a seed cover, or how the simplest that fails does."""
    try:
        return run(number, count)
    except Exception:
        return traceback.format_exc()


def engines_for(program: Program) -> tuple[Engine, ...]:
    """The reference engine and the fast one, which compiles some programs whole."""
    return ("numpy", "xla compiled" if program.seed % COMPILED_EVERY == COMPILED_EVERY - 1 else "xla")
