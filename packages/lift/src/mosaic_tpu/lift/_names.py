"""Names of values: what they are made of, without numbers where it can be, and taken again once a value is dead.

A name depends on nothing but the op and the values that live beside it, so that one op more changes names only where
its value, or those that it keeps alive, would have stood in the way.
"""

from __future__ import annotations

import builtins
import heapq
import keyword
import re
from typing import Final

from mosaic_tpu import builder

#: What no value is called: Python's own names, those that a kernel imports, the builder and its arguments.
RESERVED: Final = frozenset(
    (*dir(builtins), *keyword.kwlist, *keyword.softkwlist, *builder.__all__, "a", "b", "math", "l")
)
#: What functions are called that hold blocks which stand too far in; no value is.
APART: Final = "deeper"
_LONGEST: Final = 40


def identifier(text: str, otherwise: str) -> str:
    """A name in small letters that Python takes, from a text that may be anything."""
    plain = re.sub(r"[^a-z0-9]+", "_", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", text[:1000]).lower()).strip("_")[:_LONGEST]
    plain = plain.strip("_")
    if not plain or plain[0].isdigit():
        plain = f"{otherwise}_{plain}".strip("_")[:_LONGEST]
    return f"{plain}_" if plain in RESERVED or re.fullmatch(rf"{APART}(_\d+)?", plain) else plain


class Namer:
    """The names in use in one function."""

    def __init__(self, taken: frozenset[str] = RESERVED) -> None:
        self._taken = taken
        self._live: dict[str, tuple[str, int]] = {}
        self._next: dict[str, int] = {}
        self._freed: dict[str, list[int]] = {}

    def take(self, base: str) -> str:
        """A name that no living value has: the base, with the smallest number that is free."""
        freed = self._freed.get(base)
        while True:
            if freed:
                number = heapq.heappop(freed)
            else:
                number = self._next.get(base, 1)
                self._next[base] = number + 1
            name = base if number == 1 else f"{base}_{number}"
            if name not in self._live and name not in self._taken:
                self._live[name] = base, number
                return name

    def base(self, name: str) -> str:
        """A name without its number."""
        return self._live[name][0] if name in self._live else name

    def free(self, name: str) -> None:
        """The value is dead."""
        base, number = self._live.pop(name)
        heapq.heappush(self._freed.setdefault(base, []), number)
