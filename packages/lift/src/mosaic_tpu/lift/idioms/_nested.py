"""Branches and loops that an idiom makes: known by the ops it emits before and after them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from mosaic_tpu.builder.ops.arith import CMPI
from mosaic_tpu.lift._code import Call, Items, Node, Text, quoted
from mosaic_tpu.lift._compat import DROPS_IN_WHILE_LOOPS, DYNAMIC_FORI_IS_ONE_LOOP, PALLAS_WAITS_WITH_WAIT_DMA
from mosaic_tpu.lift._numbers import scalar
from mosaic_tpu.lift._regions import UNROLL, carried_bases
from mosaic_tpu.lift._types import known, type_code
from mosaic_tpu.sim import ir

if TYPE_CHECKING:
    from mosaic_tpu.lift._writer import Writer


@dataclass(frozen=True)
class Nested:
    """An idiom with regions.

    Attributes:
        before: the ops that it emits before the one with the regions.
        after: those that it emits behind it.
        inside: those that it emits in its regions, beside what a function of the kernel emits.
        write: writes all of them.
        values: what it takes, beside what a loop carries.
        how: its other arguments.
        blocks: what functions of the kernel emit, where those are not the op's regions.
    """

    before: tuple[ir.Operation, ...]
    after: tuple[ir.Operation, ...]
    write: Callable[[Writer, ir.Operation, Nested], None] = field(repr=False)
    values: tuple[ir.Value | str, ...] = ()
    how: str = ""
    inside: tuple[ir.Operation, ...] = ()
    blocks: tuple[ir.Block, ...] = ()

    @property
    def claimed(self) -> tuple[ir.Operation, ...]:
        """What is not written by itself."""
        return (*self.before, *self.inside, *self.after)


def nested(blocks: Iterable[Sequence[ir.Operation]]) -> dict[ir.Operation, Nested]:
    """The idioms with regions of these blocks."""
    found: dict[ir.Operation, Nested] = {}
    for block in blocks:
        for place, op in enumerate(block):
            for find in _FINDERS.get(op.name, ()):
                if (match := find(block, place)) is not None:
                    found[op] = match
                    break
    return found


#: Of the spans that Pallas makes of named scopes.
_LEVEL: Final = 10


def spans(blocks: Iterable[Sequence[ir.Operation]]) -> dict[ir.Operation, int]:
    """Spans of the profile that are named scopes: by what starts one, how many ops later the one that stops it is."""
    found: dict[ir.Operation, int] = {}
    for block in blocks:
        started: list[int] = []
        for place, op in enumerate(block):
            if op.name == "tpu.trace_start":
                started.append(place)
            elif op.name == "tpu.trace_stop" and started:
                before = started.pop()
                start = block[before]
                plain = set(start.attributes.raw) == {"level", "message"} and not op.attributes.raw
                if plain and start.attributes.integer("level") == _LEVEL:
                    found[start] = place - before
    return found


def _ends(op: ir.Operation, *terminators: str) -> bool:
    """Whether an op has regions that end in these, and nothing says more."""
    blocks = op.regions
    return [b.operations[-1].name for b in blocks if b.operations] == list(terminators) and all(
        not b.operations[-1].attributes.raw and all(known(a.type) for a in b.arguments) for b in blocks
    )


def _name(op: ir.Operation) -> str:
    return op.name if op.name != "arith.constant" or op.results[0].type.text == "i32" else ""


def _released(w: Writer, op: ir.Operation, found: Nested) -> None:
    for each in (*found.before, op, *found.inside, *found.after):
        w.release(each)


def _given(w: Writer, value: ir.Value | str) -> Text:
    return Text(value) if isinstance(value, str) else w.use(value)


def _function(
    w: Writer, name: str, block: ir.Block, bases: Sequence[str], op: ir.Operation, result: int | None = None
) -> str:
    """A function of a block's arguments that returns what the block ends with, or one value of that."""
    taken = w.names.take(name)
    with w.function(taken, block.arguments, bases, op):
        w.block(block.operations[:-1])
        last = block.operations[-1]
        w.helped.append(last)
        if result is not None:
            w.returns([last.operands[result]], last)
        elif last.operands:
            w.line("return ", w.uses(last.operands), op=last)
        w.release(last)
    return taken


def _called(w: Writer, op: ir.Operation, node: Node, bases: Sequence[str], functions: Sequence[str]) -> None:
    w.line(w.targets(op.results, bases, one=False), node, op=op)
    for name in functions:
        w.names.free(name)


# --- pl.when, lax.cond -----------------------------------------------------------------------------------------------


def _branch(block: Sequence[ir.Operation], place: int) -> Nested | None:
    branch = block[place]
    if place < 3 or not _ends(branch, "scf.yield", "scf.yield") or branch.attributes.raw:
        return None
    number, zero, compared = before = tuple(block[place - 3 : place])
    if [_name(op) for op in before] != ["arith.extui", "arith.constant", "arith.cmpi"]:
        return None
    if compared.operands != (number.results[0], zero.results[0]) or branch.operands != compared.results:
        return None
    if any(len(op.results[0].users) != 1 for op in before) or number.operands[0].type.text != "i1":
        return None
    if scalar(zero) != "0" or compared.attributes.raw != {"predicate": f"{CMPI['ne']} : i64"}:
        return None
    without_else = not branch.results and len(branch.regions[1].operations) == 1
    return Nested(before, (), _when if without_else else _cond, (number.operands[0],))


def _when(w: Writer, op: ir.Operation, found: Nested) -> None:
    node = Call("b.pallas.when", _given(w, found.values[0]))
    spare = w.names.take("branch")
    _released(w, op, found)
    with w.opened(node, spare=spare, op=op):
        w.block(op.regions[0].operations[:-1])
    w.helped += [block.operations[-1] for block in op.regions]
    w.names.free(spare)


def _cond(w: Writer, op: ir.Operation, found: Nested) -> None:
    condition = _given(w, found.values[0])
    functions = [
        _function(w, name, block, (), op) for name, block in zip(("then", "otherwise"), op.regions, strict=True)
    ]
    types = [Items("[", [type_code(r.type) for r in op.results], "]")] if op.results else []
    _released(w, op, found)
    node = Call("b.pallas.cond", condition, *map(Text, functions), *types)
    _called(w, op, node, ["chosen"] * len(op.results), functions)


# --- lax.switch ------------------------------------------------------------------------------------------------------

_CLAMPED: Final = ["arith.constant", "arith.constant", "arith.maxsi", "arith.minsi", "arith.constant", "arith.cmpi"]
_NEXT: Final = ["arith.constant", "arith.subi", "arith.constant", "arith.cmpi", "scf.if", "scf.yield"]


def _switch(block: Sequence[ir.Operation], place: int) -> Nested | None:
    """One branch in another: the index that is left is not 0, or that of the next branch is."""
    before = tuple(block[max(0, place - 6) : place])
    if [_name(op) for op in before] != _CLAMPED:
        return None
    first, last, most, least, *test = before
    index, zero = most.operands
    if scalar(first) != "0" or zero is not first.result or least.operands != (most.result, last.result):
        return None
    count = int(scalar(last) or 0) + 1
    if count < 2 or not _alone(before, (1, 1, 1, 1 + (count > 2), 1, 1)):
        return None
    left, inside, blocks = least.result, list[ir.Operation](), list[ir.Block]()
    branch = block[place]
    while True:
        if not _ends(branch, "scf.yield", "scf.yield") or branch.attributes.raw or not _is_not_0(test, left, branch):
            return None
        then, otherwise = branch.regions
        blocks.append(otherwise)
        if len(blocks) == count - 1:
            return Nested(before, (), _switched, (index,), inside=tuple(inside), blocks=(*blocks, then))
        step = then.operations
        if [_name(op) for op in step] != _NEXT or step[4].results != step[5].operands:
            return None
        one, minus, *test, branch, _ = step
        if scalar(one) != "1" or minus.operands != (left, one.result):
            return None
        if not _alone(step[:4], (1, 1 + (len(blocks) < count - 2), 1, 1)):
            return None
        left = minus.result
        inside += step


def _is_not_0(test: Sequence[ir.Operation], index: ir.Value, branch: ir.Operation) -> bool:
    zero, compared = test
    plain = scalar(zero) == "0" and compared.attributes.raw == {"predicate": f"{CMPI['ne']} : i64"}
    return plain and compared.operands == (index, zero.result) and branch.operands == compared.results


def _switched(w: Writer, op: ir.Operation, found: Nested) -> None:
    index = _given(w, found.values[0])
    with w.held():  # the last of the branches stands first in the module
        functions = [_function(w, "branch", block, (), op) for block in found.blocks]
    types = [Items("[", [type_code(r.type) for r in op.results], "]")] if op.results else []
    _released(w, op, found)
    w.helped += found.inside
    node = Call("b.pallas.switch", index, Items("[", [Text(f) for f in functions], "]"), *types)
    _called(w, op, node, ["chosen"] * len(op.results), functions)


# --- lax.fori_loop ---------------------------------------------------------------------------------------------------


def _loop(block: Sequence[ir.Operation], place: int) -> Nested | None:
    loop = block[place]
    if not _ends(loop, "scf.yield") or set(loop.attributes.raw) - {UNROLL} or place < 3:
        return None
    if loop.regions[0].arguments[0].type.text != "i32" or _forwards(loop.regions[0], loop.regions[0], 1):
        return None
    return _static(block, place) or (_dynamic(block, place) if DYNAMIC_FORI_IS_ONE_LOOP else None)


def _forwards(block: ir.Block, source: ir.Block, leading: int) -> bool:
    """Whether anything goes to the next iteration as it came, which is then no carry to JAX."""
    carried = source.arguments[leading:]
    return any(a is b for a, b in zip(block.operations[-1].operands, carried, strict=True))


def _static(block: Sequence[ir.Operation], place: int) -> Nested | None:
    loop = block[place]
    before = tuple(block[place - 4 : place]) if place >= 4 else ()
    if [_name(op) for op in before] != ["arith.constant", "arith.constant", "arith.addi", "arith.constant"]:
        return None
    low, steps, end, step = block[place - 4 : place]
    if loop.operands[:3] != (low.results[0], end.results[0], step.results[0]) or scalar(step) != "1":
        return None
    if end.operands != (low.results[0], steps.results[0]) or not _alone(before, (2, 1, 1, 1)):
        return None
    start, count = int(scalar(low) or 0), int(scalar(steps) or 0)
    factor = loop.attributes.integer(UNROLL) if UNROLL in loop.attributes else 1
    if count < 1 or factor == count or (UNROLL in loop.attributes and factor < 2):
        return None
    counts = bool(loop.regions[0].arguments[0].users) or not _drops_unread(loop)
    after = tuple(block[place + 1 : place + 2]) if counts else ()
    if counts and not _is_dead_number(after, str(count)):
        return None
    if not counts and start:
        return None
    how = f"unroll={factor}" if factor > 1 else ""
    strided = None if start else _strided(loop)
    if strided is not None:
        low, step_, inside = strided
        return Nested(before, after, _pl_loop, (str(low), str(low + step_ * count), str(step_)), how, inside)
    return Nested(before, after, _fori_loop, (str(start), str(start + count)), how)


def _drops_unread(op: ir.Operation) -> bool:
    """Whether JAX drops what nobody reads where the op stands, as a counter: before 0.12 not in a `while_loop`."""
    while op.parent is not None:
        op = op.parent.owner
        if op.name == "scf.while" and not DROPS_IN_WHILE_LOOPS:
            return False
    return True


_INDEX: Final = ["arith.constant", "arith.muli", "arith.constant", "arith.addi"]


def _strided(loop: ir.Operation) -> tuple[int, int, tuple[ir.Operation, ...]] | None:
    """Of `pl.loop` without a carry, its first index, its step, and the ops that make an index of the counter."""
    inside = tuple(loop.regions[0].operations[:4])
    if [_name(op) for op in inside] != _INDEX or len(loop.operands) != 3:
        return None
    (counter,), (each, moved, first, index) = loop.regions[0].arguments, inside
    if moved.operands != (counter, each.result) or index.operands != (first.result, moved.result):
        return None
    low, step = int(scalar(first) or 0), int(scalar(each) or 0)
    alone = len(counter.users) == 1 and _alone(inside[:3], (1, 1, 1))
    return (low, step, inside) if alone and step > 0 else None


def _alone(operations: Sequence[ir.Operation], users: Sequence[int]) -> bool:
    return [len(op.results[0].users) for op in operations] == list(users)


def _is_dead_number(operations: Sequence[ir.Operation], text: str) -> bool:
    return (
        len(operations) == 1
        and _name(operations[0]) == "arith.constant"
        and not operations[0].results[0].users
        and scalar(operations[0]) == text
    )


def _dynamic(block: Sequence[ir.Operation], place: int) -> Nested | None:
    loop = block[place]
    before = tuple(block[place - 3 : place])
    if [_name(op) for op in before] != ["arith.subi", "arith.addi", "arith.constant"] or loop.attributes.raw:
        return None
    count, end, step = before
    high, low = count.operands
    if loop.operands[:3] != (low, end.results[0], step.results[0]) or scalar(step) != "1":
        return None
    if end.operands != (low, count.results[0]) or not _alone(before, (1, 1, 1)):
        return None
    if high.type.text != "i32":
        return None
    made = block[place - 4] if place >= 4 else None
    if made is not None and low.definition is made and scalar(made) is not None and len(low.users) == 3:
        return Nested((made, *before), (), _fori_loop, (scalar(made) or "", high))
    return Nested(before, (), _fori_loop, (low, high))


def _fori_loop(w: Writer, op: ir.Operation, found: Nested) -> None:
    init = op.operands[3:]
    bases = carried_bases(w, init)
    bounds = [_given(w, v) for v in found.values]
    starts = [w.uses(init)] if init else []
    name = _function(w, "body", op.regions[0], ["i", *bases], op)
    _released(w, op, found)
    more = [Text(found.how)] if found.how else []
    _called(w, op, Call("b.pallas.fori_loop", *bounds, Text(name), *starts, *more), bases, [name])


def _pl_loop(w: Writer, op: ir.Operation, found: Nested) -> None:
    low, high, step = (_given(w, v) for v in found.values)
    more = [Text(found.how)] if found.how else []
    node = Call("b.pallas.loop", low, high, *more, step=None if step.text == "1" else step)
    block = op.regions[0]
    with w.function("_", [found.inside[-1].result], ["i"], op, node):
        w.block(block.operations[:-1])
        w.helped.append(block.operations[-1])
    _released(w, op, found)


# --- lax.while_loop --------------------------------------------------------------------------------------------------


def _while(block: Sequence[ir.Operation], place: int) -> Nested | None:
    loop = block[place]
    if not _ends(loop, "scf.condition", "scf.yield") or loop.attributes.raw or not loop.operands:
        return None
    test, body = loop.regions
    if test.operations[-1].operands[1:] != tuple(test.arguments):
        return None
    for number, argument in enumerate(test.arguments):
        # Read by the condition alone, which hands it on.
        if len(argument.users) == 1 and body.operations[-1].operands[number] is body.arguments[number]:
            return None
    return Nested((), (), _while_loop)


def _while_loop(w: Writer, op: ir.Operation, found: Nested) -> None:
    bases = carried_bases(w, op.operands)
    init = w.uses(op.operands)
    test = _function(w, "condition", op.regions[0], bases, op, result=0)
    body = _function(w, "body", op.regions[1], bases, op)
    _released(w, op, found)
    _called(w, op, Call("b.pallas.while_loop", Text(test), Text(body), init), bases, [test, body])


# --- pl.run_scoped ---------------------------------------------------------------------------------------------------


def _scope(block: Sequence[ir.Operation], place: int) -> Nested | None:
    op = block[place]
    plain = _ends(op, "tpu.yield") and not op.attributes.raw and not op.results and not op.operands
    return Nested((), (), _run_scoped) if plain else None


def _run_scoped(w: Writer, op: ir.Operation, found: Nested) -> None:
    with w.opened(Call("b.pallas.run_scoped"), op=op):
        w.block(op.regions[0].operations[:-1])
    w.helped.append(op.regions[0].operations[-1])


# --- a region of an idiom's own: pltpu.sync_copy, pl.debug_print of a vector -----------------------------------------


def _statement(block: Sequence[ir.Operation], place: int) -> Nested | None:
    op = block[place]
    if not _ends(op, "tpu.yield") or op.attributes.raw or op.results or op.operands:
        return None
    inside = op.regions[0].operations
    return _sync_copy(inside) or _printed(inside)


def _sync_copy(inside: Sequence[ir.Operation]) -> Nested | None:
    wait = "tpu.wait_dma" if PALLAS_WAITS_WITH_WAIT_DMA else "tpu.wait_dma2"
    if [op.name for op in inside] != ["tpu.sem_alloc", "tpu.enqueue_dma", wait, "tpu.yield"]:
        return None
    allocated, start, wait_op, _ = inside
    semaphore, segments = allocated.result, start.segments()
    if [len(s) for s in segments] != [1, 0, 1, 1, 0, 0, 0] or segments[3] != (semaphore,) or semaphore.type.shape:
        return None
    source, target = segments[0][0], segments[2][0]
    waited = (source, target, semaphore) if PALLAS_WAITS_WITH_WAIT_DMA else (semaphore, source, target)
    if wait_op.operands != waited or source is semaphore or target is semaphore:
        return None
    return Nested((), (), _written, (source, target), "sync_copy", tuple(inside))


def _printed(inside: Sequence[ir.Operation]) -> Nested | None:
    names = ["memref.alloca", "arith.constant", "vector.store", "tpu.log_buffer", "tpu.yield"]
    if [op.name for op in inside] != names:
        return None
    ref, zero, (value, *place) = inside[0].result, inside[1].result, inside[2].operands
    if place != [ref, *[zero] * len(value.type.shape)] or inside[3].operands != (ref,) or scalar(inside[1]) != "0":
        return None
    text = inside[3].attributes.string("tag")
    if "{" in text or "}" in text:
        return None
    return Nested((), (), _written, (quoted(text + "{}"), value), "debug_print", tuple(inside))


def _written(w: Writer, op: ir.Operation, found: Nested) -> None:
    """An idiom without functions."""
    w.line("", Call(f"b.pallas.{found.how}", *[_given(w, v) for v in found.values]), op=op)
    _released(w, op, found)
    w.helped += found.inside


_FINDERS: Final[dict[str, Sequence[Callable[[Sequence[ir.Operation], int], Nested | None]]]] = {
    "scf.if": (_branch, _switch),
    "scf.for": (_loop,),
    "scf.while": (_while,),
    "tpu.region": (_statement, _scope),
}
