"""Which loop of a schedule is which loop of the kernel, and so how often each of its blocks runs.

The compiler keeps the order and the nesting of loops whose trip counts depend on data. Loops of constant trip count it
may unroll, and the copies may hold loops of the other kind: the kernel is then compared unrolled too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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


def runs_of(kernel: Block, module: ir.Module, counts: Mapping[Region, int]) -> dict[Place, int] | None:
    """How often each block of a schedule runs in a call, by its place.

    A block that a branch may skip counts as often as the branch lets it where the branches of both agree in number,
    else as often as what is around it: too often rather than too rarely.

    Args:
        kernel: the tree of the schedule.
        module: the kernel it was made of.
        counts: how often each region of the kernel ran.

    Returns:
        `None` where the loops cannot be told to be the same.
    """
    blocks = list(_dynamic(kernel, 0))
    for unrolled in (False, True):
        loops = list(_loops(module.kernel.body, 0, unrolled))
        if [depth for depth, _ in loops] == [depth for depth, _ in blocks]:
            regions = {place(block): region for (_, block), (_, region) in zip(blocks, loops, strict=True)}
            return _runs(kernel, module, regions, counts, unrolled)
    return None


def _dynamic(block: Block, depth: int) -> Iterator[tuple[int, Block]]:
    """The loops of a schedule whose trip counts depend on data, outer ones first, and how deep they are in others."""
    for child in block.children:
        is_one = child.kind == "loop" and child.trips is None
        if is_one:
            yield depth, child
        yield from _dynamic(child, depth + is_one)


def _loops(block: ir.Block, depth: int, unrolled: bool) -> Iterator[tuple[int, Region]]:
    """Those of the kernel: what is in a loop of constant trip count, if unrolled, as often as it runs."""
    for op in block.operations:
        trips = trips_of(op)
        if trips is None:
            number = _BODY[op.name]
            yield depth, (op.number, number)
            yield from _loops(op.regions[number], depth + 1, unrolled)
            continue
        inner = [found for region in op.regions for found in _loops(region, depth, unrolled)]
        yield from inner * (trips if unrolled and op.name == "scf.for" else 1)


def _runs(
    kernel: Block, module: ir.Module, regions: Mapping[Place, Region], counts: Mapping[Region, int], unrolled: bool
) -> dict[Place, int]:
    found: dict[Place, int] = {}
    body = (module.kernel.operation.number, 0)

    def visit(block: Block, runs: int, branches: Mapping[Place, int]) -> None:
        if place(block) in regions:
            runs = counts.get(regions[place(block)], 0)
            branches = _branches(block, _body(module, regions[place(block)]), counts, unrolled)
        elif block.role == "step" or (block is kernel and all(b.role != "step" for b in kernel.walk())):
            runs = counts.get(body, 0)
            branches = _branches(block, module.kernel.body, counts, unrolled)
        elif block.kind == "loop":
            runs *= block.trips or 1
        elif block.kind == "predicated":
            runs = min(runs, branches.get(place(block), runs))
        found[place(block)] = runs
        for child in block.children:
            visit(child, runs, branches)

    visit(kernel, 1, {})
    return found


def _body(module: ir.Module, region: Region) -> ir.Block:
    number, n = region
    return module.operations[number].regions[n]


def _branches(block: Block, body: ir.Block, counts: Mapping[Region, int], unrolled: bool) -> dict[Place, int]:
    """How often the blocks run that a branch directly in a loop, or in the kernel, may skip."""
    skipped = list(_skipped(block))
    taken = list(_taken(body, unrolled))
    if len(skipped) != len(taken):
        return {}
    return {place(b): counts.get(region, 0) for b, region in zip(skipped, taken, strict=True)}


def _skipped(block: Block) -> Iterator[Block]:
    for child in block.children:
        if child.kind == "loop" and child.trips is None:
            continue
        if child.kind == "predicated" and not any(b.kind == "loop" and b.trips is None for b in child.walk()):
            yield child
        yield from _skipped(child)


def _taken(block: ir.Block, unrolled: bool) -> Iterator[Region]:
    for op in block.operations:
        trips = trips_of(op)
        if trips is None:
            continue
        inner: list[Region] = []
        for n, region in enumerate(op.regions):
            if op.name == "scf.if" and len(region.operations) > 1:
                inner.append((op.number, n))
            inner += _taken(region, unrolled)
        yield from inner * (trips if unrolled and op.name == "scf.for" else 1)
