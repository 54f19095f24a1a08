"""Who used shared memory when, and what ordered them: vector clocks over cores and DMAs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from mosaic_tpu.sim._effects import root_of
from mosaic_tpu.sim._memory import Array, Buffer, Clock
from mosaic_tpu.sim.errors import (
    HazardError,
    MissingEntryBarrierError,
    MissingReceiveWaitError,
    RaceError,
    SlotReuseRaceError,
)

if TYPE_CHECKING:
    from mosaic_tpu.sim._module import Module, Operation


@dataclass(frozen=True, slots=True)
class Access:
    """One use of a piece of memory.

    Attributes:
        who: a core's identity, or that of a DMA's reading or writing.
        when: that one's own time.
        view: the memory; ``None`` for all of the buffer.
        writes: whether it was written.
        op: the op that did it; ``None`` for the entry into the kernel.
        kind: ``"core"``, ``"local"`` or ``"remote"`` for a DMA's, or ``"entry"``.
        core: which core's doing it was.
    """

    who: object
    when: int
    view: Array | None
    writes: bool
    op: Operation | None
    kind: str
    core: object


def remote_targets(module: Module) -> frozenset[object]:
    """Keys of the memory that other cores may write: arguments by name, allocations by the number of their op."""
    indices: set[object] = set()
    keys: dict[object, object] = {}
    for value, name in zip(module.kernel.arguments, module.names, strict=True):
        keys[value.index] = name
    for op in module.kernel.operation.walk():
        if op.name in ("memref.alloca", "memref.alloc"):
            keys[op.result.index] = ("alloca", op.number)
        elif op.name == "tpu.enqueue_dma":
            _, _, targets, _, *place = op.segments()
            indices |= {root_of(t) for t in targets} if any(place) else set()
        elif op.name == "func.call":  # what a function does with its memory is not looked at
            indices |= {root_of(t) for t in op.operands if t.type.kind == "memref"}
    return frozenset(keys[i] for i in indices if i in keys)


class History:
    """The uses of a buffer that other cores or devices can reach."""

    __slots__ = ("accesses", "filled")

    def __init__(self, filled: bool = False) -> None:
        self.accesses: list[Access] = []
        self.filled = filled

    def conflict(self, new: Access, clock: Clock) -> Access | None:
        """An earlier use that nothing orders before ``new``; ``clock`` is what the new one's doer knows."""
        for old in self.accesses:
            unordered = old.who != new.who and clock.get(old.who, 0) < old.when
            if unordered and (old.writes or new.writes) and _concerns(old, new) and _meet(old.view, new.view):
                return old
        return None

    def add(self, new: Access, clock: Clock) -> None:
        """Remember a use, in the place of earlier ones of the same memory that whatever conflicts meets in it too."""
        self.accesses = [old for old in self.accesses if not _superseded(old, new, clock)]
        self.accesses.append(new)

    def written(self, view: Array | None) -> bool:
        """Whether anything has been written there, so that a read is meant to see it."""
        return self.filled or any(a.writes and a.kind != "entry" and _meet(a.view, view) for a in self.accesses)


def _concerns(old: Access, new: Access) -> bool:
    """Whether it matters here that the two are unordered.

    Entering matters to what other cores send; what one core does to its own memory, the DMAs in flight tell.
    """
    kinds = (old.kind, new.kind)
    if "remote" in kinds:
        return True
    return "entry" not in kinds and old.core is not new.core


def _meet(a: Array | None, b: Array | None) -> bool:
    return a is None or b is None or np.shares_memory(a, b)


def _superseded(old: Access, new: Access, clock: Clock) -> bool:
    if old.kind == "entry" or (old.writes and not new.writes) or not _same(old.view, new.view):
        return False
    return old.who == new.who or clock.get(old.who, 0) >= old.when


def race(module: Module, buffer: Buffer, old: Access, new: Access) -> HazardError:
    """The error that says which two uses of a buffer nothing orders."""
    where = f"memory of device {buffer.device}"
    error = _race(where, buffer, old, new)
    error.buffer = buffer.describe(new.view if new.view is not None else old.view)
    if "entry" not in (old.kind, new.kind):
        place = (module.line(old.op) or "an unknown line") if old.op is not None else ""
        earlier = f"{old.op.name} at {place}" if old.op is not None else "a window's copy"
        error.related = f"the other use is {earlier}" if old.kind == "core" else f"the DMA was started by {earlier}"
    return error


def _race(where: str, buffer: Buffer, old: Access, new: Access) -> HazardError:
    assert buffer.history is not None
    if "entry" in (old.kind, new.kind):
        found = f"{where} is written before that device is known to have entered the kernel, or the scope"
        return MissingEntryBarrierError(found)
    unwaited = f"{where} is used that a remote DMA writes, without a wait for its arrival"
    if new.kind == "remote":
        if not old.writes and not buffer.history.written(old.view):
            return MissingReceiveWaitError(unwaited)
        verb = "writes" if old.writes else "reads"
        who = "an earlier remote DMA" if old.kind == "remote" else "the device"
        return SlotReuseRaceError(f"a remote DMA overwrites {where} that {who} {verb}, and nothing orders the two")
    if old.kind == "remote":
        return MissingReceiveWaitError(unwaited)
    return RaceError(f"two uses of {where}, one of them a write, with nothing that orders them")


def _same(a: Array | None, b: Array | None) -> bool:
    if a is None or b is None:
        return a is b
    return a.shape == b.shape and a.strides == b.strides and _address(a) == _address(b)


def _address(array: Array) -> Any:
    return array.__array_interface__["data"][0]
