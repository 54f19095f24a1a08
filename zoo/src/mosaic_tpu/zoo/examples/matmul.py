"""Two matrices."""

from __future__ import annotations

import numpy as np

from mosaic_tpu.builder import f16
from mosaic_tpu.zoo.examples._example import BF16, Example, is_rounded, numbers
from mosaic_tpu.zoo.kernels.matmul import MatmulConfig


def example(cfg: MatmulConfig, rng: np.random.Generator) -> Example:
    """Normal floats, or integers of up to 7.

    >>> example(MatmulConfig(m=512, n=512, k=512), np.random.default_rng(0)).arrays["x"].shape
    (512, 512)
    """
    types = (cfg.x_dtype, cfg.y_dtype)
    rounded = 0 if types == (f16, f16) else sum(map(is_rounded, types))  # the MXU multiplies f16 as it is
    return Example(
        arrays={"x": numbers(rng, (cfg.m, cfg.k), cfg.x_dtype), "y": numbers(rng, (cfg.k, cfg.n), cfg.y_dtype)},
        options={
            "block_shape": (cfg.block_m, cfg.block_n),
            "block_k": cfg.block_k,
            "out_dtype": cfg.out_dtype.numpy,
        },
        roundoff=rounded * BF16,
    )
