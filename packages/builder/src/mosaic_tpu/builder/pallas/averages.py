"""Reductions made of others: norms, weighted means, ranges, traces, and those that pass over NaN."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes

from mosaic_tpu.builder import dtypes as dt
from mosaic_tpu.builder._registry import idiom
from mosaic_tpu.builder._value import Value
from mosaic_tpu.builder.errors import AttributeValueError, DTypeError, ShapeError, UnsupportedOpError
from mosaic_tpu.builder.pallas.activations import ActivationIdioms
from mosaic_tpu.builder.pallas.fills import FillIdioms
from mosaic_tpu.builder.pallas.math import has_infinity
from mosaic_tpu.builder.pallas.movement import MovementIdioms
from mosaic_tpu.builder.pallas.reductions import Axis


class AverageIdioms(ActivationIdioms, FillIdioms, MovementIdioms):
    """`jnp.linalg.norm`, `jnp.average`, `jnp.nan*`, `jnp.trace`, `jax.nn.standardize`."""

    # --- norms --------------------------------------------------------------------------------------------------------

    @idiom("jnp.linalg.norm(x, ord, axis)", "vector.multi_reduction", "math.sqrt", "math.absf", group="averages")
    def norm(
        self, x: Value, ord: float | None = None, axis: int | tuple[int, int] | None = None, *, keepdims: bool = False
    ) -> Value:
        """`jnp.linalg.norm`: the root of the sum of squares, or another norm of vectors along one axis.

        Args:
            x: a vector.
            ord: 2 if omitted; along one axis also 0, 1, infinity or minus infinity.
            axis: one axis, two of a matrix, or all of them (a scalar result).
            keepdims: keep reduced axes with size 1.

        Raises:
            UnsupportedOpError: another ``ord``, or one of a matrix.

        Example:
            >>> b.pallas.norm(a.x[...], axis=1).shape, b.pallas.norm(a.x[...], 1, 0).shape
            ((8,), (128,))
        """
        self._b._use_vector(x, "norm")
        self._no_list(axis, "norm")
        axes = None if axis is None else self._axes(axis, x.rank, "norm", x)
        if not isinstance(ord, int | float | None):  # pyright: ignore[reportUnnecessaryIsInstance]
            self._b.fail(AttributeValueError, f"the order is {ord!r}", op="norm", operands=[x], hint="a number")
        with self._one_line("norm"):
            x = self._inexact(x, "norm")
            if ord is None or (ord == 2 and (x.rank if axes is None else len(axes)) == 1):
                return self.sqrt(self.sum(self.mul(x, x), axes, keepdims=keepdims))
            if (x.rank if axes is None else len(axes)) != 1 or ord not in (0, 1, math.inf, -math.inf):
                hint = "along one axis: 0, 1, 2, infinity or minus infinity"
                self._b.fail(UnsupportedOpError, f"a norm of order {ord}", op="norm", operands=[x], hint=hint)
            if ord == 0:
                return self.sum(self.ne(x, 0), axes, keepdims=keepdims, dtype=x.dtype)
            sizes = self._b.abs(x)
            if ord == 1:
                return self.sum(sizes, axes, keepdims=keepdims)
            if ord > 0:
                return self.max(sizes, axes, keepdims=keepdims, initial=0)
            return self.min(sizes, axes, keepdims=keepdims)

    @idiom("jax.nn.standardize(x, axis)", "vector.multi_reduction", "math.rsqrt", group="averages")
    def standardize(self, x: Value, axis: Axis = -1, *, epsilon: float | None = None) -> Value:
        """`jax.nn.standardize` of a float vector: less its mean, over its deviation.

        Args:
            x: a vector of floats.
            axis: one axis, several, or all of them.
            epsilon: added to the variance, 1e-5 if omitted; given, it is a constant of the call, as in JAX.

        Example:
            >>> b.pallas.standardize(a.x[...]).shape
            (8, 128)
        """
        self._b._use_vector(x, "standardize")
        self._float_value(x, "standardize")
        with self._one_line("standardize"):
            given = None if epsilon is None else self._own(epsilon)
            self._no_list(axis, "standardize")
            mean = self.mean(x, axis, keepdims=True)
            variance = self.sub(self.mean(self.square(x), axis, keepdims=True), self.square(mean))
            variance = self.clip(variance, 0)
            centred = self.sub(x, mean)
            more = 1e-5 if given is None else self.astype(given, x.dtype)
            return self.mul(centred, self.rsqrt(self.add(variance, more)))

    # --- means and ranges ---------------------------------------------------------------------------------------------

    @idiom("jnp.average(x, axis, weights)", "vector.multi_reduction", "arith.divf", group="averages")
    def average(self, x: Value, axis: Axis = None, weights: Value | None = None, *, keepdims: bool = False) -> Value:
        """`jnp.average`: `mean`, or with weights the sum of products over the sum of weights.

        Args:
            x: a vector.
            axis: one axis, several, or all of them (a scalar result).
            weights: of the shape of ``x``, or of rank 1 along the one axis.
            keepdims: keep reduced axes with size 1.

        Raises:
            ShapeError: the weights do not fit.
            DTypeError: JAX promotes neither of both types to the other.

        Example:
            >>> b.pallas.average(a.x[...], 1, a.x[...]).shape, b.pallas.average(a.x[...], 1, a.x[0]).shape
            ((8,), (8,))
        """
        self._b._use_vector(x, "average")
        with self._one_line("average"):
            if weights is None:
                return self.mean(x, axis, keepdims=keepdims)
            self._b._use_vector(weights, "average")
            dtype = self._inexact_type(x, weights, "average")
            x, weights = self.astype(x, dtype), self.astype(weights, dtype)
            if weights.shape != x.shape:
                weights = self._along(x, weights, axis)
            count = self.sum(weights, axis, keepdims=keepdims)
            return self.true_divide(self.sum(self.mul(x, weights), axis, keepdims=keepdims), count)

    def _along(self, x: Value, weights: Value, axis: Axis) -> Value:
        axes = () if axis is None else self._axes(axis, x.rank, "average", x)
        if len(axes) != 1 or weights.shape != (x.shape[axes[0]],):
            hint = "weights of the shape of x, or of rank 1 along one axis"
            self._b.fail(ShapeError, "the weights do not fit", op="average", operands=[x, weights], hint=hint)
        return self.reshape(weights, tuple(s if d in axes else 1 for d, s in enumerate(x.shape)))

    @idiom("jnp.ptp(x, axis)", "vector.multi_reduction", "arith.subf", "arith.subi", group="averages")
    def ptp(self, x: Value, axis: Axis = None, *, keepdims: bool = False) -> Value:
        """`jnp.ptp`: the largest less the smallest.

        Example:
            >>> b.pallas.ptp(a.x[...], 1).shape
            (8,)
        """
        with self._one_line("ptp"):
            largest = self.max(x, axis, keepdims=keepdims)
            return self.sub(largest, self.min(x, axis, keepdims=keepdims))

    @idiom("jnp.trace(x)", "tpu.iota", "arith.select", "vector.multi_reduction", group="averages")
    def trace(self, x: Value, offset: int | None = None, axis1: int = 0, axis2: int = 1) -> Value:
        """`jnp.trace`: the sum of a diagonal, all else masked.

        Args:
            x: a vector of rank 2 or more.
            offset: which diagonal, 0 if omitted; given, it is a constant of the call, as in JAX.
            axis1: where its rows are.
            axis2: where its columns are.

        Raises:
            ShapeError: a vector of rank 1.
            ArityError: the axes are not two of the vector.

        Example:
            >>> b.pallas.trace(a.x[...]).shape
            ()
        """
        self._b._use_vector(x, "trace")
        if x.rank < 2:
            self._b.fail(ShapeError, "a vector of rank 1 has no diagonal", op="trace", operands=[x], hint="rank 2")
        axes = self._axes((axis1, axis2), x.rank, "trace", x)
        with self._one_line("trace"):
            given = 0 if offset is None else self._own(self._b._int(offset, "trace", "offset"))
            x = self.moveaxis(x, axes, (-2, -1))
            diagonal = self._diagonal((x.shape[-2], x.shape[-1]), given)
            return self.sum(self.where(diagonal, x, self.zeros_like(x)), (-2, -1))

    # --- past NaN -----------------------------------------------------------------------------------------------------

    def _past_nan(self, x: Value, instead: float, op: str) -> Value:
        if not x.dtype.is_float:
            hint = "integers are never NaN: leave the nan out"
            self._b.fail(DTypeError, f"{op} of {x.dtype}", op=op, operands=[x], hint=hint)
        if math.isinf(instead) and not has_infinity(x.dtype):
            numpy: Any = ml_dtypes
            instead = math.copysign(float(numpy.finfo(x.dtype.numpy).max), instead)
        return self.where(self.ne(x, x), self._const(instead, x.dtype), x)

    @idiom("jnp.nansum(x, axis)", "arith.select", "vector.multi_reduction", group="averages")
    def nansum(self, x: Value, axis: Axis = None, *, keepdims: bool = False) -> Value:
        """`jnp.nansum` of floats: `sum`, with 0 for NaN.

        Raises:
            DTypeError: of integers, which are never NaN.

        Example:
            >>> b.pallas.nansum(a.x[...], 1).shape
            (8,)
        """
        self._b._use_vector(x, "nansum")
        with self._one_line("nansum"):
            self._no_list(axis, "nansum")
            return self.sum(self._past_nan(x, 0.0, "nansum"), axis, keepdims=keepdims)

    @idiom("jnp.nanmean(x, axis)", "arith.select", "vector.multi_reduction", "arith.divf", group="averages")
    def nanmean(self, x: Value, axis: Axis = None, *, keepdims: bool = False) -> Value:
        """`jnp.nanmean` of floats: the mean of what is not NaN.

        Raises:
            DTypeError: of integers, which are never NaN.

        Example:
            >>> b.pallas.nanmean(a.x[...], 1).shape
            (8,)
        """
        self._b._use_vector(x, "nanmean")
        self._no_list(axis, "nanmean")
        axes = None if axis is None else self._axes(axis, x.rank, "nanmean", x)
        with self._one_line("nanmean"):
            count = self.sum(self.bitwise_not(self.ne(x, x)), axes, keepdims=keepdims, dtype=x.dtype)
            total = self.sum(self._past_nan(x, 0.0, "nanmean"), axes, keepdims=keepdims, dtype=x.dtype)
            return self.div(total, count)

    @idiom("jnp.nanmax(x, axis)", "arith.select", "vector.multi_reduction", group="averages")
    def nanmax(self, x: Value, axis: Axis = None, *, keepdims: bool = False) -> Value:
        """`jnp.nanmax` of floats: the largest that is not NaN, NaN where all are.

        Raises:
            DTypeError: of integers, which are never NaN.

        Example:
            >>> b.pallas.nanmax(a.x[...], 1).shape
            (8,)
        """
        return self._nan_extreme("nanmax", x, axis, keepdims)

    @idiom("jnp.nanmin(x, axis)", "arith.select", "vector.multi_reduction", group="averages")
    def nanmin(self, x: Value, axis: Axis = None, *, keepdims: bool = False) -> Value:
        """`jnp.nanmin` of floats: the smallest that is not NaN, NaN where all are.

        Raises:
            DTypeError: of integers, which are never NaN.

        Example:
            >>> b.pallas.nanmin(a.x[...], 1).shape
            (8,)
        """
        return self._nan_extreme("nanmin", x, axis, keepdims)

    def _nan_extreme(self, name: str, x: Value, axis: Axis, keepdims: bool) -> Value:
        self._b._use_vector(x, name)
        reduce, lowest = (self.max, -math.inf) if name == "nanmax" else (self.min, math.inf)
        with self._one_line(name):
            self._no_list(axis, name)
            found = reduce(self._past_nan(x, lowest, name), axis, keepdims=keepdims)
            nothing = self.all(self.ne(x, x), axis, keepdims=keepdims)
            return self.where(nothing, self._const(math.nan, x.dtype), found)

    # --- diagonals ----------------------------------------------------------------------------------------------------

    @idiom("jnp.diag(x)", "tpu.iota", "arith.select", "arith.mulf", "vector.multi_reduction", group="averages")
    def diag(self, x: Value) -> Value:
        """`jnp.diag`: a vector of rank 1 on a diagonal, or the diagonal of a square matrix.

        Raises:
            ShapeError: the matrix is not square: Pallas refuses it.

        Example:
            >>> b.pallas.diag(a.x[0]).shape
            (128, 128)
        """
        self._b._use_vector(x, "diag")
        with self._one_line("diag"):
            if x.rank == 1:
                self._const(0, x.dtype)  # of the padding, which is none
                diagonal = self._diagonal((x.shape[0], x.shape[0]), 0)
                column = self.expand_dims(x, 1)
                return self.where(diagonal, column, self._const(0, x.dtype))
            if x.rank != 2 or x.shape[0] != x.shape[1]:
                self._b.fail(ShapeError, "a square matrix is needed", op="diag", operands=[x], hint="x[:n, :n]")
            ones = self.astype(self._diagonal(x.shape, 0), x.dtype)
            self._const(0, dt.i32)  # where the diagonal starts
            return self._reduce("diag", self.mul(ones, x), 0, False, "add")
