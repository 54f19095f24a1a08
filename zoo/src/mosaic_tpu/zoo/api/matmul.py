"""`matmul`, with the arguments of `jax.experimental.pallas.ops.tpu.matmul`."""

from __future__ import annotations

from typing import Final

import jax
from jax.typing import DTypeLike

from mosaic_tpu.builder import DType
from mosaic_tpu.kernel import InputError
from mosaic_tpu.zoo.kernels.matmul import KERNEL, MatmulConfig
from mosaic_tpu.zoo.tuned import attached_generation, tuned
from mosaic_tpu.zoo.validation._arguments import check_arrays, element_type

#: Blocks of a side that is not given: 512 keeps two buffers of each operand within the default VMEM limit.
BLOCK: Final = 512
#: What the wheel's function takes for ``block_k``.
BLOCK_K: Final = 256
LANES: Final = 128
SUBLANES: Final = 8


def matmul(
    x: jax.Array,
    y: jax.Array,
    *,
    block_shape: tuple[int, int] | None = None,
    block_k: int | None = None,
    out_dtype: DTypeLike | None = None,
    debug: bool = False,
) -> jax.Array:
    """``x @ y`` on the MXU, in blocks, summed in f32 (in i32 for integers).

    Takes what `jax.experimental.pallas.ops.tpu.matmul.matmul` takes and emits the same kernel; in addition, blocks may
    be left out, and blocks that do not divide are an error instead of a wrong result.

    Args:
        x: ``[M, K]``: floats up to 32 bits, or signed integers of 4 or 8 bits.
        y: ``[K, N]``, likewise.
        block_shape: rows and columns of a block of the result; divides M and N. If omitted, on a TPU for whose
            generation these shapes were tuned (`mosaic_tpu.zoo.tuned`), what was found; else the largest that divides
            and has at most 512 of each.
        block_k: how much of K one step takes; divides K. If omitted, chosen like ``block_shape``, or 256 as in the
            wheel beside a ``block_shape`` where that divides K.
        out_dtype: of the result; needed where x and y have different dtypes.
        debug: print the kernel's MLIR.

    Returns:
        ``[M, N]`` of ``out_dtype``.

    Raises:
        InputError: the shapes or dtypes do not fit, or no block divides a side; says which size to pad to.
        ConfigError: a block that was given does not divide its side.
    """
    cfg = plan(x, y, block_shape=block_shape, block_k=block_k, out_dtype=out_dtype)
    if debug:
        print(KERNEL.emit(cfg, canonical=False))
    return KERNEL(cfg=cfg, x=x, y=y)


def plan(
    x: jax.Array | jax.ShapeDtypeStruct,
    y: jax.Array | jax.ShapeDtypeStruct,
    *,
    block_shape: tuple[int, int] | None = None,
    block_k: int | None = None,
    out_dtype: DTypeLike | None = None,
) -> MatmulConfig:
    """The config of a call, with blocks chosen; only shapes and dtypes of the arrays are looked at."""
    check_arrays("matmul", x=x, y=y)
    if len(x.shape) != 2 or len(y.shape) != 2 or x.shape[1] != y.shape[0]:
        raise InputError(
            f"x {list(x.shape)} and y {list(y.shape)} do not multiply", op="matmul", hint="x [M, K], y [K, N]"
        )
    (m, k), n = x.shape, y.shape[1]
    if not m or not k or not n:
        raise InputError(f"x {list(x.shape)} or y {list(y.shape)} is empty", op="matmul", hint="sizes are at least 1")
    x_dtype, y_dtype = element_type("matmul", "x", x.dtype), element_type("matmul", "y", y.dtype)
    if out_dtype is None and x_dtype is not y_dtype:
        raise InputError(
            f"x is {x_dtype}, y is {y_dtype}: the result could be either", op="matmul", hint="give out_dtype="
        )
    result_dtype = x_dtype if out_dtype is None else element_type("matmul", "out_dtype", out_dtype)
    if block_shape is None and block_k is None:
        dtypes = {"x_dtype": str(x_dtype), "y_dtype": str(y_dtype), "out_dtype": str(result_dtype)}
        best = tuned("matmul", attached_generation(), m=m, n=n, k=k, **dtypes)
        if best is not None:
            block_shape, block_k = (best["block_m"], best["block_n"]), best["block_k"]
    if block_shape is None:
        block_m, block_n = _block("M", m, _sublanes(x_dtype)), _block("N", n, LANES)
    else:
        block_m, block_n = _pair(block_shape)
    if block_k is None:
        block_k = BLOCK_K if block_shape is not None and k % BLOCK_K == 0 else _block("K", k, LANES)
    return MatmulConfig(
        m=m,
        n=n,
        k=k,
        block_m=block_m,
        block_n=block_n,
        block_k=block_k,
        x_dtype=x_dtype,
        y_dtype=y_dtype,
        out_dtype=result_dtype,
    )


def _pair(block_shape: object) -> tuple[int, int]:
    if not isinstance(block_shape, tuple | list) or len(block_shape) != 2:  # pyright: ignore[reportUnknownArgumentType]
        raise InputError(f"block_shape is {block_shape!r}", op="matmul", hint="rows and columns: (512, 512)")
    return block_shape[0], block_shape[1]  # pyright: ignore[reportUnknownVariableType]


def _sublanes(dtype: DType) -> int:
    """Rows of one tile: a 32-bit row of sublanes holds several narrower ones."""
    return SUBLANES * dtype.packing


def _block(name: str, size: int, tile: int) -> int:
    """The largest block of whole tiles that divides ``size``; a size that fits into one block needs no tiles."""
    if size <= BLOCK:
        return size
    for block in range(BLOCK, 0, -tile):
        if size % block == 0:
            return block
    raise InputError(
        f"{name}={size} has no block of whole tiles of {tile}",
        op="matmul",
        hint=f"pad {name} to {-(-size // tile) * tile} with zeros and slice the result, or give the blocks yourself",
    )
