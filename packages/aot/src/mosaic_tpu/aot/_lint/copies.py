"""Rules about slices of refs, which copies and loads take."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from mosaic_tpu.aot._lint._registry import Issue, rule
from mosaic_tpu.aot._lint._subject import Subject
from mosaic_tpu.aot._lint._tiling import packing, rounded, tile_elements, tile_rows
from mosaic_tpu.aot._lint._values import Prover
from mosaic_tpu.aot._lint._views import View, text_of, view_of
from mosaic_tpu.aot.targets import LANES, SUBLANES
from mosaic_tpu.sim import ir

_SPACES: Final = ("vmem", "any", "hbm")


@rule("squeezed-row")
def squeezed_row(subject: Subject) -> Iterator[Issue]:
    """The only row of a ref of a packed type that is wider than 128 lanes is squeezed: the tiling has no such form."""
    for op in subject.ops("tpu.memref_squeeze"):
        source = op.operands[0]
        before, after = view_of(source), view_of(op.result)
        if source.type.space not in _SPACES or before is None or after is None or source.type.is_semaphore:
            continue
        shape = before.root.type.shape
        row = len(shape) - 2
        if row < 0 or row not in before.dimensions or row in after.dimensions or packing(source.type) == 1:
            continue
        if shape[row] == 1 and shape[-1] > LANES:
            yield Issue(
                op,
                f"the row of {text_of(source)} is squeezed, and lies in several tiles",
                "keep the dimension of size 1",
            )


@rule("dma-alignment")
def dma_alignment(subject: Subject) -> Iterator[Issue]:
    """A slice of a ref does not start or end on a tile along its last two dimensions.

    Lanes are sliced in multiples of 128. Rows are sliced in multiples of what fills 32 bits (1 of 32 bits, 2 of 16,
    4 of 8), and where a row is wider than 128 lanes, so that tiles are not contiguous, the slice must also lie within
    a tile, cover whole tiles, or be cut in the middle by a tile's edge. Refs of one dimension are sliced in multiples
    of 128 elements of 32 bits, 256 of 16, 512 of 8. A dynamic offset counts as what it is provably a multiple of. All
    of a dimension may be taken whatever its size.
    """
    for op in subject.ops("tpu.memref_slice"):
        source, result = op.operands[0], op.result
        if source.type.space not in _SPACES or source.type.is_semaphore or not result.users:
            continue
        view = view_of(result)
        if view is None or not view.root.type.shape or ir.DYNAMIC in view.root.type.shape:
            continue
        dynamic = iter(op.segments()[2])
        for at, size in zip(view.dimensions, result.type.shape, strict=True):
            length = next(dynamic, None) if size == ir.DYNAMIC else None
            problem = _problem(subject.prover, view, at, size, length, source.type)
            if problem is not None:
                yield Issue(op, f"a slice of {text_of(source)}: {problem[0]}", problem[1])


def _problem(
    prover: Prover, view: View, at: int, size: int, length: ir.Value | None, type_: ir.Type
) -> tuple[str, str] | None:
    """What is wrong with a slice along a dimension of the root, and the remedy."""
    shape, offsets = view.root.type.shape, view.offsets[at]
    if size == shape[at] and prover.sum_of(offsets) == 0:
        return None
    if at == len(shape) - 1:
        unit = tile_elements(type_) if len(shape) == 1 else LANES
        return _unaligned(prover, offsets, size, unit, "lanes" if len(shape) > 1 else "elements") or _length(
            prover, length, unit
        )
    if at == len(shape) - 2:
        wide, tile = shape[-1] > LANES, tile_rows(shape[at], type_)
        return _length(prover, length, min(tile, SUBLANES) if wide else packing(type_)) or _rows(
            prover, offsets, size, tile, packing(type_), wide
        )
    return None


def _length(prover: Prover, length: ir.Value | None, unit: int) -> tuple[str, str] | None:
    if length is None or prover.is_multiple([length], unit):
        return None
    return (
        f"its size is dynamic and cannot be shown to be a multiple of {unit}",
        f"round the size up to {unit}, and say so: pl.multiple_of(size, {unit})",
    )


def _unaligned(
    prover: Prover, offsets: tuple[ir.Value, ...], size: int, unit: int, what: str
) -> tuple[str, str] | None:
    if not prover.is_multiple(offsets, unit):
        start = prover.sum_of(offsets)
        where = "at a dynamic offset" if start is None else f"at {start}"
        return (
            f"it starts {where}, which cannot be shown to be a multiple of {unit} {what}",
            f"start on a multiple of {unit}; say pl.multiple_of(offset, {unit}) of a dynamic one",
        )
    if size != ir.DYNAMIC and size % unit:
        return (
            f"it takes {size} {what}, no multiple of {unit}",
            f"take {rounded(size, unit)}, or all of the dimension, or pad the array",
        )
    return None


def _rows(
    prover: Prover, offsets: tuple[ir.Value, ...], size: int, tile: int, packed: int, wide: bool
) -> tuple[str, str] | None:
    problem = _unaligned(prover, offsets, size, packed, "rows, which fill 32 bits")
    if problem is not None and wide:  # whole tiles are what helps
        return problem[0], _whole_tiles(tile)
    if problem is not None or not wide or size == ir.DYNAMIC:
        return problem
    start = prover.sum_of(offsets)
    if start is not None:
        into = start % tile
        fits = into + size <= tile or (into == 0 and size % tile == 0) or (size == 2 * (tile - into) <= tile)
    else:
        step = min(prover.power_of(offsets), tile)
        fits = size <= step or (step == tile and size % tile == 0)
    if fits:
        return None
    where = "at a dynamic offset" if start is None else f"at row {start}"
    return (
        f"its {size} rows {where} are neither within a tile of {tile} rows nor whole tiles",
        _whole_tiles(tile),
    )


def _whole_tiles(rows: int) -> str:
    return (
        f"start on a multiple of {rows} rows and take a multiple of {rows}; say pl.multiple_of(offset, {rows}) of a "
        "dynamic one; or slice a dimension before the last two"
    )
