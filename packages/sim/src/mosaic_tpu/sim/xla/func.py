"""``func.*``: a call is translated in place."""

from __future__ import annotations

from typing import Any

from mosaic_tpu.sim._module import Operation, Value
from mosaic_tpu.sim.errors import ModuleFormatError
from mosaic_tpu.sim.xla._rules import rule
from mosaic_tpu.sim.xla._translation import Translation


def _memrefs(op: Operation) -> tuple[Value, ...]:
    return tuple(v for v in op.operands if v.type.kind == "memref")


@rule("func.call", writes=_memrefs)
def _call(t: Translation, op: Operation) -> Any:
    name = op.attributes.text("callee").lstrip("@").strip('"')
    function = t.module.functions.get(name)
    if function is None:
        raise ModuleFormatError(f"there is no function {name}", op=op.name, location=t.module.line(op))
    results = t.run(function.body, [t.get(v) for v in op.operands])
    return results[0] if len(op.results) == 1 else tuple(results)
