"""On a CPU a kernel is simulated, wherever JAX calls functions; here by a simulator that knows the answers."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mosaic_tpu.builder import Builder, Ref, Role, as_dtype
from mosaic_tpu.kernel import CallExtras, ExtrasError, InputError, Kernel, NoTPUError, SideEffects

DTYPES = (
    "float32",
    "bfloat16",
    "int4",
    "float8_e4m3fn",
    "float8_e5m2",
    "float8_e4m3b11fnuz",
    "int8",
    "uint8",
    "uint16",
    "uint32",
)


@pytest.mark.parametrize("how", ["eager", "jit", "disable_jit", "scan", "cond", "while", "custom_vjp", "checkpoint"])
def test_it_runs_on_a_cpu(scale: Any, cfg: Any, x: Any, simulator: Any, how: str) -> None:
    def call(x: Any) -> Any:
        return scale(x=x, cfg=cfg)

    found: Any
    match how:
        case "disable_jit":
            with jax.disable_jit():
                found = jax.jit(call)(x)
        case "scan":
            found = jax.lax.scan(lambda x, _: (call(x), None), x / 4, None, length=3)[0]
        case "cond":
            found = jax.lax.cond(x[0, 0] > 0, call, lambda x: x, x)
        case "while":
            found = jax.lax.while_loop(lambda x: x[0, 0] < 2, call, x / 8)
        case "custom_vjp":
            twice = jax.custom_vjp(call)
            twice.defvjp(lambda x: (twice(x), None), lambda _, g: (call(g),))
            found = jax.grad(lambda x: twice(x).sum())(x)
        case _:
            found = {"eager": call, "jit": jax.jit(call), "checkpoint": jax.checkpoint(call)}[how](x)
    assert isinstance(found, jax.Array)
    np.testing.assert_array_equal(found, np.full((16, 128), 2.0, np.float32))


@pytest.mark.parametrize("how", [jax.eval_shape, jax.make_jaxpr])
def test_only_a_run_runs_it(scale: Any, cfg: Any, x: Any, simulator: Any, how: Any) -> None:
    how(lambda x: scale(x=x, cfg=cfg), x)
    jax.jit(lambda x: scale(x=x, cfg=cfg)).trace(x).lower(lowering_platforms=("tpu",))
    assert simulator.runs == simulator.read_modules == []
    jax.jit(lambda x: scale(x=x, cfg=cfg)).lower(x).compile()
    assert simulator.runs == [] and len(simulator.read_modules) == 1


@pytest.mark.parametrize("jit", [False, True], ids=["eager", "jit"])
@pytest.mark.parametrize("name", [*DTYPES, "bool"])
def test_every_dtype_passes_through(simulator: Any, name: str, jit: bool) -> None:
    dtype = jnp.dtype(name)

    def copy_kernel(b: Builder, cfg: int) -> None:
        ref = Ref((8, 128), as_dtype(dtype))
        b.declare_args({"x": ref, "y": Ref((8, 128), as_dtype(dtype), role=Role.OUTPUT)})

    copy = Kernel("copy_kernel", int, inputs=("x",), outputs=("y",), run=copy_kernel)
    x = (np.arange(8 * 128).reshape(8, 128) % 7).astype(dtype)
    simulator.compute = lambda inputs_of: [(np.array(x),) for (x,) in inputs_of]
    y = (jax.jit if jit else lambda f: f)(lambda x: copy(x=x, cfg=0))(x)
    assert y.dtype == dtype
    np.testing.assert_array_equal(np.asarray(y), x)
    [(module, [(given,)], _)] = simulator.runs
    assert given.dtype == dtype and module.call.outputs == (((8, 128), dtype),)


@pytest.mark.parametrize("jit", [False, True], ids=["eager", "jit"])
def test_several_results_come_as_a_tuple(simulator: Any, jit: bool) -> None:
    def two_kernel(b: Builder, cfg: int) -> None:
        output = Ref((8, 128), as_dtype("int32"), role=Role.OUTPUT)
        b.declare_args({"p": output, "q": output})

    two = Kernel("two_kernel", int, inputs=(), outputs=("p", "q"), run=two_kernel)
    simulator.compute = lambda inputs_of: [(np.full((8, 128), 3, np.int32), np.full((8, 128), 4, np.int32))]
    p, q = (jax.jit if jit else lambda f: f)(lambda: two(cfg=0))()
    assert p[0, 0] == 3 and q[0, 0] == 4


def test_what_the_call_says_is_passed_on(scale: Any, cfg: Any, x: Any, simulator: Any) -> None:
    scale(x=x, cfg=cfg)
    extras = CallExtras(
        output_operand_aliases={"y": "x"}, collective_id=5, allow_collective_id_without_custom_barrier=True
    )
    scale(x=x, cfg=cfg, extras=extras)
    (plain, *_), (aliased, *_) = simulator.runs
    assert (plain.call.aliases, aliased.call.aliases) == ({}, {0: 0})
    built = scale.lower(cfg)
    assert (plain.body, plain.debug_locations) == (built.body, built.debug_locations)


def test_a_barrier_needs_its_id_as_on_a_tpu(simulator: Any, raises: Any) -> None:
    def wait_kernel(b: Builder, cfg: int) -> None:
        b.declare_args({"y": Ref((8, 128), as_dtype("int32"), role=Role.OUTPUT)})
        b.pallas.semaphore_signal(b.sem_barrier(), 1)

    wait = Kernel("wait_kernel", int, inputs=(), outputs=("y",), run=wait_kernel)
    with raises(ExtrasError, "wait_kernel", "collective_id"):
        wait(cfg=0)
    with raises(ExtrasError, "wait_kernel", "collective_id"):
        jax.jit(lambda: wait(cfg=0))()


def test_inputs_cannot_be_written(scale: Any, cfg: Any, simulator: Any) -> None:
    def spoil(inputs_of: Any) -> Any:
        inputs_of[0][0][...] = 0

    simulator.compute = spoil
    x = np.ones((16, 128), np.float32)
    with pytest.raises(ValueError, match="read-only"):
        scale(x=x, cfg=cfg)
    with pytest.raises(jax.errors.JaxRuntimeError, match="read-only"):
        jax.jit(lambda x: scale(x=x, cfg=cfg))(x).block_until_ready()
    assert x.flags.writeable and (x == 1).all()


def test_with_a_donated_input(scale: Any, cfg: Any, simulator: Any) -> None:
    x = jnp.ones((16, 128))
    extras = CallExtras(output_operand_aliases={"y": "x"})
    y = jax.jit(lambda x: scale(x=x, cfg=cfg, extras=extras), donate_argnums=0)(x)
    assert x.is_deleted()
    np.testing.assert_array_equal(y, np.full((16, 128), 2.0))


@pytest.mark.parametrize(
    ("effects", "runs"), [(SideEffects.PURE, 0), (SideEffects.DATAFLOW, 0), (SideEffects.SIDE_EFFECTING, 1)]
)
def test_an_unused_call_runs_if_it_has_side_effects(
    scale: Any, cfg: Any, x: Any, simulator: Any, effects: SideEffects, runs: int
) -> None:
    def program(x: Any) -> Any:
        scale(x=x, cfg=cfg, extras=CallExtras(side_effects=effects))
        return x + 1

    jax.jit(program)(x).block_until_ready()
    assert len(simulator.runs) == runs


# --- where ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("jit", [False, True], ids=["eager", "jit"])
@pytest.mark.parametrize("committed", [False, True])
def test_results_are_where_jax_would_put_them(scale: Any, cfg: Any, simulator: Any, jit: bool, committed: bool) -> None:
    device = jax.devices("cpu")[2]
    x = jax.device_put(np.ones((16, 128), np.float32), device if committed else None)
    call = (jax.jit if jit else lambda f: f)(lambda x: scale(x=x, cfg=cfg))
    y = call(x)
    assert y.devices() == {device} if committed else {jax.devices()[0]}
    assert y.committed == committed
    with jax.default_device(jax.devices("cpu")[1]):
        z = call(np.ones((16, 128), np.float32))
    assert z.devices() == {jax.devices("cpu")[1]}


def test_arrays_on_two_devices_are_refused_as_jax_refuses_them(simulator: Any) -> None:
    def add_kernel(b: Builder, cfg: int) -> None:
        ref = Ref((8, 128), as_dtype("float32"))
        b.declare_args({"p": ref, "q": ref, "y": Ref((8, 128), as_dtype("float32"), role=Role.OUTPUT)})

    add = Kernel("add_kernel", int, inputs=("p", "q"), outputs=("y",), run=add_kernel)
    p, q = (jax.device_put(jnp.ones((8, 128)), d) for d in jax.devices("cpu")[:2])
    with pytest.raises(ValueError, match="incompatible devices"):
        add(p=p, q=q, cfg=0)
    assert simulator.runs == []


# --- how often it is read ------------------------------------------------------------------------------------------


def test_a_call_is_read_once(counted: Any, cfg: Any, x: Any, simulator: Any) -> None:
    kernel = counted.kernel
    for _ in range(2):
        kernel(x=x, cfg=cfg)
        jax.jit(lambda x: kernel(x=x, cfg=cfg))(x).block_until_ready()
        kernel.simulate(x=x, cfg=cfg, seed=3)
    assert len(simulator.read_modules) == counted.runs == 1
    assert len({id(module) for module, *_ in simulator.runs}) == 1
    kernel(x=jnp.ones((32, 128)), cfg=kernel.config(rows=32))
    assert len(simulator.read_modules) == 2
    kernel.clear_cache()
    kernel(x=x, cfg=cfg)
    assert len(simulator.read_modules) == 3


def test_the_simulator_is_imported_when_it_is_needed() -> None:
    code = """if True:
        import sys, jax, jax.numpy as jnp
        from mosaic_tpu.builder import Ref, Role, f32
        from mosaic_tpu.kernel import Kernel
        def run(b, cfg):
            b.declare_args({"x": Ref((8, 128), f32), "y": Ref((8, 128), f32, role=Role.OUTPUT)})
        copy = Kernel("copy", int, inputs=("x",), outputs=("y",), run=run)
        x = jnp.ones((8, 128))
        jax.jit(lambda x: copy(x=x, cfg=0)).trace(x).lower(lowering_platforms=("tpu",))
        copy.emit(0), copy.lower(0).stablehlo, jax.eval_shape(lambda x: copy(x=x, cfg=0), x)
        print("mosaic_tpu.sim" in sys.modules)
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize("how", ["eager", "jit", "simulate"])
def test_without_the_simulator_it_says_what_to_install(
    scale: Any, cfg: Any, x: Any, raises: Any, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    monkeypatch.setitem(sys.modules, "mosaic_tpu.sim", None)
    calls = {
        "eager": scale,
        "simulate": scale.simulate,
        "jit": lambda x, cfg: jax.jit(lambda x: scale(x=x, cfg=cfg))(x),
    }
    with raises(NoTPUError, "scale_kernel", "the simulator is not installed", hint="pip install mosaic-tpu-sim"):
        calls[how](x=x, cfg=cfg)


# --- errors --------------------------------------------------------------------------------------------------------


def test_an_eager_call_raises_the_simulator_s_own_error(scale: Any, cfg: Any, x: Any, simulator: Any) -> None:
    error = simulator.SimulationError("vector.load: outside\n  at: kernel.py:3")

    def fail(inputs_of: Any) -> Any:
        raise error

    simulator.compute = fail
    with pytest.raises(simulator.SimulationError) as caught:
        scale(x=x, cfg=cfg)
    assert caught.value is error
    with jax.disable_jit(), pytest.raises(simulator.SimulationError):
        jax.jit(lambda x: scale(x=x, cfg=cfg))(x)


@pytest.mark.parametrize("kind", ["SimulationError", "InternalError"])
def test_a_jitted_call_shows_its_whole_text(scale: Any, cfg: Any, x: Any, simulator: Any, kind: str) -> None:
    text = "vector.load: außerhalb\n" + "\n".join(f"  fact {i}: {'x' * 50}" for i in range(200)) + "\n  hint: none"

    def deep_in_the_simulator(inputs_of: Any) -> Any:
        raise getattr(simulator, kind, simulator.errors.InternalError)(text)

    simulator.compute = deep_in_the_simulator
    with pytest.raises(jax.errors.JaxRuntimeError) as caught:
        jax.jit(lambda x: scale(x=x, cfg=cfg))(x).block_until_ready()
    assert text in str(caught.value)
    assert f"Error: {text}" in str(caught.value)
    # Where the simulator itself is wrong, the place is shown too.
    assert ("deep_in_the_simulator" in str(caught.value)) == (kind == "InternalError")


def test_a_hazard_that_only_a_report_would_show_is_raised(scale: Any, cfg: Any, x: Any, simulator: Any) -> None:
    hazard = simulator.SimulationError("a race")
    simulate = simulator.simulate_devices

    def with_hazard(*given: Any, **options: Any) -> Any:
        report = simulate(*given, **options)
        report.hazards = (hazard,)
        return report

    simulator.simulate_devices = with_hazard
    with pytest.raises(simulator.SimulationError, match="a race"):
        scale(x=x, cfg=cfg)
    assert scale.simulate(x=x, cfg=cfg).hazards == (hazard,)


# --- the report ----------------------------------------------------------------------------------------------------


def test_simulate_returns_the_report(scale: Any, cfg: Any, x: Any, simulator: Any) -> None:
    report = scale.simulate(x=x, cfg=cfg, seed=3, dma="wait")
    np.testing.assert_array_equal(report.outputs[0], np.full((16, 128), 2.0))
    [(_, _, options)] = simulator.runs
    assert options == {"seed": 3, "dma": "wait"}


def test_simulate_checks_as_a_call_does(scale: Any, cfg: Any, x: Any, simulator: Any, raises: Any) -> None:
    with raises(InputError, "scale_kernel", "missing input 'x'"):
        scale.simulate(cfg=cfg, seed=3)
    with raises(InputError, "scale_kernel", "unexpected input 'sead'"):
        scale.simulate(x=x, cfg=cfg, sead=3)
    with raises(InputError, "scale_kernel", "[8, 128]"):
        scale.simulate(x=x[:8], cfg=cfg)
    with raises(ExtrasError, "scale_kernel", "'z'"):
        scale.simulate(x=x, cfg=cfg, extras=CallExtras(output_operand_aliases={"z": "x"}))
    with raises(InputError, "scale_kernel", "'x' is traced", hint="outside of jit"):
        jax.jit(lambda x: scale.simulate(x=x, cfg=cfg))(x)
    assert simulator.runs == []


def test_an_input_may_be_named_like_an_option(simulator: Any) -> None:
    def fill_kernel(b: Builder, cfg: int) -> None:
        b.declare_args(
            {"seed": Ref((8, 128), as_dtype("int32")), "y": Ref((8, 128), as_dtype("int32"), role=Role.OUTPUT)}
        )

    fill = Kernel("fill_kernel", int, inputs=("seed",), outputs=("y",), run=fill_kernel)
    fill.simulate(seed=np.ones((8, 128), np.int32), cfg=0, checks=False)
    [(_, [(given,)], options)] = simulator.runs
    assert given.shape == (8, 128) and options == {"checks": False}
