"""`python -m conformance.lint.measure`: is the table of ops and types still what the compiler says?

One kernel for each op and element type of `mosaic_tpu.aot._lint._support`, compiled for every generation. It prints
where compiler and table differ; the exit code is then 1. It takes some minutes.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Final

from conformance.cases.cheat_sheet.pairs import out, vmem
from conformance.lint.cases import LintCase
from mosaic_tpu import aot
from mosaic_tpu.builder import DType, bf16, f8e4m3fn, f8e5m2, f16, f32, i4, i8, i16, i32

_FLOATS: Final = (f32, bf16, f16, f8e4m3fn, f8e5m2)
_INTEGERS: Final = (i32, i16, i8, i4)
_FLOAT_OPS: Final = ("addf", "subf", "mulf", "divf", "remf", "minimumf", "maximumf", "powf", "atan2")
_FLOAT_OPS_1: Final = (
    *("negf", "exp", "log", "log1p", "log2", "sqrt", "rsqrt", "sin", "cos", "tan", "tanh", "erf", "absf", "floor"),
    *("ceil", "round", "roundeven", "math_exp2"),
)
_INTEGER_OPS: Final = (
    *("addi", "subi", "muli", "divsi", "divui", "remsi", "remui", "andi", "ori", "xori", "shli", "shrsi", "shrui"),
    *("minsi", "maxsi", "minui", "maxui"),
)
_INTEGER_OPS_1: Final = ("absi", "ctlz", "ctpop")
_SHAPE: Final = (64, 128)


def cases() -> Iterator[LintCase]:
    """The kernels."""
    for dtypes, ones, twos in (
        (_FLOATS, _FLOAT_OPS_1, _FLOAT_OPS),
        (_INTEGERS, _INTEGER_OPS_1, _INTEGER_OPS),
    ):
        for dtype in dtypes:
            yield from (_case(op, dtype, f"b.{op}(x[...])") for op in ones)
            yield from (_case(op, dtype, f"b.{op}(x[...], y[...])") for op in twos)
            yield _case("load", dtype, "x[...]")
    for dtype in (f32, bf16):
        yield _case("reciprocal", dtype, "b.reciprocal(x[...])")
        yield _case("fma", dtype, "b.fma(x[...], y[...], y[...])")
    for dtype in (*_FLOATS, *_INTEGERS):
        yield from (_sum(dtype, axis) for axis in (0, 1))
    yield from (_matmul(x, y, f32) for x in _FLOATS for y in (*_FLOATS, i8, i4) if not (y in _INTEGERS and x.bits < 16))
    yield from (_matmul(x, y, i32) for x in _INTEGERS for y in _INTEGERS)


def _case(op: str, dtype: DType, value: str) -> LintCase:
    operands = {"x": vmem(dtype, _SHAPE), "y": vmem(dtype, _SHAPE), "o": out(dtype, _SHAPE)}
    return LintCase(f"{op}-{dtype}", "measured", f"o[...] = {value}", operands)


def _sum(dtype: DType, axis: int) -> LintCase:
    reduced, kept = ((128,), (1, 128)) if axis == 0 else ((64,), (64, 1))
    value = f"b.reshape(b.multi_reduction('add', x[...], b.zeros({reduced}, {dtype}), ({axis},)), {kept})"
    operands = {"x": vmem(dtype, _SHAPE), "o": out(dtype, kept)}
    return LintCase(f"sum-{axis}-{dtype}", "measured", f"o[...] = {value}", operands)


def _matmul(lhs: DType, rhs: DType, accumulator: DType) -> LintCase:
    shape = (256, 256)
    operands = {"x": vmem(lhs, shape), "y": vmem(rhs, shape), "o": out(accumulator, shape)}
    value = f"b.matmul(x[...], y[...], b.zeros({shape}, {accumulator}))"
    return LintCase(f"matmul-{lhs}-{rhs}", "measured", f"o[...] = {value}", operands)


def main() -> int:
    """Compile, compare, print."""
    if aot.compiler_version() is None:
        print("the TPU compiler is not installed")
        return 2
    differences = 0
    for case in cases():
        text = case.stablehlo()
        report = aot.lint(text)
        for result in aot.compile_all([text]):
            errors = report.of(str(result.target)).errors
            if result.ok == bool(errors):
                differences += 1
                rules = ", ".join(f.rule for f in errors) or "nothing"
                said = result.error.summary if result.error else "accepts"
                print(f"{case.id} for {result.target}: compiler {said}, lint {rules}", flush=True)
    print(f"{differences} differences")
    return int(differences > 0)


if __name__ == "__main__":
    sys.exit(main())
