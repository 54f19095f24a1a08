"""Outputs that depend on the order of the grid's parallel steps."""

from __future__ import annotations

from mosaic_tpu.sim._memory import words
from mosaic_tpu.sim._outputs import part_of
from mosaic_tpu.sim._reference import Outcome
from mosaic_tpu.sim.errors import RaceError


def compare_orders(shuffled: Outcome, ordered: Outcome) -> None:
    """Steps of parallel dimensions may run in any order, or at once: the outputs of two orders must be the same."""
    for d, arrays in enumerate(shuffled.outputs):
        for i, (array, other) in enumerate(zip(arrays, ordered.outputs[d], strict=True)):
            mask = words(array) != words(other)
            if not mask.any():
                continue
            part = part_of(shuffled, d, i, mask)
            error = RaceError(
                f"{part.text} depend on the order of the grid's parallel steps, the first at {list(part.first)}: "
                f"{array[part.first]} shuffled, {other[part.first]} in order",
                hint="make the dimension arbitrary, or let no step use what another writes",
                **part.where,
            )
            shuffled.machine.hazard(error, None, None)
