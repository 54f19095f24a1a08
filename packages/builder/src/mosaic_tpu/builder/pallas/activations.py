"""jax.nn: what is put between layers, and the soft maximum."""

from __future__ import annotations

import math

import numpy as np

from mosaic_tpu.builder import dtypes as dt
from mosaic_tpu.builder._registry import idiom
from mosaic_tpu.builder._value import Operand, Value
from mosaic_tpu.builder.dtypes import DType
from mosaic_tpu.builder.errors import DTypeError, ShapeError
from mosaic_tpu.builder.pallas.choices import ChoiceIdioms
from mosaic_tpu.builder.pallas.math import MathIdioms
from mosaic_tpu.builder.pallas.reductions import Axis, ReductionIdioms


class ActivationIdioms(ReductionIdioms, MathIdioms, ChoiceIdioms):
    """`jax.nn` functions and their relatives of jnp."""

    def _float_value(self, x: Value, op: str) -> Value:
        self._value(x, op)
        if not x.dtype.is_float:
            self._b.fail(DTypeError, f"{op} of {x.dtype}", op=op, operands=[x], hint="cast to f32 first")
        return x

    @idiom("jax.nn.relu(x)", "arith.maximumf", "arith.maxsi", group="activations", traits=("elementwise", "pure"))
    def relu(self, x: Value) -> Value:
        """`jax.nn.relu`: ``maximum(x, 0)``.

        Example:
            >>> b.pallas.relu(a.x[...]).shape
            (8, 128)
        """
        return self.maximum(self._value(x, "relu"), 0)

    @idiom("jax.nn.relu6(x)", "arith.maximumf", "arith.minimumf", group="activations", traits=("elementwise", "pure"))
    def relu6(self, x: Value) -> Value:
        """`jax.nn.relu6`: ``minimum(maximum(x, 0), 6)`` of floats.

        Example:
            >>> b.pallas.relu6(a.x[...]).shape
            (8, 128)
        """
        with self._one_line("relu6"):
            return self.minimum(self.maximum(self._float_value(x, "relu6"), 0.0), 6.0)

    @idiom("jax.nn.leaky_relu(x)", "arith.cmpf", "arith.select", group="activations", traits=("elementwise", "pure"))
    def leaky_relu(self, x: Value, negative_slope: float | None = None) -> Value:
        """`jax.nn.leaky_relu` of floats.

        Args:
            x: floats.
            negative_slope: a Python number, 0.01 if omitted; given, it is a constant of the call, as in JAX.

        Example:
            >>> b.pallas.leaky_relu(a.x[...]).shape
            (8, 128)
        """
        x = self._float_value(x, "leaky_relu")
        with self._one_line("leaky_relu"):
            slope = None if negative_slope is None else self._own(negative_slope)
            positive = self.ge(x, 0)
            below = self.mul(0.01 if slope is None else self.astype(slope, x.dtype), x)
            return self._b.select(positive, x, below)

    @idiom("jax.nn.silu(x)", "tpu.logistic", "arith.mulf", group="activations", traits=("elementwise", "pure"))
    def silu(self, x: Value) -> Value:
        """`jax.nn.silu` of a float vector: ``x * sigmoid(x)``.

        Example:
            >>> b.pallas.silu(a.x[...]).shape
            (8, 128)
        """
        with self._one_line("silu"):
            return self.mul(x, self.sigmoid(x))

    @idiom("jax.nn.gelu(x)", "math.tanh", "arith.mulf", group="activations", traits=("elementwise", "pure"))
    def gelu(self, x: Value) -> Value:
        """`jax.nn.gelu` with its tanh approximation (Pallas has no erfc for the other one).

        Example:
            >>> b.pallas.gelu(a.x[...]).shape
            (8, 128)
        """
        return self._b._inlined("gelu", (self._float_value(x, "gelu"),), self._gelu)[0]

    def _gelu(self, x: Value) -> list[Value]:
        # The factor is rounded to the element type before it is a constant, as NumPy rounds it.
        root = np.sqrt(2 / np.pi).astype(x.dtype.numpy)
        cube = self.mul(0.044715, self.integer_pow(x, 3))
        inner = self.mul(float(root), self.add(x, cube))
        cdf = self.mul(0.5, self.add(1.0, self.tanh(inner)))
        return [self.mul(x, cdf)]

    # --- made of straight lines ---------------------------------------------------------------------------------------

    @idiom("jax.nn.hard_sigmoid(x)", "arith.addf", "arith.maximumf", "arith.divf", group="activations")
    def hard_sigmoid(self, x: Value) -> Value:
        """`jax.nn.hard_sigmoid` of floats: ``relu6(x + 3) / 6``.

        Example:
            >>> b.pallas.hard_sigmoid(a.x[...]).shape
            (8, 128)
        """
        with self._one_line("hard_sigmoid"):
            return self.true_divide(self.relu6(self.add(self._float_value(x, "hard_sigmoid"), 3.0)), 6.0)

    @idiom("jax.nn.hard_silu(x)", "arith.addf", "arith.maximumf", "arith.mulf", group="activations")
    def hard_silu(self, x: Value) -> Value:
        """`jax.nn.hard_silu`, `jax.nn.hard_swish` of floats: ``x * hard_sigmoid(x)``.

        Example:
            >>> b.pallas.hard_silu(a.x[...]).shape
            (8, 128)
        """
        with self._one_line("hard_silu"):
            return self.mul(x, self.hard_sigmoid(x))

    @idiom("jax.nn.hard_tanh(x)", "arith.cmpf", "arith.select", group="activations", traits=("elementwise", "pure"))
    def hard_tanh(self, x: Value) -> Value:
        """`jax.nn.hard_tanh`: at least -1, at most 1.

        Example:
            >>> b.pallas.hard_tanh(a.x[...]).shape
            (8, 128)
        """
        self._value(x, "hard_tanh")
        with self._one_line("hard_tanh"):
            above, below = self.gt(x, 1), self.lt(x, -1)
            return self.where(above, 1, self.where(below, -1, x))

    @idiom("jax.nn.sparse_plus(x)", "arith.cmpf", "arith.mulf", "arith.select", group="activations")
    def sparse_plus(self, x: Value) -> Value:
        """`jax.nn.sparse_plus` of floats: 0 up to -1, ``x`` from 1 on, and ``(x + 1) ** 2 / 4`` between.

        Example:
            >>> b.pallas.sparse_plus(a.x[...]).shape
            (8, 128)
        """
        x = self._float_value(x, "sparse_plus")
        with self._one_line("sparse_plus"):
            below, above = self.le(x, -1.0), self.ge(x, 1.0)
            between = self.true_divide(self.integer_pow(self.add(x, 1.0), 2), 4)
            return self.where(below, 0.0, self.where(above, x, between))

    @idiom("jax.nn.sparse_sigmoid(x)", "arith.addf", "arith.maximumf", "arith.mulf", group="activations")
    def sparse_sigmoid(self, x: Value) -> Value:
        """`jax.nn.sparse_sigmoid` of floats: ``clip(x + 1, 0, 2) / 2``.

        Example:
            >>> b.pallas.sparse_sigmoid(a.x[...]).shape
            (8, 128)
        """
        x = self._float_value(x, "sparse_sigmoid")
        with self._one_line("sparse_sigmoid"):
            return self.mul(0.5, self.clip(self.add(x, 1.0), 0.0, 2.0))

    # --- and others ---------------------------------------------------------------------------------------------------

    @idiom("jax.nn.soft_sign(x)", "math.absf", "arith.divf", group="activations", traits=("elementwise", "pure"))
    def soft_sign(self, x: Value) -> Value:
        """`jax.nn.soft_sign` of floats: ``x / (abs(x) + 1)``.

        Example:
            >>> b.pallas.soft_sign(a.x[...]).shape
            (8, 128)
        """
        x = self._float_value(x, "soft_sign")
        with self._one_line("soft_sign"):
            return self.true_divide(x, self.add(self._b.abs(x), 1))

    @idiom("jax.nn.squareplus(x)", "math.sqrt", "arith.divf", group="activations", traits=("elementwise", "pure"))
    def squareplus(self, x: Value, b: float | None = None) -> Value:
        """`jax.nn.squareplus` of floats: ``(x + sqrt(x * x + b)) / 2``.

        Args:
            x: floats.
            b: a Python number, 4 if omitted; given, it is a constant of the call, as in JAX.

        Example:
            >>> b.pallas.squareplus(a.x[...]).shape
            (8, 128)
        """
        x = self._float_value(x, "squareplus")
        with self._one_line("squareplus"):
            given = None if b is None else self._own(b)
            squares = self.square(x)
            more = 4 if given is None else self.astype(given, x.dtype)
            return self.true_divide(self.add(x, self.sqrt(self.add(squares, more))), 2)

    @idiom("jax.nn.mish(x)", "math.tanh", "arith.mulf", group="activations", traits=("elementwise", "pure"))
    def mish(self, x: Value) -> Value:
        """`jax.nn.mish` of floats: ``x * tanh(softplus(x))``.

        Example:
            >>> b.pallas.mish(a.x[...]).shape
            (8, 128)
        """
        with self._one_line("mish"):
            return self.mul(x, self.tanh(self.softplus(x)))

    @idiom("jax.nn.glu(x, axis)", "vector.extract_strided_slice", "tpu.logistic", group="activations")
    def glu(self, x: Value, axis: int = -1) -> Value:
        """`jax.nn.glu` of a vector of floats: one half times the sigmoid of the other.

        Example:
            >>> b.pallas.glu(a.x[...], 0).shape
            (4, 128)
        """
        self._b._use_vector(x, "glu")
        self._float_value(x, "glu")
        at = self._axis(axis, x.rank, "glu", x)
        if x.shape[at] % 2:
            self._b.fail(
                ShapeError, f"{x.shape[at]} elements have no half", op="glu", operands=[x], hint="an even size"
            )
        with self._one_line("glu"):
            first, second = self._b.pallas.split(x, 2, at)
            return self.mul(first, self.sigmoid(second))

    # --- logarithms of sums of exponentials ---------------------------------------------------------------------------

    @idiom("jnp.logaddexp(x, y)", "math.exp", "math.log1p", "arith.select", group="activations")
    def logaddexp(self, x: Operand, y: Operand) -> Value:
        """`jnp.logaddexp`: ``log(exp(x) + exp(y))``.

        Example:
            >>> b.pallas.logaddexp(a.x[...], a.x[...]).shape
            (8, 128)
        """
        with self._one_line("logaddexp"):
            first, second = self._inexact_values(x, y, "logaddexp")
            return self._b._inlined("logaddexp", (first, second), self._logaddexp)[0]

    def _logaddexp(self, x: Value, y: Value) -> list[Value]:
        largest = self.maximum(x, y)
        delta = self.sub(x, y)
        is_nan = self.ne(delta, delta)
        total = self.add(x, y)
        return [self._b.select(is_nan, total, self.add(largest, self.log1p(self.exp(self.neg(self._b.abs(delta))))))]

    @idiom("jax.nn.softplus(x)", "math.exp", "math.log1p", group="activations", traits=("elementwise", "pure"))
    def softplus(self, x: Value) -> Value:
        """`jax.nn.softplus` of floats: ``log(1 + exp(x))``.

        Example:
            >>> b.pallas.softplus(a.x[...]).shape
            (8, 128)
        """
        return self._b._inlined("softplus", (self._float_value(x, "softplus"),), self._softplus)[0]

    def _softplus(self, x: Value) -> list[Value]:
        return self._logaddexp(x, self._const(0.0, x.dtype))

    @idiom("jax.nn.log_sigmoid(x)", "math.exp", "math.log1p", group="activations", traits=("elementwise", "pure"))
    def log_sigmoid(self, x: Value) -> Value:
        """`jax.nn.log_sigmoid` of floats: ``-softplus(-x)``.

        Example:
            >>> b.pallas.log_sigmoid(a.x[...]).shape
            (8, 128)
        """
        x = self._float_value(x, "log_sigmoid")
        with self._one_line("log_sigmoid"):
            return self.neg(self.softplus(self.neg(x)))

    # --- soft maximum -------------------------------------------------------------------------------------------------

    @idiom("jax.nn.softmax(x, axis)", "math.exp", "arith.divf", group="activations", traits=("reduction", "pure"))
    def softmax(self, x: Value, axis: int | tuple[int, ...] = -1) -> Value:
        """`jax.nn.softmax` of a float vector.

        Example:
            >>> b.pallas.softmax(a.x[...]).shape
            (8, 128)
        """
        with self._one_line("softmax"):
            exponentials = self.exp(self._shifted(x, axis, "softmax"))
            return self.true_divide(exponentials, self.sum(exponentials, axis, keepdims=True))

    @idiom("jax.nn.log_softmax(x, axis)", "math.exp", "math.log", group="activations", traits=("reduction", "pure"))
    def log_softmax(self, x: Value, axis: int | tuple[int, ...] = -1) -> Value:
        """`jax.nn.log_softmax` of a float vector.

        Example:
            >>> b.pallas.log_softmax(a.x[...]).shape
            (8, 128)
        """
        with self._one_line("log_softmax"):
            self._no_list(axis, "log_softmax")
            shifted = self._shifted(x, axis, "log_softmax")
            return self.sub(shifted, self.log(self.sum(self.exp(shifted), axis, keepdims=True)))

    def _shifted(self, x: Value, axis: Axis, op: str) -> Value:
        """``x`` less its maximum, which JAX starts from minus infinity once more."""
        self._b._use_vector(x, op)
        self._float_value(x, op)
        axes = None if axis is None else self._axes(axis, x.rank, op, x)
        return self.sub(x, self._kept(self._from_infinity(self.max(x, axes)), x.shape, axes))

    def _from_infinity(self, largest: Value) -> Value:
        return self.maximum(-math.inf, largest)

    @idiom("jax.nn.logsumexp(x, axis)", "math.exp", "math.log", "tpu.weird", group="activations")
    def logsumexp(self, x: Value, axis: Axis = None, *, keepdims: bool = False) -> Value:
        """`jax.nn.logsumexp` of a vector of f32.

        Raises:
            DTypeError: another element type, which Pallas refuses too.

        Example:
            >>> b.pallas.logsumexp(a.x[...], 1).shape
            (8,)
        """
        self._b._use_vector(x, "logsumexp")
        if x.dtype is not dt.f32:
            self._b.fail(DTypeError, f"logsumexp of {x.dtype}", op="logsumexp", operands=[x], hint="cast to f32 first")
        axes = None if axis is None else self._axes(axis, x.rank, "logsumexp", x)
        keepdims = self._b._flag(keepdims, "logsumexp", "keepdims")
        with self._one_line("logsumexp"):
            largest = self._from_infinity(self.max(x, axes))
            if keepdims:
                largest = self._kept(largest, x.shape, axes)
            largest = self.where(self.isfinite(largest), largest, 0.0)
            wide = largest if keepdims else self._kept(largest, x.shape, axes)
            total = self.sum(self.exp(self.sub(x, wide)), axes, keepdims=keepdims)
            return self.add(self.log(self.abs(total)), wide if keepdims else largest)

    @idiom("jax.nn.one_hot(x, n)", "tpu.iota", "arith.cmpi", "arith.extui", group="activations")
    def one_hot(self, x: Value, num_classes: int, *, dtype: DType = dt.f32, axis: int = -1) -> Value:
        """`jax.nn.one_hot` of integers: 1 where the new dimension's index is the value.

        Args:
            x: a vector or a scalar of i32.
            num_classes: size of the new dimension.
            dtype: of the result.
            axis: where the new dimension stands in the result.

        Example:
            >>> b.pallas.one_hot(a.ints[0], 8).shape
            (128, 8)
        """
        self._value(x, "one_hot")
        if x.dtype is not dt.i32:
            self._b.fail(DTypeError, f"one_hot of {x.dtype}", op="one_hot", operands=[x], hint="i32 indices")
        size = self._b._int(num_classes, "one_hot", "number of classes")
        at = self._axis(axis, x.rank + 1, "one_hot", x)
        with self._one_line("one_hot"):
            column = self._b.pallas.expand_dims(x, at)
            counted = tuple(size if d == at else 1 for d in range(x.rank + 1))
            found = self.eq(column, self._b.pallas.broadcasted_iota(dt.i32, counted, at))
            return self.astype(found, self._b._element(dtype, "one_hot"))
