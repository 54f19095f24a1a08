"""Operators, selects, casts, and functions of one array."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Final

from mosaic_tpu.builder import registry
from mosaic_tpu.lift._code import Call, Node, Operator, Text
from mosaic_tpu.lift._types import dtype_code
from mosaic_tpu.lift.idioms._form import Form, Part, Types, combined, origins, proposes
from mosaic_tpu.lift.rules.arith import predicate_of
from mosaic_tpu.sim import ir


def _operator(sign: str) -> Callable[[Sequence[Text]], Node]:
    return lambda xs: Operator(xs[0], sign, xs[1])


def _method(name: str) -> Callable[[Sequence[Text]], Node]:
    return lambda xs: Call(f"{xs[0].text}.{name}", *xs[1:])


def _call(name: str) -> Callable[[Sequence[Text]], Node]:
    return lambda xs: Call(f"b.pallas.{name}", *xs)


_WHERE: Final = _call("where")
_SELECT: Final = _call("select")

# --- two operands ----------------------------------------------------------------------------------------------------

#: By the op: how it is written, and what its result is called.
_BINARY: Final = {
    ("addi", "addf"): [(_operator("+"), "plus")],
    ("subi", "subf"): [(_operator("-"), "minus")],
    ("muli", "mulf"): [(_operator("*"), "times")],
    ("divf",): [(_operator("/"), "ratio"), (_call("div"), "ratio")],
    ("divsi",): [(_operator("//"), "ratio"), (_call("div"), "ratio"), (_call("cdiv"), "ratio")],
    ("divui",): [(_operator("//"), "ratio"), (_call("div"), "ratio")],
    ("remsi", "remui", "remf"): [
        (_operator("//"), "ratio"),
        (_operator("%"), "rest"),
        (_call("rem"), "rest"),
        (_call("fmod"), "rest"),
    ],
    ("andi",): [(_operator("&"), "both")],
    ("ori",): [(_operator("|"), "either")],
    ("xori",): [(_operator("^"), "differ")],
    ("shli",): [(_operator("<<"), "shifted")],
    ("shrsi",): [(_operator(">>"), "shifted"), (_call("shift_right_arithmetic"), "shifted")],
    ("shrui",): [(_operator(">>"), "shifted"), (_call("shift_right_logical"), "shifted")],
    ("minsi", "minui", "minimumf"): [(_call("minimum"), "least")],
    ("maxsi", "maxui", "maximumf"): [(_call("maximum"), "most")],
}
#: By what a predicate ends in, behind what it says of signs and NaNs.
_COMPARED: Final = {
    "lt": _operator("<"),
    "le": _operator("<="),
    "gt": _operator(">"),
    "ge": _operator(">="),
    "eq": _method("eq"),
    "ne": _method("ne"),
}


def _binary(op: ir.Operation, types: Types) -> Iterator[Form]:
    for write, name in _WAYS[op.name]:
        for x, y in _operands(op):
            yield combined((x, y), write, name)


def _operands(op: ir.Operation) -> Iterator[tuple[Part, Part]]:
    """What both operands may have been; not two numbers."""
    lhs, rhs = (list(origins(v)) for v in op.operands)
    return ((x, y) for x in lhs for y in rhs if x.type is not None or y.type is not None)


@proposes("arith.cmpi", "arith.cmpf")
def _comparisons(op: ir.Operation, types: Types) -> Iterator[Form]:
    ending = predicate_of(op)[-2:]
    for x, y in _operands(op) if ending in _COMPARED else ():
        if x.type is not None:
            yield combined((x, y), _COMPARED[ending], f"is_{ending}")


_WAYS: Final = {f"arith.{name}": ways for names, ways in _BINARY.items() for name in names}
proposes(*_WAYS)(_binary)


_OF_TWO: Final = {"math.atan2": (_call("arctan2"), "angle"), "math.powf": (_call("power"), "power")}


@proposes(*_OF_TWO)
def _functions_of_two(op: ir.Operation, types: Types) -> Iterator[Form]:
    write, name = _OF_TWO[op.name]
    for x, y in _operands(op):
        yield combined((x, y), write, name)


@proposes("arith.select")
def _where(op: ir.Operation, types: Types) -> Iterator[Form]:
    condition, *cases = op.operands
    for x in origins(cases[0]):
        for y in origins(cases[1]):
            yield combined((Part(condition.type), x, y), _WHERE, "picked")
    if condition.type.kind == "scalar":
        types_ = tuple(v.type for v in op.operands)
        yield Form(types_, _SELECT, "picked")


@proposes("arith.subf", "arith.subi", "arith.negf", "arith.xori")
def _unary_operators(op: ir.Operation, types: Types) -> Iterator[Form]:
    sign, name = ("~", "negated") if op.name == "arith.xori" else ("-", "negated")
    yield Form((op.results[0].type,), lambda xs: Text(f"{sign}{xs[0].text}"), name)


# --- casts -----------------------------------------------------------------------------------------------------------

_CASTS: Final = ("extsi", "extui", "trunci", "sitofp", "uitofp", "fptosi", "fptoui", "extf", "truncf", "cmpf", "cmpi")


@proposes(*[f"arith.{c}" for c in _CASTS], "tpu.fptosi", "tpu.sitofp")
def _casts(op: ir.Operation, types: Types) -> Iterator[Form]:
    for source in types.of_shape(op.operands[0].type):
        for target in types.of_shape(op.results[0].type):
            if source.element != target.element:
                yield _cast(source, target)


@lru_cache(maxsize=10_000)
def _cast(source: ir.Type, target: ir.Type) -> Form:
    return Form((source,), lambda xs: Call(f"{xs[0].text}.to", dtype_code(target)), 0)


@proposes("tpu.bitcast", "arith.bitcast")
def _bitcasts(op: ir.Operation, types: Types) -> Iterator[Form]:
    source, target = op.operands[0].type, op.results[0].type
    yield Form((source,), lambda xs: Call(f"{xs[0].text}.bitcast", dtype_code(target)), 0)
    yield Form((source,), lambda xs: Call("b.pallas.bitcast_convert_type", *xs, dtype_code(target)), 0)


# --- functions of one array ------------------------------------------------------------------------------------------


def _functions() -> dict[str, list[tuple[str, bool]]]:
    """By each op that they emit: the idioms of one array, and whether they take an axis."""
    found: dict[str, list[tuple[str, bool]]] = {}
    for spec in registry().values():
        group, _, name = spec.name.rpartition(".")
        if group != "pallas" or name in ("index",):
            continue
        parameters = list(inspect.signature(spec.function).parameters.values())[1:]
        if spec.function.__annotations__["return"] != "Value" or not parameters:
            continue
        if parameters[0].annotation not in ("Value", "Operand") or parameters[0].name != "x":
            continue
        needed = [p.name for p in parameters if p.default is p.empty]
        along = len(parameters) == 2 and parameters[1].name == "axis"
        if needed == ["x"] and (len(parameters) == 1 or along or parameters[1].kind is not parameters[0].kind):
            for op in spec.emits:
                found.setdefault(op, []).append((name, along))
    return found


_OF_ONE: Final = _functions()


def _of_one(op: ir.Operation, types: Types) -> Iterator[Form]:
    for type_ in types.of_shape(op.operands[0].type) if op.operands else ():
        yield from _of_type(op.name, type_)


@lru_cache(maxsize=10_000)
def _of_type(op: str, type_: ir.Type) -> tuple[Form, ...]:
    found: list[Form] = []
    for name, along in _OF_ONE[op]:
        if not along:
            found.append(Form((type_,), _call(name), name))
            continue
        for axis in range(len(type_.shape)):
            shown = Text("-1" if axis == len(type_.shape) - 1 else str(axis))
            found.append(Form((type_,), _along(name, shown), name))
    return tuple(found)


def _along(name: str, axis: Text) -> Callable[[Sequence[Text]], Node]:
    return lambda xs: Call(f"b.pallas.{name}", *xs, axis)


proposes(*(op for op in _OF_ONE if op not in ("arith.constant", "vector.broadcast", "vector.multi_reduction")))(_of_one)
