"""Whatever a method is given, it works or ends in one of our errors."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mosaic_tpu.builder import (
    Builder,
    DotDimensionNumbers,
    DType,
    Slice,
    Value,
    bf16,
    f8e4m3fn,
    f16,
    f32,
    f64,
    i1,
    i4,
    i8,
    i32,
    i64,
    index,
    registry,
    semaphore,
    u8,
    u32,
)
from mosaic_tpu.builder.errors import MosaicError, RegionOrderError, VerificationError

from .conftest import declare

DTYPES = (i1, i4, i8, i32, i64, u8, u32, f16, bf16, f32, f64, f8e4m3fn, index, semaphore)
PLAIN = (
    0, 1, 2, 7, -1, 300, 1 << 40, 1.0, 1.5, 1e39, -0.0, math.nan, math.inf, True, False, None, object(),
    "", "x", "add", "sum", "arg_max", "vmem", "smem", "eq", "oeq", "slt", "dma", "bf16", "nd,md->nm", ...,
    (), (8,), (8, 128), (1, 8, 128), (128, 8), (0,), (-1,), (1, 2), [0, 0], [1, 1], [4, 128], (1, 0), (0, 1),
    (1.5,), ("a",), (None, None), ((1,), (1,)), (((1,), (1,)), ((), ())), ((((1,), (0,))), (((0,), (0,)))), {},
    {"a": 1}, lambda: (), lambda *x: x,
    np.float16(1), np.int64(3), np.bool_(True), np.zeros((8, 128), np.float32), slice(None), slice(0, 4),
    slice(0.0, 4), slice(0, 8, 0), slice(True, 4), slice("a", None), (0, slice(None)), Slice(0, 4), Slice(0, 100),
    DotDimensionNumbers((1,), (1,), (0,), (0,), (0, 0, 1, 0)),
    lambda *x: x[1:], *DTYPES,
)  # fmt: skip


def _values(b: Builder) -> list[Any]:
    """Values of every kind; some must not be used."""
    a = declare(b)
    other = Builder("other")
    foreign = declare(other)
    with b.if_(b.lift_as(1, i1)):
        closed = b.lift(1)
    scalars = [b.lift_as(1, d) for d in DTYPES if d is not semaphore]
    shapes = ((8, 128), (128,), (1, 128), (8, 1), (1, 8, 128))
    vectors = [b.zeros(s, d) for d in (f32, i32, i1, bf16, i8, u32) for s in shapes]
    views = [a.x.at[0], a.x.at[0:4, :], a.half.at[...].bitcast(i32), a.sems.at[0], a.lens.at[0]]
    known = [*a, foreign.x, foreign.i, closed, *scalars, *vectors, *views, b.sem_alloc(), b.sem_alloc("dma")]
    lists = [
        [scalars[3], scalars[3]],
        [vectors[0], vectors[0]],
        [b.c_index(0)] * 2,
        (vectors[0],),
        [a.x, a.y],
        [1, vectors[0]],
    ]
    spans = [Slice(scalars[3], 2), Slice(scalars[3], 100), Slice(scalars[3], 0), Slice(scalars[3], 2, 0)]
    return [*known, *lists, *spans, b.scalar_ty(f32), b.vector_ty((8, 128), f32)]


def _methods(b: Builder) -> list[tuple[str, Callable[..., Any]]]:
    found = [
        (name, getattr(b.pallas, name.removeprefix("pallas.")) if spec.is_idiom else getattr(b, spec.function.__name__))
        for name, spec in registry().items()
    ]
    return [*found, *((f"Value.{n}", getattr(Value, n)) for n in VALUE_METHODS)]


VALUE_METHODS = tuple(
    name
    for name, member in vars(Value).items()
    if inspect.isfunction(member) and not (name.startswith("_") and not name.startswith("__")) and name != "__init__"
)
COUNT = len(registry()) + len(VALUE_METHODS)


def _bindable(method: Callable[..., Any], values: list[Any], picks: list[int]) -> tuple[list[Any], dict[str, Any]]:
    """Arguments that Python accepts: required ones, and some of the others."""
    pools = {
        "Value": values,
        "DType": DTYPES,
        "Sequence[int]": [p for p in PLAIN if isinstance(p, tuple | list)],
        "Sequence[Value]": [v for v in values if isinstance(v, tuple | list)],
        "int": (0, 1, 2, -1, 7),
        "kind": ("add", "mul", "maxsi", "minimumf", "sum", "arg_max", "arg_min", "maxf", "slt", "eq", "oeq", "dma"),
        "": [*values, *PLAIN],
    }
    positional: list[Any] = []
    named: dict[str, Any] = {}
    picked = iter(picks)
    for p in inspect.signature(method).parameters.values():
        pick = next(picked, 0)
        if p.default is not p.empty and pick % 3:
            continue
        fits = next(
            (k for k in pools if k and str(p.annotation).startswith(k)), "kind" if "Kind" in str(p.annotation) else ""
        )
        pool = pools[fits if pick % 8 else ""]
        chosen = pool[(pick // 24) % len(pool)]
        if p.kind is p.VAR_POSITIONAL or p.kind is p.VAR_KEYWORD:
            continue
        if p.kind is p.KEYWORD_ONLY or named or p.default is not p.empty:
            named[p.name] = chosen
        else:
            positional.append(chosen)
    return positional, named


def _use(result: Any) -> None:
    if isinstance(result, AbstractContextManager):
        with result:
            pass
    for name in ("start", "wait", "results"):
        member = getattr(result, name, None)
        if callable(member):
            member()


CALLS = st.lists(
    st.tuples(st.integers(0, COUNT - 1), st.lists(st.integers(0, 1 << 16), min_size=6, max_size=6)),
    min_size=1,
    max_size=8,
)


@given(calls=CALLS)
@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_wrong_arguments_end_in_our_errors(calls: list[tuple[int, list[int]]]) -> None:
    b = Builder("fuzz")
    values = _values(b)
    methods = _methods(b)
    for number, picks in calls:
        name, method = methods[number]
        positional, named = _bindable(method, values, picks)
        if name.startswith("Value.") and not isinstance(positional[0], Value):
            positional[0] = values[0]
        try:
            _use(method(*positional, **named))
        except MosaicError as error:
            assert error.summary and str(error)
    _finish(b)


#: What stands where an axis, a size, an element type, a flag or a number is wanted.
WRONG = (
    None, True, np.bool_(True), 1.0, 2.5, -0.0, math.nan, math.inf, 1 << 31, -(1 << 31) - 1, 1 << 64, -1, 0, 5, "x",
    "float(", "f4,i4", "(2,)f4", "i32,", "\0", (), (0, 1), (0, 0), (0, 9), [0], (1.0,), (None,), ("a",), ((0,), (1,)),
    [[1, 2], [3]], (1 << 64,), (True, 2), {}, {0}, range(2), iter((0, 1)), object(), int, f32, index, semaphore, ...,
    slice(0, 2), np.array(3), np.array(2.5), np.zeros((2, 2)), np.int8(1), np.float16(0.5), np.str_("x"),
    np.datetime64(1, "s"), 1j, b"i",
)  # fmt: skip
#: What stands where a function is wanted: too few or too many arguments, or a result of another form.
FUNCTIONS = (
    lambda: None, lambda: 1, lambda: (1,), lambda: (1, 2), lambda: "a", lambda x: x, lambda x: (x,), lambda x: None,
    lambda x, y: (y,), lambda x, y: y, lambda x, y, z: (x, y, z), lambda *x: x, lambda *, key: key, *WRONG,
)  # fmt: skip
IDIOMS = [name for name, spec in registry().items() if spec.is_idiom]


def _fitting(p: inspect.Parameter, values: dict[str, Any]) -> Any:
    """An argument of the right kind."""
    kind = str(p.annotation)
    if p.name in values:
        return values[p.name]
    for start, known in (
        ("Callable", lambda *x: x[1:]), ("Value | int", 2), ("int", 1), ("Value", values["x"]),
        ("Operand", values["x"]),
        ("DType", f32), ("Sequence[Value]", [values["x"]] * 2), ("Sequence[Operand]", (1,)), ("RefLike", values["ref"]),
        ("Sequence[Callable", [lambda: (), lambda: ()]), ("Sequence", (0, 1)), ("Dims", (((1,), (1,)), ((), ()))),
        ("str", "ij->ji"),
    ):  # fmt: skip
        if kind.startswith(start):
            return known
    return values["x"]


def _shelf(dtype: DType) -> tuple[Builder, dict[str, Any]]:
    """A builder, and arguments by their names."""
    b = Builder("fuzz")
    a = declare(b)
    return b, {"x": b.zeros((8, 128), dtype), "ref": a.x, "shape": (8, 128), "condition": b.lift(1) < 2}


@pytest.mark.parametrize("dtype", [f32, i32], ids=str)
@pytest.mark.parametrize("name", IDIOMS)
def test_a_wrong_argument_ends_in_our_errors(name: str, dtype: DType) -> None:
    parameters = [
        p
        for p in inspect.signature(registry()[name].function).parameters.values()
        if p.name != "self" and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
    ]
    again = "region" in registry()[name].traits  # what is left open stays open
    b, values = _shelf(dtype)
    for wrong in parameters:
        for bad in FUNCTIONS if str(wrong.annotation).startswith("Callable") else WRONG:
            if again:
                b, values = _shelf(dtype)
            positional: list[Any] = []
            named: dict[str, Any] = {}
            for p in parameters:
                if p is not wrong and p.default is not p.empty:
                    continue
                value = bad if p is wrong else _fitting(p, values)
                if p.kind is p.KEYWORD_ONLY or named or p.default is not p.empty:
                    named[p.name] = value
                else:
                    positional.append(value)
            try:
                found = getattr(b.pallas, name.removeprefix("pallas."))(*positional, **named)
                if callable(found) and not isinstance(found, Value | AbstractContextManager):
                    found(lambda: 1)
                _use(found)
            except MosaicError as error:
                assert error.summary and str(error)
            except Exception as error:
                raise AssertionError(f"{name}({wrong.name}={bad!r})") from error


def _finish(b: Builder) -> None:
    try:
        b.finish().serialize()
    except (VerificationError, RegionOrderError) as error:
        assert error.summary
