"""The MXU worked by hand: staged weights, accumulators, the queue of results."""

from __future__ import annotations

from mosaic_tpu.sim import _mxu
from mosaic_tpu.sim._emit import Emitter, rule
from mosaic_tpu.sim._module import Operation
from mosaic_tpu.sim.rules._elementwise import dtype


def _mxu_of(e: Emitter, op: Operation) -> str:
    return f"{e.runtime(_mxu.mxu)}(core, {op.attributes.integer('mxu_index')})"


def _staged(op: Operation) -> int | None:
    return op.attributes.integer("load_staged_rhs") if "load_staged_rhs" in op.attributes else None


@rule("tpu.matmul_push_rhs", writes=True)
def _push_rhs(e: Emitter, op: Operation) -> None:
    (rhs,) = op.operands
    text = e.full(rhs) + (".T" if op.attributes.boolean("transpose") else "")
    register = op.attributes.integer("staging_register", 0)
    e.line(f"{_mxu_of(e, op)}.push({op.number}, {text}, {register})")


@rule("tpu.matmul_acc_lhs", writes=True)
def _acc_lhs(e: Emitter, op: Operation) -> None:
    (lhs,) = op.operands
    place = op.attributes.integer("acc")
    e.line(f"{_mxu_of(e, op)}.accumulate({op.number}, {e.full(lhs)}, {place}, {_staged(op)})")


@rule("tpu.matmul_pop", writes=True)
def _pop(e: Emitter, op: Operation) -> None:
    shape, name = op.result.type.shape, dtype(e, op.result.type)
    place = op.attributes.integer("acc")
    made = e.name()
    e.line(f"{made} = {_mxu_of(e, op)}.pop({op.number}, {place}, {shape}, {name})")
    e.define(op.result, made)


@rule("tpu.matmul_lhs_fifo", writes=True)
def _lhs_fifo(e: Emitter, op: Operation) -> None:
    (lhs,) = op.operands
    e.line(f"{_mxu_of(e, op)}.enqueue({op.number}, {e.full(lhs)}, {_staged(op)})")


@rule("tpu.matmul_pop_fifo", writes=True)
def _pop_fifo(e: Emitter, op: Operation) -> None:
    shape, name = op.result.type.shape, dtype(e, op.result.type)
    made = e.name()
    e.line(f"{made} = {_mxu_of(e, op)}.dequeue({op.number}, {shape}, {name})")
    e.define(op.result, made)
