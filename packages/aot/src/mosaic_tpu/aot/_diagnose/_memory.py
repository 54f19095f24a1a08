"""Memories that are too small, with what was asked for and what there is."""

from __future__ import annotations

import re
from typing import Final

from mosaic_tpu.aot._diagnose._cause import Cause
from mosaic_tpu.aot._text import size
from mosaic_tpu.aot.errors import (
    CompileError,
    ScopedVmemError,
    SemaphoreMemoryError,
    SmemError,
    VmemError,
)

_SPACES: Final[dict[str, tuple[str, type[CompileError]]]] = {
    "vmem": ("VMEM", VmemError),
    "smem": ("SMEM", SmemError),
    "sflag": ("semaphore memory", SemaphoreMemoryError),
    "hbm": ("HBM", CompileError),
}
_UNITS: Final = {"": 1, "B": 1, "b": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_SIZE: Final = r"([\d.]+)([BKMGb]?)"


def out_of_memory(raw: str) -> Cause | None:
    """The cause, if a memory is too small."""
    return _one_allocation(raw) or _scoped(raw) or _whole(raw)


def _one_allocation(raw: str) -> Cause | None:
    """A buffer that is larger than the memory itself."""
    found = re.search(r"Allocation \(size=(\d+)\) would exceed memory \(size=(\d+)\)", raw)
    if not found:
        return None
    space, error = _SPACES.get(_first(r"space=(\w+)", raw), ("memory", CompileError))
    what = _buffer(_first(r"tag = '([^']*)'", raw)) or "a buffer"
    shape = _first(r"shape = '(\w+\[[\d,]*\])", raw)
    # A window's buffer is counted in bytes: its own text has the shape.
    what += f" ({shape})" if shape and not shape.startswith("u8[") and "(" not in what else ""
    return Cause(error, f"{what} takes {size(int(found[1]))}, and {space} has {size(int(found[2]))}")


def _scoped(raw: str) -> Cause | None:
    """More than the limit that the kernel was compiled with."""
    found = used_and_limit(raw)
    if not found:
        return None
    used, limit = found
    space, error = _SPACES.get(_first(r"memory space (\w+)", raw), ("VMEM", VmemError))
    # What the compiler has counted so far: more may come on top, see `mosaic_tpu.aot._remedy`.
    summary = f"the kernel needs {size(used)} of {space} or more, and its limit is {size(limit)}"
    if error is VmemError:
        more = f"give vmem_limit_bytes={limit_above(used)} or more, or take smaller blocks"
        return Cause(ScopedVmemError, summary, more)
    return Cause(error, summary)


def used_and_limit(raw: str) -> tuple[int, int] | None:
    """Bytes that the compiler has counted, to hundredths of a MiB, and the limit; ``None`` of another refusal."""
    found = re.search(rf"Scoped allocation with size {_SIZE} and limit {_SIZE}", raw)
    return (_bytes(found[1], found[2]), _bytes(found[3], found[4])) if found else None


def limit_above(used: int) -> int:
    """In whole MiB, and above what the compiler has rounded to hundredths of one."""
    return -(-(used + (1 << 14)) // (1 << 20)) * (1 << 20)


def _whole(raw: str) -> Cause | None:
    """More than the memory has, all buffers together."""
    found = re.search(rf"Ran out of memory in memory space (\w+)\. Used {_SIZE} of {_SIZE}", raw)
    if not found:
        return None
    space, error = _SPACES.get(found[1], (found[1], CompileError))
    used, limit = _bytes(found[2], found[3]), _bytes(found[4], found[5])
    largest = re.search(rf"1\. Size: {_SIZE}[\s\S]*?Tag: ([^\n]*)", raw)
    named = f"; the largest is {_buffer(largest[3])}, {size(_bytes(largest[1], largest[2]))}" if largest else ""
    return Cause(error, f"the kernel needs {size(used)} of {space}, which has {size(limit)}{named}")


def _buffer(tag: str) -> str:
    """What a buffer is for."""
    window = re.match(r"(input|output) window allocation for operator (?:input|output) (\d+)", tag)
    if window:
        shape = _first(r"window shape is (\w+\[[\d,]*\])", tag)
        buffers = _first(r"allocation is (\w+) buffered", tag)
        facts = ", ".join(filter(None, (shape, f"{buffers} buffered" if buffers else "")))
        return f"the window of {window[1]} {window[2]}" + (f" ({facts})" if facts else "")
    prefetched = re.match(r"prefetched SMEM operand (\d+)", tag)
    if prefetched:
        return f"scalar prefetch operand {prefetched[1]}"
    return {"scratch operand": "a scratch buffer"}.get(tag, tag)


def _first(pattern: str, text: str) -> str:
    found = re.search(pattern, text)
    return found[1] if found else ""


def _bytes(number: str, unit: str) -> int:
    return round(float(number) * _UNITS[unit])
