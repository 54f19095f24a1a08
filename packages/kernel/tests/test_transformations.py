"""What a custom call cannot follow is refused, with what to do instead."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from conformance.harness import pallas
from mosaic_tpu.kernel import TransformationError


def test_vmap(scale: Any, cfg: Any, x: Any, raises: Any) -> None:
    with raises(TransformationError, "scale_kernel", "vmap", hint="grid dimension"):
        jax.vmap(lambda x: scale(x=x, cfg=cfg))(jnp.stack([x, x]))
    with raises(TransformationError, "scale_kernel", "vmap"):
        jax.jit(jax.vmap(lambda x: scale(x=x, cfg=cfg))).trace(jnp.stack([x]))


def test_grad(scale: Any, cfg: Any, x: Any, raises: Any) -> None:
    with raises(TransformationError, "scale_kernel", "derivative", hint="custom_vjp"):
        jax.grad(lambda x: scale(x=x, cfg=cfg).sum())(x)


def test_jvp(scale: Any, cfg: Any, x: Any, raises: Any) -> None:
    with raises(TransformationError, "scale_kernel", "derivative"):
        jax.jvp(lambda x: scale(x=x, cfg=cfg), (x,), (x,))


def test_linearize(scale: Any, cfg: Any, x: Any, raises: Any) -> None:
    with raises(TransformationError, "scale_kernel", "derivative"):
        jax.linearize(lambda x: scale(x=x, cfg=cfg), x)


def test_what_the_hints_propose_works(scale: Any, cfg: Any, x: Any, tpu_text: Any) -> None:
    @jax.custom_vjp
    def twice(x: Any) -> Any:
        return scale(x=x, cfg=cfg)

    twice.defvjp(lambda x: (twice(x), None), lambda _, g: (scale(x=g, cfg=cfg),))
    derivative = tpu_text(jax.grad(lambda x: twice(x).sum()), x)
    assert len(pallas.calls_in(derivative)) == 1
    mapped = tpu_text(lambda xs: jax.lax.map(lambda x: scale(x=x, cfg=cfg), xs), jnp.stack([x, x]))
    assert len(pallas.calls_in(mapped)) == 1


def test_unmapped_and_constant_operands_are_no_transformation(scale: Any, cfg: Any, x: Any, tpu_text: Any) -> None:
    def program(x: Any, ys: Any) -> Any:
        return jax.vmap(lambda y: scale(x=x, cfg=cfg) + y)(ys)

    assert len(pallas.calls_in(tpu_text(program, x, jnp.stack([x, x])))) == 1
    stopped = jax.grad(lambda y: (scale(x=jax.lax.stop_gradient(x), cfg=cfg) * y).sum())
    assert len(pallas.calls_in(tpu_text(stopped, x))) == 1
    assert len(pallas.calls_in(tpu_text(jax.checkpoint(lambda x: scale(x=x, cfg=cfg)), x))) == 1
