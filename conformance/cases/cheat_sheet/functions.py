"""Functions made of several ops: lengths, extremes past NaN, closeness, x log y, halves of products."""

from __future__ import annotations

from conformance.cases.cheat_sheet.math import FLOATS, tile
from conformance.cases.cheat_sheet.pairs import Arg, Pairs, smem, vmem
from mosaic_tpu.builder import DType, bf16, f8e4m3fn, f8e5m2, f16, f32, i8, i16, i32, u32
from mosaic_tpu.builder._compat import PALLAS_HAS_MULHI

PAIRS = Pairs("functions")


def _add(name: str, dtypes: tuple[DType, ...], *forms: str, module: str = "jnp") -> None:
    """One pair for each form of the arguments and each element type of those that are operands."""
    for dtype in dtypes:
        for form in forms:
            args: dict[str, Arg] = {n: tile(dtype) for n in "xy" if n in form.replace("neginf", "").split("=")[0]}
            label = "".join(c if c.isalnum() else "-" for c in form).strip("-").replace("--", "-")
            PAIRS.expression(f"{name}-{label}-{dtype}", f"{module}.{name}({form})", f"b.pallas.{name}({form})", **args)


_add("hypot", (*FLOATS, i32), "x, y", "x, 2.0", "1.5, x", "x, 2")
_add("hypot", (f16,), "x, y")
PAIRS.expression("hypot-row", "jnp.hypot(x, y)", "b.pallas.hypot(x, y)", x=vmem(f32), y=vmem(f32, (128,)))
for _dtype in (f32, i32):
    PAIRS.expression(
        f"hypot-scalars-{_dtype}", "jnp.hypot(s, t)", "b.pallas.hypot(s, t)", s=smem(_dtype), t=smem(_dtype)
    )
    PAIRS.expression(f"entr-scalar-{_dtype}", "jax.scipy.special.entr(s)", "b.pallas.entr(s)", s=smem(_dtype))
PAIRS.expression("hypot-scalar", "jnp.hypot(x, s)", "b.pallas.hypot(x, s)", x=vmem(f32), s=smem(f32))
for _name in ("deg2rad", "rad2deg"):
    _add(_name, (*FLOATS, i32), "x")
for _name in ("fmin", "fmax"):
    _add(_name, FLOATS, "x, y", "x, 0.0", "1.5, x", "x, 1")
    PAIRS.expression(f"{_name}-types", f"jnp.{_name}(x, y)", f"b.pallas.{_name}(x, y)", x=vmem(f32), y=vmem(bf16))
_add("heaviside", (*FLOATS, i32), "x, y", "x, 0.5", "x, 1")
for _name, _dtypes, _form in (("modf", FLOATS, "x"), ("divmod", (f32, i32, u32), "x, y"), ("divmod", (i32,), "x, 3")):
    for _dtype in _dtypes:
        PAIRS.expression(
            f"{_name}-{len(_form)}-{_form[-1]}-{_dtype}",
            f"(lambda parts: parts[0] + parts[1])(jnp.{_name}({_form}))",
            f"(lambda parts: parts[0] + parts[1])(b.pallas.{_name}({_form}))",
            uses=("add",),
            **{n: tile(_dtype) for n in "xy" if n in _form},
        )
_add("isposinf", FLOATS, "x")
_add("isneginf", FLOATS, "x")
_add("nan_to_num", FLOATS, "x", "x, nan=1.0", "x, posinf=2.0", "x, neginf=-3.0, nan=1.0")
for _dtype in (f8e4m3fn, f8e5m2):  # the first has no infinities
    for _name in ("isinf", "isposinf", "isneginf"):
        texts = [f"{module}.{_name}(x) | {module}.isnan(x)" for module in ("jnp", "b.pallas")]
        PAIRS.expression(f"{_name}-{_dtype}", *texts, x=tile(_dtype))
    for _name in ("nanmax", "nanmin"):
        _add(_name, (_dtype,), "x, 1")
    _add("nan_to_num", (_dtype,), "x")
_add("isclose", (f32,), "x, y", "x, 1.0", "x, y, equal_nan=True", "x, y, rtol=1e-3", "x, y, 1e-3, 1e-4", "x, 1")
PAIRS.expression("isclose-types", "jnp.isclose(x, y)", "b.pallas.isclose(x, y)", x=vmem(f32), y=vmem(i32))
for _name, _first, _second in (("unsigned", u32, i32), ("narrow", i8, i32), ("narrow-unsigned", i8, u32)):
    PAIRS.expression(
        f"isclose-{_name}",
        "jnp.isclose(x, y)",
        "b.pallas.isclose(x, y)",
        x=vmem(_first, (32, 128)),
        y=vmem(_second, (32, 128)),
    )
_add("isclose", (u32, i8), "x, 1")
PAIRS.expression(
    "isclose-mask", "jnp.isclose(x > 0, y)", "b.pallas.isclose(x > 0, y)", uses=("gt",), x=vmem(i32), y=vmem(u32)
)
_add("allclose", (f32,), "x, y", "x, 1.0", "x, y, 1e-3", "x, y, equal_nan=True")
_add("array_equal", (*FLOATS, i32), "x, y")
for _name in ("xlogy", "xlog1py"):
    _add(_name, (*FLOATS, i32), "x, y", "x, 2.0", module="jax.scipy.special")
for _name in ("entr", "logit"):
    _add(_name, (*FLOATS, i32), "x", module="jax.scipy.special")
_add("logaddexp2", (*FLOATS, i32), "x, y", "x, 1.0")
_add("logaddexp", (*FLOATS, i32), "x, 1", "1, x", "x, 2.5")
_add("round", FLOATS, "x, 2", "x, 5", "x, -1")

# --- bits ------------------------------------------------------------------------------------------------------------

_add("bitwise_count", (i32, u32, i16, i8), "x")
if PALLAS_HAS_MULHI:
    _add("mulhi", (i32, u32), "x, y", "x, x", module="lax")
    PAIRS.expression("mulhi-number", "lax.mulhi(x, 3)", "b.pallas.mulhi(x, 3)", x=vmem(i32))
    PAIRS.expression("mulhi-scalars", "lax.mulhi(s, t)", "b.pallas.mulhi(s, t)", s=smem(i32), t=smem(i32))
