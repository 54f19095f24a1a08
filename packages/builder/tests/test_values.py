"""What a value tells of itself, how it is cast, and what its operators emit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mosaic_tpu.builder import (
    Args,
    Builder,
    DType,
    MemorySpace,
    Value,
    bf16,
    f8e4m3fn,
    f16,
    f32,
    f64,
    i1,
    i4,
    i8,
    i16,
    i32,
    i64,
    u8,
    u16,
    u32,
)
from mosaic_tpu.builder import errors as e

from .conftest import Raises


def _emitted(b: Builder, emit: Callable[[], Any]) -> list[str]:
    before = len(b.current_block.operations)
    emit()
    return [op.operation.name for op in list(b.current_block.operations)[before:]]


# ------------------------------------------------------------------------------------------------- introspection


def test_a_scalar_tells_what_it_is(b: Builder, a: Args) -> None:
    v = a.i
    assert (v.dtype, v.shape, v.rank, v.memory_space) == (i32, (), 0, None)
    assert not v.is_vector and not v.is_ref and not v.is_memref and not v.is_shaped
    assert v.is_int_elem and not v.is_float_elem
    assert v.type == v.elem_type and str(v.type) == "i32" and v.ir.type == v.type and v.builder is b


def test_a_vector_tells_what_it_is(b: Builder, a: Args) -> None:
    v = b.zeros((8, 128), bf16)
    assert (v.dtype, v.shape, v.rank, v.memory_space) == (bf16, (8, 128), 2, None)
    assert v.is_vector and v.is_shaped and not v.is_ref
    assert v.is_float_elem and not v.is_int_elem
    assert (str(v.type), str(v.elem_type)) == ("vector<8x128xbf16>", "bf16")
    assert (v.dim(0), v.dim(-1)) == (8, 128)


def test_a_ref_tells_where_it_is(a: Args) -> None:
    assert (a.lens.memory_space, a.x.memory_space) == (MemorySpace.SMEM, MemorySpace.VMEM)
    assert a.x.is_ref and a.x.is_memref and a.x.is_shaped and not a.x.is_vector
    assert repr(a.x) == "Value(memref<8x128xf32, #tpu.memory_space<vmem>>)"


@pytest.mark.parametrize("axis", [2, -3, "0", None])
def test_a_dimension_that_is_not_there_is_refused(b: Builder, a: Args, axis: Any) -> None:
    with pytest.raises(e.KindError, match="rank 2"):
        a.x.dim(axis)


def test_an_unsigned_value_has_the_signless_type(b: Builder, a: Args) -> None:
    assert str(b.lift_as(1, u32).type) == "i32" and b.lift_as(1, u32).dtype is u32


# ------------------------------------------------------------------------------------------------- casts

NUMERIC = (i1, i4, i8, i16, i32, i64, u8, u16, u32, f8e4m3fn, f16, bf16, f32, f64)


def _expected_cast(source: DType, target: DType) -> list[str] | None:
    """The guide's table; zero extension for i1 and unsigned types; ``None`` where there is no cast."""
    zero_extends = source in (i1, u8, u16, u32)
    if source is target:
        return []
    if source.is_int and target.is_int:
        if source.bits == target.bits:
            return []
        if source.bits > target.bits:
            return ["arith.trunci"]
        return ["arith.extui" if zero_extends else "arith.extsi"]
    if source.is_int:
        return ["arith.uitofp" if zero_extends else "arith.sitofp"]
    if target.is_int:
        return ["arith.fptoui" if target.is_unsigned else "arith.fptosi"]
    if source.bits == target.bits:
        return None
    return ["arith.extf" if source.bits < target.bits else "arith.truncf"]


@pytest.mark.parametrize("shape", [(), (8, 128)], ids=["scalar", "vector"])
@pytest.mark.parametrize("target", NUMERIC, ids=str)
@pytest.mark.parametrize("source", NUMERIC, ids=str)
def test_a_cast_is_the_guides(b: Builder, a: Args, source: DType, target: DType, shape: tuple[int, ...]) -> None:
    value = b.full(shape, 1, source) if shape else b.lift_as(1, source)
    expected = _expected_cast(source, target)
    if expected is None:
        with pytest.raises(e.DTypeError):
            value.to(target)
        return
    result: list[Value] = []
    assert _emitted(b, lambda: result.append(value.to(target))) == expected
    assert result[0].dtype is target and result[0].shape == shape
    b.finish()


@pytest.mark.parametrize(
    ("source", "target", "shape"),
    [(f32, i32, (8, 128)), (bf16, i16, (8, 128)), (bf16, i32, (4, 128)), (i8, i32, (2, 128)), (i32, i8, (32, 128))],
)
def test_a_bitcast_keeps_the_bits(b: Builder, a: Args, source: DType, target: DType, shape: tuple[int, ...]) -> None:
    value = b.zeros((8, 128), source)
    result: list[Value] = []
    assert _emitted(b, lambda: result.append(value.bitcast(target))) == ["tpu.bitcast"]
    assert (result[0].dtype, result[0].shape) == (target, shape)
    b.finish()


def test_an_index_comes_from_an_integer(b: Builder, a: Args) -> None:
    assert _emitted(b, lambda: b.to_index(a.i)) == ["arith.index_cast"]
    index = b.c_index(3)
    assert _emitted(b, lambda: b.to_index(index)) == []
    assert _emitted(b, lambda: b.index_cast(index, i32)) == ["arith.index_cast"]


# ------------------------------------------------------------------------------------------------- operators

#: Operator or method, and the op for signed, unsigned and float elements; ``None`` where it is refused.
OPERATORS: dict[str, tuple[Callable[[Any, Any], Any], str | None, str | None, str | None]] = {
    "+": (lambda x, y: x + y, "addi", "addi", "addf"),
    "-": (lambda x, y: x - y, "subi", "subi", "subf"),
    "*": (lambda x, y: x * y, "muli", "muli", "mulf"),
    "/": (lambda x, y: x / y, None, None, "divf"),
    "&": (lambda x, y: x & y, "andi", "andi", None),
    "|": (lambda x, y: x | y, "ori", "ori", None),
    "^": (lambda x, y: x ^ y, "xori", "xori", None),
    "<<": (lambda x, y: x << y, "shli", "shli", None),
    ">>": (lambda x, y: x >> y, "shrsi", "shrui", None),
    "<": (lambda x, y: x < y, "cmpi slt", "cmpi ult", "cmpf olt"),
    "<=": (lambda x, y: x <= y, "cmpi sle", "cmpi ule", "cmpf ole"),
    ">": (lambda x, y: x > y, "cmpi sgt", "cmpi ugt", "cmpf ogt"),
    ">=": (lambda x, y: x >= y, "cmpi sge", "cmpi uge", "cmpf oge"),
    "eq": (Value.eq, "cmpi eq", "cmpi eq", "cmpf oeq"),
    "ne": (Value.ne, "cmpi ne", "cmpi ne", "cmpf one"),
    "lt": (Value.lt, "cmpi slt", "cmpi ult", "cmpf olt"),
    "le": (Value.le, "cmpi sle", "cmpi ule", "cmpf ole"),
    "gt": (Value.gt, "cmpi sgt", "cmpi ugt", "cmpf ogt"),
    "ge": (Value.ge, "cmpi sge", "cmpi uge", "cmpf oge"),
    "add": (Value.add, "addi", "addi", "addf"),
    "sub": (Value.sub, "subi", "subi", "subf"),
    "mul": (Value.mul, "muli", "muli", "mulf"),
    "div": (Value.div, "divsi", "divui", "divf"),
    "rem": (Value.rem, "remsi", "remui", "remf"),
    "bit_and": (Value.bit_and, "andi", "andi", None),
    "bit_or": (Value.bit_or, "ori", "ori", None),
    "minimum": (Value.minimum, "minsi", "minui", "minimumf"),
    "maximum": (Value.maximum, "maxsi", "maxui", "maximumf"),
}


@pytest.mark.parametrize("dtype", [i8, i16, i32, u8, u16, u32, bf16, f32], ids=str)
@pytest.mark.parametrize("operator", OPERATORS)
def test_an_operator_emits_one_op(b: Builder, a: Args, operator: str, dtype: DType) -> None:
    apply, signed, unsigned, floating = OPERATORS[operator]
    x, y = b.full((8, 128), 1, dtype), b.full((8, 128), 2, dtype)
    expected = floating if dtype.is_float else unsigned if dtype.is_unsigned else signed
    if operator == "/" and not dtype.is_float:
        assert _emitted(b, lambda: apply(x, y))[-1] == "arith.divf"
        return
    if expected is None:
        with pytest.raises(e.DTypeError):
            apply(x, y)
        return
    name, _, predicate = expected.partition(" ")
    assert _emitted(b, lambda: apply(x, y)) == [f"arith.{name}"]
    text = b.finish().text(canonical=False)
    assert not predicate or f"arith.{name} {predicate}, " in text


@pytest.mark.parametrize("operator", ["+", "-", "*", "/", "<", "&"])
def test_a_number_beside_a_vector_is_a_constant_and_a_broadcast(b: Builder, a: Args, operator: str) -> None:
    apply, signed, _, floating = OPERATORS[operator]
    x, number = (b.zeros((8, 128), f32), 2.0) if floating else (b.zeros((8, 128), i32), 2)
    op = f"arith.{(floating or signed or '').split()[0]}"
    assert _emitted(b, lambda: apply(x, number)) == ["arith.constant", "vector.broadcast", op]
    b.finish()


@pytest.mark.parametrize(
    "apply", [lambda x: 2 + x, lambda x: 2 - x, lambda x: 2 * x, lambda x: 2 & x, lambda x: 2 | x, lambda x: 2 ^ x]
)
def test_a_number_may_stand_on_the_left(b: Builder, a: Args, apply: Callable[[Value], Value]) -> None:
    assert _emitted(b, lambda: apply(a.i))[0] == "arith.constant"
    b.finish()


@pytest.mark.parametrize("apply", [lambda x: 7 // x, lambda x: x // 7, lambda x: 7 % x, lambda x: x % 7])
def test_floor_division_corrects_the_sign(b: Builder, a: Args, apply: Callable[[Value], Value]) -> None:
    emitted = _emitted(b, lambda: apply(a.i))
    assert emitted[-1] == "arith.select" and "arith.remsi" in emitted
    b.finish()


def test_unsigned_division_needs_no_correction(b: Builder, a: Args) -> None:
    x = b.lift_as(8, u32)
    assert _emitted(b, lambda: x // x) == ["arith.divui"]


def test_unary_operators(b: Builder, a: Args) -> None:
    x, n, p = b.zeros((8, 128), f32), b.lift(3), b.lift(True)
    assert _emitted(b, lambda: -n) == ["arith.constant", "arith.subi"]
    assert _emitted(b, lambda: ~n) == ["arith.constant", "arith.xori"]
    assert _emitted(b, lambda: ~p) == ["arith.constant", "arith.xori"]
    assert _emitted(b, lambda: abs(x)) == ["math.absf"]
    assert _emitted(b, lambda: n.abs()) == ["math.absi"]
    b.finish()


def test_a_ref_is_read_and_written_by_index(b: Builder, a: Args) -> None:
    loaded: list[Value] = []
    assert _emitted(b, lambda: loaded.append(a.x[0]))[-2:] == ["vector.load", "vector.shape_cast"]
    assert loaded[0].shape == (128,)
    assert _emitted(b, lambda: a.lens[1])[-1] == "memref.load"
    assert _emitted(b, lambda: a.x.__setitem__(0, loaded[0]))[-1] == "tpu.vector_store"
    assert _emitted(b, lambda: a.x.at[0].at[...]) == []
    b.finish()


# ------------------------------------------------------------------------------------------------- dtypes


def test_a_dtype_is_found_by_name_and_by_numpys(b: Builder) -> None:
    import ml_dtypes
    import numpy as np

    from mosaic_tpu.builder import as_dtype

    assert (
        as_dtype("bf16")
        is as_dtype("bfloat16")
        is as_dtype(ml_dtypes.bfloat16)
        is as_dtype(np.dtype("bfloat16"))
        is bf16
    )
    assert as_dtype(np.float32) is as_dtype(f32) is f32
    for nothing in ("float31", None, 3, object, np.zeros(3), complex):
        with pytest.raises(e.DTypeError, match="not an element type"):
            as_dtype(nothing)


def test_a_dtype_survives_pickling() -> None:
    import copy
    import pickle

    assert pickle.loads(pickle.dumps(bf16)) is copy.deepcopy(bf16) is bf16


# ------------------------------------------------------------------------ what Python has a word or a sign for


def test_round_gives_an_int_or_so_many_decimals(b: Builder, a: Args, raises: Raises) -> None:
    x = a.x[...]
    assert (round(x).dtype, round(x, 0).dtype, round(x, 2).dtype) == (i32, f32, f32)
    assert round(b.lift(3)).dtype is round(b.lift_as(3, i8)).dtype is i32
    assert round(b.lift_as(3, i8), 0).dtype is i8
    with raises(e.DTypeError, "round", "JAX rounds no bool"):
        round(x > 0)
    with raises(e.AttributeValueError, "round", "2.5", hint="an int"):
        round(x, 2.5)  # type: ignore[call-overload]
    with raises(e.KindError, "round", "a ref is not a value"):
        round(a.x)


def test_divmod_is_the_quotient_and_the_rest(b: Builder, a: Args, raises: Raises) -> None:
    x, n = a.x[...], b.lift(7)
    for found, dtype in ((divmod(x, x), f32), (divmod(n, 2), i32), (divmod(2, n), i32), (divmod(n, 2.5), f32)):
        assert [v.dtype for v in found] == [dtype, dtype]
    quotient, rest = divmod(np.float32(7), x)
    assert quotient.shape == rest.shape == (8, 128)
    with raises(e.DTypeError, "divmod", "does not take i1"):
        divmod(x > 0, x > 0)
    with raises(e.KindError, "divmod", "'7' is a str"):
        divmod(n, "7")  # type: ignore[operator]
    with raises(e.ShapeError, "divmod", "do not broadcast"):
        divmod(x, b.zeros((3, 128), f32))


def test_a_plus_in_front_is_nothing(b: Builder, a: Args, raises: Raises) -> None:
    x = a.x[...]
    assert +x is x
    with raises(e.KindError, "positive", "a ref is not a value"):
        (+a.x)[0]


def test_abs_is_what_it_is_in_jax(b: Builder, a: Args) -> None:
    count, x = b.lift_as(3, u32), a.x[...]
    assert abs(count) is count and abs(x) is not x
