"""MLIR's generic form as plain data.

MLIR itself parses and verifies whatever comes in, and prints it in its generic form, one op a line. That text holds all
there is, so nothing else of the bindings' object model is relied on.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from mosaic_tpu.sim._module import Block, Function, Module, Operation, Value
from mosaic_tpu.sim._types import (
    Attributes,
    Type,
    matching,
    parse_attributes,
    parse_signature,
    parse_type,
    split,
    unquote,
)
from mosaic_tpu.sim.errors import ModuleFormatError

_OP: Final = re.compile(r' *(?:(%\w+)(?::(\d+))? = )?"([\w.]+)"\(([^)]*)\)(?:\[[^\]]*\])?')
_BLOCK: Final = re.compile(r" *\^bb\d+(?:\((.*)\))?:(?:\s*//.*)?$")
_ARGUMENT: Final = re.compile(r"^(%\w+): (.*?)(?: loc\((.*)\))?$")
_ALIAS: Final = re.compile(r"(#loc\d*) = loc\((.*)\)$")
#: What MLIR writes once for all: ``#map = affine_map<(d0) -> (d0)>``. Locations have names of their own.
_ABBREVIATION: Final = re.compile(r"(#(?!loc\d*\b)\w+) = (.*)$")
_ABBREVIATED: Final = re.compile(r'"(?:[^"\\]|\\.)*"|#\w+')
_EMPTY: Final = re.compile(r" \(\{\s*\}(?:, \{\s*\})*\)")
_NONE: Final = Attributes({})


class _Reader:
    def __init__(self, text: str) -> None:
        self.lines = text.split("\n")
        self.at = 0
        self.count = 0
        self.aliases: dict[str, str] = {}
        self.values: dict[str, list[Value]] = {}
        self.number = 0
        self.operations: list[Operation] = []
        self.locations: dict[int, str] = {}
        #: In order of print: modules, functions, arguments and ops, as jaxlib lists locations that left a body.
        self.order: list[int | None] = []
        self.argument_locations: dict[int, str] = {}

    def functions(self) -> list[Function]:
        self._abbreviations()
        lines = self.lines
        root = self._operation(None)
        for line in lines[self.at :]:
            if alias := _ALIAS.match(line):
                self.aliases[alias[1]] = alias[2]
        if root.name != "builtin.module":
            raise ModuleFormatError(f"the outermost op is {root.name}", hint="give a module with a func.func")
        return [
            Function(unquote(op.attributes.text("sym_name")), op)
            for op in (root.regions[0].operations if root.regions else [])
            if op.name == "func.func"
        ]

    def _abbreviations(self) -> None:
        """What stands before the module: names of locations, and of attributes, which are written out."""
        texts: dict[str, str] = {}
        while self.at < len(self.lines):
            line = self.lines[self.at]
            if alias := _ALIAS.match(line):
                self.aliases[alias[1]] = alias[2]
            elif alias := _ABBREVIATION.match(line):
                texts[alias[1]] = alias[2]
            else:
                break
            self.at += 1
        if texts:
            self.lines = [_ABBREVIATED.sub(lambda found: texts.get(found[0], found[0]), line) for line in self.lines]

    def _operation(self, parent: Block | None) -> Operation:
        line = self.lines[self.at]
        self.at += 1
        found = _OP.match(line)
        if found is None:
            raise ModuleFormatError(f"cannot read {line.strip()[:80]!r}", hint="please report this module")
        result, count, name, operand_text = found.groups()
        operands = tuple(self._value(o) for o in operand_text.split(", ")) if operand_text else ()
        op = Operation(name, self.count, operands, _NONE)
        self.count += 1
        self.order.append(op.number)
        self.operations.append(op)
        op.parent = parent
        for operand in operands:
            operand.users.append(op)
        if name == "func.func":
            self.number = 0
        position = found.end()
        attributes: dict[str, str] = {}
        if line.startswith(" <{", position):
            end = line.find("}>", position) + 2
            if '"' in line[position:end] or line.find("{", position + 3, end) > 0:
                end = matching(line, position + 1)
            attributes = parse_attributes(line[position + 3 : end - 2]).raw
            position = end
        if line.endswith(" ({"):
            position = self._regions(op)
            line = self.lines[self.at - 1]
        else:
            if line.startswith(" ({", position) and (empty := _EMPTY.match(line, position)):
                for _ in range(empty[0].count("}")):
                    op.regions.append(Block((), op))
                position = empty.end()
        if line.startswith(" {", position):
            end = matching(line, position + 1)
            attributes = attributes | parse_attributes(line[position + 2 : end - 1]).raw
            position = end
        end = line.rfind(" loc(", position)
        if end < 0:
            end = len(line)
        else:
            self.locations[op.number] = line[end + 5 : -1]
        op.attributes = Attributes(attributes) if attributes else _NONE
        _, results = parse_signature(line[position:end].removeprefix(" : "))
        if result is not None:
            made = [self._new(t, op) for t in results]
            if len(made) != int(count or 1):
                raise ModuleFormatError(f"{name} has {len(made)} result types, {count} results")
            op.results = tuple(made)
            self.values[result] = made
        return op

    def _regions(self, op: Operation) -> int:
        """The regions after a line that ends in ``({``; the position in the closing line after its ``})``."""
        lines = self.lines
        while True:
            arguments: tuple[Value, ...] = ()
            block = Block((), op)
            op.regions.append(block)
            header = _BLOCK.match(lines[self.at])
            if header:
                self.at += 1
                arguments = tuple(self._argument(a) for a in split(header[1] or ""))
            block.arguments = arguments
            while True:
                line = lines[self.at]
                stripped = line.lstrip()
                if stripped.startswith("}"):
                    break
                if _BLOCK.match(line):
                    raise ModuleFormatError(
                        f"{op.name} has a region of several blocks",
                        op=op.name,
                        hint="Mosaic's control flow is structured: use scf",
                    )
                block.operations.append(self._operation(block))
            self.at += 1
            if stripped.startswith("}, {"):
                continue
            return len(line) - len(stripped) + len("})")

    def _argument(self, text: str) -> Value:
        found = _ARGUMENT.match(text)
        if found is None:
            raise ModuleFormatError(f"cannot read the block argument {text!r}")
        value = self._new(parse_type(found[2]), None)
        self.values[found[1]] = [value]
        if found[3]:
            self.argument_locations[len(self.order)] = found[3]
        self.order.append(None)
        return value

    def _new(self, type_: Type, op: Operation | None) -> Value:
        value = Value(type_, self.number, op)
        self.number += 1
        return value

    def _value(self, text: str) -> Value:
        name, _, index = text.partition("#")
        return self.values[name][int(index or 0)]


def parse(text: str, locations: list[str] | None = None, aliases: dict[str, str] | None = None) -> Module:
    """A module from its generic form.

    Args:
        text: as MLIR prints it, with debug info or without.
        locations: locations of modules, functions, arguments and ops in order, where they left the body.
        aliases: what those are abbreviations of.

    Raises:
        ModuleFormatError: there is no kernel in it.
    """
    reader = _Reader(text)
    functions = reader.functions()
    if not functions:
        raise ModuleFormatError("there is no function in the module", hint="give the body of a tpu_custom_call")
    kernel = next((f for f in functions if "dimension_semantics" in f.attributes), functions[0])
    by_name = {kernel.name: kernel} | {f.name: f for f in functions}
    of_ops = [reader.locations.get(n, "unknown") for n in range(reader.count)]
    of_arguments = dict(reader.argument_locations)
    if locations is not None and len(locations) == len(reader.order):
        for place, (number, location) in enumerate(zip(reader.order, locations, strict=True)):
            if number is None:
                of_arguments[place] = location
            else:
                of_ops[number] = location
    module = Module(kernel.name, by_name, reader.operations, of_ops, aliases if aliases is not None else reader.aliases)
    start = reader.order.index(kernel.operation.number) + 1
    names: list[str] = []
    for i in range(len(kernel.arguments)):
        text = of_arguments.get(start + i, "")
        named = re.match(r'"(\w+)"(?!:)', module.aliases.get(text, text))
        name = named[1] if named else f"arg{i}"
        names.append(name if name not in names else f"{name}.{i}")
    return replace(module, names=tuple(names))
