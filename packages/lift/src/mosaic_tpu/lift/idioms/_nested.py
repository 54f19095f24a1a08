"""Branches and loops that an idiom makes: known by the ops it emits before and after them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from mosaic_tpu.builder._compat import DYNAMIC_FORI_IS_ONE_LOOP
from mosaic_tpu.builder.ops.arith import CMPI
from mosaic_tpu.lift._code import Call, Items, Node, Text
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
        write: writes all of them.
        values: what it takes, beside what a loop carries.
        how: its other arguments.
    """

    before: tuple[ir.Operation, ...]
    after: tuple[ir.Operation, ...]
    write: Callable[[Writer, ir.Operation, Nested], None] = field(repr=False)
    values: tuple[ir.Value | str, ...] = ()
    how: str = ""


def nested(blocks: Iterable[Sequence[ir.Operation]]) -> dict[ir.Operation, Nested]:
    """The idioms with regions of these blocks."""
    found: dict[ir.Operation, Nested] = {}
    for block in blocks:
        for place, op in enumerate(block):
            find = _FINDERS.get(op.name)
            match = None if find is None else find(block, place)
            if match is not None:
                found[op] = match
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
    for each in (*found.before, op, *found.after):
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
            _return(w, last.operands[result], last)
        elif last.operands:
            w.line("return ", w.uses(last.operands), op=last)
        w.release(last)
    return taken


def _return(w: Writer, value: ir.Value, last: ir.Operation) -> None:
    """Return a value; one that was named for nothing else is returned as it is made."""
    made = w.statements[-1]
    if value.users == [last] and made.indent == w.indent and made.before == f"{w.use(value).text} = ":
        made.before = "return "
    else:
        w.line("return ", w.use(value), op=last)


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
    counts = bool(loop.regions[0].arguments[0].users)
    after = tuple(block[place + 1 : place + 2]) if counts else ()
    if counts and not _is_dead_number(after, str(count)):
        return None
    if not counts and start:
        return None
    how = f"unroll={factor}" if factor > 1 else ""
    return Nested(before, after, _fori_loop, (str(start), str(start + count)), how)


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


_FINDERS: Final = {"scf.if": _branch, "scf.for": _loop, "scf.while": _while, "tpu.region": _scope}
