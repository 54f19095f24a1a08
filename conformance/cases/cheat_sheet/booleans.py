# ruff: noqa: N801, N805 - a pair is a class that holds two functions
# pyright: basic
"""Refs of booleans: i32 in memory, compared with 0 after a load and extended before a store."""

from __future__ import annotations

import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from conformance.cases.cheat_sheet.pairs import Pairs, anywhere, out, prefetch, scratch, sem, smem, vmem
from mosaic_tpu.builder import Window, f32, i1, i32

PAIRS = Pairs("booleans")
ACCESS = ("load", "store")
X, S = vmem(i1), smem(i1)
SMEM_OUT = out(i1, (1,), space="smem")

#: All of every output is written: the simulator and Pallas's interpreter do not agree on what else it holds.
for name, index, shape, whole in [
    ("whole", "...", (8, 128), (8, 128)),
    ("row", "0", (128,), (1, 128)),
    ("kept-row", "0:1", (1, 128), (1, 128)),
    ("columns", ":, 0:64", (8, 64), (8, 64)),
    ("row-part", "0, 0:64", (64,), (1, 64)),
]:
    PAIRS.refs(f"load-{name}-i1", f"o[...] = x[{index}]", uses=ACCESS, x=X, o=out(i1, shape))
    PAIRS.refs(f"store-{name}-i1", f"o[{index}] = x[...]", uses=ACCESS, x=vmem(i1, shape), o=out(i1, whole))
PAIRS.refs("load-every-second-row-i1", "o[...] = x[1::2]", uses=ACCESS, x=X, o=out(i1, (4, 128)))
PAIRS.refs(
    "store-every-second-row-i1",
    "o[0::2] = x[0:4]\no[1::2] = x[4:8]",
    uses=ACCESS,
    x=X,
    o=out(i1),
)
PAIRS.refs("load-scalar-i1", "o[...] = x[s[0]]", uses=ACCESS, s=smem(i32), x=X, o=out(i1, (128,)))
PAIRS.refs("load-element-i1", "o[0] = x[1, 2]", uses=ACCESS, x=X, o=SMEM_OUT)
PAIRS.refs("load-3d-i1", "o[...] = x[:, 1, :]", uses=ACCESS, x=vmem(i1, (4, 8, 128)), o=out(i1, (4, 128)))
PAIRS.refs("view-i1", "o[...] = x.at[2:6][1]", uses=(*ACCESS, "at"), x=X, o=out(i1, (128,)))
PAIRS.refs("view-scalar-i1", "o[...] = x.at[s[0]][...]", uses=(*ACCESS, "at"), s=smem(i32), x=X, o=out(i1, (128,)))
PAIRS.refs("not-i1", "o[...] = ~x[...]", uses=(*ACCESS, "bitwise_not"), x=X, o=out(i1))
PAIRS.refs("and-in-place-i1", "o[...] = x[...]\no[...] &= y[...]", uses=(*ACCESS, "bitwise_and"), x=X, y=X, o=out(i1))
PAIRS.refs("compare-into-i1", "o[...] = x[...] > 0.0", uses=(*ACCESS, "gt"), x=vmem(f32), o=out(i1))
PAIRS.refs(
    "where-i1",
    "o[...] = jnp.where(x[...], y[...], 0.0)",
    "o[...] = b.pallas.where(x[...], y[...], 0.0)",
    uses=ACCESS,
    x=X,
    y=vmem(f32),
    o=out(f32),
)
PAIRS.refs(
    "any-i1",
    "o[...] = jnp.any(x[...], axis=1, keepdims=True)",
    "o[...] = b.pallas.any(x[...], axis=1, keepdims=True)",
    uses=ACCESS,
    x=X,
    o=out(i1, (8, 1)),
)
PAIRS.refs("store-true-i1", "o[...] = jnp.full((8, 128), True)", "o[...] = True", uses=("store",), o=out(i1))
for name, theirs, ours, shape in [
    ("whole", "jax.ref.swap(v, ..., y[...])", "b.pallas.swap(v, y[...])", (8, 128)),
    ("row", "jax.ref.swap(v, 3, y[4])", "b.pallas.swap(v, y[4], 3)", (128,)),
    ("ds", "jax.ref.swap(v, pl.ds(0, 4, 2), y[0:4])", "b.pallas.swap(v, y[0:4], b.pallas.ds(0, 4, 2))", (4, 128)),
]:
    operands = {"x": X, "y": X, "o": out(i1, shape), "v": scratch(i1)}
    lines = [f"v[...] = x[...]\no[...] = {swap}" for swap in (theirs, ours)]
    PAIRS.refs(f"swap-{name}-i1", *lines, uses=ACCESS, **operands)

# --- scalars in SMEM -------------------------------------------------------------------------------------------------

PAIRS.refs("smem-copy-i1", "o[0] = s[1]", uses=ACCESS, s=S, o=SMEM_OUT)
PAIRS.refs("smem-true", "o[0] = True", uses=ACCESS, o=SMEM_OUT)
PAIRS.refs("smem-or-i1", "o[0] = s[0]\no[0] |= s[1]", uses=(*ACCESS, "bitwise_or"), s=S, o=SMEM_OUT)
PAIRS.refs("smem-compare-i1", "o[0] = s[1] > 3", uses=(*ACCESS, "gt"), s=smem(i32), o=SMEM_OUT)
PAIRS.refs("smem-scratch-i1", "v[1] = s[0]\no[0] = v[1]", uses=ACCESS, s=S, o=SMEM_OUT, v=scratch(i1, (4,), "smem"))
PAIRS.refs(
    "smem-swap-i1",
    "v[1] = s[1]\no[0] = jax.ref.swap(v, 1, s[0])",
    "v[1] = s[1]\no[0] = b.pallas.swap(v, s[0], 1)",
    uses=ACCESS,
    s=S,
    o=SMEM_OUT,
    v=scratch(i1, (4,), "smem"),
)


@PAIRS.add(p=prefetch(i1), x=X, o=out(i1), uses=(*ACCESS, "bitwise_not"))
class when_i1:
    def pallas(p, x, o):
        o[...] = ~x[...]

        @pl.when(p[0])
        def _():
            o[...] = x[...]

    def ours(b, p, x, o):
        o[...] = ~x[...]
        with b.pallas.when(p[0]):
            o[...] = x[...]


@PAIRS.add(x=X, o=out(i1), uses=(*ACCESS, "bitwise_xor"))
class carried_i1:
    def pallas(x, o):
        o[...] = lax.fori_loop(0, 4, lambda i, v: v ^ x[...], x[...])

    def ours(b, x, o):
        o[...] = b.pallas.fori_loop(0, 4, lambda i, v: (v ^ x[...],), (x[...],))[0]


# --- windows, copies, scratch ----------------------------------------------------------------------------------------

ROWS: dict = {"block": (8, 128), "index_map": lambda i: (i, 0)}
PAIRS.refs(
    "window-i1", "o[...] = x[...]", uses=ACCESS, grid=(4,), x=vmem(i1, (32, 128), **ROWS), o=out(i1, (32, 128), **ROWS)
)
PAIRS.refs(
    "window-buffers-i1",
    "o[...] = x[...]",
    uses=ACCESS,
    grid=(4,),
    x=vmem(i1, (32, 128), buffers=1, **ROWS),
    o=out(i1, (32, 128), **ROWS),
)
SQUEEZED: dict = {"block": (None, 8, 128), "index_map": lambda i: (i, 0, 0)}
PAIRS.refs(
    "window-squeezed-i1",
    "o[...] = x[...]",
    uses=ACCESS,
    grid=(4,),
    x=vmem(i1, (4, 8, 128), **SQUEEZED),
    o=out(i1, (4, 8, 128), **SQUEEZED),
)
PAIRS.refs(
    "window-squeezed-row-i1",
    "o[0] = x[3]",
    uses=ACCESS,
    grid=(4,),
    x=vmem(i1, (4, 8, 128), **SQUEEZED),
    o=out(i1, (4, 1, 128), block=(None, 1, 128), index_map=lambda i: (i, 0, 0)),
)
PAIRS.refs(
    "window-padded-i1",
    "o[...] = x[...]",
    uses=ACCESS,
    grid=(2,),
    x=vmem(i1, (16, 128), block=(8, 128), index_map=lambda i: (i * 8, 0), padding=((0, 4), (0, 0))),
    o=out(i1, (16, 128), **ROWS),
)
PAIRS.refs(
    "window-1d-i1",
    "o[...] = x[...]",
    uses=ACCESS,
    grid=(2,),
    x=vmem(i1, (2048,), block=(1024,), index_map=lambda i: (i,)),
    o=out(i1, (2048,), block=(1024,), index_map=lambda i: (i,)),
)
PAIRS.refs(
    "window-smem-i1",
    "o[...] = jnp.full((8, 128), s[0, 0])",
    "o[...] = b.pallas.broadcast_to(s[0, 0], (8, 128))",
    uses=ACCESS,
    grid=(2,),
    s=smem(i1, (2, 128)),
    o=out(i1),
)
PAIRS.refs(
    "map-i1-prefetch",
    "o[...] = x[...]",
    uses=ACCESS,
    grid=(2,),
    p=prefetch(i1),
    x=vmem(i1, (32, 128), block=(8, 128), index_map=lambda i, p: (i + p[i], 0)),
    o=out(i1, (16, 128), block=(8, 128), index_map=lambda i, p: (i, 0)),
)
PAIRS.refs(
    "async-copy-i1",
    "copy = pltpu.make_async_copy(h.at[2], v.at[3], sem)\ncopy.start()\ncopy.wait()\no[...] = v[3]",
    "copy = b.pallas.async_copy(h.at[2], v.at[3], sem)\ncopy.start()\ncopy.wait()\no[...] = v[3]",
    uses=(*ACCESS, "at"),
    h=anywhere(i1),
    o=out(i1, (128,)),
    v=scratch(i1),
    sem=sem(),
)
PAIRS.refs(
    "sync-copy-i1",
    "pltpu.sync_copy(x.at[2], o.at[0])",
    "b.pallas.sync_copy(x.at[2], o.at[0])",
    uses=("at",),
    x=X,
    o=out(i1, (1, 128), space="any"),
)


@PAIRS.add(x=X, o=out(i1), uses=ACCESS)
class run_scoped_i1:
    def pallas(x, o):
        def body(tmp):
            tmp[...] = x[...]
            o[...] = tmp[...]

        pl.run_scoped(body, pltpu.VMEM((8, 128), jnp.bool_))

    def ours(b, x, o):
        with b.pallas.run_scoped():
            tmp = b.alloca((8, 128), i1)
            tmp[...] = x[...]
            o[...] = tmp[...]


@PAIRS.add(x=anywhere(i1, (64, 128)), o=out(i1, (64, 128), space="any"), uses=(*ACCESS, "bitwise_not"))
class pipeline_i1:
    def pallas(x, o):
        def body(x, o):
            o[...] = ~x[...]

        rows = pl.BlockSpec((32, 128), lambda i: (i, 0))
        pltpu.emit_pipeline(body, grid=(2,), in_specs=[rows], out_specs=[rows])(x, o)

    def ours(b, x, o):
        def body(x, o):
            o[...] = ~x[...]

        rows = Window((32, 128), lambda i: (i, 0))
        b.pallas.emit_pipeline(body, grid=(2,), in_specs=[rows], out_specs=[rows])(x, o)


@PAIRS.add(x=anywhere(i1, (60, 128)), o=out(i1, (60, 128), space="any"), uses=ACCESS)
class pipeline_ragged_i1:
    def pallas(x, o):
        def body(x, o):
            o[...] = x[...]

        rows = pl.BlockSpec((32, 128), lambda i: (i, 0))
        pltpu.emit_pipeline(body, grid=(2,), in_specs=[rows], out_specs=[rows])(x, o)

    def ours(b, x, o):
        def body(x, o):
            o[...] = x[...]

        rows = Window((32, 128), lambda i: (i, 0))
        b.pallas.emit_pipeline(body, grid=(2,), in_specs=[rows], out_specs=[rows])(x, o)
