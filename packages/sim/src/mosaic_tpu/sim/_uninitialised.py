"""Outputs that hold, or depend on, memory that was never written."""

from __future__ import annotations

from mosaic_tpu.sim._effects import root_of
from mosaic_tpu.sim._layout import Layout
from mosaic_tpu.sim._memory import Array, is_floating, poisoned, words
from mosaic_tpu.sim._module import Module, Operation
from mosaic_tpu.sim._options import Options
from mosaic_tpu.sim._outputs import part_of
from mosaic_tpu.sim._reference import Outcome
from mosaic_tpu.sim._registry import WAITS, WRITES
from mosaic_tpu.sim.errors import HazardError, UndefinedResultError, UninitializedError, UnwrittenOutputError


def _outputs(module: Module, outcome: Outcome) -> list[tuple[int, int, str]]:
    """Device, index and name of every output that does not start as an input."""
    names = [a.name for a in outcome.layout.role("output")]
    return [
        (d, i, names[i]) for d in range(len(outcome.outputs)) for i in range(len(names)) if i not in module.call.aliases
    ]


def doubtful(module: Module, outcome: Outcome, options: Options) -> bool:
    """Whether an output holds the pattern, which may be a number like any other, or a NaN, which may come of it."""
    arrays = [outcome.outputs[d][i] for d, i, _ in _outputs(module, outcome)]
    return any(poisoned(a, options.fill).any() or _has_nan(a) for a in arrays)


def _has_nan(array: Array) -> bool:
    return is_floating(array.dtype) and bool((array != array).any())


def unwritten(module: Module, outcome: Outcome, again: Outcome | None, options: Options) -> dict[str, int]:
    """How many elements of each output were never written; a hazard, unless that is allowed."""
    found: dict[str, int] = {}
    for d, i, name in _outputs(module, outcome):
        array = outcome.outputs[d][i]
        mask = poisoned(array, options.fill)
        if again is not None:
            mask &= poisoned(again.outputs[d][i], again.machine.options.fill)
        count = int(mask.sum())
        if not count:
            continue
        found[name] = found.get(name, 0) + count
        if not options.may_be_unwritten(name):
            part = part_of(outcome, d, i, mask)
            error = UnwrittenOutputError(
                f"{part.text} were never written, or copied from memory that was not, the first at {list(part.first)}",
                **part.where,
                related=_stray(outcome),
            )
            outcome.machine.hazard(error, _writer(module, outcome.layout, name), None)
    return found


def _writer(module: Module, layout: Layout, name: str) -> Operation:
    """The first op that writes an output, or the kernel's function if none does."""
    arguments = module.kernel.arguments
    places = {a.name: v for a, v in zip(layout.arguments, arguments[-len(layout.arguments) :], strict=True)}
    for op in module.kernel.operation.walk():
        if op.name in WRITES - WAITS and any(
            root_of(o) == places[name].index for o in op.operands if o.type.kind == "memref"
        ):
            return op
    return module.kernel.operation


def compare(module: Module, outcome: Outcome, again: Outcome, options: Options, *, asked: bool) -> bool:
    """Whether the outputs depend on what uninitialised memory holds, a hazard; partial ones only if that was asked."""
    found = False
    names = [a.name for a in outcome.layout.role("output")]
    for d, arrays in enumerate(outcome.outputs):
        for i, array in enumerate(arrays):
            if not asked and options.may_be_unwritten(names[i]):
                continue
            other = again.outputs[d][i]
            mask = words(array) != words(other)
            if not outcome.machine.doubts or options.may_be_unwritten(names[i]):
                mask &= ~(
                    poisoned(array, options.fill) & poisoned(other, again.machine.options.fill)
                )  # nobody wrote there
            if not mask.any():
                continue
            part = part_of(outcome, d, i, mask)
            if outcome.machine.doubts:
                _undefined(outcome, part.text)
                return True
            error: HazardError = UninitializedError(
                f"{part.text} depend on what uninitialised memory holds, the first at {list(part.first)}: "
                f"{array[part.first]} in one run, {other[part.first]} in the other",
                **part.where,
                related=_stray(outcome),
            )
            outcome.machine.hazard(error, _writer(module, outcome.layout, names[i]), None)
            found = True
    return found


def _stray(outcome: Outcome) -> str | None:
    """The first load that made what nobody had written."""
    machine = outcome.machine
    for number, what in machine.strays.items():
        op = machine.module.operations[number]
        return f"{op.name} at {machine.module.line(op) or 'an unknown line'} {what}"
    return None


def _undefined(outcome: Outcome, what: str) -> None:
    """An output depends on an undefined result: the first one's op is to blame."""
    number, why = next(iter(outcome.machine.doubts.items()))
    error = UndefinedResultError(f"{why}, and {what} depend on the result")
    outcome.machine.hazard(error, outcome.machine.module.operations[number], None)
