"""Copies, semaphores and devices; pipelines, which are made of them."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from conformance.corpus._compat import pipelines_as_primitives
from conformance.corpus.case import Cases

CASES = Cases("copies")
_HBM = "f32[16,256] any"
_V = "f32[16,256]"
_COPY = ("dma_start", "dma_wait")


@CASES.refs(_COPY, (_HBM,), (_V,), ("dma",))
def to_vmem(x: Any, o: Any, sem: Any) -> None:
    pltpu.async_copy(x, o, sem).wait()


@CASES.refs(_COPY, (_V,), (_HBM,), ("dma",))
def to_hbm(x: Any, o: Any, sem: Any) -> None:
    pltpu.async_copy(x, o, sem).wait()


@CASES.refs(_COPY, ("f32[16,256] hbm",), ("f32[16,256] hbm",), ("dma",))
def in_hbm(x: Any, o: Any, sem: Any) -> None:
    pltpu.make_async_copy(x, o, sem).start()
    pltpu.make_async_copy(x, o, sem).wait()


@CASES.refs(_COPY, ("s32[1] smem", _HBM), ("f32[8,256]",), ("dma[2]",))
def of_slices(i: Any, x: Any, o: Any, sems: Any) -> None:
    rows = pl.ds(pl.multiple_of(i[0] * 8, 8), 8)
    pltpu.async_copy(x.at[rows], o, sems.at[i[0]]).wait()
    pltpu.async_copy(x.at[pl.ds(0, 8), pl.ds(0, 128)], o.at[:, pl.ds(128, 128)], sems.at[1]).wait()


@CASES.refs(_COPY, ("s32[1] smem", "f32[4,8,128] any"), ("f32[8,128]",), ("dma",))
def of_one_of_many(i: Any, x: Any, o: Any, sem: Any) -> None:
    pltpu.async_copy(x.at[i[0]], o, sem).wait()


@CASES.refs(_COPY, ("s32[1] smem", _HBM), (_V,), ("dma",))
def of_a_dynamic_size(n: Any, x: Any, o: Any, sem: Any) -> None:
    rows = pl.ds(0, pl.multiple_of(n[0], 8))
    pltpu.async_copy(x.at[rows], o.at[rows], sem).wait()


@CASES.refs(_COPY, (_HBM,), (_V,), ("dma",))
def with_priority(x: Any, o: Any, sem: Any) -> None:
    copy = pltpu.make_async_copy(x, o, sem)
    copy.start(priority=1)
    copy.wait()


@CASES.refs(_COPY, ("s32[8,128] any",), ("s32[8,128] smem",), ("dma",))
def to_smem(x: Any, o: Any, sem: Any) -> None:
    pltpu.async_copy(x, o, sem).wait()


@CASES.refs(("run_scoped", *_COPY), (_HBM,), (_V,))
def with_a_scoped_semaphore(x: Any, o: Any) -> None:
    pl.run_scoped(lambda sem: pltpu.async_copy(x, o, sem).wait(), pltpu.SemaphoreType.DMA)


@CASES.refs(("run_scoped", *_COPY), (_HBM,), (_V,))
def sync_copy(x: Any, o: Any) -> None:
    pltpu.sync_copy(x, o)


@CASES.refs(("scan", *_COPY), (_HBM,), (_V,), ("f32[2,8,256]", "dma[2]"))
def double_buffered(x: Any, o: Any, buffers: Any, sems: Any) -> None:
    def copy(i: Any) -> Any:
        return pltpu.make_async_copy(x.at[pl.ds(i * 8, 8)], buffers.at[i % 2], sems.at[i % 2])

    copy(0).start()

    @pl.loop(0, 2)
    def _(i: Any) -> None:
        @pl.when(i + 1 < 2)
        def _() -> None:
            copy(i + 1).start()

        copy(i).wait()
        o[pl.ds(i * 8, 8)] = buffers[i % 2]


@CASES.refs(_COPY, ("s32[1] smem", _HBM, _HBM), (_V,), ("dma",), since=(0, 12))
def of_a_selected_ref(i: Any, x: Any, y: Any, o: Any, sem: Any) -> None:
    pltpu.async_copy(pl.select_ref(i[0], x, y), o, sem).wait()


@CASES.refs(_COPY, (_HBM,), (_V,), ("dma",), since=(0, 12))
def of_a_ref_known_to_be_in_hbm(x: Any, o: Any, sem: Any) -> None:
    pltpu.async_copy(x.at[...].memory_space_cast(pltpu.HBM), o, sem).wait()


# --- semaphores ------------------------------------------------------------------------------------------------------


@CASES.refs(("semaphore_signal", "semaphore_wait", "semaphore_read"), (), ("s32[1] smem",), ("regular",))
def semaphore(o: Any, sem: Any) -> None:
    pl.semaphore_signal(sem)
    pl.semaphore_signal(sem, 2)
    o[0] = pl.semaphore_read(sem)
    pl.semaphore_wait(sem, 3)


@CASES.refs(("semaphore_signal", "semaphore_wait"), ("s32[1] smem",), ("s32[1] smem",), ("regular[2,2]",))
def semaphore_of_an_array(i: Any, o: Any, sems: Any) -> None:
    pl.semaphore_signal(sems.at[i[0], 1], i[0])
    pl.semaphore_wait(sems.at[i[0], 1], i[0])
    o[0] = pl.semaphore_read(sems.at[0, 0])


@CASES.refs(("semaphore_read",), (_HBM,), ("s32[1] smem",), ("dma", "f32[16,256]"))
def semaphore_of_a_copy(x: Any, o: Any, sem: Any, buffer: Any) -> None:
    copy = pltpu.async_copy(x, buffer, sem)
    o[0] = pl.semaphore_read(sem)
    copy.wait()


@CASES.refs(
    ("semaphore_signal",), (), ("s32[1] smem",), ("regular",), params={"dimension_semantics": ("parallel",)}, grid=(2,)
)
def semaphore_of_another_core(o: Any, sem: Any) -> None:
    pl.semaphore_signal(sem, 1, core_index=1 - pl.program_id(0))
    pl.semaphore_wait(sem)
    o[0] = 0


@CASES.refs(("delay",), ("s32[1] smem",), ("s32[1] smem",))
def delay(x: Any, o: Any) -> None:
    pl.delay(100)
    pl.delay(x[0])
    o[0] = x[0]


# --- devices ---------------------------------------------------------------------------------------------------------

_REMOTE = {"mesh": {"x": 4}, "params": {"has_side_effects": True}}


@CASES.refs(
    ("get_barrier_semaphore", "semaphore_signal", "semaphore_wait"),
    (),
    ("s32[1] smem",),
    mesh={"x": 4},
    params={"collective_id": 0},
)
def barrier(o: Any) -> None:
    sem = pltpu.get_barrier_semaphore()
    me = lax.axis_index("x")
    pl.semaphore_signal(sem, device_id={"x": (me + 1) % 4})
    pl.semaphore_signal(sem, device_id={"x": (me + 3) % 4})
    pl.semaphore_wait(sem, 2)
    o[0] = me


@CASES.refs((*_COPY, "axis_index"), (_HBM,), (_HBM,), ("dma", "dma"), **_REMOTE)
def remote(x: Any, o: Any, send: Any, receive: Any) -> None:
    neighbour = (lax.axis_index("x") + 1) % lax.axis_size("x")
    pltpu.async_remote_copy(x, o, send, receive, device_id={"x": neighbour}).wait()


@CASES.refs((*_COPY,), (_HBM,), (_HBM,), ("dma", "dma"), mesh={"x": 2, "y": 2}, params={"has_side_effects": True})
def remote_by_coordinates(x: Any, o: Any, send: Any, receive: Any) -> None:
    copy = pltpu.make_async_remote_copy(x, o, send, receive, device_id=(1 - lax.axis_index("x"), lax.axis_index("y")))
    copy.start()
    copy.wait_send()
    copy.wait_recv()


@CASES.refs(("dma_start",), (_HBM,), (_HBM,), ("dma", "dma"), id="remote-by-number", **_REMOTE)
def remote_by_number(x: Any, o: Any, send: Any, receive: Any) -> None:
    copy = pltpu.make_async_remote_copy(
        x.at[pl.ds(0, 8)], o.at[pl.ds(8, 8)], send, receive, device_id=(1 - lax.axis_index("x"),)
    )
    copy.start()
    copy.wait()


# --- pipelines -------------------------------------------------------------------------------------------------------


def _double(x: Any, o: Any) -> None:
    o[...] = x[...] * 2


def _product(x: Any, y: Any, o: Any) -> None:
    @pl.when(pl.program_id(1) == 0)
    def _() -> None:
        o[...] = jnp.zeros_like(o)

    o[...] += jnp.dot(x[...], y[...], preferred_element_type=jnp.float32)


def _numbered(x: Any, o: Any) -> None:
    o[...] = x[...] * pl.program_id(0) + pl.num_programs(0)


def _spec(block: Any, index_map: Any, **more: Any) -> dict[str, Any]:
    spec = pl.BlockSpec(block, index_map, **more)
    return {"in_specs": [spec], "out_specs": [spec]}


def _tree_of(block: Any, index_map: Any, buffers: int) -> dict[str, Any]:
    return _spec(block, index_map) | {"in_specs": [pl.BlockSpec(block, index_map, pipeline_mode=pl.Buffered(buffers))]}


_ROWS = _spec((8, 256), lambda i: (i, 0))
_MANY = "f32[4,8,128] any"
_PIPELINES: dict[str, Any] = {
    "rows": {"grid": (2,), **_ROWS},
    "two-dimensions": {"grid": (2, 2), **_spec((8, 128), lambda i, j: (i, j))},
    "three-buffers": {"grid": (2,), **_tree_of((8, 256), lambda i: (i, 0), 3)},
    "one-buffer": {"grid": (2,), **_tree_of((8, 256), lambda i: (i, 0), 1)},
    "bounded-slices": {"grid": (2,), **_spec((pl.BoundedSlice(8), 256), lambda i: (pl.ds(i * 8, 8), 0))},
    "trace-scopes-off": {"grid": (2,), **_ROWS, "trace_scopes": False},
    "no-pipelining": {"grid": (2,), **_ROWS, "no_pipelining": True},
    "numbered": {"grid": (2,), **_ROWS, "body": _numbered},
    "squeezed": {"grid": (4,), **_spec((None, 8, 128), lambda i: (i, 0, 0)), "inputs": (_MANY,), "outputs": (_MANY,)},
    "product": {
        "grid": (1, 2),
        "in_specs": [pl.BlockSpec((128, 128), lambda i, k: (i, k)), pl.BlockSpec((128, 128), lambda i, k: (k, 0))],
        "out_specs": [pl.BlockSpec((128, 128), lambda i, k: (i, 0))],
        "body": _product,
        "inputs": ("f32[128,256] any", "f32[256,128] any"),
        "outputs": ("f32[128,128] any",),
    },
}


def _add_pipeline(
    name: str, body: Any = _double, inputs: Any = (_HBM,), outputs: Any = (_HBM,), **options: Any
) -> None:
    @CASES.refs(("dma_start", "dma_wait", "run_scoped"), inputs, outputs, id=f"pipeline-{name}")
    def _(*refs: Any) -> None:
        pltpu.emit_pipeline(body, **options)(*refs)

    @CASES.refs(
        ("emit_pipeline", "pipeline_body"),
        inputs,
        outputs,
        id=f"pipeline-{name}-bound",
        context=pipelines_as_primitives,
    )
    def _(*refs: Any) -> None:
        pltpu.emit_pipeline(body, **options)(*refs)


for _name, _options in _PIPELINES.items():
    _add_pipeline(_name, **_options)


@CASES.refs(("dma_start", "while"), ("s32[1] smem", _HBM), (_HBM,))
def pipeline_of_a_dynamic_grid(n: Any, x: Any, o: Any) -> None:
    pltpu.emit_pipeline(_double, grid=(n[0],), **_ROWS)(x, o)


@CASES.refs(("dma_start",), (_HBM,), (_HBM,), ("f32[8,256]",))
def pipeline_with_scratch(x: Any, o: Any, buffer: Any) -> None:
    def body(x: Any, o: Any, buffer: Any) -> None:
        buffer[...] = x[...]
        o[...] = buffer[...]

    pltpu.emit_pipeline(body, grid=(2,), **_ROWS)(x, o, scratches=(buffer,))
