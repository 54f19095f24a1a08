"""Matrix products."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from mosaic_tpu.lift._code import Call, Items, Node, Shape, String, Text
from mosaic_tpu.lift._types import dtype_code
from mosaic_tpu.lift.idioms._form import Form, Types, proposes
from mosaic_tpu.sim import ir

_NUMBERS = re.compile(r"\[([\d, ]*)\]")


@proposes("tpu.matmul")
def _products(op: ir.Operation, types: Types) -> Iterator[Form]:
    spec = _spec(op, types)
    lhs, rhs = (v.type for v in op.operands[:2])
    out = dtype_code(op.results[0].type)
    found = re.fullmatch(r"#tpu\.contract_precision<(\w+)>", op.attributes.text("precision"))
    precision = None if found is None else String(found[1])
    hint = Text("True") if op.attributes.boolean("transpose_lhs_hint") else None
    preferred = [out] if lhs.element != op.results[0].type.element else [None, out]
    for type_ in preferred:
        how: dict[str, Node | None] = {"preferred_element_type": type_, "precision": precision}
        if hint is None:
            yield Form((lhs, rhs), _call("dot", [], how), "product")
            yield Form((lhs, rhs), _call("matmul", [], how), "product")
            if spec is not None:
                yield Form((lhs, rhs), _einsum(spec, how), "product")
        if (dims := _dims(op)) is not None:
            yield Form((lhs, rhs), _call("dot_general", [dims], how | {"transpose_lhs_hint": hint}), "product")


def _call(name: str, more: Sequence[Node], how: dict[str, Node | None]) -> Callable[[Sequence[Text]], Node]:
    return lambda xs: Call(f"b.pallas.{name}", *xs, *more, **how)


def _dims(op: ir.Operation) -> Node | None:
    lists = [
        Shape(tuple(int(n) for n in part.split(",") if n.strip()))
        for part in _NUMBERS.findall(op.attributes.text("dimension_numbers"))
    ]
    if len(lists) != 7:
        return None
    contracting, batch = (Items("(", pair, ")") for pair in (lists[:2], lists[5:]))
    return Items("(", [contracting, batch], ")")


def _spec(op: ir.Operation, types: Types) -> String | None:
    """The subscripts of the `einsum` that an op may be of: the name of the scope around it."""
    name = types.scopes.get(op, "")
    return String(name) if re.fullmatch(r"[A-Za-z]+,[A-Za-z]+->[A-Za-z]*", name) else None


def _einsum(spec: String, how: dict[str, Node | None]) -> Callable[[Sequence[Text]], Node]:
    return lambda xs: Call("b.pallas.einsum", spec, *xs, **how)
