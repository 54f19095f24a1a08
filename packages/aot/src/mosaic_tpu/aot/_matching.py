"""Which loop of a schedule is which loop of the kernel, and so how often each of its blocks runs.

The compiler keeps the order and the nesting of loops whose trip counts depend on data. Loops of constant trip count it
may keep, or unroll, and the copies may hold loops of the other kind: the kernel is compared with all its loops, without
those of constant trip count, and unrolled.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mosaic_tpu.aot._work import trips_of
from mosaic_tpu.aot.schedule import Block
from mosaic_tpu.sim import ir

#: Op and region of the kernel, as the simulator's ``region_counts`` has them.
type Region = tuple[int, int]

#: A block of a schedule: its kind, and where it begins and ends.
type Place = tuple[str, int, int]

#: The region that is a loop's body.
_BODY: Final = {"scf.for": 0, "scf.while": 1}


def place(block: Block) -> Place:
    """What stands for a block: two may begin at one address."""
    return block.kind, block.start, block.stop


@dataclass(frozen=True)
class Placed:
    """What a block of a schedule is of the kernel.

    Attributes:
        region: the innermost region that it is a part of, of those that are found in the schedule; ``None`` for what a
            call does once.
        runs: how often it runs in a call.
    """

    region: Region | None
    runs: int


@dataclass(frozen=True)
class Match:
    """A schedule and the kernel it was made of, side by side.

    Attributes:
        blocks: what each block is, by its place.
        unrolled: whether loops of constant trip count that are in no region of `blocks` stand there as often as they
            run.
    """

    blocks: Mapping[Place, Placed]
    unrolled: bool

    @property
    def regions(self) -> dict[Region, Place]:
        """The outermost block of each region."""
        found: dict[Region, Place] = {}
        for where, block in self.blocks.items():  # outer ones come first
            if block.region is not None:
                found.setdefault(block.region, where)
        return found


def matched(kernel: Block, module: ir.Module, counts: Mapping[Region, int]) -> Match | None:
    """What each block of a schedule is of the kernel, and how often it runs in a call.

    A block that a branch may skip counts as often as the branch lets it, if it is known which branch that is; else as
    often as what is around it: too often rather than too rarely.

    Args:
        kernel: the tree of the schedule.
        module: the kernel it was made of.
        counts: how often each region of the kernel ran.

    Returns:
        `None` where the loops cannot be told to be the same.
    """
    for constant, unrolled in ((True, False), (False, False), (False, True)):
        loops = list(_loops(module.kernel.body, 0, constant, unrolled))
        blocks = list(_loop_blocks(kernel, 0, constant))
        if [loop[:2] for loop in loops] == [block[:2] for block in blocks]:
            regions = {place(block): region for (*_, block), (*_, region) in zip(blocks, loops, strict=True)}
            return Match(_placed(kernel, module, regions, counts, unrolled), unrolled)
    return None


def _loop_blocks(block: Block, depth: int, constant: bool) -> Iterator[tuple[int, int | None, Block]]:
    """The loops of a schedule, outer ones first, how deep they are in others, and how often they run if that is fixed.

    Those of constant trip count are left out unless asked for, and so is the pipeline's.
    """
    for child in block.children:
        is_one = child.kind == "loop" and (child.trips is None or (constant and child.role != "pipeline"))
        if is_one:
            yield depth, child.trips, child
        yield from _loop_blocks(child, depth + is_one, constant)


def _loops(block: ir.Block, depth: int, constant: bool, unrolled: bool) -> Iterator[tuple[int, int | None, Region]]:
    """Those of the kernel: what is in a loop of constant trip count, if unrolled, as often as it runs."""
    for op in block.operations:
        trips = trips_of(op)
        if trips is None or (constant and op.name == "scf.for"):
            number = _BODY[op.name]
            yield depth, trips, (op.number, number)
            yield from _loops(op.regions[number], depth + 1, constant, unrolled)
            continue
        inner = [found for region in op.regions for found in _loops(region, depth, constant, unrolled)]
        yield from inner * (trips if unrolled and op.name == "scf.for" else 1)


def _placed(
    kernel: Block, module: ir.Module, regions: Mapping[Place, Region], counts: Mapping[Region, int], unrolled: bool
) -> dict[Place, Placed]:
    found: dict[Place, Placed] = {}
    body = (module.kernel.operation.number, 0)
    stepless = all(b.role != "step" for b in kernel.walk())
    #: Of a region that the compiler has unrolled: how many of it there are, and how many the walk has seen.
    copies: Counter[Region] = Counter()
    seen: Counter[Region] = Counter()

    def share(region: Region) -> int:
        """How often the next of a region's copies runs."""
        seen[region] += 1
        there = max(copies[region], 1)
        return max(0, counts.get(region, 0) + there - seen[region]) // there

    def visit(block: Block, outer: Placed, branches: Mapping[Place, Region]) -> None:
        region, runs = outer.region, outer.runs
        if place(block) in regions:
            region = regions[place(block)]
            runs = share(region)
            branches = _branches(block, module, region, regions, unrolled)
        elif block.role == "step" or (block is kernel and stepless):
            region, runs = body, counts.get(body, 0)
            branches = _branches(block, module, body, regions, unrolled)
        elif block.kind == "loop":
            region = body if block.role == "pipeline" else region
            runs *= block.trips or 1
        elif place(block) in branches:
            region = branches[place(block)]
            runs = share(region)
        found[place(block)] = Placed(region, runs)
        for child in block.children:
            visit(child, found[place(block)], branches)

    visit(kernel, Placed(None, 1), {})
    copies, seen = seen, Counter()
    visit(kernel, Placed(None, 1), {})
    return found


def _body(module: ir.Module, region: Region) -> ir.Block:
    number, n = region
    return module.operations[number].regions[n]


def _branches(
    block: Block, module: ir.Module, region: Region, regions: Mapping[Place, Region], unrolled: bool
) -> dict[Place, Region]:
    """What the blocks are that a branch directly in a loop, or in the kernel, may skip.

    Where they are not as many as the kernel's branches, since the compiler made predicates of some, a block is the next
    branch that has the line from which most of its instructions come.
    """
    skipped = list(_skipped(block, regions))
    taken = list(_taken(_body(module, region), set(regions.values()), unrolled))
    if len(skipped) == len(taken):
        return {place(b): branch for b, branch in zip(skipped, taken, strict=True)}
    found: dict[Place, Region] = {}
    for b in skipped:
        line = Path(next(iter(b.lines), "")).name
        at = next((n for n, branch in enumerate(taken) if line in _lines(module, branch)), None)
        if at is not None:
            found[place(b)] = taken[at]
            taken = taken[at + 1 :]
    return found


def _lines(module: ir.Module, region: Region) -> set[str]:
    """Lines of the ops in a region, without their folders."""
    lines = (module.line(op) for outer in _body(module, region).operations for op in outer.walk())
    return {Path(line).name for line in lines if line}


def _skipped(block: Block, regions: Mapping[Place, Region]) -> Iterator[Block]:
    for child in block.children:
        if place(child) in regions:
            continue
        if child.kind == "predicated" and not any(place(b) in regions for b in child.walk()):
            yield child
        yield from _skipped(child, regions)


def _taken(block: ir.Block, regions: Collection[Region], unrolled: bool) -> Iterator[Region]:
    for op in block.operations:
        trips = trips_of(op)
        if trips is None or (op.number, 0) in regions:
            continue
        inner: list[Region] = []
        for n, region in enumerate(op.regions):
            if op.name == "scf.if" and len(region.operations) > 1:
                inner.append((op.number, n))
            inner += _taken(region, regions, unrolled)
        yield from inner * (trips if unrolled and op.name == "scf.for" else 1)
