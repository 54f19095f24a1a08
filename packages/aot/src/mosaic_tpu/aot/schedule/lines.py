"""The lines of the kernel's source that its bundles come from, as the compiler remarks them.

    %784 = vmatmul.mubr.bf16.gmra.mxu0 %v35 /* loc("kernel.py":10:18 to :75) */

With ``--xla_mosaic_enable_llo_source_annotations`` it does; the bundles are the same, and so is what else it dumps, but
for these remarks. What it adds itself has none: the pipeline, spills, copies of registers.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mosaic_tpu.aot.schedule.bundles import Bundle, Instruction

_PLACE: Final = re.compile(r'\bloc\("([^"]+)":(\d+):')


def count_lines(bundles: Iterable[Bundle]) -> dict[int, dict[str, int]]:
    """Instructions of each bundle by address, then by line; bundles of which none is known are left out."""
    counts: dict[int, dict[str, int]] = {}
    for bundle in bundles:
        for instruction in bundle.instructions:
            if place := _place(instruction):
                here = counts.setdefault(bundle.address, {})
                here[place] = here.get(place, 0) + 1
    return counts


def _place(instruction: Instruction) -> str | None:
    """``"kernel.py:12"``; of several lines that an instruction serves, the first."""
    found = next((found for comment in instruction.comments if (found := _PLACE.search(comment))), None)
    return f"{found[1]}:{found[2]}" if found else None
