"""Whether a kernel's module is what the rules and the VMEM model take for granted.

MLIR's verifier does not look into the attributes of a kernel's function: these are checked here, once, when a kernel is
read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mosaic_tpu.aot.errors import SourceError
from mosaic_tpu.sim import ir
from mosaic_tpu.sim.errors import SimulationError

if TYPE_CHECKING:
    from mosaic_tpu.aot._lint._subject import Subject

_ATTRIBUTES: Final = (
    "look at iteration_bounds, scalar_prefetch, scratch_operands and window_params of the kernel's function"
)
_ELEMENTS: Final = "refs have elements like i32, i8, bf16, f32 and f8E4M3FN"
_WINDOWS: Final = "look at window_params of the kernel's function, and at the functions that it names"


def checked(subject: Subject) -> Subject:
    """The same kernel: its arguments have roles, its windows index maps that fit, its refs element types.

    Raises:
        SourceError: it is not so.
    """
    try:
        problem, hint = _miscount(subject.module), _ATTRIBUTES
        arguments = () if problem else subject.layout.arguments
    except SimulationError as error:
        raise SourceError(error.summary, op=subject.name, hint=_ATTRIBUTES) from None
    except (LookupError, TypeError, ValueError):
        summary = "the attributes of the kernel's function cannot be read: they are not of the form that Pallas writes"
        raise SourceError(summary, op=subject.name, hint=_ATTRIBUTES) from None
    if problem is None:
        problem, hint = next(filter(None, (_mismatch(subject, a) for a in arguments)), None), _WINDOWS
    if problem is None:
        problem, hint = _unknown_element(subject.module), _ELEMENTS
    if problem is not None:
        raise SourceError(problem, op=subject.name, hint=hint)
    return subject


def _miscount(module: ir.Module) -> str | None:
    """What is wrong with the numbers of operands, if the attributes do not add up to the arguments."""
    attributes, arguments = module.kernel.attributes, module.kernel.arguments
    prefetch, scratch = (attributes.integer(name, 0) for name in ("scalar_prefetch", "scratch_operands"))
    steps = sum(1 for a in arguments[: len(attributes.integers("iteration_bounds"))] if a.type.kind == "scalar")
    windows, left = len(attributes.array("window_params")), len(arguments) - steps - prefetch - scratch
    if min(prefetch, scratch) >= 0 and left >= 1 and windows in (0, left):
        return None
    return (
        f"of {len(arguments)} arguments {steps} are grid indices, scalar_prefetch is {prefetch} and scratch_operands "
        f"{scratch}: that leaves {f'{left} for {windows} windows' if left > 0 else 'no output'}"
    )


def _mismatch(subject: Subject, argument: ir.Argument) -> str | None:
    """What does not fit between a window, its index map and its array."""
    window, array = argument.window, subject.array_of(argument)
    if window is None or window.transform is None:
        return None
    function, rank = subject.module.functions.get(window.transform), len(window.bounds)
    if function is None or not function.operation.regions or not function.body.operations:
        return f"the index map of {argument.name}, @{window.transform}, is not in the module"
    indices = len(function.body.terminator.operands)
    if indices != rank:
        return f"the index map of {argument.name}, @{window.transform}, returns {indices} indices for {rank} dimensions"
    if min(window.bounds, default=1) < 1:
        return f"the window of {argument.name} has no elements: {'×'.join(map(str, window.bounds))}"
    if array is not None and len(array) != rank:
        return f"the array behind {argument.name} has {len(array)} dimensions, its window {rank}"
    return None


def _unknown_element(module: ir.Module) -> str | None:
    """What is wrong with the element type of a ref, if that is not a semaphore."""
    ops = list(module.kernel.operation.walk())
    values = [v for op in ops for v in (*op.results, *(a for region in op.regions for a in region.arguments))]
    found = {v.type.element for v in values if v.type.kind == "memref" and not v.type.is_semaphore}
    for element in sorted(found):
        try:
            _ = element.startswith("!") or ir.bits_of(element)
        except SimulationError as error:
            return error.summary
    return None
