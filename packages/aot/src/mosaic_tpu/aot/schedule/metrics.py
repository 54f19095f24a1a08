"""The figures of a schedule, by name: what a table of it and a comparison of two are made of."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mosaic_tpu.aot.schedule.schedule import Schedule

type Metric = int | float | None


def metrics(schedule: Schedule) -> dict[str, Metric]:
    """Every figure of a schedule that two can be compared by; None where it is not known."""
    registers = schedule.registers
    return {
        "bundles": schedule.bundles,
        "loops": len(schedule.loops),
        "bundles of the hot block": schedule.hot.own_bundles,
        "bundles of the hot loop": schedule.hot_loop.bundles,
        "spills": registers.spills,
        "fills": registers.fills,
        "scalar spills": registers.scalar_spills,
        "scalar fills": registers.scalar_fills,
        "VMEM bytes": schedule.vmem_bytes,
        "VMEM bytes of spills": registers.vmem_bytes,
        "copies": len(schedule.dmas),
        "waits": schedule.waits,
        "operands in VMEM": len(schedule.placed),
        "MXU cycles": schedule.mxu_cycles,
        "estimated cycles": schedule.estimate.cycles if schedule.estimate.trustworthy else None,
        **{f"vmatmul {matmul.dtype}": matmul.count for matmul in schedule.matmuls},
        **{f"slots {slot.kind}": slot.used for slot in schedule.slots},
    }
