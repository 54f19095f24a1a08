"""What is known of the integers that index memory, so that fewer bounds are checked at run time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

Range = tuple[int, int]
ALL: Final[Range] = (-(1 << 31), (1 << 31) - 1)


def _product(a: Range, b: Range) -> Range:
    corners = [x * y for x in a for y in b]
    return min(corners), max(corners)


def _quotient(a: Range, b: Range) -> Range:
    return (a[0] // b[1], a[1] // b[0]) if a[0] >= 0 and b[0] > 0 else ALL


def _remainder(a: Range, b: Range) -> Range:
    return (0, min(a[1], b[1] - 1)) if a[0] >= 0 and b[0] > 0 else ALL


def _conjunction(a: Range, b: Range) -> Range:
    return (0, min(a[1], b[1])) if a[0] >= 0 and b[0] >= 0 else ALL


#: How the range of an op's result follows from those of its operands.
_OPS: Final[dict[str, Callable[[Range, Range], Range]]] = {
    "arith.addi": lambda a, b: (a[0] + b[0], a[1] + b[1]),
    "arith.subi": lambda a, b: (a[0] - b[1], a[1] - b[0]),
    "arith.muli": _product,
    "arith.divsi": _quotient,
    "arith.remsi": _remainder,
    "arith.andi": _conjunction,
    "arith.minsi": lambda a, b: (min(a[0], b[0]), min(a[1], b[1])),
    "arith.maxsi": lambda a, b: (max(a[0], b[0]), max(a[1], b[1])),
}


class Ranges:
    """Bounds of traced scalars, by identity."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Any, Range]] = {}

    def of(self, value: Any) -> Range:
        """The least and the greatest an integer can be."""
        if isinstance(value, int):
            return value, value
        found = self._known.get(id(value))
        return ALL if found is None else found[1]

    def set(self, value: Any, low: int, high: int) -> None:
        """Record what is known of a traced integer of 32 bits; narrower ones wrap, and a true i1 is -1."""
        known = (low, high) != ALL and ALL[0] <= low and high <= ALL[1]
        if known and not isinstance(value, int) and value.dtype == np.int32:
            self._known[id(value)] = value, (low, high)  # kept alive: its identity is the key

    def derive(self, name: str, a: Any, b: Any, result: Any) -> None:
        """Record what an op makes of two integers; nothing where it may wrap."""
        op = _OPS.get(name)
        if op is not None and not isinstance(result, int):
            self.set(result, *op(self.of(a), self.of(b)))
