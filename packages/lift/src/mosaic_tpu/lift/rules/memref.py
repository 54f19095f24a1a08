"""The memref dialect: scalars in SMEM, allocations, memory spaces."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from mosaic_tpu.lift._code import Call, Node, Text
from mosaic_tpu.lift._registry import rule
from mosaic_tpu.lift.rules._names import like
from mosaic_tpu.sim import ir

if TYPE_CHECKING:
    from mosaic_tpu.lift._writer import Writer


@rule(
    "memref.load",
    name=like(),
    slots=lambda op: op.operands[1:],
    attributes={"nontemporal": "false"},
    when=lambda op: op.operands[0].type.space == "smem",
)
def _load(w: Writer, op: ir.Operation) -> Node:
    ref, *indices = op.operands
    return Call("b.scalar_load", w.use(ref), w.uses(indices))


@rule(
    "memref.store",
    name="",
    slots=lambda op: op.operands[2:],
    attributes={"nontemporal": "false"},
    when=lambda op: op.operands[1].type.space == "smem",
)
def _store(w: Writer, op: ir.Operation) -> Node:
    value, ref, *indices = op.operands
    return Call("b.scalar_store", w.use(ref), w.use(value), w.uses(indices))


@rule("memref.alloca", name="buffer", attributes={"operandSegmentSizes": "array<i32: 0, 0>"})
def _alloca(w: Writer, op: ir.Operation) -> Node:
    result = op.results[0]
    space = result.type.space
    where = [] if space == "vmem" else [Text(f'"{space}"')]
    return Call("b.alloca", w.shape(result), w.dtype(result), *where)


@rule("memref.memory_space_cast", name=like())
def _memory_space_cast(w: Writer, op: ir.Operation) -> Node:
    return Call("b.memory_space_cast", w.use(op.operands[0]), Text(f'"{op.results[0].type.space}"'))


@rule("tpu.erase_memref_layout", name=like(), when=lambda op: op.operands[0].type == op.results[0].type)
def _erase_layout(w: Writer, op: ir.Operation) -> Node:
    return Call("b.erase_layout", w.use(op.operands[0]))


def _is_contiguous(op: ir.Operation) -> bool:
    shape = op.results[0].type.shape
    strides = tuple(math.prod(shape[d + 1 :]) for d in range(len(shape)))
    found = [op.attributes.integers(f"static_{what}") for what in ("offsets", "sizes", "strides")]
    return len(op.operands) == 1 and found == [(0,), shape, strides]


@rule(
    "memref.reinterpret_cast",
    name=like(),
    attributes={"static_offsets": None, "static_sizes": None, "static_strides": None, "operandSegmentSizes": None},
    when=_is_contiguous,
)
def _reinterpret_cast(w: Writer, op: ir.Operation) -> Node:
    return Call("b.reinterpret_cast", w.use(op.operands[0]), w.shape(op.results[0]))
