"""The tpu dialect's DMAs, semaphores, and the rest that is no data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mosaic_tpu.lift._code import Call, Node, Shape, String, Text
from mosaic_tpu.lift._compat import PALLAS_WAITS_WITH_WAIT_DMA
from mosaic_tpu.lift._registry import rule
from mosaic_tpu.sim import ir

if TYPE_CHECKING:
    from mosaic_tpu.lift._writer import Writer

_IDS = ("device_id", "core_id", "subcore_id")


def _ids(op: ir.Operation, first: int) -> Sequence[ir.Value]:
    return [v for segment in op.segments()[first:] for v in segment]


def _id_code(w: Writer, op: ir.Operation, first: int) -> dict[str, Node]:
    """The keywords that name a device or core."""
    segments = op.segments()[first:]
    return {name: w.use(segment[0]) for name, segment in zip(_IDS, segments, strict=False) if segment}


@rule(
    "tpu.enqueue_dma",
    name="",
    slots=lambda op: _ids(op, 4),
    attributes={"operandSegmentSizes": None, "priority": None, "strict_ordering": None},
    when=lambda op: len(op.segments()) == 7 and len(op.segments()[3]) == 1,
)
def _enqueue_dma(w: Writer, op: ir.Operation) -> Node:
    (source,), source_semaphore, (target,), (semaphore,), *_ = op.segments()
    priority = op.attributes.integer("priority", 0)
    return Call(
        "b.enqueue_dma",
        w.use(source),
        w.use(target),
        w.use(semaphore),
        source_semaphore=w.use(source_semaphore[0]) if source_semaphore else None,
        **_id_code(w, op, 4),
        priority=Text(str(priority)) if priority else None,
        strict_ordering=Text("True") if op.attributes.boolean("strict_ordering") else None,
    )


@rule(
    "tpu.wait_dma",
    name="",
    slots=lambda op: _ids(op, 4),
    attributes={"operandSegmentSizes": None, "wait_target": None, "strict_ordering": None, "priority": "0 : i32"},
    when=lambda op: PALLAS_WAITS_WITH_WAIT_DMA and len(op.segments()) == 7 and len(op.segments()[3]) == 1,
)
def _wait_dma(w: Writer, op: ir.Operation) -> Node:
    (source,), source_semaphore, (target,), (semaphore,), *_ = op.segments()
    return Call(
        "b.wait_dma",
        w.use(source),
        w.use(target),
        w.use(semaphore),
        source_semaphore=w.use(source_semaphore[0]) if source_semaphore else None,
        wait_target=None if op.attributes.boolean("wait_target") else Text("False"),
        **_id_code(w, op, 4),
        strict_ordering=Text("True") if op.attributes.boolean("strict_ordering") else None,
    )


@rule(
    "tpu.wait_dma2",
    name="",
    slots=lambda op: _ids(op, 3),
    attributes={"operandSegmentSizes": None, "strict_ordering": None},
    when=lambda op: not PALLAS_WAITS_WITH_WAIT_DMA and len(op.segments()) == 5,
)
def _wait_dma2(w: Writer, op: ir.Operation) -> Node:
    (semaphore,), (source,), (target,), *_ = op.segments()
    return Call(
        "b.wait_dma2",
        w.use(semaphore),
        w.use(source),
        w.use(target),
        **_id_code(w, op, 3),
        strict_ordering=Text("True") if op.attributes.boolean("strict_ordering") else None,
    )


# --- semaphores ------------------------------------------------------------------------------------------------------


@rule("tpu.sem_alloc", name="sem")
def _sem_alloc(w: Writer, op: ir.Operation) -> Node:
    type_ = op.results[0].type
    kind = String("dma" if type_.element == "dma_semaphore" else "regular")
    return Call("b.sem_alloc", kind, *([Shape(type_.shape)] if type_.shape else []))


@rule("tpu.sem_barrier", name="barrier")
def _sem_barrier(w: Writer, op: ir.Operation) -> Node:
    return Call("b.sem_barrier")


@rule("tpu.sem_read", name="count")
def _sem_read(w: Writer, op: ir.Operation) -> Node:
    return Call("b.sem_read", w.use(op.operands[0]))


@rule("tpu.sem_wait", name="", slots=lambda op: op.operands[1:])
def _sem_wait(w: Writer, op: ir.Operation) -> Node:
    return Call("b.sem_wait", *[w.use(v) for v in op.operands])


@rule(
    "tpu.sem_signal",
    name="",
    slots=lambda op: op.operands[1:],
    attributes={"operandSegmentSizes": None},
    when=lambda op: len(op.segments()) == 5,
)
def _sem_signal(w: Writer, op: ir.Operation) -> Node:
    (semaphore,), (amount,), *_ = op.segments()
    return Call("b.sem_signal", w.use(semaphore), w.use(amount), **_id_code(w, op, 2))


@rule("tpu.barrier", name="", slots=lambda op: op.operands)
def _barrier(w: Writer, op: ir.Operation) -> Node:
    return Call("b.barrier", w.use(op.operands[0]))


# --- devices, debugging ----------------------------------------------------------------------------------------------


@rule("tpu.device_id", name="device")
def _device_id(w: Writer, op: ir.Operation) -> Node:
    return Call("b.device_id")


@rule("tpu.iteration_bound", name="bound", attributes={"dim": None})
def _iteration_bound(w: Writer, op: ir.Operation) -> Node:
    return Call("b.iteration_bound", Text(str(op.attributes.integer("dim"))))


@rule("tpu.delay", name="", slots=lambda op: op.operands)
def _delay(w: Writer, op: ir.Operation) -> Node:
    return Call("b.delay", w.use(op.operands[0]))


@rule("tpu.trace_start", name="", attributes={"level": None, "message": None})
def _trace_start(w: Writer, op: ir.Operation) -> Node:
    return Call("b.trace_start", Text(str(op.attributes.integer("level"))), String(op.attributes.string("message")))


@rule("tpu.trace_stop", name="")
def _trace_stop(w: Writer, op: ir.Operation) -> Node:
    return Call("b.trace_stop")
