"""The cheat-sheet's kernels, simulated: each gives what JAX gives on the same random arrays.

Pallas lowers each kernel for a TPU, and the simulator runs the module. What it has to give comes from JAX on the CPU:
`conformance.harness.simulated` has both sides and compares them. Many are compiled at once, since compiling is what
takes the time.

What JAX cannot run on a CPU, or runs otherwise than the module says, is in `NOT_INTERPRETED` with the reason and with
what it has to give; an entry without need fails.

Of pairs that differ in their element type alone one is run; of those, a share where there are many, another one on an
older JAX. With ``SIMULATED_PAIRS=all`` every pair is run, which takes some minutes, and with a pattern those
whose id it is found in.
"""

from __future__ import annotations

import itertools
import os
import re
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
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
from conformance.cases.cheat_sheet.pairs import Pair
from conformance.harness import simulated as harness
from conformance.harness.simulated import (
    RANGES,
    SCALARS,
    UNITS,
    WRITE_NOTHING,
    Array,
    Outputs,
    blank,
    blank_like,
    differences,
    faults,
    in_numpy,
    inputs_of,
    interpreted,
    left_blank,
    pack,
    reported,
    round_randomly,
    shown,
    simulated,
    unpack,
    unwritten,
)
from mosaic_tpu.sim._memory import poison
from mosaic_tpu.sim.errors import (
    OutOfBoundsError,
    SimulationError,
    UndefinedResultError,
    UnsupportedOpError,
    WriteToDestinationError,
    WriteToSourceError,
)

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


@dataclass(frozen=True)
class Kind:
    """Kernels that JAX does not run on a CPU, or runs otherwise than their module says.

    Attributes:
        pattern: of their ids.
        reason: why.
        says: the error of JAX, and a piece of its text; without an error, of the differences.
        wanted: what they have to give, of their arrays; nothing where a test of its own says it.
    """

    pattern: str
    reason: str
    says: tuple[type[Exception] | None, str]
    wanted: Callable[[Pair, list[Array]], Outputs] | None

    def pairs(self) -> list[Pair]:
        return [shown(pair) for pair in PAIRS if re.search(self.pattern, pair.id)]

    def expects(self, said: tuple[type[Exception] | None, str]) -> bool:
        return said[0] is self.says[0] and re.search(self.says[1], said[1]) is not None


def _nothing(pair: Pair, _: list[Array]) -> Outputs:
    return [blank(pair)]


def _first(_: Pair, arrays: list[Array]) -> Outputs:
    return [arrays[-1]]


def _rows(make: Callable[[Array], Array], rows: Any) -> Callable[[Pair, list[Array]], Outputs]:
    """Some rows made of the last input, the others left alone."""

    def wanted(pair: Pair, arrays: list[Array]) -> Outputs:
        result = blank(pair)
        result[rows] = make(arrays[-1])
        return [result]

    return wanted


def _no_rule(*primitives: str) -> tuple[type[Exception], str]:
    """What JAX says of a primitive that it cannot lower for a CPU."""
    return NotImplementedError, f"rule for primitive '({'|'.join(primitives)})' not found for platform cpu"


_NO_RULE: Final = "JAX has no rule for it on a CPU"
_STATIC: Final = "the interpreter wants static sizes"
_NOT_STATIC: Final = (TypeError, "^Shapes must be 1D sequences of concrete values of integer type, got ")
NOT_INTERPRETED: Final = (
    Kind(
        r"^store-mask-of-a-row$",
        "the interpreter fails on the row's number",
        (AttributeError, "'TypedInt' object has no attribute 'shape'"),
        _rows(lambda x: np.where(x > 0, x, np.nan), 2),
    ),
    Kind(r"^copy-dynamic-(size|start-and-size)$", _STATIC, _NOT_STATIC, None),
    Kind(r"^pipeline-(ragged|dynamic-ragged)", f"{_STATIC}, and the last copy is cut", _NOT_STATIC, _first),
    Kind(r"^pipeline-bounded(-both|-lanes)?$", _STATIC, _NOT_STATIC, _first),
    Kind(r"^pipeline-bounded-static$", _STATIC, _NOT_STATIC, lambda _, a: [np.tile(a[0][8:16], (4, 1))]),
    Kind(
        r"^(stochastic-)", _NO_RULE, _no_rule("stochastic_round"), in_numpy(pltpu, "stochastic_round", round_randomly)
    ),
    Kind(r"^pack-", _NO_RULE, _no_rule("pack_elementwise"), in_numpy(pltpu, "pack_elementwise", pack)),
    Kind(r"^unpack-", _NO_RULE, _no_rule("unpack_elementwise"), in_numpy(pltpu, "unpack_elementwise", unpack)),
    Kind(
        r"^pl-reciprocal-approx-.*bf16",
        "Pallas's own rule for a CPU makes an f32 of it",
        (ValueError, r"type of return operand 0 \('tensor<16x128xf32>'\) doesn't match .*'tensor<16x128xbf16>'"),
        in_numpy(pl, "reciprocal", lambda x, **_: (1 / x.astype(np.float32)).astype(x.dtype)),
    ),
    Kind(
        r"^jnp-dot-i4-",
        "XLA has no products of i4 on a CPU",
        (jax.errors.JaxRuntimeError, "does not support custom element sizes on non-sub-byte types"),
        in_numpy(jnp, "dot", lambda x, y, **_: np.matmul(x.astype(np.int32), y.astype(np.int32))),
    ),
    Kind(
        r"^sum-of-f8",
        "XLA rounds every partial sum to f8",
        (None, r"^\d+ of 128 differ"),
        in_numpy(jnp, "sum", lambda x, axis: x.astype(np.float64).sum(axis).astype(np.float32).astype(x.dtype)),
    ),
    Kind(
        r"^pltpu-store-strided$",
        "the interpreter has no strides",
        (NotImplementedError, "Unimplemented stride support"),
        _rows(lambda x: x, slice(0, 8, 2)),
    ),
    Kind(
        r"^(trace-value|traced|delay)", f"{_NO_RULE}, and it makes nothing", _no_rule("trace_value", "delay"), _nothing
    ),
    Kind(
        r"^accumulator$",
        "the interpreter has no rule for it",
        (NotImplementedError, "No state discharge rule implemented for primitive: matmul_acc_lhs"),
        lambda _, a: [2 * np.matmul(*(x.astype(np.float32) for x in a))],
    ),
    Kind(
        r"^(prng|stateful|random-(bits|uniform|normal|exponential|laplace|logistic|bernoulli))",
        f"{_NO_RULE}, and the bits of a TPU are its own",
        _no_rule("prng_seed", "prng_random_bits"),
        None,
    ),
    Kind(
        r"^(fold-in|random-of-a-step)",
        "the interpreter has the key as its numbers, which cannot be folded, and the bits of a TPU are its own",
        (AttributeError, "UInt32DType' object has no attribute '_impl'"),
        None,
    ),
)


def _kind(pair: Pair) -> Kind | None:
    return next((kind for kind in NOT_INTERPRETED if re.search(kind.pattern, pair.id)), None)


# --- the tests -------------------------------------------------------------------------------------------------------


def _batches() -> Iterator[Any]:
    """The pairs that are interpreted, by topic and TPU."""
    compared = [shown(p) for p in CHOSEN if p.id not in FAULTY and p.id not in NOT_COMPARED and _kind(p) is None]
    for name, members in itertools.groupby(sorted(compared, key=_batch), _batch):
        for number, batch in enumerate(itertools.batched(members, _AT_ONCE)):
            yield pytest.param(list(batch), id=f"{name}-{number}")


def _batch(pair: Pair) -> str:
    return f"{pair.topic}-{pair.tpu_version}"


@pytest.mark.parametrize("pairs", list(_batches()))
def test_kernels_give_what_jax_gives(pairs: list[Pair]) -> None:
    arrays = [inputs_of(pair) for pair in pairs]
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
    given = [(pair, inputs_of(pair)) for pair in kind.pairs() if pair.id not in FAULTY]
    found = {pair.id: faults(pair, arrays, kind.wanted(pair, arrays)) for pair, arrays in given}
    assert {name: texts for name, texts in found.items() if texts} == {}


#: Of copies whose size is a scalar, with the scalars 3, 2, 4 and 1: from which row they copy to which.
COPIED: Final = {"copy-dynamic-size": (0, 0), "copy-dynamic-start-and-size": (2, 4)}


@pytest.mark.parametrize("name", COPIED)
def test_a_copy_of_as_many_rows_as_a_scalar_says(name: str) -> None:
    pair = shown(_pair(name))
    scalars, source = np.array([3, 2, 4, 1], np.int32), inputs_of(pair)[1]
    report = reported(pair, [scalars, source])
    assert [e.amount for e in report.trace if e.kind == "dma" and e.line is not None] == [3 * 128 * 4]
    start, to = COPIED[name]
    wanted = np.full_like(source, np.nan)
    wanted[to : to + 3] = source[start : start + 3]
    assert differences(pair, report.outputs[1], wanted) == ""
    with pytest.raises(OutOfBoundsError):
        reported(pair, [scalars * 3, source])


#: Of random numbers: their least, and what all are below; their mean and their standard deviation.
DISTRIBUTIONS: Final = {
    "stateful_uniform-": (0.0, 1.0, 1 / 2, 12**-0.5),
    "stateful-uniform-limits": (-1.0, 2.0, 1 / 2, 3 * 12**-0.5),
    "stateful-uniform-after-a-seed": (0.0, 2.0, 1, 6**-0.5),
    "stateful_normal-": (-6.0, 6.0, 0.0, 1.0),
    "stateful-bernoulli": (0, 2, 1 / 4, (3 / 16) ** 0.5),
    "stateful_bits-": (0, 2.0**32, 2.0**31, 2.0**32 * 12**-0.5),
    "prng(-random-bits.*|-of-a-step)?$": (-(2.0**31), 2.0**31, 0, 2.0**32 * 12**-0.5),
    r"random-bits-|fold-in-": (0, 2.0**32, 2.0**31, 2.0**32 * 12**-0.5),
    r"random-uniform-\dd|random-of-a-step": (0.0, 1.0, 1 / 2, 12**-0.5),
    "random-uniform-limits": (-1.0, 2.0, 1 / 2, 3 * 12**-0.5),
    "random-normal-": (-6.0, 6.0, 0.0, 1.0),
    "random-exponential-": (0.0, 20.0, 1.0, 1.0),
    "random-laplace-": (-20.0, 20.0, 0.0, 2**0.5),
    "random-logistic-": (-20.0, 20.0, 0.0, np.pi / 3**0.5),
    "random-bernoulli": (0, 2, 1 / 4, (3 / 16) ** 0.5),
}
DRAWN: Final = [p for p in PAIRS if any(re.match(pattern, p.id) for pattern in DISTRIBUTIONS)]
SEEDED: Final = [p for p in PAIRS if p.id.startswith("prng-seed-")]


@pytest.mark.parametrize("pair", DRAWN, ids=lambda p: p.id)
def test_random_numbers_come_from_their_seed_and_keep_their_distribution(pair: Pair) -> None:
    arrays = inputs_of(pair)
    (first,), (again,), (other,) = (
        simulated(pair, given, seed=seed)
        for given, seed in ((arrays, 0), (arrays, 0), ([a + 1 for a in arrays], 0 if arrays else 1))
    )
    assert first.tobytes() == again.tobytes()
    assert pair.id == "prng-of-a-step" or first.tobytes() != other.tobytes()
    ((low, high, mean, deviation),) = [
        values for pattern, values in DISTRIBUTIONS.items() if re.match(pattern, pair.id)
    ]
    numbers = first.astype(np.float64)
    assert low <= numbers.min()
    assert numbers.max() < high
    assert abs(numbers.mean() - mean) < 4 * deviation / first.size**0.5
    assert abs(numbers.std() / deviation - 1) < 4 / first.size**0.5


@pytest.mark.parametrize("pair", SEEDED, ids=lambda p: p.id)
def test_setting_the_seed_writes_nothing(pair: Pair) -> None:
    arrays = inputs_of(pair)
    assert faults(pair, arrays, [blank(pair)]) == []


def test_a_key_is_folded_with_a_number_as_with_a_scalar() -> None:
    pair = _pair("fold-in-scalar")
    key, scalars = inputs_of(pair)
    (number,) = simulated(_pair("fold-in-number"), [key, scalars])
    same, other = (simulated(pair, [key, np.full_like(scalars, n)])[0] for n in (3, 4))
    assert number.tobytes() == same.tobytes() != other.tobytes()


def test_what_is_not_compared_as_a_kind_has_a_test_of_its_own() -> None:
    alone = [p.id for kind in NOT_INTERPRETED if kind.wanted is None for p in kind.pairs()]
    assert sorted(alone) == sorted([*COPIED, *(p.id for p in (*DRAWN, *SEEDED))])


# --- what must be seen -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pair", [p for p in PAIRS if p.id in FAULTY], ids=lambda p: p.id)
def test_a_kernel_that_breaks_a_rule_is_reported(pair: Pair) -> None:
    error, text = FAULTY[pair.id]
    with pytest.raises(error, match=text):
        simulated(pair, inputs_of(pair))


def _said(pair: Pair) -> tuple[type[Exception] | None, str]:
    """The error of JAX that runs a kernel on a CPU, or else how what the simulator gives differs."""
    arrays = inputs_of(pair)
    try:
        theirs = interpreted([pair], [arrays])[0]
    except _CANNOT as error:
        return type(error), str(error)
    return None, "; ".join(faults(pair, arrays, theirs))


@pytest.mark.parametrize("kind", NOT_INTERPRETED, ids=lambda k: k.pattern)
def test_what_is_said_not_to_be_interpreted_is_not(kind: Kind) -> None:
    assert kind.pairs()
    said = {pair.id: _said(pair) for pair in kind.pairs()}
    assert {name: what for name, what in said.items() if not kind.expects(what)} == {}


@pytest.mark.parametrize("kind", NOT_INTERPRETED, ids=lambda k: k.pattern)
def test_what_jax_says_is_not_just_any_error(kind: Kind) -> None:
    error, _ = kind.says
    assert not kind.expects((None, ""))
    assert not kind.expects((error, "'Pair' object has no attribute 'oparands'"))
    assert not kind.expects((KeyError, str(error)))


def test_what_is_not_compared_exists() -> None:
    assert {*NOT_COMPARED} <= {p.id for p in PAIRS}
    assert not {*FAULTY} & {*NOT_COMPARED}
    assert [name for name in NOT_COMPARED if _kind(_pair(name)) is not None] == []


@pytest.mark.parametrize(
    "table", [SCALARS, UNITS, SHARES, WRITE_NOTHING], ids=["scalars", "units", "shares", "nothing"]
)
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
    arrays = inputs_of(pair)
    ((theirs,),) = interpreted([pair], [arrays])
    assert "differ" in differences(pair, simulated(other, arrays)[0], theirs)


def test_a_difference_of_two_units_in_bf16_is_seen() -> None:
    pair = _pair("add-vector-vector-bf16")
    ones = np.ones((8, 128), ml_dtypes.bfloat16)
    assert differences(pair, ones, (ones + np.float32(2.0**-7)).astype(ml_dtypes.bfloat16)) == ""
    assert differences(pair, ones, (ones + np.float32(2.0**-6)).astype(ml_dtypes.bfloat16))


@pytest.mark.parametrize(
    "name", ["add-vector-vector-f32", "add-vector-vector-bf16", "add-vector-vector-i32", "swap-row"]
)
def test_a_result_that_nobody_wrote_is_a_difference(name: str) -> None:
    pair = _pair(name)
    arrays = inputs_of(pair)
    (theirs,) = interpreted([pair], [arrays])
    for ours, wanted in zip(simulated(pair, arrays), theirs, strict=True):
        nobody = np.full(ours.shape, poison(ours.dtype))
        assert unwritten(nobody).all()
        written = ~left_blank(wanted)
        assert differences(pair, nobody, wanted).startswith(f"{written.sum()} of {ours.size} differ") == written.any()
        assert differences(pair, nobody, blank_like(wanted)) == ""
        assert unwritten(ours).all() or differences(pair, ours, blank_like(wanted)) != ""


def test_a_simulator_that_drops_every_store_is_seen() -> None:
    pair = _pair("store-row-slice-bf16")
    arrays = inputs_of(pair)
    (theirs,) = interpreted([pair], [arrays])
    nobody = np.full(theirs[0].shape, poison(theirs[0].dtype))
    report = replace(reported(pair, arrays), outputs=(nobody,), unwritten={"o": nobody.size})
    with mock.patch.object(harness, "reported", lambda *_: report):
        assert [text.split(",")[0] for text in faults(pair, arrays, theirs)] == ["128 of 1024 differ"]
        assert faults(pair, arrays, [blank(pair)]) == ["it writes nothing, which is not what is said of it"]


def test_what_the_simulator_does_not_count_as_unwritten_is_seen() -> None:
    pair = _pair("store-row-slice-bf16")
    arrays = inputs_of(pair)
    (theirs,) = interpreted([pair], [arrays])
    report = replace(reported(pair, arrays), unwritten={})
    with mock.patch.object(harness, "reported", lambda *_: report):
        assert "counts {} that nobody wrote, JAX leaves [896]" in faults(pair, arrays, theirs)[0]
