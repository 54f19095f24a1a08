"""Which line of the kernel an op of the compiler's comes from, by looking it up in the module."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Final

from mosaic_tpu.aot._diagnose._message import op_name, plain_type, signature
from mosaic_tpu.sim import ir

#: What the compiler has made of an op by the time it complains: its name, and those it may have had in the module.
_WAS: Final = {
    "tpu.reshape": ("vector.shape_cast", "tpu.reshape"),
    "vector.shape_cast": ("vector.shape_cast", "tpu.reshape"),
    "tpu.matmul": ("tpu.matmul", "vector.contract"),
    "tpu.vector_load": ("tpu.vector_load", "vector.load"),
    "vector.load": ("vector.load", "tpu.vector_load"),
    "tpu.load": ("vector.load", "tpu.vector_load", "tpu.strided_load"),
    "tpu.vector_store": ("tpu.vector_store", "vector.store"),
    "tpu.store": ("tpu.vector_store", "vector.store", "tpu.strided_store"),
    "tpu.transpose": ("tpu.transpose", "vector.transpose"),
    "tpu.iota": ("tpu.iota", "vector.step"),
    "tpu.rotate": ("tpu.rotate", "tpu.dynamic_rotate"),
    "tpu.dynamic_rotate": ("tpu.dynamic_rotate", "tpu.rotate"),
    "tpu.wait_dma": ("tpu.wait_dma", "tpu.wait_dma2"),
    "tpu.extf": ("arith.extf", "tpu.extf"),
    "tpu.truncf": ("arith.truncf", "tpu.truncf"),
    "tpu.sitofp": ("arith.sitofp", "tpu.sitofp"),
    "tpu.fptosi": ("arith.fptosi", "tpu.fptosi"),
}


def locator(modules: Iterable[ir.Module]) -> Callable[[str], str | None]:
    """A function from an op's text to its line in the modules of a program.

    The text is the op as the compiler prints it, its name, or ``"tpu.reshape[i1]"``: those with a result of i1.

    It answers only if all ops that can be meant stand on one line: of the ops of that name (or of the names that the
    compiler renames to it) those with the same types, or, where the compiler has split the op and none has, all.

    Example:
        >>> module = ir.read('''
        ... func.func @kernel(%x: memref<8x128xf32, #tpu.memory_space<vmem>>) {
        ...   %c = arith.constant 0 : index loc("file.py":7:3)
        ...   return
        ... }''')
        >>> find = locator([module])
        >>> find('%0 = "arith.constant"() <{value = 0 : index}> : () -> index'), find("tpu.matmul")
        ('file.py:7', None)
    """
    found = list(modules)

    def locate(text: str) -> str | None:
        name = op_name(text)
        named = [(module, op) for module in found for op in module.operations if op.name in _WAS.get(name, (name,))]
        if restricted := re.search(r"\w\[(\w+)\]$", text):
            named = [(module, op) for module, op in named if any(r.type.element == restricted[1] for r in op.results)]
        operands, results = signature(text)
        alike = [(module, op) for module, op in named if operands + results == _types(op)]
        lines = {_line(module, op) for module, op in alike or named}
        return lines.pop() if len(lines) == 1 else None

    return locate


def _types(op: ir.Operation) -> tuple[str, ...]:
    values = (*op.operands, *op.results)
    return tuple(plain_type(value.type.text) for value in values)


def _line(module: ir.Module, op: ir.Operation) -> str | None:
    """The op's line; for one that has none, inside a function of JAX's, the line that the ops around it agree on."""
    if line := module.line(op):
        return line
    around = op.parent.operations if op.parent else []
    place = next((n for n, other in enumerate(around) if other is op), 0)
    before, after = _first_line(module, reversed(around[:place])), _first_line(module, around[place + 1 :])
    return before if before == after else None


def _first_line(module: ir.Module, ops: Iterable[ir.Operation]) -> str | None:
    return next((line for op in ops if (line := module.line(op))), None)
