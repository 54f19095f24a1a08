"""``scf.*``: loops carry the memory that their bodies write."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mosaic_tpu.sim._module import Block, Operation, Value
from mosaic_tpu.sim.xla import _cost
from mosaic_tpu.sim.xla._elements import Array, dtype_of, is_static
from mosaic_tpu.sim.xla._rules import rule
from mosaic_tpu.sim.xla._translation import Translation, materialise
from mosaic_tpu.sim.xla._untyped import jnp, lax
from mosaic_tpu.sim.xla._views import Index, Root, as_index, plus

Carry = tuple[list[Array], list[Array], Any]


def _results(op: Operation, values: list[Any]) -> Any:
    return values[0] if len(op.results) == 1 else tuple(values)


def _arrays(values: list[Any], like: tuple[Value, ...]) -> list[Array]:
    return [materialise(v, of.type) for v, of in zip(values, like, strict=True)]


def _adopt(t: Translation, roots: list[Root], memory: list[Array], flag: Any) -> None:
    t.memory.update(zip(roots, memory, strict=True))
    t.flag = flag


# --- if ------------------------------------------------------------------------------------------------------------


@rule("scf.if", pure=False)
def _if(t: Translation, op: Operation) -> Any:
    condition = t.get(op.operands[0])
    yes, no = (*op.regions, Block((), op))[:2]
    if is_static(condition):
        return _results(op, t.run(yes if condition else no))
    if t.when is not True or _cost.work([yes, no]) <= _cost.SELECT_UP_TO:
        return _results(op, _selected(t, op, condition, yes, no))
    return _results(op, branch(t, op, condition, [no, yes]))


def _selected(t: Translation, op: Operation, condition: Array, yes: Block, no: Block) -> list[Any]:
    """Both branches, in place: cheaper than a branch that copies the memory it may write."""
    taken = t.predicated(condition, lambda: t.run(yes))
    if no.operations:
        other = t.predicated(lax.bitwise_not(condition), lambda: t.run(no))
        pairs = zip(_arrays(taken, op.results), _arrays(other, op.results), strict=True)
        return [lax.select(condition, a, b) for a, b in pairs]
    return []


def branch(t: Translation, op: Operation, which: Array, blocks: list[Block]) -> list[Any]:
    """One of several blocks, by a bool or a number; memory that any of them writes is carried through."""
    roots = t.written(blocks)

    def body(block: Block) -> Callable[[list[Array], Any], Carry]:
        def run(memory: list[Array], flag: Any) -> Carry:
            given = dict(zip(roots, memory, strict=True))
            return t.region(lambda: _arrays(t.run(block), op.results), given, flag)

        return run

    operands = [t.memory[r] for r in roots], as_index(t.flag)
    if which.dtype == np.bool_:
        values, memory, flag = lax.cond(which, body(blocks[1]), body(blocks[0]), *operands)
    else:
        values, memory, flag = lax.switch(which, [body(b) for b in blocks], *operands)
    _adopt(t, roots, memory, flag)
    return values


@rule("scf.index_switch", pure=False)
def _index_switch(t: Translation, op: Operation) -> Any:
    cases = op.attributes.integers("cases")
    default, *others = op.regions
    value = t.get(op.operands[0])
    if is_static(value):
        return _results(op, t.run(others[cases.index(value)] if value in cases else default))
    which: Any = np.int32(0)
    for i, case in enumerate(cases):
        which = lax.select(lax.eq(value, np.int32(case)), np.int32(i + 1), which)
    if len(cases) == 1:
        which = lax.eq(value, np.int32(cases[0]))
    return _results(op, branch(t, op, which, [default, *others]))


# --- loops -----------------------------------------------------------------------------------------------------------


@rule("scf.for", pure=False)
def _for(t: Translation, op: Operation) -> Any:
    lower, upper, step = (t.index(v) for v in op.operands[:3])
    first = [t.get(v) for v in op.operands[3:]]
    body = op.regions[0]
    if isinstance(step, int):
        t.fail_if(step <= 0, op)
        if step <= 0:  # flagged; what it would make nobody knows
            return _results(op, first)
    else:
        t.fail_if(lax.le(step, lax.full_like(step, 0)), op)
    if all(isinstance(v, int) for v in (lower, upper, step)):
        count = max(0, -(-(upper - lower) // step))
        if count <= 1 or count * _cost.operations(body) <= _cost.UNROLL_UP_TO:
            values = first
            for i in range(count):
                values = t.run(body, [lower + i * step, *values])
            return _results(op, values)
    return _results(op, _loop(t, op, body, lower, upper, step, first))


def _loop(
    t: Translation, op: Operation, body: Block, lower: Index, upper: Index, step: Index, first: list[Any]
) -> list[Any]:
    roots = t.written([body])
    dtype = dtype_of(op.operands[0].type.element)

    def run(carry: tuple[Array, list[Array], list[Array], Any]) -> Any:
        i, values, memory, flag = carry
        if isinstance(lower, int) and isinstance(upper, int):
            t.ranges.set(i, lower, upper - 1)
        given = dict(zip(roots, memory, strict=True))
        made = t.region(lambda: _arrays(t.run(body, [i, *values]), op.results), given, flag)
        return (plus(i, step), *made)

    def more(carry: tuple[Array, Any, Any, Any]) -> Array:
        goes_on = lax.lt(carry[0], as_index(upper))
        return goes_on if isinstance(step, int) else lax.bitwise_and(goes_on, lax.gt(step, lax.full_like(step, 0)))

    start = jnp.asarray(lower, dtype)
    carried = (start, _arrays(first, op.results), [t.memory[r] for r in roots], as_index(t.flag))
    _, values, memory, flag = lax.while_loop(more, run, carried)
    _adopt(t, roots, memory, flag)
    return values


@rule("scf.while", pure=False)
def _while(t: Translation, op: Operation) -> Any:
    """The test is translated twice, ahead of the loop and at the end of its body: it may write and be flagged."""
    before, after = op.regions
    roots = t.written([before, after])

    def test(values: list[Any]) -> list[Any]:
        condition, *forwarded = t.run(before, values)
        return [materialise(condition, before.terminator.operands[0].type), *_arrays(forwarded, op.results)]

    def run(carry: Any) -> Any:
        (_, *forwarded), memory, flag = carry
        return t.region(lambda: test(t.run(after, forwarded)), dict(zip(roots, memory, strict=True)), flag)

    first = test([t.get(v) for v in op.operands])
    carried = (first, [t.memory[r] for r in roots], as_index(t.flag))

    def more(carry: Any) -> Array:
        return carry[0][0]

    (_, *values), memory, flag = lax.while_loop(more, run, carried)
    _adopt(t, roots, memory, flag)
    return _results(op, values)


@rule("tpu.region", "scf.execute_region", pure=False)
def _region(t: Translation, op: Operation) -> Any:
    return _results(op, t.run(op.regions[0]))
