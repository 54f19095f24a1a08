"""From a module as data to statements: the state that the rules share."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from mosaic_tpu.lift._code import Items, Node, Operator, Shape, Text
from mosaic_tpu.lift._compat import Registered
from mosaic_tpu.lift._generic import generic_code
from mosaic_tpu.lift._names import Namer
from mosaic_tpu.lift._numbers import Inlined
from mosaic_tpu.lift._regions import REGIONS, RegionRule, generic_regions
from mosaic_tpu.lift._registry import RULES, Rule, applies
from mosaic_tpu.lift._types import Imported, all_known, dtype_of
from mosaic_tpu.lift.errors import UnsupportedModuleError
from mosaic_tpu.lift.idioms import Match, Nested, matches, nested
from mosaic_tpu.sim import ir

#: Python refuses more with blocks in each other.
_DEEPEST: Final = 20


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
        self.indent = 4
        self._named: dict[ir.Value, str] = {}
        #: Of each function that is being written, the names of others that its end sets free; and whose each name is.
        self._functions: list[list[str]] = [[]]
        self._owner: dict[str, int] = {}
        self._depth = 0
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
        """The ops of a block."""
        self.inlined.plan(operations, self.slots_of)
        for op in operations:
            match = self.matched.get(op)
            if match is not None:
                if op is match.operations[-1]:
                    self._idiom(match)
            elif op not in self.inlined.skipped:
                self.op(op)
            else:
                self.helped.append(op)

    def find_idioms(self, function: ir.Operation) -> None:
        """Look for what idioms emit in a function."""
        if not self.choices.idioms or self.choices.everything:
            return
        blocks = [block.operations for op in function.walk() for block in op.regions]
        refused = self.choices.refused
        self.nested = {op: n for op, n in nested(blocks).items() if op not in refused and all_known(op)}
        claimed = {op for found in self.nested.values() for op in (*found.before, *found.after)}
        self.inlined.skipped |= claimed
        self.matched = matches(blocks, frozenset(refused), claimed)

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
        if self._depth == _DEEPEST:
            raise UnsupportedModuleError(
                f"more than {_DEEPEST} with blocks would stand in each other",
                op=None if op is None else op.name,
                hint="nest fewer loops and branches",
            )
        header = Statement(self.indent, "with ", node, f" as {target}:" if target else ":", op, spare)
        self.statements.append(header)
        self._depth += 1
        with self._indented(op):
            yield
        self._depth -= 1

    @contextmanager
    def function(
        self, name: str, arguments: Sequence[ir.Value], bases: Sequence[str], op: ir.Operation
    ) -> Generator[None]:
        """A function in the kernel; its body is written inside of this one's."""
        outer, self._depth = self._depth, 0
        self._functions.append([])
        names = [self.name(v, base) if v.users else "_" for v, base in zip(arguments, bases, strict=True)]
        self._space()
        unused = iter(range(1, len(names) + 1))
        shown = [f"_{next(unused)}" if n == "_" and names.count("_") > 1 else n for n in names]
        self.line(f"def {name}({', '.join(shown)}):", op=op)
        with self._indented(op):
            yield
        self._depth = outer
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
