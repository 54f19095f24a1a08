"""Sums, extremes and where they are, along each axis and to a scalar; of booleans; the largest k."""

from __future__ import annotations

import jax.numpy as jnp
from jax import lax

from conformance.corpus.case import Cases

CASES = Cases("reductions")

for _name, _function in (("reduce_sum", jnp.sum), ("reduce_max", jnp.max), ("reduce_min", jnp.min)):
    for _axis in (0, 1, None):
        CASES.values(f"{_name}-{_axis}", (_name,), lambda x, f=_function, a=_axis: f(x, axis=a), "f32[8,128]")
    CASES.values(f"{_name}-keeps", (_name,), lambda x, f=_function: f(x, axis=1, keepdims=True), "f32[8,128]")
    CASES.values(f"{_name}-bf16", (_name,), lambda x, f=_function: f(x, axis=0), "bf16[16,128]")
    CASES.values(f"{_name}-s32", (_name,), lambda x, f=_function: f(x, axis=1), "s32[8,128]")
    CASES.values(f"{_name}-s32-scalar", (_name,), lambda x, f=_function: f(x), "s32[8,128]")
    CASES.values(f"{_name}-3d", (_name,), lambda x, f=_function: f(x, axis=(0, 2)), "f32[2,8,128]")
    CASES.values(f"{_name}-1d", (_name,), lambda x, f=_function: f(x), "f32[128]")
CASES.values("mean", ("reduce_sum", "div"), lambda x: jnp.mean(x, axis=-1, keepdims=True), "f32[8,128]")
CASES.values("variance", ("reduce_sum",), lambda x: jnp.var(x, axis=-1, keepdims=True), "f32[8,128]")

for _name, _function in (("reduce_and", jnp.all), ("reduce_or", jnp.any)):
    for _axis in (0, 1, None):
        CASES.values(f"{_name}-{_axis}", (_name,), lambda x, f=_function, a=_axis: f(x > 0, axis=a), "f32[8,128]")

for _name, _function in (("argmax", jnp.argmax), ("argmin", jnp.argmin)):
    for _axis in (0, 1):
        CASES.values(f"{_name}-{_axis}", (_name,), lambda x, f=_function, a=_axis: f(x, axis=a), "f32[8,128]")
    CASES.values(f"{_name}-bf16", (_name,), lambda x, f=_function: f(x, axis=1), "bf16[16,128]")
    CASES.values(f"{_name}-1d", (_name,), lambda x, f=_function: f(x), "f32[128]")
CASES.values("argmax-s16", ("argmax",), lambda x: lax.argmax(x, 1, jnp.int16), "bf16[16,128]")

CASES.values("top_k", ("top_k",), lambda x: lax.top_k(x, 2, is_stable=False), "f32[8,128]", since=(0, 12))
CASES.values("top_k-bf16", ("top_k",), lambda x: lax.top_k(x, 2, is_stable=False), "bf16[16,128]", tpu_version="v6e")
CASES.values("top_k-first", ("top_k",), lambda x: lax.top_k(x, 3, axis=0, is_stable=False), "f32[16,128]")
CASES.values("approx_top_k", ("approx_top_k",), lambda x: lax.approx_max_k(x, 2), "f32[8,256]")
CASES.values("approx_top_k-whole", ("approx_top_k",), lambda x: lax.approx_max_k(x, 2), "f32[8,128]")
CASES.values("approx_top_k-tail", ("approx_top_k",), lambda x: lax.approx_max_k(x, 2, recall_target=0.9), "f32[8,320]")
