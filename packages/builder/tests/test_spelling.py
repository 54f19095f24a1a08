"""What is written for an array of JAX or NumPy, and is none here: each error says what a kernel writes instead."""

from __future__ import annotations

import copy
import inspect
import math
import traceback
from typing import Any

import numpy as np
import pytest

from mosaic_tpu.builder import Args, Builder, f32, i32, registry
from mosaic_tpu.builder import errors as e
from mosaic_tpu.builder._spelling import ALIASES, NOWHERE, hint_for

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


# --- other names ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ALIASES)
def test_another_name_is_told_as_what_there_is(name: str, b: Builder, a: Args) -> None:
    """Each is no idiom, and what its hint writes runs, but for names of the kernel's own."""
    assert f"pallas.{name}" not in registry()
    with pytest.raises(e.UnknownNameError) as caught:
        getattr(b.pallas, name)
    assert caught.value.hint == f"write {ALIASES[name]}"
    if ALIASES[name].startswith("a number"):
        return
    x = a.x[...]
    ints = a.ints[...]
    known: dict[str, Any] = dict(b=b, x=ints if "~" in ALIASES[name] or "<<" in ALIASES[name] else x, y=x, ref=a.x)
    known |= dict(dtype=i32, axes=(1, 0), xs=[x, x], n=8, i=0, init=(0,), start=a.i, size=8, math=math)
    known["y"] = known["x"]
    known["body"] = lambda i, c: (c + i,)
    if ">>" in ALIASES[name]:
        known["x"] = known["y"] = ints
    if ALIASES[name].endswith(" = x"):
        known["x"] = a.x[b.pallas.ds(a.i, 8)]
    if ALIASES[name].startswith("x[8"):
        known["x"] = b.pallas.zeros((16, 128), f32)
    exec(ALIASES[name], known)


@pytest.mark.parametrize("name", sorted(NOWHERE))
def test_what_pallas_has_not_is_no_misspelling(name: str, b: Builder) -> None:
    with pytest.raises(e.UnknownNameError) as caught:
        getattr(b.pallas, name)
    assert caught.value.hint == f"Pallas has no {name} on a TPU either: write it with others"


@pytest.mark.parametrize(
    ("written", "hint"),
    [
        ("jnp.roll", "b.pallas.jnp_roll(x, shift, …)"),
        ("np.roll", "b.pallas.jnp_roll(x, shift, …)"),
        ("pltpu.roll", "b.pallas.roll(x, shift, axis, …)"),
        ("roll", "b.pallas.roll(x, shift, axis, …)"),
        ("jnp.reciprocal", "b.pallas.jnp_reciprocal(x)"),
        ("lax.reciprocal", "b.pallas.jnp_reciprocal(x)"),
        ("pl.reciprocal", "b.pallas.reciprocal(x, …)"),
        ("lax.scan", "b.pallas.fori_loop("),
        ("jnp.mod", "x % y"),
    ],
)
def test_a_name_with_its_module_may_be_another_function(written: str, hint: str) -> None:
    assert hint_for(written).startswith(f"write {hint}")


def test_python_suggests_nothing_beside_the_hint(b: Builder, a: Args) -> None:
    for ask in (lambda: b.pallas.sigmod, lambda: b.mulff, lambda: a.xx):  # pyright: ignore[reportAttributeAccessIssue]
        with pytest.raises(AttributeError) as caught:
            ask()
        assert "Did you mean" not in "".join(traceback.format_exception(caught.value))


# --- calls that Python refuses --------------------------------------------------------------------------------------


def _explained(call: Any, *given: Any) -> e.MosaicError | None:
    try:
        call(*given)
    except Exception as error:
        try:
            e.explain_foreign(error)
        except e.MosaicError as found:
            return found
    return None


def _line_of(call: Any) -> str:
    return f"{__file__}:{call.__code__.co_firstlineno}"


@pytest.mark.parametrize(
    ("call", "said", "form"),
    [
        (lambda b, x: b.pallas.sum(x, 0, True), "takes 2 arguments by position, not 3", "b.pallas.sum(x, axis=None, "),
        (lambda b, x: b.pallas.sum(x, keepdim=True), "unexpected keyword argument 'keepdim'", "b.pallas.sum(x, "),
        (lambda b, x: b.pallas.exp(), "missing 1 required positional argument: 'x'", "b.pallas.exp(x)"),
        (lambda b, x: b.pallas.exp(x, x, x), "takes 1 arguments by position, not 3", "b.pallas.exp(x)"),
        (lambda b, x: b.pallas.fori_loop(0, 3), "missing 1 required", "b.pallas.fori_loop(lower, upper, body, init=()"),
        (lambda b, x: b.addf(x), "missing 1 required positional argument: 'rhs'", "b.addf(lhs, rhs)"),
    ],
)
def test_a_call_with_other_arguments_is_told_its_form(call: Any, said: str, form: str, b: Builder, a: Args) -> None:
    found = _explained(call, b, a.x[...])
    assert type(found) is e.ArityError
    assert said in found.summary and found.location == _line_of(call)
    assert found.hint.startswith(f"the form is {form}")


def test_arithmetic_with_a_view_is_told_to_load(a: Args) -> None:
    found = _explained(lambda view: view + 1, a.x.at[0:8])
    assert type(found) is e.KindError and "load it first" in found.hint


@pytest.mark.parametrize("call", [lambda b: len(3), lambda b: _line_of(), lambda b: 1 + "x", lambda b: int("x")])
def test_what_python_refuses_otherwise_stays(call: Any, b: Builder) -> None:
    assert _explained(call, b) is None


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
