"""Arithmetic: each op against Python's integers, float64 or XLA, and what is undefined is flagged."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any, Final

import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

from mosaic_tpu.sim.errors import UndefinedResultError
from packages.sim.tests.rules_kit import DTYPES, apply, equal, vector, wrap

BF16: Final = ml_dtypes.bfloat16
WIDTHS: Final = {"i32": 32, "i16": 16, "i8": 8, "i4": 4}


def _unsigned(function: Callable[[int, int], int]) -> Callable[[int, int, int], int]:
    return lambda a, b, bits: function(a % (1 << bits), b % (1 << bits))


def _toward_zero(a: int, b: int, _: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


OPS: Final[dict[str, Callable[[int, int, int], int]]] = {
    "addi": lambda a, b, _: a + b,
    "subi": lambda a, b, _: a - b,
    "muli": lambda a, b, _: a * b,
    "andi": lambda a, b, _: a & b,
    "ori": lambda a, b, _: a | b,
    "xori": lambda a, b, _: a ^ b,
    "maxsi": lambda a, b, _: max(a, b),
    "minsi": lambda a, b, _: min(a, b),
    "maxui": _unsigned(max),
    "minui": _unsigned(min),
    "divsi": _toward_zero,
    "remsi": lambda a, b, n: a - b * _toward_zero(a, b, n),
    "divui": _unsigned(lambda a, b: a // b),
    "remui": _unsigned(lambda a, b: a % b),
    "floordivsi": lambda a, b, _: a // b,
    "ceildivsi": lambda a, b, _: -(-a // b),
    "ceildivui": _unsigned(lambda a, b: -(-a // b)),
}
SHIFTS: Final[dict[str, Callable[[int, int, int], int]]] = {
    "shli": lambda a, b, _: a << b,
    "shrsi": lambda a, b, _: a >> b,
    "shrui": lambda a, b, bits: (a % (1 << bits)) >> b,
}


def _edges(bits: int) -> list[int]:
    half = 1 << (bits - 1)
    return sorted({-half, 1 - half, -3, -1, 0, 1, 2, 5, half - 2, half - 1})


def _grid(lefts: list[int], rights: list[int], element: str) -> tuple[Any, Any, list[tuple[int, int]]]:
    pairs = list(itertools.product(lefts, rights))
    a, b = (np.array([p[i] for p in pairs], np.int64).astype(DTYPES[element]).reshape(1, -1) for i in (0, 1))
    return a, b, pairs


@pytest.mark.parametrize("element", WIDTHS)
@pytest.mark.parametrize("name", OPS)
def test_integers_of_vectors(name: str, element: str) -> None:
    bits = WIDTHS[element]
    a, b, pairs = _grid(_edges(bits), [n for n in _edges(bits) if n or not ("div" in name or "rem" in name)], element)
    made = apply(f"%r = arith.{name} %a, %b : {vector(a.shape, element)}", a, b, out=(a.shape, element))
    equal(made.astype(np.int64)[0], [wrap(OPS[name](x, y, bits), bits) for x, y in pairs])


@pytest.mark.parametrize("element", ["i32", "i8"])
@pytest.mark.parametrize("name", OPS)
def test_integers_of_scalars(name: str, element: str) -> None:
    bits = WIDTHS[element]
    for x, y in [(-7, 2), (7, -2), (-(1 << (bits - 1)), -1), ((1 << (bits - 1)) - 1, 3), (-1, 1)]:
        values = [DTYPES[element].type(v) for v in (x, y)]
        assert apply(f"%r = arith.{name} %a, %b : {element}", *values, out=element) == wrap(OPS[name](x, y, bits), bits)


@pytest.mark.parametrize("name", [n for n in OPS if "div" in n or "rem" in n])
@pytest.mark.parametrize("y", [4, 1, -3])
def test_division_by_a_constant(name: str, y: int) -> None:
    for x in (-9, -8, 0, 7, -(2**31)):
        lines = f"%y = arith.constant {y} : i32\n%r = arith.{name} %a, %y : i32"
        assert apply(lines, np.int32(x), out="i32") == wrap(OPS[name](x, y, 32), 32)


@pytest.mark.parametrize("name", OPS)
def test_constants_are_folded(name: str) -> None:
    lines = f"%x = arith.constant -7 : i32\n%y = arith.constant 3 : i32\n%r = arith.{name} %x, %y : i32"
    assert apply(lines, out="i32") == wrap(OPS[name](-7, 3, 32), 32)


@pytest.mark.parametrize("element", WIDTHS)
@pytest.mark.parametrize("name", SHIFTS)
def test_shifts(name: str, element: str) -> None:
    bits = WIDTHS[element]
    a, b, pairs = (
        _grid(_edges(bits), [0, 1, bits // 2, bits - 1], element) if bits > 4 else _grid(_edges(4), [0, 1, 3], "i4")
    )
    made = apply(f"%r = arith.{name} %a, %b : {vector(a.shape, element)}", a, b, out=(a.shape, element))
    equal(made.astype(np.int64)[0], [wrap(SHIFTS[name](x, y, bits), bits) for x, y in pairs])
    if bits == 32:
        for x, y in pairs[::3]:
            found = apply(f"%r = arith.{name} %a, %b : i32", np.int32(x), np.int32(y), out="i32")
            assert found == wrap(SHIFTS[name](x, y, 32), 32)


@pytest.mark.parametrize("name", SHIFTS)
@pytest.mark.parametrize("amount", [32, 33, -1])
def test_a_shift_past_the_width_is_undefined(name: str, amount: int) -> None:
    line = f"%r = arith.{name} %a, %b : i32"
    with pytest.raises(UndefinedResultError, match="shift"):
        apply(line, np.int32(5), np.int32(amount), out="i32")
    assert apply(line, np.int32(5), np.int32(amount), out="i32", checks=False) == 0
    a, b = np.full((8, 128), 5, np.int32), np.ones((8, 128), np.int32)
    b[3, 7] = amount
    line = f"%r = arith.{name} %a, %b : vector<8x128xi32>"
    with pytest.raises(UndefinedResultError, match="shift"):
        apply(line, a, b, out=((8, 128), "i32"))
    made = apply(line, a, b, out=((8, 128), "i32"), checks=False)
    assert made[3, 7] == 0
    assert made[0, 0] == SHIFTS[name](5, 1, 32)


@pytest.mark.parametrize("name", [n for n in OPS if "div" in n or "rem" in n])
def test_division_by_zero_is_undefined(name: str) -> None:
    line = f"%r = arith.{name} %a, %b : i32"
    with pytest.raises(UndefinedResultError, match="division by zero"):
        apply(line, np.int32(5), np.int32(0), out="i32")
    a, b = np.full((8, 128), 5, np.int32), np.ones((8, 128), np.int32)
    line = f"%r = arith.{name} %a, %b : vector<8x128xi32>"
    equal(apply(line, a, b, out=((8, 128), "i32")), np.full((8, 128), OPS[name](5, 1, 32)))
    b[3, 7] = 0
    with pytest.raises(UndefinedResultError, match="division by zero"):
        apply(line, a, b, out=((8, 128), "i32"))


@pytest.mark.parametrize("signed", [True, False])
def test_extended_products(signed: bool) -> None:
    a, b, pairs = _grid(_edges(32), _edges(32), "i32")
    kind = "s" if signed else "u"
    for half in (0, 1):
        lines = f"%p:2 = arith.mul{kind}i_extended %a, %b : {vector(a.shape, 'i32')}\n"
        made = apply(
            lines + f"%r = arith.addi %p#{half}, %p#{half} : {vector(a.shape, 'i32')}", a, b, out=(a.shape, "i32")
        )
        wide = [x * y if signed else (x % 2**32) * (y % 2**32) for x, y in pairs]
        equal(made[0], [wrap(2 * (w >> (32 * half)), 32) for w in wide])
    lines = f"%p:2 = arith.mul{kind}i_extended %a, %b : i32\n%r = arith.xori %p#0, %p#1 : i32"
    wide = -5 * 7 if signed else (-5 % 2**32) * 7
    assert apply(lines, np.int32(-5), np.int32(7), out="i32") == wrap(wide, 32) ^ wrap(wide >> 32, 32)


@pytest.mark.parametrize("name", ["addui", "subui"])
def test_carries(name: str) -> None:
    a, b, pairs = _grid(_edges(32), _edges(32), "i32")
    kind = vector(a.shape, "i32")
    lines = f"%s, %r = arith.{name}_extended %a, %b : {kind}, {vector(a.shape, 'i1')}"
    made = apply(lines, a, b, out=(a.shape, "i1"))
    whole = [(x % 2**32, y % 2**32) for x, y in pairs]
    equal(made[0], [x + y >= 2**32 if name == "addui" else x < y for x, y in whole])


# --- booleans --------------------------------------------------------------------------------------------------------

BOOLEANS: Final[dict[str, Callable[[bool, bool], bool]]] = {
    "addi": lambda a, b: a != b,
    "subi": lambda a, b: a != b,
    "muli": lambda a, b: a and b,
    "andi": lambda a, b: a and b,
    "ori": lambda a, b: a or b,
    "xori": lambda a, b: a != b,
    "maxsi": lambda a, b: a and b,
    "minsi": lambda a, b: a or b,
    "maxui": lambda a, b: a or b,
    "minui": lambda a, b: a and b,
}


@pytest.mark.parametrize("name", BOOLEANS)
def test_booleans(name: str) -> None:
    a, b = (np.array(v).reshape(1, 4) for v in ([False, False, True, True], [False, True, False, True]))
    made = apply(f"%r = arith.{name} %a, %b : vector<1x4xi1>", a, b, out=((1, 4), "i1"))
    wanted = [BOOLEANS[name](bool(x), bool(y)) for x, y in zip(a[0], b[0], strict=True)]
    equal(made[0], wanted)
    for x, y, w in zip(a[0], b[0], wanted, strict=True):
        assert apply(f"%r = arith.{name} %a, %b : i1", x, y, out="i1") == w


# --- comparisons -----------------------------------------------------------------------------------------------------

PREDICATES: Final = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")
COMPARED: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}


@pytest.mark.parametrize("element", ["i32", "i8", "i4", "i1"])
@pytest.mark.parametrize("predicate", PREDICATES)
def test_cmpi(predicate: str, element: str) -> None:
    bits = 1 if element == "i1" else WIDTHS[element]
    edges = [-1, 0] if bits == 1 else _edges(bits)
    pairs = list(itertools.product(edges, edges))
    a, b = (np.array([p[i] for p in pairs]).astype(DTYPES[element]).reshape(1, -1) for i in (0, 1))
    made = apply(f"%r = arith.cmpi {predicate}, %a, %b : {vector(a.shape, element)}", a, b, out=(a.shape, "i1"))
    key = predicate[-2:]
    size = 1 << bits if predicate.startswith("u") else None
    wanted = [COMPARED[key](x % size if size else x, y % size if size else y) for x, y in pairs]
    equal(made[0], wanted)


ORDERINGS: Final = ("oeq", "ogt", "oge", "olt", "ole", "one", "ord", "false")
UNORDERED: Final = ("ueq", "ugt", "uge", "ult", "ule", "une", "uno", "true")


@pytest.mark.parametrize("element", ["f32", "bf16"])
@pytest.mark.parametrize("predicate", [*ORDERINGS, *UNORDERED])
def test_cmpf(predicate: str, element: str) -> None:
    numbers = [math.nan, -math.inf, -1.0, -0.0, 0.0, 2.0, math.inf]
    pairs = list(itertools.product(numbers, numbers))
    a, b = (np.array([p[i] for p in pairs], np.float32).astype(DTYPES[element]).reshape(1, -1) for i in (0, 1))
    made = apply(f"%r = arith.cmpf {predicate}, %a, %b : {vector(a.shape, element)}", a, b, out=(a.shape, "i1"))

    def wanted(x: float, y: float) -> bool:
        unordered = math.isnan(x) or math.isnan(y)
        if predicate in ("true", "false"):
            return predicate == "true"
        if predicate in ("ord", "uno"):
            return unordered == (predicate == "uno")
        if unordered:  # `one` too is true of NaN on a TPU: test_nan.py
            return predicate.startswith("u") or predicate == "one"
        return COMPARED[predicate[1:]](x, y)

    equal(made[0], [wanted(x, y) for x, y in pairs])
    scalars = [
        apply(f"%r = arith.cmpf {predicate}, %a, %b : f32", np.float32(x), np.float32(y), out="i1")
        for x, y in pairs[:9]
    ]
    equal(scalars, [wanted(x, y) for x, y in pairs[:9]])


# --- floats ----------------------------------------------------------------------------------------------------------

FLOATS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "addf": lambda a, b: a + b,
    "subf": lambda a, b: a - b,
    "mulf": lambda a, b: a * b,
    "divf": lambda a, b: a / b,
    "maximumf": jnp.maximum,
    "minimumf": jnp.minimum,
    "maxnumf": jnp.fmax,
    "minnumf": jnp.fmin,
}


@pytest.mark.parametrize("dtype", [np.float32, BF16, np.float16])
@pytest.mark.parametrize("name", FLOATS)
def test_floats(name: str, dtype: Any) -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((8, 128)).astype(np.float32).astype(dtype) for _ in range(2))
    a[0, :4] = [np.nan, np.inf, 1.0, np.nan]
    b[0, :4] = [1.0, np.inf, np.nan, np.nan]
    element = {"float32": "f32", "bfloat16": "bf16", "float16": "f16"}[np.dtype(dtype).name]
    made = apply(f"%r = arith.{name} %a, %b : vector<8x128x{element}>", a, b, out=((8, 128), element))
    wide = FLOATS[name](jnp.asarray(a, jnp.float32), jnp.asarray(b, jnp.float32))
    wanted = np.asarray(wide.astype(jnp.dtype(dtype)))
    if name == "divf" and dtype is np.float32:
        np.testing.assert_array_max_ulp(made, wanted, 2)
    else:
        equal(made, wanted)


def test_remf_has_the_sign_of_the_dividend() -> None:
    a, b = np.array([[-7.5, 7.5, 5.0]], np.float32), np.array([[2.0, -2.0, 3.0]], np.float32)
    equal(apply("%r = arith.remf %a, %b : vector<1x3xf32>", a, b, out=((1, 3), "f32")), [[-1.5, 1.5, 2.0]])


# --- conversions -----------------------------------------------------------------------------------------------------

MODES: Final = ("to_nearest_even", "downward", "upward", "toward_zero", "to_nearest_away")


def _rounded(x: float, grid: Any, mode: str) -> float:
    """The float of a sorted grid that a rounding mode chooses, by its definition."""
    if x in grid or not math.isfinite(x):
        return x
    above = int(np.searchsorted(grid, x))
    low, high = float(grid[above - 1]), float(grid[above])
    if mode == "downward" or (mode == "toward_zero" and x > 0):
        return low
    if mode == "upward" or mode == "toward_zero":
        return high
    if x - low != high - x:
        return low if x - low < high - x else high
    if mode == "to_nearest_away":
        return low if x < 0 else high
    even = np.array([low], np.float32).view(np.uint32)[0] & 0x10000 == 0
    return low if even else high


@pytest.mark.parametrize("mode", MODES)
def test_truncf_rounds_as_it_is_told(mode: str) -> None:
    rng = np.random.default_rng(1)
    ties = np.array([1.00390625, -1.00390625, 1.01171875, -1.01171875, 3.0e38, -3.0e38, np.inf, -np.inf], np.float32)
    a = np.concatenate([rng.standard_normal(120).astype(np.float32), ties]).reshape(1, 128)
    made = apply(f"%r = arith.truncf %a {mode} : vector<1x128xf32> to vector<1x128xbf16>", a, out=((1, 128), "bf16"))
    with np.errstate(invalid="ignore"):
        patterns = np.arange(1 << 16, dtype=np.uint16).view(BF16).astype(np.float64)
    grid = np.unique(patterns[np.isfinite(patterns)])
    equal(made[0], [_rounded(float(x), grid, mode) for x in a[0]])


@pytest.mark.parametrize("element", ["i32", "i16", "i8", "i4"])
@pytest.mark.parametrize("signed", [True, False])
def test_floats_to_integers_saturate(element: str, signed: bool) -> None:
    bits = WIDTHS[element]
    a = np.array([[0.9, -0.9, -1.5, 7.9, 1e10, -1e10, np.inf, -np.inf]], np.float32)
    name = "fptosi" if signed else "fptoui"
    made = apply(f"%r = arith.{name} %a : vector<1x8xf32> to vector<1x8x{element}>", a, out=((1, 8), element))
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
    wanted = [wrap(min(max(math.trunc(min(max(float(x), -1e30), 1e30)), low), high), bits) for x in a[0]]
    equal(made[0].astype(np.int64), wanted)
    assert apply(f"%r = arith.{name} %a : f32 to i32", np.float32(-2.5), out="i32") == (-2 if signed else 0)


@pytest.mark.parametrize("name", ["fptosi", "fptoui"])
def test_the_integer_of_a_nan_is_undefined(name: str) -> None:
    with pytest.raises(UndefinedResultError, match="NaN"):
        apply(f"%r = arith.{name} %a : f32 to i32", np.float32(np.nan), out="i32")
    a = np.array([[1.0, np.nan]], np.float32)
    line = f"%r = arith.{name} %a : vector<1x2xf32> to vector<1x2xi32>"
    with pytest.raises(UndefinedResultError, match="NaN"):
        apply(line, a, out=((1, 2), "i32"))
    equal(apply(line, a, out=((1, 2), "i32"), checks=False), [[1, 0]])


@pytest.mark.parametrize(
    ("source", "target"), [("i8", "i32"), ("i4", "i32"), ("i1", "i32"), ("i4", "i8"), ("i16", "i32")]
)
def test_extensions(source: str, target: str) -> None:
    bits = 1 if source == "i1" else WIDTHS[source]
    numbers = [-1, 0] if bits == 1 else _edges(bits)
    a = np.array([numbers]).astype(DTYPES[source])
    kinds = f"{vector(a.shape, source)} to {vector(a.shape, target)}"
    equal(apply(f"%r = arith.extsi %a : {kinds}", a, out=(a.shape, target))[0], numbers)
    zeros = apply(f"%r = arith.extui %a : {kinds}", a, out=(a.shape, target))[0]
    equal(zeros, [wrap(n % (1 << bits), WIDTHS[target]) for n in numbers])


@pytest.mark.parametrize("target", ["i16", "i8", "i4", "i1"])
def test_truncations(target: str) -> None:
    bits = 1 if target == "i1" else WIDTHS[target]
    a = np.array([_edges(32)], np.int32)
    made = apply(
        f"%r = arith.trunci %a : {vector(a.shape, 'i32')} to {vector(a.shape, target)}", a, out=(a.shape, target)
    )
    equal(made[0].astype(np.int64), [n & 1 if bits == 1 else wrap(n, bits) for n in _edges(32)])


@pytest.mark.parametrize("signed", [True, False])
def test_integers_to_floats(signed: bool) -> None:
    a = np.array([[*_edges(32), 2**24 + 1, -(2**24) - 3]], np.int32)
    name = "sitofp" if signed else "uitofp"
    made = apply(
        f"%r = arith.{name} %a : {vector(a.shape, 'i32')} to {vector(a.shape, 'f32')}", a, out=(a.shape, "f32")
    )
    equal(made[0], [np.float32(int(n) if signed else int(n) % 2**32) for n in a[0]])
    flags = np.array([[True, False]])
    made = apply(f"%r = arith.{name} %a : vector<1x2xi1> to vector<1x2xf32>", flags, out=((1, 2), "f32"))
    equal(made, [[-1 if signed else 1, 0]])
    assert apply(f"%r = arith.{name} %a : i1 to f32", np.bool_(True), out="f32") == (-1 if signed else 1)


def test_bitcasts_keep_the_bits() -> None:
    a = np.array([[1.5, -0.0, np.inf]], np.float32)
    equal(apply("%r = arith.bitcast %a : vector<1x3xf32> to vector<1x3xi32>", a, out=((1, 3), "i32")), a.view(np.int32))
    assert apply("%r = arith.bitcast %a : f32 to i32", np.float32(1.5), out="i32") == 0x3FC00000
    assert apply("%r = arith.bitcast %a : i32 to f32", np.int32(0x3FC00000), out="f32") == 1.5


# --- selection -------------------------------------------------------------------------------------------------------


def test_select_of_broadcast_values() -> None:
    a = np.arange(8 * 128, dtype=np.float32).reshape(8, 128)
    lines = """%one = arith.constant 1.0 : f32
    %half = arith.constant 4.0 : f32
    %w = vector.broadcast %one : f32 to vector<8x128xf32>
    %h = vector.broadcast %half : f32 to vector<8x128xf32>
    %m = arith.cmpf olt, %a, %h : vector<8x128xf32>
    %r = arith.select %m, %w, %h : vector<8x128xi1>, vector<8x128xf32>"""
    equal(apply(lines, a, out=((8, 128), "f32")), np.where(a < 4, 1.0, 4.0))


@pytest.mark.parametrize("condition", [True, False])
def test_select_by_a_scalar(condition: bool) -> None:
    a, b = np.ones((8, 128), np.float32), np.full((8, 1), 2.0, np.float32)
    lines = """%w = vector.broadcast %b : vector<8x1xf32> to vector<8x128xf32>
    %r = arith.select %c, %a, %w : vector<8x128xf32>"""
    equal(apply(lines, a, b, np.bool_(condition), out=((8, 128), "f32")), np.full((8, 128), 1.0 if condition else 2.0))
