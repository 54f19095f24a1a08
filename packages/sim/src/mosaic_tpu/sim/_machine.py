"""The simulated machine: devices, cores, DMAs in flight, and who runs next."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from mosaic_tpu.sim._dma import DMA, Leg
from mosaic_tpu.sim._memory import Semaphore
from mosaic_tpu.sim._races import remote_targets
from mosaic_tpu.sim._record import Record
from mosaic_tpu.sim.errors import (
    DeadlockError,
    DoubleWaitError,
    HazardError,
    LimitError,
    MissingReceiveWaitError,
    MissingWaitError,
    SemaphoreImbalanceError,
    SimulationError,
    WaitWithoutDMAError,
)

if TYPE_CHECKING:
    from mosaic_tpu.sim._core import Core
    from mosaic_tpu.sim._module import Module, Operation
    from mosaic_tpu.sim._options import Options

#: Events kept of a run; a report says when there were more.
TRACE_LIMIT: Final = 100_000
#: Iterations between two looks at the clock.
_STRIDE: Final = 1024


@dataclass(frozen=True, slots=True)
class Blocked:
    """Why a core cannot go on: it needs more of a semaphore than there is."""

    semaphore: Semaphore
    need: int
    op: Operation | None


type Run = Generator[Blocked | None]


@dataclass(slots=True)
class Event:
    """An entry of the trace.

    Attributes:
        kind: ``"dma"``, ``"window"``, ``"wait"``, ``"signal"`` or ``"log"``.
        core: whose.
        what: memory or semaphores, or what is logged.
        amount: bytes, or what a semaphore is signalled or waited for.
        line: ``"file.py:12"`` of the kernel's source, if it is known.
    """

    kind: str
    core: str
    what: str
    amount: int
    line: str | None


@dataclass
class Machine:
    """The state that all cores share."""

    module: Module
    options: Options
    devices: int
    cores: list[Core] = field(default_factory=list["Core"])
    queue: list[DMA] = field(default_factory=list[DMA])
    hazards: list[HazardError] = field(default_factory=list[HazardError])
    ended: list[HazardError] = field(default_factory=list[HazardError])
    trace: list[Event] = field(default_factory=list[Event])
    #: Ops with undefined results, by number, and why: a hazard if an output depends on one.
    doubts: dict[int, str] = field(default_factory=dict[int, str])
    #: Loads that made what nobody had written, as it seemed, by their number: what they did.
    strays: dict[int, str] = field(default_factory=dict[int, str])
    dmas: int = 0
    dma_bytes: int = 0
    steps: int = 0
    dropped: int = 0

    def __post_init__(self) -> None:
        self.random = random.Random(self.options.seed)
        self.eager = self.options.dma == "eager"
        self.jitters = self.options.dma == "random"
        self.several = self.devices * self.options.cores > 1
        self.deadline = None if self.options.timeout is None else time.monotonic() + self.options.timeout
        self.next_look = 1
        self.traced = self.options.checks
        self.record = Record() if self.options.record else None
        self.reached = remote_targets(self.module) if self.several else frozenset[object]()
        self._seen: set[object] = set()

    def reaches(self, key: object) -> bool:
        """Whether other cores may write the memory with this key."""
        return key in self.reached or (isinstance(key, tuple) and key[0] in self.reached)

    # --- what goes wrong -------------------------------------------------------------------------------------------

    def hazard(self, error: HazardError, op: Operation | None, core: Core | None) -> None:
        """Raise, or gather once for each op."""
        error.seed = self.options.seed
        error.op = error.op or (op.name if op is not None else self.module.name)
        if op is not None and op.name != "func.func":  # the first line of a function has nothing to do with it
            error.location = error.location or self.first_line(op)
        if core is not None and self.several:
            error.device = error.device or core.name
        if core is not None and core.step is not None and math.prod(core.grid) != 1:
            error.step = str(core.step)
        if self.doubts and error.related is None:
            number, what = next(iter(self.doubts.items()))
            line = self.module.line(self.module.operations[number]) or "an unknown line"
            error.related = f"an undefined result came before: {what}, at {line}"
        if not self.options.collect:
            raise error
        key = (type(error), error.device, error.buffer if op is None else op.number)
        if key not in self._seen:
            self._seen.add(key)
            self.hazards.append(error)

    def first_line(self, op: Operation) -> str | None:
        """The line of an op, of a function or region the first one in it."""
        return next((line for inner in op.walk() if (line := self.module.line(inner)) is not None), None)

    def started_at(self, dma: DMA) -> str:
        """Where a DMA comes from, for messages."""
        if dma.op is None:
            return dma.what
        return f"the DMA was started by {dma.op.name} at {self.module.line(dma.op) or 'an unknown line'}"

    # --- time --------------------------------------------------------------------------------------------------------

    def tick(self) -> None:
        """Count a loop iteration or grid step, and give up when a limit is reached."""
        self.steps += 1
        if self.steps >= self.next_look:
            self._look()

    def _look(self) -> None:
        limit = self.options.max_steps
        if limit is not None and self.steps > limit:
            raise LimitError(f"more than {limit} steps", op=self.module.name, seed=self.options.seed)
        if self.deadline is not None and time.monotonic() > self.deadline:
            raise LimitError(
                f"more than {self.options.timeout} s, after {self.steps} steps",
                op=self.module.name,
                seed=self.options.seed,
            )
        # With a timeout each step may be the one that takes long.
        stride = _STRIDE if self.deadline is None else 1
        self.next_look = self.steps + stride if limit is None else min(self.steps + stride, limit + 1)

    def event(self, kind: str, core: Core, what: str, amount: int, op: Operation | None) -> None:
        """Add to the trace."""
        if len(self.trace) < TRACE_LIMIT:
            self.trace.append(Event(kind, core.name, what, amount, self.module.line(op)))
        else:
            self.dropped += 1

    # --- DMAs --------------------------------------------------------------------------------------------------------

    def start(self, dma: DMA, legs: list[Leg]) -> None:
        """Put a DMA in flight."""
        self.dmas += 1
        self.dma_bytes += dma.size
        dma.target_semaphore.balance += dma.size
        if dma.source_semaphore is not None:
            dma.source_semaphore.balance += dma.size
        for leg in legs:
            leg.semaphore.legs.append(leg)
            leg.buffer.pending.append(leg)
        if self.eager:
            dma.perform()
        else:
            self.queue.append(dma)
            if self.jitters:
                self.jitter()

    def jitter(self) -> None:
        """Let some of what is in flight arrive."""
        queue = self.queue
        if queue and self.random.random() < 0.3:
            self._perform(self.random.randrange(len(queue)))

    def _perform(self, index: int) -> None:
        """Perform a DMA; those that one core sends to one semaphore of another arrive in order."""
        dma = self.queue[index]
        if dma.remote:
            index = next(
                i
                for i, d in enumerate(self.queue)
                if d.remote and d.sender is dma.sender and d.target_semaphore is dma.target_semaphore
            )
        self.queue.pop(index).perform()

    def arrive(self, semaphore: Semaphore, need: int) -> None:
        """Let DMAs of this semaphore arrive until a wait can be satisfied, or none is left."""
        while semaphore.value < need:
            mine = [
                i
                for i, dma in enumerate(self.queue)
                if dma.target_semaphore is semaphore or dma.source_semaphore is semaphore
            ]
            if not mine:
                return
            self._perform(self.random.choice(mine) if self.jitters else mine[0])

    # --- who runs next -----------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Run all cores to their ends."""
        running: dict[Core, Run] = {core: core.run() for core in self.cores}
        waiting: dict[Core, Blocked] = {}
        while running:
            ready = [c for c in running if c not in waiting or waiting[c].semaphore.value >= waiting[c].need]
            if not ready:
                if not self.queue:
                    raise self._deadlock(waiting)
                self._perform(self.random.randrange(len(self.queue)))
                continue
            core = ready[0] if len(ready) == 1 else self.random.choice(ready)
            waiting.pop(core, None)
            request = next(running[core], core)
            if request is core:
                del running[core]
            elif request is not None:
                assert isinstance(request, Blocked)
                waiting[core] = request
            if self.jitters and self.several:
                self.jitter()
        while self.queue:
            self._perform(0)
        if self.options.checks:
            self._check_semaphores()

    def _deadlock(self, waiting: dict[Core, Blocked]) -> SimulationError:
        core, blocked = next(iter(waiting.items()))
        semaphore = blocked.semaphore
        if len(waiting) == 1 and semaphore.kind == "dma_semaphore" and not self.several:
            return self._no_dma(core, blocked)
        lines = [
            f"{c.name} waits at {self.module.line(b.op) or 'an unknown line'} for {b.need} of {b.semaphore.name}, "
            f"which has {b.semaphore.value}"
            for c, b in waiting.items()
        ]
        done = len(self.cores) - len(waiting)
        summary = "deadlock: " + "; ".join(lines) + (f"; {done} cores are done" if done else "")
        return self.fatal(DeadlockError(summary, buffer=semaphore.name), blocked.op, core)

    def _no_dma(self, core: Core, blocked: Blocked) -> SimulationError:
        semaphore = blocked.semaphore
        facts = f"{semaphore.name} has {semaphore.value} bytes, the wait needs {blocked.need}"
        kind = DoubleWaitError if semaphore.waits else WaitWithoutDMAError
        if semaphore.value:
            what, hint = "a wait for more than what was copied", "wait with the memory that was copied, or of its size"
        elif semaphore.waits:
            what, hint = "a second wait, with nothing in flight", None
        else:
            what, hint = "a wait with no DMA in flight", None
        return self.fatal(kind(f"{what}: {facts}", buffer=semaphore.name, hint=hint), blocked.op, core)

    def fatal(self, error: HazardError, op: Operation | None, core: Core) -> SimulationError:
        """A hazard after which nothing can go on: raised even where hazards are gathered."""
        self.ended.append(error)
        try:
            self.hazard(error, op, core)
        except HazardError as raised:
            return raised
        return error

    def _check_semaphores(self) -> None:
        for core in self.cores:
            for semaphore in core.semaphores.values():
                self.check_semaphore(semaphore, core, None)

    def check_semaphore(self, semaphore: Semaphore, core: Core, op: Operation | None) -> None:
        """At its end a semaphore is zero and nothing is in flight on it."""
        if semaphore.legs:
            dma = semaphore.legs[0].dma
            self.hazard(
                MissingWaitError(
                    "a DMA was started and nobody waited for it",
                    buffer=f"{semaphore.legs[0].buffer.describe(semaphore.legs[0].view)}, semaphore {semaphore.name}",
                    related=None if dma.op is not None else dma.what,
                ),
                dma.op or op,
                core,
            )
        elif semaphore.value and semaphore.kind == "dma_semaphore":
            self.hazard(
                MissingReceiveWaitError(
                    f"{semaphore.value} bytes arrived on {semaphore.name} that nobody waited for", buffer=semaphore.name
                ),
                semaphore.signalled or op,
                core,
            )
        elif semaphore.value:
            self.hazard(
                SemaphoreImbalanceError(
                    f"{semaphore.name} is {semaphore.value} where it ends, and must be 0", buffer=semaphore.name
                ),
                semaphore.signalled or op,
                core,
            )
