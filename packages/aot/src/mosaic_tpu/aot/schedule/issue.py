"""When each bundle issues: a cycle after the one before, or later where it waits for a result.

The compiler leaves waiting to the hardware: a bundle that needs what is not there yet holds up all that follow. Results
of the vector ALUs, of EUP, XLU and MXU come some cycles after they were begun; a block begins with all of them there.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Final

from mosaic_tpu.aot.schedule.machine import machine
from mosaic_tpu.aot.schedule.mxu import dtype_of, interval

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mosaic_tpu.aot.schedule.blocks import Block
    from mosaic_tpu.aot.schedule.bundles import Bundle, Instruction
    from mosaic_tpu.aot.schedule.machine import Latencies
    from mosaic_tpu.aot.targets import Generation

_REGISTER: Final = re.compile(r"%\w+")
_VECTOR: Final = re.compile(r"%v\d")
_MXU: Final = re.compile(r"\bmxu\d")
_XLU: Final = re.compile(r"\bxlu\d")
#: Cycles until the result of a vector ALU can be used, on all generations.
_VALU: Final = 2


def read_issue(bundles: Sequence[Bundle], kernel: Block, generation: Generation) -> tuple[float, ...]:
    """Cycles from the issue of the bundle before to that of each: 1, and those that it waits for results.

    Args:
        bundles: of the kernel.
        kernel: the tree of its blocks.
        generation: that they are for.
    """
    cycles = [1.0] * len(bundles)
    for block in kernel.walk():
        for start, stop in block.ranges:
            clock = _Clock(bundles[start:stop], generation)
            cycles[start:stop] = [clock.issue(bundle) for bundle in bundles[start:stop]]
    return tuple(cycles)


class _Clock:
    """A stretch of bundles as it issues."""

    def __init__(self, bundles: Sequence[Bundle], generation: Generation) -> None:
        self.generation = generation
        self.latencies: Latencies = machine(generation).latencies
        self.now = 0.0
        self.ready: dict[str, float] = {}
        #: Of each MXU: when it takes the next vmatmul, and when the results of each begun are there.
        self.free: defaultdict[str, float] = defaultdict(float)
        self.results: defaultdict[str, list[float]] = defaultdict(list)
        pops = (i for b in bundles for i in b.instructions if i.opcode.startswith("vpop"))
        self.popped_names = {name for pop in pops for name in _REGISTER.findall(pop.operands)}
        # An MXU gives its results in order, as many of each vmatmul.
        used = [(i.opcode.split(".")[0], unit) for b in bundles for i in b.instructions if (unit := _mxu(i))]
        self.matmuls = Counter(unit for what, unit in used if what == "vmatmul")
        self.pops = Counter(unit for what, unit in used if what == "vpop")
        self.popped: Counter[str] = Counter()

    def issue(self, bundle: Bundle) -> float:
        """Cycles until a bundle issues, after the one before."""
        at = max([self.now + 1, *map(self._earliest, bundle.instructions)])
        for instruction in bundle.instructions:
            self._begin(instruction, at)
        took, self.now = at - self.now, at
        return took

    def _earliest(self, instruction: Instruction) -> float:
        """When its operands are there, and its MXU takes it."""
        found = max((self.ready.get(name, 0.0) for name in _REGISTER.findall(instruction.operands)), default=0.0)
        unit = _mxu(instruction)
        if unit and instruction.opcode.startswith("vmatmul"):
            return max(found, self.free[unit])
        if unit and instruction.opcode.startswith("vpop") and self.matmuls[unit]:
            self.popped[unit] += 1
            matmul = -(-self.popped[unit] * self.matmuls[unit] // self.pops[unit]) - 1
            there = self.results[unit]
            return max(found, there[matmul] if matmul < len(there) else 0.0)
        return found

    def _begin(self, instruction: Instruction, at: float) -> None:
        opcode, result = instruction.opcode, instruction.result
        unit = _mxu(instruction)
        if unit and opcode.startswith("vmatmul"):
            self.free[unit] = at + interval(dtype_of(opcode), self.generation)
            self.results[unit].append(at + self.latencies.mxu)
        elif opcode.startswith(("vpop", "vld")) or not opcode.startswith("v"):
            return
        elif _VECTOR.match(result):
            self.ready[result] = at + _VALU
        elif result in self.popped_names:
            self.ready[result] = at + (self.latencies.xlu if _XLU.search(opcode) else self.latencies.eup)


def _mxu(instruction: Instruction) -> str:
    """The MXU that an instruction names, in its opcode or behind an address of results, or none."""
    found = _MXU.search(f"{instruction.opcode} {instruction.operands}")
    return found[0] if found else ""
