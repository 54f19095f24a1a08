"""From a module as data to statements: the state that the rules share."""

from __future__ import annotations

import collections
import itertools
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from mosaic_tpu.lift._code import Call, Items, Node, Operator, Shape, String, Text
from mosaic_tpu.lift._compat import Registered
from mosaic_tpu.lift._generic import generic_code
from mosaic_tpu.lift._names import APART, Namer
from mosaic_tpu.lift._numbers import Inlined
from mosaic_tpu.lift._regions import REGIONS, RegionRule, generic_regions
from mosaic_tpu.lift._registry import RULES, Rule, applies
from mosaic_tpu.lift._types import Imported, all_known, dtype_of
from mosaic_tpu.lift.idioms import Match, Nested, matches, nested, spans
from mosaic_tpu.sim import ir

#: A block that stands further in and has regions is a function of its own: Python refuses more than 20 with blocks in
#: each other, and a line has no space left.
_FURTHEST: Final = 4 * 12


@dataclass
class Choices:
    """What is written generically although there is a rule: what running the source has shown not to be exact.

    Attributes:
        idioms: whether ops that an idiom emits are written as it.
        refused: idioms that are not written: keys of forms, and ops with regions.
        functions: the kernel's function.
        everything: all ops.
        names: ops of these names.
        signatures: ops that look so.
    """

    idioms: bool = False
    refused: set[object] = field(default_factory=set[object])
    functions: bool = False
    everything: bool = False
    names: set[str] = field(default_factory=set[str])
    signatures: set[object] = field(default_factory=set[object])


def signature(op: ir.Operation) -> object:
    """What ops have in common that a helper treats alike."""
    types = tuple(v.type for v in op.operands), tuple(v.type for v in op.results)
    return op.name, tuple(op.attributes.raw.items()), types


@dataclass(frozen=True)
class Apart:
    """A block that is written as a function.

    Attributes:
        name: of the function.
        operations: what stands in it.
        taken: values from outside, its parameters.
        bases: what those are called.
        returned: values that are used behind it.
    """

    name: str
    operations: Sequence[ir.Operation]
    taken: tuple[ir.Value, ...]
    bases: tuple[str, ...]
    returned: tuple[ir.Value, ...]


@dataclass(slots=True)
class Statement:
    """An expression between two texts, or nothing but text.

    Attributes:
        spare: of a with statement, what its object is called where it gets a statement of its own.
        apart: whether it does even if there is space.
    """

    indent: int
    before: str
    node: Node | None
    after: str
    op: ir.Operation | None
    spare: str = ""
    apart: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether it is an empty line."""
        return not self.before and self.node is None


class Writer:
    """Writes functions, one after the other."""

    def __init__(self, choices: Choices, registered: Registered) -> None:
        self.choices = choices
        self.registered = registered
        self.statements: list[Statement] = []
        self.names = Namer()
        #: How each value is written.
        self.code: dict[ir.Value, str] = {}
        #: Ops by how they are written: by a helper, or generically.
        self.helped: list[ir.Operation] = []
        self.generic: list[ir.Operation] = []
        self.inlined = Inlined()
        #: Ops that an idiom emits.
        self.matched: dict[ir.Operation, Match] = {}
        #: Branches and loops that an idiom makes, with what it emits around them.
        self.nested: dict[ir.Operation, Nested] = {}
        #: Spans of the profile that are named scopes, with how many ops each has.
        self.spans: dict[ir.Operation, int] = {}
        self.indent = 4
        self._named: dict[ir.Value, str] = {}
        #: Of each function that is being written, the names of others that its end sets free; and whose each name is.
        self._functions: list[list[str]] = [[]]
        self._owner: dict[str, int] = {}
        #: Whether a block is being written, and blocks in it that are functions which stand before its statements.
        self._inside = False
        self._apart: list[Apart] = []
        self._written_apart = 0
        self._rules: dict[ir.Operation, Rule | None] = {}

    # --- statements ------------------------------------------------------------------------------------------------

    def line(self, before: str, node: Node | None = None, after: str = "", op: ir.Operation | None = None) -> None:
        """One statement at the current indentation."""
        self.statements.append(Statement(self.indent, before, node, after, op))

    def assign(self, values: Sequence[ir.Value], bases: Sequence[str], node: Node, op: ir.Operation) -> None:
        """Give values the names that stand before an expression."""
        # An operator or an index alone would be no statement to linters.
        unused = "_ = " if isinstance(node, Operator | Text) else ""
        self.line(self.targets(values, bases) or unused, node, op=op)

    def targets(self, values: Sequence[ir.Value], bases: Sequence[str], *, one: bool = True) -> str:
        """``x, _, y = ``; empty where nothing takes any of them."""
        if not any(v.users for v in values):
            return ""
        names = [self.name(v, base) if v.users else "_" for v, base in zip(values, bases, strict=True)]
        return f"{names[0] if one and len(names) == 1 else self.unpacked(names)} = "

    @staticmethod
    def unpacked(names: Sequence[str]) -> str:
        """``(x,)`` or ``x, y``."""
        return f"({names[0]},)" if len(names) == 1 else ", ".join(names)

    def name(self, value: ir.Value, base: str) -> str:
        """A name for a value, until nothing takes it any more."""
        found = self.code[value] = self._named[value] = self.names.take(base)
        self._owner[found] = len(self._functions)
        return found

    def release(self, op: ir.Operation) -> None:
        """Names of operands that no later op takes are free again."""
        for value in op.operands:
            if value.users[-1] is op and (name := self._named.pop(value, None)) is not None:
                self._free(name)

    def _free(self, name: str) -> None:
        # A function that assigned a name which it has read from outside would read its own.
        if self._owner[name] == len(self._functions):
            self.names.free(name)
        else:
            self._functions[-1].append(name)

    @contextmanager
    def held(self) -> Generator[None]:
        """Names from outside stay taken until what is written inside is done, for what is not in the module's order."""
        self._functions.append([])
        yield
        for name in self._functions.pop():
            self._free(name)

    # --- expressions -----------------------------------------------------------------------------------------------

    def use(self, value: ir.Value) -> Text:
        """An operand: its name, or its number."""
        literal = self.inlined.literals.get(value)
        return Text(self.code[value] if literal is None else literal)

    def uses(self, values: Sequence[ir.Value]) -> Items:
        """A list of operands."""
        return Items("[", [self.use(v) for v in values], "]")

    def base(self, value: ir.Value) -> str:
        """What a value is called, without its number; of an argument, its own name."""
        code = self.code.get(value, "value")
        return code.removeprefix("a.") if "." in code else self.names.base(code)

    def dtype(self, value: ir.Value) -> Imported:
        """The element type of a value."""
        return Imported(dtype_of(value.type).name)

    def shape(self, value: ir.Value) -> Shape:
        """The shape of a value."""
        return Shape(value.type.shape)

    # --- ops -------------------------------------------------------------------------------------------------------

    def typed(self, op: ir.Operation) -> bool:
        """Whether helpers may write an op, as far as is known."""
        choices = self.choices
        if choices.everything or op.name in choices.names:
            return False
        return not choices.signatures or signature(op) not in choices.signatures

    def rule_of(self, op: ir.Operation) -> Rule | None:
        """The rule that writes an op exactly."""
        if op not in self._rules:
            found = RULES.get(op.name)
            fits = found is not None and not op.regions and self.typed(op) and applies(found, op)
            self._rules[op] = found if fits else None
        return self._rules[op]

    def region_rule_of(self, op: ir.Operation) -> RegionRule | None:
        """The rule that writes an op with regions exactly."""
        found = REGIONS.get(op.name)
        return found if found is not None and self.typed(op) and all_known(op) and found.when(op) else None

    def block(self, operations: Sequence[ir.Operation]) -> None:
        """The ops of a block; those of one that stands too far in are called, and written before."""
        if self._inside and self.indent > _FURTHEST and any(op.regions for op in operations):
            self._call_apart(operations)
            return
        outermost, self._inside = not self._inside, True
        self.inlined.plan(operations, self.slots_of)
        self._operations(operations, outermost=outermost)
        self._inside = not outermost

    def _operations(self, operations: Sequence[ir.Operation], *, outermost: bool = False) -> None:
        rest = iter(enumerate(operations))
        for place, op in rest:
            start = len(self.statements)
            length = self.spans.get(op, 0) if self.indent <= _FURTHEST else 0
            if length:
                self._span(op, operations[place + 1 : place + length], operations[place + length])
                collections.deque(itertools.islice(rest, length), maxlen=0)
            else:
                self._operation(op)
            if outermost and self._apart:
                self._write_apart(start)

    def _span(self, op: ir.Operation, inside: Sequence[ir.Operation], stop: ir.Operation) -> None:
        with self.opened(Call("b.pallas.named_scope", String(op.attributes.string("message"))), spare="scope", op=op):
            self._operations(inside)
        self.helped += [op, stop]

    def _operation(self, op: ir.Operation) -> None:
        match = self.matched.get(op)
        if match is not None:
            if op is match.operations[-1]:
                self._idiom(match)
        elif op not in self.inlined.skipped:
            self.op(op)
        else:
            self.helped.append(op)

    def find_idioms(self, functions: Sequence[ir.Operation]) -> None:
        """Look for what idioms emit in functions."""
        if not self.choices.idioms or self.choices.everything:
            return
        blocks = [block.operations for function in functions for op in function.walk() for block in op.regions]
        refused = self.choices.refused
        self.nested = {op: n for op, n in nested(blocks).items() if op not in refused and all_known(op)}
        claimed = {op for found in self.nested.values() for op in found.claimed}
        self.inlined.skipped |= claimed
        self.matched = matches(blocks, frozenset(refused), claimed)
        self.spans = {op: n for op, n in spans(blocks).items() if op not in refused and op not in self.matched}

    # --- blocks that are functions -----------------------------------------------------------------------------------

    def _call_apart(self, operations: Sequence[ir.Operation]) -> None:
        inside = [op for outer in operations for op in outer.walk()]
        within = set(inside)
        made = {v for op in inside for v in (*op.results, *(a for r in op.regions for a in r.arguments))}
        free = dict.fromkeys(v for op in inside for v in op.operands if v not in made)
        taken = tuple(v for v in free if self.code[v].isidentifier())
        returned = tuple(v for op in operations for v in op.results if any(user not in within for user in v.users))
        self._written_apart += 1
        name = APART if self._written_apart == 1 else f"{APART}_{self._written_apart}"
        self._apart.append(Apart(name, operations, taken, tuple(map(self.base, taken)), returned))
        call = Call(name, *[self.use(v) for v in taken])
        for value in taken:
            if value.users[-1] in within and (outer := self._named.pop(value, None)) is not None:
                self._free(outer)
        self.line(self.targets(returned, ["result"] * len(returned)), call, op=operations[-1])

    def _write_apart(self, start: int) -> None:
        """The functions that the op of these statements calls, before them."""
        of_op = self.statements[start:]
        del self.statements[start:]
        for apart in self._apart:  # which calls others, that are added here
            self._write_function(apart)
        self._apart.clear()
        self.statements += of_op[1:] if of_op[0].is_empty else of_op

    def _write_function(self, apart: Apart) -> None:
        outer = self.names, self._named, self._owner, self._functions
        codes = {v: self.code[v] for v in apart.taken}
        self.names, self._named, self._owner, self._functions = Namer(), {}, {}, [[]]
        op = apart.operations[-1]
        with self.function(apart.name, apart.taken, apart.bases, op):
            self.block(apart.operations)
            self.returns(apart.returned, op)
        self.names, self._named, self._owner, self._functions = outer
        self.code.update(codes)

    def returns(self, values: Sequence[ir.Value], op: ir.Operation) -> None:
        """Return values; one that the last statement has named is returned as it is made."""
        shown = [self.use(v).text for v in values]
        last = self.statements[-1]
        if len(shown) == 1 and last.indent == self.indent and last.before == f"{shown[0]} = ":
            last.before = "return "
        elif shown:
            self.line(f"return {', '.join(shown)}", op=op)

    def _idiom(self, match: Match) -> None:
        values = [self.use(v) for v in match.values]
        node, last = match.form.write(values), match.operations[-1]
        self.helped += match.operations
        name = match.form.name
        base = name if isinstance(name, str) else self.base(match.values[name]).removesuffix("_ref")
        for op in match.operations:
            self.release(op)
        if match.form.target is not None:
            self.line(match.form.target(values), node, op=last)
        else:
            self.assign([] if match.result is None else [match.result], [base], node, last)

    def slots_of(self, op: ir.Operation) -> Rule | None:
        """The rule by which an op takes numbers."""
        if op in self.matched:
            return None
        if not op.regions:
            return self.rule_of(op)
        found = self.region_rule_of(op)
        return None if found is None else found.numbers

    def op(self, op: ir.Operation) -> None:
        """One op, with what is inside."""
        if op.regions:
            self._with_regions(op)
            return
        rule = self.rule_of(op)
        if rule is None:
            node, bases = generic_code(self, op), [_plain_name(op)] * len(op.results)
            self.generic.append(op)
        else:
            node, base = rule.write(self, op), rule.name if isinstance(rule.name, str) else rule.name(self, op)
            bases = [base] * len(op.results)
            self.helped.append(op)
        self.release(op)
        self.assign(op.results, bases, node, op)

    def _with_regions(self, op: ir.Operation) -> None:
        if (idiom := self.nested.get(op)) is not None:
            self.helped.append(op)
            idiom.write(self, op, idiom)
            return
        rule = self.region_rule_of(op)
        (self.generic if rule is None else self.helped).append(op)
        (generic_regions if rule is None else rule.write)(self, op)

    @contextmanager
    def opened(
        self, node: Node, target: str = "", *, spare: str = "region", op: ir.Operation | None = None
    ) -> Generator[None]:
        """A with statement; its body is written inside of this one's.

        Args:
            node: the object that is entered.
            target: what it hands out.
            spare: a name for the object, where the line does not hold it.
            op: whose region it is.
        """
        header = Statement(self.indent, "with ", node, f" as {target}:" if target else ":", op, spare)
        self.statements.append(header)
        with self._indented(op):
            yield

    @contextmanager
    def function(
        self,
        name: str,
        arguments: Sequence[ir.Value],
        bases: Sequence[str],
        op: ir.Operation,
        decorator: Node | None = None,
    ) -> Generator[None]:
        """A function in the kernel; its body is written inside of this one's."""
        self._functions.append([])
        names = [self.name(v, base) if v.users else "_" for v, base in zip(arguments, bases, strict=True)]
        self._space()
        if decorator is not None:
            self.line("@", decorator, op=op)
        unused = iter(range(1, len(names) + 1))
        shown = [f"_{next(unused)}" if n == "_" and names.count("_") > 1 else n for n in names]
        self.line("def ", Call(name, *map(Text, shown)), ":", op)
        with self._indented(op):
            yield
        self._space()
        for free in self._functions.pop():
            self._free(free)

    def _space(self) -> None:
        """An empty line around a function, unless a block begins here."""
        last = self.statements[-1] if self.statements else None
        if last is not None and last.indent >= self.indent and not last.is_empty:
            self.line("")

    @contextmanager
    def _indented(self, op: ir.Operation | None) -> Generator[None]:
        start = len(self.statements)
        self.indent += 4
        yield
        own = [s for s in self.statements[start:] if s.indent == self.indent and not s.is_empty]
        if not own:
            self.line("pass", op=op)
        elif len(own) == 1:
            own[0].apart = True  # linters would have both in one statement
        self.indent -= 4


def _plain_name(op: ir.Operation) -> str:
    return op.name.rpartition(".")[2]
