"""Reshapes, gathers and strides that have no vector layout."""

from __future__ import annotations

from typing import Any, Final

import jax
import jax.numpy as jnp

from conformance.harness.targets import REQUIRED
from conformance.refusals.case import Program, Refusal, ours, out, theirs, vmem
from mosaic_tpu.aot import errors
from mosaic_tpu.builder import Builder, f32, i1

Shape = jax.ShapeDtypeStruct


@ours(x=vmem(8, 120), o=out(960))
def flatten(b: Builder, a: Any) -> None:
    x = b.ref_load(a.x)
    y = b.shape_cast(x, (960,))  # refused
    b.ref_store(a.o, y)


@ours(x=vmem(8, 128), o=out(1024))
def flatten_whole_lanes(b: Builder, a: Any) -> None:
    b.ref_store(a.o, b.shape_cast(b.ref_load(a.x), (1024,)))


@theirs(Shape((12, 100), jnp.float32), out_shape=Shape((10, 120), jnp.float32))
def reflow(x: Any, o: Any) -> None:
    o[...] = x[...].reshape(10, 120)  # refused


@theirs(Shape((12, 128), jnp.float32), out_shape=Shape((3, 4, 128), jnp.float32))
def reflow_rows(x: Any, o: Any) -> None:
    o[...] = x[...].reshape(3, 4, 128)


@ours(x=vmem(8, 256), o=out(8, 8, 32))
def split_heads(b: Builder, a: Any) -> None:
    heads = b.shape_cast(b.ref_load(a.x), (8, 8, 32))  # refused
    b.ref_store(a.o, heads)


@ours(x=vmem(8, 256), o=out(16, 128))
def split_wide_heads(b: Builder, a: Any) -> None:
    b.ref_store(a.o, b.shape_cast(b.ref_load(a.x), (16, 128)))


@ours(x=vmem(8, 128), o=out(8, 64))
def every_other_lane(b: Builder, a: Any) -> None:
    b.ref_store(a.o, b.strided_load(a.x, (0, 0), (1, 2)))  # refused


@ours(x=vmem(8, 128), o=out(4, 128))
def every_other_row(b: Builder, a: Any) -> None:
    b.ref_store(a.o, b.strided_load(a.x, (0, 0), (2, 1)))


@ours(x=vmem(8, 256), o=out(4, 256))
def rows_of_a_wide_ref(b: Builder, a: Any) -> None:
    b.ref_store(a.o, b.strided_load(a.x, (0, 0), (2, 1)))  # refused


_WIDE: Final = (Shape((8, 256), jnp.float32), Shape((8, 256), jnp.int32))
_NARROW: Final = (Shape((8, 128), jnp.float32), Shape((8, 128), jnp.int32))


@theirs(*_WIDE, out_shape=_WIDE[0])
def gather_wide(x: Any, index: Any, o: Any) -> None:
    o[...] = jnp.take_along_axis(x[...], index[...], axis=1, mode="promise_in_bounds")  # refused


@theirs(*_NARROW, out_shape=_NARROW[0])
def gather_a_register(x: Any, index: Any, o: Any) -> None:
    o[...] = jnp.take_along_axis(x[...], index[...], axis=1, mode="promise_in_bounds")


_HALVES: Final = (Shape((16, 128), jnp.bfloat16), Shape((16, 128), jnp.int32))


@theirs(*_HALVES, out_shape=_HALVES[0])
def gather_bf16(x: Any, index: Any, o: Any) -> None:
    o[...] = jnp.take_along_axis(x[...], index[...], axis=1, mode="promise_in_bounds")  # refused


@theirs(*_HALVES, out_shape=_HALVES[0])
def gather_in_f32(x: Any, index: Any, o: Any) -> None:
    x32 = x[...].astype(jnp.float32)
    o[...] = jnp.take_along_axis(x32, index[...], axis=1, mode="promise_in_bounds").astype(jnp.bfloat16)


@theirs(Shape((128,), jnp.float32), Shape((128,), jnp.int32), out_shape=Shape((128,), jnp.float32))
def gather_rank_1(x: Any, index: Any, o: Any) -> None:
    o[...] = x[...].at[index[...]].get(mode="promise_in_bounds")  # refused


def load_a_mask() -> str:
    """Of another tool: the builder's refs of booleans hold i32, as Pallas's do."""
    return """module {
      func.func @load_a_mask(%x: memref<8x128xi1, #tpu.memory_space<vmem>>,
                             %o: memref<8x128xi32, #tpu.memory_space<vmem>>) attributes {
          dimension_semantics = [], scalar_prefetch = 0 : i64, scratch_operands = 0 : i64,
          tpu.core_type = #tpu.core_type<tc>} {
        %c0 = arith.constant 0 : index
        %mask = vector.load %x[%c0, %c0] : memref<8x128xi1, #tpu.memory_space<vmem>>, vector<8x128xi1>
        %number = arith.extui %mask : vector<8x128xi1> to vector<8x128xi32>
        tpu.vector_store %o[%c0, %c0], %number {strides = array<i32>} : memref<8x128xi32, #tpu.memory_space<vmem>>,
          vector<8x128xi32>,
        return
      }
    }"""


@ours(x=vmem(8, 128, dtype=i1), o=out(8, 128))
def load_a_boolean(b: Builder, a: Any) -> None:
    a.o[...] = b.where(a.x[...], b.ones((8, 128), f32), b.zeros((8, 128), f32))


_COLUMN: Final = (Shape((32,), jnp.int32), Shape((32, 128), jnp.float32))


@theirs(*_COLUMN, out_shape=_COLUMN[1])
def column_of_a_mask(lengths: Any, x: Any, o: Any) -> None:
    mask = lengths[...] < 20
    column = mask[:, None]  # refused
    o[...] = column.astype(jnp.float32) * x[...]


@theirs(*_COLUMN, out_shape=_COLUMN[1])
def mask_of_a_column(lengths: Any, x: Any, o: Any) -> None:
    column = lengths[...][:, None]
    o[...] = (column < 20).astype(jnp.float32) * x[...]


@ours(x=vmem(8, 128), o=out(8, 128))
def skew(b: Builder, a: Any) -> None:
    y = b.dynamic_rotate(b.ref_load(a.x), b.constant(1), 1, stride=3, stride_dimension=0)  # refused
    b.ref_store(a.o, y)


_NO_LAYOUT: Final = errors.LayoutError
CASES: Final = [
    Refusal("reshape of 120 lanes", _NO_LAYOUT, "tpu.reshape", "8x120xf32", "128", flatten, flatten_whole_lanes),
    Refusal("reshape across rows", _NO_LAYOUT, "tpu.reshape", "10x120xf32", "last dimension", reflow, reflow_rows),
    Refusal(
        "lanes split below 128",
        _NO_LAYOUT,
        "tpu.reshape",
        "vector<8x256xf32> to vector<8x8x32xf32>",
        "multiples of 128",
        split_heads,
        split_wide_heads,
        targets=("v4",),
    ),
    Refusal(
        "stride along lanes", _NO_LAYOUT, "tpu.strided_load", "skip lanes", "another", every_other_lane, every_other_row
    ),
    Refusal("stride in a wide ref", _NO_LAYOUT, "tpu.strided_load", "128", "128", rows_of_a_wide_ref, every_other_row),
    Refusal(
        "gather across registers",
        _NO_LAYOUT,
        "tpu.dynamic_gather",
        "vector<8x256xf32>",
        "one register",
        gather_wide,
        gather_a_register,
    ),
    Refusal("gather of bf16", errors.UnsupportedError, "tpu.dynamic_gather", "bf16", "f32", gather_bf16, gather_in_f32),
    Refusal(
        "gather in rank 1",
        _NO_LAYOUT,
        "tpu.dynamic_gather",
        "vector<128xf32>",
        "(n // 128, 128)",
        gather_rank_1,
        gather_a_register,
    ),
    Refusal(
        "booleans in memory",
        _NO_LAYOUT,
        None,
        "i1",
        "compare after the load",
        Program(load_a_mask, load_a_mask),
        load_a_boolean,
    ),
    # It takes the process with it, and a new one takes seconds.
    Refusal(
        "column of a mask",
        errors.InternalCompilerError,
        "tpu.reshape",
        "SIGABRT",
        "compare afterwards",
        column_of_a_mask,
        mask_of_a_column,
        targets=("v6e",),
    ),
    Refusal(
        "rotation that differs by row",
        errors.UnsupportedError,
        "tpu.dynamic_rotate",
        "rotate lane stride",
        "newer generation",
        skew,
        skew,
        targets=("v4",),
        remedied_on=REQUIRED,
    ),
]
