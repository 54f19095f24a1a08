"""Copies and semaphores."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from mosaic_tpu.lift._code import Call, Node, Text
from mosaic_tpu.lift._numbers import scalar
from mosaic_tpu.lift.idioms._form import Form, Types, proposes
from mosaic_tpu.lift.idioms._index import Code, joined, of_value, views
from mosaic_tpu.sim import ir


def _statement(code: Code) -> Form:
    return Form(code.types, lambda xs: Text(code.write(xs)), target=lambda xs: "", spare=code.partial)


def _three(refs: Sequence[ir.Value], end: str) -> Iterator[Form]:
    """``b.pallas.async_copy(source, target, semaphore)``, of what each may be a view of."""
    for source in views(refs[0]):
        for target in views(refs[1]):
            for semaphore in views(refs[2]):
                yield _copy([source, target, semaphore], end)


def _remote(op: ir.Operation, ends: Sequence[str]) -> Iterator[Form]:
    """``b.pallas.async_remote_copy(source, target, sent, received, device)``."""
    segments = op.segments()
    if [len(s) for s in segments] != [1, 1, 1, 1, 1, 0, 0]:
        return
    (source,), (sent,), (target,), (received,), (device,), *_ = segments
    for refs in itertools.product(*[list(views(ref)) for ref in (source, target, sent, received)]):
        for number in _numbers(device):
            for end in ends:
                yield _copy([*refs, number], end, "async_remote_copy")


def _numbers(value: ir.Value) -> Iterator[Code]:
    """A scalar: the number that a constant is, and itself."""
    if (literal := scalar(value.definition)) is not None:
        yield Code((), lambda xs: literal)
    yield of_value(value.type)


def _copy(parts: Sequence[Code], end: str, name: str = "async_copy") -> Form:
    cuts = [0, *itertools.accumulate(len(p.types) for p in parts)]

    def write(xs: Sequence[Text]) -> Node:
        shown = [Text(p.write(xs[a:b])) for p, a, b in zip(parts, cuts, cuts[1:], strict=False)]
        call = Call(f"b.pallas.{name}", *shown)
        call.close = f").{end}"
        return call

    spare = any(p.partial for p in parts)
    return Form(tuple(t for p in parts for t in p.types), write, target=lambda xs: "", spare=spare)


@proposes("tpu.enqueue_dma")
def _starts(op: ir.Operation, types: Types) -> Iterator[Form]:
    segments = op.segments()
    priority = op.attributes.integer("priority") if "priority" in op.attributes else 0
    how = f"start(priority={priority})" if priority else "start()"
    yield from _remote(op, [how])
    if [len(s) for s in segments[:4]] == [1, 0, 1, 1] and not any(segments[4:]):
        yield from _three([segments[0][0], segments[2][0], segments[3][0]], how)


@proposes("tpu.wait_dma", "tpu.wait_dma2")
def _waits(op: ir.Operation, types: Types) -> Iterator[Form]:
    yield from _remote(op, ["wait()", "wait_recv()" if op.attributes.boolean("wait_target") else "wait_send()"])
    refs = [v for v in op.operands if v.type.kind == "memref"]
    if len(refs) == 3 and len(op.operands) == 3:
        semaphores = [r for r in refs if "sem" in r.type.element]
        others = [r for r in refs if r not in semaphores]
        if len(semaphores) == 1:
            yield from _three([*others, *semaphores], "wait()")


_SEMAPHORES: Final = {
    "tpu.sem_signal": "semaphore_signal",
    "tpu.sem_wait": "semaphore_wait",
    "tpu.sem_read": "semaphore_read",
}


@proposes(*_SEMAPHORES)
def _semaphores(op: ir.Operation, types: Types) -> Iterator[Form]:
    ref, *more = op.operands
    where = op.segments()[2:] if op.name == "tpu.sem_signal" else []
    names = [name for name, given in zip(("device_id", "core_index"), where, strict=False) if given]
    if any(where[2:]):
        return
    for view in views(ref):
        if not more:
            yield _read(view, _SEMAPHORES[op.name])
            continue
        for numbers in itertools.product(*map(_numbers, more)):
            yield _statement(joined([view, *numbers], _counted(_SEMAPHORES[op.name], names)))


def _counted(name: str, keywords: Sequence[str]) -> Callable[[Sequence[str]], str]:
    def write(texts: Sequence[str]) -> str:
        ref, amount, *where = texts
        shown = [ref, *([] if amount == "1" else [amount])]
        return f"b.pallas.{name}({', '.join([*shown, *map('='.join, zip(keywords, where, strict=True))])})"

    return write


def _read(view: Code, name: str) -> Form:
    return Form(view.types, lambda xs: Text(f"b.pallas.{name}({view.write(xs)})"), "count", spare=view.partial)
