"""Choices read from bytes.

A program is drawn from one string of random bytes, and not from many small strategies: hypothesis mutates what it drew
by copying parts of it, which makes most programs near copies of others, and takes longer than the program's check. It
shrinks bytes well: zeros, and what lies beyond the end, are the first choice, which is the simplest.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hypothesis import strategies as st

#: Enough for a program; what is beyond reads as zeros.
TAPES: Final = st.binary(min_size=200, max_size=600)
_BYTE: Final = 256


class Tape:
    """Reads choices, one or two bytes each."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def integer(self, low: int, high: int) -> int:
        """Both ends included."""
        count = high - low + 1
        number = self._byte()
        if count > _BYTE // 8:
            number += _BYTE * self._byte()
        return low + number % count

    def pick[T](self, options: Sequence[T]) -> T:
        """One of them; the first is the simplest."""
        return options[self.integer(0, len(options) - 1)]

    def boolean(self) -> bool:
        """False is simpler."""
        return self.integer(0, 1) == 1

    def chance(self) -> bool:
        """True in a quarter of cases."""
        return self.integer(0, 3) == 3

    def turned[T](self, options: Sequence[T]) -> list[T]:
        """All of them, from one on."""
        first = self.integer(0, len(options) - 1) if options else 0
        return [*options[first:], *options[:first]]

    def _byte(self) -> int:
        at, self._at = self._at, self._at + 1
        return self._data[at] if at < len(self._data) else 0
