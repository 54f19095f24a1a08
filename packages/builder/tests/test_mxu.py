"""Convolutions and the MXUs by hand: what they take, and what they refuse."""

from __future__ import annotations

from typing import Any

import pytest

from mosaic_tpu.builder import Args, Builder, ConvDimensionNumbers, bf16, f32, i8, i32
from mosaic_tpu.builder import errors as e

from .conftest import Raises

NHWC = ("NHWC", "HWIO", "NHWC")
IMAGE, KERNEL, RESULT = (1, 8, 8, 128), (3, 3, 128, 256), (1, 6, 6, 256)


def test_letters_become_dimensions() -> None:
    numbers = ConvDimensionNumbers.of(*NHWC)
    assert numbers == ConvDimensionNumbers((0, 3, 1, 2), (2, 3, 0, 1), (0, 3, 1, 2))
    assert numbers.mlir == "#tpu.conv_dimension_numbers<0, 3, [1, 2], 2, 3, [0, 1], 0, 3, [1, 2]>"
    assert ConvDimensionNumbers.of("NCHW", "OIHW", "NCHW").rhs == (1, 0, 2, 3)


@pytest.mark.parametrize(
    "letters", [("NHWC", "HWIO", "NHW"), ("NHWC", "HWI", "NHWC"), ("NHHC", "HWIO", "NHWC"), (1, 2, 3)]
)
def test_letters_of_no_convolution_are_refused(letters: Any) -> None:
    with pytest.raises(e.AttributeValueError, match="no dimensions of a convolution"):
        ConvDimensionNumbers.of(*letters)


@pytest.mark.parametrize(
    ("options", "result"),
    [
        ({}, RESULT),
        ({"padding": [(1, 1), (1, 1)]}, (1, 8, 8, 256)),
        ({"padding": [(-1, 0), (0, 2)]}, (1, 5, 8, 256)),
        ({"window_strides": [2, 3]}, (1, 3, 2, 256)),
        ({"lhs_dilation": [2, 1]}, (1, 13, 6, 256)),
        ({"rhs_dilation": [1, 3]}, (1, 6, 2, 256)),
        ({"window_reversal": [True, False], "precision": "fp32"}, RESULT),
    ],
)
def test_the_verifier_agrees_on_the_shape_of_a_convolution(b: Builder, a: Args, options: Any, result: Any) -> None:
    found = b.conv(b.zeros(IMAGE, f32), b.zeros(KERNEL, f32), b.zeros(result, f32), NHWC, **options)
    assert found.shape == result
    b.finish()


def test_a_convolution_has_groups(b: Builder, a: Args) -> None:
    image, kernel = b.zeros((2, 8, 8, 256), bf16), b.zeros(KERNEL, bf16)
    assert b.conv(image, kernel, b.zeros((2, 6, 6, 256), f32), NHWC, feature_group_count=2).shape[0] == 2
    batches = b.conv(b.zeros((2, 8, 8, 128), bf16), kernel, b.zeros(RESULT, f32), NHWC, batch_group_count=2)
    assert batches.shape == RESULT
    b.finish()


def test_a_convolution_has_any_number_of_dimensions(b: Builder, a: Args) -> None:
    one = b.conv(b.zeros((2, 8, 128), f32), b.zeros((16, 8, 3), f32), b.zeros((2, 16, 126), f32), ("NCW", "OIW", "NCW"))
    assert one.shape == (2, 16, 126)
    b.finish()


def _conv(
    b: Builder, image: Any = IMAGE, kernel: Any = KERNEL, result: Any = RESULT, numbers: Any = NHWC, **more: Any
) -> Any:
    return b.conv(b.zeros(image, f32), b.zeros(kernel, f32), b.zeros(result, f32), numbers, **more)


@pytest.mark.parametrize(
    ("error", "words", "call"),
    [
        (e.ShapeError, "(1, 6, 6, 256), not (1, 8, 6, 256)", lambda b: _conv(b, result=(1, 8, 6, 256))),
        (e.ShapeError, "64 features", lambda b: _conv(b, image=(1, 8, 8, 64))),
        (e.ShapeError, "ranks", lambda b: _conv(b, numbers=("NHC", "HIO", "NHC"))),
        (e.ShapeError, "ranks", lambda b: _conv(b, image=(1, 8, 128))),
        (
            e.ShapeError,
            "ranks",
            lambda b: _conv(b, numbers=ConvDimensionNumbers((0, 0, 1, 2), (0, 1, 2, 3), (0, 1, 2, 3))),
        ),
        (e.AttributeValueError, "dimension numbers", lambda b: _conv(b, numbers="NHWC")),
        (e.AttributeValueError, "no dimensions", lambda b: _conv(b, numbers=("NHWC", "NHWC", "NHWC"))),
        (e.ArityError, "window_strides (0, 1)", lambda b: _conv(b, window_strides=[0, 1])),
        (e.ArityError, "rhs_dilation (1,)", lambda b: _conv(b, rhs_dilation=[1])),
        (e.ArityError, "padding", lambda b: _conv(b, padding=[(0, 0)])),
        (e.ArityError, "padding", lambda b: _conv(b, padding=[(0,), (0, 0)])),
        (e.ArityError, "window_reversal", lambda b: _conv(b, window_reversal=[True])),
        (e.ArityError, "sequence", lambda b: _conv(b, window_reversal=True)),
        (e.AttributeValueError, "window_reversal", lambda b: _conv(b, window_reversal=[1, 0])),
        (e.AttributeValueError, "group counts [0, 1]", lambda b: _conv(b, feature_group_count=0)),
        (e.AttributeValueError, "Precision", lambda b: _conv(b, precision="highest")),
        (e.DTypeError, "mix", lambda b: b.conv(b.zeros(IMAGE, f32), b.zeros(KERNEL, i8), b.zeros(RESULT, f32), NHWC)),
        (e.KindError, "vector", lambda b: b.conv(b.lift(1.0), b.zeros(KERNEL, f32), b.zeros(RESULT, f32), NHWC)),
    ],
)
def test_a_bad_convolution_is_refused(
    b: Builder, a: Args, raises: Raises, error: type[e.MosaicError], words: str, call: Any
) -> None:
    with raises(error, "tpu.conv" if words != "Precision" else "", words):
        call(b)


def test_the_mxu_is_fed_by_hand(b: Builder, a: Args) -> None:
    rhs = b.zeros((128, 128), bf16)
    b.matmul_push_rhs(rhs, 1, staging_register=1, transpose=True)
    b.matmul_acc_lhs(b.zeros((16, 128), bf16), acc=2, mxu_index=1, load_staged_rhs=1)
    assert b.matmul_pop((16, 128), f32, acc=2, mxu_index=1).dtype is f32
    b.matmul_lhs_fifo(b.zeros((16, 128), i8), mxu_index=0)
    assert b.matmul_pop_fifo((16, 128), i32, mxu_index=0).shape == (16, 128)
    text = b.finish().text(canonical=False)
    assert "staging_register = 1" in text and "load_staged_rhs = 1" in text and "transpose = true" in text


@pytest.mark.parametrize(
    ("error", "words", "call"),
    [
        (e.ShapeError, "matrix", lambda b: b.matmul_push_rhs(b.zeros((128,), bf16), 0)),
        (e.KindError, "vector", lambda b: b.matmul_push_rhs(b.lift(1.0), 0)),
        (e.AttributeValueError, "mxu_index -1", lambda b: b.matmul_push_rhs(b.zeros((8, 128), bf16), -1)),
        (e.AttributeValueError, "staging_register", lambda b: b.matmul_push_rhs(b.zeros((8, 128), bf16), 0, 1.5)),
        (e.AttributeValueError, "transpose", lambda b: b.matmul_push_rhs(b.zeros((8, 128), bf16), 0, transpose=1)),
        (e.AttributeValueError, "acc -1", lambda b: b.matmul_acc_lhs(b.zeros((8, 128), bf16), -1, 0)),
        (e.ShapeError, "matrix", lambda b: b.matmul_lhs_fifo(b.zeros((1, 8, 128), bf16), 0)),
        (e.DTypeError, "bf16", lambda b: b.matmul_pop((8, 128), bf16, 0, 0)),
        (e.ShapeError, "(128,)", lambda b: b.matmul_pop((128,), f32, 0, 0)),
        (e.DTypeError, "i8", lambda b: b.matmul_pop_fifo((8, 128), i8, 0)),
        (e.AttributeValueError, "mxu_index", lambda b: b.matmul_pop_fifo((8, 128), f32, 1 << 31)),
    ],
)
def test_bad_use_of_an_mxu_is_refused(
    b: Builder, a: Args, raises: Raises, error: type[e.MosaicError], words: str, call: Any
) -> None:
    with raises(error, "tpu.matmul", words):
        call(b)
