"""Over several devices: shard_map gives each its shard; nothing is partitioned behind the user's back."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.experimental import pallas as pl
from jax.sharding import AbstractMesh, AxisType, ManualAxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from conformance.harness import levels, pallas
from mosaic_tpu.kernel import CallExtras, PartitioningError

ROWS = jax.ShapeDtypeStruct((64, 128), jnp.float32)


def mesh_of(kind: AxisType = AxisType.Auto) -> Mesh:
    assert jax.device_count() >= 4, "run with XLA_FLAGS=--xla_force_host_platform_device_count=4, as nox does"
    return jax.make_mesh((4,), ("rows",), axis_types=(kind,), devices=jax.devices()[:4])


def on(mesh: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(ROWS.shape, ROWS.dtype, sharding=NamedSharding(mesh, P("rows")))


@pytest.mark.parametrize("check_vma", [False, True])
@pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit])
def test_shard_map_lowers_pallas_s_call(
    scale: Any, cfg: Any, pallas_scale: Any, tpu_text: Any, check_vma: bool, kind: AxisType
) -> None:
    mesh = mesh_of(kind)
    varies = {"manual_axis_type": ManualAxisType(varying=frozenset({"rows"}))} if check_vma else {}
    twin = pallas_scale(out_shape=jax.ShapeDtypeStruct((16, 128), jnp.float32, **varies))

    def sharded(call: Any) -> pallas.PallasCall:
        function = jax.shard_map(call, mesh=mesh, in_specs=P("rows"), out_specs=P("rows"), check_vma=check_vma)
        [found] = pallas.calls_in(tpu_text(function, on(mesh)))
        return found

    ours, theirs = sharded(lambda x: scale(x=x, cfg=cfg)), sharded(twin)
    # Where there is a mesh, Pallas adds casts from a type to itself; our bodies do not depend on what is around.
    assert levels.compare(ours, theirs).level is levels.Level.CANONICAL
    assert ours.body == scale.lower(cfg).body


def test_shard_map_over_a_mesh_without_devices(scale: Any, cfg: Any, tpu_text: Any) -> None:
    mesh = AbstractMesh((4,), ("rows",))
    function = jax.shard_map(lambda x: scale(x=x, cfg=cfg), mesh=mesh, in_specs=P("rows"), out_specs=P("rows"))
    [call] = pallas.calls_in(tpu_text(function, on(mesh)))
    assert call.body == scale.lower(cfg).body


def test_results_vary_as_the_operands_do(scale: Any, cfg: Any) -> None:
    mesh = mesh_of()

    def program(x: Any, whole: Any) -> Any:
        varying, same = scale(x=x, cfg=cfg), scale(x=whole, cfg=cfg)
        assert jax.typeof(varying).mat.varying == {"rows"}
        assert jax.typeof(same).mat.varying == frozenset()
        return varying, same

    function = jax.shard_map(program, mesh=mesh, in_specs=(P("rows"), P()), out_specs=(P("rows"), P()))
    jax.eval_shape(function, on(mesh), jax.ShapeDtypeStruct((16, 128), jnp.float32))


def test_a_mesh_around_does_not_change_the_body(scale: Any, cfg: Any) -> None:
    plain = scale.lower(cfg)
    with jax.set_mesh(mesh_of()):
        scale.clear_cache()
        inside = scale.lower(cfg)
        assert inside.body == plain.body
        assert inside.custom_call_line == plain.custom_call_line


@pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit])
@pytest.mark.parametrize("platform", ["tpu", "cpu"])
def test_automatic_partitioning_is_refused_as_pallas_refuses_it(
    scale: Any, pallas_scale: Any, simulator: Any, raises: Any, kind: AxisType, platform: str
) -> None:
    mesh = mesh_of(kind)
    with pytest.raises((NotImplementedError, ValueError), match=r"automatically partitioned|axes to be Manual"):
        jax.jit(pallas_scale(out_shape=ROWS)).trace(on(mesh)).lower(lowering_platforms=("tpu",))
    with raises(PartitioningError, "scale_kernel", "automatically partitioned", hint="shard_map"):
        jax.jit(lambda x: scale(x=x, cfg=scale.config(rows=64))).trace(on(mesh)).lower(lowering_platforms=(platform,))


@pytest.mark.parametrize("platform", ["tpu", "cpu"])
def test_a_shard_map_over_some_axes_only_is_refused(
    scale: Any, cfg: Any, simulator: Any, raises: Any, platform: str
) -> None:
    mesh = jax.make_mesh((2, 2), ("rows", "other"), axis_types=(AxisType.Auto,) * 2, devices=jax.devices()[:4])
    function = jax.shard_map(
        lambda x: scale(x=x, cfg=cfg), mesh=mesh, in_specs=P("rows"), out_specs=P("rows"), axis_names={"rows"}
    )
    array = jax.ShapeDtypeStruct((32, 128), jnp.float32, sharding=NamedSharding(mesh, P("rows")))
    with raises(PartitioningError, "scale_kernel", "automatically partitioned"):
        jax.jit(function).trace(array).lower(lowering_platforms=(platform,))


def test_calls_that_communicate_stay_the_same_call(scale: Any, cfg: Any, tpu_text: Any) -> None:
    def program(x: Any) -> Any:
        first, second, alone = (
            scale(x=x, cfg=cfg, extras=CallExtras(has_communication=talks)) for talks in (True, True, False)
        )
        return first + second + alone

    function = jax.shard_map(program, mesh=mesh_of(), in_specs=P("rows"), out_specs=P("rows"))
    first, second, alone = pallas.calls_in(tpu_text(function, on(mesh_of())))
    assert first.line == second.line != alone.line
    assert first.body == second.body == alone.body == scale.lower(cfg).body


def test_the_axes_that_a_body_names_are_metadata(scale: Any, cfg: Any, tpu_text: Any) -> None:
    mesh = mesh_of()

    def named(x: Any) -> Any:
        def scale_kernel(x_ref: Any, y_ref: Any) -> None:
            y_ref[...] = x_ref[...] * jax.lax.axis_index("rows").astype(jnp.float32)

        block = pl.BlockSpec((8, 128), lambda i: (i, 0))
        out = jax.ShapeDtypeStruct((16, 128), jnp.float32)
        return pl.pallas_call(scale_kernel, grid=(2,), in_specs=[block], out_specs=block, out_shape=out)(x)

    def attributes(call: Any) -> str:
        function = jax.shard_map(call, mesh=mesh, in_specs=P("rows"), out_specs=P("rows"), check_vma=False)
        [found] = pallas.calls_in(tpu_text(function, on(mesh)))
        return found.line.partition("mhlo.frontend_attributes")[2]

    extras = CallExtras(metadata={"mesh_axes": '["rows"]'})
    assert attributes(lambda x: scale(x=x, cfg=cfg, extras=extras)) == attributes(named)
