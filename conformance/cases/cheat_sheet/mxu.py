# ruff: noqa: N801, N805 - a pair is a class that holds two functions
# pyright: basic
"""Convolutions, and the MXUs by hand."""

from __future__ import annotations

import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from conformance.cases.cheat_sheet.pairs import Pairs, out, vmem
from mosaic_tpu.builder import bf16, f32, i8, i32

PAIRS = Pairs("mxu")


def _conv(id, theirs, ours, result, *, image=(1, 8, 8, 128), kernel=(3, 3, 128, 128), dtype=f32):
    """A convolution of ``x`` by ``w`` in f32, with what is given to both sides beside the dimension numbers."""
    letters = "('NHWC', 'HWIO', 'NHWC')"
    PAIRS.expression(
        f"conv-{id}",
        f"lax.conv_general_dilated(x, w, {theirs}, dimension_numbers={letters}, preferred_element_type=jnp.float32)",
        f"b.conv(x, w, b.zeros({result}, f32), {letters}, {ours})".replace(", )", ")"),
        x=vmem(dtype, image),
        w=vmem(dtype, kernel),
    )


_conv("valid", "(1, 1), 'VALID'", "", (1, 6, 6, 128))
_conv("bf16", "(1, 1), 'VALID'", "", (1, 6, 6, 128), dtype=bf16)
_conv("same", "(1, 1), 'SAME'", "padding=[(1, 1), (1, 1)]", (1, 8, 8, 128))
_conv("strided", "(2, 1), [(1, 0), (0, 2)]", "window_strides=[2, 1], padding=[(1, 0), (0, 2)]", (1, 4, 8, 128))
_conv("dilated", "(1, 1), 'VALID', rhs_dilation=(2, 2)", "rhs_dilation=[2, 2]", (1, 4, 4, 128))
_conv("transposed", "(1, 1), [(0, 0)] * 2, lhs_dilation=(2, 2)", "lhs_dilation=[2, 2]", (1, 13, 13, 128))
_conv(
    "grouped",
    "(1, 1), 'VALID', feature_group_count=2",
    "feature_group_count=2",
    (1, 6, 6, 256),
    image=(1, 8, 8, 256),
    kernel=(3, 3, 128, 256),
)
_conv("highest", "(1, 1), 'VALID', precision=lax.Precision.HIGHEST", "precision='fp32'", (1, 6, 6, 128))
PAIRS.expression(
    "conv-one-dimension",
    "lax.conv_general_dilated(x, w, (1,), 'VALID', dimension_numbers=('NCW', 'OIW', 'NCW'))",
    "b.conv(x, w, b.zeros((2, 16, 126), f32), ('NCW', 'OIW', 'NCW'))",
    x=vmem(f32, (2, 8, 128)),
    w=vmem(f32, (16, 8, 3)),
)


@PAIRS.add(
    x=vmem(bf16, (128, 256)),
    w=vmem(bf16, (256, 256)),
    o=out(f32, (128, 256)),
    tpu_version="tpu7x",
    uses=("load", "store"),
)
class accumulator:
    def pallas(x, w, o):
        def body(acc):
            pltpu.matmul_push_rhs(w[...], staging_register=0, mxu_index=0)
            pltpu.matmul_acc_lhs(acc, x[...], load_staged_rhs=0)
            pltpu.matmul_acc_lhs(acc, x[...])
            o[...] = pltpu.matmul_pop(acc)

        pl.run_scoped(body, pltpu.ACC(0)((128, 256), jnp.float32))

    def ours(b, x, w, o):
        with b.pallas.run_scoped():
            b.matmul_push_rhs(w[...], 0, 0)
            b.matmul_acc_lhs(x[...], acc=0, mxu_index=0, load_staged_rhs=0)
            b.matmul_acc_lhs(x[...], acc=0, mxu_index=0)
            o[...] = b.matmul_pop((128, 256), f32, acc=0, mxu_index=0)


@PAIRS.add(x=vmem(i8, (128, 128)), w=vmem(i8, (128, 128)), o=out(i32, (128, 128)), uses=("load", "store"))
class result_queue:
    def pallas(x, w, o):
        pltpu.matmul_push_rhs(w[...], staging_register=1, mxu_index=1, transpose=True)
        pltpu.matmul_lhs_fifo(x[...], mxu_index=1, load_staged_rhs=1)
        pltpu.matmul_lhs_fifo(x[...], mxu_index=1)
        o[...] = pltpu.matmul_pop_fifo((128, 128), jnp.int32, mxu_index=1)

    def ours(b, x, w, o):
        b.matmul_push_rhs(w[...], 1, 1, transpose=True)
        b.matmul_lhs_fifo(x[...], 1, load_staged_rhs=1)
        b.matmul_lhs_fifo(x[...], 1)
        o[...] = b.matmul_pop_fifo((128, 128), i32, 1)
