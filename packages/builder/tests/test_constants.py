"""Numbers become constants of the type beside them, or are refused when that type cannot hold them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from mosaic_tpu.builder import Args, Builder, DType, bf16, f8e4m3fn, f16, f32, i1, i8, i16, i32, i64, u8, u32
from mosaic_tpu.builder import errors as e

from .conftest import Raises


@pytest.mark.parametrize(
    ("number", "dtype"),
    [
        (300, i8),
        (-129, i8),
        (256, u8),
        (1 << 32, i32),
        (1 << 64, i64),
        (2, i1),
        (1.5, i32),
        (math.nan, i32),
        (math.inf, i32),
        (1e39, f32),
        (-1e39, f32),
        (1e5, f16),
        (4e38, bf16),
        (1e4, f8e4m3fn),
        (10**400, f32),
    ],
)
def test_a_number_that_does_not_fit_is_refused(
    b: Builder, a: Args, raises: Raises, number: float, dtype: DType
) -> None:
    with raises(e.ConstantError, "arith.constant", str(dtype)):
        b.lift_as(number, dtype)


@pytest.mark.parametrize("number", [300, 1 << 40])
def test_a_number_beside_an_integer_must_fit_too(b: Builder, a: Args, raises: Raises, number: float) -> None:
    narrow = b.lift_as(1, i8)
    with raises(e.ConstantError, "arith.constant", "i8"):
        narrow + number


@pytest.mark.parametrize("thing", ["1", None, [1], np.zeros((8, 128), np.float32), object()])
def test_only_numbers_become_constants(b: Builder, a: Args, raises: Raises, thing: object) -> None:
    x = a.x[...]
    with raises(e.KindError, hint="refs"):
        x + thing  # type: ignore[operator]


@pytest.mark.parametrize(
    ("number", "dtype"),
    [
        (True, i1),
        (3, i32),
        (3.0, f32),
        (np.int8(3), i8),
        (np.uint32(3), u32),
        (np.float16(3), f16),
        (np.float32(3), f32),
        (np.bool_(True), i1),
        (np.int64(3), i64),
    ],
)
def test_lift_infers_from_the_number_and_keeps_a_numpy_width(b: Builder, a: Args, number: float, dtype: DType) -> None:
    assert b.lift(number).dtype is dtype


def test_a_python_number_takes_the_operands_type(b: Builder, a: Args) -> None:
    assert (b.lift_as(1, i16) + 1).dtype is i16
    assert (1.0 - b.lift_as(1, bf16)).dtype is bf16
    assert (b.lift(1.0) * True).dtype is f32


def test_a_number_of_a_higher_kind_promotes_the_value(b: Builder, a: Args) -> None:
    assert (b.lift(1) + 1.5).dtype is (2.0 * b.lift_as(1, i8)).dtype is f32
    assert ((b.lift(1) > 0) + 1).dtype is i32


def test_lax_promotes_no_value(b: Builder, a: Args, raises: Raises) -> None:
    x = b.lift(1)
    for number in (1.5, 2.0, True):
        with raises(e.DTypeError, "div", str(number), "i32", hint="an int"):
            x.div(number)
    with raises(e.DTypeError, "rem", "2", "f32", hint="a float"):
        b.lift(1.0).rem(2)
    with raises(e.ShapeError, "div", "ranks 2 and 1"):
        a.x[...].div(a.x[0])
    assert x.div(2).dtype is x.rem(np.int32(2)).dtype is i32


def test_a_numpy_scalar_has_a_type_of_its_own(b: Builder, a: Args, raises: Raises) -> None:
    assert (b.lift_as(1, bf16) + np.float32(1)).dtype is (b.lift(1.0) + np.float16(1)).dtype is f32
    with raises(e.DTypeError, "add", "f8e4m3fn", "f16"):
        b.lift_as(1, f8e4m3fn) + np.float16(1)


def test_the_largest_numbers_fit(b: Builder, a: Args) -> None:
    for number, dtype in ((127, i8), (-128, i8), (255, i8), ((1 << 32) - 1, u32), (3.4028234e38, f32), (448, f8e4m3fn)):
        assert b.lift_as(number, dtype).dtype is dtype
    for number in (math.inf, -math.inf, math.nan, -0.0):
        assert b.lift_as(number, f32).dtype is f32
    b.finish()


def test_zero_keeps_its_sign(b: Builder, a: Args) -> None:
    b.lift(0.0), b.lift(-0.0)
    text = b.finish().text(canonical=False)
    assert "arith.constant 0.000000e+00 : f32" in text and "arith.constant -0.000000e+00 : f32" in text


def test_a_constant_is_fresh_at_each_use(b: Builder, a: Args) -> None:
    b.lift(7), b.lift(7)
    assert b.finish().text(canonical=False).count("arith.constant 7 : i32") == 2


def test_vectors_of_constants_are_dense(b: Builder, a: Args) -> None:
    b.full((8, 128), 2, f32)
    assert "arith.constant dense<2.000000e+00> : vector<8x128xf32>" in b.finish().text(canonical=False)
