"""Operations that move data, make it, or join it: shapes, bits, rolls, reductions, matrix products."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from conformance.fuzz.ops import add, nothing, paired, shaped
from conformance.fuzz.program import Shape, Type, builder_dtype, numpy_dtype
from conformance.fuzz.tracked import (
    BF16,
    F32,
    UNIT,
    Array,
    Tracked,
    bits_known,
    denormal,
    exact,
    is_float,
    known_if,
    rounded,
    rounding_now,
    to_bf16,
    wide,
)
from mosaic_tpu.builder import Builder, Value, i32

#: Elements of the largest value.
LARGEST: Final = 8192
#: Rows and columns of what is made here.
SIZES: Final = ((8, 128), (16, 128), (8, 256), (32, 128))
ALL: Final = ("i32", "f32", "bf16", "i16", "i8", "u32")
Results = list[tuple[tuple[Any, ...], Type]]

# --- made from nothing -----------------------------------------------------------------------------------------------

NUMBERS: Final = {"i32": (0, 1, -7, 1 << 20), "f32": (0.0, 1.0, -0.25, 3.5), "bf16": (0.0, 1.5)}
add(
    "full",
    nothing(*((((s, d, n)), Type(s, d)) for d, numbers in NUMBERS.items() for n in numbers for s in SIZES)),
    lambda b, shape, dtype, number: b.pallas.full(shape, number, builder_dtype(dtype)),
    lambda shape, dtype, number: exact(np.full(shape, number, numpy_dtype(dtype))),
)
add(
    "iota",
    nothing(*(((s, d), Type(s, "i32")) for s in SIZES for d in (0, 1))),
    lambda b, shape, dimension: b.pallas.broadcasted_iota(i32, shape, dimension),
    lambda shape, dimension: exact(np.indices(shape, np.int32)[dimension]),
)


def _splats(type_: Type, _: Type) -> Results:
    return (
        [((shape,), Type(shape, type_.dtype)) for shape in SIZES] if type_.shape == () and type_.dtype != "i1" else []
    )


add(
    "splat",
    lambda types: [a for a in paired(_splats)(types) if a.args[0] == a.args[1]],
    lambda b, x, _, shape: b.pallas.full(shape, x, x.dtype),
    lambda x, _, shape: x.map(lambda a: np.broadcast_to(a, shape)),
)

# --- shapes ----------------------------------------------------------------------------------------------------------


def _move(
    name: str,
    result: Callable[[Type], Results],
    emit: Callable[..., Value],
    move: Callable[..., Array],
    dtypes: Sequence[str] = ALL,
) -> None:
    """A move of elements, of values and their errors alike."""
    add(
        name,
        shaped(lambda t: result(t) if t.dtype in dtypes else []),
        emit,
        lambda x, *params: x.map(lambda a: move(a, *params)),
    )


def _broadcasts(t: Type) -> Results:
    targets = SIZES if len(t.shape) <= 2 else ()
    return [((s,), Type(s, t.dtype)) for s in targets if s != t.shape and _broadcasts_to(t.shape, s)]


def _broadcasts_to(shape: Shape, target: Shape) -> bool:
    aligned = (1,) * (len(target) - len(shape)) + shape
    return all(a in (1, b) for a, b in zip(aligned, target, strict=True))


def _reshapes(t: Type) -> Results:
    shapes: list[Shape] = [(8, 128), (16, 128), (8, 256), (2, 8, 128), (1, *t.shape), (4, 4, 128)]
    if len(t.shape) == 3:
        shapes.append((t.shape[0] * t.shape[1], t.shape[2]))
    return [((s,), Type(s, t.dtype)) for s in shapes if math.prod(s) == t.size and s != t.shape and len(s) <= 3]


def _squeezes(t: Type) -> Results:
    kept = tuple(s for s in t.shape if s != 1)
    return [((), Type(kept, t.dtype))] if kept and kept != t.shape else []


def _expands(t: Type) -> Results:
    return [
        ((axis,), Type((*t.shape[:axis], 1, *t.shape[axis:]), t.dtype))
        for axis in range(len(t.shape) + 1)
        if len(t.shape) < 3
    ]


def _transposes(t: Type) -> Results:
    orders: list[Shape] = [(1, 0)] if len(t.shape) == 2 else [(1, 0, 2), (0, 2, 1)] if len(t.shape) == 3 else []
    return [((o,), Type(tuple(t.shape[d] for d in o), t.dtype)) for o in orders]


def _parts(t: Type) -> Results:
    found: Results = []
    for axis, size in enumerate(t.shape):
        for start, stop in ((0, size // 2), (size // 2, size), (1, min(size, 3))):
            if 0 <= start < stop < size:
                index = tuple((start, stop) if d == axis else (0, s) for d, s in enumerate(t.shape))
                found.append(((index,), Type(tuple(b - a for a, b in index), t.dtype)))
    return found


def _rows(t: Type) -> Results:
    return [((n,), Type(t.shape[1:], t.dtype)) for n in dict.fromkeys((0, t.shape[0] - 1)) if len(t.shape) > 1]


def _rolls(t: Type) -> Results:
    return [((n, d), t) for d in range(len(t.shape)) for n in (1, t.shape[d] - 1) if len(t.shape) == 2 and n]


def _slices(index: Sequence[tuple[int, int]]) -> tuple[slice, ...]:
    return tuple(slice(a, b) for a, b in index)


_move("broadcast", _broadcasts, lambda b, x, s: b.pallas.broadcast_to(x, s), np.broadcast_to)
_move("reshape", _reshapes, lambda b, x, s: b.pallas.reshape(x, s), np.reshape)
_move("squeeze", _squeezes, lambda b, x: b.pallas.squeeze(x), np.squeeze)
_move("expand_dims", _expands, lambda b, x, axis: b.pallas.expand_dims(x, axis), np.expand_dims)
_move("transpose", _transposes, lambda b, x, order: b.transpose(x, order), np.transpose)
_move("part", _parts, lambda b, x, index: b.pallas.index(x, _slices(index)), lambda a, index: a[_slices(index)])
_move("row", _rows, lambda b, x, n: b.pallas.index(x, n), lambda a, n: a[n])
_move("rotate", _rolls, lambda b, x, n, axis: b.rotate(x, n, axis), np.roll, ("i32", "f32", "u32"))


def _dynamic_rolls(t: Type, amount: Type) -> Results:
    if len(t.shape) != 2 or t.dtype not in ("i32", "f32") or amount != Type((), "i32"):
        return []
    return [((d,), t) for d in (0, 1)]


def _rolled(x: Tracked, amount: Tracked, axis: int) -> Tracked:
    if amount.error:
        return Tracked(x.value, np.full(x.shape, np.inf))
    return x.map(lambda a: np.roll(a, int(amount.value) & 127, axis))


add("dynamic_rotate", paired(_dynamic_rolls), lambda b, x, n, axis: b.dynamic_rotate(x, n & 127, axis), _rolled)


def _joined(t: Type, other: Type) -> Results:
    if t.dtype != other.dtype or t.dtype == "i1" or len(t.shape) != len(other.shape) or t.size + other.size > LARGEST:
        return []
    return [
        ((axis,), Type((*t.shape[:axis], t.shape[axis] + other.shape[axis], *t.shape[axis + 1 :]), t.dtype))
        for axis in range(len(t.shape))
        if len(t.shape) > 1
        and all(a == b for d, (a, b) in enumerate(zip(t.shape, other.shape, strict=True)) if d != axis)
    ]


add(
    "concatenate",
    paired(_joined),
    lambda b, x, y, axis: b.pallas.concatenate([x, y], axis),
    lambda x, y, axis: Tracked(np.concatenate([x.value, y.value], axis), np.concatenate([x.error, y.error], axis)),
)

# --- bits ------------------------------------------------------------------------------------------------------------

_PARTNERS: Final = {
    "i32": ("f32", "bf16", "i16", "i8", "u32"),
    "f32": ("i32", "bf16"),
    "bf16": ("i32", "i16", "f32"),
    "i16": ("i32", "bf16"),
    "i8": ("i32",),
    "u32": ("i32",),
}


def _bitcasts(t: Type) -> Results:
    found: Results = []
    for dtype in _PARTNERS.get(t.dtype, ()):
        bits = Type((), dtype).bits
        if bits == t.bits:
            found.append(((dtype,), Type(t.shape, dtype)))
        elif len(t.shape) == 2 and t.shape[0] * t.bits % bits == 0:
            found.append(((dtype,), Type((t.shape[0] * t.bits // bits, t.shape[1]), dtype)))
    return found


def to_bytes(x: Array) -> Array:
    """The bytes of an array of rank 2 or more: a row of elements becomes one row of bytes for each, the low first."""
    size = x.dtype.itemsize
    parts = np.ascontiguousarray(x).view(np.uint8).reshape(*x.shape, size)
    return np.moveaxis(parts, -1, -2).reshape(*x.shape[:-2], x.shape[-2] * size, x.shape[-1])


def from_bytes(x: Array, dtype: np.dtype[Any]) -> Array:
    """The opposite of `to_bytes`."""
    size = dtype.itemsize
    rows = x.shape[-2] // size
    parts = np.moveaxis(x.reshape(*x.shape[:-2], rows, size, x.shape[-1]), -2, -1)
    return np.ascontiguousarray(parts).view(dtype).reshape(*x.shape[:-2], rows, x.shape[-1])


def _bitcast(x: Tracked, name: str) -> Tracked:
    dtype = numpy_dtype(name)
    known = bits_known(x)
    if dtype.itemsize == x.dtype.itemsize:
        return Tracked(np.ascontiguousarray(x.value).view(dtype).reshape(x.shape), known_if(known))
    bytes_known = np.repeat(known, x.dtype.itemsize, axis=-2)
    rows = bytes_known.shape[-2] // dtype.itemsize
    grouped = bytes_known.reshape(rows, dtype.itemsize, x.shape[-1]).all(1)
    return Tracked(from_bytes(to_bytes(x.value), dtype), known_if(grouped))


add("bitcast", shaped(_bitcasts), lambda b, x, name: b.pallas.bitcast(x, builder_dtype(name)), _bitcast)

# --- reductions ------------------------------------------------------------------------------------------------------


def _reductions(t: Type) -> Results:
    if t.dtype not in ("i32", "f32", "bf16"):
        return []
    found: Results = []
    for axis in range(len(t.shape)):
        if len(t.shape) > 1:
            kept = tuple(1 if d == axis else s for d, s in enumerate(t.shape))
            dropped = tuple(s for d, s in enumerate(t.shape) if d != axis)
            found += [((axis, True), Type(kept, t.dtype)), ((axis, False), Type(dropped, t.dtype))]
    if t.dtype != "bf16":
        found.append(((None, False), Type((), t.dtype)))
    return found


def _sum(x: Tracked, axis: int | None, keepdims: bool) -> Tracked:
    """Of floats in any order: each of n terms is off by at most n - 1 roundings of the sum of sizes."""
    if not is_float(x.dtype):
        return Tracked(np.asarray(x.value.sum(axis, np.int32, keepdims=keepdims)), x.error.sum(axis, keepdims=keepdims))
    terms = x.value.size if axis is None else x.shape[axis]
    total = wide(x).sum(axis, keepdims=keepdims)
    with np.errstate(all="ignore"):
        sizes = np.abs(wide(x)).sum(axis, keepdims=keepdims)
        error = np.asarray(x.error.sum(axis, keepdims=keepdims)) + terms * UNIT * sizes * 1.01
        error = np.where(sizes < 2.0**127, error, np.inf)
        made = rounded(np.asarray(total, np.float32), error, ())
    unsure = _denormal_in(x, axis, keepdims)
    made = Tracked(made.value, np.where(unsure, np.inf, made.error))
    return to_bf16(made) if x.dtype == BF16 else made


def _denormal_in(x: Tracked, axis: int | None, keepdims: bool) -> Array:
    return np.asarray(denormal(x).any(axis, keepdims=keepdims)) & rounding_now().flushes


def _extreme(function: Callable[..., Array]) -> Callable[..., Tracked]:
    def compute(x: Tracked, axis: int | None, keepdims: bool) -> Tracked:
        if not is_float(x.dtype):
            value = np.asarray(function(x.value, axis, keepdims=keepdims), x.dtype)
            return Tracked(value, np.asarray(x.error.max(axis, keepdims=keepdims)))
        wide_value = np.asarray(function(wide(x), axis, keepdims=keepdims))
        error = np.asarray(x.error.max(axis, keepdims=keepdims))
        error = np.where(wide_value == 0, np.maximum(error, np.finfo(np.float64).tiny), error)
        unsure = _denormal_in(x, axis, keepdims) | (np.isnan(wide_value) & (error > 0))
        return Tracked(wide_value.astype(x.dtype), np.where(unsure, np.inf, error))

    return compute


for name, reduce in (("sum", _sum), ("max", _extreme(np.max)), ("min", _extreme(np.min))):
    add(
        name,
        shaped(_reductions),
        lambda b, x, axis, keepdims, name=name: getattr(b.pallas, name)(x, axis, keepdims=keepdims),
        reduce,
    )


def _arg_extremes(t: Type) -> Results:
    if t.dtype != "f32" or len(t.shape) != 2:
        return []
    return [((d,), Type((t.shape[1 - d],), "i32")) for d in (0, 1)]


def _arg_extreme(function: Callable[..., Array]) -> Callable[..., Tracked]:
    def compute(x: Tracked, axis: int) -> Tracked:
        known = (x.error == 0).all(axis) & ~np.isnan(x.value).any(axis) & ~_denormal_in(x, axis, False)
        return Tracked(function(x.value, axis).astype(np.int32), known_if(known))

    return compute


for name, function in (("arg_max", np.argmax), ("arg_min", np.argmin)):
    add(name, shaped(_arg_extremes), lambda b, x, d, name=name: b.reduce_index(x, name, d), _arg_extreme(function))

# --- matrix products -------------------------------------------------------------------------------------------------

_CONTRACTIONS: Final = {"nn": (((1,), (0,)), ((), ())), "nt": (((1,), (1,)), ((), ()))}


def _products(t: Type, other: Type) -> Results:
    if len(t.shape) != 2 or len(other.shape) != 2 or t.dtype != other.dtype or t.dtype not in ("f32", "bf16", "i8"):
        return []
    results = {"f32": [("f32", None), ("f32", "fp32")], "bf16": [("f32", None)], "i8": [("i32", None)]}
    found: Results = []
    for form in ("nn", "nt"):
        inner, columns = (other.shape[0], other.shape[1]) if form == "nn" else (other.shape[1], other.shape[0])
        shape = (t.shape[0], columns)
        if inner == t.shape[1] and min(*shape, inner) >= 8 and math.prod(shape) <= LARGEST:
            found += [((form, to, how), Type(shape, to)) for to, how in results[t.dtype]]
    return found


def _emit_product(b: Builder, x: Value, y: Value, form: str, to: str, precision: str | None) -> Value:
    return b.pallas.dot_general(
        x, y, _CONTRACTIONS[form], preferred_element_type=builder_dtype(to), precision=precision
    )


def _product(x: Tracked, y: Tracked, form: str, to: str, precision: str | None) -> Tracked:
    """In f32 of operands rounded to bf16, unless all of f32 is asked for; sums in any order."""
    if not is_float(x.dtype):
        a, b = x.value.astype(np.int32), y.value.astype(np.int32)
        unknown = np.isinf(x.error).any(1)[:, None] | np.isinf(y.error if form == "nn" else y.error.T).any(0)[None, :]
        return Tracked(a @ (b if form == "nn" else b.T), known_if(~unknown))
    if x.dtype == F32 and precision is None:
        x, y = to_bf16(x), to_bf16(y)
    if form == "nt":
        y = y.map(np.transpose)
    with np.errstate(all="ignore"):
        a, b = wide(x), wide(y)
        sizes = np.abs(a) @ np.abs(b)
        error = np.abs(a) @ y.error + x.error @ np.abs(b) + x.error @ y.error if _inexact(x, y) else 0.0
        error = error + (a.shape[1] + 1) * UNIT * sizes * 1.01
        error = np.where((sizes < 2.0**127) & np.isfinite(error), error, np.inf)
        made = rounded((a @ b).astype(np.float32), error, ())
    if rounding_now().flushes:
        touched = denormal(x).any(1)[:, None] | denormal(y).any(0)[None, :] | ((sizes > 0) & (sizes < 2.0**-60))
        made = Tracked(made.value, np.where(touched, np.inf, made.error))
    return made


def _inexact(x: Tracked, y: Tracked) -> bool:
    return bool(x.error.any() or y.error.any())


add("matmul", paired(_products), _emit_product, _product)
