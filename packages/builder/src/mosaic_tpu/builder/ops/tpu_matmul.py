"""``tpu.matmul`` and its dimension numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from mosaic_tpu.builder._core import Core
from mosaic_tpu.builder._registry import op
from mosaic_tpu.builder._value import Value
from mosaic_tpu.builder.enums import Precision
from mosaic_tpu.builder.errors import AttributeValueError, DTypeError, ShapeError


@dataclass(frozen=True)
class DotDimensionNumbers:
    """``#tpu.dot_dimension_numbers``: which dimensions of a matmul contract, batch and remain, and their order.

    Attributes:
        lhs_contracting: contracted dimensions of the left operand.
        rhs_contracting: contracted dimensions of the right operand, in the same order.
        lhs_non_contracting: remaining dimensions of the left operand.
        rhs_non_contracting: remaining dimensions of the right operand.
        output_order: pairs flattened: operand (0 left, 1 right), dimension, for each dimension of the result.
        lhs_batch: batch dimensions of the left operand.
        rhs_batch: batch dimensions of the right operand.
    """

    lhs_contracting: tuple[int, ...]
    rhs_contracting: tuple[int, ...]
    lhs_non_contracting: tuple[int, ...]
    rhs_non_contracting: tuple[int, ...]
    output_order: tuple[int, ...]
    lhs_batch: tuple[int, ...] = ()
    rhs_batch: tuple[int, ...] = ()

    @property
    def mlir(self) -> str:
        """The attribute's text."""
        parts = (
            self.lhs_contracting,
            self.rhs_contracting,
            self.lhs_non_contracting,
            self.rhs_non_contracting,
            self.output_order,
            self.lhs_batch,
            self.rhs_batch,
        )
        return f"#tpu.dot_dimension_numbers<{','.join('[' + ', '.join(map(str, p)) + ']' for p in parts)}>"

    @classmethod
    def of(
        cls,
        lhs_rank: int,
        rhs_rank: int,
        contracting: tuple[Sequence[int], Sequence[int]],
        batch: tuple[Sequence[int], Sequence[int]] = ((), ()),
    ) -> Self:
        """From `lax.dot_general`'s dimension numbers; the result is batch, left rest, right rest, as in JAX."""
        (lc, rc), (lb, rb) = (tuple(map(tuple, contracting)), tuple(map(tuple, batch)))
        ln = tuple(d for d in range(lhs_rank) if d not in lc and d not in lb)
        rn = tuple(d for d in range(rhs_rank) if d not in rc and d not in rb)
        order = [*((0, d) for d in lb), *((0, d) for d in ln), *((1, d) for d in rn)]
        return cls(lc, rc, ln, rn, tuple(v for pair in order for v in pair), lb, rb)

    def result_shape(self, lhs: tuple[int, ...], rhs: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of the product."""
        shapes = (lhs, rhs)
        return tuple(
            shapes[side][dim] for side, dim in zip(self.output_order[::2], self.output_order[1::2], strict=True)
        )


class TpuMatmulOps(Core):
    """``tpu.matmul``."""

    @op(source="b.dotDimensionNumbers(lhs_c, rhs_c, lhs_nc, rhs_nc, output_order, lhs_b, rhs_b)", group="tpu")
    def dot_dimension_numbers(
        self,
        lhs_contracting: Sequence[int],
        rhs_contracting: Sequence[int],
        lhs_non_contracting: Sequence[int],
        rhs_non_contracting: Sequence[int],
        output_order: Sequence[int],
        lhs_batch: Sequence[int] = (),
        rhs_batch: Sequence[int] = (),
    ) -> DotDimensionNumbers:
        """Dimension numbers for `matmul`, spelled as in the Zig DSL.

        Example:
            >>> b.dot_dimension_numbers([1], [1], [0], [0], [0, 0, 1, 0]).lhs_contracting
            (1,)
        """
        given = (
            lhs_contracting,
            rhs_contracting,
            lhs_non_contracting,
            rhs_non_contracting,
            output_order,
            lhs_batch,
            rhs_batch,
        )
        return DotDimensionNumbers(*(self._ints(g, "dot_dimension_numbers", "dimensions") for g in given))

    @op("tpu.matmul", source="k.matmul(lhs, rhs, acc)")
    def matmul(
        self,
        lhs: Value,
        rhs: Value,
        acc: Value,
        *,
        transpose_lhs: bool = False,
        transpose_rhs: bool = False,
        precision: Precision | str | None = None,
        dimension_numbers: DotDimensionNumbers | None = None,
        transpose_lhs_hint: bool = False,
    ) -> Value:
        """``lhs @ rhs + acc`` on the MXU; the result has the type of ``acc``.

        Args:
            lhs: a vector of rank 2, or more with ``dimension_numbers``.
            rhs: likewise.
            acc: start value; its element type is that of the accumulation.
            transpose_lhs: contract the first dimension of ``lhs`` instead of the second.
            transpose_rhs: contract the second dimension of ``rhs`` instead of the first.
            precision: how f32 operands are rounded; the compiler's default (one bf16 pass) if omitted.
            dimension_numbers: contracting, batch and output dimensions; from the transposes if omitted.
            transpose_lhs_hint: ask the compiler to fuse a transposed ``lhs``.

        Raises:
            ShapeError: the contracted sizes differ, or ``acc`` has another shape than the product.

        Example:
            >>> x = b.zeros((8, 128), bf16)
            >>> b.matmul(x, x, b.zeros((8, 8), f32), transpose_rhs=True).shape
            (8, 8)
        """
        name = "tpu.matmul"
        used = [self._use_vector(v, name) for v in (lhs, rhs, acc)]
        member = None if precision is None else self._member(Precision, precision, name)
        if dimension_numbers is None:
            if lhs.rank != 2 or rhs.rank != 2:
                self.fail(
                    ShapeError,
                    "ranks other than 2 need dimension_numbers",
                    op=name,
                    operands=[lhs, rhs, acc],
                    hint="b.pallas.dot_general takes JAX's dimension numbers",
                )
            left, right = (self._flag(t, name, "a transpose") for t in (transpose_lhs, transpose_rhs))
            contracting = ((0 if left else 1,), (1 if right else 0,))
            dimension_numbers = DotDimensionNumbers.of(2, 2, contracting)
        elif not isinstance(dimension_numbers, DotDimensionNumbers):  # pyright: ignore[reportUnnecessaryIsInstance]
            self.fail(
                AttributeValueError,
                f"dimension numbers {dimension_numbers!r}",
                op=name,
                operands=[lhs, rhs, acc],
                hint="b.dot_dimension_numbers(…), or b.pallas.dot_general",
            )
        self._check_matmul(lhs, rhs, acc, dimension_numbers)
        transpose_lhs_hint = self._flag(transpose_lhs_hint, name, "transpose_lhs_hint")
        key = (name, dimension_numbers, member, transpose_lhs_hint)
        attributes = self.types.named(*key)
        if attributes is None:
            attributes = {
                "dimension_numbers": self.types.parse(dimension_numbers.mlir),
                "transpose_lhs_hint": self.types.boolean(transpose_lhs_hint),
            }
            if member is not None:
                attributes["precision"] = self.types.parse(f"#tpu.contract_precision<{member.value}>")
            self.types.name(attributes, *key)
        return self._emit(name, acc._info, used, attributes)

    @op("tpu.matmul", source="k.matmulOpts(lhs, rhs, acc, .{ .transpose_lhs, .transpose_rhs, .precision })")
    def matmul_opts(
        self,
        lhs: Value,
        rhs: Value,
        acc: Value,
        *,
        transpose_lhs: bool = False,
        transpose_rhs: bool = False,
        precision: Precision | str | None = None,
        dimension_numbers: DotDimensionNumbers | None = None,
    ) -> Value:
        """The Zig DSL's name for `matmul` with its options.

        Example:
            >>> x = b.zeros((8, 128), bf16)
            >>> b.matmul_opts(x, x, b.zeros((8, 8), f32), transpose_rhs=True, precision="bf16").shape
            (8, 8)
        """
        return self.matmul(
            lhs,
            rhs,
            acc,
            transpose_lhs=transpose_lhs,
            transpose_rhs=transpose_rhs,
            precision=precision,
            dimension_numbers=dimension_numbers,
        )

    def _check_matmul(self, lhs: Value, rhs: Value, acc: Value, numbers: DotDimensionNumbers) -> None:
        name = "tpu.matmul"
        operands = [lhs, rhs, acc]
        dims = (
            *numbers.lhs_contracting,
            *numbers.rhs_contracting,
            *numbers.lhs_batch,
            *numbers.rhs_batch,
            *numbers.output_order,
        )
        if any(d < 0 for d in dims):
            self.fail(
                AttributeValueError,
                f"{numbers.mlir} counts from the end",
                op=name,
                operands=operands,
                hint="count from 0",
            )
        try:
            contracted = [
                (lhs.shape[i], rhs.shape[j])
                for i, j in zip(numbers.lhs_contracting, numbers.rhs_contracting, strict=True)
            ]
            batched = [(lhs.shape[i], rhs.shape[j]) for i, j in zip(numbers.lhs_batch, numbers.rhs_batch, strict=True)]
            shape = numbers.result_shape(lhs.shape, rhs.shape)
        except (IndexError, ValueError):
            self.fail(AttributeValueError, f"{numbers.mlir} does not fit the operands", op=name, operands=operands)
        for what, sizes in (("contracted", contracted), ("batch", batched)):
            for a, b in sizes:
                if a != b:
                    self.fail(
                        ShapeError,
                        f"{what} sizes {a} and {b} differ",
                        op=name,
                        operands=operands,
                        hint="check transpose_lhs, transpose_rhs or dimension_numbers",
                    )
        if acc.shape != shape:
            self.fail(
                ShapeError,
                f"acc must have the product's shape {shape}",
                op=name,
                operands=operands,
                hint="b.zeros(shape, f32)",
            )
        is_float = lhs.dtype.is_float or rhs.dtype.is_float
        if is_float != acc.dtype.is_float:
            self.fail(
                DTypeError,
                f"acc is {acc.dtype}, the product {'a float' if is_float else 'an integer'}",
                op=name,
                operands=operands,
                hint="an i32 acc where both operands are integers, else an f32 acc",
            )
        if acc.dtype.bits != 32:
            self.fail(
                DTypeError,
                f"acc is {acc.dtype}, the MXU accumulates 32 bits",
                op=name,
                operands=operands,
                hint=f"preferred_element_type={'f32' if is_float else 'i32'}, then cast the product",
            )
