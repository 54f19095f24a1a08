"""`CallExtras`: everything of a ``tpu_custom_call`` that is not the kernel's body."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, Literal

from mosaic_tpu.kernel.errors import ExtrasError

_SWITCHES: Final = (
    "disable_bounds_checks",
    "disable_semaphore_checks",
    "has_communication",
    "allow_collective_id_without_custom_barrier",
    "skip_device_barrier",
    "needs_layout_passes",
    "shape_invariant_numerics",
)
#: The least value of each.
_NUMBERS: Final = {"vmem_limit_bytes": 1, "collective_id": 0, "internal_scratch_in_bytes": 0, "serialization_format": 0}
_MAPPINGS: Final = (
    "output_operand_aliases",
    "metadata",
    "input_memory_spaces",
    "output_memory_spaces",
    "flags",
    "additional_attributes",
)
_INT64: Final = range(-(2**63), 2**63)
_FLAG_NAME: Final = re.compile(r"[A-Za-z_]\w*", re.ASCII)
#: What the call writes by itself.
_OWN_ATTRIBUTES: Final = frozenset(
    {
        "api_version",
        "backend_config",
        "call_target_name",
        "called_computations",
        "has_side_effect",
        "kernel_name",
        "mhlo.frontend_attributes",
        "operand_layouts",
        "output_operand_aliases",
        "result_layouts",
    }
)

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

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not _is_int(value):
                raise ExtrasError(f"{name}={value!r}", op="CostEstimate", hint="a non-negative int")


class FrozenMapping(Mapping[str, Any]):
    """A read-only mapping that can be hashed, so that extras can key caches."""

    def __init__(self, items: Mapping[str, Any]) -> None:
        self._items = dict(items)

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
        return repr(self._items)


@dataclass(frozen=True, kw_only=True)
class CallExtras:
    """Knobs of one call: Pallas's ``CompilerParams`` and the other arguments of ``pallas_call``.

    Inputs and outputs are named as the kernel's call names them.

    Attributes:
        vmem_limit_bytes: VMEM the kernel may use; the compiler's default if omitted.
        disable_bounds_checks: leave out the compiler's run-time bounds checks.
        disable_semaphore_checks: leave out the check that semaphores are zero at the end.
        has_communication: the kernel talks to other devices; also found from the body.
        collective_id: identifies the barrier semaphore among the program's kernels; required by `sem_barrier`, unless
            ``jax_pallas_auto_assign_collective_ids`` makes JAX choose one.
        allow_collective_id_without_custom_barrier: permit ``collective_id`` in a kernel without barrier.
        skip_device_barrier: leave out the barrier before a communicating kernel.
        cost_estimate: for XLA's scheduler.
        output_operand_aliases: output name → input name whose buffer it reuses.
        side_effects: what XLA may do when results are unused.
        metadata: strings attached to the call as ``kernel_metadata``. Pallas adds the mesh axes that a body names:
            ``metadata={"mesh_axes": '["x"]'}``.
        input_memory_spaces: input name → where XLA must place it; `pltpu.with_memory_space_constraint` works too.
        output_memory_spaces: output name → where XLA must place it.
        allow_input_fusion: inputs, by name, into which XLA may fuse their producer.
        internal_scratch_in_bytes: scratch that the compiler reserves.
        serialization_format: of the body; 1.
        flags: compiler flags of this kernel: booleans, ints or floats.
        needs_hlo_passes: run XLA's passes on the body; JAX's ``jax_mosaic_allow_hlo`` if omitted.
        needs_layout_passes: infer vector layouts; no effect, since TensorCore kernels always do, as in Pallas.
        shape_invariant_numerics: results do not depend on the shapes of blocks.
        additional_attributes: further string attributes of the custom call.
        kernel_name: shown in profiles; the kernel's own name if omitted.

    Raises:
        ExtrasError: a knob is of another kind, out of range, or contradicts another.

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
        for check in (self._check_switches, self._check_numbers, self._check_texts, self._check_spaces):
            check()
        for name in _MAPPINGS:
            if (value := getattr(self, name)) is not None:
                object.__setattr__(self, name, FrozenMapping(value))
        if self.allow_input_fusion is not None:
            object.__setattr__(self, "allow_input_fusion", frozenset(self.allow_input_fusion))

    def _check_switches(self) -> None:
        for name in _SWITCHES:
            if not isinstance(value := getattr(self, name), bool):
                raise _wrong(name, value, "True or False")
        if not isinstance(self.needs_hlo_passes, bool | None):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise _wrong("needs_hlo_passes", self.needs_hlo_passes, "True, False or None")
        if not isinstance(self.side_effects, SideEffects):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise _wrong("side_effects", self.side_effects, "SideEffects.PURE, .DATAFLOW or .SIDE_EFFECTING")

    def _check_numbers(self) -> None:
        for name, least in _NUMBERS.items():
            if (value := getattr(self, name)) is not None and not _is_int(value, least):
                raise _wrong(name, value, f"an int of at least {least}, or None")
        if not isinstance(self.cost_estimate, CostEstimate | None):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise _wrong(
                "cost_estimate", self.cost_estimate, "CostEstimate(flops=…, transcendentals=…, bytes_accessed=…)"
            )

    def _check_texts(self) -> None:
        for name in _MAPPINGS:
            if name == "flags" and self.flags is None:
                continue
            value: Any = getattr(self, name)
            if not issubclass(type(value), Mapping) or not all(isinstance(k, str) for k in value):
                raise _wrong(name, value, "a mapping from names")
            if name != "flags" and not all(isinstance(v, str) for v in value.values()):
                raise _wrong(name, dict(value), "a mapping from names to strings")
        for name, value in (self.flags or {}).items():
            if not _FLAG_NAME.fullmatch(name):
                raise ExtrasError(
                    f"{name!r} is not the name of a flag", op="CallExtras", hint="letters, digits and underscores"
                )
            if not isinstance(value, bool | int | float):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise ExtrasError(
                    f"flag {name!r} is {value!r}", op="CallExtras", hint="flags are booleans, ints or floats"
                )
            if isinstance(value, int) and value not in _INT64:
                raise ExtrasError(f"flag {name!r} is beyond 64 bits", op="CallExtras", hint="an int of 64 bits")
            if not math.isfinite(value):
                raise ExtrasError(
                    f"flag {name!r} is {value!r}", op="CallExtras", hint="a finite number: JSON has no other"
                )
        if "" in self.additional_attributes:
            raise ExtrasError("an additional attribute has no name", op="CallExtras", hint="name every attribute")
        if taken := sorted(_OWN_ATTRIBUTES & set(self.additional_attributes)):
            raise ExtrasError(f"the attribute {taken[0]!r} is the call's own", op="CallExtras", hint="use another name")
        if self.kernel_name is not None and (not isinstance(self.kernel_name, str) or not self.kernel_name):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise _wrong("kernel_name", self.kernel_name, "a string, or None for the kernel's own name")

    def _check_spaces(self) -> None:
        for where, spaces in (("input", self.input_memory_spaces), ("output", self.output_memory_spaces)):
            for name, space in spaces.items():
                if space not in ("hbm", "vmem", "smem", "host"):
                    raise ExtrasError(f"{where} {name!r} in {space!r}", op="CallExtras", hint="hbm, vmem, smem or host")
        sources = list(self.output_operand_aliases.values())
        if twice := sorted({s for s in sources if sources.count(s) > 1}):
            raise ExtrasError(
                f"two outputs reuse the buffer of {twice[0]!r}", op="CallExtras", hint="one output an input"
            )
        fused = self.allow_input_fusion
        if fused is not None and not isinstance(fused, frozenset | set | tuple | list):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise _wrong("allow_input_fusion", fused, "a set of input names")

    def check_names(self, op: str, inputs: tuple[str, ...], outputs: tuple[str, ...]) -> None:
        """Refuse extras that name an input or output the kernel does not have."""
        named = (
            ("output_operand_aliases", set(self.output_operand_aliases), outputs),
            ("output_operand_aliases", set(self.output_operand_aliases.values()), inputs),
            ("input_memory_spaces", set(self.input_memory_spaces), inputs),
            ("output_memory_spaces", set(self.output_memory_spaces), outputs),
            ("allow_input_fusion", set(self.allow_input_fusion or ()), inputs),
        )
        for which, used, known in named:
            if unknown := sorted(used - set(known)):
                raise ExtrasError(f"{which} names {unknown[0]!r}", op=op, hint=f"known names: {', '.join(known)}")


def _is_int(value: object, least: int = 0) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _wrong(name: str, value: object, hint: str) -> ExtrasError:
    return ExtrasError(f"{name}={value!r}", op="CallExtras", hint=hint)
