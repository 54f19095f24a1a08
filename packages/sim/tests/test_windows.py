"""Windows: which block a step sees, when it is fetched and written back. Expected values from ``interpret=True``."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from mosaic_tpu.sim import errors, simulate
from packages.sim.tests.conftest import MODES, TILE, lowered, ramp

X = ramp(32, 128)


def double(x: Any, o: Any) -> None:
    o[...] = x[...] * 2


def by_block(i: Any) -> tuple[Any, int]:
    return i, 0


def call(
    kernel: Callable[..., None],
    in_specs: Sequence[pl.BlockSpec],
    out_spec: pl.BlockSpec,
    out: tuple[int, ...],
    *,
    grid: tuple[int, ...],
    interpret: bool = False,
    **options: Any,
) -> Callable[..., Any]:
    return pl.pallas_call(
        kernel,
        grid=grid,
        in_specs=list(in_specs),
        out_specs=out_spec,
        out_shape=jax.ShapeDtypeStruct(out, jnp.float32),
        interpret=interpret,
        **options,
    )


def check(*arguments: Any, arrays: Sequence[Any] = (X,), grid: tuple[int, ...], **options: Any) -> None:
    """The simulator's outputs, in each mode, are the interpreter's."""
    expected = call(*arguments, grid=grid, interpret=True, **options)(*arrays)
    program = lowered(call(*arguments, grid=grid, **options), *arrays)
    for mode in MODES:
        np.testing.assert_array_equal(simulate(program, *arrays, dma=mode).outputs[0], expected)


def events(program: str, *arrays: Any, kind: str = "window") -> list[tuple[str, int]]:
    return [(e.what, e.amount) for e in simulate(program, *arrays).trace if e.kind == kind]


def test_blocks_are_fetched_and_written_back() -> None:
    check(double, [pl.BlockSpec(TILE, by_block)], pl.BlockSpec(TILE, by_block), X.shape, grid=(4,))


def test_the_next_block_is_fetched_before_this_one_is_written_back() -> None:
    spec = pl.BlockSpec(TILE, by_block)
    seen = events(lowered(call(double, [spec], spec, X.shape, grid=(4,)), X), X)
    fetch = [(f"x to x window {slot}", 4096) for slot in (0, 1, 0, 1)]
    store = [(f"o window {slot} to o", 4096) for slot in (0, 1, 0, 1)]
    assert seen == [fetch[0], fetch[1], store[0], fetch[2], store[1], fetch[3], store[2], store[3]]


def test_a_synchronous_window_has_one_buffer_and_is_fetched_in_its_step() -> None:
    spec = pl.BlockSpec(TILE, by_block, pipeline_mode=pl.Buffered(1))
    program = lowered(call(double, [spec], pl.BlockSpec(TILE, by_block), X.shape, grid=(4,)), X)
    seen = events(program, X)
    assert seen[:3] == [("x to x window", 4096), ("o window 0 to o", 4096), ("x to x window", 4096)]
    assert simulate(program, X).memory["vmem"] == 3 * 4096


def test_a_block_that_stays_is_fetched_once() -> None:
    def of_x(i: Any, j: Any) -> tuple[Any, int]:
        return i, 0

    def of_o(i: Any, j: Any) -> tuple[Any, int]:
        return i * 2 + j, 0

    spec = call(double, [pl.BlockSpec(TILE, of_x)], pl.BlockSpec(TILE, of_o), (64, 128), grid=(4, 2))
    seen = events(lowered(spec, X), X)
    assert sum(what.startswith("x to") for what, _ in seen) == 4
    check(double, [pl.BlockSpec(TILE, of_x)], pl.BlockSpec(TILE, of_o), (64, 128), grid=(4, 2))


def test_an_output_that_is_revisited_in_a_row_keeps_its_contents() -> None:
    def accumulate(x: Any, o: Any) -> None:
        @pl.when(lax.rem(pl.program_id(0), 2) == 0)
        def start() -> None:
            o[...] = jnp.zeros_like(o)

        o[...] += x[...]

    out = pl.BlockSpec(TILE, lambda i: (lax.div(i, 2), 0))
    check(accumulate, [pl.BlockSpec(TILE, by_block)], out, (16, 128), grid=(4,))


def test_an_output_that_is_revisited_later_is_undefined_when_it_comes_back() -> None:
    """A TPU does not fetch output blocks: what a kernel adds to there is not what it wrote before."""

    def accumulate(x: Any, o: Any) -> None:
        @pl.when(pl.program_id(0) < 2)
        def start() -> None:
            o[...] = jnp.zeros_like(o)

        o[...] += x[...]

    specs = [pl.BlockSpec(TILE, by_block)], pl.BlockSpec(TILE, lambda i: (i % 2, 0)), (16, 128)
    program = lowered(call(accumulate, *specs, grid=(4,)), X)
    with pytest.raises(errors.UninitializedError):
        simulate(program, X, compare_fills=True)
    check(double, *specs, grid=(4,))


@pytest.mark.parametrize("rows", [1, 9, 20, 31])
def test_edge_blocks_write_inside_only_and_read_poison_outside(rows: int) -> None:
    x = ramp(rows, 200)
    blocks = (pl.cdiv(rows, 8), 2)
    spec = pl.BlockSpec(TILE, lambda i, j: (i, j))
    check(double, [spec], spec, x.shape, arrays=(x,), grid=blocks)

    def total(x: Any, o: Any) -> None:
        o[...] = jnp.broadcast_to(jnp.sum(x[...]), o.shape)

    out = pl.BlockSpec(TILE, lambda i, j: (i, j))
    program = lowered(call(total, [spec], out, (blocks[0] * 8, 256), grid=blocks), x)
    sums = simulate(program, x, checks=False).outputs[0]
    assert np.isnan(sums[-1, -1])
    with pytest.raises(errors.UninitializedError):
        simulate(program, x, compare_fills=True)


def test_poison_comes_back_with_each_fetch() -> None:
    """The last block is an edge; the block before filled the buffer's other rows."""
    x = ramp(12, 128)

    def keep_last_row(x: Any, o: Any) -> None:
        o[...] = jnp.broadcast_to(x[pl.ds(7, 1)], o.shape)

    spec = pl.BlockSpec(TILE, lambda i: (i % 2, 0))
    program = lowered(call(keep_last_row, [spec], pl.BlockSpec(TILE, by_block), (32, 128), grid=(4,)), x)
    for mode in MODES:
        with pytest.raises(errors.UnwrittenOutputError, match="2048 of 4096"):
            simulate(program, x, dma=mode)
    rows = simulate(program, x, allow_unwritten=True).outputs[0]
    np.testing.assert_array_equal(rows[0], x[7])
    assert np.isnan(rows[8:16]).all()


def test_element_windows_start_anywhere() -> None:
    def of_x(i: Any) -> tuple[Any, int]:
        return i * 4, 0

    spec = pl.BlockSpec((pl.Element(8), pl.Element(128)), of_x)
    check(double, [spec], pl.BlockSpec(TILE, by_block), (32, 128), grid=(4,))


def test_element_windows_with_padding_read_poison_there() -> None:
    spec = pl.BlockSpec((pl.Element(16, (8, 8)), pl.Element(128)), lambda i: (i * 8, 0))

    def middle(x: Any, o: Any) -> None:
        o[...] = x[pl.ds(8, 8)]

    def first(x: Any, o: Any) -> None:
        o[...] = x[pl.ds(0, 8)]

    out = pl.BlockSpec(TILE, by_block)
    program = lowered(call(middle, [spec], out, (32, 128), grid=(4,)), X)
    np.testing.assert_array_equal(simulate(program, X).outputs[0], X)
    before = simulate(lowered(call(first, [spec], out, (32, 128), grid=(4,)), X), X, allow_unwritten=True)
    np.testing.assert_array_equal(before.outputs[0][8:], X[:24])
    assert before.unwritten == {"o": 1024}


def test_windows_in_smem() -> None:
    def scale(factors: Any, x: Any, o: Any) -> None:
        o[...] = x[...] * factors[pl.program_id(0), 2]

    factors = ramp(4, 128)
    specs = [pl.BlockSpec((4, 128), lambda i: (0, 0), memory_space=pltpu.SMEM), pl.BlockSpec(TILE, by_block)]
    program = lowered(call(scale, specs, pl.BlockSpec(TILE, by_block), X.shape, grid=(4,)), factors, X)
    report = simulate(program, factors, X)
    np.testing.assert_array_equal(report.outputs[0], X * np.repeat(factors[:, 2], 8)[:, None])
    assert report.memory["smem"] >= factors.nbytes


def gather(rows: Any, x: Any, o: Any) -> None:
    del rows
    o[...] = x[...]


def gathered(count: int, grid: Any) -> Callable[..., Any]:
    return pl.pallas_call(
        gather,
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1,
            grid=(grid,),
            in_specs=[pl.BlockSpec(TILE, lambda i, rows: (rows[i], 0))],
            out_specs=pl.BlockSpec(TILE, lambda i, rows: (i, 0)),
        ),
        out_shape=jax.ShapeDtypeStruct((count * 8, 128), jnp.float32),
    )


def test_index_maps_read_scalar_prefetch() -> None:
    rows = np.array([3, 0, 0, 2, 1], np.int32)
    program = lowered(gathered(5, 5), rows, X)
    for mode in MODES:
        expected = X.reshape(4, 8, 128)[rows].reshape(40, 128)
        np.testing.assert_array_equal(simulate(program, rows, X, dma=mode).outputs[0], expected)


@pytest.mark.parametrize("index", [4, -1, 2**30])
def test_a_block_index_out_of_range(index: int) -> None:
    rows = np.array([3, 0, index, 2, 1], np.int32)
    with pytest.raises(errors.OutOfBoundsError) as caught:
        simulate(lowered(gathered(5, 5), rows, X), rows, X)
    assert f"block [{index}, 0] lies outside the array" in str(caught.value)
    assert "x (hbm float32[32, 128])" in str(caught.value.buffer)


def test_a_dynamic_grid() -> None:
    def function(count: Any, rows: Any, x: Any) -> Any:
        return gathered(4, count)(rows, x)

    rows = np.array([3, 0, 1, 2], np.int32)
    program = lowered(function, np.int32(4), rows, X)
    assert simulate(program, np.int32(4), rows, X).steps == 4
    short = simulate(program, np.int32(3), rows, X, allow_unwritten=True)
    assert (short.steps, short.unwritten) == (3, {"o": 1024})
    with pytest.raises(errors.InputError, match="a bound of the grid is -1"):
        simulate(program, np.int32(-1), rows, X)


def test_a_grid_of_nothing_writes_nothing() -> None:
    def function(count: Any, rows: Any, x: Any) -> Any:
        return gathered(4, count)(rows, x)

    rows = np.zeros(4, np.int32)
    program = lowered(function, np.int32(0), rows, X)
    with pytest.raises(errors.UnwrittenOutputError, match="4096 of 4096"):
        simulate(program, np.int32(0), rows, X)
    report = simulate(program, np.int32(0), rows, X, allow_unwritten=True)
    assert (report.steps, report.dmas) == (0, 0)


def test_shuffled_parallel_dimensions_take_every_block_once() -> None:
    parallel = pltpu.CompilerParams(dimension_semantics=("parallel", "arbitrary"))
    spec = pl.BlockSpec(TILE, lambda i, j: (i * 2 + j, 0))
    program = lowered(call(double, [spec], spec, X.shape, grid=(2, 2), compiler_params=parallel), X)
    for seed in range(8):
        report = simulate(program, X, shuffle=True, seed=seed)
        np.testing.assert_array_equal(report.outputs[0], X * 2)
        assert report.steps == 4


def in_place(x: Any, *, ahead: int) -> Any:
    return pl.pallas_call(
        double,
        grid=(4,),
        in_specs=[pl.BlockSpec(TILE, by_block)],
        out_specs=pl.BlockSpec(TILE, lambda i: (jnp.clip(i + ahead, 0, 3), 0)),
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        input_output_aliases={0: 0},
    )(x)


@pytest.mark.parametrize("mode", MODES)
def test_an_alias_whose_blocks_are_written_before_they_are_read_is_a_hazard(mode: str) -> None:
    same = functools.partial(in_place, ahead=0)
    np.testing.assert_array_equal(simulate(lowered(same, X), X, dma=mode).outputs[0], X * 2)
    behind = simulate(lowered(functools.partial(in_place, ahead=-1), X), X, dma=mode)
    np.testing.assert_array_equal(behind.outputs[0][:24], X[8:] * 2)
    with pytest.raises(errors.WriteToSourceError):
        simulate(lowered(functools.partial(in_place, ahead=1), X), X, dma=mode)


def resetting(x: Any, o: Any) -> None:
    """Sums blocks into one, and begins anew in step 0."""

    @pl.when(pl.program_id(0) == 0)
    def clear() -> None:
        o[...] = jnp.zeros_like(o)

    o[...] += x[...]


@pytest.mark.parametrize("semantics", ["parallel", "arbitrary"])
def test_steps_called_parallel_that_are_not(semantics: str) -> None:
    parameters = pltpu.CompilerParams(dimension_semantics=(semantics,))
    specs = [pl.BlockSpec(TILE, by_block)], pl.BlockSpec(TILE, lambda i: (0, 0))
    x = np.abs(X) + 1
    program = lowered(call(resetting, *specs, TILE, grid=(4,), compiler_params=parameters), x)
    assert simulate(program, x).hazards == ()
    if semantics == "arbitrary":
        assert simulate(program, x, shuffle=True).hazards == ()
        return
    (hazard,) = simulate(program, x, shuffle=True, collect=True).hazards
    assert isinstance(hazard, errors.RaceError)
    assert "elements of the output o depend on the order of the grid's parallel steps" in str(hazard)
    assert hazard.location is None
