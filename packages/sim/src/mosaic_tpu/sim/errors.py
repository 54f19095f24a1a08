"""Every error of the simulator: one class per cause.

A hazard is something the kernel does that a TPU would not forgive; it names the op, the line of the kernel's source,
the buffer, the device, and the seed of the schedule in which it was seen.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import ClassVar


class ModuleError(Exception):
    """Base of errors about a module: of this package, and of others that read modules with `mosaic_tpu.sim.ir`.

    Attributes:
        summary: what was wrong, one sentence.
        op: the MLIR op, ``"tpu.enqueue_dma"``, or the function that refused.
        location: ``"file.py:12"`` of the kernel's source, if the module says it.
        hint: what to do next.
    """

    default_hint: ClassVar[str]
    #: What else a message shows, between place and hint: a label for each attribute.
    shown: ClassVar[Mapping[str, str]] = {}

    def __init__(
        self, summary: str, *, op: str | None = None, location: str | None = None, hint: str | None = None
    ) -> None:
        self.summary = summary
        self.op = op
        self.location = location
        self.hint = hint or self.default_hint
        super().__init__(summary)

    def __str__(self) -> str:
        lines = [f"{self.op}: {self.summary}" if self.op else self.summary]
        shown = {"at": "location", **self.shown, "hint": "hint"}
        facts = {label: getattr(self, name) for label, name in shown.items()}
        return "\n".join([*lines, *(f"  {label}: {fact}" for label, fact in facts.items() if fact is not None)])

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), self.summary, {k: v for k, v in vars(self).items() if k != "summary"})


def _rebuild(cls: type[ModuleError], summary: str, facts: dict[str, object]) -> ModuleError:
    error = cls(summary)
    vars(error).update(facts)
    return error


class SimulationError(ModuleError):
    """Base of all errors of the simulator.

    Attributes:
        summary: what was wrong, one sentence.
        op: the MLIR op, ``"tpu.enqueue_dma"``, or the function that refused.
        location: ``"file.py:12"`` of the kernel's source, if the module says it.
        hint: what to do next.
        buffer: the buffer or semaphore concerned, ``"x_vmem (vmem f32[8, 128])"``.
        device: ``"device 1"`` or ``"device 1, core 0"``, where there are several.
        step: ``"(0, 3)"``, the grid indices of the step in which it was first seen, where there are several.
        seed: of the schedule.
        related: another place that matters: ``"the DMA was started by tpu.enqueue_dma at file.py:9"``.
    """

    default_hint = "see help(mosaic_tpu.sim.simulate)"
    shown = MappingProxyType(
        {"buffer": "buffer", "where": "device", "grid step": "step", "related": "related", "seed": "seed"}
    )

    def __init__(
        self,
        summary: str,
        *,
        op: str | None = None,
        location: str | None = None,
        hint: str | None = None,
        buffer: str | None = None,
        device: str | None = None,
        step: str | None = None,
        seed: int | None = None,
        related: str | None = None,
    ) -> None:
        self.buffer = buffer
        self.device = device
        self.step = step
        self.seed = seed
        self.related = related
        super().__init__(summary, op=op, location=location, hint=hint)


class MissingJaxError(SimulationError, ImportError):
    """Part of a run needs JAX, and it is not installed."""

    default_hint = "pip install jax"


# --- what was handed in ------------------------------------------------------------------------------------------


class ModuleFormatError(SimulationError, ValueError):
    """This is not a Mosaic module that the installed jaxlib can read."""

    default_hint = "give MLIR text or bytecode of a Mosaic module, a kernel, or a lowered JAX function with one"


class UnsupportedOpError(SimulationError, NotImplementedError):
    """The module uses something that the engine has no rule for."""

    default_hint = "mosaic_tpu.sim.coverage() lists the ops each engine runs"


class InputError(SimulationError, ValueError):
    """An array, a shape, a dtype or an option does not fit the module."""

    default_hint = "give the arrays the custom call takes: bounds of a dynamic grid, scalar prefetch, inputs"


class LimitError(SimulationError, TimeoutError):
    """The run exceeded its wall-clock or step limit."""

    default_hint = "raise timeout or max_steps, if the kernel is not in an endless loop"


class InternalError(SimulationError, RuntimeError):
    """The simulator failed where it should have given an answer or another error."""

    default_hint = "please report this, with the module"


# --- what the kernel does ----------------------------------------------------------------------------------------


class HazardError(SimulationError):
    """Base of what a TPU would not forgive."""


class ReadBeforeWaitError(HazardError):
    """Memory is read that a DMA still in flight writes."""

    default_hint = "wait for the DMA before reading what it copies"


class WriteToDestinationError(HazardError):
    """Memory is written that a DMA still in flight writes too."""

    default_hint = "wait for the DMA before writing to its destination"


class WriteToSourceError(HazardError):
    """Memory is written that a DMA still in flight reads."""

    default_hint = "wait for the DMA before changing what it copies"


class MissingWaitError(HazardError):
    """A DMA was started and nobody waited for it."""

    default_hint = "wait for every DMA before the kernel, or the scope of its buffers, ends"


class WaitWithoutDMAError(HazardError):
    """A wait for a DMA that was never started: the TPU would hang."""

    default_hint = "start the DMA first, and wait on the semaphore it signals"


class DoubleWaitError(HazardError):
    """A second wait for the same DMA: the TPU would hang."""

    default_hint = "wait once for each DMA"


class SemaphoreImbalanceError(HazardError):
    """A semaphore is not zero when the kernel, or the semaphore's scope, ends."""

    default_hint = "wait for as much as is signalled"


class DeadlockError(HazardError):
    """Every core waits, and nothing is left that could signal."""

    default_hint = "look for a signal that is missing, or sent to another device"


class OutOfBoundsError(HazardError, IndexError):
    """An access reaches outside its buffer."""

    default_hint = "clamp the index, or mask what lies outside"


class UnwrittenOutputError(HazardError):
    """Elements of an output were never written."""

    default_hint = (
        "write every element; where nobody reads them, say allow_unwritten=True to the simulation, or "
        "partial_outputs to the Kernel"
    )


class RaceError(HazardError):
    """Two cores or devices use the same memory with nothing that orders them."""

    default_hint = "order them with a semaphore"


class SlotReuseRaceError(RaceError):
    """A remote DMA overwrites what its receiver may not have finished with."""

    default_hint = "have the receiver signal that the slot is free, and wait for that before sending"


class MissingReceiveWaitError(RaceError):
    """Memory that a remote DMA writes is used without waiting for its arrival."""

    default_hint = "wait on the receive semaphore before using what arrives"


class MissingEntryBarrierError(RaceError):
    """A device is written to, or signalled, before it is known to have entered the kernel."""

    default_hint = "meet the neighbours at the barrier semaphore before the first remote DMA"


class UndefinedResultError(HazardError, ArithmeticError):
    """An op whose result is undefined: a shift past the width, an integer division by zero …."""

    default_hint = "guard the operand"


class UninitializedError(HazardError):
    """The outputs depend on what uninitialised memory holds."""

    default_hint = "initialise the scratch or output memory that is read before it is written"


class KernelAssertionError(HazardError, AssertionError):
    """An assertion in the kernel does not hold."""

    default_hint = "look at the values it tests: with collect=True the trace says what came before"
