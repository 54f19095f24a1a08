"""The memref dialect: scalar loads and stores, allocation, reinterpretation."""

from __future__ import annotations

import math
from collections.abc import Sequence

from mosaic_tpu.builder._compat import IrValue
from mosaic_tpu.builder._core import Core
from mosaic_tpu.builder._registry import op
from mosaic_tpu.builder._value import Value
from mosaic_tpu.builder.dtypes import DType
from mosaic_tpu.builder.enums import MemorySpace
from mosaic_tpu.builder.errors import ArityError, DTypeError, MemorySpaceError, ShapeError
from mosaic_tpu.builder.ops.vector import Indices


class MemrefOps(Core):
    """``memref.*``."""

    def _scalar_access(self, ref: Value, indices: Indices, name: str) -> list[IrValue]:
        used = self._use_ref(ref, name)
        if ref._info.space is not MemorySpace.SMEM:
            self.fail(
                MemorySpaceError,
                "scalars are read and written in smem",
                op=name,
                operands=[ref],
                hint="use vector_load and vector_store for vmem",
            )
        self._sequence(indices, name)
        if len(indices) != ref.rank:
            self.fail(ArityError, f"{len(indices)} indices for a ref of rank {ref.rank}", op=name, operands=[ref])
        return [used, *(self._index(i, name) for i in indices)]

    @op("memref.load", source="b.scalarLoad(ref, indices)", traits=("load",))
    def scalar_load(self, ref: Value, indices: Indices) -> Value:
        """One scalar of an SMEM ref.

        Args:
            ref: in SMEM.
            indices: one for each dimension, index values or ints.

        Example:
            >>> b.scalar_load(a.lens, [0]).dtype
            i32
        """
        operands = self._scalar_access(ref, indices, "memref.load")
        return self._emit("memref.load", self.types.scalar(ref._info.element), operands)

    @op("memref.store", source="b.scalarStore(ref, value, indices)", traits=("store",))
    def scalar_store(self, ref: Value, value: Value, indices: Indices) -> None:
        """Write one scalar of an SMEM ref.

        Example:
            >>> b.scalar_store(a.lens, b.lift(3), [0])
        """
        operands = self._scalar_access(ref, indices, "memref.store")
        used = self._use(value, "memref.store")
        if value._info.kind != "scalar" or value._info.ir is not self.types.element(ref._info.element):
            self.fail(DTypeError, f"needs a scalar {ref._info.element}", op="memref.store", operands=[value, ref])
        self._emit_void("memref.store", [used, *operands])

    @op("memref.alloca", traits=("pure",))
    def alloca(self, shape: Sequence[int], dtype: DType, memory_space: MemorySpace | str = MemorySpace.VMEM) -> Value:
        """Scratch memory of the enclosing region (`region`), freed at its end.

        Example:
            >>> b.alloca((8, 128), f32).memory_space.value
            'vmem'
        """
        name = "memref.alloca"
        space = self._member(MemorySpace, memory_space, name)
        info = self.types.ref(self._shape(shape, name), self._element(dtype, name), space)
        return self._emit("memref.alloca", info, [], {"operandSegmentSizes": self.types.dense((0, 0), 32)})

    @op("memref.memory_space_cast", traits=("pure",))
    def memory_space_cast(self, ref: Value, memory_space: MemorySpace | str) -> Value:
        """The same memory seen in another memory space.

        Example:
            >>> b.memory_space_cast(a.x, "any").memory_space.value
            'any'
        """
        used = self._use_ref(ref, "memref.memory_space_cast")
        space = self._member(MemorySpace, memory_space, "memref.memory_space_cast")
        info = self.types.seen_as(ref._info, ref.shape, space)
        return self._emit("memref.memory_space_cast", info, [used])

    @op("memref.reinterpret_cast", source="b.reinterpretCast(mem_ref, result_shape, dtype)")
    def reinterpret_cast(self, ref: Value, shape: Sequence[int], dtype: DType | None = None) -> Value:
        """A contiguous view with another shape (``memref.reinterpret_cast`` at offset 0). Pallas never emits it.

        Raises:
            DTypeError: the element type differs: MLIR cannot change it here, use `memref_bitcast`.

        Example:
            >>> b.reinterpret_cast(a.x, (4, 256)).shape
            (4, 256)
        """
        name = "memref.reinterpret_cast"
        used = self._use_ref(ref, name)
        target = self._shape(shape, name)
        if dtype is not None and self._dtype(dtype, name) is not ref.dtype:
            self.fail(
                DTypeError, f"cannot turn {ref.dtype} into {dtype}", op=name, operands=[ref], hint="use memref_bitcast"
            )
        if math.prod(target) > math.prod(ref.shape):
            self.fail(ShapeError, f"shape {target} is larger than the ref", op=name, operands=[ref])
        strides = [math.prod(target[i + 1 :]) for i in range(len(target))]
        attributes = {
            "operandSegmentSizes": self.types.dense((1, 0, 0, 0), 32),
            "static_offsets": self.types.dense((0,), 64),
            "static_sizes": self.types.dense(target, 64),
            "static_strides": self.types.dense(strides, 64),
        }
        plain = self.types.seen_as(ref._info, target)
        return self._emit(name, plain, [used], attributes)

    @op("tpu.erase_memref_layout", group="memref", source="tpu.erase_memref_layout")
    def erase_layout(self, ref: Value) -> Value:
        """The ref without a tiled layout annotation: what ``memref.cast`` to no layout is in the Zig DSL.

        Example:
            >>> b.erase_layout(a.x).shape
            (8, 128)
        """
        used = self._use_ref(ref, "tpu.erase_memref_layout")
        return self._emit("tpu.erase_memref_layout", ref._info, [used])

    @op("tpu.erase_memref_layout", group="memref", source="b.eraseMemRefLayout(mem_ref)")
    def erase_memref_layout(self, ref: Value) -> Value:
        """The Zig DSL's name for `erase_layout`.

        Example:
            >>> b.erase_memref_layout(a.x).shape
            (8, 128)
        """
        return self.erase_layout(ref)
