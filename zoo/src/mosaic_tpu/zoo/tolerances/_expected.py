"""`Expected`: one result, and how far a kernel may be off."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

type Array = NDArray[Any]
type Float64 = NDArray[np.float64]


#: Elements that are compared at once.
_AT_ONCE: Final = 1 << 20


@dataclass(frozen=True)
class Expected:
    """One result: its value in float64, and how far each element may be off; infinity where it is undefined."""

    value: Float64
    tolerance: Float64 | float

    @property
    def largest(self) -> float:
        """The magnitude of the largest element that is defined; 1 where there is none but 0."""
        defined = np.broadcast_to(np.isfinite(self.tolerance), self.value.shape)
        highest, lowest = (f(self.value, where=defined, initial=0.0) for f in (np.max, np.min))
        return float(max(highest, -lowest)) or 1.0

    def distance(self, got: Array) -> float:
        """The largest error as a share of its tolerance."""
        return self.worst(got)[0]

    def worst(self, got: Array) -> tuple[float, float, float]:
        """Where an error is the largest share of its tolerance: that share, the error, and the tolerance.

        A tolerance of 0 asks for the same number, and one of infinity for nothing.

        >>> Expected(np.array([1.0, 2.0]), np.array([0.5, 0.25])).worst(np.array([1.25, 2.5]))
        (2.0, 0.5, 0.25)
        """
        if got.shape != self.value.shape:
            return np.inf, np.inf, 0.0
        parts = zip(*(self._parts(array) for array in (got, self.value, self.tolerance)), strict=True)
        return max((_worst(*part) for part in parts), default=(0.0, 0.0, 0.0))

    def _parts(self, array: Array | float) -> Iterator[Array]:
        """Some elements after the others: what is made of them takes as much as they, several times."""
        flat = np.broadcast_to(array, self.value.shape).flat  # reshape(-1) would copy what is broadcast
        return (flat[start : start + _AT_ONCE] for start in range(0, len(flat), _AT_ONCE))


def _worst(got: Array, value: Float64, tolerance: Float64) -> tuple[float, float, float]:
    defined = np.isfinite(tolerance)
    allowed, error = tolerance[defined], np.abs(got[defined].astype(np.float64) - value[defined])
    if not error.size:
        return 0.0, 0.0, 0.0
    error[np.isnan(error)] = np.inf
    exact = allowed == 0
    share = np.where(exact, np.where(error == 0, 0.0, np.inf), error / np.where(exact, 1.0, allowed))
    worst = int(np.argmax(share))
    return float(share[worst]), float(error[worst]), float(allowed[worst])


__all__ = ["Array", "Expected", "Float64"]
