"""Operations element by element: arithmetic, comparisons, selects, casts, math."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from conformance.fuzz.ops import add, pair, selected, single
from conformance.fuzz.tracked import (
    BF16,
    F32,
    UNIT,
    Array,
    Tracked,
    denormal,
    is_float,
    known_if,
    magnitude,
    rounded,
    rounding_now,
    to_bf16,
    to_f32,
    wide,
)
from mosaic_tpu.builder import Builder, Value, bf16, f32, i1, i8, i16, i32

INTEGERS = ("i32", "u32")
FLOATS = ("f32", "bf16")

# --- integers --------------------------------------------------------------------------------------------------------


def _integer(function: Callable[..., Array]) -> Callable[..., Tracked]:
    """Exact where the operands are; wraps."""

    def compute(*args: Any) -> Tracked:
        arrays = [a for a in args if isinstance(a, Tracked)]
        with np.errstate(all="ignore"):
            value = function(*[a.value if isinstance(a, Tracked) else a for a in args])
        value = np.asarray(value)
        if value.dtype != np.bool_:
            value = value.astype(arrays[0].dtype)
        return Tracked(value, sum((a.error for a in arrays), np.zeros(value.shape)))

    return compute


def _add_integer(name: str, emit: Callable[..., Value], function: Callable[..., Array], **more: Any) -> None:
    add(name, pair(*INTEGERS, **more), emit, _integer(function))


def _truncated(x: Array, y: Array) -> Array:
    """Division towards zero."""
    a, b = x.astype(np.int64), y.astype(np.int64)
    return np.sign(a) * np.sign(b) * (np.abs(a) // np.abs(b))


def _divisor(y: Array) -> Array:
    return (y & 7) + 1


_add_integer("addi", lambda b, x, y: x + y, np.add)
_add_integer("subi", lambda b, x, y: x - y, np.subtract)
_add_integer("muli", lambda b, x, y: x * y, np.multiply)
_add_integer("andi", lambda b, x, y: x & y, np.bitwise_and)
_add_integer("ori", lambda b, x, y: x | y, np.bitwise_or)
_add_integer("xori", lambda b, x, y: x ^ y, np.bitwise_xor)
_add_integer("mini", lambda b, x, y: b.pallas.minimum(x, y), np.minimum)
_add_integer("maxi", lambda b, x, y: b.pallas.maximum(x, y), np.maximum)
_add_integer("shift_left", lambda b, x, y: x << (y & 31), lambda x, y: x << (y & 31))
_add_integer("shift_right", lambda b, x, y: x >> (y & 31), lambda x, y: x >> (y & 31))
_add_integer("divi", lambda b, x, y: b.pallas.div(x, (y & 7) + 1), lambda x, y: _truncated(x, _divisor(y)))
_add_integer(
    "remi",
    lambda b, x, y: b.pallas.rem(x, (y & 7) + 1),
    lambda x, y: x.astype(np.int64) - _truncated(x, _divisor(y)) * _divisor(y).astype(np.int64),
)
for name, function in (("floor_divide", np.floor_divide), ("remainder", np.remainder)):
    add(
        name,
        single("i32", params=[(3,), (-5,), (16,)]),
        lambda b, x, n, name=name: getattr(b.pallas, name)(x, n),
        _integer(lambda x, n, function=function: function(x.astype(np.int64), n)),
    )
add("negi", single("i32"), lambda b, x: -x, _integer(np.negative))
add("noti", single(*INTEGERS), lambda b, x: ~x, _integer(np.invert))
add("absi", single("i32"), lambda b, x: abs(x), _integer(np.abs))
add("sign", single("i32"), lambda b, x: b.pallas.sign(x), _integer(np.sign))
for name, function in (("and", np.logical_and), ("or", np.logical_or), ("xor", np.logical_xor)):
    operator: Any = {"and": Value.__and__, "or": Value.__or__, "xor": Value.__xor__}[name]
    add(f"mask_{name}", pair("i1"), lambda b, x, y, operator=operator: operator(x, y), _integer(function))
add("mask_not", single("i1"), lambda b, x: ~x, _integer(np.logical_not))

# --- floats ----------------------------------------------------------------------------------------------------------


def _like(result: Tracked, *operands: Tracked) -> Tracked:
    """An f32 result, rounded to the operands' dtype."""
    return to_bf16(result) if operands[0].dtype == BF16 else result


def _float(
    function: Callable[..., Array], propagate: Callable[..., Array], ulps: float = 0.0
) -> Callable[..., Tracked]:
    """Computed in f32, and rounded to the operands' dtype."""

    def compute(*operands: Tracked) -> Tracked:
        given = [to_f32(x) for x in operands]
        with np.errstate(all="ignore"):
            value = np.asarray(function(*[x.value for x in given]), np.float32)
            moved = np.zeros(value.shape)
            if any(x.error.any() for x in given):
                moved = np.asarray(propagate(*given), np.float64)
                moved = np.where(sum(x.error for x in given) > 0, moved, 0.0)
            return _like(rounded(value, moved, tuple(given), ulps=ulps), *operands)

    return compute


def _sum_of_errors(*operands: Tracked) -> Array:
    return sum((x.error for x in operands[1:]), operands[0].error)


def _product_error(x: Tracked, y: Tracked) -> Array:
    return np.abs(wide(x)) * y.error + np.abs(wide(y)) * x.error + x.error * y.error


def _quotient_error(x: Tracked, y: Tracked) -> Array:
    """How far a quotient moves; unknown where the divisor may be zero."""
    size, least = np.abs(wide(y)), np.abs(wide(y)) - y.error
    return np.where(least > 0, (x.error + np.abs(wide(x)) / size * y.error) / np.where(least > 0, least, 1.0), np.inf)


add("addf", pair(*FLOATS), lambda b, x, y: x + y, _float(np.add, _sum_of_errors))
add("subf", pair(*FLOATS), lambda b, x, y: x - y, _float(np.subtract, _sum_of_errors))
add("mulf", pair(*FLOATS), lambda b, x, y: x * y, _float(np.multiply, _product_error))
add("divf", pair("f32"), lambda b, x, y: x / y, _float(np.divide, _quotient_error, ulps=3))
add("negf", single(*FLOATS), lambda b, x: -x, _float(lambda x: np.float32(0) - x, _sum_of_errors))
add("absf", single(*FLOATS), lambda b, x: abs(x), _float(np.abs, _sum_of_errors))
add("scale", single(*FLOATS, params=[(0.5,), (-3.0,)]), lambda b, x, n: x * n, lambda x, n: _scaled(x, n))
add("floor", single("f32", scalars=False), lambda b, x: b.floor(x), lambda x: _stepwise(np.floor, x))
add("ceil", single("f32", scalars=False), lambda b, x: b.ceil(x), lambda x: _stepwise(np.ceil, x))


def _scaled(x: Tracked, n: float) -> Tracked:
    return _float(lambda v: v * np.float32(n), lambda t: t.error * abs(n))(x)


def _stepwise(function: Callable[[Array], Array], x: Tracked) -> Tracked:
    """Exact if the whole interval gives one value."""
    with np.errstate(all="ignore"):
        same = function(wide(x) - x.error) == function(wide(x) + x.error)
        return Tracked(function(x.value), known_if((same | (x.error == 0)) & ~_flushed(x)))


def _flushed(*operands: Tracked) -> Array:
    """Where an engine that flushes denormals has something to flush."""
    found = np.zeros(operands[0].shape, np.bool_)
    if rounding_now().flushes:
        for x in operands:
            found = found | denormal(x)
    return found


def _extreme(function: Callable[..., Array]) -> Callable[..., Tracked]:
    """A minimum or maximum: one of two zeros with different signs may be either."""

    def compute(x: Tracked, y: Tracked) -> Tracked:
        with np.errstate(all="ignore"):
            value = function(x.value, y.value).astype(x.dtype)
            error = np.maximum(x.error, y.error)
            zeros = (x.value == 0) & (y.value == 0)
            error = np.where(zeros, np.maximum(error, np.finfo(np.float64).tiny), error)
            unsure = np.isnan(wide(Tracked(value, error))) & (error > 0)
        return Tracked(value, np.where(unsure | _flushed(x, y), np.inf, error))

    return compute


add("minf", pair(*FLOATS), lambda b, x, y: b.pallas.minimum(x, y), _extreme(np.minimum))
add("maxf", pair(*FLOATS), lambda b, x, y: b.pallas.maximum(x, y), _extreme(np.maximum))

#: Largest error of an engine's function in ulps, far above libm's and XLA's.
_ULPS = 8


def _math(
    name: str,
    emit: Callable[[Builder, Value], Value],
    function: Callable[[Array], Array],
    propagate: Callable[[Tracked], Array],
) -> None:
    """A function of math: f64's, rounded; in a range in which it neither overflows nor underflows."""
    compute = _float(lambda x: function(x.astype(np.float64)).astype(np.float32), propagate, ulps=_ULPS)
    add(name, single("f32", scalars=False), emit, compute)


def _clamped(x: Array) -> Array:
    return np.minimum(np.maximum(x, -8.0), 8.0)


_math(
    "exp",
    lambda b, x: b.exp(b.pallas.minimum(b.pallas.maximum(x, -8.0), 8.0)),
    lambda x: np.exp(_clamped(x)),
    lambda x: np.exp(_clamped(wide(x))) * np.expm1(x.error),
)
_math("tanh", lambda b, x: b.tanh(x), np.tanh, lambda x: x.error)
_math(
    "sqrt",
    lambda b, x: b.sqrt(abs(x) + 1.0),
    lambda x: np.sqrt((np.abs(x).astype(np.float32) + np.float32(1)).astype(np.float64)),
    lambda x: x.error + 2 * UNIT * (magnitude(x) + 1),
)
_math(
    "rsqrt",
    lambda b, x: b.rsqrt(abs(x) + 1.0),
    lambda x: 1 / np.sqrt((np.abs(x).astype(np.float32) + np.float32(1)).astype(np.float64)),
    lambda x: x.error + 2 * UNIT * (magnitude(x) + 1),
)
_math(
    "log",
    lambda b, x: b.log(abs(x) + 2.0),
    lambda x: np.log((np.abs(x).astype(np.float32) + np.float32(2)).astype(np.float64)),
    lambda x: x.error + 2 * UNIT * (magnitude(x) + 2),
)

# --- comparisons and selects -----------------------------------------------------------------------------------------


def _compare(function: Callable[..., Array]) -> Callable[..., Tracked]:
    """Of floats, known where the intervals do not touch."""

    def compute(x: Tracked, y: Tracked) -> Tracked:
        with np.errstate(all="ignore"):
            value = function(x.value, y.value)
            error = x.error + y.error
            if not is_float(x.dtype):
                return Tracked(value, error)
            apart = np.abs(wide(x) - wide(y)) > error
        return Tracked(value, known_if(((error == 0) | apart) & ~_flushed(x, y)))

    return compute


for name, function in (
    ("eq", np.equal),
    ("ne", np.not_equal),
    ("lt", np.less),
    ("le", np.less_equal),
    ("gt", np.greater),
    ("ge", np.greater_equal),
):
    add(
        name,
        pair(*INTEGERS, *FLOATS, to="i1"),
        lambda b, x, y, name=name: getattr(b.pallas, name)(x, y),
        _compare(function),
    )


def _select(condition: Tracked, x: Tracked, y: Tracked) -> Tracked:
    error = np.where(condition.value, x.error, y.error)
    return Tracked(np.where(condition.value, x.value, y.value), error + condition.error)


add("select", selected, lambda b, c, x, y: b.pallas.where(c, x, y), _select)

# --- casts -----------------------------------------------------------------------------------------------------------


def _cast(dtype: Any) -> Callable[[Tracked], Tracked]:
    """To integers that wrap, or to floats that hold the value."""
    return lambda x: Tracked(x.value.astype(dtype), x.error)


def _bounded(x: Tracked) -> Tracked:
    """Towards zero, of what is within a million; the rest is 0."""
    with np.errstate(all="ignore"):
        low, high = ((wide(x) + sign * x.error) for sign in (-1, 1))
        inside = [np.abs(end) < 1e6 for end in (low, wide(x), high)]
        ends = [np.where(i, np.trunc(end), 0.0) for i, end in zip(inside, (low, wide(x), high), strict=True)]
        known = (x.error == 0) | ((ends[0] == ends[1]) & (ends[1] == ends[2]))
        return Tracked(ends[1].astype(np.int32), known_if(known & ~np.isinf(x.error)))


def _from_integer(x: Tracked) -> Tracked:
    return Tracked(x.value.astype(np.float32), x.error)


def _to_mask(x: Tracked) -> Tracked:
    return _compare(np.not_equal)(x, Tracked(np.zeros_like(x.value), np.zeros(x.shape)))


add("i32_to_f32", single("i32", to="f32"), lambda b, x: b.pallas.astype(x, f32), _from_integer)
add("u32_to_f32", single("u32", to="f32"), lambda b, x: b.pallas.astype(x, f32), _from_integer)
add("f32_to_i32", single("f32", to="i32"), lambda b, x: b.pallas.astype(_within(b, x), i32), _bounded)
add(
    "f32_to_bf16",
    single("f32", scalars=False, to="bf16"),
    lambda b, x: b.pallas.astype(x, bf16),
    lambda x: _narrowed(x),
)
add("bf16_to_f32", single("bf16", scalars=False, to="f32"), lambda b, x: b.pallas.astype(x, f32), lambda x: _widened(x))
add("i1_to_i32", single("i1", to="i32"), lambda b, x: b.pallas.astype(x, i32), _cast(np.int32))
add("i1_to_f32", single("i1", to="f32"), lambda b, x: b.pallas.astype(x, f32), _cast(np.float32))
add("i8_to_i32", single("i8", scalars=False, to="i32"), lambda b, x: b.pallas.astype(x, i32), _cast(np.int32))
add("i8_to_f32", single("i8", scalars=False, to="f32"), lambda b, x: b.pallas.astype(x, f32), _cast(np.float32))
add("i8_to_bf16", single("i8", scalars=False, to="bf16"), lambda b, x: b.pallas.astype(x, bf16), _cast(BF16))
add("i16_to_i32", single("i16", scalars=False, to="i32"), lambda b, x: b.pallas.astype(x, i32), _cast(np.int32))
add("i32_to_i8", single("i32", scalars=False, to="i8"), lambda b, x: b.pallas.astype(x, i8), _cast(np.int8))
add("i32_to_i16", single("i32", scalars=False, to="i16"), lambda b, x: b.pallas.astype(x, i16), _cast(np.int16))
add("i32_to_i1", single("i32", to="i1"), lambda b, x: b.pallas.astype(x, i1), _to_mask)
add("f32_to_i1", single("f32", to="i1"), lambda b, x: b.pallas.astype(x, i1), _to_mask)


def _within(b: Builder, x: Value) -> Value:
    return b.pallas.where(abs(x) < 1e6, x, 0.0)


def _narrowed(x: Tracked) -> Tracked:
    found = to_bf16(x)
    return Tracked(found.value, np.where(_flushed(x), np.inf, found.error))


def _widened(x: Tracked) -> Tracked:
    assert x.dtype == BF16
    found = to_f32(x)
    assert found.dtype == F32
    return Tracked(found.value, np.where(_flushed(x), np.inf, found.error))
