"""An estimate of a kernel's cycles for a given batch: the compiler's bundles on the clock of a simulated run."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from mosaic_tpu.aot._compile import TIMEOUT, compile_to_count
from mosaic_tpu.aot._frames import frames_of
from mosaic_tpu.aot._matching import Region, matched, place
from mosaic_tpu.aot._operands import layout_of, only_kernel, scalar_values, simulated
from mosaic_tpu.aot._program import program_of
from mosaic_tpu.aot._roofline import Roofline
from mosaic_tpu.aot._text import size
from mosaic_tpu.aot._timeline import Speed, Timeline, walk
from mosaic_tpu.aot._work import Work, flops_of
from mosaic_tpu.aot.errors import EstimateError
from mosaic_tpu.aot.schedule import Block, Estimate, Schedule
from mosaic_tpu.aot.schedule.machine import machine
from mosaic_tpu.aot.targets import Target
from mosaic_tpu.sim import record

SCHEMA: Final = 2
#: Of the way that cycles are estimated: another one gives other numbers.
ESTIMATOR: Final = "2"


@dataclass(frozen=True)
class Segment:
    """A block of the schedule in this run.

    Attributes:
        block: of the schedule.
        runs: how often it runs.
        cycles: that its own bundles take in all of them: one each, and those that they wait for results.
    """

    block: Block
    runs: int
    cycles: float

    @property
    def bundles(self) -> int:
        """Bundles issued: its own, times its runs."""
        return self.block.own_bundles * self.runs


@dataclass(frozen=True)
class Specialized:
    """A schedule with values for the scalars: how often each block runs, and the cycles that takes.

    Use it to rank variants of a kernel on one generation, never as absolute time.

    Attributes:
        name: of the kernel.
        schedule: that the compiler made.
        segments: every block with bundles of its own.
        work: flops and bytes that the run had; where two cores share the grid, one core's share of them.
        timeline: the run on a clock: bundles, copies, and waits for them.
    """

    name: str
    schedule: Schedule = field(repr=False)
    segments: tuple[Segment, ...] = field(repr=False)
    work: Work
    timeline: Timeline

    @property
    def target(self) -> Target:
        """What it was compiled for."""
        return self.schedule.target

    @property
    def bundles(self) -> int:
        """Bundles issued in a call."""
        return sum(segment.bundles for segment in self.segments)

    @property
    def issue_cycles(self) -> float:
        """Cycles of a call in which bundles issue, or wait for results of vector units: all but waits for copies."""
        return sum(segment.cycles for segment in self.segments)

    @property
    def waits(self) -> int:
        """Waits for a copy in a call."""
        return self.timeline.waits

    @property
    def cycles(self) -> float:
        """The estimate: issuing, and waiting for copies that are not over; never less than the roofline's."""
        return max(self.timeline.cycles, Roofline(self.name, self.target, self.work).ideal_cycles)

    @property
    def bound(self) -> str:
        """``"memory"`` if bundles issue in less than half of the cycles, else ``"compute"``."""
        return "compute" if 2 * self.issue_cycles >= self.cycles else "memory"

    @property
    def roofline(self) -> Roofline:
        """The work against the ceilings, with this estimate."""
        return Roofline(self.name, self.target, self.work, self.cycles)

    @property
    def compiler(self) -> Estimate:
        """The compiler's own estimate, for comparison: trustworthy only where no trip count depends on data."""
        return self.schedule.estimate

    def __str__(self) -> str:
        own, line, least = self.compiler, self.timeline, self.roofline
        measured = machine(self.target.generation).estimated
        borrowed = "" if measured else ", with the latencies of v5e: the compiler estimates nothing here"
        lines = [
            f"{self.name} for {self.target}: {self.cycles:,.0f} cycles estimated{borrowed}",
            f"  issuing    {self.issue_cycles:,.0f} cycles, {self.bundles:,} bundles",
            f"  waiting    {line.waited:,.0f} cycles, {line.waits:,} waits for a copy",
            f"  copies     {line.copies:,}, {size(line.bytes)} to and from HBM",
            f"  bound      {self.bound}; by the roofline {least.bound}, no fewer than {least.ideal_cycles:,.0f} cycles",
            f"  compiler   {f'{own.cycles:,} cycles' if own.trustworthy else own.why}",
            f"  {'block':<22} {'bundles':>8} {'runs':>9} {'cycles':>11} {'share':>6}",
        ]
        for s in sorted(self.segments, key=lambda s: -s.cycles)[:12]:
            name = "  " * s.block.depth + s.block.name
            share = s.cycles / max(1, self.cycles)
            lines.append(f"  {name:<22} {s.block.own_bundles:>8,} {s.runs:>9,} {s.cycles:>11,.0f} {share:>6.1%}")
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """All of it as plain data. ``"schema"`` is 2."""
        return {
            "schema": SCHEMA,
            "kernel": self.name,
            "target": str(self.target),
            "cycles": self.cycles,
            "bound": self.bound,
            "bundles": self.bundles,
            "issue_cycles": self.issue_cycles,
            "waited_cycles": self.timeline.waited,
            "waits": self.waits,
            "copies": self.timeline.copies,
            "copied_bytes": self.timeline.bytes,
            "compiler_cycles": self.compiler.cycles if self.compiler.trustworthy else None,
            "segments": [
                {
                    "block": s.block.name,
                    "depth": s.block.depth,
                    "bundles": s.block.own_bundles,
                    "runs": s.runs,
                    "cycles": s.cycles,
                }
                for s in self.segments
            ],
            "roofline": self.roofline.to_json(),
        }


def specialize(
    source: Any,
    target: str | Target = "v6e",
    *,
    scalars: Sequence[Any] | Mapping[str, Any] = (),
    vmem_limit_bytes: int | None = None,
    timeout: float = TIMEOUT,
    cache: bool = True,
) -> Specialized:
    """Estimate a kernel's cycles for given values of its scalars, a real ragged batch for instance.

    The compiler's own estimate skips loops whose trip counts depend on data. Here the simulator runs the kernel with
    these scalars, and zeros for all other operands, and a clock follows what it did: blocks of the schedule take their
    bundles, and what these wait for results; a copy takes its latency and its bytes, and a wait for it what is left of
    that. Arrays stay in HBM, as in a large program.

    Latencies are the compiler's own, read off its estimates (`nox -s measure -- latencies`); HBM's speed is the nominal
    one. As in those estimates, copies on their way together do not slow each other down; the roofline bounds the whole.
    Where the compiler has an estimate to be trusted, this one comes within 10 % of it for matmuls and flash attention.
    Nothing was measured on a TPU.

    Args:
        source: as `mosaic_tpu.aot.compile` takes it, with one kernel in it.
        target: the generation.
        scalars: values of the bounds of a dynamic grid and of the scalar prefetch, in their order or by name.
        vmem_limit_bytes: as in `compile`, and so the other options.
        timeout: seconds for the compiler, and for the simulator.
        cache: look for the schedule on disk, and keep it there.

    Raises:
        CompileError: the compiler refused the kernel.
        DumpError: what it left of the schedule cannot be read.
        EstimateError: the loops of the schedule are not those of the kernel.
        NoCompilerError: libtpu is not installed.
        OptionError: the scalars do not fit, or an option has a value outside its range.
        SourceError: there is not one kernel in the source.
        TargetError: there is no such target.
        mosaic_tpu.sim.SimulationError: the simulator cannot run it with these scalars, or not within the time.

    Example:
        >>> from mosaic_tpu import aot
        >>> lengths = [[17, 4096, 128, 1]]                                                # one entry a sequence
        >>> print(aot.specialize(lowered, "v6e", scalars=lengths))                        # doctest: +SKIP
    """
    call, module = only_kernel(program_of(source, op="specialize"))
    scalar_values(call, module, scalars)  # wrong ones are refused before the compiler is asked
    compiled = compile_to_count(source, target, vmem_limit_bytes, timeout, cache)
    schedule = compiled.schedule
    report = simulated(call, module, scalars, timeout)
    body = (module.kernel.operation.number, 0)
    entries = _of_one_core(report.record, body, schedule.grid)
    counts = Counter((e.op, e.region) for e in entries if isinstance(e, record.Entered))
    match = matched(schedule.kernel, module, counts)
    if match is None:
        raise EstimateError("the schedule's loops are not the kernel's", op=compiled.name, target=str(compiled.target))
    layout = layout_of(call, module)
    generation = schedule.target.generation
    latencies = machine(generation).latencies
    speed = Speed(generation.hbm_bytes_per_cycle, latencies.fetch, latencies.store)
    single = {a.name for a in layout.arguments if a.window is not None and a.window.synchronous}
    timeline = walk(entries, frames_of(schedule, module, match, counts), body, speed, single)
    segments = tuple(_segment(schedule, block, match.blocks[place(block)].runs) for block in schedule.segments)
    work = Work(flops_of(module, counts) or {}, timeline.bytes, True)
    return Specialized(compiled.name, schedule, segments, work, timeline)


def _of_one_core(entries: Sequence[record.Entry], body: Region, grid: tuple[int, ...] | None) -> Sequence[record.Entry]:
    """The record as far as the first core's share of the grid goes: where two share it, each has half of the steps."""
    begins = [
        n for n, entry in enumerate(entries) if isinstance(entry, record.Entered) and (entry.op, entry.region) == body
    ]
    steps = math.prod(grid) if grid else 0
    if not 0 < steps < len(begins):
        return entries
    before = begins[steps - 2] if steps > 1 else -1
    kept = entries[: begins[steps]]
    return [e for n, e in enumerate(kept) if n < before or not (isinstance(e, record.Moved) and e.ahead)]


def _segment(schedule: Schedule, block: Block, runs: int) -> Segment:
    return Segment(block, runs, runs * sum(schedule.issue[address] for address in block.addresses))
