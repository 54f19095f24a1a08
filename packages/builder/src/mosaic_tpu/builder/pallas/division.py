"""Signs, division that rounds down, and the remainders that go with it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

import numpy as np

from mosaic_tpu.builder import dtypes as dt
from mosaic_tpu.builder._registry import idiom
from mosaic_tpu.builder._value import Number, Operand, Value
from mosaic_tpu.builder.errors import ConstantError, UnsupportedOpError
from mosaic_tpu.builder.pallas.elementwise import ElementwiseIdioms


class DivisionIdioms(ElementwiseIdioms):
    """`lax.sign`, ``//``, ``%``, `jnp.fmod`, `pl.cdiv`."""

    @idiom(
        "lax.sign(x)", "arith.cmpi", "arith.extui", "arith.subi", group="elementwise", traits=("elementwise", "pure")
    )
    def sign(self, x: Value) -> Value:
        """`lax.sign`: ``(x > 0) - (x < 0)`` of signed integers, ``x != 0`` of unsigned ones; of floats, by their bits.

        Floats are f32 or bf16 (bf16 on a TPU v4 or later). NaN and zeros stay what they are.

        Raises:
            UnsupportedOpError: of another type.

        Example:
            >>> b.pallas.sign(b.lift(-3)).dtype, b.pallas.sign(a.x[...]).dtype
            (i32, f32)
        """
        self._value(x, "sign")
        if x.dtype in _ONE_BITS:
            return self._b._inlined("sign", (x,), self._float_sign)[0]
        if not x.dtype.is_int or x.dtype is dt.i1:
            hint = "integers, f32 or bf16"
            self._b.fail(UnsupportedOpError, f"sign of {x.dtype}", op="sign", operands=[x], hint=hint)
        if x.dtype.is_unsigned:
            return self._b.extui(self._compare("ne", x, 0), x.dtype)
        positive = self._b.extui(self._compare("gt", x, 0), x.dtype)
        negative = self._b.extui(self._compare("lt", x, 0), x.dtype)
        return self.sub(positive, negative)

    def _float_sign(self, x: Value) -> Sequence[Value]:
        bits, one = _ONE_BITS[x.dtype]
        sign = self.bitwise_and(self._bits(x, bits, "sign"), 1 << (bits.bits - 1))
        signed_one = self._bits(self.bitwise_or(one, sign), x.dtype, "sign")
        nonzero = self._compare("gt", self._b.absf(x), 0.0)
        return [self._b.select(nonzero, signed_one, x)]

    @idiom("x // y", "arith.divsi", "arith.remsi", "arith.select", group="elementwise", traits=("elementwise", "pure"))
    def floor_divide(self, x: Operand, y: Operand) -> Value:
        """`jnp.floor_divide`: of integers, division towards zero and a correction where the signs differ.

        Of f32 and bf16: what the remainder leaves, divided, corrected and rounded.

        Example:
            >>> b.pallas.floor_divide(b.lift(-7), 2).dtype, b.pallas.floor_divide(a.x[...], 2.0).dtype
            (i32, f32)
        """
        first, second = self._at_jit(x, y, "floor_divide")
        if first.dtype.is_unsigned:
            return self.div(first, second)
        if first.dtype.is_float:
            with self._one_line("floor_divide"):
                return self._b._inlined("floor_divide", (first, second), self._float_floor_divide)[0]
        return self._b._inlined("floor_divide", (first, second), self._signed_floor_divide)[0]

    def _float_floor_divide(self, first: Value, second: Value) -> Sequence[Value]:
        rest = self.rem(first, second)
        quotient = self.div(self.where(self.eq(second, 0), first, self.sub(first, rest)), second)
        inexact = self.ne(rest, 0)
        differ = self.ne(self.sign(second), self.sign(rest))
        corrected = self._b.select(self.bitwise_and(inexact, differ), self.sub(quotient, 1), quotient)
        return [self._b.round(corrected)]

    def _signed_floor_divide(self, first: Value, second: Value) -> Sequence[Value]:
        quotient = self.div(first, second)
        differ = self.ne(self.sign(first), self.sign(second))
        inexact = self.ne(self.rem(first, second), 0)
        return [self._b.select(self.bitwise_and(differ, inexact), self.sub(quotient, 1), quotient)]

    @idiom("x % y", "arith.remsi", "arith.select", group="elementwise", traits=("elementwise", "pure"))
    def remainder(self, x: Operand, y: Operand) -> Value:
        """`jnp.remainder`: the sign of the divisor.

        Example:
            >>> b.pallas.remainder(b.lift(-7), 2).dtype, b.pallas.remainder(a.x[...], 2.0).dtype
            (i32, f32)
        """
        first, second = self._at_jit(x, y, "remainder")
        return self._b._inlined("remainder", (first, second), self._any_remainder)[0]

    def _any_remainder(self, first: Value, second: Value) -> Sequence[Value]:
        if not first.dtype.is_float:
            second = self.where(self.eq(second, 0), self._const(1, second.dtype), second)
        truncated = self.rem(first, second)
        inexact = self.ne(truncated, 0)
        flips = self.ne(self.lt(truncated, 0), self.lt(second, 0))
        return [self._b.select(self.bitwise_and(flips, inexact), self.add(truncated, second), truncated)]

    @idiom("jnp.fmod(x, y)", "arith.remsi", "arith.remf", group="elementwise", traits=("elementwise", "pure"))
    def fmod(self, x: Operand, y: Operand) -> Value:
        """`jnp.fmod`: the sign of the dividend; integers are divided by 1 where the divisor is 0.

        Example:
            >>> b.pallas.fmod(b.lift(-7), 2).dtype, b.pallas.fmod(a.x[...], 2.0).dtype
            (i32, f32)
        """
        self._check("fmod", x, y)
        common = self._common(x, y, "fmod")
        if not common.is_int or common is dt.i1:
            return self.rem(*self._at_jit(x, y, "fmod"))
        first, second = self._jit_operand(x, common), self._jit_operand(y, common)
        second = self.where(self.eq(second, 0), self._const(1, second.dtype), second)  # before it is converted
        first, second = self.astype(first, common), self.astype(second, common)
        return self.rem(*self._ranks(first, second))

    @overload
    def cdiv(self, x: int, n: int) -> int: ...
    @overload
    def cdiv(self, x: Value, n: Operand) -> Value: ...
    @overload
    def cdiv(self, x: Number, n: Value) -> Value: ...
    @idiom("pl.cdiv(x, n)", "arith.addi", "arith.divsi", group="elementwise", traits=("elementwise", "pure"))
    def cdiv(self, x: Operand, n: Operand) -> Value | int:
        """`pl.cdiv`: ``(x + (n - 1))`` divided by ``n`` towards zero; of two ints an int.

        Example:
            >>> b.pallas.cdiv(b.lift(7), 2).dtype, b.pallas.cdiv(7, 2)
            (i32, 4)
        """
        if isinstance(x, int) and isinstance(n, int):
            if not n:
                self._b.fail(ConstantError, f"{x} divided by 0", op="cdiv", hint="a divisor above 0")
            total = x + n - 1
            return -(-total // n) if (total < 0) != (n < 0) else total // n
        self._check("cdiv", x, n)
        with self._one_line("cdiv"):
            if isinstance(n, Value):
                return self.div(self.add(x, self.sub(n, 1)), n)
            if not isinstance(n, int | float | np.number):  # pyright: ignore[reportUnnecessaryIsInstance]
                self._b._refuse(n, "cdiv")
            return self.div(self.add(x, n - 1), n)


#: The integers of a float's width, and 1.0 in its bits.
_ONE_BITS = {dt.f32: (dt.u32, 0x3F800000), dt.bf16: (dt.u16, 0x3F80)}
