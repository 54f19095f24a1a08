"""The VMEM model: figures computed by hand, from blocks, tiles and buffers."""

from __future__ import annotations

import importlib.util

import jax
import jax.numpy as jnp
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from mosaic_tpu.aot import lint
from mosaic_tpu.aot._vmem import vmem_need
from mosaic_tpu.aot.errors import SourceError, TargetError
from mosaic_tpu.aot.targets import TARGETS, find_target

MIB = 1 << 20


def _program(rows: int = 4096, block: int = 512, grid: int = 8, scratch: int = 8, lanes: int = 128, **params: int):
    def kernel(x_ref, o_ref, t_ref):
        o_ref[...] = x_ref[...] + t_ref[0, 0]

    spec = pl.BlockSpec((block, lanes), lambda i: (i, 0))
    shape = jax.ShapeDtypeStruct((rows, lanes), jnp.float32)
    call = pl.pallas_call(
        kernel,
        out_shape=shape,
        grid=(grid,),
        in_specs=[spec],
        out_specs=spec,
        scratch_shapes=[pltpu.VMEM((scratch, 128), jnp.float32)],
        compiler_params=pltpu.CompilerParams(**params),
    )
    return jax.jit(call).trace(shape).lower(lowering_platforms=("tpu",))


def test_a_moving_block_has_two_buffers() -> None:
    need = vmem_need(_program())
    assert [(b.role, b.buffers, b.buffer_bytes) for b in need.buffers] == [
        ("input", 2, 512 * 128 * 4),
        ("output", 2, 512 * 128 * 4),
        ("scratch", 1, 8 * 128 * 4),
    ]
    assert need.total == 4 * 512 * 128 * 4 + 8 * 128 * 4


def test_a_block_that_stays_has_one() -> None:
    assert [b.buffers for b in vmem_need(_program(rows=512, grid=1)).buffers] == [1, 1, 1]


@pytest.mark.parametrize(
    ("grid", "block", "scratch", "severity"),
    [
        (1, 10, 0, "warning"),  # input and output are used one after the other, as the compiler may have it
        (1, 17, 0, "error"),  # the input alone is too large
        (1, 10, 17, "error"),  # the scratch array alone
        (1, 10, 9, "warning"),
        (2, 5, 0, "error"),  # two buffers each, all in use in every step
    ],
)
def test_only_what_is_in_use_at_once_is_an_error(grid: int, block: int, scratch: int, severity: str) -> None:
    rows = MIB // 512
    program = _program(rows * block * grid, rows * block, grid, rows * scratch or 8)
    assert [(f.rule, f.severity) for f in lint(program, target="v5e").findings] == [("vmem-limit", severity)]


def test_lanes_are_padded_to_128() -> None:
    assert vmem_need(_program(lanes=5)).buffers[0].buffer_bytes == 512 * 128 * 4


def test_the_calls_limit_is_read_and_the_callers_goes_before() -> None:
    program = _program(vmem_limit_bytes=48 * MIB)
    assert vmem_need(program).limit("v6e") == 48 * MIB
    assert vmem_need(program, vmem_limit_bytes=20 * MIB).limit("v6e") == 20 * MIB
    assert vmem_need(_program()).limit("v6e") == TARGETS["v6e"].default_vmem_limit == 32 * MIB


def test_no_limit_is_above_what_there_is() -> None:
    assert vmem_need(_program(), vmem_limit_bytes=100 * MIB).limit("tpu7x") == 64 * MIB


def test_a_topology_has_the_limit_of_its_generation() -> None:
    need = vmem_need(_program())
    for target in ("v5e:2x2", find_target("v5e:2x2"), TARGETS["v5e"]):
        assert need.limit(target) == need.limit("v5e") == 16 * MIB
        assert need.fits(target)


@pytest.mark.parametrize("target", ["v9", "v5e:0x2", ""])
def test_what_is_no_target_is_refused(target: str) -> None:
    need = vmem_need(_program())
    for ask in (need.limit, need.fits):
        with pytest.raises(TargetError):
            ask(target)


def test_a_kernel_that_does_not_fit_says_so() -> None:
    need = vmem_need(_program(rows=65536, block=16384, grid=4))
    assert need.total == 4 * 8 * MIB + 4096
    assert not need.fits("v6e")
    assert not need.fits("v5e")
    assert vmem_need(_program(rows=65536, block=16384, grid=4), vmem_limit_bytes=64 * MIB).fits("v6e")
    assert "v6e 32 MiB (exceeded)" in str(need)


def test_the_json_has_every_buffer_and_limit() -> None:
    found = vmem_need(_program()).to_json()
    assert found["schema"] == 1
    assert found["total"] == sum(b["bytes"] for b in found["buffers"])
    assert set(found["limits"]) == set(TARGETS)


def test_several_kernels_are_refused() -> None:
    def twice(x: jax.Array) -> jax.Array:
        call = pl.pallas_call(lambda i, o: o.__setitem__(..., i[...]), out_shape=x)
        return call(call(x))

    shape = jax.ShapeDtypeStruct((8, 128), jnp.float32)
    program = jax.jit(twice).trace(shape).lower(lowering_platforms=("tpu",))
    with pytest.raises(SourceError, match="2 kernels"):
        vmem_need(program)


@pytest.mark.skipif(
    importlib.util.find_spec("libtpu") is None,
    reason="the TPU compiler is not installed: pip install 'mosaic-tpu-aot[tpu]'",
)
@pytest.mark.parametrize(("block", "accepted"), [(8 * 2048, False), (7 * 2048, True)])
def test_the_compiler_draws_the_line_where_the_model_does(block: int, accepted: bool) -> None:
    from mosaic_tpu.aot import compile
    from mosaic_tpu.aot.errors import VmemError

    program = _program(rows=4 * block, block=block, grid=4)
    assert vmem_need(program).fits("v6e") == accepted
    if accepted:
        compile(program, target="v6e")
    else:
        with pytest.raises(VmemError):
            compile(program, target="v6e")
