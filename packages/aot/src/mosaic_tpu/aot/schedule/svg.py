"""A timeline of the slots that a loop's bundles use, as an SVG that stands on its own."""

from __future__ import annotations

import re
from html import escape
from typing import TYPE_CHECKING, Final

from mosaic_tpu.aot.schedule.slots import FILL, SPILL

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mosaic_tpu.aot.schedule.blocks import Block
    from mosaic_tpu.aot.schedule.schedule import Schedule

_WIDTH: Final = 960
_LEFT: Final = 92
_RIGHT: Final = 64
_TOP: Final = 46
_ROW: Final = 38
_GAP: Final = 8
_BAND: Final = 18
_COLUMNS: Final = 402  # Of two pixels each; a loop of more bundles is averaged.
#: Mid tones, three to one on a light and on a dark page, as WCAG 1.4.11 asks; all else is the text's colour.
USED: Final = "#3d7fd9"
MOVED: Final = "#c2660c"
_PART_OF: Final = {"VLOAD": FILL, "VSTORE": SPILL}
_TICKS: Final = 8
_LABEL_PIXELS: Final = 6.2


def timeline(schedule: Schedule) -> str:
    """The hot loop's bundles from left to right, a row for each kind of slot, full height where all are used."""
    loop = schedule.hot_loop
    kinds = [slot for slot in schedule.slots if slot.kind not in _PART_OF.values()]
    bands = [block for block in loop.walk() if block is not loop and block.bundles]
    depth = max((_level(loop, block) + 1 for block in bands), default=0)
    rows_top = _TOP + depth * (_BAND + 2) + _GAP
    bottom = rows_top + len(kinds) * (_ROW + _GAP)
    height = bottom + 34
    parts = [
        _head(schedule, loop, height),
        *_bands(schedule, loop, bands),
        *_hot_shade(schedule, loop, rows_top, bottom),
        *(
            line
            for row, slot in enumerate(kinds)
            for line in _row(schedule, loop, slot.kind, slot.capacity, rows_top + row * (_ROW + _GAP))
        ),
        *_axis(loop, bottom),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _head(schedule: Schedule, loop: Block, height: int) -> str:
    title = f"{schedule.op} on {schedule.target}: slots of the {_count(loop)} bundles of {loop.name}"
    shares = ", ".join(f"{slot.kind} {_share(schedule, loop, slot.kind, slot.capacity):.0%}" for slot in schedule.slots)
    label = escape(title)
    name = _name(schedule)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img" '
        f'aria-labelledby="{name}-title {name}-desc" font-family="system-ui, sans-serif" font-size="12" '
        f'fill="currentColor">\n'
        f'<title id="{name}-title">{label}</title>\n'
        f'<desc id="{name}-desc">{escape(f"Share of its slots that the loop uses, by kind: {shares}.")}</desc>\n'
        f'<pattern id="{_moved(schedule)}" width="4" height="4" patternUnits="userSpaceOnUse">'
        f'<rect width="4" height="4" fill="{MOVED}"/><path d="M0 4L4 0" stroke="currentColor"/></pattern>\n'
        f'<text x="{_LEFT}" y="18" font-size="14" font-weight="600">{label}</text>\n'
        f'<rect x="{_LEFT}" y="27" width="10" height="10" fill="{USED}"/>'
        f'<text x="{_LEFT + 15}" y="36">used</text>\n'
        f'<rect x="{_LEFT + 60}" y="27" width="10" height="10" fill="url(#{_moved(schedule)})"/>'
        f'<text x="{_LEFT + 75}" y="36">of these, fills and spills</text>'
    )


def _name(schedule: Schedule) -> str:
    """What its ids start with: several drawings may stand on a page."""
    return re.sub(r"\W+", "-", f"{schedule.op}-{schedule.target}-{schedule.hot_loop.start}")


def _moved(schedule: Schedule) -> str:
    """The id of the hatching of fills and spills, which no colour alone tells from the slots around them."""
    return f"{_name(schedule)}-moved"


def _bands(schedule: Schedule, loop: Block, blocks: Sequence[Block]) -> Iterator[str]:
    for block in blocks:
        level = _level(loop, block)
        left, right, y = _x(loop, block.start), _x(loop, block.stop), _TOP + level * (_BAND + 2)
        hot = block is schedule.hot
        name = f"{block.name}, hot" if hot else block.name
        yield (
            f"<g><title>{escape(f'{name}: {_count(block)} bundles')}</title>"
            f'<rect x="{left:.1f}" y="{y}" width="{max(right - left, 1):.1f}" height="{_BAND}" rx="3" '
            f'fill="{USED if hot else "currentColor"}" fill-opacity="{0.35 if hot else 0.15}"/>'
        )
        beside = [_x(loop, b.start) for b in blocks if b.start >= block.stop and _level(loop, b) == level]
        wide = len(name) * _LABEL_PIXELS + 8
        if wide < right - left:
            yield f'<text x="{left + 5:.1f}" y="{y + 13}" font-size="11">{escape(name)}</text>'
        elif right + wide < min(beside, default=_WIDTH - _RIGHT):
            yield f'<text x="{right + 5:.1f}" y="{y + 13}" font-size="11">{escape(name)}</text>'
        yield "</g>"


def _level(loop: Block, block: Block) -> int:
    """How deep a block lies in the loop: 0 for one that lies in nothing else."""

    def depth(outer: Block, level: int) -> int | None:
        for child in outer.children:
            if child is block:
                return level
            if (found := depth(child, level + 1)) is not None:
                return found
        return None

    return depth(loop, 0) or 0


def _hot_shade(schedule: Schedule, loop: Block, top: int, bottom: int) -> Iterator[str]:
    for first, last in schedule.hot.ranges:
        left, right = _x(loop, first), _x(loop, last)
        yield (
            f'<rect x="{left:.1f}" y="{top - 4}" width="{max(right - left, 1):.1f}" height="{bottom - top}" '
            f'fill="{USED}" fill-opacity="0.08"/>'
        )


def _row(schedule: Schedule, loop: Block, kind: str, capacity: int, top: int) -> Iterator[str]:
    base = top + _ROW
    share = _share(schedule, loop, kind, capacity)
    yield f'<text x="{_LEFT - 8}" y="{base - 14}" text-anchor="end">{escape(kind)}</text>'
    yield f'<text x="{_LEFT - 8}" y="{base - 1}" text-anchor="end" font-size="10" opacity="0.7">of {capacity}</text>'
    yield f'<path d="{_area(schedule, loop, kind, capacity, base)}" fill="{USED}"/>'
    if part := _PART_OF.get(kind):
        yield f'<path d="{_area(schedule, loop, part, capacity, base)}" fill="url(#{_moved(schedule)})"/>'
    right = _WIDTH - _RIGHT
    yield f'<path d="M{_LEFT} {base}H{right}" stroke="currentColor" stroke-opacity="0.4" fill="none"/>'
    yield f'<path d="M{_LEFT} {top}H{right}" stroke="currentColor" stroke-opacity="0.15" fill="none"/>'
    yield f'<text x="{right + 8}" y="{base - 8}">{share:.0%}</text>'


def _area(schedule: Schedule, loop: Block, kind: str, capacity: int, base: int) -> str:
    """The outline of a row: a step for each bundle, or for each of some columns that average several."""
    used = _column(schedule, kind)[loop.start : loop.stop]
    columns = min(_COLUMNS, len(used))
    outline = [f"M{_LEFT} {base}"]
    for column in range(columns):
        first, last = column * len(used) // columns, (column + 1) * len(used) // columns
        share = sum(used[first:last]) / ((last - first) * capacity) if capacity else 0.0
        outline.append(f"V{base - share * _ROW:.1f}H{_x(loop, loop.start + last):.1f}")
    return "".join([*outline, f"V{base}Z"])


def _axis(loop: Block, bottom: int) -> Iterator[str]:
    ticks = range(0, loop.bundles + 1, max(1, -(-loop.bundles // _TICKS)))
    for tick in ticks:
        x = _x(loop, loop.start + tick)
        yield f'<path d="M{x:.1f} {bottom}v5" stroke="currentColor" stroke-opacity="0.6" fill="none"/>'
        yield f'<text x="{x:.1f}" y="{bottom + 18}" text-anchor="middle" font-size="10">{loop.start + tick:#x}</text>'
    yield f'<text x="{_WIDTH - _RIGHT + 8}" y="{bottom + 18}" font-size="10" opacity="0.7">bundle</text>'


def _column(schedule: Schedule, kind: str) -> list[int]:
    index = schedule.utilization.kinds.index(kind)
    return [row[index] for row in schedule.utilization.rows]


def _share(schedule: Schedule, loop: Block, kind: str, capacity: int) -> float:
    used = _column(schedule, kind)[loop.start : loop.stop]
    return sum(used) / (capacity * len(used)) if capacity and used else 0.0


def _x(loop: Block, address: int) -> float:
    return _LEFT + (address - loop.start) / loop.bundles * (_WIDTH - _LEFT - _RIGHT)


def _count(block: Block) -> str:
    return f"{block.bundles:,}"
