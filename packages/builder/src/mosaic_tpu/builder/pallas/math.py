"""Functions of numbers: exponentials, logarithms, roots, powers, angles, rounding, kinds of numbers."""

from __future__ import annotations

import math

import numpy as np

from mosaic_tpu.builder import dtypes as dt
from mosaic_tpu.builder._registry import idiom
from mosaic_tpu.builder._value import Operand, Value
from mosaic_tpu.builder.dtypes import DType
from mosaic_tpu.builder.errors import DTypeError, KindError, UnsupportedOpError
from mosaic_tpu.builder.pallas.elementwise import ElementwiseIdioms

#: ``jnp.log10`` is a product with it, in the element type.
_ONE_OVER_LN_10 = 0.4342944819032518


class MathIdioms(ElementwiseIdioms):
    """`jnp` functions of one or two numbers; integers and booleans become f32 first, as in JAX."""

    def _inexact(self, x: Value, op: str) -> Value:
        """``x`` as floats: JAX's promotion of integers and booleans to f32."""
        self._value(x, op)
        if x.dtype.is_float:
            return x
        if not x.dtype.is_int:
            self._b.fail(DTypeError, f"does not take {x.dtype}", op=op, operands=[x], hint="floats or integers")
        return self.astype(x, dt.f32)

    def _function(self, name: str, op: str, x: Value) -> Value:
        x = self._inexact(x, name)
        return self._b._emit(op, x._info, [x._ir])

    # --- exponentials, logarithms, roots ----------------------------------------------------------------------------

    @idiom("jnp.exp(x)", "math.exp", group="math", traits=("elementwise", "pure"))
    def exp(self, x: Value) -> Value:
        """`jnp.exp`.

        Example:
            >>> b.pallas.exp(a.x[...]).dtype, b.pallas.exp(b.lift(1)).dtype
            (f32, f32)
        """
        return self._function("exp", "math.exp", x)

    @idiom("jnp.exp2(x)", "math.exp2", group="math", traits=("elementwise", "pure"))
    def exp2(self, x: Value) -> Value:
        """`jnp.exp2`: one ``math.exp2``, where the Zig DSL's ``b.exp2`` multiplies by ln 2.

        Example:
            >>> b.pallas.exp2(a.x[...]).shape
            (8, 128)
        """
        return self._function("exp2", "math.exp2", x)

    @idiom("jnp.log(x)", "math.log", group="math", traits=("elementwise", "pure"))
    def log(self, x: Value) -> Value:
        """`jnp.log`.

        Example:
            >>> b.pallas.log(a.x[...]).shape
            (8, 128)
        """
        return self._function("log", "math.log", x)

    @idiom("jnp.log1p(x)", "math.log1p", group="math", traits=("elementwise", "pure"))
    def log1p(self, x: Value) -> Value:
        """`jnp.log1p`: ``log(1 + x)``.

        Example:
            >>> b.pallas.log1p(a.x[...]).shape
            (8, 128)
        """
        return self._function("log1p", "math.log1p", x)

    @idiom("jnp.log2(x)", "math.log2", group="math", traits=("elementwise", "pure"))
    def log2(self, x: Value) -> Value:
        """`jnp.log2`.

        Example:
            >>> b.pallas.log2(a.x[...]).shape
            (8, 128)
        """
        return self._function("log2", "math.log2", x)

    @idiom("jnp.log10(x)", "math.log", "arith.mulf", group="math", traits=("elementwise", "pure"))
    def log10(self, x: Value) -> Value:
        """`jnp.log10`: the natural logarithm times ``1 / ln(10)``.

        Example:
            >>> b.pallas.log10(a.x[...]).shape
            (8, 128)
        """
        return self.mul(self._function("log10", "math.log", x), _ONE_OVER_LN_10)

    @idiom("jnp.sqrt(x)", "math.sqrt", group="math", traits=("elementwise", "pure"))
    def sqrt(self, x: Value) -> Value:
        """`jnp.sqrt`.

        Example:
            >>> b.pallas.sqrt(a.x[...]).shape
            (8, 128)
        """
        return self._function("sqrt", "math.sqrt", x)

    @idiom("lax.rsqrt(x)", "math.rsqrt", group="math", traits=("elementwise", "pure"))
    def rsqrt(self, x: Value) -> Value:
        """`lax.rsqrt`, of floats.

        Example:
            >>> b.pallas.rsqrt(a.x[...]).shape
            (8, 128)
        """
        return self._float_function("rsqrt", "math.rsqrt", x)

    def _float_function(self, name: str, op: str, x: Value) -> Value:
        """A function of lax, which promotes nothing."""
        self._value(x, name)
        if not x.dtype.is_float:
            self._b.fail(DTypeError, f"does not take {x.dtype}", op=name, operands=[x], hint="cast first: x.to(f32)")
        return self._b._emit(op, x._info, [x._ir])

    # --- angles, sigmoid, error function ----------------------------------------------------------------------------

    @idiom("jnp.sin(x)", "math.sin", group="math", traits=("elementwise", "pure"))
    def sin(self, x: Value) -> Value:
        """`jnp.sin`.

        Example:
            >>> b.pallas.sin(a.x[...]).shape
            (8, 128)
        """
        return self._function("sin", "math.sin", x)

    @idiom("jnp.cos(x)", "math.cos", group="math", traits=("elementwise", "pure"))
    def cos(self, x: Value) -> Value:
        """`jnp.cos`.

        Example:
            >>> b.pallas.cos(a.x[...]).shape
            (8, 128)
        """
        return self._function("cos", "math.cos", x)

    @idiom("jnp.tan(x)", "math.tan", group="math", traits=("elementwise", "pure"))
    def tan(self, x: Value) -> Value:
        """`jnp.tan`.

        Example:
            >>> b.pallas.tan(a.x[...]).shape
            (8, 128)
        """
        return self._function("tan", "math.tan", x)

    @idiom("jnp.tanh(x)", "math.tanh", group="math", traits=("elementwise", "pure"))
    def tanh(self, x: Value) -> Value:
        """`jnp.tanh`.

        Example:
            >>> b.pallas.tanh(a.x[...]).shape
            (8, 128)
        """
        return self._function("tanh", "math.tanh", x)

    @idiom("jnp.arctan2(y, x)", "math.atan2", group="math", traits=("elementwise", "pure"))
    def arctan2(self, y: Operand, x: Operand) -> Value:
        """`jnp.arctan2`: the angle of the point (x, y).

        Example:
            >>> b.pallas.arctan2(a.x[...], 1.0).shape
            (8, 128)
        """
        y, x = self._inexact_pair(y, x, "arctan2")
        return self._arithmetic("arctan2", y, x, None, None, "math.atan2")

    @idiom("jax.nn.sigmoid(x)", "tpu.logistic", group="math", traits=("elementwise", "pure"))
    def sigmoid(self, x: Value) -> Value:
        """`jax.nn.sigmoid`, `lax.logistic` of a float vector.

        Raises:
            KindError: a scalar, which Pallas refuses: ``1.0 / (1.0 + b.pallas.exp(-x))``.

        Example:
            >>> b.pallas.sigmoid(a.x[...]).shape
            (8, 128)
        """
        self._value(x, "sigmoid")
        if not x.is_vector:
            self._b.fail(
                KindError,
                "Pallas takes vectors only",
                op="sigmoid",
                operands=[x],
                hint="of a scalar: 1.0 / (1.0 + b.pallas.exp(-x))",
            )
        return self._float_function("sigmoid", "tpu.logistic", x)

    @idiom("lax.erf(x)", "math.erf", group="math", traits=("elementwise", "pure"))
    def erf(self, x: Value) -> Value:
        """`lax.erf`, `jax.scipy.special.erf`, of floats.

        Example:
            >>> b.pallas.erf(a.x[...]).shape
            (8, 128)
        """
        return self._float_function("erf", "math.erf", x)

    @idiom("lax.erf_inv(x)", "math.log1p", "math.sqrt", "arith.select", group="math", traits=("elementwise", "pure"))
    def erf_inv(self, x: Value) -> Value:
        """`lax.erf_inv` of f32: Giles's two polynomials, of degree 8.

        Example:
            >>> b.pallas.erf_inv(a.x[...]).shape
            (8, 128)
        """
        self._value(x, "erf_inv")
        if x.dtype is not dt.f32:
            self._b.fail(DTypeError, f"erf_inv of {x.dtype}", op="erf_inv", operands=[x], hint="cast to f32 first")
        return self._b._inlined("erf_inv", (x,), self._giles)[0]

    def _giles(self, x: Value) -> list[Value]:
        w = self.neg(self.log1p(self.mul(x, self.neg(x))))
        central = self.lt(w, 5.0)
        near = self.sub(w, 2.5)
        w = self.where(central, near, self.sub(self.sqrt(w), 3.0))
        shape = x.shape

        def coefficient(pair: tuple[float, float]) -> Value:
            first, second = (self._const(number, dt.f32) for number in pair)
            if shape:
                first, second = self._b.broadcast_to(first, shape), self._b.broadcast_to(second, shape)
            return self._b.select(central, first, second)

        p = coefficient(_GILES[0])
        for pair in _GILES[1:]:
            c = coefficient(pair)
            p = self.add(c, self.mul(p, w))
        edge = self.eq(self.abs(x), 1.0)
        infinite = self.mul(math.inf, x)
        return [self._b.select(edge, infinite, self.mul(p, x))]

    # --- powers -----------------------------------------------------------------------------------------------------

    @idiom("jnp.square(x)", "arith.mulf", "arith.muli", group="math", traits=("elementwise", "pure"))
    def square(self, x: Value) -> Value:
        """`jnp.square`.

        Example:
            >>> b.pallas.square(a.x[...]).shape
            (8, 128)
        """
        return self._arithmetic("square", self._value(x, "square"), x, "arith.muli", "arith.muli", "arith.mulf")

    @idiom("x ** y", "math.powf", "math.exp2", "arith.mulf", group="math", traits=("elementwise", "pure"))
    def power(self, x: Operand, y: Operand) -> Value:
        """`jnp.power`, ``x ** y``: products for a Python int, ``math.exp2`` for a base of 2, else ``math.powf``.

        Integers to the power of integers are products chosen by the bits of the power.

        Raises:
            UnsupportedOpError: a vector of floats to the power of an integer of another shape; cast that to floats.

        Example:
            >>> b.pallas.power(a.x[...], 3).shape, b.pallas.power(2.0, a.x[...]).shape
            ((8, 128), (8, 128))
        """
        self._check("power", x, y)
        with self._one_line("power"):
            if isinstance(x, Value) and isinstance(y, int | np.integer):
                return self.integer_pow(self.astype(x, dt.i32) if x.dtype is dt.i1 else x, int(y))
            common = self._common(x, y, "power")
            common = dt.i32 if common is dt.i1 else common
            if isinstance(x, Value) and isinstance(y, Value):
                self._joint_shape("power", x, y)
                x, y = self._ranks(x, y)
            if common.is_int:
                return self._power_of_integers(x, y, common)
            if isinstance(y, Value) and y.dtype.is_int and y.dtype is not dt.i1 and _is_float(x):
                return self._power_of_float(x, y, common)
            x, y = self._converted(x, y, common)
            if isinstance(y, Value) and not isinstance(x, Value) and x == 2:
                return self._b._emit("math.exp2", y._info, [y._ir])
            return self._arithmetic("power", x, y, None, None, "math.powf")

    def _power_of_float(self, x: Operand, y: Value, common: DType) -> Value:
        """A float to the power of an integer value: Pallas converts the power to the type of the result."""
        if not isinstance(x, Value):
            if x != 2:
                hint = "cast the power: x ** y.to(f32)"
                self._b.fail(UnsupportedOpError, f"{x} to the power of {y.dtype}", op="power", operands=[y], hint=hint)
            y = self.astype(y, common)
            return self._b._emit("math.exp2", y._info, [y._ir])
        if y.shape != self._joint_shape("power", x, y):
            self._b.fail(
                UnsupportedOpError,
                "an integer power of another shape than the result",
                op="power",
                operands=[x, y],
                hint="cast the power: x ** y.to(x.dtype)",
            )
        return self._arithmetic("power", x, self.astype(y, common), None, None, "math.powf")

    def _power_of_integers(self, x: Operand, y: Operand, common: DType) -> Value:
        """Six squares, each a factor where its bit of the power is set."""
        if not isinstance(y, Value):
            self._b.fail(UnsupportedOpError, f"a power of {y!r}", op="power", operands=[x], hint="write it as an int")
        # A number is a constant at each use, until it is squared.
        base = self.astype(x, common) if isinstance(x, Value) else self._b._number(x, common)[0]
        exponent = self.astype(y, common)

        def factor() -> Value:
            return base if isinstance(base, Value) else self._const(base, common)

        is_zero = self.bitwise_and(self.eq(factor(), 0), self.ne(exponent, 0))
        zero, one = self._const(0, common), self._const(1, common)
        product = self.where(is_zero, zero, one)
        for step in range(6):
            odd = self.bitwise_and(exponent, 1)
            multiplied = self.mul(product, base)
            product = self.where(self.ne(odd, 0), multiplied, product)
            if step < 5:
                base = self.mul(factor(), base)
                exponent = self._arithmetic("power", exponent, 1, "arith.shrui", "arith.shrui", None)
        return product

    @idiom("lax.integer_pow(x, n)", "arith.mulf", "arith.muli", group="math", traits=("elementwise", "pure"))
    def integer_pow(self, x: Value, n: int) -> Value:
        """`lax.integer_pow`, ``x ** n`` of a Python int: repeated squares; ``1 / x ** -n`` where n is negative.

        Raises:
            DTypeError: an integer to a negative power.

        Example:
            >>> b.pallas.integer_pow(a.x[...], 5).shape
            (8, 128)
        """
        self._value(x, "integer_pow")
        n = self._b._int(n, "integer_pow", "power")
        if x.dtype is dt.i1:
            self._b.fail(DTypeError, "a power of booleans", op="integer_pow", operands=[x], hint="cast to i32 first")
        if n < 0 and not x.dtype.is_float:
            self._b.fail(
                DTypeError, f"{x.dtype} to the power of {n}", op="integer_pow", operands=[x], hint="cast to f32 first"
            )
        if n == 0:
            return self._b.pallas.full(x.shape, 1, x.dtype)
        rest, square, product = abs(n), x, None
        with self._one_line("integer_pow"):
            while rest:
                if rest & 1:
                    product = square if product is None else self.mul(product, square)
                rest >>= 1
                if rest:
                    square = self.mul(square, square)
            assert product is not None
            return self.div(1.0, product) if n < 0 else product

    @idiom("pl.reciprocal(x)", "tpu.reciprocal", group="math", traits=("elementwise", "pure"))
    def reciprocal(self, x: Value, *, approx: bool = False, full_range: bool = False) -> Value:
        """`pl.reciprocal` of a vector of f32 or bf16; `jnp.reciprocal` is ``1 / x``.

        Args:
            x: a vector.
            approx: faster and looser.
            full_range: handle denormals and infinities; a forward-compatible Pallas leaves it out.

        Example:
            >>> b.pallas.reciprocal(a.x[...], approx=True).shape
            (8, 128)
        """
        self._b._use_vector(x, "reciprocal")
        if x.dtype not in (dt.f32, dt.bf16):
            self._b.fail(DTypeError, f"reciprocal of {x.dtype}", op="reciprocal", operands=[x], hint="f32 or bf16")
        return self._b.reciprocal(x, approximate=approx, full_range=full_range)

    # --- signs and rounding -----------------------------------------------------------------------------------------

    @idiom("jnp.abs(x)", "math.absf", "math.absi", group="math", traits=("elementwise", "pure"))
    def abs(self, x: Value) -> Value:
        """`jnp.abs`; nothing for unsigned integers and booleans.

        Example:
            >>> b.pallas.abs(a.x[...]).dtype, b.pallas.abs(b.lift(-1)).dtype
            (f32, i32)
        """
        self._value(x, "abs")
        if not (x.dtype.is_int or x.dtype.is_float):
            self._b.fail(DTypeError, f"does not take {x.dtype}", op="abs", operands=[x], hint="numbers only")
        return x if x.dtype.kind in ("uint", "bool") else self._b.abs(x)

    @idiom("jnp.floor(x)", "math.floor", group="math", traits=("elementwise", "pure"))
    def floor(self, x: Value) -> Value:
        """`jnp.floor`; nothing for integers.

        Example:
            >>> b.pallas.floor(a.x[...]).shape
            (8, 128)
        """
        return self._round("floor", "math.floor", x)

    @idiom("jnp.ceil(x)", "math.ceil", group="math", traits=("elementwise", "pure"))
    def ceil(self, x: Value) -> Value:
        """`jnp.ceil`; nothing for integers.

        Example:
            >>> b.pallas.ceil(a.x[...]).shape
            (8, 128)
        """
        return self._round("ceil", "math.ceil", x)

    @idiom("jnp.round(x)", "math.roundeven", "math.round", group="math", traits=("elementwise", "pure"))
    def round(self, x: Value, decimals: int = 0, *, away_from_zero: bool = False) -> Value:
        """`jnp.round`, `lax.round`; nothing for integers.

        Args:
            x: floats, or integers.
            decimals: digits behind the point: the number is scaled by a power of ten, and back; not negative for
                integers.
            away_from_zero: halves go away from zero, as with `lax.RoundingMethod.AWAY_FROM_ZERO`; to even if omitted.

        Raises:
            UnsupportedOpError: decimals of another type than f32 or bf16, or more than 38 of them.

        Example:
            >>> b.pallas.round(a.x[...]).shape, b.pallas.round(a.x[...], 2).shape
            ((8, 128), (8, 128))
        """
        away = self._b._flag(away_from_zero, "round", "away_from_zero")
        op = "math.round" if away else "math.roundeven"
        digits = self._b._int(decimals, "round", "number of decimals")
        if isinstance(x, Value) and x.dtype is dt.i1:  # pyright: ignore[reportUnnecessaryIsInstance]
            hint = "leave it out: a bool is round; or cast to i32 first"
            self._b.fail(DTypeError, "JAX rounds no bool", op="round", operands=[x], hint=hint)
        if not digits or (isinstance(x, Value) and x.dtype.is_int and digits > 0):  # pyright: ignore[reportUnnecessaryIsInstance]
            return self._round("round", op, x)
        self._value(x, "round")
        if x.dtype not in (dt.f32, dt.bf16) or abs(digits) > 38:
            hint = "f32 or bf16, by 38 decimals at most"
            self._b.fail(UnsupportedOpError, f"{x.dtype} to {digits} decimals", op="round", operands=[x], hint=hint)
        with self._one_line("round"):
            factor = float(10**digits) if digits > 0 else 1 / 10**-digits
            return self.div(self._round("round", op, self.mul(x, factor)), factor)

    def _rounded(self, x: Value, decimals: int | None) -> Value:
        """What Python's ``round`` gives: an i32 where no number of decimals is said."""
        with self._one_line("round"):
            rounded = self.round(x, 0 if decimals is None else decimals)
            return self.astype(rounded, dt.i32) if decimals is None else rounded

    def _round(self, name: str, op: str, x: Value) -> Value:
        self._value(x, name)
        return x if x.dtype.is_int else self._float_function(name, op, x)

    @idiom("jnp.trunc(x)", "math.ceil", "math.floor", "arith.select", group="math", traits=("elementwise", "pure"))
    def trunc(self, x: Value) -> Value:
        """`jnp.trunc`: towards zero; nothing for integers.

        Example:
            >>> b.pallas.trunc(a.x[...]).shape
            (8, 128)
        """
        self._value(x, "trunc")
        if x.dtype.is_int:
            return x
        with self._one_line("trunc"):
            negative = self.lt(x, 0.0)
            up = self._float_function("trunc", "math.ceil", x)
            return self._b.select(negative, up, self._float_function("trunc", "math.floor", x))

    # --- kinds of numbers -------------------------------------------------------------------------------------------

    @idiom("jnp.isnan(x)", "arith.cmpf", group="math", traits=("elementwise", "pure"))
    def isnan(self, x: Value) -> Value:
        """`jnp.isnan` of floats: ``x != x``.

        Example:
            >>> b.pallas.isnan(a.x[...]).dtype
            i1
        """
        self._floats(x, "isnan")
        return self.ne(x, x)

    @idiom("jnp.isinf(x)", "math.absf", "arith.cmpf", group="math", traits=("elementwise", "pure"))
    def isinf(self, x: Value) -> Value:
        """`jnp.isinf` of floats: ``abs(x) == inf``.

        Example:
            >>> b.pallas.isinf(a.x[...]).dtype
            i1
        """
        self._floats(x, "isinf")
        return self.eq(self._b.abs(x), math.inf)

    @idiom("jnp.isfinite(x)", "tpu.weird", "arith.xori", group="math", traits=("elementwise", "pure"))
    def isfinite(self, x: Value) -> Value:
        """`jnp.isfinite` of f32: not ``tpu.weird``.

        Raises:
            DTypeError: another type, which Pallas refuses too.

        Example:
            >>> b.pallas.isfinite(a.x[...]).dtype
            i1
        """
        self._value(x, "isfinite")
        if x.dtype is not dt.f32:
            self._b.fail(DTypeError, f"isfinite of {x.dtype}", op="isfinite", operands=[x], hint="cast to f32 first")
        weird = self._b._emit("tpu.weird", self._b.types.like(x._info, dt.i1), [x._ir])
        return self.bitwise_not(weird)

    def _floats(self, x: Value, op: str) -> None:
        self._value(x, op)
        if not x.dtype.is_float:
            self._b.fail(DTypeError, f"{op} of {x.dtype}", op=op, operands=[x], hint="integers are always finite")


def _is_float(x: Operand) -> bool:
    return x.dtype.is_float if isinstance(x, Value) else isinstance(x, float | np.floating)


#: From the highest power down: where ``-log1p(-x * x)`` is below 5, and elsewhere (M. Giles, 2010).
_GILES = (
    (2.81022636e-08, -0.000200214257),
    (3.43273939e-07, 0.000100950558),
    (-3.5233877e-06, 0.00134934322),
    (-4.39150654e-06, -0.00367342844),
    (0.00021858087, 0.00573950773),
    (-0.00125372503, -0.0076224613),
    (-0.00417768164, 0.00943887047),
    (0.246640727, 1.00167406),
    (1.50140941, 2.83297682),
)
