"""The schedule of a kernel: everything that is read from its dumps."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from mosaic_tpu.aot.schedule.allocations import Allocation, read_allocations, read_regions
from mosaic_tpu.aot.schedule.blocks import Block, read_blocks, with_runs, with_work
from mosaic_tpu.aot.schedule.bundles import Bundle, read_bundles, stripped
from mosaic_tpu.aot.schedule.dmas import DMA, count_waits, read_dmas, read_own_waits, read_placed, read_windows
from mosaic_tpu.aot.schedule.estimate import Estimate, read_estimate
from mosaic_tpu.aot.schedule.issue import read_issue
from mosaic_tpu.aot.schedule.lines import count_lines
from mosaic_tpu.aot.schedule.machine import VREG_BYTES, machine
from mosaic_tpu.aot.schedule.mxu import Matmuls, count_matmuls, cycles_of_all, sum_matmuls
from mosaic_tpu.aot.schedule.slots import FILL, SPILL, SlotUse, Utilization, read_utilization

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mosaic_tpu.aot.schedule.dumps import Dumps
    from mosaic_tpu.aot.targets import Target

_SPILLED: Final = re.compile(r"\[(vmem|smem):\[#(allocation\d+_spill)\]")


@dataclass(frozen=True)
class Registers:
    """Registers that did not fit and went through memory.

    Attributes:
        spills: vector registers stored.
        fills: vector registers loaded again.
        scalar_spills: scalar registers stored.
        scalar_fills: scalar registers loaded again.
        vmem_bytes: VMEM that the stored vector registers take.
    """

    spills: int
    fills: int
    scalar_spills: int
    scalar_fills: int
    vmem_bytes: int


@dataclass(frozen=True)
class Schedule:
    """What the compiler made of a kernel for one generation.

    Bundles are not cycles: a bundle takes a cycle or more. Counts are of the text, each instruction once however often
    it runs; `Block.runs` says how often, where that is known.

    Attributes:
        op: name of the HLO op, or of the kernel.
        target: what it was compiled for.
        bundles: VLIW instructions.
        kernel: the tree of loops and predicated regions.
        hot: the block whose own bundles have the most MXU or VALU work, times the trips of the loops around it that
            are known.
        slots: use of each kind of slot.
        registers: spills and fills.
        allocations: memory it holds.
        dmas: copies it starts.
        waits: waits for a copy.
        own_waits: addresses of those that are the kernel's own, not the pipeline's.
        placed: numbers of operands, results counted after them, that XLA put into VMEM: the kernel does not copy them.
        matmuls: vmatmul by element type.
        estimate: the compiler's own.
        utilization: slots of every bundle.
        issue: cycles that every bundle takes: one, and those that it waits for results of vector units.
        text: the bundles without comments: equal where two schedules are the same.
    """

    op: str
    target: Target
    bundles: int
    kernel: Block = field(repr=False)
    hot: Block = field(repr=False)
    slots: tuple[SlotUse, ...] = field(repr=False)
    registers: Registers = field(repr=False)
    allocations: tuple[Allocation, ...] = field(repr=False)
    dmas: tuple[DMA, ...] = field(repr=False)
    waits: int
    own_waits: tuple[int, ...] = field(repr=False)
    placed: tuple[int, ...]
    matmuls: tuple[Matmuls, ...] = field(repr=False)
    estimate: Estimate
    utilization: Utilization = field(repr=False)
    issue: tuple[float, ...] = field(repr=False)
    text: str = field(repr=False)

    @property
    def loops(self) -> tuple[Block, ...]:
        """Every loop, by address, outer ones first."""
        return tuple(block for block in self.kernel.walk() if block.kind == "loop")

    @property
    def segments(self) -> tuple[Block, ...]:
        """Every block that has bundles of its own, by address, outer ones first."""
        return tuple(block for block in self.kernel.walk() if block.own_bundles)

    @property
    def hot_loop(self) -> Block:
        """The innermost loop that holds the hot block, or the kernel if none does."""
        path = self.kernel.path(next(self.hot.addresses, self.hot.start))
        return next((block for block in reversed(path) if block.kind == "loop"), self.kernel)

    @property
    def grid(self) -> tuple[int, ...] | None:
        """Points along each axis of the grid that one TensorCore has; None if no copy of the pipeline says it."""
        return next((dma.window.grid for dma in self.dmas if dma.window), None)

    @property
    def vmem_bytes(self) -> int:
        """VMEM of all allocations. Those of inner regions need not live at the same time: an upper bound."""
        return sum(a.bytes or 0 for a in self.allocations if a.space == "vmem" and not a.fixed)

    @property
    def mxu_cycles(self) -> float | None:
        """Cycles that the MXUs are busy in a call, evenly loaded; None if some matmul runs how often data says."""
        work = [block for block in self.kernel.walk() if block.matmuls]
        return None if any(b.runs is None for b in work) else sum(b.mxu_cycles * (b.runs or 0) for b in work)

    def __str__(self) -> str:
        from mosaic_tpu.aot.schedule.text import report

        return report(self)

    def to_json(self) -> dict[str, object]:
        """All of it as plain data: dicts, lists, strings, numbers and None. ``"schema"`` is 1."""
        from mosaic_tpu.aot.schedule.as_json import as_json

        return as_json(self)

    def svg(self) -> str:
        """A timeline of the slots that the bundles of the hot loop use, as an SVG that needs nothing else."""
        from mosaic_tpu.aot.schedule.svg import timeline

        return timeline(self)

    def _repr_svg_(self) -> str:
        return self.svg()  # what a notebook shows


def read_schedule(dumps: Dumps, target: Target) -> Schedule:
    """The schedule of a kernel.

    Args:
        dumps: of the kernel.
        target: what it was compiled for: the dumps do not say it.

    Raises:
        DumpError: a dump is empty or damaged.
    """
    bundles = read_bundles(dumps.bundles)
    utilization = read_utilization(dumps.utilization, len(bundles))
    regions = read_regions(dumps.allocations)
    generation = target.generation
    counts = count_matmuls(bundles)
    matmuls = sum_matmuls(counts, generation)
    grids = {address: window.grid for address, window in read_windows(bundles).items()}
    tree = with_runs(read_blocks(bundles, regions, machine(generation)), grids)
    waits = count_waits(bundles)
    cycles = cycles_of_all([m.dtype for m in matmuls], generation)
    kernel = with_work(tree, utilization, counts, cycles, waits, count_lines(bundles))
    return Schedule(
        op=dumps.hlo_op,
        target=target,
        bundles=len(bundles),
        kernel=kernel,
        hot=_hot(kernel, utilization),
        slots=utilization.uses,
        registers=_registers(bundles, utilization),
        allocations=read_allocations(dumps.allocations),
        dmas=read_dmas(bundles, kernel, machine(generation).granule_bytes),
        waits=sum(waits.values()),
        own_waits=read_own_waits(bundles),
        placed=read_placed(bundles),
        matmuls=matmuls,
        estimate=read_estimate(dumps.profile, kernel),
        utilization=utilization,
        issue=read_issue(bundles, kernel, generation),
        text=stripped(dumps.bundles),
    )


def _hot(kernel: Block, utilization: Utilization) -> Block:
    valu = dict(zip(utilization.kinds, utilization.capacities, strict=True)).get("VALU", 1)

    def work(block: Block) -> tuple[float, int]:
        # A loop whose trips take data to know counts once, as does what a branch may skip.
        trips = 1
        for outer in kernel.path(next(block.addresses, block.start)):
            trips *= outer.trips or 1
        return max(block.mxu_cycles, block.slots.get("VALU", 0) / valu) * trips, block.own_bundles

    return max(kernel.walk(), key=work)


def _registers(bundles: Sequence[Bundle], utilization: Utilization) -> Registers:
    used = utilization.over(range(len(bundles)))
    counts = {"sst": 0, "sld": 0}
    slots: set[str] = set()
    for bundle in bundles:
        for instruction in bundle.instructions:
            found = _SPILLED.search(instruction.operands)
            if found and found[1] == "vmem":
                slots.add(found[2])
            elif found and instruction.opcode in counts:
                counts[instruction.opcode] += 1
    return Registers(used.get(SPILL, 0), used.get(FILL, 0), counts["sst"], counts["sld"], len(slots) * VREG_BYTES)
