"""Operators, casts, selects, integer division, math: over element types and over what stands on either side."""

from __future__ import annotations

from conformance.cases.cheat_sheet.pairs import Arg, Pairs, smem, vmem
from mosaic_tpu.builder import DType, bf16, f8e4m3fn, f8e5m2, f16, f32, i4, i8, i16, i32, u8, u16, u32

PAIRS = Pairs("elementwise")
WORDS = (i32, u32)
FLOATS = (f32, bf16)
NUMBERS = (*WORDS, *FLOATS)
#: What JAX calls our element types.
JAX_NAMES = {d: f"jnp.{d.numpy.name}" for d in (f32, bf16, f16, f8e4m3fn, f8e5m2, i4, i8, i16, i32, u8, u16, u32)}

#: Expressions of two operands: Pallas's, ours, the idiom of an operator, element types.
BINARY = [
    ("{} + {}", None, "add", NUMBERS),
    ("{} - {}", None, "sub", NUMBERS),
    ("{} * {}", None, "mul", NUMBERS),
    ("{} / {}", None, "true_divide", FLOATS),
    ("{} // {}", None, "floor_divide", WORDS),
    ("{} % {}", None, "remainder", WORDS),
    ("{} & {}", None, "bitwise_and", WORDS),
    ("{} | {}", None, "bitwise_or", WORDS),
    ("{} ^ {}", None, "bitwise_xor", WORDS),
    ("{} << {}", None, "left_shift", WORDS),
    ("{} >> {}", None, "right_shift", WORDS),
    ("{} < {}", None, "lt", NUMBERS),
    ("{} <= {}", None, "le", NUMBERS),
    ("{} > {}", None, "gt", NUMBERS),
    ("{} >= {}", None, "ge", NUMBERS),
    ("jnp.equal({}, {})", "b.pallas.eq({}, {})", "eq", NUMBERS),
    ("jnp.not_equal({}, {})", "b.pallas.ne({}, {})", "ne", NUMBERS),
    ("jnp.minimum({}, {})", "b.pallas.minimum({}, {})", "minimum", NUMBERS),
    ("jnp.maximum({}, {})", "b.pallas.maximum({}, {})", "maximum", NUMBERS),
    ("lax.div({}, {})", "b.pallas.div({}, {})", "div", NUMBERS),
    ("lax.rem({}, {})", "b.pallas.rem({}, {})", "rem", NUMBERS),
]
#: The guide's rows that are an expression of two operands.
ROWS = {
    ("div", "scalar-scalar"): "lax.div(a, b)",
    ("rem", "scalar-scalar"): "lax.rem(a, b)",
    ("lt", "vector-number"): "o_k < KEY_DIM",
    ("lt", "vector-scalar"): "o_k < KEY_DIM",
}


def _forms(dtype: DType) -> dict[str, tuple[str, str, dict[str, Arg]]]:
    """What stands on the left and on the right."""
    x, s = vmem(dtype), smem(dtype)
    number = "2.5" if dtype.is_float else "3"
    forms = {
        "vector-vector": ("x", "y", {"x": x, "y": x}),
        "vector-row": ("x", "y", {"x": x, "y": vmem(dtype, (128,))}),
        "vector-column": ("x", "y", {"x": x, "y": vmem(dtype, (8, 1))}),
        "vector-number": ("x", number, {"x": x}),
        "number-vector": (number, "x", {"x": x}),
    }
    if dtype.bits == 32:  # scalars have 32 bits
        forms |= {
            "scalar-number": ("s", number, {"s": s}),
            "number-scalar": (number, "s", {"s": s}),
            "scalar-scalar": ("s", "t", {"s": s, "t": s}),
            "vector-scalar": ("x", "s", {"x": x, "s": s}),
            "scalar-vector": ("s", "x", {"s": s, "x": x}),
        }
    return forms


for theirs, ours, name, dtypes in BINARY:
    for dtype in dtypes:
        for form, (left, right, args) in _forms(dtype).items():
            if name in ("div", "rem") and (form == "vector-row" or ("number" in form and dtype in (u32, bf16))):
                continue  # lax promotes neither ranks nor the types of numbers
            PAIRS.expression(
                f"{name}-{form}-{dtype}",
                theirs.format(left, right),
                None if ours is None else ours.format(left, right),
                uses=(name,),
                row=ROWS.get((name, form)),
                **args,
            )

# --- one operand -----------------------------------------------------------------------------------------------------

#: Expressions of one operand: id, Pallas's, ours, the idiom of an operator, element types.
UNARY = [
    ("neg", "-x", None, ("neg",), NUMBERS),
    ("not", "~x", None, ("bitwise_not",), WORDS),
    ("abs", "jnp.abs(x)", "abs(x)", (), (i32, *FLOATS)),
    ("sign", "jnp.sign(x)", "b.pallas.sign(x)", (), (i32,)),
    ("square", "jnp.square(x)", "x * x", ("mul",), FLOATS),
    ("exp", "jnp.exp(x)", "b.exp(x)", (), FLOATS),
    ("exp2", "jnp.exp2(x)", "b.math_exp2(x)", (), (f32,)),
    ("log", "jnp.log(x)", "b.log(x)", (), FLOATS),
    ("sqrt", "jnp.sqrt(x)", "b.sqrt(x)", (), FLOATS),
    ("rsqrt", "lax.rsqrt(x)", "b.rsqrt(x)", (), FLOATS),
    ("tanh", "jnp.tanh(x)", "b.tanh(x)", (), FLOATS),
    ("sin", "jnp.sin(x)", "b.sin(x)", (), (f32,)),
    ("cos", "jnp.cos(x)", "b.cos(x)", (), (f32,)),
    ("floor", "jnp.floor(x)", "b.floor(x)", (), (f32,)),
    ("ceil", "jnp.ceil(x)", "b.ceil(x)", (), (f32,)),
    ("round", "lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN)", "b.roundeven(x)", (), (f32,)),
    ("reciprocal-approx", "pltpu.reciprocal(x, approx=True)", "b.reciprocal(x, approximate=True)", (), (f32,)),
    ("reciprocal", "pltpu.reciprocal(x)", "b.reciprocal(x)", (), (f32,)),
    ("isnan", "jnp.isnan(x)", "b.pallas.ne(x, x)", (), (f32,)),
]
for name, theirs, ours, uses, dtypes in UNARY:
    row = {"exp": "jnp.exp(b_g)"}.get(name)
    for dtype in dtypes:
        PAIRS.expression(f"{name}-vector-{dtype}", theirs, ours, uses=uses, row=row, x=vmem(dtype))
        if dtype.bits == 32 and "reciprocal" not in name:  # which takes vectors only
            PAIRS.expression(f"{name}-scalar-{dtype}", theirs, ours, uses=uses, row=row, x=smem(dtype))

# --- integers --------------------------------------------------------------------------------------------------------

for n in (2, 8, 128):
    PAIRS.expression(f"cdiv-scalar-{n}", f"pl.cdiv(s, {n})", f"b.pallas.cdiv(s, {n})", s=smem(i32))
PAIRS.expression("cdiv-vector", "pl.cdiv(x, 8)", "b.pallas.cdiv(x, 8)", x=vmem(i32))
PAIRS.expression("cdiv-vectors", "pl.cdiv(x, y)", "b.pallas.cdiv(x, y)", x=vmem(i32), y=vmem(i32))
PAIRS.expression("cdiv-floats", "pl.cdiv(x, y)", "b.pallas.cdiv(x, y)", x=vmem(f32), y=vmem(f32))
PAIRS.expression("cdiv-scalars", "pl.cdiv(s, n)", "b.pallas.cdiv(s, n)", s=smem(i32), n=smem(i32))
PAIRS.expression("cdiv-of-a-number", "pl.cdiv(100, s)", "b.pallas.cdiv(100, s)", s=smem(i32))
PAIRS.expression("floor-divide-negative", "x // -4", uses=("floor_divide",), x=vmem(i32))
PAIRS.expression("remainder-negative", "x % -4", uses=("remainder",), x=vmem(i32))
PAIRS.expression("multiple-of", "pl.multiple_of(s, 8)", "b.pallas.multiple_of(s, 8)", s=smem(i32))
PAIRS.expression("multiple-of-product", "pl.multiple_of(s * 8, 8)", "b.pallas.multiple_of(s * 8, 8)", s=smem(i32))

# --- numbers: what their own type does beside an operand -------------------------------------------------------------

PAIRS.expression("int-beside-float", "x + 1", uses=("add",), x=vmem(f32))
PAIRS.expression("int-beside-bf16", "x * 2", uses=("mul",), x=vmem(bf16))
PAIRS.expression("infinity", "jnp.minimum(x, jnp.inf)", "b.pallas.minimum(x, float('inf'))", x=vmem(f32))
PAIRS.expression("minus-zero", "x + (-0.0)", uses=("add",), x=vmem(f32))
PAIRS.expression("small-number", "x + 1e-6", uses=("add",), x=vmem(f32))
PAIRS.expression("numpy-f32", "x + np.float32(1.5)", uses=("add",), x=vmem(f32))
PAIRS.expression("numpy-i32", "s + np.int32(7)", uses=("add",), s=smem(i32))
PAIRS.expression("chain", "(x * 2.0 + 1.0) * x - 3.0", uses=("add", "mul", "sub"), x=vmem(f32))
PAIRS.expression("same-twice", "x * x + x", uses=("add", "mul"), x=vmem(f32))

# --- masks -----------------------------------------------------------------------------------------------------------

for symbol, name in (("&", "bitwise_and"), ("|", "bitwise_or"), ("^", "bitwise_xor")):
    both = {"x": vmem(f32), "y": vmem(f32)}
    PAIRS.expression(f"mask-{name}", f"(x < 0.0) {symbol} (y < 1.0)", uses=(name, "lt"), **both)
COMPARED = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
for name, symbol in COMPARED.items():
    PAIRS.expression(
        f"mask-{name}",
        f"(x < 0.0) {symbol} (y < 1.0)",
        f"b.pallas.{name}(x < 0.0, y < 1.0)",
        uses=("lt",),
        x=vmem(f32),
        y=vmem(f32),
    )
    PAIRS.expression(
        f"condition-{name}",
        f"(s > 0) {symbol} (s < 3)",
        f"b.pallas.{name}(s > 0, s < 3)",
        uses=("lt", "gt"),
        s=smem(i32),
    )
for name in ("eq", "ne"):
    PAIRS.expression(
        f"mask-{name}-column",
        f"(x < 0.0) {COMPARED[name]} (c < 1.0)",
        f"b.pallas.{name}(x < 0.0, c < 1.0)",
        uses=("lt",),
        x=vmem(f32),
        c=vmem(f32, (8, 1)),
    )
PAIRS.expression("equal", "x == y", "x.eq(y)", uses=("eq",), x=vmem(f32), y=vmem(f32))
PAIRS.expression("not-equal", "x != 0.0", "x.ne(0.0)", uses=("ne",), x=vmem(f32))
PAIRS.expression("mask-not", "~(x < 0.0)", uses=("bitwise_not", "lt"), x=vmem(f32))
PAIRS.expression("condition-and", "(s > 0) & (s < 3)", uses=("bitwise_and", "gt", "lt"), s=smem(i32))
PAIRS.expression("condition-not", "~(s > 0)", uses=("bitwise_not", "gt"), s=smem(i32))
PAIRS.expression(
    "logical-and", "jnp.logical_and(s > 0, s < 3)", "(s > 0) & (s < 3)", uses=("bitwise_and",), s=smem(i32)
)
PAIRS.expression("logical-or", "jnp.logical_or(s > 0, s < 3)", "(s > 0) | (s < 3)", uses=("bitwise_or",), s=smem(i32))
PAIRS.expression("logical-not", "jnp.logical_not(s > 0)", "b.pallas.logical_not(s > 0)", uses=("gt",), s=smem(i32))
for dtype in (i32, f32, bf16, u32):
    PAIRS.expression(f"logical-not-{dtype}", "jnp.logical_not(x)", "b.pallas.logical_not(x)", x=vmem(dtype))

# --- selects ---------------------------------------------------------------------------------------------------------

WHERE = {
    "vector-vector": "x < y, x, y",
    "vector-number": "x < y, x, {number}",
    "number-vector": "x < y, {number}, y",
    "number-number": "x < y, 1.0, 0.0",
    "int-int": "x < y, 1, 0",
    "float-int": "x < y, 1.0, 0",
}
for dtype in NUMBERS:
    for name, text in WHERE.items():
        text = text.format(number="0.0" if dtype.is_float else "7")
        row = "jnp.where(mask, x, 0.0)" if name == "vector-number" else None
        PAIRS.expression(
            f"where-{name}-{dtype}",
            f"jnp.where({text})",
            f"b.pallas.where({text})",
            row=row,
            uses=("lt",),
            x=vmem(dtype),
            y=vmem(dtype),
        )
X, COLUMN, ROW, S, T = vmem(f32), vmem(f32, (8, 1)), vmem(f32, (1, 128)), smem(i32), smem(i32)
for name, text, args in [
    ("infinity", "x < 0.0, x, float('-inf')", {"x": X}),
    ("int-literal-into-float", "x < 0.0, x, 0", {"x": X}),
    ("scalar-condition", "s > 0, x, 0.0", {"x": X, "s": S}),
    ("scalar-condition-vectors", "s > 0, x, x * 2.0", {"x": X, "s": S}),
    ("column-condition", "c > 0, x, 0.0", {"x": X, "c": COLUMN}),
    ("row-operand", "x > 0.0, x, r", {"x": X, "r": ROW}),
    ("column-operand", "x > 0.0, c, x", {"x": X, "c": COLUMN}),
    ("scalars", "s > 0, s, 1", {"s": S}),
    ("scalar-numbers", "s > 0, 2, 1", {"s": S}),
    ("scalar-number-first", "s > 0, 2, s", {"s": S}),
    ("two-scalars", "s > t, s, t", {"s": S, "t": T}),
]:
    PAIRS.expression(f"where-{name}", f"jnp.where({text})", f"b.pallas.where({text})", uses=("gt", "lt"), **args)
PAIRS.expression("select", "lax.select(x < y, x, y)", "b.pallas.select(x < y, x, y)", x=vmem(f32), y=vmem(f32))
PAIRS.expression("select-number", "lax.select(s > 0, s, 7)", "b.pallas.select(s > 0, s, 7)", s=smem(i32))
PAIRS.expression("select-number-first", "lax.select(s > 0, 7, s)", "b.pallas.select(s > 0, 7, s)", s=smem(i32))

# --- casts -----------------------------------------------------------------------------------------------------------

SHAPES = {32: (8, 128), 16: (16, 128), 8: (32, 128), 4: (64, 128)}
#: Pallas refuses them: floats of one width.
REFUSED_CASTS = {(bf16, f16), (f16, bf16), (f8e4m3fn, f8e5m2), (f8e5m2, f8e4m3fn)}
for source in JAX_NAMES:
    for target, shown in JAX_NAMES.items():
        if source is not target and (source, target) not in REFUSED_CASTS:
            PAIRS.expression(
                f"astype-{source}-{target}",
                f"x.astype({shown})",
                f"b.pallas.astype(x, {target})",
                x=vmem(source, SHAPES[source.bits]),
            )
for dtype in (i32, u32, f32, bf16, i8, i16):
    PAIRS.expression(
        f"astype-bool-{dtype}",
        f"(x > 0.0).astype({JAX_NAMES[dtype]})",
        f"b.pallas.astype(x > 0.0, {dtype})",
        uses=("gt",),
        x=vmem(f32),
    )
for dtype in (i32, u32, f32, bf16, i8):
    PAIRS.expression(
        f"astype-{dtype}-bool", "x.astype(jnp.bool_)", "b.pallas.astype(x, i1)", x=vmem(dtype, SHAPES[dtype.bits])
    )
for source, target in ((i32, f32), (f32, i32), (i32, u32), (u32, f32)):
    PAIRS.expression(
        f"astype-scalar-{source}-{target}",
        f"s.astype({JAX_NAMES[target]})",
        f"b.pallas.astype(s, {target})",
        s=smem(source),
    )
PAIRS.expression("astype-scalar-bool-f32", "(s > 0).astype(jnp.float32)", "b.pallas.astype(s > 0, f32)", s=smem(i32))
for source, target in (
    (f32, i32),
    (f32, u32),
    (i32, u32),
    (bf16, i16),
    (bf16, f32),
    (f32, bf16),
    (u8, i8),
    (i8, i32),
    (i32, i8),
):
    PAIRS.expression(
        f"bitcast-{source}-{target}",
        f"pltpu.bitcast(x, {JAX_NAMES[target]})",
        f"b.pallas.bitcast(x, {target})",
        x=vmem(source, (32, 128)),
    )
