"""Reductions beyond sum, max and min of one type: booleans, means, positions, and types to sum in."""

from __future__ import annotations

from conformance.cases.cheat_sheet.elementwise import JAX_NAMES
from conformance.cases.cheat_sheet.math import FLOATS, tile
from conformance.cases.cheat_sheet.pairs import Pairs, smem, vmem
from mosaic_tpu.builder import bf16, f8e5m2, f32, i8, i16, i32, u32

PAIRS = Pairs("reductions")
AXES = {"axis-0": 0, "axis-1": 1, "last-axis": -1, "both-axes": (0, 1), "all": None}

# --- sums in a type ---------------------------------------------------------------------------------------------------

for dtype in (i8, i16, f8e5m2):
    PAIRS.expression(f"sum-of-{dtype}", "jnp.sum(x, axis=0)", "b.pallas.sum(x, 0)", x=tile(dtype))
for axis in (0, None):
    label = "all" if axis is None else f"axis-{axis}"
    PAIRS.expression(
        f"sum-of-booleans-{label}",
        f"jnp.sum(x > 0.0, axis={axis})",
        f"b.pallas.sum(x > 0.0, {axis})",
        uses=("gt",),
        x=vmem(f32),
    )
    for source, target in ((bf16, f32), (i32, f32), (i8, i32), (f32, f32)):
        PAIRS.expression(
            f"sum-of-{source}-in-{target}-{label}",
            f"jnp.sum(x, axis={axis}, dtype={JAX_NAMES[target]})",
            f"b.pallas.sum(x, {axis}, dtype={target})",
            x=tile(source),
        )
PAIRS.expression(
    "sum-of-f32-in-bf16", "jnp.sum(x, axis=1, dtype=jnp.bfloat16)", "b.pallas.sum(x, 1, dtype=bf16)", x=vmem(f32)
)

# --- scalars ----------------------------------------------------------------------------------------------------------

for name in ("sum", "max", "min", "mean", "var", "count_nonzero", "any", "all"):
    for dtype in (f32, i32):
        label = f"{name.replace('_', '-')}-of-a-scalar-{dtype}"
        PAIRS.expression(label, f"jnp.{name}(s)", f"b.pallas.{name}(s)", s=smem(dtype))
PAIRS.expression("sum-of-a-scalar-kept", "jnp.sum(s, keepdims=True)", "b.pallas.sum(s, keepdims=True)", s=smem(f32))

# --- booleans ---------------------------------------------------------------------------------------------------------

for name in ("any", "all"):
    for label, axis in AXES.items():
        for keepdims in (False, True):
            PAIRS.expression(
                f"{name}-{label}{'-keepdims' * keepdims}",
                f"jnp.{name}(x > 0.0, axis={axis}, keepdims={keepdims})",
                f"b.pallas.{name}(x > 0.0, {axis}, keepdims={keepdims})",
                uses=("gt",),
                x=vmem(f32),
            )
    for axis in ((0, 1), (1, 2), 1):
        label = str(axis).replace(", ", "-").strip("()")
        PAIRS.expression(
            f"{name}-3d-{label}",
            f"jnp.{name}(x > 0.0, axis={axis})",
            f"b.pallas.{name}(x > 0.0, {axis})",
            uses=("gt",),
            x=vmem(f32, (2, 8, 128)),
        )
    PAIRS.expression(
        f"{name}-1d", f"jnp.{name}(x > 0.0)", f"b.pallas.{name}(x > 0.0)", uses=("gt",), x=vmem(f32, (128,))
    )
    for dtype in (*FLOATS, i32, u32):
        PAIRS.expression(f"{name}-of-{dtype}", f"jnp.{name}(x, axis=1)", f"b.pallas.{name}(x, 1)", x=tile(dtype))
for label, axis in AXES.items():
    for keepdims in (False, True):
        PAIRS.expression(
            f"count-nonzero-{label}{'-keepdims' * keepdims}",
            f"jnp.count_nonzero(x, axis={axis}, keepdims={keepdims})",
            f"b.pallas.count_nonzero(x, {axis}, keepdims={keepdims})",
            x=vmem(f32),
        )
PAIRS.expression(
    "count-nonzero-booleans",
    "jnp.count_nonzero(x > 0.0, axis=1)",
    "b.pallas.count_nonzero(x > 0.0, 1)",
    uses=("gt",),
    x=vmem(f32),
)
PAIRS.expression("count-nonzero-i32", "jnp.count_nonzero(x, axis=0)", "b.pallas.count_nonzero(x, 0)", x=vmem(i32))

# --- means ------------------------------------------------------------------------------------------------------------

for name in ("mean", "var", "std"):
    for dtype in (*FLOATS, i32):
        for label, axis in AXES.items():
            for keepdims in (False, True):
                PAIRS.expression(
                    f"{name}-{dtype}-{label}{'-keepdims' * keepdims}",
                    f"jnp.{name}(x, axis={axis}, keepdims={keepdims})",
                    f"b.pallas.{name}(x, {axis}, keepdims={keepdims})",
                    x=tile(dtype),
                )
    for axis in (2, (1, 2), (0, 2)):
        label = str(axis).replace(", ", "-").strip("()")
        PAIRS.expression(
            f"{name}-3d-{label}", f"jnp.{name}(x, axis={axis})", f"b.pallas.{name}(x, {axis})", x=vmem(f32, (2, 8, 128))
        )
    PAIRS.expression(f"{name}-1d", f"jnp.{name}(x)", f"b.pallas.{name}(x)", x=vmem(f32, (128,)))
for name in ("var", "std"):
    PAIRS.expression(f"{name}-ddof", f"jnp.{name}(x, axis=1, ddof=1)", f"b.pallas.{name}(x, 1, ddof=1)", x=vmem(f32))
PAIRS.expression(
    "mean-bf16-in-f32", "jnp.mean(x, axis=0, dtype=jnp.float32)", "b.pallas.mean(x, 0, dtype=f32)", x=tile(bf16)
)

# --- positions --------------------------------------------------------------------------------------------------------

for name in ("argmax", "argmin"):
    for dtype in FLOATS:
        for axis in (0, 1, -1, None):
            for keepdims in (False, True):
                label = "all" if axis is None else f"axis-{axis}"
                PAIRS.expression(
                    f"{name}-{dtype}-{label}{'-keepdims' * keepdims}",
                    f"jnp.{name}(x, axis={axis}, keepdims={keepdims})",
                    f"b.pallas.{name}(x, {axis}, keepdims={keepdims})",
                    x=tile(dtype),
                )
        PAIRS.expression(f"{name}-1d-{dtype}", f"jnp.{name}(x)", f"b.pallas.{name}(x)", x=vmem(dtype, (128,)))
    for axis in (0, 1, 2):
        PAIRS.expression(
            f"{name}-3d-{axis}", f"jnp.{name}(x, axis={axis})", f"b.pallas.{name}(x, {axis})", x=vmem(f32, (2, 8, 128))
        )
    PAIRS.expression(
        f"lax-{name}-i16", f"lax.{name}(x, 1, jnp.int16)", f"b.pallas.{name}(x, 1, index_dtype=i16)", x=tile(bf16)
    )
    PAIRS.expression(f"lax-{name}", f"lax.{name}(x, 0, jnp.int32)", f"b.pallas.{name}(x, 0)", x=vmem(f32))
for part, label in enumerate(("values", "positions")):
    for k, axis, dtype in ((1, -1, f32), (2, -1, f32), (3, 0, f32)):
        PAIRS.expression(
            f"top-{k}-{label}-{dtype}-axis-{axis}",
            f"lax.top_k(x, {k}, axis={axis}, is_stable=False)[{part}]",
            f"b.pallas.top_k(x, {k}, axis={axis})[{part}]",
            x=tile(dtype),
        )
    PAIRS.expression(
        f"top-2-{label}-bf16",
        f"lax.top_k(x, 2, is_stable=False)[{part}]",
        f"b.pallas.top_k(x, 2)[{part}]",
        tpu_version="v6e",
        x=tile(bf16),
    )
