"""MLIR types as the builder writes them."""

from __future__ import annotations

import functools
from typing import Final

from mosaic_tpu.builder import MemorySpace
from mosaic_tpu.builder.dtypes import ALL, DType, i1
from mosaic_tpu.lift._code import Call, Node, Shape, Text
from mosaic_tpu.sim import ir

#: The builder's element types by MLIR's names, and by those that the reader gives semaphores.
DTYPES: Final[dict[str, DType]] = {d.mlir: d for d in ALL if not d.is_unsigned} | {
    d.name: d for d in ALL if d.kind == "semaphore"
}
_SPACES: Final = frozenset(s.value for s in MemorySpace)


@functools.lru_cache(maxsize=4096)
def known(type_: ir.Type) -> bool:
    """Whether the builder has the type, so that its helpers take values of it."""
    dtype = DTYPES.get(type_.element)
    if dtype is None:
        return False
    sizes = "".join("?x" if s == ir.DYNAMIC else f"{s}x" for s in type_.shape)
    match type_.kind:
        case "scalar":
            return True
        case "vector":
            plain = bool(type_.shape) and dtype.bits > 0 and all(s > 0 for s in type_.shape)
            return plain and type_.text == f"vector<{sizes}{dtype.mlir}>"
        case "memref":
            text = f"memref<{sizes}{dtype.mlir}, #tpu.memory_space<{type_.space}>>"
            # The builder's refs of booleans hold i32, as Pallas's do: memory of i1 only other tools have.
            return dtype is not i1 and type_.space in _SPACES and type_.text == text
        case _:
            return False


def all_known(op: ir.Operation) -> bool:
    """Whether the builder has the types of all operands and results."""
    return all(known(v.type) for v in op.operands) and all(known(v.type) for v in op.results)


def dtype_of(type_: ir.Type) -> DType:
    """The builder's element type."""
    return DTYPES[type_.element]


def type_code(type_: ir.Type) -> Node:
    """Code for a type, for results of branches and loops: ``b.vector_ty((8, 128), f32)``."""
    if type_.kind == "scalar" and dtype_of(type_).kind != "semaphore":
        return Call("b.scalar_ty", dtype_code(type_))
    if type_.kind == "vector":
        return Call("b.vector_ty", Shape(type_.shape), dtype_code(type_))
    return Call("b.ref_ty", Shape(type_.shape), dtype_code(type_), Text(f'"{type_.space}"'))


def dtype_code(type_: ir.Type) -> Node:
    """Code for an element type."""
    return Imported(dtype_of(type_).name)


class Imported(Text):
    """A name of the builder's."""

    __slots__ = ()
