"""Functions of one array, of one along an axis, and of two of one type, as the registry has them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from mosaic_tpu.builder import registry
from mosaic_tpu.lift._code import Call, Node, Text
from mosaic_tpu.lift.idioms._form import Form, Types, proposes
from mosaic_tpu.lift.rules._names import called
from mosaic_tpu.sim import ir

#: What idioms of two arrays are written as otherwise: operators, products.
_ELSEWHERE: Final = ("pallas.elementwise", "pallas.dot")
#: Ops that are in most of what Pallas emits, and give no idiom away.
_COMMON: Final = ("arith.constant", "vector.broadcast", "vector.multi_reduction", "vector.shape_cast", "arith.extui")


@dataclass(frozen=True)
class _Function:
    """An idiom: of how many arrays, and whether along an axis."""

    name: str
    arrays: int
    along: bool


def _functions() -> dict[str, list[_Function]]:
    """The idioms that take arrays and perhaps an axis, by each op that they emit."""
    found: dict[str, list[_Function]] = {}
    for spec in registry().values():
        function = spec.function
        if not spec.is_idiom or function.__annotations__["return"] != "Value":
            continue
        parameters = list(inspect.signature(function).parameters.values())[1:]
        arrays = [p for p in parameters if p.default is p.empty]
        if not all(p.annotation in ("Value", "Operand") for p in arrays) or not 1 <= len(arrays) <= 2:
            continue
        names = [p.name for p in parameters]
        # Reductions have their own file.
        if "keepdims" in names or (len(arrays) == 2 and spec.group in _ELSEWHERE):
            continue
        for op in spec.emits:
            along = op == "vector.multi_reduction" and "axis" in names
            if op not in _COMMON or along:
                known = _Function(spec.name.removeprefix("pallas."), len(arrays), "axis" in names)
                found.setdefault(op, []).append(known)
    return found


_FUNCTIONS: Final = _functions()


@proposes(*_FUNCTIONS)
def _proposed(op: ir.Operation, types: Types) -> Iterator[Form]:
    for type_ in types.of_shape(op.operands[0].type) if op.operands else ():
        yield from _forms(op.name, type_)


@lru_cache(maxsize=10_000)
def _forms(op: str, type_: ir.Type) -> tuple[Form, ...]:
    found: list[Form] = []
    rank = len(type_.shape)
    for function in _FUNCTIONS[op]:
        # The last axis is the one that goes without saying.
        axes = [None, *range(rank - 1)] if function.along and rank else [None]
        found += [Form((type_,) * function.arrays, _call(function, axis), called(function.name)) for axis in axes]
    return tuple(found)


def _call(function: _Function, axis: int | None) -> Callable[[Sequence[Text]], Node]:
    along = None if axis is None else Text(str(axis))
    return lambda xs: Call(f"b.pallas.{function.name}", *xs, axis=along)
