"""Every row of the seed guide's cheat-sheet and every idiom of ``b.pallas``, as pairs of micro-kernels.

Not here, because there is nothing to compare with:

- ``ref[-1]`` with a static negative index: Pallas hands the -1 to the load, which reads before the ref; ours counts
  from the end.
- The guide's ``reduce_to_scalar(kind, x, acc)``: it takes its start value as an argument, so that constant comes before
  the shape cast, while Pallas makes it after. ``b.pallas.sum`` does as Pallas does.
- A ``fori_loop`` or a value that nobody reads: JAX drops dead code before Pallas lowers it, a builder emits what it is
  told. (A loop's counter is the exception: it is always there in the source.)
- Kernels that signal other devices by mesh coordinates: they need the axes of a mesh, under which Pallas emits other
  ops. Those with logical ids are compared, on a mesh of one device.
"""

from __future__ import annotations

from typing import Final

from conformance.cases.cheat_sheet import (
    activations,
    arrangement,
    averages,
    booleans,
    control,
    debug,
    dma,
    einsums,
    elementwise,
    functions,
    guide,
    keys,
    loops,
    math,
    movement,
    mxu,
    numeric,
    pipeline_bodies,
    pipeline_in_out,
    pipeline_windows,
    pipelines,
    products,
    promotion,
    random,
    reductions,
    refs,
    reports,
    shapes,
    windows,
)
from conformance.cases.cheat_sheet.pairs import Pair
from conformance.cases.cheat_sheet.zig import GUIDE

#: The guide's cheat-sheet, its Python column, in its order.
GUIDE_ROWS: Final = tuple(GUIDE)

PAIRS: Final[tuple[Pair, ...]] = tuple(
    pair
    for module in (
        guide,
        elementwise,
        promotion,
        math,
        functions,
        activations,
        numeric,
        shapes,
        reductions,
        averages,
        products,
        einsums,
        movement,
        arrangement,
        refs,
        booleans,
        random,
        keys,
        control,
        loops,
        pipelines,
        pipeline_windows,
        pipeline_bodies,
        pipeline_in_out,
        dma,
        mxu,
        debug,
        reports,
        windows,
    )
    for pair in module.PAIRS
)
