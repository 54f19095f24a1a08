"""What reading a schedule takes to know of a generation, beyond `mosaic_tpu.aot.targets`.

Each figure was read off the compiler's own output for a kernel of known size; a test compares. None was measured on
a TPU.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from mosaic_tpu.aot.targets import Generation

VREG_BYTES: Final = 8 * 128 * 4
"""Bytes of a vector register: 8 sublanes of 128 lanes of 32 bits."""


@dataclass(frozen=True)
class Machine:
    """How a generation branches and copies.

    Attributes:
        branch_delay: bundles after a branch that still run before it takes effect: the compiler ends a region there.
        short_delay: whether an empty bundle may stand for the rest of them.
        granule_bytes: unit of a DMA's ``size_in_granules``: the bytes of a block over its granules.
    """

    branch_delay: int
    granule_bytes: int
    short_delay: bool = False


_MACHINES: Final = {
    "v4": Machine(branch_delay=1, granule_bytes=512),
    "v5e": Machine(branch_delay=4, granule_bytes=32),
    "v5p": Machine(branch_delay=4, granule_bytes=32),
    "v6e": Machine(branch_delay=4, granule_bytes=32),
    "tpu7x": Machine(branch_delay=6, granule_bytes=32, short_delay=True),
}


def machine(generation: Generation) -> Machine:
    """The figures of a generation."""
    return _MACHINES[generation.name]
