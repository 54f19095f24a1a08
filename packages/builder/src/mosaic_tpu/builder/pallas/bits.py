"""The bits of numbers: reinterpreted, shifted, counted, rounded, packed."""

from __future__ import annotations

from collections.abc import Sequence

from mosaic_tpu.builder import dtypes as dt
from mosaic_tpu.builder._registry import idiom
from mosaic_tpu.builder._value import Operand, Value
from mosaic_tpu.builder.dtypes import DType
from mosaic_tpu.builder.errors import DTypeError
from mosaic_tpu.builder.pallas.elementwise import ElementwiseIdioms


class BitIdioms(ElementwiseIdioms):
    """`lax` and `pltpu` functions that look into numbers."""

    def _integers(self, x: Value, op: str) -> Value:
        self._value(x, op)
        if not x.dtype.is_int or x.dtype is dt.i1:
            self._b.fail(DTypeError, f"does not take {x.dtype}", op=op, operands=[x], hint="integers only")
        return x

    @idiom("lax.bitcast_convert_type(x, dtype)", "tpu.bitcast", "arith.bitcast", group="bits")
    def bitcast_convert_type(self, x: Value, dtype: DType) -> Value:
        """`lax.bitcast_convert_type` to a type of the same width: ``tpu.bitcast`` of vectors, ``arith.bitcast`` else.

        Since jaxlib 0.12 nothing is emitted where the MLIR type stays (u32 to i32).

        Raises:
            DTypeError: another width; `bitcast` scales the second-to-last dimension.

        Example:
            >>> b.pallas.bitcast_convert_type(a.x[...], u32).dtype
            u32
        """
        self._value(x, "bitcast_convert_type")
        dtype = self._b._element(dtype, "bitcast_convert_type")
        return self._bits(x, dtype, "bitcast_convert_type")

    @idiom("lax.shift_right_logical(x, n)", "arith.shrui", group="bits", traits=("elementwise", "pure"))
    def shift_right_logical(self, x: Operand, n: Operand) -> Value:
        """`lax.shift_right_logical`: zeros come in, whatever the type.

        Example:
            >>> b.pallas.shift_right_logical(b.lift(-8), 1).dtype
            i32
        """
        return self._lax("shift_right_logical", x, n, "arith.shrui", "arith.shrui", None)

    @idiom("lax.shift_right_arithmetic(x, n)", "arith.shrsi", group="bits", traits=("elementwise", "pure"))
    def shift_right_arithmetic(self, x: Operand, n: Operand) -> Value:
        """`lax.shift_right_arithmetic`: the sign bit comes in, whatever the type.

        Example:
            >>> b.pallas.shift_right_arithmetic(b.lift_as(8, u32), 1).dtype
            u32
        """
        return self._lax("shift_right_arithmetic", x, n, "arith.shrsi", "arith.shrsi", None)

    @idiom("lax.clz(x)", "math.ctlz", group="bits", traits=("elementwise", "pure"))
    def clz(self, x: Value) -> Value:
        """`lax.clz`: leading zeros.

        Example:
            >>> b.pallas.clz(a.ints[...]).dtype
            i32
        """
        x = self._integers(x, "clz")
        return self._b._emit("math.ctlz", x._info, [x._ir])

    @idiom("lax.population_count(x)", "math.ctpop", group="bits", traits=("elementwise", "pure"))
    def population_count(self, x: Value) -> Value:
        """`lax.population_count` of a vector: ones.

        Example:
            >>> b.pallas.population_count(a.ints[...]).dtype
            i32
        """
        self._b._use_vector(x, "population_count")
        x = self._integers(x, "population_count")
        return self._b._emit("math.ctpop", x._info, [x._ir])

    @idiom("jnp.bitwise_count(x)", "math.absi", "math.ctpop", "arith.trunci", group="bits")
    def bitwise_count(self, x: Value) -> Value:
        """`jnp.bitwise_count` of a vector of integers: the ones of its size without the sign, as u8.

        Example:
            >>> b.pallas.bitwise_count(a.ints[...]).dtype
            u8
        """
        self._b._use_vector(x, "bitwise_count")
        with self._one_line("bitwise_count"):
            x = self._integers(x, "bitwise_count")
            size = x if x.dtype.is_unsigned else self._b.abs(x)
            return self.astype(self.population_count(size), dt.u8)

    @idiom("lax.mulhi(x, y)", "arith.mulsi_extended", "arith.mului_extended", group="bits")
    def mulhi(self, x: Operand, y: Operand) -> Value:
        """`lax.mulhi`: the high half of the product of integers of 32 bits, in 64. Pallas has it since JAX 0.12.

        Raises:
            DTypeError: of other types than i32 and u32, or of two types.

        Example:
            >>> b.pallas.mulhi(a.ints[...], a.ints[...]).dtype
            i32
        """
        for number, value in ((x, y), (y, x)):
            if not isinstance(number, Value):
                self._of_kind("mulhi", number, value)
        first, second = self._pair(x, y, "mulhi")
        if self._integers(first, "mulhi").dtype.bits != 32:
            self._b.fail(DTypeError, f"mulhi of {first.dtype}", op="mulhi", operands=[x, y], hint="cast to i32 or u32")
        extended = self._b.mului_extended if first.dtype.is_unsigned else self._b.mulsi_extended
        return extended(first, second)[1]

    @idiom("lax.reduce_precision(x, exponent_bits, mantissa_bits)", "tpu.reduce_precision", group="bits")
    def reduce_precision(self, x: Value, exponent_bits: int, mantissa_bits: int) -> Value:
        """`lax.reduce_precision` of a vector of f32 or bf16.

        Example:
            >>> b.pallas.reduce_precision(a.x[...], 8, 7).dtype
            f32
        """
        return self._b.reduce_precision(x, exponent_bits, mantissa_bits)

    @idiom("jnp.signbit(x)", "tpu.bitcast", "arith.shrsi", "arith.cmpi", group="bits", traits=("elementwise", "pure"))
    def signbit(self, x: Value) -> Value:
        """`jnp.signbit` of a float: its bits shifted to the sign.

        Example:
            >>> b.pallas.signbit(a.x[...]).dtype
            i1
        """
        self._value(x, "signbit")
        if not x.dtype.is_float or x.dtype.bits not in _INTEGERS:
            self._b.fail(DTypeError, f"signbit of {x.dtype}", op="signbit", operands=[x], hint="f32 or bf16")
        with self._one_line("signbit"):
            bits = self._bits(x, _INTEGERS[x.dtype.bits], "signbit")
            return self.astype(self.right_shift(bits, x.dtype.bits - 1), dt.i1)

    @idiom("jnp.copysign(x, y)", "math.absf", "arith.select", group="bits", traits=("elementwise", "pure"))
    def copysign(self, x: Value, y: Operand) -> Value:
        """`jnp.copysign`: the size of ``x``, the sign of ``y``; integers are converted to f32 first.

        Example:
            >>> b.pallas.copysign(a.x[...], -1.0).dtype
            f32
        """
        self._value(x, "copysign")
        with self._one_line("copysign"):
            dtype = self._inexact_type(x, y, "copysign")
            second = self._own(y)
            first, second = self.astype(x, dtype), self.astype(second, dtype)
            first, second = self._ranks(first, second)
            negative = self.signbit(second)
            below = self.neg(self._b.abs(first))
            return self.where(negative, below, self._b.abs(first))

    @idiom("lax.nextafter(x, y)", "tpu.bitcast", "arith.select", group="bits", traits=("elementwise", "pure"))
    def nextafter(self, x: Value, y: Value) -> Value:
        """`lax.nextafter` of vectors of f32: the next number from ``x`` towards ``y``.

        Example:
            >>> b.pallas.nextafter(a.x[...], a.y[...]).dtype
            f32
        """
        for value in (x, y):
            self._b._use_vector(value, "nextafter")
            if value.dtype is not dt.f32:
                self._b.fail(DTypeError, f"nextafter of {value.dtype}", op="nextafter", operands=[value], hint="f32")
        self._b._same(x, y, "nextafter")
        return self._b._inlined("nextafter", (x, y), self._neighbour)[0]

    def _neighbour(self, x: Value, y: Value) -> list[Value]:
        from_bits, to_bits = self._bits(x, dt.u32, "nextafter"), self._bits(y, dt.u32, "nextafter")
        is_nan = self.bitwise_or(self.ne(x, x), self.ne(y, y))
        nan = self._filled(x, 0x7FC00000)
        sign = 1 << 31
        mask = self.bitwise_not(self._const(sign, dt.u32))
        from_size, to_size = self.bitwise_and(from_bits, mask), self.bitwise_and(to_bits, mask)
        equal = self.eq(x, y)
        zero = self._filled(x, 0)
        from_zero, to_zero = self.eq(from_size, zero), self.eq(to_size, zero)
        from_sign, to_sign = self.bitwise_and(from_bits, sign), self.bitwise_and(to_bits, sign)
        one = self._filled(x, 1)
        smallest = self.bitwise_or(to_sign, one)
        differ = self.ne(from_sign, to_sign)
        shrinks = self.bitwise_or(self.gt(from_size, to_size), differ)
        moved = self.add(from_bits, self._b.select(shrinks, self._filled(x, (1 << 32) - 1), one))
        of_zero = self._b.select(to_zero, to_bits, smallest)
        found = self._b.select(from_zero, of_zero, moved)
        found = self._b.select(equal, to_bits, found)
        return [self._bits(self._b.select(is_nan, nan, found), dt.f32, "nextafter")]

    def _filled(self, like: Value, number: int) -> Value:
        return self._b.broadcast_to(self._const(number, dt.u32), like.shape)

    # --- several narrow elements in a wide one ------------------------------------------------------------------------

    @idiom("pltpu.stochastic_round(x, bits, target_dtype=…)", "tpu.stochastic_convert", group="bits")
    def stochastic_round(self, x: Value, random_bits: Value, target_dtype: DType) -> Value:
        """`pltpu.stochastic_round` of a vector of f32: up or down at random, the nearer neighbour more often.

        Args:
            x: a vector of f32.
            random_bits: u32 of the same shape.
            target_dtype: bf16, a float of 8 bits, or i4.

        Example:
            >>> bits = b.pallas.bitcast(b.pallas.prng_random_bits((8, 128)), u32)
            >>> b.pallas.stochastic_round(a.x[...], bits, bf16).dtype
            bf16
        """
        self._b._use_vector(random_bits, "stochastic_round")
        if random_bits.dtype is not dt.u32:
            self._b.fail(
                DTypeError,
                f"random bits of {random_bits.dtype}",
                op="stochastic_round",
                operands=[x, random_bits],
                hint="u32: b.pallas.bitcast(bits, u32)",
            )
        return self._b.stochastic_convert(x, random_bits, target_dtype)

    @idiom("pltpu.pack_elementwise(xs, packed_dtype=…)", "tpu.pack_elementwise", group="bits")
    def pack_elementwise(self, xs: Sequence[Value], packed_dtype: DType) -> Value:
        """`pltpu.pack_elementwise`: several vectors in one of unsigned integers, the first in the lowest bits.

        Args:
            xs: as many vectors of one type as narrow elements fit in a wide one.
            packed_dtype: bf16 of f32, or integers of wider integers.

        Example:
            >>> b.pallas.pack_elementwise([a.x[...], a.x[...]], bf16).dtype
            u32
        """
        packed = self._b.pack_elementwise(xs, packed_dtype)
        unsigned = {8: dt.u8, 16: dt.u16, 32: dt.u32}[packed.dtype.bits]
        return Value(packed._ir, self._b.types.like(packed._info, unsigned), packed._scope)

    @idiom("pltpu.unpack_elementwise(x, index=…, …)", "tpu.unpack_elementwise", group="bits")
    def unpack_elementwise(self, x: Value, *, index: int, packed_dtype: DType, unpacked_dtype: DType) -> Value:
        """`pltpu.unpack_elementwise`: the ``index``-th narrow element in each wide one, widened.

        Example:
            >>> b.pallas.unpack_elementwise(a.ints[...], index=1, packed_dtype=bf16, unpacked_dtype=f32).dtype
            f32
        """
        return self._b.unpack_elementwise(x, index, packed_dtype, unpacked_dtype)


_INTEGERS = {32: dt.i32, 16: dt.i16}
