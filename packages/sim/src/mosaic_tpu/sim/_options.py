"""How a simulation runs."""

from __future__ import annotations

import operator
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np

from mosaic_tpu.sim.errors import InputError

type Timing = Literal["random", "eager", "wait"]
_TIMINGS: Final = ("random", "eager", "wait")
#: A device has two cores at most today; what is simulated takes memory for each.
_RANGES: Final = {"seed": (0, 1 << 63), "cores": (1, 64), "max_steps": (1, 1 << 63)}


@dataclass(frozen=True)
class Options:
    """The keyword arguments of `simulate`.

    Attributes:
        seed: of the schedule.
        dma: when copies happen: ``"eager"`` at the start, ``"wait"`` as late as a wait allows, ``"random"`` in between.
        checks: look for hazards.
        collect: gather hazards in the report instead of raising the first.
        shuffle: run parallel grid dimensions in a seeded order.
        fill: which pattern uninitialised memory holds: 0, 1 or 2.
        allow_unwritten: outputs may have elements that were never written, all or those with these names.
        cores: simulated cores of each device, which share ``core_parallel`` grid dimensions.
        timeout: seconds after which the run is given up.
        max_steps: loop iterations and grid steps after which it is given up.
        record: keep what happens, in order.
    """

    seed: int = 0
    dma: Timing = "random"
    checks: bool = True
    collect: bool = False
    shuffle: bool = False
    fill: int = 0
    allow_unwritten: bool | Collection[str] = False
    cores: int = 1
    timeout: float | None = None
    max_steps: int | None = None
    record: bool = False

    def __post_init__(self) -> None:
        if self.dma not in _TIMINGS:
            raise InputError(f"dma is {self.dma!r}", op="simulate", hint=f"one of {', '.join(map(repr, _TIMINGS))}")
        for name, (low, high) in _RANGES.items():
            value = getattr(self, name)
            if value is None and name == "max_steps":
                continue
            number = _index(value)
            if number is None or not low <= number <= high:
                hint = f"{name} is an int from {low} to {high}"
                raise InputError(f"{name} is {value!r}", op="simulate", hint=hint)
            object.__setattr__(self, name, number)
        if not isinstance(self.allow_unwritten, bool) and not _are_names(self.allow_unwritten):
            raise InputError(
                f"allow_unwritten is {self.allow_unwritten!r}", op="simulate", hint="True, or names of outputs"
            )
        for name in ("checks", "collect", "shuffle"):
            if not isinstance(getattr(self, name), bool):
                raise InputError(f"{name} is {getattr(self, name)!r}", op="simulate", hint="True or False")
        timeout: Any = self.timeout
        if timeout is not None and not (isinstance(timeout, int | float) and timeout > 0):
            raise InputError(f"timeout is {timeout!r}", op="simulate", hint="seconds, more than 0")
        if self.fill not in (0, 1, 2):
            raise InputError(f"fill is {self.fill!r}", op="simulate", hint="0, 1 or 2")

    def may_be_unwritten(self, output: str) -> bool:
        """Whether nobody minds if elements of an output were never written."""
        names = self.allow_unwritten
        return names if isinstance(names, bool) else output in names


def _index(value: Any) -> int | None:
    """An integer of any kind but a bool; ``None`` if it is none."""
    try:
        return None if isinstance(value, bool | np.bool_) else operator.index(value)
    except TypeError:
        return None


def _are_names(value: Any) -> bool:
    return isinstance(value, Collection) and not isinstance(value, str) and all(isinstance(n, str) for n in value)  # pyright: ignore[reportUnknownVariableType]
