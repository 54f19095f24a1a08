"""The math dialect: element-wise functions."""

from __future__ import annotations

from typing import Literal

from mosaic_tpu.builder._core import Core
from mosaic_tpu.builder._registry import op
from mosaic_tpu.builder._value import Value
from mosaic_tpu.builder.errors import DTypeError, KindError


class MathOps(Core):
    """``math.*``. The result has the operand's type."""

    def _unary(self, name: str, x: Value, domain: Literal["int", "float"]) -> Value:
        used = self._use(x, name)
        info = x._info
        if info.is_ref:
            self.fail(KindError, "a ref is not a value", op=name, operands=[x], hint="load it first: ref[...]")
        if info.dtype.is_float != (domain == "float") or not (info.dtype.is_float or info.dtype.is_int):
            self.fail(DTypeError, f"needs {domain} elements", op=name, operands=[x])
        return self._emit(name, info, [used])

    @op("math.exp", traits=("elementwise", "pure"))
    def exp(self, x: Value) -> Value:
        """Exponential.

        Example:
            >>> b.exp(b.lift(1.0)).dtype
            f32
        """
        return self._unary("math.exp", x, "float")

    @op("math.log", traits=("elementwise", "pure"))
    def log(self, x: Value) -> Value:
        """Natural logarithm.

        Example:
            >>> b.log(b.lift(1.0)).dtype
            f32
        """
        return self._unary("math.log", x, "float")

    @op("math.log1p", traits=("elementwise", "pure"))
    def log1p(self, x: Value) -> Value:
        """``log(1 + x)``.

        Example:
            >>> b.log1p(b.lift(1.0)).dtype
            f32
        """
        return self._unary("math.log1p", x, "float")

    @op("math.log2", traits=("elementwise", "pure"))
    def log2(self, x: Value) -> Value:
        """Base-2 logarithm.

        Example:
            >>> b.log2(b.lift(1.0)).dtype
            f32
        """
        return self._unary("math.log2", x, "float")

    @op("math.sqrt", traits=("elementwise", "pure"))
    def sqrt(self, x: Value) -> Value:
        """Square root.

        Example:
            >>> b.sqrt(b.lift(1.0)).dtype
            f32
        """
        return self._unary("math.sqrt", x, "float")

    @op("math.rsqrt", traits=("elementwise", "pure"))
    def rsqrt(self, x: Value) -> Value:
        """Reciprocal square root.

        Example:
            >>> b.rsqrt(b.lift(1.0)).dtype
            f32
        """
        return self._unary("math.rsqrt", x, "float")

    @op("math.sin", traits=("elementwise", "pure"))
    def sin(self, x: Value) -> Value:
        """Sine, radians.

        Example:
            >>> b.sin(b.lift(1.0)).dtype
            f32
        """
        return self._unary("math.sin", x, "float")

    @op("math.cos", traits=("elementwise", "pure"))
    def cos(self, x: Value) -> Value:
        """Cosine, radians.

        Example:
            >>> b.cos(b.lift(1.0)).dtype
            f32
        """
        return self._unary("math.cos", x, "float")

    @op("math.tan", traits=("elementwise", "pure"))
    def tan(self, x: Value) -> Value:
        """Tangent, radians.

        Example:
            >>> b.tan(b.lift(1.0)).dtype
            f32
        """
        return self._unary("math.tan", x, "float")

    @op("math.tanh", traits=("elementwise", "pure"))
    def tanh(self, x: Value) -> Value:
        """Hyperbolic tangent.

        Example:
            >>> b.tanh(b.lift(1.0)).dtype
            f32
        """
        return self._unary("math.tanh", x, "float")

    @op("math.erf", traits=("elementwise", "pure"))
    def erf(self, x: Value) -> Value:
        """Error function.

        Example:
            >>> b.erf(b.lift(1.0)).dtype
            f32
        """
        return self._unary("math.erf", x, "float")

    @op("math.absf", traits=("elementwise", "pure"))
    def absf(self, x: Value) -> Value:
        """Float absolute value.

        Example:
            >>> b.absf(b.lift(-1.0)).dtype
            f32
        """
        return self._unary("math.absf", x, "float")

    @op("math.floor", traits=("elementwise", "pure"))
    def floor(self, x: Value) -> Value:
        """Largest integral float not above.

        Example:
            >>> b.floor(b.lift(1.5)).dtype
            f32
        """
        return self._unary("math.floor", x, "float")

    @op("math.ceil", traits=("elementwise", "pure"))
    def ceil(self, x: Value) -> Value:
        """Smallest integral float not below.

        Example:
            >>> b.ceil(b.lift(1.5)).dtype
            f32
        """
        return self._unary("math.ceil", x, "float")

    @op("math.round", traits=("elementwise", "pure"))
    def round(self, x: Value) -> Value:
        """Nearest integral float, halves away from zero.

        Example:
            >>> b.round(b.lift(1.5)).dtype
            f32
        """
        return self._unary("math.round", x, "float")

    @op("math.roundeven", traits=("elementwise", "pure"))
    def roundeven(self, x: Value) -> Value:
        """Nearest integral float, halves to even.

        Example:
            >>> b.roundeven(b.lift(1.5)).dtype
            f32
        """
        return self._unary("math.roundeven", x, "float")

    @op("math.absi", traits=("elementwise", "pure"))
    def absi(self, x: Value) -> Value:
        """Integer absolute value.

        Example:
            >>> b.absi(b.lift(7)).dtype
            i32
        """
        return self._unary("math.absi", x, "int")

    @op("math.ctlz", traits=("elementwise", "pure"))
    def ctlz(self, x: Value) -> Value:
        """Number of leading zero bits.

        Example:
            >>> b.ctlz(b.lift(7)).dtype
            i32
        """
        return self._unary("math.ctlz", x, "int")

    @op("math.ctpop", traits=("elementwise", "pure"))
    def ctpop(self, x: Value) -> Value:
        """Number of set bits.

        Example:
            >>> b.ctpop(b.lift(7)).dtype
            i32
        """
        return self._unary("math.ctpop", x, "int")

    @op("math.exp2", source="b.mathExp2(x)", traits=("elementwise", "pure"))
    def math_exp2(self, x: Value) -> Value:
        """Raw ``math.exp2``: what `jnp.exp2` emits today.

        Example:
            >>> b.math_exp2(b.lift(1.0)).dtype
            f32
        """
        return self._unary("math.exp2", x, "float")

    @op("math.absf", "math.absi", group="math", source="b.abs(x)", traits=("elementwise", "pure"))
    def abs(self, x: Value) -> Value:
        """Absolute value: ``math.absf`` or ``math.absi`` by the element type.

        Example:
            >>> b.abs(b.lift(-3)).dtype
            i32
        """
        self._use(x, "math.abs")
        return self.absf(x) if x.dtype.is_float else self.absi(x)

    def _math_binary(self, name: str, lhs: Value, rhs: Value) -> Value:
        a, b = self._use(lhs, name), self._use(rhs, name)
        self._same(lhs, rhs, name)
        if not lhs.dtype.is_float or lhs.is_ref:
            self.fail(DTypeError, "needs float elements", op=name, operands=[lhs, rhs])
        return self._emit(name, lhs._info, [a, b])

    @op("math.powf", traits=("elementwise", "pure"))
    def powf(self, x: Value, y: Value) -> Value:
        """``x`` to the power ``y``.

        Example:
            >>> b.powf(b.lift(2.0), b.lift(3.0)).dtype
            f32
        """
        return self._math_binary("math.powf", x, y)

    @op("math.atan2", traits=("elementwise", "pure"))
    def atan2(self, y: Value, x: Value) -> Value:
        """Angle of the point ``(x, y)``, radians.

        Example:
            >>> b.atan2(b.lift(1.0), b.lift(1.0)).dtype
            f32
        """
        return self._math_binary("math.atan2", y, x)

    @op("math.fma", traits=("elementwise", "pure"))
    def fma(self, x: Value, y: Value, z: Value) -> Value:
        """``x * y + z`` rounded once. Pallas never emits it.

        Example:
            >>> b.fma(b.lift(1.0), b.lift(2.0), b.lift(3.0)).dtype
            f32
        """
        used = self._use_all([x, y, z], "math.fma")
        self._same(x, y, "math.fma")
        self._same(x, z, "math.fma")
        if not x.dtype.is_float or x.is_ref:
            self.fail(DTypeError, "needs float elements", op="math.fma", operands=[x, y, z])
        return self._emit("math.fma", x._info, used)
