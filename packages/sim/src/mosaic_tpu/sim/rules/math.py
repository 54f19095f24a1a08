"""Math functions: libm's accuracy, computed in f32 where the type is narrower."""

from __future__ import annotations

from typing import Final

from mosaic_tpu.sim import _runtime as runtime
from mosaic_tpu.sim._emit import Emitter, rule, unsupported
from mosaic_tpu.sim._module import Operation
from mosaic_tpu.sim.rules._elementwise import dtype, floats, integers, is_vector, shape_of, width, wrapped

_ONE: Final = {
    "math.absf": "np.abs({0})",
    "math.acos": "np.arccos({0})",
    "math.acosh": "np.arccosh({0})",
    "math.asin": "np.arcsin({0})",
    "math.asinh": "np.arcsinh({0})",
    "math.atan": "np.arctan({0})",
    "math.atanh": "np.arctanh({0})",
    "math.atan2": "np.arctan2({0}, {1})",
    "math.cbrt": "np.cbrt({0})",
    "math.ceil": "np.ceil({0})",
    "math.copysign": "np.copysign({0}, {1})",
    "math.cos": "np.cos({0})",
    "math.cosh": "np.cosh({0})",
    "math.exp": "np.exp({0})",
    "math.exp2": "np.exp2({0})",
    "math.expm1": "np.expm1({0})",
    "math.floor": "np.floor({0})",
    "math.clampf": "np.minimum(np.maximum({0}, {1}), {2})",
    "math.log": "np.log({0})",
    "math.log10": "np.log10({0})",
    "math.log1p": "np.log1p({0})",
    "math.log2": "np.log2({0})",
    "math.powf": "np.power({0}, {1})",
    "math.roundeven": "np.rint({0})",
    "math.rsqrt": "1 / np.sqrt({0})",
    "math.sin": "np.sin({0})",
    "math.sinh": "np.sinh({0})",
    "math.sqrt": "np.sqrt({0})",
    "math.tan": "np.tan({0})",
    "math.tanh": "np.tanh({0})",
    "math.trunc": "np.trunc({0})",
}


@rule(*_ONE)
def _function(e: Emitter, op: Operation) -> None:
    floats(e, op, _ONE[op.name])


@rule("math.erf", "math.erfc")
def _erf(e: Emitter, op: Operation) -> None:
    function = op.name.removeprefix("math.")
    e.names[function] = getattr(runtime, function)
    floats(e, op, function + "({0})")


@rule("math.fma", "vector.fma")
def _fma(e: Emitter, op: Operation) -> None:
    """The product of two f32 is exact in f64; the sum is rounded to f64 and then to the type: near a tie an ulp off."""
    name = dtype(e, op.result.type)
    a, b, c = (f"{e.text(v)}.astype(np.float64)" for v in op.operands)
    e.define(op.result, f"({a} * {b} + {c}).astype({name})", shape_of(e, op.operands))


@rule("math.sincos")
def _sincos(e: Emitter, op: Operation) -> None:
    (a,) = op.operands
    name = dtype(e, a.type)
    for result, function in zip(op.results, ("np.sin", "np.cos"), strict=True):
        e.define(result, f"{function}({e.text(a)}.astype(np.float32)).astype({name})", e.info(a).shape)


@rule("math.round")
def _round(e: Emitter, op: Operation) -> None:
    floats(e, op, e.runtime(runtime.round_away) + "({0})")


@rule("math.fpowi")
def _fpowi(e: Emitter, op: Operation) -> None:
    floats(
        e,
        op,
        "np.power({0}, ({1}).astype(np.float32))" if is_vector(op.operands[1]) else "np.power({0}, np.float32({1}))",
    )


@rule("math.absi")
def _absi(e: Emitter, op: Operation) -> None:
    integers(e, op, "np.abs({0})", "abs({0})")


@rule("math.ctpop", "math.ctlz", "math.cttz")
def _bits(e: Emitter, op: Operation) -> None:
    (a,) = op.operands
    if width(a.type) < 8:
        raise unsupported(e.module, op, "it counts bits of whole bytes only")
    name = dtype(e, a.type)
    call = e.runtime(runtime.leading_zeros if op.name == "math.ctlz" else runtime.count_bits)
    text = e.text(a) if is_vector(a) else f"np.asarray({e.text(a)}, {name})"
    if op.name == "math.cttz":
        text = e.atom(text)
        text = f"(({text} & -{text}) - 1).astype({name})"
    e.define(op.result, f"{call}({text})" if is_vector(a) else f"int({call}({text}))", shape_of(e, op.operands))


@rule("math.isnan", "math.isinf", "math.isfinite")
def _is(e: Emitter, op: Operation) -> None:
    (a,) = op.operands
    text = f"np.{op.name.removeprefix('math.')}({e.text(a)}.astype(np.float32))"
    e.define(op.result, text, e.info(a).shape)


@rule("math.isnormal")
def _isnormal(e: Emitter, op: Operation) -> None:
    (a,) = op.operands
    text = e.atom(f"np.abs({e.text(a)}.astype(np.float64))")
    least = float(runtime.finfo(a.type.dtype).smallest_normal)
    e.define(op.result, f"({text} >= {least}) & ({text} < np.inf)", e.info(a).shape)


@rule("math.ipowi")
def _ipowi(e: Emitter, op: Operation) -> None:
    if is_vector(op.result):
        integers(e, op, e.runtime(runtime.integer_power) + "({0}, {1})")
        return
    bits = width(op.result.type)
    a, b = (e.text(v) for v in op.operands)
    call = e.runtime(runtime.integer_power_of_numbers)
    e.define(op.result, wrapped(f"{call}({a}, {b}, {bits})", op.result.type))
