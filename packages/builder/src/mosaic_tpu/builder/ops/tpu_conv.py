"""``tpu.conv`` and its dimension numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from mosaic_tpu.builder._core import Core
from mosaic_tpu.builder._registry import op
from mosaic_tpu.builder._value import Value
from mosaic_tpu.builder.enums import Precision
from mosaic_tpu.builder.errors import ArityError, AttributeValueError, DTypeError, ShapeError


@dataclass(frozen=True)
class ConvDimensionNumbers:
    """``#tpu.conv_dimension_numbers``: which dimensions are batch, feature and space.

    Attributes:
        lhs: batch and feature of the input, then its spatial dimensions.
        rhs: input and output feature of the kernel, then its spatial dimensions.
        output: batch and feature of the result, then its spatial dimensions.
    """

    lhs: tuple[int, ...]
    rhs: tuple[int, ...]
    output: tuple[int, ...]

    @property
    def mlir(self) -> str:
        """The attribute's text."""
        parts = (f"{first}, {second}, {list(space)}" for first, second, *space in (self.lhs, self.rhs, self.output))
        return f"#tpu.conv_dimension_numbers<{', '.join(parts)}>"

    @classmethod
    def of(cls, lhs: str, rhs: str, output: str) -> Self:
        """From JAX's letters, ``("NHWC", "HWIO", "NHWC")``.

        Example:
            >>> ConvDimensionNumbers.of("NHWC", "HWIO", "NHWC").rhs
            (2, 3, 0, 1)

        Raises:
            AttributeValueError: the letters are not those of a convolution.
        """
        given = (lhs, rhs, output)
        space = [letter for letter in rhs if letter not in "IO"] if isinstance(rhs, str) else []  # pyright: ignore
        orders = ("NC", "IO", "NC")
        for letters, own in zip(given, orders, strict=True):
            if not isinstance(letters, str) or sorted(letters) != sorted([*own, *space]):  # pyright: ignore
                raise AttributeValueError(
                    f"{given!r} are no dimensions of a convolution", op="tpu.conv", hint='("NHWC", "HWIO", "NHWC")'
                )
        found = [tuple(letters.index(c) for c in (*own, *space)) for letters, own in zip(given, orders, strict=True)]
        return cls(*found)


class TpuConvOps(Core):
    """``tpu.conv``."""

    @op("tpu.conv", source="lax.conv_general_dilated(lhs, rhs, …)")
    def conv(
        self,
        lhs: Value,
        rhs: Value,
        acc: Value,
        dimension_numbers: ConvDimensionNumbers | tuple[str, str, str],
        *,
        window_strides: Sequence[int] | None = None,
        padding: Sequence[tuple[int, int]] | None = None,
        lhs_dilation: Sequence[int] | None = None,
        rhs_dilation: Sequence[int] | None = None,
        window_reversal: Sequence[bool] | None = None,
        feature_group_count: int = 1,
        batch_group_count: int = 1,
        precision: Precision | str | None = None,
    ) -> Value:
        """A convolution on the MXU, added to ``acc``, whose type the result has.

        Args:
            lhs: the input.
            rhs: the kernel.
            acc: start value: zeros, as a rule.
            dimension_numbers: JAX's letters, ``("NHWC", "HWIO", "NHWC")``, or `ConvDimensionNumbers`.
            window_strides: one a spatial dimension, as are those that follow; ones if omitted.
            padding: (low, high) a spatial dimension; none if omitted.
            lhs_dilation: holes in the input; ones if omitted.
            rhs_dilation: holes in the kernel; ones if omitted.
            window_reversal: which dimensions of the kernel run backwards; none if omitted.
            feature_group_count: groups that the features are split into.
            batch_group_count: groups that the batch is split into.
            precision: how f32 operands are rounded; the compiler's default if omitted.

        Raises:
            ShapeError: features do not match, or ``acc`` has another shape than the result.

        Example:
            >>> image, kernel = b.zeros((1, 8, 8, 128), bf16), b.zeros((3, 3, 128, 128), bf16)
            >>> b.conv(image, kernel, b.zeros((1, 6, 6, 128), f32), ("NHWC", "HWIO", "NHWC")).shape
            (1, 6, 6, 128)
        """
        name = "tpu.conv"
        operands = [lhs, rhs, acc]
        used = [self._use_vector(v, name) for v in operands]
        numbers = self._conv_numbers(dimension_numbers, operands)
        space = lhs.rank - 2
        strides = self._per_space(window_strides, space, "window_strides", operands)
        dilations = tuple(
            self._per_space(d, space, what, operands)
            for d, what in ((lhs_dilation, "lhs_dilation"), (rhs_dilation, "rhs_dilation"))
        )
        pads = self._conv_padding(padding, space, operands)
        reversal: Sequence[bool] = [False] * space if window_reversal is None else window_reversal
        self._sequence(reversal, name)
        if len(reversal) != space:
            self.fail(ArityError, f"window_reversal {reversal}", op=name, operands=operands, hint=f"give {space}")
        groups = [
            self._i32_attribute(g, name, what)
            for g, what in ((feature_group_count, "feature_group_count"), (batch_group_count, "batch_group_count"))
        ]
        self._check_conv(operands, numbers, strides, pads, dilations, groups)
        member = None if precision is None else self._member(Precision, precision, name)
        created = self._native(
            "ConvOp",
            name,
            acc.type,
            *used,
            window_strides=list(strides),
            padding=[p for pair in pads for p in pair],
            lhs_dilation=list(dilations[0]),
            rhs_dilation=list(dilations[1]),
            window_reversal=[self._flag(r, name, "an entry of window_reversal") for r in reversal],
            feature_group_count=groups[0],
            batch_group_count=groups[1],
            precision=None if member is None else self.types.parse(f"#tpu.contract_precision<{member.value}>"),
            dimension_numbers=self.types.parse(numbers.mlir),
        )
        return Value(created.results[0], acc._info, self._scope)

    def _conv_numbers(
        self, given: ConvDimensionNumbers | tuple[str, str, str], operands: list[Value]
    ) -> ConvDimensionNumbers:
        name = "tpu.conv"
        if isinstance(given, ConvDimensionNumbers):
            numbers = given
        elif isinstance(given, tuple) and len(given) == 3:  # pyright: ignore[reportUnnecessaryIsInstance]
            numbers = ConvDimensionNumbers.of(*given)
        else:
            self.fail(
                AttributeValueError,
                f"dimension numbers {given!r}",
                op=name,
                operands=operands,
                hint='("NHWC", "HWIO", "NHWC")',
            )
        orders = [self._ints(d, name, "dimensions") for d in (numbers.lhs, numbers.rhs, numbers.output)]
        if any(sorted(d) != list(range(v.rank)) for d, v in zip(orders, operands, strict=True)) or len(orders[0]) < 3:
            self.fail(
                ShapeError,
                f"{numbers} do not fit the ranks",
                op=name,
                operands=operands,
                hint="batch, feature and one spatial dimension or more, each named once",
            )
        if len({len(d) for d in orders}) > 1:
            self.fail(ShapeError, "the ranks differ", op=name, operands=operands, hint="one rank for all three")
        return numbers

    def _per_space(self, given: Sequence[int] | None, space: int, what: str, operands: list[Value]) -> tuple[int, ...]:
        found = (1,) * space if given is None else self._ints(given, "tpu.conv", what)
        if len(found) != space or any(n < 1 for n in found):
            hint = f"give {space}, 1 or more each"
            self.fail(ArityError, f"{what} {found}", op="tpu.conv", operands=operands, hint=hint)
        return found

    def _conv_padding(
        self, given: Sequence[tuple[int, int]] | None, space: int, operands: list[Value]
    ) -> tuple[tuple[int, ...], ...]:
        if given is None:
            return ((0, 0),) * space
        self._sequence(given, "tpu.conv")
        found = tuple(self._ints(pair, "tpu.conv", "paddings") for pair in given)
        if len(found) != space or any(len(pair) != 2 for pair in found):
            hint = f"give (low, high) for each of {space} dimensions"
            self.fail(ArityError, f"padding {found}", op="tpu.conv", operands=operands, hint=hint)
        return found

    def _check_conv(
        self,
        operands: list[Value],
        numbers: ConvDimensionNumbers,
        strides: tuple[int, ...],
        pads: tuple[tuple[int, ...], ...],
        dilations: tuple[tuple[int, ...], ...],
        groups: list[int],
    ) -> None:
        name = "tpu.conv"
        lhs, rhs, acc = operands
        if lhs.dtype.is_float != rhs.dtype.is_float or rhs.dtype.is_float != acc.dtype.is_float:
            self.fail(DTypeError, "floats and integers do not mix", op=name, operands=operands)
        if min(groups) < 1 or (max(groups) > 1 and min(groups) != 1):
            hint = "1 or more, and one of the two is 1"
            self.fail(AttributeValueError, f"group counts {groups}", op=name, operands=operands, hint=hint)
        features, batches = groups
        (batch, feature), (into, out_of) = (
            [v.shape[d] for d in n[:2]] for v, n in ((lhs, numbers.lhs), (rhs, numbers.rhs))
        )
        if feature != into * features or out_of % features or batch % batches or out_of % batches:
            self.fail(
                ShapeError,
                f"{feature} features of the input, {into} of the kernel, in {features} groups",
                op=name,
                operands=operands,
                hint="the kernel's input features times feature_group_count are the input's features",
            )
        wanted = {numbers.output[0]: batch // batches, numbers.output[1]: out_of}
        for n in range(len(strides)):
            size, window = (
                (v.shape[d[2 + n]] - 1) * dilation[n] + 1
                for v, d, dilation in ((lhs, numbers.lhs, dilations[0]), (rhs, numbers.rhs, dilations[1]))
            )
            wanted[numbers.output[2 + n]] = (size + sum(pads[n]) - window) // strides[n] + 1
        shape = tuple(wanted[d] for d in range(acc.rank))
        if acc.shape != shape:
            self.fail(ShapeError, f"the result has shape {shape}, not {acc.shape}", op=name, operands=operands)
