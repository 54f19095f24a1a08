"""The control flow of a schedule: a tree of blocks, each entered at its top and left at its end.

A branch back makes a loop; a branch forward makes a region that it may skip. Both take effect some bundles later, so
the blocks begin and end there. How often a block runs is known where all loops around it have constant bounds and no
branch may skip it, and for the step of a pipeline, which runs once for each point of the grid.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING, Final, Literal

from mosaic_tpu.aot.errors import DumpError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from mosaic_tpu.aot.schedule.allocations import LoopBounds, Regions
    from mosaic_tpu.aot.schedule.bundles import Bundle, Instruction
    from mosaic_tpu.aot.schedule.machine import Machine
    from mosaic_tpu.aot.schedule.slots import Utilization

Kind = Literal["kernel", "loop", "predicated"]
Role = Literal["", "pipeline", "step"]

_TARGET: Final = re.compile(r"target = \$region(\d+)")
# The pipeline starts copies a step ahead and waits a step behind: its loop has more trips than the grid has points.
_PIPELINE_STAGES: Final = 3


@dataclass(frozen=True)
class Block:
    """A stretch of bundles that is entered at its top: the kernel, the body of a loop, or what a branch may skip.

    Attributes:
        kind: ``"kernel"``, ``"loop"`` or ``"predicated"``.
        start: address of its first bundle.
        stop: address behind its last bundle.
        depth: loops it lies in, itself counted.
        region: the compiler's number of the region that the branch leads to; None of the kernel.
        branch: address of the branch: back to its top for a loop, over it for a predicated block; None of the kernel.
        predicate: what must hold for the branch to be taken; for a predicated block, to skip it. Empty: always.
        bounds: of a loop whose bounds are constant.
        role: ``"pipeline"`` for the loop over the grid, ``"step"`` for what it does for one point; empty for the rest.
        runs: how often it runs in a call of the kernel; None if that takes data to know.
        slots: slots its own bundles use, by kind; those of inner blocks are not in it.
        matmuls: vmatmul in its own bundles, by element type.
        mxu_cycles: cycles that its own vmatmul keep the MXUs busy, in one run, spread evenly.
        waits: waits for a copy in its own bundles.
        lines: instructions in its own bundles by the line of the source they come from, ``"kernel.py:12"``, the most
            first; those that the compiler adds come from none.
        children: the blocks in it, by address.
    """

    kind: Kind
    start: int
    stop: int
    depth: int = 0
    region: int | None = None
    branch: int | None = None
    predicate: str = ""
    bounds: LoopBounds | None = None
    role: Role = ""
    runs: int | None = None
    slots: Mapping[str, int] = field(default_factory=dict[str, int])
    matmuls: Mapping[str, int] = field(default_factory=dict[str, int])
    mxu_cycles: float = 0.0
    waits: int = 0
    lines: Mapping[str, int] = field(default_factory=dict[str, int])
    children: tuple[Block, ...] = ()

    @property
    def trips(self) -> int | None:
        """How often a loop's body runs when the loop is entered; None if that takes data to know."""
        return self.bounds.trips if self.bounds else None

    @property
    def bundles(self) -> int:
        """Bundles in it, those of inner blocks too."""
        return self.stop - self.start

    @property
    def own_bundles(self) -> int:
        """Bundles in it that are in no inner block."""
        return self.bundles - sum(child.bundles for child in self.children)

    @property
    def ranges(self) -> tuple[tuple[int, int], ...]:
        """First address and the one behind the last of each stretch that is in no inner block."""
        edges = [self.start, *chain.from_iterable((child.start, child.stop) for child in self.children), self.stop]
        return tuple((a, b) for a, b in zip(edges[::2], edges[1::2], strict=True) if a < b)

    @property
    def addresses(self) -> Iterator[int]:
        """Of the bundles in it that are in no inner block."""
        return chain.from_iterable(range(a, b) for a, b in self.ranges)

    @property
    def name(self) -> str:
        """Its kind and where it begins: ``"loop 0x11"``."""
        return self.kind if self.kind == "kernel" else f"{self.role or self.kind} {self.start:#x}"

    def walk(self) -> Iterator[Block]:
        """It and all blocks in it, by address, outer ones first."""
        yield self
        for child in self.children:
            yield from child.walk()

    def path(self, address: int) -> tuple[Block, ...]:
        """The blocks that hold a bundle, outermost first, from this one on."""
        inner = next((child for child in self.children if child.start <= address < child.stop), None)
        return (self, *inner.path(address)) if inner else (self,)


def read_blocks(bundles: Sequence[Bundle], regions: Regions, machine: Machine) -> Block:
    """The tree of a kernel's blocks.

    Args:
        bundles: of the kernel.
        regions: of the kernel.
        machine: how its generation branches.

    Raises:
        DumpError: a branch leads nowhere.
    """
    found = sorted(_branches(bundles, regions, machine), key=lambda block: (block.start, -block.stop))
    kernel, _ = _nest(Block("kernel", 0, len(bundles), runs=1), found, 0)
    return kernel


def _branches(bundles: Sequence[Bundle], regions: Regions, machine: Machine) -> Iterator[Block]:
    tops = {region: bundle.address for bundle in bundles for region in bundle.opens}
    for at, branch in _all_branches(bundles):
        target = _TARGET.search(branch.operands)
        region = int(target[1]) if target else -1
        if region not in tops and region not in regions.known:
            raise DumpError(f"a branch at {at:#x} leads nowhere: {branch.operands!r}", op="read_blocks")
        top = tops.get(region, len(bundles))  # A region without a bundle is the end of the kernel.
        past = at + 1 + _delay(bundles, at, regions.branches.get(region, ()), machine)
        if top <= at:
            yield Block("loop", top, past, 0, region, at, branch.predicate, regions.bounds.get(region))
        elif past < top:
            yield Block("predicated", past, top, 0, region, at, branch.predicate)


def _all_branches(bundles: Sequence[Bundle]) -> Iterator[tuple[int, Instruction]]:
    for bundle in bundles:
        for instruction in bundle.instructions:
            if instruction.opcode.startswith("sbr"):
                yield bundle.address, instruction


def _delay(bundles: Sequence[Bundle], at: int, homes: Sequence[int], machine: Machine) -> int:
    """Bundles between a branch and its effect."""
    delay = min(machine.branch_delay, len(bundles) - 1 - at)
    if not machine.short_delay:
        return delay
    # The region that ends in the branch ends with its last delay slot. Where an empty bundle took the place of several
    # slots, the mark of that end went with them, and the empty bundle is the last one before control may come from
    # elsewhere or leave again.
    slots = range(at + 1, at + 1 + delay)
    if marked := [slot for slot in slots if set(homes) & set(bundles[slot].closes)]:
        return marked[-1] - at
    stops = [slot for slot in slots if bundles[slot].label or _leaves(bundles[slot])]
    empty = [slot for slot in slots if not bundles[slot].instructions and slot < min(stops, default=slot + 1)]
    return empty[-1] - at if empty else delay


def _leaves(bundle: Bundle) -> bool:
    return any(instruction.opcode.startswith("sbr") for instruction in bundle.instructions)


def _nest(block: Block, found: Sequence[Block], at: int) -> tuple[Block, int]:
    """The block with those of `found`, from `at` on, that lie in it as its children; and where the rest begins."""
    children: list[Block] = []
    depth = block.depth + (block.kind == "loop")
    while at < len(found) and found[at].start < block.stop:
        # A region that ends behind the loop it begins in is one the loop's end cuts.
        inner = replace(found[at], stop=min(found[at].stop, block.stop), depth=depth)
        child, at = _nest(inner, found, at + 1)
        children.append(child)
    return replace(block, depth=depth, children=tuple(children)), at


def with_runs(kernel: Block, grids: Mapping[int, tuple[int, ...]]) -> Block:
    """The tree with roles, and with how often each block runs where that is known.

    Args:
        kernel: the tree.
        grids: points along each axis of the grid, by the address of a copy of one of its windows.
    """
    return _with_runs(kernel, 1, grids)


def _with_runs(block: Block, runs: int | None, grids: Mapping[int, tuple[int, ...]]) -> Block:
    points = _grid_points(block, grids)
    step = _step(block) if points is not None else None
    children: list[Block] = []
    for child in block.children:
        if child is step and points is not None:
            entered = runs // (block.trips or 1) if runs is not None else None
            inner = _with_runs(child, entered * points if entered is not None else None, grids)
            children.append(replace(inner, role="step"))
        else:
            children.append(_with_runs(child, _child_runs(block, child, runs), grids))
    return replace(block, runs=runs, role="pipeline" if step else "", children=tuple(children))


def _child_runs(block: Block, child: Block, runs: int | None) -> int | None:
    if child.kind == "predicated":
        # Where two TensorCores share a kernel that only one has work for, the other skips it to its end.
        return runs if block.kind == "kernel" and child.stop == block.stop else None
    return runs * child.trips if runs is not None and child.trips is not None else None


def _grid_points(block: Block, grids: Mapping[int, tuple[int, ...]]) -> int | None:
    """Points of the grid that a loop runs over, if it is a pipeline's."""
    if block.trips is None:
        return None
    grid = next((grid for address, grid in grids.items() if block.start <= address < block.stop), None)
    points = math.prod(grid) if grid else 0
    return points if 0 < points <= block.trips <= points + _PIPELINE_STAGES else None


def _step(block: Block) -> Block | None:
    """What a pipeline does for one point: the largest of the regions that it may skip."""
    skipped = [child for child in block.children if child.kind == "predicated"]
    return max(skipped, key=lambda child: child.bundles, default=None)


def with_work(
    block: Block,
    utilization: Utilization,
    matmuls: Mapping[int, Mapping[str, int]],
    cycles: Mapping[str, float],
    waits: Mapping[int, int],
    lines: Mapping[int, Mapping[str, int]],
) -> Block:
    """The tree with the slots, matmuls and lines of each block's own bundles.

    Args:
        block: the tree.
        utilization: slots, by bundle.
        matmuls: vmatmul by element type, by address.
        cycles: that one vmatmul of an element type takes of all MXUs.
        waits: waits for a copy, by address.
        lines: instructions by line, by address.
    """
    counts = _summed(matmuls, block)
    return replace(
        block,
        slots=utilization.over(block.addresses),
        matmuls=counts,
        mxu_cycles=sum(count * cycles[dtype] for dtype, count in counts.items()),
        waits=sum(waits.get(address, 0) for address in block.addresses),
        lines=dict(sorted(_summed(lines, block).items(), key=lambda line: -line[1])),
        children=tuple(with_work(child, utilization, matmuls, cycles, waits, lines) for child in block.children),
    )


def _summed(counts: Mapping[int, Mapping[str, int]], block: Block) -> dict[str, int]:
    """Counts of a block's own bundles."""
    total: dict[str, int] = {}
    for address in block.addresses:
        for what, count in counts.get(address, {}).items():
            total[what] = total.get(what, 0) + count
    return total
