"""Refs as views of what they were sliced from."""

from __future__ import annotations

from dataclasses import dataclass

from mosaic_tpu.sim import ir


@dataclass(frozen=True)
class View:
    """A part of a ref.

    Attributes:
        root: the argument or allocation.
        offsets: for each dimension of the root, the values whose sum is where the view begins.
        dimensions: for each dimension of the view, the root's.
    """

    root: ir.Value
    offsets: tuple[tuple[ir.Value, ...], ...]
    dimensions: tuple[int, ...]


def view_of(ref: ir.Value) -> View | None:
    """A ref as a view of its root; ``None`` if it was reshaped, cast or came from elsewhere."""
    op = ref.definition
    if op is None or op.name in ("memref.alloca", "memref.alloc"):
        rank = len(ref.type.shape)
        return View(ref, ((),) * rank, tuple(range(rank)))
    if op.name not in ("tpu.memref_slice", "tpu.memref_squeeze"):
        return None
    inner = view_of(op.operands[0])
    if inner is None:
        return None
    if op.name == "tpu.memref_squeeze":
        kept = _kept(op.operands[0].type.shape, ref.type.shape)
        return View(inner.root, inner.offsets, tuple(inner.dimensions[d] for d in kept))
    offsets = list(inner.offsets)
    for dimension, offset in zip(inner.dimensions, op.segments()[1], strict=True):
        offsets[dimension] = (*offsets[dimension], offset)
    return View(inner.root, tuple(offsets), inner.dimensions)


def text_of(ref: ir.Value) -> str:
    """Shape and element type of a ref, for people.

    Example:
        >>> text_of(ir.Value(ir.Type("memref", (8, ir.DYNAMIC), "f32", "vmem", ""), 0))
        '8×?×f32'
    """
    sizes = ["?" if size == ir.DYNAMIC else str(size) for size in ref.type.shape]
    return "×".join([*sizes, ref.type.element])


def _kept(shape: tuple[int, ...], squeezed: tuple[int, ...]) -> tuple[int, ...]:
    """Which dimensions of a shape are left in a squeezed one; of several ones the last are kept."""
    kept: list[int] = []
    at = len(squeezed) - 1
    for dimension in range(len(shape) - 1, -1, -1):
        if at >= 0 and shape[dimension] == squeezed[at]:
            kept.append(dimension)
            at -= 1
    return tuple(reversed(kept)) if at < 0 else ()
