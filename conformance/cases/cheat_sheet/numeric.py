# ruff: noqa: N801, N805 - a pair is a class that holds two functions
# pyright: basic
"""Number formats, random bits, gathers, products in twice the width."""

from __future__ import annotations

import jax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from conformance.cases.cheat_sheet.pairs import Pairs, out, smem, vmem
from mosaic_tpu.builder import bf16, f8e4m3b11fnuz, f8e4m3fn, f8e5m2, f32, i32, u32

PAIRS = Pairs("numeric")

for _d in (f32, bf16):
    PAIRS.expression(f"logistic-op-{_d}", "jax.nn.sigmoid(x)", "b.logistic(x)", x=vmem(_d, (16, 128)))
    PAIRS.expression(
        f"reduce-precision-op-{_d}",
        "lax.reduce_precision(x, exponent_bits=5, mantissa_bits=2)",
        "b.reduce_precision(x, 5, 2)",
        x=vmem(_d, (16, 128)),
    )
PAIRS.expression(
    "isfinite", "jnp.isfinite(x)", "(lambda odd: b.xori(odd, b.full(x.shape, True, i1)))(b.weird(x))", x=vmem(f32)
)
PAIRS.expression("isfinite-scalar", "jnp.isfinite(s)", "b.xori(b.weird(s), b.lift(True))", s=smem(f32))

# --- products --------------------------------------------------------------------------------------------------------

if jax.__version_info__ >= (0, 12):
    PAIRS.expression("mulhi-i32", "lax.mulhi(x, y)", "b.mulsi_extended(x, y)[1]", x=vmem(i32), y=vmem(i32))
    PAIRS.expression("mulhi-u32", "lax.mulhi(x, y)", "b.mului_extended(x, y)[1]", x=vmem(u32), y=vmem(u32))
    PAIRS.expression("mulhi-scalar", "lax.mulhi(s, s)", "b.mulsi_extended(s, s)[1]", s=smem(i32))

# --- gathers ---------------------------------------------------------------------------------------------------------

for _d in (f32, i32, bf16):
    for _axis, _size in enumerate((16, 128)):
        PAIRS.expression(
            f"take-along-axis-{_d}-{_axis}",
            f"jnp.take_along_axis(x, at, axis={_axis}, mode='promise_in_bounds')",
            f"(lambda i: b.dynamic_gather(x, b.shape_cast(b.shape_cast(i, (16, 128, 1)), (16, 128)), [{_axis}]))"
            f"(b.pallas.where(at < 0, at + {_size}, at))",
            uses=("lt", "add"),
            x=vmem(_d, (16, 128)),
            at=vmem(i32, (16, 128)),
        )

# --- packing ---------------------------------------------------------------------------------------------------------

PAIRS.expression(
    "pack-bf16",
    "pltpu.pack_elementwise([x, y], packed_dtype=jnp.bfloat16)",
    "b.pack_elementwise([x, y], bf16)",
    x=vmem(f32),
    y=vmem(f32),
)
PAIRS.expression(
    "pack-i8",
    "pltpu.pack_elementwise([x, x, y, y], packed_dtype=jnp.int8)",
    "b.pack_elementwise([x, x, y, y], i8)",
    x=vmem(i32),
    y=vmem(i32),
)
for _index in (0, 1):
    PAIRS.expression(
        f"unpack-bf16-{_index}",
        f"pltpu.unpack_elementwise(x, index={_index}, packed_dtype=jnp.bfloat16, unpacked_dtype=jnp.float32)",
        f"b.unpack_elementwise(x, {_index}, bf16, f32)",
        x=vmem(u32),
    )
PAIRS.expression(
    "unpack-i8",
    "pltpu.unpack_elementwise(x, index=3, packed_dtype=jnp.int8, unpacked_dtype=jnp.int32)",
    "b.unpack_elementwise(x, 3, i8, i32)",
    x=vmem(i32),
)

# --- random bits -----------------------------------------------------------------------------------------------------

for _d in (bf16, f8e5m2, f8e4m3fn, f8e4m3b11fnuz):
    PAIRS.expression(
        f"stochastic-convert-{_d}",
        f"pltpu.stochastic_round(x, r, target_dtype=jnp.{_d.numpy.name})",
        f"b.stochastic_convert(x, r, {_d})",
        x=vmem(f32, (32, 128)),
        r=vmem(u32, (32, 128)),
    )


@PAIRS.add(s=smem(i32), o=out(i32), uses=("load", "store"))
class prng:
    def pallas(s, o):
        pltpu.prng_seed(s[0], s[1])
        o[...] = pltpu.prng_random_bits((8, 128))

    def ours(b, s, o):
        b.prng_set_seed_32(s[0], s[1])
        o[...] = b.prng_random_bits((8, 128))


@PAIRS.add(o=out(i32, (2, 8, 128)), grid=(2,), uses=("store",))
class prng_of_a_step:
    def pallas(o):
        pltpu.prng_seed(pl.program_id(0))
        o[...] = pltpu.prng_random_bits((2, 8, 128))

    def ours(b, i, o):
        b.prng_set_seed_32(i)
        o[...] = b.prng_random_bits((2, 8, 128))
