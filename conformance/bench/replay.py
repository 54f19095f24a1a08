"""The floor of emission: the same ops again, with everything but their creation prepared.

A module is recorded once as flat instructions; `Replay.run` creates each op with `Operation.create` from cached
types and attributes, and serializes. No builder can emit the module faster in Python than this loop does.
"""

from __future__ import annotations

import io
from dataclasses import dataclass, field
from typing import Any

from jaxlib.mlir import ir
from jaxlib.mlir.passmanager import PassManager
from jaxlib.mosaic.python import tpu


@dataclass
class Instruction:
    """One op: its name, result types, the slots of its operands, its attributes and its regions' blocks."""

    name: str
    results: list[ir.Type]
    operands: list[int]
    attributes: dict[str, ir.Attribute]
    first_slot: int
    blocks: list[tuple[list[ir.Type], int, list[Instruction]] | None] = field(default_factory=list)


class Replay:
    """A recorded module.

    Args:
        module: an MLIR module with one block in each used region.
    """

    def __init__(self, module: ir.Module) -> None:
        self.context = module.context
        self.slots = 0
        self.count = 0
        self._numbers: dict[Any, int] = {}
        self.name = module.operation.attributes["sym_name"] if "sym_name" in module.operation.attributes else None  # noqa: SIM401
        self.program = [self._record(op.operation) for op in module.body.operations]

    def _slot(self, value: ir.Value) -> int:
        self._numbers[value] = self.slots
        self.slots += 1
        return self.slots - 1

    def _record(self, op: ir.Operation) -> Instruction:
        self.count += 1
        operands = [self._numbers[v] for v in op.operands]
        attributes = {name: op.attributes[name] for name in op.attributes}
        blocks: list[tuple[list[ir.Type], int, list[Instruction]] | None] = []
        first = self.slots
        for result in op.results:
            self._slot(result)
        for region in op.regions:
            if not len(region.blocks):
                blocks.append(None)
                continue
            block = region.blocks[0]
            start = self.slots
            for argument in block.arguments:
                self._slot(argument)
            types = [a.type for a in block.arguments]
            blocks.append((types, start, [self._record(o.operation) for o in block.operations]))
        return Instruction(op.name, [r.type for r in op.results], operands, attributes, first, blocks)

    def create(self) -> ir.Module:
        """Create every op again in a new module."""
        location = ir.Location.unknown(self.context)
        with self.context, location:
            module = ir.Module.create(location)
            if self.name is not None:
                module.operation.attributes["sym_name"] = self.name
            _emit(self.program, ir.InsertionPoint(module.body), location, [None] * self.slots)
        return module

    def run(self, ir_version: int) -> bytes:
        """Create and serialize: the floor's whole time."""
        module = self.create()
        context = self.context
        with context, ir.Location.unknown():
            context.allow_unregistered_dialects = True
            pipeline = PassManager.parse(f"builtin.module(mosaic-serde{{serialize=true target-version={ir_version}}})")
            pipeline.enable_verifier(False)
            pipeline.run(module.operation)
            unzip = getattr(tpu, "private_unzip_debug_locations", None)
            if unzip is not None:
                unzip(module.operation)
            buffer = io.BytesIO()
            module.operation.write_bytecode(buffer, desired_version=0)
            context.allow_unregistered_dialects = False
        return buffer.getvalue()


def _emit(program: list[Instruction], ip: ir.InsertionPoint, location: ir.Location, values: list[Any]) -> None:
    create = ir.Operation.create
    for i in program:
        op = create(
            i.name,
            i.results,
            [values[o] for o in i.operands],
            i.attributes,
            None,
            len(i.blocks),
            location,
            ip,
        )
        results = i.results
        if len(results) == 1:
            values[i.first_slot] = op.result
        elif results:
            values[i.first_slot : i.first_slot + len(results)] = op.results
        for region, block in zip(op.regions, i.blocks, strict=True) if i.blocks else ():
            if block is None:
                continue
            types, start, body = block
            created = region.blocks.append(*types)
            values[start : start + len(types)] = created.arguments
            _emit(body, ir.InsertionPoint(created), location, values)
