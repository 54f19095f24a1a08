"""What forms emit: all of them in one module, which is read back."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from mosaic_tpu import builder
from mosaic_tpu.builder import Builder, Value
from mosaic_tpu.builder.errors import MosaicError
from mosaic_tpu.lift.idioms._form import Form
from mosaic_tpu.sim import ir

_NAMES: Final = {name: getattr(builder, name) for name in builder.__all__} | {"math": math}


@dataclass(frozen=True)
class Step:
    """An op of a form, on values that are counted: first the arguments, then the results, in order."""

    name: str
    attributes: dict[str, str]
    operands: tuple[int, ...]
    types: tuple[ir.Type, ...]
    results: tuple[ir.Type, ...]


@dataclass(frozen=True)
class Template:
    """The ops of a form.

    Attributes:
        steps: in order.
        arguments: how many values it was given.
        result: which value the expression comes to; ``None`` for a statement.
    """

    steps: tuple[Step, ...]
    arguments: int
    result: int | None

    @cached_property
    def names(self) -> list[str]:
        """Of the ops."""
        return [step.name for step in self.steps]

    @cached_property
    def places(self) -> dict[str, list[int]]:
        """Where the ops of each name stand."""
        found: dict[str, list[int]] = {}
        for place, name in enumerate(self.names):
            found.setdefault(name, []).append(place)
        return found


def templates(forms: Sequence[Form]) -> list[Template | None]:
    """What each form emits; ``None`` where the builder refuses it, or it emits nothing."""
    if not forms:
        return []
    b = Builder("forms", locations=False)
    results = [_emit(b, number, form) for number, form in enumerate(forms)]
    try:
        module = ir.read(b.finish(anonymous=True))
    except MosaicError:
        # One of them builds what MLIR's verifier refuses: it is found by halves.
        if len(forms) == 1:
            return [None]
        middle = len(forms) // 2
        return templates(forms[:middle]) + templates(forms[middle:])
    functions = module.operations[0].regions[0].operations
    return [_template(f, r) for f, r in zip(functions, results, strict=True)]


def _emit(b: Builder, number: int, form: Form) -> tuple[int, int] | None:
    """Emit a form as a function of its own: which op its result is of, and which of that op's; -1 for a statement."""
    with b.generic_function(f"f{number}", [t.text for t in form.types]) as values:
        names: dict[str, Any] = {**_NAMES, "b": b, **{f"x{n}": v for n, v in enumerate(values)}}
        try:
            exec(form.source, names)
            found = _place(b, names.get("result"), form)
        except MosaicError:
            found = None
        b.generic_op("func.return")
    return found


def _place(b: Builder, result: object, form: Form) -> tuple[int, int] | None:
    if form.target is not None:
        return -1, 0
    if not isinstance(result, Value):
        return None if result is not None else (-1, 0)
    found: Any = result.ir
    for place, op in enumerate(b._ip.block.operations):
        if op == found.owner:
            return place, int(found.result_number)
    return None


def _template(function: ir.Operation, result: tuple[int, int] | None) -> Template | None:
    block = function.regions[0]
    operations = block.operations[:-1]
    if result is None or not operations or any(op.regions for op in operations):
        return None
    numbers = {value: number for number, value in enumerate(block.arguments)}
    steps: list[Step] = []
    for op in operations:
        operands = tuple(numbers[v] for v in op.operands)
        types = tuple(v.type for v in op.operands)
        steps.append(Step(op.name, op.attributes.raw, operands, types, tuple(r.type for r in op.results)))
        for value in op.results:
            numbers[value] = len(numbers)
    place, number = result
    found = None if place < 0 else numbers[operations[place].results[number]]
    return Template(tuple(steps), len(block.arguments), found)
