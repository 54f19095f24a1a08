"""Norms, weighted means, ranges, traces, reductions past NaN, masked ones, and diagonals."""

from __future__ import annotations

from conformance.cases.cheat_sheet.math import FLOATS, tile
from conformance.cases.cheat_sheet.pairs import Arg, Pairs, smem, vmem
from mosaic_tpu.builder import DType, bf16, f32, i8, i32

PAIRS = Pairs("averages")
CUBE = (4, 8, 128)


def _label(form: str) -> str:
    words = "".join(c if c.isalnum() else "-" for c in form.replace("-jnp.inf", "lowest").replace("jnp.", ""))
    return "-".join(word for word in words.split("-") if word)


def _add(name: str, *forms: str, module: str = "jnp", dtypes: tuple[DType, ...] = FLOATS, **more: Arg) -> None:
    for dtype in dtypes:
        for form in forms:
            known = {"x": tile(dtype), "y": tile(dtype), **more}
            args = {n: a for n, a in known.items() if n in form.replace("axis", "").replace("max", "")}
            ours = form.replace("jnp.inf", "float('inf')")
            PAIRS.expression(
                f"{name}-{_label(form)}-{dtype}", f"{module}.{name}({form})", f"b.pallas.{name}({ours})", **args
            )


# --- norms -----------------------------------------------------------------------------------------------------------

NORMS = ("x, axis=1", "x, axis=0, keepdims=True", "x, 1, axis=1", "x, jnp.inf, axis=1", "x, 0, axis=1", "x")
_add("norm", *NORMS, module="jnp.linalg", dtypes=(*FLOATS, i32))
_add("norm", "x, -jnp.inf, axis=1, keepdims=True", "x, 2, axis=1", "x, axis=(0, 1)", module="jnp.linalg", dtypes=(f32,))
for shape in ((128,), CUBE):
    PAIRS.expression(f"norm-{len(shape)}d", "jnp.linalg.norm(x)", "b.pallas.norm(x)", x=vmem(f32, shape))
_add("standardize", "x", "x, 0", "x, axis=(0, 1)", "x, epsilon=1e-3", module="jax.nn")

# --- means and ranges ------------------------------------------------------------------------------------------------

_add("average", "x, 1", "x", "x, 0, keepdims=True", "x, 1, y", "x, 0, y, keepdims=True", dtypes=(*FLOATS, i32))
for axis, size in ((0, 8), (1, 128)):
    PAIRS.expression(
        f"average-along-{axis}",
        f"jnp.average(x, {axis}, w)",
        f"b.pallas.average(x, {axis}, w)",
        x=vmem(f32),
        w=vmem(f32, (size,)),
    )
_add("ptp", "x, 1", "x, 0, keepdims=True", dtypes=(*FLOATS, i32))
_add("ptp", "x", dtypes=(f32, i32))
_add("trace", "x", dtypes=(*FLOATS, i32))
_add("trace", "x, 1", dtypes=(f32,))
PAIRS.expression("trace-below", "jnp.trace(x, -1)", "b.pallas.trace(x, -1)", x=vmem(f32))
for form in ("x", "x, 0, 1, 2", "x, 1, 0, 2"):
    PAIRS.expression(f"trace-3d-{_label(form)}", f"jnp.trace({form})", f"b.pallas.trace({form})", x=vmem(f32, CUBE))
for shape in ((128,), (128, 128)):
    for dtype in (*FLOATS, i32):
        PAIRS.expression(f"diag-{len(shape)}d-{dtype}", "jnp.diag(x)", "b.pallas.diag(x)", x=vmem(dtype, shape))

# --- past NaN --------------------------------------------------------------------------------------------------------

for name in ("nansum", "nanmean", "nanmax", "nanmin"):
    _add(name, "x, 1", "x, 0, keepdims=True")
    _add(name, "x", dtypes=(f32,))

# --- masked, and with a first number ---------------------------------------------------------------------------------

for name in ("sum", "max", "min"):
    for dtype in (*FLOATS, i32):
        for axis in ("1", "0, keepdims=True"):
            for more in ("where=x > 0, initial=1", "initial=1", "initial=s"):
                scalar = {"s": smem(f32 if dtype.is_float else i32)} if more.endswith("s") else {}
                PAIRS.expression(
                    f"{name}-{_label(axis)}-{_label(more)}-{dtype}",
                    f"jnp.{name}(x, axis={axis}, {more})",
                    f"b.pallas.{name}(x, {axis}, {more})",
                    uses=("gt",) if "> 0" in more else (),
                    x=tile(dtype),
                    **scalar,
                )
    PAIRS.expression(
        f"{name}-all-initial", f"jnp.{name}(x, initial=2.0)", f"b.pallas.{name}(x, initial=2.0)", x=vmem(f32)
    )
for name in ("sum", "mean"):
    for dtype in (*FLOATS, i32):
        for axis in ("1", "0, keepdims=True", "None"):
            PAIRS.expression(
                f"{name}-{_label(axis)}-where-{dtype}",
                f"jnp.{name}(x, axis={axis}, where=x > 0)",
                f"b.pallas.{name}(x, {axis}, where=x > 0)",
                uses=("gt",),
                x=tile(dtype),
            )
PAIRS.expression(
    "sum-where-row",
    "jnp.sum(x, axis=1, where=r > 0)",
    "b.pallas.sum(x, 1, where=r > 0)",
    uses=("gt",),
    x=vmem(f32),
    r=vmem(i32, (1, 128)),
)
for order in ("(1, 0)", "(2, 0)", "(2, 1, 0)", "(0, -1)"):
    for name in ("sum", "max", "mean", "any"):
        x = "x > 0.0" if name == "any" else "x"
        PAIRS.expression(
            f"{name}-order-{_label(order)}",
            f"jnp.{name}({x}, axis={order})",
            f"b.pallas.{name}({x}, {order})",
            uses=("gt",) if name == "any" else (),
            x=vmem(f32, CUBE),
        )
for dtype in (f32, bf16):
    PAIRS.expression(
        f"sum-mask-{dtype}",
        f"jnp.sum(x > 0, axis=1, dtype=jnp.{dtype.numpy.name})",
        f"b.pallas.sum(x > 0, 1, dtype={dtype})",
        uses=("gt",),
        x=vmem(f32),
    )
PAIRS.expression(
    "sum-dtype-i8", "jnp.sum(x, axis=1, dtype=jnp.float32)", "b.pallas.sum(x, 1, dtype=f32)", x=vmem(i8, (32, 128))
)
