"""Operands of two element types, and numbers of a higher kind: what jnp converts, and where."""

from __future__ import annotations

from conformance.cases.cheat_sheet.pairs import Pairs, smem, vmem
from mosaic_tpu.builder import bf16, f16, f32, i8, i16, i32, u8, u16, u32

PAIRS = Pairs("promotion")
TILE = (32, 128)

# --- two values ------------------------------------------------------------------------------------------------------

#: Expressions of two operands: Pallas's, ours, the idiom of an operator.
OPERATORS = [
    ("x + y", None, "add"),
    ("x - y", None, "sub"),
    ("x * y", None, "mul"),
    ("x / y", None, "true_divide"),
    ("x // y", None, "floor_divide"),
    ("x % y", None, "remainder"),
    ("x < y", None, "lt"),
    ("jnp.equal(x, y)", "b.pallas.eq(x, y)", "eq"),
    ("jnp.maximum(x, y)", "b.pallas.maximum(x, y)", "maximum"),
    ("jnp.where(x > 0, x, y)", "b.pallas.where(x > 0, x, y)", "where"),
    ("jnp.clip(x, y)", "b.pallas.clip(x, y)", "clip"),
    ("jnp.fmod(x, y)", "b.pallas.fmod(x, y)", "fmod"),
    ("jnp.power(x, y)", "b.pallas.power(x, y)", "power"),
    ("jnp.arctan2(x, y)", "b.pallas.arctan2(x, y)", "arctan2"),
    ("jnp.copysign(x, y)", "b.pallas.copysign(x, y)", "copysign"),
    ("jnp.logaddexp(x, y)", "b.pallas.logaddexp(x, y)", "logaddexp"),
    ("jnp.logical_and(x, y)", "b.pallas.logical_and(x, y)", "logical_and"),
]
for theirs, ours, name in OPERATORS:
    for first, second in ((f32, i32), (i32, f32), (bf16, f32), (f32, bf16), (i32, bf16), (u32, i32)):
        uses = (name,) if ours is None else ("gt",) if "> 0" in theirs else ()
        PAIRS.expression(
            f"promote-{name}-{first}-{second}", theirs, ours, uses=uses, x=vmem(first, TILE), y=vmem(second, TILE)
        )
for first, second in ((i8, f32), (i8, i32), (i16, i32), (u8, i32), (u8, i16), (u16, i16), (u8, f32), (f16, f32)):
    PAIRS.expression(f"promote-add-{first}-{second}", "x + y", uses=("add",), x=vmem(first, TILE), y=vmem(second, TILE))
PAIRS.expression("promote-add-f16-bf16", "x + y", uses=("add",), x=vmem(f16, TILE), y=vmem(bf16, TILE))
for symbol, name in (("&", "bitwise_and"), ("|", "bitwise_or"), ("<<", "left_shift"), (">>", "right_shift")):
    PAIRS.expression(f"promote-{name}", f"x {symbol} y", uses=(name,), x=vmem(i32), y=vmem(u32))
for name, args in {
    "vector-row": {"x": vmem(f32), "y": vmem(i32, (128,))},
    "row-vector": {"x": vmem(i32, (128,)), "y": vmem(f32)},
    "scalar-vector": {"x": smem(f32), "y": vmem(i32)},
    "vector-scalar": {"x": vmem(f32), "y": smem(i32)},
    "scalars": {"x": smem(f32), "y": smem(i32)},
}.items():
    PAIRS.expression(f"promote-mul-{name}", "x * y", uses=("mul",), **args)
PAIRS.expression("promote-mask-times", "(x > 0.0) * x", uses=("gt", "mul"), x=vmem(f32))
PAIRS.expression("promote-mask-and", "(x > 0) & x", uses=("gt", "bitwise_and"), x=vmem(i32))
PAIRS.expression("promote-outer", "jnp.outer(x, y)", "b.pallas.outer(x, y)", x=vmem(bf16), y=vmem(i32, (128,)))

# --- a value and a number --------------------------------------------------------------------------------------------

for dtype in (i32, u32):
    for number, text, uses in (
        ("add", "x + 2.5", ("add",)),
        ("reversed", "2.5 - x", ("sub",)),
        ("whole", "x * 2.0", ("mul",)),
        ("less", "x < 0.5", ("lt",)),
        ("divide", "x / 2", ("true_divide",)),
        ("divide-float", "x / 2.5", ("true_divide",)),
        ("divided", "2 / x", ("true_divide",)),
        ("floor", "x // 2.5", ("floor_divide",)),
        ("floor-reversed", "2.5 // x", ("floor_divide",)),
        ("remainder", "x % 2.5", ("remainder",)),
    ):
        PAIRS.expression(f"promote-number-{number}-{dtype}", text, uses=uses, x=vmem(dtype))
    PAIRS.expression(
        f"promote-number-where-{dtype}",
        "jnp.where(x > 0, x, 2.5)",
        "b.pallas.where(x > 0, x, 2.5)",
        uses=("gt",),
        x=vmem(dtype),
    )
    PAIRS.expression(f"promote-number-clip-{dtype}", "jnp.clip(x, 0, 2.5)", "b.pallas.clip(x, 0, 2.5)", x=vmem(dtype))
PAIRS.expression("promote-scalar-number", "s * 2.5", uses=("mul",), s=smem(i32))
PAIRS.expression("promote-mask-number", "(x > 0) + 1", uses=("gt", "add"), x=vmem(i32))
PAIRS.expression("promote-mask-float", "(x > 0) * 2.5", uses=("gt", "mul"), x=vmem(i32))
PAIRS.expression("promote-numpy-f32", "x + np.float32(1.5)", uses=("add",), x=vmem(bf16))
PAIRS.expression("promote-numpy-f32-i32", "x + np.float32(1.5)", uses=("add",), x=vmem(i32))
PAIRS.expression("promote-numpy-i32-f32", "x + np.int32(7)", uses=("add",), x=vmem(f32))
for dtype in (i8, u8, i16):
    for name, symbol in (("floor_divide", "//"), ("remainder", "%"), ("true_divide", "/")):
        PAIRS.expression(f"narrow-{name}-{dtype}", f"x {symbol} 3", uses=(name,), x=vmem(dtype, TILE))
    PAIRS.expression(f"narrow-fmod-{dtype}", "jnp.fmod(x, 3)", "b.pallas.fmod(x, 3)", x=vmem(dtype, TILE))

# --- powers ----------------------------------------------------------------------------------------------------------

for name, text, dtype in [
    ("square", "x ** 2", f32),
    ("cube-i32", "x ** 3", i32),
    ("float", "x ** 2.5", f32),
    ("root-bf16", "x ** 0.5", bf16),
    ("reciprocal", "x ** -1", f32),
    ("of-two", "2 ** x", f32),
    ("of-two-i32", "2 ** x", i32),
    ("of-three-i32", "3 ** x", i32),
    ("values", "x ** x", f32),
    ("integers", "x ** x", i32),
    ("integers-u32", "x ** x", u32),
    ("integers-i8", "x ** x", i8),
]:
    PAIRS.expression(f"power-operator-{name}", text, uses=("power",), x=vmem(dtype, TILE))
for name, text, args in [
    ("numpy-integer", "x ** np.int32(3)", {"x": vmem(bf16, TILE)}),
    ("numpy-unsigned", "x ** np.uint32(7)", {"x": vmem(f32)}),
    ("true", "x ** True", {"x": vmem(f32)}),
    ("of-true", "True ** x", {"x": vmem(i32)}),
    ("of-numpy-two", "np.float16(2) ** x", {"x": vmem(f32)}),
    ("of-numpy-integer", "np.int8(3) ** x", {"x": vmem(i32)}),
    ("of-mask", "(x > 0) ** 2", {"x": vmem(i32)}),
    ("mask-to-integers", "(x > 0) ** x", {"x": vmem(i32)}),
    ("mask-to-floats", "(x > 0) ** x", {"x": vmem(f32)}),
    ("to-a-mask", "x ** (x > 0)", {"x": vmem(i32)}),
    ("types", "x ** y", {"x": vmem(i8, TILE), "y": vmem(i32, (128,))}),
    ("floats", "x ** y", {"x": vmem(bf16, (2, 16, 128)), "y": vmem(f32, (16, 128))}),
    ("floats-reversed", "x ** y", {"x": vmem(f32, (2, 16, 128)), "y": vmem(bf16, (16, 128))}),
    ("f16-to-integers", "x ** y", {"x": vmem(f16, TILE), "y": vmem(i32, TILE)}),
]:
    PAIRS.expression(f"power-operator-{name}", text, uses=("power", "gt") if ">" in text else ("power",), **args)
PAIRS.expression("power-operator-scalar", "s ** 3", uses=("power",), s=smem(i32))
PAIRS.expression("power-operator-row", "x ** y", uses=("power",), x=vmem(i32), y=vmem(i32, (128,)))
