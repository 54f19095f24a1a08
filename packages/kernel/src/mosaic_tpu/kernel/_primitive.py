"""The JAX primitive behind every `Kernel`: a custom call on a TPU, simulated on a CPU, not transformed anywhere."""

from __future__ import annotations

import itertools
from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, NoReturn

import jax

from mosaic_tpu.builder import sanitize_name
from mosaic_tpu.kernel import _compat
from mosaic_tpu.kernel._build import Target
from mosaic_tpu.kernel._config import exact
from mosaic_tpu.kernel._options import Options
from mosaic_tpu.kernel._platforms import lower_to_simulator, refuse, simulate_eagerly
from mosaic_tpu.kernel.backend_config import backend_config, compact_json
from mosaic_tpu.kernel.errors import TransformationError
from mosaic_tpu.kernel.extras import CallExtras, SideEffects

if TYPE_CHECKING:
    from mosaic_tpu.kernel.kernel import Kernel

primitive: Final[Any] = _compat.Primitive("mosaic_tpu_kernel")
primitive.multiple_results = True


@dataclass(frozen=True, eq=False)
class Call:
    """What is called and how: the primitive's one parameter, by which JAX's caches tell calls apart."""

    kernel: Kernel[Any]
    cfg: Any
    extras: CallExtras
    #: How it is simulated, where it comes to run on a CPU.
    options: Options = ()
    #: Tells apart the calls of one program whose devices communicate: where they meet must not be shared.
    site: int = 0
    #: The same wherever the call stands and however it is simulated.
    body_key: Hashable = field(init=False)
    _key: Hashable = field(init=False)

    def __post_init__(self) -> None:
        name = self.kernel.name
        body_key = (self.kernel, exact(name, self.cfg), exact(name, self.extras, "extras"))
        object.__setattr__(self, "body_key", body_key)
        object.__setattr__(self, "_key", (body_key, self.options, self.site))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Call) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        return f"{self.kernel.name}({self.cfg!r})"

    @property
    def communicates(self) -> bool:
        """Whether the kernel talks to other devices."""
        return self.extras.has_communication or self.kernel.communicates(self.cfg)

    @property
    def aliases(self) -> dict[int, int]:
        """Which input's buffer becomes which output's, by number."""
        inputs, outputs = self.kernel.inputs, self.kernel.outputs
        named = self.extras.output_operand_aliases.items()
        return {inputs.index(source): outputs.index(output) for output, source in named}


_sites: Final = itertools.count(1)


def bind(call: Call, operands: tuple[Any, ...]) -> list[Any]:
    """Apply the primitive to operands in the kernel's order."""
    if call.communicates and _compat.is_staged(operands):
        call = replace(call, site=next(_sites))
    return primitive.bind(*operands, call=call)


def _run(call: Call, *operands: Any) -> list[Any]:
    return bind(call, operands)


#: Eager calls compile once per call and shapes, as jitted ones do.
_run_jitted: Final[Any] = _compat.jit(_run, static_argnums=0)


@primitive.def_impl
def _impl(*operands: Any, call: Call) -> Any:  # pyright: ignore[reportUnusedFunction]
    device = _compat.eager_device(operands)
    with jax.disable_jit(False):  # under disable_jit this would come back here
        if device is not None and device.platform == "cpu":
            # Not through a callback: so the simulator's own errors reach the caller.
            return _compat.place(simulate_eagerly(call, operands), operands, device)
        return _run_jitted(call, *operands)


@primitive.def_abstract_eval
def _abstract_eval(*operands: Any, call: Call) -> list[Any]:  # pyright: ignore[reportUnusedFunction]
    return [_compat.result_aval(o.shape, o.dtype.numpy, operands) for o in call.kernel.outputs_of(call.cfg)]


def _lower_tpu(context: Any, *operands: Any, call: Call) -> Any:
    kernel, extras = call.kernel, call.extras
    built = kernel.build(call.cfg, Target(*_compat.target_of(context)))
    _compat.refuse_partitioning(
        context, kernel.name, communicates=extras.has_communication or built.module.has_communication
    )
    config = backend_config(
        built.module,
        extras,
        kernel.inputs,
        kernel.outputs,
        op=kernel.name,
        bounds=built.bounds,
        needs_hlo_passes=_compat.allow_hlo(),
        collective_id=_compat.collective_id(context, built.module, extras),
        constraints={n: _compat.memory_space(a) for n, a in zip(kernel.inputs, context.avals_in, strict=True)},
    )
    frontend = {"kernel_metadata": compact_json(dict(extras.metadata))}
    if extras.side_effects is SideEffects.DATAFLOW:
        frontend["xla_allow_dce_side_effecting_op"] = "true"
    attributes = {
        **_compat.string_attributes(dict(extras.additional_attributes)),
        **_compat.string_attributes({"kernel_name": sanitize_name(extras.kernel_name or kernel.name)}),
        "mhlo.frontend_attributes": _compat.dict_attribute(frontend),
    }
    return _compat.custom_call(
        context,
        operands,
        backend_config=config,
        has_side_effect=extras.side_effects is not SideEffects.PURE,
        aliases=call.aliases,
        attributes=attributes,
    )


def _keep_side_effects(used: list[bool], equation: Any) -> tuple[list[bool], Any]:
    """JAX's own dead-code elimination, before XLA sees the call, obeys `SideEffects` too."""
    effects = equation.params["call"].extras.side_effects
    if not any(used) and effects is not SideEffects.SIDE_EFFECTING:
        return [False] * len(equation.invars), None
    return [True] * len(equation.invars), equation


def _refuse_vmap(*_: Any, call: Call) -> NoReturn:
    raise TransformationError(
        "vmap cannot look into a kernel",
        op=call.kernel.name,
        hint="add a leading grid dimension to the kernel, or map one by one with jax.lax.map",
    )


def _refuse_derivative(*_: Any, call: Call) -> NoReturn:
    raise TransformationError(
        "a kernel has no derivative", op=call.kernel.name, hint="define one with jax.custom_vjp around the call"
    )


_compat.register_lowering(primitive, refuse)
_compat.register_lowering(primitive, lower_to_simulator, platform="cpu")
_compat.register_lowering(primitive, _lower_tpu, platform="tpu")
_compat.register_dce(primitive, _keep_side_effects)
_compat.refuse_batching(primitive, _refuse_vmap)
_compat.refuse_derivatives(primitive, _refuse_derivative)
