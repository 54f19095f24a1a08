"""Conversions of the tpu dialect: rounding modes, packing into words, fewer bits."""

from __future__ import annotations

from typing import Final

from mosaic_tpu.sim import _runtime as runtime
from mosaic_tpu.sim._emit import Emitter, rule, unsupported
from mosaic_tpu.sim._module import Operation
from mosaic_tpu.sim._types import parse_type
from mosaic_tpu.sim.rules._elementwise import dtype, floats, guard, is_vector, unsigned

#: What ``arith`` writes as a number and ``tpu`` as a word.
_MODES: Final = {
    "": "even",
    "0 : i32": "even",
    "1 : i32": "down",
    "2 : i32": "up",
    "3 : i32": "zero",
    "4 : i32": "away",
    "#tpu.rounding_mode<to_nearest_even>": "even",
    "#tpu.rounding_mode<towards_zero>": "zero",
}


def _mode(e: Emitter, op: Operation, name: str) -> str:
    found = _MODES.get(op.attributes.text(name))
    if found is None:
        raise unsupported(e.module, op)
    return found


@rule("arith.extf", "arith.truncf", "tpu.extf", "tpu.truncf")
def _float_cast(e: Emitter, op: Operation) -> None:
    (a,) = op.operands
    name = dtype(e, op.result.type)
    mode = _mode(e, op, "roundingmode" if op.name.startswith("arith") else "rounding_mode")
    if mode == "even":
        text = f"{e.text(a)}.astype({name})"
    else:
        text = f"{e.runtime(runtime.round_float)}({e.text(a)}, {name}, {mode!r})"
    e.define(op.result, text, e.info(a).shape)


@rule("tpu.fptosi", "tpu.fptoui")
def _float_to_int(e: Emitter, op: Operation) -> None:
    (a,) = op.operands
    text = e.atom(e.text(a))
    guard(e, f"{text} != {text}", "the integer of a NaN")
    if _mode(e, op, "rounding_mode") == "even":
        text = f"np.rint({text})"
    target = op.result.type
    call = f"{e.runtime(runtime.to_int)}({text}, {dtype(e, target)}, {target.bits}, {op.name == 'tpu.fptosi'})"
    e.define(op.result, call if is_vector(a) else f"int({call})", e.info(a).shape)


@rule("tpu.sitofp", "tpu.uitofp")
def _int_to_float(e: Emitter, op: Operation) -> None:
    (a,) = op.operands
    name = dtype(e, op.result.type)
    text = e.text(a) if op.name == "tpu.sitofp" else unsigned(e.text(a), a)
    wide = f"np.asarray({text}, np.float64)"
    if _mode(e, op, "rounding_mode") == "even":
        text = f"{wide}.astype({name})"
    else:
        text = f"{e.runtime(runtime.round_float)}({wide}, {name}, 'zero')"
    e.define(op.result, text if is_vector(a) else f"{text}[()]", e.info(a).shape)


@rule("tpu.pack_elementwise")
def _pack_elementwise(e: Emitter, op: Operation) -> None:
    """The low bits of each source, the first source's lowest."""
    part = parse_type(op.attributes.text("target_type"))
    sources = ", ".join(e.full(o) for o in op.operands)
    call = e.runtime(runtime.pack_words)
    e.define(op.result, f"{call}(({sources},), {dtype(e, part)}, {part.bits}, {dtype(e, op.result.type)})")


@rule("tpu.unpack_elementwise")
def _unpack_elementwise(e: Emitter, op: Operation) -> None:
    (a,) = op.operands
    part = parse_type(op.attributes.text("source_type"))
    index = op.attributes.integer("index")
    call = e.runtime(runtime.unpack_word)
    text = f"{call}({e.text(a)}, {index}, {dtype(e, part)}, {part.bits}, {dtype(e, op.result.type)})"
    e.define(op.result, text, e.info(a).shape)


@rule("tpu.stochastic_convert")
def _stochastic_convert(e: Emitter, op: Operation) -> None:
    """Up or down to a neighbour, as the low 16 random bits say: up with a probability of its nearness."""
    a, random = op.operands
    call = e.runtime(runtime.round_randomly)
    target = op.result.type
    e.define(op.result, f"{call}({e.full(a)}, {e.full(random)}, {dtype(e, target)}, {target.is_float})")


@rule("tpu.reduce_precision")
def _reduce_precision(e: Emitter, op: Operation) -> None:
    exponent, mantissa = op.attributes.integer("exponent_bits"), op.attributes.integer("mantissa_bits")
    if exponent < 1 or op.operands[0].type.element == "f64":
        raise unsupported(e.module, op)
    call = e.runtime(runtime.reduce_precision)
    floats(e, op, f"{call}({{0}}, {exponent}, {mantissa})")
