"""Lift's time, in one run: medians of CPU time, in turns, of ragged paged attention and of kernels of growing length.

`lift` writes the source, runs it and compares the bytes; `ms` is with the templates of idioms known, as from the second
kernel of a process on, and `first ms` without. `build` runs the source, with the lines of ops as their locations.
`per op` is the time of an op as a ratio to that of the shortest kernel.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

from conformance.bench.turns import in_turns
from mosaic_tpu import zoo
from mosaic_tpu.builder import Builder, Ref, Role, f32
from mosaic_tpu.lift import build, lift
from mosaic_tpu.lift._lift import Style
from mosaic_tpu.lift.idioms._match import forget
from mosaic_tpu.sim import ir

STYLES: Final[tuple[Style, ...]] = ("ops", "idioms")
#: What must hold: row, figure, bound.
GOALS: Final = {
    ("ragged_paged_attention, ops", "first ms"): (2000.0, "at most"),
    ("ragged_paged_attention, idioms", "first ms"): (1500.0, "at most"),
    ("16 times as long, ops", "per op"): (1.5, "at most"),
    ("16 times as long, idioms", "per op"): (1.5, "at most"),
    ("16 times as long, build", "per op"): (1.5, "at most"),
}
PRESET: Final = "llama-3-8b-decode"
#: Statements of the chains, each with two loads, a product, a sum and a store.
LENGTHS: Final = {"a chain": 50, "4 times as long": 200, "16 times as long": 800}


def chain(length: int) -> bytes:
    """A kernel of so many statements, each of which adds to what the eighth before it stored."""
    b = Builder("chain")
    a = b.declare_args({"x": Ref((8, 128), f32), "o": Ref((8, 128), f32, role=Role.OUTPUT)})
    for number in range(length):
        a.o[number % 8] = a.x[number % 8] + a.o[number % 8] * 2.0
    return b.finish().serialize(ir_version=15).body


def _seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def bench_lift(repeats: int, show: Callable[[str], None]) -> list[dict[str, Any]]:
    """One row a kernel and style, or what is built of it."""
    kernel = zoo.KERNELS["ragged_paged_attention"]
    bodies = {"ragged_paged_attention": kernel.kernel.lower(kernel.presets[PRESET]).body}
    bodies |= {name: chain(length) for name, length in LENGTHS.items()}
    first: dict[str, float] = {}
    work: dict[str, Callable[[], object]] = {}
    for name, body in bodies.items():
        for style in STYLES:
            forget()
            first[f"{name}, {style}"] = _seconds(lambda body=body, style=style: lift(body, style=style))
            work[f"{name}, {style}"] = lambda body=body, style=style: lift(body, style=style)
        source = lift(body)
        work[f"{name}, build"] = lambda source=source: build(source)
        first[f"{name}, build"] = _seconds(work[f"{name}, build"])
    timed = in_turns(work, repeats, lambda said: show(f"lift: {said}"))
    ops = {name: sum(1 for _ in ir.read(body).kernel.operation.walk()) for name, body in bodies.items()}
    rows: list[dict[str, Any]] = []
    for row in work:
        name, _, style = row.rpartition(", ")
        per_op = timed.ms[row] / ops[name]
        shortest = timed.ms[f"a chain, {style}"] / ops["a chain"]
        rows.append(
            {
                "kernel": row,
                "ops": ops[name],
                "first ms": round(first[row] * 1e3, 1),
                "ms": round(timed.ms[row], 1),
                "per op": round(per_op / shortest, 2),
            }
        )
    return rows
