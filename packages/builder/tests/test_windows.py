"""Windows and transforms are those of Pallas, byte for byte, and windows that fit nothing are refused."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from mosaic_tpu.builder import (
    Builder,
    ElementWindow,
    Iter,
    MosaicModule,
    Ref,
    Role,
    Scalar,
    SemArray,
    Value,
    Window,
    body_text,
    f32,
    i32,
    program_id,
    zero,
)
from mosaic_tpu.builder import errors as e

from .conftest import Raises

jax = pytest.importorskip("jax", reason="Pallas is what windows are compared with")
pl = pytest.importorskip("jax.experimental.pallas")
pltpu = pytest.importorskip("jax.experimental.pallas.tpu")


@dataclass(frozen=True)
class Case:
    """One input under one BlockSpec, and its window; the output is always whole."""

    grid: tuple[int, ...]
    array: tuple[int, ...]
    spec: Callable[[], Any]
    block: tuple[int, ...]
    window: Window | None = None
    space: str = "vmem"
    prefetch: bool = False
    scratch: Callable[[], list[Any]] = list
    our_scratch: dict[str, Any] = field(default_factory=dict[str, Any])


BUFFERED = {"synchronous": 1, "double_buffered": 2}
CASES = {
    "whole array": Case((4,), (8, 128), pl.BlockSpec, (8, 128)),
    "whole array, by blocks": Case((4,), (8, 128), lambda: pl.BlockSpec((8, 128), lambda i: (0, 0)), (8, 128),
                                   Window((8, 128), lambda i: (0, 0))),
    "whole array, moved": Case((4,), (8, 128), lambda: pl.BlockSpec((8, 128), lambda i: (i, 0)), (8, 128),
                               Window((8, 128), lambda i: (i, 0))),
    "rows": Case((4,), (32, 128), lambda: pl.BlockSpec((8, 128), lambda i: (i, 0)), (8, 128),
                 Window((8, 128), lambda i: (i, 0))),
    "first rows": Case((4,), (32, 128), lambda: pl.BlockSpec((8, 128), lambda i: (0, 0)), (8, 128), Window((8, 128))),
    "second rows": Case((4,), (32, 128), lambda: pl.BlockSpec((8, 128), lambda i: (1, 0)), (8, 128),
                        Window(index_map=lambda i: (1, 0))),
    "two dimensions": Case((4, 2), (32, 256), lambda: pl.BlockSpec((8, 128), lambda i, j: (i, j)), (8, 128),
                           Window(index_map=lambda i, j: (i, j))),
    "transform_returns": Case((4, 2), (16, 512), lambda: pl.BlockSpec((8, 128), lambda i, j: (j, i)), (8, 128),
                              Window(transform_returns=(program_id(1), program_id(0)))),
    "transform_returns with zero": Case((4, 2), (16, 128), lambda: pl.BlockSpec((8, 128), lambda i, j: (j, 0)),
                                        (8, 128), Window(transform_returns=(program_id(1), zero))),
    "sum": Case((4, 2), (64, 128), lambda: pl.BlockSpec((8, 128), lambda i, j: (i + j, 0)), (8, 128),
                Window(index_map=lambda i, j: (i + j, 0))),
    "affine": Case((4, 2), (96, 128), lambda: pl.BlockSpec((8, 128), lambda i, j: (i * 2 + 1 - j, 0)), (8, 128),
                   Window(index_map=lambda i, j: (i * 2 + 1 - j, 0))),
    "remainder": Case((4,), (16, 128), lambda: pl.BlockSpec((8, 128), lambda i: (i % 2, 0)), (8, 128),
                      Window(index_map=lambda i: (i % 2, 0))),
    "div": Case((4,), (16, 128), lambda: pl.BlockSpec((8, 128), lambda i: (jax.lax.div(i, 2), 0)), (8, 128),
                Window(index_map=lambda i: (i.div(2), 0))),
    "prefetched index": Case((4,), (32, 128), lambda: pl.BlockSpec((8, 128), lambda i, table: (table[i], 0)), (8, 128),
                             Window(index_map=lambda i, table: (table[i], 0)), prefetch=True),
    "prefetched and unused": Case((4,), (32, 128), lambda: pl.BlockSpec((8, 128), lambda i, table: (i, 0)), (8, 128),
                                  Window(index_map=lambda i: (i, 0)), prefetch=True),
    **{
        f"{mode}": Case((4,), (32, 128),
                        lambda count=count: pl.BlockSpec((8, 128), lambda i: (i, 0), pipeline_mode=pl.Buffered(count)),
                        (8, 128), Window(index_map=lambda i: (i, 0), pipeline_mode=mode))
        for mode, count in BUFFERED.items()
    },
    "double buffered, but whole": Case((4,), (8, 128),
                                       lambda: pl.BlockSpec((8, 128), lambda i: (0, 0), pipeline_mode=pl.Buffered(2)),
                                       (8, 128), Window(pipeline_mode="double_buffered")),
    "elements": Case((4,), (64, 128),
                     lambda: pl.BlockSpec((pl.Element(16), pl.Element(128)), lambda i: (i * 8, 0)), (16, 128),
                     Window(index_map=lambda i: (i * 8, 0), element_window=ElementWindow((0, 0), (0, 0)))),
    "padded elements": Case((4,), (32, 128),
                            lambda: pl.BlockSpec((pl.Element(16, (8, 16)), pl.Element(128)), lambda i: (i * 8, 0)),
                            (16, 128),
                            Window(index_map=lambda i: (i * 8, 0), element_window=ElementWindow((8, 0), (16, 0)))),
    "smem": Case((4,), (32, 128), lambda: pl.BlockSpec((8, 128), lambda i: (i, 0), memory_space=pltpu.SMEM), (8, 128),
                 Window(index_map=lambda i: (i, 0)), space="smem"),
    "whole smem": Case((4,), (8, 128), lambda: pl.BlockSpec(memory_space=pltpu.SMEM), (8, 128), space="smem"),
    "any": Case((4,), (32, 128), lambda: pl.BlockSpec(memory_space=pl.ANY), (32, 128), space="any"),
    "hbm": Case((4,), (32, 128), lambda: pl.BlockSpec(memory_space=pltpu.HBM), (32, 128), space="hbm"),
    "scratch": Case((4,), (8, 128), pl.BlockSpec, (8, 128),
                    scratch=lambda: [pltpu.VMEM((8, 128), "float32"), pltpu.SemaphoreType.DMA((2,))],
                    our_scratch={"buffer": Ref((8, 128), f32, role=Role.SCRATCH), "sems": SemArray((2,))}),
    "cubes": Case((2, 2), (2, 16, 128), lambda: pl.BlockSpec((1, 8, 128), lambda i, j: (i, j, 0)), (1, 8, 128),
                  Window(index_map=lambda i, j: (i, j, 0))),
}  # fmt: skip


def _pallas(case: Case) -> bytes:
    def kernel(*refs: Any) -> None:
        out = refs[2 if case.prefetch else 1]
        out[...] = jax.numpy.zeros(out.shape, out.dtype)

    shape = jax.ShapeDtypeStruct((8, 128), "float32")
    grid_spec = pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=int(case.prefetch),
        grid=case.grid,
        in_specs=[case.spec()],
        out_specs=pl.BlockSpec((8, 128), lambda *ids: (0, 0)),
        scratch_shapes=case.scratch(),
    )
    call = pl.pallas_call(kernel, out_shape=shape, grid_spec=grid_spec, name="kernel")
    arguments = [jax.ShapeDtypeStruct((4,), "int32")] if case.prefetch else []
    arguments.append(jax.ShapeDtypeStruct(case.array, "float32"))
    text = jax.jit(call).trace(*arguments).lower(lowering_platforms=("tpu",)).as_text()
    quoted = re.search(r'backend_config = "((?:[^"\\]|\\.)*)"', text)
    assert quoted
    config = json.loads(quoted[1].replace("\\22", '"').replace('\\"', '"'))
    return base64.b64decode(config["custom_call_config"]["body"])


def _ours(case: Case) -> MosaicModule:
    b = Builder("kernel")
    a = b.declare_args(
        {
            **{f"i{d}": Scalar(i32) for d in range(len(case.grid))},
            **({"table": Ref((4,), i32, memory_space="smem", role=Role.SCALAR_PREFETCH)} if case.prefetch else {}),
            "x": Ref(
                case.block,
                f32,
                memory_space=case.space,
                window=case.window,
                array_shape=None if case.block == case.array else case.array,
            ),
            "out": Ref((8, 128), f32, role=Role.OUTPUT),
            **case.our_scratch,
        },
        grid=case.grid,
    )
    b.pallas.store(a.out, b.pallas.zeros((8, 128), f32))
    return b.finish()


@pytest.mark.parametrize("case", [pytest.param(c, id=n) for n, c in CASES.items()])
def test_a_window_is_pallass(case: Case) -> None:
    theirs, module = _pallas(case), _ours(case)
    ours = module.serialize()
    assert body_text(ours.body) == body_text(theirs)
    assert body_text(body_text(theirs)) == body_text(theirs)  # which has left the form of a body, and keeps its mark
    if ours.debug_locations is not None:  # before jaxlib 0.12 locations stay in the body
        assert ours.body == theirs


# ------------------------------------------------------------------------------------------------- beyond Pallas


def _windows(module: MosaicModule) -> str:
    return module.text().partition("window_params = ")[2].partition("\n")[0]


def _declare(b: Builder, window: Window | None, *, grid: tuple[int, ...] = (4,), **ref: Any) -> MosaicModule:
    ids = {f"i{d}": Scalar(i32) for d in range(len(grid))}
    b.declare_args({**ids, "x": Ref(**{"shape": (8, 128), "dtype": f32, "window": window, **ref})}, grid=grid)
    return b.finish()


@pytest.mark.parametrize("revisit", ["immediate", "any"])
def test_a_revisit_mode_stands_beside_its_pipeline_mode(b: Builder, revisit: str) -> None:
    found = _declare(b, Window(index_map=lambda i: (i, 0), pipeline_mode="synchronous", revisit_mode=revisit))
    assert f"pipeline_mode = #tpu.pipeline_mode<synchronous>, revisit_mode = #tpu.revisit_mode<{revisit}>" in _windows(
        found
    )


def test_without_a_grid_there_are_no_windows(b: Builder) -> None:
    b.declare_args({"x": Ref((8, 128), f32)})
    text = b.finish().text()
    assert "window_params" not in text and "transform_0" not in text


def test_an_empty_grid_is_no_grid() -> None:
    texts: list[str] = []
    for grid in ((), None):
        b = Builder("k")
        b.declare_args({"x": Ref((8, 128), f32)}, grid=grid)
        module = b.finish()
        assert module.signature.grid is None
        texts.append(module.text())
    assert texts[0] == texts[1] and "iteration_bounds" not in texts[0]


def test_windows_can_be_left_out(b: Builder) -> None:
    b.declare_args({"i": Scalar(i32), "x": Ref((8, 128), f32)}, grid=(4,), window_params=False)
    assert "window_params" not in b.finish().text()


def test_an_iter_argument_is_an_index_with_semantics(b: Builder) -> None:
    a = b.declare_args({"i": Iter("parallel")})
    assert str(a.i.type) == "index"
    assert "%arg0: index {tpu.dimension_semantics = #tpu.dimension_semantics<parallel>}" in b.finish().text()


@pytest.mark.parametrize(
    ("window", "grid", "shape"),
    [
        (None, (4,), (8, 128)),
        (Window(), (4,), (8, 128)),
        (Window(index_map=lambda i: (i, 0)), (4,), (32, 128)),
        (Window(index_map=lambda i, j: (j, i)), (4, 3), (24, 512)),
        (Window(index_map=lambda i, j: (i * 3 + j, 0)), (4, 3), (96, 128)),
        (Window(index_map=lambda i: (3 - i, 0)), (4,), (32, 128)),
        (Window(index_map=lambda i: (i // 2, 0)), (4,), (16, 128)),
        (Window(transform_returns=(program_id(0), zero)), (4,), (32, 128)),
        (Window(index_map=lambda i: (i * 4, 0), element_window=ElementWindow((0, 0), (0, 0))), (4,), (20, 128)),
    ],
)
def test_the_arrays_shape_follows_from_the_grid(
    b: Builder, window: Window | None, grid: tuple[int, ...], shape: tuple[int, ...]
) -> None:
    assert _declare(b, window, grid=grid).signature.array_shapes["x"] == shape


def test_a_given_array_shape_is_kept(b: Builder) -> None:
    found = _declare(b, Window(index_map=lambda i: (i, 0)), array_shape=(30, 128))
    assert found.signature.array_shapes["x"] == (30, 128)


# ------------------------------------------------------------------------------------------------- what is refused


def _raising(i: Value) -> tuple[Value, int]:
    raise RuntimeError("no such page")


@pytest.mark.parametrize(
    ("window", "text"),
    [
        (Window((16, 128)), "blocks of (16, 128)"),
        (Window(index_map=lambda i, j, k: (i, 0)), "TypeError"),
        (Window(index_map=lambda: (0, 0)), "TypeError"),
        (Window(index_map=_raising), "RuntimeError: no such page"),
        (Window(index_map=lambda i: (1.5, 0)), "1.5"),
        (Window(index_map=lambda i: (i.to(f32), 0)), "f32"),
        (Window(index_map=lambda i: (True, 0)), "True"),
        (Window(index_map=lambda i: (i,)), "1 indices for rank 2"),
        (Window(index_map=lambda i: i), "1 indices for rank 2"),
        (Window(index_map=lambda i: (i, 0, 0)), "3 indices for rank 2"),
        (Window(index_map=3), "3"),  # type: ignore[arg-type]
        (Window(transform_returns=(program_id(1), zero)), "program id 1"),
        (Window(transform_returns=(program_id("a"), zero)), "program id 'a'"),  # type: ignore[arg-type]
        (Window(transform_returns=(program_id(0.0), zero)), "program id 0.0"),  # type: ignore[arg-type]
        (Window(transform_returns=(zero,)), "1 indices for rank 2"),
        (Window(transform_returns=(0, zero)), "0"),  # type: ignore[arg-type]
        (Window(index_map=lambda i: (i, 0), transform_returns=(zero, zero)), "transform_returns"),
        (Window(index_map=lambda i: (i, 0), revisit_mode="any"), "pipeline mode"),
        (Window(index_map=lambda i: (i, 0), revisit_mode="any", pipeline_mode="double_buffered"), "one buffer"),
        (Window(index_map=lambda i: (i, 0), element_window=ElementWindow((0,), (0, 0))), "paddings"),
        (Window(index_map=lambda i: (i, 0), element_window=ElementWindow((-1, 0), (0, 0))), "paddings"),
    ],
)
def test_a_window_that_fits_nothing_is_refused(b: Builder, raises: Raises, window: Window, text: str) -> None:
    arguments = {"i": Scalar(i32), "x": Ref((8, 128), f32, window=window)}
    with raises(e.WindowError, "declare_args", "'x'", text):
        b.declare_args(arguments, grid=(4,))


@pytest.mark.parametrize("field", ["pipeline_mode", "revisit_mode"])
def test_an_unknown_mode_lists_the_known_ones(b: Builder, raises: Raises, field: str) -> None:
    window = Window(index_map=lambda i: (i, 0), **{"pipeline_mode": "synchronous", field: "triple"})
    with raises(e.AttributeValueError, "declare_args", "'triple'"):
        b.declare_args({"i": Scalar(i32), "x": Ref((8, 128), f32, window=window)}, grid=(4,))


@pytest.mark.parametrize("space", ["any", "hbm"])
def test_memory_that_is_not_windowed_refuses_a_moving_window(b: Builder, raises: Raises, space: str) -> None:
    ref = Ref((8, 128), f32, memory_space=space, window=Window(index_map=lambda i: (i, 0)))
    with raises(e.WindowError, "'x'", space, hint="enqueue_dma"):
        b.declare_args({"i": Scalar(i32), "x": ref}, grid=(4,))


@pytest.mark.parametrize("role", [Role.SCRATCH, Role.SCALAR_PREFETCH])
def test_windows_belong_to_inputs_and_outputs(b: Builder, raises: Raises, role: Role) -> None:
    ref = Ref((8, 128), f32, role=role, window=Window())
    with raises(e.WindowError, "'x'", role.value):
        b.declare_args({"i": Scalar(i32), "x": ref}, grid=(4,))


def test_an_array_has_the_rank_of_its_blocks(b: Builder, raises: Raises) -> None:
    ref = Ref((8, 128), f32, window=Window(index_map=lambda i: (i, 0)), array_shape=(1, 32, 128))
    with raises(e.WindowError, "'x'", "(1, 32, 128)"):
        b.declare_args({"i": Scalar(i32), "x": ref}, grid=(4,))


def test_an_error_in_an_index_map_of_ours_is_told_as_it_is(b: Builder, raises: Raises) -> None:
    window = Window(index_map=lambda i: (i.div(1.5), 0))
    with raises(e.DTypeError, "1.5"):
        b.declare_args({"i": Scalar(i32), "x": Ref((8, 128), f32, window=window)}, grid=(4,))


def test_after_a_refused_window_the_arguments_can_be_declared_again(b: Builder) -> None:
    with pytest.raises(e.WindowError):
        b.declare_args({"i": Scalar(i32), "x": Ref((8, 128), f32, window=Window(index_map=_raising))}, grid=(4,))
    assert _declare(b, Window(index_map=lambda i: (i, 0))).signature.grid == (4,)


def test_a_region_in_a_refused_window_does_not_count(b: Builder) -> None:
    def looping(i: Value) -> tuple[Value, int]:
        with b.for_(0, i):
            raise RuntimeError("no such page")

    with pytest.raises(e.WindowError):
        b.declare_args({"i": Scalar(i32), "x": Ref((8, 128), f32, window=Window(index_map=looping))}, grid=(4,))
    _declare(b, Window(index_map=lambda i: (i, 0)))


def test_a_value_does_not_leave_its_index_map(b: Builder, raises: Raises) -> None:
    kept: list[Value] = []
    window = Window(index_map=lambda i: (kept.append(i) or i, 0))
    a = b.declare_args({"i": Scalar(i32), "x": Ref((8, 128), f32, window=window)}, grid=(4,))
    with raises(e.ClosedRegionError, "arith.addi"):
        b.addi(a.i, kept[0])
