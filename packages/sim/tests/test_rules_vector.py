"""Vectors: shapes, reductions, masks, against NumPy, also where a vector is broadcast and not yet filled."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import ml_dtypes
import numpy as np
import pytest

from mosaic_tpu.sim.errors import SimulationError, UnsupportedOpError
from packages.sim.tests.rules_kit import DTYPES, apply, equal, vector, wrap

RNG: Final = np.random.default_rng(0)
X: Final = RNG.integers(-8, 9, (8, 128)).astype(np.float32)

KINDS: Final[dict[str, Callable[[Any, Any, Any], Any]]] = {
    "add": lambda a, axis, init: a.sum(axis) + init,
    "mul": lambda a, axis, init: a.prod(axis) * init,
    "minsi": lambda a, axis, init: np.minimum(a.min(axis), init),
    "maxsi": lambda a, axis, init: np.maximum(a.max(axis), init),
    "and": lambda a, axis, init: np.bitwise_and.reduce(a, axis) & init,
    "or": lambda a, axis, init: np.bitwise_or.reduce(a, axis) | init,
    "xor": lambda a, axis, init: np.bitwise_xor.reduce(a, axis) ^ init,
}


def _wrapped(a: Any, bits: int) -> Any:
    return np.vectorize(lambda n: wrap(int(n), bits), otypes=[np.int64])(a)


# --- reductions ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("element", ["i32", "i8", "i4"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("axis", [0, 1])
def test_reductions_of_integers_start_where_they_are_told(kind: str, axis: int, element: str) -> None:
    bits = {"i32": 32, "i8": 8, "i4": 4}[element]
    a = RNG.integers(-(1 << (bits - 1)), 1 << (bits - 1), (4, 6))
    init = 3
    shape = (6, 4)[axis : axis + 1]
    lines = f"""%i = arith.constant dense<{init}> : {vector(shape, element)}
    %r = vector.multi_reduction <{kind}>, %a, %i [{axis}] : {vector(a.shape, element)} to {vector(shape, element)}"""
    made = apply(lines, a.astype(DTYPES[element]), out=(shape, element))
    equal(made.astype(np.int64), _wrapped(KINDS[kind](a.astype(object), axis, init), bits))


@pytest.mark.parametrize("kind", ["minui", "maxui"])
def test_unsigned_extremes(kind: str) -> None:
    a = np.array([[-1, 5, 7], [3, -2, 9]], np.int32)
    lines = f"""%i = arith.constant dense<6> : vector<2xi32>
    %r = vector.multi_reduction <{kind}>, %a, %i [1] : vector<2x3xi32> to vector<2xi32>"""
    function = np.min if kind == "minui" else np.max
    combine = np.minimum if kind == "minui" else np.maximum
    equal(apply(lines, a, out=((2,), "i32")), combine(function(a.view(np.uint32), 1), 6).view(np.int32))


@pytest.mark.parametrize(
    ("kind", "identity", "reduced"),
    [("add", "0.0", 4.0), ("maximumf", "0xFF800000", 4.0), ("minimumf", "0x7F800000", 4.0), ("mul", "1.0", 16384.0)],
)
def test_what_is_broadcast_counts_as_often_as_it_is_repeated(kind: str, identity: str, reduced: float) -> None:
    lines = f"""%v = arith.constant 4.0 : f32
    %b = vector.broadcast %v : f32 to vector<7x1xf32>
    %w = vector.broadcast %b : vector<7x1xf32> to vector<7x7xf32>
    %i = arith.constant dense<{identity}> : vector<7xf32>
    %r = vector.multi_reduction <{kind}>, %w, %i [1] : vector<7x7xf32> to vector<7xf32>"""
    equal(apply(lines, out=((7,), "f32")), np.full(7, 28.0 if kind == "add" else reduced))


@pytest.mark.parametrize("kind", ["maximumf", "minimumf", "maxnumf", "minnumf"])
def test_nan_in_extremes(kind: str) -> None:
    a = np.array([[1.0, np.nan, 3.0], [np.nan, np.nan, np.nan]], np.float32)
    low = "max" in kind
    start = "0xFF800000" if low else "0x7F800000"
    lines = f"""%i = arith.constant dense<{start}> : vector<2xf32>
    %r = vector.multi_reduction <{kind}>, %a, %i [1] : vector<2x3xf32> to vector<2xf32>"""
    ignoring = [3.0 if low else 1.0, -math.inf if low else math.inf]
    equal(apply(lines, a, out=((2,), "f32")), ignoring if "num" in kind and "imum" not in kind else [np.nan, np.nan])


def test_bf16_is_summed_in_f32_and_rounded_once() -> None:
    a = np.full((1, 512), 1.0, ml_dtypes.bfloat16)
    lines = """%i = arith.constant dense<1.0> : vector<1xbf16>
    %r = vector.multi_reduction <add>, %a, %i [1] : vector<1x512xbf16> to vector<1xbf16>"""
    equal(apply(lines, a, out=((1,), "bf16")), [np.float32(513).astype(ml_dtypes.bfloat16)])


def test_a_reduction_to_a_scalar() -> None:
    lines = """%i = arith.constant 2.0 : f32
    %r = vector.multi_reduction <add>, %a, %i [0, 1] : vector<8x128xf32> to f32"""
    assert apply(lines, X, out="f32") == X.sum() + 2
    lines = "%r = vector.reduction <add>, %a : vector<8xi32> into i32"
    assert apply(lines, np.full(8, 2**30, np.int32), out="i32") == 0


def test_a_sum_of_a_product_with_a_column() -> None:
    c = np.arange(8, dtype=np.float32).reshape(8, 1)
    lines = """%w = vector.broadcast %b : vector<8x1xf32> to vector<8x128xf32>
    %p = arith.mulf %a, %w : vector<8x128xf32>
    %i = arith.constant dense<1.0> : vector<128xf32>
    %r = vector.multi_reduction <add>, %p, %i [0] : vector<8x128xf32> to vector<128xf32>"""
    equal(apply(lines, X, c, out=((128,), "f32")), (X * c).sum(0) + 1)


# --- shapes ----------------------------------------------------------------------------------------------------------


def test_slices_of_a_broadcast_vector() -> None:
    row = np.arange(128, dtype=np.float32).reshape(1, 128)
    lines = """%w = vector.broadcast %a : vector<1x128xf32> to vector<8x128xf32>
    %r = "vector.extract_strided_slice"(%w) {offsets = [2, 64], sizes = [3, 32], strides = [1, 1]}
      : (vector<8x128xf32>) -> vector<3x32xf32>"""
    equal(apply(lines, row, out=((3, 32), "f32")), np.broadcast_to(row, (8, 128))[2:5, 64:96])


def test_a_transpose_of_a_broadcast_vector() -> None:
    row = np.arange(128, dtype=np.float32).reshape(1, 128)
    lines = """%w = vector.broadcast %a : vector<1x128xf32> to vector<8x128xf32>
    %r = tpu.transpose %w, [1, 0] : vector<8x128xf32> -> vector<128x8xf32>"""
    equal(apply(lines, row, out=((128, 8), "f32")), np.broadcast_to(row, (8, 128)).T)


@pytest.mark.parametrize("target", [(1, 8, 128), (8, 1, 128), (4, 2, 128), (1024,), (8, 64, 2)])
def test_shape_casts_of_a_broadcast_vector(target: tuple[int, ...]) -> None:
    column = np.arange(8, dtype=np.float32).reshape(8, 1)
    lines = f"""%w = vector.broadcast %a : vector<8x1xf32> to vector<8x128xf32>
    %r = vector.shape_cast %w : vector<8x128xf32> to {vector(target, "f32")}"""
    equal(apply(lines, column, out=(target, "f32")), np.broadcast_to(column, (8, 128)).reshape(target))


def test_a_concatenation_of_broadcast_vectors() -> None:
    column = np.arange(8, dtype=np.float32).reshape(8, 1)
    lines = """%w = vector.broadcast %b : vector<8x1xf32> to vector<8x128xf32>
    %r = "tpu.concatenate"(%a, %w) {dimension = 0 : i32}
      : (vector<8x128xf32>, vector<8x128xf32>) -> vector<16x128xf32>"""
    wanted = np.concatenate([X, np.broadcast_to(column, (8, 128))])
    equal(apply(lines, X, column, out=((16, 128), "f32")), wanted)


def test_a_vector_of_rank_0() -> None:
    lines = """%v = vector.broadcast %a : f32 to vector<f32>
    %w = arith.addf %v, %v : vector<f32>
    %r = vector.extract %w[] : f32 from vector<f32>"""
    assert apply(lines, np.float32(1.5), out="f32") == 3.0


def test_insertions() -> None:
    part = np.full((2, 64), 9.0, np.float32)
    lines = """%r = "vector.insert_strided_slice"(%b, %a) {offsets = [3, 32], strides = [1, 1]}
      : (vector<2x64xf32>, vector<8x128xf32>) -> vector<8x128xf32>"""
    wanted = X.copy()
    wanted[3:5, 32:96] = 9
    equal(apply(lines, X, part, out=((8, 128), "f32")), wanted)
    row = np.full(128, 7.0, np.float32)
    lines = "%r = vector.insert %b, %a [2] : vector<128xf32> into vector<8x128xf32>"
    wanted = X.copy()
    wanted[2] = 7
    equal(apply(lines, X, row, out=((8, 128), "f32")), wanted)


def test_an_insertion_into_constants_is_not_folded_wrongly() -> None:
    lines = """%z = arith.constant dense<0.0> : vector<4xf32>
    %p = arith.constant 2.0 : f32
    %r = vector.insert %p, %z [1] : f32 into vector<4xf32>"""
    equal(apply(lines, out=((4,), "f32")), [0, 2, 0, 0])


def test_elements_one_by_one() -> None:
    lines = """%e:2 = vector.to_elements %a : vector<2xi32>
    %r = vector.from_elements %e#1, %e#0, %e#1, %e#1 : vector<2x2xi32>"""
    equal(apply(lines, np.array([3, -4], np.int32), out=((2, 2), "i32")), [[-4, 3], [-4, -4]])


def test_interleaving() -> None:
    a, b = np.arange(4, dtype=np.int32), np.arange(10, 14, dtype=np.int32)
    equal(
        apply("%r = vector.interleave %a, %b : vector<4xi32> -> vector<8xi32>", a, b, out=((8,), "i32")),
        [0, 10, 1, 11, 2, 12, 3, 13],
    )
    lines = "%e, %r = vector.deinterleave %a : vector<4xi32> -> vector<2xi32>"
    equal(apply(lines, a, out=((2,), "i32")), [1, 3])
    lines = "%r = vector.shuffle %a, %b [0, 5, 2] : vector<4xi32>, vector<4xi32>"
    equal(apply(lines, a, b, out=((3,), "i32")), [0, 11, 2])


@pytest.mark.parametrize(("low", "high"), [(1, 3), (0, 8), (5, 2), (-2, 4)])
def test_create_mask(low: int, high: int) -> None:
    lines = """%l = arith.index_cast %a : i32 to index
    %h = arith.index_cast %b : i32 to index
    %n = arith.constant 128 : index
    %r = tpu.create_mask [%l, %zero] [%h, %n] : vector<8x128xi1>"""
    wanted = np.zeros((8, 128), bool)
    wanted[max(low, 0) : max(high, 0)] = True
    equal(apply(lines, np.int32(low), np.int32(high), out=((8, 128), "i1")), wanted)


# --- math ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("ctpop", lambda n: bin(n % 2**32).count("1")),
        ("ctlz", lambda n: 32 - (n % 2**32).bit_length()),
        ("cttz", lambda n: 32 if n == 0 else (n & -n).bit_length() - 1),
        ("absi", lambda n: wrap(abs(n), 32)),
    ],
)
def test_bits(name: str, wanted: Callable[[int], int]) -> None:
    numbers = [0, 1, -1, 8, 2**31 - 1, -(2**31), 12345, -16]
    a = np.array([numbers], np.int32)
    made = apply(f"%r = math.{name} %a : vector<1x8xi32>", a, out=((1, 8), "i32"))
    equal(made[0], [wanted(n) for n in numbers])
    assert apply(f"%r = math.{name} %a : i32", np.int32(-16), out="i32") == wanted(-16)


def test_halves_round_away_from_zero_or_to_even() -> None:
    a = np.array([[0.5, 1.5, -0.5, -2.5, 0.49999997, 2.4]], np.float32)
    kind = "vector<1x6xf32>"
    equal(apply(f"%r = math.round %a : {kind}", a, out=((1, 6), "f32"))[0], [1, 2, -1, -3, 0, 2])
    equal(apply(f"%r = math.roundeven %a : {kind}", a, out=((1, 6), "f32"))[0], [0, 2, 0, -2, 0, 2])


def test_integer_powers() -> None:
    a, b = np.array([[2, -3, 7, 1, -1, -1, 5]], np.int32), np.array([[10, 3, 40, -2, -3, -2, -1]], np.int32)
    wanted = [1024, -27, wrap(7**40, 32), 1, -1, 1, 0]
    equal(apply("%r = math.ipowi %a, %b : vector<1x7xi32>", a, b, out=((1, 7), "i32"))[0], wanted)
    for x, y, w in zip(a[0], b[0], wanted, strict=True):
        assert apply("%r = math.ipowi %a, %b : i32", x, y, out="i32") == w


@pytest.mark.parametrize(
    ("name", "function"),
    [("exp", math.exp), ("tanh", math.tanh), ("sqrt", math.sqrt), ("erf", math.erf), ("log1p", math.log1p)],
)
@pytest.mark.parametrize("element", ["f32", "bf16"])
def test_functions_are_good_to_their_last_places(name: str, function: Callable[[float], float], element: str) -> None:
    a = RNG.uniform(0.01, 4, (8, 128)).astype(DTYPES[element])
    made = apply(f"%r = math.{name} %a : vector<8x128x{element}>", a, out=((8, 128), element)).astype(np.float64)
    wanted = np.vectorize(function)(a.astype(np.float64))
    unit = 2.0**-22 if element == "f32" else 2.0**-8
    assert np.max(np.abs(made - wanted) / np.abs(wanted)) <= unit


def test_fma_rounds_once() -> None:
    a = np.array([[1 + 2.0**-12]], np.float32)
    c = np.array([[-(1 + 2.0**-11)]], np.float32)
    made = apply("%r = math.fma %a, %a, %b : vector<1x1xf32>", a, c, out=((1, 1), "f32"))
    assert made[0, 0] == 2.0**-24


# --- what is refused -------------------------------------------------------------------------------------------------


def test_an_op_without_a_rule_says_why() -> None:
    line = "%r = vector.outerproduct %a, %a : vector<4xf32>, vector<4xf32>"
    with pytest.raises(UnsupportedOpError, match=r"vector\.outerproduct: neither Pallas nor the builder emits it"):
        apply(line, np.ones(4, np.float32), out=((4, 4), "f32"))


def test_a_form_without_a_rule_says_why() -> None:
    a = np.ones(8, ml_dtypes.int4)
    with pytest.raises(SimulationError, match="less than a byte"):
        apply("%r = vector.bitcast %a : vector<8xi4> to vector<4xi8>", a, out=((4,), "i8"))
