"""Shared bodies of the elementwise rules."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mosaic_tpu.sim._emit import Emitter
from mosaic_tpu.sim._module import Operation, Value
from mosaic_tpu.sim._types import Type


def is_vector(value: Value) -> bool:
    """Whether it is a vector."""
    return value.type.kind == "vector"


def narrow_float(type_: Type) -> bool:
    """Whether arithmetic is done in f32 and rounded."""
    return type_.is_float and type_.element not in ("f32", "f64")


def narrow_int(type_: Type) -> bool:
    """Whether NumPy has no arithmetic on it: integers of less than a byte, done in i8 and wrapped."""
    return not type_.is_float and 1 < width(type_) < 8


def width(type_: Type) -> int:
    """Bits of an integer as the simulator holds it."""
    return 64 if type_.element == "index" else type_.bits


def shape_of(e: Emitter, values: Sequence[Value]) -> tuple[int, ...]:
    """The actual shape of an elementwise op on some values."""
    return np.broadcast_shapes(*(e.info(v).shape for v in values))


def dtype(e: Emitter, type_: Type) -> str:
    """The name of a NumPy dtype in generated code."""
    name = "d_" + type_.element
    e.names[name] = type_.dtype
    return name


def guard(e: Emitter, condition: str, what: str) -> None:
    """Where the condition holds the op's result is undefined: a hazard only if an output depends on it."""
    if e.checks:
        name = e.name("u")
        e.line(f"{name} = {condition}")
        e.suspect = (name, what)


def unsigned(text: str, value: Value) -> str:
    """An integer's expression as the unsigned number of the same bits."""
    bits = width(value.type)
    if not is_vector(value):
        return f"({text} & {(1 << bits) - 1})"
    return f"({text}).view(np.uint{bits})" if bits >= 8 else f"(({text}).astype(np.int16) & {(1 << bits) - 1})"


def signed(e: Emitter, text: str, type_: Type) -> str:
    """What `unsigned` made of a vector, back in its own type."""
    if width(type_) >= 8:
        return f"({text}).view({dtype(e, type_)})"
    return narrowed(e, text, type_)


def narrowed(e: Emitter, text: str, type_: Type) -> str:
    """A vector of integers in a type of less than a byte, in two's complement."""
    if type_.element == "i1":
        return f"(({text}) & 1).astype(np.bool_)"
    half = 1 << (type_.bits - 1)
    return f"(((({text}) + {half}) & {2 * half - 1}) - {half}).astype({dtype(e, type_)})"


def floats(e: Emitter, op: Operation, template: str) -> None:
    """An op on floats: ``{0} + {1}``, computed in f32 where the type is narrower, then rounded."""
    operands = op.operands
    result = op.result
    texts = [e.text(v) for v in operands]
    if narrow_float(operands[-1].type):
        texts = [f"{t}.astype(np.float32)" if narrow_float(v.type) else t for t, v in zip(texts, operands, strict=True)]
    text = template.format(*texts)
    if narrow_float(result.type):
        text = f"({text}).astype({dtype(e, result.type)})"
    e.define(result, text, shape_of(e, operands))


def integers(e: Emitter, op: Operation, template: str, scalar: str | None = None) -> None:
    """An op on integers that wraps: NumPy does for vectors, `wrapped` for scalars."""
    operands, result = op.operands, op.result
    if is_vector(result):
        texts = [e.text(v) for v in operands]
        if narrow_int(result.type):
            wide = [f"({t}).astype(np.int8)" for t in texts]
            e.define(result, narrowed(e, template.format(*wide), result.type), shape_of(e, operands))
        else:
            e.define(result, template.format(*texts), shape_of(e, operands))
        return
    template = scalar or template
    known = [e.known(v) for v in operands]
    if all(k is not None for k in known):
        e.fold(result, wrap_known(eval(template.format(*(f"({k})" for k in known))), result.type))
        return
    e.define(result, wrapped(template.format(*(e.text(v) for v in operands)), result.type))


def wrapped(text: str, type_: Type) -> str:
    """A scalar expression in two's complement of the type's width."""
    if type_.element == "index":
        return text
    if type_.element == "i1":
        return f"bool(({text}) & 1)"
    half = 1 << (type_.bits - 1)
    return f"((({text}) + {half}) & {2 * half - 1}) - {half}"


def wrap_known(value: int, type_: Type) -> int | bool:
    """A number in two's complement of the type's width."""
    if type_.element == "i1":
        return bool(value & 1)
    half = 1 << (width(type_) - 1)
    return ((value + half) & (2 * half - 1)) - half
