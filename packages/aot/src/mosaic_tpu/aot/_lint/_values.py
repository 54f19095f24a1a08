"""What the compiler can prove of an integer before the kernel runs.

Its proof is syntactic, and so is this one: constants, ``tpu.assume_multiple``, a product with a provable factor, sums,
differences, remainders, minima, maxima and choices of provable numbers. Shifts, masks, quotients, grid indices, loop
counters and what is loaded are not provable, whatever their steps (measured on v6e: an ``scf.for`` with a step of 8
does not do, the counter times 8 does).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from mosaic_tpu.sim import ir

_SAME: Final = ("arith.index_cast", "arith.index_castui", "arith.extsi", "arith.extui", "arith.trunci")
_BOTH: Final = ("arith.subi", "arith.remsi", "arith.remui", "arith.minsi", "arith.maxsi", "arith.minui", "arith.maxui")
#: How far a value is followed.
_FUEL: Final = 40
#: Powers of two that are tried.
_POWERS: Final = tuple(1 << n for n in range(12, -1, -1))


class Prover:
    """Proofs about the integers of a kernel.

    Args:
        known: numbers of values that no op makes, by their index: counters of loops that run once.
    """

    def __init__(self, known: Mapping[int, int]) -> None:
        self._known = known

    def constant(self, value: ir.Value, fuel: int = _FUEL) -> int | None:
        """The number that a value is whatever the data; ``None`` if there is none."""
        op = value.definition
        if op is None:
            return self._known.get(value.index)
        if fuel == 0:
            return None
        if op.name == "arith.constant":
            integral = value.type.kind == "scalar" and not value.type.is_float
            return op.attributes.integers("value")[0] if integral else None
        if op.name in (*_SAME, "tpu.assume_multiple"):
            return self.constant(op.operands[0], fuel - 1)
        if op.name not in ("arith.addi", "arith.subi", "arith.muli"):
            return None
        x, y = (self.constant(v, fuel - 1) for v in op.operands)
        if x is None or y is None:
            return None
        return x + y if op.name == "arith.addi" else x - y if op.name == "arith.subi" else x * y

    def is_multiple(self, values: Sequence[ir.Value], number: int) -> bool:
        """Whether the sum of values is provably a multiple of a number."""
        if number == 1:
            return True
        total = 0
        for term in (term for value in values for term in _terms(value, _FUEL)):
            known = self.constant(term)
            if known is not None:
                total += known
            elif not self._provable(term, number, _FUEL):
                return False
        return total % number == 0

    def power_of(self, values: Sequence[ir.Value]) -> int:
        """The largest power of two, up to 4096, that provably divides the sum of values."""
        return next(power for power in _POWERS if self.is_multiple(values, power))

    def sum_of(self, values: Sequence[ir.Value]) -> int | None:
        """The sum of values, if all are constants."""
        known = [self.constant(v) for v in values]
        return None if None in known else sum(k for k in known if k is not None)

    def _provable(self, value: ir.Value, number: int, fuel: int) -> bool:
        op = value.definition
        if op is None or fuel == 0:
            return False
        if (known := self.constant(value)) is not None:
            return known % number == 0
        operands = op.operands
        match op.name:
            case "tpu.assume_multiple":
                said = op.attributes.integer("multiple") % number == 0
                return said or self._provable(operands[0], number, fuel - 1)
            case "arith.muli":
                whole = self._factor(value, fuel) % number == 0
                return whole or any(self._provable(v, number, fuel // 2) for v in operands)
            case "arith.addi":
                return self.is_multiple(operands, number)
            case "arith.select":
                return self._all(operands[1:], number, fuel)
            case name if name in _BOTH:
                return self._all(operands, number, fuel)
            case name if name in _SAME:
                return self._provable(operands[0], number, fuel - 1)
            case _:
                return False

    def _all(self, values: Sequence[ir.Value], number: int, fuel: int) -> bool:
        return all(self._provable(v, number, fuel - 1) for v in values)

    def _factor(self, value: ir.Value, fuel: int) -> int:
        """The constants of a chain of products, which the compiler multiplies first."""
        op = value.definition
        if op is None or fuel == 0:
            return 1
        if op.name in _SAME:
            return self._factor(op.operands[0], fuel - 1)
        if op.name != "arith.muli":
            return 1
        for one, other in (op.operands, op.operands[::-1]):
            if (known := self.constant(one)) is not None:
                return known * self._factor(other, fuel - 1)
        return 1


def prover_of(operations: Iterable[ir.Operation]) -> Prover:
    """A prover that knows the loops of a kernel: the counter of one that runs once is its first number."""
    known: dict[int, int] = {}
    prover = Prover(known)
    for op in operations:
        if op.name == "scf.for" and op.regions and op.regions[0].arguments:
            lower, upper, step = (prover.constant(v) for v in op.operands[:3])
            if lower is not None and upper is not None and step is not None and lower < upper <= lower + step:
                known[op.regions[0].arguments[0].index] = lower
    return prover


def _terms(value: ir.Value, fuel: int) -> Iterator[ir.Value]:
    """The terms of a sum: the compiler adds up its constants first."""
    op = value.definition
    if op is not None and op.name in _SAME and fuel:
        yield from _terms(op.operands[0], fuel - 1)
    elif op is not None and op.name == "arith.addi" and fuel:
        for operand in op.operands:
            yield from _terms(operand, fuel - 1)
    else:
        yield value
