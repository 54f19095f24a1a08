"""Reports, assertions and promises of a kernel."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from mosaic_tpu.lift._code import Call, Node, Shape, String
from mosaic_tpu.lift._registry import rule
from mosaic_tpu.lift.rules._names import like
from mosaic_tpu.lift.rules.tpu_numeric import flag
from mosaic_tpu.sim import ir

if TYPE_CHECKING:
    from mosaic_tpu.lift._writer import Writer

_PROMISES: Final = ("no_store", "no_bank_conflict", "no_hazard", "no_hazard_no_deps")


@rule("cf.assert", name="", attributes={"msg": None})
def _assert(w: Writer, op: ir.Operation) -> Node:
    return Call("b.assert_", w.use(op.operands[0]), String(op.attributes.string("msg")))


@rule("tpu.log", name="", attributes={"tag": None, "formatted": None})
def _log(w: Writer, op: ir.Operation) -> Node:
    tag = String(op.attributes.string("tag"))
    return Call("b.tpu_log", tag, *[w.use(v) for v in op.operands], formatted=flag(op, "formatted"))


@rule("tpu.log_buffer", name="", attributes={"tag": None, "shape": None})
def _log_buffer(w: Writer, op: ir.Operation) -> Node:
    ref, shape = op.operands[0], op.attributes.integers("shape")
    more = [] if shape == ref.type.shape else [Shape(shape)]
    return Call("b.log_buffer", w.use(ref), String(op.attributes.string("tag")), *more)


@rule("tpu.trace_value", name="", attributes={"label": None})
def _trace_value(w: Writer, op: ir.Operation) -> Node:
    return Call("b.trace_value", String(op.attributes.string("label")), w.use(op.operands[0]))


@rule("tpu.annotate", name=like(), attributes=dict.fromkeys(_PROMISES))
def _annotate(w: Writer, op: ir.Operation) -> Node:
    return Call("b.annotate", w.use(op.operands[0]), **{name: flag(op, name) for name in _PROMISES})


@rule(
    "tpu.memref_memory_space_is",
    name="is_there",
    attributes={"memory_space": None},
    when=lambda op: re.fullmatch(r"#tpu\.memory_space<\w+>", op.attributes.text("memory_space")) is not None,
)
def _space_is(w: Writer, op: ir.Operation) -> Node:
    space = op.attributes.keyword("memory_space")
    return Call("b.memref_memory_space_is", w.use(op.operands[0]), String(space))
