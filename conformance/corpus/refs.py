"""Reading and writing refs: slices, strides, masks, views, memory spaces, windows."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from conformance.corpus.case import Cases

CASES = Cases("refs")
_X = "f32[16,256]"

# --- slices ----------------------------------------------------------------------------------------------------------

_INDICES: dict[str, Any] = {
    "all": lambda i: ...,
    "row": lambda i: 3,
    "row-dynamic": lambda i: i,
    "rows": lambda i: slice(8, 16),
    "rows-dynamic": lambda i: pl.ds(i, 8),
    "rows-aligned": lambda i: pl.ds(pl.multiple_of(i * 8, 8), 8),
    "lanes": lambda i: (slice(None), slice(128, 256)),
    "lanes-dynamic": lambda i: (slice(None), pl.ds(pl.multiple_of(i * 128, 128), 128)),
    "window": lambda i: (pl.ds(8, 8), pl.ds(128, 128)),
    "strided": lambda i: pl.ds(0, 8, 2),
    "strided-dynamic": lambda i: pl.ds(i, 4, 4),
    "strided-both": lambda i: (pl.ds(1, 4, 3), pl.ds(0, 128)),
    "one-row-kept": lambda i: pl.ds(i, 1),
    "ellipsis": lambda i: (..., pl.ds(0, 128)),
}
for _name, _index in _INDICES.items():

    @CASES.refs(("get",), ("s32[1] smem", _X), (_X,), id=f"get-{_name}")
    def _get(s: Any, x: Any, o: Any, index: Any = _index) -> None:
        value = x[index(s[0])]
        if value.ndim == 1:
            o[0] = value
        else:
            o[: value.shape[0], : value.shape[1]] = value

    @CASES.refs(("swap",), ("s32[1] smem", _X), (_X,), id=f"swap-{_name}")
    def _swap(s: Any, x: Any, o: Any, index: Any = _index) -> None:
        o[index(s[0])] = x[index(s[0])] * 2


for _dtype in ("bf16", "s32", "u32", "s16", "s8", "u8", "pred", "f8e5m2", "f8e4m3fn", "s4"):
    _operand = f"{_dtype}[32,128]"

    @CASES.refs(("get", "swap"), (_operand,), (_operand,), id=f"copy-{_dtype}")
    def _copy(x: Any, o: Any) -> None:
        o[...] = x[...]


for _shape in ("[128]", "[1024]", "[1,128]", "[8,1]", "[3,5,7]", "[2,2,8,128]", "[2,1,8,128]"):

    @CASES.refs(("get", "swap"), (f"f32{_shape}",), (f"f32{_shape}",), id=f"copy-f32{_shape}")
    def _copy_shape(x: Any, o: Any) -> None:
        o[...] = x[...]


@CASES.refs(("get", "swap"), ("f32[4,8,128]",), ("f32[4,8,128]",))
def three_dimensions(x: Any, o: Any) -> None:
    o[0] = x[1]
    o[1, 2] = x[3, 4]
    o[2, :, pl.ds(0, 64)] = x[2, :, pl.ds(64, 64)]
    o[3, pl.ds(0, 4, 2)] = x[3, pl.ds(1, 4, 2)]


@CASES.refs(("get",), ("f32[8,128]",), ("f32[1] smem",))
def element_of_vmem(x: Any, o: Any) -> None:
    o[0] = x[3, 5]


@CASES.refs(("get", "swap"), ("f32[8,128]",), ("f32[8,128]",))
def add_to(x: Any, o: Any) -> None:
    o[...] = x[...]
    o[...] += x[...]
    o[pl.ds(0, 4)] *= 2.0


@CASES.refs(("swap",), ("f32[8,128]",), ("f32[8,128]", "f32[8,128]"))
def swap_gives_the_old(x: Any, o: Any, p: Any) -> None:
    p[...] = jax.ref.swap(o, ..., x[...])


# --- scalars ---------------------------------------------------------------------------------------------------------

for _dtype in ("s32", "f32", "u32", "pred", "bf16", "s16", "s8"):

    @CASES.refs(("get", "swap"), (f"{_dtype}[4] smem",), (f"{_dtype}[4] smem",), id=f"smem-{_dtype}")
    def _smem(x: Any, o: Any) -> None:
        o[0] = x[1]


@CASES.refs(("get", "swap"), ("s32[2,4] smem", "s32[1] smem"), ("s32[2,4] smem",))
def smem_matrix(x: Any, i: Any, o: Any) -> None:
    o[1, i[0]] = x[i[0], 2] + 1


# --- masks -----------------------------------------------------------------------------------------------------------

for _dtype in ("f32", "s32"):

    @CASES.refs(("masked_swap",), (f"{_dtype}[8,128]",), (f"{_dtype}[8,128]",), id=f"masked-store-{_dtype}")
    def _masked(x: Any, o: Any) -> None:
        pltpu.store(o, x[...], mask=x[...] > 0)


@CASES.refs(("masked_swap",), ("f32[8,128]",), ("f32[16,128]",))
def masked_store_to_slice(x: Any, o: Any) -> None:
    rows = lax.broadcasted_iota(jnp.int32, (8, 128), 0)
    pltpu.store(o.at[pl.ds(8, 8)], x[...], mask=rows < 3)


@CASES.refs(("masked_swap",), ("f32[128]",), ("f32[16,128]",))
def masked_store_to_row(x: Any, o: Any) -> None:
    pltpu.store(o.at[3], x[...], mask=x[...] > 0)


@CASES.refs(("masked_load", "masked_swap"), ("f32[8,128]",), ("f32[8,128]",))
def load_and_store(x: Any, o: Any) -> None:
    pltpu.store(o, pltpu.load(x))


@CASES.refs(("masked_load",), ("f32[16,128]",), ("f32[8,128]",))
def load_of_slice(x: Any, o: Any) -> None:
    o[...] = pltpu.load(x.at[pl.ds(8, 8)])


# --- views -----------------------------------------------------------------------------------------------------------


@CASES.refs(("get", "swap"), ("s32[1] smem", "f32[4,8,128]"), ("f32[4,8,128]",))
def view(i: Any, x: Any, o: Any) -> None:
    o.at[0][...] = x.at[i[0]][...]
    o.at[pl.ds(1, 2)][...] = x.at[pl.ds(i[0], 2)][...]
    o.at[3].at[pl.ds(0, 4)][...] = x.at[2, pl.ds(4, 4)][...]


@CASES.refs(("get", "swap"), ("f32[16,128]",), ("f32[4,4,128]", "f32[16,128]"))
def reshaped_view(x: Any, o: Any, p: Any) -> None:
    o[...] = x.reshape(4, 4, 128)[...]
    p.reshape(2, 8, 128)[...] = x.reshape(2, 8, 128)[...]


@CASES.refs(("get", "swap"), ("s32[8,128]", "f32[16,128]"), ("bf16[16,128]", "s32[16,128]"))
def bitcast_view(x: Any, y: Any, o: Any, p: Any) -> None:
    o[...] = x.bitcast(jnp.bfloat16)[...]
    p.bitcast(jnp.float32)[...] = y[...]


@CASES.refs(("get", "swap"), ("bf16[32,128]",), ("s32[8,128]",))
def view_of_a_view(x: Any, o: Any) -> None:
    o[...] = x.bitcast(jnp.int32).at[pl.ds(8, 8)][...]


for _flags in (
    {"no_store": True},
    {"no_bank_conflict": True},
    {"no_hazard": True},
    {"no_hazard_no_deps": True, "no_bank_conflict": True},
):

    @CASES.refs(("get", "swap"), ("f32[16,128]",), ("f32[16,128]",), id=f"annotate-{'-'.join(_flags)}", since=(0, 12))
    def _annotate(x: Any, o: Any, flags: Any = _flags) -> None:
        o[pl.ds(0, 8)] = pltpu.annotate(x.at[pl.ds(8, 8)], **flags)[...]


@CASES.refs(("has_memory_space", "cond"), ("f32[8,128] any",), ("f32[8,128]",), ("dma",), since=(0, 12))
def has_memory_space(x: Any, o: Any, sem: Any) -> None:
    @pl.when(pltpu.has_memory_space(x, pltpu.VMEM))
    def _() -> None:
        pltpu.async_copy(x, o, sem).wait()

    @pl.when(pltpu.has_memory_space(x, pltpu.HBM))
    def _() -> None:
        pltpu.async_copy(x, o, sem).wait()


@CASES.refs(("add_dependency",), ("f32[8,128]",), ("f32[8,128]",))
def touch(x: Any, o: Any) -> None:
    pltpu.touch(o)
    o[...] = x[...]
    pltpu.touch(x)
