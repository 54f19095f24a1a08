"""Every refusal."""

from __future__ import annotations

from typing import Final

from conformance.refusals import memory, types, vectors
from conformance.refusals.case import Refusal

REFUSALS: Final[list[Refusal]] = [*vectors.CASES, *types.CASES, *memory.CASES]
