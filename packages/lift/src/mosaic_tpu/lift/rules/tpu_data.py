"""The tpu dialect on vectors and scalars."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from mosaic_tpu.builder._compat import HAS_REPEAT
from mosaic_tpu.lift._code import Call, Node, Shape, String, Text
from mosaic_tpu.lift._registry import rule
from mosaic_tpu.lift._types import dtype_of
from mosaic_tpu.lift.rules._names import like
from mosaic_tpu.sim import ir

if TYPE_CHECKING:
    from mosaic_tpu.lift._writer import Writer


@rule("tpu.iota", name="iota", attributes={"dimensions": None})
def _iota(w: Writer, op: ir.Operation) -> Node:
    result = op.results[0]
    return Call("b.iota", w.shape(result), w.dtype(result), Shape(op.attributes.integers("dimensions")))


def _is_bitcast(op: ir.Operation) -> bool:
    source, result = op.operands[0].type, op.results[0].type
    old, new = dtype_of(source).bits, dtype_of(result).bits
    if source.kind != "vector" or source.shape == result.shape:
        return source.kind == "vector" and old == new
    return len(source.shape) > 1 and source.shape[-2] * old == result.shape[-2] * new


@rule("tpu.bitcast", name=like(suffix="_bits"), when=_is_bitcast)
def _bitcast(w: Writer, op: ir.Operation) -> Node:
    return Call(f"{w.use(op.operands[0]).text}.bitcast", w.dtype(op.results[0]))


@rule("tpu.reshape", name=like())
def _reshape(w: Writer, op: ir.Operation) -> Node:
    return Call("b.reshape", w.use(op.operands[0]), w.shape(op.results[0]))


@rule("tpu.concatenate", name="joined", attributes={"dimension": None})
def _concatenate(w: Writer, op: ir.Operation) -> Node:
    return Call("b.concatenate", w.uses(op.operands), Text(str(op.attributes.integer("dimension"))))


@rule("tpu.transpose", name=like(suffix="_t"), attributes={"permutation": None})
def _transpose(w: Writer, op: ir.Operation) -> Node:
    return Call("b.transpose", w.use(op.operands[0]), Shape(op.attributes.integers("permutation")))


@rule(
    "tpu.dynamic_rotate",
    name=like(),
    attributes={"dimension": None, "stride": None, "stride_dimension": None},
)
def _dynamic_rotate(w: Writer, op: ir.Operation) -> Node:
    source, amount = op.operands
    attributes = op.attributes
    steps = {k: Text(str(attributes.integer(k))) for k in ("stride", "stride_dimension") if k in attributes}
    return Call("b.dynamic_rotate", w.use(source), w.use(amount), Text(str(attributes.integer("dimension"))), **steps)


_KINDS: Final = re.compile(r"#tpu\.reduction_kind<(\w+)>")


def _kind(op: ir.Operation) -> str:
    found = _KINDS.fullmatch(op.attributes.text("kind"))
    return "" if found is None else found[1]


@rule(
    "tpu.reduce_index",
    name="position",
    attributes={"axis": None, "kind": None},
    when=lambda op: bool(_kind(op)) and op.results[0].type.element == "i32",
)
def _reduce_index(w: Writer, op: ir.Operation) -> Node:
    axis = Text(str(op.attributes.integer("axis")))
    return Call("b.reduce_index", w.use(op.operands[0]), String(_kind(op)), axis)


@rule(
    "tpu.all_reduce",
    name="reduced",
    attributes={"dim": None, "kind": None},
    when=lambda op: bool(_kind(op)),
)
def _all_reduce(w: Writer, op: ir.Operation) -> Node:
    return Call("b.all_reduce", w.use(op.operands[0]), String(_kind(op)), Text(str(op.attributes.integer("dim"))))


@rule("tpu.broadcast_in_sublanes", name=like(), attributes={"lane": None})
def _broadcast_in_sublanes(w: Writer, op: ir.Operation) -> Node:
    lane = Text(str(op.attributes.integer("lane")))
    return Call("b.broadcast_in_sublanes", w.use(op.operands[0]), lane, w.shape(op.results[0]))


@rule("tpu.repeat", name=like(), attributes={"dimension": None, "times": None}, when=lambda op: HAS_REPEAT)
def _repeat(w: Writer, op: ir.Operation) -> Node:
    how = [Text(str(op.attributes.integer(k))) for k in ("dimension", "times")]
    return Call("b.repeat", w.use(op.operands[0]), *how)


@rule("tpu.reciprocal", name="reciprocal", attributes={"approx": None, "full_range": None})
def _reciprocal(w: Writer, op: ir.Operation) -> Node:
    return Call(
        "b.reciprocal",
        w.use(op.operands[0]),
        approximate=Text("True") if op.attributes.boolean("approx") else None,
        full_range=Text("True") if op.attributes.boolean("full_range") else None,
    )


@rule("tpu.assume_multiple", name=like(), attributes={"multiple": None})
def _assume_multiple(w: Writer, op: ir.Operation) -> Node:
    return Call("b.assume_multiple", w.use(op.operands[0]), Text(str(op.attributes.integer("multiple"))))


# --- matmul ----------------------------------------------------------------------------------------------------------

_NUMBERS: Final = re.compile(r"#tpu\.dot_dimension_numbers<(.*)>")
_FIELDS: Final = (
    "lhs_contracting",
    "rhs_contracting",
    "lhs_non_contracting",
    "rhs_non_contracting",
    "output_order",
    "lhs_batch",
    "rhs_batch",
)
_PLAIN: Final = {
    "[1], [0], [0], [1], [0, 0, 1, 1], [], []": {},
    "[1], [1], [0], [0], [0, 0, 1, 0], [], []": {"transpose_rhs": Text("True")},
    "[0], [0], [1], [1], [0, 1, 1, 1], [], []": {"transpose_lhs": Text("True")},
    "[0], [1], [1], [0], [0, 1, 1, 0], [], []": {"transpose_lhs": Text("True"), "transpose_rhs": Text("True")},
}


def _dimension_numbers(op: ir.Operation) -> str:
    found = _NUMBERS.fullmatch(op.attributes.text("dimension_numbers"))
    return "" if found is None else found[1]


def _precision(op: ir.Operation) -> str | None:
    found = re.fullmatch(r"#tpu\.contract_precision<(\w+)>", op.attributes.text("precision"))
    return None if found is None else found[1]


@rule(
    "tpu.matmul",
    name="product",
    attributes={
        "dimension_numbers": None,
        "precision": None,
        "transpose_lhs": "false",
        "transpose_rhs": "false",
        "transpose_lhs_hint": None,
    },
    when=lambda op: bool(_dimension_numbers(op)),
)
def _matmul(w: Writer, op: ir.Operation) -> Node:
    numbers = _dimension_numbers(op)
    how: dict[str, Node] = dict(_PLAIN.get(numbers, {}))
    if numbers not in _PLAIN:
        lists = re.findall(r"\[([\d, ]*)\]", numbers)
        parts = [Shape(tuple(int(n) for n in part.split(",") if n.strip())) for part in lists]
        while len(parts) > 5 and not parts[-1].sizes:
            parts.pop()
        how["dimension_numbers"] = Call("b.dot_dimension_numbers", *parts)
    precision = _precision(op)
    return Call(
        "b.matmul",
        *[w.use(v) for v in op.operands],
        **how,
        precision=None if precision is None else String(precision),
        transpose_lhs_hint=Text("True") if op.attributes.boolean("transpose_lhs_hint") else None,
    )
