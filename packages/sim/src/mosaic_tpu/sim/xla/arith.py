"""``arith.*``: integers wrap, floats narrower than f32 are computed in f32 and rounded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from mosaic_tpu.sim._module import Operation
from mosaic_tpu.sim._types import Type, parse_constant, wrap
from mosaic_tpu.sim.xla._elements import (
    Array,
    in_bytes,
    is_static,
    narrow,
    to_unsigned,
    widen,
)
from mosaic_tpu.sim.xla._rules import rule
from mosaic_tpu.sim.xla._translation import Translation
from mosaic_tpu.sim.xla._untyped import jnp, lax, operators

Binary = Callable[[Array, Array], Array]
Fold = Callable[[int, int], Any]


def signed(value: Any, of: Type) -> int:
    """A folded integer as a number: a true i1 is -1."""
    return -int(value) if of.element == "i1" else int(value)


def wrapped(value: int, of: Type) -> Any:
    """A folded integer in the range of its type."""
    return bool(value & 1) if of.element == "i1" else wrap(int(value), of.bits)


# --- integers ----------------------------------------------------------------------------------------------------


def _integer(name: str, compute: Binary, fold: Fold) -> None:
    @rule(name)
    def apply(t: Translation, op: Operation) -> Any:
        a, b = map(t.get, op.operands)
        if is_static(a) and is_static(b):
            return wrapped(fold(int(a), int(b)), op.result.type)
        made = in_bytes(compute)(*map(t.array, op.operands))
        if op.result.type.kind == "scalar":
            t.ranges.derive(name, a, b, made)
        return made


def unsigned(compute: Binary) -> Binary:
    """The same function of the bits as unsigned integers."""
    return lambda a, b: lax.bitcast_convert_type(in_bytes(compute)(to_unsigned(a), to_unsigned(b)), a.dtype)


def _of_masks(of_masks: Binary, of_integers: Binary) -> Binary:
    return lambda a, b: of_masks(a, b) if a.dtype == jnp.bool_ else of_integers(a, b)


_integer("arith.addi", _of_masks(lax.bitwise_xor, lax.add), operators.add)
_integer("arith.subi", _of_masks(lax.bitwise_xor, lax.sub), operators.sub)
_integer("arith.muli", _of_masks(lax.bitwise_and, lax.mul), operators.mul)
_integer("arith.andi", lax.bitwise_and, operators.and_)
_integer("arith.ori", lax.bitwise_or, operators.or_)
_integer("arith.xori", lax.bitwise_xor, operators.xor)
_integer("arith.maxsi", _of_masks(lax.bitwise_and, lax.max), max)
_integer("arith.minsi", _of_masks(lax.bitwise_or, lax.min), min)


def _unsigned_fold(name: str, compute: Binary, fold: Fold) -> None:
    @rule(name)
    def apply(t: Translation, op: Operation) -> Any:
        a, b = map(t.get, op.operands)
        if is_static(a) and is_static(b):
            mask = (1 << op.result.type.bits) - 1
            return wrapped(fold(int(a) & mask, int(b) & mask), op.result.type)
        return unsigned(compute)(*map(t.array, op.operands))


_unsigned_fold("arith.maxui", _of_masks(lax.bitwise_or, lax.max), max)
_unsigned_fold("arith.minui", _of_masks(lax.bitwise_and, lax.min), min)


def _quotient(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _floor(a: Array, b: Array) -> Array:
    found = lax.div(a, b)
    return lax.select((lax.rem(a, b) != 0) & ((a < 0) != (b < 0)), found - ones(a), found)


def _ceil(a: Array, b: Array) -> Array:
    found = lax.div(a, b)
    return lax.select((lax.rem(a, b) != 0) & ((a < 0) == (b < 0)), found + ones(a), found)


def ones(like: Array) -> Array:
    """As many ones."""
    return lax.full_like(like, 1)


def _division(name: str, compute: Binary, fold: Fold, *, signed: bool = True) -> None:
    @rule(name)
    def apply(t: Translation, op: Operation) -> Any:
        a, b = map(t.get, op.operands)
        of = op.result.type
        if is_static(b) and b == 0:
            t.fail_if(True, op)
            return wrapped(0, of)
        if is_static(a) and is_static(b):
            mask = -1 if signed else (1 << of.bits) - 1
            return wrapped(fold(int(a) & mask, int(b) & mask), of)
        x, y = map(t.array, op.operands)
        function = in_bytes(compute) if signed else unsigned(compute)
        if is_static(b):
            made = function(x, y)
        else:
            zero = lax.eq(y, lax.full_like(y, 0))
            if t.checks:
                t.fail_if(any_of(zero), op)
            made = lax.select(zero, lax.full_like(x, 0), function(x, lax.select(zero, ones(y), y)))
        if of.kind == "scalar":
            t.ranges.derive(name, a, b, made)
        return made


def any_of(mask: Array) -> Array:
    """Whether any element holds."""
    return mask if not np.ndim(mask) else jnp.any(mask)


_division("arith.divsi", lax.div, _quotient)
_division("arith.remsi", lax.rem, lambda a, b: a - b * _quotient(a, b))
_division("arith.divui", lax.div, operators.floordiv, signed=False)
_division("arith.remui", lax.rem, operators.mod, signed=False)
_division("arith.floordivsi", _floor, operators.floordiv)
_division("arith.ceildivsi", _ceil, lambda a, b: -(-a // b))
_division("arith.ceildivui", _ceil, lambda a, b: -(-a // b), signed=False)


def _shift(name: str, compute: Binary, fold: Fold, *, signed: bool = True) -> None:
    @rule(name)
    def apply(t: Translation, op: Operation) -> Any:
        a, b = map(t.get, op.operands)
        of = op.result.type
        if is_static(b) and not 0 <= b < of.bits:
            t.fail_if(True, op)
            return wrapped(0, of)
        if is_static(a) and is_static(b):
            mask = -1 if signed else (1 << of.bits) - 1
            return wrapped(fold(int(a) & mask, int(b)), of)
        x, y = map(t.array, op.operands)
        function = in_bytes(compute) if signed else unsigned(compute)
        if is_static(b):
            return function(x, y)
        amount = to_unsigned(y)
        past = in_bytes(lax.ge)(amount, lax.full_like(amount, of.bits))
        if t.checks:
            t.fail_if(any_of(past), op)
        return lax.select(past, lax.full_like(x, 0), function(x, y))


_shift("arith.shli", lax.shift_left, operators.lshift)
_shift("arith.shrsi", lax.shift_right_arithmetic, operators.rshift)
_shift("arith.shrui", lax.shift_right_logical, operators.rshift, signed=False)


def _halves(x: Array) -> tuple[Array, Array]:
    return x & np.uint32(0xFFFF), lax.shift_right_logical(x, lax.full_like(x, 16))


def _high_unsigned(a: Array, b: Array) -> Array:
    """The upper 32 bits of the product of u32 numbers: there is no u64 to compute it in."""
    (a0, a1), (b0, b1) = _halves(a), _halves(b)
    middle = a1 * b0 + _halves(a0 * b0)[1]
    low, high = _halves(middle)
    return a1 * b1 + high + _halves(low + a0 * b1)[1]


@rule("arith.mului_extended", "arith.mulsi_extended")
def _multiply_extended(t: Translation, op: Operation) -> Any:
    a, b = map(t.array, op.operands)
    bits = op.operands[0].type.bits
    signed = op.name == "arith.mulsi_extended"
    if bits < 32:
        wide = np.int32 if signed else np.uint32
        x, y = ((v if signed else to_unsigned(v)).astype(wide) for v in (a, b))
        product = x * y
        return product.astype(a.dtype), lax.shift_right_logical(product, lax.full_like(product, bits)).astype(a.dtype)
    high = lax.bitcast_convert_type(_high_unsigned(to_unsigned(a), to_unsigned(b)), np.int32)
    if signed:
        zero = lax.full_like(a, 0)
        high = high - lax.select(a < 0, b, zero) - lax.select(b < 0, a, zero)
    return lax.mul(a, b), high


@rule("arith.addui_extended")
def _add_extended(t: Translation, op: Operation) -> Any:
    a, b = map(t.array, op.operands)
    total = lax.add(a, b)
    return total, in_bytes(lax.lt)(to_unsigned(total), to_unsigned(a))


@rule("arith.subui_extended")
def _subtract_extended(t: Translation, op: Operation) -> Any:
    a, b = map(t.array, op.operands)
    return lax.sub(a, b), in_bytes(lax.lt)(to_unsigned(a), to_unsigned(b))


# --- floats ------------------------------------------------------------------------------------------------------


def rounded(compute: Callable[..., Array], *, exact: bool = False) -> Callable[..., Array]:
    """A float function of narrow types: computed in f32, then rounded unless the result needs no rounding."""

    def apply(*args: Array) -> Array:
        dtype = args[0].dtype
        made = compute(*map(widen, args))
        return made.astype(dtype) if exact or dtype.itemsize >= 4 else narrow(made, dtype)

    return apply


def elementwise(name: str, compute: Callable[..., Array], *, exact: bool = False) -> None:
    """Register a float function of one or more operands of one type."""
    function = rounded(compute, exact=exact)

    @rule(name)
    def apply(t: Translation, op: Operation) -> Any:
        return function(*map(t.array, op.operands))


def _ignoring_nan(choose: Binary) -> Binary:
    return lambda a, b: lax.select(a != a, b, lax.select(b != b, a, choose(a, b)))


elementwise("arith.addf", lax.add)
elementwise("arith.subf", lax.sub)
elementwise("arith.mulf", lax.mul)
elementwise("arith.divf", lax.div)
elementwise("arith.remf", lax.rem)
elementwise("arith.negf", lax.neg, exact=True)
elementwise("arith.maximumf", lax.max, exact=True)
elementwise("arith.minimumf", lax.min, exact=True)
for _name in ("arith.maxnumf", "arith.maximumnumf"):
    elementwise(_name, _ignoring_nan(lax.max), exact=True)
for _name in ("arith.minnumf", "arith.minimumnumf"):
    elementwise(_name, _ignoring_nan(lax.min), exact=True)

# --- comparison, selection ---------------------------------------------------------------------------------------

_ORDER: Final = [(getattr(lax, name), getattr(operators, name)) for name in ("lt", "le", "gt", "ge")]
#: By predicate: equal, not equal, signed comparisons, unsigned ones.
_INTEGER: Final = [(lax.eq, operators.eq), (lax.ne, operators.ne), *_ORDER, *_ORDER]
_UNSIGNED: Final = 6
_FLOAT: Final[tuple[Binary | None, ...]] = (None, lax.eq, lax.gt, lax.ge, lax.lt, lax.le, lax.ne)
_ORDERED, _UNORDERED, _TRUE = 7, 14, 15


@rule("arith.cmpi")
def _compare_integers(t: Translation, op: Operation) -> Any:
    predicate = op.attributes.integer("predicate")
    compute, fold = _INTEGER[predicate]
    a, b = map(t.get, op.operands)
    of = op.operands[0].type
    if is_static(a) and is_static(b):
        mask = (1 << of.bits) - 1
        return fold(int(a) & mask, int(b) & mask) if predicate >= _UNSIGNED else fold(signed(a, of), signed(b, of))
    made_by = op.operands[0].definition
    if predicate == 1 and is_static(b) and b == 0 and made_by is not None and made_by.name == "arith.extui":
        source = made_by.operands[0]
        if source.type.element == "i1" and source in t.values:
            return t.get(source)  # the round trip of a condition through i32
    x, y = map(t.array, op.operands)
    if of.element == "i1" and predicate < _UNSIGNED:
        x, y = (in_order(v) for v in (x, y))
    return in_bytes(compute)(*map(to_unsigned, (x, y)) if predicate >= _UNSIGNED else (x, y))


def in_order(x: Array) -> Array:
    """Masks as numbers: true is -1."""
    return lax.neg(x.astype(np.int8))


@rule("arith.cmpf")
def _compare_floats(t: Translation, op: Operation) -> Any:
    predicate = op.attributes.integer("predicate")
    a, b = map(widen, map(t.array, op.operands))
    if predicate in (0, _TRUE):
        return predicate == _TRUE
    ordered = lax.bitwise_and(lax.eq(a, a), lax.eq(b, b))
    if predicate in (_ORDERED, _UNORDERED):
        return ordered if predicate == _ORDERED else lax.bitwise_not(ordered)
    compute = _FLOAT[predicate if predicate < _ORDERED else predicate - _ORDERED]
    assert compute is not None
    found = compute(a, b)
    # Not equal is true of NaN, `one` and `une` alike: see the rule of the other engine.
    unordered = predicate > _ORDERED and compute is not lax.ne
    return lax.bitwise_or(found, lax.bitwise_not(ordered)) if unordered else found


@rule("arith.select", moves=True)
def _select(t: Translation, op: Operation) -> Any:
    condition, yes, no = map(t.get, op.operands)
    if is_static(condition):
        return yes if condition else no
    made = lax.select(condition, t.array(op.operands[1]), t.array(op.operands[2]))
    if op.result.type.kind == "scalar":
        (low, high), (low2, high2) = t.ranges.of(yes), t.ranges.of(no)
        t.ranges.set(made, min(low, low2), max(high, high2))
    return made


# --- constants ---------------------------------------------------------------------------------------------------


@rule("arith.constant")
def _constant(t: Translation, op: Operation) -> Any:
    return parse_constant(op.attributes.text("value"))
