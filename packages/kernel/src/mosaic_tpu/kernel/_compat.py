"""Everything the factory takes from JAX beyond its public API, and every difference between JAX releases.

=====================================  ====================================================================
name                                   why, and what replaces it if it moves
=====================================  ====================================================================
``tpu_custom_call.get_ir_version``     the IR version Pallas picks for this lowering; else: forward
                                       compatible without a TPU backend or under export, newest otherwise
``config.jax_mosaic_allow_hlo``        whether XLA's passes run on the body; else False
``config.jax_mosaic_unzip_…``          0.12: whether locations leave the body; absent before
``sharding_impls`` axis contexts       to refuse automatic partitioning as Pallas does; else: no guard
``jax.interpreters.{ad,batching,…}``   semi-public: rules of a primitive of our own
=====================================  ====================================================================
"""

from __future__ import annotations

from typing import Any, Final

import jax
from jax._src import config as jax_config
from jax._src import sharding_impls, tpu_custom_call
from jax.extend.core import Primitive as Primitive
from jax.interpreters import ad as ad
from jax.interpreters import batching as batching
from jax.interpreters import mlir as mlir

from mosaic_tpu.kernel.errors import PartitioningError

_mlir: Final[Any] = mlir
ShapedArray: Final[Any] = jax.core.ShapedArray  # pyright: ignore[reportAttributeAccessIssue]


def target_of(context: Any) -> tuple[int | None, bool]:
    """IR version and whether to move locations out of the body, exactly as Pallas decides in this lowering."""
    version = tpu_custom_call.get_ir_version(context)
    return version, _unzip_configured() and not context.is_forward_compat()


def ambient_target() -> tuple[int | None, bool]:
    """The same outside of a lowering: by whether a TPU is attached."""
    key = "latest" if _has_tpu() else "forward"
    version = None if key == "latest" else getattr(tpu_custom_call, "_FWD_COMPAT_VERSION", None)
    return version, _unzip_configured()


_tpu_found: list[bool] = []


def _has_tpu() -> bool:
    if not _tpu_found:
        _tpu_found.append(jax.default_backend() == "tpu")
    return _tpu_found[0]


def _unzip_configured() -> bool:
    holder = getattr(jax_config, "jax_mosaic_unzip_debug_locations", None)
    return bool(holder is not None and holder.value)


def allow_hlo() -> bool:
    """JAX's ``jax_mosaic_allow_hlo``."""
    return bool(jax_config.jax_mosaic_allow_hlo.value)  # pyright: ignore[reportAttributeAccessIssue]


def refuse_partitioning(context: Any, name: str, *, communicates: bool) -> None:
    """Raise where JAX would partition the call over devices by itself."""
    axis_context = context.module_context.axis_context
    summary = "Mosaic kernels cannot be automatically partitioned"
    if isinstance(axis_context, sharding_impls.SPMDAxisContext):
        manual = axis_context.manual_axes | set(axis_context.mesh.manual_axes)
        if axis_context.manual_axes and manual != frozenset(axis_context.mesh.axis_names):
            raise PartitioningError(summary, op=name)
    elif isinstance(axis_context, sharding_impls.ShardingContext):
        if axis_context.num_devices != 1:
            raise PartitioningError(summary, op=name)
    elif communicates:
        raise PartitioningError("a communicating kernel cannot be lowered for replicas", op=name)


def custom_call(
    context: Any,
    operands: tuple[Any, ...],
    *,
    backend_config: str,
    has_side_effect: bool,
    aliases: dict[int, int],
    attributes: dict[str, Any],
) -> Any:
    """Emit the ``tpu_custom_call`` through `jax.ffi.ffi_lowering`, row-major operands and results."""
    rule: Any = jax.ffi.ffi_lowering(
        "tpu_custom_call",
        backend_config=backend_config,
        api_version=1,
        has_side_effect=has_side_effect,
        operand_output_aliases=aliases,
        extra_attributes=attributes,
    )
    return rule(context, *operands)


def string_attributes(values: dict[str, str]) -> dict[str, Any]:
    """MLIR string attributes in the current lowering's context."""
    return {key: _mlir.ir.StringAttr.get(value) for key, value in values.items()}


def dict_attribute(values: dict[str, str]) -> Any:
    """An MLIR dictionary of strings."""
    return _mlir.ir.DictAttr.get(string_attributes(values))


def result_aval(shape: tuple[int, ...], dtype: Any, operands: tuple[Any, ...]) -> Any:
    """The abstract value of a result; under shard_map it varies over the axes that the operands vary over."""
    kinds = [k for k in (getattr(o, "manual_axis_type", None) for o in operands) if k is not None]
    varying: frozenset[Any] = frozenset().union(*(k.varying for k in kinds))
    if not varying:
        return ShapedArray(shape, dtype)
    return ShapedArray(shape, dtype, manual_axis_type=type(kinds[0])(varying=varying))
