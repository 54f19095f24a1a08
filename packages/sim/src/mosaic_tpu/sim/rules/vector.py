"""Vectors: loads and stores, shapes, reductions."""

from __future__ import annotations

from typing import Final

import numpy as np

from mosaic_tpu.sim._emit import Emitter, rule, unsupported
from mosaic_tpu.sim._module import Operation, Value
from mosaic_tpu.sim.rules._access import load, store
from mosaic_tpu.sim.rules._elementwise import (
    dtype,
    is_vector,
    narrow_float,
    narrow_int,
    narrowed,
    signed,
    unsigned,
    width,
    wrapped,
)


@rule("vector.load")
def _load(e: Emitter, op: Operation) -> None:
    base, *indices = op.operands
    load(e, op, base, indices, op.result.type.shape)


@rule("vector.store", writes=True)
def _store(e: Emitter, op: Operation) -> None:
    value, base, *indices = op.operands
    store(e, op, value, base, indices)


@rule("vector.broadcast", "vector.splat", view=True)
def _broadcast(e: Emitter, op: Operation) -> None:
    (a,) = op.operands
    if not is_vector(a):
        known = e.known(a)
        name = dtype(e, op.result.type)
        if known is not None:
            e.fold(op.result, np.asarray(known, op.result.type.dtype))
        else:
            e.define(op.result, f"np.asarray({e.text(a)}, {name})", ())
        return
    info = e.info(a)
    missing = len(op.result.type.shape) - len(a.type.shape)
    if info.shape == () or missing == 0:
        e.infos[op.result.index] = info
        return
    shape = (1,) * missing + info.shape
    e.define(op.result, f"{info.text}.reshape({shape})", shape)


@rule("vector.shape_cast", "tpu.reshape", view=True)
def _shape_cast(e: Emitter, op: Operation) -> None:
    (a,) = op.operands
    info = e.info(a)
    target = op.result.type.shape
    if info.shape == () or info.shape == target == a.type.shape:
        e.infos[op.result.index] = info
    elif (lazy := _reshaped(a.type.shape, info.shape, target)) is not None:
        text = info.text
        if text.endswith(")") and (start := text.rfind(".reshape((")) > 0 and text.find(")", start) == len(text) - 2:
            text = text[:start]  # of two reshapes the second says it all
        e.define(op.result, f"{text}.reshape({lazy})", lazy)
    else:
        e.define(op.result, f"{e.full(a)}.reshape({target})")


def _reshaped(shape: tuple[int, ...], actual: tuple[int, ...], target: tuple[int, ...]) -> tuple[int, ...] | None:
    """The actual shape after a reshape that only adds or drops sizes of 1; ``None`` if it does more."""
    kept = [a for n, a in zip(shape, actual, strict=True) if n != 1]
    if [n for n in shape if n != 1] != [n for n in target if n != 1]:
        return None
    sizes = iter(kept)
    return tuple(1 if n == 1 else next(sizes) for n in target)


@rule("vector.transpose", "tpu.transpose", view=True)
def _transpose(e: Emitter, op: Operation) -> None:
    (a,) = op.operands
    info = e.info(a)
    order = op.attributes.integers("permutation")
    if info.shape == ():
        e.infos[op.result.index] = info
        return
    shape = tuple(info.shape[i] for i in order)
    e.define(op.result, f"{info.text}.transpose({order})", shape)


@rule("vector.extract_strided_slice", view=True)
def _extract_strided_slice(e: Emitter, op: Operation) -> None:
    (a,) = op.operands
    info = e.info(a)
    attributes = op.attributes
    parts = zip(
        attributes.integers("offsets"), attributes.integers("sizes"), attributes.integers("strides"), strict=True
    )
    if info.shape == ():
        e.infos[op.result.index] = info
        return
    texts: list[str] = []
    shape = list(info.shape)
    for i, (offset, size, stride) in enumerate(parts):
        if info.shape[i] != a.type.shape[i] or size == a.type.shape[i]:
            texts.append(":")
        else:
            texts.append(f"{offset}:{offset + (size - 1) * stride + 1}" + (f":{stride}" if stride != 1 else ""))
            shape[i] = size
    e.define(op.result, f"{info.text}[{', '.join(texts)}]", tuple(shape))


@rule("vector.insert_strided_slice")
def _insert_strided_slice(e: Emitter, op: Operation) -> None:
    a, b = op.operands
    name = f"v{op.result.index}"
    e.line(f"{name} = np.array({e.full(b)})")
    offsets = op.attributes.integers("offsets")
    lead = len(b.type.shape) - len(a.type.shape)
    sizes = (1,) * lead + a.type.shape
    texts = ", ".join(f"{o}:{o + n}" for o, n in zip(offsets, sizes, strict=True))
    e.line(f"{name}[{texts}] = {e.full(a)}")
    e.define(op.result, name)


@rule("vector.extract", view=True)
def _extract(e: Emitter, op: Operation) -> None:
    a, *dynamic = op.operands
    static = op.attributes.integers("static_position")
    rest = iter(dynamic)
    indices = [e.index(next(rest)) if i < 0 else i for i in static]
    info = e.info(a)
    if info.shape == ():
        text = f"{info.text}[()]"
    else:
        subscript = ", ".join(str(i if n != 1 else 0) for i, n in zip(indices, info.shape, strict=False))
        text = f"{info.text}[{subscript}]" if indices else info.text
    if is_vector(op.result):
        e.define(op.result, text, info.shape[len(indices) :])
    else:
        e.assign(op.result, scalar(text, op.result))


def scalar(text: str, of: Value) -> str:
    """An array's element as generated code holds scalars."""
    if of.type.element == "i1":
        return f"bool({text})"
    return text if of.type.is_float else f"int({text})"


_REDUCTIONS: Final = {
    "add": ("np.add", 0),
    "mul": ("np.multiply", 1),
    "minsi": ("np.minimum", None),
    "maxsi": ("np.maximum", None),
    "minui": ("np.minimum", None),
    "maxui": ("np.maximum", None),
    "minimumf": ("np.minimum", np.inf),
    "maximumf": ("np.maximum", -np.inf),
    "minnumf": ("np.fmin", None),
    "maxnumf": ("np.fmax", None),
    "and": ("np.bitwise_and", -1),
    "or": ("np.bitwise_or", 0),
    "xor": ("np.bitwise_xor", 0),
}


@rule("vector.multi_reduction")
def _multi_reduction(e: Emitter, op: Operation) -> None:
    a, initial = op.operands
    axes = op.attributes.integers("reduction_dims")
    info = e.info(a)
    if info.product is not None:
        _dot(e, op, info.product, axes[0])
        return
    if not axes:
        _combined(e, op, f"{info.text}.copy()", info.shape, a, initial)
        return
    # What is broadcast along a reduced dimension counts as often as it is repeated.
    whole = info.shape == () or any(info.shape[i] != a.type.shape[i] for i in axes)
    text = e.full(a) if whole else info.text
    shape = op.result.type.shape if whole else tuple(n for i, n in enumerate(info.shape) if i not in axes)
    _combined(e, op, _reduced(e, op, text, a, axes), shape, a, initial)


@rule("vector.reduction")
def _reduction(e: Emitter, op: Operation) -> None:
    a, *initial = op.operands
    _combined(e, op, _reduced(e, op, e.full(a), a, (0,)), (), a, initial[0] if initial else None)


def _wide(text: str, of: Value, kind: str) -> str:
    """As a reduction computes: narrow floats in f32, narrow integers in i8, unsigned ones by their bits."""
    if narrow_float(of.type):
        return f"({text}).astype(np.float32)"
    if kind in ("minui", "maxui"):
        return unsigned(text, of)
    return f"({text}).astype(np.int8)" if narrow_int(of.type) and is_vector(of) else text


def _reduced(e: Emitter, op: Operation, text: str, a: Value, axes: tuple[int, ...]) -> str:
    kind = op.attributes.keyword("kind")
    axis = axes[0] if len(axes) == 1 else axes
    kept = ""
    if kind in ("add", "mul") and not a.type.is_float:
        kept = f", dtype={dtype(e, a.type) if width(a.type) >= 8 else 'np.int8'}"
    return f"{_REDUCTIONS[kind][0]}.reduce({_wide(text, a, kind)}, axis={axis}{kept})"


def _combined(e: Emitter, op: Operation, reduced: str, shape: tuple[int, ...], a: Value, initial: Value | None) -> None:
    """A reduction with its start value, in the element type."""
    kind = op.attributes.keyword("kind")
    ufunc, identity = _REDUCTIONS[kind]
    known = None if initial is None else e.known(initial)
    plain = (
        known is not None and identity is not None and bool(np.all(np.asarray(known).astype(np.float64) == identity))
    )
    if initial is not None and not plain:
        reduced = f"{ufunc}({reduced}, {_wide(e.text(initial), initial, kind)})"
        shape = np.broadcast_shapes(shape, e.info(initial).shape)
    result = op.result
    if is_vector(result):
        e.define(result, _typed(e, reduced, a, kind), shape)
        return
    if a.type.is_float:
        e.assign(result, f"({reduced}).astype({dtype(e, a.type)})" if narrow_float(a.type) else reduced)
    else:
        e.assign(result, f"bool({reduced} & 1)" if a.type.element == "i1" else wrapped(f"int({reduced})", a.type))


def _typed(e: Emitter, text: str, a: Value, kind: str) -> str:
    if narrow_float(a.type):
        return f"({text}).astype({dtype(e, a.type)})"
    if narrow_int(a.type) or (a.type.element == "i1" and kind in ("add", "mul")):
        return narrowed(e, text, a.type)
    return signed(e, text, a.type) if kind in ("minui", "maxui") else text


def _dot(e: Emitter, op: Operation, factors: tuple[Value, Value], axis: int) -> None:
    """A sum of products with a column or a row: BLAS does both at once."""
    full = factors[0].type.shape
    matrix, vector = factors if e.info(factors[0]).shape == full else factors[::-1]
    flat = f"{e.text(vector)}.reshape(-1)"
    text = f"np.dot({flat}, {e.text(matrix)})" if axis == 0 else f"np.dot({e.text(matrix)}, {flat})"
    known = e.known(op.operands[1])
    if known is None or known != 0:
        text = f"{text} + {e.text(op.operands[1])}"
    e.define(op.result, text)


@rule("vector.bitcast", view=True)
def _bitcast(e: Emitter, op: Operation) -> None:
    (a,) = op.operands
    name = dtype(e, op.result.type)
    if a.type.bits == op.result.type.bits:
        e.define(op.result, f"{e.text(a)}.view({name})", e.info(a).shape)
    elif min(a.type.bits, op.result.type.bits) < 8:
        raise unsupported(e.module, op, "it packs elements of less than a byte along the last dimension")
    else:
        e.define(op.result, f"np.ascontiguousarray({e.full(a)}).view({name})")


@rule("vector.insert")
def _insert(e: Emitter, op: Operation) -> None:
    a, b, *dynamic = op.operands
    rest = iter(dynamic)
    indices = [e.index(next(rest)) if i < 0 else i for i in op.attributes.integers("static_position")]
    name = f"v{op.result.index}"
    e.line(f"{name} = np.array({e.full(b)})")
    e.line(f"{name}[{', '.join(map(str, indices)) or '...'}] = {e.text(a)}")
    e.define(op.result, name)


@rule("vector.create_mask", "vector.constant_mask", "tpu.create_mask")
def _create_mask(e: Emitter, op: Operation) -> None:
    shape = op.result.type.shape
    count = len(shape)
    if op.name == "vector.constant_mask":
        lows: list[str | int] = [0] * count
        highs: list[str | int] = list(op.attributes.integers("mask_dim_sizes"))
    elif op.name == "vector.create_mask":
        lows, highs = [0] * count, [e.index(o) for o in op.operands]
    else:
        lows, highs = [e.index(o) for o in op.operands[:count]], [e.index(o) for o in op.operands[count:]]
    name = f"v{op.result.index}"
    e.line(f"{name} = np.zeros({shape}, np.bool_)")
    parts = ", ".join(f"max({low}, 0):max({high}, 0)" for low, high in zip(lows, highs, strict=True))
    e.line(f"{name}[{parts}] = True")
    e.define(op.result, name)
