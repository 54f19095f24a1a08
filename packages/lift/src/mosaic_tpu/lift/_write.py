"""From a module to the whole text of its source."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from mosaic_tpu import builder
from mosaic_tpu.builder import sanitize_name
from mosaic_tpu.lift import rules as rules
from mosaic_tpu.lift._code import WIDTH, Call, Names, Node, String, Text, lines, mapping, string_constant
from mosaic_tpu.lift._compat import MODULE_HAS_NAME, Registered
from mosaic_tpu.lift._declare import declare
from mosaic_tpu.lift._generic import attributes_code, types_code
from mosaic_tpu.lift._kernel import declared
from mosaic_tpu.lift._names import Namer, identifier
from mosaic_tpu.lift._source import Given
from mosaic_tpu.lift._types import Imported
from mosaic_tpu.lift._writer import Choices, Statement, Writer
from mosaic_tpu.lift.errors import UnsupportedModuleError
from mosaic_tpu.lift.idioms import Match, Nested
from mosaic_tpu.sim import ir

_VERSION: Final = "stable_mosaic.version"


@dataclass
class Written:
    """Lifted source.

    Attributes:
        text: the source.
        ops: by line, counted from 1, the op that the line is of.
        helped: ops that helpers write.
        generic: ops in the generic form.
        matched: ops that idioms without regions emit.
        nested: those with regions that idioms emit.
        spans: those that start a named scope.
    """

    text: str
    ops: dict[int, ir.Operation] = field(repr=False)
    helped: list[ir.Operation] = field(repr=False)
    generic: list[ir.Operation] = field(repr=False)
    matched: dict[ir.Operation, Match] = field(repr=False)
    nested: dict[ir.Operation, Nested] = field(repr=False)
    spans: dict[ir.Operation, int] = field(repr=False)

    @property
    def idiomatic(self) -> int:
        """How many ops idioms emit."""
        return len(self.matched) + 2 * len(self.spans) + sum(1 + len(n.claimed) for n in self.nested.values())

    def idiom_of(self, op: ir.Operation) -> object | None:
        """By what the idiom that emits an op is refused."""
        if op in self.matched:
            return self.matched[op].form.key
        if op in self.spans:
            return op
        return next((o for o, n in self.nested.items() if op is o or op in n.claimed), None)


def write(given: Given, choices: Choices, registered: Registered) -> Written:
    """The source of a module.

    Raises:
        UnsupportedModuleError: the module holds something that no source stands for.
    """
    module = given.module
    root = module.operations[0]
    functions = _functions(root)
    w = Writer(choices, registered)
    found = None if choices.functions else declared(module, functions, given.outputs)
    if found is not None and functions[0].name != module.name:
        found = None
    name = module.name
    _module_attributes(w, root, name)
    covered = 0 if found is None else found.covered
    w.find_idioms([f.operation for number, f in enumerate(functions) if not 0 < number < covered])
    if found is not None:
        declare(w, module, found, given.shapes)
        body = functions[0].body.operations
        w.block(body[:-1])
        w.helped += [body[-1], *(op for f in functions[:covered] for op in (f.operation,))]
        for function in functions[1:covered]:
            rest = function.operation.regions[0].operations
            written = set(w.helped) | set(w.generic)
            w.helped += [op for op in rest if op not in written]
    for function in functions[covered:]:
        _generic_function(w, function, module.names if function.name == name else ())
    python_name = identifier(name, "kernel")
    head, ops = _assembled(w, given, name, python_name)
    return Written(head, ops, w.helped, w.generic, w.matched, w.nested, w.spans)


def _functions(root: ir.Operation) -> list[ir.Function]:
    if len(root.regions) != 1:
        raise UnsupportedModuleError("the module has no body", op=root.name)
    found: list[ir.Function] = []
    for op in root.regions[0].operations:
        if op.name != "func.func":
            raise UnsupportedModuleError("the module holds more than functions", op=op.name)
        if not op.regions or not op.regions[0].operations:
            raise UnsupportedModuleError("a function has no body", op=op.name)
        if not (name := op.attributes.string("sym_name")):
            raise UnsupportedModuleError("a function has an empty name", op=op.name, hint="give it one")
        found.append(ir.Function(name, op))
    return found


def _module_attributes(w: Writer, root: ir.Operation, name: str) -> None:
    """What the module says beside what a `Builder` of this name writes."""
    changed: dict[str, str | None] = {k: v for k, v in root.attributes.raw.items() if k not in ("sym_name", _VERSION)}
    given = root.attributes.raw.get("sym_name")
    default = f'"{sanitize_name(name)}"' if MODULE_HAS_NAME and name else None
    if given != default:
        changed["sym_name"] = given
    if changed:
        code = mapping({k: Text("None") if v is None else String(v) for k, v in changed.items()})
        w.line("", Call("b.module_attributes", code), op=root)


def _generic_function(w: Writer, function: ir.Function, said: Sequence[str]) -> None:
    """``with b.generic_function(…) as (x, y):``, its arguments called as the locations say."""
    op, block = function.operation, function.body
    attributes = {k: v for k, v in op.attributes.raw.items() if k not in ("function_type", "sym_name")}
    results = [v.type for v in block.terminator.operands] if block.terminator.name == "func.return" else []
    outer, w.names = w.names, Namer()
    bases = [identifier(n, "arg") if n != f"arg{i}" else "arg" for i, n in enumerate(said)]
    bases += ["arg"] * (len(block.arguments) - len(bases))
    names = [w.name(a, base) if a.users else "_" for a, base in zip(block.arguments, bases, strict=True)]
    target = f"({', '.join(names)}{',' if len(names) == 1 else ''})" if names else ""
    node = Call(
        "b.generic_function",
        String(function.name),
        types_code([a.type for a in block.arguments]),
        types_code(results),
        attributes=attributes_code(attributes) if attributes else None,
    )
    w.generic.append(op)
    with w.opened(node, target, spare="function", op=op):
        w.block(block.operations)
    w.names = outer


# --- text ------------------------------------------------------------------------------------------------------------


def _assembled(w: Writer, given: Given, name: str, python_name: str) -> tuple[str, dict[int, ir.Operation]]:
    names = Names()
    for statement in w.statements:
        if statement.node is not None:
            names.collect(statement.node)
    body: list[tuple[str, ir.Operation | None]] = [
        (line, statement.op) for statement in w.statements for line in _lines(statement, names)
    ]
    if not body:
        body = [("    pass", None)]
    code = "\n".join(line for line, _ in body)
    used = sorted(_imports(w.statements) | {"Builder"}, key=_import_order)
    top = [
        f'"""Kernel {python_name}, lifted by mosaic_tpu.lift."""',
        "",
        *(["import math", ""] if "math." in code else []),
        *_import_lines(used),
        "",
        *string_constant("NAME", name or "kernel"),
        f"IR_VERSION = {given.version}",
        *names.constants(),
        "",
        "",
        f"def {python_name}(b: Builder) -> None:",
        '    """Build the kernel."""',
    ]
    if body[0][0].lstrip().startswith("def "):
        top.append("")
    while body and not body[-1][0]:
        body.pop()
    ops = {len(top) + n: op for n, (_, op) in enumerate(body, 1) if op is not None}
    return "\n".join([*top, code.rstrip(), ""]), ops


def _lines(statement: Statement, names: Names) -> Iterator[str]:
    indent, before, node, after = statement.indent, statement.before, statement.node, statement.after
    if node is None:
        yield f"{' ' * indent}{before}{after}" if before or after else ""
        return
    if before == "with ":
        width = indent + len(before) + len(node.flat(names)) + len(after)
        if width > WIDTH or statement.apart:
            yield from lines(node, names, indent, f"{statement.spare} = ", "")
            shown = after if after != f" as {statement.spare}:" else ":"
            yield f"{' ' * indent}with {statement.spare}{shown}"
            return
    yield from lines(node, names, indent, before, after)


def _imports(statements: Sequence[Statement]) -> set[str]:
    """The builder's names among the code; strings are no code."""
    found: set[str] = set()
    for statement in statements:
        if statement.node is not None:
            _find_imports(statement.node, found)
    return found


def _find_imports(node: Node, found: set[str]) -> None:
    if isinstance(node, Imported):
        found.add(node.text)
    elif isinstance(node, Text):
        if node.text.startswith("Role."):
            found.add("Role")
    elif isinstance(node, Call):
        name = node.open[:-1]
        if name in ("Window", "ElementWindow", "Ref", "Scalar", "Sem", "SemArray", "Iter"):
            found.add(name)
    for part in node.parts():
        _find_imports(part, found)


def _import_order(name: str) -> tuple[bool, list[tuple[bool, int, str]]]:
    """Classes first, then by letters and numbers, as linters have it."""
    parts = re.findall(r"\d+|\D+", name)
    return name[0].islower(), [(not p.isdigit(), int(p) if p.isdigit() else 0, p.lower()) for p in parts]


def _import_lines(names: Sequence[str]) -> list[str]:
    line = f"from mosaic_tpu.builder import {', '.join(names)}"
    if len(line) <= WIDTH:
        return [line]
    return ["from mosaic_tpu.builder import (", *(f"    {name}," for name in names), ")"]


assert set(builder.__all__) >= {"Builder", "Ref", "Role", "Window"}
