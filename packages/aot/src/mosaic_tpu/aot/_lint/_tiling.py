"""How the compiler tiles memory: sublanes × lanes of a tile, by element type."""

from __future__ import annotations

from typing import Final

from mosaic_tpu.aot.targets import LANES, SUBLANES
from mosaic_tpu.sim import ir

#: Elements of these widths have tiles of 32 bits × 8 sublanes, where there are rows enough.
_TALL: Final = (2, 4, 8)


def packing(type_: ir.Type) -> int:
    """Elements in 32 bits."""
    return max(1, 32 // type_.bits)


def tile_rows(rows: int, type_: ir.Type) -> int:
    """Rows of a tile of a ref whose second-to-last dimension has ``rows``.

    Eight, or for a ref of fewer rows the power of two that holds them, no less than fill 32 bits; ``8 × packing`` of
    types of 8 bits and less whose ref has as many rows.

    Example:
        >>> f32, i8 = (ir.Type("memref", (), element, "vmem", "") for element in ("f32", "i8"))
        >>> tile_rows(64, f32), tile_rows(3, f32), tile_rows(64, i8), tile_rows(16, i8)
        (8, 4, 32, 8)
    """
    full = SUBLANES * packing(type_)
    if type_.bits in _TALL and rows >= full:
        return full
    tile = packing(type_)
    while tile < min(rows, SUBLANES):
        tile *= 2
    return tile


def tile_elements(type_: ir.Type) -> int:
    """Elements of a tile of a one-dimensional ref."""
    return LANES * packing(type_)


def rounded(size: int, to: int) -> int:
    """Up to a multiple."""
    return -(-size // to) * to


def padded_bytes(shape: tuple[int, ...], type_: ir.Type) -> int:
    """Bytes in VMEM of a ref, its last dimensions rounded up to tiles.

    Example:
        >>> padded_bytes((8, 100), ir.Type("memref", (8, 100), "f32", "vmem", ""))
        4096
    """
    if not shape:
        return 4
    *lead, last = shape
    lanes = rounded(last, LANES)
    if lead:
        *lead, rows = lead
        elements = rounded(rows, tile_rows(rows, type_)) * lanes
    else:
        elements = rounded(last, tile_elements(type_))
    for size in lead:
        elements *= size
    return elements * type_.bits // 8
