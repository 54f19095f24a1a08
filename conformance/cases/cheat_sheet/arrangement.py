"""Stacks, uneven parts, differences, grids, products of places, dimensions moved by name, numbers from a start."""

from __future__ import annotations

from conformance.cases.cheat_sheet.elementwise import JAX_NAMES
from conformance.cases.cheat_sheet.math import FLOATS, tile
from conformance.cases.cheat_sheet.pairs import Pairs, vmem
from mosaic_tpu.builder import bf16, f32, i8, i16, i32, u32

PAIRS = Pairs("arrangement")
CUBE = (4, 8, 128)

# --- numbers from a start --------------------------------------------------------------------------------------------

for number, form in enumerate(("0, 128", "3, 131", "3, 259, 2", "0, 256, 2", "5, -3, -1", "0, 128, 1", "1, 128, 1")):
    PAIRS.expression(f"arange-from-{number}", f"jnp.arange({form})", f"b.pallas.arange({form})")
    for dtype in (u32, i16, i8):
        if form != "3, 259, 2" and form != "0, 256, 2":
            PAIRS.expression(
                f"arange-from-{number}-{dtype}",
                f"jnp.arange({form}, dtype={JAX_NAMES[dtype]})",
                f"b.pallas.arange({form}, dtype={dtype})",
            )

# --- joined and split ------------------------------------------------------------------------------------------------

for name in ("dstack", "column_stack"):
    for dtype in FLOATS:
        PAIRS.expression(
            f"{name}-{dtype}", f"jnp.{name}([x, y])", f"b.pallas.{name}([x, y])", x=tile(dtype), y=tile(dtype)
        )
    PAIRS.expression(
        f"{name}-1d", f"jnp.{name}([x, y])", f"b.pallas.{name}([x, y])", x=vmem(f32, (128,)), y=vmem(f32, (128,))
    )
PAIRS.expression("dstack-3d", "jnp.dstack([x, x])", "b.pallas.dstack([x, x])", x=vmem(f32, CUBE))
PAIRS.expression(
    "column-stack-ranks",
    "jnp.column_stack([x, y])",
    "b.pallas.column_stack([x, y])",
    x=vmem(f32),
    y=vmem(f32, (8,)),
)
for number, form in enumerate(("x, 3", "x, 2", "x, [2, 5]", "x, 3, 1", "x, 3, -1")):
    PAIRS.expression(
        f"array-split-{number}", f"jnp.array_split({form})[1]", f"b.pallas.array_split({form})[1]", x=vmem(f32)
    )
for number, form in enumerate(("x, 1, 0", "x, 5, 1", "x, -3, 0")):
    PAIRS.expression(f"delete-{number}", f"jnp.delete({form})", f"b.pallas.delete({form})", x=vmem(f32))

# --- neighbours, grids, products -------------------------------------------------------------------------------------

for number, form in enumerate(("x", "x, axis=0", "x, 2, axis=0", "x, 3")):
    for dtype in (f32, bf16, i32):
        PAIRS.expression(f"diff-{number}-{dtype}", f"jnp.diff({form})", f"b.pallas.diff({form})", x=tile(dtype))
PAIRS.expression("diff-1d", "jnp.diff(x)", "b.pallas.diff(x)", x=vmem(f32, (128,)))
for number, form in enumerate(("x, y", "x, y, indexing='ij'", "x, y, sparse=True", "x, y, x")):
    PAIRS.expression(
        f"meshgrid-{number}",
        f"(lambda g: g[0] * g[1] + g[-1])(jnp.meshgrid({form}))",
        f"(lambda g: g[0] * g[1] + g[-1])(b.pallas.meshgrid({form}))",
        uses=("add", "mul"),
        x=vmem(f32, (128,)),
        y=vmem(f32, (8,)),
    )
PAIRS.expression("meshgrid-one", "jnp.meshgrid(x)[0]", "b.pallas.meshgrid(x)[0]", x=vmem(f32, (128,)))
for number, (x, y) in enumerate((((2, 2), (8, 128)), ((2,), (128,)), ((2,), (8, 128)), ((2, 2), (128,)))):
    PAIRS.expression(f"kron-{number}", "jnp.kron(x, y)", "b.pallas.kron(x, y)", x=vmem(f32, x), y=vmem(f32, y))
for number, form in enumerate(("x, 2", "x, 1", "x, 0, 3", "x, 0, 2", "x, -1, 1", "x, 1, -1")):
    PAIRS.expression(f"rollaxis-{number}", f"jnp.rollaxis({form})", f"b.pallas.rollaxis({form})", x=vmem(f32, CUBE))
for number, form in enumerate(("x, 3", "x, (1, 2), (0, 1)", "x, 1, (0, 1)", "x, -1")):
    PAIRS.expression(f"jnp-roll-more-{number}", f"jnp.roll({form})", f"b.pallas.jnp_roll({form})", x=vmem(f32))

# --- dimensions moved by name ----------------------------------------------------------------------------------------

for number, (equation, sizes, shape, dtype) in enumerate(
    [
        ("ab->ba", "", (8, 128), f32),
        ("ab->ab", "", (8, 128), f32),
        ("nhwc->nchw", "", (2, 4, 8, 128), f32),
        ("abc->(ab)c", "", CUBE, f32),
        ("abc->cba", "", CUBE, f32),
        ("(ab)c->abc", ", a=2", (16, 128), f32),
        ("a(bc)->bac", ", b=2", (8, 256), f32),
        ("abc->b(ac)", "", CUBE, f32),
        ("a(bc)->(ba)c", ", b=2", (16, 256), f32),
        ("(ab)c->bac", ", a=2", (16, 128), f32),
        ("(ab)(cd)->acbd", ", a=2, c=2", (16, 256), f32),
        ("(ab)(cd)->(ac)(bd)", ", a=2, c=2", (16, 256), f32),
        ("(ab)(cd)->cabd", ", b=16, c=4", (32, 512), f32),
        ("ab(cd)->cabd", ", c=2", (2, 8, 256), f32),
        ("(abc)d->b(ac)d", ", a=2, b=2", (32, 128), f32),
        ("a(bc)->bac", ", b=2", (1, 256), f32),
        ("a(bc)->bac", ", b=2", (16, 256), bf16),
        ("(ab)(cd)->acbd", ", a=2, c=2", (32, 256), bf16),
        ("(ab)(cd)->acbd", ", b=8, c=2", (16, 256), bf16),
        ("(ab)(cd)->acbd", ", b=32, c=2", (64, 256), i8),
        ("(ab)->ba", ", a=8", (1024,), f32),
        ("ab->(ba)", "", (8, 128), f32),
    ]
):
    PAIRS.expression(
        f"einshape-{number}",
        f"pltpu.einshape('{equation}', x{sizes})",
        f"b.pallas.einshape('{equation}', x{sizes})",
        x=vmem(dtype, shape),
    )
PAIRS.expression(
    "einshape-asserted",
    "pltpu.einshape('a(bc)->bac', x, assert_is_tile_preserving=True, b=2)",
    "b.pallas.einshape('a(bc)->bac', x, assert_is_tile_preserving=True, b=2)",
    x=vmem(f32, (8, 256)),
)
