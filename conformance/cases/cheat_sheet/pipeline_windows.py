# pyright: basic
"""Pipelines whose windows are ragged, squeezed, bounded, elsewhere, many times buffered, or divided between cores."""

from __future__ import annotations

import functools
from typing import Any

from conformance.cases.cheat_sheet.pairs import Pairs, anywhere, smem, vmem
from conformance.cases.cheat_sheet.pipeline import (
    BOTH,
    JAX_BUFFERS_OUTPUTS,
    O2,
    O32,
    ROWS,
    SQUEEZED,
    TWO,
    X2,
    X32,
    copy,
    hbm,
    pipeline,
)
from mosaic_tpu.builder import bf16, f32, i8, i32

PAIRS = Pairs("pipelines")
_pipeline = functools.partial(pipeline, PAIRS)


def twice(x: Any, o: Any, p: Any) -> None:
    """Two outputs of one input."""
    o[...] = x[...]
    p[...] = x[...] * 2.0


def nothing(*_: Any) -> None:
    """A body without an op."""


_pipeline("two-outputs", (4,), [ROWS], [ROWS, ROWS], body=twice, args={**BOTH, "p": hbm()})
_pipeline("empty-body", (4,), [ROWS], [ROWS], body=nothing, args=BOTH)
for count in (3, 4) if JAX_BUFFERS_OUTPUTS else ():
    _pipeline(f"out-buffered-{count}", (8,), [ROWS], [(*ROWS, {"buffers": count})], args=BOTH)
_pipeline(
    "mixed-buffers",
    (4,),
    [(*ROWS, {"buffers": 3}), (*ROWS, {"buffers": 1})],
    [(*ROWS, {"buffers": 1})],
    args={"x": X32, "y": X32, "o": O32},
)
_pipeline("dynamic-buffered-3", ("n0",), [(*ROWS, {"buffers": 3})], [ROWS], args={"s": smem(i32), **BOTH})
_pipeline(
    "dynamic-buffered-1", ("n0",), [(*ROWS, {"buffers": 1})], [(*ROWS, {"buffers": 1})], args={"s": smem(i32), **BOTH}
)
_pipeline("dynamic-one-of-one", ("n0", 1), [TWO], [TWO], args={"s": smem(i32), **BOTH})
_pipeline(
    "dynamic-ragged", ("n0",), [ROWS], [ROWS], args={"s": smem(i32), "x": anywhere(f32, (28, 128)), "o": hbm((28, 128))}
)
_pipeline(
    "dynamic-whole",
    ("n0",),
    [((8, 128), lambda ds: lambda i: (0, 0))],
    [ROWS],
    args={"s": smem(i32), "x": anywhere(f32), "o": O32},
)
_pipeline(
    "dynamic-revisited",
    ("n0", 2),
    [TWO],
    [((8, 128), lambda ds: lambda i, j: (i, 0))],
    args={"s": smem(i32), "x": X2, "o": O32},
)
_pipeline("ragged-lanes", (1, 2), [TWO], [TWO], args={"x": anywhere(f32, (8, 200)), "o": hbm((8, 200))})
_pipeline(
    "ragged-bf16",
    (2,),
    [((16, 128), ROWS[1])],
    [((16, 128), ROWS[1])],
    args={"x": anywhere(bf16, (24, 128)), "o": hbm((24, 128), bf16)},
)
_pipeline(
    "ragged-i8",
    (2,),
    [((32, 128), ROWS[1])],
    [((32, 128), ROWS[1])],
    args={"x": anywhere(i8, (40, 128)), "o": hbm((40, 128), i8)},
)
_pipeline(
    "ragged-in-order",
    (4,),
    [ROWS],
    [ROWS],
    args={"x": anywhere(f32, (28, 128)), "o": hbm((28, 128))},
    no_pipelining=True,
)
_pipeline(
    "squeezed-in-order",
    (4,),
    [SQUEEZED],
    [SQUEEZED],
    args={"x": anywhere(f32, (4, 8, 128)), "o": hbm((4, 8, 128))},
    no_pipelining=True,
)
_pipeline(
    "whole-in-order",
    (4,),
    [((8, 128), lambda ds: lambda i: (0, 0))],
    [ROWS],
    args={"x": anywhere(f32), "o": O32},
    no_pipelining=True,
)
_pipeline(
    "squeezed-constant",
    (4,),
    [((None, 8, 128), lambda ds: lambda i: (1, i, 0))],
    [ROWS],
    args={"x": anywhere(f32, (4, 32, 128)), "o": O32},
)
_pipeline(
    "squeezed-middle",
    (4,),
    [((8, None, 128), lambda ds: lambda i: (i, 1, 0))],
    [ROWS],
    args={"x": anywhere(f32, (32, 4, 128)), "o": O32},
)
_pipeline(
    "squeezed-two",
    (2, 2),
    [((None, None, 8, 128), lambda ds: lambda i, j: (i, j, 0, 0))],
    [((None, 8, 128), lambda ds: lambda i, j: (i * 2 + j, 0, 0))],
    args={"x": anywhere(f32, (2, 2, 8, 128)), "o": hbm((4, 8, 128))},
)
_pipeline(
    "squeezed-to-rank-1",
    (4,),
    [((None, 1024), lambda ds: lambda i: (i, 0))],
    [((1024,), lambda ds: lambda i: (i,))],
    args={"x": anywhere(f32, (4, 1024)), "o": hbm((4096,))},
)
_pipeline("squeezed-in-vmem", (4,), [SQUEEZED], [ROWS], args={"x": vmem(f32, (4, 8, 128)), "o": O32})
_pipeline(
    "bounded-both",
    (4,),
    [(((8,), 128), lambda ds: lambda i: (ds(i * 8, 8), 0))],
    [(((8,), 128), lambda ds: lambda i: (ds(i * 8, 8), 0))],
    args=BOTH,
)
_pipeline(
    "bounded-computed",
    (4,),
    [(((16,), 128), lambda ds: lambda i: (ds(i * 8, 8 + i), 0))],
    [(((16,), 128), lambda ds: lambda i: (ds(i * 8, 8 + i), 0))],
    args=BOTH,
)
_pipeline(
    "bounded-lanes",
    (2,),
    [((8, (128,)), lambda ds: lambda i: (0, ds(i * 128, 128)))],
    [((8, 128), lambda ds: lambda i: (0, i))],
    args={"x": anywhere(f32, (8, 256)), "o": hbm((8, 256))},
)
_pipeline("bounded-static", (4,), [(((8,), 128), lambda ds: lambda i: (ds(8, 8), 0))], [ROWS], args=BOTH)
_pipeline(
    "bounded-in-vmem",
    (4,),
    [(((8,), 128), lambda ds: lambda i: (ds(i * 8, 8), 0))],
    [ROWS],
    args={"x": vmem(f32, (32, 128)), "o": O32},
)
_pipeline(
    "smem-blocks",
    (4,),
    [((8, 128), ROWS[1], {"space": "smem"})],
    [ROWS],
    body=lambda x, o: nothing(),
    args={"x": anywhere(i32, (32, 128)), "o": hbm(dtype=i32)},
)
_pipeline(
    "hbm-blocks",
    (4,),
    [((8, 128), ROWS[1], {"space": "hbm"}), ROWS],
    [ROWS],
    body=lambda h, x, o: copy(x, o),
    args={"h": X32, **BOTH},
)
_pipeline("lookahead-1-d", (4,), [(*ROWS, {"buffers": 2, "lookahead": True})], [ROWS], args=BOTH)
_pipeline("lookahead-4", (4,), [(*ROWS, {"buffers": 4, "lookahead": True})], [ROWS], args=BOTH)
_pipeline(
    "lookahead-dynamic", ("n0",), [(*ROWS, {"buffers": 3, "lookahead": True})], [ROWS], args={"s": smem(i32), **BOTH}
)
_pipeline(
    "lookahead-two",
    (4,),
    [(*ROWS, {"buffers": 2, "lookahead": True}), (*ROWS, {"buffers": 3, "lookahead": True})],
    [ROWS],
    args={"x": X32, "y": X32, "o": O32},
)
for name, semantics, grid, kernel_grid in [
    ("divided", ("parallel",), (4,), (2,)),
    ("rest", ("parallel",), (3,), (2,)),
    ("second", ("arbitrary", "parallel"), (4, 2), (2,)),
    ("alone", ("parallel",), (4,), (1,)),
    ("none", ("parallel", "parallel"), (3, 2), (2,)),
]:
    windows = [ROWS] if len(grid) == 1 else [TWO]
    _pipeline(
        f"cores-{name}",
        grid,
        windows,
        windows,
        kernel_grid=kernel_grid,
        semantics=semantics,
        core_axis=0,
        args={"x": X2 if len(grid) > 1 else X32, "o": O2 if len(grid) > 1 else O32},
    )
