"""`specialize` tells what hides its copies from what waits for them, and says what it counts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from mosaic_tpu.aot import Specialized, specialize
from mosaic_tpu.aot._matching import matched, place
from mosaic_tpu.aot._operands import only_kernel, simulated
from mosaic_tpu.aot._program import program_of
from mosaic_tpu.aot.schedule import Block

from .conftest import lowered

pytestmark = pytest.mark.usefixtures("needs_compiler")
ESTIMATED = ("v5e", "v5p", "v6e", "tpu7x")


def windowed(buffers: int, *, matmul: bool = False, rows: int = 64, block: int = 8) -> Any:
    """A sum of two arrays, or a product, over a grid, each window with one buffer or two."""
    mode = None if buffers == 2 else pl.Buffered(buffers)

    def kernel(x_ref: Any, y_ref: Any, o_ref: Any) -> None:
        if matmul:
            o_ref[...] = jnp.dot(x_ref[...], y_ref[...], preferred_element_type=jnp.float32)
        else:
            o_ref[...] = x_ref[...] + y_ref[...]

    x = jax.ShapeDtypeStruct((rows, 128), jnp.float32)
    window = pl.BlockSpec((block, 128), lambda i: (i, 0), pipeline_mode=mode)
    other = pl.BlockSpec((128, 128), lambda i: (0, 0)) if matmul else window
    y = jax.ShapeDtypeStruct((128, 128), jnp.float32) if matmul else x
    call = pl.pallas_call(kernel, out_shape=x, grid=(rows // block,), in_specs=[window, other], out_specs=window)
    return lowered(call, x, y)


#: The scalar of `by_hand`: how many tiles.
TILES = (np.array([16], np.int32),)


def by_hand(ahead: bool, work: int = 0) -> Any:
    """A loop that copies tiles from HBM and sums them up: each a step ahead, or each when it is needed."""

    def kernel(n_ref: Any, x_ref: Any, o_ref: Any, tiles: Any, arrived: Any) -> None:
        many = n_ref[0]

        def copy(i: Any) -> Any:
            return pltpu.make_async_copy(x_ref.at[pl.ds(i * 8, 8)], tiles.at[i % 2], arrived.at[i % 2])

        def body(i: Any, total: Any) -> Any:
            if ahead:

                @pl.when(i + 1 < many)
                def _() -> None:
                    copy(i + 1).start()

            else:
                copy(i).start()
            copy(i).wait()
            value = tiles[i % 2]
            for _ in range(work):
                value = value * 1.5 + 2.0
            return total + value

        if ahead:
            copy(0).start()
        o_ref[...] = jax.lax.fori_loop(0, many, body, jnp.zeros((8, 128), jnp.float32))

    call = pl.pallas_call(
        kernel,
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1,
            grid=(1,),
            in_specs=[pl.BlockSpec(memory_space=pl.ANY)],
            out_specs=pl.BlockSpec((8, 128), lambda i, n: (0, 0)),
            scratch_shapes=[pltpu.VMEM((2, 8, 128), jnp.float32), pltpu.SemaphoreType.DMA((2,))],
        ),
        out_shape=jax.ShapeDtypeStruct((8, 128), jnp.float32),
        name="by_hand",
    )
    return lowered(call, jax.ShapeDtypeStruct((1,), jnp.int32), jax.ShapeDtypeStruct((128, 128), jnp.float32))


@pytest.mark.parametrize("target", ESTIMATED)
@pytest.mark.parametrize("matmul", [False, True])
def test_two_buffers_rank_before_one_as_the_compiler_has_it(matmul: bool, target: str) -> None:
    one, two = (specialize(windowed(n, matmul=matmul), target) for n in (1, 2))
    assert two.cycles < 0.7 * one.cycles
    assert two.issue_cycles == pytest.approx(one.issue_cycles, rel=0.3)
    assert two.timeline.bytes == one.timeline.bytes
    for found in (one, two):
        if found.compiler.trustworthy and found.compiler.cycles:
            assert found.cycles == pytest.approx(found.compiler.cycles, rel=0.1)


@pytest.mark.parametrize("target", ESTIMATED)
def test_copies_ahead_rank_before_copies_on_demand(target: str) -> None:
    on_demand, ahead = (specialize(by_hand(a, work=100), target, scalars=TILES) for a in (False, True))
    assert not ahead.compiler.trustworthy
    assert ahead.cycles < on_demand.cycles
    assert ahead.timeline.copies == on_demand.timeline.copies
    assert ahead.timeline.waited < 0.6 * on_demand.timeline.waited


@pytest.mark.parametrize("target", ESTIMATED)
def test_what_waits_for_copies_is_bound_by_memory_and_what_computes_is_not(target: str) -> None:
    copying, computing = (specialize(by_hand(True, work=work), target, scalars=TILES) for work in (0, 400))
    assert (copying.bound, computing.bound) == ("memory", "compute")
    assert copying.timeline.bytes == computing.timeline.bytes
    # Each of 800 ops takes the result of the one before, after two cycles.
    assert computing.issue_cycles - copying.issue_cycles == pytest.approx(16 * 800 * 2, rel=0.02)


def test_each_wait_is_counted_and_each_byte() -> None:
    found = specialize(by_hand(False), "v6e", scalars=TILES)
    # 16 tiles, and the result.
    assert (found.timeline.copies, found.waits, found.timeline.bytes) == (17, 17, 17 * 8 * 128 * 4)
    assert found.work.hbm_bytes == found.timeline.bytes
    assert found.timeline.cycles == pytest.approx(found.issue_cycles + found.timeline.waited)


def rarely(first: int, last: int, steps: int) -> Any:
    """A grid of which the first step and the last have more to do than the others."""

    def kernel(x_ref: Any, o_ref: Any, sum_ref: Any) -> None:
        def longer(value: Any, ops: int) -> Any:
            for _ in range(ops):
                value = jnp.exp(value) * 0.5
            return value

        @pl.when(pl.program_id(0) == 0)
        def _() -> None:
            sum_ref[...] = longer(x_ref[...], first)

        sum_ref[...] += x_ref[...]

        @pl.when(pl.program_id(0) == steps - 1)
        def _() -> None:
            o_ref[...] = longer(sum_ref[...], last)

    x, one = jax.ShapeDtypeStruct((64 * steps, 128), jnp.float32), jax.ShapeDtypeStruct((64, 128), jnp.float32)
    window, stays = pl.BlockSpec((64, 128), lambda i: (i, 0)), pl.BlockSpec((64, 128), lambda i: (0, 0))
    call = pl.pallas_call(
        kernel,
        out_shape=one,
        grid=(steps,),
        in_specs=[window],
        out_specs=stays,
        scratch_shapes=[pltpu.VMEM((64, 128), jnp.float32)],
        name="rarely",
    )
    return lowered(call, x)


@pytest.mark.parametrize("target", ["v5e", "v6e", "tpu7x"])
@pytest.mark.parametrize(("first", "last", "steps"), [(0, 0, 3), (40, 0, 3), (0, 40, 3), (40, 40, 3), (0, 40, 8)])
def test_what_runs_in_one_step_takes_its_time_there(first: int, last: int, steps: int, target: str) -> None:
    found = specialize(rarely(first, last, steps), target)
    assert found.compiler.trustworthy
    assert found.cycles == pytest.approx(found.compiler.cycles, rel=0.05)


def test_a_branch_among_others_is_found_by_its_lines() -> None:
    # tpu7x makes a predicate of the first branch, and a block of the last one alone.
    source = rarely(0, 40, 8)
    found = specialize(source, "tpu7x")
    (module,) = program_of(source).modules
    counts = simulated(*only_kernel(program_of(source)), ()).region_counts

    def runs(kernel: Block) -> list[int]:
        match = matched(kernel, module, counts)
        assert match is not None
        return [match.blocks[place(b)].runs for b in kernel.walk() if b.own_bundles > 200]

    def without_lines(block: Block) -> Block:
        return replace(block, lines={}, children=tuple(map(without_lines, block.children)))

    assert runs(found.schedule.kernel) == [1]
    assert runs(without_lines(found.schedule.kernel)) == [8]  # too often rather than too rarely


def test_two_cores_have_half_of_the_grid_each() -> None:
    def halved(target: str, *, parallel: bool) -> Specialized:
        def kernel(x_ref: Any, o_ref: Any) -> None:
            o_ref[...] = x_ref[...] * 2.0

        x, window = jax.ShapeDtypeStruct((128, 128), jnp.float32), pl.BlockSpec((8, 128), lambda i: (i, 0))
        params = pltpu.CompilerParams(dimension_semantics=("parallel" if parallel else "arbitrary",))
        call = pl.pallas_call(
            kernel, out_shape=x, grid=(16,), in_specs=[window], out_specs=window, compiler_params=params
        )
        return specialize(lowered(call, x), target)

    shared, alone = halved("v5p", parallel=True), halved("v5p", parallel=False)
    assert (shared.schedule.grid, alone.schedule.grid) == ((8,), (16,))
    assert (shared.timeline.copies, alone.timeline.copies) == (16, 32)
    assert halved("v5e", parallel=True).timeline.copies == 32
    for found in (shared, alone):
        assert found.cycles == pytest.approx(found.compiler.cycles, rel=0.1)


def test_it_reads_well_and_travels_as_json() -> None:
    found = specialize(windowed(2), "v6e")
    made = found.to_json()
    assert made["schema"] == 2
    assert made["cycles"] == found.cycles == pytest.approx(made["issue_cycles"] + made["waited_cycles"])
    assert (made["copies"], made["copied_bytes"], made["waits"]) == (24, 24 * 4096, 24)
    assert sum(s["cycles"] for s in made["segments"]) == pytest.approx(made["issue_cycles"])
    assert "24 waits for a copy" in str(found)
    assert "96 KiB to and from HBM" in str(found)
    assert "latencies of v5e" not in str(found)
    assert "with the latencies of v5e" in str(specialize(windowed(2), "v4"))


def test_the_same_kernel_has_the_same_estimate() -> None:
    once, again = (specialize(by_hand(True), "v6e", scalars=TILES, cache=kept) for kept in (True, False))
    assert once.to_json() == again.to_json()
