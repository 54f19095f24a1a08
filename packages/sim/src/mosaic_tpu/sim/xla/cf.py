"""``cf.*``: an assertion that does not hold is flagged."""

from __future__ import annotations

from typing import Any

from mosaic_tpu.sim._module import Operation
from mosaic_tpu.sim.xla._elements import is_static
from mosaic_tpu.sim.xla._rules import rule
from mosaic_tpu.sim.xla._translation import Translation
from mosaic_tpu.sim.xla._untyped import lax


@rule("cf.assert", pure=False)
def _assert(t: Translation, op: Operation) -> Any:
    holds = t.get(op.operands[0])
    t.fail_if(not holds if is_static(holds) else lax.bitwise_not(holds), op)
