"""Where a module's ops are those of an idiom."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from mosaic_tpu.lift._types import all_known
from mosaic_tpu.lift.idioms._form import PROPOSALS, Form, Types
from mosaic_tpu.lift.idioms._template import Template, templates
from mosaic_tpu.sim import ir


@dataclass(frozen=True)
class Match:
    """Ops that a form emits.

    Attributes:
        form: the expression.
        operations: the ops, in order.
        values: what the expression takes.
        result: what it comes to.
    """

    form: Form
    operations: tuple[ir.Operation, ...]
    values: tuple[ir.Value, ...]
    result: ir.Value | None


def matches(
    blocks: Iterable[Sequence[ir.Operation]], refused: frozenset[object], claimed: set[ir.Operation]
) -> dict[ir.Operation, Match]:
    """The idioms of a module, by each of their ops: of those that overlap the longest.

    Args:
        blocks: their ops, in order.
        refused: keys of forms that are not to be found.
        claimed: ops that stand for something else.
    """
    blocks = list(blocks)
    types = Types(blocks)
    proposed: list[tuple[int, int, Form]] = []
    for number, block in enumerate(blocks):
        for place, op in enumerate(block):
            for propose in PROPOSALS.get(op.name, ()) if all_known(op) else ():
                forms = itertools.islice(propose(op, types), _MOST)
                proposed += [(number, place, form) for form in forms if form.key not in refused]
    found: list[list[tuple[int, Match]]] = [[] for _ in blocks]
    names = [[op.name for op in block] for block in blocks]
    without = {(number, place) for number, place, form in proposed if form.spare}
    for spare in (False, True):
        tried = [p for p in proposed if p[2].spare == spare and (not spare or p[:2] in without)]
        known = _templates({form.key: form for _, _, form in tried})
        for number, place, form in tried:
            template = known[form.key]
            if template is not None:
                more = list(_found(form, template, blocks[number], names[number], place))
                if more and not spare:
                    without.discard((number, place))
                found[number] += more
    chosen: dict[ir.Operation, Match] = {}
    for of_block in found:
        # Stable: of two of one length the form that was proposed first.
        for _, match in sorted(of_block, key=lambda m: -m[0]):
            if not any(op in chosen or op in claimed for op in match.operations):
                chosen.update(dict.fromkeys(match.operations, match))
    return chosen


#: Forms of one op that are tried.
_MOST: Final = 200
#: What forms emit, of all modules so far; it depends on nothing else.
_EMITTED: Final[dict[object, Template | None]] = {}
_LARGEST: Final = 20_000


def forget() -> None:
    """Forget what forms emit."""
    _EMITTED.clear()


def _templates(asked: dict[object, Form]) -> dict[object, Template | None]:
    if len(_EMITTED) > _LARGEST:
        forget()
    # Another thread may forget at any time.
    before = _EMITTED.copy()
    new = {key: form for key, form in asked.items() if key not in before}
    made = dict(zip(new, templates(list(new.values())), strict=True))
    _EMITTED.update(made)
    return before | made


def _found(
    form: Form, template: Template, block: Sequence[ir.Operation], names: Sequence[str], place: int
) -> Iterator[tuple[int, Match]]:
    """The matches of a template around one op, which may stand anywhere in it."""
    length = len(template.names)
    for offset in template.places.get(names[place], ()):
        start = place - offset
        if start < 0 or names[start : start + length] != template.names:
            continue
        match = _unified(form, template, tuple(block[start : start + length]))
        if match is not None:
            yield length, match
            return


def _unified(form: Form, template: Template, operations: tuple[ir.Operation, ...]) -> Match | None:
    values: list[ir.Value | None] = [None] * template.arguments
    for step, op in zip(template.steps, operations, strict=True):
        if op.regions or step.attributes != op.attributes.raw or len(step.operands) != len(op.operands):
            return None
        if [r.type for r in op.results] != list(step.results):
            return None
        for number, type_, value in zip(step.operands, step.types, op.operands, strict=True):
            if values[number] is None:
                values[number] = value
            if values[number] is not value or type_ != value.type:
                return None
        values += op.results
    inside = set(operations)
    result = None if template.result is None else values[template.result]
    for op in operations:
        for value in op.results:
            if value is not result and any(user not in inside for user in value.users):
                return None
    arguments = tuple(v for v in values[: template.arguments] if v is not None and v.definition not in inside)
    return Match(form, operations, arguments, result) if len(arguments) == template.arguments else None
