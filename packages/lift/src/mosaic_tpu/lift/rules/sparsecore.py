"""The tpu dialect of a SparseCore."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from mosaic_tpu.lift._code import Call, Items, Node, Shape, String, Text
from mosaic_tpu.lift._registry import rule
from mosaic_tpu.lift.rules._names import like
from mosaic_tpu.lift.rules.tpu_numeric import flag, number
from mosaic_tpu.sim import ir

if TYPE_CHECKING:
    from mosaic_tpu.lift._writer import Writer


def _lanes(op: ir.Operation) -> Node:
    return Items("[", [Text(str(bool(m))) for m in op.attributes.integers("sublane_mask")], "]")


def _stride(op: ir.Operation) -> Node | None:
    return None if op.attributes.integer("sublane_stride", 1) == 1 else number(op, "sublane_stride")


@rule(
    "tpu.load",
    name=like(),
    slots=lambda op: op.operands[1:],
    attributes={"sublane_mask": None, "sublane_stride": None},
)
def _load(w: Writer, op: ir.Operation) -> Node:
    ref, *indices = op.operands
    where = w.use(ref), w.uses(indices), w.shape(op.results[0])
    return Call("b.tpu_load", *where, _lanes(op), sublane_stride=_stride(op))


@rule(
    "tpu.store",
    name="",
    slots=lambda op: op.segments()[2],
    attributes={"sublane_mask": None, "sublane_stride": None, "add": None, "operandSegmentSizes": None},
    when=lambda op: len(op.segments()) == 4,
)
def _store(w: Writer, op: ir.Operation) -> Node:
    (value,), (ref,), indices, masks = op.segments()
    return Call(
        "b.tpu_store",
        w.use(ref),
        w.use(value),
        w.uses(indices),
        _lanes(op),
        mask=w.use(masks[0]) if masks else None,
        sublane_stride=_stride(op),
        add=flag(op, "add"),
    )


@rule(
    "tpu.vector_load_idx",
    name=like(),
    attributes={"operandSegmentSizes": None},
    when=lambda op: len(op.segments()) == 3,
)
def _load_idx(w: Writer, op: ir.Operation) -> Node:
    (ref,), indices, masks = op.segments()
    return Call("b.vector_load_idx", w.use(ref), w.uses(indices), *[w.use(m) for m in masks])


@rule(
    "tpu.vector_store_idx",
    name="",
    attributes={"operandSegmentSizes": None, "add": None},
    when=lambda op: len(op.segments()) == 4,
)
def _store_idx(w: Writer, op: ir.Operation) -> Node:
    (value,), (ref,), indices, masks = op.segments()
    return Call(
        "b.vector_store_idx",
        w.use(ref),
        w.use(value),
        w.uses(indices),
        *[w.use(m) for m in masks],
        add=flag(op, "add"),
    )


@rule("tpu.vector_expand_load", name=like(), slots=lambda op: op.operands[1:-1], attributes={"expand_dim": None})
def _expand_load(w: Writer, op: ir.Operation) -> Node:
    ref, *indices, mask = op.operands
    return Call("b.vector_expand_load", w.use(ref), w.uses(indices), w.use(mask), number(op, "expand_dim"))


@rule(
    "tpu.vector_compress_store",
    name="",
    slots=lambda op: op.operands[2:-1],
    attributes={"compress_dim": None, "add": None},
)
def _compress_store(w: Writer, op: ir.Operation) -> Node:
    value, ref, *indices, mask = op.operands
    given = w.use(ref), w.use(value), w.uses(indices), w.use(mask)
    return Call("b.vector_compress_store", *given, number(op, "compress_dim"), add=flag(op, "add"))


@rule("tpu.expand_load_vreg", name=like(), slots=lambda op: op.operands[1:-1])
def _expand_vreg(w: Writer, op: ir.Operation) -> Node:
    ref, *indices, mask = op.operands
    return Call("b.expand_load_vreg", w.use(ref), w.uses(indices), w.use(mask))


@rule("tpu.compress_store_vreg", name="", slots=lambda op: op.operands[2:-1], attributes={"add": None})
def _compress_vreg(w: Writer, op: ir.Operation) -> Node:
    value, ref, *indices, mask = op.operands
    given = w.use(ref), w.use(value), w.uses(indices), w.use(mask)
    return Call("b.compress_store_vreg", *given, add=flag(op, "add"))


@rule("tpu.enqueue_indirect_dma", name="", attributes={"add": None}, when=lambda op: len(op.operands) in (4, 5))
def _enqueue_indirect(w: Writer, op: ir.Operation) -> Node:
    source, target, offsets, semaphore, *filters = op.operands
    return Call(
        "b.enqueue_indirect_dma",
        *[w.use(v) for v in (source, target, offsets, semaphore)],
        offset_filter=w.use(filters[0]) if filters else None,
        add=flag(op, "add"),
    )


@rule("tpu.wait_indirect_dma", name="")
def _wait_indirect(w: Writer, op: ir.Operation) -> Node:
    return Call("b.wait_indirect_dma", *[w.use(v) for v in op.operands])


@rule("tpu.fetch_and_add_sync", name="before", when=lambda op: len(op.operands) > 3)
def _fetch_and_add(w: Writer, op: ir.Operation) -> Node:
    ref, *indices, value, core = op.operands
    return Call("b.fetch_and_add_sync", w.use(ref), w.uses(indices), w.use(value), w.use(core))


@rule("tpu.scan_count", name="counted")
def _scan_count(w: Writer, op: ir.Operation) -> Node:
    return Call("b.scan_count", *[w.use(v) for v in op.operands])


def _format(op: ir.Operation) -> str:
    found = re.fullmatch(r"#tpu\.pack_format<(\w+)>", op.attributes.text("pack_format"))
    return "" if found is None else found[1]


@rule(
    "tpu.pack_subelements",
    name="packed",
    attributes={"pack_format": None, "positions": None},
    when=lambda op: bool(_format(op)),
)
def _pack(w: Writer, op: ir.Operation) -> Node:
    result, positions = op.results[0], Shape(op.attributes.integers("positions"))
    made = w.shape(result), w.dtype(result)
    return Call("b.pack_subelements", w.uses(op.operands), *made, positions, String(_format(op)))


@rule(
    "tpu.unpack_subelements",
    name="unpacked",
    attributes={"pack_format": None, "index": None, "integer_extended": "true", "unsigned_integers": "false"},
    when=lambda op: bool(_format(op)),
)
def _unpack(w: Writer, op: ir.Operation) -> Node:
    result = op.results[0]
    made = w.shape(result), w.dtype(result), number(op, "index")
    return Call("b.unpack_subelements", w.use(op.operands[0]), *made, String(_format(op)))


@rule("tpu.shared_memref_slice", name=like())
def _shared_slice(w: Writer, op: ir.Operation) -> Node:
    return Call("b.shared_memref_slice", w.use(op.operands[0]), w.shape(op.results[0]))


# --- scans and sorts -------------------------------------------------------------------------------------------------


def _kind(op: ir.Operation) -> str:
    found = re.fullmatch(r"#tpu\.reduction_kind<(\w+)>", op.attributes.text("kind"))
    return "" if found is None else found[1]


@rule(
    "tpu.scan",
    name="running",
    attributes={"kind": None, "dimension": None},
    when=lambda op: bool(_kind(op)) and op.operands[0].type == op.results[0].type,
)
def _scan(w: Writer, op: ir.Operation) -> Node:
    source, *masks = op.operands
    return Call(
        "b.scan",
        w.use(source),
        String(_kind(op)),
        *[w.use(m) for m in masks],
        dimension=number(op, "dimension"),
    )


@rule("tpu.sort", name="sorted_", attributes={"descending": None})
def _sort(w: Writer, op: ir.Operation) -> Node:
    return Call("b.sort", *[w.use(v) for v in op.operands], descending=flag(op, "descending"))
