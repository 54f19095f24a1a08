"""Lint's time for one generation, as a ratio to that of reading the module, in one run: medians of CPU time, in turns.

Both start from the program's text. `checks ms` is what lint takes besides reading.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from conformance.bench.turns import in_turns
from mosaic_tpu import aot, zoo
from mosaic_tpu.sim import ir
from mosaic_tpu.sim._read import forget

TARGET: Final = "v6e"
#: What must hold: row, figure, bound.
GOALS: Final = {("ragged_paged_attention", "lint / reading"): (3.0, "at most")}
PRESETS: Final = {"ragged_paged_attention": "llama-3-8b-decode"}


def bench_lint(repeats: int, show: Callable[[str], None]) -> list[dict[str, Any]]:
    """One row a kernel."""
    rows: list[dict[str, Any]] = []
    for name, preset in PRESETS.items():
        info = zoo.KERNELS[name]
        text = info.kernel.lower(info.presets[preset]).stablehlo

        def read(text: str = text) -> ir.Module:
            forget()
            return ir.read(text)

        def lint(text: str = text) -> None:
            forget()
            aot.lint(text, target=TARGET)

        timed = in_turns({"read": read, "lint": lint}, repeats, lambda said, n=name: show(f"lint of {n}: {said}"))
        rows.append(
            {
                "kernel": name,
                "config": preset,
                "target": TARGET,
                "ops": sum(1 for f in read().functions.values() for _ in f.operation.walk()),
                "reading ms": round(timed.ms["read"], 1),
                "checks ms": round(timed.ms["lint"] - timed.ms["read"], 1),
                "lint / reading": round(timed.ratio("lint", "read"), 2),
            }
        )
    return rows
