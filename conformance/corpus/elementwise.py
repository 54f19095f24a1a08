"""Arithmetic, bits, signs and extremes: what is done to each element, or to a scalar."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax

from conformance.corpus.case import Cases

CASES = Cases("elementwise")
_FLOATS = ("f32", "bf16")
_INTS = ("s32", "s16", "s8", "u32", "u16", "u8")


def _tile(dtype: str) -> str:
    return f"{dtype}[{({'b': 16, 's16': 16, 'u16': 16, 's8': 32, 'u8': 32}).get(dtype, 8)},128]"


_BINARY = {
    "add": (lax.add, (*_FLOATS, *_INTS)),
    "sub": (lax.sub, (*_FLOATS, *_INTS)),
    "mul": (lax.mul, (*_FLOATS, *_INTS)),
    "div": (lax.div, (*_FLOATS, "s32", "u32")),
    "rem": (lax.rem, ("f32", "s32", "u32")),
    "max": (lax.max, (*_FLOATS, "s32", "s16", "u32")),
    "min": (lax.min, (*_FLOATS, "s32", "s16", "u32")),
    "and": (lax.bitwise_and, ("s32", "u32", "s16", "u8", "pred")),
    "or": (lax.bitwise_or, ("s32", "u32", "s16", "u8", "pred")),
    "xor": (lax.bitwise_xor, ("s32", "u32", "s16", "u8", "pred")),
    "shift_left": (lax.shift_left, ("s32", "u32", "s16")),
    "shift_right_arithmetic": (lax.shift_right_arithmetic, ("s32", "u32", "s16")),
    "shift_right_logical": (lax.shift_right_logical, ("s32", "u32", "s16")),
    "nextafter": (lax.nextafter, ("f32",)),
}
for _name, (_function, _dtypes) in _BINARY.items():
    for _dtype in _dtypes:
        CASES.values(f"{_name}-{_dtype}", (_name,), _function, _tile(_dtype), _tile(_dtype))
    for _dtype in ("f32", "s32", "u32", "pred"):
        if _dtype not in _dtypes or _name == "nextafter":
            continue
        CASES.values(f"{_name}-scalars-{_dtype}", (_name,), _function, _dtype, _dtype)

_UNARY = {
    "abs": (lax.abs, (*_FLOATS, "s32")),
    "neg": (lax.neg, (*_FLOATS, "s32", "s16")),
    "sign": (lax.sign, (*_FLOATS, "s32", "u32")),
    "square": (lax.square, (*_FLOATS, "s32")),
    "not": (lax.bitwise_not, ("s32", "u32", "s16", "pred")),
    "clz": (lax.clz, ("s32", "u32")),
    "population_count": (lax.population_count, ("s32", "u32")),
    "is_finite": (lax.is_finite, ("f32",)),
    "stop_gradient": (lax.stop_gradient, ("f32",)),
}
for _name, (_function, _dtypes) in _UNARY.items():
    for _dtype in _dtypes:
        CASES.values(f"{_name}-{_dtype}", (_name,), _function, _tile(_dtype))
for _name in ("abs", "neg", "sign", "square", "not", "clz"):
    CASES.values(f"{_name}-scalar-s32", (_name,), _UNARY[_name][0], "s32")
for _name in ("abs", "neg", "sign", "square"):
    CASES.values(f"{_name}-scalar-f32", (_name,), _UNARY[_name][0], "f32")

# A literal, and a scalar from memory, each on either side of a vector.
for _dtype, _number in (("f32", 2.5), ("bf16", 2.5), ("s32", 3), ("u32", 3)):
    CASES.values(f"mul-literal-{_dtype}", ("mul",), lambda x, n=_number: x * n, _tile(_dtype))
    CASES.values(f"sub-from-literal-{_dtype}", ("sub",), lambda x, n=_number: n - x, _tile(_dtype))
CASES.values("add-scalar-f32", ("add",), lambda x, s: x + s, "f32[8,128]", "f32")
CASES.values("sub-scalar-s32", ("sub",), lambda x, s: s - x, "s32[8,128]", "s32")
CASES.values("max-literal", ("max",), lambda x: jnp.maximum(x, 0.0), "f32[8,128]")

# Shapes.
for _shape in ("[128]", "[1,128]", "[8,1]", "[3,5,7]", "[2,2,8,128]"):
    CASES.values(f"add-f32{_shape}", ("add",), lax.add, f"f32{_shape}", f"f32{_shape}")
CASES.values("add-broadcasts-row", ("add",), lambda x, y: x + y, "f32[8,128]", "f32[1,128]")
CASES.values("add-broadcasts-column", ("add",), lambda x, y: x + y, "f32[8,128]", "f32[8,1]")
CASES.values("add-broadcasts-rank", ("add", "broadcast_in_dim"), lambda x, y: x + y, "f32[8,128]", "f32[128]")

for _dtype in ("s32", "u32"):
    CASES.values(
        f"mulhi-{_dtype}", ("mulhi",), lambda x, y: lax.mulhi(x, y), _tile(_dtype), _tile(_dtype), since=(0, 12)
    )
    CASES.values(f"mulhi-scalar-{_dtype}", ("mulhi",), lambda x, y: lax.mulhi(x, y), _dtype, _dtype, since=(0, 12))
for _power in (2, 3, 8, -1, -2):
    CASES.values(f"integer_pow({_power})", ("integer_pow",), lambda x, n=_power: lax.integer_pow(x, n), "f32[8,128]")
CASES.values("integer_pow-bf16", ("integer_pow",), lambda x: lax.integer_pow(x, 3), "bf16[16,128]")
CASES.values("integer_pow-s32", ("integer_pow",), lambda x: lax.integer_pow(x, 3), "s32[8,128]")
CASES.values("one_minus_square", ("one_minus_square",), jax.grad(lambda x: jnp.sum(jnp.tanh(x))), "f32[8,128]")
CASES.values("add_any", ("add_any",), jax.grad(lambda x: jnp.sum(jnp.sin(x) * jnp.cos(x))), "f32[8,128]")
for _dtype in ("f32", "s32"):
    CASES.values(f"clamp-{_dtype}", ("clamp",), lambda lo, x, hi: lax.clamp(lo, x, hi), *[_tile(_dtype)] * 3)
    CASES.values(f"clamp-scalars-{_dtype}", ("clamp",), lambda lo, x, hi: lax.clamp(lo, x, hi), *[_dtype] * 3)
CASES.values("clip", ("max", "min"), lambda x: jnp.clip(x, -1.0, 1.0), "f32[8,128]")
for _exponent, _mantissa in ((8, 7), (5, 10), (4, 3)):
    CASES.values(
        f"reduce_precision({_exponent},{_mantissa})",
        ("reduce_precision",),
        lambda x, e=_exponent, m=_mantissa: lax.reduce_precision(x, e, m),
        "f32[8,128]",
    )
CASES.values("reduce_precision-bf16", ("reduce_precision",), lambda x: lax.reduce_precision(x, 5, 2), "bf16[16,128]")

# jnp's own forms, of several primitives each.
CASES.values("floor_divide-s32", ("div", "rem", "sign"), lambda x, y: x // y, "s32[8,128]", "s32[8,128]")
CASES.values("floor_divide-f32", ("div", "round", "sign"), lambda x, y: x // y, "f32[8,128]", "f32[8,128]")
CASES.values("floor_divide-scalar", ("div", "rem"), lambda x: x // 3, "s32")
CASES.values("remainder-s32", ("rem",), lambda x, y: x % y, "s32[8,128]", "s32[8,128]")
CASES.values("remainder-f32", ("rem",), lambda x, y: x % y, "f32[8,128]", "f32[8,128]")
CASES.values("gelu", ("tanh", "integer_pow"), jax.nn.gelu, "f32[8,128]")
CASES.values("silu", ("logistic", "mul"), jax.nn.silu, "f32[8,128]")
CASES.values("relu", ("max", "custom_jvp_call"), jax.nn.relu, "f32[8,128]")
CASES.values("softmax", ("exp", "reduce_max", "reduce_sum"), lambda x: jax.nn.softmax(x, axis=-1), "f32[8,128]")
CASES.values("logsumexp", ("log", "exp"), lambda x: jax.nn.logsumexp(x, axis=-1, keepdims=True), "f32[8,128]")
CASES.values("isnan", ("ne",), jnp.isnan, "f32[8,128]")
