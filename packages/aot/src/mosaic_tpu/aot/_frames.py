"""The frames that a clock walks through: which bundles each region of a kernel is, and where in them it copies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Final

from mosaic_tpu.aot._matching import Match, Region, place
from mosaic_tpu.aot._timeline import CALL, Frame
from mosaic_tpu.aot._work import trips_of
from mosaic_tpu.aot.schedule import Schedule
from mosaic_tpu.sim import ir

_START: Final = "start"
_WAIT: Final = "wait"
_KINDS: Final = {"tpu.enqueue_dma": _START, "tpu.wait_dma": _WAIT, "tpu.wait_dma2": _WAIT}


def frames_of(schedule: Schedule, module: ir.Module, match: Match, counts: Mapping[Region, int]) -> dict[Region, Frame]:
    """The frame of each region that is found in a schedule, and that of the whole call.

    What a branch may skip is a frame of its own where it is known which branch that is; else it counts in each run of
    the frame around it. Starts and waits are where the compiler put them, if it kept their order; else they are spread
    evenly.

    Args:
        schedule: the compiler's.
        module: the kernel it was made of.
        match: which is which.
        counts: how often each region ran.
    """
    regions = match.regions
    shares: dict[Region, list[float]] = {region: [0.0] * schedule.bundles for region in (CALL, *regions)}
    copies: dict[Region, list[tuple[int, str]]] = {region: [] for region in shares}
    points = _points(schedule)
    for block in schedule.kernel.walk():
        placed = match.blocks[place(block)]
        region = CALL if placed.region is None else placed.region
        entries = 1 if region == CALL else counts.get(region, 0)
        for address in block.addresses:
            shares[region][address] = schedule.issue[address] * placed.runs / entries if entries else 0.0
            copies[region] += [(address, kind) for kind in points.get(address, ())]
    walked = {region: list(accumulate(share, initial=0.0)) for region, share in shares.items()}
    parents = {region: _parent(module, region, regions) for region in regions}
    made: dict[Region, Frame] = {}
    for region, far in walked.items():
        if region == CALL:
            made[CALL] = Frame(None, 0.0, far[-1])
            continue
        at = walked[parents[region]][regions[region][1]]
        ops = list(_ops(_block(module, region), set(regions), match.unrolled))
        made[region] = Frame(parents[region], at, far[-1], _places(ops, sorted(copies[region]), far))
    return made


def _points(schedule: Schedule) -> dict[int, list[str]]:
    """The kernel's own starts and waits of copies, by the address of their bundle; not the pipeline's."""
    found: dict[int, list[str]] = {}
    for address in (dma.address for dma in schedule.dmas if dma.window is None):
        found.setdefault(address, []).append(_START)
    for address in schedule.own_waits:
        found.setdefault(address, []).append(_WAIT)
    return found


def _parent(module: ir.Module, region: Region, regions: Mapping[Region, object]) -> Region:
    """The innermost region around it that is a frame."""
    op = module.operations[region[0]]
    while (block := op.parent) is not None:
        op = block.owner
        outer = (op.number, op.regions.index(block))
        if outer in regions:
            return outer
    return CALL


def _block(module: ir.Module, region: Region) -> ir.Block:
    number, n = region
    return module.operations[number].regions[n]


def _ops(block: ir.Block, regions: set[Region], unrolled: bool) -> Iterator[tuple[int, str]]:
    """The starts and waits in a block, and in what is in it that is no frame of its own: number and kind."""
    for op in block.operations:
        if kind := _KINDS.get(op.name):
            yield op.number, kind
        inner = [
            found
            for n, region in enumerate(op.regions)
            if (op.number, n) not in regions
            for found in _ops(region, regions, unrolled)
        ]
        yield from inner * (trips_of(op) or 1 if unrolled and op.name == "scf.for" else 1)


def _places(
    ops: Sequence[tuple[int, str]], copies: Sequence[tuple[int, str]], far: Sequence[float]
) -> dict[int, tuple[float, ...]]:
    """How far in the frame each op is, one number for each time it stands there.

    The compiler makes one wait of several that follow each other, and stages scalars before the kernel begins.
    """
    wanted, there = _groups(ops), _groups(copies)
    there = there[max(0, len(there) - len(wanted)) :]
    kept = [kind for kind, _ in wanted] == [kind for kind, _ in there]
    found: dict[int, tuple[float, ...]] = {}
    for n, (_, numbers) in enumerate(wanted):
        for op in numbers:
            reached = far[there[n][1][-1]] if kept else far[-1] * (n + 1) / (len(wanted) + 1)
            found[op] = (*found.get(op, ()), reached)
    return found


def _groups(points: Sequence[tuple[int, str]]) -> list[tuple[str, list[int]]]:
    """Starts each alone, waits without a start between them together."""
    groups: list[tuple[str, list[int]]] = []
    for where, kind in points:
        if kind == _WAIT and groups and groups[-1][0] == _WAIT:
            groups[-1][1].append(where)
        else:
            groups.append((kind, [where]))
    return groups
