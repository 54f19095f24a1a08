"""Element types in JAX: dtypes, static values, poison, rounding, reinterpreted bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, cast

import ml_dtypes
import numpy as np

from mosaic_tpu.sim._types import NUMPY, bits_of
from mosaic_tpu.sim.errors import UnsupportedOpError
from mosaic_tpu.sim.xla._untyped import jnp, lax

#: A traced array, or a NumPy array or number, which `lax` takes as well.
Array = Any
#: A number that no kernel computes with by chance; the low bits of it for narrower integers.
POISON: Final = 0x7BADF00D
_UNSIGNED: Final = {"int2": ml_dtypes.uint2, "int4": ml_dtypes.uint4}
_IN_BYTES: Final = {"int2": np.int8, "int4": np.int8, "uint2": np.uint8, "uint4": np.uint8}


def dtype_of(element: str) -> np.dtype[Any]:
    """The dtype that holds an element in JAX, whose 64-bit types are off: ``index`` is 32 bits wide."""
    if element == "index" or "semaphore" in element:
        return np.dtype(np.int32)
    found = NUMPY.get(element)
    if found is None or found.itemsize > 4:
        raise UnsupportedOpError(
            f"the element type {element} has no place in the fast engine", hint='run it with engine="numpy"'
        )
    return found


def held_dtype(element: str) -> np.dtype[Any]:
    """The dtype in which elements are held and moved: floats of 8 and 16 bits as integers.

    XLA and LLVM take such floats through wider ones even where they are only moved, and NaNs lose bits.
    """
    dtype = dtype_of(element)
    return np.dtype(f"int{bits_of(element)}") if _is_held_as_bits(dtype) else dtype


def _is_held_as_bits(dtype: Any) -> bool:
    return dtype.itemsize < 4 and jnp.issubdtype(dtype, jnp.floating) and "float4" not in dtype.name


def hold(x: Any) -> Any:
    """An array as it is held; what is static, a view or wider than that stays as it is."""
    if not hasattr(x, "dtype") or is_static(x) or not _is_held_as_bits(x.dtype):
        return x
    return _same_bits(x, np.dtype(f"int{8 * x.dtype.itemsize}"))


def unhold(x: Array, element: str) -> Array:
    """What is held, as numbers to compute with."""
    dtype = dtype_of(element)
    return _same_bits(x, dtype) if _is_held_as_bits(dtype) and x.dtype != dtype else x


def _same_bits(x: Array, dtype: np.dtype[Any]) -> Array:
    return cast("Array", x.view(dtype)) if isinstance(x, np.ndarray) else lax.bitcast_convert_type(x, dtype)


def is_static(value: Any) -> bool:
    """Whether a value is a number known while translating (a splat, if its type is a vector)."""
    return isinstance(value, (int, float, np.generic))


def poison(element: str) -> Any:
    """What uninitialised memory holds, as it is held: NaN, or a large number; semaphores start at zero."""
    dtype = dtype_of(element)
    if "semaphore" in element:
        return dtype.type(0)
    if element == "i1":
        return dtype.type(True)
    if jnp.issubdtype(dtype, jnp.floating):
        return hold(np.array(np.nan).astype(dtype))[()]
    return np.array(POISON).astype(np.uint32).astype(dtype)[()]


def widen(x: Array) -> Array:
    """A float as f32, in which arithmetic is done."""
    return x if x.dtype.itemsize >= 4 else x.astype(jnp.float32)


def narrow(x: Array, dtype: Any) -> Array:
    """A result, rounded to ``dtype`` to nearest even.

    XLA may keep more precision than a conversion there and back allows, unless something stands between: for bf16 a
    `reduce_precision`, which is free; for other floats, whose denormals that would lose, a barrier.
    """
    dtype = np.dtype(dtype)
    if x.dtype == dtype or not jnp.issubdtype(dtype, jnp.floating):
        return x.astype(dtype)
    if dtype == jnp.bfloat16:
        return lax.reduce_precision(x, 8, 7).astype(dtype)
    return lax.optimization_barrier(x.astype(dtype))


def to_unsigned(x: Array) -> Array:
    """The same bits as an unsigned integer."""
    if x.dtype == jnp.bool_ or jnp.issubdtype(x.dtype, jnp.unsignedinteger):
        return x
    return lax.bitcast_convert_type(x, unsigned_dtype(x.dtype))


def unsigned_dtype(dtype: Any) -> np.dtype[Any]:
    """The unsigned integer of a dtype's width."""
    return np.dtype(_UNSIGNED.get(dtype.name, f"uint{8 * dtype.itemsize}"))


def in_bytes(compute: Callable[..., Array]) -> Callable[..., Array]:
    """An integer function that computes in bytes where elements are less: XLA's CPU code lacks most of those."""

    def apply(*args: Any) -> Array:
        dtype = getattr(args[0], "dtype", None)
        if dtype is None or dtype.name not in _IN_BYTES:
            return compute(*args)
        wide = np.dtype(_IN_BYTES[dtype.name])
        made = compute(*(x.astype(wide) if getattr(x, "dtype", None) == dtype else x for x in args))
        return made.astype(dtype) if made.dtype == wide else made

    return apply


def reinterpret(x: Array, source: str, target: str) -> Array:
    """What is held, as elements of another type, packed along the second-to-last dimension."""
    old, new = bits_of(source), bits_of(target)
    dtype = held_dtype(target)
    if "i1" in (source, target):
        if source == target:
            return x
        raise UnsupportedOpError("masks have no bits to reinterpret", hint='run it with engine="numpy"')
    if old == new:
        return x if x.dtype == dtype else lax.bitcast_convert_type(x, dtype)
    rows, columns = x.shape[-2:]
    if old > new:
        factor = old // new
        parts = lax.bitcast_convert_type(x, dtype)  # […, rows, columns, factor], low bits first
        return jnp.swapaxes(parts, -1, -2).reshape(*x.shape[:-2], rows * factor, columns)
    factor = new // old
    parts = x.reshape(*x.shape[:-2], rows // factor, factor, columns)
    if factor == 2 and new == 32:  # two shifts fuse; a transposition does not
        low, high = (
            lax.bitcast_convert_type(lax.index_in_dim(parts, i, -2, keepdims=False), jnp.uint16).astype(jnp.uint32)
            for i in (0, 1)
        )
        return lax.bitcast_convert_type(low | lax.shift_left(high, jnp.uint32(16)), dtype)
    made = lax.bitcast_convert_type(jnp.swapaxes(parts, -1, -2), dtype)
    return lax.optimization_barrier(made)  # XLA merges two of these into one that it then refuses
