"""A simulated core: what the generated code of a kernel asks for while it runs."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, Final, NoReturn

import numpy as np

from mosaic_tpu.sim._dma import DMA, Leg
from mosaic_tpu.sim._machine import Blocked, Machine, Run
from mosaic_tpu.sim._memory import Array, Buffer, Clock, Semaphore, new_array, poison, poisoned, semaphores
from mosaic_tpu.sim._races import Access, History, race
from mosaic_tpu.sim._record import Started, Waited
from mosaic_tpu.sim._types import Type
from mosaic_tpu.sim.errors import (
    HazardError,
    KernelAssertionError,
    MissingEntryBarrierError,
    MissingWaitError,
    OutOfBoundsError,
    ReadBeforeWaitError,
    UndefinedResultError,
    WriteToDestinationError,
    WriteToSourceError,
)

_BARRIER: Final = ("barrier", ())


class Core:
    """One core of one device: its memory, its semaphores, and what it knows of the others."""

    def __init__(self, machine: Machine, device: int, index: int) -> None:
        self.machine = machine
        self.device = device
        self.index = index
        self.name = f"device {device}" + (f", core {index}" if machine.options.cores > 1 else "")
        self.buffers: dict[object, Buffer] = {}
        self.semaphores: dict[object, Semaphore] = {}
        self.clock: Clock | None = {self: 1} if machine.several else None
        self.counts: list[int] = []
        self.program: Callable[[], Run] | None = None
        self.used: dict[str, int] = {}
        self.peak: dict[str, int] = {}
        self.operations = machine.module.operations
        self.checks = machine.options.checks
        self.tick = machine.tick
        self.random: Any = None
        self.grid: tuple[int, ...] = ()
        self.step: tuple[int, ...] | None = None
        self.mxus: dict[int, Any] = {}

    # --- the run -----------------------------------------------------------------------------------------------------

    def run(self) -> Run:
        """Enter the kernel, and run its grid."""
        if self.clock is not None and self.checks:
            self._enter()
        assert self.program is not None
        yield from self.program()
        if self.checks and self.mxus:
            self._check_mxus()

    def _check_mxus(self) -> None:
        """Nothing may be left in the MXUs."""
        for mxu in self.mxus.values():
            if (what := mxu.leftovers()) is not None:
                error = UndefinedResultError(what, hint="pop every accumulator, and load every operand that is staged")
                self.machine.hazard(error, None, self)

    def _enter(self) -> None:
        """Whoever used this device's memory before now did not know that it had entered."""
        assert self.clock is not None
        for buffer in self.buffers.values():
            if buffer.history is not None and buffer.device == self.device:
                self._record(buffer, Access(self, self.clock[self], None, True, None, "entry", self))

    # --- memory ------------------------------------------------------------------------------------------------------

    def reserve(self, space: str, size: int) -> None:
        """Count memory in use, in bytes."""
        now = self.used[space] = self.used.get(space, 0) + size
        if now > self.peak.get(space, 0):
            self.peak[space] = now

    def allocate(self, number: int, type_: Type) -> Any:
        """Memory of a scope: a `Buffer`, or an array of semaphores."""
        key = ("alloca", number)
        born = 1 if self.clock is None else self.clock[self]
        name = f"scratch of {self.machine.module.line(self.operations[number]) or f'op {number}'}"
        if type_.is_semaphore:
            array = semaphores(type_, name, self.device, key, born)
            self.semaphores.update({s.key: s for s in array.flat})
            return array
        array = new_array(type_.shape, type_.dtype, self.machine.options.fill)
        buffer = Buffer(name, type_.space or "vmem", array, device=self.device, key=key, bits=type_.bits)
        buffer.blank = True
        self.buffers[key] = buffer
        if self.clock is not None and self.machine.reaches(key):
            share(buffer)
            self._record(buffer, Access(self, born, None, True, self.operations[number], "entry", self))
        self.reserve(buffer.space, type_.size * type_.bits // 8)
        return buffer

    def release(self, number: int, memory: Any) -> None:
        """The end of a scope: nothing may be in flight."""
        op = self.operations[number]
        if isinstance(memory, Buffer):
            self.reserve(memory.space, -(memory.array.size * memory.bits // 8))
            if memory.pending and self.checks:
                leg = memory.pending[0]
                error = MissingWaitError(
                    "a DMA is in flight where its buffer's scope ends",
                    buffer=memory.describe(leg.view),
                    related=self.machine.started_at(leg.dma),
                )
                self.machine.hazard(error, leg.dma.op or op, self)
            if memory.history is not None:
                self._record(memory, self._access(memory.array, True, number, None))
            self.buffers.pop(memory.key, None)
            return
        for semaphore in memory.flat:
            if self.checks:
                self.machine.check_semaphore(semaphore, self, op)
            self.semaphores.pop(semaphore.key, None)

    def reading(self, buffer: Buffer, view: Array, number: int, dma: DMA | None = None, what: str = "") -> None:
        """Check a read, maybe a DMA's, against what is in flight, and against the other cores."""
        for leg in buffer.pending:
            if leg.writes and leg.dma.sender is self and leg.overlaps(view):
                error = ReadBeforeWaitError("memory is read that a DMA in flight writes")
                self._in_flight(error, leg, view, number, what or (dma.what if dma is not None else ""))
                break
        if buffer.history is not None:
            self._record(buffer, self._access(view, False, number, dma))

    def writing(self, buffer: Buffer, view: Array, number: int, dma: DMA | None = None, what: str = "") -> None:
        """Check a write, maybe a DMA's, against what is in flight, and against the other cores."""
        for leg in buffer.pending:
            if leg.dma.sender is self and leg.overlaps(view):
                error = (
                    WriteToDestinationError("memory is written that a DMA in flight writes too")
                    if leg.writes
                    else WriteToSourceError("memory is written that a DMA in flight reads")
                )
                self._in_flight(error, leg, view, number, what or (dma.what if dma is not None else ""))
                break
        if buffer.history is not None:
            self._record(buffer, self._access(view, True, number, dma))

    def _in_flight(self, error: HazardError, leg: Leg, view: Array, number: int, what: str) -> None:
        if what:
            error.summary += f", by {what}"
        error.buffer = leg.buffer.describe(view)
        error.related = self.machine.started_at(leg.dma)
        self.machine.hazard(error, self.operations[number] if number >= 0 else None, self)

    def _access(self, view: Array, writes: bool, number: int, dma: DMA | None) -> Access:
        op = self.operations[number] if number >= 0 else None
        if dma is None:
            assert self.clock is not None
            return Access(self, self.clock[self], view, writes, op, "core", self)
        who = ("write" if writes else "read", dma.number)
        return Access(who, 1, view, writes, op, "remote" if writes and dma.remote else "local", self)

    def _record(self, buffer: Buffer, new: Access) -> None:
        assert self.clock is not None
        assert buffer.history is not None
        old = buffer.history.conflict(new, self.clock)
        if old is not None:
            op = new.op or (old.op if new.kind == "entry" else None)
            self.machine.hazard(race(self.machine.module, buffer, old, new), op, self)
        buffer.history.add(new, self.clock)

    def outside(self, number: int, what: str, buffer: Buffer | None = None) -> NoReturn:
        """An access outside its buffer: nothing can go on after it."""
        error = OutOfBoundsError(what, buffer=buffer.describe() if buffer is not None else None)
        raise self.machine.fatal(error, self.operations[number], self)

    def left_out(self, number: int, dtype: np.dtype[Any]) -> Any:
        """What an op makes where its mask is false: as unknown as uninitialised memory."""
        self.machine.strays.setdefault(number, "leaves undefined what its mask leaves out")
        return poison(dtype, self.machine.options.fill)

    def loaded(self, number: int, view: Array, buffer: Buffer) -> None:
        """Note a load that sees what looks unwritten; a buffer without it is not looked at again."""
        fill = self.machine.options.fill
        if poisoned(view, fill).any():
            self.machine.strays.setdefault(number, f"reads {buffer.describe(view)}, before it is written")
        elif not poisoned(buffer.array, fill).any():
            buffer.blank = False

    def unknown(self, number: int, what: str, where: Any, value: Any, dtype: np.dtype[Any]) -> Any:
        """A result with what is undefined in it made unknown; the run is then compared with another."""
        self.machine.doubts.setdefault(number, what)
        unknown = poison(dtype, self.machine.options.fill)
        if isinstance(value, int):
            return int(unknown)
        shape = np.broadcast_shapes(np.shape(value), np.shape(where))
        made = np.array(np.broadcast_to(np.asarray(value, dtype), shape))
        made[np.broadcast_to(where, shape)] = unknown
        return made

    def undefined(self, number: int, what: str) -> None:
        """A result that is undefined."""
        self.machine.hazard(UndefinedResultError(what), self.operations[number], self)

    def assertion(self, number: int, message: str) -> None:
        """A failed assertion of the kernel."""
        raise self.machine.fatal(KernelAssertionError(message), self.operations[number], self)

    # --- DMAs and semaphores -----------------------------------------------------------------------------------------

    def other(self, number: int, device: int | None, core: int | None) -> Core:
        """The core that an op names."""
        cores = self.machine.options.cores
        d = self.device if device is None else int(device)
        c = self.index if core is None else int(core)
        if not 0 <= d < self.machine.devices:
            raise self.machine.fatal(
                OutOfBoundsError(
                    f"device {d} of {self.machine.devices}",
                    hint="run it with simulate_devices, and the inputs of every device"
                    if self.machine.devices == 1
                    else "the device ids of n devices are 0 to n - 1",
                ),
                self.operations[number],
                self,
            )
        if not 0 <= c < cores:
            raise self.machine.fatal(OutOfBoundsError(f"core {c} of {cores}"), self.operations[number], self)
        return self.machine.cores[d * cores + c]

    def _tell(self) -> Clock | None:
        """What a signal tells: all this core knows now; what it does later is not part of that."""
        clock = self.clock
        if clock is None:
            return None
        known = dict(clock)
        clock[self] += 1
        return known

    def dma(
        self,
        number: int,
        source_buffer: Buffer,
        source: Array,
        target_buffer: Buffer,
        target: Array,
        target_semaphore: Semaphore,
        source_semaphore: Semaphore | None = None,
        device: int | None = None,
        core: int | None = None,
    ) -> None:
        """Start a copy."""
        machine = self.machine
        op = self.operations[number] if number >= 0 else None
        there = self if device is None and core is None else self.other(number, device, core)
        remote = there is not self
        if remote:
            target_semaphore = self._theirs(there, target_semaphore, number)
            target_buffer, target = self._their_memory(there, target_buffer, target, number)
        size = source.size * source_buffer.bits // 8
        what = "" if op is not None else f"the DMA of a window, {source_buffer.name} to {target_buffer.name}"
        dma = DMA(machine.dmas + 1, op, source, target, size, target_semaphore, source_semaphore, remote, what, self)
        legs = self._check_dma(dma, source_buffer, target_buffer, number) if self.checks else []
        if self.clock is not None:
            self._tell_by(dma, source_buffer, target_buffer)
        if machine.traced:
            to = f" on {there.name}" if remote else ""
            machine.event("dma", self, f"{source_buffer.name} to {target_buffer.name}{to}", size, op)
        if machine.record is not None and op is not None:
            semaphores = [s for s in (target_semaphore, source_semaphore) if s is not None]
            numbers = tuple(map(machine.record.number, semaphores))
            machine.record.append(Started(number, numbers, size, source_buffer.space, target_buffer.space))
        machine.start(dma, legs)

    def _check_dma(self, dma: DMA, source: Buffer, target: Buffer, number: int) -> list[Leg]:
        """Check what a DMA reads and writes; what is in use from now on."""
        if dma.source_semaphore is None and dma.remote:
            reads: list[Leg] = []
        else:
            reads = [Leg(dma, source, dma.source, False, dma.source_semaphore or dma.target_semaphore)]
        writes = [] if dma.remote else [Leg(dma, target, dma.target, True, dma.target_semaphore)]
        self.reading(source, dma.source, number, dma)
        if writes and source is target and writes[0].overlaps(dma.source):
            error = WriteToSourceError("the source and the destination of a DMA overlap")
            self._in_flight(error, writes[0], dma.target, number, dma.what)
        self.writing(target, dma.target, number, dma)
        return writes + reads

    def _tell_by(self, dma: DMA, source: Buffer, target: Buffer) -> None:
        """What a DMA tells those who wait for its reading and for its writing."""
        known = self._tell()
        assert known is not None
        dma.read_clock = known if source.history is None else known | {("read", dma.number): 1}
        dma.clock = dma.read_clock if target.history is None else dma.read_clock | {("write", dma.number): 1}

    def _their_memory(self, there: Core, buffer: Buffer, view: Array, number: int) -> tuple[Buffer, Array]:
        """The memory of another core that stands where this stands here."""
        theirs = there.buffers.get(buffer.key)
        if theirs is None:
            error = MissingEntryBarrierError(
                f"memory of {there.name} is written in a scope that it has not entered, or has left",
                buffer=buffer.describe(view),
            )
            raise self.machine.fatal(error, self.operations[number], self)
        return theirs, rebase(view, buffer.array, theirs.array)

    def _theirs(self, there: Core, semaphore: Semaphore, number: int) -> Semaphore:
        """The semaphore of another core that stands where this one stands here."""
        found = there.semaphores.get(semaphore.key)
        entered = self.clock is None or self.clock.get(there, 0) >= (1 if found is None else found.born)
        if found is None or (self.checks and not entered):
            if self.checks:
                error = MissingEntryBarrierError(
                    f"{semaphore.name} of {there.name} is signalled before that device is known to have entered the "
                    "kernel",
                    buffer=semaphore.name,
                )
                self.machine.hazard(error, self.operations[number], self)
            if found is None:
                found = Semaphore(semaphore.name, semaphore.kind, there.device, semaphore.key)
                there.semaphores[semaphore.key] = found
        return found

    def wait_dma(self, number: int, semaphore: Semaphore, view: Array, buffer: Buffer) -> Generator[Blocked | None]:
        """Wait for a copy of a view's size."""
        yield from self.wait(number, semaphore, view.size * buffer.bits // 8)

    def wait(self, number: int, semaphore: Semaphore, amount: int) -> Generator[Blocked | None]:
        """Wait until a semaphore has an amount, and take it."""
        machine = self.machine
        if machine.jitters:
            machine.jitter()
        if machine.several:
            yield None
        if semaphore.value < amount:
            machine.arrive(semaphore, amount)
            while semaphore.value < amount:
                yield Blocked(semaphore, amount, self.operations[number] if number >= 0 else None)
                machine.arrive(semaphore, amount)
        semaphore.take(amount, self.clock)
        if machine.record is not None and number >= 0:
            machine.record.append(Waited(number, machine.record.number(semaphore), amount))
        if machine.traced:
            machine.event("wait", self, semaphore.name, amount, self.operations[number] if number >= 0 else None)

    def poll(self, semaphore: Semaphore) -> Generator[Blocked | None, None, int]:
        """A semaphore's value; time passes meanwhile, since a kernel may ask until it is reached."""
        self.machine.jitter()
        if self.machine.several:
            yield None
        return semaphore.value

    def signal(
        self, number: int, semaphore: Semaphore, amount: int, device: int | None = None, core: int | None = None
    ) -> None:
        """Add to a semaphore, here or on another core."""
        there = self if device is None and core is None else self.other(number, device, core)
        if there is not self:
            barrier = semaphore.key == _BARRIER
            semaphore = there.barrier() if barrier else self._theirs(there, semaphore, number)
        semaphore.arrive(amount, self._tell())
        semaphore.signalled = self.operations[number]
        if self.machine.traced:
            name = semaphore.name if there is self else f"{semaphore.name} of {there.name}"
            self.machine.event("signal", self, name, amount, self.operations[number])

    def barrier(self) -> Semaphore:
        """The barrier semaphore, which exists before the kernel is entered."""
        found = self.semaphores.get(_BARRIER)
        if found is None:
            found = self.semaphores[_BARRIER] = Semaphore("barrier semaphore", "semaphore", self.device, _BARRIER)
        return found

    def barrier_memory(self) -> Array:
        """The barrier semaphore as semaphore memory."""
        memory = np.empty((), object)
        memory[()] = self.barrier()
        return memory


def share(buffer: Buffer, *, filled: bool = False) -> None:
    """Keep the history of a buffer that other cores or devices reach; ``filled``: it holds something from the start."""
    buffer.history = History(filled)


def rebase(view: Array, root: Array, other: Array) -> Array:
    """The view of ``other`` that ``view`` is of ``root``."""
    if view.base is None and view is root:
        return other
    offset = view.__array_interface__["data"][0] - root.__array_interface__["data"][0]
    return np.ndarray(
        view.shape, view.dtype, buffer=other.reshape(-1).view(np.uint8), offset=offset, strides=view.strides
    )
