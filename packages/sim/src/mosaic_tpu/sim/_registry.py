"""The table of rules: what each op becomes, and what is known of its effects."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from mosaic_tpu.sim._module import Operation

if TYPE_CHECKING:
    from mosaic_tpu.sim._emit import Emitter

type Rule = Callable[["Emitter", Operation], None]
RULES: Final[dict[str, Rule]] = {}
#: Ops without a rule, and why.
UNSUPPORTED: Final[dict[str, str]] = {}
#: Ops that make a value which may share memory with an operand; if that is a memref, with their first.
VIEWS: Final[set[str]] = set()
#: Ops that write memory, or let others write it.
WRITES: Final[set[str]] = set()
#: Ops that may have to wait, so that their function becomes a generator.
WAITS: Final[set[str]] = set()


def rule(*names: str, view: bool = False, writes: bool = False, waits: bool = False) -> Callable[[Rule], Rule]:
    """Register the rule of some ops."""

    def register(function: Rule) -> Rule:
        for name in names:
            RULES[name] = function
            if view:
                VIEWS.add(name)
            if writes or waits:
                WRITES.add(name)
            if waits:
                WAITS.add(name)
        return function

    return register
