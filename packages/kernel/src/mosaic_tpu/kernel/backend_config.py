"""The JSON of a ``tpu_custom_call``'s ``backend_config``, key for key as Pallas writes it."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any, Final

from mosaic_tpu.builder import SerializedModule
from mosaic_tpu.kernel.errors import ExtrasError
from mosaic_tpu.kernel.extras import CallExtras, OperandSpace

_COLORS: Final = {"hbm": 0, "vmem": 1, "smem": 4, "host": 5}
_ONE_SPACE: Final = "give one memory space"


def compact_json(value: dict[str, Any]) -> str:
    """JSON with sorted keys, each on a line of its own, as the call's metadata is written."""
    return json.dumps(value, sort_keys=True, indent=0, separators=(",", ":"))


def backend_config(
    module: SerializedModule,
    extras: CallExtras,
    inputs: tuple[str, ...],
    outputs: tuple[str, ...],
    *,
    op: str,
    needs_hlo_passes: bool,
    collective_id: int | None,
    bounds: int = 0,
    constraints: Mapping[str, OperandSpace | None] | None = None,
) -> str:
    """The whole ``backend_config``.

    Args:
        module: the serialized body.
        extras: the call's knobs, with names already checked.
        inputs: names of the operands in order.
        outputs: names of the results in order.
        op: the kernel's name, for messages.
        needs_hlo_passes: JAX's ``jax_mosaic_allow_hlo`` at lowering time.
        collective_id: of the barrier semaphore, given or assigned.
        bounds: how many of the first operands are bounds of the grid.
        constraints: where the program around the call wants its operands.

    Raises:
        ExtrasError: ``collective_id`` is missing, or given without a barrier; an operand is placed in two memories.
    """
    check_collective_id(module, extras, collective_id, op)
    call: list[tuple[str, str]] = [("body", f'"{base64.b64encode(module.body).decode()}"')]

    def put(key: str, value: str | None) -> None:
        if value is not None:
            call.append((key, value))

    communicates = extras.has_communication or module.has_communication
    put("has_communication", "true" if communicates else None)
    put("collective_id", None if collective_id is None else str(collective_id))
    put("cost_estimate", None if extras.cost_estimate is None else compact_json(vars(extras.cost_estimate)))
    hlo = needs_hlo_passes if extras.needs_hlo_passes is None else extras.needs_hlo_passes
    put("needs_hlo_passes", "true" if hlo else None)
    put("serialization_format", None if extras.serialization_format is None else str(extras.serialization_format))
    put("needs_layout_passes", "true")  # whatever the extras say: vector layouts of TensorCore kernels are inferred
    put("shape_invariant_numerics", None if extras.shape_invariant_numerics else "false")
    put("allow_input_fusion", _fusion(extras, inputs[bounds:]))
    scratch = extras.internal_scratch_in_bytes
    put("internal_scratch_in_bytes", None if scratch is None else str(scratch))
    output_spaces, input_spaces = _memory_spaces(extras, inputs, outputs, constraints or {}, op)
    put("output_memory_space_colors", output_spaces)
    put("input_memory_space_colors", input_spaces)
    put("disable_bounds_checks", "true" if extras.disable_bounds_checks else None)
    put("disable_semaphore_checks", "true" if extras.disable_semaphore_checks else None)
    put("skip_device_barrier", "true" if extras.skip_device_barrier else None)
    if module.debug_locations:
        put("debug_locations", f'"{base64.b64encode(module.debug_locations).decode()}"')
    parts = ['"custom_call_config": {' + ", ".join(f'"{k}": {v}' for k, v in call) + "}"]
    if extras.vmem_limit_bytes is not None:
        size = extras.vmem_limit_bytes
        parts.append(f'"scoped_memory_configs": [{{"memory_space":1, "offset": 0, "size": {size}}}]')
    if extras.flags is not None:
        parts.append('"flag_configs": [' + ",".join(_flag(k, v) for k, v in extras.flags.items()) + "]")
    return "{" + ", ".join(parts) + "}"


def check_collective_id(module: SerializedModule, extras: CallExtras, collective_id: int | None, op: str) -> None:
    """The id is there where the kernel uses the barrier semaphore, and only there."""
    given = collective_id is not None
    if module.has_custom_barrier and not given:
        raise ExtrasError(
            "the kernel uses the barrier semaphore without a collective_id",
            op=op,
            hint="give CallExtras(collective_id=…), one number a barrier of the program",
        )
    if given and not module.has_custom_barrier and not extras.allow_collective_id_without_custom_barrier:
        raise ExtrasError("collective_id is given but the kernel uses no barrier semaphore", op=op, hint="leave it out")


def _fusion(extras: CallExtras, inputs: tuple[str, ...]) -> str | None:
    if extras.allow_input_fusion is None:
        return None
    return "[" + ",".join("true" if name in extras.allow_input_fusion else "false" for name in inputs) + "]"


def _memory_spaces(
    extras: CallExtras,
    inputs: tuple[str, ...],
    outputs: tuple[str, ...],
    constraints: Mapping[str, OperandSpace | None],
    op: str,
) -> tuple[str | None, str | None]:
    """Colors of results and operands; an aliased pair shares its space, as in Pallas."""
    into: dict[str, OperandSpace] = dict(extras.input_memory_spaces)
    out: dict[str, OperandSpace] = dict(extras.output_memory_spaces)
    for name, space in constraints.items():
        if space is not None and into.setdefault(name, space) != space:
            raise ExtrasError(f"{name!r} is constrained to {space} and placed in {into[name]}", op=op, hint=_ONE_SPACE)
    for output, source in extras.output_operand_aliases.items():
        joint: set[OperandSpace] = {s for s in (into.get(source), out.get(output)) if s is not None}
        if len(joint) > 1:
            placed = " and ".join(sorted(joint))
            raise ExtrasError(f"{source!r} and its alias {output!r} are placed in {placed}", op=op, hint=_ONE_SPACE)
        for space in joint:
            into[source] = out[output] = space
    many = len(outputs) > 1
    results = [
        f'{{"color":{_COLORS[out[name]]},"shape_index":[{i}]}}' if many else f'{{"color":{_COLORS[out[name]]}}}'
        for i, name in enumerate(outputs)
        if name in out
    ]
    # SMEM operands have no color: XLA never pages them out.
    operands = [
        f'{{"operand_index":{i},"color":{_COLORS[into[name]]}}}'
        for i, name in enumerate(inputs)
        if into.get(name) in ("hbm", "vmem")
    ]
    return (f"[{','.join(results)}]" if results else None, f"[{','.join(operands)}]" if operands else None)


def _flag(name: str, value: bool | int | float) -> str:
    if isinstance(value, bool):
        shown = f'"boolean_value": {"true" if value else "false"}'
    elif isinstance(value, int):
        shown = f'"integer_value": {value}'
    else:
        shown = f'"double_value": {value}'
    return f'{{"flag_type": "{name}", "value": {{{shown}}}}}'
