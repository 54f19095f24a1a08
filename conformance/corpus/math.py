"""Functions of one or two numbers."""

from __future__ import annotations

import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from conformance.corpus.case import Cases

CASES = Cases("math")

_UNARY = {
    "ceil": lax.ceil,
    "cos": lax.cos,
    "erf": lax.erf,
    "exp": lax.exp,
    "exp2": lax.exp2,
    "floor": lax.floor,
    "log": lax.log,
    "log1p": lax.log1p,
    "log2": jnp.log2,
    "logistic": lax.logistic,
    "rsqrt": lax.rsqrt,
    "sin": lax.sin,
    "sqrt": lax.sqrt,
    "tan": lax.tan,
    "tanh": lax.tanh,
}
for _name, _function in _UNARY.items():
    CASES.values(f"{_name}-f32", (_name,), _function, "f32[8,128]")
    CASES.values(f"{_name}-bf16", (_name,), _function, "bf16[16,128]")
    if _name != "logistic":  # of vectors alone: refused by the op's verifier
        CASES.values(f"{_name}-scalar", (_name,), _function, "f32")
CASES.values("erf_inv-f32", ("erf_inv",), lax.erf_inv, "f32[8,128]")
for _method in (lax.RoundingMethod.AWAY_FROM_ZERO, lax.RoundingMethod.TO_NEAREST_EVEN):
    CASES.values(f"round-{_method.name.lower()}", ("round",), lambda x, m=_method: lax.round(x, m), "f32[8,128]")
CASES.values("round-scalar", ("round",), lambda x: lax.round(x), "f32")
CASES.values("exp-less-one", ("exp", "sub"), lambda x: jnp.exp(x) - 1.0, "f32[8,128]")

CASES.values("atan2-f32", ("atan2",), lax.atan2, "f32[8,128]", "f32[8,128]")
CASES.values("atan2-scalars", ("atan2",), lax.atan2, "f32", "f32")
CASES.values("pow-f32", ("pow",), lax.pow, "f32[8,128]", "f32[8,128]")
CASES.values("pow-bf16", ("pow",), lax.pow, "bf16[16,128]", "bf16[16,128]")
CASES.values("pow-literal", ("pow",), lambda x: x**2.5, "f32[8,128]")
CASES.values("pow-of-two", ("pow",), lambda x: 2.0**x, "f32[8,128]")
CASES.values("pow-s32", ("pow",), lax.pow, "f32[8,128]", "s32[8,128]")
CASES.values("pow-u32", ("pow",), lax.pow, "f32[8,128]", "u32[8,128]")
CASES.values("pow-scalars", ("pow",), lax.pow, "f32", "f32")

for _approx in (False, True):
    _how = "approximate" if _approx else "exact"
    CASES.values(
        f"reciprocal-{_how}", ("reciprocal",), lambda x, a=_approx: pltpu.reciprocal(x, approx=a), "f32[8,128]"
    )
    CASES.values(
        f"reciprocal-{_how}-bf16", ("reciprocal",), lambda x, a=_approx: pltpu.reciprocal(x, approx=a), "bf16[16,128]"
    )
CASES.values(
    "reciprocal-full-range",
    ("reciprocal",),
    lambda x: pltpu.reciprocal(x, approx=True, full_range=True),
    "f32[8,128]",
)
CASES.values("multiple_of", ("multiple_of",), lambda x: pl.multiple_of(x, 8), "s32")
CASES.values("multiple_of-twice", ("multiple_of",), lambda x: pl.multiple_of(x, (8, 128)), "s32")
