"""The matmul of the Pallas documentation, op by op: its twin is `conformance.twins.matmul`."""

from __future__ import annotations

from dataclasses import dataclass

from mosaic_tpu.builder import Builder, DimensionSemantics, Ref, Role, Scalar, Window, arbitrary, i32, parallel
from mosaic_tpu.kernel import Kernel
from mosaic_tpu.zoo.kernels.matmul import MatmulConfig


@dataclass(frozen=True)
class ScratchMatmulConfig(MatmulConfig):
    """The zoo's sizes, and the semantics of the grid's dimensions."""

    dimension_semantics: tuple[DimensionSemantics | str, ...] = (parallel, parallel, arbitrary)


def scratch_matmul_kernel(b: Builder, cfg: ScratchMatmulConfig) -> None:
    """The zoo's matmul, but for the output, which only the last step of the contraction writes."""
    x_block, y_block = (cfg.block_m, cfg.block_k), (cfg.block_k, cfg.block_n)
    o_block, accumulator = (cfg.block_m, cfg.block_n), cfg.accumulator_dtype
    a = b.declare_args(
        dict(
            i=Scalar(i32),
            j=Scalar(i32),
            k=Scalar(i32),
            x=Ref(x_block, cfg.x_dtype, window=Window(index_map=lambda i, j, k: (i, k))),
            y=Ref(y_block, cfg.y_dtype, window=Window(index_map=lambda i, j, k: (k, j))),
            o=Ref(o_block, cfg.out_dtype, role=Role.OUTPUT, window=Window(index_map=lambda i, j, k: (i, j))),
            acc=Ref(o_block, accumulator, role=Role.SCRATCH),
        ),
        grid=cfg.grid,
        dimension_semantics=cfg.dimension_semantics,
    )
    with b.pallas.when(a.k.eq(0)):
        a.acc[...] = b.pallas.zeros(o_block, accumulator)
    a.acc[...] = a.acc[...] + b.pallas.dot(a.x[...], a.y[...], preferred_element_type=accumulator)
    with b.pallas.when(a.k.eq(cfg.grid[2] - 1)):
        a.o[...] = b.pallas.astype(a.acc[...], cfg.out_dtype)


KERNEL = Kernel("matmul_kernel", ScratchMatmulConfig, inputs=("x", "y"), outputs=("o",), run=scratch_matmul_kernel)
