# ruff: noqa: N801, N805 - a pair is a class that holds two functions
# pyright: basic
"""Pipelines inside a kernel: `pltpu.emit_pipeline`."""

from __future__ import annotations

import functools

from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from conformance.cases.cheat_sheet.pairs import Pairs, anywhere, out, smem, vmem
from conformance.cases.cheat_sheet.pipeline import (
    BOTH,
    O2,
    O32,
    ROWS,
    SQUEEZED,
    TWO,
    X2,
    X32,
    hbm,
    pipeline,
)
from mosaic_tpu.builder import Window, bf16, f32, i32

PAIRS = Pairs("pipelines")
_pipeline = functools.partial(pipeline, PAIRS)


@PAIRS.add(x=anywhere(f32, (32, 128)), o=hbm(), uses=("add", "load", "store"))
class pipeline_rows:
    def pallas(x, o):
        def body(x, o):
            o[...] = x[...] + 1.0

        rows = pl.BlockSpec((8, 128), lambda i: (i, 0))
        pltpu.emit_pipeline(body, grid=(4,), in_specs=[rows], out_specs=[rows])(x, o)

    def ours(b, x, o):
        def body(x, o):
            o[...] = x[...] + 1.0

        rows = Window((8, 128), lambda i: (i, 0))
        b.pallas.emit_pipeline(body, grid=(4,), in_specs=[rows], out_specs=[rows])(x, o)


@PAIRS.add(
    x=anywhere(f32, (16, 256)), y=anywhere(f32, (256, 128)), o=hbm((16, 128)), uses=("eq", "when", "dot", "add", "at")
)
class pipeline_matmul:
    def pallas(x, y, o):
        def body(x, y, o):
            @pl.when(pl.program_id(1) == 0)
            def _():
                o[...] = x[...] @ y[...]

            @pl.when(pl.program_id(1) > 0)
            def _():
                o[...] = o[...] + x[...] @ y[...]

        pltpu.emit_pipeline(
            body,
            grid=(2, 2),
            in_specs=[pl.BlockSpec((8, 128), lambda i, k: (i, k)), pl.BlockSpec((128, 128), lambda i, k: (k, 0))],
            out_specs=[pl.BlockSpec((8, 128), lambda i, k: (i, 0))],
        )(x, y, o)

    def ours(b, x, y, o):
        def body(x, y, o):
            k = b.pallas.program_id(1)
            with b.pallas.when(k.eq(0)):
                o[...] = x[...] @ y[...]
            with b.pallas.when(k > 0):
                o[...] = o[...] + x[...] @ y[...]

        b.pallas.emit_pipeline(
            body,
            grid=(2, 2),
            in_specs=[Window((8, 128), lambda i, k: (i, k)), Window((128, 128), lambda i, k: (k, 0))],
            out_specs=[Window((8, 128), lambda i, k: (i, 0))],
        )(x, y, o)


# --- the same body over many windows ---------------------------------------------------------------------------------

_pipeline("plain", (4,), [ROWS], [ROWS], args=BOTH)
_pipeline("one-step", (1,), [ROWS], [ROWS], args={"x": anywhere(f32, (16, 128)), "o": hbm((16, 128))})
_pipeline("two-steps", (2,), [ROWS], [ROWS], args={"x": anywhere(f32, (16, 128)), "o": hbm((16, 128))})
_pipeline("two-inputs", (4,), [ROWS, ROWS], [ROWS], args={"x": X32, "y": X32, "o": O32})
_pipeline(
    "bf16",
    (2,),
    [((16, 128), ROWS[1])],
    [((16, 128), ROWS[1])],
    args={"x": anywhere(bf16, (32, 128)), "o": hbm(dtype=bf16)},
)
_pipeline("no-scopes", (4,), [ROWS], [ROWS], args=BOTH, trace_scopes=False)
_pipeline("in-order", (4,), [ROWS], [ROWS], args=BOTH, no_pipelining=True)
for count in (1, 2, 3, 4):
    mode = {"buffers": count}
    _pipeline(f"in-buffered-{count}", (4,), [(*ROWS, mode)], [ROWS], args=BOTH)
for count in (1, 2):
    _pipeline(f"out-buffered-{count}", (4,), [ROWS], [(*ROWS, {"buffers": count})], args=BOTH)
_pipeline("two-dimensions", (4, 2), [TWO], [TWO], args={"x": X2, "o": O2})
_pipeline(
    "three-dimensions",
    (2, 2, 2),
    [((8, 128), lambda ds: lambda i, j, k: (i * 2 + j, k))],
    [((8, 128), lambda ds: lambda i, j, k: (i * 2 + j, k))],
    args={"x": X2, "o": O2},
)
_pipeline("one-of-one", (4, 1), [TWO], [TWO], args={"x": X32, "o": O32})
_pipeline("revisited", (4, 2), [TWO], [((8, 128), lambda ds: lambda i, j: (i, 0))], args={"x": X2, "o": O32})
_pipeline("constant-map", (4,), [((8, 128), lambda ds: lambda i: (0, 0))], [ROWS], args=BOTH)
_pipeline("whole", (4,), [((8, 128), lambda ds: lambda i: (0, 0))], [ROWS], args={"x": anywhere(f32), "o": O32})
_pipeline(
    "whole-both",
    (4,),
    [((8, 128), lambda ds: lambda i: (0, 0))],
    [((8, 128), lambda ds: lambda i: (0, 0))],
    args={"x": anywhere(f32), "o": hbm((8, 128))},
)
_pipeline("no-block", (4,), [(None, None)], [ROWS], args={"x": anywhere(f32), "o": O32})
_pipeline("computed-map", (4,), [((8, 128), lambda ds: lambda i: (3 - i, 0))], [ROWS], args=BOTH)
_pipeline("dynamic", ("n0",), [ROWS], [ROWS], args={"s": smem(i32), **BOTH})
_pipeline("dynamic-inner", (2, "n0"), [TWO], [TWO], args={"s": smem(i32), "x": X2, "o": O2})
_pipeline("dynamic-outer", ("n0", 2), [TWO], [TWO], args={"s": smem(i32), "x": X2, "o": O2})
_pipeline("dynamic-both", ("n0", "n1"), [TWO], [TWO], args={"s": smem(i32), "x": X2, "o": O2})
_pipeline("dynamic-in-order", ("n0",), [ROWS], [ROWS], args={"s": smem(i32), **BOTH}, no_pipelining=True)
_pipeline("ragged", (4,), [ROWS], [ROWS], args={"x": anywhere(f32, (28, 128)), "o": hbm((28, 128))})
_pipeline("in-vmem", (4,), [ROWS], [ROWS], args={"x": vmem(f32, (32, 128)), "o": out(f32, (32, 128))})
_pipeline("in-vmem-to-hbm", (4,), [ROWS], [ROWS], args={"x": vmem(f32, (32, 128)), "o": O32})
_pipeline("squeezed", (4,), [SQUEEZED], [ROWS], args={"x": anywhere(f32, (4, 8, 128)), "o": O32})
_pipeline("squeezed-both", (4,), [SQUEEZED], [SQUEEZED], args={"x": anywhere(f32, (4, 8, 128)), "o": hbm((4, 8, 128))})
_pipeline(
    "rank-1",
    (4,),
    [((1024,), lambda ds: lambda i: (i,))],
    [((1024,), lambda ds: lambda i: (i,))],
    args={"x": anywhere(f32, (4096,)), "o": hbm((4096,))},
)
_pipeline(
    "rank-3",
    (4,),
    [((1, 8, 128), lambda ds: lambda i: (i, 0, 0))],
    [((1, 8, 128), lambda ds: lambda i: (i, 0, 0))],
    args={"x": anywhere(f32, (4, 8, 128)), "o": hbm((4, 8, 128))},
)
_pipeline("bounded", (4,), [(((8,), 128), lambda ds: lambda i: (ds(i * 8, 8), 0))], [ROWS], args=BOTH)
for count in (2, 3):
    _pipeline(
        f"lookahead-{count}",
        (4, 2),
        [((8, 128), lambda ds: lambda i, j: (i, 0), {"buffers": count, "lookahead": True})],
        [((8, 128), lambda ds: lambda i, j: (i, 0))],
        args=BOTH,
    )
