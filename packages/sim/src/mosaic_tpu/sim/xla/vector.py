"""``vector.*``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from mosaic_tpu.sim._module import Operation
from mosaic_tpu.sim._types import DYNAMIC
from mosaic_tpu.sim.errors import UnsupportedOpError
from mosaic_tpu.sim.xla._elements import Array, dtype_of, held_dtype, in_bytes, is_static, narrow, to_unsigned, widen
from mosaic_tpu.sim.xla._rules import rule
from mosaic_tpu.sim.xla._translation import Translation
from mosaic_tpu.sim.xla._untyped import jnp, lax

# --- loads and stores ----------------------------------------------------------------------------------------------


@rule("vector.load", moves=True)
def _load(t: Translation, op: Operation) -> Any:
    base, *indices = op.operands
    view = t.slice(t.view(base), [t.index(i) for i in indices], _padded(op.result.type.shape, len(indices)))
    return t.load(op, view.reshape(op.result.type.shape))


@rule("vector.store", writes=lambda op: (op.operands[1],), moves=True)
def _store(t: Translation, op: Operation) -> Any:
    value, base, *indices = op.operands
    view = t.slice(t.view(base), [t.index(i) for i in indices], _padded(value.type.shape, len(indices)))
    t.store(op, view.reshape(value.type.shape), t.array(value))


def _padded(shape: tuple[int, ...], rank: int) -> tuple[int, ...]:
    """A vector of lower rank than the memref covers its last dimensions."""
    return (1,) * (rank - len(shape)) + shape


@rule("vector.maskedload", moves=True)
def _masked_load(t: Translation, op: Operation) -> Any:
    base, *indices = op.operands[:-2]
    shape = op.result.type.shape
    view = t.slice(t.view(base), [t.index(i) for i in indices], _padded(shape, len(indices)))
    return lax.select(t.array(op.operands[-2]), t.load(op, view.reshape(shape)), t.array(op.operands[-1]))


@rule("vector.maskedstore", writes=lambda op: (op.operands[0],), moves=True)
def _masked_store(t: Translation, op: Operation) -> Any:
    base, *indices = op.operands[:-2]
    mask, value = op.operands[-2:]
    view = t.slice(t.view(base), [t.index(i) for i in indices], _padded(value.type.shape, len(indices)))
    t.store(op, view.reshape(value.type.shape), t.array(value), t.array(mask))


# --- shapes --------------------------------------------------------------------------------------------------------


@rule("vector.broadcast", "vector.splat", moves=True)
def _broadcast(t: Translation, op: Operation) -> Any:
    found = t.get(op.operands[0])
    return found if is_static(found) else spread(t.array(op.operands[0]), op.result.type.shape)


def spread(x: Array, shape: tuple[int, ...]) -> Array:
    """Repeated over leading dimensions, and over those of size 1."""
    if np.shape(x) == shape:
        return x
    return lax.broadcast_in_dim(x, shape, range(len(shape) - np.ndim(x), len(shape)))


@rule("vector.shape_cast", "tpu.reshape", moves=True)
def _shape_cast(t: Translation, op: Operation) -> Any:
    found = t.get(op.operands[0])
    return found if is_static(found) else lax.reshape(t.array(op.operands[0]), op.result.type.shape)


@rule("vector.transpose", "tpu.transpose", moves=True)
def _transpose(t: Translation, op: Operation) -> Any:
    found = t.get(op.operands[0])
    return found if is_static(found) else lax.transpose(t.array(op.operands[0]), op.attributes.integers("permutation"))


@rule("vector.bitcast", moves=True)
def _bitcast(t: Translation, op: Operation) -> Any:
    """Packed along the last dimension, unlike ``tpu.bitcast``."""
    source, target = op.operands[0].type, op.result.type
    dtype = held_dtype(target.element)
    x = t.array(op.operands[0])
    if source.bits < target.bits:
        factor = target.bits // source.bits
        x = x.reshape(*x.shape[:-1], x.shape[-1] // factor, factor)
    return lax.bitcast_convert_type(x, dtype).reshape(target.shape)


# --- parts ---------------------------------------------------------------------------------------------------------


@rule("vector.extract", moves=True)
def _extract(t: Translation, op: Operation) -> Any:
    found = t.get(op.operands[0])
    if is_static(found):
        return found
    x = t.array(op.operands[0])
    starts, sizes = _position(t, op, op.operands[1:], x.shape)
    part = lax.dynamic_slice(x, starts, sizes, allow_negative_indices=False)
    return lax.reshape(part, op.result.type.shape)


@rule("vector.insert", moves=True)
def _insert(t: Translation, op: Operation) -> Any:
    value, x = t.array(op.operands[0]), t.array(op.operands[1])
    starts, sizes = _position(t, op, op.operands[2:], x.shape)
    return lax.dynamic_update_slice(x, lax.reshape(value, sizes), starts, allow_negative_indices=False)


def _position(
    t: Translation, op: Operation, operands: Sequence[Any], shape: tuple[int, ...]
) -> tuple[list[Any], tuple[int, ...]]:
    dynamic = iter(operands)
    static = op.attributes.integers("static_position")
    starts = [t.index(next(dynamic)) if p == DYNAMIC else p for p in static]
    for start, size in zip(starts, shape, strict=False):
        t.fail_if(t.leaves(start, size - 1), op)
    whole = [np.int32(s) if is_static(s) else s for s in (*starts, *(0,) * (len(shape) - len(starts)))]
    return whole, (1,) * len(starts) + shape[len(starts) :]


@rule("vector.extract_strided_slice", moves=True)
def _extract_slice(t: Translation, op: Operation) -> Any:
    found = t.get(op.operands[0])
    if is_static(found):
        return found
    x = t.array(op.operands[0])
    offsets, sizes, strides = (op.attributes.integers(n) for n in ("offsets", "sizes", "strides"))
    limits = [o + (s - 1) * step + 1 for o, s, step in zip(offsets, sizes, strides, strict=True)]
    rest = range(len(offsets), x.ndim)
    starts = [*offsets, *(0 for _ in rest)]
    return lax.slice(x, starts, [*limits, *(x.shape[d] for d in rest)], [*strides, *(1 for _ in rest)])


@rule("vector.insert_strided_slice", moves=True)
def _insert_slice(t: Translation, op: Operation) -> Any:
    value, x = map(t.array, op.operands)
    if any(s != 1 for s in op.attributes.integers("strides")):
        raise UnsupportedOpError("vector.insert_strided_slice has strides", op=op.name, location=t.module.line(op))
    offsets = op.attributes.integers("offsets")
    value = lax.reshape(value, (1,) * (x.ndim - value.ndim) + value.shape)
    return lax.dynamic_update_slice(x, value, [np.int32(o) for o in offsets], allow_negative_indices=False)


@rule("vector.from_elements", moves=True)
def _from_elements(t: Translation, op: Operation) -> Any:
    return jnp.stack([jnp.asarray(t.array(v)) for v in op.operands]).reshape(op.result.type.shape)


@rule("vector.to_elements", moves=True)
def _to_elements(t: Translation, op: Operation) -> Any:
    flat = t.array(op.operands[0]).reshape(-1)
    found = tuple(flat[i] for i in range(len(op.results)))
    return found[0] if len(found) == 1 else found


@rule("vector.shuffle", moves=True)
def _shuffle(t: Translation, op: Operation) -> Any:
    """Rows of two vectors by number; -1 is any."""
    rows = lax.concatenate([jnp.atleast_1d(t.array(v)) for v in op.operands], 0)
    return rows[np.maximum(np.array(op.attributes.integers("mask")), 0)]


@rule("vector.interleave", moves=True)
def _interleave(t: Translation, op: Operation) -> Any:
    return jnp.stack([t.array(v) for v in op.operands], -1).reshape(op.result.type.shape)


@rule("vector.deinterleave", moves=True)
def _deinterleave(t: Translation, op: Operation) -> Any:
    x = t.array(op.operands[0])
    return tuple(lax.slice_in_dim(x, i, None, 2, -1) for i in range(2))


# --- masks, positions ----------------------------------------------------------------------------------------------


@rule("vector.step")
def _step(t: Translation, op: Operation) -> Any:
    return lax.iota(dtype_of(op.result.type.element), op.result.type.size)


@rule("vector.create_mask", "vector.constant_mask")
def _create_mask(t: Translation, op: Operation) -> Any:
    shape = op.result.type.shape
    ends = [t.array(v) for v in op.operands] or [np.int32(s) for s in op.attributes.integers("mask_dim_sizes")]
    return box(shape, [np.int32(0)] * len(shape), ends)


def box(shape: tuple[int, ...], starts: Sequence[Array], ends: Sequence[Array]) -> Array:
    """True where each position is within its dimension's bounds."""
    mask = lax.full(shape, np.bool_(True))
    for d, (start, end) in enumerate(zip(starts, ends, strict=True)):
        position = lax.broadcasted_iota(np.int32, shape, d)
        mask &= (position >= start) & (position < end)
    return mask


# --- reductions ----------------------------------------------------------------------------------------------------


def unsigned_bits(reduce: Callable[..., Array]) -> Callable[..., Array]:
    """A reduction or a scan of the bits as unsigned integers."""

    def apply(x: Array, axes: Any) -> Array:
        return lax.bitcast_convert_type(in_bytes(reduce)(to_unsigned(x), axes), x.dtype)

    return apply


def _maximum(x: Array, axes: Sequence[int]) -> Array:
    return _keeping_nan(x, axes, lax.reduce_max)


def _minimum(x: Array, axes: Sequence[int]) -> Array:
    return _keeping_nan(x, axes, lax.reduce_min)


def _keeping_nan(x: Array, axes: Sequence[int], reduce: Callable[..., Array]) -> Array:
    """XLA's code for a CPU drops NaNs where it reduces more than a few thousand elements."""
    found = reduce(x, axes)
    if not jnp.issubdtype(x.dtype, jnp.floating):
        return found
    return lax.select(lax.reduce_or(x != x, axes), lax.full_like(found, np.nan), found)


def _max_number(x: Array, axes: Sequence[int]) -> Array:
    return _ignoring_nan(x, axes, lax.reduce_max, -np.inf)


def _min_number(x: Array, axes: Sequence[int]) -> Array:
    return _ignoring_nan(x, axes, lax.reduce_min, np.inf)


def _ignoring_nan(x: Array, axes: Sequence[int], reduce: Callable[..., Array], neutral: float) -> Array:
    found = reduce(lax.select(x != x, lax.full_like(x, neutral), x), axes)
    return lax.select(lax.reduce_and(x != x, axes), lax.full_like(found, np.nan), found)


REDUCTIONS: Final[dict[str, Callable[[Array, Sequence[int]], Array]]] = {
    "add": lax.reduce_sum,
    "mul": lax.reduce_prod,
    "maximumf": _maximum,
    "minimumf": _minimum,
    "maxnumf": _max_number,
    "minnumf": _min_number,
    "maxsi": _maximum,
    "minsi": _minimum,
    "maxui": unsigned_bits(lax.reduce_max),
    "minui": unsigned_bits(lax.reduce_min),
    "and": lax.reduce_and,
    "or": lax.reduce_or,
    "xor": lax.reduce_xor,
}
COMBINE: Final[dict[str, Callable[[Array, Array], Array]]] = {
    "add": lax.add,
    "mul": lax.mul,
    "maximumf": lax.max,
    "minimumf": lax.min,
    "maxnumf": jnp.fmax,
    "minnumf": jnp.fmin,
    "maxsi": lax.max,
    "minsi": lax.min,
    "maxui": lambda a, b: lax.bitcast_convert_type(lax.max(to_unsigned(a), to_unsigned(b)), a.dtype),
    "minui": lambda a, b: lax.bitcast_convert_type(lax.min(to_unsigned(a), to_unsigned(b)), a.dtype),
    "and": lax.bitwise_and,
    "or": lax.bitwise_or,
    "xor": lax.bitwise_xor,
}
#: Accumulators that change nothing.
_NEUTRAL: Final[dict[str, float]] = {"add": 0, "mul": 1, "maximumf": -np.inf, "minimumf": np.inf}


@rule("vector.multi_reduction", "vector.reduction")
def _reduce(t: Translation, op: Operation) -> Any:
    kind = op.attributes.keyword("kind")
    source = op.operands[0]
    if kind == "add" and (product := _as_product(t, op)) is not None:
        return product
    x = t.array(source)
    dtype = x.dtype
    is_float = source.type.is_float
    wide = widen(x) if is_float else x
    axes = op.attributes.integers("reduction_dims") if "reduction_dims" in op.attributes else tuple(range(x.ndim))
    made = in_bytes(REDUCTIONS[kind])(wide, axes)
    if len(op.operands) > 1 and not _is_neutral(kind, t.get(op.operands[1])):
        start = t.array(op.operands[1])
        made = in_bytes(COMBINE[kind])(made, widen(start) if is_float else start)
    return narrow(made, dtype) if made.dtype != dtype else made


def _as_product(t: Translation, op: Operation) -> Array | None:
    """A sum of ``x * broadcast(y)`` in f32 as a product with the vector y, if it is one: XLA is three times as fast."""
    source = op.operands[0]
    axes = op.attributes.integers("reduction_dims")
    made_by = source.definition
    if made_by is None or made_by.name != "arith.mulf" or source.type.element != "f32" or len(axes) != 1:
        return None
    if len(op.operands) < 2 or not _is_neutral("add", t.get(op.operands[1])):
        return None
    (axis,) = axes
    rank = len(source.type.shape)
    for x, y in (made_by.operands, made_by.operands[::-1]):
        spread_by = y.definition
        if spread_by is None or spread_by.name != "vector.broadcast" or is_static(t.get(y)):
            continue
        thin = spread_by.operands[0]
        shape = (1,) * (rank - len(thin.type.shape)) + thin.type.shape
        if (
            rank == 2
            and shape[axis] == source.type.size // max(1, source.type.shape[1 - axis])
            and shape[1 - axis] == 1
        ):
            vector = lax.reshape(t.array(thin), (shape[axis],))
            return lax.dot_general(vector, t.array(x), (((0,), axes), ((), ())), precision=lax.Precision.HIGHEST)
    return None


def _is_neutral(kind: str, start: Any) -> bool:
    return is_static(start) and kind in _NEUTRAL and float(start) == _NEUTRAL[kind]


@rule("vector.fma")
def _fma(t: Translation, op: Operation) -> Any:
    x, y, z = (widen(t.array(v)) for v in op.operands)
    return narrow(x * y + z, dtype_of(op.result.type.element))
