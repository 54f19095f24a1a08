"""`Example`: the arguments of one call."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mosaic_tpu.builder import DType

type Array = NDArray[Any]


@dataclass(frozen=True)
class Example:
    """A call that one config serves.

    Attributes:
        arrays: positional arguments by name, in order.
        options: keyword arguments with which the function plans exactly that config.
    """

    arrays: dict[str, Array]
    options: dict[str, Any]

    def options_of(self, reference: Callable[..., Any]) -> dict[str, Any]:
        """The options that a reference takes: those of the mathematics, and no block sizes."""
        taken = inspect.signature(reference).parameters
        return {name: value for name, value in self.options.items() if name in taken}


def numbers(rng: np.random.Generator, shape: Sequence[int], dtype: DType, scale: float = 1.0) -> Array:
    """Floats of this deviation, or small integers of either sign where the type has one."""
    assert dtype.numpy is not None
    if dtype.is_float:
        normal = rng.standard_normal(shape, np.float32)
        normal *= scale
        return normal.astype(dtype.numpy, copy=False)
    return rng.integers(0 if dtype.is_unsigned else -7, 8, shape).astype(dtype.numpy)


__all__ = ["Array", "Example", "numbers"]
