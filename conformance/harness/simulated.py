"""The cheat-sheet's kernels on both sides: as the simulator runs them, and as JAX does on a CPU.

Of a snippet of values JAX runs the snippet itself; of a snippet of refs, the kernel with ``interpret=True``. Floats are
multiples of an eighth, so that sums and products are exact in any order, and what is rounded is compared in units of
the last place.

What nobody wrote is left out of the comparison only where both sides say that nobody did: the simulator by its pattern
of uninitialised memory, JAX by what its interpreter puts there. The simulator has to count the same elements.
"""

from __future__ import annotations

import functools
import inspect
import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final
from unittest import mock

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from conformance.cases.cheat_sheet.pairs import TILE, Arg, Pair
from conformance.harness import pallas
from mosaic_tpu.sim import Report, simulate
from mosaic_tpu.sim._memory import poison
from mosaic_tpu.sim.errors import SimulationError

type Array = np.ndarray[Any, Any]
type Outputs = list[Array]

#: Narrow floats keep their roundings: without the last, XLA computes chains of bf16 in f32.
_COMPILER: Final = {
    "xla_backend_optimization_level": 0,
    "xla_llvm_disable_expensive_passes": True,
    "xla_allow_excess_precision": False,
}

# --- inputs ----------------------------------------------------------------------------------------------------------

#: What the scalars of some kernels must be, so that they stay inside their memory and keep their promises.
SCALARS: Final[dict[str, int | tuple[int, ...]]] = {
    r"guide-(load|store)-row|view-3d-scalar|copy-sem-array-scalar|copy-chain|copy-synchronous": 1,
    r"load-ds-scalar-(stride|times)|store-ds-scalar-times": 1,
    r"-ds-scalar-multiple": 4,
    r"multiple-of": 8,
    r"pipeline-dynamic-(inner|outer|both|revisited)": 2,  # of windows across
    r"pipeline-.*dynamic": 4,  # of windows down
    r"^fori-with-when$": (4, 1, 1, 1),  # two of four steps are beyond s[1]
    r"^while-side-effects$": 4,  # one of four steps is
}
#: The least and the greatest number of some operands, by the pair and the operand: what is beyond has no meaning, or
#: the last place of the result is beyond what either side computes.
RANGES: Final = {
    r"^take-along-axis.* at$": (-8, 7),  # positions in the smallest of the dimensions
    r"^select-n-integers n$": (0, 1),
    r"^shift-right-.* y$": (0, 15),  # less than the bits of any
    r"^exp2?-([iu]\d+|of-scalar-i32) ": (-16, 16),  # e**-87 is the least normal f32
    # XLA multiplies by a rounded ln 2, and rounds the product: it is off by as many halves of a unit as the exponent.
    r"^exp2-bf16 x$": (-1, 1),
    r"^(mean|var|std)-.*i32.* x$": (-256, 256),  # sums that are exact in f32
    r"^dot-row-bf16 ": (-15 / 8, 15 / 8),  # products of 4 bits by 4 bits: exact in bf16
}
#: Floats with all their bits: of others nothing is left to round.
_FULL_BITS: Final = re.compile(r"^(stochastic|pack)-.* [xy]$")


def _scalar_of(pair: Pair) -> int | tuple[int, ...] | None:
    return next((value for pattern, value in SCALARS.items() if re.search(pattern, pair.id)), None)


def _range_of(name: str) -> tuple[float, float] | None:
    return next((limits for pattern, limits in RANGES.items() if re.search(pattern, name)), None)


def is_float(dtype: Any) -> bool:
    """Whether a dtype is one of floating-point numbers, NumPy's own or not."""
    return np.dtype(dtype).kind == "f" or "float" in np.dtype(dtype).name


def _array(pair: Pair, name: str, arg: Arg, rng: np.random.Generator) -> Array:
    """Random contents that the kernel can take."""
    dtype = np.dtype(arg.numpy)
    limits = _range_of(f"{pair.id} {name}")
    if is_float(dtype):
        low, high = limits or (-4, 4)
        if _FULL_BITS.search(f"{pair.id} {name}"):
            return rng.uniform(low, high, arg.shape).astype(dtype)
        least = 1 if arg.space == "smem" else int(low * 8)
        numbers = rng.integers(least, int(high * 8) + 1, arg.shape) / 8
        divides = {"div", "rem", "true_divide"} & set(pair.uses)
        return (np.where(numbers == 0, 1.0, numbers) if divides else numbers).astype(np.float32).astype(dtype)
    if dtype == np.bool_:
        return rng.integers(0, 2, arg.shape).astype(dtype)
    if {"left_shift", "right_shift"} & set(pair.uses):
        return rng.integers(0, 32, arg.shape).astype(dtype)
    if arg.space == "smem":
        scalar = _scalar_of(pair)
        return np.full(arg.shape, scalar, dtype) if scalar is not None else rng.integers(1, 4, arg.shape).astype(dtype)
    info = ml_dtypes.iinfo(dtype)
    if limits is not None:
        low, high = max(int(info.min), int(limits[0])), min(int(info.max), int(limits[1]))
        return rng.integers(low, high, arg.shape, endpoint=True).astype(dtype)
    numbers = rng.integers(int(info.min), int(info.max), arg.shape, endpoint=True, dtype=np.int64)
    return np.where(numbers == 0, 1, numbers).astype(dtype)


def inputs_of(pair: Pair) -> list[Array]:
    """Random contents of all that a kernel takes; of keys, their numbers."""
    rng = np.random.default_rng(zlib.crc32(pair.id.encode()))
    return [_array(pair, name, arg, rng) for name, arg in _taken(pair).items()]


def _taken(pair: Pair) -> dict[str, Arg]:
    """What a kernel takes, in the order of the call."""
    return {n: a for role in ("scalar_prefetch", "input") for n, a in pair.operands.items() if a.role == role}


def shown(pair: Pair) -> Pair:
    """The pair; where all it does is to copy into scratch, with an output instead, which can be looked at."""
    if not re.search(r"^copy-", pair.id):
        return pair
    args = {
        n: replace(a, role="output") if a.role == "scratch" and a.space == "vmem" else a for n, a in pair.args.items()
    }
    return replace(pair, args=args)


# --- both sides ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Lowered:
    """A program as JAX hands it over, of this process: the simulator need not look at its bytes from outside first."""

    text: str

    def as_text(self) -> str:
        return self.text


def reported(pair: Pair, arrays: list[Array], **options: Any) -> Report:
    """What the reference engine says of Pallas's module."""
    call, shapes = pair.pallas_call()
    text = pallas.lower_to_stablehlo(call, *shapes, tpu_version=pair.tpu_version)
    return simulate(_Lowered(text), *arrays, allow_unwritten=True, **options)


def simulated(pair: Pair, arrays: list[Array], **options: Any) -> Outputs:
    """What the reference engine makes of Pallas's module."""
    return list(reported(pair, arrays, **options).outputs)


def interpreted(pairs: list[Pair], arrays: list[list[Array]]) -> list[Outputs]:
    """What JAX makes of kernels for one version of TPU on the CPU, compiled at once."""
    functions = [_of_values(pair) if pair.loaded else _of_refs(pair) for pair in pairs]
    given = [_with_keys(pair, of_one) for pair, of_one in zip(pairs, arrays, strict=True)]

    def run(given: list[list[Any]]) -> list[list[Any]]:
        return [function(*operands) for function, operands in zip(functions, given, strict=True)]

    (version,) = {pair.tpu_version for pair in pairs}
    with pallas.as_on_a_tpu(version):  # emit_pipeline asks for its tiles
        results = jax.jit(run, compiler_options=_COMPILER)(given)
    return jax.tree.map(np.asarray, results)


def _with_keys(pair: Pair, arrays: list[Array]) -> list[Any]:
    """What Pallas's kernel takes: keys of the TPU's generator where the module has their numbers."""
    impl = jax.random.key_impl(pltpu.to_pallas_key(jax.random.key(0, impl="rbg")))
    taken = zip(_taken(pair).values(), arrays, strict=True)
    return [jax.random.wrap_key_data(array, impl=impl) if arg.is_key else array for arg, array in taken]


def _of_refs(pair: Pair) -> Callable[..., list[Any]]:
    """The kernel, interpreted."""
    with mock.patch.object(pl, "pallas_call", functools.partial(pl.pallas_call, interpret=True)):
        return pair.pallas_call()[0]


def _of_values(pair: Pair) -> Callable[..., list[Any]]:
    """The snippet outside a kernel: a function of the arrays, of which it takes what a kernel loads."""
    wanted = list(inspect.signature(pair.pallas).parameters)

    def run(*arrays: Any) -> list[Any]:
        given = dict(zip(pair.args, arrays, strict=True))
        result = pair.pallas(*[given[n][0] if pair.args[n].space == "smem" else given[n] for n in wanted])
        if result.dtype == np.bool_:
            result = result.astype(np.int32)
        return [result if result.shape else jnp.broadcast_to(result, TILE)]

    return run


# --- compared --------------------------------------------------------------------------------------------------------

#: What is rounded more often than once, in units of the last place between both sides.
UNITS: Final[dict[str, float]] = {
    r"reciprocal-approx": 2.0**16,  # the interpreter rounds to bf16, the simulator does not
    r"^(silu|glu-.*)-bf16": 2,  # the sigmoid is rounded to bf16 before the product is
}
#: What leaves all its outputs alone, and what it does instead.
WRITE_NOTHING: Final = {
    r"^prng-seed-": "it only sets the seed",
    r"^(debug-print-|log-(message|scalars|scalars-after|buffer)$)": "it prints",
    r"^(trace-value|traced|delay)": "it leaves a mark in the trace, or waits",
    r"^check$": "it only checks",
}
#: Sums of numbers that are not exact: each addition rounds by half a unit at most, in either direction.
_SUMS: Final = re.compile(r"^(var|std)-")
#: They add numbers of about 1 that cancel: what is left is as good as those are.
_CANCELS: Final = re.compile(r"^(gelu|logaddexp)")


def _ulps(pair: Pair, dtype: Any) -> float:
    """How far apart two roundings of one result may be, in units of the last place of its dtype.

    Each side's functions are good to about two units in f32; XLA divides by multiplying with a reciprocal, which is
    good to one more. Narrower results are f32 results rounded, which may fall on two sides of a tie.
    """
    for pattern, units in UNITS.items():
        if re.search(pattern, pair.id):
            return units
    if np.dtype(dtype).itemsize < 4:
        return 1
    return 8 + (max(a.to_array().size for a in pair.args.values()) ** 0.5 if _SUMS.search(pair.id) else 0)


def differences(pair: Pair, ours: Array, theirs: Array) -> str:
    """Where two results differ more than they may; empty if nowhere. What nobody wrote on either side is left out."""
    assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype)
    with np.errstate(invalid="ignore"):  # of NaN in a narrow format
        a, b = ours.astype(np.float64), theirs.astype(np.float64)
    nobody = unwritten(ours)
    equal = (a == b) | (np.isnan(a) & np.isnan(b) & ~nobody) | (nobody & left_blank(theirs))
    if is_float(ours.dtype):
        info = ml_dtypes.finfo(ours.dtype)
        least = 1.0 if _CANCELS.search(pair.id) else float(info.smallest_normal)
        unit = np.maximum(np.abs(b), least) * float(info.eps)
        with np.errstate(invalid="ignore"):
            equal |= np.abs(a - b) <= _ulps(pair, ours.dtype) * unit
    if equal.all():
        return ""
    place = tuple(int(i) for i in np.unravel_index(int(np.argmin(equal)), equal.shape))
    return f"{int((~equal).sum())} of {equal.size} differ, the first at {place}: {ours[place]} and {theirs[place]}"


def unwritten(ours: Array) -> Array:
    """Where a result of the simulator looks as if nobody had written it."""
    if ours.dtype == np.bool_:  # no mark is left of memory of i32
        return np.zeros(ours.shape, np.bool_)
    word = np.dtype(f"u{ours.dtype.itemsize}")
    return ours.view(word) == np.array([poison(_signless(ours.dtype))]).view(word)[0]


def left_blank(theirs: Array) -> Array:
    """Where a result of JAX's interpreter looks as if nobody had written it."""
    if theirs.dtype == np.bool_:
        return np.zeros(theirs.shape, np.bool_)
    return np.isnan(theirs) if is_float(theirs.dtype) else theirs == ml_dtypes.iinfo(theirs.dtype).min


def blank(pair: Pair) -> Array:
    """An output before it is written, as JAX's interpreter has it."""
    (arg,) = [a for a in pair.operands.values() if a.role == "output"]
    return blank_like(np.empty(arg.shape, arg.numpy))


def blank_like(array: Array) -> Array:
    """An array that nobody wrote, as JAX's interpreter has it."""
    number = np.nan if is_float(array.dtype) else ml_dtypes.iinfo(array.dtype).min
    return np.full(array.shape, number).astype(array.dtype)


def _signless(dtype: Any) -> Any:
    """The dtype in which the simulator holds integers."""
    return np.dtype(dtype.name.removeprefix("u")) if dtype.name.startswith("uint") and dtype.itemsize > 1 else dtype


def faults(pair: Pair, arrays: list[Array], theirs: Outputs) -> list[str]:
    """What is wrong with what the simulator makes of a kernel."""
    try:
        report = reported(pair, arrays)
    except SimulationError as error:
        return [f"{type(error).__name__}: {error}"]
    both = list(zip(report.outputs, theirs, strict=True))
    found = [text for ours, wanted in both if (text := differences(pair, ours, wanted))]
    if found:
        return found
    counts = [int((unwritten(ours) & left_blank(wanted)).sum()) for ours, wanted in both]
    if [*report.unwritten.values()] != [count for count in counts if count]:
        found.append(f"the simulator counts {report.unwritten} that nobody wrote, JAX leaves {counts}")
    nothing = counts == [ours.size for ours in report.outputs]
    if nothing != any(re.search(pattern, pair.id) for pattern in WRITE_NOTHING):
        found.append(f"it writes {'nothing' if nothing else 'something'}, which is not what is said of it")
    return found


# --- JAX's functions in NumPy ----------------------------------------------------------------------------------------


def in_numpy(module: Any, name: str, function: Callable[..., Any]) -> Callable[[Pair, list[Array]], Outputs]:
    """What a snippet gives with a function that says in NumPy what JAX has no rule for."""

    def wanted(pair: Pair, arrays: list[Array]) -> Outputs:
        with mock.patch.object(module, name, function):
            return [np.asarray(result) for result in _of_values(pair)(*arrays)]

    return wanted


def _words(array: Array) -> Array:
    return array.view(np.dtype(f"u{array.dtype.itemsize}"))


def pack(xs: list[Array], *, packed_dtype: Any) -> Array:
    """The first in the lowest bits: a float as its nearest in bf16, an integer without its high bits."""
    word = _words(xs[0]).dtype
    bits = 8 * word.itemsize // len(xs)
    parts = [_words(x.astype(packed_dtype)) if is_float(x.dtype) else _words(x) for x in xs]
    made = sum((int(2 ** (i * bits)) * (p.astype(np.uint64) % 2**bits) for i, p in enumerate(parts)), np.uint64(0))
    return made.astype(word)


def unpack(x: Array, *, index: int, packed_dtype: Any, unpacked_dtype: Any) -> Array:
    """The part with this number, the lowest first."""
    bits = ml_dtypes.finfo(packed_dtype).bits if is_float(packed_dtype) else ml_dtypes.iinfo(packed_dtype).bits
    part = _words(x).astype(np.int64) // 2 ** (index * bits) % 2**bits
    if is_float(packed_dtype):
        return part.astype(f"u{bits // 8}").view(packed_dtype).astype(unpacked_dtype)
    return np.where(part >= 2 ** (bits - 1), part - 2**bits, part).astype(unpacked_dtype)


def round_randomly(x: Array, random_bits: Array, *, target_dtype: Any) -> Array:
    """The neighbour further from zero, if 16 random bits and the distance from the nearer one, in 2**-16, carry."""
    size = np.abs(x).astype(np.float64)
    near = np.abs(x).astype(target_dtype)
    low = _words(near) - (near.astype(np.float64) > size)
    high = low + 1
    floor, ceiling = (bits.astype(low.dtype).view(near.dtype).astype(np.float64) for bits in (low, high))
    carries = np.floor((size - floor) / (ceiling - floor) * 2**16) + random_bits % 2**16 >= 2**16
    return np.copysign(np.where(carries, ceiling, floor), x).astype(target_dtype)
