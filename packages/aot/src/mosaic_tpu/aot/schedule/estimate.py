"""The compiler's own estimate of a kernel's cycles, and whether to believe it."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from mosaic_tpu.aot.errors import DumpError

if TYPE_CHECKING:
    from mosaic_tpu.aot.schedule.blocks import Block

_LOCAL: Final = "DMA_INSTRUCTION_TYPE_LOCAL"
NO_PROFILE: Final = "not estimable: the compiler made no profile of this kernel"
ON_DATA: Final = "not estimable: trip counts depend on data"
#: Of a loop whose bounds are in registers though the compiler took no scalar for unknown: often one of its own.
NO_COUNT: Final = "not estimable: the schedule does not say how often a loop runs"
#: What a simulated run counts.
COUNTABLE: Final = (ON_DATA, NO_COUNT)


@dataclass(frozen=True)
class Estimate:
    """The compiler's estimate. Good to rank variants of a kernel on one generation, never as absolute time.

    Attributes:
        cycles: that it says; None if it made none.
        trustworthy: whether the number means anything.
        why: if not, why not, in a sentence.
        scalar_inputs: scalars it took for unknown; None if it made no estimate.
    """

    cycles: int | None
    trustworthy: bool
    why: str = ""
    scalar_inputs: int | None = None

    def above(self, cycles: float, what: str) -> Estimate:
        """The same, not to be trusted if it is below a bound that no run can be below.

        Args:
            cycles: the bound.
            what: what it is of, ``"the MXU"``.
        """
        if not self.trustworthy or self.cycles is None or self.cycles >= cycles:
            return self
        why = f"not estimable: the compiler says {self.cycles} cycles, but {what} alone takes {cycles:.0f}"
        return replace(self, trustworthy=False, why=why)


def read_estimate(profile: str, kernel: Block) -> Estimate:
    """The estimate of a profile, and whether to trust it.

    Args:
        profile: the dump; empty if there is none.
        kernel: the tree of the kernel's blocks, with runs and work.

    Raises:
        DumpError: the profile is none.
    """
    if not profile.strip():
        return Estimate(None, False, NO_PROFILE)
    fields = dict(re.findall(r"^  (\w+): (\S+)$", profile, re.MULTILINE))
    cycles, scalars = _number(fields, "estimated_cycles"), _number(fields, "scalar_inputs")
    if cycles is None:
        raise DumpError("no estimated_cycles in the profile", op="read_estimate")
    estimate = Estimate(cycles, not (why := _doubt(cycles, scalars, fields, kernel)), why, scalars)
    return estimate.above(least_mxu_cycles(kernel), "the MXU").above(least_bundles(kernel), "issuing the bundles")


def _doubt(cycles: int, scalars: int | None, fields: dict[str, str], kernel: Block) -> str:
    copies = fields.get("dma_instruction_type", "")
    if scalars:
        return ON_DATA
    if any(block.kind == "loop" and block.trips is None for block in kernel.walk()):
        return NO_COUNT
    if scalars is None:
        return "not estimable: the compiler does not say how many scalars it took for unknown"
    if copies != _LOCAL:
        kinds = copies.removeprefix("DMA_INSTRUCTION_TYPE_").replace("_", " ").lower() or "of an unknown kind"
        return f"not estimable: the kernel has copies that the compiler has no time for ({kinds})"
    return "" if cycles else "not estimable: the compiler says 0 cycles"


def _number(fields: dict[str, str], name: str) -> int | None:
    word = fields.get(name, "")
    return int(word) if word.isdecimal() else None


def least_mxu_cycles(block: Block) -> float:
    """Cycles that the MXUs take at the least, of the blocks that are known to run and how often."""
    return sum(inner.mxu_cycles * (inner.runs or 0) for inner in block.walk())


def least_bundles(block: Block) -> int:
    """Bundles issued at the least, of the blocks that are known to run and how often: each takes a cycle or more."""
    return sum(inner.own_bundles * (inner.runs or 0) for inner in block.walk())
