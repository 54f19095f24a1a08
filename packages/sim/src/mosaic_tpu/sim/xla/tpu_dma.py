"""``tpu.*`` for DMAs and semaphores: a copy is made where it starts, and nothing waits."""

from __future__ import annotations

from typing import Any

import numpy as np

from mosaic_tpu.sim._module import Operation, Value
from mosaic_tpu.sim._types import bits_of
from mosaic_tpu.sim.errors import UnsupportedOpError
from mosaic_tpu.sim.xla._elements import reinterpret
from mosaic_tpu.sim.xla._rules import rule
from mosaic_tpu.sim.xla._translation import Translation
from mosaic_tpu.sim.xla._untyped import lax
from mosaic_tpu.sim.xla._views import View, as_index, filled


def _parts(op: Operation) -> tuple[Value, Value, Value | None, Value | None]:
    """Source, target, the source's semaphore, the target's."""
    source, source_semaphore, target, target_semaphore, *elsewhere = op.segments()
    if any(elsewhere):
        raise _remote(op)
    return source[0], target[0], next(iter(source_semaphore), None), next(iter(target_semaphore), None)


def _remote(op: Operation) -> UnsupportedOpError:
    return UnsupportedOpError(
        f"{op.name} reaches another device or core, the fast engine has one",
        op=op.name,
        hint='run it with engine="numpy"',
    )


def _touched(op: Operation) -> tuple[Value, ...]:
    segments = op.segments()
    return (*segments[1], *segments[2], *segments[3])


@rule("tpu.enqueue_dma", writes=_touched, moves=True)
def _enqueue(t: Translation, op: Operation) -> Any:
    source, target, source_semaphore, target_semaphore = _parts(op)
    view = t.view(target)
    content = t.load(op, t.view(source))
    if source.type.element != view.element:
        content = reinterpret(content, source.type.element, view.element)
    t.store(op, view, lax.reshape(content, view.shape))
    _count(t, op, target_semaphore, _bytes(view))
    _count(t, op, source_semaphore, _bytes(view))


@rule("tpu.wait_dma", writes=lambda op: (*op.segments()[1], *op.segments()[3]))
def _wait(t: Translation, op: Operation) -> Any:
    source, target, source_semaphore, target_semaphore = _parts(op)
    waits_for_target = op.attributes.boolean("wait_target", True)
    semaphore = target_semaphore if waits_for_target or source_semaphore is None else source_semaphore
    _count(t, op, semaphore, -_bytes(t.view(target if waits_for_target else source)))


@rule("tpu.wait_dma2", writes=lambda op: (op.operands[0],))
def _wait2(t: Translation, op: Operation) -> Any:
    (semaphore,), _, (target,), *elsewhere = op.segments()
    if any(elsewhere):
        raise _remote(op)
    _count(t, op, semaphore, -_bytes(t.view(target)))


def _bytes(view: View) -> int:
    return int(np.prod(view.shape)) * bits_of(view.element) // 8


def _count(t: Translation, op: Operation, semaphore: Value | None, amount: Any) -> None:
    if not t.counts or semaphore is None:
        return
    view = t.view(semaphore).reshape(())
    t.store(op, view, lax.add(t.load(op, view), as_index(amount)))


@rule("tpu.sem_signal", writes=lambda op: (op.operands[0],))
def _signal(t: Translation, op: Operation) -> Any:
    (semaphore,), (amount,), *elsewhere = op.segments()
    if any(elsewhere):
        raise _remote(op)
    _count(t, op, semaphore, t.index(amount))


@rule("tpu.sem_wait", writes=lambda op: (op.operands[0],))
def _wait_for(t: Translation, op: Operation) -> Any:
    if t.counts:
        _count(t, op, op.operands[0], lax.neg(t.array(op.operands[1])))


@rule("tpu.sem_read")
def _read(t: Translation, op: Operation) -> Any:
    return t.load(op, t.view(op.operands[0]).reshape(()))


@rule("tpu.sem_alloc", "tpu.sem_barrier")
def _semaphores(t: Translation, op: Operation) -> Any:
    of = op.result.type
    return t.allocate(op.name, of, filled(of.shape, np.int32(0)))


@rule("tpu.delay", pure=False)
def _nothing(t: Translation, op: Operation) -> Any:
    return None


@rule("tpu.device_id", "tpu.core_id")
def _first(t: Translation, op: Operation) -> Any:
    return 0
