"""Matrix products: lax.dot_general, jnp.dot, jnp.matmul."""

from __future__ import annotations

from collections.abc import Sequence

from mosaic_tpu.builder import dtypes as dt
from mosaic_tpu.builder._registry import idiom
from mosaic_tpu.builder._value import Value
from mosaic_tpu.builder.dtypes import DType
from mosaic_tpu.builder.enums import Precision
from mosaic_tpu.builder.errors import ArityError, AttributeValueError, DTypeError, ShapeError, UnsupportedOpError
from mosaic_tpu.builder.ops.tpu_matmul import DotDimensionNumbers
from mosaic_tpu.builder.pallas._base import Idioms
from mosaic_tpu.builder.pallas._promotion import promoted

type Dims = tuple[tuple[Sequence[int], Sequence[int]], tuple[Sequence[int], Sequence[int]]]


class DotIdioms(Idioms):
    """What Pallas emits for products: a dense zero accumulator and one ``tpu.matmul``."""

    @idiom("lax.dot_general(x, y, dims)", "arith.constant", "tpu.matmul", group="dot")
    def dot_general(
        self,
        lhs: Value,
        rhs: Value,
        dimension_numbers: Dims,
        *,
        preferred_element_type: DType | None = None,
        precision: Precision | str | None = None,
        transpose_lhs_hint: bool = False,
    ) -> Value:
        """`lax.dot_general`.

        Args:
            lhs: a vector.
            rhs: a vector.
            dimension_numbers: ``((lhs contracting, rhs contracting), (lhs batch, rhs batch))``.
            preferred_element_type: of the result; the operands' type if omitted.
            precision: ``"fp32"`` is `lax.Precision.HIGHEST`, ``"bf16x3"`` is ``HIGH``.
            transpose_lhs_hint: as ``fuse_transposed_lhs_in_matmul`` makes it.

        A single row on the right is multiplied and reduced on the VPU unless both sides are f32, as Pallas does.

        Raises:
            DTypeError: of unsigned integers; or of bf16 and f16, whose result lax does not have in f32 unless told.
            UnsupportedOpError: nothing is contracted, or the result is a scalar: Pallas refuses both.

        Example:
            >>> x = b.zeros((8, 128), bf16)
            >>> b.pallas.dot_general(x, x, (((1,), (1,)), ((), ())), preferred_element_type=f32).shape
            (8, 8)
        """
        op = "dot_general"
        for value in (lhs, rhs):
            self._b._use_vector(value, op)
        preferred = preferred_element_type
        out = self._lax_type(lhs, rhs) if preferred is None else self._b._element(preferred, op)
        return self._product(lhs, rhs, dimension_numbers, out, precision, op, transpose_lhs_hint)

    def _lax_type(self, lhs: Value, rhs: Value) -> DType:
        """JAX's promotion; where it has none, lax takes the wider."""
        first, second = lhs.dtype, rhs.dtype
        found = promoted(first, second) or (first if first.bits > second.bits else second)
        if first.is_float and second.is_float and found not in (first, second):
            hint = f"preferred_element_type={found}, as b.pallas.dot has it"
            self._b.fail(DTypeError, f"{first} and {second}", op="dot_general", operands=[lhs, rhs], hint=hint)
        return found

    def _jnp_product(
        self,
        lhs: Value,
        rhs: Value,
        dims: Dims,
        preferred: DType | None,
        precision: Precision | str | None,
        op: str,
    ) -> Value:
        """A product of jnp: of the operands' promoted type, unless another is preferred."""
        out = self._common(lhs, rhs, op) if preferred is None else self._b._element(preferred, op)
        return self._product(lhs, rhs, dims, out, precision, op)

    def _product(
        self,
        lhs: Value,
        rhs: Value,
        dims: Dims,
        out: DType,
        precision: Precision | str | None,
        op: str,
        transpose_lhs_hint: bool = False,
    ) -> Value:
        for value in (lhs, rhs):
            if value.dtype.is_unsigned:
                hint = "cast to i8, i32 or floats"
                self._b.fail(DTypeError, f"{op} of {value.dtype}", op=op, operands=[lhs, rhs], hint=hint)
        contracting, batch = self._dims(dims, lhs, rhs, op)
        if self._is_matrix_vector(lhs, rhs, contracting, batch):
            return self._matrix_vector(lhs, rhs, out, op)
        if not contracting[0] or (len(contracting[0]) == lhs.rank == rhs.rank):
            self._b.fail(
                UnsupportedOpError,
                "nothing is contracted" if not contracting[0] else "the product is a scalar",
                op=op,
                operands=[lhs, rhs],
                hint="multiply the operands, and b.pallas.sum what is left",
            )
        numbers = DotDimensionNumbers.of(lhs.rank, rhs.rank, contracting, batch)
        acc = self._b.zeros(numbers.result_shape(lhs.shape, rhs.shape), out)
        with self._one_line(op):
            return self._b.matmul(
                lhs, rhs, acc, dimension_numbers=numbers, precision=precision, transpose_lhs_hint=transpose_lhs_hint
            )

    def _dims(self, dims: Dims, lhs: Value, rhs: Value, op: str) -> Dims:
        """``((lhs contracting, rhs contracting), (lhs batch, rhs batch))``, checked."""
        b = self._b
        try:
            (lc, rc), (lb, rb) = dims
        except (TypeError, ValueError):
            b.fail(
                AttributeValueError,
                f"dimension numbers {dims!r}",
                op=op,
                operands=[lhs, rhs],
                hint="((lhs contracting, rhs contracting), (lhs batch, rhs batch))",
            )
        left, right = (
            (b._ints(lc, op, "axes"), b._ints(lb, op, "axes")),
            (b._ints(rc, op, "axes"), b._ints(rb, op, "axes")),
        )
        for value, axes in ((lhs, left[0] + left[1]), (rhs, right[0] + right[1])):
            if any(not 0 <= a < value.rank for a in axes) or len(set(axes)) != len(axes):
                b.fail(
                    AttributeValueError,
                    f"axes {axes} of rank {value.rank}",
                    op=op,
                    operands=[lhs, rhs],
                    hint="each axis once, counted from 0",
                )
        for what, (ours, theirs) in (("contracted", (left[0], right[0])), ("batch", (left[1], right[1]))):
            sizes = tuple(lhs.shape[a] for a in ours), tuple(rhs.shape[a] for a in theirs)
            if sizes[0] != sizes[1]:
                hint = "transpose one, or choose other dimensions"
                b.fail(ShapeError, f"{what} sizes {sizes[0]} and {sizes[1]}", op=op, operands=[lhs, rhs], hint=hint)
        return (left[0], right[0]), (left[1], right[1])

    def _is_matrix_vector(
        self,
        lhs: Value,
        rhs: Value,
        contracting: tuple[Sequence[int], Sequence[int]],
        batch: tuple[Sequence[int], Sequence[int]],
    ) -> bool:
        """Pallas reduces ``(n, k) · (1, k)`` on the VPU unless both sides are f32."""
        return (
            tuple(contracting[0]) == (1,)
            and tuple(contracting[1]) == (1,)
            and not batch[0]
            and lhs.rank == rhs.rank == 2
            and rhs.shape[0] == 1
            and (lhs.dtype is not dt.f32 or rhs.dtype is not dt.f32)
        )

    def _matrix_vector(self, lhs: Value, rhs: Value, out: DType, op: str) -> Value:
        b = self._b
        (rows, _), (_, columns) = lhs.shape, rhs.shape
        x, y = lhs, rhs
        if lhs.shape != rhs.shape:
            # Pallas broadcasts both, the left one to its own shape, to what the result's type says.
            if not lhs.dtype is rhs.dtype is out:
                b.fail(
                    UnsupportedOpError,
                    f"a product with a single row of {lhs.dtype} and {rhs.dtype} to {out}",
                    op=op,
                    operands=[lhs, rhs],
                    hint="Pallas refuses it: cast both operands to f32, or leave preferred_element_type out",
                )
            x, y = (b._emit("vector.broadcast", b.types.vector((rows, columns), out), [v._ir]) for v in (x, y))
        if not out.is_float or (out is not dt.f32 and (x.dtype is not out or y.dtype is not out)):
            b.fail(
                UnsupportedOpError,
                f"a product with a single row to {out}",
                op=op,
                operands=[lhs, rhs],
                hint="Pallas refuses it: cast both operands to f32",
            )
        x, y = (v if v.dtype is out else b.extf(v, out) for v in (x, y))
        acc = b.zeros((rows,), out)
        return b.shape_cast(b.multi_reduction("add", b.mulf(x, y), acc, (1,)), (rows, 1))

    @idiom("jnp.dot(x, y)", "arith.constant", "tpu.matmul", group="dot")
    def dot(
        self,
        lhs: Value,
        rhs: Value,
        *,
        preferred_element_type: DType | None = None,
        precision: Precision | str | None = None,
    ) -> Value:
        """`jnp.dot`: the last dimension with the second to last, or the only one, of the right side.

        Args:
            lhs: a vector.
            rhs: a vector.
            preferred_element_type: of the result; the operands' promoted type if omitted.
            precision: as in `dot_general`.

        Raises:
            DTypeError: JAX promotes neither operand to the type of the other, or one is of unsigned integers.
            UnsupportedOpError: the result is a scalar: Pallas refuses it.

        Example:
            >>> x, y = b.zeros((8, 128), bf16), b.zeros((128, 128), bf16)
            >>> b.pallas.dot(x, y, preferred_element_type=f32).dtype
            f32
        """
        for value in (lhs, rhs):
            self._b._use_vector(value, "dot")
        dims = (((lhs.rank - 1,), (max(rhs.rank - 2, 0),)), ((), ()))
        return self._jnp_product(lhs, rhs, dims, preferred_element_type, precision, "dot")

    @idiom("x @ y", "arith.constant", "tpu.matmul", group="dot")
    def matmul(
        self,
        lhs: Value,
        rhs: Value,
        *,
        preferred_element_type: DType | None = None,
        precision: Precision | str | None = None,
    ) -> Value:
        """`jnp.matmul`, ``x @ y``: as `dot`, but for leading dimensions that both have, which are batches.

        Raises:
            DTypeError: JAX promotes neither operand to the type of the other, or one is of unsigned integers.
            UnsupportedOpError: batches on both sides that differ, or more on the right than on the left.

        Example:
            >>> x, y = b.zeros((2, 8, 128), bf16), b.zeros((2, 128, 128), bf16)
            >>> b.pallas.matmul(x, y, preferred_element_type=f32).shape
            (2, 8, 128)
        """
        for value in (lhs, rhs):
            self._b._use_vector(value, "matmul")
        batch = tuple(range(rhs.rank - 2))
        if batch and (lhs.rank != rhs.rank or lhs.shape[:-2] != rhs.shape[:-2]):
            self._b.fail(
                UnsupportedOpError,
                "batches that differ",
                op="matmul",
                operands=[lhs, rhs],
                hint="b.pallas.dot_general with the dimension numbers",
            )
        dims = (((lhs.rank - 1,), (max(rhs.rank - 2, 0),)), (batch, batch))
        return self._jnp_product(lhs, rhs, dims, preferred_element_type, precision, "matmul")

    @idiom("jnp.tensordot(x, y, axes)", "arith.constant", "tpu.matmul", group="dot")
    def tensordot(
        self,
        lhs: Value,
        rhs: Value,
        axes: int | tuple[int, int] | tuple[Sequence[int], Sequence[int]] = 2,
        *,
        preferred_element_type: DType | None = None,
        precision: Precision | str | None = None,
    ) -> Value:
        """`jnp.tensordot`: a product over any dimensions of both.

        Args:
            lhs: a vector.
            rhs: a vector.
            axes: how many of the last dimensions of ``lhs`` meet the first ones of ``rhs``; or one axis of each, or
                several of each.
            preferred_element_type: as in `dot`.
            precision: as in `dot_general`.

        Raises:
            ArityError: other axes of one side than of the other, or ones that it does not have.
            DTypeError: JAX promotes neither operand to the type of the other, or one is of unsigned integers.
            UnsupportedOpError: nothing is contracted, or the result is a scalar: Pallas refuses both.

        Example:
            >>> x = b.zeros((8, 128), f32)
            >>> b.pallas.tensordot(x, x, (1, 1)).shape
            (8, 8)
        """
        for value in (lhs, rhs):
            self._b._use_vector(value, "tensordot")
        if not isinstance(axes, tuple | list):
            count = max(0, min(self._b._int(axes, "tensordot", "number of axes"), lhs.rank, rhs.rank))
            left, right = tuple(range(lhs.rank - count, lhs.rank)), tuple(range(count))
        elif len(axes) == 2:
            left, right = (self._axes(a, v.rank, "tensordot", v) for a, v in zip(axes, (lhs, rhs), strict=True))
        else:
            left, right = (), (0,)
        if len(left) != len(right):
            hint = "one axis of each, or as many of each"
            self._b.fail(ArityError, f"axes {axes}", op="tensordot", operands=[lhs, rhs], hint=hint)
        dims = ((left, right), ((), ()))
        return self._jnp_product(lhs, rhs, dims, preferred_element_type, precision, "tensordot")

    @idiom("jnp.inner(x, y)", "arith.constant", "tpu.matmul", group="dot")
    def inner(
        self,
        lhs: Value,
        rhs: Value,
        *,
        preferred_element_type: DType | None = None,
        precision: Precision | str | None = None,
    ) -> Value:
        """`jnp.inner`: a product over the last dimension of both.

        Raises:
            DTypeError: JAX promotes neither operand to the type of the other, or one is of unsigned integers.
            UnsupportedOpError: the result is a scalar: Pallas refuses it.

        Example:
            >>> x = b.zeros((8, 128), f32)
            >>> b.pallas.inner(x, x).shape
            (8, 8)
        """
        for value in (lhs, rhs):
            self._b._use_vector(value, "inner")
        dims = (((lhs.rank - 1,), (rhs.rank - 1,)), ((), ()))
        return self._jnp_product(lhs, rhs, dims, preferred_element_type, precision, "inner")
