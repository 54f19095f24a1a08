"""JAX's type promotion: the element type that an operator of jnp computes in."""

from __future__ import annotations

from typing import Final

import numpy as np

from mosaic_tpu.builder import dtypes as dt
from mosaic_tpu.builder.dtypes import DType

#: Of lax, or made of it: they promote nothing.
STRICT: Final = frozenset({"div", "rem", "neg", "shift_right_logical", "shift_right_arithmetic", "mulhi"})
#: Python numbers that adopt the type of the operand beside them, by the kind of that type.
ADOPTING: Final[dict[str, tuple[type, ...]]] = {
    "float": (int, float),
    "int": (int,),
    "uint": (int,),
    "index": (int,),
    "bool": (),
    "semaphore": (),
    "opaque": (),
}
_WIDE_FLOATS: Final = frozenset({dt.bf16, dt.f16, dt.f32})
_SIGNED: Final = {8: dt.i16, 16: dt.i32, 32: dt.i32}


def promoted(x: DType, y: DType) -> DType | None:
    """The type of both in JAX, with 64-bit types disabled; ``None`` where JAX promotes neither to the other."""
    if x is y:
        return x
    if x is dt.i1 or y is dt.i1:
        other = y if x is dt.i1 else x
        return other if other.is_int or other.is_float else None
    if dt.i4 in (x, y):
        return None
    if x.is_float and y.is_float:
        return dt.f32 if x in _WIDE_FLOATS and y in _WIDE_FLOATS else None
    if (x.is_float or x.is_int) and (y.is_float or y.is_int):
        return _of_integers(x, y) if x.is_int and y.is_int else x if x.is_float else y
    return None


def _of_integers(x: DType, y: DType) -> DType:
    if x.is_unsigned == y.is_unsigned:
        return x if x.bits > y.bits else y
    signed, unsigned = (y, x) if x.is_unsigned else (x, y)
    return signed if signed.bits > unsigned.bits else _SIGNED[unsigned.bits]


def beside(dtype: DType, number: object) -> DType | None:
    """The type in which a value meets a number: a Python number adopts the value's type, or its kind if it is higher.

    A NumPy scalar has a type of its own. ``None`` where JAX promotes neither to the other.
    """
    if type(number) in ADOPTING[dtype.kind]:
        return dtype
    if isinstance(number, np.generic):
        return promoted(dtype, dt.as_dtype(number.dtype))  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
    if isinstance(number, float) and dtype.is_int:
        return None if dtype is dt.i4 else dt.f32
    if dtype is dt.i1 and isinstance(number, int) and not isinstance(number, bool):
        return dt.i32
    return dtype
