"""Kernels whose blocks come through windows: a matmul with a scratch accumulator, and small ones around it."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from conformance.faults.fault import Array, Fault, Working
from mosaic_tpu.sim import errors

# --- a matmul ------------------------------------------------------------------------------------------------------

BLOCK: Final = 128
SIZE: Final = 256


def matmul_kernel(x: Any, y: Any, o: Any, acc: Any, *, fault: str) -> None:
    i, j, k = (pl.program_id(axis) for axis in range(3))

    @pl.when((k == 0) & (fault != "no initialisation"))
    def initialise() -> None:
        acc[...] = jnp.zeros_like(acc)

    acc[...] += jnp.dot(x[...], y[...], preferred_element_type=jnp.float32)
    skipped = fault == "a step without a result"
    part = BLOCK // 2 if fault == "half of a result" else BLOCK

    @pl.when((k == SIZE // BLOCK - 1) & ~((i == 1) & (j == 0) & skipped))
    def finish() -> None:
        o[:part] = acc[:part]  # finish


def matmul(x: jax.Array, y: jax.Array, *, fault: str) -> jax.Array:
    blocks = SIZE // BLOCK
    ahead = int(fault == "a block past the end")

    def of_y(i: Any, j: Any, k: Any) -> tuple[Any, Any]:
        return k + ahead, j  # block of y

    return pl.pallas_call(
        functools.partial(matmul_kernel, fault=fault),
        grid=(blocks, blocks, blocks),
        out_shape=jax.ShapeDtypeStruct((SIZE, SIZE), jnp.float32),
        in_specs=[pl.BlockSpec((BLOCK, BLOCK), lambda i, j, k: (i, k)), pl.BlockSpec((BLOCK, BLOCK), of_y)],
        out_specs=pl.BlockSpec((BLOCK, BLOCK), lambda i, j, k: (i, j)),
        scratch_shapes=[pltpu.VMEM((BLOCK, BLOCK), jnp.float32)],
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "parallel", "arbitrary")),
    )(x, y)


def _factors() -> Sequence[Array]:
    rng = np.random.default_rng(0)
    # Small integers: bf16 products and their sums in f32 are exact.
    return [rng.integers(-8, 8, (SIZE, SIZE)).astype(jnp.bfloat16) for _ in range(2)]


def _product(arrays: Sequence[Array]) -> Sequence[Array]:
    x, y = (a.astype(np.float32) for a in arrays)
    return [x @ y]


MATMUL: Final = Working(
    "matmul with an accumulator", lambda fault: functools.partial(matmul, fault=fault), _factors, _product
)

# --- integer ops, an index from SMEM -------------------------------------------------------------------------------


def gather_kernel(starts: Any, amounts: Any, x: Any, o: Any) -> None:
    i = pl.program_id(0)
    rows = x[pl.ds(starts[i], 8)]  # rows
    shifted = lax.shift_left(rows, jnp.full_like(rows, amounts[0]))  # shift
    o[...] = shifted + lax.div(amounts[1], amounts[2])  # divide


def gather(starts: jax.Array, amounts: jax.Array, x: jax.Array) -> jax.Array:
    return pl.pallas_call(
        gather_kernel,
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=2,
            grid=(2,),
            in_specs=[pl.BlockSpec((32, 128), lambda i, *_: (0, 0))],
            out_specs=pl.BlockSpec((8, 128), lambda i, *_: (i, 0)),
        ),
        out_shape=jax.ShapeDtypeStruct((16, 128), jnp.int32),
    )(starts, amounts, x)


def _gathered(starts: tuple[int, int] = (3, 17), shift: int = 5, divisor: int = 3) -> Sequence[Array]:
    x = np.random.default_rng(0).integers(-9, 9, (32, 128)).astype(np.int32)
    return [np.array(starts, np.int32), np.array([shift, 20, divisor], np.int32), x]


def _rows(arrays: Sequence[Array]) -> Sequence[Array]:
    starts, (shift, dividend, divisor), x = arrays
    return [np.concatenate([x[s : s + 8] for s in starts]) * 2**shift + dividend // divisor]


GATHER: Final = Working("rows by an index", lambda _: gather, _gathered, _rows)

# --- in place ------------------------------------------------------------------------------------------------------


def increment_kernel(x: Any, o: Any) -> None:
    o[...] = x[...] + 1.0


def increment(x: jax.Array, *, fault: str) -> jax.Array:
    def of_output(i: Any) -> tuple[Any, int]:
        return (jnp.minimum(i + 1, 3) if fault == "write the next block" else i), 0

    return pl.pallas_call(
        increment_kernel,
        grid=(4,),
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        in_specs=[pl.BlockSpec((8, 128), lambda i: (i, 0))],
        out_specs=pl.BlockSpec((8, 128), of_output),
        input_output_aliases={0: 0},
    )(x)


def _blocks() -> Sequence[Array]:
    return [np.random.default_rng(0).standard_normal((32, 128)).astype(np.float32)]


INCREMENT: Final = Working(
    "in-place increment",
    lambda fault: functools.partial(increment, fault=fault),
    _blocks,
    lambda arrays: [arrays[0] + np.float32(1)],
)


# --- the order of a grid -------------------------------------------------------------------------------------------


def running_sum_kernel(x: Any, o: Any, total: Any) -> None:
    @pl.when(pl.program_id(0) == 0)
    def initialise() -> None:
        total[...] = jnp.zeros_like(total)

    total[...] += x[...]
    o[...] = total[...]


def running_sum(x: jax.Array, *, fault: str) -> jax.Array:
    spec = pl.BlockSpec((8, 128), lambda i: (i, 0))
    return pl.pallas_call(
        running_sum_kernel,
        grid=(4,),
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        in_specs=[spec],
        out_specs=spec,
        scratch_shapes=[pltpu.VMEM((8, 128), x.dtype)],
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel" if fault == "parallel" else "arbitrary",)),
    )(x)


def _sums(arrays: Sequence[Array]) -> Sequence[Array]:
    return [np.cumsum(arrays[0].reshape(4, 8, 128), axis=0, dtype=np.float32).reshape(32, 128)]


#: Whose grid must run in order: `shuffle=True` gives other outputs from seed to seed where it is said to be parallel.
RUNNING_SUM: Final = Working("running sum", lambda fault: functools.partial(running_sum, fault=fault), _blocks, _sums)

# --- faults --------------------------------------------------------------------------------------------------------

KERNELS: Final = [MATMUL, GATHER, INCREMENT, RUNNING_SUM]

FAULTS: Final = [
    Fault(
        "missing accumulator initialisation",
        MATMUL,
        errors.UninitializedError,
        planted="no initialisation",
        line="# finish",
        op="tpu.vector_store",
        buffer="o",
        says="depend on what uninitialised memory holds",
        options={"compare_fills": True},
    ),
    Fault(
        "window block out of bounds",
        MATMUL,
        errors.OutOfBoundsError,
        planted="a block past the end",
        line="# block of y",
        op="matmul_kernel",
        buffer="y",
        says="block [2, 0] lies outside the array",
    ),
    Fault(
        "unwritten grid step",
        MATMUL,
        errors.UnwrittenOutputError,
        planted="a step without a result",
        line="# finish",
        op="tpu.vector_store",
        buffer="o",
        says="16384 of 65536 elements",
    ),
    Fault(
        "unwritten part of every block",
        MATMUL,
        errors.UnwrittenOutputError,
        planted="half of a result",
        line="# finish",
        op="tpu.vector_store",
        buffer="o",
        says="32768 of 65536 elements",
    ),
    Fault(
        "load out of bounds",
        GATHER,
        errors.OutOfBoundsError,
        arrays=functools.partial(_gathered, starts=(3, 25)),
        line="# rows",
        op="vector.load",
        buffer="x window",
        says="index 25 of dimension 0, 8 long, in a size of 32",
    ),
    Fault(
        "shift past the width",
        GATHER,
        errors.UndefinedResultError,
        arrays=functools.partial(_gathered, shift=32),
        line="# shift",
        op="arith.shli",
    ),
    Fault(
        "division by zero",
        GATHER,
        errors.UndefinedResultError,
        arrays=functools.partial(_gathered, divisor=0),
        line="# divide",
        op="arith.divsi",
    ),
    Fault(
        "aliased windows: a block is fetched ahead that is still to be written",
        INCREMENT,
        errors.WriteToSourceError,
        planted="write the next block",
        line="",
        op="increment_kernel",
        buffer="x",
        says="by the DMA of a window, o window 0 to x",
    ),
]
