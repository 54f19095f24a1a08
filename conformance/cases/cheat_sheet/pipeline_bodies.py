# ruff: noqa: N801, N805 - a pair is a class that holds two functions
# pyright: basic
"""Pipelines by what is in them and what they are in: scratch, tables, views, loops, other pipelines."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from conformance.cases.cheat_sheet.pairs import Pair, Pairs, anywhere, scratch, smem
from conformance.cases.cheat_sheet.pipeline import (
    BOTH,
    hbm,
    named,
    pipeline,
)
from mosaic_tpu.builder import Buffered, Window, f32, i32

PAIRS = Pairs("pipelines")
_pipeline = functools.partial(pipeline, PAIRS)


@PAIRS.add(t=smem(i32, (8,)), x=anywhere(f32, (32, 128)), o=hbm(), uses=("load", "store"))
class pipeline_table:
    def pallas(t, x, o):
        def body(x, o):
            o[...] = x[...]

        pltpu.emit_pipeline(
            body,
            grid=(4,),
            in_specs=[pl.BlockSpec((8, 128), lambda i: (t[i], 0))],
            out_specs=[pl.BlockSpec((8, 128), lambda i: (i, 0))],
        )(x, o)

    def ours(b, t, x, o):
        def body(x, o):
            o[...] = x[...]

        b.pallas.emit_pipeline(
            body,
            grid=(4,),
            in_specs=[Window((8, 128), lambda i: (t[i], 0))],
            out_specs=[Window((8, 128), lambda i: (i, 0))],
        )(x, o)


@PAIRS.add(x=anywhere(f32, (32, 128)), o=hbm(), acc=scratch(f32), uses=("add", "load", "store", "eq"))
class pipeline_scratch:
    def pallas(x, o, acc):
        def body(x, o, total):
            @pl.when(pl.program_id(0) == 0)
            def _():
                total[...] = x[...]

            total[...] = total[...] + x[...]
            o[...] = total[...]

        rows = pl.BlockSpec((8, 128), lambda i: (i, 0))
        pltpu.emit_pipeline(body, grid=(4,), in_specs=[rows], out_specs=[rows])(x, o, scratches=[acc])

    def ours(b, x, o, acc):
        def body(x, o, total):
            with b.pallas.when(b.pallas.program_id(0).eq(0)):
                total[...] = x[...]
            total[...] = total[...] + x[...]
            o[...] = total[...]

        rows = Window((8, 128), lambda i: (i, 0))
        b.pallas.emit_pipeline(body, grid=(4,), in_specs=[rows], out_specs=[rows])(x, o, scratches=[acc])


@PAIRS.add(s=smem(i32), x=anywhere(f32, (4, 32, 128)), o=hbm((4, 32, 128)), uses=("at", "load", "store"))
class pipeline_of_views:
    def pallas(s, x, o):
        def body(x, o):
            o[...] = x[...]

        rows = pl.BlockSpec((8, 128), lambda i: (i, 0))
        pltpu.emit_pipeline(body, grid=(4,), in_specs=[rows], out_specs=[rows])(x.at[s[0]], o.at[1])

    def ours(b, s, x, o):
        def body(x, o):
            o[...] = x[...]

        rows = Window((8, 128), lambda i: (i, 0))
        b.pallas.emit_pipeline(body, grid=(4,), in_specs=[rows], out_specs=[rows])(x.at[s[0]], o.at[1])


@PAIRS.add(s=smem(i32), x=anywhere(f32, (32, 128)), o=hbm(), uses=("gt", "load", "store"))
class pipeline_in_control_flow:
    def pallas(s, x, o):
        def body(x, o):
            o[...] = x[...]

        rows = pl.BlockSpec((8, 128), lambda i: (i, 0))
        pipeline = pltpu.emit_pipeline(body, grid=(s[1],), in_specs=[rows], out_specs=[rows])

        @pl.when(s[0] > 0)
        def _():
            pipeline(x, o)

        pipeline(x, o)

    def ours(b, s, x, o):
        def body(x, o):
            o[...] = x[...]

        rows = Window((8, 128), lambda i: (i, 0))
        pipeline = b.pallas.emit_pipeline(body, grid=(s[1],), in_specs=[rows], out_specs=[rows])
        with b.pallas.when(s[0] > 0):
            pipeline(x, o)
        pipeline(x, o)


@PAIRS.add(x=anywhere(f32, (2, 32, 128)), o=hbm((2, 32, 128)), uses=("at", "load", "store"))
class pipeline_in_a_loop:
    def pallas(x, o):
        def body(x, o):
            o[...] = x[...]

        def step(n, _):
            rows = pl.BlockSpec((8, 128), lambda i: (i, 0))
            pltpu.emit_pipeline(body, grid=(4,), in_specs=[rows], out_specs=[rows])(x.at[n], o.at[n])

        jax.lax.fori_loop(0, 2, step, None)

    def ours(b, x, o):
        def body(x, o):
            o[...] = x[...]

        def step(n):
            rows = Window((8, 128), lambda i: (i, 0))
            b.pallas.emit_pipeline(body, grid=(4,), in_specs=[rows], out_specs=[rows])(x.at[n], o.at[n])

        b.pallas.fori_loop(0, 2, step)


@PAIRS.add(x=anywhere(f32, (32, 256)), o=hbm((32, 256)), uses=("load", "store"))
class pipeline_in_a_pipeline:
    def pallas(x, o):
        def inner(x, o):
            o[...] = x[...]

        def outer(x, o):
            half = pl.BlockSpec((8, 128), lambda j: (0, j))
            pltpu.emit_pipeline(inner, grid=(2,), in_specs=[half], out_specs=[half])(x, o)

        rows = pl.BlockSpec((8, 256), lambda i: (i, 0), memory_space=pltpu.HBM)
        pltpu.emit_pipeline(outer, grid=(4,), in_specs=[rows], out_specs=[rows])(x, o)

    def ours(b, x, o):
        def inner(x, o):
            o[...] = x[...]

        def outer(x, o):
            half = Window((8, 128), lambda j: (0, j))
            b.pallas.emit_pipeline(inner, grid=(2,), in_specs=[half], out_specs=[half])(x, o)

        rows = Window((8, 256), lambda i: (i, 0), memory_space="hbm")
        b.pallas.emit_pipeline(outer, grid=(4,), in_specs=[rows], out_specs=[rows])(x, o)


@PAIRS.add(s=smem(i32), x=anywhere(f32, (32, 128)), o=hbm(), uses=("add", "load", "store", "astype"))
class pipeline_ids:
    def pallas(s, x, o):
        def body(x, o):
            step = pl.program_id(0) + pl.num_programs(0) * pl.program_id(1)
            o[...] = x[...] + step.astype("float32")

        rows = pl.BlockSpec((8, 128), lambda i, j: (i, 0))
        pltpu.emit_pipeline(body, grid=(s[0], 2), in_specs=[rows], out_specs=[rows])(x, o)

    def ours(b, s, x, o):
        def body(x, o):
            step = b.pallas.program_id(0) + b.pallas.num_programs(0) * b.pallas.program_id(1)
            o[...] = x[...] + b.pallas.astype(step, f32)

        rows = Window((8, 128), lambda i, j: (i, 0))
        b.pallas.emit_pipeline(body, grid=(s[0], 2), in_specs=[rows], out_specs=[rows])(x, o)


@PAIRS.add(x=anywhere(f32, (32, 128)), o=hbm(), uses=("add", "load", "store"))
class pipeline_with_a_span:
    def pallas(x, o):
        def body(x, o):
            with jax.named_scope("mine"):
                o[...] = x[...]

        rows = pl.BlockSpec((8, 128), lambda i: (i, 0))
        pltpu.emit_pipeline(body, grid=(4,), in_specs=[rows], out_specs=[rows])(x, o)

    def ours(b, x, o):
        def body(x, o):
            b.trace_start(10, "mine")
            o[...] = x[...]
            b.trace_stop()

        rows = Window((8, 128), lambda i: (i, 0))
        b.pallas.emit_pipeline(body, grid=(4,), in_specs=[rows], out_specs=[rows])(x, o)


#: Bodies by what they begin with: the constants of the first op come before the span of the body, or after it.
for name, theirs, ours in [
    (
        "zeros",
        lambda x, o: o.__setitem__(..., jnp.zeros((8, 128), jnp.float32)),
        lambda b, x, o: o.__setitem__(..., b.pallas.zeros((8, 128), f32)),
    ),
    (
        "addition",
        lambda x, o: o.__setitem__(pl.program_id(0) + 1, x[0]),
        lambda b, x, o: o.__setitem__(b.pallas.program_id(0) + 1, x[0]),
    ),
    (
        "difference",
        lambda x, o: o.__setitem__(7 - pl.program_id(0), x[0]),
        lambda b, x, o: o.__setitem__(7 - b.pallas.program_id(0), x[0]),
    ),
    (
        "loop",
        lambda x, o: jax.lax.fori_loop(0, 8, lambda i, _: o.__setitem__(i, x[i]), None),
        lambda b, x, o: b.pallas.fori_loop(0, 8, lambda i: o.__setitem__(i, x[i])),
    ),
    (
        "dynamic-loop",
        lambda x, o: jax.lax.fori_loop(0, pl.program_id(0), lambda i, _: o.__setitem__(i, x[i]), None),
        lambda b, x, o: b.pallas.fori_loop(0, b.pallas.program_id(0), lambda i: o.__setitem__(i, x[i])),
    ),
    (
        "copy",
        lambda x, o: pltpu.sync_copy(x.at[pl.ds(0, 4)], o.at[pl.ds(4, 4)]),
        lambda b, x, o: b.pallas.sync_copy(x.at[b.pallas.ds(0, 4)], o.at[b.pallas.ds(4, 4)]),
    ),
    ("scalar-row", lambda x, o: o.__setitem__(3, x[4]), lambda b, x, o: o.__setitem__(3, x[4])),
]:

    def _theirs_begins(x, o, theirs=theirs):
        rows = pl.BlockSpec((8, 128), lambda i: (i, 0))
        pltpu.emit_pipeline(theirs, grid=(4,), in_specs=[rows], out_specs=[rows])(x, o)

    def _ours_begins(b, x, o, ours=ours):
        rows = Window((8, 128), lambda i: (i, 0))
        b.pallas.emit_pipeline(lambda x, o: ours(b, x, o), grid=(4,), in_specs=[rows], out_specs=[rows])(x, o)

    PAIRS.pairs.append(
        Pair(
            f"pipeline-begins-{name}",
            "pipelines",
            named(_theirs_begins, ["x", "o"]),
            named(_ours_begins, ["b", "x", "o"]),
            BOTH,
            uses=("emit_pipeline",),
            texts=(name, name),
        )
    )


@PAIRS.add(
    x=anywhere(f32, (4, 32, 128)), y=anywhere(f32, (4, 32, 128)), o=hbm((4, 32, 128)), uses=("at", "load", "store")
)
class pipeline_of_static_views:
    def pallas(x, y, o):
        def body(x, y, o):
            o[...] = x[...] + y[...]

        rows = pl.BlockSpec((8, 128), lambda i: (i, 0))
        once = pl.BlockSpec((8, 128), lambda i: (i, 0), pipeline_mode=pl.Buffered(1))
        pltpu.emit_pipeline(body, grid=(4,), in_specs=[once, rows], out_specs=[rows])(x.at[1], y.at[2], o.at[3])

    def ours(b, x, y, o):
        def body(x, y, o):
            o[...] = x[...] + y[...]

        rows = Window((8, 128), lambda i: (i, 0))
        once = Window((8, 128), lambda i: (i, 0), pipeline_mode=Buffered(1))
        b.pallas.emit_pipeline(body, grid=(4,), in_specs=[once, rows], out_specs=[rows])(x.at[1], y.at[2], o.at[3])


_pipeline(
    "squeezed-constant-in-order",
    (4,),
    [((None, 8, 128), lambda ds: lambda i: (1, i, 0))],
    [((None, 8, 128), lambda ds: lambda i: (2, i, 0))],
    args={"x": anywhere(f32, (4, 32, 128)), "o": hbm((4, 32, 128))},
    no_pipelining=True,
)
_pipeline(
    "squeezed-constant-buffered-1",
    (4,),
    [((None, 8, 128), lambda ds: lambda i: (1, i, 0), {"buffers": 1})],
    [((None, 8, 128), lambda ds: lambda i: (2, i, 0), {"buffers": 1})],
    args={"x": anywhere(f32, (4, 32, 128)), "o": hbm((4, 32, 128))},
)
