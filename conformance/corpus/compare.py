"""Comparisons and selections."""

from __future__ import annotations

import jax.numpy as jnp
from jax import lax

from conformance.corpus.case import Cases

CASES = Cases("compare")

_COMPARISONS = {"eq": lax.eq, "ne": lax.ne, "lt": lax.lt, "le": lax.le, "gt": lax.gt, "ge": lax.ge}
for _name, _function in _COMPARISONS.items():
    for _dtype in ("f32", "bf16", "s32", "u32", "s16", "s8", "pred"):
        CASES.values(f"{_name}-{_dtype}", (_name,), _function, f"{_dtype}[32,128]", f"{_dtype}[32,128]")
    for _dtype in ("f32", "s32", "u32", "pred"):
        CASES.values(f"{_name}-scalars-{_dtype}", (_name,), _function, _dtype, _dtype)
    CASES.values(f"{_name}-literal", (_name,), lambda x, f=_function: f(x, jnp.float32(1.0)), "f32")
CASES.values("gt-literal-vector", ("gt",), lambda x: x > 0, "s32[8,128]")

for _dtype in ("f32", "bf16", "s32", "u8", "pred"):
    _shape = f"{_dtype}[32,128]"
    CASES.values(f"select_n-{_dtype}", ("select_n",), lambda p, x, y: jnp.where(p, x, y), "pred[32,128]", *[_shape] * 2)
for _dtype in ("f32", "s32", "pred"):
    CASES.values(
        f"select_n-scalars-{_dtype}", ("select_n",), lambda p, x, y: lax.select_n(p, x, y), "pred", *[_dtype] * 2
    )
CASES.values(
    "select_n-scalar-predicate", ("select_n",), lambda p, x, y: lax.select_n(p, x, y), "pred", *["f32[8,128]"] * 2
)
CASES.values(
    "select_n-integer", ("select_n",), lambda p, x, y: lax.select_n(p, x, y), "s32[8,128]", *["f32[8,128]"] * 2
)
CASES.values("select_n-one", ("select_n",), lambda p, x: lax.select_n(p, x), "pred[8,128]", "f32[8,128]")
CASES.values("where-literal", ("select_n",), lambda x: jnp.where(x > 0, x, 0.0), "f32[8,128]")
CASES.values("where-negative-infinity", ("select_n",), lambda x: jnp.where(x > 0, x, -jnp.inf), "f32[8,128]")
CASES.values("logical", ("and", "or", "not"), lambda x, y: ((x > 0) & (y > 0)) | ~(x < y), "f32[8,128]", "f32[8,128]")
