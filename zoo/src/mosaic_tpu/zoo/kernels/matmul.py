"""A blocked matmul with an accumulator in scratch: the kernel of `jax.experimental.pallas.ops.tpu.matmul`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from mosaic_tpu.builder import (
    Builder,
    DType,
    Ref,
    Role,
    Scalar,
    Window,
    arbitrary,
    bf16,
    f32,
    i4,
    i8,
    i32,
    parallel,
)
from mosaic_tpu.kernel import ConfigError, Kernel
from mosaic_tpu.zoo.kernels._numbers import is_size

INTEGERS: Final = (i8, i4)


@dataclass(frozen=True)
class MatmulConfig:
    """Sizes, blocks and element types of ``o = x @ y``.

    Attributes:
        m: rows of x and o.
        n: columns of y and o.
        k: columns of x, rows of y.
        block_m: rows of a block of o; divides ``m``.
        block_n: columns of a block of o; divides ``n``.
        block_k: how much of the contracted dimension one grid step takes; divides ``k``.
        x_dtype: of x: a float of 8 to 32 bits, or a signed integer of 4 or 8.
        y_dtype: of y, likewise.
        out_dtype: of o: a float or an integer of 4 to 32 bits.

    Raises:
        ConfigError: a block does not divide its side, or an element type that the MXU does not take.

    Example:
        >>> MatmulConfig(m=1024, n=512, k=512, block_m=256).grid
        (4, 1, 1)
    """

    m: int
    n: int
    k: int
    block_m: int = 512
    block_n: int = 512
    block_k: int = 512
    x_dtype: DType = bf16
    y_dtype: DType = bf16
    out_dtype: DType = bf16

    def __post_init__(self) -> None:
        for name in ("m", "n", "k"):
            self._check_block(name, getattr(self, name), getattr(self, f"block_{name}"))
        for name in ("x", "y", "out"):
            if not isinstance(getattr(self, f"{name}_dtype"), DType):
                raise ConfigError(
                    f"{name}_dtype is {getattr(self, f'{name}_dtype')!r}", hint="as_dtype(…) makes a DType"
                )
        for name, dtype in (("x", self.x_dtype), ("y", self.y_dtype)):
            if dtype not in INTEGERS and not (dtype.is_float and dtype.bits <= 32):
                raise ConfigError(f"{name} has element type {dtype}", hint="floats up to 32 bits, i8 or i4; cast first")
        if self.out_dtype.bits not in (4, 8, 16, 32):
            raise ConfigError(f"out_dtype is {self.out_dtype}", hint="floats and integers of 4 to 32 bits")
        if self.x_dtype in INTEGERS and self.y_dtype not in INTEGERS:
            raise ConfigError(
                f"x is {self.x_dtype}, y is {self.y_dtype}", hint=f"cast x to {self.y_dtype}: sums follow x"
            )

    def _check_block(self, name: str, size: int, block: int) -> None:
        if not (is_size(size) and is_size(block)):
            raise ConfigError(f"{name}={size!r} in blocks of {block!r}", hint="sizes and blocks are positive ints")
        if size % block:
            raise ConfigError(
                f"block_{name}={block} does not divide {name}={size}",
                hint=f"choose a divisor, or pad {name} to {-(-size // block) * block}",
            )

    @property
    def accumulator_dtype(self) -> DType:
        """What products are summed in."""
        return i32 if self.x_dtype in INTEGERS else f32

    @property
    def grid(self) -> tuple[int, int, int]:
        """Rows, columns and steps of the contraction, which run innermost."""
        return self.m // self.block_m, self.n // self.block_n, self.k // self.block_k


def matmul_kernel(b: Builder, cfg: MatmulConfig) -> None:
    """Add one product of blocks to the accumulator, and write it out.

    The output block is written at every step: the store packs well beside the product, and only the last one reaches
    HBM.
    """
    x_block, y_block = (cfg.block_m, cfg.block_k), (cfg.block_k, cfg.block_n)
    o_block = (cfg.block_m, cfg.block_n)
    a = b.declare_args(
        {
            "i": Scalar(i32),
            "j": Scalar(i32),
            "k": Scalar(i32),
            "x": Ref(x_block, cfg.x_dtype, window=Window(index_map=lambda i, j, k: (i, k))),
            "y": Ref(y_block, cfg.y_dtype, window=Window(index_map=lambda i, j, k: (k, j))),
            "o": Ref(o_block, cfg.out_dtype, role=Role.OUTPUT, window=Window(index_map=lambda i, j, k: (i, j))),
            "acc": Ref(o_block, cfg.accumulator_dtype, role=Role.SCRATCH),
        },
        grid=cfg.grid,
        dimension_semantics=(parallel, parallel, arbitrary),
    )
    with b.pallas.when(a.k.eq(0)):
        a.acc[...] = b.pallas.zeros(o_block, cfg.accumulator_dtype)
    a.acc[...] = a.acc[...] + b.pallas.dot(a.x[...], a.y[...], preferred_element_type=cfg.accumulator_dtype)
    a.o[...] = b.pallas.astype(a.acc[...], cfg.out_dtype)


KERNEL: Final = Kernel("matmul_kernel", MatmulConfig, inputs=("x", "y"), outputs=("o",), run=matmul_kernel)
