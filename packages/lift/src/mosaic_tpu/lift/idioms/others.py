"""Random numbers, packed and rounded values, limits, gathers, and what has no result."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from mosaic_tpu.lift._code import Call, Items, Node, Shape, String, Text
from mosaic_tpu.lift._types import DTYPES, Imported, dtype_code
from mosaic_tpu.lift.idioms._form import Form, Part, Types, combined, literal_of, origins, proposes
from mosaic_tpu.sim import ir

# --- random numbers --------------------------------------------------------------------------------------------------


@proposes("tpu.prng_random_bits")
def _random(op: ir.Operation, types: Types) -> Iterator[Form]:
    shape = Shape(op.results[0].type.shape)
    for name in ("stateful_normal", "stateful_uniform", "stateful_bits", "prng_random_bits"):
        yield Form((), lambda xs, name=name: Call(f"b.pallas.{name}", shape), "random")


@proposes("tpu.prng_set_seed_32")
def _seed(op: ir.Operation, types: Types) -> Iterator[Form]:
    literals = [literal_of(v) for v in op.operands]
    for known in ([literal is not None for literal in literals], [False] * len(literals)):
        parts = [
            Part(None, literal or "") if k else Part(v.type)
            for k, v, literal in zip(known, op.operands, literals, strict=True)
        ]
        form = combined(tuple(parts), _seeded)
        yield Form(form.types, form.write, target=lambda xs: "")


def _seeded(xs: Sequence[Text]) -> Call:
    return Call("b.pallas.prng_seed", *xs)


# --- packed and rounded ----------------------------------------------------------------------------------------------


@proposes("tpu.reduce_precision")
def _reduced(op: ir.Operation, types: Types) -> Iterator[Form]:
    bits = [Text(str(op.attributes.integer(key))) for key in ("exponent_bits", "mantissa_bits")]
    yield Form((op.operands[0].type,), lambda xs: Call("b.pallas.reduce_precision", *xs, *bits), 0)


@proposes("tpu.stochastic_convert")
def _rounded(op: ir.Operation, types: Types) -> Iterator[Form]:
    given = tuple(v.type for v in op.operands)
    target = dtype_code(op.results[0].type)

    def write(xs: Sequence[Text]) -> Node:  # what holds the bits is signed in a module, and unsigned in Pallas
        return Call("b.pallas.stochastic_round", xs[0], Call("b.pallas.bitcast", xs[1], Imported("u32")), target)

    yield Form(given, write, "rounded")


@proposes("tpu.dynamic_gather")
def _gathered(op: ir.Operation, types: Types) -> Iterator[Form]:
    axis = Text(str(op.attributes.integers("dimensions")[0]))
    for indices in types.of_shape(op.operands[1].type):
        given = (op.operands[0].type, indices)
        yield Form(given, lambda xs: Call("b.pallas.take_along_axis", *xs, axis), "taken")


# --- limits ----------------------------------------------------------------------------------------------------------


@proposes("arith.minimumf", "arith.minsi", "arith.minui")
def _clipped(op: ir.Operation, types: Types) -> Iterator[Form]:
    for inner, limit in (op.operands, tuple(reversed(op.operands))):
        made = inner.definition
        if made is None or not made.name.startswith("arith.max"):
            continue
        for x, low in (made.operands, tuple(reversed(made.operands))):
            for least in origins(low):
                for most in origins(limit):
                    yield combined((Part(x.type), least, most), _clip, "clipped")
                    yield combined((least, Part(x.type), most), _clamp, "clipped")


def _clip(xs: Sequence[Text]) -> Call:
    return Call("b.pallas.clip", *xs)


def _clamp(xs: Sequence[Text]) -> Call:
    return Call("b.pallas.clamp", *xs)


# --- statements ------------------------------------------------------------------------------------------------------


@proposes("tpu.delay")
def _delayed(op: ir.Operation, types: Types) -> Iterator[Form]:
    nanos = op.operands[0]
    if (literal := literal_of(nanos)) is not None:
        yield Form((), lambda xs: Call("b.pallas.delay", Text(literal)), target=lambda xs: "")
    yield Form((nanos.type,), lambda xs: Call("b.pallas.delay", *xs), target=lambda xs: "")


@proposes("tpu.trace_value")
def _traced(op: ir.Operation, types: Types) -> Iterator[Form]:
    label = String(op.attributes.string("label"))
    given = (op.operands[0].type,)
    yield Form(given, lambda xs: Call("b.pallas.trace_value", label, *xs), target=lambda xs: "")


@proposes("tpu.log")
def _printed(op: ir.Operation, types: Types) -> Iterator[Form]:
    text, values = op.attributes.string("tag"), tuple(v.type for v in op.operands)
    if op.attributes.boolean("formatted"):
        before, *after = re.split(r"\$[suf]\d+", text)
        # Behind the last place braces are doubled.
        text = "{}".join([before, *after[:-1], after[-1].replace("{", "{{").replace("}", "}}")]) if after else before
    shown = String(text)
    yield Form(values, lambda xs: Call("b.pallas.debug_print", shown, *xs), target=lambda xs: "")


@proposes("tpu.sem_barrier")
def _barrier(op: ir.Operation, types: Types) -> Iterator[Form]:
    yield Form((), lambda xs: Call("b.pallas.get_barrier_semaphore"), "barrier")


@proposes("tpu.pack_elementwise")
def _packed(op: ir.Operation, types: Types) -> Iterator[Form]:
    if packed := DTYPES.get(op.attributes.text("target_type")):
        given, dtype = tuple(v.type for v in op.operands), Imported(packed.name)
        yield Form(given, lambda xs: Call("b.pallas.pack_elementwise", Items("[", list(xs), "]"), dtype), "packed")


@proposes("tpu.unpack_elementwise")
def _unpacked(op: ir.Operation, types: Types) -> Iterator[Form]:
    if packed := DTYPES.get(op.attributes.text("source_type")):
        how: dict[str, Node] = {
            "index": Text(str(op.attributes.integer("index"))),
            "packed_dtype": Imported(packed.name),
            "unpacked_dtype": dtype_code(op.results[0].type),
        }
        yield Form((op.operands[0].type,), lambda xs: Call("b.pallas.unpack_elementwise", *xs, **how), "unpacked")
