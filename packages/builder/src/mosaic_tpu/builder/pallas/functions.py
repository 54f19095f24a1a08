"""More functions of one number or two: lengths, extremes that pass over NaN, infinities, closeness, x log y."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from mosaic_tpu.builder import dtypes as dt
from mosaic_tpu.builder._compat import PALLAS_SCALES_HYPOT
from mosaic_tpu.builder._registry import idiom
from mosaic_tpu.builder._value import Operand, Value
from mosaic_tpu.builder.dtypes import DType
from mosaic_tpu.builder.errors import DTypeError, ShapeError
from mosaic_tpu.builder.pallas.activations import ActivationIdioms
from mosaic_tpu.builder.pallas.division import DivisionIdioms


class FunctionIdioms(ActivationIdioms, DivisionIdioms):
    """`jnp` and `jax.scipy.special` functions made of several ops."""

    # --- lengths ------------------------------------------------------------------------------------------------------

    @idiom("jnp.hypot(x, y)", "math.absf", "math.sqrt", "arith.select", group="functions")
    def hypot(self, x: Operand, y: Operand) -> Value:
        """`jnp.hypot`: the square root of ``x * x + y * y``, without overflow on the way.

        Since JAX 0.12 both are scaled by a power of two first; before, the larger was taken out.

        Example:
            >>> b.pallas.hypot(a.x[...], 1.0).shape
            (8, 128)
        """
        with self._one_line("hypot"):
            first, second = self._at_jit(x, y, "hypot", inexact=True)
            if not PALLAS_SCALES_HYPOT:
                return self._hypot_by_quotient(first, second)
            shape = self._joint_shape("hypot", first, second)
            first, second = (self._b.pallas.broadcast_to(v, shape) for v in (first, second))
            return self._b._inlined("hypot", (first, second), self._scaled_hypot)[0]

    def _hypot_by_quotient(self, x: Value, y: Value) -> Value:
        x, y = self._b.abs(x), self._b.abs(y)
        infinite = self.bitwise_or(self.eq(x, math.inf), self.eq(y, math.inf))
        x, y = self.maximum(x, y), self.minimum(x, y)
        zero = self.eq(x, 0)
        divisor = self.where(self.eq(x, 0), self._const(1, x.dtype), x)
        quotient = self.div(y, divisor)
        root = self.sqrt(self.add(1, self.mul(quotient, quotient)))
        found = self.where(zero, x, self.mul(x, root))
        return self.where(infinite, self._const(math.inf, x.dtype), found)

    def _scaled_hypot(self, x: Value, y: Value) -> list[Value]:
        info = _finfo(x.dtype)
        power = (info.nmant - info.minexp + 1) // 2
        high = (info.maxexp - 1) // 2
        sizes = self._b.abs(x), self._b.abs(y)
        larger = self.maximum(*sizes)
        is_large = self.ge(larger, 2.0**high)
        is_small = self.le(larger, 2.0 ** (high - power))
        down, up, one = (self._like(x, number) for number in (2.0**-power, 2.0**power, 1.0))

        def scaled(value: Value) -> Value:
            lower, raised = self.mul(value, down()), self.mul(value, up())
            return self._b.select(is_large, lower, self._b.select(is_small, raised, value))

        first, second = scaled(x), scaled(y)
        whole = one()
        less = self._b.select(is_small, down(), whole)
        back = self._b.select(is_large, up(), less)
        root = self.sqrt(self.add(self.mul(first, first), self.mul(second, second)))
        found = self.mul(root, back)
        infinity = self._like(x, math.inf)
        infinite = self.bitwise_or(self.eq(sizes[0], infinity()), self.eq(sizes[1], infinity()))
        return [self._b.select(infinite, infinity(), found)]

    def _like(self, x: Value, number: float) -> Callable[[], Value]:
        """`lax.full_like` at each use: one vector, but a constant each time of a scalar."""
        if not x.rank:
            return lambda: self._const(number, x.dtype)
        filled = self._b.pallas.full_like(x, number)
        return lambda: filled

    @idiom("jnp.deg2rad(x)", "arith.mulf", group="functions", traits=("elementwise", "pure"))
    def deg2rad(self, x: Value) -> Value:
        """`jnp.deg2rad`, `jnp.radians`.

        Example:
            >>> b.pallas.deg2rad(a.x[...]).dtype
            f32
        """
        return self.mul(self._inexact(x, "deg2rad"), math.pi / 180)

    @idiom("jnp.rad2deg(x)", "arith.mulf", group="functions", traits=("elementwise", "pure"))
    def rad2deg(self, x: Value) -> Value:
        """`jnp.rad2deg`, `jnp.degrees`.

        Example:
            >>> b.pallas.rad2deg(a.x[...]).dtype
            f32
        """
        return self.mul(self._inexact(x, "rad2deg"), 180 / math.pi)

    # --- extremes, parts ----------------------------------------------------------------------------------------------

    @idiom("jnp.fmin(x, y)", "arith.cmpf", "arith.select", group="functions", traits=("elementwise", "pure"))
    def fmin(self, x: Operand, y: Operand) -> Value:
        """`jnp.fmin` of floats: the number where one of both is NaN, where `minimum` gives NaN.

        Raises:
            DTypeError: of integers, which are never NaN.

        Example:
            >>> b.pallas.fmin(a.x[...], 0.0).shape
            (8, 128)
        """
        return self._extreme("fmin", "lt", x, y)

    @idiom("jnp.fmax(x, y)", "arith.cmpf", "arith.select", group="functions", traits=("elementwise", "pure"))
    def fmax(self, x: Operand, y: Operand) -> Value:
        """`jnp.fmax` of floats: the number where one of both is NaN, where `maximum` gives NaN.

        Raises:
            DTypeError: of integers, which are never NaN.

        Example:
            >>> b.pallas.fmax(a.x[...], 0.0).shape
            (8, 128)
        """
        return self._extreme("fmax", "gt", x, y)

    def _extreme(self, name: str, predicate: str, x: Operand, y: Operand) -> Value:
        self._check(name, x, y)
        common = self._common(x, y, name)
        if not common.is_float:
            hint = "integers are never NaN: b.pallas.minimum, maximum"
            self._b.fail(DTypeError, f"{name} of {common}", op=name, operands=[x, y], hint=hint)
        with self._one_line(name):
            first, second = self._jit_operand(x, common), self._jit_operand(y, common)
            chosen = self._compare(predicate, self.astype(first, common), self.astype(second, common))
            chosen = self.bitwise_or(chosen, self.ne(second, second))
            return self.where(chosen, self.astype(first, common), self.astype(second, common))

    @idiom("jnp.heaviside(x, y)", "arith.cmpf", "arith.select", group="functions", traits=("elementwise", "pure"))
    def heaviside(self, x: Value, y: Operand) -> Value:
        """`jnp.heaviside`: 0 below 0, 1 above it, ``y`` at it.

        Example:
            >>> b.pallas.heaviside(a.x[...], 0.5).shape
            (8, 128)
        """
        self._value(x, "heaviside")
        with self._one_line("heaviside"):
            at = self._own(y)
            dtype = self._inexact_type(x, y, "heaviside")
            x, at = self.astype(x, dtype), self.astype(at, dtype)
            below, above = self.lt(x, 0), self.gt(x, 0)
            rest = self.where(self.ne(x, x), x, at)
            rest = self.where(above, self._const(1, dtype), rest)
            return self.where(below, self._const(0, dtype), rest)

    @idiom("jnp.modf(x)", "math.floor", "math.ceil", "arith.subf", group="functions", traits=("elementwise", "pure"))
    def modf(self, x: Value) -> tuple[Value, Value]:
        """`jnp.modf`: what is behind the point, and what is before it.

        Example:
            >>> fraction, whole = b.pallas.modf(a.x[...])
            >>> fraction.shape
            (8, 128)
        """
        with self._one_line("modf"):
            x = self._inexact(x, "modf")
            positive = self.ge(x, 0)
            down = self.floor(x)
            whole = self._b.select(positive, down, self.ceil(x))
            return self.sub(x, whole), whole

    @idiom("jnp.divmod(x, y)", "arith.divsi", "arith.remsi", "arith.remf", group="functions")
    def divmod(self, x: Operand, y: Operand) -> tuple[Value, Value]:
        """`jnp.divmod`: `floor_divide` and `remainder`.

        Example:
            >>> quotient, rest = b.pallas.divmod(b.lift(7), 2)
            >>> quotient.dtype, rest.dtype
            (i32, i32)
        """
        first, second = self._at_jit(x, y, "divmod")
        with self._one_line("divmod"):
            if first.dtype.is_int:
                return self.floor_divide(first, second), self.remainder(first, second)
            quotient, rest = self._b._inlined("divmod", (first, second), self._float_divmod)
            return quotient, rest

    def _float_divmod(self, x: Value, y: Value) -> list[Value]:
        rest = self.rem(x, y)
        quotient = self.div(self.where(self.eq(y, 0), x, self.sub(x, rest)), y)
        inexact = self.ne(rest, 0)
        corrected = self.bitwise_and(inexact, self.ne(self.sign(y), self.sign(rest)))
        rest = self._b.select(corrected, self.add(rest, y), rest)
        return [self._b.round(self._b.select(corrected, self.sub(quotient, 1), quotient)), rest]

    # --- infinities and NaN -------------------------------------------------------------------------------------------

    @idiom("jnp.isposinf(x)", "arith.cmpf", group="functions", traits=("elementwise", "pure"))
    def isposinf(self, x: Value) -> Value:
        """`jnp.isposinf` of floats.

        Example:
            >>> b.pallas.isposinf(a.x[...]).dtype
            i1
        """
        self._floats(x, "isposinf")
        return self.eq(x, math.inf)

    @idiom("jnp.isneginf(x)", "arith.cmpf", group="functions", traits=("elementwise", "pure"))
    def isneginf(self, x: Value) -> Value:
        """`jnp.isneginf` of floats.

        Example:
            >>> b.pallas.isneginf(a.x[...]).dtype
            i1
        """
        self._floats(x, "isneginf")
        return self.eq(x, -math.inf)

    @idiom("jnp.nan_to_num(x)", "arith.cmpf", "arith.select", group="functions", traits=("elementwise", "pure"))
    def nan_to_num(
        self, x: Value, *, nan: float | None = None, posinf: float | None = None, neginf: float | None = None
    ) -> Value:
        """`jnp.nan_to_num`: other numbers for NaN and the infinities.

        Args:
            x: floats; integers are left as they are.
            nan: for NaN, 0 if omitted.
            posinf: for infinity, the largest number if omitted.
            neginf: for minus infinity, the lowest number if omitted.

        Raises:
            DTypeError: neither floats nor integers.

        Example:
            >>> b.pallas.nan_to_num(a.x[...]).dtype
            f32
        """
        self._value(x, "nan_to_num")
        if x.dtype.is_int:
            return x
        self._floats(x, "nan_to_num")
        largest = float(_finfo(x.dtype).max)
        with self._one_line("nan_to_num"):
            # What is given is a constant of the call; what is omitted is one at its use.
            given = [None if v is None else self._own(v) for v in (nan, posinf, neginf)]
            found = x
            for known, default, special in zip(
                given, (0.0, largest, -largest), (math.nan, math.inf, -math.inf), strict=True
            ):
                at = self.ne(found, found) if math.isnan(special) else self.eq(found, special)
                number = self._const(default, x.dtype) if known is None else self.astype(known, x.dtype)
                found = self.where(at, number, found)
            return found

    # --- closeness ----------------------------------------------------------------------------------------------------

    @idiom("jnp.isclose(x, y)", "tpu.weird", "arith.cmpf", group="functions", traits=("elementwise", "pure"))
    def isclose(
        self,
        x: Value,
        y: Operand,
        rtol: float | None = None,
        atol: float | None = None,
        *,
        equal_nan: bool = False,
    ) -> Value:
        """`jnp.isclose` of f32: ``abs(x - y) <= atol + rtol * abs(y)``, and infinities that are equal.

        Args:
            x: a scalar or a vector.
            y: what it is compared with.
            rtol: 1e-5 if omitted; given, it is a constant of the call, as in JAX.
            atol: 1e-8 if omitted; the same.
            equal_nan: NaN is close to NaN.

        Raises:
            DTypeError: the type of both is not f32: Pallas has no `isfinite` of others.

        Example:
            >>> b.pallas.isclose(a.x[...], 1.0).dtype
            i1
        """
        return self._isclose(x, y, rtol, atol, equal_nan, "isclose")

    def _isclose(self, x: Value, y: Operand, rtol: float | None, atol: float | None, equal_nan: bool, op: str) -> Value:
        self._value(x, op)
        self._check(op, y)
        with self._one_line(op):
            other = self._own(y)
            first, second = (
                1e-5 if rtol is None else self._own(rtol),
                1e-8 if atol is None else self._own(atol),
            )
            dtype = self._inexact_type(x, y, op)
            if dtype is not dt.f32:
                self._b.fail(DTypeError, f"{op} of {dtype}", op=op, operands=[x, y], hint="cast to f32 first")
            common = self._common(x, y, op)  # the types are promoted before both become floats
            x, other = self._ranks(self.astype(x, common), self.astype(other, common))
            pair = self.astype(x, dtype), self.astype(other, dtype)
            return self._is_close(*pair, first, second, self._b._flag(equal_nan, op, "equal_nan"))

    def _is_close(self, x: Value, y: Value, rtol: Operand, atol: Operand, equal_nan: bool) -> Value:
        both_nan = self.bitwise_and(self.ne(x, x), self.ne(y, y)) if equal_nan else None
        finite = self.isfinite(y)
        distance = self._b.abs(self.sub(x, y))
        near = self.le(distance, self.add(atol, self.mul(rtol, self._b.abs(y))))
        equal = self.eq(x, y)
        found = self.bitwise_or(equal, self.bitwise_and(finite, near))
        return found if both_nan is None else self.bitwise_or(found, both_nan)

    @idiom("jnp.allclose(x, y)", "tpu.weird", "arith.cmpf", "vector.multi_reduction", group="functions")
    def allclose(
        self, x: Value, y: Operand, rtol: float = 1e-5, atol: float = 1e-8, *, equal_nan: bool = False
    ) -> Value:
        """`jnp.allclose` of vectors of f32: `all` of `isclose`.

        Raises:
            DTypeError: the type of both is not f32, as of `isclose`.
            KindError: ``x`` is a scalar.

        Example:
            >>> b.pallas.allclose(a.x[...], 1.0).shape
            ()
        """
        self._b._use_vector(x, "allclose")
        with self._one_line("allclose"):
            return self.all(self._isclose(x, y, rtol, atol, equal_nan, "allclose"))

    @idiom("jnp.array_equal(x, y)", "arith.cmpf", "vector.multi_reduction", group="functions")
    def array_equal(self, x: Value, y: Value) -> Value:
        """`jnp.array_equal` of vectors of one shape.

        Raises:
            ShapeError: the vectors have two shapes.

        Example:
            >>> b.pallas.array_equal(a.x[...], a.y[...]).shape
            ()
        """
        for value in (x, y):
            self._b._use_vector(value, "array_equal")
        if x.shape != y.shape:
            self._b.fail(ShapeError, "vectors of two shapes are never equal", op="array_equal", operands=[x, y])
        with self._one_line("array_equal"):
            return self.all(self.eq(x, y))

    # --- x log y ------------------------------------------------------------------------------------------------------

    @idiom("jax.scipy.special.xlogy(x, y)", "math.log", "arith.select", group="functions")
    def xlogy(self, x: Operand, y: Operand) -> Value:
        """`jax.scipy.special.xlogy`: ``x * log(y)``, 0 where ``x`` is 0.

        Example:
            >>> b.pallas.xlogy(a.x[...], a.x[...]).shape
            (8, 128)
        """
        return self._times_log("xlogy", "math.log", x, y)

    @idiom("jax.scipy.special.xlog1py(x, y)", "math.log1p", "arith.select", group="functions")
    def xlog1py(self, x: Operand, y: Operand) -> Value:
        """`jax.scipy.special.xlog1py`: ``x * log(1 + y)``, 0 where ``x`` is 0.

        Example:
            >>> b.pallas.xlog1py(a.x[...], a.x[...]).shape
            (8, 128)
        """
        return self._times_log("xlog1py", "math.log1p", x, y)

    def _times_log(self, name: str, op: str, x: Operand, y: Operand) -> Value:
        with self._one_line(name):
            first, second = self._at_jit(x, y, name, inexact=True)
            useful = self.bitwise_or(self.ne(first, 0.0), self.ne(second, second))
            product = self.mul(first, self._b._emit(op, second._info, [second._ir]))
            return self.where(useful, product, self._b.pallas.zeros_like(first))

    @idiom("jax.scipy.special.entr(x)", "math.log", "arith.select", group="functions")
    def entr(self, x: Value) -> Value:
        """`jax.scipy.special.entr`: ``-x * log(x)``, 0 at 0, minus infinity below.

        Example:
            >>> b.pallas.entr(a.x[...]).shape
            (8, 128)
        """
        with self._one_line("entr"):
            x = self._inexact(x, "entr")
            negative = self.lt(x, 0)
            lowest = self._like(x, -math.inf)
            product = self.neg(self.xlogy(x, x))
            return self._b.select(negative, lowest(), product)

    @idiom("jax.scipy.special.logit(x)", "arith.divf", "math.log", group="functions")
    def logit(self, x: Value) -> Value:
        """`jax.scipy.special.logit`: ``log(x / (1 - x))``, what `sigmoid` undoes.

        Example:
            >>> b.pallas.logit(a.x[...]).shape
            (8, 128)
        """
        with self._one_line("logit"):
            x = self._inexact(x, "logit")
            return self.log(self.div(x, self.sub(1, x)))

    @idiom("jnp.logaddexp2(x, y)", "math.exp2", "math.log1p", "arith.select", group="functions")
    def logaddexp2(self, x: Operand, y: Operand) -> Value:
        """`jnp.logaddexp2`: ``log2(2 ** x + 2 ** y)``.

        Example:
            >>> b.pallas.logaddexp2(a.x[...], a.x[...]).shape
            (8, 128)
        """
        with self._one_line("logaddexp2"):
            first, second = self._inexact_values(x, y, "logaddexp2")
            return self._b._inlined("logaddexp2", (first, second), self._logaddexp2)[0]

    def _logaddexp2(self, x: Value, y: Value) -> list[Value]:
        largest = self.maximum(x, y)
        delta = self.sub(x, y)
        is_nan = self.ne(delta, delta)
        total = self.add(x, y)
        power = self.exp2(self.neg(self._b.abs(delta)))
        # The factor is rounded to the element type before it is a constant, as NumPy rounds it.
        factor = float(x.dtype.numpy.type(1 / np.log(2)) if x.dtype.numpy is not None else 0)
        return [self.where(is_nan, total, self.add(largest, self.mul(factor, self.log1p(power))))]


def _finfo(dtype: DType) -> Any:
    return ml_dtypes.finfo(dtype.numpy)  # pyright: ignore[reportArgumentType, reportUnknownVariableType]
