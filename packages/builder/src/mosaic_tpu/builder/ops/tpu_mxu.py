"""The tpu dialect's MXUs by hand: stage a right-hand side, feed left-hand sides, take the products."""

from __future__ import annotations

from collections.abc import Sequence

from mosaic_tpu.builder import dtypes as dt
from mosaic_tpu.builder._compat import IrValue, ir
from mosaic_tpu.builder._core import Core
from mosaic_tpu.builder._registry import op
from mosaic_tpu.builder._types import TypeInfo
from mosaic_tpu.builder._value import Value
from mosaic_tpu.builder.dtypes import DType
from mosaic_tpu.builder.errors import DTypeError, ShapeError


class TpuMxuOps(Core):
    """``tpu.matmul_*``. The compiler checks sizes against the TPU; here they are matrices."""

    def _matrix(self, value: Value, name: str) -> IrValue:
        used = self._use_vector(value, name)
        if value.rank != 2:
            self.fail(ShapeError, "a matrix is needed", op=name, operands=[value], hint="shape_cast to two dimensions")
        return used

    def _product(self, shape: Sequence[int], dtype: DType, name: str) -> TypeInfo:
        sizes, element = self._shape(shape, name), self._element(dtype, name)
        if len(sizes) != 2:
            self.fail(ShapeError, f"shape {sizes}", op=name, hint="a product has two dimensions")
        if element not in (dt.f32, dt.i32):
            self.fail(DTypeError, f"accumulates f32 or i32, not {element}", op=name, hint="cast the result")
        return self.types.vector(sizes, element)

    def _numbers(self, name: str, **numbers: int | None) -> dict[str, ir.Attribute]:
        return {
            key: self.types.integer(self._i32_attribute(value, name, key), 32)
            for key, value in numbers.items()
            if value is not None
        }

    @op("tpu.matmul_push_rhs", source="pltpu.matmul_push_rhs(rhs, staging_register, mxu_index)", traits=())
    def matmul_push_rhs(
        self, rhs: Value, mxu_index: int, staging_register: int = 0, *, transpose: bool = False
    ) -> None:
        """Put a right-hand side into a staging register of an MXU.

        Args:
            rhs: a square matrix, as large as the MXU.
            mxu_index: which MXU.
            staging_register: which register; it must have been loaded since the last push.
            transpose: transpose it on the way.

        Example:
            >>> b.matmul_push_rhs(b.zeros((128, 128), bf16), 0)
        """
        name = "tpu.matmul_push_rhs"
        used = self._matrix(rhs, name)
        attributes = self._numbers(name, mxu_index=mxu_index, staging_register=staging_register)
        attributes["transpose"] = self.types.boolean(self._flag(transpose, name, "transpose"))
        self._emit_void(name, [used], attributes)

    @op("tpu.matmul_acc_lhs", source="pltpu.matmul_acc_lhs(acc, lhs, load_staged_rhs)", traits=())
    def matmul_acc_lhs(self, lhs: Value, acc: int, mxu_index: int, *, load_staged_rhs: int | None = None) -> None:
        """Multiply ``lhs`` by what the MXU holds and add the product to an accumulator.

        Args:
            lhs: a matrix as wide as the MXU.
            acc: where the accumulator starts, in registers.
            mxu_index: which MXU.
            load_staged_rhs: the staging register to load first; the right-hand side stays if omitted.

        Example:
            >>> b.matmul_acc_lhs(b.zeros((8, 128), bf16), 0, 0, load_staged_rhs=0)
        """
        name = "tpu.matmul_acc_lhs"
        used = self._matrix(lhs, name)
        numbers = self._numbers(name, acc=acc, mxu_index=mxu_index, load_staged_rhs=load_staged_rhs)
        self._emit_void(name, [used], numbers)

    @op("tpu.matmul_pop", source="pltpu.matmul_pop(acc)", traits=())
    def matmul_pop(self, shape: Sequence[int], dtype: DType, acc: int, mxu_index: int) -> Value:
        """Take an accumulator's product and leave zeros; waits until it is there.

        Args:
            shape: of the product.
            dtype: f32 or i32.
            acc: where the accumulator starts, in registers.
            mxu_index: which MXU.

        Example:
            >>> b.matmul_pop((8, 128), f32, 0, 0).shape
            (8, 128)
        """
        name = "tpu.matmul_pop"
        return self._emit(
            name, self._product(shape, dtype, name), [], self._numbers(name, acc=acc, mxu_index=mxu_index)
        )

    @op("tpu.matmul_lhs_fifo", source="pltpu.matmul_lhs_fifo(lhs, mxu_index)", traits=())
    def matmul_lhs_fifo(self, lhs: Value, mxu_index: int, *, load_staged_rhs: int | None = None) -> None:
        """Multiply ``lhs`` by what the MXU holds and queue the product, on TPUs whose MXUs have a result queue.

        Args:
            lhs: a matrix as wide as the MXU.
            mxu_index: which MXU.
            load_staged_rhs: the staging register to load first; the right-hand side stays if omitted.

        Example:
            >>> b.matmul_lhs_fifo(b.zeros((8, 128), bf16), 0, load_staged_rhs=0)
        """
        name = "tpu.matmul_lhs_fifo"
        used = self._matrix(lhs, name)
        self._emit_void(name, [used], self._numbers(name, mxu_index=mxu_index, load_staged_rhs=load_staged_rhs))

    @op("tpu.matmul_pop_fifo", source="pltpu.matmul_pop_fifo(shape, dtype, mxu_index)", traits=())
    def matmul_pop_fifo(self, shape: Sequence[int], dtype: DType, mxu_index: int) -> Value:
        """Take the oldest product of an MXU's queue; waits until it is there.

        Args:
            shape: of the product.
            dtype: f32 or i32.
            mxu_index: which MXU.

        Example:
            >>> b.matmul_pop_fifo((8, 128), f32, 0).shape
            (8, 128)
        """
        name = "tpu.matmul_pop_fifo"
        return self._emit(name, self._product(shape, dtype, name), [], self._numbers(name, mxu_index=mxu_index))
