"""Element types and ops that a generation, or every one, has no code for."""

from __future__ import annotations

from typing import Any, Final

from conformance.refusals.case import Refusal, ours, out, vmem
from mosaic_tpu.aot import errors
from mosaic_tpu.builder import Builder, Ref, bf16, f8e4m3fn, f16, f32, f64, i8, i32


def _square(dtype: Any) -> dict[str, Ref]:
    return {"x": vmem(32, 128, dtype=dtype), "y": vmem(128, 128, dtype=dtype)}


@ours(**_square(i8), o=out(32, 128, dtype=i32))
def matmul_i8(b: Builder, a: Any) -> None:
    x, y = b.ref_load(a.x), b.ref_load(a.y)
    product = b.matmul(x, y, b.zeros((32, 128), i32))  # refused
    b.ref_store(a.o, product)


@ours(**_square(i32), o=out(32, 128, dtype=i32))
def matmul_i32(b: Builder, a: Any) -> None:
    x, y = b.ref_load(a.x), b.ref_load(a.y)
    product = b.matmul(x, y, b.zeros((32, 128), i32))  # refused
    b.ref_store(a.o, product)


@ours(**_square(i8), o=out(32, 128))
def matmul_in_bf16(b: Builder, a: Any) -> None:
    x, y = b.sitofp(b.ref_load(a.x), bf16), b.sitofp(b.ref_load(a.y), bf16)
    b.ref_store(a.o, b.matmul(x, y, b.zeros((32, 128), f32)))


@ours(**_square(i32), o=out(32, 128))
def matmul_in_f32(b: Builder, a: Any) -> None:
    x, y = b.sitofp(b.ref_load(a.x), f32), b.sitofp(b.ref_load(a.y), f32)
    b.ref_store(a.o, b.matmul(x, y, b.zeros((32, 128), f32)))


@ours(x=vmem(32, 128, dtype=i8), o=out(32, 128, dtype=i8))
def add_i8(b: Builder, a: Any) -> None:
    x = b.ref_load(a.x)
    b.ref_store(a.o, b.addi(x, x))  # refused


@ours(x=vmem(32, 128, dtype=i8), o=out(32, 128, dtype=i8))
def add_in_i32(b: Builder, a: Any) -> None:
    x = b.extsi(b.ref_load(a.x), i32)
    b.ref_store(a.o, b.trunci(b.addi(x, x), i8))


@ours(x=vmem(32, 128, dtype=i8), y=vmem(32, 128, dtype=i8), o=out(32, 128, dtype=i8))
def max_i8(b: Builder, a: Any) -> None:
    x, y = b.ref_load(a.x), b.ref_load(a.y)
    b.ref_store(a.o, b.maxsi(x, y))  # refused


@ours(x=vmem(32, 128, dtype=i8), y=vmem(32, 128, dtype=i8), o=out(32, 128, dtype=i32))
def max_in_i32(b: Builder, a: Any) -> None:
    x, y = b.extsi(b.ref_load(a.x), i32), b.extsi(b.ref_load(a.y), i32)
    b.ref_store(a.o, b.maxsi(x, y))


@ours(x=vmem(32, 128, dtype=f8e4m3fn), o=out(32, 128, dtype=f8e4m3fn))
def double_f8(b: Builder, a: Any) -> None:
    x = b.ref_load(a.x)
    b.ref_store(a.o, b.addf(x, x))  # refused


@ours(x=vmem(32, 128, dtype=f8e4m3fn), o=out(32, 128, dtype=f8e4m3fn))
def double_in_f32(b: Builder, a: Any) -> None:
    x = b.extf(b.ref_load(a.x), f32)
    b.ref_store(a.o, b.truncf(b.addf(x, x), f8e4m3fn))


@ours(x=vmem(16, 128, dtype=f16), o=out(16, 128, dtype=f16))
def double_f16(b: Builder, a: Any) -> None:
    x = b.ref_load(a.x)  # refused
    b.ref_store(a.o, b.addf(x, x))


@ours(x=vmem(16, 128, dtype=bf16), o=out(16, 128, dtype=bf16))
def double_bf16(b: Builder, a: Any) -> None:
    x = b.ref_load(a.x)
    b.ref_store(a.o, b.addf(x, x))


@ours(x=vmem(8, 128, dtype=f64), o=out(8, 128, dtype=f64))
def copy_f64(b: Builder, a: Any) -> None:
    b.ref_store(a.o, b.ref_load(a.x))


@ours(x=vmem(8, 128), o=out(8, 128))
def copy_f32(b: Builder, a: Any) -> None:
    b.ref_store(a.o, b.ref_load(a.x))


@ours(x=vmem(16, 128, dtype=bf16), o=out(16, 128, dtype=bf16))
def reciprocal_bf16(b: Builder, a: Any) -> None:
    x = b.ref_load(a.x)
    b.ref_store(a.o, b.reciprocal(x, approximate=True))  # refused


@ours(x=vmem(16, 128, dtype=bf16), o=out(16, 128, dtype=bf16))
def reciprocal_in_f32(b: Builder, a: Any) -> None:
    x = b.extf(b.ref_load(a.x), f32)
    b.ref_store(a.o, b.truncf(b.reciprocal(x, approximate=True), bf16))


@ours(x=vmem(8, 128), o=out(8, 128))
def mask_of_bounds(b: Builder, a: Any) -> None:
    low, high = (b.c_index(0), b.c_index(3)), (b.c_index(8), b.c_index(9))
    mask = b.create_mask(low, high, (8, 128))  # refused
    b.ref_store(a.o, b.where(mask, b.ref_load(a.x), b.zeros((8, 128), f32)))


@ours(x=vmem(8, 128), o=out(8, 128))
def mask_of_iota(b: Builder, a: Any) -> None:
    lanes = b.iota((8, 128), i32, (1,))
    mask = b.andi(
        b.cmpi("sge", lanes, b.full((8, 128), 3, i32)),
        b.cmpi("slt", lanes, b.full((8, 128), 9, i32)),
    )
    b.ref_store(a.o, b.where(mask, b.ref_load(a.x), b.zeros((8, 128), f32)))


@ours(x=vmem(16, 128), o=out(128))
def product_of_rows(b: Builder, a: Any) -> None:
    x = b.ref_load(a.x)
    b.ref_store(a.o, b.multi_reduction("mul", x, b.ones((128,), f32), (0,)))  # refused


@ours(x=vmem(16, 128), o=out(8, 128))
def product_of_halves(b: Builder, a: Any) -> None:
    x = b.ref_load(a.x)
    upper = b.extract_strided_slice(x, (0, 0), (8, 128), (1, 1))
    lower = b.extract_strided_slice(x, (8, 0), (8, 128), (1, 1))
    b.ref_store(a.o, b.mulf(upper, lower))


_NO_CODE: Final = errors.UnsupportedError
CASES: Final = [
    Refusal("matmul of i8", _NO_CODE, "tpu.matmul", "i8 by i8", "bf16", matmul_i8, matmul_in_bf16, targets=("v4",)),
    Refusal("matmul of i32", _NO_CODE, "tpu.matmul", "i32 by i32", "f32", matmul_i32, matmul_in_f32),
    Refusal("sum of i8", _NO_CODE, "arith.addi", "i8", "i32", add_i8, add_in_i32),
    Refusal(
        "maximum of i8", _NO_CODE, "arith.maxsi", "arith.maxsi on i8", "keep the result in 32 bits", max_i8, max_in_i32
    ),
    Refusal("sum of f8", _NO_CODE, "arith.addf", "arith.addf on f8E4M3FN", "32 bits", double_f8, double_in_f32),
    Refusal("load of f16", _NO_CODE, "tpu.load", "f16", "bf16", double_f16, double_bf16),
    Refusal("elements of 64 bits", _NO_CODE, None, "f64[8,128]", "f32", copy_f64, copy_f32),
    Refusal(
        "reciprocal of bf16",
        _NO_CODE,
        "tpu.reciprocal",
        "bf16",
        "f32",
        reciprocal_bf16,
        reciprocal_in_f32,
        targets=("v4", "v5e", "v5p"),
    ),
    Refusal("mask of bounds", _NO_CODE, "tpu.create_mask", "tpu.create_mask", "iota", mask_of_bounds, mask_of_iota),
    Refusal(
        "product of rows",
        _NO_CODE,
        "vector.multi_reduction",
        "vector<16x128xf32>",
        "halving",
        product_of_rows,
        product_of_halves,
    ),
]
