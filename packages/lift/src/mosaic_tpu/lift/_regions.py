"""Ops with regions: loops, branches and scopes as with blocks, others in the generic form."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from mosaic_tpu.lift._code import Call, Items, Node, Text
from mosaic_tpu.lift._generic import generic_code, types_code
from mosaic_tpu.lift._registry import Rule
from mosaic_tpu.lift._types import known, type_code
from mosaic_tpu.sim import ir

if TYPE_CHECKING:
    from mosaic_tpu.lift._writer import Writer


@dataclass(frozen=True)
class RegionRule:
    """How one op with regions is written.

    Attributes:
        when: whether the rule writes an op exactly.
        write: writes it with its regions.
        numbers: which operands may be numbers.
    """

    when: Callable[[ir.Operation], bool]
    write: Callable[[Writer, ir.Operation], None]
    numbers: Rule | None = None


def _ends(op: ir.Operation, *terminators: str) -> bool:
    """Whether an op has regions that end in these terminators, without attributes."""
    return len(op.regions) == len(terminators) and _end_in(op.regions, *terminators)


def _end_in(regions: Sequence[ir.Block], *terminators: str) -> bool:
    for region, name in zip(regions, terminators, strict=True):
        if not region.operations or not all(known(a.type) for a in region.arguments):
            return False
        last = region.terminator
        if last.name != name or last.attributes.raw or last.regions or last.results:
            return False
    return True


def _plain(op: ir.Operation) -> bool:
    return not op.attributes.raw


def _results(w: Writer, op: ir.Operation, bases: Sequence[str], source: str) -> None:
    if targets := w.targets(op.results, bases, one=False):
        w.line(f"{targets}{source}.results", op=op)


def _body(w: Writer, block: ir.Block, end: str, source: str = "", bases: Sequence[str] = ()) -> None:
    """A block: its arguments, its ops, and the terminator, which goes without saying if it takes nothing."""
    if targets := w.targets(block.arguments, bases, one=False) if source else "":
        w.line(f"{targets}{source}", op=block.owner)
    w.block(block.operations[:-1])
    last = block.terminator
    w.helped.append(last)
    if last.operands:
        w.line("", Call(end, *[w.use(v) for v in last.operands]), op=last)
    w.release(last)


def carried_bases(w: Writer, values: Sequence[ir.Value]) -> list[str]:
    """What carried values are called: as what they start with, unless that is a constant."""
    return [
        "carry" if v.definition is not None and v.definition.name == "arith.constant" else w.base(v) for v in values
    ]


# --- scf.for ---------------------------------------------------------------------------------------------------------


def _bounds(op: ir.Operation) -> Sequence[ir.Value]:
    """The bounds that may be numbers: one of them has to tell their type, unless it is ``index``."""
    bounds = op.operands[:3]
    told = any(v.definition is None or v.definition.name != "arith.constant" for v in bounds)
    return bounds if told or bounds[0].type.element == "index" else bounds[1:]


UNROLL: Final = "tpu.late_unroll"
_FACTOR: Final = re.compile(r"\d+ : i32")


def _is_for(op: ir.Operation) -> bool:
    if set(op.attributes.raw) - {UNROLL} or not _FACTOR.fullmatch(op.attributes.text(UNROLL, "1 : i32")):
        return False
    return _ends(op, "scf.yield") and len(op.operands) >= 3 and len(op.regions[0].arguments) == len(op.operands) - 2


def _for(w: Writer, op: ir.Operation) -> None:
    lower, upper, step, *init = op.operands
    block = op.regions[0]
    counter, *carried = block.arguments
    bases = carried_bases(w, init)
    node = Call(
        "b.for_",
        w.use(lower),
        w.use(upper),
        *([] if w.inlined.literals.get(step) == "1" else [w.use(step)]),
        init=w.uses(init) if init else None,
        late_unroll=Text(str(op.attributes.integer(UNROLL))) if UNROLL in op.attributes else None,
    )
    loop = w.names.take("loop")
    w.release(op)
    with w.opened(node, loop if counter.users or init else "", spare=loop, op=op):
        if counter.users:
            w.line(f"{w.name(counter, 'i')} = {loop}.iv", op=op)
        if targets := w.targets(carried, bases, one=False):
            w.line(f"{targets}{loop}.carried", op=op)
        _body(w, block, f"{loop}.yield_")
    _results(w, op, bases, loop)
    w.names.free(loop)


# --- scf.if ----------------------------------------------------------------------------------------------------------


def _is_if(op: ir.Operation) -> bool:
    return _plain(op) and (_has_no_else(op) or _ends(op, "scf.yield", "scf.yield")) and not _takes_arguments(op)


def _has_no_else(op: ir.Operation) -> bool:
    """Whether there is no else branch, not even an empty one."""
    return len(op.regions) == 2 and not op.regions[1].operations and _end_in(op.regions[:1], "scf.yield")


def _takes_arguments(op: ir.Operation) -> bool:
    return any(region.arguments for region in op.regions)


def _if(w: Writer, op: ir.Operation) -> None:
    then, otherwise = op.regions
    condition = w.use(op.operands[0])
    if not op.results and len(otherwise.operations) <= 1:
        spare = w.names.take("branch")
        w.release(op)
        no_else = None if otherwise.operations else Text("False")
        with w.opened(Call("b.if_", condition, empty_else=no_else), spare=spare, op=op):
            _body(w, then, "")
        w.helped += otherwise.operations
        w.names.free(spare)
        return
    types = Items("[", [type_code(r.type) for r in op.results], "]") if op.results else None
    choice = w.names.take("choice")
    w.release(op)
    with w.opened(Call("b.if_else", condition, *([] if types is None else [types])), choice, spare=choice, op=op):
        for block, name, end in ((then, "then", "yield_then"), (otherwise, "otherwise", "yield_else")):
            with w.opened(Text(f"{choice}.{name}"), op=op):
                _body(w, block, f"{choice}.{end}")
    _results(w, op, ["chosen"] * len(op.results), choice)
    w.names.free(choice)


# --- scf.while -------------------------------------------------------------------------------------------------------


def _is_while(op: ir.Operation) -> bool:
    return _plain(op) and _ends(op, "scf.condition", "scf.yield") and bool(op.regions[0].terminator.operands)


def _while(w: Writer, op: ir.Operation) -> None:
    before, after = op.regions
    bases = carried_bases(w, op.operands)
    same = [v.type for v in op.operands] == [r.type for r in op.results]
    later = bases if same else ["carry"] * len(op.results)
    arguments: list[Node] = [w.uses(op.operands)]
    if not same:
        arguments.append(Items("[", [type_code(r.type) for r in op.results], "]"))
    loop = w.names.take("loop")
    w.release(op)
    with w.opened(Call("b.while_", *arguments), loop, spare=loop, op=op):
        with w.opened(Text(f"{loop}.before"), op=op):
            _body(w, before, f"{loop}.condition", f"{loop}.before.carried", bases)
        with w.opened(Text(f"{loop}.after"), op=op):
            _body(w, after, f"{loop}.yield_", f"{loop}.after.carried", later)
    _results(w, op, later, loop)
    w.names.free(loop)


# --- tpu.region ------------------------------------------------------------------------------------------------------


def _is_scope(op: ir.Operation) -> bool:
    return _plain(op) and _ends(op, "tpu.yield") and not op.operands and not op.regions[0].arguments


def _scope(w: Writer, op: ir.Operation) -> None:
    types = [Items("[", [type_code(r.type) for r in op.results], "]")] if op.results else []
    scope = w.names.take("scope")
    with w.opened(Call("b.region", *types), scope if op.results else "", spare=scope, op=op):
        _body(w, op.regions[0], f"{scope}.yield_")
    _results(w, op, ["result"] * len(op.results), scope)
    w.names.free(scope)


# --- scf.index_switch ------------------------------------------------------------------------------------------------


def _is_switch(op: ir.Operation) -> bool:
    cases = op.attributes.integers("cases")
    plain = set(op.attributes.raw) == {"cases"} and len(op.regions) == len(cases) + 1
    return plain and not _takes_arguments(op) and _ends(op, *["scf.yield"] * len(op.regions))


def _switch(w: Writer, op: ir.Operation) -> None:
    cases = op.attributes.integers("cases")
    types = [Items("[", [type_code(r.type) for r in op.results], "]")] if op.results else []
    shown = Items("[", [Text(str(c)) for c in cases], "]")
    switch = w.names.take("switch")
    node = Call("b.index_switch", w.use(op.operands[0]), shown, *types)
    w.release(op)
    entered = [f"{switch}.default", *(f"{switch}.case({c})" for c in cases)]
    with w.opened(node, switch, spare=switch, op=op):
        for block, code in zip(op.regions, entered, strict=True):
            case = w.names.take("case")
            with w.opened(Text(code), case if op.results else "", spare=case, op=op):
                _body(w, block, f"{case}.yield_")
            w.names.free(case)
    _results(w, op, ["chosen"] * len(op.results), switch)
    w.names.free(switch)


# --- any other -------------------------------------------------------------------------------------------------------


def generic_regions(w: Writer, op: ir.Operation) -> None:
    """``outer = b.generic_op(…, regions=1)``, and a with block for each region that is not empty."""
    node = generic_code(w, op)
    name = w.names.take(op.name.rpartition(".")[2].lower() if op.name.isascii() else "outer")
    w.release(op)
    built = [r for r in op.regions if r.operations]
    w.line(f"{name} = " if built or any(r.users for r in op.results) else "", node, op=op)
    for number, region in enumerate(op.regions):
        if not region.operations:
            continue
        types = [types_code([a.type for a in region.arguments])] if region.arguments else []
        target = f"({', '.join(w.name(a, 'arg') if a.users else '_' for a in region.arguments)},)"
        with w.opened(
            Call(f"{name}.region", Text(str(number)), *types), _tuple(target) if region.arguments else "", op=op
        ):
            w.block(region.operations)
    _results(w, op, ["result"] * len(op.results), name)
    w.names.free(name)


def _tuple(target: str) -> str:
    """``(x,)``, or ``(x, y)`` without a comma that nobody needs."""
    return target if target.count(",") == 1 else target.removesuffix(",)") + ")"


def _numbers(slots: Callable[[ir.Operation], Sequence[ir.Value]]) -> Rule:
    return Rule(lambda w, op: Text(""), "", slots, {}, None)


REGIONS: Final[dict[str, RegionRule]] = {
    "scf.for": RegionRule(_is_for, _for, _numbers(_bounds)),
    "scf.if": RegionRule(_is_if, _if),
    "scf.index_switch": RegionRule(_is_switch, _switch),
    "scf.while": RegionRule(_is_while, _while),
    "tpu.region": RegionRule(_is_scope, _scope),
}
