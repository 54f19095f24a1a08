"""`Example`: the arguments of one call."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from mosaic_tpu.builder import DType

type Array = NDArray[Any]


#: Numbers that are drawn at once: before they are of their type, they take eight bytes each.
_AT_ONCE: Final = 1 << 16


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
        return drawn(shape, dtype.numpy, lambda count: scale * rng.standard_normal(count, np.float32))
    return drawn(shape, dtype.numpy, lambda count: rng.integers(0 if dtype.is_unsigned else -7, 8, count))


def drawn(shape: Sequence[int], kind: Any, draw: Callable[[int], Array]) -> Array:
    """An array of what is drawn, a part at a time."""
    made = np.empty(shape, kind)
    flat = made.reshape(-1)
    for start in range(0, flat.size, _AT_ONCE):
        part = flat[start : start + _AT_ONCE]
        part[:] = draw(part.size)
    return made


__all__ = ["Array", "Example", "drawn", "numbers"]
