"""What hazards say of the elements of an output that they are about."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mosaic_tpu.sim._memory import Array
from mosaic_tpu.sim._reference import Outcome


@dataclass(frozen=True)
class Part:
    """Some elements of an output.

    Attributes:
        text: ``"3 of 1024 elements of the output o_ref"``.
        first: the indices of the first.
        where: buffer and device, as errors take them.
    """

    text: str
    first: tuple[int, ...]
    where: dict[str, Any]


def part_of(outcome: Outcome, device: int, index: int, mask: Array) -> Part:
    """The elements of a device's output that a mask, true somewhere, chooses."""
    name = outcome.layout.role("output")[index].name
    array = outcome.outputs[device][index]
    return Part(
        f"{int(mask.sum())} of {array.size} elements of the output {name}",
        tuple(int(n) for n in np.unravel_index(int(np.argmax(mask)), array.shape)),
        {
            "buffer": f"{name} ({array.dtype}{list(array.shape)})",
            "device": f"device {device}" if len(outcome.outputs) > 1 else None,
        },
    )
