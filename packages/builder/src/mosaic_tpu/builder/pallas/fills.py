"""Vectors made of nothing but their shape: copies of a number, triangles, the identity."""

from __future__ import annotations

from collections.abc import Sequence

from mosaic_tpu.builder import dtypes as dt
from mosaic_tpu.builder._registry import idiom
from mosaic_tpu.builder._value import Operand, Value
from mosaic_tpu.builder.dtypes import DType
from mosaic_tpu.builder.errors import ShapeError
from mosaic_tpu.builder.pallas.elementwise import ElementwiseIdioms
from mosaic_tpu.builder.pallas.refs import RefLike
from mosaic_tpu.builder.pallas.shapes import ShapeIdioms
from mosaic_tpu.builder.views import RefView


class FillIdioms(ShapeIdioms, ElementwiseIdioms):
    """`jnp.*_like`, `jnp.tri` and its relatives."""

    @idiom("jnp.full_like(x, value)", "arith.constant", "vector.broadcast", group="fills")
    def full_like(self, x: RefLike, value: Operand, dtype: DType | None = None) -> Value:
        """`jnp.full_like`.

        Args:
            x: what has the shape: a value, or a ref or a view of one, which is not read.
            value: a number or a value.
            dtype: that of ``x`` if omitted.

        Example:
            >>> b.pallas.full_like(a.x, 2.0).shape
            (8, 128)
        """
        return self._full_like(x, value, dtype, "full_like")

    def _full_like(self, x: RefLike, value: Operand, dtype: DType | None, op: str) -> Value:
        self._b._use(x.ref if isinstance(x, RefView) else x, op)
        with self._one_line(op):
            return self.full(x.shape, value, x.dtype if dtype is None else self._b._data_type(dtype, op))

    @idiom("jnp.zeros_like(x)", "arith.constant", "vector.broadcast", group="fills")
    def zeros_like(self, x: RefLike, dtype: DType | None = None) -> Value:
        """`jnp.zeros_like`. See `full_like`.

        Example:
            >>> b.pallas.zeros_like(a.x).shape
            (8, 128)
        """
        return self._full_like(x, 0, dtype, "zeros_like")

    @idiom("jnp.ones_like(x)", "arith.constant", "vector.broadcast", group="fills")
    def ones_like(self, x: RefLike, dtype: DType | None = None) -> Value:
        """`jnp.ones_like`. See `full_like`.

        Example:
            >>> b.pallas.ones_like(a.x).shape
            (8, 128)
        """
        return self._full_like(x, 1, dtype, "ones_like")

    # --- triangles ----------------------------------------------------------------------------------------------------

    def _below(self, rows: int, columns: int, k: int, op: str) -> Value:
        """Where a column is at most its row plus ``k``."""
        shape = self._b._shape((rows, columns), op)
        offset = self._b._int(k, op, "diagonal")
        row = self.add(self._b.iota(shape, dt.i32, (0,)), offset)
        return self.ge(row, self._b.iota(shape, dt.i32, (1,)))

    @idiom("jnp.tri(n, m, k)", "tpu.iota", "arith.cmpi", group="fills")
    def tri(self, n: int, m: int | None = None, k: int = 0, *, dtype: DType = dt.f32) -> Value:
        """`jnp.tri`: ones at and below the ``k``-th diagonal, zeros above.

        Example:
            >>> b.pallas.tri(8, 128).shape
            (8, 128)
        """
        with self._one_line("tri"):
            below = self._below(n, n if m is None else m, k, "tri")
            return self.astype(below, self._b._element(dtype, "tri"))

    @idiom("jnp.tril(x, k)", "tpu.iota", "arith.select", group="fills")
    def tril(self, x: Value, k: int = 0) -> Value:
        """`jnp.tril`: zeros above the ``k``-th diagonal of the last two dimensions.

        Example:
            >>> b.pallas.tril(a.x[...]).shape
            (8, 128)
        """
        return self._triangle(x, k, "tril")

    @idiom("jnp.triu(x, k)", "tpu.iota", "arith.select", group="fills")
    def triu(self, x: Value, k: int = 0) -> Value:
        """`jnp.triu`: zeros below the ``k``-th diagonal of the last two dimensions.

        Example:
            >>> b.pallas.triu(a.x[...]).shape
            (8, 128)
        """
        return self._triangle(x, k, "triu")

    def _triangle(self, x: Value, k: int, op: str) -> Value:
        self._b._use_vector(x, op)
        if x.rank < 2:
            self._b.fail(ShapeError, "a vector of rank 1 has no diagonal", op=op, operands=[x], hint="rank 2 or more")
        with self._one_line(op):
            offset = self._b._int(k, op, "diagonal")
            below = self._below(x.shape[-2], x.shape[-1], offset - 1 if op == "triu" else offset, op)
            if x.rank > 2:
                below = self.broadcast_to(below, x.shape)
            zeros = self.zeros_like(x)
            return self._b.select(below, x, zeros) if op == "tril" else self._b.select(below, zeros, x)

    @idiom("jnp.eye(n, m, k)", "tpu.iota", "arith.cmpi", group="fills")
    def eye(self, n: int, m: int | None = None, k: int = 0, *, dtype: DType = dt.f32) -> Value:
        """`jnp.eye`: ones on the ``k``-th diagonal, zeros elsewhere.

        Example:
            >>> b.pallas.eye(128).shape
            (128, 128)
        """
        b = self._b
        shape = b._shape((n, n if m is None else m), "eye")
        offset = b._int(k, "eye", "diagonal")
        with self._one_line("eye"):
            return self.astype(self._diagonal(shape, offset), b._element(dtype, "eye"))

    def _diagonal(self, shape: Sequence[int], offset: Operand) -> Value:
        """Where a column is its row plus an offset."""
        row, column = self._b.iota(shape, dt.i32, (0,)), self._b.iota(shape, dt.i32, (1,))
        return self.eq(self.add(row, offset), column)
