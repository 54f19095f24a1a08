"""A Mosaic module as plain Python data: what both engines read."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from mosaic_tpu.sim._types import Attributes, Type

#: How deep locations may stand in each other.
_DEPTH: Final = 64


class Value:
    """An SSA value: a result of an op, or an argument of a block.

    Attributes:
        type: its type.
        index: a number unique in the function.
        definition: the op it is a result of, or ``None`` for an argument.
        users: the ops that take it.
    """

    __slots__ = ("definition", "index", "type", "users")

    def __init__(self, type_: Type, index: int, definition: Operation | None = None) -> None:
        self.type = type_
        self.index = index
        self.definition = definition
        self.users: list[Operation] = []

    def __repr__(self) -> str:
        return f"%{self.index}"


class Operation:
    """One op.

    Attributes:
        name: ``"arith.addi"``.
        operands: the values it takes.
        results: the values it makes.
        attributes: its attributes.
        regions: its regions, each of one block.
        number: its place in the module, by which its location is found.
        parent: the block it stands in.
    """

    __slots__ = ("attributes", "name", "number", "operands", "parent", "regions", "results")

    def __init__(self, name: str, number: int, operands: tuple[Value, ...], attributes: Attributes) -> None:
        self.name = name
        self.number = number
        self.operands = operands
        self.attributes = attributes
        self.results: tuple[Value, ...] = ()
        self.regions: list[Block] = []
        self.parent: Block | None = None

    @property
    def result(self) -> Value:
        """The only result."""
        (found,) = self.results
        return found

    def segments(self) -> list[tuple[Value, ...]]:
        """The operands by ``operandSegmentSizes``."""
        groups: list[tuple[Value, ...]] = []
        start = 0
        for size in self.attributes.integers("operandSegmentSizes"):
            groups.append(self.operands[start : start + size])
            start += size
        return groups

    def walk(self) -> Iterator[Operation]:
        """Every op inside, in order, this one first."""
        yield self
        for region in self.regions:
            for op in region.operations:
                yield from op.walk()

    def __repr__(self) -> str:
        made = ", ".join(map(repr, self.results))
        return f"{made + ' = ' if made else ''}{self.name}({', '.join(map(repr, self.operands))})"


class Block:
    """The one block of a region: its arguments, and its ops."""

    __slots__ = ("arguments", "operations", "owner")

    def __init__(self, arguments: tuple[Value, ...], owner: Operation) -> None:
        self.arguments = arguments
        self.operations: list[Operation] = []
        self.owner = owner

    @property
    def terminator(self) -> Operation:
        """The op that ends it."""
        return self.operations[-1]


@dataclass
class Function:
    """A ``func.func``."""

    name: str
    operation: Operation

    @property
    def body(self) -> Block:
        """Its one block."""
        return self.operation.regions[0]

    @property
    def arguments(self) -> tuple[Value, ...]:
        """The block's arguments."""
        return self.body.arguments

    @property
    def attributes(self) -> Attributes:
        """``iteration_bounds``, ``window_params`` and the like."""
        return self.operation.attributes


@dataclass
class Call:
    """What the custom call around a body says, as far as it matters here.

    Attributes:
        outputs: shapes and dtypes of the results, if known.
        aliases: output to input.
    """

    outputs: tuple[tuple[tuple[int, ...], Any], ...] | None = None
    aliases: dict[int, int] = field(default_factory=dict[int, int])


@dataclass
class Module:
    """A Mosaic module.

    Attributes:
        name: of the kernel's function.
        functions: by name, the kernel's first.
        operations: every op, by its number.
        locations: by op number, the text of its MLIR location; empty where the module has none.
        call: the custom call around it.
        names: of the kernel's arguments, from the locations where they say one, else ``arg0`` …
        cache: what was generated for it.
    """

    name: str
    functions: dict[str, Function]
    operations: list[Operation] = field(repr=False)
    locations: list[str]
    aliases: dict[str, str] = field(repr=False)
    call: Call = field(default_factory=Call)
    names: tuple[str, ...] = ()
    cache: dict[object, Any] = field(default_factory=dict[object, Any], repr=False)
    _lines: dict[int, str | None] = field(default_factory=dict[int, "str | None"], repr=False)

    def __getstate__(self) -> dict[str, Any]:
        """For other processes: without what was generated, which each makes anew."""
        return {**vars(self), "cache": {}}

    @property
    def kernel(self) -> Function:
        """The kernel's function."""
        return self.functions[self.name]

    def line(self, op: Operation | None) -> str | None:
        """``"file.py:12"`` of the kernel's source for an op, the innermost line first written; ``None`` if unknown."""
        if op is None or op.number >= len(self.locations):
            return None
        if op.number not in self._lines:
            self._lines[op.number] = self._line(self.locations[op.number])
        return self._lines[op.number]

    def _line(self, text: str) -> str | None:
        frames = list(self._frames(text))
        if not frames:
            return None
        # JAX traces a helper once for all its calls: of one function's frames the outer one is this call's.
        function = frames[0][0]
        own = itertools.takewhile(lambda frame: frame[0] == function, frames)
        return list(own)[-1][1]

    def _frames(self, text: str, depth: int = 0) -> Iterator[tuple[str, str]]:
        """Function and ``"file.py:12"`` of each place in a location, the innermost first."""
        pattern = r'(?:"((?:[^"\\]|\\.)*)"\()?"((?:[^"\\]|\\.)*)":(\d+):\d+|"((?:[^"\\]|\\.)*)"\((?=#loc)|(#loc\d*)'
        name = ""
        for found in re.finditer(pattern, text):
            if found[5] and depth < _DEPTH:
                for inner, line in self._frames(self.aliases.get(found[5], ""), depth + 1):
                    yield inner or name, line
            elif found[2] is not None:
                yield found[1] or "", f"{found[2]}:{found[3]}"
            elif found[4] is not None:
                name = found[4]
