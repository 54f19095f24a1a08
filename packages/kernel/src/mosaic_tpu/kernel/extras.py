"""`CallExtras`: everything of a ``tpu_custom_call`` that is not the kernel's body."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import Enum
from types import MappingProxyType
from typing import Any, Literal

from mosaic_tpu.kernel.errors import ExtrasError

type Flag = bool | int | float
type OperandSpace = Literal["hbm", "vmem", "smem", "host"]


class SideEffects(Enum):
    """What XLA may do with a call whose results are unused."""

    #: Remove or deduplicate it.
    PURE = "pure"
    #: Remove it, but not deduplicate it.
    DATAFLOW = "dataflow_side_effecting"
    #: Neither.
    SIDE_EFFECTING = "side_effecting"


@dataclass(frozen=True)
class CostEstimate:
    """What the call costs, for XLA's scheduler.

    Attributes:
        flops: floating-point operations.
        transcendentals: exponentials, logarithms and the like.
        bytes_accessed: bytes read and written in HBM.
        remote_bytes_transferred: bytes sent to other devices.
    """

    flops: int
    transcendentals: int
    bytes_accessed: int
    remote_bytes_transferred: int = 0


class _Frozen(Mapping[str, Any]):
    """A read-only mapping that can be hashed, so that extras can key caches."""

    def __init__(self, items: Mapping[str, Any]) -> None:
        self._items = MappingProxyType(dict(items))

    def __getitem__(self, key: str) -> Any:
        return self._items[key]

    def __iter__(self) -> Any:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __hash__(self) -> int:
        return hash(tuple(self._items.items()))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mapping) and list(self.items()) == list(other.items())  # pyright: ignore[reportUnknownArgumentType,reportUnknownVariableType]

    def __repr__(self) -> str:
        return repr(dict(self._items))


@dataclass(frozen=True, kw_only=True)
class CallExtras:
    """Knobs of one call: Pallas's ``CompilerParams`` and the other arguments of ``pallas_call``.

    Attributes:
        vmem_limit_bytes: VMEM the kernel may use; the compiler's default if omitted.
        disable_bounds_checks: leave out the compiler's run-time bounds checks.
        disable_semaphore_checks: leave out the check that semaphores are zero at the end.
        has_communication: the kernel talks to other devices; also found from the body.
        collective_id: identifies the barrier semaphore among the program's kernels; required by `sem_barrier`.
        allow_collective_id_without_custom_barrier: permit ``collective_id`` in a kernel without barrier.
        skip_device_barrier: leave out the barrier before a communicating kernel.
        cost_estimate: for XLA's scheduler.
        output_operand_aliases: output name → input name whose buffer it reuses.
        side_effects: what XLA may do when results are unused.
        metadata: strings attached to the call as ``kernel_metadata``.
        input_memory_spaces: input name → where XLA must place it.
        output_memory_spaces: output name → where XLA must place it.
        allow_input_fusion: inputs, by name, into which XLA may fuse their producer.
        internal_scratch_in_bytes: scratch that the compiler reserves.
        serialization_format: of the body; 1.
        flags: compiler flags of this kernel: booleans, ints or floats.
        needs_hlo_passes: run XLA's passes on the body; JAX's ``jax_mosaic_allow_hlo`` if omitted.
        needs_layout_passes: infer vector layouts; TensorCore kernels always do.
        shape_invariant_numerics: results do not depend on the shapes of blocks.
        additional_attributes: further string attributes of the custom call.
        kernel_name: shown in profiles; the kernel's own name if omitted.

    Example:
        >>> CallExtras(vmem_limit_bytes=64 << 20).vmem_limit_bytes
        67108864
    """

    vmem_limit_bytes: int | None = None
    disable_bounds_checks: bool = False
    disable_semaphore_checks: bool = False
    has_communication: bool = False
    collective_id: int | None = None
    allow_collective_id_without_custom_barrier: bool = False
    skip_device_barrier: bool = False
    cost_estimate: CostEstimate | None = None
    output_operand_aliases: Mapping[str, str] = field(default_factory=dict[str, str])
    side_effects: SideEffects = SideEffects.PURE
    metadata: Mapping[str, str] = field(default_factory=dict[str, str])
    input_memory_spaces: Mapping[str, OperandSpace] = field(default_factory=dict[str, OperandSpace])
    output_memory_spaces: Mapping[str, OperandSpace] = field(default_factory=dict[str, OperandSpace])
    allow_input_fusion: frozenset[str] | None = None
    internal_scratch_in_bytes: int | None = None
    serialization_format: int | None = 1
    flags: Mapping[str, Flag] | None = None
    needs_hlo_passes: bool | None = None
    needs_layout_passes: bool = True
    shape_invariant_numerics: bool = True
    additional_attributes: Mapping[str, str] = field(default_factory=dict[str, str])
    kernel_name: str | None = None

    def __post_init__(self) -> None:
        for f in fields(self):
            value = getattr(self, f.name)
            if isinstance(value, Mapping):
                object.__setattr__(self, f.name, _Frozen(value))  # pyright: ignore[reportUnknownArgumentType]
        limit = self.vmem_limit_bytes
        if limit is not None and (not isinstance(limit, int) or isinstance(limit, bool) or limit <= 0):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ExtrasError(f"vmem_limit_bytes={limit!r}", hint="a positive int of bytes, or None")
        for name, value in (self.flags or {}).items():
            if not isinstance(value, bool | int | float):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise ExtrasError(f"flag {name!r} is {value!r}", hint="flags are booleans, ints or floats")
        for where, spaces in (("input", self.input_memory_spaces), ("output", self.output_memory_spaces)):
            for name, space in spaces.items():
                if space not in ("hbm", "vmem", "smem", "host"):
                    raise ExtrasError(f"{where} {name!r} in {space!r}", hint="hbm, vmem, smem or host")

    def check_names(self, inputs: tuple[str, ...], outputs: tuple[str, ...]) -> None:
        """Refuse extras that name an input or output the kernel does not have."""
        named = (
            ("output_operand_aliases", set(self.output_operand_aliases), outputs),
            ("output_operand_aliases", set(self.output_operand_aliases.values()), inputs),
            ("input_memory_spaces", set(self.input_memory_spaces), inputs),
            ("output_memory_spaces", set(self.output_memory_spaces), outputs),
            ("allow_input_fusion", set(self.allow_input_fusion or ()), inputs),
        )
        for which, used, known in named:
            unknown = sorted(used - set(known))
            if unknown:
                raise ExtrasError(f"{which} names {unknown[0]!r}", hint=f"known names: {', '.join(known)}")
