"""Rules about shapes of vectors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from mosaic_tpu.aot._lint._registry import Issue, rule
from mosaic_tpu.aot._lint._subject import Subject
from mosaic_tpu.aot.targets import SUBLANES

_ARITHMETIC: Final = ("arith.", "math.")
_FREE: Final = ("arith.constant",)


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
    """A mask of one dimension is made a column: the compiler aborts, or has no layout for it."""
    for op in subject.ops("vector.shape_cast"):
        before, after = op.operands[0].type, op.result.type
        if before.element == "i1" and len(before.shape) == 1 and before.shape[0] > 1 and after.shape[-1] == 1:
            yield Issue(
                op,
                f"a mask of shape ({before.shape[0]},) becomes a column {after.text}",
                "reshape the numbers before they are compared: x[:, None] < y, not (x < y)[:, None]",
            )
