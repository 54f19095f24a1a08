"""Casts: of values, of bits, of packed elements."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental.pallas import tpu as pltpu

from conformance.corpus.case import DTYPES, Cases

CASES = Cases("casts")
_FLOATS = ("f32", "bf16", "f8e5m2", "f8e4m3fn", "f8e4m3b11fnuz")
_INTS = ("s32", "s16", "s8", "s4", "u32", "u16", "u8", "u4")
_SHAPE = "[32,128]"

_PAIRS = [
    *((a, b) for a in _FLOATS for b in _FLOATS if "f32" in (a, b) and a != b),
    ("bf16", "f8e5m2"),
    ("f8e4m3fn", "bf16"),
    ("f4e2m1fn", "f32"),
    ("f32", "f4e2m1fn"),
    *((a, b) for a in ("f32", "bf16") for b in (*_INTS, "pred")),
    *((a, b) for a in (*_INTS, "pred") for b in ("f32", "bf16")),
    *((a, "s32") for a in (*_INTS, "pred") if a != "s32"),
    *(("s32", b) for b in (*_INTS, "pred") if b != "s32"),
    ("u32", "u16"),
    ("u8", "u32"),
    ("s8", "s16"),
    ("s16", "s8"),
    ("u8", "s8"),
    ("s16", "pred"),
    ("pred", "s8"),
    ("pred", "u32"),
]
for _a, _b in _PAIRS:
    CASES.values(
        f"convert-{_a}-to-{_b}",
        ("convert_element_type",),
        lambda x, to=DTYPES[_b]: x.astype(to),
        _a + _SHAPE,
    )
for _a, _b in (("f32", "s32"), ("s32", "f32"), ("u32", "f32"), ("f32", "u32"), ("pred", "s32"), ("s32", "pred")):
    CASES.values(f"convert-scalar-{_a}-to-{_b}", ("convert_element_type",), lambda x, to=DTYPES[_b]: x.astype(to), _a)
CASES.values("convert-scalar-f32-to-bf16", ("convert_element_type",), lambda x: x.astype(jnp.bfloat16), "f32")

for _a, _b in (("f32", "s32"), ("s32", "u32"), ("f32", "u32"), ("bf16", "s16"), ("u16", "bf16"), ("s8", "u8")):
    CASES.values(
        f"bitcast_convert_type-{_a}-to-{_b}",
        ("bitcast_convert_type",),
        lambda x, to=DTYPES[_b]: lax.bitcast_convert_type(x, to),
        _a + _SHAPE,
    )
CASES.values(
    "bitcast_convert_type-scalar", ("bitcast_convert_type",), lambda x: lax.bitcast_convert_type(x, jnp.int32), "f32"
)
for _a, _b in (("f32", "bf16"), ("s32", "s8"), ("bf16", "u32"), ("u8", "s32"), ("f32", "s32"), ("s8", "s4")):
    CASES.values(f"bitcast-{_a}-to-{_b}", ("bitcast",), lambda x, to=DTYPES[_b]: pltpu.bitcast(x, to), _a + _SHAPE)
CASES.values("bitcast-3d", ("bitcast",), lambda x: pltpu.bitcast(x, jnp.bfloat16), "u32[2,8,128]")
CASES.values("bitcast-lanes", ("bitcast",), lambda x: pltpu.bitcast(x, jnp.int32, dim=-1), "f32[8,128]", since=(0, 12))

for _a, _b in (("f32", "bf16"), ("s32", "s16"), ("s32", "s8"), ("s32", "s4"), ("u32", "u8"), ("s16", "s8")):
    _factor = jnp.iinfo(DTYPES[_a]).bits // jnp.iinfo(DTYPES[_b]).bits if _a != "f32" else 2
    CASES.values(
        f"pack_elementwise-{_a}-to-{_b}",
        ("pack_elementwise",),
        lambda *xs, to=DTYPES[_b]: pltpu.pack_elementwise(xs, packed_dtype=to),
        *[_a + _SHAPE] * _factor,
    )
for _packed, _unpacked, _from, _index in (
    ("bf16", "f32", "u32", 0),
    ("bf16", "f32", "u32", 1),
    ("s16", "s32", "u32", 1),
    ("s8", "s32", "u32", 3),
    ("s4", "s32", "s32", 7),
    ("s8", "s16", "s16", 1),
):
    CASES.values(
        f"unpack_elementwise-{_packed}-to-{_unpacked}-{_index}",
        ("unpack_elementwise",),
        lambda x, i=_index, p=DTYPES[_packed], u=DTYPES[_unpacked]: pltpu.unpack_elementwise(
            x, index=i, packed_dtype=p, unpacked_dtype=u
        ),
        _from + _SHAPE,
    )
for _to in ("bf16", "f8e5m2", "f8e4m3fn", "f8e4m3b11fnuz"):
    CASES.values(
        f"stochastic_round-{_to}",
        ("stochastic_round",),
        lambda x, bits, to=DTYPES[_to]: pltpu.stochastic_round(x, bits, target_dtype=to),
        "f32[8,128]",
        "u32[8,128]",
    )
CASES.values(
    "cast-chain", ("convert_element_type",), lambda x: (x.astype(jnp.float32) * 2).astype(x.dtype), "bf16[16,128]"
)
CASES.values("dtype-of-result", ("dot_general",), lambda x: jax.lax.dot(x, x.T).astype(jnp.bfloat16), "f32[128,128]")
