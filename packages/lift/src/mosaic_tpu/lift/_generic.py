"""The generic form: what every op can be written as."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mosaic_tpu.lift._code import Call, Node, String, Text, mapping, strings
from mosaic_tpu.sim import ir

if TYPE_CHECKING:
    from mosaic_tpu.lift._writer import Writer


def generic_code(w: Writer, op: ir.Operation) -> Call:
    """``b.generic_op("math.exp", x, results=["f32"])``."""
    texts = [*op.attributes.raw.values(), *(r.type.text for r in op.results)]
    unknown = not w.registered.op(op.name) or not all(map(w.registered.all_dialects, texts))
    return Call(
        "b.generic_op",
        String(op.name),
        *[w.use(v) for v in op.operands],
        attributes=attributes_code(op.attributes.raw) if op.attributes.raw else None,
        results=types_code([r.type for r in op.results]) if op.results else None,
        regions=Text(str(len(op.regions))) if op.regions else None,
        allow_unregistered=Text("True") if unknown else None,
    )


def attributes_code(attributes: dict[str, str]) -> Node:
    """A dictionary of attributes as MLIR text."""
    return mapping({key: String(text) for key, text in attributes.items()})


def types_code(types: list[ir.Type]) -> Node:
    """A list of types as MLIR text."""
    return strings([t.text for t in types])
