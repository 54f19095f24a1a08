"""A clock that walks through a run: bundles that issue, copies that start, and waits for them.

The walk follows the simulator's record of the run. A region that is found in the schedule, the kernel's body or that of
a loop or a branch, is a frame: a stretch of bundles that takes its cycles. A copy is over a latency and the time of its
bytes after its start; a wait moves the clock there if that is later. Copies do not slow each other down: so the TPU
compiler reckons in its own estimates. That HBM has only so much for all of them together bounds the whole from below,
elsewhere.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from mosaic_tpu.sim import record

#: Op and region of the kernel, as the simulator's record has them.
type Region = tuple[int, int]

#: The whole call, in which the grid's steps are.
CALL: Final[Region] = (-1, 0)
_FAR: Final = ("any", "hbm")


@dataclass(frozen=True)
class Speed:
    """What a copy takes.

    Attributes:
        bytes_per_cycle: of HBM.
        fetch: cycles of a copy from HBM besides those of its bytes.
        store: cycles of a copy to HBM, likewise.
    """

    bytes_per_cycle: float
    fetch: float
    store: float


@dataclass(frozen=True)
class Frame:
    """A region in which time passes.

    Attributes:
        parent: the frame around it; ``None`` of the whole call.
        at: how far the parent is when it is entered, in cycles of the parent.
        cycles: that one run takes, without frames in it and waits for copies.
        ops: how far it is at each of its starts and waits, by the op's number: once for each time that the compiler
            has unrolled it.
    """

    parent: Region | None
    at: float
    cycles: float
    ops: Mapping[int, tuple[float, ...]] = field(default_factory=dict[int, tuple[float, ...]])


@dataclass(frozen=True)
class Timeline:
    """What a walk found.

    Attributes:
        cycles: until all is over.
        waited: cycles of them that passed in waits for copies.
        waits: for a copy, whether it was over or not.
        copies: started.
        bytes: that they moved to and from HBM.
    """

    cycles: float
    waited: float
    waits: int
    copies: int
    bytes: int


def walk(
    entries: Iterable[record.Entry],
    frames: Mapping[Region, Frame],
    step: Region,
    speed: Speed,
    single: Collection[str] = (),
) -> Timeline:
    """The time that a run takes.

    Args:
        entries: the simulator's record of it.
        frames: that of the whole `CALL`, and others by their region.
        step: the region of the kernel's body, which each step of the grid runs.
        speed: of copies.
        single: arguments whose windows have one buffer: what is stored of them is waited for at once.
    """
    clock = _Clock(frames, step, speed, single)
    actions: dict[type, Callable[..., None]] = {
        record.Entered: clock.enter,
        record.Started: clock.start,
        record.Waited: clock.wait_for,
        record.Moved: clock.move,
    }
    for entry in entries:
        actions[type(entry)](entry)
    return clock.end()


@dataclass
class _Place:
    """Where the walk is in a frame: how far, in cycles, and how often it came by each op."""

    region: Region
    frame: Frame
    far: float = 0.0
    seen: dict[int, int] = field(default_factory=dict[int, int])


class _Clock:
    def __init__(self, frames: Mapping[Region, Frame], step: Region, speed: Speed, single: Collection[str]) -> None:
        self.frames, self.step, self.speed, self.single = frames, step, speed, single
        self.now = self.waited = 0.0
        self.waits = self.copies = self.bytes = 0
        self.path = [_Place(CALL, frames[CALL])]
        #: Copies that nobody has waited for, by semaphore: when each is over, and its bytes.
        self.flying: defaultdict[int, deque[tuple[float, int]]] = defaultdict(deque)
        #: Blocks of windows that are to be fetched; when those are here that this step needs; and when those are
        #: stored that the step before wrote, and this one.
        self.fetches: list[record.Moved] = []
        self.needed: list[float] = []
        self.stored: list[float] = []
        self.storing: list[float] = []

    # --- time --------------------------------------------------------------------------------------------------------

    def advance(self, far: float) -> None:
        """Walk on in the innermost frame; never back."""
        place = self.path[-1]
        self.now += max(0.0, far - place.far)
        place.far = max(far, place.far)

    def wait(self, until: float) -> None:
        self.waits += 1
        self.waited += max(0.0, until - self.now)
        self.now = max(until, self.now)

    def copy(self, size: int, source: str, target: str) -> float:
        """When a copy is over that starts now; one within the core takes no time."""
        fetches, stores = source in _FAR, target in _FAR
        self.copies += 1
        self.bytes += (moved := size * (fetches + stores))
        took = fetches * self.speed.fetch + stores * self.speed.store + moved / self.speed.bytes_per_cycle
        return self.now + took if moved else self.now

    # --- what the kernel does ----------------------------------------------------------------------------------------

    def enter(self, entry: record.Entered) -> None:
        region = (entry.op, entry.region)
        frame = self.frames.get(region)
        if frame is None:
            return
        while self.path[-1].region != frame.parent:
            self.leave()
        if region == self.step:
            self.begin_step()
        self.advance(frame.at)
        self.path.append(_Place(region, frame))

    def leave(self) -> None:
        self.advance(self.path[-1].frame.cycles)
        if self.path.pop().region == self.step:
            self.end_step()

    def pass_by(self, op: int) -> None:
        """Walk to a start or a wait."""
        place = self.path[-1]
        if places := place.frame.ops.get(op):
            times = place.seen.get(op, 0)
            place.seen[op] = times + 1
            self.advance(places[min(times, len(places) - 1)])

    def start(self, entry: record.Started) -> None:
        self.pass_by(entry.op)
        over = self.copy(entry.size, entry.source, entry.target)
        for semaphore in entry.semaphores:
            self.flying[semaphore].append((over, entry.size))

    def wait_for(self, entry: record.Waited) -> None:
        self.pass_by(entry.op)
        flying, need = self.flying[entry.semaphore], entry.amount
        while flying and need > 0:
            over, size = flying.popleft()
            self.wait(over)
            if size > need:
                flying.appendleft((over, size - need))
            need -= size

    # --- what the pipeline does --------------------------------------------------------------------------------------

    def move(self, entry: record.Moved) -> None:
        if entry.fetched:
            self.fetches.append(entry)
            return
        while self.path[-1].region != self.step:
            self.leave()
        self.advance(self.path[-1].frame.cycles)
        over = self.copy(entry.size, "vmem", "hbm")
        if entry.argument in self.single:
            self.wait(over)
        else:
            self.storing.append(over)

    def begin_step(self) -> None:
        """The next step's blocks start on their way before this one's are waited for."""
        here, ahead = (
            [self.copy(f.size, "hbm", "vmem") for f in self.fetches if f.ahead == later] for later in (False, True)
        )
        for over in (*self.needed, *here):
            self.wait(over)
        self.needed = ahead
        self.fetches.clear()

    def end_step(self) -> None:
        """What the step before stored is waited for: the next one writes its buffer."""
        for over in self.stored:
            self.wait(over)
        self.stored, self.storing = self.storing, []

    def end(self) -> Timeline:
        while len(self.path) > 1:
            self.leave()
        self.end_step()
        self.advance(self.path[0].frame.cycles)
        return Timeline(self.now, self.waited, self.waits, self.copies, self.bytes)
