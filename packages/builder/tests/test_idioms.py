"""What the idioms of ``b.pallas`` refuse, as Pallas does, and what they promote."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mosaic_tpu.builder import (
    Args,
    Builder,
    DType,
    Ref,
    bf16,
    f8e5m2,
    f16,
    f32,
    i1,
    i8,
    i16,
    i32,
    u8,
    u32,
)
from mosaic_tpu.builder import errors as e

from .conftest import Raises

UNARY = [
    "exp",
    "exp2",
    "log",
    "log1p",
    "log2",
    "log10",
    "sqrt",
    "rsqrt",
    "sin",
    "cos",
    "tan",
    "tanh",
    "sigmoid",
    "erf",
    "erf_inv",
    "square",
    "abs",
    "floor",
    "ceil",
    "round",
    "trunc",
    "reciprocal",
    "isnan",
    "isinf",
    "isfinite",
    "signbit",
    "sign",
    "deg2rad",
    "rad2deg",
    "modf",
    "isposinf",
    "isneginf",
    "nan_to_num",
    "entr",
    "logit",
    "bitwise_count",
    "hard_sigmoid",
    "hard_silu",
    "hard_tanh",
    "sparse_plus",
    "sparse_sigmoid",
    "soft_sign",
    "squareplus",
    "mish",
    "glu",
    "norm",
    "standardize",
    "average",
    "ptp",
    "trace",
    "diag",
    "nansum",
    "nanmean",
    "nanmax",
    "nanmin",
    "diff",
    "clz",
    "population_count",
    "relu",
    "relu6",
    "leaky_relu",
    "silu",
    "gelu",
    "softplus",
    "log_sigmoid",
    "softmax",
    "log_softmax",
    "logsumexp",
    "mean",
    "var",
    "std",
    "any",
    "all",
    "count_nonzero",
    "argmax",
    "argmin",
    "transpose",
    "unstack",
    "zeros_like",
    "ones_like",
    "tril",
    "triu",
]


def _emitted(b: Builder, emit: Callable[[], Any]) -> list[str]:
    before = len(b.current_block.operations)
    emit()
    return [op.operation.name for op in list(b.current_block.operations)[before:]]


# ------------------------------------------------------------------------------------------------- operands of all


@pytest.mark.parametrize("name", [n for n in UNARY if not n.endswith("_like")])
def test_a_ref_is_no_operand(b: Builder, a: Args, name: str) -> None:
    with pytest.raises(e.KindError) as caught:
        getattr(b.pallas, name)(a.x)
    assert "hint" in str(caught.value)


@pytest.mark.parametrize("name", UNARY)
@pytest.mark.parametrize("operand", [1.5, 2, "x", None, np.ones(3)], ids=["float", "int", "text", "none", "array"])
def test_what_is_no_value_is_no_operand(b: Builder, a: Args, name: str, operand: object) -> None:
    with pytest.raises(e.MosaicError):
        getattr(b.pallas, name)(operand)


@pytest.mark.parametrize("name", UNARY)
def test_a_value_of_another_builder_is_no_operand(b: Builder, a: Args, name: str) -> None:
    other = Builder("other")
    theirs = other.declare_args({"x": Ref((8, 128), f32)}).x[...]
    with pytest.raises(e.ForeignValueError):
        getattr(b.pallas, name)(theirs)


# --------------------------------------------------------------------------------------------------------- numbers


@pytest.mark.parametrize(("dtype", "cast"), [(i8, ["arith.sitofp"]), (i32, ["arith.sitofp"]), (u32, ["arith.uitofp"])])
def test_integers_are_promoted_to_f32(b: Builder, a: Args, dtype: DType, cast: list[str]) -> None:
    x = b.zeros((32, 128), dtype)
    assert _emitted(b, lambda: b.pallas.exp(x)) == [*cast, "math.exp"]
    assert b.pallas.exp(x).dtype is f32


def test_lax_promotes_nothing(b: Builder, a: Args, raises: Raises) -> None:
    x = a.ints[...]
    with raises(e.DTypeError, "rsqrt", "vector<8x128xi32>", hint="cast"):
        b.pallas.rsqrt(x)
    with raises(e.DTypeError, "erf", "vector<8x128xi32>", hint="cast"):
        b.pallas.erf(x)


def test_sigmoid_takes_vectors(b: Builder, a: Args, raises: Raises) -> None:
    with raises(e.KindError, "sigmoid", "f32", hint="1.0 / (1.0 + b.pallas.exp(-x))"):
        b.pallas.sigmoid(b.lift(1.0))


@pytest.mark.parametrize("name", ["erf_inv", "isfinite", "logsumexp"])
def test_some_functions_take_f32_only(b: Builder, a: Args, raises: Raises, name: str) -> None:
    with raises(e.DTypeError, name, "vector<16x128xbf16>", hint="f32"):
        getattr(b.pallas, name)(a.half[...])


@pytest.mark.parametrize("dtype", [f16, f8e5m2, i1])
def test_sign_is_of_integers_f32_and_bf16(b: Builder, a: Args, raises: Raises, dtype: DType) -> None:
    x = b.zeros((32, 128), dtype)
    with raises(e.UnsupportedOpError, "sign", str(x.type)):
        b.pallas.sign(x)


def test_some_powers_are_refused(b: Builder, a: Args, raises: Raises) -> None:
    x, y = a.ints[...], a.x[...]
    assert b.pallas.power(x, x).dtype is b.pallas.power(3, x).dtype is i32
    with raises(e.UnsupportedOpError, "power", "vector<8x128xi32>", hint="cast"):
        b.pallas.power(2.5, x)
    with raises(e.UnsupportedOpError, "power", "another shape", hint="cast"):
        y ** b.lift(2)
    with raises(e.UnsupportedOpError, "power", hint="int"):
        x ** np.bool_(True)
    with raises(e.DTypeError, "power", "vector<8x128xi32>"):
        b.pallas.power(x, -1)


def test_powers_are_shared_squares(b: Builder, a: Args) -> None:
    x = a.x[...]
    assert _emitted(b, lambda: b.pallas.power(x, 1)) == []
    assert _emitted(b, lambda: b.pallas.power(x, 8)) == ["arith.mulf"] * 3
    assert _emitted(b, lambda: b.pallas.power(2.0, x)) == ["math.exp2"]


@pytest.mark.parametrize("power", [1.5, "2", None])
def test_integer_pow_takes_an_int(b: Builder, a: Args, raises: Raises, power: Any) -> None:
    x = a.x[...]
    with raises(e.AttributeValueError, "integer_pow"):
        b.pallas.integer_pow(x, power)


@pytest.mark.parametrize("name", ["abs", "floor", "round", "trunc"])
def test_what_changes_nothing_emits_nothing(b: Builder, a: Args, name: str) -> None:
    x = b.zeros((8, 128), u32)
    assert _emitted(b, lambda: getattr(b.pallas, name)(x)) == []


def test_clip_needs_a_limit_of_the_type(b: Builder, a: Args, raises: Raises) -> None:
    x, y = a.x[...], a.half[...]
    with raises(e.ArityError, "clip", hint="min, max"):
        b.pallas.clip(x)
    with raises(e.DTypeError, "f8e5m2", "f32"):
        b.pallas.clip(x, b.zeros((8, 128), f8e5m2))
    with raises(e.ShapeError, "broadcast"):
        b.pallas.clip(x, y)


def test_clamp_converts_nothing(b: Builder, a: Args, raises: Raises) -> None:
    x = a.x[...]
    with raises(e.ShapeError, "clamp", "vector<128xf32>"):
        b.pallas.clamp(a.x[0], x, 1.0)
    with raises(e.DTypeError, "differ"):
        b.pallas.clamp(b.lift(0), x, 1.0)


def test_select_n_takes_two_cases(b: Builder, a: Args, raises: Raises) -> None:
    x = a.x[...]
    with raises(e.ArityError, "select_n", hint="two"):
        b.pallas.select_n(x < 0.0, x)
    with raises(e.DTypeError, "select_n", "vector<8x128xf32>", hint="i32"):
        b.pallas.select_n(x, x, x)


@pytest.mark.parametrize("name", ["logical_and", "logical_or", "logical_xor"])
def test_logic_takes_numbers_beside_values(b: Builder, a: Args, raises: Raises, name: str) -> None:
    x, y = a.x[...], a.half[...]
    assert getattr(b.pallas, name)(x, 1).dtype is i1
    with raises(e.KindError, name, "object"):
        getattr(b.pallas, name)(x, object())
    with raises(e.KindError, name):
        getattr(b.pallas, name)(2, 3)
    with raises(e.DTypeError, name, "bf16"):
        getattr(b.pallas, name)(b.zeros((16, 128), f8e5m2), y)


# ------------------------------------------------------------------------------------------------------------ bits


def test_bits_keep_their_width(b: Builder, a: Args, raises: Raises) -> None:
    x = a.x[...]
    with raises(e.DTypeError, "bitcast_convert_type", "vector<8x128xf32>", hint="b.pallas.bitcast"):
        b.pallas.bitcast_convert_type(x, bf16)


@pytest.mark.parametrize("name", ["clz", "population_count"])
def test_bits_are_counted_in_integers(b: Builder, a: Args, raises: Raises, name: str) -> None:
    x = a.x[...]
    with raises(e.DTypeError, name, "vector<8x128xf32>", hint="integers"):
        getattr(b.pallas, name)(x)


def test_neighbours_are_of_f32_vectors(b: Builder, a: Args, raises: Raises) -> None:
    x, y, s = a.x[...], a.half[...], b.lift(1.0)
    with raises(e.DTypeError, "nextafter", "vector<16x128xbf16>"):
        b.pallas.nextafter(y, y)
    with raises(e.KindError, "nextafter"):
        b.pallas.nextafter(s, s)
    with raises(e.ShapeError, "nextafter"):
        b.pallas.nextafter(x, a.x[0])


def test_random_bits_are_unsigned(b: Builder, a: Args, raises: Raises) -> None:
    x = a.x[...]
    with raises(e.DTypeError, "stochastic_round", "i32", hint="u32"):
        b.pallas.stochastic_round(x, a.ints[...], bf16)


# ------------------------------------------------------------------------------------------------------ reductions


@pytest.mark.parametrize("name", ["argmax", "argmin", "top_k"])
def test_positions_are_of_floats(b: Builder, a: Args, raises: Raises, name: str) -> None:
    x = a.ints[...]
    with raises(e.UnsupportedOpError, name, "vector<8x128xi32>", hint="f32"):
        getattr(b.pallas, name)(x, 1)


@pytest.mark.parametrize("name", ["argmax", "mean", "var", "any", "count_nonzero", "softmax", "logsumexp"])
@pytest.mark.parametrize("axis", [2, -3])
def test_an_axis_is_one_of_the_vector(b: Builder, a: Args, raises: Raises, name: str, axis: int) -> None:
    x = a.x[...]
    with raises(e.ArityError, "vector<8x128xf32>", hint="axis"):
        getattr(b.pallas, name)(x, axis)


@pytest.mark.parametrize("name", ["argmax", "mean", "var", "any"])
def test_keepdims_is_a_flag(b: Builder, a: Args, raises: Raises, name: str) -> None:
    x = a.x[...]
    with raises(e.AttributeValueError, "keepdims", hint="True or False"):
        getattr(b.pallas, name)(x, 1, keepdims="yes")


def test_unsigned_integers_are_not_summed(b: Builder, a: Args, raises: Raises) -> None:
    for dtype in (u8, u32):
        x = b.zeros((32, 128), dtype)
        with raises(e.UnsupportedOpError, "sum", str(x.type), hint="cast"):
            b.pallas.sum(x, 1)
    assert b.pallas.sum(b.zeros((32, 128), i8), 1).dtype is i32


def test_indices_of_f32_are_i32(b: Builder, a: Args, raises: Raises) -> None:
    x = a.x[...]
    with raises(e.DTypeError, "argmax", "i16"):
        b.pallas.argmax(x, 1, index_dtype=i16)


@pytest.mark.parametrize("k", [0, 129])
def test_top_k_finds_what_is_there(b: Builder, a: Args, raises: Raises, k: int) -> None:
    x = a.x[...]
    with raises(e.AttributeValueError, "top_k", hint="from 1 to 128"):
        b.pallas.top_k(x, k)


# -------------------------------------------------------------------------------------------------------- movement

CUBE = (2, 8, 128)
BAD_SHAPES: list[tuple[str, type[e.MosaicError], Callable[[Builder, Args], Any]]] = [
    ("transpose-axes", e.ArityError, lambda b, a: b.pallas.transpose(a.x[...], (0,))),
    ("transpose-twice", e.ArityError, lambda b, a: b.pallas.transpose(a.x[...], (0, 0))),
    ("swapaxes", e.ArityError, lambda b, a: b.pallas.swapaxes(a.x[...], 0, 2)),
    ("moveaxis", e.ArityError, lambda b, a: b.pallas.moveaxis(a.x[...], (0, 1), 0)),
    ("stack-nothing", e.ArityError, lambda b, a: b.pallas.stack([])),
    ("stack-shapes", e.ShapeError, lambda b, a: b.pallas.stack([a.x[...], a.cube[...]])),
    ("stack-axis", e.ArityError, lambda b, a: b.pallas.stack([a.x[...]], 3)),
    ("stack-value", e.ArityError, lambda b, a: b.pallas.stack(a.x[...])),
    ("split-uneven", e.ShapeError, lambda b, a: b.pallas.split(a.x[...], 3)),
    ("split-none", e.ShapeError, lambda b, a: b.pallas.split(a.x[...], 0)),
    ("split-order", e.ShapeError, lambda b, a: b.pallas.split(a.x[...], [4, 2])),
    ("split-empty", e.ShapeError, lambda b, a: b.pallas.split(a.x[...], [8])),
    ("split-axis", e.ArityError, lambda b, a: b.pallas.split(a.x[...], 2, 2)),
    ("vstack-scalars", e.KindError, lambda b, a: b.pallas.hstack([b.lift(1.0)])),
    ("tile-zero", e.AttributeValueError, lambda b, a: b.pallas.tile(a.x[...], (0, 1))),
    ("repeat-zero", e.AttributeValueError, lambda b, a: b.pallas.repeat(a.x[...], 0)),
    ("repeat-axis", e.ArityError, lambda b, a: b.pallas.repeat(a.x[...], 2, 2)),
    ("roll-negative", e.AttributeValueError, lambda b, a: b.pallas.roll(a.x[...], -1, 0)),
    ("roll-axis", e.ArityError, lambda b, a: b.pallas.roll(a.x[...], 1, -1)),
    ("roll-one-axis", e.ArityError, lambda b, a: b.pallas.roll(a.x[...], 1, 1, stride=1, stride_axis=1)),
    ("roll-stride-alone", e.ArityError, lambda b, a: b.pallas.roll(a.x[...], 1, 1, stride=1)),
    ("roll-by-a-float", e.DTypeError, lambda b, a: b.pallas.roll(a.x[...], b.lift(1.0), 1)),
    ("jnp-roll-nothing", e.AttributeValueError, lambda b, a: b.pallas.jnp_roll(a.x[...], 8, 0)),
    ("jnp-roll-value", e.ConcreteValueError, lambda b, a: b.pallas.jnp_roll(a.x[...], a.i, 0)),
    ("pad-rank", e.ArityError, lambda b, a: b.pallas.pad(a.x[...], ((0, 1),))),
    ("pad-negative", e.ArityError, lambda b, a: b.pallas.pad(a.x[...], -1)),
    ("pad-text", e.ArityError, lambda b, a: b.pallas.pad(a.x[...], "ab")),
    ("lax-pad-between", e.UnsupportedOpError, lambda b, a: b.pallas.lax_pad(a.x[...], 0.0, ((0, 0, 1), (0, 0, 0)))),
    ("lax-pad-all-gone", e.ShapeError, lambda b, a: b.pallas.lax_pad(a.x[...], 0.0, ((-8, 0, 0), (0, 0, 0)))),
    ("lax-pad-type", e.DTypeError, lambda b, a: b.pallas.lax_pad(a.x[...], b.lift(0), ((0, 8, 0), (0, 0, 0)))),
    ("broadcast-dims", e.ArityError, lambda b, a: b.pallas.broadcast_in_dim(a.x[...], (8, 128), (0,))),
    ("broadcast-order", e.ArityError, lambda b, a: b.pallas.broadcast_in_dim(a.x[...], (128, 8), (1, 0))),
    ("broadcast-size", e.ShapeError, lambda b, a: b.pallas.broadcast_in_dim(a.x[0], (8, 64), (1,))),
    ("gather-first", e.UnsupportedOpError, lambda b, a: b.pallas.take_along_axis(a.cube[...], b.zeros(CUBE, i32), 0)),
    ("gather-type", e.DTypeError, lambda b, a: b.pallas.take_along_axis(a.x[...], a.x[...], 0)),
    ("gather-shape", e.ShapeError, lambda b, a: b.pallas.take_along_axis(a.x[...], b.zeros((4, 64), i32), 0)),
    ("tril-rank", e.ShapeError, lambda b, a: b.pallas.tril(a.x[0])),
    ("tri-sizes", e.ShapeError, lambda b, a: b.pallas.tri(0)),
    ("eye-type", e.DTypeError, lambda b, a: b.pallas.eye(8, dtype="complex64")),
    ("one-hot-type", e.DTypeError, lambda b, a: b.pallas.one_hot(a.x[0], 8)),
    ("one-hot-size", e.ShapeError, lambda b, a: b.pallas.one_hot(a.ints[0], 0)),
]  # fmt: skip


@pytest.mark.parametrize(("error", "call"), [pytest.param(*case[1:], id=case[0]) for case in BAD_SHAPES])
def test_what_does_not_fit_is_refused(
    b: Builder, a: Args, error: type[e.MosaicError], call: Callable[[Builder, Args], Any]
) -> None:
    with pytest.raises(e.MosaicError) as caught:
        call(b, a)
    assert caught.type is error
    assert caught.value.op and caught.value.hint


# -------------------------------------------------------------------------------------------------------- products


def test_nothing_contracted_and_scalars_are_refused(b: Builder, a: Args, raises: Raises) -> None:
    x = b.zeros((128,), f32)
    with raises(e.UnsupportedOpError, "dot_general", "nothing is contracted", hint="b.pallas.sum"):
        b.pallas.dot_general(x, x, (((), ()), ((), ())))
    with raises(e.UnsupportedOpError, "dot:", "scalar", hint="b.pallas.sum"):
        b.pallas.dot(x, x)


def test_a_single_row_is_refused_where_pallas_refuses_it(b: Builder, a: Args, raises: Raises) -> None:
    x, row, dims = b.zeros((16, 128), bf16), b.zeros((1, 128), bf16), (((1,), (1,)), ((), ()))
    with raises(e.UnsupportedOpError, "dot_general", hint="cast both"):
        b.pallas.dot_general(x, row, dims, preferred_element_type=f32)
    with raises(e.UnsupportedOpError, "dot_general", hint="cast both"):
        b.pallas.dot_general(b.zeros((1, 128), i8), b.zeros((1, 128), i8), dims, preferred_element_type=i32)


def test_batches_of_matmul_are_the_same(b: Builder, a: Args, raises: Raises) -> None:
    with raises(e.UnsupportedOpError, "matmul", hint="dot_general"):
        b.pallas.matmul(b.zeros((2, 8, 128), f32), b.zeros((3, 128, 128), f32))


# ------------------------------------------------------------------------------------------------- random and debug


def test_limits_of_random_numbers_are_floats(b: Builder, a: Args, raises: Raises) -> None:
    with raises(e.AttributeValueError, "stateful_uniform", hint="float"):
        b.pallas.stateful_uniform((8, 128), minval=0)
    with raises(e.ShapeError, "stateful_bits", hint="two dimensions"):
        b.pallas.stateful_bits((128,))


def test_seeds_are_i32(b: Builder, a: Args, raises: Raises) -> None:
    with raises(e.ArityError, "prng_seed"):
        b.pallas.prng_seed()
    with raises(e.DTypeError, "prng_seed", "f32"):
        b.pallas.prng_seed(b.lift(1.0))
    with raises(e.AttributeValueError, "seed"):
        b.pallas.prng_seed(1.5)  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["{0}", "{x}", "{:d}", "{!r}", "{} }} {}", "{", "}"])
def test_the_places_of_a_print_are_bare(b: Builder, a: Args, raises: Raises, text: str) -> None:
    with raises(e.AttributeValueError, "debug_print", hint="{}"):
        b.pallas.debug_print(text, a.i)


def test_a_print_has_a_place_for_each_value(b: Builder, a: Args, raises: Raises) -> None:
    x = a.x[...]
    with raises(e.ArityError, "debug_print", "2 places for 1 values"):
        b.pallas.debug_print("{} {}", a.i)
    with raises(e.ArityError, "debug_print", hint="one call each"):
        b.pallas.debug_print("{} {}", x, x)
    with raises(e.AttributeValueError, "debug_print", hint="end"):
        b.pallas.debug_print("{} of it", x)
    with raises(e.DTypeError, "debug_print", "i1"):
        b.pallas.debug_print("{}", a.i > 0)


def test_a_span_has_a_name(b: Builder, a: Args, raises: Raises) -> None:
    with raises(e.AttributeValueError, "named_scope", hint="string"):
        b.pallas.named_scope(3)  # type: ignore[arg-type]


def test_a_swap_gives_what_was_there(b: Builder, a: Args, raises: Raises) -> None:
    x = a.x[...]
    assert b.pallas.swap(a.y, x).shape == (8, 128)
    assert b.pallas.swap(a.y, a.x[0], 2).shape == (128,)
    with raises(e.ShapeError, "swap"):
        b.pallas.swap(a.y, x, 2)
    with raises(e.DTypeError, "swap"):
        b.pallas.swap(a.ints, x)


@pytest.mark.parametrize("axis", [(), (0,), 1.0, "0"], ids=repr)
def test_a_position_has_one_axis(b: Builder, a: Args, raises: Raises, axis: Any) -> None:
    for name in ("argmax", "argmin"):
        with raises(e.AttributeValueError, name, "the axis is", hint="an int"):
            getattr(b.pallas, name)(a.x[...], axis)


def test_not_of_a_number_asks_whether_it_is_0(b: Builder, a: Args, raises: Raises) -> None:
    assert b.pallas.logical_not(a.x[...]).dtype is i1
    assert b.pallas.logical_not(a.x[...] > 0.0).dtype is i1
    with raises(e.DTypeError, "bitwise_not", "f32", hint="logical_not"):
        b.pallas.bitwise_not(a.x[...])


def test_a_fill_has_the_type_that_is_asked_for(b: Builder, a: Args, raises: Raises) -> None:
    for dtype in (f32, i32, i1):
        assert b.pallas.full((8, 128), a.i, dtype).dtype is dtype
    assert b.pallas.full((), a.i, f32).shape == ()
    with raises(e.ShapeError, "full", "does not fill"):
        b.pallas.full((), a.x[0], f32)
