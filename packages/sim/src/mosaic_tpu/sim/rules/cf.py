"""Assertions."""

from mosaic_tpu.sim._emit import Emitter, rule
from mosaic_tpu.sim._module import Operation


@rule("cf.assert")
def _assert(e: Emitter, op: Operation) -> None:
    message = op.attributes.string("msg", "assertion failed")
    e.line(f"if not {e.text(op.operands[0])}: core.assertion({op.number}, {message!r})")
