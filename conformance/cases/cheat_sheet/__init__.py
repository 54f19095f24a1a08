"""Every row of the seed guide's cheat-sheet and every idiom of ``b.pallas``, as pairs of micro-kernels."""

from __future__ import annotations

from conformance.cases.cheat_sheet import control, elementwise, guide, refs, shapes, windows
from conformance.cases.cheat_sheet.pairs import Pair

PAIRS: tuple[Pair, ...] = tuple(
    pair for module in (guide, elementwise, shapes, refs, control, windows) for pair in module.PAIRS
)
