"""Outputs that depend on the order of the grid's parallel steps."""

from __future__ import annotations

import numpy as np

from mosaic_tpu.sim._memory import words
from mosaic_tpu.sim._reference import Outcome
from mosaic_tpu.sim.errors import RaceError


def compare_orders(shuffled: Outcome, ordered: Outcome) -> None:
    """Steps of parallel dimensions may run in any order, or at once: the outputs of two orders must be the same."""
    names = [a.name for a in shuffled.layout.role("output")]
    for d, arrays in enumerate(shuffled.outputs):
        for name, array, other in zip(names, arrays, ordered.outputs[d], strict=True):
            mask = words(array) != words(other)
            if not mask.any():
                continue
            first = [int(n) for n in np.unravel_index(int(np.argmax(mask)), array.shape)]
            error = RaceError(
                f"{int(mask.sum())} of {array.size} elements of the output {name} depend on the order of the grid's "
                f"parallel steps, the first at {first}: {array[tuple(first)]} shuffled, {other[tuple(first)]} in order",
                buffer=f"{name} ({array.dtype}{list(array.shape)})",
                device=f"device {d}" if len(shuffled.outputs) > 1 else None,
                hint="make the dimension arbitrary, or let no step use what another writes",
            )
            shuffled.machine.hazard(error, None, None)
