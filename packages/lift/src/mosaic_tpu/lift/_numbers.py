"""Constants: the numbers they are, and which of them are written where they are used."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from mosaic_tpu.lift._registry import Rule
from mosaic_tpu.lift._types import DTYPES, known
from mosaic_tpu.sim import ir

_HEX: Final = re.compile(r"0[xX][0-9A-Fa-f]+")
_BITS: Final = {16: np.uint16, 32: np.uint32, 64: np.uint64}
type RuleOf = Callable[[ir.Operation], Rule | None]


def number(text: str, element: str) -> str | None:
    """Python's literal for a number as MLIR prints it, or ``None`` where no literal gives its bits."""
    dtype = DTYPES.get(element)
    if dtype is None:
        return None
    if dtype.is_float:
        if not _HEX.fullmatch(text):
            try:
                return repr(float(text)).replace("e+", "e")
            except ValueError:
                return None
        bits = _BITS.get(dtype.bits)
        if bits is None or dtype.numpy is None:
            return None
        value = float(np.array(int(text, 16), bits).view(dtype.numpy))
        return {np.inf: "math.inf", -np.inf: "-math.inf"}.get(value)
    if text in ("true", "false"):
        return text.capitalize()
    return text if re.fullmatch(r"-?\d+", text) else None


def scalar(op: ir.Operation | None) -> str | None:
    """The literal of a scalar constant."""
    if op is None or op.name != "arith.constant" or len(op.attributes.raw) != 1:
        return None
    type_ = op.results[0].type
    if type_.kind != "scalar":
        return None
    text = op.attributes.text("value")
    if text in ("true", "false"):
        return number(text, type_.element)
    value, _, element = text.partition(" : ")
    return number(value, type_.element) if element == type_.text else None


def splat(op: ir.Operation) -> str | None:
    """The literal of a vector constant whose elements are all the same."""
    type_ = op.results[0].type
    if op.name != "arith.constant" or len(op.attributes.raw) != 1 or not known(type_) or type_.kind != "vector":
        return None
    found = re.fullmatch(r'dense<([^\[\]">]+)> : (.*)', op.attributes.text("value"))
    return number(found[1], type_.element) if found is not None and found[2] == type_.text else None


class Inlined:
    """Which constants of a block are written where they are used.

    A helper makes constants of the numbers it is given, one after the other and right before its op. So a constant
    that nothing else takes is written as a number where it stands just there.
    """

    def __init__(self) -> None:
        #: Literals by value.
        self.literals: dict[ir.Value, str] = {}
        #: Ops that are not written by themselves.
        self.skipped: set[ir.Operation] = set()

    def plan(self, operations: Sequence[ir.Operation], rule_of: RuleOf) -> None:
        """Look through one block."""
        for place, op in enumerate(operations):
            if not op.operands or place == 0:
                continue
            rule = rule_of(op)
            if rule is None:
                continue
            if rule.number:
                if rule.takes_number is None or rule.takes_number(op):
                    self._operator(operations, place, op, rule)
            elif rule.slots is not None:
                self._slots(operations, place, rule.slots(op))

    def _slots(self, operations: Sequence[ir.Operation], place: int, values: Sequence[ir.Value]) -> None:
        for value in reversed(values):
            before = operations[place - 1]
            if place and value.definition is before and value.type.element in ("index", "i32"):
                literal = scalar(before) if len(value.users) == 1 else None
                if literal is not None:
                    self._inline(value, literal, before)
                    place -= 1

    def _operator(self, operations: Sequence[ir.Operation], place: int, op: ir.Operation, rule: Rule) -> None:
        lhs, rhs = op.operands
        for value in (rhs, lhs) if rule.number == "either" else (rhs,):
            made = value.definition
            if made is None or made is not operations[place - 1] or len(value.users) != 1:
                continue
            if value.type.kind == "scalar":
                if (literal := scalar(made)) is not None and value.type.element != "i1":
                    self._inline(value, literal, made)
                    return
            elif made.name == "vector.broadcast" and not made.attributes.raw and place > 1:
                source = made.operands[0]
                if source.definition is operations[place - 2] and len(source.users) == 1:
                    literal = scalar(source.definition)
                    if literal is not None and value.type.element not in ("i1", "index"):
                        self._inline(value, literal, made, source.definition)
                        return

    def _inline(self, value: ir.Value, literal: str, *ops: ir.Operation | None) -> None:
        self.literals[value] = literal
        self.skipped.update(op for op in ops if op is not None)
