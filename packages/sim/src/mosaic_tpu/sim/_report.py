"""What a simulation tells: outputs, hazards, traffic, memory."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from mosaic_tpu.sim._machine import Event
from mosaic_tpu.sim._memory import Array
from mosaic_tpu.sim._record import Entry
from mosaic_tpu.sim.errors import HazardError

#: Of the JSON form; a field's meaning changes only with this number.
SCHEMA = 1
_SHOWN = 12
_OPS = 4


@dataclass(frozen=True, eq=False)
class Report:
    """The result of `simulate`.

    Attributes:
        kernel: name of the kernel's function; of a program, of each kernel in it.
        engine: ``"numpy"`` or ``"xla"``.
        outputs: the first device's arrays.
        outputs_of: every device's arrays.
        hazards: what a TPU would not forgive, in the order it was seen; empty if nothing was, or nobody looked.
        seed: of the schedule.
        steps: grid steps and loop iterations.
        dmas: copies started, windows' included.
        dma_bytes: what they copied.
        op_counts: how often each op of the kernel's function ran; loads and arithmetic that nobody uses are left out.
        region_counts: how often each region of the kernel's function ran, by the number of its op in the module
            (`mosaic_tpu.sim.ir`) and its own number in the op; the function's own is that of all cores' grid steps.
        memory: the most that any core had in use of each memory space, in bytes; of HBM, the arrays of a device.
        unwritten: for each output with elements that were never written, how many; not counted after a hazard.
        trace: DMAs, waits and signals in order.
        dropped: events that the trace had no room for.
        record: what the kernel did, in order, if it was run by `mosaic_tpu.sim.record.recorded`.
        seconds: wall-clock time of the run.
        kernels: for a program, the report of each kernel in it, in order.
        options: what the run was asked for, beside the seed.
        stopped: whether the run ended at its last hazard: outputs and counts are what there was until then.
    """

    kernel: str
    engine: str
    outputs: tuple[Array, ...] = field(repr=False)
    outputs_of: tuple[tuple[Array, ...], ...] = field(repr=False, default=())
    hazards: tuple[HazardError, ...] = ()
    seed: int = 0
    steps: int = 0
    dmas: int = 0
    dma_bytes: int = 0
    op_counts: dict[str, int] = field(repr=False, default_factory=dict[str, int])
    region_counts: dict[tuple[int, int], int] = field(repr=False, default_factory=dict[tuple[int, int], int])
    memory: dict[str, int] = field(default_factory=dict[str, int])
    unwritten: dict[str, int] = field(default_factory=dict[str, int])
    trace: tuple[Event, ...] = field(repr=False, default=())
    dropped: int = 0
    record: tuple[Entry, ...] = field(repr=False, default=())
    seconds: float = 0.0
    kernels: tuple[Report, ...] = field(repr=False, default=())
    options: dict[str, Any] = field(repr=False, default_factory=dict[str, Any])
    stopped: bool = False

    def json(self, *, indent: int | None = 2, trace: bool = False) -> str:
        """Everything but the arrays, whose shapes and dtypes it names.

        Args:
            indent: as in `json.dumps`.
            trace: with every event.
        """
        return json.dumps(self.as_dict(trace=trace), indent=indent)

    def as_dict(self, *, trace: bool = False) -> dict[str, Any]:
        """The content of the JSON form."""
        made: dict[str, Any] = {
            "schema": SCHEMA,
            "kernel": self.kernel,
            "engine": self.engine,
            "seed": self.seed,
            "options": self.options,
            "stopped": self.stopped,
            "seconds": self.seconds,
            "outputs": [[f"{a.dtype}{list(a.shape)}" for a in arrays] for arrays in self.outputs_of],
            "hazards": [_hazard(h) for h in self.hazards],
            "steps": self.steps,
            "dmas": self.dmas,
            "dma_bytes": self.dma_bytes,
            "memory": self.memory,
            "unwritten": self.unwritten,
            "op_counts": self.op_counts,
        }
        if trace:
            made["trace"] = [[e.kind, e.core, e.what, e.amount, e.line] for e in self.trace]
            made["dropped"] = self.dropped
        if len(self.kernels) > 1:  # of one, all is said above
            made["kernels"] = [k.as_dict(trace=trace) for k in self.kernels]
        return made

    def __str__(self) -> str:
        rows = [
            ("kernel", self.kernel),
            ("engine", f"{self.engine}, seed {self.seed}, {self.seconds * 1e3:.1f} ms"),
            ("outputs", ", ".join(f"{a.dtype}{list(a.shape)}" for a in self.outputs) or "none"),
            ("devices", str(len(self.outputs_of))),
            *(self._counted() if self.engine == "numpy" else ()),
            ("hazards", self._verdict()),
        ]
        lines = [f"{name:<10} {text}" for name, text in rows if (name, text) != ("devices", "1")]
        for hazard in self.hazards[:_SHOWN]:
            first, *rest = str(hazard).splitlines()
            lines += [f"  {type(hazard).__name__}: {first}", *(f"  {line}" for line in rest)]
        if len(self.hazards) > _SHOWN:
            lines.append(f"  … and {len(self.hazards) - _SHOWN} more")
        return "\n".join(lines)

    def _counted(self) -> list[tuple[str, str]]:
        """What the reference engine counts."""
        common = Counter(self.op_counts).most_common()
        more = f" and {len(common) - _OPS} more" if len(common) > _OPS else ""
        nothing = "not counted, after a hazard" if self.hazards else "nothing"
        unwritten = ", ".join(f"{n} {c:,} elements" for n, c in self.unwritten.items()) or nothing
        return [
            ("steps", f"{self.steps:,}"),
            ("DMAs", f"{self.dmas:,}, {_size(self.dma_bytes)}"),
            ("memory", ", ".join(f"{space} {_size(n)}" for space, n in sorted(self.memory.items())) or "none"),
            ("ops", ", ".join(f"{n} {c:,}" for n, c in common[:_OPS]) + more),
            ("unwritten", unwritten if self.options.get("checks", True) else "not looked for"),
        ]

    def _verdict(self) -> str:
        """How many hazards there are, and what was looked for."""
        if self.hazards:
            return f"{len(self.hazards)}, the run stopped at the last" if self.stopped else str(len(self.hazards))
        if not self.options.get("checks", True):
            return "not looked for"
        return "none" if self.engine == "numpy" else "none of those that this engine looks for"

    def raise_for_hazards(self) -> None:
        """Raise the first hazard, if there is one."""
        if self.hazards:
            raise self.hazards[0]


def _hazard(hazard: HazardError) -> dict[str, Any]:
    names = ("summary", "op", "location", "buffer", "device", "step", "seed", "related", "hint")
    return {"kind": type(hazard).__name__, **{n: getattr(hazard, n) for n in names}}


def _size(count: int) -> str:
    amount = float(count)
    for unit in ("B", "KiB", "MiB"):
        if amount < 1024:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} GiB"


def merged(outputs: Sequence[Array], kernels: Sequence[Report]) -> Report:
    """The report of a program: its outputs, and its kernels' reports together."""
    results: dict[str, Any] = {"outputs": tuple(outputs), "outputs_of": (tuple(outputs),), "kernels": tuple(kernels)}
    if len(kernels) == 1:
        return replace(kernels[0], **results)
    total: Counter[str] = Counter()
    unwritten: Counter[str] = Counter()
    memory: dict[str, int] = {}
    for k in kernels:
        total.update(k.op_counts)
        unwritten.update(k.unwritten)
        memory |= {s: max(n, memory.get(s, 0)) for s, n in k.memory.items()}
    return Report(
        kernel=", ".join(k.kernel for k in kernels),
        engine=kernels[0].engine,
        **results,
        hazards=tuple(h for k in kernels for h in k.hazards),
        seed=kernels[0].seed,
        steps=sum(k.steps for k in kernels),
        dmas=sum(k.dmas for k in kernels),
        dma_bytes=sum(k.dma_bytes for k in kernels),
        op_counts=dict(total),
        memory=memory,
        unwritten=dict(unwritten),
        trace=tuple(e for k in kernels for e in k.trace),
        dropped=sum(k.dropped for k in kernels),
        seconds=sum(k.seconds for k in kernels),
        options=kernels[0].options,
        stopped=any(k.stopped for k in kernels),
    )


__all__ = ["SCHEMA", "Report", "merged"]
