"""What is written for an array of JAX or NumPy, and is none here: each error says what a kernel writes instead."""

from __future__ import annotations

import copy
import inspect
from typing import Any

import numpy as np
import pytest

from mosaic_tpu.builder import Args, Builder, registry
from mosaic_tpu.builder import errors as e
from mosaic_tpu.builder._spelling import hint_for

from .conftest import Raises

#: What an array of JAX has, what NumPy has, and what stands in a kernel.
METHODS = {
    "astype": "b.pallas.astype(x, dtype)",
    "T": "b.pallas.transpose(x)",
    "sum": "b.pallas.sum(x, …)",
    "max": "b.pallas.max(x, …)",
    "mean": "b.pallas.mean(x, …)",
    "argmax": "b.pallas.argmax(x, …)",
    "reshape": "b.pallas.reshape(x, shape)",
    "swapaxes": "b.pallas.swapaxes(x, ",
    "ravel": "b.pallas.reshape(x, (-1,))",
    "clip": "b.pallas.clip(x, ",
    "dot": "b.pallas.dot(lhs, rhs",
    "ndim": "x.rank",
    "size": "math.prod(x.shape)",
}


@pytest.mark.parametrize("name", METHODS)
def test_what_an_array_has_is_said_as_a_kernel_has_it(name: str, a: Args, raises: Raises) -> None:
    x: Any = a.x[...]
    with raises(e.UnknownNameError, name, "vector<8x128xf32>", hint=METHODS[name]):
        getattr(x, name)


@pytest.mark.parametrize("name", ["get", "set"])
def test_what_a_ref_of_jax_has(name: str, a: Args, raises: Raises) -> None:
    x: Any = a.x
    with raises(e.UnknownNameError, name, "memref<8x128xf32", hint="ref[...]"):
        getattr(x, name)


@pytest.mark.parametrize(
    ("of", "name", "hint"),
    [
        ("b", "sum", "b.pallas.sum(x, …)"),
        ("b", "astype", "b.pallas.astype(x, dtype)"),
        ("b", "broadcasted_iota", "b.pallas.broadcasted_iota("),
        ("b", "mulff", "did you mean mulf?"),
        ("b.pallas", "reduce_sum", "b.pallas.sum(x, …)"),
        ("b.pallas", "make_async_copy", "b.pallas.async_copy("),
        ("b.pallas", "sigmod", "did you mean sigmoid?"),
        ("b.pallas", "nothing_like_it", "docs/cheat-sheet.md"),
    ],
)
def test_what_a_builder_does_not_have(of: str, name: str, hint: str, b: Builder, raises: Raises) -> None:
    owner: Any = b if of == "b" else b.pallas
    with raises(e.UnknownNameError, name, hint=hint):
        getattr(owner, name)


@pytest.mark.parametrize("name", [n for n, s in registry().items() if s.is_idiom])
def test_every_hint_names_what_there_is(name: str, b: Builder) -> None:
    """Of each name in a Pallas expression; what is written can be called with as many arguments."""
    function = name.removeprefix("pallas.")
    hint = hint_for(function)
    assert hint.startswith(f"write b.{name}("), hint
    given = hint.rpartition("(")[2].removesuffix(")").replace(", …", "").replace("…", "")
    arguments = [g for g in given.split(", ") if g and not g.endswith("=")]
    named = {g.removesuffix("="): 0 for g in given.split(", ") if g.endswith("=")}
    inspect.signature(getattr(b.pallas, function)).bind(*arguments, **named)


def test_python_asks_a_value_for_what_it_can_do(a: Args) -> None:
    x: Any = a.x[...]
    assert not hasattr(x, "astype") and not hasattr(x, "_repr_html_") and not hasattr(x, "__jax_array__")
    assert hasattr(x, "dtype") and getattr(x, "sum", None) is None
    assert copy.copy(x).shape == x.shape
    with pytest.raises(AttributeError) as caught:
        x._nothing  # noqa: B018 - that it is asked for is the test
    assert not isinstance(caught.value, e.MosaicError)


# --- NumPy ----------------------------------------------------------------------------------------------------------

FUNCTIONS = {
    "np.exp(x)": "b.pallas.exp(x)",
    "np.sum(x)": "b.pallas.sum(x, …)",
    "np.where(x > 0, x, x)": "b.pallas.where(",
    "np.concatenate([x, x])": "b.pallas.concatenate(",
    "np.maximum(x, x)": "b.pallas.maximum(x, y)",
    "np.add.reduce(x)": "b.pallas.add(x, y)",
    "np.add(1.0, x, out=np.zeros(3))": "b.pallas.add(x, y)",
}


@pytest.mark.parametrize("call", FUNCTIONS)
def test_a_function_of_numpy_sees_no_value(call: str, a: Args) -> None:
    with pytest.raises(e.ForeignCallError) as caught:
        eval(call, {"np": np, "x": a.x[...]})
    assert caught.value.hint.startswith(f"write {FUNCTIONS[call]}")
    assert caught.value.op is not None and call.startswith(caught.value.op.removesuffix(".reduce"))


OPERATORS = ["+", "-", "*", "/", "//", "%", "**", "<", "<=", ">", ">="]


@pytest.mark.parametrize("sign", OPERATORS)
@pytest.mark.parametrize("number", [np.float32(2.0), np.int32(2)])
def test_a_scalar_of_numpy_is_an_operand(sign: str, number: Any) -> None:
    """On the left as on the right: as ``np.float32(2) * x`` is the mirror of ``x * np.float32(2)``."""
    builders = Builder("left"), Builder("right")
    texts: list[str] = []
    mirrored = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
    from mosaic_tpu.builder import Ref, f32, i32

    for b, flipped in zip(builders, (False, True), strict=True):
        a = b.declare_args({"x": Ref((8, 128), f32 if isinstance(number, np.floating) else i32)})
        x: Any = a.x[...]
        if sign in mirrored:
            found = eval(f"x {mirrored[sign]} n" if flipped else f"n {sign} x", {"n": number, "x": x})
        elif sign in ("+", "*"):
            found = eval(f"n {sign} x", {"n": number, "x": x})
        else:
            found = getattr(x, _REFLECTED[sign])(number) if flipped else eval(f"n {sign} x", {"n": number, "x": x})
        texts.append(f"{found!r} {[o.operation.name for o in b.current_block.operations]}")
    assert texts[0] == texts[1]


_REFLECTED = {"-": "__rsub__", "/": "__rtruediv__", "//": "__rfloordiv__", "%": "__rmod__", "**": "__rpow__"}


@pytest.mark.parametrize("sign", ["==", "!="])
@pytest.mark.parametrize("call", ["np.float32(1) {} x", "x {} np.float32(1)", "1.0 {} x"])
def test_equality_with_a_scalar_of_numpy_is_refused(sign: str, call: str, a: Args) -> None:
    """Or it would be false, without a word."""
    with pytest.raises(e.ConcreteValueError, match=r"x\.(eq|ne)"):
        eval(call.format(sign), {"np": np, "x": a.x[...]})


@pytest.mark.parametrize("array", [np.zeros((8, 128), np.float32), np.zeros(3)])
def test_an_array_of_numpy_is_no_operand(array: Any, a: Args, raises: Raises) -> None:
    x = a.x[...]
    with raises(e.KindError, "is a ndarray", hint="arrays enter a kernel as refs"):
        array + x
    with raises(e.KindError, "is a ndarray", hint="arrays enter a kernel as refs"):
        x + array


@pytest.mark.parametrize("other", [2, 2.0, np.float32(2), np.zeros((8, 8), np.float32)])
def test_a_product_of_matrices_has_two(other: Any, a: Args, raises: Raises) -> None:
    x = a.x[...]
    with raises(e.KindError, "dot", type(other).__name__, hint="x * 2.0 scales"):
        other @ x
    with raises(e.KindError, "dot", type(other).__name__, hint="x * 2.0 scales"):
        x @ other
