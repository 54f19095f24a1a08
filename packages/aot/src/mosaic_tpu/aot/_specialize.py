"""An estimate of a kernel's cycles for a given batch: bundles of each block times how often the simulator ran it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from mosaic_tpu.aot._compile import TIMEOUT, Compilation
from mosaic_tpu.aot._compile import compile as compile_source
from mosaic_tpu.aot._matching import place, runs_of
from mosaic_tpu.aot._operands import layout_of, only_kernel, scalar_values, simulated
from mosaic_tpu.aot._program import program_of
from mosaic_tpu.aot._roofline import Roofline
from mosaic_tpu.aot._work import Work, counted_work
from mosaic_tpu.aot.errors import EstimateError
from mosaic_tpu.aot.schedule import Block, Estimate, Schedule
from mosaic_tpu.aot.targets import Target

SCHEMA: Final = 1
#: Of the way that cycles are estimated: another one gives other numbers.
ESTIMATOR: Final = "1"


@dataclass(frozen=True)
class Stalls:
    """What the compiler's estimates hold besides bundles.

    Fitted to its estimates of matmuls and flash attentions of several block sizes on each generation (libtpu 0.0.50.1);
    ``python -m conformance.measure stalls`` fits them again and prints how far off they are: within 15 % for those
    kernels; of five others within 17 % for the three that wait 50 times or more, and by up to about half for the two
    that wait 3 and 8 times. Nothing was measured on a TPU.

    Attributes:
        wait: cycles for each wait for a copy.
        start: cycles until the first step.
        hbm: share of the time at HBM's nominal bandwidth that it takes copies for.
    """

    wait: float
    start: float
    hbm: float = 0.64

    def cycles(self, issue: int, waits: int, memory: float, ideal: float) -> float:
        """What a call takes: bundles, or copies where they take longer, and waits; never less than the roofline's.

        Args:
            issue: bundles issued.
            waits: for a copy.
            memory: cycles of HBM at its nominal bandwidth.
            ideal: cycles of the roofline.
        """
        return max(max(issue, self.hbm * memory) + self.wait * waits + self.start, ideal)


#: v4 and v5p are taken for v5e: the compiler makes no estimate for the one, and for the other nobody compared.
_FITTED: Final = {"v5e": Stalls(197, 130), "v6e": Stalls(113, 850), "tpu7x": Stalls(126, 450)}


@dataclass(frozen=True)
class Segment:
    """A block of the schedule in this run.

    Attributes:
        block: of the schedule.
        runs: how often it runs.
    """

    block: Block
    runs: int

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
        work: flops and bytes that the run had.
    """

    name: str
    schedule: Schedule = field(repr=False)
    segments: tuple[Segment, ...] = field(repr=False)
    work: Work

    @property
    def target(self) -> Target:
        """What it was compiled for."""
        return self.schedule.target

    @property
    def issue_cycles(self) -> int:
        """Bundles issued in a call."""
        return sum(segment.bundles for segment in self.segments)

    @property
    def waits(self) -> int:
        """Waits for a copy in a call."""
        return sum(segment.block.waits * segment.runs for segment in self.segments)

    @property
    def cycles(self) -> float:
        """The estimate: bundles, or copies where they take longer, and waits; never less than the roofline's."""
        stalls = _FITTED.get(self.target.generation.name, _FITTED["v5e"])
        ideal = Roofline(self.name, self.target, self.work)
        return stalls.cycles(self.issue_cycles, self.waits, ideal.memory_cycles, ideal.ideal_cycles)

    @property
    def roofline(self) -> Roofline:
        """The work against the ceilings, with this estimate."""
        return Roofline(self.name, self.target, self.work, self.cycles)

    @property
    def compiler(self) -> Estimate:
        """The compiler's own estimate, for comparison: trustworthy only where no trip count depends on data."""
        return self.schedule.estimate

    def _as(self) -> str:
        return "" if self.target.generation.name in _FITTED else ", with the stalls of v5e: none were fitted here"

    def __str__(self) -> str:
        own = self.compiler
        lines = [
            f"{self.name} for {self.target}: {self.cycles:,.0f} cycles estimated{self._as()}",
            f"  issuing    {self.issue_cycles:,} bundles, {self.waits:,} waits for a copy",
            f"  compiler   {f'{own.cycles:,} cycles' if own.trustworthy else own.why}",
            f"  {'block':<22} {'bundles':>8} {'runs':>9} {'issued':>11} {'share':>6}",
        ]
        total = max(1, self.issue_cycles)
        for s in sorted(self.segments, key=lambda s: -s.bundles)[:12]:
            name = "  " * s.block.depth + s.block.name
            lines.append(
                f"  {name:<22} {s.block.own_bundles:>8,} {s.runs:>9,} {s.bundles:>11,} {s.bundles / total:>6.1%}"
            )
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """All of it as plain data. ``"schema"`` is 1."""
        return {
            "schema": SCHEMA,
            "kernel": self.name,
            "target": str(self.target),
            "cycles": self.cycles,
            "issue_cycles": self.issue_cycles,
            "waits": self.waits,
            "compiler_cycles": self.compiler.cycles if self.compiler.trustworthy else None,
            "segments": [
                {"block": s.block.name, "depth": s.block.depth, "bundles": s.block.own_bundles, "runs": s.runs}
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
    these scalars, and zeros for all other operands, and counts how often each block of the schedule runs. Arrays stay
    in HBM, as in a large program.

    Every wait for a copy is taken for the same time, whether the copy had just been started or was over long ago. So
    this does not rank a kernel that hides its copies before one that waits for each.

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
    compiled: Compilation = compile_source(
        source,
        target,
        vmem_limit_bytes=vmem_limit_bytes,
        operands_in_hbm=True,
        schedule=True,
        timeout=timeout,
        cache=cache,
    )
    schedule = compiled.schedule
    report = simulated(call, module, scalars, timeout)
    runs = runs_of(schedule.kernel, module, report.region_counts)
    if runs is None:
        raise EstimateError("the schedule's loops are not the kernel's", op=compiled.name, target=str(compiled.target))
    segments = tuple(Segment(block, runs[place(block)]) for block in schedule.segments)
    work = counted_work(module, layout_of(call, module), report.region_counts, report.dma_bytes)
    return Specialized(compiled.name, schedule, segments, work)
