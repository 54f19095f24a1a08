"""Functions of numbers and of their bits, limits and logic: over element types, and over vectors and scalars."""

from __future__ import annotations

from conformance.cases.cheat_sheet.elementwise import JAX_NAMES
from conformance.cases.cheat_sheet.pairs import Pairs, smem, vmem
from mosaic_tpu.builder import (
    DType,
    bf16,
    f8e4m3b11fnuz,
    f8e4m3fn,
    f8e5m2,
    f32,
    i4,
    i8,
    i16,
    i32,
    u8,
    u16,
    u32,
)

PAIRS = Pairs("math")
FLOATS = (f32, bf16)
#: Rows of a tile, by the width of its elements.
SHAPES = {32: (8, 128), 16: (16, 128), 8: (32, 128), 4: (64, 128)}


def tile(dtype: DType, **more: object):
    """An input of one tile."""
    return vmem(dtype, SHAPES[dtype.bits], **more)


# --- one operand ------------------------------------------------------------------------------------------------------

#: Functions of jnp, which turn integers into f32.
PROMOTING = ("exp", "exp2", "log", "log1p", "log2", "sqrt", "sin", "cos", "tan", "tanh", "log10")
for name in PROMOTING:
    for dtype in (*FLOATS, i32, u32, i16, i8):
        PAIRS.expression(f"{name}-{dtype}", f"jnp.{name}(x)", f"b.pallas.{name}(x)", x=tile(dtype))
    for dtype in (f32, i32):
        PAIRS.expression(f"{name}-of-scalar-{dtype}", f"jnp.{name}(s)", f"b.pallas.{name}(s)", s=smem(dtype))
    PAIRS.expression(
        f"{name}-of-booleans", f"jnp.{name}(x > 0.0)", f"b.pallas.{name}(x > 0.0)", uses=("gt",), x=vmem(f32)
    )
#: Functions of lax, of floats only.
for theirs, name, scalars in [
    ("lax.rsqrt", "rsqrt", True),
    ("lax.erf", "erf", True),
    ("jax.scipy.special.erf", "erf", True),
    ("jax.nn.sigmoid", "sigmoid", False),
    ("lax.logistic", "sigmoid", False),
]:
    label = theirs.rpartition(".")[2] if theirs.startswith("lax") else theirs.replace(".", "-")
    for dtype in FLOATS:
        PAIRS.expression(f"{label}-{dtype}", f"{theirs}(x)", f"b.pallas.{name}(x)", x=tile(dtype))
    if scalars:
        PAIRS.expression(f"{label}-of-scalar", f"{theirs}(s)", f"b.pallas.{name}(s)", s=smem(f32))
PAIRS.expression("erf-inv", "lax.erf_inv(x)", "b.pallas.erf_inv(x)", x=vmem(f32))
PAIRS.expression("erf-inv-of-scalar", "lax.erf_inv(s)", "b.pallas.erf_inv(s)", s=smem(f32))
PAIRS.expression("erf-inv-twice", "lax.erf_inv(lax.erf_inv(x))", "b.pallas.erf_inv(b.pallas.erf_inv(x))", x=vmem(f32))

for name, dtypes in {
    "abs": (*FLOATS, i32, u32, i16, i8, u8),
    "square": (*FLOATS, i32, u32, i16),
    "sign": (*FLOATS, i32, u32, i16, i8, u8),
    "floor": (*FLOATS, i32),
    "ceil": (*FLOATS, i32),
    "trunc": (*FLOATS, i32),
    "round": (*FLOATS, i32),
    "isnan": FLOATS,
    "isinf": FLOATS,
    "isfinite": (f32,),
    "signbit": FLOATS,
}.items():
    for dtype in dtypes:
        PAIRS.expression(f"jnp-{name}-{dtype}", f"jnp.{name}(x)", f"b.pallas.{name}(x)", x=tile(dtype))
    for dtype in (f32, i32, u32):
        if dtype in dtypes and name != "signbit":
            PAIRS.expression(f"jnp-{name}-of-scalar-{dtype}", f"jnp.{name}(s)", f"b.pallas.{name}(s)", s=smem(dtype))
PAIRS.expression("abs-of-booleans", "jnp.abs(x > 0.0)", "b.pallas.abs(x > 0.0)", uses=("gt",), x=vmem(f32))
for dtype in FLOATS:
    PAIRS.expression(
        f"round-away-from-zero-{dtype}",
        "lax.round(x, lax.RoundingMethod.AWAY_FROM_ZERO)",
        "b.pallas.round(x, away_from_zero=True)",
        x=tile(dtype),
    )
    for options in ("", ", approx=True", ", approx=True, full_range=True"):
        label = options.replace(", ", "-").replace("=True", "").replace("_", "-")
        PAIRS.expression(
            f"pl-reciprocal{label}-{dtype}",
            f"pl.reciprocal(x{options})",
            f"b.pallas.reciprocal(x{options})",
            x=tile(dtype),
        )
    PAIRS.expression(f"jnp-reciprocal-{dtype}", "jnp.reciprocal(x)", "b.pallas.jnp_reciprocal(x)", x=tile(dtype))
    PAIRS.expression(f"lax-reciprocal-{dtype}", "lax.reciprocal(x)", "b.pallas.jnp_reciprocal(x)", x=tile(dtype))

# --- powers -----------------------------------------------------------------------------------------------------------

for n in (0, 1, 2, 3, 4, 5, 8, 15, -1, -2, -3):
    for dtype in (f32, bf16, i32) if n >= 0 else FLOATS:
        PAIRS.expression(f"power-{n}-{dtype}", f"x ** {n}", f"b.pallas.power(x, {n})", x=tile(dtype))
        PAIRS.expression(
            f"integer-pow-{n}-{dtype}", f"lax.integer_pow(x, {n})", f"b.pallas.integer_pow(x, {n})", x=tile(dtype)
        )
    PAIRS.expression(f"power-{n}-of-scalar", f"s ** {n}", f"b.pallas.power(s, {n})", s=smem(f32))
PAIRS.expression("power-5-u32", "x ** 5", "b.pallas.power(x, 5)", x=vmem(u32))
for name, left, right, args in [
    ("vectors", "x", "y", {"x": vmem(f32), "y": vmem(f32)}),
    ("vectors-bf16", "x", "y", {"x": tile(bf16), "y": tile(bf16)}),
    ("row", "x", "y", {"x": vmem(f32), "y": vmem(f32, (128,))}),
    ("column", "x", "y", {"x": vmem(f32), "y": vmem(f32, (8, 1))}),
    ("number", "x", "2.5", {"x": vmem(f32)}),
    ("number-bf16", "x", "2.5", {"x": tile(bf16)}),
    ("float-of-integer", "x", "2.5", {"x": vmem(i32)}),
    ("two", "2.0", "x", {"x": vmem(f32)}),
    ("int-two", "2", "x", {"x": vmem(f32)}),
    ("two-bf16", "2.0", "x", {"x": tile(bf16)}),
    ("two-to-integers", "2.0", "x", {"x": vmem(i32)}),
    ("three", "3.0", "x", {"x": vmem(f32)}),
    ("int-three", "3", "x", {"x": vmem(f32)}),
    ("integers", "x", "n", {"x": vmem(f32), "n": vmem(i32)}),
    ("unsigned", "x", "n", {"x": vmem(f32), "n": vmem(u32)}),
    ("of-integers", "n", "x", {"n": vmem(i32), "x": vmem(f32)}),
    ("scalars", "s", "t", {"s": smem(f32), "t": smem(f32)}),
    ("scalar-number", "s", "0.5", {"s": smem(f32)}),
    ("vector-scalar", "x", "s", {"x": vmem(f32), "s": smem(f32)}),
    ("scalar-vector", "s", "x", {"x": vmem(f32), "s": smem(f32)}),
]:
    PAIRS.expression(f"power-{name}", f"{left} ** {right}", f"b.pallas.power({left}, {right})", **args)
PAIRS.expression("lax-pow", "lax.pow(x, y)", "b.pallas.power(x, y)", x=vmem(f32), y=vmem(f32))

# --- two operands -----------------------------------------------------------------------------------------------------

for name, left, right, args in [
    ("vectors", "x", "y", {"x": vmem(f32), "y": vmem(f32)}),
    ("vectors-bf16", "x", "y", {"x": tile(bf16), "y": tile(bf16)}),
    ("column", "x", "y", {"x": vmem(f32), "y": vmem(f32, (8, 1))}),
    ("number", "x", "1.0", {"x": vmem(f32)}),
    ("number-first", "1.0", "x", {"x": vmem(f32)}),
    ("integers", "x", "y", {"x": vmem(i32), "y": vmem(i32)}),
    ("scalars", "s", "t", {"s": smem(f32), "t": smem(f32)}),
    ("scalar", "x", "s", {"x": vmem(f32), "s": smem(f32)}),
]:
    PAIRS.expression(f"arctan2-{name}", f"jnp.arctan2({left}, {right})", f"b.pallas.arctan2({left}, {right})", **args)

X, R, C, S, T = vmem(f32), vmem(f32, (128,)), vmem(f32, (8, 1)), smem(f32), smem(f32)
H = tile(bf16)
FLOAT_FORMS = [
    ("vectors", "x", "y", {"x": X, "y": X}),
    ("bf16", "x", "y", {"x": H, "y": H}),
    ("row", "x", "r", {"x": X, "r": R}),
    ("column", "x", "c", {"x": X, "c": C}),
    ("number", "x", "2.0", {"x": X}),
    ("int", "x", "2", {"x": X}),
    ("number-bf16", "x", "2.0", {"x": H}),
    ("int-bf16", "x", "3", {"x": H}),
    ("number-first", "2.0", "x", {"x": X}),
    ("int-first", "2", "x", {"x": X}),
    ("scalar", "x", "s", {"x": X, "s": S}),
    ("scalar-number", "s", "2.0", {"s": S}),
    ("scalars", "s", "t", {"s": S, "t": T}),
]
for name, left, right, args in FLOAT_FORMS:
    PAIRS.expression(f"floor-divide-floats-{name}", f"{left} // {right}", uses=("floor_divide",), **args)
    PAIRS.expression(f"remainder-floats-{name}", f"{left} % {right}", uses=("remainder",), **args)
    PAIRS.expression(f"fmod-{name}", f"jnp.fmod({left}, {right})", f"b.pallas.fmod({left}, {right})", **args)
for name, right, args in [
    ("vectors", "y", {"x": vmem(i32), "y": vmem(i32)}),
    ("number", "3", {"x": vmem(i32)}),
    ("unsigned", "y", {"x": vmem(u32), "y": vmem(u32)}),
    ("scalar-number", "3", {"x": smem(i32)}),
]:
    PAIRS.expression(f"fmod-integers-{name}", f"jnp.fmod(x, {right})", f"b.pallas.fmod(x, {right})", **args)

# --- limits -----------------------------------------------------------------------------------------------------------

for name, limits, args in [
    ("numbers", "-1.0, 1.0", {"x": X}),
    ("ints", "0, 5", {"x": X}),
    ("bf16", "-1.0, 1.0", {"x": H}),
    ("bf16-ints", "-1, 1", {"x": H}),
    ("i32", "0, 5", {"x": vmem(i32)}),
    ("u32", "2, 5", {"x": vmem(u32)}),
    ("i32-by-floats", "0.0, 5.0", {"x": vmem(i32)}),
    ("i32-scalar", "0, 5", {"x": smem(i32)}),
    ("f32-scalar", "0.0, 5.0", {"x": smem(f32)}),
    ("min", "min=0.0", {"x": X}),
    ("max", "max=0.0", {"x": X}),
    ("max-vector", "max=y", {"x": X, "y": X}),
    ("vectors", "y, z", {"x": X, "y": X, "z": X}),
    ("row", "-1.0, r", {"x": X, "r": R}),
    ("column", "c, 1.0", {"x": X, "c": C}),
    ("scalar", "s, 1.0", {"x": X, "s": S}),
    ("infinite", "0.0, float('inf')", {"x": X}),
]:
    PAIRS.expression(f"clip-{name}", f"jnp.clip(x, {limits})", f"b.pallas.clip(x, {limits})", **args)
for name, low, high, args in [
    ("numbers", "0.0", "1.0", {"x": X}),
    ("ints", "0", "5", {"x": vmem(i32)}),
    ("vectors", "y", "z", {"x": X, "y": X, "z": X}),
    ("bf16", "y", "z", {"x": H, "y": H, "z": H}),
    ("scalars", "s", "t", {"x": X, "s": S, "t": T}),
    ("of-scalar", "0", "t", {"x": smem(i32), "t": smem(i32)}),
]:
    PAIRS.expression(f"clamp-{name}", f"lax.clamp({low}, x, {high})", f"b.pallas.clamp({low}, x, {high})", **args)

# --- selects and booleans ---------------------------------------------------------------------------------------------

for name, which, uses, args in [
    ("vectors", "x < y", ("lt",), {"x": X, "y": X}),
    ("bf16", "x < y", ("lt",), {"x": H, "y": H}),
    ("scalar", "s > 0", ("gt",), {"x": X, "y": X, "s": smem(i32)}),
    ("integers", "n", (), {"x": X, "y": X, "n": vmem(i32)}),
]:
    PAIRS.expression(
        f"select-n-{name}", f"lax.select_n({which}, x, y)", f"b.pallas.select_n({which}, x, y)", uses=uses, **args
    )
for name in ("logical_and", "logical_or", "logical_xor"):
    for form, left, right, args in [
        ("masks", "x > 0.0", "y > 0.0", {"x": X, "y": X}),
        ("floats", "x", "y", {"x": X, "y": X}),
        ("bf16", "x", "y", {"x": H, "y": H}),
        ("mixed", "x", "n", {"x": X, "n": vmem(i32)}),
        ("mask-and-integers", "x > 0.0", "n", {"x": X, "n": vmem(i32)}),
        ("mask-and-floats", "x > 0.0", "y", {"x": X, "y": X}),
        ("row", "x", "r", {"x": X, "r": R}),
        ("number", "x > 0.0", "True", {"x": X}),
        ("scalars", "s", "t", {"s": smem(i32), "t": smem(i32)}),
        ("true", "x", "True", {"x": X}),
        ("false-first", "False", "x", {"x": H}),
        ("true-scalar", "True", "s", {"s": smem(i32)}),
        ("integer", "x", "3", {"x": X}),
        ("mask-and-integer", "x > 0.0", "2", {"x": X}),
        ("float", "n", "2.5", {"n": vmem(i32)}),
    ]:
        label = name.replace("_", "-")
        uses = ("gt",) if ">" in left else ()
        PAIRS.expression(
            f"{label}-{form}", f"jnp.{name}({left}, {right})", f"b.pallas.{name}({left}, {right})", uses=uses, **args
        )

# --- bits -------------------------------------------------------------------------------------------------------------

for source, target in ((f32, i32), (f32, u32), (i32, f32), (i32, u32), (bf16, i16), (u16, bf16), (i8, u8), (f32, f32)):
    PAIRS.expression(
        f"bitcast-convert-{source}-{target}",
        f"lax.bitcast_convert_type(x, {JAX_NAMES[target]})",
        f"b.pallas.bitcast_convert_type(x, {target})",
        x=tile(source),
    )
for source, target in ((f32, i32), (u32, f32), (i32, u32)):
    PAIRS.expression(
        f"bitcast-convert-scalar-{source}-{target}",
        f"lax.bitcast_convert_type(s, {JAX_NAMES[target]})",
        f"b.pallas.bitcast_convert_type(s, {target})",
        s=smem(source),
    )
for name in ("shift_right_logical", "shift_right_arithmetic"):
    label = name.replace("_", "-")
    for dtype in (i32, u32, i16):
        x = tile(dtype)
        PAIRS.expression(f"{label}-{dtype}", f"lax.{name}(x, y)", f"b.pallas.{name}(x, y)", x=x, y=x)
    PAIRS.expression(f"{label}-number", f"lax.{name}(x, 3)", f"b.pallas.{name}(x, 3)", x=vmem(i32))
    PAIRS.expression(f"{label}-scalars", f"lax.{name}(s, t)", f"b.pallas.{name}(s, t)", s=smem(i32), t=smem(i32))
for name in ("clz", "population_count"):
    label = name.replace("_", "-")
    for dtype in (i32, u32):
        PAIRS.expression(f"{label}-{dtype}", f"lax.{name}(x)", f"b.pallas.{name}(x)", x=vmem(dtype))
PAIRS.expression("clz-scalar", "lax.clz(s)", "b.pallas.clz(s)", s=smem(i32))
for exponent, mantissa in ((8, 7), (5, 10), (4, 3)):
    PAIRS.expression(
        f"reduce-precision-{exponent}-{mantissa}",
        f"lax.reduce_precision(x, {exponent}, {mantissa})",
        f"b.pallas.reduce_precision(x, {exponent}, {mantissa})",
        x=vmem(f32),
    )
PAIRS.expression(
    "reduce-precision-bf16", "lax.reduce_precision(x, 5, 2)", "b.pallas.reduce_precision(x, 5, 2)", x=tile(bf16)
)
for dtype in FLOATS:
    x = tile(dtype)
    PAIRS.expression(f"copysign-{dtype}", "jnp.copysign(x, y)", "b.pallas.copysign(x, y)", x=x, y=x)
for dtype in (i32, u32, i8):
    for label, number in (("zero", "-0.0"), ("int", "-1"), ("bool", "True")):
        form = f"copysign(x, {number})"
        PAIRS.expression(f"copysign-{label}-{dtype}", f"jnp.{form}", f"b.pallas.{form}", x=tile(dtype))
PAIRS.expression("copysign-mask", "jnp.copysign(x > 0, 1)", "b.pallas.copysign(x > 0, 1)", uses=("gt",), x=X)
PAIRS.expression("nextafter", "lax.nextafter(x, y)", "b.pallas.nextafter(x, y)", x=X, y=X)
PAIRS.expression(
    "nextafter-3d",
    "jnp.nextafter(x, y)",
    "b.pallas.nextafter(x, y)",
    x=vmem(f32, (2, 8, 128)),
    y=vmem(f32, (2, 8, 128)),
)

for target, shown in (
    (bf16, "jnp.bfloat16"),
    (f8e5m2, "jnp.float8_e5m2"),
    (f8e4m3fn, "jnp.float8_e4m3fn"),
    (f8e4m3b11fnuz, "jnp.float8_e4m3b11fnuz"),
):
    PAIRS.expression(
        f"stochastic-round-{target}",
        f"pltpu.stochastic_round(x, bits, target_dtype={shown})",
        f"b.pallas.stochastic_round(x, bits, {target})",
        x=X,
        bits=vmem(u32),
    )
for wide, narrow in ((f32, bf16), (i32, i16), (i32, i8), (i32, i4), (u32, u8), (i16, i8)):
    xs = ", ".join(["x", "y"] * (wide.bits // narrow.bits // 2))
    PAIRS.expression(
        f"pack-elementwise-{wide}-{narrow}",
        f"pltpu.pack_elementwise([{xs}], packed_dtype={JAX_NAMES[narrow]})",
        f"b.pallas.pack_elementwise([{xs}], {narrow})",
        x=tile(wide),
        y=tile(wide),
    )
for packed, wide, source, index in (
    (bf16, f32, u32, 0),
    (bf16, f32, u32, 1),
    (i16, i32, u32, 1),
    (i8, i32, u32, 3),
    (i4, i32, i32, 7),
    (i8, i16, i16, 1),
):
    theirs = f"packed_dtype={JAX_NAMES[packed]}, unpacked_dtype={JAX_NAMES[wide]}"
    PAIRS.expression(
        f"unpack-elementwise-{packed}-{wide}-{index}",
        f"pltpu.unpack_elementwise(x, index={index}, {theirs})",
        f"b.pallas.unpack_elementwise(x, index={index}, packed_dtype={packed}, unpacked_dtype={wide})",
        x=tile(source),
    )
