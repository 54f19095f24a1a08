"""Structure and debugging: what leaves values alone."""

from __future__ import annotations

from mosaic_tpu.sim import _runtime as runtime
from mosaic_tpu.sim._emit import Emitter, Info, rule
from mosaic_tpu.sim._module import Operation
from mosaic_tpu.sim.rules.scf import run_region


@rule("tpu.trace_start", "tpu.trace_stop", "tpu.trace_value")
def _nothing(e: Emitter, op: Operation) -> None:
    """Seen by profilers only."""


@rule("tpu.trace")
def _trace(e: Emitter, op: Operation) -> None:
    run_region(e, op)


@rule("tpu.annotate", view=True)
def _annotate(e: Emitter, op: Operation) -> None:
    """What the compiler may assume of a memref's accesses."""
    e.set_ref(op.result, e.ref(op.operands[0]))


@rule("tpu.assume_multiple")
def _assume_multiple(e: Emitter, op: Operation) -> None:
    (a,) = op.operands
    multiple = op.attributes.integer("multiple")
    known = e.known(a)
    text = e.atom(e.text(a))
    if e.checks and (known is None or known % multiple):
        e.line(f"if {text} % {multiple}: core.undefined({op.number}, 'not a multiple of {multiple}, as assumed')")
    e.alias(op.result, a)
    if known is None:
        e.infos[op.result.index] = Info(text)


@rule("tpu.iteration_bound")
def _iteration_bound(e: Emitter, op: Operation) -> None:
    e.define(op.result, f"core.grid[{op.attributes.integer('dim')}]")


@rule("tpu.log")
def _log(e: Emitter, op: Operation) -> None:
    """To standard error, and into the report's trace."""
    values = "".join(f"{_unsigned(e, op, i)}, " for i in range(len(op.operands)))
    tag, formatted = op.attributes.string("tag"), op.attributes.boolean("formatted")
    e.line(f"{e.runtime(runtime.log)}(core, {op.number}, {tag!r}, ({values}), {formatted})")


def _unsigned(e: Emitter, op: Operation, place: int) -> str:
    """An operand as its place in the format says: ``$u0`` is an unsigned number."""
    text = e.full(op.operands[place])
    wanted = f"$u{place}" in op.attributes.string("tag") and op.operands[place].type.kind == "scalar"
    return f"({text}) & {(1 << op.operands[place].type.bits) - 1}" if wanted else text


@rule("tpu.log_buffer")
def _log_buffer(e: Emitter, op: Operation) -> None:
    ref = e.ref(op.operands[0])
    text = e.view(ref)
    e.check(ref, text, writes=False)
    shape = ", ".join(f":{n}" for n in op.attributes.integers("shape"))
    values = f"{text}[{shape}]" if shape else text
    tag = op.attributes.string("tag")
    e.line(f"{e.runtime(runtime.log)}(core, {op.number}, {tag!r}, ({values},), False)")
