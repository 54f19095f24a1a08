"""What the compiler noted before it gave out registers: the allocations, and the bounds of the loops."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from mosaic_tpu.aot.errors import DumpError

if TYPE_CHECKING:
    from collections.abc import Mapping

_ALLOCATION: Final = re.compile(
    r"#(?P<name>allocation\w+) \[shape = '(?P<shape>[^']*)', space=(?P<space>\w+), size = (?P<size>0x[0-9a-f]+|\d+)"
    r"(?:, offset = (?P<offset>0x[0-9a-f]+|\d+))?(?P<flags>(?:, \w+)*), tag = '(?P<tag>.*)'\]"
)
_REGION: Final = re.compile(r"\$region(\d+): #\{.*?\}(?: parent=(\d+))?(?: // (\w+))?")
_BOUNDS: Final = re.compile(r"loop: start=([^,]+), step=([^,]+), limit=(\S+)")
_BRANCH: Final = re.compile(r"= sbr\.\S+ .*target = \$region(\d+)")
# XLA writes this size for what it has given no place here: the output of another op.
_ELSEWHERE: Final = 0xFFFFFFFFFFFFFFFF
_KINDS: Final = (
    ("input window", "input window"),
    ("output window", "output window"),
    ("scratch operand", "scratch"),
    ("internal scratch", "internal scratch"),
    ("prefetched SMEM operand", "scalar prefetch"),
    ("operand span", "operand"),
    ("output of", "operand"),
    ("scoped memory", "semaphores"),
)


@dataclass(frozen=True)
class Allocation:
    """A stretch of memory that the kernel holds.

    Attributes:
        name: ``"allocation3"``.
        space: ``"vmem"``, ``"smem"``, ``"sflag"`` (semaphores) or another.
        bytes: its size; of all buffers where a window has several. None for what lies elsewhere.
        shape: XLA's shape, ``"f32[512,512]{1,0:T(8,128)}"``.
        tag: what the compiler says it is for.
        region: number of the region that holds it; 0 is the kernel.
        fixed: whether it is a place known to all programs, which costs the kernel nothing.
    """

    name: str
    space: str
    bytes: int | None
    shape: str
    tag: str
    region: int
    fixed: bool = False

    @property
    def kind(self) -> str:
        """Its purpose in a word or two: ``"input window"``, ``"scratch"``, ``"semaphores"`` …; else ``"other"``."""
        return next((kind for start, kind in _KINDS if self.tag.startswith(start)), "other")


@dataclass(frozen=True)
class LoopBounds:
    """A loop whose bounds the compiler knows.

    Attributes:
        start: first value of its index.
        step: what each trip adds.
        limit: the first value that is not reached.
    """

    start: int
    step: int
    limit: int

    @property
    def trips(self) -> int:
        """How often its body runs."""
        return max(0, -((self.start - self.limit) // self.step)) if self.step else 0


def read_allocations(text: str) -> tuple[Allocation, ...]:
    """The allocations of a dump, in order.

    Raises:
        DumpError: it is no such dump, or a line of it is cut.
    """
    _check(text)
    region, allocations = 0, list[Allocation]()
    for line in text.splitlines():
        bare = line.strip()
        if found := _REGION.match(bare):
            region = int(found[1])
        elif bare.startswith("#allocation"):
            allocations.append(_allocation(bare, region))
    return tuple(allocations)


def _allocation(line: str, region: int) -> Allocation:
    found = _ALLOCATION.match(line)
    if not found:
        raise DumpError(f"an allocation of an unknown form: {line[:100]!r}", op="read_allocations")
    size = int(found["size"], 0)
    return Allocation(
        name=found["name"],
        space=found["space"],
        bytes=None if size == _ELSEWHERE else size,
        shape=found["shape"],
        tag=found["tag"],
        region=region,
        fixed="fixed_abs" in found["flags"],
    )


@dataclass(frozen=True)
class Regions:
    """The regions of a kernel: its basic blocks, before they were scheduled.

    Attributes:
        bounds: of the loops that have constant ones, by the region that is the loop's body.
        known: every region there is.
        branches: the regions that end in a branch, by the region it leads to.
    """

    bounds: Mapping[int, LoopBounds]
    known: frozenset[int]
    branches: Mapping[int, tuple[int, ...]]


def read_regions(text: str) -> Regions:
    """The regions of a dump.

    Raises:
        DumpError: it is no such dump.
    """
    _check(text)
    known, bounds, branches = set[int](), dict[int, LoopBounds](), dict[int, tuple[int, ...]]()
    around: list[tuple[int, int]] = []  # Column and number of the regions that hold the line.
    announced: LoopBounds | None = None  # Bounds stand before the loop's pre-header.
    entered: dict[str, LoopBounds | None] = {}  # By parent: one loop at a time is between pre-header and body.
    for line in text.splitlines():
        bare = line.strip()
        column = len(line) - len(line.lstrip())
        if bare.startswith("loop:"):
            announced = _bounds(bare)
        elif found := _REGION.match(bare):
            number, parent, kind = int(found[1]), found[2], found[3]
            known.add(number)
            around = [*((c, n) for c, n in around if c < column), (column, number)]
            if kind == "loop_pre_header":
                entered[parent], announced = announced, None
            elif kind == "loop_body" and (found_bounds := entered.pop(parent, None)):
                bounds[number] = found_bounds
        elif found := _BRANCH.search(bare):
            homes = [n for c, n in around if c < column] or [0]
            branches[int(found[1])] = (*branches.get(int(found[1]), ()), homes[-1])
    return Regions(bounds, frozenset(known), branches)


def _bounds(line: str) -> LoopBounds | None:
    found = _BOUNDS.match(line)
    try:
        return LoopBounds(*(int(word, 0) for word in found.groups())) if found else None
    except ValueError:  # A register: the bound depends on data.
        return None


def _check(text: str) -> None:
    if "$region0:" not in text:
        raise DumpError("no region in the dump of registers and allocations", op="read_allocations")
