"""Transposes, joins, splits, copies, rotations, padding, gathers, and vectors made of their shape."""

from __future__ import annotations

from conformance.cases.cheat_sheet.elementwise import JAX_NAMES
from conformance.cases.cheat_sheet.math import FLOATS, tile
from conformance.cases.cheat_sheet.pairs import Pairs, out, smem, vmem
from mosaic_tpu.builder import bf16, f32, i8, i16, i32, u32
from mosaic_tpu.builder._compat import PALLAS_PADS_BY_LESS

PAIRS = Pairs("movement")
CUBE = (2, 8, 128)

# --- dimensions reordered ---------------------------------------------------------------------------------------------

for dtype in (*FLOATS, i32, i8):
    PAIRS.expression(f"transpose-T-{dtype}", "x.T", "b.pallas.transpose(x)", x=tile(dtype))
for axes in ((1, 0, 2), (0, 2, 1), (2, 1, 0), (0, 1, 2), (-1, 0, 1)):
    label = "-".join(map(str, axes))
    PAIRS.expression(
        f"transpose-axes-{label}", f"jnp.transpose(x, {axes})", f"b.pallas.transpose(x, {axes})", x=vmem(f32, CUBE)
    )
PAIRS.expression("transpose-3d-reversed", "jnp.transpose(x)", "b.pallas.transpose(x)", x=vmem(f32, CUBE))
PAIRS.expression("transpose-1d", "x.T", "b.pallas.transpose(x)", x=vmem(f32, (128,)))
for first, second in ((0, 1), (1, 2), (-1, -2), (0, 2), (1, 1)):
    PAIRS.expression(
        f"swapaxes-{first}-{second}",
        f"jnp.swapaxes(x, {first}, {second})",
        f"b.pallas.swapaxes(x, {first}, {second})",
        x=vmem(f32, CUBE),
    )
for number, (source, target) in enumerate(((0, 1), (0, -1), (2, 0), ((0, 1), (1, 0)), ((0, 1), (-1, 0)))):
    PAIRS.expression(
        f"moveaxis-{number}",
        f"jnp.moveaxis(x, {source}, {target})",
        f"b.pallas.moveaxis(x, {source}, {target})",
        x=vmem(f32, CUBE),
    )

# --- joined and split -------------------------------------------------------------------------------------------------

for axis in (0, 1, 2, -1):
    for dtype in FLOATS:
        PAIRS.expression(
            f"stack-{axis}-{dtype}",
            f"jnp.stack([x, y], axis={axis})",
            f"b.pallas.stack([x, y], {axis})",
            x=tile(dtype),
            y=tile(dtype),
        )
PAIRS.expression("stack-one", "jnp.stack([x])", "b.pallas.stack([x])", x=vmem(f32))
PAIRS.expression("stack-three", "jnp.stack([x, y, x])", "b.pallas.stack([x, y, x])", x=vmem(f32), y=vmem(f32))
PAIRS.expression("stack-rows", "jnp.stack([x, y])", "b.pallas.stack([x, y])", x=vmem(f32, (128,)), y=vmem(f32, (128,)))
PAIRS.expression("stack-scalars", "jnp.stack([s, t])", "b.pallas.stack([s, t])", s=smem(f32), t=smem(f32))
for number in (0, 1):
    PAIRS.expression(
        f"unstack-{number}", f"jnp.unstack(x)[{number}]", f"b.pallas.unstack(x)[{number}]", x=vmem(f32, CUBE)
    )
PAIRS.expression("unstack-middle", "jnp.unstack(x, axis=1)[1]", "b.pallas.unstack(x, 1)[1]", x=vmem(f32, (8, 2, 128)))
PAIRS.expression("unstack-scalars", "jnp.unstack(x)[1]", "b.pallas.unstack(x)[1]", x=vmem(f32, (2,)))
for name, sections, axis, shape in [
    ("rows", "2", 0, (16, 128)),
    ("columns", "2", 1, (8, 256)),
    ("last", "4", -1, (8, 512)),
    ("one", "1", 0, (8, 128)),
    ("at", "[8]", 0, (24, 128)),
    ("at-two", "[8, 24]", 0, (32, 128)),
]:
    PAIRS.expression(
        f"split-{name}",
        f"jnp.split(x, {sections}, axis={axis})[0]",
        f"b.pallas.split(x, {sections}, {axis})[0]",
        x=vmem(f32, shape),
    )
PAIRS.expression("split-lax", "lax.split(x, (8, 16), 0)[1]", "b.pallas.split(x, [8], 0)[1]", x=vmem(f32, (24, 128)))
for name in ("vstack", "hstack"):
    for shape in ((8, 128), (128,), CUBE):
        label = f"{len(shape)}d"
        PAIRS.expression(
            f"{name}-{label}", f"jnp.{name}([x, y])", f"b.pallas.{name}([x, y])", x=vmem(f32, shape), y=vmem(f32, shape)
        )
PAIRS.expression("vstack-ranks", "jnp.vstack([x, y])", "b.pallas.vstack([x, y])", x=vmem(f32, (128,)), y=vmem(f32))

# --- copies -----------------------------------------------------------------------------------------------------------

for number, reps in enumerate(((2, 1), (1, 2), (2, 3), (1, 1), (2, 1, 1), 2, (3,))):
    PAIRS.expression(f"tile-{number}", f"jnp.tile(x, {reps})", f"b.pallas.tile(x, {reps})", x=vmem(f32))
PAIRS.expression("tile-bf16", "jnp.tile(x, (2, 1))", "b.pallas.tile(x, (2, 1))", x=tile(bf16))
PAIRS.expression("tile-1d", "jnp.tile(x, 2)", "b.pallas.tile(x, 2)", x=vmem(f32, (128,)))
PAIRS.expression("tile-lax", "lax.tile(x, (2, 1))", "b.pallas.tile(x, (2, 1))", x=vmem(f32))
for axis in (0, 1, -1, None):
    for times in (1, 2, 3):
        PAIRS.expression(
            f"repeat-{times}-axis-{axis}",
            f"jnp.repeat(x, {times}, axis={axis})",
            f"b.pallas.repeat(x, {times}, {axis})",
            x=vmem(f32),
        )
PAIRS.expression("repeat-1d", "jnp.repeat(x, 2)", "b.pallas.repeat(x, 2)", x=vmem(f32, (128,)))
PAIRS.expression("repeat-3d", "jnp.repeat(x, 2, axis=1)", "b.pallas.repeat(x, 2, 1)", x=vmem(bf16, (2, 16, 128)))

# --- rotations --------------------------------------------------------------------------------------------------------

for axis in (0, 1):
    for dtype in (*FLOATS, i32):
        PAIRS.expression(
            f"roll-3-{axis}-{dtype}", f"pltpu.roll(x, 3, {axis})", f"b.pallas.roll(x, 3, {axis})", x=tile(dtype)
        )
    PAIRS.expression(
        f"roll-dynamic-{axis}", f"pltpu.roll(x, s, {axis})", f"b.pallas.roll(x, s, {axis})", x=vmem(f32), s=smem(i32)
    )
    other = 1 - axis
    PAIRS.expression(
        f"roll-strided-{axis}",
        f"pltpu.roll(x, 1, {axis}, stride=2, stride_axis={other})",
        f"b.pallas.roll(x, 1, {axis}, stride=2, stride_axis={other})",
        x=vmem(f32),
    )
PAIRS.expression("roll-zero", "pltpu.roll(x, 0, 1)", "b.pallas.roll(x, 0, 1)", x=vmem(f32))
PAIRS.expression("roll-3d", "pltpu.roll(x, 5, 2)", "b.pallas.roll(x, 5, 2)", x=vmem(f32, CUBE))
for shift, axis in ((3, 0), (3, 1), (-3, 1), (11, 0), (1, -1)):
    PAIRS.expression(
        f"jnp-roll-{shift}-{axis}",
        f"jnp.roll(x, {shift}, {axis})",
        f"b.pallas.jnp_roll(x, {shift}, {axis})",
        x=vmem(f32),
    )

# --- padding ----------------------------------------------------------------------------------------------------------

for name, widths in {
    "after": "((0, 8), (0, 0))",
    "before": "((8, 0), (0, 0))",
    "columns": "((0, 0), (128, 128))",
    "all": "((8, 8), (128, 128))",
    "one-number": "8",
    "nothing": "((0, 0), (0, 0))",
}.items():
    for dtype in (*FLOATS, i32, u32):
        PAIRS.expression(f"pad-{name}-{dtype}", f"jnp.pad(x, {widths})", f"b.pallas.pad(x, {widths})", x=tile(dtype))
for dtype in FLOATS:
    PAIRS.expression(
        f"pad-value-{dtype}",
        "jnp.pad(x, ((0, 16), (0, 0)), constant_values=1.5)",
        "b.pallas.pad(x, ((0, 16), (0, 0)), 1.5)",
        x=tile(dtype),
    )
PAIRS.expression(
    "pad-int-value",
    "jnp.pad(x, ((0, 8), (0, 0)), constant_values=1)",
    "b.pallas.pad(x, ((0, 8), (0, 0)), 1)",
    x=vmem(f32),
)
for name, value, config, dtype, args in [
    ("after", "1.0", "((0, 8, 0), (0, 0, 0))", f32, {}),
    ("both", "0.0", "((8, 8, 0), (128, 0, 0))", f32, {}),
    ("i32", "1", "((0, 8, 0), (0, 0, 0))", i32, {}),
    ("scalar", "s", "((0, 8, 0), (0, 0, 0))", f32, {"s": smem(f32)}),
]:
    PAIRS.expression(
        f"lax-pad-{name}",
        f"lax.pad(x, {value}, {config})",
        f"b.pallas.lax_pad(x, {value}, {config})",
        x=tile(dtype),
        **args,
    )
if PALLAS_PADS_BY_LESS:
    for name, config in (("less", "((-8, 0, 0), (0, 128, 0))"), ("less-after", "((0, -8, 0), (0, 0, 0))")):
        PAIRS.expression(
            f"lax-pad-{name}",
            f"lax.pad(x, 0.0, {config})",
            f"b.pallas.lax_pad(x, 0.0, {config})",
            x=vmem(f32, (16, 128)),
        )

# --- broadcasts and gathers -------------------------------------------------------------------------------------------

for source, target, dims in [
    ((8,), (8, 128), (0,)),
    ((128,), (8, 128), (1,)),
    ((8, 128), (2, 8, 128), (1, 2)),
    ((2, 128), (2, 8, 128), (0, 2)),
    ((8, 1), (8, 128), (0, 1)),
    ((8, 128), (8, 128), (0, 1)),
    ((128,), (1, 128), (1,)),
]:
    label = "x".join(map(str, source)) + "-to-" + "x".join(map(str, target))
    PAIRS.expression(
        f"broadcast-in-dim-{label}",
        f"lax.broadcast_in_dim(x, {target}, {dims})",
        f"b.pallas.broadcast_in_dim(x, {target}, {dims})",
        x=vmem(f32, source),
    )
PAIRS.expression(
    "broadcast-in-dim-scalar",
    "lax.broadcast_in_dim(s, (8, 128), ())",
    "b.pallas.broadcast_in_dim(s, (8, 128), ())",
    s=smem(f32),
)
PAIRS.expression(
    "lax-broadcast", "lax.broadcast(x, (2,))", "b.pallas.broadcast_in_dim(x, (2, 8, 128), (1, 2))", x=vmem(f32)
)
for axis in (0, 1, -1):
    for dtype in (*FLOATS, i32):
        shape = tile(dtype).shape
        PAIRS.expression(
            f"take-along-axis-{axis}-{dtype}",
            f"jnp.take_along_axis(x, at, {axis})",
            f"b.pallas.take_along_axis(x, at, {axis})",
            x=tile(dtype),
            at=vmem(i32, shape),
        )
for mode in ("fill", "promise_in_bounds"):
    PAIRS.expression(
        f"take-along-axis-{mode}",
        f"jnp.take_along_axis(x, at, 0, mode='{mode}')",
        "b.pallas.take_along_axis(x, at, 0)",
        x=vmem(f32),
        at=vmem(i32),
    )
PAIRS.expression(
    "take-along-axis-3d",
    "jnp.take_along_axis(x, at, 1)",
    "b.pallas.take_along_axis(x, at, 1)",
    x=vmem(f32, CUBE),
    at=vmem(i32, CUBE),
)
PAIRS.expression(
    "take-along-axis-wider",
    "jnp.take_along_axis(x, at, 1)",
    "b.pallas.take_along_axis(x, at, 1)",
    x=vmem(f32),
    at=vmem(i32, (8, 256)),
)
for x, y in (((8,), (128,)), ((8, 2), (128,))):
    PAIRS.expression(f"outer-{len(x)}d", "jnp.outer(x, y)", "b.pallas.outer(x, y)", x=vmem(f32, x), y=vmem(f32, y))

# --- vectors made of their shape --------------------------------------------------------------------------------------

FILLS = Pairs("fills")
for dtype in (*FLOATS, i32, u32):
    for name in ("zeros_like", "ones_like"):
        FILLS.expression(
            f"{name.replace('_', '-')}-plus-{dtype}",
            f"jnp.{name}(x) + x",
            f"b.pallas.{name}(x) + x",
            uses=("add",),
            x=tile(dtype),
        )
    FILLS.expression(
        f"full-like-{dtype}", "jnp.full_like(x, 2) + x", "b.pallas.full_like(x, 2) + x", uses=("add",), x=tile(dtype)
    )
FILLS.expression(
    "full-like-values",
    "jnp.full_like(x, y) + x",
    "b.pallas.full_like(x, y) + x",
    uses=("add",),
    x=vmem(i32),
    y=vmem(f32),
)
FILLS.expression(
    "full-like-row",
    "jnp.full_like(x, y) + x",
    "b.pallas.full_like(x, y) + x",
    uses=("add",),
    x=vmem(i32),
    y=vmem(f32, (128,)),
)
FILLS.expression(
    "full-like-float", "jnp.full_like(x, 2.5) + x", "b.pallas.full_like(x, 2.5) + x", uses=("add",), x=vmem(f32)
)
for name, call in (("zeros", "zeros_like(x)"), ("ones", "ones_like(x)"), ("full", "full_like(x, 2.5)")):
    FILLS.refs(
        f"{name}-like-of-a-ref",
        f"o[...] = jnp.{call}",
        f"o[...] = b.pallas.{call}",
        uses=("store",),
        x=vmem(f32),
        o=out(f32),
    )
FILLS.refs(
    "zeros-like-of-another-type",
    "o[...] = jnp.zeros_like(x, dtype=jnp.int32)",
    "o[...] = b.pallas.zeros_like(x, dtype=i32)",
    uses=("store",),
    x=vmem(f32),
    o=out(i32),
)
for dtype in (f32, bf16, i32):
    shown = JAX_NAMES[dtype]
    for sizes in ("128", "8, 128", "8, 128, 1", "8, 128, -1"):
        label = sizes.replace(", ", "-")
        FILLS.expression(
            f"tri-{label}-{dtype}", f"jnp.tri({sizes}, dtype={shown})", f"b.pallas.tri({sizes}, dtype={dtype})"
        )
        FILLS.expression(
            f"eye-{label}-{dtype}", f"jnp.eye({sizes}, dtype={shown})", f"b.pallas.eye({sizes}, dtype={dtype})"
        )
FILLS.expression("identity", "jnp.identity(128)", "b.pallas.eye(128)")
for name in ("tril", "triu"):
    for dtype in (*FLOATS, i32, i16):
        FILLS.expression(f"{name}-{dtype}", f"jnp.{name}(x)", f"b.pallas.{name}(x)", x=tile(dtype))
    for k in (-1, 2):
        FILLS.expression(f"{name}-{k}", f"jnp.{name}(x, {k})", f"b.pallas.{name}(x, {k})", x=vmem(f32))
    FILLS.expression(f"{name}-3d", f"jnp.{name}(x)", f"b.pallas.{name}(x)", x=vmem(f32, CUBE))

PAIRS.pairs += [*FILLS]
