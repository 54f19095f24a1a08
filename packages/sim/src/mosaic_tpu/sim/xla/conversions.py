"""``arith.*`` and ``tpu.*`` between element types: extensions, truncations, rounding modes, bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from mosaic_tpu.sim._module import Operation
from mosaic_tpu.sim._types import Type
from mosaic_tpu.sim.errors import UnsupportedOpError
from mosaic_tpu.sim.xla._elements import Array, dtype_of, held_dtype, is_static, narrow, to_unsigned, widen
from mosaic_tpu.sim.xla._rules import rule
from mosaic_tpu.sim.xla._translation import Translation
from mosaic_tpu.sim.xla._untyped import jnp, lax
from mosaic_tpu.sim.xla.arith import any_of, ones, signed, wrapped

# --- integers ----------------------------------------------------------------------------------------------------


def _cast(*names: str, fold: Callable[[int, Type, Type], Any] | None = None) -> Callable[[Any], Any]:
    """A rule from source array, its type and the result's type; integers known now are folded."""

    def register(compute: Callable[[Array, Type, Type], Array]) -> Any:
        @rule(*names)
        def apply(t: Translation, op: Operation) -> Any:
            source, target = op.operands[0].type, op.result.type
            found = t.get(op.operands[0])
            if fold is not None and is_static(found):
                return fold(int(found), source, target)
            made = compute(t.array(op.operands[0]), source, target)
            low, high = t.ranges.of(found)
            if op.name != "arith.trunci" and target.kind == "scalar":
                t.ranges.set(made, low, high)
            return made

        return compute

    return register


def _unsigned_value(value: int, source: Type) -> int:
    return value & ((1 << source.bits) - 1)


@_cast(
    "arith.index_cast",
    "arith.extsi",
    "arith.trunci",
    fold=lambda v, source, target: wrapped(signed(v, source), target),
)
def _to_integer(x: Array, source: Type, target: Type) -> Array:
    dtype = dtype_of(target.element)
    if target.element == "i1":
        return lax.ne(lax.bitwise_and(x, ones(x)), lax.full_like(x, 0))
    if source.element == "i1":
        return lax.neg(x.astype(dtype))
    return x if x.dtype == dtype else x.astype(dtype)


@_cast("arith.extui", "arith.index_castui", fold=lambda v, source, target: wrapped(_unsigned_value(v, source), target))
def _extend_unsigned(x: Array, source: Type, target: Type) -> Array:
    dtype = dtype_of(target.element)
    return x if x.dtype == dtype else to_unsigned(x).astype(dtype)


# --- floats ------------------------------------------------------------------------------------------------------


@rule("arith.extf", "tpu.extf")
def _extend_float(t: Translation, op: Operation) -> Any:
    return t.array(op.operands[0]).astype(dtype_of(op.result.type.element))


@rule("arith.convertf")
def _convert_float(t: Translation, op: Operation) -> Any:
    return narrow(widen(t.array(op.operands[0])), dtype_of(op.result.type.element))


@rule("arith.flush_denormals")
def _flush_denormals(t: Translation, op: Operation) -> Any:
    x = t.array(op.operands[0])
    wide = widen(x)
    small = lax.abs(wide) < np.float32(np.finfo(np.float32).smallest_normal)
    return lax.select(small, jnp.copysign(lax.full_like(wide, 0), wide), wide).astype(x.dtype)


@rule("arith.truncf", "tpu.truncf")
def _truncate_float(t: Translation, op: Operation) -> Any:
    return round_float(t.array(op.operands[0]), dtype_of(op.result.type.element), _mode(op))


#: What ``arith`` writes as a number and ``tpu`` as a word.
_MODES: Final = {
    "": "even",
    "0 : i32": "even",
    "1 : i32": "down",
    "2 : i32": "up",
    "3 : i32": "zero",
    "4 : i32": "away",
    "#tpu.rounding_mode<to_nearest_even>": "even",
    "#tpu.rounding_mode<towards_zero>": "zero",
}


def _mode(op: Operation) -> str:
    text = op.attributes.text("roundingmode" if op.name.startswith("arith") else "rounding_mode")
    found = _MODES.get(text)
    if found is None:
        raise UnsupportedOpError(f"the rounding mode {text}", op=op.name, hint='run it with engine="numpy"')
    return found


def round_float(x: Array, dtype: np.dtype[Any], mode: str) -> Array:
    """To a narrower float: in modes other than to the nearest even, by steps from that one."""
    near = narrow(x, dtype)
    if mode == "even":
        return near
    wide, value = widen(x), widen(near)
    bits = to_unsigned(near)
    one = ones(bits)
    finite = lax.is_finite(wide)
    if mode == "away":
        further = widen(lax.bitcast_convert_type(bits + one, dtype))
        moved = lax.select((lax.abs(wide - value) == lax.abs(further - wide)) & finite, bits + one, bits)
        return lax.bitcast_convert_type(moved, dtype)
    negative = lax.lt(lax.bitcast_convert_type(wide, np.int32), np.int32(0))
    larger, smaller = finite & (value > wide), finite & (value < wide)
    down = {"down": larger, "up": larger & False, "zero": larger & ~negative}[mode]
    up = {"down": smaller & False, "up": smaller, "zero": smaller & negative}[mode]
    inward, outward = (down & ~negative) | (up & negative), (up & ~negative) | (down & negative)
    return lax.bitcast_convert_type(lax.select(inward, bits - one, lax.select(outward, bits + one, bits)), dtype)


@rule("arith.sitofp", "tpu.sitofp", "arith.uitofp", "tpu.uitofp")
def _to_float(t: Translation, op: Operation) -> Any:
    x = t.array(op.operands[0])
    dtype = dtype_of(op.result.type.element)
    if "uitofp" in op.name:
        x = to_unsigned(x)
    elif x.dtype == jnp.bool_:
        x = lax.neg(x.astype(np.int32))
    mode = "even" if op.name.startswith("arith") else _mode(op)
    wide = _float_toward_zero(x) if x.dtype.itemsize == 4 and mode == "zero" else x.astype(np.float32)
    return wide if dtype == np.float32 else round_float(wide, dtype, mode)


def _float_toward_zero(x: Array) -> Array:
    """32 bits as the f32 below, in size."""
    negative = x < 0
    size = to_unsigned(lax.select(negative, lax.neg(x), x))
    dropped = lax.max(lax.full_like(size, 8), lax.clz(size)) - lax.clz(size)  # bits below the 24 that f32 has
    made = lax.shift_left(lax.shift_right_logical(size, dropped), dropped).astype(np.float32)
    return lax.select(negative, lax.neg(made), made)


@rule("arith.fptosi", "tpu.fptosi", "arith.fptoui", "tpu.fptoui")
def _to_whole(t: Translation, op: Operation) -> Any:
    x = widen(t.array(op.operands[0]))
    if t.checks:
        t.fail_if(any_of(x != x), op)
    if op.name.startswith("tpu") and _mode(op) == "even":
        x = lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN)
    return _saturated(x, op.result.type, signed="fptosi" in op.name)


def _saturated(x: Array, of: Type, *, signed: bool) -> Array:
    """Towards zero, at most the type's extremes, NaN as 0."""
    dtype = dtype_of(of.element)
    bits = 32 if of.element == "index" else of.bits
    whole = np.dtype(f"{'' if signed else 'u'}int{max(8, bits)}")
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
    # As f32 `high` may be 2^31: the largest float below is what counts.
    inside = lax.select((x > float(low)) & (x < float(high)), x, lax.full_like(x, 0))
    made = inside.astype(whole)
    made = lax.select(x >= float(high), lax.full_like(made, high), made)
    made = lax.select(x <= float(low), lax.full_like(made, low), made)
    if of.element == "i1":
        return lax.ne(made & ones(made), lax.full_like(made, 0))
    return made.astype(dtype) if bits < 8 else lax.bitcast_convert_type(made, dtype)


@rule("arith.bitcast", moves=True)
def _bitcast(t: Translation, op: Operation) -> Any:
    dtype = held_dtype(op.result.type.element)
    x = t.array(op.operands[0])
    return x if x.dtype == dtype else lax.bitcast_convert_type(x, dtype)
