"""Grids, windows and roles: what Pallas's call says around a kernel."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from conformance.corpus.case import Cases, arrays

CASES = Cases("windows")
_X = "f32[16,256]"


def _blocks(block: Any, index_map: Any, **more: Any) -> dict[int, pl.BlockSpec]:
    return {0: pl.BlockSpec(block, index_map, **more)}


def _copy(x: Any, o: Any) -> None:
    o[...] = x[...]


for _name, _grid, _block, _map in (
    ("rows", (2,), (8, 256), lambda i: (i, 0)),
    ("lanes", (2,), (16, 128), lambda i: (0, i)),
    ("both", (2, 2), (8, 128), lambda i, j: (i, j)),
    ("swapped", (2, 2), (8, 128), lambda j, i: (i, j)),
    ("reversed", (2,), (8, 256), lambda i: (1 - i, 0)),
    ("clamped", (3,), (8, 256), lambda i: (jnp.minimum(i, 1), 0)),
    ("branching", (2,), (8, 256), lambda i: (lax.select(i > 0, i, 0), 0)),
):
    CASES.refs(
        ("get",), (_X,), (_X,), id=_name, grid=_grid, in_specs=_blocks(_block, _map), out_specs=_blocks(_block, _map)
    )(_copy)

_ROWS = _blocks((8, 256), lambda i: (i, 0))
for _semantics in ("parallel", "arbitrary"):
    CASES.refs(
        ("get",),
        (_X,),
        (_X,),
        id=f"semantics-{_semantics}",
        grid=(2,),
        in_specs=_ROWS,
        out_specs=_ROWS,
        params={"dimension_semantics": (_semantics,)},
    )(_copy)
CASES.refs(
    ("get",),
    (_X,),
    (_X,),
    id="one-buffer",
    grid=(2,),
    out_specs=_ROWS,
    in_specs=_blocks((8, 256), lambda i: (i, 0), pipeline_mode=pl.Buffered(1)),
)(_copy)
CASES.refs(
    ("get",),
    (_X,),
    (_X,),
    id="two-buffers",
    grid=(2,),
    out_specs=_ROWS,
    in_specs=_blocks((8, 256), lambda i: (i, 0), pipeline_mode=pl.Buffered(2)),
)(_copy)
CASES.refs(
    ("get",),
    ("f32[4,8,128]",),
    ("f32[4,8,128]",),
    id="squeezed",
    grid=(4,),
    in_specs=_blocks((None, 8, 128), lambda i: (i, 0, 0)),
    out_specs=_blocks((None, 8, 128), lambda i: (i, 0, 0)),
)(_copy)
CASES.refs(
    ("get",),
    ("f32[4,2,8,128]",),
    ("f32[4,2,8,128]",),
    id="squeezed-twice",
    grid=(4, 2),
    in_specs=_blocks((None, pl.squeezed, 8, 128), lambda i, j: (i, j, 0, 0)),
    out_specs=_blocks((None, None, 8, 128), lambda i, j: (i, j, 0, 0)),
)(_copy)
CASES.refs(
    ("get",),
    ("f32[24,128]",),
    ("f32[16,128]",),
    id="element",
    grid=(2,),
    in_specs=_blocks((pl.Element(8), pl.Element(128)), lambda i: (i * 8, 0)),
    out_specs=_blocks((8, 128), lambda i: (i, 0)),
)(_copy)
CASES.refs(
    ("get",),
    ("f32[24,128]",),
    ("f32[16,128]",),
    id="element-padded",
    grid=(2,),
    in_specs=_blocks((pl.Element(8, (0, 8)), pl.Element(128)), lambda i: (i * 8, 0)),
    out_specs=_blocks((8, 128), lambda i: (i, 0)),
)(_copy)
CASES.refs(
    ("get",),
    ("f32[20,128]",),
    ("f32[20,128]",),
    id="ragged-edge",
    grid=(3,),
    in_specs=_blocks((8, 128), lambda i: (i, 0)),
    out_specs=_blocks((8, 128), lambda i: (i, 0)),
)(_copy)


@CASES.refs(
    ("get",),
    (_X,),
    (_X,),
    prefetch=("s32[2]",),
    grid=(2,),
    in_specs=_blocks((8, 256), lambda i, table: (table[i], 0)),
    out_specs=_blocks((8, 256), lambda i, _: (i, 0)),
)
def prefetch(table: Any, x: Any, o: Any) -> None:
    o[...] = x[...] * table[0].astype(jnp.float32)


@CASES.refs(("get", "swap"), (_X,), (_X,), ("f32[8,256]", "s32[4] smem"), grid=(2,), in_specs=_ROWS, out_specs=_ROWS)
def scratch(x: Any, o: Any, buffer: Any, number: Any) -> None:
    number[0] = 1
    buffer[...] = x[...]
    o[...] = buffer[...] + number[0]


@CASES.refs(("program_id",), (_X,), ("s32[4] smem",), grid=(2, 3))
def program_id(x: Any, o: Any) -> None:
    del x
    o[0] = pl.program_id(0) * pl.num_programs(1) + pl.program_id(1)
    o[1] = pl.num_programs(0)


@CASES.refs(("axis_index",), (_X,), ("s32[4] smem",), mesh={"x": 2, "y": 2})
def axis_index(x: Any, o: Any) -> None:
    del x
    o[0] = lax.axis_index("x")
    o[1] = lax.axis_index("y")


@CASES.refs(("axis_index",), (_X,), ("s32[4] smem",), mesh={"x": 2}, grid=(2,))
def axis_size(x: Any, o: Any) -> None:
    del x
    o[0] = lax.axis_index("x") * lax.axis_size("x") + pl.num_programs(0)


def _dynamic_grid(n: Any, x: Any) -> Any:
    def kernel(x: Any, o: Any) -> None:
        o[...] = x[...] * pl.num_programs(0)

    return pl.pallas_call(
        kernel,
        out_shape=x,
        grid=(n,),
        in_specs=[pl.BlockSpec((8, 256), lambda i: (i, 0))],
        out_specs=pl.BlockSpec((8, 256), lambda i: (i, 0)),
    )(x)


CASES.add("dynamic-grid", ("num_programs",), lambda n, x: _dynamic_grid(n[0], x), arrays("s32[1]", _X))


def _batched(x: Any, y: Any) -> Any:
    def kernel(a: Any, b: Any, o: Any) -> None:
        o[...] = a[...] + b[...] * pl.program_id(0)

    call = pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((16, 128), jnp.float32),
        grid=(2,),
        in_specs=[pl.BlockSpec((8, 128), lambda i: (i, 0))] * 2,
        out_specs=pl.BlockSpec((8, 128), lambda i: (i, 0)),
    )
    return jax.vmap(call)(x, y)


CASES.add("vmap", ("program_id",), _batched, arrays("f32[3,16,128]", "f32[3,16,128]"))
CASES.add(
    "vmap-of-one", ("program_id",), lambda x, y: _batched(x, jnp.stack([y] * 3)), arrays("f32[3,16,128]", "f32[16,128]")
)
CASES.refs(("get",), (_X,), (_X,), id="aliased", call={"input_output_aliases": {0: 0}})(_copy)
CASES.refs(("get",), (_X,), (_X,), id="limits", params={"vmem_limit_bytes": 1 << 20})(_copy)
CASES.refs(
    ("get",),
    (_X,),
    (_X,),
    id="cost",
    call={"cost_estimate": pl.CostEstimate(flops=1, bytes_accessed=2, transcendentals=3)},
)(_copy)
CASES.refs(
    ("get",),
    ("f32[16,256] smem",),
    ("f32[16,256]",),
    id="smem-window",
    grid=(2,),
    out_specs=_ROWS,
    in_specs=_blocks((8, 256), lambda i: (i, 0), memory_space=pltpu.SMEM),
)(lambda x, o: o.__setitem__(..., jnp.full((8, 256), x[0, 0])))
