"""The vector dialect."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from mosaic_tpu.lift._code import Call, Node, Shape, String
from mosaic_tpu.lift._registry import rule
from mosaic_tpu.lift.rules._names import like
from mosaic_tpu.sim import ir

if TYPE_CHECKING:
    from mosaic_tpu.lift._writer import Writer


def _in_vmem(op: ir.Operation) -> bool:
    return op.operands[0].type.kind == "memref" and op.operands[0].type.space in ("vmem", "vmem_shared")


@rule(
    "vector.load",
    name=like(),
    slots=lambda op: op.operands[1:],
    attributes={"nontemporal": "false"},
    when=lambda op: _in_vmem(op) and op.operands[0].type.element == op.results[0].type.element,
)
def _load(w: Writer, op: ir.Operation) -> Node:
    ref, *indices = op.operands
    whole = ref.type.shape == op.results[0].type.shape
    if whole and all(w.inlined.literals.get(i) == "0" for i in indices):
        return Call("b.vector_load", w.use(ref))
    return Call("b.vector_load", w.use(ref), w.uses(indices), *([] if whole else [w.shape(op.results[0])]))


@rule("vector.broadcast", name=like(), when=lambda op: op.operands[0].type.element == op.results[0].type.element)
def _broadcast(w: Writer, op: ir.Operation) -> Node:
    return Call("b.broadcast_to", w.use(op.operands[0]), w.shape(op.results[0]))


@rule(
    "vector.shape_cast",
    name=like(),
    when=lambda op: op.operands[0].type.kind == op.results[0].type.kind == "vector",
)
def _shape_cast(w: Writer, op: ir.Operation) -> Node:
    return Call("b.shape_cast", w.use(op.operands[0]), w.shape(op.results[0]))


@rule(
    "vector.extract",
    name="item",
    attributes={"static_position": None},
    when=lambda op: len(op.operands) == 1 and ir.DYNAMIC not in op.attributes.integers("static_position"),
)
def _extract(w: Writer, op: ir.Operation) -> Node:
    return Call("b.vector_extract", w.use(op.operands[0]), Shape(op.attributes.integers("static_position")))


@rule("vector.extract_strided_slice", name=like(), attributes={"offsets": None, "sizes": None, "strides": None})
def _slice(w: Writer, op: ir.Operation) -> Node:
    offsets, sizes, strides = (Shape(op.attributes.integers(k)) for k in ("offsets", "sizes", "strides"))
    plain = set(strides.sizes) <= {1}
    return Call("b.extract_strided_slice", w.use(op.operands[0]), offsets, sizes, *([] if plain else [strides]))


@rule("vector.bitcast", name=like(suffix="_bits"), when=lambda op: op.operands[0].type.kind == "vector")
def _bitcast(w: Writer, op: ir.Operation) -> Node:
    return Call("b.vector_bitcast", w.use(op.operands[0]), w.dtype(op.results[0]))


def _kind(op: ir.Operation) -> str:
    found = re.fullmatch(r"#vector\.kind<(\w+)>", op.attributes.text("kind"))
    return "" if found is None else found[1]


_REDUCED = {"add": "total", "mul": "product", "maximumf": "largest", "minimumf": "smallest"}


@rule(
    "vector.multi_reduction",
    name=lambda w, op: _REDUCED.get(_kind(op), "reduced"),
    attributes={"kind": None, "reduction_dims": None, "fastmath": "#arith.fastmath<none>"},
    when=lambda op: bool(_kind(op)) and op.operands[0].type.kind == "vector",
)
def _multi_reduction(w: Writer, op: ir.Operation) -> Node:
    source, start = op.operands
    axes = Shape(op.attributes.integers("reduction_dims"))
    return Call("b.multi_reduction", String(_kind(op)), w.use(source), w.use(start), axes)


@rule(
    "vector.reduction",
    name=lambda w, op: _REDUCED.get(_kind(op), "reduced"),
    attributes={"kind": None, "fastmath": "#arith.fastmath<none>"},
    when=lambda op: bool(_kind(op)) and len(op.operands) == 1,
)
def _reduction(w: Writer, op: ir.Operation) -> Node:
    return Call("b.vector_reduction_flat", String(_kind(op)), w.use(op.operands[0]))


@rule("vector.create_mask", name="mask", slots=lambda op: op.operands)
def _create_mask(w: Writer, op: ir.Operation) -> Node:
    return Call("b.range_mask", w.uses(op.operands), w.shape(op.results[0]))


@rule(
    "vector.store",
    name="",
    slots=lambda op: op.operands[2:],
    attributes={"nontemporal": "false"},
    when=lambda op: op.operands[1].type.space in ("vmem", "vmem_shared"),
)
def _plain_store(w: Writer, op: ir.Operation) -> Node:
    value, ref, *indices = op.operands
    whole = value.type.shape == ref.type.shape and all(w.inlined.literals.get(i) == "0" for i in indices)
    return Call("b.plain_vector_store", w.use(ref), w.use(value), *([] if whole else [w.uses(indices)]))
