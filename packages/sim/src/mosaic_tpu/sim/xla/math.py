"""``math.*``: XLA's own functions; narrow floats are computed in f32 and rounded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mosaic_tpu.sim._module import Operation
from mosaic_tpu.sim.xla._elements import Array, dtype_of, in_bytes, to_unsigned, widen
from mosaic_tpu.sim.xla._rules import rule
from mosaic_tpu.sim.xla._translation import Translation
from mosaic_tpu.sim.xla._untyped import finfo, jnp, lax
from mosaic_tpu.sim.xla.arith import elementwise, rounded


def _scaled_log(base: float) -> Callable[[Array], Array]:
    return lambda x: lax.log(x) * np.float32(1 / np.log(base))


def _round(method: Any) -> Callable[[Array], Array]:
    return lambda x: lax.round(x, method)


def _truncate(x: Array) -> Array:
    return lax.select(x < 0, lax.ceil(x), lax.floor(x))


def _multiply_add(x: Array, y: Array, z: Array) -> Array:
    return x * y + z


def _clamp(x: Array, low: Array, high: Array) -> Array:
    return lax.min(lax.max(x, low), high)


def _copysign(x: Array, y: Array) -> Array:
    sign = np.uint32(1 << 31)
    bits = (to_unsigned(x) & ~sign) | (to_unsigned(y) & sign)
    return lax.bitcast_convert_type(bits, x.dtype)


elementwise("math.exp", lax.exp)
elementwise("math.exp2", lax.exp2)
elementwise("math.expm1", lax.expm1)
elementwise("math.log", lax.log)
elementwise("math.log1p", lax.log1p)
elementwise("math.log2", _scaled_log(2))
elementwise("math.log10", _scaled_log(10))
elementwise("math.sqrt", lax.sqrt)
elementwise("math.rsqrt", lax.rsqrt)
elementwise("math.cbrt", lax.cbrt)
elementwise("math.sin", lax.sin)
elementwise("math.cos", lax.cos)
elementwise("math.tan", lax.tan)
elementwise("math.asin", lax.asin)
elementwise("math.acos", lax.acos)
elementwise("math.atan", lax.atan)
elementwise("math.sinh", lax.sinh)
elementwise("math.cosh", lax.cosh)
elementwise("math.tanh", lax.tanh)
elementwise("math.asinh", lax.asinh)
elementwise("math.acosh", lax.acosh)
elementwise("math.atanh", lax.atanh)
elementwise("math.erf", lax.erf)
elementwise("math.erfc", lax.erfc)
elementwise("math.powf", lax.pow)
elementwise("math.atan2", lax.atan2)
elementwise("math.fma", _multiply_add)
elementwise("math.absf", lax.abs, exact=True)
elementwise("math.ceil", lax.ceil, exact=True)
elementwise("math.floor", lax.floor, exact=True)
elementwise("math.round", _round(lax.RoundingMethod.AWAY_FROM_ZERO), exact=True)
elementwise("math.roundeven", _round(lax.RoundingMethod.TO_NEAREST_EVEN), exact=True)
elementwise("math.trunc", _truncate, exact=True)
elementwise("math.copysign", _copysign, exact=True)
elementwise("math.clampf", _clamp, exact=True)


def _integer(name: str, compute: Callable[[Array], Array]) -> None:
    @rule(name)
    def apply(t: Translation, op: Operation) -> Any:
        return compute(t.array(op.operands[0]))


def _trailing_zeros(x: Array) -> Array:
    return lax.population_count(lax.bitwise_and(lax.bitwise_not(x), x - lax.full_like(x, 1)))


_integer("math.absi", in_bytes(lax.abs))
_integer("math.ctlz", lax.clz)
_integer("math.cttz", _trailing_zeros)
_integer("math.ctpop", lax.population_count)
_integer("math.isnan", lambda x: lax.ne(widen(x), widen(x)))
_integer("math.isfinite", lambda x: lax.is_finite(widen(x)))
_integer("math.isinf", lambda x: lax.eq(lax.abs(widen(x)), np.float32(np.inf)))


@rule("math.isnormal")
def _is_normal(t: Translation, op: Operation) -> Any:
    x = t.array(op.operands[0])
    size = lax.abs(widen(x))
    return (size >= np.float32(finfo(x.dtype).smallest_normal)) & (size < np.float32(np.inf))


@rule("math.sincos")
def _sine_and_cosine(t: Translation, op: Operation) -> Any:
    x = t.array(op.operands[0])
    return rounded(lax.sin)(x), rounded(lax.cos)(x)


@rule("math.ipowi")
def _integer_power(t: Translation, op: Operation) -> Any:
    """By squaring; a negative power is 0, but of 1 and -1."""
    base, exponent = map(t.array, op.operands)
    return in_bytes(_by_squaring(op.result.type.bits))(base, exponent)


def _by_squaring(bits: int) -> Callable[[Array, Array], Array]:
    def apply(base: Array, exponent: Array) -> Array:
        zero, one = lax.full_like(base, 0), lax.full_like(base, 1)
        odd = lax.ne(exponent & one, zero)
        made, square = one, base
        for bit in range(bits - 1):
            made = lax.select(lax.ne(exponent & lax.full_like(base, 1 << bit), zero), made * square, made)
            square = square * square
        inverse = lax.select(lax.eq(lax.abs(base), one), lax.select(odd, base, one), zero)
        return lax.select(exponent < 0, inverse, made)

    return apply


@rule("math.fpowi")
def _power(t: Translation, op: Operation) -> Any:
    base, exponent = map(t.array, op.operands)
    dtype = dtype_of(op.result.type.element)
    return lax.pow(widen(base), jnp.asarray(exponent, np.float32)).astype(dtype)
