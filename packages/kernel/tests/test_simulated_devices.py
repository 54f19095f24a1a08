"""The CPU devices of a shard_map are simulated TPUs; here by a simulator that knows the answers."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, Mesh
from jax.sharding import PartitionSpec as P

from mosaic_tpu.kernel import CallExtras, RendezvousError, simulation

TALKS = CallExtras(has_communication=True)


def mesh_of(devices: Any = None, axes: tuple[str, ...] = ("rows",), shape: tuple[int, ...] = (4,)) -> Mesh:
    devices = jax.devices("cpu")[:4] if devices is None else devices
    assert len(devices) == np.prod(shape), "run with XLA_FLAGS=--xla_force_host_platform_device_count=4, as nox does"
    return Mesh(np.array(devices).reshape(shape), axes, axis_types=(AxisType.Auto,) * len(axes))


def over(mesh: Mesh, body: Any, **options: Any) -> Any:
    spec = P(mesh.axis_names)
    return jax.shard_map(body, mesh=mesh, in_specs=spec, out_specs=spec, **options)


def blocks(count: int = 4, offset: int = 0) -> Any:
    """An array whose n-th shard of 16 rows holds n + offset."""
    return jnp.repeat(jnp.arange(count, dtype=jnp.float32) + offset, 16)[:, None] * jnp.ones((1, 128))


def shards(array: Any) -> list[float]:
    found = np.asarray(array).reshape(-1, 16, 128)
    assert (found == found[:, :1, :1]).all()
    return [float(block[0, 0]) for block in found]


def ring(inputs_of: list[Any]) -> list[tuple[Any, ...]]:
    """Each device gets what its left neighbour has."""
    return [(np.array(inputs_of[d - 1][0]),) for d in range(len(inputs_of))]


@pytest.fixture
def rolled(simulator: Any) -> Any:
    simulator.compute = ring
    return simulator


@pytest.mark.parametrize("jit", [False, True], ids=["eager", "jit"])
@pytest.mark.parametrize("check_vma", [False, True])
def test_devices_that_do_not_communicate_are_simulated_alone(
    scale: Any, cfg: Any, simulator: Any, jit: bool, check_vma: bool
) -> None:
    call = over(mesh_of(), lambda x: scale(x=x, cfg=cfg), check_vma=check_vma)
    assert shards((jax.jit if jit else lambda f: f)(call)(blocks())) == [0, 2, 4, 6]
    assert [len(inputs_of) for _, inputs_of, _ in simulator.runs] == [1] * 4
    assert len(simulator.read_modules) == 1


@pytest.mark.parametrize("jit", [False, True], ids=["eager", "jit"])
def test_devices_that_communicate_are_simulated_together(scale: Any, cfg: Any, rolled: Any, jit: bool) -> None:
    call = over(mesh_of(), lambda x: scale(x=x, cfg=cfg, extras=TALKS))
    assert shards((jax.jit if jit else lambda f: f)(call)(blocks())) == [3, 0, 1, 2]
    assert [len(inputs_of) for _, inputs_of, _ in rolled.runs] == [4]


def test_under_disable_jit(scale: Any, cfg: Any, rolled: Any) -> None:
    call = over(mesh_of(), lambda x: scale(x=x, cfg=cfg, extras=TALKS))
    with jax.disable_jit():
        assert shards(jax.jit(call)(blocks())) == [3, 0, 1, 2]


def test_devices_are_numbered_as_the_mesh_lists_them(scale: Any, cfg: Any, rolled: Any) -> None:
    devices = [jax.devices("cpu")[n] for n in (2, 0, 3, 1)]
    mesh = mesh_of(devices, ("a", "b"), (2, 2))
    call = jax.jit(over(mesh, lambda x: scale(x=x, cfg=cfg, extras=TALKS)))
    assert shards(call(blocks())) == [3, 0, 1, 2]
    # Whatever the array's axes: (b, a) puts shard 1 on the mesh's device 2, and the other way round.
    swapped = jax.shard_map(
        lambda x: scale(x=x, cfg=cfg, extras=TALKS), mesh=mesh, in_specs=P(("b", "a")), out_specs=P(("b", "a"))
    )
    assert shards(jax.jit(swapped)(blocks())) == [3, 2, 0, 1]


def test_a_mesh_of_some_of_the_devices(scale: Any, cfg: Any, rolled: Any) -> None:
    call = jax.jit(over(mesh_of(jax.devices("cpu")[1:3], shape=(2,)), lambda x: scale(x=x, cfg=cfg, extras=TALKS)))
    assert shards(call(blocks(2))) == [1, 0]


def test_one_device_of_several_is_simulated_alone(scale: Any, cfg: Any, simulator: Any) -> None:
    device = jax.devices("cpu")[3]
    x = jax.device_put(blocks(1, offset=1), device)
    for call in (scale, jax.jit(lambda x, cfg, extras: scale(x=x, cfg=cfg, extras=extras), static_argnums=(1, 2))):
        found = call(x=x, cfg=cfg, extras=TALKS) if call is scale else call(x, cfg, TALKS)
        assert shards(found) == [2] and found.devices() == {device}
    alone = over(mesh_of([device], shape=(1,)), lambda x: scale(x=x, cfg=cfg, extras=TALKS))
    assert shards(jax.jit(alone)(x)) == [2]
    assert [len(inputs_of) for _, inputs_of, _ in simulator.runs] == [1] * 3


def test_nested_shard_maps_that_name_all_axes_together(scale: Any, cfg: Any, rolled: Any) -> None:
    mesh = mesh_of(axes=("a", "b"), shape=(2, 2))

    def inner(x: Any) -> Any:
        return jax.shard_map(
            lambda x: scale(x=x, cfg=cfg, extras=TALKS), in_specs=P("b"), out_specs=P("b"), axis_names={"b"}
        )(x)

    outer = jax.shard_map(inner, mesh=mesh, in_specs=P("a"), out_specs=P("a"), axis_names={"a"})
    assert shards(jax.jit(outer)(blocks())) == [3, 0, 1, 2]


# --- again and again -----------------------------------------------------------------------------------------------


def test_runs_without_a_pause_do_not_mix(scale: Any, cfg: Any, rolled: Any) -> None:
    call = jax.jit(over(mesh_of(), lambda x: scale(x=x, cfg=cfg, extras=TALKS)))
    found = [call(blocks(offset=10 * n)) for n in range(20)]
    assert [shards(f) for f in found] == [[10 * n + s for s in (3, 0, 1, 2)] for n in range(20)]


def test_in_a_loop(scale: Any, cfg: Any, rolled: Any) -> None:
    def body(x: Any) -> Any:
        return jax.lax.fori_loop(0, 6, lambda _, x: scale(x=x, cfg=cfg, extras=TALKS), x)

    assert shards(jax.jit(over(mesh_of(), body))(blocks())) == [2, 3, 0, 1]


def test_several_calls_of_a_program_have_places_of_their_own(scale: Any, cfg: Any, rolled: Any) -> None:
    def body(x: Any) -> Any:
        calls = [scale(x=x + 10 * n, cfg=cfg, extras=TALKS) for n in range(8)]
        return sum(calls[1:], calls[0]) + scale(x=calls[-1], cfg=cfg, extras=TALKS)

    assert shards(jax.jit(over(mesh_of(), body))(blocks())) == [
        8 * s + 280 + t + 70 for s, t in zip((3, 0, 1, 2), (2, 3, 0, 1), strict=True)
    ]


def test_threads_with_programs_of_their_own_do_not_mix(scale: Any, cfg: Any, rolled: Any) -> None:
    def compute(inputs_of: list[Any]) -> Any:
        time.sleep(0.01)
        return ring(inputs_of)

    rolled.compute = compute
    meshes = [mesh_of(), mesh_of(jax.devices("cpu")[::-1]), mesh_of(jax.devices("cpu")[:2], shape=(2,))]
    meshes.append(mesh_of(jax.devices("cpu")[2:], shape=(2,)))
    one = jax.jit(over(meshes[0], lambda x: scale(x=x, cfg=cfg, extras=TALKS)))
    start = threading.Barrier(6)

    def work(number: int) -> list[list[float]]:
        mesh = meshes[number] if number < 4 else meshes[0]
        call = one if number >= 4 else jax.jit(over(mesh, lambda x: scale(x=x, cfg=cfg, extras=TALKS)))
        start.wait(60)
        return [shards(call(blocks(mesh.size, offset=100 * number + 10 * n))) for n in range(5)]

    with ThreadPoolExecutor(6) as pool:
        for number, found in enumerate(pool.map(work, range(6))):
            ring_of = (1, 0) if number in (2, 3) else (3, 0, 1, 2)
            assert found == [[100 * number + 10 * n + s for s in ring_of] for n in range(5)]


# --- errors --------------------------------------------------------------------------------------------------------


def fail_on_one(inputs_of: list[Any], error: Exception) -> list[tuple[Any, ...]]:
    if len(inputs_of) > 1 or inputs_of[0][0][0, 0] == 1:
        raise error
    return [(np.array(x),) for (x,) in inputs_of]


@pytest.mark.parametrize("extras", [TALKS, CallExtras()], ids=["together", "alone"])
@pytest.mark.parametrize("jit", [False, True], ids=["eager", "jit"])
def test_an_error_on_one_device_ends_the_program(
    scale: Any, cfg: Any, simulator: Any, extras: CallExtras, jit: bool
) -> None:
    simulator.compute = lambda inputs_of: fail_on_one(inputs_of, simulator.SimulationError("a race: lösch es"))

    def body(x: Any) -> Any:
        return scale(x=x, cfg=cfg, extras=extras) + jax.lax.psum(scale(x=x, cfg=cfg, extras=extras), "rows")

    call = over(mesh_of(), body)
    start = time.monotonic()
    with pytest.raises(jax.errors.JaxRuntimeError, match="a race: lösch es"):
        jax.block_until_ready((jax.jit if jit else lambda f: f)(call)(blocks()))
    assert time.monotonic() - start < 15
    simulator.compute = lambda inputs_of: [(np.array(x),) for (x,) in inputs_of]
    assert shards(call(blocks())) == [6, 7, 8, 9]


def test_an_error_names_the_device_of_the_mesh(scale: Any, cfg: Any, simulator: Any) -> None:
    class Located(simulator.SimulationError):
        device = None

        def __str__(self) -> str:
            return f"on {self.device}"

    simulator.compute = lambda inputs_of: fail_on_one(inputs_of, Located())
    with pytest.raises(jax.errors.JaxRuntimeError, match="on device 1"):
        jax.block_until_ready(jax.jit(over(mesh_of(), lambda x: scale(x=x, cfg=cfg)))(blocks()))


def test_a_kernel_that_some_devices_never_reach(scale: Any, cfg: Any, rolled: Any) -> None:
    def body(x: Any) -> Any:
        talk = jax.lax.axis_index("rows") % 2 == 0
        return jax.lax.cond(talk, lambda x: scale(x=x, cfg=cfg, extras=TALKS), lambda x: x, x)

    with simulation(rendezvous_timeout=0.3):
        call = jax.jit(over(mesh_of(), body, check_vma=False))
        with pytest.raises(jax.errors.JaxRuntimeError) as caught:
            jax.block_until_ready(call(blocks()))
    message = str(caught.value)
    assert RendezvousError.__name__ in message
    assert "scale_kernel: devices [0, 2] have reached the kernel, and [1, 3] have not in 0.3 s" in message
    assert "conftest.py:" in message and "hint: call the kernel on every device" in message
    assert rolled.runs == []


def test_a_kernel_that_some_devices_call_alone(scale: Any, cfg: Any, simulator: Any) -> None:
    def body(x: Any) -> Any:
        twice = jax.lax.axis_index("rows") % 2 == 0
        return jax.lax.cond(twice, lambda x: scale(x=x, cfg=cfg), lambda x: x, x)

    call = jax.jit(over(mesh_of(), body, check_vma=False))
    for _ in range(3):
        assert shards(call(blocks())) == [0, 1, 4, 3]


def test_in_a_loop_that_is_longer_on_some_devices(scale: Any, cfg: Any, simulator: Any) -> None:
    def body(x: Any) -> Any:
        return jax.lax.while_loop(lambda x: x[0, 0] < 100, lambda x: scale(x=x, cfg=cfg), x)

    call = jax.jit(over(mesh_of(), body, check_vma=False))
    assert shards(call(blocks(offset=1))) == [128, 128, 192, 128]
