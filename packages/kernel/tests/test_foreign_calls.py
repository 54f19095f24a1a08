"""A function of JAX in a kernel's function: the error says what to write, and those of others stay as they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import lax
from jax.experimental import pallas as pl

from mosaic_tpu.builder import Builder, Ref, Role, Scalar, f32, i32
from mosaic_tpu.builder.errors import ArityError, ForeignCallError, KindError
from mosaic_tpu.kernel import Kernel


def built(body: Callable[[Builder, Any], object]) -> str:
    def run(b: Builder, cfg: int) -> None:
        y = Ref((8, 128), f32, role=Role.OUTPUT)
        body(b, b.declare_args(dict(i=Scalar(i32), x=Ref((8, 128), f32), y=y), grid=(cfg,)))

    return Kernel("calls", int, inputs=("x",), outputs=("y",), run=run).emit(2)


CALLS: dict[str, tuple[Callable[[Builder, Any], object], str]] = {
    "jnp.exp": (lambda b, a: jnp.exp(a.x[...]), "b.pallas.exp(x)"),
    "jnp.sum": (lambda b, a: a.x[...] + jnp.sum(a.x[...]), "b.pallas.sum(x, …)"),
    "jnp.where": (lambda b, a: jnp.where(a.x[...] > 0, a.x[...], 0.0), "b.pallas.where("),
    "jnp.zeros_like": (lambda b, a: jnp.zeros_like(a.x[...]), "b.pallas.zeros_like(x"),
    "lax.rsqrt": (lambda b, a: lax.rsqrt(a.x[...]), "b.pallas.rsqrt(x)"),
    "lax.fori_loop": (lambda b, a: lax.fori_loop(0, 3, lambda i, c: c, a.x[...]), "b.pallas.fori_loop("),
    "jax.nn.silu": (lambda b, a: jax.nn.silu(a.x[...]), "b.pallas.silu(x)"),
    "pl.program_id": (lambda b, a: pl.program_id(0), "b.pallas.program_id(axis)"),
    "pl.num_programs": (lambda b, a: pl.num_programs(0), "b.pallas.num_programs(axis)"),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_call_of_jax_says_what_to_write(name: str) -> None:
    body, instead = CALLS[name]
    with pytest.raises(ForeignCallError) as caught:
        built(body)
    error = caught.value
    assert error.op == name and error.hint.startswith(f"write {instead}")
    assert error.location == f"{body.__code__.co_filename}:{body.__code__.co_firstlineno}"


def test_a_call_over_several_lines_is_found() -> None:
    def body(b: Builder, a: Any) -> None:
        a.y[...] = jnp.maximum(
            a.x[...],
            0.0,
        )

    with pytest.raises(ForeignCallError, match=r"jnp\.maximum") as caught:
        built(body)
    assert caught.value.__cause__ is not None


def _helper(x: Any) -> Any:
    return x.shape[9]


OTHERS: dict[str, tuple[Callable[[Builder, Any], object], type[Exception]]] = {
    "of the kernel": (lambda b, a: _helper(a.x), IndexError),
    "in an argument of a call": (lambda b, a: jnp.exp([][0]), IndexError),
    "beside a call": (lambda b, a: jnp.float32(2.0).item() + "text", TypeError),  # pyright: ignore[reportOperatorIssue]
    "raised": (lambda b, a: (_ for _ in ()).throw(KeyError("x")), KeyError),
}


@pytest.mark.parametrize("which", OTHERS)
def test_errors_of_others_stay_as_they_are(which: str) -> None:
    body, kind = OTHERS[which]
    with pytest.raises(kind) as caught:
        built(body)
    assert caught.type is kind


def test_jax_may_compute_what_a_kernel_is_built_with() -> None:
    def body(b: Builder, a: Any) -> None:
        a.y[...] = a.x[...] * float(jnp.exp(1.0)) + float(jnp.finfo(jnp.float32).max)

    assert "arith.mulf" in built(body)


def test_what_jax_says_is_told_in_whole_words() -> None:
    with pytest.raises(ForeignCallError) as caught:
        built(lambda b, a: jnp.exp(a.x[...]))
    said = caught.value.summary
    assert "argument to exp as an abstract array" in said and "0x" not in said
    assert said.endswith(" …")


def test_a_scalar_of_jax_is_told_to_be_one_of_numpy() -> None:
    with pytest.raises(KindError) as caught:
        built(lambda b, a: a.x[...] * jnp.float32(2))
    assert "a Python number" in caught.value.hint and "np.float32(…)" in caught.value.hint


def test_a_call_with_other_arguments_is_told_its_form() -> None:
    def body(b: Builder, a: Any) -> None:
        b.pallas.sum(a.x[...], 0, True)  # pyright: ignore[reportCallIssue]

    with pytest.raises(ArityError) as caught:
        built(body)
    assert caught.value.location == f"{__file__}:{body.__code__.co_firstlineno + 1}"
    assert caught.value.hint.startswith("the form is b.pallas.sum(x, axis=None")
