"""Matrix products in every arrangement, the matrix unit step by step, and convolutions."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from conformance.corpus.case import Cases

CASES = Cases("products")


def _dot(dimensions: Any, precision: Any = None, to: Any = jnp.float32) -> Any:
    return lambda x, y: lax.dot_general(x, y, dimensions, precision=precision, preferred_element_type=to)


_ARRANGEMENTS = {
    "nn": (((1,), (0,)), "[128,256]", "[256,128]"),
    "nt": (((1,), (1,)), "[128,256]", "[128,256]"),
    "tn": (((0,), (0,)), "[256,128]", "[256,128]"),
    "tt": (((0,), (1,)), "[256,128]", "[128,256]"),
}
for _name, (_contract, _x, _y) in _ARRANGEMENTS.items():
    for _dtype in ("f32", "bf16"):
        CASES.values(
            f"dot_general-{_name}-{_dtype}", ("dot_general",), _dot((_contract, ((), ()))), _dtype + _x, _dtype + _y
        )
_NN = (((1,), (0,)), ((), ()))
_NT = (((1,), (1,)), ((), ()))
for _precision in (lax.Precision.DEFAULT, lax.Precision.HIGH, lax.Precision.HIGHEST):
    CASES.values(
        f"dot_general-{_precision.name.lower()}", ("dot_general",), _dot(_NN, _precision), *["f32[128,128]"] * 2
    )
for _x, _y, _to in (
    ("s8", "s8", jnp.int32),
    ("s4", "s4", jnp.int32),
    ("f8e5m2", "f8e5m2", jnp.float32),
    ("f8e4m3fn", "f8e4m3fn", jnp.float32),
    ("bf16", "f32", jnp.float32),
    ("bf16", "s8", jnp.float32),
):
    CASES.values(
        f"dot_general-{_x}-{_y}-{jnp.dtype(_to).name}",
        ("dot_general",),
        _dot(_NN, to=_to),
        f"{_x}[128,128]",
        f"{_y}[128,128]",
    )
CASES.values("dot_general-batch", ("dot_general",), _dot((((2,), (1,)), ((0,), (0,)))), *["f32[2,128,128]"] * 2)
CASES.values("dot_general-batch-nt", ("dot_general",), _dot((((2,), (2,)), ((0,), (0,)))), *["bf16[2,128,128]"] * 2)
CASES.values("dot_general-batch-second", ("dot_general",), _dot((((2,), (2,)), ((1,), (1,)))), *["f32[8,2,128]"] * 2)
CASES.values("dot_general-one-row", ("dot_general",), _dot(_NT), "bf16[1,128]", "bf16[1,128]")
CASES.values("dot_general-row-f32", ("dot_general",), _dot(_NT), "f32[8,128]", "f32[1,128]")
CASES.values("dot-small", ("dot_general",), jnp.dot, "f32[8,128]", "f32[128,128]")
CASES.values("dot-accumulated", ("dot_general", "add"), lambda x, y, acc: acc + x @ y, *["f32[128,128]"] * 3)
CASES.values(
    "einsum", ("dot_general",), lambda x, y: jnp.einsum("bij,bjk->bik", x, y), *["f32[2,8,128]", "f32[2,128,128]"]
)
CASES.values("dot-of-transpose", ("dot_general", "transpose"), lambda x, y: x.T @ y, *["f32[128,128]"] * 2)


# --- the matrix unit -------------------------------------------------------------------------------------------------


@CASES.refs(
    ("matmul_push_rhs", "matmul_acc_lhs", "matmul_pop", "run_scoped"),
    ("bf16[128,256]", "bf16[256,256]"),
    ("f32[128,256]",),
    tpu_version="tpu7x",
)
def accumulator(x: Any, y: Any, o: Any) -> None:
    def body(acc: Any) -> None:
        pltpu.matmul_push_rhs(y[...], staging_register=0, mxu_index=0)
        pltpu.matmul_acc_lhs(acc, x[...], load_staged_rhs=0)
        pltpu.matmul_acc_lhs(acc, x[...])
        o[...] = pltpu.matmul_pop(acc)

    pl.run_scoped(body, pltpu.ACC(0)((128, 256), jnp.float32))


@CASES.refs(
    ("matmul_push_rhs", "matmul_acc_lhs", "matmul_pop"),
    ("bf16[128,256]", "bf16[256,256]"),
    ("f32[128,256]", "f32[128,256]"),
    tpu_version="tpu7x",
)
def accumulators_of_two_units(x: Any, y: Any, o: Any, p: Any) -> None:
    def body(first: Any, second: Any) -> None:
        pltpu.matmul_push_rhs(y[...], staging_register=1, mxu_index=0, transpose=True)
        pltpu.matmul_push_rhs(y[...], staging_register=0, mxu_index=1)
        pltpu.matmul_acc_lhs(first, x[...], load_staged_rhs=1)
        pltpu.matmul_acc_lhs(second, x[...], load_staged_rhs=0)
        o[...] = pltpu.matmul_pop(first)
        p[...] = pltpu.matmul_pop(second)

    pl.run_scoped(body, pltpu.ACC(0)((128, 256), jnp.float32), pltpu.ACC(1)((128, 256), jnp.float32))


@CASES.refs(
    ("matmul_push_rhs", "matmul_lhs_fifo", "matmul_pop_fifo"),
    ("bf16[128,256]", "bf16[256,256]"),
    ("f32[128,256]",),
    tpu_version="v6e",
)
def fifo(x: Any, y: Any, o: Any) -> None:
    pltpu.matmul_push_rhs(y[...], staging_register=0, mxu_index=0)
    pltpu.matmul_lhs_fifo(x[...], mxu_index=0, load_staged_rhs=0)
    o[...] = pltpu.matmul_pop_fifo((128, 256), jnp.float32, mxu_index=0)


@CASES.refs(
    ("matmul_push_rhs", "matmul_lhs_fifo", "matmul_pop_fifo"),
    ("s8[128,128]", "s8[128,128]"),
    ("s32[128,128]",),
    id="fifo-s8",
)
def fifo_s8(x: Any, y: Any, o: Any) -> None:
    pltpu.matmul_push_rhs(y[...], staging_register=1, mxu_index=1)
    pltpu.matmul_lhs_fifo(x[...], mxu_index=1, load_staged_rhs=1)
    o[...] = pltpu.matmul_pop_fifo((128, 128), jnp.int32, mxu_index=1)
    pltpu.matmul_lhs_fifo(x[...], mxu_index=1)
    o[...] += pltpu.matmul_pop_fifo((128, 128), jnp.int32, mxu_index=1)


# --- convolutions ----------------------------------------------------------------------------------------------------

_LAYOUT = ("NHWC", "HWIO", "NHWC")
_IMAGES, _FILTERS = "f32[1,8,8,128]", "f32[3,3,128,128]"
_CONVOLUTIONS: dict[str, dict[str, Any]] = {
    "plain": {"padding": "VALID"},
    "padded": {"padding": "SAME"},
    "strided": {"padding": "VALID", "window_strides": (2, 2)},
    "dilated": {"padding": "VALID", "rhs_dilation": (2, 2)},
    "transposed": {"padding": ((1, 1), (1, 1)), "lhs_dilation": (2, 2)},
    "exact": {"padding": "VALID", "precision": lax.Precision.HIGHEST},
}
for _name, _options in _CONVOLUTIONS.items():
    _options = {"window_strides": (1, 1), **_options}
    CASES.values(
        f"conv_general_dilated-{_name}",
        ("conv_general_dilated",),
        lambda x, y, o=_options: lax.conv_general_dilated(x, y, dimension_numbers=_LAYOUT, **o),
        _IMAGES,
        _FILTERS,
    )
    CASES.values(
        f"conv-{_name}",
        ("conv",),
        lambda x, y, o=_options: pltpu.conv(x, y, dimension_numbers=_LAYOUT, **o),
        _IMAGES,
        _FILTERS,
    )
CASES.values(
    "conv-accumulated",
    ("conv",),
    lambda x, y, acc: pltpu.conv(x, y, acc, dimension_numbers=_LAYOUT),
    _IMAGES,
    _FILTERS,
    "f32[1,6,6,128]",
)
CASES.values(
    "conv-reversed",
    ("conv",),
    lambda x, y: pltpu.conv(x, y, dimension_numbers=_LAYOUT, window_reversal=(True, False)),
    _IMAGES,
    _FILTERS,
)
CASES.values(
    "conv-one-dimension",
    ("conv",),
    lambda x, y: pltpu.conv(x, y, dimension_numbers=("NWC", "WIO", "NWC")),
    "bf16[2,16,128]",
    "bf16[3,128,128]",
)
CASES.values(
    "conv-grouped",
    ("conv",),
    lambda x, y: pltpu.conv(x, y, dimension_numbers=_LAYOUT, feature_group_count=2),
    "f32[1,8,8,256]",
    _FILTERS,
)
