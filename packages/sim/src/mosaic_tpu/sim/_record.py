"""What happens in a run, in order: for those who tell what it costs. The simulator itself has no time."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, SupportsIndex

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mosaic_tpu.sim._memory import Semaphore
    from mosaic_tpu.sim._module import Block


class Entered(NamedTuple):
    """A region of the kernel's function is entered.

    Attributes:
        op: number of the op that the region is of.
        region: its own number in the op.
    """

    op: int
    region: int


class Started(NamedTuple):
    """The kernel starts a copy.

    Attributes:
        op: number of the op that starts it.
        semaphores: numbers of those that it signals.
        size: bytes.
        source: memory space that it reads, ``"hbm"`` …
        target: memory space that it writes.
    """

    op: int
    semaphores: tuple[int, ...]
    size: int
    source: str
    target: str


class Waited(NamedTuple):
    """The kernel waits for a semaphore, and goes on.

    Attributes:
        op: number of the op that waits.
        semaphore: its number.
        amount: that it takes; of a copy's semaphore, bytes.
    """

    op: int
    semaphore: int
    amount: int


class Moved(NamedTuple):
    """The pipeline starts a copy of a window's block.

    Attributes:
        argument: whose window.
        size: bytes.
        fetched: whether the block is read; else it is written back.
        ahead: whether the next step needs it; else this one does, or did.
    """

    argument: str
    size: int
    fetched: bool
    ahead: bool


type Entry = Entered | Started | Waited | Moved


class Record(list[Entry]):
    """The entries so far."""

    def __init__(self) -> None:
        super().__init__()
        self._numbers: dict[Semaphore, int] = {}

    def number(self, semaphore: Semaphore) -> int:
        """Of a semaphore, in the order of their first use."""
        return self._numbers.setdefault(semaphore, len(self._numbers))


class RecordedCounts(list[int]):
    """How often each block ran: generated code counts when it enters one, and so the record learns of it."""

    def __init__(self, blocks: Sequence[Block], record: Record) -> None:
        super().__init__([0] * len(blocks))
        self._entries = [Entered(b.owner.number, b.owner.regions.index(b)) for b in blocks]
        self._record = record

    def __setitem__(self, block: SupportsIndex, count: int) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        super().__setitem__(block, count)
        self._record.append(self._entries[block])
