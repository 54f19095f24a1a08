"""`Example`: the arguments of one call."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from mosaic_tpu.builder import DType, f16, f32

type Array = NDArray[Any]


#: Unit roundoff of bf16, to which the MXU rounds what it multiplies.
BF16: Final = 2.0**-8


@dataclass(frozen=True)
class Example:
    """A call that one config serves.

    Attributes:
        arrays: positional arguments by name, in order.
        options: keyword arguments with which the function plans exactly that config.
        defined: of each output, the part that means something; all of it where there is no entry.
        roundoff: how far roundings to bf16 on the way may carry a result, as a share of its largest element; those of
            f32, and of a result when it is stored, are not among them.
    """

    arrays: dict[str, Array]
    options: dict[str, Any]
    defined: tuple[Any, ...] = field(default=())
    roundoff: float = 0.0

    def options_of(self, reference: Callable[..., Any]) -> dict[str, Any]:
        """The options that a reference takes: those of the mathematics, and no block sizes."""
        taken = inspect.signature(reference).parameters
        return {name: value for name, value in self.options.items() if name in taken}


def numbers(rng: np.random.Generator, shape: Sequence[int], dtype: DType, scale: float = 1.0) -> Array:
    """Floats of this deviation, or small integers of either sign where the type has one."""
    assert dtype.numpy is not None
    if dtype.is_float:
        return (scale * rng.standard_normal(shape, np.float32)).astype(dtype.numpy)
    return rng.integers(0 if dtype.is_unsigned else -7, 8, shape).astype(dtype.numpy)


def is_rounded(dtype: DType) -> bool:
    """Whether bf16 has fewer digits than the type: integers of an example are small enough for both."""
    return dtype in (f32, f16)


__all__ = ["BF16", "Array", "Example", "is_rounded", "numbers"]
