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
class Latencies:
    """Cycles that pass between a beginning and an end, as the compiler's own estimates have them.

    Attributes:
        fetch: from the start of a copy from HBM to its end, without its bytes.
        store: of a copy to HBM, likewise.
        eup: until what the EUP was given can be popped.
        xlu: of a lane reduction in the XLU, likewise; its other ops take a little less.
        mxu: of a vmatmul, likewise.
    """

    fetch: int
    store: int
    eup: int
    xlu: int
    mxu: int


@dataclass(frozen=True)
class Machine:
    """How a generation branches, copies and waits.

    Attributes:
        branch_delay: bundles after a branch that still run before it takes effect: the compiler ends a region there.
        short_delay: whether an empty bundle may stand for the rest of them.
        latencies: what takes how long.
        estimated: whether the compiler estimates cycles for it; else the latencies are v5e's.
        granule_bytes: unit of a DMA's ``size_in_granules``: the bytes of a block over its granules.
    """

    branch_delay: int
    granule_bytes: int
    latencies: Latencies
    short_delay: bool = False
    estimated: bool = True


_V5E: Final = Latencies(fetch=1134, store=440, eup=6, xlu=103, mxu=124)
_MACHINES: Final = {
    "v4": Machine(branch_delay=1, granule_bytes=512, latencies=_V5E, estimated=False),
    "v5e": Machine(branch_delay=4, granule_bytes=32, latencies=_V5E),
    "v5p": Machine(branch_delay=4, granule_bytes=32, latencies=Latencies(666, 624, 8, 103, 124)),
    "v6e": Machine(branch_delay=4, granule_bytes=32, latencies=Latencies(549, 457, 13, 137, 210)),
    "tpu7x": Machine(branch_delay=6, granule_bytes=32, latencies=Latencies(694, 597, 10, 141, 213), short_delay=True),
}


def machine(generation: Generation) -> Machine:
    """The figures of a generation."""
    return _MACHINES[generation.name]
