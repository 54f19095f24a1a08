"""What a kernel has to do: floating-point operations of its matmuls, and bytes that it moves to and from HBM."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from mosaic_tpu.aot._index_maps import constant_of, places_of
from mosaic_tpu.sim import ir

#: How often regions run, by the number of their op and their own in it; ``None`` where that takes data to know.
type Runs = Mapping[tuple[int, int], int | None]

_FAR: Final = ("any", "hbm")
ON_DATA: Final = "trip counts or copies depend on data"


@dataclass(frozen=True)
class Work:
    """What one call of a kernel has to do, on one TensorCore.

    Attributes:
        flops: of its matmuls, 2·M·N·K each, by MLIR element type of the left operand.
        hbm_bytes: that it reads and writes: blocks of windows, each time they change, and its own copies.
        counted: whether trip counts were seen in a run; else they are constants of the module, and branches count as
            taken.
    """

    flops: Mapping[str, int]
    hbm_bytes: int
    counted: bool

    @property
    def total_flops(self) -> int:
        """Of all element types."""
        return sum(self.flops.values())

    @property
    def intensity(self) -> float:
        """Floating-point operations for each byte of HBM."""
        return self.total_flops / self.hbm_bytes if self.hbm_bytes else math.inf


def static_work(module: ir.Module, layout: ir.Layout) -> Work | None:
    """The work of a kernel whose trip counts are constants; ``None`` if some depend on data.

    Args:
        module: the kernel.
        layout: roles and windows of its arguments.
    """
    if ir.DYNAMIC in layout.grid:
        return None
    steps = math.prod(layout.grid)
    runs = static_runs(module, steps)
    flops = flops_of(module, runs)
    copied = _copies(module, runs)
    windows = [_window_bytes(module, layout, argument) for argument in layout.role("input", "output")]
    if flops is None or copied is None or any(w is None for w in windows):
        return None
    return Work(flops, copied + sum(w or 0 for w in windows), False)


def counted_work(module: ir.Module, layout: ir.Layout, runs: Mapping[tuple[int, int], int], copied_bytes: int) -> Work:
    """The work of a run that was simulated.

    Args:
        module: the kernel.
        layout: roles and windows of its arguments.
        runs: ``region_counts`` of the simulator's report.
        copied_bytes: ``dma_bytes`` of it: what counts where an index map reads scalars.
    """
    copied = _copies(module, runs)
    windows = [_window_bytes(module, layout, argument) for argument in layout.role("input", "output")]
    known = copied is not None and all(w is not None for w in windows)
    moved = (copied or 0) + sum(w or 0 for w in windows) if known else copied_bytes
    return Work(flops_of(module, runs) or {}, moved, True)


def static_runs(module: ir.Module, steps: int) -> dict[tuple[int, int], int | None]:
    """How often each region runs, branches taken each time; ``None`` for a loop whose trip count is no constant."""
    runs: dict[tuple[int, int], int | None] = {}

    def visit(op: ir.Operation, times: int | None) -> None:
        trips = trips_of(op)
        for number, region in enumerate(op.regions):
            inside = None if times is None or trips is None else times * trips
            runs[op.number, number] = inside
            for inner in region.operations:
                visit(inner, inside)

    function = module.kernel.operation
    runs[function.number, 0] = steps
    for op in module.kernel.body.operations:
        visit(op, steps)
    return runs


def trips_of(op: ir.Operation) -> int | None:
    """How often an op runs a region each time it is reached; ``None`` if that takes data to know."""
    if op.name == "scf.while":
        return None
    if op.name != "scf.for":
        return 1
    low, high, step = (constant_of(v) for v in op.operands[:3])
    if low is None or high is None or not step:
        return None
    return max(0, -(-(high - low) // step))


def _placed(module: ir.Module, runs: Runs) -> Iterator[tuple[ir.Operation, int | None]]:
    """Every op of the kernel's function with how often it runs."""
    for op in module.kernel.operation.walk():
        block = op.parent
        if block is not None and op is not module.kernel.operation:
            yield op, runs.get((block.owner.number, block.owner.regions.index(block)), 0)


def flops_of(module: ir.Module, runs: Runs) -> dict[str, int] | None:
    """Of the matmuls of a kernel, by element type of the left operand; ``None`` if it takes data to know them."""
    found: dict[str, int] = {}
    for op, times in _placed(module, runs):
        if op.name == "tpu.matmul":
            if times is None:
                return None
            element = op.operands[0].type.element
            found[element] = found.get(element, 0) + times * matmul_flops(op)
    return found


def matmul_flops(op: ir.Operation) -> int:
    """2·M·N·K of a ``tpu.matmul``."""
    lhs = op.operands[0].type.shape
    found = re.match(r".*?dot_dimension_numbers<\[([\d, ]*)\]", op.attributes.text("dimension_numbers"))
    contracted = [int(n) for n in found[1].split(",") if n.strip()] if found else []
    if not contracted:
        contracted = [0 if op.attributes.boolean("transpose_lhs", False) else len(lhs) - 1]
    return 2 * math.prod(op.result.type.shape) * math.prod(lhs[n] for n in contracted)


def _copies(module: ir.Module, runs: Runs) -> int | None:
    """Bytes of the kernel's own copies to and from HBM."""
    total = 0
    for op, times in _placed(module, runs):
        if op.name != "tpu.enqueue_dma":
            continue
        source, _, target, *_ = op.segments()
        ends = [source[0].type, target[0].type]
        far = sum(t.space in _FAR for t in ends)
        if far:
            shape = next((t.shape for t in ends if ir.DYNAMIC not in t.shape), None)
            if times is None or shape is None:
                return None
            total += far * times * array_bytes(shape, ends[0].element)
    return total


def _window_bytes(module: ir.Module, layout: ir.Layout, argument: ir.Argument) -> int | None:
    """Bytes that the pipeline moves for an argument."""
    window = argument.window
    if window is None:
        return 0
    block = array_bytes(window.bounds, argument.type.element)
    if window.transform is None or not layout.grid:
        return block
    places = places_of(module, window, layout.grid)
    if places is None:
        return None
    return block * changes(places)


def changes(places: Sequence[np.ndarray]) -> int:
    """How many blocks are fetched on the way over the grid: one at first, and one each time the place is another."""
    if not places or not len(places[0]):
        return 1
    moved = np.zeros(len(places[0]) - 1, bool)
    for axis in places:
        moved |= axis[1:] != axis[:-1]
    return 1 + int(moved.sum())


def array_bytes(shape: Sequence[int], element: str) -> int:
    """Bytes of an array, without padding."""
    return math.prod(shape) * ir.bits_of(element) // 8
