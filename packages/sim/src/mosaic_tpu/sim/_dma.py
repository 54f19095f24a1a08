"""DMAs: what they copy, when they happen, and what may not be touched meanwhile."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from mosaic_tpu.sim._memory import Array, Buffer, Clock, Semaphore

if TYPE_CHECKING:
    from mosaic_tpu.sim._module import Operation


@dataclass(slots=True, eq=False)
class Leg:
    """One half of a DMA in flight: the memory it reads or writes until the wait on its semaphore.

    Attributes:
        dma: the whole.
        buffer: the memory's buffer.
        view: the memory.
        writes: whether this is the destination.
        semaphore: what to wait on.
    """

    dma: DMA
    buffer: Buffer
    view: Array
    writes: bool
    semaphore: Semaphore

    def overlaps(self, view: Array) -> bool:
        """Whether they share an element."""
        return np.shares_memory(self.view, view)


@dataclass(slots=True, eq=False)
class DMA:
    """A copy in flight.

    Attributes:
        number: in order of start, from 1.
        op: what started it; ``None`` for a window's.
        source: read.
        target: written, maybe on another device.
        size: bytes.
        target_semaphore: signalled on arrival.
        source_semaphore: signalled when the source has been read, where it has one.
        read_clock: what is known when the source has been read; ``None`` where nobody keeps clocks.
        clock: what is known on arrival.
        remote: whether the target is on another core or device.
        what: for messages, where no op started it.
        sender: the core that started it.
    """

    number: int
    op: Operation | None
    source: Array
    target: Array
    size: int
    target_semaphore: Semaphore
    source_semaphore: Semaphore | None
    remote: bool
    what: str
    sender: object
    read_clock: Clock | None = None
    clock: Clock | None = None

    def perform(self) -> None:
        """Copy, and signal."""
        self.target[...] = self.source
        self.target_semaphore.arrive(self.size, self.clock)
        self.target_semaphore.signalled = self.op
        if self.source_semaphore is not None:
            self.source_semaphore.arrive(self.size, self.read_clock)
