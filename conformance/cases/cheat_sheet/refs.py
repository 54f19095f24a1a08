# ruff: noqa: N801, N805 - a pair is a class that holds two functions
# pyright: basic
"""Loads, stores, views."""

from __future__ import annotations

from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from conformance.cases.cheat_sheet.pairs import Pairs, out, prefetch, smem, vmem
from mosaic_tpu.builder import bf16, f32, i8, i32, u32

PAIRS = Pairs("refs")
USES_ACCESS = ("load", "store")

# --- loads: one ref, one index, the result stored whole --------------------------------------------------------------

# Not here: ref[-1]. Pallas hands the -1 to the load, which then reads before the ref; ours counts from the end.
INDICES = [
    ("whole", "...", (8, 128)),
    ("row", "3", (128,)),
    ("row-slice", "3, :", (128,)),
    ("kept-row", "3:4", (1, 128)),
    ("rows", "2:6", (4, 128)),
    ("columns", ":, 0:64", (8, 64)),
    ("row-part", "2, 0:64", (64,)),
    ("every-second-row", "::2", (4, 128)),
    ("every-second-row-from-1", "1::2, :", (4, 128)),
    ("ellipsis-columns", "..., 0:64", (8, 64)),
    ("row-ellipsis", "1, ...", (128,)),
]
for name, index, shape in INDICES:
    for dtype in (f32, bf16):
        if "second" in name and dtype is bf16:
            continue  # strided loads have 32-bit elements
        text = f"x[{index}]"
        PAIRS.refs(f"load-{name}-{dtype}", f"o[...] = {text}", uses=USES_ACCESS, x=vmem(dtype), o=out(dtype, shape))
        PAIRS.refs(
            f"store-{name}-{dtype}", f"o[{index}] = x[...]", uses=USES_ACCESS, x=vmem(dtype, shape), o=out(dtype)
        )
for name, theirs, ours, shape in [
    ("ds", "pl.ds(2, 4)", "b.pallas.ds(2, 4)", (4, 128)),
    ("ds-stride", "pl.ds(0, 4, stride=2)", "b.pallas.ds(0, 4, 2)", (4, 128)),
    ("ds-columns", ":, pl.ds(0, 64)", ":, b.pallas.ds(0, 64)", (8, 64)),
    ("ds-scalar", "pl.ds(s[0], 4)", "b.pallas.ds(s[0], 4)", (4, 128)),
    ("ds-scalar-stride", "pl.ds(s[0], 4, stride=2)", "b.pallas.ds(s[0], 4, 2)", (4, 128)),
    ("ds-scalar-times", "pl.ds(s[0] * 4, 4)", "b.pallas.ds(s[0] * 4, 4)", (4, 128)),
    (
        "ds-scalar-multiple",
        "pl.ds(pl.multiple_of(s[0], 4), 4)",
        "b.pallas.ds(b.pallas.multiple_of(s[0], 4), 4)",
        (4, 128),
    ),
    ("scalar", "s[0]", "s[0]", (128,)),
    ("scalar-part", "s[0], 0:64", "s[0], 0:64", (64,)),
    ("scalar-ds", "s[0], pl.ds(s[1], 64)", "s[0], b.pallas.ds(s[1], 64)", (64,)),
    ("scalar-ellipsis", "s[0], ...", "s[0], ...", (128,)),
]:
    for dtype in (f32, bf16):
        if "stride" in name and dtype is bf16:
            continue
        operands = {"s": smem(i32), "x": vmem(dtype), "o": out(dtype, shape)}
        PAIRS.refs(f"load-{name}-{dtype}", f"o[...] = x[{theirs}]", f"o[...] = x[{ours}]", uses=USES_ACCESS, **operands)
        operands = {"s": smem(i32), "x": vmem(dtype, shape), "o": out(dtype)}
        PAIRS.refs(
            f"store-{name}-{dtype}", f"o[{theirs}] = x[...]", f"o[{ours}] = x[...]", uses=USES_ACCESS, **operands
        )
PAIRS.refs("load-u32-index", "o[...] = x[s[0]]", uses=USES_ACCESS, s=smem(u32), x=vmem(f32), o=out(f32, (128,)))
PAIRS.refs("load-element", "o[0] = x[1, 2]", uses=USES_ACCESS, x=vmem(f32), o=out(f32, (4,), space="smem"))
PAIRS.refs(
    "load-4d",
    "o[...] = x[0, s[0], 1, :]",
    uses=USES_ACCESS,
    s=smem(i32),
    x=vmem(f32, (1, 4, 2, 128)),
    o=out(f32, (128,)),
)
PAIRS.refs("load-3d-middle", "o[...] = x[:, 1, :]", uses=USES_ACCESS, x=vmem(f32, (4, 8, 128)), o=out(f32, (4, 128)))
PAIRS.refs(
    "store-4d",
    "o[0, s[0], 1, :] = x[...]",
    uses=USES_ACCESS,
    s=smem(i32),
    x=vmem(f32, (128,)),
    o=out(f32, (1, 4, 2, 128)),
)
PAIRS.refs("load-i8", "o[...] = x[0:32]", uses=USES_ACCESS, x=vmem(i8, (64, 128)), o=out(i8, (32, 128)))
PAIRS.refs("load-method", "o[...] = x[...]", "b.pallas.store(o, b.pallas.load(x))", x=vmem(f32), o=out(f32))
PAIRS.refs(
    "load-method-index",
    "o[...] = x[2:6]",
    "b.pallas.store(o, b.pallas.load(x, slice(2, 6)))",
    x=vmem(f32),
    o=out(f32, (4, 128)),
)
PAIRS.refs("add-in-place", "o[...] += x[...]", uses=(*USES_ACCESS, "add"), x=vmem(f32), o=out(f32))
PAIRS.refs("multiply-row-in-place", "o[1] *= 2.0", uses=(*USES_ACCESS, "mul"), o=out(f32))
PAIRS.refs("store-number", "o[...] = jnp.full((8, 128), 1.5, jnp.float32)", "o[...] = 1.5", uses=("store",), o=out(f32))

# --- scalars in SMEM -------------------------------------------------------------------------------------------------

SMEM_OUT = out(i32, (4,), space="smem")
PAIRS.refs("smem-copy", "o[0] = s[1]", uses=USES_ACCESS, s=smem(i32), o=SMEM_OUT)
PAIRS.refs("smem-number", "o[2] = 7", uses=USES_ACCESS, o=SMEM_OUT)
PAIRS.refs("smem-float", "o[2] = 1.5", uses=USES_ACCESS, o=out(f32, (4,), space="smem"))
PAIRS.refs("smem-scalar-index", "o[s[0]] = s[s[1] + 1]", uses=(*USES_ACCESS, "add"), s=smem(i32), o=SMEM_OUT)
PAIRS.refs("smem-2d", "o[0] = s[1, s[0, 0]]", uses=USES_ACCESS, s=smem(i32, (2, 4)), o=SMEM_OUT)
PAIRS.refs("smem-sum", "o[0] = s[0] * 2 + s[1]", uses=(*USES_ACCESS, "mul", "add"), s=smem(i32), o=SMEM_OUT)
PAIRS.refs("smem-f32", "o[0] = s[0] * 2.0", uses=(*USES_ACCESS, "mul"), s=smem(f32), o=out(f32, (4,), space="smem"))
PAIRS.refs("smem-add-in-place", "o[0] += 1", uses=(*USES_ACCESS, "add"), o=SMEM_OUT)
PAIRS.refs("prefetch-read", "o[0] = cu[1] - cu[0]", uses=(*USES_ACCESS, "sub"), cu=prefetch(i32), o=SMEM_OUT)
PAIRS.refs("prefetch-index", "o[...] = x[cu[1]]", uses=USES_ACCESS, cu=prefetch(i32), x=vmem(f32), o=out(f32, (128,)))

# --- masks -----------------------------------------------------------------------------------------------------------


@PAIRS.add(x=vmem(f32), o=out(f32), uses=("load", "lt"))
class store_mask:
    def pallas(x, o):
        value = x[...]
        pltpu.store(o, value, mask=value < 0.0)

    def ours(b, x, o):
        value = x[...]
        b.pallas.store(o, value, mask=value < 0.0)


@PAIRS.add(x=vmem(i32, (4, 128)), o=out(i32), uses=("load", "gt"))
class store_mask_of_a_part:
    def pallas(x, o):
        value = x[...]
        pltpu.store(o.at[2:6], value, mask=value > 0)

    def ours(b, x, o):
        value = x[...]
        b.pallas.store(o, value, slice(2, 6), mask=value > 0)


@PAIRS.add(x=vmem(f32, (128,)), o=out(f32), uses=("load", "gt"))
class store_mask_of_a_row:
    def pallas(x, o):
        value = x[...]
        pltpu.store(o.at[2], value, mask=value > 0)

    def ours(b, x, o):
        value = x[...]
        b.pallas.store(o, value, 2, mask=value > 0)


# --- views -----------------------------------------------------------------------------------------------------------

for name, theirs, ours, shape in [
    ("row", "x.at[2][...]", None, (128,)),
    ("row-part", "x.at[2][0:64]", None, (64,)),
    ("rows-of-rows", "x.at[2:6][1:3]", None, (2, 128)),
    ("rows-then-row", "x.at[2:6][1]", None, (128,)),
    ("scalar", "x.at[s[0]][...]", None, (128,)),
    ("scalar-part", "x.at[s[0]][pl.ds(0, 64)]", "x.at[s[0]][b.pallas.ds(0, 64)]", (64,)),
    ("ds-then-row", "x.at[pl.ds(s[0], 4)][1]", "x.at[b.pallas.ds(s[0], 4)][1]", (128,)),
    ("three", "x.at[2:8].at[1:5].at[0:2][...]", None, (2, 128)),
    ("method", "x.at[2][...]", "b.pallas.at(x, 2)[...]", (128,)),
]:
    operands = {"s": smem(i32), "x": vmem(f32), "o": out(f32, shape)}
    uses = (*USES_ACCESS, "at")
    PAIRS.refs(
        f"view-{name}", f"o[...] = {theirs}", None if ours is None else f"o[...] = {ours}", uses=uses, **operands
    )


@PAIRS.add(s=smem(i32), x=vmem(f32, (4, 8, 128)), o=out(f32), uses=(*USES_ACCESS, "at", "gt"))
class view_in_a_branch:
    def pallas(s, x, o):
        view = x.at[2]

        @pl.when(s[0] > 0)
        def _():
            o[...] = view[...]

    def ours(b, s, x, o):
        view = x.at[2]
        with b.pallas.when(s[0] > 0):
            o[...] = view[...]


@PAIRS.add(s=smem(i32), x=vmem(f32, (4, 8, 128)), o=out(f32), uses=(*USES_ACCESS, "at", "gt"))
class views_in_a_branch:
    def pallas(s, x, o):
        view = x.at[2].at[0:4]

        @pl.when(s[0] > 0)
        def _():
            o[0:4] = view[0:4]
            o[4:8] = view[...]

    def ours(b, s, x, o):
        view = x.at[2].at[0:4]
        with b.pallas.when(s[0] > 0):
            o[0:4] = view[0:4]
            o[4:8] = view[...]


@PAIRS.add(s=smem(i32), x=vmem(f32, (4, 8, 128)), o=out(f32), uses=(*USES_ACCESS, "at", "gt", "mul"))
class view_in_both_branches:
    def pallas(s, x, o):
        view = x.at[2]

        def yes():
            o[...] = view[...]

        def no():
            o[...] = view[...] * 2.0

        lax.cond(s[0] > 0, yes, no)

    def ours(b, s, x, o):
        view = x.at[2]

        def yes():
            o[...] = view[...]

        def no():
            o[...] = view[...] * 2.0

        b.pallas.cond(s[0] > 0, yes, no)


@PAIRS.add(s=smem(i32), x=vmem(f32, (4, 8, 128)), o=out(f32), uses=(*USES_ACCESS, "at", "gt"))
class view_in_a_branch_of_a_branch:
    def pallas(s, x, o):
        view = x.at[2]

        @pl.when(s[0] > 0)
        def _():
            @pl.when(s[1] > 0)
            def _():
                o[...] = view[...]

    def ours(b, s, x, o):
        view = x.at[2]
        with b.pallas.when(s[0] > 0), b.pallas.when(s[1] > 0):
            o[...] = view[...]


@PAIRS.add(x=vmem(f32, (4, 8, 128)), o=out(f32), uses=(*USES_ACCESS, "at", "fori_loop"))
class view_in_a_loop:
    def pallas(x, o):
        view = x.at[2]

        def body(i, carry):
            o[i] = view[i]
            return carry

        lax.fori_loop(0, 8, body, None)

    def ours(b, x, o):
        view = x.at[2]

        def body(i):
            o[i] = view[i]

        b.pallas.fori_loop(0, 8, body)


@PAIRS.add(s=smem(i32), x=vmem(f32, (4, 8, 128)), o=out(f32), uses=(*USES_ACCESS, "at", "add", "fori_loop"))
class views_in_a_loop_of_a_loop:
    def pallas(s, x, o):
        first = x.at[2]

        def outer(_, carry):
            second = x.at[3]

            def inner(i, carry):
                o[i] = first[i] + second[i]
                return carry

            return lax.fori_loop(0, s[0], inner, carry)

        lax.fori_loop(0, 4, outer, None)

    def ours(b, s, x, o):
        first = x.at[2]

        def outer(_):
            second = x.at[3]

            def inner(i):
                o[i] = first[i] + second[i]

            b.pallas.fori_loop(0, s[0], inner)

        b.pallas.fori_loop(0, 4, outer)


@PAIRS.add(s=smem(i32), x=vmem(f32), o=out(f32), uses=(*USES_ACCESS, "at", "add", "lt", "while_loop"))
class view_in_a_while_loop:
    def pallas(s, x, o):
        row = x.at[2]

        def body(i):
            o[i] = row[...]
            return i + 1

        lax.while_loop(lambda i: i < s[0], body, 0)

    def ours(b, s, x, o):
        row = x.at[2]

        def body(i):
            o[i] = row[...]
            return (i + 1,)

        b.pallas.while_loop(lambda i: i < s[0], body, (0,))


@PAIRS.add(s=smem(i32), x=vmem(f32), o=out(f32), uses=(*USES_ACCESS, "at", "gt", "when", "fori_loop"))
class view_in_an_unrolled_loop:
    def pallas(s, x, o):
        row = x.at[2]

        def body(i, carry):
            @pl.when(s[0] > i)
            def _():
                o[i] = row[...]

            o[i + 4] = row[...]
            return carry

        lax.fori_loop(0, 2, body, None, unroll=True)

    def ours(b, s, x, o):
        row = x.at[2]

        def body(i):
            with b.pallas.when(s[0] > i):
                o[i] = row[...]
            o[i + 4] = row[...]

        b.pallas.fori_loop(0, 2, body, unroll=True)


PAIRS.refs("view-store", "o.at[2:6][1] = x[...]", uses=(*USES_ACCESS, "at"), x=vmem(f32, (128,)), o=out(f32))
PAIRS.refs(
    "view-store-whole",
    "o.at[s[0]][...] = x[...]",
    uses=(*USES_ACCESS, "at"),
    s=smem(i32),
    x=vmem(f32, (128,)),
    o=out(f32),
)
PAIRS.refs(
    "view-3d", "o[...] = x.at[1][2:6]", uses=(*USES_ACCESS, "at"), x=vmem(f32, (2, 8, 128)), o=out(f32, (4, 128))
)
PAIRS.refs(
    "view-3d-scalar",
    "o[...] = x.at[s[0]][2:6]",
    uses=(*USES_ACCESS, "at"),
    s=smem(i32),
    x=vmem(f32, (2, 8, 128)),
    o=out(f32, (4, 128)),
)
PAIRS.refs(
    "view-reshape",
    "o[...] = x.reshape(16, 128)[...]",
    uses=USES_ACCESS,
    x=vmem(f32, (2, 8, 128)),
    o=out(f32, (16, 128)),
)
PAIRS.refs(
    "view-reshape-row",
    "o[...] = x.reshape(16, 128)[3]",
    uses=USES_ACCESS,
    x=vmem(f32, (2, 8, 128)),
    o=out(f32, (128,)),
)
PAIRS.refs(
    "view-part-reshape",
    "o[...] = x.at[1].reshape(2, 4, 128)[1]",
    uses=(*USES_ACCESS, "at"),
    x=vmem(f32, (2, 8, 128)),
    o=out(f32, (4, 128)),
)
for source, target, jax_name, rows in (
    (f32, i32, "jnp.int32", 8),
    (i32, f32, "jnp.float32", 8),
    (bf16, u32, "jnp.uint32", 4),
    (i32, bf16, "jnp.bfloat16", 16),
):
    PAIRS.refs(
        f"view-bitcast-{source}-{target}",
        f"o[...] = x.bitcast({jax_name})[...]",
        f"o[...] = x.bitcast({target})[...]",
        uses=USES_ACCESS,
        x=vmem(source),
        o=out(target, (rows, 128)),
    )
PAIRS.refs(
    "view-bitcast-reshape",
    "o[...] = x.bitcast(jnp.uint32).reshape(2, 4, 128)[1]",
    "o[...] = x.bitcast(u32).reshape(2, 4, 128)[1]",
    uses=USES_ACCESS,
    x=vmem(bf16, (16, 128)),
    o=out(u32, (4, 128)),
)
