"""How ops are written: a rule by op name, one file a dialect in `rules`; whatever has none is written generically."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from mosaic_tpu.lift._code import Node
from mosaic_tpu.lift._types import all_known
from mosaic_tpu.sim import ir

if TYPE_CHECKING:
    from mosaic_tpu.lift._writer import Writer

type Write = Callable[[Writer, ir.Operation], Node]
type When = Callable[[ir.Operation], bool]
#: Operands that may be Python numbers, in the order in which the helper makes constants of them.
type Slots = Callable[[ir.Operation], Sequence[ir.Value]]
#: What the result is called.
type Naming = str | Callable[[Writer, ir.Operation], str]


@dataclass(frozen=True)
class Rule:
    """How one op is written."""

    write: Write
    name: Naming
    slots: Slots | None
    attributes: Mapping[str, str | None]
    when: When | None
    number: Literal["", "right", "either"] = ""
    takes_number: When | None = None


RULES: Final[dict[str, Rule]] = {}


def rule(
    *ops: str,
    name: Naming,
    slots: Slots | None = None,
    attributes: Mapping[str, str | None] | None = None,
    when: When | None = None,
    number: Literal["", "right", "either"] = "",
    takes_number: When | None = None,
) -> Callable[[Write], Write]:
    """Register how ops are written.

    Args:
        ops: their names.
        name: what the result is called.
        slots: operands that may be numbers.
        attributes: those that the rule knows: the text that goes without saying, or ``None`` for any, which the rule
            writes. An op with others, or other texts, is written generically.
        when: what else must hold.
        number: which operand of an operator may be a number, with its broadcast.
        takes_number: for which ops that is so, if not for all.
    """

    def register(write: Write) -> Write:
        for op in ops:
            RULES[op] = Rule(write, name, slots, attributes or {}, when, number, takes_number)
        return write

    return register


def applies(found: Rule, op: ir.Operation) -> bool:
    """Whether a rule writes an op exactly: it knows all attributes, and the builder has all types."""
    known = found.attributes
    for key, text in op.attributes.raw.items():
        if key not in known:
            return False
        wanted = known[key]
        if wanted is not None and wanted != text:
            return False
    return all_known(op) and (found.when is None or found.when(op))
