"""The cheat-sheet's kernels, simulated: each gives what JAX gives on the same random arrays.

Pallas lowers each kernel for a TPU, and the simulator runs the module. What it has to give comes from JAX on the CPU:
of a snippet of values, the snippet itself; of a snippet of refs, the kernel with ``interpret=True``. Many are compiled
at once, since compiling is what takes the time. Floats are multiples of an eighth, so that sums and products are exact
in any order, and what is rounded is compared in units of the last place.

What JAX cannot run on a CPU, or runs otherwise than the module says, is in `NOT_INTERPRETED` with the reason and with
what it has to give; an entry without need fails.

Of pairs that differ in their element type alone one is run; of those, a share where there are many, another one on an
older JAX. With ``SIMULATED_PAIRS=all`` every pair is run, which takes some minutes, and with a pattern those
whose id it is found in.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import os
import re
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final
from unittest import mock

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from conformance.cases.cheat_sheet import PAIRS
from conformance.cases.cheat_sheet.pairs import TILE, Arg, Pair
from conformance.harness import pallas
from mosaic_tpu.sim import Report, simulate
from mosaic_tpu.sim._memory import poison
from mosaic_tpu.sim.errors import (
    OutOfBoundsError,
    SimulationError,
    UndefinedResultError,
    UnsupportedOpError,
    WriteToDestinationError,
    WriteToSourceError,
)

type Array = np.ndarray[Any, Any]

#: Narrow floats keep their roundings: without the second, XLA computes chains of bf16 in f32.
_COMPILER: Final = {
    "xla_backend_optimization_level": 0,
    "xla_llvm_disable_expensive_passes": True,
    "xla_allow_excess_precision": False,
}
#: Kernels that are compiled at once.
_AT_ONCE: Final = 32
#: What JAX, XLA or Pallas's interpreter says when it cannot run a kernel.
_CANNOT: Final = (AttributeError, NotImplementedError, TypeError, ValueError, jax.errors.JaxRuntimeError)

#: Kernels that break a rule whatever their inputs: the interpreter does not see it, the simulator has to say it.
FAULTY: Final[dict[str, tuple[type[SimulationError], str]]] = {
    "map-times": (OutOfBoundsError, "outside the array"),
    "map-times-of-output": (OutOfBoundsError, "outside the array"),
    "map-negated": (OutOfBoundsError, "outside the array"),
    "map-negated-of-output": (OutOfBoundsError, "outside the array"),
    "pipeline-out-buffered-3": (OutOfBoundsError, "index 32 of dimension 0, 8 long, in a size of 32"),
    "pipeline-out-buffered-4": (OutOfBoundsError, "index 32 of dimension 0, 8 long, in a size of 32"),
    "pipeline-bounded-computed": (WriteToDestinationError, "written that a DMA in flight writes too"),
    "result-queue": (UndefinedResultError, "128 rows of results were never taken"),
    "barrier-semaphore": (OutOfBoundsError, "device . of 1"),
    "signal-on-a-mesh": (OutOfBoundsError, "device . of 1"),
    "remote-copy-on-a-mesh": (OutOfBoundsError, "device . of 1"),
    "signal-a-core": (OutOfBoundsError, "core 1 of 1"),
    "has-memory-space": (UnsupportedOpError, "left to"),
}
if jax.__version_info__ < (0, 12):
    # Its pipelines fetch into a buffer of an input-output ref before the copy out of it has ended.
    FAULTY["pipeline-in-out-2-4"] = (WriteToSourceError, "written that a DMA in flight reads")
#: Not compared, and why.
NOT_COMPARED: Final = {
    "remote-copy": "it talks to a second device; simulate_devices is tested with the all-gather",
    "remote-copy-scalar": "it talks to a second device",
    "remote-copy-static-parts": "it talks to a second device",
    "remote-signal": "it talks to a second device",
    "barrier": "it talks to a second device",
    "smem-add-in-place": "it adds to an output that nobody wrote",
}

# --- inputs ----------------------------------------------------------------------------------------------------------

#: What the scalars of some kernels must be, so that they stay inside their memory and keep their promises.
SCALARS: Final = {
    r"guide-(load|store)-row|view-3d-scalar|copy-sem-array-scalar|copy-chain|copy-synchronous": 1,
    r"load-ds-scalar-(stride|times)|store-ds-scalar-times": 1,
    r"-ds-scalar-multiple": 4,
    r"multiple-of": 8,
    r"pipeline-dynamic-(inner|outer|both|revisited)": 2,  # of windows across
    r"pipeline-.*dynamic": 4,  # of windows down
}
#: The least and the greatest number of some operands, by the pair and the operand: what is beyond has no meaning, or
#: the last place of the result is beyond what either side computes.
RANGES: Final = {
    r"^take-along-axis.* at$": (-8, 7),  # positions in the smallest of the dimensions
    r"^select-n-integers n$": (0, 1),
    r"^exp2?-([iu]\d+|of-scalar-i32) ": (-16, 16),  # e**-87 is the least normal f32
    # XLA multiplies by a rounded ln 2, and rounds the product: it is off by as many halves of a unit as the exponent.
    r"^exp2-bf16 x$": (-1, 1),
    r"^(mean|var|std)-.*i32.* x$": (-256, 256),  # sums that are exact in f32
    r"^dot-row-bf16 ": (-15 / 8, 15 / 8),  # products of 4 bits by 4 bits: exact in bf16
}
#: Floats with all their bits: of others nothing is left to round.
_FULL_BITS: Final = re.compile(r"^(stochastic|pack)-.* [xy]$")


def _scalar_of(pair: Pair) -> int | None:
    return next((value for pattern, value in SCALARS.items() if re.search(pattern, pair.id)), None)


def _range_of(name: str) -> tuple[float, float] | None:
    return next((limits for pattern, limits in RANGES.items() if re.search(pattern, name)), None)


def _is_float(dtype: Any) -> bool:
    return np.dtype(dtype).kind == "f" or "float" in np.dtype(dtype).name


def _array(pair: Pair, name: str, arg: Arg, rng: np.random.Generator) -> Array:
    """Random contents that the kernel can take."""
    dtype = np.dtype(arg.numpy)
    limits = _range_of(f"{pair.id} {name}")
    if _is_float(dtype):
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


def _arrays(pair: Pair) -> list[Array]:
    rng = np.random.default_rng(zlib.crc32(pair.id.encode()))
    roles = ("scalar_prefetch", "input")
    return [_array(pair, n, a, rng) for role in roles for n, a in pair.operands.items() if a.role == role]


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


def simulated(pair: Pair, arrays: list[Array], **options: Any) -> list[Array]:
    """What the reference engine makes of Pallas's module."""
    return list(reported(pair, arrays, **options).outputs)


def interpreted(pairs: list[Pair], arrays: list[list[Array]]) -> list[list[Array]]:
    """What JAX makes of kernels on the CPU, compiled at once."""
    functions = [_of_values(pair) if pair.loaded else _of_refs(pair) for pair in pairs]

    def run(given: list[list[Any]]) -> list[list[Any]]:
        return [function(*operands) for function, operands in zip(functions, given, strict=True)]

    with pallas.as_on_a_tpu():  # emit_pipeline asks for its tiles
        results = jax.jit(run, compiler_options=_COMPILER)(arrays)
    return jax.tree.map(np.asarray, results)


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
    """Where two results differ more than they may; empty if nowhere. What nobody wrote is left out."""
    assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype)
    with np.errstate(invalid="ignore"):  # of NaN in a narrow format
        a, b = ours.astype(np.float64), theirs.astype(np.float64)
    equal = (a == b) | (np.isnan(a) & np.isnan(b)) | _unwritten(ours)
    if _is_float(ours.dtype):
        info = ml_dtypes.finfo(ours.dtype)
        least = 1.0 if _CANCELS.search(pair.id) else float(info.smallest_normal)
        unit = np.maximum(np.abs(b), least) * float(info.eps)
        with np.errstate(invalid="ignore"):
            equal |= np.abs(a - b) <= _ulps(pair, ours.dtype) * unit
    if equal.all():
        return ""
    place = tuple(int(i) for i in np.unravel_index(int(np.argmin(equal)), equal.shape))
    return f"{int((~equal).sum())} of {equal.size} differ, the first at {place}: {ours[place]} and {theirs[place]}"


def _unwritten(ours: Array) -> Array:
    """Which elements of a result nobody wrote."""
    word = np.dtype(f"u{ours.dtype.itemsize}")
    return ours.view(word) == np.array([poison(_signless(ours.dtype))]).view(word)[0]


def _signless(dtype: Any) -> Any:
    """The dtype in which the simulator holds integers."""
    return np.dtype(dtype.name.removeprefix("u")) if dtype.name.startswith("uint") and dtype.itemsize > 1 else dtype


def faults(pair: Pair, arrays: list[Array], theirs: list[Array]) -> list[str]:
    """What is wrong with what the simulator makes of a kernel."""
    try:
        ours = simulated(pair, arrays)
    except SimulationError as error:
        return [f"{type(error).__name__}: {error}"]
    assert len(ours) == len(theirs)
    return [text for a, b in zip(ours, theirs, strict=True) if (text := differences(pair, a, b))]


# --- which -----------------------------------------------------------------------------------------------------------


CASTS: Final = ("astype-", "bitcast-")
#: Of which families one in so many is run.
SHARES: Final = {
    r"^(astype|bitcast)-": 3,
    r"-(vector|scalar|number)-(vector|scalar|number|row|column)$": 2,  # what stands on either side of an operator
    r"-(all|both-axes|1d|(last-)?axis(-[-\d]+)?|3d-[-\d]+)$": 2,  # reductions
    r"^pipeline-": 8,  # they take the longest
}
#: Where each share begins.
_TURN: Final = int(jax.__version_info__ < (0, 12))


def _family(pair: Pair) -> str:
    """The pair's id without its element types, and without whether dimensions are kept."""
    if pair.id.startswith(CASTS) or "-to-" in pair.id:
        return pair.id
    return re.sub(r"-(b?f|[iu])\d+[a-z0-9]*(?=-|$)|-keepdims", "", pair.id)


def _share(name: str, of: int) -> bool:
    """Whether a name is among one in so many, the same ones each time."""
    return zlib.crc32(name.encode()) % of == _TURN % of


def _part(name: str) -> int:
    return next((of for pattern, of in SHARES.items() if re.search(pattern, name)), 1)


def _chosen() -> list[Pair]:
    asked = os.environ.get("SIMULATED_PAIRS")
    if asked is not None:
        return [pair for pair in PAIRS if asked == "all" or re.search(asked, pair.id)]
    families: dict[str, list[Pair]] = {}
    for pair in PAIRS:
        families.setdefault(_family(pair), []).append(pair)
    return [
        members[zlib.crc32(name.encode()) // 7 % len(members)]
        for name, members in families.items()
        if _share(name, _part(name))
    ]


CHOSEN: Final = _chosen()


# --- what is not interpreted -----------------------------------------------------------------------------------------

type Outputs = list[Array]


@dataclass(frozen=True)
class Kind:
    """Kernels that JAX does not run on a CPU, or runs otherwise than their module says.

    Attributes:
        pattern: of their ids.
        reason: why.
        wanted: what they have to give, of their arrays; nothing where a test of its own says it.
    """

    pattern: str
    reason: str
    wanted: Callable[[Pair, list[Array]], Outputs] | None

    def pairs(self) -> list[Pair]:
        return [pair for pair in PAIRS if re.search(self.pattern, pair.id)]


def _in_numpy(module: Any, name: str, function: Callable[..., Any]) -> Callable[[Pair, list[Array]], Outputs]:
    """What a snippet gives with a function that says in NumPy what JAX has no rule for."""

    def wanted(pair: Pair, arrays: list[Array]) -> Outputs:
        with mock.patch.object(module, name, function):
            return [np.asarray(result) for result in _of_values(pair)(*arrays)]

    return wanted


def _blank(pair: Pair) -> Array:
    """An output before it is written."""
    (arg,) = [a for a in pair.operands.values() if a.role == "output"]
    return np.full(arg.shape, poison(_signless(np.dtype(arg.numpy)))).astype(arg.numpy)


def _nothing(pair: Pair, _: list[Array]) -> Outputs:
    return [_blank(pair)]


def _first(_: Pair, arrays: list[Array]) -> Outputs:
    return [arrays[-1]]


def _rows(make: Callable[[Array], Array], rows: Any) -> Callable[[Pair, list[Array]], Outputs]:
    """Some rows made of the last input, the others left alone."""

    def wanted(pair: Pair, arrays: list[Array]) -> Outputs:
        blank = _blank(pair)
        blank[rows] = make(arrays[-1])
        return [blank]

    return wanted


def _words(array: Array) -> Array:
    return array.view(np.dtype(f"u{array.dtype.itemsize}"))


def _pack(xs: list[Array], *, packed_dtype: Any) -> Array:
    """The first in the lowest bits: a float as its nearest in bf16, an integer without its high bits."""
    word = _words(xs[0]).dtype
    bits = 8 * word.itemsize // len(xs)
    parts = [_words(x.astype(packed_dtype)) if _is_float(x.dtype) else _words(x) for x in xs]
    made = sum((int(2 ** (i * bits)) * (p.astype(np.uint64) % 2**bits) for i, p in enumerate(parts)), np.uint64(0))
    return made.astype(word)


def _unpack(x: Array, *, index: int, packed_dtype: Any, unpacked_dtype: Any) -> Array:
    """The part with this number, the lowest first."""
    bits = ml_dtypes.finfo(packed_dtype).bits if _is_float(packed_dtype) else ml_dtypes.iinfo(packed_dtype).bits
    part = _words(x).astype(np.int64) // 2 ** (index * bits) % 2**bits
    if _is_float(packed_dtype):
        return part.astype(f"u{bits // 8}").view(packed_dtype).astype(unpacked_dtype)
    return np.where(part >= 2 ** (bits - 1), part - 2**bits, part).astype(unpacked_dtype)


def _round_randomly(x: Array, random_bits: Array, *, target_dtype: Any) -> Array:
    """The neighbour further from zero, if 16 random bits and the distance from the nearer one, in 2**-16, carry."""
    size = np.abs(x).astype(np.float64)
    near = np.abs(x).astype(target_dtype)
    low = _words(near) - (near.astype(np.float64) > size)
    high = low + 1
    floor, ceiling = (bits.astype(low.dtype).view(near.dtype).astype(np.float64) for bits in (low, high))
    carries = np.floor((size - floor) / (ceiling - floor) * 2**16) + random_bits % 2**16 >= 2**16
    return np.copysign(np.where(carries, ceiling, floor), x).astype(target_dtype)


_NO_RULE: Final = "JAX has no rule for it on a CPU"
NOT_INTERPRETED: Final = (
    Kind(
        r"^store-mask-of-a-row$",
        "the interpreter fails on the row's number",
        _rows(lambda x: np.where(x > 0, x, poison(x.dtype)), 2),
    ),
    Kind(r"^copy-dynamic-(size|start-and-size)$", "the interpreter wants static sizes", None),
    Kind(r"^pipeline-(ragged|dynamic-ragged)", "the interpreter wants static sizes, and the last copy is cut", _first),
    Kind(r"^pipeline-bounded(-both|-lanes)?$", "the interpreter wants static sizes", _first),
    Kind(
        r"^pipeline-bounded-static$", "the interpreter wants static sizes", lambda _, a: [np.tile(a[0][8:16], (4, 1))]
    ),
    Kind(r"^(stochastic-)", _NO_RULE, _in_numpy(pltpu, "stochastic_round", _round_randomly)),
    Kind(r"^pack-", _NO_RULE, _in_numpy(pltpu, "pack_elementwise", _pack)),
    Kind(r"^unpack-", _NO_RULE, _in_numpy(pltpu, "unpack_elementwise", _unpack)),
    Kind(
        r"^pl-reciprocal-approx-.*bf16",
        "Pallas's own rule for a CPU makes an f32 of it",
        _in_numpy(pl, "reciprocal", lambda x, **_: (1 / x.astype(np.float32)).astype(x.dtype)),
    ),
    Kind(
        r"^jnp-dot-i4-",
        "XLA has no products of i4 on a CPU",
        _in_numpy(jnp, "dot", lambda x, y, **_: np.matmul(x.astype(np.int32), y.astype(np.int32))),
    ),
    Kind(
        r"^sum-of-f8",
        "XLA rounds every partial sum to f8",
        _in_numpy(jnp, "sum", lambda x, axis: x.astype(np.float64).sum(axis).astype(np.float32).astype(x.dtype)),
    ),
    Kind(r"^pltpu-store-strided$", "the interpreter has no strides", _rows(lambda x: x, slice(0, 8, 2))),
    Kind(r"^(trace-value|traced|delay)", f"{_NO_RULE}, and it makes nothing", _nothing),
    Kind(r"^accumulator$", _NO_RULE, lambda _, a: [2 * np.matmul(*(x.astype(np.float32) for x in a))]),
    Kind(r"^(prng|stateful)", f"{_NO_RULE}, and the bits of a TPU are its own", None),
    Kind(
        r"^(random-(bits|uniform|normal|exponential|laplace|logistic|bernoulli|of-a-step)|fold-in)",
        "the interpreter takes a TPU's key for an array of keys, and the bits of a TPU are its own",
        None,
    ),
)


def _kind(pair: Pair) -> Kind | None:
    return next((kind for kind in NOT_INTERPRETED if re.search(kind.pattern, pair.id)), None)


# --- the tests -------------------------------------------------------------------------------------------------------


def _batches() -> Iterator[Any]:
    """The pairs that are interpreted, by topic."""
    compared = [p for p in CHOSEN if p.id not in FAULTY and p.id not in NOT_COMPARED and _kind(p) is None]
    for topic, members in itertools.groupby(sorted(compared, key=lambda p: p.topic), lambda p: p.topic):
        for number, batch in enumerate(itertools.batched(members, _AT_ONCE)):
            yield pytest.param(list(batch), id=f"{topic}-{number}")


@pytest.mark.parametrize("pairs", list(_batches()))
def test_kernels_give_what_jax_gives(pairs: list[Pair]) -> None:
    arrays = [_arrays(pair) for pair in pairs]
    try:
        results = interpreted(pairs, arrays)
    except _CANNOT:  # which of them?
        results = [interpreted([pair], [given])[0] for pair, given in zip(pairs, arrays, strict=True)]
    found = {p.id: faults(p, given, wanted) for p, given, wanted in zip(pairs, arrays, results, strict=True)}
    assert {name: texts for name, texts in found.items() if texts} == {}


# --- what the interpreter cannot run ---------------------------------------------------------------------------------


def _pair(name: str) -> Pair:
    return next(p for p in PAIRS if p.id == name)


@pytest.mark.parametrize("kind", [k for k in NOT_INTERPRETED if k.wanted is not None], ids=lambda k: k.pattern)
def test_a_kernel_that_is_not_interpreted_gives_what_is_said_of_it(kind: Kind) -> None:
    assert kind.wanted is not None
    given = [(pair, _arrays(pair)) for pair in kind.pairs() if pair.id not in FAULTY]
    found = {pair.id: faults(pair, arrays, kind.wanted(pair, arrays)) for pair, arrays in given}
    assert {name: texts for name, texts in found.items() if texts} == {}


@pytest.mark.parametrize("name", ["copy-dynamic-size", "copy-dynamic-start-and-size"])
def test_a_copy_of_as_many_rows_as_a_scalar_says(name: str) -> None:
    pair = _pair(name)
    scalars = np.array([3, 2, 4, 1], np.int32)
    report = reported(pair, [scalars, _arrays(pair)[1]])
    assert [e.amount for e in report.trace if e.kind == "dma" and e.line is not None] == [3 * 128 * 4]
    with pytest.raises(OutOfBoundsError):
        reported(pair, [scalars * 3, _arrays(pair)[1]])


#: Of random numbers: their least, and what all are below; their mean and their standard deviation.
DISTRIBUTIONS: Final = {
    "stateful_uniform-": (0.0, 1.0, 1 / 2, 12**-0.5),
    "stateful-uniform-limits": (-1.0, 2.0, 1 / 2, 3 * 12**-0.5),
    "stateful-uniform-after-a-seed": (0.0, 2.0, 1, 6**-0.5),
    "stateful_normal-": (-6.0, 6.0, 0.0, 1.0),
    "stateful-bernoulli": (0, 2, 1 / 4, (3 / 16) ** 0.5),
    "stateful_bits-": (0, 2.0**32, 2.0**31, 2.0**32 * 12**-0.5),
    "prng(-random-bits.*|-of-a-step)?$": (-(2.0**31), 2.0**31, 0, 2.0**32 * 12**-0.5),
}


@pytest.mark.parametrize("pair", [p for p in PAIRS if re.search("^(prng|stateful)", p.id)], ids=lambda p: p.id)
def test_random_numbers_come_from_their_seed_and_keep_their_distribution(pair: Pair) -> None:
    arrays = _arrays(pair)
    (first,), (again,), (other,) = (
        simulated(pair, given, seed=seed)
        for given, seed in ((arrays, 0), (arrays, 0), ([a + 1 for a in arrays], 1 - len(arrays)))
    )
    assert first.tobytes() == again.tobytes()
    found = [values for pattern, values in DISTRIBUTIONS.items() if re.match(pattern, pair.id)]
    if not found:
        assert pair.id.startswith("prng-seed-")
        assert _unwritten(first).all()
        return
    assert pair.id == "prng-of-a-step" or first.tobytes() != other.tobytes()
    ((low, high, mean, deviation),) = found
    numbers = first.astype(np.float64)
    assert low <= numbers.min()
    assert numbers.max() < high
    assert abs(numbers.mean() - mean) < 4 * deviation / first.size**0.5
    assert abs(numbers.std() / deviation - 1) < 4 / first.size**0.5


# --- what must be seen -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pair", [p for p in PAIRS if p.id in FAULTY], ids=lambda p: p.id)
def test_a_kernel_that_breaks_a_rule_is_reported(pair: Pair) -> None:
    error, text = FAULTY[pair.id]
    with pytest.raises(error, match=text):
        simulated(pair, _arrays(pair))


def _is_as_interpreted(pair: Pair) -> bool:
    arrays = _arrays(pair)
    try:
        return faults(pair, arrays, interpreted([pair], [arrays])[0]) == []
    except _CANNOT:
        return False


@pytest.mark.parametrize("kind", NOT_INTERPRETED, ids=lambda k: k.pattern)
def test_what_is_said_not_to_be_interpreted_is_not(kind: Kind) -> None:
    assert kind.pairs()
    assert [pair.id for pair in kind.pairs() if _is_as_interpreted(pair)] == []


def test_what_is_not_compared_exists() -> None:
    assert {*NOT_COMPARED} <= {p.id for p in PAIRS}
    assert not {*FAULTY} & {*NOT_COMPARED}
    assert [name for name in NOT_COMPARED if _kind(_pair(name)) is not None] == []


@pytest.mark.parametrize("table", [SCALARS, UNITS, SHARES], ids=["scalars", "units", "shares"])
def test_what_is_said_of_kernels_is_said_of_some(table: dict[str, Any]) -> None:
    assert [pattern for pattern in table if not any(re.search(pattern, p.id) for p in PAIRS)] == []


def test_what_is_said_of_operands_is_said_of_some() -> None:
    names = [f"{p.id} {n}" for p in PAIRS for n in p.args]
    assert [pattern for pattern in RANGES if not any(re.search(pattern, n) for n in names)] == []


@pytest.mark.skipif("SIMULATED_PAIRS" in os.environ, reason="some pairs were asked for")
def test_every_operation_is_run() -> None:
    assert {p.id.split("-")[0] for p in PAIRS} == {p.id.split("-")[0] for p in CHOSEN}
    assert {p.topic for p in PAIRS} == {p.topic for p in CHOSEN}


def test_a_difference_is_seen() -> None:
    pair, other = _pair("add-vector-vector-f32"), _pair("sub-vector-vector-f32")
    arrays = _arrays(pair)
    ((theirs,),) = interpreted([pair], [arrays])
    assert "differ" in differences(pair, simulated(other, arrays)[0], theirs)


def test_a_difference_of_two_units_in_bf16_is_seen() -> None:
    pair = _pair("add-vector-vector-bf16")
    ones = np.ones((8, 128), ml_dtypes.bfloat16)
    assert differences(pair, ones, (ones + np.float32(2.0**-7)).astype(ml_dtypes.bfloat16)) == ""
    assert differences(pair, ones, (ones + np.float32(2.0**-6)).astype(ml_dtypes.bfloat16))
