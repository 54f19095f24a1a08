"""Every op of a kernel that starts, signals or waits, left out in turn."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from conformance.faults.fault import Array
from conformance.harness import levels
from mosaic_tpu.sim import HazardError, Report, simulate, simulate_devices
from mosaic_tpu.sim._program import KernelCall, calls_of, run_program

_LEFT_OUT: Final = re.compile(r"\s*(tpu\.(?:wait_dma2?|enqueue_dma|sem_signal|sem_wait))\b")


@dataclass(frozen=True)
class Call:
    """A kernel as text, with what it is called with on each device."""

    text: str
    operands: Sequence[Sequence[Array]]
    outputs: Sequence[tuple[tuple[int, ...], Any]]
    pads: bool = False

    def run(self, text: str = "", **options: Any) -> Report:
        """Simulate it, or another text in its place."""
        options |= {"outputs": self.outputs, "allow_unwritten": self.pads}
        if len(self.operands) > 1:
            return simulate_devices(text or self.text, self.operands, **options)
        return simulate(text or self.text, *self.operands[0], **options)

    def find(self, text: str, **options: Any) -> HazardError | None:
        """The hazard that a text ends in."""
        try:
            self.run(text, **options)
        except HazardError as error:
            return error
        return None


def call_of(program: str, arrays: Sequence[Array], *, devices: int = 1, pads: bool = False) -> Call:
    """The one kernel of a program, with the operands that the program gives it."""
    if devices > 1:
        (call,) = calls_of(program)
        return Call(levels.to_text(call.body), [[array] for array in arrays], call.outputs, pads)
    seen: list[tuple[KernelCall, list[Array]]] = []

    def look(call: KernelCall, operands: list[Array]) -> Sequence[Array]:
        seen.append((call, operands))
        return [np.zeros(shape, dtype) for shape, dtype in call.outputs]

    run_program(program, arrays, look)
    ((call, operands),) = seen
    return Call(levels.to_text(call.body), [operands], call.outputs, pads)


def mutants(text: str) -> Iterator[tuple[str, str]]:
    """The name of each op that is left out, and the text without it."""
    lines = text.split("\n")
    for i, line in enumerate(lines):
        if found := _LEFT_OUT.match(line):
            yield found[1], "\n".join(lines[:i] + lines[i + 1 :])
