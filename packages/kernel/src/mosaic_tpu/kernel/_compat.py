"""Everything the factory takes from JAX beyond its public API, and every difference between JAX releases.

========================================  =================================================================
name                                      why, and what replaces it if it moves
========================================  =================================================================
``tpu_custom_call.get_ir_version``        the IR version Pallas picks for this lowering; else: forward
                                          compatible without a TPU or under export, newest otherwise
``cloud_tpu_init.is_libtpu_at_least``     0.12: whether the TPU compiler reads moved locations; else True
``config.jax_mosaic_unzip_…``             0.12: whether locations leave the body; absent before
``config.jax_mosaic_allow_hlo``           whether XLA's passes run on the body; else False
``config.jax_pallas_auto_assign_…``       whether missing collective ids are assigned; else "no"
``…module_context.pallas_collective_…``   the ids taken in a program; else: none are assigned
``sharding_impls`` axis contexts          to refuse automatic partitioning as Pallas does; else: no guard
``aval.memory_space``                     `pltpu.with_memory_space_constraint`; else: by extras only
``ShapedArray.manual_axis_type``          how a result varies under shard_map; else: check_vma=False
``mlir.emit_python_callback``             semi-public: a callback that gets NumPy arrays; `jax.pure_callback` puts
                                          them on a device first, which can wait for the very thread it is in
``LoweringParameters.for_export``         an export cannot hold a callback; else: JAX's own error
``jax.interpreters.{ad,batching,…}``      semi-public: rules of a primitive of our own
========================================  =================================================================
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NoReturn, cast

import jax
import jax.extend
import numpy as np
from jax._src import cloud_tpu_init, sharding_impls, tpu_custom_call
from jax._src import config as jax_config
from jax.extend.core import Primitive as Primitive
from jax.interpreters import ad, batching, mlir, partial_eval

from mosaic_tpu.kernel.errors import PartitioningError

if TYPE_CHECKING:
    from mosaic_tpu.builder import SerializedModule
    from mosaic_tpu.kernel.extras import CallExtras, OperandSpace

_mlir: Final[Any] = mlir
_ad: Final[Any] = ad
_jax: Final[Any] = jax
_backend: Final[Any] = jax.extend.backend
_config: Final[Any] = jax_config
#: JAX's own annotations are partial: what they lose is `Any` here.
jit: Final[Any] = _jax.jit
ShapedArray: Final[Any] = _jax.core.ShapedArray
Tracer: Final[Any] = _jax.core.Tracer
user_context: Final[Any] = _jax.make_user_context


def target_of(context: Any) -> tuple[int | None, bool, str | None]:
    """The fields of a `Target`, exactly as Pallas decides in this lowering."""
    return (
        tpu_custom_call.get_ir_version(context),
        _unzips() and not context.is_forward_compat(),
        _config.hlo_source_file_canonicalization_regex.value,
    )


class _Ambient:
    """What a lowering that is not exported would tell `get_ir_version` on this machine."""

    @property
    def module_context(self) -> _Ambient:
        return self

    def get_backend(self, *, optional: bool) -> Any:
        del optional
        backend = _backend.get_backend()
        return backend if backend.platform == "tpu" else None

    def is_forward_compat(self) -> bool:
        return False


def ambient_target() -> tuple[int | None, bool, str | None]:
    """The same outside of a lowering: by whether a TPU is attached."""
    return target_of(_Ambient())


def _unzips() -> bool:
    """0.12: by ``jax_mosaic_unzip_debug_locations``, if the TPU compiler of this machine understands it."""
    setting = getattr(_config, "jax_mosaic_unzip_debug_locations", None)
    return setting is not None and bool(setting.value) and cloud_tpu_init.is_libtpu_at_least("0.0.50")


def allow_hlo() -> bool:
    """JAX's ``jax_mosaic_allow_hlo``."""
    return bool(_config.jax_mosaic_allow_hlo.value)


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


def collective_id(context: Any, module: SerializedModule, extras: CallExtras) -> int | None:
    """The barrier's id: the given one, or one that ``jax_pallas_auto_assign_collective_ids`` asks JAX for.

    Ids are registered in the program being lowered, so that those which Pallas assigns in it are others.
    """
    mode = str(_config.jax_pallas_auto_assign_collective_ids.value)
    given = None if mode == "override" else extras.collective_id
    if not module.has_custom_barrier and given is None:
        return None
    ids = context.module_context.pallas_collective_id_mapping
    key = ("module", hash(module.body), extras.skip_device_barrier)
    if given is not None:
        ids.register_manual_id(key, given)
    elif mode != "no":
        given, _ = ids.get_or_allocate_id(key)
    return given


def memory_space(aval: Any) -> OperandSpace | None:
    """Where `pltpu.with_memory_space_constraint` wants an operand."""
    found = str(getattr(aval, "memory_space", ""))
    return cast("OperandSpace", found) if found in ("hbm", "vmem", "smem") else None


def assigns_collective_ids() -> bool:
    """Whether JAX chooses the ids of barriers."""
    return str(_config.jax_pallas_auto_assign_collective_ids.value) != "no"


def register_lowering(primitive: Any, rule: Any, platform: str | None = None) -> None:
    """A rule for one platform, or for all that have none."""
    _mlir.register_lowering(primitive, rule, platform=platform)


def register_dce(primitive: Any, rule: Callable[[list[bool], Any], tuple[list[bool], Any]]) -> None:
    """A rule for dead-code elimination: which results are used, and the equation."""

    def with_live_inputs(used: list[bool], *rest: Any) -> tuple[list[bool], Any]:
        return rule(used, rest[-1])  # 0.12 passes which inputs are live, 0.11 does not

    partial_eval.dce_rules[primitive] = with_live_inputs


def refuse_batching(primitive: Any, rule: Callable[..., NoReturn]) -> None:
    """What vmap meets."""
    batching.primitive_batchers[primitive] = rule


def refuse_derivatives(primitive: Any, rule: Callable[..., NoReturn]) -> None:
    """What grad, jvp and linearize meet."""
    _ad.primitive_jvps[primitive] = rule
    _ad.primitive_transposes[primitive] = rule


def custom_call(
    context: Any,
    operands: tuple[Any, ...],
    *,
    backend_config: str,
    has_side_effect: bool,
    aliases: dict[int, int],
    attributes: dict[str, Any],
) -> Any:
    """Emit the ``tpu_custom_call`` through `jax.ffi.ffi_lowering`, row-major operands and results.

    A kernel holds booleans as i32: around the call they are converted, as Pallas does it.
    """
    given, taken = context.avals_in, context.avals_out
    in_memory = context.replace(
        avals_in=[_in_memory(aval) for aval in given], avals_out=[_in_memory(aval) for aval in taken]
    )
    if any(aval.dtype == np.bool_ for aval in given):
        operands = _converted(context.replace(avals_out=in_memory.avals_in), in_memory.avals_in, operands)
    rule = _jax.ffi.ffi_lowering(
        "tpu_custom_call",
        backend_config=backend_config,
        api_version=1,
        has_side_effect=has_side_effect,
        operand_output_aliases=aliases,
        extra_attributes=attributes,
    )
    results = rule(in_memory, *operands)
    if any(aval.dtype == np.bool_ for aval in taken):
        results = _converted(context.replace(avals_in=in_memory.avals_out), taken, results)
    return results


def _in_memory(aval: Any) -> Any:
    return aval.update(dtype=np.dtype(np.int32)) if aval.dtype == np.bool_ else aval


def _converted(context: Any, avals: Any, values: Any) -> Any:
    def convert(*arrays: Any) -> list[Any]:
        return [a.astype(aval.dtype) for a, aval in zip(arrays, avals, strict=True)]

    return _mlir.lower_fun(convert)(context, *values)


def callback(
    context: Any, operands: tuple[Any, ...], function: Callable[..., tuple[Any, ...]], *, has_side_effect: bool
) -> Any:
    """Emit a call of ``function(device, *operands)`` with NumPy arrays and the device's number in the mesh."""
    device = _mlir.ir.Operation.create("stablehlo.partition_id", [_mlir.ir.Type.parse("tensor<ui32>")]).result
    avals_in = [ShapedArray((), np.uint32), *context.avals_in]
    results, _, _ = _mlir.emit_python_callback(
        replace(context, avals_in=avals_in),
        function,
        None,
        [device, *operands],
        avals_in,
        context.avals_out,
        has_side_effect=has_side_effect,
        returns_token=False,
    )
    return results


def is_staged(operands: tuple[Any, ...]) -> bool:
    """Whether a call becomes part of a larger program, rather than being run by itself."""
    return any(isinstance(o, partial_eval.DynamicJaxprTracer) for o in operands)


def device_count(context: Any) -> int:
    """How many devices run the program."""
    axis_context = context.module_context.axis_context
    return axis_context.mesh.size if isinstance(axis_context, sharding_impls.SPMDAxisContext) else 1


def is_for_this_process(context: Any) -> bool:
    """Whether the program is for CPUs alone, and not to be exported: such a one may call back."""
    exported = getattr(context.module_context.lowering_parameters, "for_export", False)
    return tuple(context.module_context.platforms) == ("cpu",) and not exported


def eager_device(operands: tuple[Any, ...]) -> Any:
    """The one device on which JAX would run an eager call, or ``None``: several, or whatever a mesh around says."""
    if not jax.sharding.get_abstract_mesh().empty:
        return None
    arrays = [o for o in operands if isinstance(o, jax.Array)]
    if not all(isinstance(a.sharding, jax.sharding.SingleDeviceSharding) for a in arrays):
        return None
    committed = {device for a in arrays if a.committed for device in a.devices()}
    if len(committed) > 1:
        return None
    return committed.pop() if committed else _default_device()


def _default_device() -> Any:
    found = _jax.config.jax_default_device
    if found is None:
        return _jax.local_devices()[0]
    return _jax.local_devices(backend=found)[0] if isinstance(found, str) else found


def place(results: tuple[Any, ...], operands: tuple[Any, ...], device: Any) -> list[Any]:
    """Results of an eager call, on its device; committed to it if an operand is."""
    committed = any(isinstance(o, jax.Array) and o.committed for o in operands)
    return [_jax.device_put(r, device) if committed else _jax.device_put(r) for r in results]


def string_attributes(values: dict[str, str]) -> dict[str, Any]:
    """MLIR string attributes in the current lowering's context."""
    return {key: _mlir.ir.StringAttr.get(value) for key, value in values.items()}


def dict_attribute(values: dict[str, str]) -> Any:
    """An MLIR dictionary of strings."""
    return _mlir.ir.DictAttr.get(string_attributes(values))


def no_mesh() -> AbstractContextManager[Any]:
    """On one device, whatever mesh `jax.set_mesh` has put around."""
    if jax.sharding.get_abstract_mesh().empty:
        return nullcontext()
    return _jax.set_mesh(
        _jax.make_mesh((1,), ("alone",), axis_types=(jax.sharding.AxisType.Auto,), devices=_jax.devices()[:1])
    )


def result_aval(shape: tuple[int, ...], dtype: Any, operands: tuple[Any, ...]) -> Any:
    """The abstract value of a result; under shard_map it varies over the axes that the operands vary over."""
    mesh: Any = jax.sharding.get_abstract_mesh()
    if mesh.empty:
        return ShapedArray(shape, dtype)
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(*(None,) * len(shape)))
    kinds: list[Any] = [o.manual_axis_type for o in operands]
    varying: set[Any] = set()
    for kind in kinds:
        varying |= kind.varying
    if not varying:
        return ShapedArray(shape, dtype, sharding=sharding)
    return ShapedArray(shape, dtype, sharding=sharding, manual_axis_type=type(kinds[0])(varying=frozenset(varying)))
