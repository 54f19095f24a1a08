"""Matmul in float64."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray


def matmul(x: ArrayLike, y: ArrayLike) -> NDArray[np.float64]:
    """The product ``x @ y`` of two matrices, exact for integers as long as sums stay below 2^53.

    >>> matmul([[1, 2]], [[3], [4]])
    array([[11.]])
    """
    return np.asarray(x).astype(np.float64) @ np.asarray(y).astype(np.float64)
