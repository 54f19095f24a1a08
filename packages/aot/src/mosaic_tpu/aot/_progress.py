"""How far long work has come: a line that is rewritten on a terminal, nothing elsewhere unless it is asked for."""

from __future__ import annotations

import threading
import time
from typing import TextIO


class Progress:
    """Counts steps of `total` and says how long the rest will take.

    Args:
        total: steps.
        what: has been done: ``"compiled"``.
        out: where to.
        wanted: whether to report; by default where `out` is a terminal.
    """

    def __init__(self, total: int, what: str, out: TextIO, wanted: bool | None = None) -> None:
        self._total, self._what, self._out = total, what, out
        self._live = out.isatty()
        self._on = total > 1 and (self._live if wanted is None else wanted)
        self._done = 0
        self._started = time.monotonic()
        self._lock = threading.Lock()

    def __enter__(self) -> Progress:
        self._show()
        return self

    def __exit__(self, *exception: object) -> None:
        if self._on and self._live:
            print(file=self._out, flush=True)

    def step(self) -> None:
        """One more is done."""
        with self._lock:
            self._done += 1
            self._show()

    def _show(self) -> None:
        if not self._on:
            return
        line = f"{self._done}/{self._total} {self._what}{self._rest()}"
        print(f"\r\x1b[K{line}" if self._live else line, end="" if self._live else "\n", file=self._out, flush=True)

    def _rest(self) -> str:
        if not 0 < self._done < self._total:
            return ""
        seconds = (time.monotonic() - self._started) / self._done * (self._total - self._done)
        return f", {seconds:.0f} s to go" if seconds < 90 else f", {seconds / 60:.0f} min to go"
