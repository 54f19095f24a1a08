"""Reductions along axes, and positions."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from mosaic_tpu.builder import registry
from mosaic_tpu.lift._code import Call, Node, Shape, Text
from mosaic_tpu.lift.idioms._form import Form, Types, proposes
from mosaic_tpu.lift.rules._names import called
from mosaic_tpu.sim import ir

#: The ops that reduce.
_REDUCING: Final = frozenset(("vector.multi_reduction", "tpu.reduce_index"))


def _reductions() -> dict[str, list[str]]:
    """By each op that they emit: the idioms that reduce one array."""
    found: dict[str, list[str]] = {}
    for spec in registry().values():
        group, _, name = spec.name.rpartition(".")
        if group == "pallas" and {"x", "axis", "keepdims"} <= set(inspect.signature(spec.function).parameters):
            # One that reduces in more than one step names none of them.
            ops = spec.emits if _REDUCING.intersection(spec.emits) else _REDUCING
            for op in ops:
                found.setdefault(op, []).append(name)
    return found


_REDUCED: Final = _reductions()


@proposes("vector.multi_reduction", "tpu.reduce_index")
def _reduction(op: ir.Operation, types: Types) -> Iterator[Form]:
    source = op.operands[0]
    for name in _REDUCED[op.name]:
        for type_ in _sources(source, types):
            if type_.kind != "vector":
                continue
            for axis in _axes(op, type_):
                for keepdims in (False, True):
                    yield Form((type_,), _write(name, axis, keepdims), called(name))


def _sources(source: ir.Value, types: Types) -> Iterator[ir.Type]:
    yield from types.of_shape(source.type)
    made = source.definition
    for _ in range(3):
        if made is None or not made.operands:
            return
        if made.name == "vector.shape_cast":
            yield from types.of_shape(made.operands[0].type)
        made = made.operands[0].definition


def _axes(op: ir.Operation, type_: ir.Type) -> Iterator[Node | None]:
    rank = len(type_.shape)
    if op.name == "tpu.reduce_index":
        yield Text(str(op.attributes.integer("axis")))
        if rank == 1:
            yield None
        return
    axes = op.attributes.integers("reduction_dims")
    if len(op.operands[0].type.shape) != rank or len(axes) == rank:
        yield None
    if len(op.operands[0].type.shape) != rank:
        axes = tuple(a - (len(op.operands[0].type.shape) - rank) for a in axes)
    if all(0 <= a < rank for a in axes):
        yield Text(str(axes[0])) if len(axes) == 1 else Shape(axes)


def _write(name: str, axis: Node | None, keepdims: bool) -> Callable[[Sequence[Text]], Node]:
    how: dict[str, Node | None] = {"keepdims": Text("True") if keepdims else None}
    if not _axis_is_second(name):
        return lambda xs: Call(f"b.pallas.{name}", *xs, axis=axis, **how)
    return lambda xs: Call(f"b.pallas.{name}", *xs, *([] if axis is None else [axis]), **how)


@functools.cache
def _axis_is_second(name: str) -> bool:
    return list(inspect.signature(registry()[f"pallas.{name}"].function).parameters)[2] == "axis"
