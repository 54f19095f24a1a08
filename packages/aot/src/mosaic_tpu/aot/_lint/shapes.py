"""Rules about shapes of vectors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from mosaic_tpu.aot._lint._registry import Issue, rule
from mosaic_tpu.aot._lint._subject import Subject
from mosaic_tpu.aot.targets import SUBLANES
from mosaic_tpu.sim import ir

_ARITHMETIC: Final = ("arith.", "math.")
_FREE: Final = ("arith.constant",)
_ALONG_LANES: Final = ("vector.load", "tpu.vector_load", "tpu.strided_load", "vector.broadcast")


@rule("invalid-module")
def invalid_module(subject: Subject) -> Iterator[Issue]:
    """The module of a kernel in a program does not verify, or its windows do not match; nothing else is checked."""
    del subject  # found where the module is read
    yield from ()


@rule("iota-rank")
def iota_rank(subject: Subject) -> Iterator[Issue]:
    """A ``tpu.iota`` of one dimension: the compiler has only those of two and more."""
    for op in subject.ops("tpu.iota"):
        shape = op.result.type.shape
        if len(shape) < 2:
            yield Issue(
                op,
                f"an iota of shape {shape[0] if shape else ''}: the compiler wants two dimensions or more",
                f"count along dimension 1 of (1, {shape[0] if shape else 1}), and reshape",
            )


@rule("one-dimensional-vector", "warning")
def one_dimensional_vector(subject: Subject) -> Iterator[Issue]:
    """Arithmetic on a vector of one dimension: it fills one of the eight sublanes of a register.

    The compiler accepts most of it; the work takes up to eight times the registers and instructions.
    """
    for op in subject.operations:
        if not op.name.startswith(_ARITHMETIC) or op.name in _FREE or not op.results:
            continue
        type_ = op.results[0].type
        if type_.kind == "vector" and len(type_.shape) == 1 and type_.shape[0] > 1:
            yield Issue(
                op,
                f"arithmetic on a vector of one dimension, {type_.shape[0]}×{type_.element}: it may fill one of the "
                f"{SUBLANES} sublanes of its registers",
                f"keep two dimensions: keepdims=True in reductions, (1, {type_.shape[0]}) instead of "
                f"({type_.shape[0]},)",
            )


@rule("mask-column")
def mask_column(subject: Subject) -> Iterator[Issue]:
    """A mask of one dimension that lies along lanes is made a column: the compiler aborts, or has no layout for it.

    What comes of a reduction of the last dimension, or of a column, lies along sublanes: the compiler takes that.
    """
    for op in subject.ops("vector.shape_cast"):
        mask, after = op.operands[0], op.result.type
        before = mask.type
        if before.element != "i1" or len(before.shape) != 1 or before.shape[0] == 1 or after.shape[-1] != 1:
            continue
        if _along_lanes(mask):
            yield Issue(
                op,
                f"a mask of shape ({before.shape[0]},) becomes a column {after.text}",
                "reshape the numbers before they are compared: x[:, None] < y, not (x < y)[:, None]",
            )


def _along_lanes(vector: ir.Value) -> bool:
    """Whether a vector of one dimension is known to lie along lanes: the compiler lays it out as its first operand."""
    found: ir.Value | None = vector
    while found is not None and (op := found.definition) is not None and op.name.startswith(_ARITHMETIC):
        found = next((o for o in op.operands if not _uniform(o)), op.operands[0] if op.operands else None)
    op = None if found is None else found.definition
    if op is None:  # an argument of a block, or a constant
        return False
    if op.name == "vector.multi_reduction":
        return max(op.attributes.integers("reduction_dims"), default=0) < len(op.operands[0].type.shape) - 1
    if op.name == "vector.shape_cast":
        return op.operands[0].type.shape[-1] > 1
    return op.name in _ALONG_LANES


def _uniform(vector: ir.Value) -> bool:
    """Whether it is one number, which lies any way."""
    return vector.definition is not None and vector.definition.name in ("arith.constant", "vector.broadcast")
