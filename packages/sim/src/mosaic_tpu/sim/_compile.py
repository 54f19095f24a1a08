"""From a module to Python functions, once for each way of running it."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mosaic_tpu.sim import rules as rules
from mosaic_tpu.sim._emit import Source, generate
from mosaic_tpu.sim._module import Module, Operation


@dataclass(eq=False)
class Compiled:
    """The functions of a module, generated.

    Attributes:
        functions: by name in the module.
        sources: what they were generated as.
    """

    module: Module
    functions: dict[str, Callable[..., Any]] = field(default_factory=dict[str, Callable[..., Any]])
    sources: dict[str, Source] = field(default_factory=dict[str, Source])

    @property
    def kernel(self) -> Callable[..., Any]:
        """The kernel's function."""
        return self.functions[self.module.name]

    @property
    def waits(self) -> bool:
        """Whether the kernel's function is a generator."""
        return self.sources[self.module.name].waits

    def culprit(self, error: BaseException) -> Operation | None:
        """The op in whose code an exception was raised."""
        found: Operation | None = None
        for frame in traceback.extract_tb(error.__traceback__):
            if frame.filename.startswith(_FILE) and frame.lineno is not None:
                name = frame.filename[len(_FILE) : -1]
                marks = self.sources[name].marks if name in self.sources else []
                if 0 < frame.lineno <= len(marks):
                    found = self.module.operations[marks[frame.lineno - 1]]
        return found

    def op_counts(self, counts: list[int]) -> dict[str, int]:
        """How often each op ran in the kernel's function, from how often each block did."""
        total: dict[str, int] = {}
        for times, histogram in zip(counts, self.sources[self.module.name].histograms, strict=True):
            if times:
                for name, count in histogram.items():
                    total[name] = total.get(name, 0) + times * count
        return total

    def region_counts(self, counts: list[int]) -> dict[tuple[int, int], int]:
        """How often each region of the kernel's function ran: by the number of its op, and its own in the op."""
        blocks = self.sources[self.module.name].blocks
        return {(b.owner.number, b.owner.regions.index(b)): n for b, n in zip(blocks, counts, strict=True)}


_FILE = "<mosaic-tpu "


def compiled(module: Module, *, checks: bool, several: bool) -> Compiled:
    """The functions of a module, cached with it.

    Raises:
        UnsupportedOpError: there is no rule for an op.
    """
    key = (checks, several)
    found = module.cache.get(key)
    if found is None:
        found = module.cache[key] = _compile(module, checks=checks, several=several)
    return found


def _compile(module: Module, *, checks: bool, several: bool) -> Compiled:
    made = Compiled(module)
    names: dict[str, Any] = {"np": np, "functions": made.functions}
    for name, function in module.functions.items():
        source = generate(module, function, names, checks=checks, several=several)
        made.sources[name] = source
        code = compile(source.text, f"{_FILE}{name}>", "exec")
        exec(code, names)  # names and strings of the module are data in it, escaped
        made.functions[name] = names[source.text[4 : source.text.index("(")]]
    return made
