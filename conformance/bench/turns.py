"""Contestants that take turns."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Timed:
    """Median milliseconds of each contestant."""

    ms: Mapping[str, float]

    def ratio(self, over: str, under: str) -> float:
        """One contestant's time as a multiple of another's."""
        return self.ms[over] / self.ms[under]


def in_turns(contestants: Mapping[str, Callable[[], object]], repeats: int, show: Callable[[str], None]) -> Timed:
    """Run each contestant in turn, ``repeats`` rounds; garbage is collected before each run and not within."""
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for number in range(repeats + 1):
        show(f"round {number} of {repeats}")
        for name, run in contestants.items():
            gc.collect()
            gc.disable()
            start = time.process_time()
            run()
            elapsed = time.process_time() - start
            gc.enable()
            if number:  # the first round warms up
                times[name].append(elapsed * 1e3)
    return Timed({name: statistics.median(found) for name, found in times.items()})
