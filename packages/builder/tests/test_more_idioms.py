"""What the idioms made of several ops refuse: each in words that name the operation, with a hint."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from mosaic_tpu.builder import Args, Builder, bf16, f8e5m2, f16, f32, i1, i8, i16, i32, u32
from mosaic_tpu.builder import errors as e

from .conftest import Raises

REFUSED: list[tuple[str, type[e.MosaicError], Any]] = [
    ("arange", e.ShapeError, lambda b, a: b.pallas.arange(3, 3)),
    ("arange", e.ShapeError, lambda b, a: b.pallas.arange(0, 8, -1)),
    ("arange", e.ShapeError, lambda b, a: b.pallas.arange(0, 8, 0)),
    ("arange", e.AttributeValueError, lambda b, a: b.pallas.arange(0.5, 8)),
    ("arange", e.ConcreteValueError, lambda b, a: b.pallas.arange(a.i, 8)),
    ("arange", e.DTypeError, lambda b, a: b.pallas.arange(0, 8, dtype=f32)),
    ("fmin", e.DTypeError, lambda b, a: b.pallas.fmin(a.ints[...], 1)),
    ("fmax", e.DTypeError, lambda b, a: b.pallas.fmax(a.ints[...], a.ints[...])),
    ("hypot", e.KindError, lambda b, a: b.pallas.hypot(1.0, 2.0)),
    ("hypot", e.DTypeError, lambda b, a: b.pallas.hypot(a.x[...], b.zeros((8, 128), f8e5m2))),
    ("nan_to_num", e.DTypeError, lambda b, a: b.pallas.nan_to_num(b.c_index(1))),
    ("isclose", e.DTypeError, lambda b, a: b.pallas.isclose(a.half[...], 1.0)),
    ("allclose", e.DTypeError, lambda b, a: b.pallas.allclose(a.half[...], 1.0)),
    ("allclose", e.KindError, lambda b, a: b.pallas.allclose(a.x, 1.0)),
    ("array_equal", e.ShapeError, lambda b, a: b.pallas.array_equal(a.x[...], a.x[0])),
    ("mulhi", e.DTypeError, lambda b, a: b.pallas.mulhi(b.lift_as(1, i8), 2)),
    ("mulhi", e.DTypeError, lambda b, a: b.pallas.mulhi(a.x[...], a.x[...])),
    ("mulhi", e.DTypeError, lambda b, a: b.pallas.mulhi(a.ints[...], b.zeros((8, 128), u32))),
    ("round", e.UnsupportedOpError, lambda b, a: b.pallas.round(b.zeros((8, 128), f16), 2)),
    ("round", e.UnsupportedOpError, lambda b, a: b.pallas.round(a.ints[...], -1)),
    ("glu", e.ShapeError, lambda b, a: b.pallas.glu(a.x[:7, :], 0)),
    ("glu", e.ArityError, lambda b, a: b.pallas.glu(a.x[...], 2)),
    ("norm", e.UnsupportedOpError, lambda b, a: b.pallas.norm(a.x[...], 3, 1)),
    ("standardize", e.ArityError, lambda b, a: b.pallas.standardize(a.x[...], 2)),
    ("trace", e.ArityError, lambda b, a: b.pallas.trace(a.x[...], 0, 1, 1)),
    ("nanmax", e.ArityError, lambda b, a: b.pallas.nanmax(a.x[...], 2)),
    ("nanmin", e.DTypeError, lambda b, a: b.pallas.nanmin(a.ints[...])),
    ("top_k", e.ArityError, lambda b, a: b.pallas.top_k(a.x[0], 2)),
    ("where", e.DTypeError, lambda b, a: b.pallas.where(a.x[...] < 0, b.c_index(1), 0)),
    ("reshape", e.ShapeError, lambda b, a: b.pallas.reshape(a.x[...], (3, -1))),
    ("reshape", e.ShapeError, lambda b, a: b.pallas.reshape(a.i, (2,))),
    ("norm", e.UnsupportedOpError, lambda b, a: b.pallas.norm(a.x[...], math.inf)),
    ("average", e.ShapeError, lambda b, a: b.pallas.average(a.x[...], None, a.x[0])),
    ("trace", e.ShapeError, lambda b, a: b.pallas.trace(a.x[0])),
    ("diag", e.ShapeError, lambda b, a: b.pallas.diag(a.x[...])),
    ("nansum", e.DTypeError, lambda b, a: b.pallas.nansum(a.ints[...])),
    ("max", e.ArityError, lambda b, a: b.pallas.max(a.x[...], 1, where=a.x[...] > 0)),
    ("sum", e.ShapeError, lambda b, a: b.pallas.sum(a.x[0], where=a.x[...] > 0)),
    ("sum", e.DTypeError, lambda b, a: b.pallas.sum(a.x[...], where=a.x[...])),
    ("sum", e.ShapeError, lambda b, a: b.pallas.sum(a.x[...], 1, initial=a.x[0])),
    ("sum", e.DTypeError, lambda b, a: b.pallas.sum(a.ints[...], 1, initial=1.5)),
    ("dstack", e.KindError, lambda b, a: b.pallas.dstack([a.i])),
    ("array_split", e.ShapeError, lambda b, a: b.pallas.array_split(a.x[...], 9)),
    ("array_split", e.ShapeError, lambda b, a: b.pallas.array_split(a.x[...], [3, 3])),
    ("delete", e.AttributeValueError, lambda b, a: b.pallas.delete(a.x[...], 0, 0)),
    ("delete", e.AttributeValueError, lambda b, a: b.pallas.delete(a.x[...], 8, 0)),
    ("diff", e.AttributeValueError, lambda b, a: b.pallas.diff(a.x[...], 8, 0)),
    ("meshgrid", e.ShapeError, lambda b, a: b.pallas.meshgrid(a.x[...])),
    ("meshgrid", e.AttributeValueError, lambda b, a: b.pallas.meshgrid(a.x[0], indexing="ji")),
    ("rollaxis", e.ArityError, lambda b, a: b.pallas.rollaxis(a.cube[...], 0, 4)),
    ("jnp_roll", e.ArityError, lambda b, a: b.pallas.jnp_roll(a.x[...], (1, 2), 0)),
    ("jnp_roll", e.AttributeValueError, lambda b, a: b.pallas.jnp_roll(a.x[...], (1, 8), (1, 0))),
    ("tensordot", e.ArityError, lambda b, a: b.pallas.tensordot(a.x[...], a.x[...], ((0, 1), (0,)))),
    ("tensordot", e.ArityError, lambda b, a: b.pallas.tensordot(a.x[...], a.x[...], (2, 0))),
    ("tensordot", e.UnsupportedOpError, lambda b, a: b.pallas.tensordot(a.x[...], a.x[...], 0)),
    ("tensordot", e.ShapeError, lambda b, a: b.pallas.tensordot(a.x[...], a.half[...], ((0,), (0,)))),
    ("inner", e.UnsupportedOpError, lambda b, a: b.pallas.inner(a.x[0], a.x[0])),
    ("matmul", e.ShapeError, lambda b, a: b.pallas.matmul(a.x[...], a.x[...])),
    ("dot", e.DTypeError, lambda b, a: b.pallas.dot(a.x[...], b.zeros((128, 8), f8e5m2))),
    ("dot", e.DTypeError, lambda b, a: b.pallas.dot(a.ints[...], b.zeros((128, 8), u32))),
    ("dot", e.DTypeError, lambda b, a: b.pallas.dot(b.zeros((32, 128), i8), b.zeros((128, 128), i16))),
    ("matmul", e.DTypeError, lambda b, a: b.pallas.matmul(a.half[...], b.zeros((128, 128), bf16))),
    ("tensordot", e.DTypeError, lambda b, a: b.pallas.tensordot(a.half[...], a.half[...], (1, 1))),
    ("swapaxes", e.AttributeValueError, lambda b, a: b.pallas.swapaxes(a.x[...], (0, 1), 1)),
    ("unstack", e.AttributeValueError, lambda b, a: b.pallas.unstack(a.x[...], (0, 1))),
    ("stack", e.AttributeValueError, lambda b, a: b.pallas.stack([a.x[...]] * 2, 1.0)),
    ("split", e.AttributeValueError, lambda b, a: b.pallas.split(a.x[...], 2, None)),
    ("top_k", e.AttributeValueError, lambda b, a: b.pallas.top_k(a.x[...], 2, axis=())),
    ("argmax", e.AttributeValueError, lambda b, a: b.pallas.argmax(a.x[...], (0, 1))),
    ("sum", e.AttributeValueError, lambda b, a: b.pallas.sum(a.x[...], True)),
    ("roll", e.AttributeValueError, lambda b, a: b.pallas.roll(a.x[...], True, 1)),
    ("roll", e.ConstantError, lambda b, a: b.pallas.roll(a.x[...], 1 << 31, 1)),
    ("tril", e.AttributeValueError, lambda b, a: b.pallas.tril(a.x[...], True)),
    ("tril", e.ConstantError, lambda b, a: b.pallas.tril(a.x[...], 1 << 31)),
    ("tri", e.ConstantError, lambda b, a: b.pallas.tri(8, 128, 1 << 31)),
    ("lax_pad", e.ShapeError, lambda b, a: b.pallas.lax_pad(a.x[...], a.x[0], ((0, 8, 0), (0, 0, 0)))),
    ("clamp", e.DTypeError, lambda b, a: b.pallas.clamp(0, a.x[...], 1.0)),
    ("rem", e.DTypeError, lambda b, a: b.pallas.rem(a.ints[...], -0.0)),
    ("shift_right_logical", e.DTypeError, lambda b, a: b.pallas.shift_right_logical(a.ints[...], 2.0)),
    ("arith.constant", e.ConstantError, lambda b, a: b.pallas.add(b.pallas.expand_dims(a.x[...], 0), 1 << 31)),
    ("integer_pow", e.DTypeError, lambda b, a: b.pallas.integer_pow(a.x[...] > 0, 2)),
    ("arith.constant", e.DTypeError, lambda b, a: b.pallas.zeros((8, 128), "float(")),
    ("full", e.ArityError, lambda b, a: b.pallas.full(np.array(8), 1.0, f32)),
    ("fori_loop", e.AttributeValueError, lambda b, a: b.pallas.fori_loop(0, 8, lambda i: None, unroll=2.7)),
    ("fori_loop", e.AttributeValueError, lambda b, a: b.pallas.fori_loop(0, 8, lambda i: None, unroll=-1)),
    ("fori_loop", e.AttributeValueError, lambda b, a: b.pallas.fori_loop(True, 8, lambda i: None)),
    ("fori_loop", e.ArityError, lambda b, a: b.pallas.fori_loop(0, 8, lambda: None)),
    ("fori_loop", e.ArityError, lambda b, a: b.pallas.fori_loop(0, a.i, lambda i: (i,), (0,))),
    ("fori_loop", e.ArityError, lambda b, a: b.pallas.fori_loop(0, 2, lambda i: (i,), (0,), unroll=True)),
    ("loop", e.ArityError, lambda b, a: b.pallas.loop(0, 8)(lambda: None)),
    ("while_loop", e.ArityError, lambda b, a: b.pallas.while_loop(lambda: a.i < 1, lambda i: (i,), (0,))),
    ("while_loop", e.ArityError, lambda b, a: b.pallas.while_loop(lambda i: i < 1, lambda i, j: (i,), (0,))),
    ("cond", e.ArityError, lambda b, a: b.pallas.cond(a.i < 1, lambda x: (), lambda: ())),
    ("cond", e.YieldTypeError, lambda b, a: b.pallas.cond(a.i < 1, lambda: a.i, lambda: (a.i,), [a.i])),
    ("switch", e.ArityError, lambda b, a: b.pallas.switch(a.i, [lambda: (), lambda x: ()])),
    ("dot_general", e.DTypeError, lambda b, a: b.pallas.dot_general(a.half[...], _f16(b), (((1,), (1,)), ((), ())))),
    ("einshape", e.AttributeValueError, lambda b, a: b.pallas.einshape("ab", a.x[...])),
    ("einshape", e.AttributeValueError, lambda b, a: b.pallas.einshape("ab->a", a.x[...])),
    ("einshape", e.AttributeValueError, lambda b, a: b.pallas.einshape("a(b->ab", a.x[...])),
    ("einshape", e.AttributeValueError, lambda b, a: b.pallas.einshape("ab->ba", a.x[...], c=2)),
    ("einshape", e.ShapeError, lambda b, a: b.pallas.einshape("abc->cba", a.x[...])),
    ("einshape", e.ShapeError, lambda b, a: b.pallas.einshape("a(bc)->abc", a.x[...])),
    ("einshape", e.ShapeError, lambda b, a: b.pallas.einshape("a(bc)->abc", a.x[...], b=3)),
    (
        "einshape",
        e.UnsupportedOpError,
        lambda b, a: b.pallas.einshape("a(bc)->bac", a.x[...], b=2, assert_is_tile_preserving=True),
    ),
    ("load_key", e.KindError, lambda b, a: b.pallas.load_key(a.x)),
    ("load_key", e.KindError, lambda b, a: b.pallas.load_key(a.lens.at[0])),
    ("load_key", e.ShapeError, lambda b, a: b.pallas.load_key(a.lens)),
    ("random_bits", e.KindError, lambda b, a: b.pallas.random_bits(a.i, (8, 128))),
    ("fold_in", e.KindError, lambda b, a: b.pallas.fold_in(_key(b), a.x[...])),
    ("random_uniform", e.AttributeValueError, lambda b, a: b.pallas.random_uniform(_key(b), (8, 128), minval=0)),
    *[
        (name, e.ShapeError, lambda b, a, name=name: getattr(b.pallas, name)(_key(b), (8, 0)))
        for name in ("random_bits", "random_uniform", "random_normal", "random_exponential", "random_laplace")
    ],
    ("random_logistic", e.ShapeError, lambda b, a: b.pallas.random_logistic(_key(b), (128,))),
    ("random_bernoulli", e.ShapeError, lambda b, a: b.pallas.random_bernoulli(_key(b), 0.5, (128,))),
    ("stateful_uniform", e.ShapeError, lambda b, a: b.pallas.stateful_uniform((8, 0))),
    ("stateful_normal", e.ShapeError, lambda b, a: b.pallas.stateful_normal((8, 0))),
    ("stateful_bernoulli", e.ShapeError, lambda b, a: b.pallas.stateful_bernoulli(0.5, (8, 0))),
    ("random_bernoulli", e.AttributeValueError, lambda b, a: b.pallas.random_bernoulli(_key(b), 1, (8, 128))),
]


def _f16(b: Builder) -> Any:
    return b.zeros((16, 128), f16)


def _key(b: Builder) -> Any:
    return b.pallas.load_key(b.alloca((1, 2), u32, "smem"))


@pytest.mark.parametrize(("name", "error", "call"), REFUSED, ids=[f"{n}-{i}" for i, (n, _, _) in enumerate(REFUSED)])
def test_an_idiom_says_what_it_does_not_take(
    b: Builder, a: Args, raises: Raises, name: str, error: type[e.MosaicError], call: Any
) -> None:
    with raises(error, f"{name}: "):
        call(b, a)


@pytest.mark.parametrize("spec", ["ab,cd->bd", "aab,cd->bd", "ab,cb->"])
def test_a_sum_that_pallas_refuses_emits_nothing(b: Builder, a: Args, raises: Raises, spec: str) -> None:
    operands = [b.zeros((8,) * len(names), f32) for names in spec.split("->")[0].split(",")]
    before = len(b.current_block.operations)
    with raises(e.UnsupportedOpError, "einsum: "):
        b.pallas.einsum(spec, *operands)
    assert len(b.current_block.operations) == before


def test_the_types_of_results(b: Builder, a: Args) -> None:
    p, x, half, ints = b.pallas, a.x[...], a.half[...], a.ints[...]
    assert p.hypot(half, 1).dtype is p.xlogy(half, 2.0).dtype is p.average(half, 1).dtype is bf16
    assert p.hypot(ints, 1).dtype is p.norm(ints).dtype is p.heaviside(ints, 1).dtype is f32
    assert p.isposinf(half).dtype is p.allclose(x, 1.0).dtype is p.array_equal(ints, ints).dtype is i1
    assert p.average(x, 1, ints).dtype is p.deg2rad(ints).dtype is f32
    assert p.trace(ints).dtype is p.ptp(ints, 0).dtype is i32
    assert [v.dtype for v in p.divmod(x, ints)] == [f32, f32]
    assert p.arange(3, 128, 2, u32).dtype is u32
    assert p.inner(half, _f16(b)).dtype is p.dot(_f16(b), p.transpose(half)).dtype is f32


def test_what_stands_beside_what_is_refused_is_taken(b: Builder, a: Args) -> None:
    p, x, ints = b.pallas, a.x[...], a.ints[...]
    narrow = b.zeros((32, 128), i8)
    assert p.dot(narrow, b.zeros((128, 128), i8), preferred_element_type=i32).dtype is i32
    assert p.dot(narrow, b.zeros((128, 128), i16), preferred_element_type=i32).dtype is i32
    assert p.swapaxes(x, 0, -1).shape == p.swapaxes(x, np.int64(0), 1).shape == (128, 8)
    assert p.roll(x, (1 << 31) - 1, 1).shape == p.tril(x, -(1 << 31)).shape == (8, 128)
    assert p.rem(ints, 3).dtype is p.integer_pow(ints, 2).dtype is p.power(x > 0, 2).dtype is i32
    assert (b.zeros((8, 128), u32) | 0xFFFFFFFF).dtype is u32
    assert p.fori_loop(np.int32(0), 4, lambda i, n: (n + i,), (0,), unroll=0)[0].dtype is i32
    assert p.lax_pad(x, b.lift(1.0), ((0, 8, 0), (0, 0, 0))).shape == (16, 128)


@pytest.mark.parametrize("body", [lambda x: None, lambda x, y: None])
def test_a_block_is_a_function_without_arguments(b: Builder, a: Args, raises: Raises, body: Any) -> None:
    for block in (b.pallas.when(a.i < 1), b.pallas.run_scoped()):
        with raises(e.ArityError, "does not take 0", "test_more_idioms.py"):
            block(body)


def test_a_type_error_of_a_body_is_its_own(b: Builder, a: Args) -> None:
    with pytest.raises(TypeError, match="int"):
        b.pallas.fori_loop(0, 8, lambda i: len(3))  # pyright: ignore[reportArgumentType]


def test_a_key_is_folded_without_a_load(b: Builder, a: Args) -> None:
    key = _key(b)
    folded = b.pallas.fold_in(b.pallas.fold_in(key, 1), a.i)
    assert folded.words[0] is not key.words[0]
    assert b.pallas.random_normal(folded, (8, 128)).shape == (8, 128)


# --- what JAX and Pallas refuse ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "call",
    [
        "p.max(h)", "p.min(h)", "p.max(h, (0, 1), keepdims=True)", "p.max(h[0])", "p.ptp(h)", "p.softmax(h, None)",
        "p.squeeze(h[0:1, 0:1])", "h[0, 0]",
    ],
)  # fmt: skip
def test_a_scalar_of_16_bits_leaves_no_vector(call: str, b: Builder, a: Args) -> None:
    """Pallas squeezes elements of 32 bits alone; jnp.sum and jnp.mean of 16 bits are of f32 until then."""
    with pytest.raises(e.UnsupportedOpError, match="a scalar of bf16 out of a vector") as caught:
        eval(call, {"p": b.pallas, "h": a.half[...]})
    assert "cast to f32" in caught.value.hint
    assert eval(call, {"p": b.pallas, "h": a.x[...]}).dtype is f32
    assert b.pallas.sum(a.half[...]).dtype is b.pallas.mean(a.half[...]).dtype is bf16
    assert b.pallas.max(a.half[...], 1).shape == (16,) and b.pallas.reshape(a.half[0:1, 0:1], ()).dtype is bf16


@pytest.mark.parametrize(
    "name", ["count_nonzero", "nansum", "nanmean", "nanmax", "nanmin", "norm", "standardize", "log_softmax"]
)
def test_axes_that_jax_hashes_are_no_list(name: str, b: Builder, a: Args) -> None:
    idiom = getattr(b.pallas, name)
    with pytest.raises(e.ArityError, match="list") as caught:
        idiom(a.x[...], axis=[0])
    assert caught.value.op == name and "axis=(0,)" in caught.value.hint
    assert idiom(a.x[...], axis=(0,)).rank in (1, 2)


@pytest.mark.parametrize("name", ["sum", "max", "any", "mean", "var", "softmax", "logsumexp", "average", "ptp"])
def test_other_axes_may_be_a_list(name: str, b: Builder, a: Args) -> None:
    x = a.x[...] > 0.0 if name == "any" else a.x[...]
    assert getattr(b.pallas, name)(x, axis=[0]).shape == getattr(b.pallas, name)(x, axis=(0,)).shape


def test_a_bool_is_not_rounded(b: Builder, a: Args, raises: Raises) -> None:
    mask = a.x[...] > 0.0
    with raises(e.DTypeError, "round", "vector<8x128xi1>", hint="leave it out"):
        b.pallas.round(mask)
    assert b.pallas.floor(mask).shape == b.pallas.round(a.ints[...]).shape == (8, 128)


# --- hints that fit -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "hint"),
    [
        ("a.x[9]", "from -8 to 7"),
        ("a.x[...][9]", "from -8 to 7"),
        ("a.x.at[-9]", "from -8 to 7"),
        ("a.x[p.ds(4, 8)]", "end at 8 at most"),
        ("p.slice(a.x[...], (0, 0), (9, 128))", "end at its size at most"),
        ("b.vector_extract(a.x[...], (8, 0))", "the size of its dimension - 1"),
        ("b.enqueue_dma(a.hbm, a.x, s.s)", 'Sem("dma")'),
        ("p.async_copy(a.hbm, a.x, s.s).start()", 'Sem("dma")'),
        ("p.when(a.x[...] > 0).__enter__()", "for vectors b.pallas.where"),
        ("p.cond(a.x[...] > 0, tuple, tuple)", "for vectors b.pallas.where"),
        ("p.fori_loop(1 << 31, 1 << 32, lambda i: None)", "a bound that an i32 holds"),
        ("p.fori_loop(a.i, 1 << 31, lambda i: None)", "a bound that an i32 holds"),
    ],
)
def test_a_hint_says_what_to_do_about_it(call: str, hint: str) -> None:
    from mosaic_tpu.builder import Ref, Scalar, Sem

    b = Builder("kernel")
    a = b.declare_args(
        {"i": Scalar(i32), "hbm": Ref((8, 128), f32, memory_space="any"), "x": Ref((8, 128), f32), "s": Sem("regular")},
        grid=(4,),
    )
    with pytest.raises(e.MosaicError) as caught:
        eval(call, {"a": a, "b": b, "p": b.pallas, "s": a})
    assert hint in caught.value.hint
