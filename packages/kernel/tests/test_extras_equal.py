"""Every knob of Pallas's custom call has one here, and writes the same line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from mosaic_tpu.builder import Builder, Ref, Role, Scalar, SemArray, f32, i32
from mosaic_tpu.kernel import CallExtras, CostEstimate, Kernel, SideEffects

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*device_id_type:DeprecationWarning", "ignore:.*DeviceIdType:DeprecationWarning"
)

type Same = Callable[..., None]

PARAMETERS: list[tuple[CallExtras, dict[str, Any]]] = [
    (CallExtras(vmem_limit_bytes=32 << 20), {"vmem_limit_bytes": 32 << 20}),
    (CallExtras(disable_bounds_checks=True), {"disable_bounds_checks": True}),
    (CallExtras(disable_semaphore_checks=True), {"disable_semaphore_checks": True}),
    (CallExtras(skip_device_barrier=True), {"skip_device_barrier": True}),
    (
        CallExtras(collective_id=3, allow_collective_id_without_custom_barrier=True),
        {"collective_id": 3, "allow_collective_id_without_custom_barrier": True},
    ),
    (
        CallExtras(collective_id=0, allow_collective_id_without_custom_barrier=True),
        {"collective_id": 0, "allow_collective_id_without_custom_barrier": True},
    ),
    (CallExtras(side_effects=SideEffects.PURE), {"has_side_effects": False}),
    (CallExtras(side_effects=SideEffects.SIDE_EFFECTING), {"has_side_effects": True}),
    (
        CallExtras(side_effects=SideEffects.SIDE_EFFECTING),
        {"has_side_effects": pltpu.SideEffectType.SIDE_EFFECTING},
    ),
    (
        CallExtras(side_effects=SideEffects.DATAFLOW),
        {"has_side_effects": pltpu.SideEffectType.DATAFLOW_SIDE_EFFECTING},
    ),
    (CallExtras(allow_input_fusion=frozenset({"x"})), {"allow_input_fusion": [True]}),
    (CallExtras(allow_input_fusion=frozenset()), {"allow_input_fusion": [False]}),
    (CallExtras(internal_scratch_in_bytes=4096), {"internal_scratch_in_bytes": 4096}),
    (CallExtras(serialization_format=2), {"serialization_format": 2}),
    (CallExtras(serialization_format=None), {"serialization_format": None}),
    (CallExtras(flags={"a_switch": True, "off": False}), {"flags": {"a_switch": True, "off": False}}),
    (
        CallExtras(flags={"an_int": 3, "a_float": 1.5, "small": 1e-9}),
        {"flags": {"an_int": 3, "a_float": 1.5, "small": 1e-9}},
    ),
    (CallExtras(flags={}), {"flags": {}}),
    (CallExtras(shape_invariant_numerics=False), {"shape_invariant_numerics": False}),
    (CallExtras(needs_layout_passes=False), {"needs_layout_passes": False}),
    (CallExtras(needs_layout_passes=True), {"needs_layout_passes": True}),
    (
        CallExtras(
            vmem_limit_bytes=1 << 20,
            disable_bounds_checks=True,
            disable_semaphore_checks=True,
            skip_device_barrier=True,
            allow_input_fusion=frozenset({"x"}),
            internal_scratch_in_bytes=8,
            shape_invariant_numerics=False,
            flags={"f": 1},
        ),
        {
            "vmem_limit_bytes": 1 << 20,
            "disable_bounds_checks": True,
            "disable_semaphore_checks": True,
            "skip_device_barrier": True,
            "allow_input_fusion": [True],
            "internal_scratch_in_bytes": 8,
            "shape_invariant_numerics": False,
            "flags": {"f": 1},
        },
    ),
]

ARGUMENTS: list[tuple[CallExtras, dict[str, Any]]] = [
    (CallExtras(), {}),
    (
        CallExtras(cost_estimate=CostEstimate(flops=7, transcendentals=1, bytes_accessed=99)),
        {"cost_estimate": pl.CostEstimate(flops=7, transcendentals=1, bytes_accessed=99)},
    ),
    (
        CallExtras(cost_estimate=CostEstimate(1, 2, 3, remote_bytes_transferred=4)),
        {"cost_estimate": pl.CostEstimate(1, 2, 3, remote_bytes_transferred=4)},
    ),
    (CallExtras(output_operand_aliases={"y": "x"}), {"input_output_aliases": {0: 0}}),
    (CallExtras(metadata={"b": "2", "a": 'quo"te\n'}), {"metadata": {"b": "2", "a": 'quo"te\n'}}),
    (CallExtras(metadata={}), {"metadata": {}}),
    (CallExtras(output_memory_spaces={"y": "hbm"}), {"out_shape": pltpu.HBM((16, 128), jnp.float32)}),
    (CallExtras(output_memory_spaces={"y": "vmem"}), {"out_shape": pltpu.VMEM((16, 128), jnp.float32)}),
    (CallExtras(output_memory_spaces={"y": "smem"}), {"out_shape": pltpu.SMEM((16, 128), jnp.float32)}),
    (
        CallExtras(output_memory_spaces={"y": "hbm"}, output_operand_aliases={"y": "x"}),
        {"out_shape": pltpu.HBM((16, 128), jnp.float32), "input_output_aliases": {0: 0}},
    ),
]


def _name(value: Any) -> str:
    if isinstance(value, CallExtras):
        default = CallExtras()
        return "+".join(k for k, v in vars(value).items() if v != getattr(default, k)) or "default"
    return ""


@pytest.mark.parametrize(("extras", "parameters"), PARAMETERS, ids=_name)
def test_a_compiler_parameter_writes_pallas_s_line(
    scale: Any, cfg: Any, x: Any, pallas_scale: Any, same: Same, extras: Any, parameters: Any
) -> None:
    twin = pallas_scale(compiler_params=pltpu.CompilerParams(**parameters))
    same(lambda x: scale(x=x, cfg=cfg, extras=extras), twin, x)


@pytest.mark.parametrize(("extras", "arguments"), ARGUMENTS, ids=_name)
def test_an_argument_of_pallas_call_writes_pallas_s_line(
    scale: Any, cfg: Any, x: Any, pallas_scale: Any, same: Same, extras: Any, arguments: Any
) -> None:
    same(lambda x: scale(x=x, cfg=cfg, extras=extras), pallas_scale(**arguments), x)


def test_a_kernel_is_called_what_pallas_call_s_name_says(
    scale: Any, cfg: Any, x: Any, pallas_scale: Any, same: Same
) -> None:
    named = Kernel("another <name>!", scale.config, inputs=("x",), outputs=("y",), run=scale.run)
    same(lambda x: named(x=x, cfg=cfg), pallas_scale(name="another <name>!"), x)


def test_profiles_may_show_another_name_than_the_body_s(scale: Any, cfg: Any) -> None:
    plain, renamed = scale.lower(cfg), scale.lower(cfg, extras=CallExtras(kernel_name="layer <3>"))
    assert plain.body == renamed.body
    assert renamed.custom_call_line == plain.custom_call_line.replace(
        'kernel_name = "scale_kernel"', 'kernel_name = "layer__3_"'
    )


@pytest.mark.parametrize("space", ["HBM", "VMEM", "SMEM"])
@pytest.mark.parametrize("aliased", [False, True])
def test_an_operand_s_memory_space_may_be_an_extra(
    scale: Any, cfg: Any, x: Any, pallas_scale: Any, same: Same, space: str, aliased: bool
) -> None:
    constrain = pltpu.with_memory_space_constraint
    twin = pallas_scale(**({"input_output_aliases": {0: 0}} if aliased else {}))
    extras = CallExtras(input_memory_spaces={"x": space.lower()}, output_operand_aliases={"y": "x"} if aliased else {})
    same(
        lambda x: scale(x=x, cfg=cfg, extras=extras),
        lambda x: twin(constrain(x, getattr(pltpu, space))),
        x,
    )


@pytest.mark.parametrize("space", ["HBM", "VMEM", "SMEM"])
def test_an_operand_s_memory_space_may_be_a_constraint_of_the_program(
    scale: Any, cfg: Any, x: Any, pallas_scale: Any, same: Same, space: str
) -> None:
    def constrain(x: Any) -> Any:
        return pltpu.with_memory_space_constraint(x, getattr(pltpu, space))

    same(lambda x: scale(x=constrain(x), cfg=cfg), lambda x: pallas_scale()(constrain(x)), x)


def test_hlo_passes_follow_jax_s_setting(scale: Any, cfg: Any, x: Any, pallas_scale: Any, same: Same) -> None:
    from jax._src import config

    with config.jax_mosaic_allow_hlo(True):
        same(lambda x: scale(x=x, cfg=cfg), pallas_scale(), x)
        assert scale.lower(cfg).config["custom_call_config"]["needs_hlo_passes"] is True
    assert "needs_hlo_passes" not in scale.lower(cfg).config["custom_call_config"]
    extras = CallExtras(needs_hlo_passes=True)
    assert scale.lower(cfg, extras=extras).config["custom_call_config"]["needs_hlo_passes"] is True


def test_a_kernel_without_a_grid(same: Same) -> None:
    def add_kernel(b: Builder, cfg: int) -> None:
        ref = Ref((cfg, 128), f32)
        a = b.declare_args({"x": ref, "y": ref, "z": Ref((cfg, 128), f32, role=Role.OUTPUT)})
        x = a.x[...]
        a.z[...] = x + a.y[...]

    def twin(x: Any, y: Any) -> Any:
        def add_kernel(x_ref: Any, y_ref: Any, z_ref: Any) -> None:
            z_ref[...] = x_ref[...] + y_ref[...]

        return pl.pallas_call(add_kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x, y)

    add = Kernel("add_kernel", int, inputs=("x", "y"), outputs=("z",), run=add_kernel)
    x = jnp.ones((8, 128))
    same(lambda x, y: add(x=x, y=y, cfg=8), twin, x, x)


def split_kernel(b: Builder, cfg: int) -> None:
    whole, out = Ref((cfg, 128), f32), Ref((cfg, 128), f32, role=Role.OUTPUT)
    a = b.declare_args({"x": whole, "y": whole, "p": out, "q": out})
    a.p[...] = a.x[...]
    a.q[...] = a.y[...]


def split_twin(x: Any, y: Any, **options: Any) -> Any:
    def split_kernel(x_ref: Any, y_ref: Any, p_ref: Any, q_ref: Any) -> None:
        p_ref[...] = x_ref[...]
        q_ref[...] = y_ref[...]

    shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
    options = {"out_shape": (shape, shape)} | options
    return pl.pallas_call(split_kernel, **options)(x, y)


@pytest.mark.parametrize(
    ("extras", "options"),
    [
        (CallExtras(), {}),
        (CallExtras(output_operand_aliases={"p": "x"}), {"input_output_aliases": {0: 0}}),
        (CallExtras(output_operand_aliases={"q": "x", "p": "y"}), {"input_output_aliases": {0: 1, 1: 0}}),
        (CallExtras(output_operand_aliases={"p": "y", "q": "x"}), {"input_output_aliases": {1: 0, 0: 1}}),
        (
            CallExtras(allow_input_fusion=frozenset({"y"})),
            {"compiler_params": pltpu.CompilerParams(allow_input_fusion=[False, True])},
        ),
        (
            CallExtras(output_memory_spaces={"q": "hbm"}),
            {"out_shape": (jax.ShapeDtypeStruct((8, 128), jnp.float32), pltpu.HBM((8, 128), jnp.float32))},
        ),
        (
            CallExtras(output_memory_spaces={"p": "vmem", "q": "hbm"}),
            {"out_shape": (pltpu.VMEM((8, 128), jnp.float32), pltpu.HBM((8, 128), jnp.float32))},
        ),
        (
            CallExtras(output_memory_spaces={"q": "hbm"}, output_operand_aliases={"q": "x"}),
            {
                "out_shape": (jax.ShapeDtypeStruct((8, 128), jnp.float32), pltpu.HBM((8, 128), jnp.float32)),
                "input_output_aliases": {0: 1},
            },
        ),
    ],
    ids=_name,
)
def test_several_inputs_and_outputs(same: Same, extras: CallExtras, options: Any) -> None:
    split = Kernel("split_kernel", int, inputs=("x", "y"), outputs=("p", "q"), run=split_kernel)
    x = jnp.ones((8, 128))
    same(lambda x, y: split(x=x, y=y, cfg=8, extras=extras), lambda x, y: split_twin(x, y, **options), x, x)


def test_scalar_prefetch_operands_come_first(same: Same) -> None:
    from mosaic_tpu.builder import MemorySpace, Window

    def pick_kernel(b: Builder, cfg: int) -> None:
        picked = Window((8, 128), index_map=lambda i, order: (order[i], 0))
        placed = Window((8, 128), index_map=lambda i, order: (i, 0))
        a = b.declare_args(
            {
                "i": Scalar(i32),
                "order": Ref((cfg,), i32, memory_space=MemorySpace.SMEM, role=Role.SCALAR_PREFETCH),
                "x": Ref((8, 128), f32, window=picked, array_shape=(8 * cfg, 128)),
                "y": Ref((8, 128), f32, role=Role.OUTPUT, window=placed, array_shape=(8 * cfg, 128)),
            },
            grid=(cfg,),
        )
        a.y[...] = a.x[...]

    def twin(order: Any, x: Any) -> Any:
        def pick_kernel(order_ref: Any, x_ref: Any, y_ref: Any) -> None:
            y_ref[...] = x_ref[...]

        spec = pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1,
            grid=(4,),
            in_specs=[pl.BlockSpec((8, 128), lambda i, order: (order[i], 0))],
            out_specs=pl.BlockSpec((8, 128), lambda i, order: (i, 0)),
        )
        aliases = {1: 0}
        return pl.pallas_call(
            pick_kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), grid_spec=spec, input_output_aliases=aliases
        )(order, x)

    pick = Kernel("pick_kernel", int, inputs=("order", "x"), outputs=("y",), run=pick_kernel)
    extras = CallExtras(output_operand_aliases={"y": "x"})
    order, x = jnp.zeros(4, jnp.int32), jnp.ones((32, 128))
    same(lambda order, x: pick(order=order, x=x, cfg=4, extras=extras), twin, order, x)


def send_kernel(b: Builder, cfg: int) -> None:
    """Send `x` to the device `cfg`; with a barrier first if `cfg` is odd."""
    any_space = "any"
    a = b.declare_args(
        {
            "x": Ref((8, 128), f32, memory_space=any_space),
            "y": Ref((8, 128), f32, memory_space=any_space, role=Role.OUTPUT),
            "send": SemArray(()),
            "receive": SemArray(()),
        }
    )
    if cfg % 2:
        b.pallas.semaphore_wait(b.sem_barrier(), 1)
    copy = b.pallas.async_remote_copy(a.x, a.y, a.send, a.receive, cfg)
    copy.start()


def send_twin(x: Any, cfg: int, **parameters: Any) -> Any:
    def send_kernel(x_ref: Any, y_ref: Any, send: Any, receive: Any) -> None:
        if cfg % 2:
            pl.semaphore_wait(pltpu.get_barrier_semaphore(), 1)
        pltpu.make_async_remote_copy(
            x_ref, y_ref, send, receive, device_id=cfg, device_id_type=pl.DeviceIdType.LOGICAL
        ).start()

    any_space = pl.BlockSpec(memory_space=pl.ANY)
    return pl.pallas_call(
        send_kernel,
        in_specs=[any_space],
        out_specs=any_space,
        scratch_shapes=[pltpu.SemaphoreType.DMA, pltpu.SemaphoreType.DMA],
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        compiler_params=pltpu.CompilerParams(**parameters),
    )(x)


@pytest.fixture
def send() -> Kernel[int]:
    return Kernel("send_kernel", int, inputs=("x",), outputs=("y",), run=send_kernel)


def test_communication_is_found_in_the_body(send: Any, same: Same) -> None:
    x = jnp.ones((8, 128))
    same(lambda x: send(x=x, cfg=2), lambda x: send_twin(x, 2), x)
    assert send.lower(2).config["custom_call_config"]["has_communication"] is True


def test_communication_may_be_claimed(scale: Any, cfg: Any) -> None:
    extras = CallExtras(has_communication=True)
    assert scale.lower(cfg, extras=extras).config["custom_call_config"]["has_communication"] is True


def test_a_barrier_takes_its_collective_id(send: Any, same: Same) -> None:
    x = jnp.ones((8, 128))
    extras = CallExtras(collective_id=5)
    same(lambda x: send(x=x, cfg=1, extras=extras), lambda x: send_twin(x, 1, collective_id=5), x)


@pytest.mark.parametrize("mode", ["yes", "override"])
def test_a_barrier_s_collective_id_may_be_left_to_jax(send: Any, same: Same, mode: str) -> None:
    from jax._src import config

    extras = CallExtras(collective_id=5)

    def ours(x: Any) -> Any:
        return send(x=x, cfg=1, extras=extras), send(x=x, cfg=3)

    def theirs(x: Any) -> Any:
        return send_twin(x, 1, collective_id=5), send_twin(x, 3)

    with config.jax_pallas_auto_assign_collective_ids(mode):
        same(ours, theirs, jnp.ones((8, 128)))
