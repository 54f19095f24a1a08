"""The picture of a roofline: ceilings of a generation on logarithmic axes, and the kernel below them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Final
from xml.sax.saxutils import escape

from mosaic_tpu.aot.schedule.svg import USED

if TYPE_CHECKING:
    from mosaic_tpu.aot._roofline import Roofline

type Scale = Callable[[float], float]

_WIDTH: Final = 640
_HEIGHT: Final = 360
_LEFT: Final = 64
_RIGHT: Final = 24
_TOP: Final = 40
_BOTTOM: Final = 48


def draw(found: Roofline) -> str:
    """The SVG of a roofline."""
    generation = found.target.generation
    clock = generation.clock_hz
    bandwidth = generation.hbm_bytes_per_second
    flops = found.work.total_flops
    peak = found.peak
    ridge = peak / bandwidth
    at = min(max(found.work.intensity, ridge / 1e4), ridge * 1e3) if flops else ridge
    low, high = min(at, ridge) / 8, max(at, ridge) * 8
    speed = flops / ((found.cycles or found.ideal_cycles) / clock) if flops else peak
    bottom = min(speed, bandwidth * low) / 2

    def x(intensity: float) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * math.log(intensity / low) / math.log(high / low)

    def y(rate: float) -> float:
        return _HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * math.log(rate / bottom) / math.log(peak * 2 / bottom)

    roof = f"M{x(low):.1f},{y(bandwidth * low):.1f} L{x(ridge):.1f},{y(peak):.1f} L{x(high):.1f},{y(peak):.1f}"
    kind = "estimated" if found.cycles else "at best"
    told = f"{found.name} for {found.target}: "
    told += f"{speed / 1e12:.3g} Tflop/s {kind}, {at:.3g} flop a byte" if flops else "no matmul"
    name = re.sub(r"\W+", "-", f"{found.name}-{found.target}-roofline")  # Several may stand on a page.
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
        f'aria-labelledby="{name}-title {name}-desc" fill="currentColor" '
        'font-family="system-ui, sans-serif" font-size="12">',
        f'<title id="{name}-title">Roofline of {escape(found.name)} for {found.target}</title>',
        f'<desc id="{name}-desc">{escape(told)}; it is bound by {found.bound}.</desc>',
        *_axis(low, high, bottom, peak * 2, x, y),
        f'<path d="{roof}" fill="none" stroke="currentColor" stroke-width="2"/>',
        _text(x(high) - 4, y(peak) - 6, f"{peak / 1e12:g} Tflop/s", "end"),
        _text(x(low * 1.5), y(bandwidth * low * 1.5) + 24, f"{bandwidth / 1e9:g} GB/s", "start"),
        *(_point(x(at), y(speed), found.name, left=at < ridge) if flops else []),
        _text(_WIDTH / 2, 20, told, "middle"),
        _text(_WIDTH / 2, _HEIGHT - 10, "flop a byte of HBM", "middle"),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _point(x: float, y: float, name: str, *, left: bool) -> list[str]:
    label = _text(x + (10 if left else -10), y + 18, name, "start" if left else "end")
    return [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" fill="{USED}"/>', label]


def _axis(low: float, high: float, bottom: float, top: float, x: Scale, y: Scale) -> list[str]:
    parts: list[str] = []
    for power in _powers(low, high):
        at = x(10.0**power)
        parts.append(_line(at, _TOP, at, _HEIGHT - _BOTTOM))
        parts.append(_text(at, _HEIGHT - _BOTTOM + 16, _number(power), "middle"))
    for power in _powers(bottom, top):
        at = y(10.0**power)
        parts.append(_line(_LEFT, at, _WIDTH - _RIGHT, at))
        parts.append(_text(_LEFT - 6, at + 4, _number(power - 12) + " T", "end"))
    return parts


def _powers(low: float, high: float) -> range:
    return range(math.ceil(math.log10(low)), math.floor(math.log10(high)) + 1)


def _number(power: int) -> str:
    return f"{10.0**power:g}"


def _line(x1: float, y1: float, x2: float, y2: float) -> str:
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="currentColor" stroke-opacity="0.15"/>'
    )


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'
