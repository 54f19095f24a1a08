# ruff: noqa: N801, N805 - a pair is a class that holds two functions
# pyright: basic
"""Pipelines whose windows are read and written, or whose index maps compute."""

from __future__ import annotations

import functools

import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from conformance.cases.cheat_sheet.pairs import Pair, Pairs, anywhere
from conformance.cases.cheat_sheet.pipeline import (
    BOTH,
    JAX_BUFFERS_OUTPUTS,
    hbm,
    named,
    pipeline,
)
from mosaic_tpu.builder import Buffered, Window, f32

PAIRS = Pairs("pipelines")
_pipeline = functools.partial(pipeline, PAIRS)


COUNTS = [1, 2, *([(2, 1), (2, 2), (3, 1), (1, 2), (3, 2)] if JAX_BUFFERS_OUTPUTS else [])]
for counts in COUNTS:
    for steps, index in ((4, lambda i: (i, 0)), (8, lambda i: (i // 2, 0))):

        def _theirs_in_out(x, o, counts=counts, steps=steps, index=index):
            def body(x, o):
                o[...] = o[...] + x[...]

            rows = pl.BlockSpec((8, 128), index)

            def run(allocations):
                pltpu.emit_pipeline(body, grid=(steps,))(x, o, allocations=allocations)

            buffers = [
                pltpu.BufferedRef.input(rows, jnp.float32),
                pltpu.BufferedRef.input_output(pl.BlockSpec((8, 128), index), jnp.float32, counts),
            ]
            pl.run_scoped(run, buffers)

        def _ours_in_out(b, x, o, counts=counts, steps=steps, index=index):
            def body(x, o):
                o[...] = o[...] + x[...]

            rows, both = Window((8, 128), index), Window((8, 128), index, pipeline_mode=Buffered(counts))
            b.pallas.emit_pipeline(body, grid=(steps,), in_specs=[rows], inout_specs=[both])(x, o)

        name = f"pipeline-in-out-{counts}-{steps}".replace(", ", "-").replace("(", "").replace(")", "")
        PAIRS.pairs.append(
            Pair(
                name,
                "pipelines",
                named(_theirs_in_out, ["x", "o"]),
                named(_ours_in_out, ["b", "x", "o"]),
                BOTH,
                uses=("emit_pipeline", "add", "floor_divide", "load", "store"),
                texts=(
                    f"pltpu.emit_pipeline(body, …)(x, o, allocations=[…, BufferedRef.input_output(…, {counts})])",
                    f"b.pallas.emit_pipeline(body, …, inout_specs=[Window(…, pipeline_mode=Buffered({counts}))])(x, o)",
                ),
            )
        )

#: Index maps that begin with a function of their own, or with arithmetic.
for name, index in [
    ("floor-divide", lambda i: (i // 2, 0)),
    ("remainder", lambda i: (i % 4, 0)),
    ("shifted", lambda i: (i >> 1, 0)),
    ("masked", lambda i: (i & 3, 0)),
    ("sum", lambda i: (i + 0, 0)),
    ("two", lambda i: (i // 2, i % 1)),
]:
    windows = [((8, 128), lambda ds, index=index: index)]
    _pipeline(f"map-{name}", (4,), windows, windows, args=BOTH)
    mode = {"buffers": 3}
    _pipeline(f"map-{name}-3", (4,), [(*windows[0], mode)], windows, args=BOTH)


@PAIRS.add(
    x=anywhere(f32, (32, 128)), y=anywhere(f32, (32, 128)), o=hbm(), uses=("floor_divide", "add", "load", "store")
)
class pipeline_shared_window:
    def pallas(x, y, o):
        def body(x, y, o):
            o[...] = x[...] + y[...]

        rows = pl.BlockSpec((8, 128), lambda i: (i // 2, 0))
        pltpu.emit_pipeline(body, grid=(8,), in_specs=[rows, rows], out_specs=[rows])(x, y, o)

    def ours(b, x, y, o):
        def body(x, y, o):
            o[...] = x[...] + y[...]

        rows = Window((8, 128), lambda i: (i // 2, 0))
        b.pallas.emit_pipeline(body, grid=(8,), in_specs=[rows, rows], out_specs=[rows])(x, y, o)
