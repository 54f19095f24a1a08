"""Operators, selects, casts, and functions of one array."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache, lru_cache
from typing import Final

from mosaic_tpu.lift._code import Call, Node, Operator, Text
from mosaic_tpu.lift._types import dtype_code
from mosaic_tpu.lift.idioms._form import Form, Part, Types, combined, origins, proposes
from mosaic_tpu.lift.rules._names import called
from mosaic_tpu.lift.rules.arith import RESULTS, predicate_of
from mosaic_tpu.sim import ir


def _operator(sign: str) -> Callable[[Sequence[Text]], Node]:
    return lambda xs: Operator(xs[0], sign, xs[1])


def _method(name: str) -> Callable[[Sequence[Text]], Node]:
    return lambda xs: Call(f"{xs[0].text}.{name}", *xs[1:])


@cache
def _call(name: str) -> Callable[[Sequence[Text]], Node]:
    return lambda xs: Call(f"b.pallas.{name}", *xs)


_WHERE: Final = _call("where")
_SELECT: Final = _call("select")

# --- two operands ----------------------------------------------------------------------------------------------------

_FLOOR: Final = _operator("//")
#: How ops are written; each proposes those that it stands in.
_BINARY: Final = {
    ("addi", "addf"): [_operator("+")],
    ("subi", "subf"): [_operator("-")],
    ("muli", "mulf"): [_operator("*")],
    ("divf",): [_operator("/"), _call("div")],
    ("divsi",): [_FLOOR, _call("div"), _call("cdiv")],
    ("divui",): [_FLOOR, _call("div")],
    ("remsi", "remui", "remf"): [_FLOOR, _operator("%"), _call("rem"), _call("fmod")],
    ("andi",): [_operator("&")],
    ("ori",): [_operator("|")],
    ("xori",): [_operator("^")],
    ("shli",): [_operator("<<")],
    ("shrsi",): [_operator(">>"), _call("shift_right_arithmetic")],
    ("shrui",): [_operator(">>"), _call("shift_right_logical")],
    ("minsi", "minui", "minimumf"): [_call("minimum")],
    ("maxsi", "maxui", "maximumf"): [_call("maximum")],
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
    if op.operands[0] is op.operands[1]:
        yield Form((op.operands[0].type,), _call("isnan"), called("isnan"))
    for x, y in _operands(op) if ending in _COMPARED else ():
        if x.type is not None:
            yield combined((x, y), _COMPARED[ending], f"is_{ending}")


#: With what results are called, as in style ``ops``.
_WAYS: Final = {
    f"arith.{name}": [(write, "ratio" if write is _FLOOR else RESULTS[f"arith.{name}"]) for write in ways]
    for names, ways in _BINARY.items()
    for name in names
}
proposes(*_WAYS)(_binary)


_OF_TWO: Final = {"math.atan2": "arctan2", "math.powf": "power"}


@proposes(*_OF_TWO)
def _functions_of_two(op: ir.Operation, types: Types) -> Iterator[Form]:
    name = _OF_TWO[op.name]
    for x, y in _operands(op):
        yield combined((x, y), _call(name), called(name))


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
    sign = "~" if op.name == "arith.xori" else "-"
    yield Form((op.results[0].type,), lambda xs: Text(f"{sign}{xs[0].text}"), "negated")


#: `x ** n` that is tried: products alone.
_POWERS: Final = range(3, 9)


@proposes("arith.mulf", "arith.muli")
def _powers(op: ir.Operation, types: Types) -> Iterator[Form]:
    type_ = op.results[0].type
    if op.operands[0] is op.operands[1]:
        for n in _POWERS:
            yield _power(type_, n)


@lru_cache(maxsize=1000)
def _power(type_: ir.Type, n: int) -> Form:
    return Form((type_,), lambda xs: Call("b.pallas.integer_pow", *xs, Text(str(n))), "power")


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
