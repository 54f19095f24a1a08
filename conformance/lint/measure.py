"""`nox -s measure -- support`: is the table of ops and types still what the compiler says?

A kernel for each row and element type of `mosaic_tpu.aot._lint._support`, and for ops like these that the table does
not hold since every generation has them; compiled for every generation. It prints where the compiler differs from what
lint reads in the table; the exit code is then 1. It takes some minutes: the compiler's answers are kept on disk.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from conformance.cases.cheat_sheet.pairs import out, vmem
from conformance.lint.cases import LintCase
from mosaic_tpu import aot
from mosaic_tpu.builder import DType, bf16, f8e4m3fn, f8e5m2, f16, f32, i4, i8, i16, i32

_FLOATS: Final = (f32, bf16, f8e4m3fn, f8e5m2, f16)
_INTEGERS: Final = (i32, i16, i8, i4)
_ALL: Final = (*_FLOATS, *_INTEGERS)
_ONE: Final = "b.{}(x[...])"
_TWO: Final = "b.{}(x[...], y[...])"
_SHAPE: Final = (64, 128)
#: The rules that read the table.
RULES: Final = ("unsupported-type", "matmul-type")

#: By op, what it computes, of which element types; the result has the same type.
_OPS: Final[dict[str, tuple[str, tuple[DType, ...]]]] = {
    "vector.load": ("x[...]", _ALL),
    "arith.negf": ("b.negf(x[...])", _FLOATS),
    "math.exp2": ("b.math_exp2(x[...])", _FLOATS),
    "math.fma": ("b.fma(x[...], y[...], y[...])", _FLOATS),
    "tpu.reciprocal": ("b.reciprocal(x[...])", (f32, bf16)),  # of others it does not verify
    **{f"arith.{op}": (_TWO.format(op), _FLOATS)
       for op in ("addf", "subf", "mulf", "divf", "remf", "minimumf", "maximumf")},
    **{f"math.{op}": (_TWO.format(op), _FLOATS) for op in ("powf", "atan2")},
    **{f"math.{op}": (_ONE.format(op), _FLOATS)
       for op in ("exp", "log", "log1p", "log2", "sqrt", "rsqrt", "sin", "cos", "tan", "tanh", "erf", "absf", "floor",
                  "ceil", "round", "roundeven")},
    **{f"arith.{op}": (_TWO.format(op), _INTEGERS)
       for op in ("addi", "subi", "muli", "divsi", "divui", "remsi", "remui", "andi", "ori", "xori", "shli", "shrsi",
                  "shrui", "minsi", "maxsi", "minui", "maxui")},
    **{f"math.{op}": (_ONE.format(op), _INTEGERS) for op in ("absi", "ctlz", "ctpop")},
}  # fmt: skip
_REDUCTIONS: Final = {
    "add": _ALL,
    **dict.fromkeys(("maximumf", "minimumf"), _FLOATS),
    **dict.fromkeys(("maxsi", "minsi"), _INTEGERS),
}


@dataclass(frozen=True)
class Row:
    """A kernel of one op.

    Attributes:
        op: as the table names it.
        elements: of its operands, as the table names them.
        case: the kernel.
    """

    op: str
    elements: tuple[str, ...]
    case: LintCase = field(repr=False)


def rows() -> Iterator[Row]:
    """Every op with every element type."""
    for op, (value, dtypes) in _OPS.items():
        yield from (_row(op, dtype, value) for dtype in dtypes)
    for dtype in _FLOATS:
        yield _row("arith.cmpf", dtype, "b.extui(b.cmpf('olt', x[...], y[...]), i32)", _SHAPE, i32)
    for dtype in _INTEGERS:
        yield from (_row("tpu.iota", dtype, f"b.iota({_SHAPE}, {dtype}, ({n},))", along=n) for n in (0, 1))
    for dtype in _ALL:
        yield _row("vector.extract", dtype, f"b.broadcast_to(b.vector_extract(x[...], (0, 0)), {_SHAPE})")
        yield from (_row("tpu.all_reduce:sum", dtype, f"b.all_reduce(x[...], 'sum', {n})", along=n) for n in (0, 1))
    for kind, dtypes in _REDUCTIONS.items():
        yield from (_reduction(kind, dtype, axis) for dtype in dtypes for axis in (0, 1))
    numbers = [dtype for dtype in _ALL if dtype is not f16]
    yield from (_matmul(lhs, rhs, i32 if lhs.is_int and rhs.is_int else f32) for lhs in numbers for rhs in numbers)


def _row(
    op: str,
    dtype: DType,
    value: str,
    shape: tuple[int, ...] = _SHAPE,
    result: DType | None = None,
    along: int | None = None,
) -> Row:
    operands = {"x": vmem(dtype, _SHAPE), "y": vmem(dtype, _SHAPE), "o": out(result or dtype, shape)}
    name = f"{op} of {dtype}" + ("" if along is None else f" along {along}")
    return Row(op, (dtype.mlir,), LintCase(name, "measured", f"o[...] = {value}", operands))


def _reduction(kind: str, dtype: DType, axis: int) -> Row:
    reduced, kept = ((128,), (1, 128)) if axis == 0 else ((64,), (64, 1))
    value = f"b.reshape(b.multi_reduction('{kind}', x[...], b.zeros({reduced}, {dtype}), ({axis},)), {kept})"
    return _row(f"vector.multi_reduction:{kind}", dtype, value, kept, along=axis)


def _matmul(lhs: DType, rhs: DType, result: DType) -> Row:
    shape = (256, 256)
    operands = {"x": vmem(lhs, shape), "y": vmem(rhs, shape), "o": out(result, shape)}
    value = f"o[...] = b.matmul(x[...], y[...], b.zeros({shape}, {result}))"
    name = f"tpu.matmul of {lhs} by {rhs}"
    return Row("tpu.matmul", (lhs.mlir, rhs.mlir), LintCase(name, "measured", value, operands))


def main() -> int:
    """Compile, compare, print."""
    if aot.compiler_version() is None:
        print("the TPU compiler is not installed")
        return 2
    found = list(rows())
    texts = [row.case.stablehlo() for row in found]
    results = aot.compile_all({row.case.id: text for row, text in zip(found, texts, strict=True)})
    reports = [report for report in map(aot.lint, texts) for _ in aot.TARGETS]
    differences = 0
    for result, report in zip(results, reports, strict=True):
        foreseen = [f for f in report.of(result.target).errors if f.rule in RULES]
        if result.ok == bool(foreseen):
            differences += 1
            said = result.error.summary if result.error else "accepts"
            print(f"{result.name} for {result.target}: compiler {said}, table {'refused' if foreseen else 'accepted'}")
    print(f"{len(found)} kernels for {len(aot.TARGETS)} generations: {differences} differences from the table")
    return int(differences > 0)


if __name__ == "__main__":
    sys.exit(main())
