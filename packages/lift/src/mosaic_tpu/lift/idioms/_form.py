"""What an op may have come from: expressions over `b.pallas` that are tried, by the op that gives each away."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Final

from mosaic_tpu.lift._code import Names, Node, Text
from mosaic_tpu.lift._numbers import scalar, splat
from mosaic_tpu.lift._types import known
from mosaic_tpu.sim import ir

type Write = Callable[[Sequence[Text]], Node]


@dataclass(frozen=True)
class Form:
    """An expression over values of certain types.

    Attributes:
        types: of the values that it takes.
        write: the expression, of the code of those.
        name: what its result is called, or the number of the value that it is called after.
        target: what stands before the expression, of the same, where it is stored.
        spare: whether it is tried only where no other form of the op is found.
    """

    types: tuple[ir.Type, ...]
    write: Write = field(repr=False)
    name: str | int = "result"
    target: Callable[[Sequence[Text]], str] | None = field(default=None, repr=False)
    spare: bool = False

    @cached_property
    def source(self) -> str:
        """The statement over ``x0``, ``x1`` …, as it is tried."""
        slots = [Text(f"x{n}") for n in range(len(self.types))]
        return (self.target(slots) if self.target else "result = ") + self.write(slots).flat(Names())

    @cached_property
    def key(self) -> tuple[str, tuple[str, ...]]:
        """Forms of one key emit the same."""
        return self.source, tuple(t.text for t in self.types)


#: Forms for an op, those that say most first, given what is known of the whole module.
type Propose = Callable[[ir.Operation, Types], Iterable[Form]]


class Types:
    """The types of a module's values, by shape: those that an expression may have started from."""

    def __init__(self, blocks: Iterable[Sequence[ir.Operation]]) -> None:
        found: dict[tuple[str, tuple[int, ...]], dict[ir.Type, None]] = {}
        #: The names of scopes, by the ops that stand in them.
        self.scopes: dict[ir.Operation, str] = {}
        for block in blocks:
            names: list[str] = []
            for op in block:
                if op.name == "tpu.trace_start":
                    names.append(op.attributes.string("message"))
                elif op.name == "tpu.trace_stop":
                    del names[-1:]
                elif names:
                    self.scopes[op] = names[-1]
                for value in (*op.operands, *op.results):
                    type_ = value.type
                    if type_.kind in ("vector", "scalar") and known(type_):
                        found.setdefault((type_.kind, type_.shape), {})[type_] = None
        self._found = {key: tuple(types) for key, types in found.items()}

    def vectors(self, shape: tuple[int, ...]) -> tuple[ir.Type, ...]:
        """Vectors of a shape."""
        return self._found.get(("vector", shape), ())

    def of_rank(self, rank: int) -> Iterator[ir.Type]:
        """Vectors with so many dimensions."""
        for (kind, shape), types in self._found.items():
            if kind == "vector" and len(shape) == rank:
                yield from types

    def of_shape(self, type_: ir.Type) -> tuple[ir.Type, ...]:
        """Those that differ from one in nothing but their elements, itself first."""
        others = self._found.get((type_.kind, type_.shape), ())
        return (type_, *(t for t in others if t != type_)) if known(type_) else others


PROPOSALS: Final[dict[str, list[Propose]]] = {}


def proposes(*ops: str) -> Callable[[Propose], Propose]:
    """Register what gives forms for ops of these names."""

    def register(propose: Propose) -> Propose:
        for op in ops:
            PROPOSALS.setdefault(op, []).append(propose)
        return propose

    return register


# --- operands --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Part:
    """One operand of an expression: a value of a type, or code without one."""

    type: ir.Type | None
    code: str = ""


@lru_cache(maxsize=20_000)
def combined(parts: tuple[Part, ...], write: Write, name: str | int = "result") -> Form:
    """The form over operands, of which some are no values."""
    return Form(tuple(p.type for p in parts if p.type is not None), lambda slots: write(_filled(parts, slots)), name)


def _filled(parts: Sequence[Part], slots: Sequence[Text]) -> list[Text]:
    given = iter(slots)
    return [Text(p.code) if p.type is None else next(given) for p in parts]


def origins(value: ir.Value) -> Iterator[Part]:
    """What an operand may have been before its op broadcast it: most specific first, itself last."""
    made = value.definition
    if (literal := literal_of(value)) is not None:
        yield Part(None, literal)
    if made is not None and made.name == "vector.broadcast":
        source = made.operands[0]
        if (literal := literal_of(source)) is not None:
            yield Part(None, literal)
        inner = source.definition
        if inner is not None and inner.name == "vector.shape_cast":
            yield Part(inner.operands[0].type)
        yield Part(source.type)
    elif made is not None and made.name == "vector.shape_cast":
        yield Part(made.operands[0].type)
    yield Part(value.type)


def literal_of(value: ir.Value) -> str | None:
    """The number that a constant is."""
    made = value.definition
    if made is not None and made.name == "arith.sitofp" and len(value.users) == 1:
        # A number that JAX converts where it uses it.
        return literal_of(made.operands[0])
    if made is None or made.name != "arith.constant":
        return None
    found = scalar(made) if value.type.kind == "scalar" else splat(made)
    return None if found is None or value.type.element == "i1" else found
