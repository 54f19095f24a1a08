"""The arith dialect: operators, comparisons, casts, constants."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mosaic_tpu.builder.ops.arith import CMPF, CMPI
from mosaic_tpu.lift._code import Call, Node, Operator, Shape, String, Text
from mosaic_tpu.lift._numbers import scalar, splat
from mosaic_tpu.lift._registry import rule
from mosaic_tpu.lift._types import DTYPES, dtype_of
from mosaic_tpu.lift.rules._names import like
from mosaic_tpu.sim import ir

if TYPE_CHECKING:
    from mosaic_tpu.lift._writer import Writer

#: What goes without saying.
PLAIN: Final = {
    "overflowFlags": "#arith.overflow<none>",
    "fastmath": "#arith.fastmath<none>",
    "isExact": "false",
}

# --- operators -------------------------------------------------------------------------------------------------------

_SIGNS: Final = {
    "arith.addi": ("+", "plus"),
    "arith.addf": ("+", "plus"),
    "arith.subi": ("-", "minus"),
    "arith.subf": ("-", "minus"),
    "arith.muli": ("*", "times"),
    "arith.mulf": ("*", "times"),
    "arith.divf": ("/", "ratio"),
    "arith.andi": ("&", "both"),
    "arith.ori": ("|", "either"),
    "arith.xori": ("^", "differ"),
    "arith.shli": ("<<", "shifted"),
    "arith.shrsi": (">>", "shifted"),
}
_BITWISE: Final = ("arith.andi", "arith.ori", "arith.xori")


def _has_operator(op: ir.Operation) -> bool:
    """Operators take what JAX's do: no booleans but for logic, and values of one type."""
    lhs, rhs = op.operands
    return lhs.type == rhs.type and lhs.type.kind != "memref" and (lhs.type.element != "i1" or op.name in _BITWISE)


def _write_operator(w: Writer, op: ir.Operation) -> Node:
    lhs, rhs = op.operands
    return Operator(w.use(lhs), _SIGNS[op.name][0], w.use(rhs))


for _name, (_, _called) in _SIGNS.items():
    rule(_name, name=_called, attributes=PLAIN, when=_has_operator, number="either")(_write_operator)

_FUNCTIONS: Final = {
    "divsi": "ratio",
    "divui": "ratio",
    "remsi": "rest",
    "remui": "rest",
    "remf": "rest",
    "shrui": "shifted",
    "minsi": "least",
    "minui": "least",
    "minimumf": "least",
    "minnumf": "least",
    "maxsi": "most",
    "maxui": "most",
    "maximumf": "most",
    "maxnumf": "most",
}
#: What results are called.
RESULTS: Final = {name: called for name, (_, called) in _SIGNS.items()} | {
    f"arith.{name}": called for name, called in _FUNCTIONS.items()
}


def _write_function(w: Writer, op: ir.Operation) -> Node:
    return Call(f"b.{op.name.removeprefix('arith.')}", *[w.use(v) for v in op.operands])


for _name, _called in _FUNCTIONS.items():
    rule(f"arith.{_name}", name=_called, attributes=PLAIN)(_write_function)
rule("arith.negf", name="negated", attributes=PLAIN)(_write_function)
rule("arith.select", name="picked")(_write_function)

# --- comparisons -----------------------------------------------------------------------------------------------------

_PREDICATES: Final = {
    "arith.cmpi": {f"{n} : i64": name for name, n in CMPI.items()},
    "arith.cmpf": {f"{n} : i64": name for name, n in CMPF.items()},
}
_COMPARED: Final = {
    "arith.cmpi": dict(slt="<", sle="<=", sgt=">", sge=">=", eq="eq", ne="ne"),
    "arith.cmpf": dict(olt="<", ole="<=", ogt=">", oge=">=", oeq="eq", one="ne"),
}


def predicate_of(op: ir.Operation) -> str:
    """How an op compares: ``slt``, ``oeq``; empty if it is unknown."""
    return _PREDICATES[op.name].get(op.attributes.text("predicate"), "")


def _sign(op: ir.Operation) -> str | None:
    """The operator or method, if there is one."""
    return None if op.operands[0].type.element == "i1" else _COMPARED[op.name].get(predicate_of(op))


def _named_after_predicate(w: Writer, op: ir.Operation) -> str:
    name = predicate_of(op)
    return f"is_{name[1:] if len(name) == 3 and name[0] in 'suo' and name not in ('uno', 'ord') else name}"


@rule(
    "arith.cmpi",
    "arith.cmpf",
    name=_named_after_predicate,
    attributes=PLAIN | {"predicate": None},
    when=lambda op: bool(predicate_of(op)) and op.operands[0].type == op.operands[1].type,
    number="right",
    takes_number=lambda op: _sign(op) is not None,
)
def _compare(w: Writer, op: ir.Operation) -> Node:
    lhs, rhs = (w.use(v) for v in op.operands)
    sign = _sign(op)
    if sign is None:
        return Call(f"b.{op.name.removeprefix('arith.')}", String(predicate_of(op)), lhs, rhs)
    return Call(f"{lhs.text}.{sign}", rhs) if sign in ("eq", "ne") else Operator(lhs, sign, rhs)


# --- casts -----------------------------------------------------------------------------------------------------------

_CASTS: Final = ("extsi", "extui", "trunci", "sitofp", "uitofp", "fptosi", "fptoui", "extf", "truncf")


def _cast_by_to(op: ir.Operation) -> bool:
    """Whether ``x.to(dtype)`` is this op."""
    source, target = dtype_of(op.operands[0].type), dtype_of(op.results[0].type)
    name = op.name.removeprefix("arith.")
    if name in ("extsi", "sitofp"):
        return source.kind == "int"
    if name in ("extui", "uitofp"):
        return source.kind == "bool"
    return name != "fptoui" and source.kind != "index" and target.kind != "index"


def _is_cast(op: ir.Operation) -> bool:
    return op.operands[0].type.kind in ("scalar", "vector") and op.operands[0].type.shape == op.results[0].type.shape


@rule(*[f"arith.{c}" for c in _CASTS], name=like(), attributes=PLAIN, when=_is_cast)
def _cast(w: Writer, op: ir.Operation) -> Node:
    source, result = op.operands[0], op.results[0]
    if _cast_by_to(op):
        return Call(f"{w.use(source).text}.to", w.dtype(result))
    return Call(f"b.{op.name.removeprefix('arith.')}", w.use(source), w.dtype(result))


@rule("arith.index_cast", name=like(suffix="_index"), when=_is_cast)
def _index_cast(w: Writer, op: ir.Operation) -> Node:
    source, result = op.operands[0], op.results[0]
    if result.type.element == "index":
        return Call("b.to_index", w.use(source))
    return Call("b.index_cast", w.use(source), w.dtype(result))


@rule("arith.bitcast", name=like(suffix="_bits"), when=_is_cast)
def _bitcast(w: Writer, op: ir.Operation) -> Node:
    return Call("b.arith_bitcast", w.use(op.operands[0]), w.dtype(op.results[0]))


# --- constants -------------------------------------------------------------------------------------------------------


_FLOATS: Final = {"0.0": "nought", "1.0": "unit", "-math.inf": "lowest", "math.inf": "highest"}


def _constant_name(w: Writer, op: ir.Operation) -> str:
    type_ = op.results[0].type
    literal = (scalar(op) if type_.kind == "scalar" else splat(op)) or ""
    if type_.kind == "vector":
        return {"0": "zeros", "0.0": "zeros", "1": "ones", "1.0": "ones"}.get(literal, "filled")
    if type_.element == "i1":
        return "always" if literal == "True" else "never"
    if DTYPES[type_.element].is_float:
        return _FLOATS.get(literal, "factor")
    digits = literal.replace("-", "minus_") if len(literal) < 12 else ""
    return f"c{digits}" if type_.element == "index" else f"n{digits}"


@rule(
    "arith.constant",
    name=_constant_name,
    attributes={"value": None},
    when=lambda op: (scalar(op) if op.results[0].type.kind == "scalar" else splat(op)) is not None,
)
def _constant(w: Writer, op: ir.Operation) -> Node:
    result = op.results[0]
    if result.type.kind == "vector":
        literal = splat(op) or ""
        shape, dtype = Shape(result.type.shape), w.dtype(result)
        if literal in ("0", "0.0", "False"):
            return Call("b.zeros", shape, dtype)
        return Call("b.ones", shape, dtype) if literal in ("1", "1.0") else Call("b.full", shape, Text(literal), dtype)
    literal = scalar(op) or ""
    if result.type.element == "index":
        return Call("b.c_index", Text(literal))
    if result.type.element in ("i1", "i32", "f32"):
        return Call("b.lift", Text(literal))
    return Call("b.constant", Text(literal), w.dtype(result))
