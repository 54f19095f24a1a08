"""Structured control flow."""

from __future__ import annotations

from collections.abc import Sequence

from mosaic_tpu.sim._emit import Emitter, Info, rule
from mosaic_tpu.sim._module import Block, Operation, Value


def _variables(values: Sequence[Value]) -> list[str]:
    return [f"c{v.index}" for v in values]


def _declare(e: Emitter, values: Sequence[Value], names: Sequence[str]) -> None:
    for value, name in zip(values, names, strict=True):
        e.infos[value.index] = Info(name, value.type.shape)


def _assign(e: Emitter, names: Sequence[str], values: Sequence[Value]) -> None:
    """Names get values all at once."""
    if names:
        e.line(f"{', '.join(names)} = {', '.join(e.full(v) for v in values)}")


@rule("scf.for")
def _for(e: Emitter, op: Operation) -> None:
    low, high, step, *initial = op.operands
    block = op.regions[0]
    induction, *carried = block.arguments
    names = _variables(carried)
    _assign(e, names, initial)
    _declare(e, carried, names)
    _declare(e, op.results, names)
    index = f"i{induction.index}"
    e.infos[induction.index] = Info(index)
    known = e.known(step)
    if known is None:
        e.assign(step, e.text(step))
    if known is None or known <= 0:
        what = "a loop whose step is not positive"
        e.line(f"if {e.text(step)} <= 0: core.outside({op.number}, {what!r})")
    bounds = [e.text(v) for v in (low, high, step)]
    if e.known(step) == 1:
        bounds.pop()
        if e.known(low) == 0:
            bounds.pop(0)
    e.line(f"for {index} in range({', '.join(bounds)}):")
    e.depth += 1
    e.line("tick()")
    e.depth -= 1
    e.inner(block, lambda: _assign(e, names, block.terminator.operands))


@rule("scf.while")
def _while(e: Emitter, op: Operation) -> None:
    before, after = op.regions
    carried = _variables(before.arguments)
    _assign(e, carried, op.operands)
    _declare(e, before.arguments, carried)
    forwarded = _variables(after.arguments)
    _declare(e, after.arguments, forwarded)
    results = [f"s{r.index}" for r in op.results]
    _declare(e, op.results, results)

    def condition() -> None:
        test, *values = before.terminator.operands
        _assign(e, forwarded, values)
        e.line(f"if not {e.text(test)}: break")

    e.line("while True:")
    e.depth += 1
    e.line("tick()")
    e.depth -= 1
    e.inner(before, condition)
    e.inner(after, lambda: _assign(e, carried, after.terminator.operands))
    if results:
        e.line(f"{', '.join(results)} = {', '.join(forwarded)}")


def _branch(e: Emitter, head: str, block: Block, names: Sequence[str]) -> None:
    e.line(head)
    e.inner(block, lambda: _assign(e, names, block.terminator.operands))


def _empty(block: Block) -> bool:
    return len(block.operations) <= 1 and not (block.operations and block.terminator.operands)


@rule("scf.if")
def _if(e: Emitter, op: Operation) -> None:
    then, *rest = op.regions
    names = [f"s{r.index}" for r in op.results]
    _branch(e, f"if {e.text(op.operands[0])}:", then, names)
    if rest and rest[0].operations and not _empty(rest[0]):
        _branch(e, "else:", rest[0], names)
    _declare(e, op.results, names)


@rule("scf.index_switch")
def _index_switch(e: Emitter, op: Operation) -> None:
    default, *cases = op.regions
    names = [f"s{r.index}" for r in op.results]
    value = e.atom(e.text(op.operands[0]))
    word = "if"
    for case, block in zip(op.attributes.integers("cases"), cases, strict=True):
        _branch(e, f"{word} {value} == {case}:", block, names)
        word = "elif"
    if word == "if":
        _branch(e, "if True:", default, names)
    elif not _empty(default):
        _branch(e, "else:", default, names)
    _declare(e, op.results, names)


@rule("scf.execute_region")
def _execute_region(e: Emitter, op: Operation) -> None:
    run_region(e, op)


def run_region(e: Emitter, op: Operation) -> None:
    """A region that runs once, where it stands."""
    names = [f"s{r.index}" for r in op.results]
    _branch(e, "if True:", op.regions[0], names)
    _declare(e, op.results, names)


@rule("scf.yield", "scf.condition", "tpu.yield")
def _terminator(e: Emitter, op: Operation) -> None:
    """The op around it reads its operands."""
