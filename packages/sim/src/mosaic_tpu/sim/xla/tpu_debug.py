"""``tpu.*`` that leave results alone: traces and logs; and what the grid says of itself."""

from __future__ import annotations

from typing import Any

from mosaic_tpu.sim._module import Operation
from mosaic_tpu.sim.xla._rules import rule
from mosaic_tpu.sim.xla._translation import Translation


@rule("tpu.trace_start", "tpu.trace_stop", "tpu.trace_value", "tpu.log", "tpu.log_buffer", pure=False)
def _nothing(t: Translation, op: Operation) -> Any:
    return None


@rule("tpu.trace", pure=False)
def _trace(t: Translation, op: Operation) -> Any:
    results = t.run(op.regions[0])
    return results[0] if len(op.results) == 1 else tuple(results)


@rule("tpu.iteration_bound")
def _iteration_bound(t: Translation, op: Operation) -> Any:
    return t.bounds[op.attributes.integer("dim")]
