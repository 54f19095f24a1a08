"""Copies and semaphores."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from mosaic_tpu.lift._code import Call, Node, Text
from mosaic_tpu.lift._numbers import scalar
from mosaic_tpu.lift.idioms._form import Form, Types, proposes
from mosaic_tpu.lift.idioms._index import Code, joined, of_value, views
from mosaic_tpu.sim import ir


def _statement(code: Code) -> Form:
    return Form(code.types, lambda xs: Text(code.write(xs)), target=lambda xs: "")


def _three(refs: Sequence[ir.Value], end: str) -> Iterator[Form]:
    """``b.pallas.async_copy(source, target, semaphore)``, of what each may be a view of."""
    for source in views(refs[0]):
        for target in views(refs[1]):
            for semaphore in views(refs[2]):
                yield _copy([source, target, semaphore], end)


def _copy(parts: Sequence[Code], end: str) -> Form:
    cuts = [0, *itertools.accumulate(len(p.types) for p in parts)]

    def write(xs: Sequence[Text]) -> Node:
        shown = [Text(p.write(xs[a:b])) for p, a, b in zip(parts, cuts, cuts[1:], strict=False)]
        call = Call("b.pallas.async_copy", *shown)
        call.close = f").{end}"
        return call

    return Form(tuple(t for p in parts for t in p.types), write, target=lambda xs: "")


@proposes("tpu.enqueue_dma")
def _starts(op: ir.Operation, types: Types) -> Iterator[Form]:
    segments = op.segments()
    if [len(s) for s in segments[:4]] == [1, 0, 1, 1] and not any(segments[4:]):
        priority = op.attributes.integer("priority") if "priority" in op.attributes else 0
        how = f"start(priority={priority})" if priority else "start()"
        yield from _three([segments[0][0], segments[2][0], segments[3][0]], how)


@proposes("tpu.wait_dma", "tpu.wait_dma2")
def _waits(op: ir.Operation, types: Types) -> Iterator[Form]:
    refs = [v for v in op.operands if v.type.kind == "memref"]
    if len(refs) == 3 and len(op.operands) == 3:
        semaphores = [r for r in refs if "sem" in r.type.element]
        others = [r for r in refs if r not in semaphores]
        if len(semaphores) == 1:
            yield from _three([*others, *semaphores], "wait()")


@proposes("tpu.sem_signal", "tpu.sem_wait", "tpu.sem_read")
def _semaphores(op: ir.Operation, types: Types) -> Iterator[Form]:
    ref, *more = op.operands
    name = {"tpu.sem_signal": "semaphore_signal", "tpu.sem_wait": "semaphore_wait", "tpu.sem_read": "semaphore_read"}
    if len(more) > 1:
        return
    for view in views(ref):
        if not more:
            yield _read(view, name[op.name])
            continue
        literal = scalar(more[0].definition)
        if literal is not None:
            shown = "" if literal == "1" else f", {literal}"
            yield _statement(joined([view], lambda t, shown=shown: f"b.pallas.{name[op.name]}({t[0]}{shown})"))
        parts = [view, of_value(more[0].type)]
        yield _statement(joined(parts, lambda t: f"b.pallas.{name[op.name]}({', '.join(t)})"))


def _read(view: Code, name: str) -> Form:
    return Form(view.types, lambda xs: Text(f"b.pallas.{name}({view.write(xs)})"), "count")
