"""Rules about element types: ops that a generation has no code for, and matmuls."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from mosaic_tpu.aot._lint._registry import Issue, rule
from mosaic_tpu.aot._lint._subject import Subject
from mosaic_tpu.aot._lint._support import ALL, MATMULS, MEASURED, REFUSED, is_native
from mosaic_tpu.aot.targets import Generation
from mosaic_tpu.sim import ir

#: Along rows, and along any dimension.
_ROWS_REFUSED: Final = {"i16": ("v4", "v5e", "v5p")}
_IOTA_REFUSED: Final = {"i4": ALL}
_REMEDIES: Final = {
    "vector.extract": "cast the vector to 32 bits first",
    "arith.minui": "compare as signed numbers, or keep them below 2**31 and use minsi",
    "arith.maxui": "compare as signed numbers, or keep them below 2**31 and use maxsi",
    "math.fma": "write x * y + z",
    "tpu.all_reduce": "use vector.multi_reduction",
}


def _judged(op: ir.Operation) -> ir.Type:
    """The type that decides whether there is code for an op: the one it computes in."""
    return op.operands[0].type if op.operands else op.result.type


def _refused(op: ir.Operation) -> tuple[str, ...]:
    """The generations that have no code for an op."""
    type_ = _judged(op)
    if type_.kind != "vector" or _is_folded(op):
        return ()
    if (
        op.name == "vector.multi_reduction"
        and max(op.attributes.integers("reduction_dims"), default=0) < len(type_.shape) - 2
    ):
        return ()  # whole registers are combined: not what was measured
    if op.name == "tpu.iota":
        along_rows = op.attributes.integers("dimensions") == (0,)
        return _IOTA_REFUSED.get(type_.element) or (_ROWS_REFUSED.get(type_.element, ()) if along_rows else ())
    detail = op.attributes.keyword("kind")
    found = REFUSED.get(op.name) or REFUSED.get(f"{op.name}:{detail}") or {}
    return found.get(type_.element, ())


def _is_folded(op: ir.Operation) -> bool:
    """Whether the compiler computes an op itself: all its operands are constants."""
    numbers = [_splat(v) for v in op.operands]
    return bool(numbers) and None not in numbers


def _splat(value: ir.Value) -> str | None:
    """The constant, as text, that a vector repeats."""
    op = value.definition
    if op is not None and op.name == "vector.broadcast":
        op = op.operands[0].definition
    if op is None or op.name != "arith.constant":
        return None
    return op.attributes.text("value").removeprefix("dense<").partition(":")[0].strip(" >")


@rule("unsupported-type", per_generation=True)
def unsupported_type(subject: Subject, generation: Generation) -> Iterator[Issue]:
    """An op on vectors of an element type for which this generation has no code.

    The table was measured op by op, type by type; f16 and elements of 64 bits are in no generation's vectors.
    """
    for op in subject.vectors:
        if (wide := _of_64_bits(op)) is not None:
            narrow = "f32" if wide == "f64" else "i32"
            yield Issue(op, f"{wide} in a vector: no generation has elements of 64 bits", f"use {narrow}")
        elif _has_f16(op):
            yield Issue(
                op, "f16 in a vector or scalar: no generation computes in it", "use bf16 or f32; copies of f16 do work"
            )
        elif generation.name in _refused(op):
            type_ = _judged(op)
            yield Issue(
                op,
                f"{op.name} on {type_.element} vectors has no code on this generation",
                _REMEDIES.get(op.name, f"cast to {'f32' if type_.is_float else 'i32'} and back"),
            )


def _of_64_bits(op: ir.Operation) -> str | None:
    elements = (v.type.element for v in (*op.operands, *op.results) if v.type.kind == "vector")
    return next((element for element in elements if element in ("f64", "i64")), None)


def _has_f16(op: ir.Operation) -> bool:
    values = (*op.operands, *op.results)
    return any(v.type.element == "f16" and v.type.kind in ("vector", "scalar") for v in values)


@rule("boolean-memory")
def boolean_memory(subject: Subject) -> Iterator[Issue]:
    """Memory of booleans (i1): no generation takes an array of them, nor has them in VMEM; scratch in SMEM does work.

    Pallas and the builder never make it of refs: theirs hold i32, 0 or not.
    """
    remedy = "hold i32 and compare after the load, as Pallas and the builder do with refs of booleans"
    for argument in subject.layout.arguments:
        in_smem = argument.role == "scratch" and argument.type.space == "smem"
        if argument.type.kind == "memref" and argument.type.element == "i1" and not in_smem:
            yield Issue(None, f"{argument.name} is memory of booleans, {argument.type}", remedy)
    for op in subject.ops("memref.alloca"):
        if op.result.type.element == "i1" and op.result.type.space != "smem":
            yield Issue(op, f"memory of booleans, {op.result.type}", remedy)


@rule("matmul-type", per_generation=True)
def matmul_type(subject: Subject, generation: Generation) -> Iterator[Issue]:
    """A matmul of element types that the compiler refuses for this generation (E2001 and others)."""
    for op in subject.ops("tpu.matmul"):
        lhs, rhs = op.operands[0].type.element, op.operands[1].type.element
        has = MATMULS[generation.name]
        if lhs in MEASURED and rhs in MEASURED and (lhs, rhs) not in has:
            same = ", ".join(sorted({x for x, y in has if x == y}))
            yield Issue(
                op,
                f"a matmul of {lhs} by {rhs}, which this generation has no code for",
                f"cast both to one of {same}",
            )


@rule("matmul-speed", "warning", per_generation=True)
def matmul_speed(subject: Subject, generation: Generation) -> Iterator[Issue]:
    """A matmul of element types that the MXU does not take as they are: the compiler casts, which costs time."""
    for op in subject.ops("tpu.matmul"):
        lhs, rhs = op.operands[0].type.element, op.operands[1].type.element
        accepted = (lhs, rhs) in MATMULS[generation.name]
        if accepted and not is_native(generation.name, lhs, rhs):
            yield Issue(
                op,
                f"the MXU does not multiply {lhs} by {rhs} as they are; the compiler casts first",
                "cast to bf16 once, outside the loop, or store the operands in a type that the MXU takes",
            )
