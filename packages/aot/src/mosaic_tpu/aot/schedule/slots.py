"""How many slots of each kind a bundle has, and how many of them each bundle uses."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from mosaic_tpu.aot.errors import DumpError

if TYPE_CHECKING:
    from collections.abc import Iterable

_CAPACITY: Final = re.compile(r"== CAPAC\w+:\n(.*)\n(.*)\n== UTILIZATION:\n")
SPILL: Final = "VSTORE:SPILL"
FILL: Final = "VLOAD:FILL"


@dataclass(frozen=True)
class SlotUse:
    """Use of the slots of a kind.

    Attributes:
        kind: the compiler's name: ``"MXU"`` (matrix), ``"XLU"`` (across lanes), ``"VALU"`` (vector arithmetic),
            ``"VPOP"`` (results of the units with a queue), ``"EUP"`` (transcendental), ``"VLOAD"``, ``"VSTORE"``,
            ``"SALU"`` (scalar). ``"VLOAD:FILL"`` and ``"VSTORE:SPILL"`` are those of the loads and stores that move
            registers.
        capacity: slots in a bundle.
        used: slots that all bundles together use.
        bundles: bundles there are.
    """

    kind: str
    capacity: int
    used: int
    bundles: int

    @property
    def share(self) -> float:
        """Used of all there are, 0 to 1. Of the MXU no measure of how busy it is: count matmuls times interval."""
        return self.used / (self.capacity * self.bundles) if self.capacity and self.bundles else 0.0


@dataclass(frozen=True)
class Utilization:
    """Slots of a kernel's bundles.

    Attributes:
        kinds: names, in the compiler's order.
        capacities: slots in a bundle, by kind.
        rows: used slots by bundle, then by kind.
    """

    kinds: tuple[str, ...]
    capacities: tuple[int, ...]
    rows: tuple[tuple[int, ...], ...]

    def over(self, addresses: Iterable[int]) -> dict[str, int]:
        """Slots that the bundles at some addresses use, by kind."""
        used = [0] * len(self.kinds)
        for address in addresses:
            for column, count in enumerate(self.rows[address]):
                used[column] += count
        return dict(zip(self.kinds, used, strict=True))

    @property
    def uses(self) -> tuple[SlotUse, ...]:
        """Of the whole kernel, kind by kind."""
        used = self.over(range(len(self.rows)))
        pairs = zip(self.kinds, self.capacities, strict=True)
        return tuple(SlotUse(kind, capacity, used[kind], len(self.rows)) for kind, capacity in pairs)


def read_utilization(text: str, bundles: int) -> Utilization:
    """The slots that each of a kernel's bundles uses.

    Args:
        text: the dump.
        bundles: how many there have to be.

    Raises:
        DumpError: it is no such dump, a row is damaged, or there are more or fewer rows than bundles.
    """
    head = _CAPACITY.match(text)
    if not head:
        raise DumpError("no capacities in the dump of slot use", op="read_utilization")
    kinds = tuple(kind.strip() for kind in head[1].split(","))
    capacities = _numbers(head[2], len(kinds))
    rows = tuple(_numbers(line, len(kinds)) for line in text[head.end() :].splitlines() if line.strip())
    if len(rows) != bundles:
        raise DumpError(f"slots of {len(rows)} bundles, but there are {bundles}", op="read_utilization")
    return Utilization(kinds, capacities, rows)


def _numbers(line: str, wanted: int) -> tuple[int, ...]:
    words = line.split()
    if len(words) != wanted or not all(word.isdecimal() for word in words):
        raise DumpError(f"a row of slot use is damaged: {line[:80]!r}", op="read_utilization")
    return tuple(map(int, words))
