"""`b.pallas.emit_pipeline`: what is refused, and what a body may rely on."""

from __future__ import annotations

from typing import Any

import pytest

from mosaic_tpu.builder import (
    Args,
    BoundedSlice,
    Buffered,
    Builder,
    ElementWindow,
    Ref,
    Role,
    Scalar,
    Window,
    f32,
    i32,
    program_id,
    zero,
)
from mosaic_tpu.builder import errors as e
from mosaic_tpu.builder._compat import PIPELINE_BUFFERS_OUTPUTS

from .conftest import Raises

ROWS = Window((2, 128), lambda i: (i, 0))


def copy(x: Any, o: Any) -> None:
    """The body of most pipelines here."""
    o[...] = x[...]


def run(
    b: Builder, x: Any, o: Any, window: Window = ROWS, *, grid: Any = (4,), out: Window = ROWS, **more: Any
) -> None:
    """A pipeline of one input and one output."""
    b.pallas.emit_pipeline(copy, grid=grid, in_specs=[window], out_specs=[out], **more)(x, o)


def test_the_body_sees_blocks(b: Builder, a: Args) -> None:
    seen: list[tuple[int, ...]] = []
    windows = [Window((None, 2, 128), lambda i: (0, i, 0)), ROWS]
    b.pallas.emit_pipeline(lambda *refs: seen.extend(r.shape for r in refs), grid=(4,), in_specs=windows)(a.cube, a.hbm)
    assert seen == [(2, 128), (2, 128)]
    b.finish()


def test_the_body_is_called_once_however_long_the_grid_is(b: Builder, a: Args) -> None:
    calls: list[None] = []
    b.pallas.emit_pipeline(lambda x: calls.append(None), grid=(4,), in_specs=[ROWS])(a.hbm)
    assert len(calls) == 1


def test_ids_are_of_the_innermost_grid(b: Builder, a: Args) -> None:
    sizes: list[Any] = []

    def body(x: Any) -> None:
        sizes.append(b.pallas.num_programs(0))
        sizes.append(b.pallas.program_id(0))

    b.pallas.emit_pipeline(body, grid=(2,), in_specs=[ROWS])(a.hbm)
    assert sizes[0] == 2 and sizes[1] is not b.pallas.program_id(0)
    assert b.pallas.num_programs(0) == 4
    with pytest.raises(e.ClosedRegionError):
        sizes[1] + 1


def test_a_grid_may_be_known_at_run_time_only(b: Builder, a: Args) -> None:
    run(b, a.hbm, a.hbm, grid=(b.scalar_load(a.lens, [0]),))
    assert "scf.if" in b.finish().text()


def test_an_exception_in_a_body_leaves_the_builder_unfinished(b: Builder, a: Args) -> None:
    def fail(*_: Any) -> None:
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        b.pallas.emit_pipeline(fail, grid=(4,), in_specs=[ROWS])(a.hbm)
    with pytest.raises(e.RegionOrderError):
        b.finish()


@pytest.mark.parametrize(
    ("window", "says"),
    [
        (Window((2,), lambda i: (i,)), "blocks of rank 1 of a ref of rank 2"),
        (Window((0, 128), lambda i: (i, 0)), "blocks of (0, 128)"),
        (Window((2, 128), lambda i: (i,)), "returned 1 indices for rank 2"),
        (Window((2, 128), lambda i: (i, "0")), "returned '0'"),
        (Window((2, 128), lambda i: (i, 0.0)), "returned 0.0"),
        (Window((2, 128), lambda i: (i, True)), "returned True"),
        (Window((2, 128), lambda i, j: (i, j)), "raised TypeError"),
        (Window((2, 128), lambda i: (i, 1 // 0)), "raised"),
        (Window((2, 128)), "no index map"),
        (Window((2, 128), 3), "the index map is 3"),  # pyright: ignore[reportArgumentType]
        (Window((BoundedSlice(8), 128), lambda i: (i, 0)), "for a BoundedSlice"),
        (Window((2, 128), lambda i: (i, 0), memory_space="any"), "blocks in any"),
        (Window((2, 128), transform_returns=(program_id(0), zero)), "has an index_map"),
        (Window((2, 128), lambda i: (i, 0), revisit_mode="any"), "no revisit mode"),
        (Window((2, 128), lambda i: (i, 0), element_window=ElementWindow((1, 0), (0, 0))), "does not pad"),
        ("rows", "is not a window"),
    ],
)
def test_a_window_that_does_not_fit_is_refused(b: Builder, a: Args, raises: Raises, window: Any, says: str) -> None:
    with raises(e.WindowError, "emit_pipeline", says):
        b.pallas.emit_pipeline(copy, grid=(4,), in_specs=[window], out_specs=[ROWS])(a.hbm, a.hbm)


@pytest.mark.parametrize("count", [0, -1, True, 1.5, "two"])
def test_a_number_of_buffers_is_positive(b: Builder, a: Args, count: Any) -> None:
    window = Window((2, 128), lambda i: (i, 0), pipeline_mode=Buffered(count))
    with pytest.raises(e.AttributeValueError):
        run(b, a.hbm, a.hbm, window)


def test_a_ref_may_be_read_and_written(b: Builder, a: Args) -> None:
    seen: list[tuple[int, ...]] = []

    def body(*refs: Any) -> None:
        seen.extend(r.shape for r in refs)

    wide, narrow = Window((4, 128), lambda i: (i, 0)), Window((1, 128), lambda i: (i, 0))
    pipeline = b.pallas.emit_pipeline(body, grid=(2,), in_specs=[ROWS], inout_specs=[wide], out_specs=[narrow])
    pipeline(a.hbm, a.hbm, a.hbm)
    assert seen == [(2, 128), (4, 128), (1, 128)]
    b.finish()


def test_a_pair_of_buffers_is_for_both_directions(b: Builder, a: Args, raises: Raises) -> None:
    window = Window((2, 128), lambda i: (i, 0), pipeline_mode=Buffered((2, 2)))
    with raises(e.AttributeValueError, "emit_pipeline", "(2, 2) buffers"):
        b.pallas.emit_pipeline(copy, grid=(4,), in_specs=[window], out_specs=[ROWS])(a.hbm, a.hbm)


def test_outputs_do_not_look_ahead(b: Builder, a: Args, raises: Raises) -> None:
    window = Window((2, 128), lambda i: (i, 0), pipeline_mode=Buffered(2, use_lookahead=True))
    with raises(e.AttributeValueError, "emit_pipeline", "lookahead of an output"):
        b.pallas.emit_pipeline(copy, grid=(4,), in_specs=[ROWS], out_specs=[window])(a.hbm, a.hbm)


@pytest.mark.skipif(PIPELINE_BUFFERS_OUTPUTS, reason="JAX 0.12 buffers outputs as deeply as inputs")
def test_jax_0_11_has_two_buffers_of_an_output(b: Builder, a: Args, raises: Raises) -> None:
    window = Window((2, 128), lambda i: (i, 0), pipeline_mode=Buffered(3))
    with raises(e.AttributeValueError, "emit_pipeline", "3 buffers of an output", hint="JAX 0.11"):
        b.pallas.emit_pipeline(copy, grid=(4,), in_specs=[ROWS], out_specs=[window])(a.hbm, a.hbm)


@pytest.mark.parametrize("grid", [(0,), (-1,), (1 << 31,)])
def test_a_grid_has_steps(b: Builder, a: Args, raises: Raises, grid: Any) -> None:
    with raises(e.WindowError, "emit_pipeline", f"a grid of {grid[0]} steps"):
        b.pallas.emit_pipeline(copy, grid=grid, in_specs=[ROWS], out_specs=[ROWS])


def test_a_grid_is_of_i32(b: Builder, a: Args, raises: Raises) -> None:
    bound = b.lift(4.0)
    with raises(e.KindError, "emit_pipeline", "i32 scalars"):
        b.pallas.emit_pipeline(copy, grid=(bound,), in_specs=[ROWS], out_specs=[ROWS])
    with raises(e.AttributeValueError, "emit_pipeline", "bound of the grid"):
        b.pallas.emit_pipeline(copy, grid=("4",), in_specs=[ROWS], out_specs=[ROWS])  # pyright: ignore[reportArgumentType]


def test_there_is_a_ref_for_every_window(b: Builder, a: Args, raises: Raises) -> None:
    pipeline = b.pallas.emit_pipeline(copy, grid=(4,), in_specs=[ROWS], out_specs=[ROWS])
    with raises(e.ArityError, "emit_pipeline", "1 refs for 2 windows"):
        pipeline(a.hbm)


def test_refs_are_refs(b: Builder, a: Args, raises: Raises) -> None:
    pipeline = b.pallas.emit_pipeline(copy, grid=(4,), in_specs=[ROWS], out_specs=[ROWS])
    loaded = a.x[...]
    with raises(e.KindError, "emit_pipeline", "a ref is needed"):
        pipeline(a.hbm, loaded)


def test_the_body_is_a_function(b: Builder, a: Args, raises: Raises) -> None:
    with raises(e.KindError, "emit_pipeline", "is not a function"):
        b.pallas.emit_pipeline(None, grid=(4,))  # pyright: ignore[reportArgumentType]


def test_hbm_blocks_are_of_hbm_refs(b: Builder, a: Args, raises: Raises) -> None:
    window = Window((2, 128), lambda i: (i, 0), memory_space="hbm")
    with raises(e.MemorySpaceError, "emit_pipeline", "blocks in hbm"):
        b.pallas.emit_pipeline(copy, grid=(4,), in_specs=[window], out_specs=[ROWS])(a.x, a.hbm)


def test_ragged_blocks_are_whole_tiles(b: Builder, raises: Raises) -> None:
    shape = Ref((7, 128), f32, memory_space="any")
    a = b.declare_args({"i": Scalar(i32), "x": shape, "o": Ref((7, 128), f32, "any", Role.OUTPUT)}, grid=(1,))
    window = Window((3, 128), lambda i: (i, 0))
    with raises(e.ShapeError, "emit_pipeline", "blocks of 3 in tiles of 8"):
        b.pallas.emit_pipeline(copy, grid=(3,), in_specs=[window], out_specs=[window])(a.x, a.o)


@pytest.mark.parametrize(
    ("semantics", "error", "says"),
    [
        (("parallel", "parallel"), e.ArityError, "2 semantics for a grid of rank 1"),
        (("sideways",), e.AttributeValueError, "sideways"),
        (None, e.WindowError, "no dimension of the grid is parallel"),
    ],
)
def test_cores_share_a_parallel_dimension(
    b: Builder, a: Args, raises: Raises, semantics: Any, error: type[e.MosaicError], says: str
) -> None:
    with raises(error, "emit_pipeline", says):
        run(b, a.hbm, a.hbm, core_axis=0, dimension_semantics=semantics)  # fmt: skip


@pytest.mark.parametrize("name", ["program_id", "num_programs"])
@pytest.mark.parametrize("axis", [-1, 1, "0"])
def test_ids_have_an_axis(b: Builder, a: Args, name: str, axis: Any) -> None:
    with pytest.raises((e.ArityError, e.AttributeValueError)):
        getattr(b.pallas, name)(axis)


def test_a_pipelines_windows_are_not_a_kernels(b: Builder, raises: Raises) -> None:
    window = Window((BoundedSlice(8), 128), lambda i: (i, 0))
    with raises(e.WindowError, "declare_args", "BoundedSlice"):
        b.declare_args({"i": Scalar(i32), "x": Ref((8, 128), f32, window=window)}, grid=(4,))


@pytest.mark.parametrize("mode", [Buffered(3), Buffered(2, use_lookahead=True), Buffered((1, 1))])
def test_a_kernels_windows_have_two_buffers_at_most(b: Builder, raises: Raises, mode: Buffered) -> None:
    window = Window((8, 128), lambda i: (i, 0), pipeline_mode=mode)
    with raises(e.WindowError, "declare_args", "buffers"):
        b.declare_args({"i": Scalar(i32), "x": Ref((8, 128), f32, window=window)}, grid=(4,))


@pytest.mark.parametrize("switch", [(), (None,)])
def test_a_switch_has_branches(b: Builder, a: Args, switch: Any) -> None:
    with pytest.raises((e.ArityError, e.KindError)):
        b.pallas.switch(a.i, switch)


def test_a_switch_is_over_i32(b: Builder, a: Args, raises: Raises) -> None:
    condition = a.i > 0
    with raises(e.DTypeError, "switch", "i32"):
        b.pallas.switch(condition, [lambda: None, lambda: None])


def test_a_loop_moves(b: Builder, a: Args, raises: Raises) -> None:
    with raises(e.AttributeValueError, "loop", "a step of 0"):
        b.pallas.loop(0, 4, step=0)
    with raises(e.AttributeValueError, "loop", "bound"):
        b.pallas.loop(0, "4")  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("returned", [None, (1, 2), (1.0,)])
def test_the_next_carry_is_like_the_first(b: Builder, a: Args, returned: Any) -> None:
    with pytest.raises(e.YieldTypeError):
        b.pallas.while_loop(lambda i: i < 4, lambda i: returned, (0,))
    with pytest.raises(e.YieldTypeError):
        b.pallas.fori_loop(0, a.i, lambda i, c: returned, (0,))


def test_a_check_is_an_assertion_where_it_is_asked_for(b: Builder, a: Args, raises: Raises) -> None:
    b.pallas.debug_check(a.i < 4, "quiet")
    b.pallas.debug_check(a.i < 4, "loud", enabled=True)
    condition = b.lift(1)
    with raises(e.DTypeError, "debug_check", "i1 scalar"):
        b.pallas.debug_check(condition, "one")
    with raises(e.AttributeValueError, "debug_check", "message"):
        b.pallas.debug_check(a.i < 4, 1)  # pyright: ignore[reportArgumentType]
    text = b.finish().text()
    assert "loud" in text and "quiet" not in text


@pytest.mark.parametrize(
    ("coordinates", "mesh", "error", "says"),
    [
        ({"z": 1}, {"x": 2}, e.ArityError, "no axis 'z'"),
        ({"x": 1}, {"x": 0}, e.AttributeValueError, "a mesh of"),
        ({"x": 1.5}, {"x": 2}, e.AttributeValueError, "coordinate"),
        ((1,), {"x": 2}, e.KindError, "is not a mapping"),
    ],
)
def test_a_device_is_on_the_mesh(
    b: Builder, a: Args, raises: Raises, coordinates: Any, mesh: Any, error: type[e.MosaicError], says: str
) -> None:
    with raises(error, "on_mesh", says):
        b.pallas.on_mesh(coordinates, mesh)


def test_a_device_of_a_mesh_is_numbered_by_its_strides(b: Builder, a: Args) -> None:
    b.pallas.semaphore_signal(b.sem_alloc(), 1, device_id=b.pallas.on_mesh({"y": a.i}, mesh={"x": 2, "y": 4}))
    text = b.finish().text()
    assert "tpu.device_id" in text and "arith.muli" in text


def test_a_bound_of_the_grid_may_be_given_by_the_call(b: Builder) -> None:
    window = Window((8, 128), lambda i, j: (i, j))
    a = b.declare_args({"i": Scalar(i32), "j": Scalar(i32), "x": Ref((8, 128), f32, window=window)}, grid=(None, 4))
    assert b.pallas.num_programs(1) == 4
    assert b.pallas.num_programs(0).dtype is i32  # pyright: ignore[reportAttributeAccessIssue]
    assert a.x.shape == (8, 128)
    text = b.finish().text()
    assert "iteration_bounds = array<i64: -9223372036854775808, 4>" in text and "tpu.iteration_bound" in text


def test_a_squeezed_dimension_is_not_seen(b: Builder, raises: Raises) -> None:
    window = Window((None, 8, 128), lambda i: (i, 0, 0))
    a = b.declare_args({"i": Scalar(i32), "x": Ref((8, 128), f32, window=window, array_shape=(4, 8, 128))}, grid=(4,))
    assert a.x.shape == (8, 128) and a.x[...].shape == (8, 128) and a.x[2].shape == (128,)
    assert a.x.at[2:4].shape == (2, 128)
    b.finish()
    other = Builder("other")
    with raises(e.WindowError, "declare_args", "blocks of (None, 16, 128)"):
        other.declare_args(
            {"i": Scalar(i32), "x": Ref((8, 128), f32, window=Window((None, 16, 128), lambda i: (i, 0, 0)))}, grid=(4,)
        )


def test_a_window_of_a_kernel_names_no_memory_space(b: Builder, raises: Raises) -> None:
    window = Window((8, 128), lambda i: (i, 0), memory_space="smem")
    with raises(e.WindowError, "declare_args", "names a memory space"):
        b.declare_args({"i": Scalar(i32), "x": Ref((8, 128), f32, window=window)}, grid=(4,))
