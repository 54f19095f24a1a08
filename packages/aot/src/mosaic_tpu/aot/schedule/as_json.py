"""A schedule as plain data."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from mosaic_tpu.aot.schedule.blocks import Block
    from mosaic_tpu.aot.schedule.schedule import Schedule

SCHEMA: Final = 1


def as_json(schedule: Schedule) -> dict[str, object]:
    """Everything but the slots of each bundle and the bundles' text, which the dumps have."""
    hot = schedule.hot
    return {
        "schema": SCHEMA,
        "op": schedule.op,
        "target": str(schedule.target),
        "bundles": schedule.bundles,
        "grid": list(schedule.grid) if schedule.grid else None,
        "estimate": asdict(schedule.estimate),
        "mxu_cycles": schedule.mxu_cycles,
        "matmuls": [asdict(matmul) for matmul in schedule.matmuls],
        "slots": [asdict(slot) | {"share": slot.share} for slot in schedule.slots],
        "registers": asdict(schedule.registers),
        "vmem_bytes": schedule.vmem_bytes,
        "hot": {"name": hot.name, "start": hot.start, "stop": hot.stop},
        "kernel": _block(schedule.kernel),
        "allocations": [asdict(a) | {"kind": a.kind} for a in schedule.allocations],
        "dmas": [asdict(dma) for dma in schedule.dmas],
        "waits": schedule.waits,
    }


def _block(block: Block) -> dict[str, object]:
    return {
        "kind": block.kind,
        "role": block.role,
        "start": block.start,
        "stop": block.stop,
        "depth": block.depth,
        "bundles": block.bundles,
        "own_bundles": block.own_bundles,
        "branch": block.branch,
        "predicate": block.predicate,
        "trips": block.trips,
        "runs": block.runs,
        "slots": dict(block.slots),
        "matmuls": dict(block.matmuls),
        "mxu_cycles": block.mxu_cycles,
        "waits": block.waits,
        "lines": [{"line": line, "instructions": count} for line, count in block.lines.items()],
        "children": [_block(child) for child in block.children],
    }
