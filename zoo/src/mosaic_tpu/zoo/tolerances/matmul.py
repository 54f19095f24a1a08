"""Matmul in float64, and how far the matrix unit's roundings may carry it."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from mosaic_tpu.zoo.references.matmul import matmul as reference
from mosaic_tpu.zoo.tolerances._expected import Array, Expected, Float64
from mosaic_tpu.zoo.tolerances.rounding import BF16, F32, fits_bf16, spread, stored, unit_roundoff


def expected(x: Array, y: Array, *, out_dtype: Any = None) -> tuple[Expected]:
    """``x @ y``, stored in `out_dtype`, or x's. A sum of integers keeps the bits that an integer type has."""
    kind = np.dtype(x.dtype if out_dtype is None else out_dtype)
    value, bound = reference(x, y), of_matmul(x, y)
    if "int" not in kind.name:
        return (Expected(value, stored(value, bound, kind)),)
    if not bound.any():
        return (Expected(value.astype(np.int64).astype(kind).astype(np.float64), 0.0),)
    # A float's fraction is cut off, and it is brought into the range of the type. Where rounding may carry the sum over
    # a whole number, the result is off by one.
    info = ml_dtypes.iinfo(kind)
    low, whole, high = (
        np.clip(np.trunc(v), int(info.min), int(info.max)) for v in (value - bound, value, value + bound)
    )
    return (Expected(whole, np.where(low == high, 0.0, 1.0)),)


def of_matmul(x: Array, y: Array) -> Float64:
    """The bound of ``x @ y`` on the matrix unit, before it is stored.

    Each operand that bf16 cannot hold is rounded to it: a product xᵢyᵢ changes by 2⁻⁸ |xᵢyᵢ| for each. Products of bf16
    numbers are exact in f32, where K of them are added, whatever the order: a partial sum of k products of random
    signs is about √(k/K Σ(xᵢyᵢ)²) large and each addition rounds it by 2⁻²⁴, together K/2 · 2⁻⁴⁸ Σ(xᵢyᵢ)² in squares.
    Sums of integers are exact.
    """
    if unit_roundoff(x.dtype) == unit_roundoff(y.dtype) == 0.0:
        return np.zeros((x.shape[0], y.shape[1]))
    rounded = (not fits_bf16(x.dtype)) + (not fits_bf16(y.dtype))
    if x.dtype == y.dtype == np.float16:
        rounded = 0  # the matrix unit multiplies f16 as it is
    squares = x.astype(np.float64) ** 2 @ y.astype(np.float64) ** 2
    squares *= rounded * BF16**2 + x.shape[1] / 2 * F32**2
    return spread(squares)
