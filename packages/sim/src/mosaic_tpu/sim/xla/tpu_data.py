"""``tpu.*`` on vectors: positions, data movement, reductions, packing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from mosaic_tpu.sim._module import Operation
from mosaic_tpu.sim._types import bits_of
from mosaic_tpu.sim.errors import UnsupportedOpError
from mosaic_tpu.sim.xla._elements import Array, dtype_of, in_bytes, is_static, narrow, reinterpret, to_unsigned, widen
from mosaic_tpu.sim.xla._rules import rule
from mosaic_tpu.sim.xla._translation import Translation
from mosaic_tpu.sim.xla._untyped import finfo, iinfo, jnp, lax
from mosaic_tpu.sim.xla.arith import elementwise
from mosaic_tpu.sim.xla.vector import REDUCTIONS, box, spread, unsigned_bits

# --- positions, masks ----------------------------------------------------------------------------------------------


@rule("tpu.iota")
def _iota(t: Translation, op: Operation) -> Any:
    of = op.result.type
    position: Any = None
    for d in op.attributes.integers("dimensions"):  # row-major over several dimensions
        along = lax.broadcasted_iota(np.int32, of.shape, d)
        position = along if position is None else position * np.int32(of.shape[d]) + along
    return position.astype(dtype_of(of.element))


@rule("tpu.create_mask")
def _create_mask(t: Translation, op: Operation) -> Any:
    ends = [t.array(v) for v in op.operands]
    half = len(ends) // 2
    return box(op.result.type.shape, ends[:half], ends[half:])


@rule("tpu.relayout")
def _same(t: Translation, op: Operation) -> Any:
    return t.get(op.operands[0])


# --- data movement -------------------------------------------------------------------------------------------------


@rule("tpu.concatenate", moves=True)
def _concatenate(t: Translation, op: Operation) -> Any:
    return lax.concatenate([t.array(v) for v in op.operands], op.attributes.integer("dimension"))


@rule("tpu.repeat", moves=True)
def _repeat(t: Translation, op: Operation) -> Any:
    x = t.array(op.operands[0])
    return lax.concatenate([x] * op.attributes.integer("times"), op.attributes.integer("dimension"))


@rule("tpu.broadcast_in_sublanes", moves=True)
def _broadcast_in_sublanes(t: Translation, op: Operation) -> Any:
    """Sublane i holds lane ``lane + i`` of a register whose sublanes are equal; past the lanes, anything."""
    x, shape = t.array(op.operands[0]), op.result.type.shape
    if len(shape) != 2 or x.ndim != 2:
        raise UnsupportedOpError("it is known for vectors of two dimensions only", op=op.name)
    places = np.minimum(np.arange(shape[0]) + op.attributes.integer("lane"), x.shape[-1] - 1)
    return spread(lax.expand_dims(x[0, places], (1,)), shape)


@rule("tpu.dynamic_rotate", "tpu.rotate", moves=True)
def _rotate(t: Translation, op: Operation) -> Any:
    x = t.array(op.operands[0])
    dimension = op.attributes.integer("dimension")
    size = x.shape[dimension]
    amount = t.array(op.operands[1]) if len(op.operands) > 1 else np.int32(op.attributes.integer("amount"))
    if "stride" not in op.attributes:
        start = lax.rem(np.int32(size) - lax.rem(amount, np.int32(size)), np.int32(size))
        return lax.dynamic_slice_in_dim(lax.concatenate([x, x], dimension), start, size, dimension)
    across = lax.broadcasted_iota(np.int32, x.shape, op.attributes.integer("stride_dimension"))
    shift = amount + across * np.int32(op.attributes.integer("stride"))
    place = lax.broadcasted_iota(np.int32, x.shape, dimension) - lax.rem(shift, np.int32(size))
    return jnp.take_along_axis(x, jnp.mod(place, np.int32(size)), dimension)


@rule("tpu.dynamic_gather", moves=True)
def _dynamic_gather(t: Translation, op: Operation) -> Any:
    """Indices count over the dimensions collapsed, modulo their size."""
    source, indices = (jnp.asarray(t.array(v)) for v in op.operands)
    axes = op.attributes.integers("dimensions")
    sizes = [source.shape[a] for a in axes]
    wanted = jnp.mod(indices.astype(np.int32), np.int32(np.prod(sizes)))
    places = [lax.broadcasted_iota(np.int32, indices.shape, d) for d in range(indices.ndim)]
    for axis, place in zip(axes, jnp.unravel_index(wanted, sizes), strict=True):
        places[axis] = place
    return source.at[tuple(places)].get(mode="promise_in_bounds")


@rule("tpu.gather", moves=True)
def _gather(t: Translation, op: Operation) -> Any:
    indices = np.array(op.attributes.integers("indices"), np.int32)
    return jnp.take(t.array(op.operands[0]), indices, op.attributes.integer("dimension"))


@rule("tpu.sublane_shuffle", moves=True)
def _sublane_shuffle(t: Translation, op: Operation) -> Any:
    rows = lax.concatenate([t.array(v) for v in op.operands], 0)
    return rows[np.array(op.attributes.integers("pattern"))]


# --- bits ----------------------------------------------------------------------------------------------------------


@rule("tpu.bitcast", moves=True)
def _bitcast(t: Translation, op: Operation) -> Any:
    return reinterpret(t.array(op.operands[0]), op.operands[0].type.element, op.result.type.element)


def _element(op: Operation, name: str) -> str:
    return op.attributes.text(name).strip()


@rule("tpu.pack_elementwise")
def _pack(t: Translation, op: Operation) -> Any:
    """Each source's low bits, the first source lowest."""
    target = _element(op, "target_type")
    bits = bits_of(target)
    of = op.result.type
    word = np.dtype(f"uint{of.bits}")
    packed: Any = None
    for i, v in enumerate(op.operands):
        x = t.array(v)
        part = to_unsigned(narrow(x, dtype_of(target)) if v.type.is_float else x).astype(word)
        part = (part & word.type((1 << bits) - 1)) << word.type(i * bits)
        packed = part if packed is None else packed | part
    return lax.bitcast_convert_type(packed, dtype_of(of.element))


@rule("tpu.unpack_elementwise")
def _unpack(t: Translation, op: Operation) -> Any:
    source = _element(op, "source_type")
    bits, of = bits_of(source), op.result.type
    x = t.array(op.operands[0])
    width = 8 * x.dtype.itemsize
    above = width - (op.attributes.integer("index") + 1) * bits
    x = lax.shift_left(x, lax.full_like(x, above))  # the wanted bits on top
    if of.is_float:
        part = lax.shift_right_logical(to_unsigned(x), lax.full_like(to_unsigned(x), width - bits))
        number = lax.bitcast_convert_type(part.astype(np.dtype(f"uint{bits}")), dtype_of(source))
        return number.astype(dtype_of(of.element))
    return lax.shift_right_arithmetic(x, lax.full_like(x, width - bits)).astype(dtype_of(of.element))


@rule("tpu.stochastic_convert")
def _stochastic_convert(t: Translation, op: Operation) -> Any:
    """To a neighbour in a narrower type: away from zero if the remainder and 16 random bits carry."""
    x, random = map(t.array, op.operands)
    of = op.result.type
    dtype = dtype_of(of.element)
    half = np.uint32(0xFFFF)
    below = to_unsigned(random) & half
    if dtype == jnp.bfloat16:
        moved = (to_unsigned(x) + below) & ~half
        return narrow(lax.select(lax.is_finite(x), lax.bitcast_convert_type(moved, np.float32), x), dtype)
    limits = finfo(dtype) if of.is_float else iinfo(dtype)
    exponent: Any = np.int32(0)
    if of.is_float:
        exponent = jnp.maximum(jnp.frexp(lax.abs(x))[1] - 1, int(limits.minexp)) - int(limits.nmant)
    scaled = jnp.ldexp(lax.abs(x), -exponent)  # in units of the last place
    whole = lax.floor(scaled)
    carried = lax.floor((scaled - whole) * 65536).astype(np.uint32) + below > half
    made = jnp.copysign(jnp.ldexp(whole + carried, exponent), x)
    made = jnp.clip(made, float(limits.min), float(limits.max))
    if of.is_float:
        return narrow(made, dtype)
    return lax.select(x != x, lax.full_like(made, 0), made).astype(np.int32).astype(dtype)


# --- arithmetic ----------------------------------------------------------------------------------------------------


def _reciprocal(x: Array) -> Array:
    return lax.div(lax.full_like(x, 1), x)


elementwise("tpu.reciprocal", _reciprocal)
elementwise("tpu.logistic", lax.logistic)


@rule("tpu.weird")
def _weird(t: Translation, op: Operation) -> Any:
    return lax.bitwise_not(lax.is_finite(widen(t.array(op.operands[0]))))


@rule("tpu.reduce_precision")
def _reduce_precision(t: Translation, op: Operation) -> Any:
    names = op.attributes.integer
    return lax.reduce_precision(t.array(op.operands[0]), names("exponent_bits"), names("mantissa_bits"))


# --- reductions ----------------------------------------------------------------------------------------------------


@rule("tpu.reduce_index")
def _reduce_index(t: Translation, op: Operation) -> Any:
    x = widen(t.array(op.operands[0]))
    choose = lax.argmax if op.attributes.keyword("kind") == "arg_max" else lax.argmin
    return choose(x, op.attributes.integer("axis"), np.int32).astype(dtype_of(op.result.type.element))


#: By kind: a reduction and a scan.
_KINDS: Final[dict[str, tuple[Callable[..., Array], Callable[..., Array]]]] = {
    "sum": (REDUCTIONS["add"], lax.cumsum),
    **dict.fromkeys(("max", "maxf", "maxsi"), (REDUCTIONS["maxsi"], lax.cummax)),
    **dict.fromkeys(("min", "minf", "minsi"), (REDUCTIONS["minsi"], lax.cummin)),
    "maxui": (REDUCTIONS["maxui"], unsigned_bits(lax.cummax)),
    "minui": (REDUCTIONS["minui"], unsigned_bits(lax.cummin)),
}


def _kind(op: Operation, known: dict[str, Any]) -> Any:
    kind = op.attributes.keyword("kind")
    if kind not in known:
        raise UnsupportedOpError(f"{op.name} of kind {kind}", op=op.name, hint='run it with engine="numpy"')
    return known[kind]


@rule("tpu.all_reduce")
def _all_reduce(t: Translation, op: Operation) -> Any:
    x = t.array(op.operands[0])
    d = op.attributes.integer("dim")
    kind = op.attributes.keyword("kind")
    made = _POSITIONS[kind](widen(x), d) if kind in _POSITIONS else _reduced(op, x, (d,))
    dtype = dtype_of(op.result.type.element)
    return spread(lax.expand_dims(made if made.dtype == dtype else made.astype(dtype), (d,)), op.result.type.shape)


def _first_set(x: Array, axis: int) -> Array:
    """Where the first element is that is not zero; the size where there is none."""
    place = lax.broadcasted_iota(np.int32, x.shape, axis)
    return lax.reduce_min(lax.select(x != 0, place, lax.full_like(place, x.shape[axis])), (axis,))


_POSITIONS: Final[dict[str, Callable[[Array, int], Array]]] = {
    "arg_max": lambda x, axis: lax.argmax(x, axis, np.int32),
    "arg_min": lambda x, axis: lax.argmin(x, axis, np.int32),
    "find_first_set": _first_set,
}


def _reduced(op: Operation, x: Array, axes: tuple[int, ...]) -> Array:
    wide = widen(x) if op.operands[0].type.is_float else x
    return narrow(in_bytes(_kind(op, _KINDS)[0])(wide, axes), x.dtype)


@rule("tpu.reduce")
def _reduce(t: Translation, op: Operation) -> Any:
    return _reduced(op, t.array(op.operands[0]), op.attributes.integers("dimensions"))


@rule("tpu.scan")
def _scan(t: Translation, op: Operation) -> Any:
    if op.operands[1:]:
        raise UnsupportedOpError("tpu.scan with a mask", op=op.name, hint='run it with engine="numpy"')
    x = t.array(op.operands[0])
    wide: Array = widen(x) if op.operands[0].type.is_float else x
    return narrow(in_bytes(_kind(op, _KINDS)[1])(wide, op.attributes.integer("dimension")), x.dtype)


@rule("tpu.sort")
def _sort(t: Translation, op: Operation) -> Any:
    """Stable, along the last dimension; what is masked out goes to the end."""
    keys, values, *masks = map(t.array, op.operands)
    valid = masks[0] if masks else lax.full(keys.shape, np.bool_(True))
    if op.attributes.boolean("descending"):
        order = jnp.flip(keys.shape[-1] - 1 - jnp.argsort(jnp.flip(keys, -1), -1), -1)
    else:
        order = jnp.argsort(keys, -1)
    last = jnp.argsort(~jnp.take_along_axis(valid, order, -1), -1)
    order = jnp.take_along_axis(order, last, -1)
    return tuple(jnp.take_along_axis(x, order, -1) for x in (valid, keys, values))


@rule("tpu.assume_multiple")
def _assume_multiple(t: Translation, op: Operation) -> Any:
    value = t.get(op.operands[0])
    if t.checks:
        multiple = op.attributes.integer("multiple")
        t.fail_if(
            bool(value % multiple) if is_static(value) else lax.ne(lax.rem(value, np.int32(multiple)), np.int32(0)), op
        )
    return value
