"""The least time that a kernel can take on a generation, and what bounds it there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from mosaic_tpu.aot._operands import layout_of, only_kernel, simulated
from mosaic_tpu.aot._program import program_of
from mosaic_tpu.aot._source import readable
from mosaic_tpu.aot._work import ON_DATA, Work, counted_work, static_work
from mosaic_tpu.aot.errors import OptionError
from mosaic_tpu.aot.targets import Target, find_target

SCHEMA: Final = 1


@dataclass(frozen=True)
class Roofline:
    """A kernel's work against the ceilings of one TensorCore.

    Ceilings are those of JAX's table (`mosaic_tpu.aot.targets`); nothing here was measured on a TPU.

    Attributes:
        name: of the kernel.
        target: the generation.
        work: flops and bytes of a call.
        cycles: that a call takes by an estimate, if there is one.
    """

    name: str
    target: Target
    work: Work
    cycles: float | None = None

    @property
    def compute_cycles(self) -> float:
        """Cycles of the MXUs at their peak."""
        generation = self.target.generation
        return sum(n / generation.peak(element) for element, n in self.work.flops.items()) * generation.clock_hz

    @property
    def peak(self) -> float:
        """Flops a second of the MXUs at their peak, for this mix of element types; in bf16 where there is no matmul."""
        generation = self.target.generation
        if not self.work.total_flops:
            return generation.flops_per_second["bf16"]
        return self.work.total_flops / self.compute_cycles * generation.clock_hz

    @property
    def memory_cycles(self) -> float:
        """Cycles of HBM at its peak."""
        return self.work.hbm_bytes / self.target.generation.hbm_bytes_per_cycle

    @property
    def ideal_cycles(self) -> float:
        """The larger of both: no run is faster."""
        return max(self.compute_cycles, self.memory_cycles)

    @property
    def bound(self) -> str:
        """``"compute"`` or ``"memory"``, whichever takes longer."""
        return "compute" if self.compute_cycles >= self.memory_cycles else "memory"

    @property
    def efficiency(self) -> float | None:
        """Ideal cycles over estimated ones, 1 at best; ``None`` without an estimate."""
        return self.ideal_cycles / self.cycles if self.cycles else None

    def __str__(self) -> str:
        generation = self.target.generation
        flops = ", ".join(f"{n:,} {element}" for element, n in self.work.flops.items()) or "no matmul"
        rows = [
            ("kernel", f"{self.name} for {self.target}"),
            ("flops", flops + ("" if self.work.counted else ", branches counted as taken")),
            ("HBM bytes", f"{self.work.hbm_bytes:,}, {self.work.intensity:.1f} flop a byte"),
            ("compute", f"{self.compute_cycles:,.0f} cycles at {self.peak / 1e12:g} Tflop/s"),
            ("memory", f"{self.memory_cycles:,.0f} cycles at {generation.hbm_bytes_per_second / 1e9:g} GB/s"),
            ("bound", f"{self.bound}: no fewer than {self.ideal_cycles:,.0f} cycles"),
        ]
        if self.cycles and self.efficiency:
            share = f"{self.efficiency:.0%} of the roofline"
            if self.efficiency > 1:
                share = "fewer than the roofline's: the estimate takes HBM for faster than its nominal bandwidth"
            rows.append(("estimate", f"{self.cycles:,.0f} cycles, {share}"))
        return "\n".join(f"{name:<10} {text}" for name, text in rows)

    def to_json(self) -> dict[str, Any]:
        """All of it as plain data. ``"schema"`` is 1."""
        return {
            "schema": SCHEMA,
            "kernel": self.name,
            "target": str(self.target),
            "flops": dict(self.work.flops),
            "hbm_bytes": self.work.hbm_bytes,
            "counted": self.work.counted,
            "compute_cycles": self.compute_cycles,
            "memory_cycles": self.memory_cycles,
            "ideal_cycles": self.ideal_cycles,
            "bound": self.bound,
            "estimated_cycles": self.cycles,
        }

    def svg(self) -> str:
        """The roofline of the generation with the kernel as a point, as an SVG that needs nothing else."""
        from mosaic_tpu.aot._roofline_svg import draw

        return draw(self)

    def _repr_svg_(self) -> str:
        return self.svg()  # what a notebook shows


def roofline(
    source: Any,
    target: str | Target = "v6e",
    *,
    scalars: Sequence[Any] | Mapping[str, Any] | None = None,
    cycles: float | None = None,
) -> Roofline:
    """A kernel's flops and bytes against the ceilings of a generation; the compiler is not asked.

    Args:
        source: as `mosaic_tpu.aot.compile` takes it, with one kernel in it.
        target: the generation.
        scalars: values of its scalar operands, for a kernel whose trip counts depend on them: in their order, or by
            the names of its arguments. The simulator then counts.
        cycles: an estimate to compare with.

    Raises:
        OptionError: trip counts depend on data, and there are no scalars.
        SourceError: there is not one kernel in the source.

    Example:
        >>> from mosaic_tpu import aot
        >>> print(aot.roofline(lowered, "v6e").bound)                   # doctest: +SKIP
        memory
    """
    found = find_target(target)
    if cycles is not None and (not isinstance(cycles, int | float) or not cycles > 0):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise OptionError(f"cycles is {cycles!r}", op="roofline", hint="an estimate, as specialize(…).cycles")
    call, module = only_kernel(program_of(source, op="roofline"))
    layout = layout_of(call, module)
    if scalars is not None:
        report = simulated(call, module, scalars)
        work: Work | None = counted_work(module, layout, report.region_counts, report.dma_bytes)
    else:
        with readable(module.name):
            work = static_work(module, layout)
    if work is None:
        raise OptionError(
            ON_DATA, op=module.name, hint="give scalars=[…], the values of its scalar operands: a real batch"
        )
    return Roofline(call.kernel_name or module.name, found, work, cycles)
