"""Operands that do not fit an op are refused when it is called, in words that say what to write instead."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mosaic_tpu.builder import (
    Args,
    Builder,
    DotDimensionNumbers,
    DType,
    Slice,
    as_dtype,
    bf16,
    f8e4m3fn,
    f8e5m2,
    f16,
    f32,
    i1,
    i4,
    i8,
    i16,
    i32,
    index,
    u8,
    u16,
    u32,
)
from mosaic_tpu.builder import errors as e
from mosaic_tpu.builder.pallas._promotion import beside, promoted

from .conftest import Raises, declare

# ------------------------------------------------------------------------------------------------- element types


@pytest.mark.parametrize("op", ["addf", "subf", "mulf", "divf", "remf", "minimumf", "maximumf", "minnumf", "maxnumf"])
def test_a_float_op_refuses_integers(b: Builder, a: Args, raises: Raises, op: str) -> None:
    x = b.lift(1)
    with raises(e.DTypeError, f"arith.{op}", "i32"):
        getattr(b, op)(x, x)


@pytest.mark.parametrize(
    "op",
    [
        "addi",
        "subi",
        "muli",
        "divsi",
        "divui",
        "remsi",
        "remui",
        "andi",
        "ori",
        "xori",
        "shli",
        "shrsi",
        "shrui",
        "minsi",
        "maxsi",
        "minui",
        "maxui",
    ],
)
def test_an_integer_op_refuses_floats(b: Builder, a: Args, raises: Raises, op: str) -> None:
    x = b.lift(1.0)
    with raises(e.DTypeError, f"arith.{op}", "f32"):
        getattr(b, op)(x, x)


@pytest.mark.parametrize(
    "op", ["exp", "log", "log1p", "log2", "sqrt", "rsqrt", "sin", "cos", "tanh", "erf", "absf", "floor"]
)
def test_a_float_function_refuses_integers(b: Builder, a: Args, raises: Raises, op: str) -> None:
    with raises(e.DTypeError, f"math.{op}", "i32"):
        getattr(b, op)(b.lift(1))


@pytest.mark.parametrize("op", ["absi", "ctlz", "ctpop"])
def test_an_integer_function_refuses_floats(b: Builder, a: Args, raises: Raises, op: str) -> None:
    with raises(e.DTypeError, f"math.{op}", "f32"):
        getattr(b, op)(b.lift(1.0))


@pytest.mark.parametrize("op", ["powf", "atan2"])
def test_a_function_of_two_refuses_integers(b: Builder, a: Args, raises: Raises, op: str) -> None:
    with raises(e.DTypeError, f"math.{op}", "i32"):
        getattr(b, op)(b.lift(1), b.lift(1))


def test_fma_refuses_mixed_operands(b: Builder, a: Args, raises: Raises) -> None:
    with raises(e.DTypeError, "math.fma", "f32, bf16"):
        b.fma(b.lift(1.0), b.lift(1.0), b.lift_as(1.0, bf16))


@pytest.mark.parametrize("op", ["addi", "cmpi", "select"])
def test_operands_have_one_element_type(b: Builder, a: Args, raises: Raises, op: str) -> None:
    x, y = b.lift(1), b.lift_as(1, i8)
    leading = {"addi": [], "cmpi": ["eq"], "select": [b.lift(True)]}[op]
    with raises(e.DTypeError, f"arith.{op}", "i32", "i8", hint="cast"):
        getattr(b, op)(*leading, x, y)


NUMBERS = (i1, i4, i8, i16, i32, u8, u16, u32, bf16, f16, f32, f8e4m3fn, f8e5m2)


@pytest.mark.parametrize("first", NUMBERS, ids=str)
@pytest.mark.parametrize("second", NUMBERS, ids=str)
def test_operators_promote_as_jnp_does(b: Builder, a: Args, first: DType, second: DType) -> None:
    try:
        expected = as_dtype(jnp.promote_types(first.numpy, second.numpy))
    except jax.dtypes.TypePromotionError:
        expected = None
    assert promoted(first, second) is expected
    x, y = b.zeros((64, 128), first), b.zeros((64, 128), second)
    if expected is None:
        with pytest.raises(e.DTypeError):
            b.pallas.lt(x, y)
    elif {first, second} not in ({bf16, f16}, {f16, bf16}):
        assert b.pallas.where(x.ne(y), x, y).dtype is expected


@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
@pytest.mark.parametrize("number", [True, 1, 1.5])
def test_python_numbers_promote_as_in_jnp(dtype: DType, number: float) -> None:
    try:
        expected = as_dtype(jax.eval_shape(lambda: jnp.zeros((), dtype.numpy) * number).dtype)
    except jax.dtypes.TypePromotionError:
        expected = None
    assert beside(dtype, number) is expected


def test_what_jax_does_not_promote_is_refused(b: Builder, a: Args, raises: Raises) -> None:
    with raises(e.DTypeError, "add", "vector<8x128xf32>", "vector<8x128xf8E4M3FN>", hint=".to("):
        a.x[...] + b.zeros((8, 128), f8e4m3fn)
    with raises(e.DTypeError, "floor_divide", "i4", "i32"):
        a.i // b.lift_as(1, i4)
    with raises(e.ConstantError, "1.5", "i4"):
        b.lift_as(1, i4) * 1.5


def test_slash_of_integers_is_of_f32(b: Builder, a: Args) -> None:
    assert (a.i / 2).dtype is (2 / a.ints[...]).dtype is f32


@pytest.mark.parametrize(
    ("op", "dtype"),
    [
        ("extsi", i8),
        ("extui", f32),
        ("trunci", i32),
        ("extf", f32),
        ("truncf", bf16),
        ("sitofp", i32),
        ("fptosi", i32),
        ("index_cast", f32),
        ("arith_bitcast", i8),
    ],
)
def test_a_cast_refuses_other_types(b: Builder, a: Args, raises: Raises, op: str, dtype: object) -> None:
    name = "arith.bitcast" if op == "arith_bitcast" else f"arith.{op}"
    with raises(e.DTypeError, name, "i32", hint="x.to(dtype)"):
        getattr(b, op)(b.lift(1), dtype)


def test_there_is_no_cast_between_floats_of_one_width(b: Builder, a: Args, raises: Raises) -> None:
    half = b.lift_as(1.0, bf16)
    with raises(e.DTypeError, "to", "bf16", hint="f32"):
        half.to(f16)


def test_index_values_are_cast_by_their_own_ops(b: Builder, a: Args, raises: Raises) -> None:
    with raises(e.DTypeError, "to", "i32", hint="to_index"):
        a.i.to(index)


def test_an_unknown_dtype_lists_the_known_ones(b: Builder, a: Args, raises: Raises) -> None:
    with raises(e.DTypeError, "full", hint="bf16"):
        b.full((8, 128), 0, "float31")  # type: ignore[arg-type]


def test_the_condition_of_a_select_is_i1(b: Builder, a: Args, raises: Raises) -> None:
    with raises(e.DTypeError, "arith.select", "i32", hint="compare"):
        b.select(b.lift(1), b.lift(2), b.lift(3))


def test_iota_counts_integers(b: Builder, a: Args, raises: Raises) -> None:
    with raises(e.DTypeError, "tpu.iota", "f32"):
        b.iota((8, 128), f32, [1])


def test_a_reduction_combines_elements_of_its_kind(b: Builder, a: Args, raises: Raises) -> None:
    with raises(e.DTypeError, "vector.multi_reduction", "maxsi"):
        b.multi_reduction("maxsi", a.x[...], b.zeros((8,), f32), [1])


def test_matmul_accumulates_in_the_products_kind(b: Builder, a: Args, raises: Raises) -> None:
    x = b.zeros((8, 128), bf16)
    with raises(e.DTypeError, "tpu.matmul", "vector<8x8xi32>"):
        b.matmul(x, x, b.zeros((8, 8), i32), transpose_rhs=True)


# ------------------------------------------------------------------------------------------------- kinds


def test_a_scalar_beside_a_vector_must_be_broadcast(b: Builder, a: Args, raises: Raises) -> None:
    with raises(e.KindError, "arith.addf", "vector<8x128xf32>, f32", hint="broadcast_to"):
        b.addf(a.x[...], b.lift(1.0))


@pytest.mark.parametrize("op", ["addf", "mulf"])
def test_a_ref_must_be_loaded(b: Builder, a: Args, raises: Raises, op: str) -> None:
    with raises(e.KindError, f"arith.{op}", "memref<8x128xf32", hint="ref[...]"):
        getattr(b, op)(a.x, a.x)


def test_a_ref_must_be_loaded_before_an_operator(b: Builder, a: Args, raises: Raises) -> None:
    with raises(e.KindError, "add", "memref<8x128xf32", hint="ref[...]"):
        a.x + 1.0


@pytest.mark.parametrize("number", [1, 1.0, None, "x", [1], object()])
def test_a_raw_op_takes_values_only(b: Builder, a: Args, raises: Raises, number: object) -> None:
    with raises(e.KindError, "arith.addf", type(number).__name__, hint="b.lift"):
        b.addf(b.lift(1.0), number)  # type: ignore[arg-type]


@pytest.mark.parametrize("op", ["shape_cast", "transpose", "vector_extract", "reshape"])
def test_a_vector_op_refuses_scalars(b: Builder, a: Args, raises: Raises, op: str) -> None:
    with raises(e.KindError, "f32", hint="broadcast_to"):
        getattr(b, op)(b.lift(1.0), (1,))


@pytest.mark.parametrize("op", ["memref_squeeze", "memref_reshape"])
def test_a_ref_op_refuses_vectors(b: Builder, a: Args, raises: Raises, op: str) -> None:
    with raises(e.KindError, f"tpu.{op}", "vector<8x128xf32>"):
        getattr(b, op)(a.x[...], (8, 128))


# ------------------------------------------------------------------------------------------------- ranks and shapes


def test_shapes_must_be_equal(b: Builder, a: Args, raises: Raises) -> None:
    with raises(e.ShapeError, "arith.addf", "vector<8x128xf32>, vector<128xf32>", hint="broadcast_to"):
        b.addf(b.zeros((8, 128), f32), b.zeros((128,), f32))


def test_operators_broadcast_only_size_one(b: Builder, a: Args, raises: Raises) -> None:
    with raises(e.ShapeError, "mul", "vector<8x128xf32>", "vector<4x128xf32>"):
        b.zeros((8, 128), f32) * b.zeros((4, 128), f32)


@pytest.mark.parametrize("shape", [(8, 64), (128,), (), (0, 128), (8, -128), (1 << 41,)])
def test_a_shape_cast_keeps_the_elements(b: Builder, a: Args, raises: Raises, shape: tuple[int, ...]) -> None:
    with raises(e.ShapeError):
        b.shape_cast(b.zeros((8, 128), f32), shape)


@pytest.mark.parametrize("shape", ["ab", 8, (1.5,), ("a",), None])
def test_a_shape_is_a_sequence_of_ints(b: Builder, a: Args, raises: Raises, shape: object) -> None:
    with raises(e.ArityError if not isinstance(shape, tuple) else e.AttributeValueError, "full"):
        b.full(shape, 0, f32)  # type: ignore[arg-type]


@pytest.mark.parametrize("shape", [(8, 64), (128,), (4, 128)])
def test_a_broadcast_stretches_size_one(b: Builder, a: Args, raises: Raises, shape: tuple[int, ...]) -> None:
    with raises(e.ShapeError, "vector.broadcast", "vector<8x128xf32>", hint="shape_cast"):
        b.broadcast_to(b.zeros((8, 128), f32), shape)


def test_a_product_contracts_equal_sizes(b: Builder, a: Args, raises: Raises) -> None:
    x = b.zeros((8, 128), bf16)
    with raises(e.ShapeError, "tpu.matmul", "128 and 8", hint="transpose_rhs"):
        b.matmul(x, x, b.zeros((8, 128), f32))


def test_an_accumulator_has_the_products_shape(b: Builder, a: Args, raises: Raises) -> None:
    x = b.zeros((8, 128), bf16)
    with raises(e.ShapeError, "tpu.matmul", "(8, 8)"):
        b.matmul(x, x, b.zeros((8, 128), f32), transpose_rhs=True)


def test_a_product_of_other_ranks_needs_dimension_numbers(b: Builder, a: Args, raises: Raises) -> None:
    x = b.zeros((1, 8, 128), bf16)
    with raises(e.ShapeError, "tpu.matmul", hint="dot_general"):
        b.matmul(x, x, b.zeros((1, 8, 8), f32))


@pytest.mark.parametrize("dim", [5, -1])
def test_dimension_numbers_name_dimensions(b: Builder, a: Args, raises: Raises, dim: int) -> None:
    x = b.zeros((8, 128), bf16)
    with raises(e.AttributeValueError, "tpu.matmul"):
        b.matmul(
            x, x, b.zeros((8, 8), f32), dimension_numbers=DotDimensionNumbers((dim,), (1,), (0,), (0,), (0, 0, 1, 0))
        )


def test_concatenated_vectors_differ_in_one_dimension(b: Builder, a: Args, raises: Raises) -> None:
    with raises(e.ShapeError, "tpu.concatenate"):
        b.concatenate([b.zeros((8, 128), f32), b.zeros((8, 64), f32)], 0)


@pytest.mark.parametrize("shape", [(128, 8), (8,), (1, 8, 128)])
def test_a_mask_has_the_values_shape(b: Builder, a: Args, raises: Raises, shape: tuple[int, ...]) -> None:
    mask = b.full(shape, True, i1)
    with raises(e.ShapeError, "tpu.vector_store", "i1 of shape (8, 128)"):
        b.vector_store(a.x, a.x[...], mask=mask)


def test_an_idioms_mask_has_the_values_shape(b: Builder, a: Args, raises: Raises) -> None:
    with raises(e.ShapeError, "store"):
        b.pallas.store(a.x, a.x[...], mask=b.full((8, 1), True, i1))


def test_a_select_condition_has_the_operands_shape(b: Builder, a: Args, raises: Raises) -> None:
    with raises(e.ShapeError, "arith.select"):
        b.select(b.full((8,), True, i1), a.x[...], a.x[...])


# ------------------------------------------------------------------------------------------------- arity and axes


@pytest.mark.parametrize("indices", [[0], [0, 0, 0]])
def test_a_load_takes_one_index_a_dimension(b: Builder, a: Args, raises: Raises, indices: list[int]) -> None:
    with raises(e.ArityError, "vector.load", "memref<8x128xf32", hint="2"):
        b.vector_load(a.x, indices)


def test_a_raw_index_is_of_type_index(b: Builder, a: Args, raises: Raises) -> None:
    with raises(e.DTypeError, "vector.load", "i32", hint="b.to_index"):
        b.vector_load(a.x, [b.lift(0), 0])


def test_a_reduction_along_no_axis_is_how_pallas_reduces_a_scalar(b: Builder, a: Args, raises: Raises) -> None:
    assert b.multi_reduction("add", a.x[...], b.zeros((8, 128), f32), []).shape == (8, 128)
    with raises(e.ShapeError, "vector.multi_reduction", "vector<8xf32>"):
        b.multi_reduction("add", a.x[...], b.zeros((8,), f32), [])


@pytest.mark.parametrize("axes", [[2], [-1], [1, 1]])
def test_a_reduction_takes_each_axis_once(b: Builder, a: Args, raises: Raises, axes: list[int]) -> None:
    with raises(e.ArityError, "vector.multi_reduction", "vector<8x128xf32>"):
        b.multi_reduction("add", a.x[...], b.zeros((8,), f32), axes)


@pytest.mark.parametrize("axis", [2, -3, (0, 0), (0, 5)])
def test_an_idioms_axes_may_be_negative_but_not_outside(b: Builder, a: Args, raises: Raises, axis: int) -> None:
    with raises(e.ArityError, "sum", "vector<8x128xf32>"):
        b.pallas.sum(a.x[...], axis)


@pytest.mark.parametrize("permutation", [[0], [0, 0], [1, 2]])
def test_a_transpose_takes_a_permutation(b: Builder, a: Args, raises: Raises, permutation: list[int]) -> None:
    with raises(e.ArityError, "tpu.transpose"):
        b.transpose(a.x[...], permutation)


def test_a_concatenation_joins_two_or_more(b: Builder, a: Args, raises: Raises) -> None:
    with raises(e.ArityError, "tpu.concatenate"):
        b.concatenate([a.x[...]], 0)


@pytest.mark.parametrize("index", [(0, 0, 0), (..., 0, ...)])
def test_an_indexed_ref_takes_at_most_its_rank(b: Builder, a: Args, raises: Raises, index: tuple[object, ...]) -> None:
    with raises(e.ArityError, hint="ellipsis"):
        a.x[index]


@pytest.mark.parametrize("index", [8, -9, slice(4, 2), slice(0, 8, -1)])
def test_a_static_index_stays_inside(b: Builder, a: Args, raises: Raises, index: object) -> None:
    with raises(e.ShapeError):
        a.x[index]


@pytest.mark.parametrize("index", [1.0, "a", True])
def test_an_index_is_an_int_a_slice_or_a_value(b: Builder, a: Args, raises: Raises, index: object) -> None:
    with raises(e.KindError):
        a.x[index]


@pytest.mark.parametrize("wrong", [slice(0.0, 4), slice(0, 4.0), slice(True, 4), slice(0, 8, 1.0), slice("a", 4)])
def test_a_python_slice_has_ints(b: Builder, a: Args, raises: Raises, wrong: Any) -> None:
    _ = a.x[0:4], a.x[1:4], a.x[0:8:1]  # what the wrong ones equal is known
    with raises(e.KindError, "dimension 0", hint="ints"):
        a.x[wrong]
    with raises(e.KindError, "dimension 1", hint="ints"):
        a.x[:, wrong]


def test_a_python_slice_takes_what_is_an_int(b: Builder, a: Args) -> None:
    assert a.x.at[np.int64(0) : np.int64(4)].shape == (4, 128)


def test_a_python_slice_has_steps(b: Builder, a: Args, raises: Raises) -> None:
    with raises(e.ShapeError, "dimension 0"):
        a.x[0:8:0]


@pytest.mark.parametrize("wrong", [(1.0, 2), (True, 2), (0, 2.0), (0, 2, 1.0), (0, None), ("a", 2)])
def test_a_slice_has_ints(b: Builder, a: Args, raises: Raises, wrong: Any) -> None:
    _ = a.x[Slice(1, 2)], a.x[Slice(0, 2)]
    with raises(e.KindError, "of a slice is", hint="ints"):
        Slice(*wrong)
    with raises(e.KindError, "of a slice is", hint="ints"):
        a.x[b.pallas.ds(*wrong)]


def test_a_slice_starts_at_an_integer_scalar(b: Builder, a: Args, raises: Raises) -> None:
    start = b.lift(1.0)
    with raises(e.KindError, "start", "f32", hint="integer scalars"):
        Slice(start, 2)
    with raises(e.KindError, "stride", "i32"):
        Slice(0, 2, a.i)  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [(100,), (9,), (0,), (-1,), (2, 0), (2, -1), (8, 2)])
def test_a_slice_with_a_run_time_start_fits_its_dimension(b: Builder, a: Args, raises: Raises, wrong: Any) -> None:
    with raises(e.ShapeError, "dimension 0 of size 8"):
        a.x[Slice(a.i, *wrong)]
    assert a.x.at[Slice(a.i, 8)].shape == (8, 128)


@pytest.mark.parametrize("shape", [(-8, -128), (-8, -1), (-1, -1), (0, -1)])
def test_a_reshaped_view_has_positive_sizes(a: Args, raises: Raises, shape: tuple[int, ...]) -> None:
    view = a.x.at[...]
    with raises(e.ShapeError, "reshape", hint="positive"):
        view.reshape(*shape)


def test_a_python_slice_has_static_bounds(b: Builder, a: Args, raises: Raises) -> None:
    with raises(e.KindError, hint="b.pallas.ds"):
        a.x[a.i : a.i + 4]


# ------------------------------------------------------------------------------------------------- enumerations


@pytest.mark.parametrize("predicate", ["lt", "olt", "", 7, None, ["eq"]])
def test_an_integer_predicate_is_one_of_ten(b: Builder, a: Args, raises: Raises, predicate: object) -> None:
    with raises(e.AttributeValueError, "arith.cmpi", hint="slt"):
        b.cmpi(predicate, b.lift(1), b.lift(2))  # type: ignore[arg-type]


def test_a_float_predicate_is_of_floats(b: Builder, a: Args, raises: Raises) -> None:
    with raises(e.AttributeValueError, "arith.cmpf", hint="olt"):
        b.cmpf("slt", b.lift(1.0), b.lift(2.0))  # type: ignore[arg-type]


def test_a_float_comparison_refuses_integers(b: Builder, a: Args, raises: Raises) -> None:
    with raises(e.DTypeError, "arith.cmpf", "i32"):
        b.cmpf("olt", b.lift(1), b.lift(2))


def test_an_unknown_kind_of_reduction_lists_the_known_ones(b: Builder, a: Args, raises: Raises) -> None:
    with raises(e.AttributeValueError, "vector.multi_reduction", hint="'maximumf'"):
        b.multi_reduction("max", a.x[...], b.zeros((8,), f32), [1])


def test_only_arg_kinds_find_an_index(b: Builder, a: Args, raises: Raises) -> None:
    with raises(e.AttributeValueError, "tpu.reduce_index", hint="arg_max"):
        b.reduce_index(a.x[...], "sum", 1)


def test_an_unknown_precision_lists_the_known_ones(b: Builder, a: Args, raises: Raises) -> None:
    x = b.zeros((8, 128), f32)
    with raises(e.AttributeValueError, "tpu.matmul", hint="'fp32'"):
        b.matmul(x, x, b.zeros((8, 8), f32), transpose_rhs=True, precision="highest")


def test_an_unknown_memory_space_lists_the_known_ones(b: Builder, a: Args, raises: Raises) -> None:
    with raises(e.MemorySpaceError, "memref.alloca", hint="'vmem'"):
        b.alloca((8, 128), f32, "sram")


# ------------------------------------------------------------------------------------------------- memory spaces


def test_vectors_are_not_loaded_from_any(b: Builder, a: Args, raises: Raises) -> None:
    with raises(e.MemorySpaceError, "vector.load", "any", hint="enqueue_dma"):
        b.vector_load(a.hbm)


def test_an_idiom_does_not_load_from_any_either(b: Builder, a: Args, raises: Raises) -> None:
    with raises(e.MemorySpaceError, "load", "any", hint="async_copy"):
        a.hbm[...]


def test_vectors_are_not_stored_to_smem(b: Builder, a: Args, raises: Raises) -> None:
    with raises(e.MemorySpaceError, "tpu.vector_store", "smem", hint="scalar_store"):
        b.vector_store(a.lens, b.zeros((4,), i32))


def test_smem_takes_single_scalars(b: Builder, a: Args, raises: Raises) -> None:
    with raises(e.ShapeError, "store", hint="index every dimension"):
        a.lens[...] = b.zeros((4,), i32)


def test_scalars_are_not_read_from_vmem(b: Builder, a: Args, raises: Raises) -> None:
    with raises(e.MemorySpaceError, "memref.load", "vmem", hint="vector_load"):
        b.scalar_load(a.x, [0, 0])


def test_a_scalar_is_not_stored_to_vmem(b: Builder, a: Args, raises: Raises) -> None:
    with raises(e.KindError, "store", "f32", hint="b.pallas.full"):
        b.pallas.store(a.x, b.lift(1.0))


def test_a_stored_scalar_has_the_refs_type(b: Builder, a: Args, raises: Raises) -> None:
    with raises(e.DTypeError, "memref.store", "f32"):
        b.scalar_store(a.lens, b.lift(1.0), [0])


def test_a_stored_vector_has_the_refs_type(b: Builder, a: Args, raises: Raises) -> None:
    with raises(e.DTypeError, "store", "i32", "f32"):
        a.x[...] = b.zeros((8, 128), i32)


def test_a_stored_vector_has_the_slices_shape(b: Builder, a: Args, raises: Raises) -> None:
    with raises(e.ShapeError, "store", "(4, 128)", hint="broadcast_to"):
        a.x[0:4] = a.x[...]


# ------------------------------------------------------------------------------------------------- DMAs and semaphores


def test_a_copy_keeps_the_shape(b: Builder, a: Args, raises: Raises) -> None:
    semaphore = b.sem_alloc("dma")
    with raises(e.ShapeError, "tpu.enqueue_dma", "memref<8x128xf32", "memref<2x8x128xf32", hint="b.pallas.at"):
        b.enqueue_dma(a.hbm, a.cube, semaphore)


def test_a_copy_keeps_the_type(b: Builder, a: Args, raises: Raises) -> None:
    semaphore = b.sem_alloc("dma")
    with raises(e.DTypeError, "tpu.enqueue_dma", "f32", "i32"):
        b.enqueue_dma(a.hbm, a.ints, semaphore)


def test_a_copy_counts_on_a_dma_semaphore(b: Builder, a: Args, raises: Raises) -> None:
    semaphore = b.sem_alloc("regular")
    with raises(e.DTypeError, "tpu.enqueue_dma", "!tpu.semaphore"):
        b.enqueue_dma(a.hbm, a.x, semaphore)


@pytest.mark.parametrize("op", ["sem_wait", "sem_signal"])
def test_a_semaphore_is_taken_out_of_its_array(b: Builder, a: Args, raises: Raises, op: str) -> None:
    with raises(e.KindError, f"tpu.{op}", "memref<2x!tpu.dma_semaphore", hint="sems.at[i]"):
        getattr(b, op)(a.sems, 1)


def test_only_semaphores_are_waited_for(b: Builder, a: Args, raises: Raises) -> None:
    with raises(e.KindError, "tpu.sem_wait", "memref<8x128xf32", hint="Sem"):
        b.sem_wait(a.x, 1)


def test_an_amount_is_an_i32(b: Builder, a: Args, raises: Raises) -> None:
    semaphore = b.sem_alloc()
    with raises(e.DTypeError, "tpu.sem_signal", "f32"):
        b.sem_signal(semaphore, b.lift(1.0))


def test_a_semaphores_kind_is_regular_or_dma(b: Builder, a: Args, raises: Raises) -> None:
    with raises(e.AttributeValueError, "tpu.sem_alloc", hint="'dma'"):
        b.sem_alloc("barrier")


# ------------------------------------------------------------------------------------------------- whose value it is


def test_a_value_of_another_builder_is_refused(b: Builder, a: Args, raises: Raises) -> None:
    foreign = declare(Builder("other"))
    with raises(e.ForeignValueError, "arith.addi", "i32", hint="values belong to the builder"):
        b.addi(a.i, foreign.i)


def test_an_operator_refuses_a_value_of_another_builder(b: Builder, a: Args, raises: Raises) -> None:
    foreign = declare(Builder("other"))
    with raises(e.ForeignValueError, "add"):
        a.i + foreign.i


def test_a_ref_of_another_builder_is_refused(b: Builder, a: Args, raises: Raises) -> None:
    foreign = declare(Builder("other"))
    with raises(e.ForeignValueError, "store"):
        b.pallas.store(foreign.x, a.x[...])


def test_a_value_of_a_closed_region_is_refused(b: Builder, a: Args, raises: Raises) -> None:
    with b.if_(a.i < 1):
        inner = b.lift(1)
    with raises(e.ClosedRegionError, "arith.addi", "i32", hint=".results"):
        b.addi(a.i, inner)


def test_a_value_of_a_finished_builder_is_refused(b: Builder, a: Args, raises: Raises) -> None:
    b.finish()
    with raises(e.BuilderStateError, "arith.addi", hint="new Builder"):
        b.addi(a.i, a.i)
