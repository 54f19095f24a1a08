"""The grid: which blocks a step sees, fetched ahead and written back as the TPU's pipeline does."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from mosaic_tpu.sim._core import Core
from mosaic_tpu.sim._layout import Argument, Window
from mosaic_tpu.sim._machine import Run
from mosaic_tpu.sim._memory import Array, Buffer, Semaphore, new_array, poison_all
from mosaic_tpu.sim._record import Moved
from mosaic_tpu.sim.errors import OutOfBoundsError, SimulationError

type Index = tuple[int, ...]
type Body = Callable[..., Any]


def steps(
    grid: Sequence[int], semantics: Sequence[str], shuffle: random.Random | None, core: int, cores: int
) -> Iterator[Index]:
    """The grid's indices in the order one core takes them.

    ``core_parallel`` dimensions are shared out among the cores; parallel ones may come in any order.
    """
    ranges: list[Sequence[int]] = []
    shared = False
    for bound, kind in zip(grid, semantics, strict=True):
        order: Sequence[int] = range(bound)
        if kind == "core_parallel" and not shared and cores > 1:
            shared = True
            each = -(-bound // cores)
            order = range(min(core * each, bound), min((core + 1) * each, bound))
        if shuffle is not None and kind != "arbitrary":
            order = list(order)
            shuffle.shuffle(order)
        ranges.append(order)
    if cores > 1 and not shared and core > 0:
        return iter(())
    return _product(ranges)


def _product(ranges: Sequence[Sequence[int]]) -> Iterator[Index]:
    """As `itertools.product`, without a copy of ranges that may be large."""
    if not ranges:
        yield ()
        return
    for i in ranges[0]:
        for rest in _product(ranges[1:]):
            yield (i, *rest)


@dataclass(eq=False)
class Pipeline:
    """The window of one argument while the grid runs.

    Attributes:
        slots: one buffer or two.
        queued: whether copies go through the DMA queue, since something else can reach the array.
    """

    argument: Argument
    window: Window
    array: Buffer
    slots: list[Buffer]
    semaphores: list[Semaphore]
    transform: Callable[[Index], Index]
    fill: int
    checks: bool
    queued: bool
    slot: int = 0
    index: Index | None = None
    ahead: Index | None = None

    @property
    def current(self) -> Buffer:
        """The buffer that the body sees."""
        return self.slots[self.slot]

    def place(self, core: Core, index: Index) -> tuple[tuple[slice, ...], tuple[slice, ...], bool]:
        """Where a block lies in the array and where in the buffer, and whether the two are all of the block."""
        inside: list[slice] = []
        within: list[slice] = []
        whole = True
        for i, (at, bound, size) in enumerate(zip(index, self.window.bounds, self.array.array.shape, strict=True)):
            start = at - self.window.pad_low[i] if self.window.element else at * bound
            low, high = max(start, 0), min(start + bound, size)
            if high <= low and size and bound:
                raise self._outside(core, index)
            whole = whole and high - low == bound
            inside.append(slice(low, high))
            within.append(slice(low - start, high - start))
        return tuple(inside), tuple(within), whole

    def _outside(self, core: Core, index: Index) -> SimulationError:
        machine = core.machine
        where = self.window.transform
        error = OutOfBoundsError(
            f"the window of {self.argument.name} at {'element' if self.window.element else 'block'} {list(index)} lies "
            "outside the array",
            buffer=self.array.describe(),
            location=None if where is None else machine.first_line(machine.module.functions[where].operation),
            hint="look at the index map and the grid",
        )
        return machine.fatal(error, None, core)

    def fetch(self, core: Core, slot: int, index: Index, *, ahead: bool) -> None:
        """Start copying a block into a slot; ``ahead``: for the next step."""
        inside, within, whole = self.place(core, index)
        target = self.slots[slot]
        target.blank = not whole
        if not whole:
            poison_all(target.array, self.fill)
        self._copy(core, slot, self.array, self.array.array[inside], target, target.array[within], ahead)

    def write_back(self, core: Core) -> None:
        """Start copying the current slot into the array."""
        assert self.index is not None
        inside, within, _ = self.place(core, self.index)
        source = self.current
        self._copy(core, self.slot, source, source.array[within], self.array, self.array.array[inside])

    def _copy(
        self, core: Core, slot: int, a: Buffer, source: Array, b: Buffer, target: Array, ahead: bool = False
    ) -> None:
        if (record := core.machine.record) is not None:
            record.append(Moved(self.argument.name, source.size * a.bits // 8, a is self.array, ahead))
        if self.queued:
            core.dma(-1, a, source, b, target, self.semaphores[slot])
            return
        if core.checks:
            what = f"the copy of a window, {a.name} to {b.name}"
            if a.pending or a.history is not None:
                core.reading(a, source, -1, what=what)
            if b.pending or b.history is not None:
                core.writing(b, target, -1, what=what)
        target[...] = source
        machine = core.machine
        machine.dmas += 1
        machine.dma_bytes += source.size * a.bits // 8
        if machine.traced:
            machine.event("window", core, f"{a.name} to {b.name}", source.size * a.bits // 8, None)

    def settle(self, core: Core, slot: int) -> Run:
        """Wait for the copy of a slot, if one is in flight."""
        semaphore = self.semaphores[slot]
        if semaphore.balance:
            yield from core.wait(-1, semaphore, semaphore.balance)


class Input(Pipeline):
    """A window that is fetched."""

    def before(self, core: Core, ids: Index, following: Index | None) -> Run:
        """Have this step's block in place, and the next one's on its way."""
        index = self.transform(ids)
        if index != self.index:
            if self.ahead == index:
                self.slot = (self.slot + 1) % len(self.slots)
            else:
                self.fetch(core, self.slot, index, ahead=False)
            self.index = index
            self.ahead = None
        if self.queued:
            yield from self.settle(core, self.slot)
        if following is not None and len(self.slots) > 1 and self.ahead is None:
            then = self.transform(following)
            if then != index:
                self.fetch(core, (self.slot + 1) % len(self.slots), then, ahead=True)
                self.ahead = then


class Output(Pipeline):
    """A window that is written back when the grid leaves its block."""

    def before(self, core: Core, ids: Index, following: Index | None) -> Run:
        """Have a buffer for this step's block."""
        del following
        index = self.transform(ids)
        if index != self.index:
            if self.index is not None:
                self.slot = (self.slot + 1) % len(self.slots)
            self.index = index
            if self.queued:
                yield from self.settle(core, self.slot)
            if self.checks:
                poison_all(self.current.array, self.fill)
                self.current.blank = True

    def after(self, core: Core, following: Index | None) -> None:
        """Write the block back if the next step has another."""
        if following is None or self.transform(following) != self.index:
            self.write_back(core)


def run_grid(core: Core, body: Body, waits: bool, order: Iterator[Index], holders: Sequence[Any]) -> Run:
    """Run the body at each of the steps.

    Args:
        core: where.
        body: the kernel's generated function.
        waits: whether it is a generator.
        order: the steps.
        holders: the pipelines, buffers and semaphores behind the arguments, in order.
    """
    inputs = [h for h in holders if isinstance(h, Input)]
    outputs = [h for h in holders if isinstance(h, Output)]
    moving = bool(inputs or outputs)
    arguments = _arguments(holders)
    tick = core.machine.tick
    following = next(order, None)
    while (ids := following) is not None:
        tick()
        core.step = ids
        following = next(order, None)
        for window in (*inputs, *outputs):
            yield from window.before(core, ids, following)
        if moving:
            arguments = _arguments(holders)
        if waits:
            yield from body(core, *ids, *arguments)
        else:
            body(core, *ids, *arguments)
        for window in outputs:
            window.after(core, following)
    core.step = None
    for window in (*inputs, *outputs):
        if window.queued:
            for slot in range(len(window.slots)):
                yield from window.settle(core, slot)


def _arguments(holders: Sequence[Any]) -> list[Any]:
    """For each memref its array and its buffer."""
    found: list[Any] = []
    for holder in holders:
        if isinstance(holder, Pipeline):
            buffer = holder.current
            found += (buffer.array, buffer)
        elif isinstance(holder, Buffer):
            found += (holder.array, holder)
        else:
            found += (holder, None)
    return found


def pipeline(
    core: Core, argument: Argument, array: Buffer, transform: Callable[[Index], Index], *, queued: bool
) -> Pipeline:
    """The pipeline of a windowed argument, with its buffers."""
    window = argument.window
    assert window is not None
    kind = Input if argument.role == "input" else Output
    options = core.machine.options
    count = 1 if window.synchronous else 2
    made: list[Buffer] = []
    for slot in range(count):
        data = new_array(argument.type.shape, argument.type.dtype, options.fill)
        name = f"{argument.name} window" + (f" {slot}" if count > 1 else "")
        space = argument.type.space or "vmem"
        key = (argument.name, slot)
        made.append(Buffer(name, space, data, device=core.device, key=key, bits=argument.type.bits))
        core.reserve(space, math.prod(argument.type.shape) * argument.type.bits // 8)
    sems = [
        Semaphore(f"{argument.name} window", "dma_semaphore", core.device, ("window", argument.name, s))
        for s in range(count)
    ]
    return kind(argument, window, array, made, sems, transform, options.fill, options.checks, queued)
