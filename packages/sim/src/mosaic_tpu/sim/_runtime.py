"""What generated code calls for values: conversions, packing, division, products."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from mosaic_tpu.sim._memory import Array

if TYPE_CHECKING:
    from mosaic_tpu.sim._core import Core

#: What a float type can hold, of NumPy's types and ours.
finfo: Any = ml_dtypes.finfo


def erf(x: Array) -> Array:
    """Of each element. SciPy, half of what it takes to import the simulator, is imported where it is used."""
    from scipy import special

    return special.erf(x)


def erfc(x: Array) -> Array:
    """What `erf` lacks to 1, precise where that is little."""
    from scipy import special

    return special.erfc(x)


def divide(a: int, b: int) -> int:
    """Integer division toward zero; 0 by zero."""
    if b == 0:
        return 0
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def remainder(a: int, b: int) -> int:
    """The remainder of `divide`."""
    return a - divide(a, b) * b if b else 0


def divide_vectors(a: Array, b: Array) -> Array:
    """Integer division toward zero, element by element; 0 by zero."""
    safe = np.where(b == 0, np.ones_like(b), b)
    quotient: Array = np.floor_divide(a, safe)
    rounded: Array = quotient + ((np.remainder(a, safe) != 0) & ((a < 0) != (safe < 0))).astype(quotient.dtype)
    return np.where(b == 0, np.zeros_like(rounded), rounded)


def remainder_vectors(a: Array, b: Array) -> Array:
    """The remainder of `divide_vectors`."""
    return np.where(b == 0, np.zeros_like(a), np.fmod(a, np.where(b == 0, np.ones_like(b), b)))


def floor_divide(a: int, b: int) -> int:
    """Toward minus infinity; 0 by zero."""
    return a // b if b else 0


def ceil_divide(a: int, b: int) -> int:
    """Toward infinity; 0 by zero."""
    return -(-a // b) if b else 0


def floor_divide_vectors(a: Array, b: Array) -> Array:
    """Toward minus infinity, element by element; 0 by zero."""
    return np.where(b == 0, np.zeros_like(a), np.floor_divide(a, np.where(b == 0, np.ones_like(b), b)))


def ceil_divide_vectors(a: Array, b: Array) -> Array:
    """Toward infinity, element by element; 0 by zero."""
    safe = np.where(b == 0, np.ones_like(b), b)
    quotient: Array = np.floor_divide(a, safe) + (np.remainder(a, safe) != 0).astype(safe.dtype)
    return np.where(b == 0, np.zeros_like(quotient), quotient)


def wide_product(a: Array, b: Array, bits: int, signed: bool) -> tuple[Array, Array]:
    """Low and high halves of the products of two vectors, as signed numbers of their bits."""
    wide, narrow = (np.int64, f"i{bits // 8}") if signed else (np.uint64, f"u{bits // 8}")
    product = np.asarray(a).view(narrow).astype(wide) * np.asarray(b).view(narrow).astype(wide)
    half = np.dtype(f"i{bits // 8}")
    return product.astype(half), (product >> wide(bits)).astype(half)


def wide_product_of_numbers(a: int, b: int, bits: int, signed: bool) -> tuple[int, int]:
    """Low and high halves of a product, as signed numbers of their bits."""
    mask, half = (1 << bits) - 1, 1 << (bits - 1)
    product = a * b if signed else (a & mask) * (b & mask)
    return ((product + half) & mask) - half, (((product >> bits) + half) & mask) - half


def integer_power(a: Array, b: Array) -> Array:
    """``a ** b`` that wraps; a negative power is 0, but of 1 and -1."""
    odd = np.where((b & 1) == 1, a, a * a)
    inverse = np.where(np.abs(a) == 1, odd, np.zeros_like(a))
    return np.where(b < 0, inverse, np.power(a, np.maximum(b, 0)))


def integer_power_of_numbers(a: int, b: int, bits: int) -> int:
    """``a ** b`` in as many bits; a negative power is 0, but of 1 and -1."""
    if b < 0:
        return 0 if abs(a) != 1 else a if b % 2 else 1
    return pow(a, b, 1 << bits)


def to_int(x: Any, dtype: np.dtype[Any], bits: int, signed: bool) -> Any:
    """Float to integer: toward zero, saturating, NaN to 0; an unsigned result as the signed number of its bits."""
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
    wide = np.trunc(np.asarray(x, np.float64))
    wide = np.where(np.isnan(wide), 0.0, wide)
    # The largest integers of 64 bits are no floats: below them a float fits.
    exact = np.clip(wide, float(low), np.nextafter(float(high) + 1, 0)).astype(np.int64 if signed else np.uint64)
    made = np.where(wide >= float(high), np.array(high, exact.dtype), exact).astype(np.int64)
    half = 1 << (bits - 1)
    return made.astype(dtype) if signed or bits == 64 else (((made + half) & (2 * half - 1)) - half).astype(dtype)


def pack_rows(x: Array, dtype: np.dtype[Any]) -> Array:
    """Narrow rows into wide ones: row r of the result holds rows r·n … of ``x``, the first in the low bits."""
    ratio = dtype.itemsize // x.dtype.itemsize
    *lead, rows, columns = x.shape
    grouped = x.reshape(*lead, rows // ratio, ratio, columns)
    return np.ascontiguousarray(np.swapaxes(grouped, -1, -2)).view(dtype).reshape(*lead, rows // ratio, columns)


def unpack_rows(x: Array, dtype: np.dtype[Any]) -> Array:
    """Wide rows into narrow ones, the inverse of `pack_rows`."""
    ratio = x.dtype.itemsize // dtype.itemsize
    *lead, rows, columns = x.shape
    split = np.ascontiguousarray(x).view(dtype).reshape(*lead, rows, columns, ratio)
    return np.swapaxes(split, -1, -2).reshape(*lead, rows * ratio, columns)


def repack(x: Array, dtype: np.dtype[Any], bits_from: int, bits_to: int) -> Array:
    """A bitcast between element widths: sublane packing along the second-to-last dimension."""
    if bits_from == bits_to:
        return np.ascontiguousarray(x).view(dtype)
    if bits_from < 8:
        return _from_nibbles(x, dtype, bits_from, bits_to)
    if bits_to < 8:
        return _to_nibbles(x, dtype, bits_from, bits_to)
    return pack_rows(x, dtype) if bits_from < bits_to else unpack_rows(x, dtype)


def _from_nibbles(x: Array, dtype: np.dtype[Any], bits_from: int, bits_to: int) -> Array:
    ratio = bits_to // bits_from
    *lead, rows, columns = x.shape
    word = np.dtype(f"u{bits_to // 8}")
    mask = (1 << bits_from) - 1
    grouped = (x.astype(np.int8).astype(np.int64) & mask).reshape(*lead, rows // ratio, ratio, columns)
    shifts = (np.arange(ratio) * bits_from)[:, None]
    return np.bitwise_or.reduce(grouped << shifts, axis=-2).astype(word).view(dtype)


def _to_nibbles(x: Array, dtype: np.dtype[Any], bits_from: int, bits_to: int) -> Array:
    ratio = bits_from // bits_to
    *lead, rows, columns = x.shape
    word = np.ascontiguousarray(x).view(np.dtype(f"u{bits_from // 8}")).astype(np.int64)
    shifts = (np.arange(ratio) * bits_to)[:, None]
    parts = (word[..., None, :] >> shifts) & ((1 << bits_to) - 1)
    signed = np.where(parts >> (bits_to - 1), parts - (1 << bits_to), parts)
    return signed.astype(dtype).reshape(*lead, rows * ratio, columns)


def rounded_bf16(x: Array) -> Array:
    """An f32 array rounded to bf16 values."""
    return x.astype(ml_dtypes.bfloat16).astype(np.float32)


# --- numbers ---------------------------------------------------------------------------------------------------------


def round_away(x: Any) -> Any:
    """To the nearest integer, halves away from zero."""
    whole = np.trunc(x)
    return np.copysign(whole + np.copysign(np.abs(x - whole) >= 0.5, x).astype(x.dtype), x)


def count_bits(x: Any) -> Any:
    """How many bits are set."""
    return np.bitwise_count(x.view(np.dtype(f"u{x.dtype.itemsize}"))).astype(x.dtype)


def leading_zeros(x: Any) -> Any:
    """How many bits stand above the highest one set."""
    wide = x.view(np.dtype(f"u{x.dtype.itemsize}")).astype(np.uint64)
    for shift in (1, 2, 4, 8, 16, 32):
        wide = wide | (wide >> np.uint64(shift))
    return (x.dtype.itemsize * 8 - np.bitwise_count(wide).astype(np.int64)).astype(x.dtype)


# --- rounding --------------------------------------------------------------------------------------------------------


def round_float(x: Any, dtype: np.dtype[Any], mode: str) -> Any:
    """To a narrower float, in a rounding mode other than to the nearest even: steps from the nearest one."""
    wide = np.asarray(x, np.float64)
    near = np.asarray(x).astype(dtype)
    value = near.astype(np.float64)
    bits = near.view(np.dtype(f"u{dtype.itemsize}"))
    finite = np.isfinite(wide)
    if mode == "away":
        further = (bits + 1).view(dtype).astype(np.float64)
        step = (np.abs(wide - value) == np.abs(further - wide)) & finite
        return np.where(step, bits + 1, bits).astype(bits.dtype).view(dtype)[()]
    too_low, too_high = (value < wide) & finite, (value > wide) & finite
    negative = np.signbit(wide)
    outward = {"zero": False, "down": too_high & negative, "up": too_low & ~negative}[mode]
    inward = {
        "zero": np.where(negative, too_low, too_high),
        "down": too_high & ~negative,
        "up": too_low & negative,
    }[mode]
    moved = np.where(inward, bits - 1, np.where(outward, bits + 1, bits)).astype(bits.dtype)
    return moved.view(dtype)[()]


def reduce_precision(x: Any, exponent: int, mantissa: int) -> Any:
    """An f32 rounded to fewer bits of exponent and mantissa, as XLA does: what is too small becomes zero."""
    bits = np.asarray(x, np.float32).view(np.uint32)
    made = bits
    if mantissa < 23:
        shift = 23 - mantissa
        made = made + (((made >> shift) & 1) + ((1 << (shift - 1)) - 1)).astype(np.uint32)
        made = made & np.uint32(0xFFFFFFFF & -(1 << shift))
    if exponent < 8:
        bias = (1 << (exponent - 1)) - 1
        size, sign = made & np.uint32(0x7F800000), made & np.uint32(0x80000000)
        made = np.where(size > np.uint32((127 + bias) << 23), sign | np.uint32(0x7F800000), made)
        made = np.where(size <= np.uint32((127 - bias) << 23), sign, made)
    return np.where(np.isnan(x), np.asarray(x, np.float32), made.view(np.float32))


def round_randomly(x: Array, random: Array, dtype: np.dtype[Any], is_float: bool) -> Array:
    """To a neighbour in a narrower type: away from zero if the remainder and 16 random bits carry."""
    below = random.view(np.uint32) & np.uint32(0xFFFF)
    if dtype == ml_dtypes.bfloat16:
        moved = (x.view(np.uint32) + below) & np.uint32(0xFFFF0000)
        return np.where(np.isfinite(x), moved.view(np.float32), x).astype(dtype)
    size = np.abs(x.astype(np.float64))
    if is_float:
        info = finfo(dtype)
        exponent = np.maximum(np.frexp(size)[1] - 1, int(info.minexp)) - int(info.nmant)
        low, high = -float(info.max), float(info.max)
    else:
        exponent = np.zeros(size.shape, np.int64)
        info = ml_dtypes.iinfo(dtype)
        low, high = float(info.min), float(info.max)
    scaled = np.ldexp(size, -exponent)
    whole = np.floor(scaled)
    carried = np.floor((scaled - whole) * 65536) + below >= 65536
    made = np.clip(np.copysign(np.ldexp(whole + carried, exponent), x), low, high)
    return np.where(np.isnan(x), np.nan if is_float else 0.0, made).astype(np.float32).astype(dtype)


# --- words of several elements ---------------------------------------------------------------------------------------


def pack_words(sources: tuple[Array, ...], part: np.dtype[Any], bits: int, dtype: np.dtype[Any]) -> Array:
    """One element of each source in a word, the first source's in the low bits."""
    word = np.dtype(f"u{dtype.itemsize}")
    made = np.zeros(sources[0].shape, word)
    for i, source in enumerate(sources):
        element = source.astype(part).view(np.dtype(f"u{part.itemsize}")) if source.dtype.kind == "f" else source
        made |= (element.astype(word) & word.type((1 << bits) - 1)) << word.type(i * bits)
    return made.view(dtype)


def unpack_word(x: Array, index: int, part: np.dtype[Any], bits: int, dtype: np.dtype[Any]) -> Array:
    """One of the elements in each word, as a wider number."""
    chosen = (x.view(np.dtype(f"u{x.dtype.itemsize}")) >> (index * bits)).astype(np.int64) & ((1 << bits) - 1)
    if part.kind == "f" or "float" in part.name:
        return chosen.astype(np.dtype(f"u{part.itemsize}")).view(part).astype(dtype)
    half = 1 << (bits - 1)
    return ((chosen ^ half) - half).astype(dtype)


# --- scans and sorts -------------------------------------------------------------------------------------------------


def first_set(x: Array, axis: int) -> Array:
    """Where the first element is that is not zero; the size where there is none."""
    found = np.asarray(x != 0)
    place = np.argmax(found, axis=axis, keepdims=True)
    return np.where(np.any(found, axis=axis, keepdims=True), place, x.shape[axis])


def masked_scan(ufunc: np.ufunc, x: Array, mask: Array, axis: int, dtype: np.dtype[Any], nothing: Any) -> Array:
    """A scan over the elements of a mask; the others repeat the result so far, ``nothing`` before the first."""
    rows, masks = np.moveaxis(x, axis, 0), np.moveaxis(mask, axis, 0)
    made = np.full(rows.shape, nothing, dtype)
    total: Array = rows[0]
    started = np.zeros(rows.shape[1:], np.bool_)
    for i in range(rows.shape[0]):
        following: Array = ufunc(total, rows[i], dtype=rows.dtype)
        total = np.where(masks[i], np.where(started, following, rows[i]), total)
        started = started | masks[i]
        made[i] = np.where(started, total.astype(dtype), made[i])
    return np.moveaxis(made, 0, axis)


def sort_pairs(keys: Array, values: Array, mask: Array | None, descending: bool) -> tuple[Array, Array, Array]:
    """Pairs in order of their keys, stable, along the last dimension, with those outside the mask at the end."""
    valid = np.ones(keys.shape, np.bool_) if mask is None else mask
    if descending:
        order = keys.shape[-1] - 1 - np.argsort(keys[..., ::-1], axis=-1, kind="stable")[..., ::-1]
    else:
        order = np.argsort(keys, axis=-1, kind="stable")
    last = np.argsort(~np.take_along_axis(valid, order, -1), axis=-1, kind="stable")
    order = np.take_along_axis(order, last, -1)
    made = [np.take_along_axis(a, order, -1) for a in (valid, keys, values)]
    return made[0], made[1], made[2]


# --- data movement ---------------------------------------------------------------------------------------------------


def _along(size: int, axis: int, rank: int) -> Array:
    """The positions along one dimension."""
    shape = tuple(size if i == axis else 1 for i in range(rank))
    return np.arange(size, dtype=np.int64).reshape(shape)


def rotate(x: Array, amount: int, axis: int, stride: int, across: int) -> Array:
    """`numpy.roll` by ``amount``, and ``stride`` more for each step across another dimension."""
    places = _along(x.shape[axis], axis, x.ndim)
    steps = _along(x.shape[across], across, x.ndim)
    return np.take_along_axis(x, (places - amount - stride * steps) % x.shape[axis], axis)


def _indices(shape: tuple[int, ...]) -> Any:
    """Each dimension's own index, to be broadcast."""
    return np.indices(shape, sparse=True)


def gather(x: Array, indices: Array, axes: tuple[int, ...]) -> Array:
    """Elements of the collapsed ``axes`` by index, modulo their size; the other dimensions stay where they are."""
    places: list[Any] = list(_indices(indices.shape))
    wide = indices.astype(np.int64) % int(np.prod([x.shape[a] for a in axes]))
    for axis, place in zip(axes, np.unravel_index(wide, [x.shape[a] for a in axes]), strict=True):
        places[axis] = place
    return x[tuple(places)]


# --- random numbers --------------------------------------------------------------------------------------------------


def seed_random(core: Core, *seeds: int) -> None:
    """Start the core's generator: NumPy's Philox, keyed by the seeds. A TPU's own generator is not specified."""
    core.random = np.random.Generator(np.random.Philox(np.random.SeedSequence([s & 0xFFFFFFFF for s in seeds])))


def random_bits(core: Core, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """The next bits of the core's generator; without a seed, those that the simulation's seed gives."""
    if core.random is None:
        seed_random(core, core.machine.options.seed, core.device, core.index)
    generator: Any = core.random
    count = int(np.prod(shape))
    return np.frombuffer(generator.bytes(count * dtype.itemsize), dtype).reshape(shape)


# --- printing --------------------------------------------------------------------------------------------------------


def log(core: Core, number: int, tag: str, values: tuple[Any, ...], formatted: bool) -> None:
    """A line on standard error, and an event in the trace."""
    if formatted:
        text = re.sub(r"\$[a-z]?(\d+)", lambda found: str(values[int(found[1])]), tag)
    else:
        text = " ".join([tag, *map(str, values)])
    machine = core.machine
    if machine.traced:
        machine.event("log", core, text, 0, core.operations[number])
    print(f"{core.name}: {text}" if machine.several else text, file=sys.stderr)
