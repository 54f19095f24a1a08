"""The tpu dialect on refs: stores, strided access, views."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mosaic_tpu.lift._code import Call, Items, Node, Shape, Text
from mosaic_tpu.lift._registry import rule
from mosaic_tpu.lift._types import dtype_of
from mosaic_tpu.lift.rules._names import base_of, like
from mosaic_tpu.sim import ir

if TYPE_CHECKING:
    from mosaic_tpu.lift._writer import Writer


def _stores_whole(w: Writer, value: ir.Value, ref: ir.Value, indices: Sequence[ir.Value]) -> bool:
    return value.type.shape == ref.type.shape and all(w.inlined.literals.get(i) == "0" for i in indices)


@rule(
    "tpu.vector_store",
    name="",
    slots=lambda op: op.segments()[2],
    attributes={"operandSegmentSizes": None, "strides": None, "add": None},
    when=lambda op: len(op.segments()) == 4 and op.segments()[1][0].type.space in ("vmem", "vmem_shared"),
)
def _vector_store(w: Writer, op: ir.Operation) -> Node:
    (value,), (ref,), indices, masks = op.segments()
    steps = op.attributes.integers("strides")
    arguments: list[Node] = [w.use(ref), w.use(value)]
    if not _stores_whole(w, value, ref, indices):
        arguments.append(w.uses(indices))
    return Call(
        "b.vector_store",
        *arguments,
        mask=w.use(masks[0]) if masks else None,
        strides=Shape(steps) if steps else None,
        add=Text("True") if op.attributes.boolean("add") else None,
    )


@rule(
    "tpu.vector_load",
    name=like(),
    slots=lambda op: op.segments()[1],
    attributes={"operandSegmentSizes": None, "strides": None},
    when=lambda op: len(op.segments()) == 3 and op.operands[0].type.space in ("vmem", "vmem_shared"),
)
def _vector_load(w: Writer, op: ir.Operation) -> Node:
    (ref,), indices, masks = op.segments()
    steps = op.attributes.integers("strides")
    return Call(
        "b.tpu_vector_load",
        w.use(ref),
        w.uses(indices),
        w.shape(op.results[0]),
        strides=Shape(steps) if steps else None,
        mask=w.use(masks[0]) if masks else None,
    )


@rule("tpu.strided_load", name=like(), slots=lambda op: op.operands[1:], attributes={"strides": None})
def _strided_load(w: Writer, op: ir.Operation) -> Node:
    ref, *indices = op.operands
    steps, result = op.attributes.integers("strides"), op.results[0]
    whole = tuple(-(-s // t) for s, t in zip(ref.type.shape, steps, strict=False)) == result.type.shape
    return Call("b.strided_load", w.use(ref), w.uses(indices), Shape(steps), *([] if whole else [w.shape(result)]))


@rule("tpu.strided_store", name="", slots=lambda op: op.operands[2:], attributes={"strides": None})
def _strided_store(w: Writer, op: ir.Operation) -> Node:
    value, ref, *indices = op.operands
    steps = Shape(op.attributes.integers("strides"))
    return Call("b.strided_store", w.use(ref), w.use(value), w.uses(indices), steps)


# --- views -----------------------------------------------------------------------------------------------------------


def _view_name(w: Writer, op: ir.Operation) -> str:
    base = base_of(w, op.operands[0])
    return base if base.endswith(("_view", "_at")) else f"{base}_view"


@rule(
    "tpu.memref_slice",
    name=_view_name,
    slots=lambda op: op.segments()[1],
    attributes={"operandSegmentSizes": None},
    when=lambda op: len(op.segments()) == 3 and op.results[0].type.shape.count(ir.DYNAMIC) == len(op.segments()[2]),
)
def _slice(w: Writer, op: ir.Operation) -> Node:
    (ref,), offsets, sizes = op.segments()
    shape = op.results[0].type.shape
    if not sizes:
        return Call("b.memref_slice", w.use(ref), w.uses(offsets), Shape(shape))
    given = iter(sizes)
    shown = [w.use(next(given)) if s == ir.DYNAMIC else Text(str(s)) for s in shape]
    return Call("b.memref_slice", w.use(ref), w.uses(offsets), Items("[", shown, "]"))


@rule("tpu.memref_squeeze", name=_view_name)
def _squeeze(w: Writer, op: ir.Operation) -> Node:
    return Call("b.memref_squeeze", w.use(op.operands[0]), w.shape(op.results[0]))


@rule("tpu.memref_reshape", name=_view_name)
def _reshape(w: Writer, op: ir.Operation) -> Node:
    return Call("b.memref_reshape", w.use(op.operands[0]), w.shape(op.results[0]))


def _bits_change(op: ir.Operation) -> bool:
    """Whether the second-to-last dimension scales with the width, as the helper has it."""
    source, result = op.operands[0].type, op.results[0].type
    old, new = dtype_of(source).bits, dtype_of(result).bits
    if source.shape == result.shape:
        return old == new
    return len(source.shape) > 1 and bool(new) and source.shape[-2] * old == result.shape[-2] * new


@rule("tpu.memref_bitcast", name=_view_name, when=_bits_change)
def _bitcast(w: Writer, op: ir.Operation) -> Node:
    return Call("b.memref_bitcast", w.use(op.operands[0]), w.dtype(op.results[0]))
