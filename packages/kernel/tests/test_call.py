"""A kernel is called like any JAX function, wherever JAX calls functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest

from conformance.harness import levels, pallas
from mosaic_tpu.builder import Builder, Ref, Role, f32
from mosaic_tpu.kernel import CallExtras, Kernel, NoTPUError, SideEffects

TARGET = "tpu_custom_call"
UNCHECKED = [jax.export.DisabledSafetyCheck.custom_call(TARGET)]


def test_under_jit_it_is_pallas_s_call(scale: Any, cfg: Any, x: Any, pallas_scale: Any, same: Any) -> None:
    same(lambda x: scale(x=x, cfg=cfg), pallas_scale(), x)


def test_it_returns_one_array_or_a_tuple(scale: Any, cfg: Any, x: Any) -> None:
    def both_kernel(b: Builder, cfg: int) -> None:
        out = Ref((8, 128), f32, role=Role.OUTPUT)
        a = b.declare_args({"x": Ref((8, 128), f32), "p": out, "q": out})
        a.p[...] = a.x[...]
        a.q[...] = a.x[...]

    both = Kernel("both", int, inputs=("x",), outputs=("p", "q"), run=both_kernel)
    assert jax.eval_shape(lambda x: scale(x=x, cfg=cfg), x) == jax.ShapeDtypeStruct((16, 128), jnp.float32)
    assert jax.eval_shape(lambda x: both(x=x, cfg=1), x[:8]) == (jax.ShapeDtypeStruct((8, 128), jnp.float32),) * 2


def test_a_kernel_without_inputs(tpu_text: Any) -> None:
    def fill_kernel(b: Builder, cfg: int) -> None:
        a = b.declare_args({"y": Ref((8, 128), f32, role=Role.OUTPUT)})
        a.y[...] = b.zeros((8, 128), f32)

    fill = Kernel("fill", int, inputs=(), outputs=("y",), run=fill_kernel)
    assert TARGET in tpu_text(lambda: fill(cfg=1))


@pytest.mark.parametrize("platform", ["cuda", "rocm"])
def test_other_platforms_neither_run_nor_simulate(scale: Any, cfg: Any, x: Any, raises: Any, platform: str) -> None:
    program = jax.jit(lambda x: scale(x=x, cfg=cfg)).trace(x)
    with raises(NoTPUError, "scale_kernel", f"on {platform}", hint="lowering_platforms=('tpu',)"):
        program.lower(lowering_platforms=(platform,))


def test_tracing_alone_needs_no_tpu(scale: Any, cfg: Any, x: Any) -> None:
    assert "scale_kernel" in str(jax.make_jaxpr(lambda x: scale(x=x, cfg=cfg))(x))


def test_inside_control_flow(scale: Any, cfg: Any, x: Any, pallas_scale: Any, same: Any) -> None:
    def program(call: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def run(x: Any) -> Any:
            x, _ = jax.lax.scan(lambda carry, _: (call(carry), None), x, None, length=3)
            x = jax.lax.cond(x[0, 0] > 1, call, lambda x: x, x)
            return jax.lax.while_loop(lambda x: x[0, 0] < 100, call, x)

        return run

    same(program(lambda x: scale(x=x, cfg=cfg)), program(pallas_scale()), x)


def test_twice_in_a_program(scale: Any, cfg: Any, x: Any, pallas_scale: Any, same: Any) -> None:
    twin = pallas_scale()
    same(lambda x: scale(x=scale(x=x, cfg=cfg), cfg=cfg), lambda x: twin(twin(x)), x)


def test_each_config_of_a_program_keeps_its_own_body(scale: Any, x: Any, tpu_text: Any) -> None:
    configs = [scale.config(factor=factor) for factor in (0.0, -0.0, 1, 1.0)]
    text = tpu_text(lambda x: [scale(x=x, cfg=c) for c in configs], x)
    assert [call.body for call in pallas.calls_in(text)] == [scale.lower(c).body for c in configs]
    assert scale.lower(configs[0]).body != scale.lower(configs[1]).body


def test_with_a_donated_and_aliased_input(scale: Any, cfg: Any, x: Any, pallas_scale: Any, same_calls: Any) -> None:
    def lower(function: Any) -> str:
        return jax.jit(function, donate_argnums=0).trace(x).lower(lowering_platforms=("tpu",)).as_text()

    extras = CallExtras(output_operand_aliases={"y": "x"})
    ours = lower(lambda x: scale(x=x, cfg=cfg, extras=extras))
    same_calls(ours, lower(pallas_scale(input_output_aliases={0: 0})))
    assert "tf.aliasing_output" in ours
    assert "output_operand_alias" in ours


def test_64_bit_types_do_not_change_the_call(
    scale: Any, cfg: Any, x: Any, pallas_scale: Any, tpu_text: Any, same_calls: Any
) -> None:
    with jax.enable_x64(True):
        assert jnp.ones(2).dtype == jnp.float64
        ours = tpu_text(lambda x: scale(x=x, cfg=cfg), x)
    # Pallas itself takes the Python ints of index maps for i64 there, which the config of a kernel does not know.
    same_calls(ours, tpu_text(pallas_scale(), x))


def test_numpy_arrays_and_weakly_typed_ones(scale: Any, cfg: Any, tpu_text: Any) -> None:
    weak = jax.lax.full((16, 128), 2.0)
    assert TARGET in tpu_text(lambda: scale(x=np.ones((16, 128), np.float32), cfg=cfg))
    assert TARGET in tpu_text(lambda x: scale(x=x * 1.0, cfg=cfg), weak)


@pytest.mark.parametrize(
    ("effects", "calls"), [(SideEffects.PURE, 0), (SideEffects.DATAFLOW, 0), (SideEffects.SIDE_EFFECTING, 1)]
)
def test_an_unused_call_stays_if_it_has_side_effects(
    scale: Any, cfg: Any, x: Any, tpu_text: Any, effects: SideEffects, calls: int
) -> None:
    def program(x: Any) -> Any:
        scale(x=x, cfg=cfg, extras=CallExtras(side_effects=effects))
        return x + 1

    assert len(pallas.calls_in(tpu_text(program, x))) == calls


# --- export and platforms ------------------------------------------------------------------------------------------


def test_an_export_is_pallas_s_at_the_forward_compatible_version(
    scale: Any, cfg: Any, x: Any, pallas_scale: Any, same_calls: Any
) -> None:
    exported = jax.export.export(jax.jit(lambda x: scale(x=x, cfg=cfg)), platforms=["tpu"], disabled_checks=UNCHECKED)(
        x
    )
    ours = exported.mlir_module()
    same_calls(ours, pallas.lower_to_stablehlo(pallas_scale(), x, forward_compatible=True))
    [call] = pallas.calls_in(ours)
    assert call.ir_version == 15
    assert call.debug_locations is None
    assert b"test_call.py" not in call.body  # the kernel's lines, not its caller's
    assert b"conftest.py" in call.body


def test_an_export_may_be_saved_and_loaded(scale: Any, cfg: Any, x: Any) -> None:
    exported = jax.export.export(jax.jit(lambda x: scale(x=x, cfg=cfg)), platforms=["tpu"], disabled_checks=UNCHECKED)(
        x
    )
    loaded = jax.export.deserialize(exported.serialize())
    [call] = pallas.calls_in(loaded.mlir_module())
    assert levels.stripped(call.body) == levels.stripped(scale.lower(cfg).body)


@pytest.mark.parametrize("platforms", [["cpu"], ["tpu", "cpu"]])
def test_an_export_for_a_cpu_is_refused(scale: Any, cfg: Any, x: Any, raises: Any, platforms: list[str]) -> None:
    with raises(NoTPUError, "scale_kernel", "on cpu", "exported"):
        jax.export.export(jax.jit(lambda x: scale(x=x, cfg=cfg)), platforms=platforms, disabled_checks=UNCHECKED)(x)


@pytest.mark.parametrize("platform", ["cpu", "tpu"])
def test_a_program_may_choose_something_else_for_another_platform(scale: Any, cfg: Any, x: Any, platform: str) -> None:
    def program(x: Any) -> Any:
        return jax.lax.platform_dependent(x, tpu=lambda x: scale(x=x, cfg=cfg), default=lambda x: x * 2)

    text = jax.jit(program).trace(x).lower(lowering_platforms=(platform,)).as_text()
    assert len(pallas.calls_in(text)) == (platform == "tpu")


def test_a_program_for_several_platforms_at_once_is_refused_as_pallas_refuses_it(
    scale: Any, cfg: Any, x: Any, pallas_scale: Any, raises: Any
) -> None:
    with pytest.raises(ValueError, match="CPU"):
        jax.jit(pallas_scale()).trace(x).lower(lowering_platforms=("cpu", "tpu"))
    with raises(NoTPUError, "scale_kernel", "on cpu", hint="platform_dependent"):
        jax.jit(lambda x: scale(x=x, cfg=cfg)).trace(x).lower(lowering_platforms=("cpu", "tpu"))


# --- how often it is built -----------------------------------------------------------------------------------------


def test_tracing_lowering_and_looking_build_once(counted: Any, cfg: Any, x: Any, tpu_text: Any) -> None:
    kernel = counted.kernel
    for _ in range(3):
        tpu_text(lambda x: kernel(x=x, cfg=cfg), x)
        kernel.lower(cfg)
    assert counted.runs == 1
    kernel.lower(kernel.config(rows=32))
    assert counted.runs == 2


def test_a_cached_jit_does_not_ask_the_kernel(counted: Any, cfg: Any, x: Any) -> None:
    program = jax.jit(lambda x: counted.kernel(x=x, cfg=cfg))
    program.trace(x).lower(lowering_platforms=("tpu",))
    counted.kernel.clear_cache()
    program.trace(x).lower(lowering_platforms=("tpu",))
    assert counted.runs == 1


def test_an_eager_call_is_traced_once(counted: Any, cfg: Any, x: Any) -> None:
    from mosaic_tpu.kernel import _primitive

    before = _primitive._run_jitted._cache_size()
    call = _primitive.Call(counted.kernel, cfg, CallExtras())
    for _ in range(3):
        _primitive._run_jitted.trace(call, x)
    assert hash(call) == hash(_primitive.Call(counted.kernel, cfg, CallExtras()))
    assert call == _primitive.Call(counted.kernel, cfg, CallExtras())
    assert call != _primitive.Call(counted.kernel, counted.kernel.config(factor=3.0), CallExtras())
    assert counted.runs == 1
    assert _primitive._run_jitted._cache_size() == before
