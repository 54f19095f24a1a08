"""Two matrices."""

from __future__ import annotations

import numpy as np

from mosaic_tpu.zoo.examples._example import Example, numbers
from mosaic_tpu.zoo.kernels.matmul import MatmulConfig


def example(cfg: MatmulConfig, rng: np.random.Generator) -> Example:
    """Normal floats, or integers of up to 7.

    >>> example(MatmulConfig(m=512, n=512, k=512), np.random.default_rng(0)).arrays["x"].shape
    (512, 512)
    """
    return Example(
        arrays={"x": numbers(rng, (cfg.m, cfg.k), cfg.x_dtype), "y": numbers(rng, (cfg.k, cfg.n), cfg.y_dtype)},
        options={
            "block_shape": (cfg.block_m, cfg.block_n),
            "block_k": cfg.block_k,
            "out_dtype": cfg.out_dtype.numpy,
        },
    )
