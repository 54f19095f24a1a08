"""Rules about windows: block shapes, element windows, and the grid against the array."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from mosaic_tpu.aot._index_maps import places_of
from mosaic_tpu.aot._lint._registry import Issue, rule
from mosaic_tpu.aot._lint._subject import Subject
from mosaic_tpu.aot._lint._tiling import rounded, tile_elements
from mosaic_tpu.aot.targets import LANES, SUBLANES, Generation
from mosaic_tpu.sim import ir

#: Steps of a grid whose index maps are evaluated.
_MOST_STEPS: Final = 1 << 16


def _windows(subject: Subject) -> Iterator[tuple[ir.Argument, ir.Window, Sequence[ir.Value]]]:
    """The arguments in VMEM whose blocks an index map finds, and what it returns: an index for each dimension."""
    for argument in subject.layout.role("input", "output"):
        window = argument.window
        if window is None or window.transform is None or not window.bounds or argument.type.space != "vmem":
            continue
        yield argument, window, subject.module.functions[window.transform].body.terminator.operands


@rule("block-tiling")
def block_tiling(subject: Subject) -> Iterator[Issue]:
    """A block is neither whole tiles nor all of the array along its last two dimensions.

    Rows are in multiples of 8 for every element type, lanes in multiples of 128; blocks of one dimension in multiples
    of 128 elements of 32 bits, 256 of 16, 512 of 8. The compiler refuses others with E2002.
    """
    for argument, window, indices in _windows(subject):
        array, bounds, type_ = subject.array_of(argument), window.bounds, argument.type
        units = [1] * (len(bounds) - 2) + [SUBLANES, LANES] if len(bounds) > 1 else [tile_elements(type_)]
        for dimension, (size, unit, index) in enumerate(zip(bounds, units, indices, strict=True)):
            if size % unit == 0 or (array is None and subject.prover.constant(index) == 0):
                continue
            if array is not None and array[dimension] == size:
                continue
            whole = f" of {_by(array)}" if array is not None else ""
            full = f", or {array[dimension]}, all of the dimension" if array is not None else ""
            yield Issue(
                None,
                f"the block {_by(bounds)} of {argument.name}{whole} has {size} elements in dimension {dimension}, "
                f"which is no multiple of {unit}",
                f"take a multiple of {unit}, {rounded(size, unit)} for one{full}",
            )


@rule("element-window")
def element_window(subject: Subject) -> Iterator[Issue]:
    """A window whose indices count elements starts where no tile does, or reaches before the array.

    The compiler wants a proof that the index is a multiple of the tile, 8 rows or 128 lanes, and has no padding before
    the array.
    """
    for argument, window, indices in _windows(subject):
        if not window.element:
            continue
        if any(window.pad_low):
            yield Issue(
                None,
                f"the window of {argument.name} has padding {_by(window.pad_low)} before the array",
                "pad the array itself, or shift the indices; padding behind the array is supported",
            )
        tiles = ([1] * (len(window.bounds) - 2) + [SUBLANES, LANES])[-len(window.bounds) :]
        for dimension, (index, tile) in enumerate(zip(indices, tiles, strict=True)):
            if not subject.prover.is_multiple([index], tile):
                yield Issue(
                    None,
                    f"the element window of {argument.name} starts at an index of dimension {dimension} that cannot be "
                    f"shown to be a multiple of {tile}",
                    f"return a multiple: block_index * {tile}, or pl.multiple_of(index, {tile})",
                )


@rule("grid-range", "warning", per_generation=True)
def grid_range(subject: Subject, generation: Generation) -> Iterator[Issue]:
    """A step of the grid has its block wholly outside the array.

    The compiler accepts it where the index depends on the grid; the run then reads and writes past the array's end.
    Where the index is a constant, v4 to v6e abort (tpu7x accepts): an error there.
    """
    grid = subject.layout.grid
    if min(grid, default=1) < 1 or math.prod(grid) > _MOST_STEPS:  # no step, a dynamic bound, or too many
        return
    for argument, window, indices in _windows(subject):
        array = subject.array_of(argument)
        if array is None or window.element:
            continue
        for dimension, index in enumerate(places_of(subject.module, window, grid) or []):
            count = -(-array[dimension] // window.bounds[dimension])
            outside = np.flatnonzero((index < 0) | (index >= count))
            if not outside.size:
                continue
            fixed = generation.refuses_blocks_outside and subject.prover.constant(indices[dimension]) is not None
            step = tuple(int(n) for n in np.unravel_index(int(outside[0]), grid)) if grid else ()
            yield Issue(
                None,
                f"at step {step} of the grid {_by(grid)} the block of {argument.name} is number "
                f"{int(index[outside[0]])} in dimension {dimension}, and {_by(array)} has {count} blocks there",
                "make the grid as long as the array has blocks, or clamp the index",
                "error" if fixed else None,
            )


def _by(sizes: tuple[int, ...]) -> str:
    return "×".join(map(str, sizes))
