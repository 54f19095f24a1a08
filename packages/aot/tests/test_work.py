"""Flops and bytes are those counted by hand; where they depend on data, it says so."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from mosaic_tpu.aot import roofline
from mosaic_tpu.aot._operands import layout_of, only_kernel
from mosaic_tpu.aot._program import program_of
from mosaic_tpu.aot._work import static_work
from mosaic_tpu.aot.errors import OptionError, SourceError
from mosaic_tpu.aot.targets import TARGETS

from .conftest import doubled, lowered, multiplied


def work(source: Any) -> Any:
    call, module = only_kernel(program_of(source))
    return static_work(module, layout_of(call, module))


def blocked(m: int, n: int, k: int, bm: int, bn: int, bk: int) -> Any:
    """A blocked product, lowered: the grid goes over K innermost."""

    def kernel(x_ref: Any, y_ref: Any, o_ref: Any) -> None:
        @pl.when(pl.program_id(2) == 0)
        def _() -> None:
            o_ref[...] = jnp.zeros_like(o_ref)

        o_ref[...] += jnp.dot(x_ref[...], y_ref[...], preferred_element_type=jnp.float32)

    call = pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((m, n), jnp.float32),
        grid=(m // bm, n // bn, k // bk),
        in_specs=[pl.BlockSpec((bm, bk), lambda i, j, s: (i, s)), pl.BlockSpec((bk, bn), lambda i, j, s: (s, j))],
        out_specs=pl.BlockSpec((bm, bn), lambda i, j, s: (i, j)),
        name="blocked",
    )
    return lowered(call, jax.ShapeDtypeStruct((m, k), jnp.bfloat16), jax.ShapeDtypeStruct((k, n), jnp.bfloat16))


def test_a_blocked_product_reads_each_block_as_often_as_it_changes() -> None:
    found = work(blocked(512, 384, 1024, 256, 128, 512))
    assert found.flops == {"bf16": 2 * 512 * 384 * 1024}
    # x: every step another block; y likewise; o is written once for each (i, j).
    steps = 2 * 3 * 2
    assert found.hbm_bytes == steps * 256 * 512 * 2 + steps * 512 * 128 * 2 + 6 * 256 * 128 * 4
    assert found.intensity == found.total_flops / found.hbm_bytes


def test_a_block_that_stays_is_read_once() -> None:
    # K in one step: y's block changes with j only, and j is innermost of what moves it.
    found = work(blocked(512, 128, 256, 128, 128, 256))
    assert found.hbm_bytes == 4 * 128 * 256 * 2 + 256 * 128 * 2 + 4 * 128 * 128 * 4


def test_loops_of_constant_trip_count_multiply() -> None:
    def kernel(x_ref: Any, o_ref: Any) -> None:
        def body(_: Any, total: Any) -> Any:
            return total + jnp.dot(x_ref[...], x_ref[...], preferred_element_type=jnp.float32)

        o_ref[...] = jax.lax.fori_loop(0, 7, body, jnp.zeros((128, 128), jnp.float32))

    shape = jax.ShapeDtypeStruct((128, 128), jnp.float32)
    found = work(lowered(pl.pallas_call(kernel, out_shape=shape), shape))
    assert found.flops == {"f32": 7 * 2 * 128**3}
    assert found.hbm_bytes == 2 * 128 * 128 * 4


def counted_loop() -> Any:
    """A kernel that copies a tile from HBM and multiplies, as often as its scalar says."""

    def kernel(n_ref: Any, x_ref: Any, o_ref: Any, tile: Any, arrived: Any) -> None:
        def body(_: Any, total: Any) -> Any:
            copy = pltpu.make_async_copy(x_ref, tile, arrived)
            copy.start()
            copy.wait()
            return total + jnp.dot(tile[...], tile[...], preferred_element_type=jnp.float32)

        o_ref[...] = jax.lax.fori_loop(0, n_ref[0], body, jnp.zeros((128, 128), jnp.float32))

    call = pl.pallas_call(
        kernel,
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1,
            grid=(1,),
            in_specs=[pl.BlockSpec(memory_space=pl.ANY)],
            out_specs=pl.BlockSpec((128, 128), lambda i, n: (0, 0)),
            scratch_shapes=[pltpu.VMEM((128, 128), jnp.float32), pltpu.SemaphoreType.DMA],
        ),
        out_shape=jax.ShapeDtypeStruct((128, 128), jnp.float32),
        name="counted",
    )
    return lowered(call, jax.ShapeDtypeStruct((1,), jnp.int32), jax.ShapeDtypeStruct((128, 128), jnp.float32))


def test_a_trip_count_in_the_data_is_unknown_until_the_data_is_given() -> None:
    source = counted_loop()
    assert work(source) is None
    with pytest.raises(OptionError, match="depend on data") as error:
        roofline(source)
    assert "scalars=" in str(error.value)
    found = roofline(source, scalars=[np.array([5], np.int32)]).work
    assert found.counted
    assert found.flops == {"f32": 5 * 2 * 128**3}
    assert found.hbm_bytes == (5 + 1) * 128 * 128 * 4
    names = program_of(source).modules[0].names
    assert roofline(source, scalars={names[1]: [5]}).work.flops == found.flops


@pytest.mark.parametrize("scalars", [[], [[1], [2]], [[1, 2]], [[1.5]], {"m": [5]}, {}])
def test_scalars_that_do_not_fit_are_refused(scalars: Any) -> None:
    with pytest.raises(OptionError, match="scalar"):
        roofline(counted_loop(), scalars=scalars)


@pytest.mark.parametrize("target", TARGETS)
def test_the_ceilings_are_those_of_the_generation(target: str) -> None:
    found = roofline(multiplied(), target)
    generation = TARGETS[target]
    flops, moved = 2 * 128**3, 2 * 128 * 128 * 2 + 128 * 128 * 4
    assert found.compute_cycles / generation.clock_hz == pytest.approx(flops / generation.flops_per_second["bf16"])
    assert found.memory_cycles / generation.clock_hz == pytest.approx(moved / generation.hbm_bytes_per_second)
    assert (found.bound, found.ideal_cycles) == ("memory", found.memory_cycles)


def test_integers_have_a_peak_of_their_own_where_the_generation_has_one() -> None:
    integers, floats = multiplied(jnp.int8, jnp.int32), multiplied()
    assert roofline(integers, "v5e").compute_cycles == roofline(floats, "v5e").compute_cycles / 2
    assert roofline(integers, "tpu7x").compute_cycles == roofline(floats, "tpu7x").compute_cycles


def test_it_reads_well_and_travels_as_json() -> None:
    found = roofline(blocked(512, 384, 1024, 256, 128, 512), "v6e", cycles=4000.0)
    text = str(found)
    assert "402,653,184 bf16, branches counted as taken" in text
    assert "4,000 cycles" in text
    made = found.to_json()
    assert (made["schema"], made["estimated_cycles"], made["bound"]) == (1, 4000.0, found.bound)
    assert found.efficiency == found.ideal_cycles / 4000


def test_the_picture_tells_what_it_shows() -> None:
    for source in (doubled(), multiplied()):
        svg = roofline(source, "v5e").svg()
        root = ElementTree.fromstring(svg)
        title, desc = root.find("{*}title"), root.find("{*}desc")
        assert title is not None and title.text and desc is not None and desc.text
        assert root.get("aria-labelledby") == f"{title.get('id')} {desc.get('id')}"
        assert "http" not in svg.replace("http://www.w3.org/2000/svg", "")


def test_several_kernels_have_no_roofline_together() -> None:
    shape = jax.ShapeDtypeStruct((8, 128), jnp.float32)
    call = pl.pallas_call(lambda x_ref, o_ref: o_ref.__setitem__(..., x_ref[...]), out_shape=shape)
    with pytest.raises(SourceError, match="2 kernels"):
        roofline(lowered(lambda x: call(call(x)), shape))
