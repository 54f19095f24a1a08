"""`Expected`: one result, and how far a kernel may be off."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

type Array = NDArray[Any]
type Float64 = NDArray[np.float64]


@dataclass(frozen=True)
class Expected:
    """One result: its value in float64, and how far each element may be off; infinity where it is undefined."""

    value: Float64
    tolerance: Float64 | float

    @property
    def largest(self) -> float:
        """The magnitude of the largest element that is defined; 1 where there is none but 0."""
        defined = self.value[np.broadcast_to(np.isfinite(self.tolerance), self.value.shape)]
        return float(max(defined.max(initial=0.0), -defined.min(initial=0.0))) or 1.0

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
        tolerance = np.broadcast_to(self.tolerance, self.value.shape)
        defined = np.isfinite(tolerance)
        tolerance = tolerance[defined]
        error = got[defined].astype(np.float64)
        error -= self.value[defined]
        np.abs(error, out=error)
        error[np.isnan(error)] = np.inf
        if not error.size:
            return 0.0, 0.0, 0.0
        exact = tolerance == 0
        share = np.where(exact, np.where(error == 0, 0.0, np.inf), error / np.where(exact, 1.0, tolerance))
        worst = int(np.argmax(share))
        return float(share[worst]), float(error[worst]), float(tolerance[worst])


__all__ = ["Array", "Expected", "Float64"]
