"""Arrays with a bound on how far an engine may be from them: a running error analysis.

An error of 0 means the same bits (any zero, any NaN); one of infinity means nothing is known. An operation bounds the
error of its result from those of its operands and the roundings it makes. What depends on an inexact value through a
comparison, a conversion to integers or its bits is exact if every value within the bounds gives the same, else unknown.

`Rounding` says what an engine may do. The reference engine computes with NumPy's own f32 operations, so that sums,
differences, products and quotients of exact operands are exact. XLA flushes denormals to zero, so that what has to do
with one is unknown; when it compiles, it also contracts products and sums, whose results may be off by a rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final

import ml_dtypes
import numpy as np

Array = np.ndarray[Any, Any]
BF16: Final = np.dtype(ml_dtypes.bfloat16)
F32: Final = np.dtype(np.float32)
#: Unit roundoff of f32, and its smallest normal number.
UNIT: Final = 2.0**-24
SMALLEST: Final = 2.0**-126
_LARGEST: Final = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class Rounding:
    """What an engine may do.

    Attributes:
        flushes: denormals to zero.
        contracts: each operation may be off by one more rounding.
    """

    flushes: bool = False
    contracts: bool = False


_REFERENCE: Final = Rounding()
_rounding: ContextVar[Rounding] = ContextVar("rounding", default=_REFERENCE)


@contextmanager
def rounding(found: Rounding) -> Iterator[None]:
    """Bounds for an engine that does this."""
    token = _rounding.set(found)
    try:
        yield
    finally:
        _rounding.reset(token)


def rounding_now() -> Rounding:
    """What the engine may do that bounds are wanted for."""
    return _rounding.get()


@dataclass(frozen=True, eq=False)
class Tracked:
    """Attributes: ``value``, and ``error`` of its shape in f64."""

    value: Array
    error: Array

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.value.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        return self.value.shape

    def map(self, move: Callable[[Array], Array]) -> Tracked:
        """Both moved the same way."""
        return Tracked(move(self.value), move(self.error))


def exact(value: Any, dtype: Any = None) -> Tracked:
    """A value without error."""
    array = np.asarray(value, dtype)
    return Tracked(array, np.zeros(array.shape))


def is_float(dtype: np.dtype[Any]) -> bool:
    return dtype in (BF16, F32)


def known_if(condition: Array) -> Array:
    """An error: 0 where the condition holds, else infinity."""
    return np.where(condition, 0.0, np.inf)


def wide(x: Tracked) -> Array:
    """A float's value in f64."""
    with np.errstate(invalid="ignore"):  # signalling NaNs
        return x.value.astype(np.float64)


def magnitude(x: Tracked) -> Array:
    """A float's absolute value, or 0 where it is not finite."""
    found = np.abs(wide(x))
    return np.where(np.isfinite(found), found, 0.0)


def bits_known(x: Tracked) -> Array:
    """Where the bits are: of a NaN they are not, and of no zero that was computed."""
    known = x.error == 0
    return known & ~np.isnan(wide(x)) & ((x.value != 0) | ~np.signbit(wide(x))) if is_float(x.dtype) else known


def denormal(x: Tracked) -> Array:
    """Where a float may be denormal."""
    if not is_float(x.dtype):
        return np.zeros(x.shape, bool)
    size = np.abs(wide(x))
    with np.errstate(invalid="ignore"):  # infinity of which nothing is known
        return (size - x.error < SMALLEST) & ((size > 0) | (x.error > 0))


def rounded(value: Array, propagated: Array, operands: tuple[Tracked, ...], *, ulps: float = 0.0) -> Tracked:
    """The result of an operation on floats.

    Args:
        value: f32, computed from the operands' values.
        propagated: bound on how far the operands' errors move it.
        operands: of it.
        ulps: how far an engine's own function may be from the true result.
    """
    found = _rounding.get()
    size = np.where(np.isfinite(value), np.abs(value.astype(np.float64)), 0.0)
    per_unit = 2 * ulps + (2 if found.contracts else 0)
    error = propagated + np.where(propagated > 0, 2 * UNIT * (size + propagated), 0.0) + per_unit * UNIT * size
    error = np.where(np.isnan(error), np.inf, error)
    inexact = error > 0
    error = np.where(inexact & (~np.isfinite(value) | (size + error > _LARGEST)), np.inf, error)
    made = Tracked(value, error)
    if found.flushes:
        # A result that is exactly zero stays zero.
        touched = denormal(made)
        for x in operands:
            touched = touched | denormal(x)
        made = Tracked(value, np.where(touched, np.inf, error))
    return made


def to_bf16(x: Tracked) -> Tracked:
    """An f32 value rounded to bf16: off by what the ends of its interval are off."""
    with np.errstate(all="ignore"):
        value = x.value.astype(BF16)
        if not x.error.any():
            return Tracked(value, x.error)
        center, at = wide(x), value.astype(np.float64)
        low, high = ((center + sign * x.error) for sign in (-1, 1))
        ends = [
            np.nextafter(low.astype(np.float32), np.float32(-np.inf)),
            np.nextafter(high.astype(np.float32), np.float32(np.inf)),
        ]
        off = [np.abs(end.astype(BF16).astype(np.float64) - at) for end in ends]
        error = np.where(x.error > 0, np.maximum(*off), 0.0)
    return Tracked(value, np.where(np.isnan(error), np.inf, error))


def to_f32(x: Tracked) -> Tracked:
    """Any float as f32."""
    return x if x.dtype == F32 else Tracked(x.value.astype(np.float32), x.error)
