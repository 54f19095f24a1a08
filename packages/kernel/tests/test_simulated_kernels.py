"""Real kernels in the real simulator, called as users call them: expected values are JAX's."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, Mesh
from jax.sharding import PartitionSpec as P

from mosaic_tpu import sim
from mosaic_tpu.builder import Builder, Ref, Role, Scalar, Sem, Window, as_dtype, bf16, f32, i32, parallel
from mosaic_tpu.kernel import CallExtras, Kernel, SimulationOptions, simulation
from mosaic_tpu.sim import errors

SEEDS = range(10)
#: What JAX raises for an error in a callback: the second for a function that it has run before.
JITTED = (jax.errors.JaxRuntimeError, ValueError)


def test_the_options_are_the_simulator_s() -> None:
    known = inspect.signature(sim.simulate).parameters.values()
    theirs = {p.name for p in known if p.kind is p.KEYWORD_ONLY} - {"outputs"}
    assert set(SimulationOptions.__annotations__) == theirs | {"rendezvous_timeout"}
    together = set(inspect.signature(sim.simulate_devices).parameters) - {"source", "inputs", "outputs"}
    assert theirs - together == {"engine"}


# --- one device ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ScaleConfig:
    rows: int = 512
    factor: float = 2.0


def big_scale_kernel(b: Builder, cfg: ScaleConfig) -> None:
    block = Window((128, 256), index_map=lambda i: (i, 0))
    a = b.declare_args(
        {
            "i": Scalar(i32),
            "x": Ref((128, 256), f32, window=block),
            "y": Ref((128, 256), f32, role=Role.OUTPUT, window=block),
        },
        grid=(cfg.rows // 128,),
        dimension_semantics=(parallel,),
    )
    a.y[...] = a.x[...] * cfg.factor


BIG_SCALE = Kernel("scale", ScaleConfig, inputs=("x",), outputs=("y",), run=big_scale_kernel)


def four_devices() -> Mesh:
    devices = jax.devices("cpu")[:4]
    assert len(devices) == 4, "run with XLA_FLAGS=--xla_force_host_platform_device_count=4, as nox does"
    return Mesh(np.array(devices), ("d",), axis_types=(AxisType.Auto,))


def on_four(body: Any) -> Any:
    return jax.shard_map(body, mesh=four_devices(), in_specs=P("d"), out_specs=P("d"))


@pytest.mark.parametrize("engine", ["numpy", "xla"])
@pytest.mark.parametrize("how", ["eager", "jit", "shard_map", "jit of shard_map"])
def test_scale(how: str, engine: Any) -> None:
    rows = 2048 if "shard_map" in how else 512
    x = jax.random.normal(jax.random.key(0), (rows, 256))

    def call(x: Any) -> Any:
        return BIG_SCALE(x=x, cfg=ScaleConfig(factor=3.0))

    sharded = on_four(call)
    with simulation(engine=engine):
        y = {"eager": call, "jit": jax.jit(call), "shard_map": sharded, "jit of shard_map": jax.jit(sharded)}[how](x)
    np.testing.assert_array_equal(y, 3.0 * x)


def test_a_report() -> None:
    x = np.ones((512, 256), np.float32)
    report = BIG_SCALE.simulate(x=x, cfg=ScaleConfig(), seed=5)
    assert (report.kernel, report.seed, report.hazards) == ("scale", 5, ())
    assert report.op_counts["arith.mulf"] == 4
    np.testing.assert_array_equal(report.outputs[0], 2 * x)


@pytest.mark.parametrize(
    "name", ["float32", "bfloat16", "int4", "int8", "uint8", "int32", "float8_e4m3fn", "float8_e5m2"]
)
@pytest.mark.parametrize("jit", [False, True], ids=["eager", "jit"])
def test_dtypes(name: str, jit: bool) -> None:
    dtype = as_dtype(name)

    def copy_kernel(b: Builder, cfg: int) -> None:
        a = b.declare_args({"x": Ref((64, 128), dtype), "y": Ref((64, 128), dtype, role=Role.OUTPUT)})
        a.y[...] = a.x[...]

    copy = Kernel("copy_kernel", int, inputs=("x",), outputs=("y",), run=copy_kernel)
    x = jnp.asarray((np.arange(64 * 128).reshape(64, 128) % 15 - 7 * (name[0] != "u")).astype(dtype.numpy))
    y = (jax.jit if jit else lambda f: f)(lambda x: copy(x=x, cfg=0))(x)
    assert y.dtype == x.dtype
    np.testing.assert_array_equal(np.asarray(y), np.asarray(x))


@pytest.mark.parametrize("jit", [False, True], ids=["eager", "jit"])
def test_an_output_that_starts_as_its_alias(jit: bool) -> None:
    def first_row_kernel(b: Builder, cfg: int) -> None:
        a = b.declare_args(
            {
                "x": Ref((8, 128), f32, memory_space="any"),
                "y": Ref((8, 128), f32, role=Role.OUTPUT, memory_space="any"),
                "row": Ref((1, 128), f32, role=Role.SCRATCH),
                "sem": Sem("dma"),
            }
        )
        a.row[...] = b.zeros((1, 128), f32)
        copy = b.pallas.async_copy(a.row, a.y.at[b.pallas.ds(0, 1)], a.sem)
        copy.start()
        copy.wait()

    kernel = Kernel("first_row_kernel", int, inputs=("x",), outputs=("y",), run=first_row_kernel)
    x = jnp.ones((8, 128))

    def call(extras: CallExtras | None) -> Any:
        return (jax.jit if jit else lambda f: f)(lambda x: kernel(x=x, cfg=0, extras=extras))(x)

    y = call(CallExtras(output_operand_aliases={"y": "x"}))
    np.testing.assert_array_equal(y, x.at[0].set(0))
    assert x[0, 0] == 1
    with pytest.raises((errors.UnwrittenOutputError, *JITTED), match="never written"):
        jax.block_until_ready(call(None))


# --- what is wrong reaches the caller ------------------------------------------------------------------------------


def racy_copy_kernel(b: Builder, waits: bool) -> None:
    a = b.declare_args(
        {
            "x": Ref((8, 128), f32, memory_space="any"),
            "y": Ref((8, 128), f32, role=Role.OUTPUT),
            "here": Ref((8, 128), f32, role=Role.SCRATCH),
            "sem": Sem("dma"),
        }
    )
    copy = b.pallas.async_copy(a.x, a.here, a.sem)
    copy.start()
    if waits:
        copy.wait()
    a.y[...] = a.here[...]
    if not waits:
        copy.wait()


RACY_COPY = Kernel("racy_copy_kernel", bool, inputs=("x",), outputs=("y",), run=racy_copy_kernel)


def line_of(code: str) -> str:
    """``"file.py:12"`` of this file's line with the code."""
    lines = Path(__file__).read_text().splitlines()
    [number] = [n for n, line in enumerate(lines, 1) if line.strip() == code]
    return f"{Path(__file__).name}:{number}"


@pytest.mark.parametrize("seed", SEEDS)
def test_a_planted_race_is_found_and_explained(seed: int) -> None:
    x = jnp.arange(1024.0).reshape(8, 128)
    with simulation(seed=seed):
        np.testing.assert_array_equal(RACY_COPY(x=x, cfg=True), x)
        with pytest.raises(errors.ReadBeforeWaitError) as eager:
            RACY_COPY(x=x, cfg=False)
        with pytest.raises(jax.errors.JaxRuntimeError) as jitted:
            jax.block_until_ready(jax.jit(lambda x: RACY_COPY(x=x, cfg=False))(x))
    assert line_of("a.y[...] = a.here[...]") in str(eager.value)
    assert f"ReadBeforeWaitError: {eager.value}" in str(jitted.value)
    assert f"seed: {seed}" in str(eager.value)


def half_kernel(b: Builder, rows: int) -> None:
    a = b.declare_args({"x": Ref((rows, 128), f32), "y": Ref((rows, 128), f32, role=Role.OUTPUT)})
    a.y[: rows // 2] = a.x[: rows // 2]


def test_an_output_that_is_not_all_written_must_be_said_to_be_partial() -> None:
    x = np.arange(16 * 128, dtype=np.float32).reshape(16, 128)
    names: Any = {"inputs": ("x",), "outputs": ("y",), "run": half_kernel}
    with pytest.raises(errors.UnwrittenOutputError, match=r"1024 of 2048 elements of the output y"):
        Kernel("half", int, **names)(x=x, cfg=16)
    partial = Kernel("half", int, **names, partial_outputs=("y",))
    np.testing.assert_array_equal(np.asarray(partial(x=x, cfg=16))[:8], x[:8])
    assert partial.simulate(x=x, cfg=16).unwritten == {"y": 1024}
    with pytest.raises(errors.UnwrittenOutputError):
        partial.simulate(x=x, cfg=16, allow_unwritten=False)


def words_kernel(b: Builder, _: int) -> None:
    """Copies eight rows of words, two bf16 rows each."""
    a = b.declare_args(
        {
            "first": Ref((1,), i32, memory_space="smem", role=Role.SCALAR_PREFETCH),
            "x": Ref((64, 128), bf16, memory_space="any"),
            "y": Ref((16, 128), bf16, role=Role.OUTPUT),
            "sem": Sem("dma"),
        }
    )
    words = a.x.at[...].bitcast(i32).at[b.pallas.ds(a.first[0], 8)]
    copy = b.pallas.async_copy(words, a.y.at[...].bitcast(i32), a.sem)
    copy.start()
    copy.wait()


@pytest.mark.parametrize("engine", ["numpy", "xla"])
def test_a_copy_of_bitcast_memory(engine: Any) -> None:
    kernel = Kernel("words", int, inputs=("first", "x"), outputs=("y",), run=words_kernel)
    x = np.arange(64 * 128, dtype=np.float32).reshape(64, 128).astype(jnp.bfloat16)

    def run(first: int) -> Any:
        return kernel.simulate(first=np.array([first], np.int32), x=x, cfg=0, engine=engine).outputs[0]

    np.testing.assert_array_equal(run(5), x[10:26])
    with pytest.raises(errors.OutOfBoundsError):
        run(25)


def test_checks_may_be_off() -> None:
    x = jnp.arange(1024.0).reshape(8, 128)
    with simulation(checks=False, dma="eager"):
        np.testing.assert_array_equal(RACY_COPY(x=x, cfg=False), x)
    report = RACY_COPY.simulate(x=x, cfg=False, collect=True)
    assert isinstance(report.hazards[0], errors.ReadBeforeWaitError)


@pytest.mark.parametrize("jit", [False, True], ids=["eager", "jit"])
def test_an_index_out_of_bounds(jit: bool) -> None:
    def pick_kernel(b: Builder, cfg: int) -> None:
        a = b.declare_args(
            {
                "n": Ref((1,), i32, memory_space="smem"),
                "x": Ref((32, 128), f32),
                "y": Ref((8, 128), f32, role=Role.OUTPUT),
            }
        )
        a.y[...] = a.x[b.pallas.ds(a.n[0], 8), :]

    pick = Kernel("pick_kernel", int, inputs=("n", "x"), outputs=("y",), run=pick_kernel)
    x = jnp.arange(32 * 128.0).reshape(32, 128)
    call = (jax.jit if jit else lambda f: f)(lambda n: pick(n=n, x=x, cfg=0))
    np.testing.assert_array_equal(call(jnp.array([24], jnp.int32)), x[24:])
    with pytest.raises(JITTED if jit else errors.OutOfBoundsError) as caught:
        jax.block_until_ready(call(jnp.array([25], jnp.int32)))
    assert line_of("a.y[...] = a.x[b.pallas.ds(a.n[0], 8), :]") in str(caught.value)


# --- several devices -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ShiftConfig:
    """To the right neighbour; the mistakes are planted."""

    devices: int = 4
    barrier: bool = True
    receive_wait: bool = True


def shift_kernel(b: Builder, cfg: ShiftConfig) -> None:
    hbm = Ref((16, 128), f32, memory_space="any")
    a = b.declare_args(
        {
            "x": hbm,
            "y": Ref((16, 128), f32, role=Role.OUTPUT, memory_space="any"),
            "send": Sem("dma"),
            "receive": Sem("dma"),
        }
    )
    me = b.device_id()
    right = b.pallas.rem(me + 1, cfg.devices)
    left = b.pallas.rem(me + (cfg.devices - 1), cfg.devices)
    if cfg.barrier:
        barrier = b.sem_barrier()
        b.pallas.semaphore_signal(barrier, 1, device_id=left)
        b.pallas.semaphore_wait(barrier, 1)
    copy = b.pallas.async_remote_copy(a.x, a.y, a.send, a.receive, right)
    copy.start()
    copy.wait_send()
    if cfg.receive_wait:
        copy.wait_recv()


SHIFT = Kernel(
    "shift_kernel",
    ShiftConfig,
    inputs=("x",),
    outputs=("y",),
    run=shift_kernel,
    extras=lambda cfg: CallExtras(collective_id=7 if cfg.barrier else None),
)


@pytest.mark.parametrize("how", ["eager", "jit", "disable_jit"])
@pytest.mark.parametrize("dma", ["random", "eager", "wait"])
def test_a_copy_to_the_neighbour(how: str, dma: Any) -> None:
    x = jax.random.normal(jax.random.key(0), (64, 128))
    call = on_four(lambda x: SHIFT(x=x, cfg=ShiftConfig()))
    with simulation(dma=dma), jax.disable_jit(how == "disable_jit"):
        y = (call if how == "eager" else jax.jit(call))(x)
    np.testing.assert_array_equal(y, jnp.roll(x, 16, axis=0))


@pytest.mark.parametrize("seed", SEEDS)
def test_it_may_stand_beside_jax_s_collectives(seed: int) -> None:
    x = jax.random.normal(jax.random.key(seed), (64, 128))
    ring = [(d, (d + 1) % 4) for d in range(4)]

    def both(x: Any) -> tuple[Any, Any]:
        ours = SHIFT(x=SHIFT(x=x + jax.lax.psum(x, "d"), cfg=ShiftConfig()), cfg=ShiftConfig())
        theirs = jax.lax.ppermute(jax.lax.ppermute(x + jax.lax.psum(x, "d"), "d", ring), "d", ring)
        return ours, theirs

    call = jax.shard_map(both, mesh=four_devices(), in_specs=P("d"), out_specs=P("d"))
    with simulation(seed=seed):
        ours, theirs = jax.jit(call)(x)
    np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize(
    ("cfg", "error"),
    [
        (ShiftConfig(barrier=False), "MissingEntryBarrierError"),
        (ShiftConfig(receive_wait=False), "MissingReceiveWaitError"),
        (ShiftConfig(devices=5), "OutOfBoundsError"),
    ],
    ids=["no entry barrier", "no receive wait", "no such device"],
)
@pytest.mark.parametrize("jit", [False, True], ids=["eager", "jit"])
def test_a_planted_mistake_between_devices(cfg: ShiftConfig, error: str, jit: bool) -> None:
    call = on_four(lambda x: SHIFT(x=x, cfg=cfg))
    with pytest.raises(jax.errors.JaxRuntimeError, match=f"{error}: .*[\\s\\S]*hint: "):
        jax.block_until_ready((jax.jit if jit else lambda f: f)(call)(jnp.ones((64, 128))))


def test_more_devices_than_processors() -> None:
    code = f"""if True:
        import sys
        sys.path.insert(0, {str(Path(__file__).parent)!r})
        import jax, jax.numpy as jnp, numpy as np
        from jax.sharding import Mesh, PartitionSpec as P
        from {Path(__file__).stem} import SHIFT, ShiftConfig
        mesh = Mesh(np.array(jax.devices("cpu")), ("d",))
        x = jnp.arange(32 * 16 * 128.0).reshape(32 * 16, 128)
        shift = jax.shard_map(lambda x: SHIFT(x=x, cfg=ShiftConfig(32)), mesh=mesh, in_specs=P("d"), out_specs=P("d"))
        print(np.array_equal(jax.jit(shift)(x), jnp.roll(x, 16, axis=0)))
    """
    env = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=32"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, timeout=120)
    assert done.stdout.strip() == "True", done.stderr[-2000:]


def kept_kernel(b: Builder, _: int) -> None:
    """Reads one row of bf16 out of a word of two, writes over the memory, and stores what was read."""
    a = b.declare_args(
        {
            "x": Ref((8, 128), f32),
            "y": Ref((1, 128), bf16, role=Role.OUTPUT),
            "scratch": Ref((8, 128), f32, role=Role.SCRATCH),
        }
    )
    a.scratch[...] = a.x[...]
    row = a.scratch.at[...].bitcast(i32).bitcast(bf16).at[3:4, 0:128]
    kept = b.pallas.load(row)
    a.scratch[...] = b.pallas.zeros((8, 128), f32)
    a.y[...] = kept


@pytest.mark.parametrize("engine", ["numpy", "xla"])
def test_a_value_is_not_the_memory_it_was_loaded_from(engine: Any) -> None:
    x = np.arange(8 * 128, dtype=np.float32).reshape(8, 128)
    kernel = Kernel("kept", int, inputs=("x",), outputs=("y",), run=kept_kernel)
    high = (x[1].view(np.uint32) >> 16).astype(np.uint16)
    found = kernel.simulate(x=x, cfg=0, engine=engine).outputs[0]
    np.testing.assert_array_equal(found.view(np.uint16)[0], high)


@pytest.mark.parametrize("how", ["eager", "jit", "shard_map"])
def test_denormals_are_kept_whatever_thread_jax_calls_from(scale: Any, cfg: Any, how: str) -> None:
    """XLA's threads flush them; the run has an environment of its own, and leaves the thread's as it was."""
    x = np.full((16, 128), 1e-39, np.float32)
    wanted = x.view(np.int32) * 2  # of a denormal, twice the bits are twice the number

    def call(x: Any) -> Any:
        return scale(x=x, cfg=cfg)

    if how == "shard_map":
        mesh = jax.sharding.Mesh(np.array(jax.devices()[:1]), ("d",))
        spec = jax.sharding.PartitionSpec("d")
        call = jax.shard_map(call, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False)
    found = call(x) if how == "eager" else jax.jit(call)(x)
    np.testing.assert_array_equal(np.asarray(found).view(np.int32), wanted)
    assert np.float32(1e-39) * np.float32(2) > 0
