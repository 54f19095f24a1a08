"""Every working kernel and every planted fault."""

from __future__ import annotations

from typing import Final

from conformance.faults import copies, paged, rings, tiles
from conformance.faults.fault import Fault, Working

KERNELS: Final[list[Working]] = [copies.KERNEL, *tiles.KERNELS, paged.KERNEL, rings.KERNEL]
FAULTS: Final[list[Fault]] = [*copies.FAULTS, *tiles.FAULTS, *paged.FAULTS, *rings.FAULTS]
