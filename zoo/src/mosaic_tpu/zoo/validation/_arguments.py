"""Checks that every function of the zoo makes of what it is given."""

from __future__ import annotations

from numbers import Real
from typing import Any

from mosaic_tpu.builder import DType, as_dtype
from mosaic_tpu.builder.errors import DTypeError
from mosaic_tpu.kernel import InputError


def check_arrays(op: str, **arrays: Any) -> None:
    """Refuse what has no shape and element type; shapes alone (`jax.ShapeDtypeStruct`) will do.

    Raises:
        InputError: which argument is none, and what it is.
    """
    for name, array in arrays.items():
        if not (hasattr(array, "shape") and hasattr(array, "dtype")):
            raise InputError(f"{name} is a {type(array).__name__}", op=op, hint=f"an array: jnp.asarray({name})")


def element_type(op: str, name: str, dtype: Any) -> DType:
    """The builder's element type for one of NumPy or JAX.

    Raises:
        InputError: there is none.
    """
    try:
        return as_dtype(dtype)
    except DTypeError:
        raise InputError(f"{name} is {dtype!r}", op=op, hint="floats and integers of 4 to 32 bits") from None


def number(op: str, name: str, value: object) -> float:
    """A number that becomes part of the program.

    Raises:
        InputError: it is an array, traced, or no number at all.
    """
    if isinstance(value, bool) or not isinstance(value, Real):
        raise InputError(
            f"{name} is a {type(value).__name__}", op=op, hint="a Python number: it is part of the program"
        )
    return float(value)


def optional_number(op: str, name: str, value: object) -> float | None:
    """Likewise, or ``None``."""
    return None if value is None else number(op, name, value)


__all__ = ["check_arrays", "element_type", "number", "optional_number"]
