"""Number formats, packing, random bits, gathers and wide products: what they take, and what they refuse."""

from __future__ import annotations

from typing import Any

import pytest

from mosaic_tpu.builder import (
    Args,
    Builder,
    DType,
    bf16,
    f8e4m3b11fnuz,
    f8e4m3fn,
    f8e5m2,
    f16,
    f32,
    f64,
    i1,
    i4,
    i8,
    i16,
    i32,
    i64,
    index,
    u32,
)
from mosaic_tpu.builder import errors as e

from .conftest import Raises

SHAPE = (8, 128)


@pytest.mark.parametrize("dtype", [f32, bf16, f16])
def test_logistic_takes_vectors_of_floats(b: Builder, a: Args, dtype: DType) -> None:
    assert b.logistic(b.zeros(SHAPE, dtype)).type == b.vector_ty(SHAPE, dtype).ir
    b.finish()


@pytest.mark.parametrize("dtype", [f32, bf16])
@pytest.mark.parametrize("bits", [(1, 0), (5, 2), (8, 23), (11, 52)])
def test_reduce_precision_takes_any_format(b: Builder, a: Args, dtype: DType, bits: tuple[int, int]) -> None:
    assert b.reduce_precision(b.zeros(SHAPE, dtype), *bits).dtype is dtype
    b.finish()


def test_weird_takes_scalars_too(b: Builder, a: Args) -> None:
    found = b.weird(b.lift(1.0))
    assert (found.dtype, found.shape) == (i1, ())
    b.finish()


@pytest.mark.parametrize("dtype", [bf16, f8e5m2, f8e4m3fn, f8e4m3b11fnuz, i4])
@pytest.mark.parametrize("bits", [i32, u32])
def test_stochastic_convert_rounds_f32(b: Builder, a: Args, dtype: DType, bits: DType) -> None:
    assert b.stochastic_convert(b.zeros(SHAPE, f32), b.zeros(SHAPE, bits), dtype).dtype is dtype
    b.finish()


PACKED = [(f32, bf16, i32, 2), (i32, i8, i32, 4), (u32, i16, i32, 2), (i16, i8, i16, 2), (i8, i4, i8, 2)]


@pytest.mark.parametrize(("wide", "narrow", "word", "count"), PACKED)
def test_what_is_packed_is_unpacked(b: Builder, a: Args, wide: DType, narrow: DType, word: DType, count: int) -> None:
    packed = b.pack_elementwise([b.zeros(SHAPE, wide)] * count, narrow)
    assert packed.type == b.vector_ty(SHAPE, word).ir
    for at in range(count):
        assert b.unpack_elementwise(packed, at, narrow, wide).type == b.vector_ty(SHAPE, wide).ir
    b.finish()


@pytest.mark.parametrize(("dtype", "at"), [(f32, i32), (bf16, i32), (i32, u32), (f32, i16)])
def test_a_gather_has_the_shape_of_its_indices(b: Builder, a: Args, dtype: DType, at: DType) -> None:
    assert b.dynamic_gather(b.zeros(SHAPE, dtype), b.zeros((8, 256), at), [1]).shape == (8, 256)
    assert b.dynamic_gather(b.zeros(SHAPE, dtype), b.zeros((16, 128), at), [0]).shape == (16, 128)
    assert b.dynamic_gather(b.zeros(SHAPE, dtype), b.zeros((4, 4), at), [0, 1]).dtype is dtype
    b.finish()


@pytest.mark.parametrize("dtype", [i1, i8, i32, u32, i64])
def test_wide_products_are_two_halves(b: Builder, a: Args, dtype: DType) -> None:
    for multiply in (b.mulsi_extended, b.mului_extended):
        x = b.zeros(SHAPE, dtype)
        assert [half.type for half in multiply(x, x)] == [x.type] * 2
    b.finish()


REFUSED: list[tuple[type[e.MosaicError], str, Any]] = [
    (e.KindError, "tpu.logistic", lambda b, a: b.logistic(b.lift(1.0))),
    (e.KindError, "tpu.logistic", lambda b, a: b.logistic(a.x)),
    (e.DTypeError, "tpu.logistic", lambda b, a: b.logistic(b.zeros(SHAPE, i32))),
    (e.DTypeError, "f32 or bf16", lambda b, a: b.reduce_precision(b.zeros(SHAPE, f16), 5, 10)),
    (e.AttributeValueError, "exponent_bits 0", lambda b, a: b.reduce_precision(b.zeros(SHAPE, f32), 0, 10)),
    (e.AttributeValueError, "mantissa_bits -1", lambda b, a: b.reduce_precision(b.zeros(SHAPE, f32), 5, -1)),
    (e.ConcreteValueError, "static", lambda b, a: b.reduce_precision(b.zeros(SHAPE, f32), a.i, 2)),
    (e.DTypeError, "tpu.weird", lambda b, a: b.weird(b.zeros(SHAPE, bf16))),
    (e.KindError, "tpu.weird", lambda b, a: b.weird(a.x)),
    (e.DTypeError, "by random", lambda b, a: b.stochastic_convert(b.zeros(SHAPE, bf16), b.zeros(SHAPE, i32), f8e5m2)),
    (e.DTypeError, "by random", lambda b, a: b.stochastic_convert(b.zeros(SHAPE, f32), b.zeros(SHAPE, i16), bf16)),
    (e.ShapeError, "as many", lambda b, a: b.stochastic_convert(b.zeros(SHAPE, f32), b.zeros((16, 128), i32), bf16)),
    (e.DTypeError, "to f32", lambda b, a: b.stochastic_convert(b.zeros(SHAPE, f32), b.zeros(SHAPE, i32), f32)),
    (e.DTypeError, "do not pack", lambda b, a: b.pack_elementwise([b.zeros(SHAPE, f32)] * 2, f16)),
    (e.DTypeError, "do not pack", lambda b, a: b.pack_elementwise([b.zeros(SHAPE, f64)] * 2, f32)),
    (e.DTypeError, "not narrower", lambda b, a: b.pack_elementwise([b.zeros(SHAPE, i8)], i8)),
    (e.ArityError, "1 sources, not 2", lambda b, a: b.pack_elementwise([b.zeros(SHAPE, f32)], bf16)),
    (e.ArityError, "no sources", lambda b, a: b.pack_elementwise([], bf16)),
    (e.ShapeError, "differ", lambda b, a: b.pack_elementwise([b.zeros(SHAPE, f32), b.zeros((8, 256), f32)], bf16)),
    (e.DTypeError, "32-bit", lambda b, a: b.unpack_elementwise(b.zeros(SHAPE, f32), 0, bf16, f32)),
    (e.DTypeError, "32-bit", lambda b, a: b.unpack_elementwise(b.zeros(SHAPE, i16), 0, bf16, f32)),
    (e.AttributeValueError, "index 2", lambda b, a: b.unpack_elementwise(b.zeros(SHAPE, i32), 2, bf16, f32)),
    (e.DTypeError, "do not pack", lambda b, a: b.unpack_elementwise(b.zeros(SHAPE, i32), 0, i8, f32)),
    (e.ArityError, "no seed", lambda b, a: b.prng_set_seed_32()),
    (e.DTypeError, "seeds", lambda b, a: b.prng_set_seed_32(b.lift_as(1, i64))),
    (e.DTypeError, "seeds", lambda b, a: b.prng_set_seed_32(b.zeros(SHAPE, i32))),
    (e.KindError, "not a value", lambda b, a: b.prng_set_seed_32(1)),
    (e.ShapeError, "(128,)", lambda b, a: b.prng_random_bits((128,))),
    (e.DTypeError, "32 bits", lambda b, a: b.prng_random_bits(SHAPE, i8)),
    (e.DTypeError, "integers", lambda b, a: b.dynamic_gather(b.zeros(SHAPE, f32), b.zeros(SHAPE, f32), [1])),
    (e.ArityError, "(2,)", lambda b, a: b.dynamic_gather(b.zeros(SHAPE, f32), b.zeros(SHAPE, i32), [2])),
    (e.ArityError, "(0, 0)", lambda b, a: b.dynamic_gather(b.zeros(SHAPE, f32), b.zeros(SHAPE, i32), [0, 0])),
    (e.ArityError, "()", lambda b, a: b.dynamic_gather(b.zeros(SHAPE, f32), b.zeros(SHAPE, i32), [])),
    (e.ShapeError, "outside", lambda b, a: b.dynamic_gather(b.zeros(SHAPE, f32), b.zeros((16, 128), i32), [1])),
    (e.ShapeError, "outside", lambda b, a: b.dynamic_gather(b.zeros(SHAPE, f32), b.zeros((128,), i32), [0])),
    (e.DTypeError, "int elements", lambda b, a: b.mulsi_extended(b.lift(1.0), b.lift(1.0))),
    (e.DTypeError, "no width", lambda b, a: b.mului_extended(b.c_index(1), b.c_index(1))),
    (e.KindError, "scalar", lambda b, a: b.mului_extended(b.zeros(SHAPE, i32), b.lift(1))),
    (e.DTypeError, str(index), lambda b, a: b.pack_elementwise([b.zeros(SHAPE, i32)] * 2, index)),
]


@pytest.mark.parametrize(("error", "words", "call"), REFUSED)
def test_bad_input_is_refused(
    b: Builder, a: Args, raises: Raises, error: type[e.MosaicError], words: str, call: Any
) -> None:
    with raises(error, words):
        call(b, a)
    b.finish()
