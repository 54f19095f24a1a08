"""The cheat-sheet's kernels, simulated: each gives what Pallas's interpreter gives on the same random arrays.

Pallas lowers each kernel for a TPU, the simulator runs the module, and ``interpret=True`` runs the kernel's jaxpr.
Floats are multiples of an eighth, so that sums and products are exact in any order, and what is rounded is compared in
units of the last place.

Of pairs that differ in their element type alone one is run; of those, every second that combines two operands, and
every third cast. With ``SIMULATED_PAIRS=all`` every pair is run, which takes some minutes.
"""

from __future__ import annotations

import functools
import os
import re
import zlib
from typing import Any, Final
from unittest import mock

import jax
import ml_dtypes
import numpy as np
import pytest
from jax.experimental import pallas as pl

from conformance.cases.cheat_sheet import control, dma, elementwise, guide, refs, shapes, windows
from conformance.cases.cheat_sheet.pairs import Arg, Pair
from conformance.harness import pallas
from mosaic_tpu.sim import Report, simulate
from mosaic_tpu.sim._memory import poison
from mosaic_tpu.sim.errors import OutOfBoundsError

type Array = np.ndarray[Any, Any]

#: The pairs that are simulated: of the others only the bytes are compared.
PAIRS: Final = [pair for module in (guide, elementwise, shapes, refs, control, dma, windows) for pair in module.PAIRS]

_FAST: Final = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}

#: Kernels that leave their memory whatever their inputs: the interpreter clamps, the simulator has to say it.
OUTSIDE: Final = {"map-times", "map-times-of-output", "map-negated", "map-negated-of-output"}
#: Not compared, and why.
NOT_COMPARED: Final = {
    "remote-copy": "it talks to a second device; simulate_devices is tested with the all-gather",
    "remote-copy-scalar": "it talks to a second device",
    "remote-copy-static-parts": "it talks to a second device",
    "remote-signal": "it talks to a second device",
    "barrier": "it talks to a second device",
    "smem-add-in-place": "it adds to an output that nobody wrote",
}
#: What the scalars of some kernels must be, so that they stay inside their memory and keep their promises.
SCALARS: Final = {
    r"guide-(load|store)-row|view-3d-scalar|copy-sem-array-scalar|copy-chain|copy-synchronous": 1,
    r"load-ds-scalar-(stride|times)|store-ds-scalar-times": 1,
    r"-ds-scalar-multiple": 4,
    r"multiple-of": 8,
}


#: The interpreter cannot run them; what they do is said below.
NOT_INTERPRETED: Final = {"store-mask-of-a-row", "copy-dynamic-size", "copy-dynamic-start-and-size"}


# --- inputs ----------------------------------------------------------------------------------------------------------


def _scalar_of(pair: Pair) -> int | None:
    return next((value for pattern, value in SCALARS.items() if re.search(pattern, pair.id)), None)


def _is_float(dtype: Any) -> bool:
    return np.dtype(dtype).kind == "f" or "float" in np.dtype(dtype).name


def _array(pair: Pair, arg: Arg, rng: np.random.Generator) -> Array:
    """Random contents that the kernel can take."""
    dtype = np.dtype(arg.numpy)
    if _is_float(dtype):
        numbers = rng.integers(1 if arg.space == "smem" else -32, 33, arg.shape) / 8
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
    numbers = rng.integers(int(info.min), int(info.max), arg.shape, endpoint=True, dtype=np.int64)
    return np.where(numbers == 0, 1, numbers).astype(dtype)


def _arrays(pair: Pair) -> list[Array]:
    rng = np.random.default_rng(zlib.crc32(pair.id.encode()))
    roles = ("scalar_prefetch", "input")
    return [_array(pair, a, rng) for role in roles for a in pair.operands.values() if a.role == role]


# --- both sides ------------------------------------------------------------------------------------------------------


def reported(pair: Pair, arrays: list[Array]) -> Report:
    """What the reference engine says of Pallas's module."""
    call, shapes = pair.pallas_call()
    return simulate(pallas.lower_to_stablehlo(call, *shapes), *arrays, allow_unwritten=True)


def simulated(pair: Pair, arrays: list[Array]) -> list[Array]:
    """What the reference engine makes of Pallas's module."""
    return list(reported(pair, arrays).outputs)


def interpreted(pair: Pair, arrays: list[Array]) -> list[Array]:
    """What Pallas's interpreter makes of the kernel."""
    with mock.patch.object(pl, "pallas_call", functools.partial(pl.pallas_call, interpret=True)):
        call, _ = pair.pallas_call()
    return [np.asarray(a) for a in jax.jit(call, compiler_options=_FAST)(*arrays)]


def _ulps(pair: Pair, dtype: Any) -> float:
    """How far apart two roundings of one result may be, in units of the last place of its dtype.

    Each side's functions are good to about two units in f32; XLA divides by multiplying with a reciprocal, which is
    good to one more. Narrower results are f32 results rounded, which may fall on two sides of a tie.
    """
    if pair.id.startswith("reciprocal-approx"):
        return 2.0**16  # the interpreter rounds to bf16, the simulator does not
    return 8 if np.dtype(dtype).itemsize >= 4 else 1


def differences(pair: Pair, ours: Array, theirs: Array) -> str:
    """Where two results differ more than they may; empty if nowhere. What nobody wrote is left out."""
    assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype)
    with np.errstate(invalid="ignore"):  # of NaN in a narrow format
        a, b = ours.astype(np.float64), theirs.astype(np.float64)
    equal = (a == b) | (np.isnan(a) & np.isnan(b))
    word = np.dtype(f"u{ours.dtype.itemsize}")
    equal |= ours.view(word) == np.array([poison(_signless(ours.dtype))]).view(word)[0]
    if _is_float(ours.dtype):
        info = ml_dtypes.finfo(ours.dtype)
        unit = np.maximum(np.abs(b), float(info.smallest_normal)) * float(info.eps)
        with np.errstate(invalid="ignore"):
            equal |= np.abs(a - b) <= _ulps(pair, ours.dtype) * unit
    if equal.all():
        return ""
    place = tuple(int(i) for i in np.unravel_index(int(np.argmin(equal)), equal.shape))
    return f"{int((~equal).sum())} of {equal.size} differ, the first at {place}: {ours[place]} and {theirs[place]}"


def _signless(dtype: Any) -> Any:
    """The dtype in which the simulator holds integers."""
    return np.dtype(dtype.name.removeprefix("u")) if dtype.name.startswith("uint") and dtype.itemsize > 1 else dtype


# --- which -----------------------------------------------------------------------------------------------------------


CASTS: Final = ("astype-", "bitcast-")


def _family(pair: Pair) -> str:
    """The pair's id without its element type."""
    return re.sub(r"-(b?f|[iu])\d+\w*$", "", pair.id)


def _share(name: str, of: int) -> bool:
    """Whether a name is among one in so many, the same ones each time."""
    return zlib.crc32(name.encode()) % of == 0


def _chosen() -> list[Pair]:
    if os.environ.get("SIMULATED_PAIRS") == "all":
        return list(PAIRS)
    families: dict[str, list[Pair]] = {}
    for pair in PAIRS:
        name = pair.id if pair.id.startswith(CASTS) else _family(pair)
        families.setdefault(name, []).append(pair)
    parts = {name: 3 if name.startswith(CASTS) else 2 if FORM.search(name) else 1 for name in families}
    return [
        members[zlib.crc32(n.encode()) // 7 % len(members)] for n, members in families.items() if _share(n, parts[n])
    ]


#: What stands on either side of an operator.
FORM: Final = re.compile(r"-(vector|scalar|number)-(vector|scalar|number|row|column)$")
CHOSEN: Final = _chosen()
_COMPARED: Final = [p for p in CHOSEN if p.id not in OUTSIDE | set(NOT_COMPARED) | NOT_INTERPRETED]


@pytest.mark.parametrize("pair", _COMPARED, ids=lambda p: p.id)
def test_a_kernel_gives_what_the_interpreter_gives(pair: Pair) -> None:
    arrays = _arrays(pair)
    ours, theirs = simulated(pair, arrays), interpreted(pair, arrays)
    assert len(ours) == len(theirs)
    assert [text for a, b in zip(ours, theirs, strict=True) if (text := differences(pair, a, b))] == []


# --- what the interpreter cannot run ---------------------------------------------------------------------------------


def _pair(name: str) -> Pair:
    return next(p for p in PAIRS if p.id == name)


def test_a_masked_store_to_a_row() -> None:
    pair = _pair("store-mask-of-a-row")
    (x,) = _arrays(pair)
    (made,) = simulated(pair, [x])
    wanted = np.full(made.shape, poison(made.dtype))
    wanted[2] = np.where(x > 0, x, wanted[2])
    assert made.view(np.int32).tolist() == wanted.view(np.int32).tolist()


@pytest.mark.parametrize("name", ["copy-dynamic-size", "copy-dynamic-start-and-size"])
def test_a_copy_of_as_many_rows_as_a_scalar_says(name: str) -> None:
    pair = _pair(name)
    scalars = np.array([3, 2, 4, 1], np.int32)
    report = reported(pair, [scalars, _arrays(pair)[1]])
    assert [e.amount for e in report.trace if e.kind == "dma" and e.line is not None] == [3 * 128 * 4]
    with pytest.raises(OutOfBoundsError):
        reported(pair, [scalars * 3, _arrays(pair)[1]])


# --- what must be seen -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pair", [p for p in PAIRS if p.id in OUTSIDE], ids=lambda p: p.id)
def test_a_window_outside_its_array_is_reported(pair: Pair) -> None:
    with pytest.raises(OutOfBoundsError, match="outside the array"):
        simulated(pair, _arrays(pair))


def test_what_is_not_compared_exists() -> None:
    assert {*OUTSIDE, *NOT_COMPARED, *NOT_INTERPRETED} <= {p.id for p in PAIRS}


def test_every_operation_is_run() -> None:
    assert {p.id.split("-")[0] for p in PAIRS} == {p.id.split("-")[0] for p in CHOSEN}


def test_a_difference_is_seen() -> None:
    pair, other = _pair("add-vector-vector-f32"), _pair("sub-vector-vector-f32")
    arrays = _arrays(pair)
    assert "differ" in differences(pair, simulated(other, arrays)[0], interpreted(pair, arrays)[0])


def test_a_difference_of_two_units_in_bf16_is_seen() -> None:
    pair = _pair("add-vector-vector-bf16")
    ones = np.ones((8, 128), ml_dtypes.bfloat16)
    assert differences(pair, ones, (ones + np.float32(2.0**-7)).astype(ml_dtypes.bfloat16)) == ""
    assert differences(pair, ones, (ones + np.float32(2.0**-6)).astype(ml_dtypes.bfloat16))
