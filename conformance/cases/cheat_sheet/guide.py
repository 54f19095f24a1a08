# ruff: noqa: N801, N805 - a pair is a class that holds two functions
# pyright: basic
"""Rows of the seed guide's cheat-sheet as it writes them, in its raw ops; sums and loops stand in the other files."""

from __future__ import annotations

import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl

from conformance.cases.cheat_sheet.pairs import Pairs, out, prefetch, smem, vmem
from mosaic_tpu.builder import bf16, f32, i32

PAIRS = Pairs("guide")
INT = out(i32, (4,), space="smem")
SCALAR, LESS, MASK, WHERE, LOAD, STORE = (
    "cu_seqlens[i]",
    "o_k < KEY_DIM",
    "mask_k[:, None] & mask_v[None, :]",
    "jnp.where(mask, x, 0.0)",
    "q_ref[0, t, h, :].astype(jnp.float32)",
    "q_ref[0, t, h, :] = b_o.astype(o_ref.dtype)",
)


@PAIRS.add(row=SCALAR, cu=prefetch(i32), o=INT, grid=(3,), uses=("store",))
class scalar_load:
    def pallas(cu, o):
        o[0] = cu[pl.program_id(0)]

    def ours(b, i, cu, o):
        o[0] = b.scalar_load(cu, [b.to_index(i)])


@PAIRS.add(row=SCALAR, cu=prefetch(i32), o=INT, grid=(3,), uses=("load", "store", "add", "sub"))
class scalar_load_next:
    def pallas(cu, o):
        i = pl.program_id(0)
        o[0] = cu[i + 1] - cu[i]

    def ours(b, i, cu, o):
        o[0] = cu[i + 1] - cu[i]


@PAIRS.add(row="lax.div(a, b)", s=smem(i32), o=INT, uses=("load", "store"))
class divide:
    def pallas(s, o):
        o[0] = lax.div(s[0], s[1])

    def ours(b, s, o):
        o[0] = b.divsi(s[0], s[1])


@PAIRS.add(row="lax.rem(a, b)", s=smem(i32), o=INT, uses=("load", "store"))
class remainder:
    def pallas(s, o):
        o[0] = lax.rem(s[0], s[1])

    def ours(b, s, o):
        o[0] = b.remsi(s[0], s[1])


@PAIRS.add(row=LESS, o=out(i32, (128,)), uses=("store",))
class less:
    def pallas(o):
        o[...] = (jnp.arange(128, dtype=jnp.int32) < 100).astype(jnp.int32)

    def ours(b, o):
        o_k = b.arange(128, i32)
        o[...] = b.pallas.astype(b.cmpi("slt", o_k, b.broadcast_to(b.lift(100), (128,))), i32)


@PAIRS.add(row=LESS, o=out(i32, (128,)), uses=("store", "lt"))
class less_operator:
    def pallas(o):
        o[...] = (jnp.arange(128, dtype=jnp.int32) < 100).astype(jnp.int32)

    def ours(b, o):
        o[...] = b.pallas.astype(b.pallas.arange(128, i32) < 100, i32)


@PAIRS.add(row=MASK, k=vmem(i32, (8,)), v=vmem(i32, (128,)), o=out(i32), uses=("load", "store", "lt"))
class mask_product:
    def pallas(k, v, o):
        mask_k, mask_v = k[...] < 5, v[...] < 100
        o[...] = (mask_k[:, None] & mask_v[None, :]).astype(jnp.int32)

    def ours(b, k, v, o):
        mask_k, mask_v = k[...] < 5, v[...] < 100
        column, row = b.shape_cast(mask_k, (8, 1)), b.shape_cast(mask_v, (1, 128))
        mask = b.andi(b.broadcast_to(column, (8, 128)), b.broadcast_to(row, (8, 128)))
        o[...] = b.pallas.astype(mask, i32)


@PAIRS.add(
    row=MASK, k=vmem(i32, (8,)), v=vmem(i32, (128,)), o=out(i32), uses=("load", "store", "lt", "index", "bitwise_and")
)
class mask_product_operators:
    def pallas(k, v, o):
        mask_k, mask_v = k[...] < 5, v[...] < 100
        o[...] = (mask_k[:, None] & mask_v[None, :]).astype(jnp.int32)

    def ours(b, k, v, o):
        mask_k, mask_v = k[...] < 5, v[...] < 100
        o[...] = b.pallas.astype(mask_k[:, None] & mask_v[None, :], i32)


@PAIRS.add(row=WHERE, x=vmem(f32), y=vmem(f32), o=out(f32), uses=("load", "store", "lt"))
class where_zero:
    def pallas(x, y, o):
        value, other = x[...], y[...]
        mask = value < other
        o[...] = jnp.where(mask, value, 0.0)

    def ours(b, x, y, o):
        value, other = x[...], y[...]
        mask = value < other
        o[...] = b.select(mask, value, b.pallas.zeros((8, 128), f32))


def _load(name: str, dtype) -> None:
    operands = {"t": smem(i32), "q": vmem(dtype, (1, 4, 2, 128)), "o": out(f32, (128,))}
    PAIRS.refs(
        f"guide-load-row-{name}",
        "o[...] = q[0, t[0], t[1], :].astype(jnp.float32)",
        "o[...] = b.pallas.astype(q[0, t[0], t[1], :], f32)",
        row=LOAD,
        uses=("load", "store"),
        **operands,
    )
    PAIRS.refs(
        f"guide-load-row-{name}-fluent",
        "o[...] = q[0, t[0], t[1], :].astype(jnp.float32)",
        "o[...] = q[0, t[0], t[1], :].to(f32)",
        row=LOAD,
        uses=("load", "store"),
        **operands,
    )
    operands = {"t": smem(i32), "x": vmem(f32, (128,)), "q": out(dtype, (1, 4, 2, 128))}
    PAIRS.refs(
        f"guide-store-row-{name}",
        "q[0, t[0], t[1], :] = x[...].astype(q.dtype)",
        "q[0, t[0], t[1], :] = b.pallas.astype(x[...], q.dtype)",
        row=STORE,
        uses=("load", "store"),
        **operands,
    )


for name, dtype in (("bf16", bf16), ("f32", f32)):
    _load(name, dtype)


@PAIRS.add(row=LOAD, t=smem(i32), q=vmem(bf16, (1, 4, 2, 128)), o=out(f32, (128,)), uses=("load", "store"))
class load_row_guide:
    def pallas(t, q, o):
        t_idx, h_idx = t[0], t[1]
        o[...] = q[0, t_idx, h_idx, :].astype(jnp.float32)

    def ours(b, t, q, o):
        t_idx, h_idx = t[0], t[1]
        at = [b.c_index(0), b.to_index(t_idx), b.to_index(h_idx), b.c_index(0)]
        row = b.shape_cast(b.vector_load_shape(q, at, (1, 1, 1, 128)), (128,))
        o[...] = row.to(f32)


@PAIRS.add(
    row="b_h * jnp.exp(b_g) (broadcast to <BK,BV>)", h=vmem(f32), g=smem(f32), o=out(f32), uses=("load", "store")
)
class scaled_by_exp:
    def pallas(h, g, o):
        b_h, b_g = h[...], g[0]
        o[...] = b_h * jnp.exp(b_g)

    def ours(b, h, g, o):
        b_h, b_g = h[...], g[0]
        o[...] = b.mulf(b_h, b.broadcast_to(b.exp(b_g), (8, 128)))


@PAIRS.add(
    row="b_beta * (b_v - predicted_v)",
    v=vmem(f32, (128,)),
    p=vmem(f32, (128,)),
    beta=smem(f32),
    o=out(f32, (128,)),
    uses=("load", "store"),
)
class delta:
    def pallas(v, p, beta, o):
        b_v, predicted_v, b_beta = v[...], p[...], beta[0]
        o[...] = b_beta * (b_v - predicted_v)

    def ours(b, v, p, beta, o):
        b_v, predicted_v, b_beta = v[...], p[...], beta[0]
        difference = b.subf(b_v, predicted_v)
        o[...] = b.mulf(b.broadcast_to(b_beta, (128,)), difference)


@PAIRS.add(row="if cond: …", s=smem(i32), o=INT, uses=("load", "store", "gt"))
class if_guide:
    def pallas(s, o):
        def yes():
            o[0] = 1

        lax.cond(s[0] > 0, yes, lambda: None)

    def ours(b, s, o):
        index = b.extui(s[0] > 0, i32)
        with b.if_(b.cmpi("ne", index, b.lift(0))):
            o[0] = 1


@PAIRS.add(row="if cond: x = a else: x = b", s=smem(i32), o=INT, uses=("load", "store", "gt", "mul", "add"))
class if_else_guide:
    def pallas(s, o):
        a = s[1]
        o[0] = lax.cond(s[0] > 0, lambda: a * 2, lambda: a + 1)

    def ours(b, s, o):
        a = s[1]
        index = b.extui(s[0] > 0, i32)
        with b.if_else(b.cmpi("ne", index, b.lift(0)), [b.scalar_ty(i32)]) as choice:
            with choice.then:
                choice.yield_then(a * 2)
            with choice.otherwise:
                choice.yield_else(a + 1)
        o[0] = choice.results[0]
