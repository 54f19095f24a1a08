"""The JAX primitive behind every `Kernel`: one custom call on a TPU, refused transformations elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NoReturn

from mosaic_tpu.kernel import _compat
from mosaic_tpu.kernel._build import Target
from mosaic_tpu.kernel.backend_config import backend_config, compact_json
from mosaic_tpu.kernel.errors import NoTPUError, TransformationError
from mosaic_tpu.kernel.extras import CallExtras, SideEffects

if TYPE_CHECKING:
    from mosaic_tpu.kernel.kernel import Kernel

primitive: Final[Any] = _compat.Primitive("mosaic_tpu_kernel")
primitive.multiple_results = True


def bind(kernel: Kernel[Any], cfg: Any, extras: CallExtras, operands: tuple[Any, ...]) -> list[Any]:
    """Apply the primitive to operands in the kernel's order."""
    return primitive.bind(*operands, kernel=kernel, cfg=cfg, extras=extras)


@primitive.def_abstract_eval
def _abstract_eval(*operands: Any, kernel: Kernel[Any], cfg: Any, extras: CallExtras) -> list[Any]:  # pyright: ignore[reportUnusedFunction]
    del extras
    return [_compat.result_aval(o.shape, o.dtype.numpy, operands) for o in kernel.outputs_of(cfg)]


@primitive.def_impl
def _impl(*operands: Any, **params: Any) -> Any:  # pyright: ignore[reportUnusedFunction]
    import jax

    return jax.jit(lambda *args: primitive.bind(*args, **params))(*operands)


def _lower_tpu(context: Any, *operands: Any, kernel: Kernel[Any], cfg: Any, extras: CallExtras) -> Any:
    target = Target(*_compat.target_of(context))
    built = kernel.build(cfg, target)
    _compat.refuse_partitioning(
        context, kernel.name, communicates=extras.has_communication or built.module.has_communication
    )
    config = backend_config(
        built.module, extras, kernel.inputs, kernel.outputs, needs_hlo_passes=_compat.allow_hlo()
    )
    frontend = {"kernel_metadata": compact_json(dict(extras.metadata))}
    if extras.side_effects is SideEffects.DATAFLOW:
        frontend["xla_allow_dce_side_effecting_op"] = "true"
    attributes = {
        **_compat.string_attributes({"kernel_name": extras.kernel_name or kernel.name}),
        **_compat.string_attributes(dict(extras.additional_attributes)),
        "mhlo.frontend_attributes": _compat.dict_attribute(frontend),
    }
    aliases = {
        kernel.inputs.index(source): kernel.outputs.index(output)
        for output, source in extras.output_operand_aliases.items()
    }
    return _compat.custom_call(
        context,
        operands,
        backend_config=config,
        has_side_effect=extras.side_effects is not SideEffects.PURE,
        aliases=aliases,
        attributes=attributes,
    )


def _lower_elsewhere(context: Any, *operands: Any, kernel: Kernel[Any], cfg: Any, extras: CallExtras) -> NoReturn:
    platforms = ", ".join(context.module_context.platforms)
    raise NoTPUError(f"the kernel would run on {platforms}, and only TPUs run Mosaic kernels", op=kernel.name)


def _refuse_vmap(*_: Any, kernel: Kernel[Any], **__: Any) -> NoReturn:
    raise TransformationError(
        "vmap cannot look into a kernel",
        op=kernel.name,
        hint="add a leading grid dimension to the kernel, or map one by one with jax.lax.map",
    )


def _refuse_jvp(*_: Any, kernel: Kernel[Any], **__: Any) -> NoReturn:
    raise TransformationError(
        "a kernel has no derivative",
        op=kernel.name,
        hint="define one with jax.custom_vjp around the call",
    )


_compat.mlir.register_lowering(primitive, _lower_elsewhere)
_compat.mlir.register_lowering(primitive, _lower_tpu, platform="tpu")
_compat.batching.primitive_batchers[primitive] = _refuse_vmap
_compat.ad.primitive_jvps[primitive] = _refuse_jvp
_compat.ad.primitive_transposes[primitive] = _refuse_jvp
