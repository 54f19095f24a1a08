"""Shapes, fills, reductions and products."""

from __future__ import annotations

from conformance.cases.cheat_sheet.elementwise import JAX_NAMES
from conformance.cases.cheat_sheet.pairs import Pairs, smem, vmem
from mosaic_tpu.builder import bf16, f8e4m3fn, f16, f32, i8, i32, u32

PAIRS = Pairs("shapes")

# --- fills -----------------------------------------------------------------------------------------------------------

for dtype in (f32, bf16, i32, u32):
    name = JAX_NAMES[dtype]
    for shape in ((8, 128), (128,), (2, 8, 128)):
        rank = len(shape)
        PAIRS.expression(f"zeros-{rank}d-{dtype}", f"jnp.zeros({shape}, {name})", f"b.pallas.zeros({shape}, {dtype})")
        PAIRS.expression(f"ones-{rank}d-{dtype}", f"jnp.ones({shape}, {name})", f"b.pallas.ones({shape}, {dtype})")
        PAIRS.expression(
            f"full-{rank}d-{dtype}", f"jnp.full({shape}, 3, {name})", f"b.pallas.full({shape}, 3, {dtype})"
        )
    PAIRS.expression(
        f"zeros-scalar-{dtype}", f"jnp.zeros((), {name}) + x", f"b.pallas.zeros((), {dtype}) + x", x=vmem(dtype)
    )
    PAIRS.expression(
        f"zeros-like-{dtype}", "jnp.zeros_like(x) + x", "b.pallas.zeros(x.shape, x.dtype) + x", x=vmem(dtype)
    )
PAIRS.expression(
    "full-infinity", "jnp.full((8, 128), -jnp.inf, jnp.float32)", "b.pallas.full((8, 128), -float('inf'), f32)"
)
PAIRS.expression("full-scalar-value", "jnp.full((8, 128), s)", "b.pallas.full((8, 128), s, f32)", s=smem(f32))

# --- iota ------------------------------------------------------------------------------------------------------------

ARANGE = "jnp.arange(N, dtype=jnp.int32)"
for n in (8, 128, 256):
    PAIRS.expression(f"arange-{n}", f"jnp.arange({n}, dtype=jnp.int32)", f"b.pallas.arange({n}, i32)", row=ARANGE)
    PAIRS.expression(f"arange-{n}-guide", f"jnp.arange({n}, dtype=jnp.int32)", f"b.arange({n}, i32)", row=ARANGE)
PAIRS.expression(
    "arange-offset", "s * 8 + jnp.arange(128)", "s * 8 + b.pallas.arange(128, i32)", uses=("add", "mul"), s=smem(i32)
)
for shape, axes in (((8, 128), (0, 1)), ((2, 8, 128), (0, 1, 2)), ((128,), (0,)), ((1, 128), (1,))):
    for axis in axes:
        PAIRS.expression(
            f"broadcasted-iota-{len(shape)}d-{axis}-of-{shape[0]}",
            f"lax.broadcasted_iota(jnp.int32, {shape}, {axis})",
            f"b.pallas.broadcasted_iota(i32, {shape}, {axis})",
        )

# --- broadcasts, reshapes --------------------------------------------------------------------------------------------

for source, target in [
    ((1, 128), (8, 128)),
    ((8, 1), (8, 128)),
    ((128,), (8, 128)),
    ((8, 128), (2, 8, 128)),
    ((8, 128), (8, 128)),
    ((128,), (1, 128)),
    ((1, 1), (8, 128)),
    ((2, 1, 128), (2, 8, 128)),
]:
    label = "x".join(map(str, source)) + "-to-" + "x".join(map(str, target))
    for dtype in (f32, bf16, i32):
        PAIRS.expression(
            f"broadcast-to-{label}-{dtype}",
            f"jnp.broadcast_to(x, {target})",
            f"b.pallas.broadcast_to(x, {target})",
            x=vmem(dtype, source),
        )
PAIRS.expression(
    "broadcast-to-scalar", "jnp.broadcast_to(s, (8, 128))", "b.pallas.broadcast_to(s, (8, 128))", s=smem(f32)
)
PAIRS.expression(
    "broadcast-to-number",
    "jnp.broadcast_to(1.5, (8, 128)) + x",
    "b.pallas.broadcast_to(1.5, (8, 128)) + x",
    uses=("add",),
    x=vmem(f32),
)
PAIRS.expression("broadcast-operands", "x + c", uses=("add",), x=vmem(f32, (1, 128)), c=vmem(f32, (8, 1)))
PAIRS.expression("broadcast-ranks", "x + c", uses=("add",), x=vmem(f32, (2, 8, 128)), c=vmem(f32, (8, 128)))
PAIRS.expression("broadcast-one-element", "x * c", uses=("mul",), x=vmem(f32), c=vmem(f32, (1, 1)))
for target in ((16, 64), (1024,), (4, 2, 128), (8, 128), (2, 4, 128), (1, 8, 128)):
    label = "x".join(map(str, target))
    PAIRS.expression(f"reshape-{label}", f"x.reshape({target})", f"b.pallas.reshape(x, {target})", x=vmem(f32))
PAIRS.expression("reshape-rest", "x.reshape(-1, 64)", "b.pallas.reshape(x, (-1, 64))", x=vmem(f32))
PAIRS.expression(
    "reshape-scalar", "s.reshape(1, 1) + x", "b.pallas.reshape(s, (1, 1)) + x", uses=("add",), s=smem(f32), x=vmem(f32)
)
PAIRS.expression("reshape-to-scalar", "x.reshape(())", "b.pallas.reshape(x, ())", x=vmem(f32, (1, 1)))
for axis in (0, 1, 2, -1, (0, 1), (0, 3), ()):
    label = str(axis).replace(", ", "-").strip("()") or "none"
    PAIRS.expression(
        f"expand-dims-{label}", f"jnp.expand_dims(x, {axis})", f"b.pallas.expand_dims(x, {axis})", x=vmem(f32)
    )
PAIRS.expression(
    "expand-dims-scalar",
    "jnp.expand_dims(s, 0) + x",
    "b.pallas.expand_dims(s, 0) + x",
    uses=("add",),
    s=smem(f32),
    x=vmem(f32),
)
PAIRS.expression("new-axis-last", "x[:, None]", uses=("index",), x=vmem(f32, (128,)))
PAIRS.expression("new-axis-first", "x[None, :]", uses=("index",), x=vmem(f32, (128,)))
PAIRS.expression("new-axis-between", "x[:, None, :]", uses=("index",), x=vmem(f32))
PAIRS.expression("new-axis-ellipsis", "x[..., None]", uses=("index",), x=vmem(f32))
PAIRS.expression("new-axes-of-a-scalar", "x + s[None, None]", uses=("index", "add"), x=vmem(f32), s=smem(f32))
PAIRS.expression(
    "outer-product", "x[:, None] * y[None, :]", uses=("index", "mul"), x=vmem(f32, (8,)), y=vmem(f32, (128,))
)
for shape, axis in (((1, 128), None), ((1, 8, 128), 0), ((8, 1, 128), 1), ((1, 1, 8, 128), (0, 1)), ((8, 1), -1)):
    label = "x".join(map(str, shape)) + ("" if axis is None else f"-{axis}".replace(", ", "-"))
    PAIRS.expression(f"squeeze-{label}", f"jnp.squeeze(x, {axis})", f"b.pallas.squeeze(x, {axis})", x=vmem(f32, shape))
PAIRS.expression("squeeze-to-scalar", "jnp.squeeze(x)", "b.pallas.squeeze(x)", x=vmem(f32, (1, 1)))

# --- parts and wholes ------------------------------------------------------------------------------------------------

for name, theirs in [
    ("rows", "x[2:6, :]"),
    ("columns", "x[:, 0:64]"),
    ("row", "x[3]"),
    ("last-row", "x[-1]"),
    ("row-part", "x[3, 0:64]"),
    ("element", "x[3, 5]"),
    ("column", "x[:, 3]"),
    ("kept-row", "x[3:4]"),
    ("whole", "x[:, :]"),
    ("row-new-axis", "x[3][None, :]"),
    ("ellipsis", "x[..., 0:64]"),
]:
    PAIRS.expression(f"index-{name}", theirs, uses=("index",), x=vmem(f32))
PAIRS.expression("index-3d", "x[1]", uses=("index",), x=vmem(f32, (2, 8, 128)))
PAIRS.expression("index-3d-middle", "x[:, 1]", uses=("index",), x=vmem(f32, (2, 8, 128)))
PAIRS.expression("slice", "lax.slice(x, (2, 0), (6, 128))", "b.pallas.slice(x, (2, 0), (6, 128))", x=vmem(f32))
PAIRS.expression(
    "slice-bf16", "lax.slice(x, (0, 0), (16, 128))", "b.pallas.slice(x, (0, 0), (16, 128))", x=vmem(bf16, (32, 128))
)
for axis in (0, 1):
    PAIRS.expression(
        f"concatenate-{axis}",
        f"jnp.concatenate([x, y], axis={axis})",
        f"b.pallas.concatenate([x, y], {axis})",
        x=vmem(f32),
        y=vmem(f32),
    )
PAIRS.expression(
    "concatenate-three",
    "jnp.concatenate([x, y, x], axis=0)",
    "b.pallas.concatenate([x, y, x], 0)",
    x=vmem(bf16, (16, 128)),
    y=vmem(bf16, (32, 128)),
)
PAIRS.expression("concatenate-one", "jnp.concatenate([x], axis=0)", "b.pallas.concatenate([x], 0)", x=vmem(f32))
PAIRS.expression(
    "concatenate-negative", "jnp.concatenate([x, x], axis=-1)", "b.pallas.concatenate([x, x], -1)", x=vmem(f32)
)
PAIRS.expression("transpose", "x.T", "b.transpose(x, (1, 0))", x=vmem(f32, (128, 128)))
PAIRS.expression("transpose-3d", "jnp.transpose(x, (1, 0, 2))", "b.transpose(x, (1, 0, 2))", x=vmem(f32, (2, 8, 128)))
PAIRS.expression("roll", "pltpu.roll(x, 1, axis=1)", "b.rotate(x, 1, 1)", x=vmem(f32))
PAIRS.expression("tile", "jnp.tile(x, (2, 1))", "b.pallas.concatenate([x, x], 0)", x=vmem(f32))

# --- reductions ------------------------------------------------------------------------------------------------------

REDUCTIONS = Pairs("reductions")
for name in ("sum", "max", "min"):
    for dtype in (f32, bf16, f16, i32):
        for axis in (0, 1, -1, (0, 1), None):
            if dtype.bits == 16 and name != "sum" and axis in ((0, 1), None):
                continue  # Pallas makes scalars of 32-bit elements only
            label = {None: "to-scalar", (0, 1): "both-axes"}.get(axis, f"axis-{axis}")
            row = "jnp.sum(b_h * b_k[:, None], axis=0)" if (name, axis) == ("sum", 0) else None
            REDUCTIONS.expression(
                f"{name}-{label}-{dtype}",
                f"jnp.{name}(x, axis={axis})",
                f"b.pallas.{name}(x, {axis})",
                row=row,
                x=vmem(dtype),
            )
        for axis in (0, 1) if dtype.bits == 16 and name != "sum" else (0, 1, None):
            label = "all" if axis is None else f"axis-{axis}"
            REDUCTIONS.expression(
                f"{name}-{label}-keepdims-{dtype}",
                f"jnp.{name}(x, axis={axis}, keepdims=True)",
                f"b.pallas.{name}(x, {axis}, keepdims=True)",
                x=vmem(dtype),
            )
    for axis in (0, 1, 2, (0, 1), (1, 2), (0, 2), None):
        label = "to-scalar" if axis is None else str(axis).replace(", ", "-").strip("()")
        REDUCTIONS.expression(
            f"{name}-3d-{label}", f"jnp.{name}(x, axis={axis})", f"b.pallas.{name}(x, {axis})", x=vmem(f32, (2, 8, 128))
        )
    REDUCTIONS.expression(f"{name}-1d", f"jnp.{name}(x)", f"b.pallas.{name}(x)", x=vmem(f32, (128,)))
REDUCTIONS.expression(
    "softmax",
    "(lambda e: e / jnp.sum(e, axis=1, keepdims=True))(jnp.exp(x - jnp.max(x, axis=1, keepdims=True)))",
    "(lambda e: e / b.pallas.sum(e, 1, keepdims=True))(b.exp(x - b.pallas.max(x, 1, keepdims=True)))",
    uses=("sub", "true_divide"),
    x=vmem(f32),
)
REDUCTIONS.expression(
    "norm",
    "jnp.sqrt(jnp.sum(x * x) + 1e-6)",
    "b.sqrt(b.pallas.sum(x * x) + 1e-6)",
    row="jnp.sqrt(jnp.sum(b_q * b_q) + 1e-6)",
    uses=("mul", "add"),
    x=vmem(f32, (128,)),
)
REDUCTIONS.expression(
    "weighted-sum",
    "jnp.sum(h * k[:, None], axis=0)",
    "b.pallas.sum(h * k[:, None], 0)",
    row="jnp.sum(b_h * b_k[:, None], axis=0)",
    uses=("index", "mul"),
    h=vmem(f32),
    k=vmem(f32, (8,)),
)
REDUCTIONS.expression(
    "weighted-sum-guide",
    "jnp.sum(h * k[:, None], axis=0)",
    "b.multi_reduction('add', h * b.broadcast_to(b.shape_cast(k, (8, 1)), (8, 128)), b.zeros((128,), f32), (0,))",
    row="jnp.sum(b_h * b_k[:, None], axis=0)",
    h=vmem(f32),
    k=vmem(f32, (8,)),
)

# --- products --------------------------------------------------------------------------------------------------------

DOTS = Pairs("dot")
TYPES = [(f32, None), (bf16, f32), (i8, i32), (f8e4m3fn, f32)]
for dtype, result in TYPES:
    args = {"x": vmem(dtype, (128, 256)), "y": vmem(dtype, (256, 128))}
    label = f"{dtype}" if result is None else f"{dtype}-to-{result}"
    theirs, ours = (
        ("", "")
        if result is None
        else (
            f", preferred_element_type={JAX_NAMES[result]}",
            f", preferred_element_type={result}",
        )
    )
    DOTS.expression(f"dot-{label}", f"jnp.dot(x, y{theirs})", f"b.pallas.dot(x, y{ours})", **args)
    for name, dims in (
        ("nt", "(((1,), (1,)), ((), ()))"),
        ("tn", "(((0,), (0,)), ((), ()))"),
        ("tt", "(((0,), (1,)), ((), ()))"),
    ):
        shapes = {"x": (128, 256) if name == "nt" else (256, 128), "y": (256, 128) if name == "tn" else (128, 256)}
        DOTS.expression(
            f"dot-general-{name}-{label}",
            f"lax.dot_general(x, y, {dims}{theirs})",
            f"b.pallas.dot_general(x, y, {dims}{ours})",
            **{n: vmem(dtype, s) for n, s in shapes.items()},
        )
    DOTS.expression(
        f"einsum-nt-{label}",
        f"jnp.einsum('nd,md->nm', x, y{theirs})",
        f"b.pallas.einsum('nd,md->nm', x, y{ours})",
        x=vmem(dtype, (128, 256)),
        y=vmem(dtype, (128, 256)),
    )
DOTS.expression("matmul-operator", "x @ y", "x @ y", x=vmem(f32, (8, 128)), y=vmem(f32, (128, 128)))
DOTS.expression(
    "dot-general-batch",
    "lax.dot_general(x, y, (((2,), (1,)), ((0,), (0,))))",
    "b.pallas.dot_general(x, y, (((2,), (1,)), ((0,), (0,))))",
    x=vmem(f32, (2, 8, 128)),
    y=vmem(f32, (2, 128, 128)),
)
DOTS.expression(
    "einsum-batch",
    "jnp.einsum('bnd,bmd->bnm', x, y)",
    "b.pallas.einsum('bnd,bmd->bnm', x, y)",
    x=vmem(f32, (2, 8, 128)),
    y=vmem(f32, (2, 8, 128)),
)
DOTS.expression(
    "einsum-nn",
    "jnp.einsum('nm,md->nd', x, y)",
    "b.pallas.einsum('nm,md->nd', x, y)",
    x=vmem(f32),
    y=vmem(f32, (128, 128)),
)
for theirs, ours in (
    ("lax.Precision.HIGHEST", "'fp32'"),
    ("lax.Precision.HIGH", "'bf16x3'"),
    ("lax.Precision.DEFAULT", "None"),
):
    DOTS.expression(
        f"dot-{theirs.rpartition('.')[2].lower()}",
        f"jnp.dot(x, y, precision={theirs})",
        f"b.pallas.dot(x, y, precision={ours})",
        x=vmem(f32),
        y=vmem(f32, (128, 128)),
    )
DOTS.expression(
    "dot-accumulate",
    "y + jnp.dot(x, w, preferred_element_type=jnp.float32)",
    "y + b.pallas.dot(x, w, preferred_element_type=f32)",
    uses=("add",),
    x=vmem(bf16, (128, 128)),
    w=vmem(bf16, (128, 128)),
    y=vmem(f32, (128, 128)),
)
PAIRS.pairs += [*REDUCTIONS, *DOTS]
