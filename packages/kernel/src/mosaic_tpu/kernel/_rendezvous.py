"""Where the devices of a `jax.shard_map` meet: each runs the same program in a thread of its own.

A call site has one `Rendezvous`. Each time the program reaches the call, its devices hold a meeting there: they bring a
value each, and the last to come draws the conclusion for all. There is one meeting at a time, since XLA runs programs
that span several devices one after another, and a device stays until its meeting is over.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, Final

#: Seconds between two looks at the clock.
_TICK: Final = 0.1


class NoMeetingError(Exception):
    """Not all devices came, or one came twice."""


class Activity:
    """Whether anything is being simulated: while something is, whoever waits goes on waiting."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running = 0
        self._since = time.monotonic()

    @contextmanager
    def running(self) -> Generator[None]:
        """Around a simulation."""
        with self._lock:
            self._running += 1
        try:
            yield
        finally:
            with self._lock:
                self._running -= 1
                self._since = time.monotonic()

    def idle(self, since: float) -> float:
        """Seconds in which nothing was simulated, from ``since`` on."""
        with self._lock:
            return 0.0 if self._running else time.monotonic() - max(self._since, since)


class _Meeting:
    """One time that the program reached the call."""

    def __init__(self) -> None:
        self.values: dict[int, Any] = {}
        self.over = threading.Event()
        self.result: Any = None
        self.error: BaseException | None = None

    def conclude(self, conclusion: Callable[[dict[int, Any]], Any]) -> None:
        try:
            self.result = conclusion(self.values)
        except BaseException as error:
            self.error = error
        finally:
            self.over.set()


class Rendezvous:
    """The meeting place of one call site.

    Args:
        devices: how many run the program.
        activity: whether anything is being simulated.
    """

    def __init__(self, devices: int, activity: Activity) -> None:
        self._devices = devices
        self._activity = activity
        self._lock = threading.Lock()
        self._open = _Meeting()

    def meet[Value, Result](
        self, device: int, value: Value, conclusion: Callable[[dict[int, Value]], Result], *, seconds: float
    ) -> Result:
        """Wait until every device has come.

        Args:
            device: the one that comes.
            value: what it brings.
            conclusion: from the values of all devices to what each gets; the last to come calls it.
            seconds: how long to wait while nothing is being simulated.

        Raises:
            NoMeetingError: not all came, or one came twice.
            Exception: what the conclusion raised, in every device.
        """
        meeting, complete = self._join(device, value)
        if complete:
            meeting.conclude(conclusion)
        else:
            self._wait(meeting, seconds)
        if meeting.error is not None:
            raise meeting.error
        return meeting.result

    def _join(self, device: int, value: Any) -> tuple[_Meeting, bool]:
        with self._lock:
            meeting = self._open
            if device in meeting.values:
                # Two calls share the site and run at once: whose value belongs to whose cannot be told.
                self._dissolve(f"device {device} has reached the kernel a second time while its first call waits")
                return meeting, False
            meeting.values[device] = value
            complete = len(meeting.values) == self._devices
            if complete:
                self._open = _Meeting()
            return meeting, complete

    def _wait(self, meeting: _Meeting, seconds: float) -> None:
        start = time.monotonic()
        while not meeting.over.wait(min(_TICK, seconds)):
            if self._activity.idle(start) > seconds:
                with self._lock:
                    if meeting is self._open:  # the last has not come in the meantime
                        self._dissolve(f"{self._attendance()} in {seconds:g} s")

    def _attendance(self) -> str:
        absent = [d for d in range(self._devices) if d not in self._open.values]
        return f"devices {sorted(self._open.values)} have reached the kernel, and {absent} have not"

    def _dissolve(self, why: str) -> None:
        """Send everybody away who waits."""
        self._open.error = NoMeetingError(why)
        self._open.over.set()
        self._open = _Meeting()


__all__ = ["Activity", "NoMeetingError", "Rendezvous"]
