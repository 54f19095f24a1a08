"""The report of a schedule for a terminal."""

from __future__ import annotations

import re
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Final

from mosaic_tpu.aot._text import size
from mosaic_tpu.aot.schedule.estimate import COUNTABLE
from mosaic_tpu.aot.schedule.slots import FILL, SPILL

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mosaic_tpu.aot.schedule.allocations import Allocation
    from mosaic_tpu.aot.schedule.blocks import Block
    from mosaic_tpu.aot.schedule.dmas import DMA, Window
    from mosaic_tpu.aot.schedule.schedule import Schedule

_WINDOW: Final = re.compile(
    r"operator (?:in|out)put (\d+)\. The window shape is (\S+), while the full shape is (\S+)\."
)
_BUFFERS: Final = re.compile(r"has (\d+) buffering levels")
_BAR: Final = 24
#: Lines of the source that a report names.
_LINES: Final = 5
_PART_OF: Final = (FILL, SPILL)


def report(schedule: Schedule) -> str:
    """The report, in lines of at most 110 columns or so."""
    sections = (_summary, _blocks, _slots, _lines, _memory, _copies)
    parts = [section(schedule) for section in sections]
    return "\n\n".join("\n".join(part) for part in parts if part)


def _summary(schedule: Schedule) -> list[str]:
    grid = f", grid {' × '.join(map(str, schedule.grid))}" if schedule.grid else ""
    registers = schedule.registers
    scratch = f" ({size(registers.vmem_bytes)} of VMEM)" if registers.vmem_bytes else ""
    return [
        f"{schedule.op} on {schedule.target}: {_count(schedule.bundles, 'bundle')}, "
        f"{_count(len(schedule.loops), 'loop')}{grid}",
        f"  estimate   {_estimate(schedule)}",
        *(f"  {'MXU' if not i else '':<11}{line}" for i, line in enumerate(_matmuls(schedule))),
        f"  registers  {registers.spills} spills, {registers.fills} fills{scratch}; "
        f"scalar: {registers.scalar_spills} spills, {registers.scalar_fills} fills",
        f"  VMEM       {size(schedule.vmem_bytes)} in allocations",
        *_placed(schedule.placed),
    ]


def _placed(operands: tuple[int, ...]) -> list[str]:
    if not operands:
        return []
    which = f"operand {operands[0]} is" if len(operands) == 1 else f"operands {', '.join(map(str, operands))} are"
    return [f"             {which} there whole, without copies: XLA put them there; operands_in_hbm=True forbids it"]


def _estimate(schedule: Schedule) -> str:
    estimate = schedule.estimate
    if estimate.trustworthy:
        return f"{estimate.cycles:,} cycles, by the compiler: to rank variants on one generation, no absolute time"
    more = "; mosaic_tpu.aot.specialize counts them in a simulated run" if estimate.why in COUNTABLE else ""
    return estimate.why + more


def _matmuls(schedule: Schedule) -> Iterator[str]:
    mxus = schedule.target.generation.mxus
    for matmul in schedule.matmuls:
        yield (
            f"{matmul.count} vmatmul {matmul.dtype} in the text, of {matmul.rows} rows, "
            f"{matmul.interval:g} cycles each on one of {mxus} MXUs"
        )
    if not schedule.matmuls:
        yield "no matmul"
    elif schedule.mxu_cycles is None:
        yield "busy for a time that the dumps do not say"
    else:
        cycles = schedule.estimate.cycles if schedule.estimate.trustworthy else None
        share = f": {schedule.mxu_cycles / cycles:.0%} of the estimate" if cycles else ""
        yield f"busy {schedule.mxu_cycles:,.0f} cycles of a call at the least{share}"


def _blocks(schedule: Schedule) -> list[str]:
    kinds = [slot.kind for slot in schedule.slots if slot.kind not in _PART_OF]
    capacity = {slot.kind: slot.capacity for slot in schedule.slots}
    lines = [f"  {'blocks':<36}{'bundles':>8}{'own':>7}{'runs':>8}" + "".join(f"{kind:>7}" for kind in kinds)]
    for depth, block in _indented(schedule.kernel):
        name = f"{'  ' * depth}{block.name}{_trips(block)}"
        mark = "▶ " if block is schedule.hot else "  "
        used = ("" if not block.own_bundles else _share(block, kind, capacity[kind]) for kind in kinds)
        runs = "?" if block.runs is None else f"{block.runs:,}"
        lines.append(
            f"{mark}{_cut(name, 36):<36}{block.bundles:>8,}{block.own_bundles:>7,}{runs:>8}"
            + "".join(f"{share:>7}" for share in used)
        )
    return [
        *lines,
        "  ▶ the most MXU or VALU work; runs: in a call, ? where the dumps do not say; slots: share that a block's own",
        "  bundles use, of the MXU no measure of how busy it is",
    ]


def _indented(block: Block, depth: int = 0) -> Iterator[tuple[int, Block]]:
    yield depth, block
    for child in block.children:
        yield from _indented(child, depth + 1)


def _trips(block: Block) -> str:
    if block.kind != "loop":
        return ""
    return f", {_count(block.trips, 'trip')}" if block.trips is not None else ", trips from data"


def _share(block: Block, kind: str, capacity: int) -> str:
    used = block.slots.get(kind, 0)
    return f"{used / (capacity * block.own_bundles):.0%}" if used else "·"


def _slots(schedule: Schedule) -> list[str]:
    hot = schedule.hot
    lines = [f"slots of the hot block, {hot.name}: {_count(hot.own_bundles, 'bundle')}"]
    for slot in schedule.slots:
        used, there = hot.slots.get(slot.kind, 0), slot.capacity * hot.own_bundles
        share = used / there if there else 0.0
        filled = round(share * _BAR)
        bar = "█" * filled + "░" * (_BAR - filled)
        lines.append(f"  {slot.kind:<13}{bar} {share:>5.0%}  {used:>6,} of {there:>6,}")
    return lines


def _lines(schedule: Schedule) -> list[str]:
    hot = schedule.hot
    shown = [f"  {Path(place).name:<36}{count:>8,}" for place, count in list(hot.lines.items())[:_LINES]]
    more = [f"  and {_count(len(hot.lines) - _LINES, 'line')} more"] if len(hot.lines) > _LINES else []
    return [f"lines of the hot block, {hot.name}, and instructions from them", *shown, *more] if shown else []


def _memory(schedule: Schedule) -> list[str]:
    shown = [a for a in schedule.allocations if not a.fixed and a.bytes and a.space != "sflag"]
    shown.sort(key=lambda a: (a.space != "vmem", a.space, -(a.bytes or 0)))
    semaphores = sum((a.bytes or 0) // 4 for a in schedule.allocations if a.space == "sflag" and not a.fixed)
    lines = [f"  {a.space:<6}{size(a.bytes or 0):>10}  {a.kind:<16} {_cut(_purpose(a), 76)}" for a in shown]
    if semaphores:
        lines.append(f"  sflag {semaphores:>10}  semaphores")
    return ["memory", *lines] if lines else []


def _purpose(allocation: Allocation) -> str:
    if found := _WINDOW.search(allocation.tag):
        buffers = _BUFFERS.search(allocation.tag)
        times = f", {buffers[1]} buffers" if buffers else ""
        return f"operand {found[1]}: {found[2]} of {found[3]}{times}"
    return allocation.shape.partition("{")[0]


def _copies(schedule: Schedule) -> list[str]:
    if not schedule.dmas:
        return []
    lines = [f"copies: {_count(len(schedule.dmas), 'start')}, {_count(schedule.waits, 'wait')}"]
    for (where, _, _, _, _), alike in groupby(schedule.dmas, key=lambda dma: _likeness(dma, schedule)):
        lines.append(f"  {_copy(list(alike), where)}")
    return lines


def _likeness(dma: DMA, schedule: Schedule) -> tuple[str, str, str, int | None, Window | None]:
    """What copies share that stand in one line."""
    where = schedule.kernel.path(dma.address)[-1].name
    return where, dma.source, dma.destination, dma.bytes, dma.window


def _copy(alike: list[DMA], where: str) -> str:
    dma, last = alike[0], alike[-1]
    moved = size(dma.bytes) if dma.bytes is not None else "size from data"
    window = f", window {_dims(dma.window.window)} of {_dims(dma.window.operand)}" if dma.window else ""
    predicates = dict.fromkeys(dma.predicate for dma in alike if dma.predicate)
    condition = f", if {next(iter(predicates))}" if len(predicates) == 1 else ", each on a condition" * bool(predicates)
    times = f"{len(alike)} × " if len(alike) > 1 else ""
    until = f"–{last.address:#x}" if len(alike) > 1 else ""
    ends = f"{dma.source:>4} → {dma.destination:<5}"
    return f"{f'{dma.address:#x}{until}':<12} {ends}{times + moved:>14}  in {where}{window}{condition}"


def _dims(numbers: Sequence[int]) -> str:
    return "×".join(map(str, numbers))


def _count(count: int | None, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"
