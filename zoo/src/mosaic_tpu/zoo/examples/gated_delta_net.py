"""Sequences laid end to end, with keys of unit length, slow decay and states to start from."""

from __future__ import annotations

import numpy as np

from mosaic_tpu.builder import f32
from mosaic_tpu.zoo.examples._example import Example, numbers
from mosaic_tpu.zoo.kernels.gated_delta_net import GatedDeltaNetConfig


def example(cfg: GatedDeltaNetConfig, rng: np.random.Generator) -> Example:
    """Decays of about 1 % a token and rates between 0 and 1, as a trained layer has them."""
    keys, values = (1, cfg.tokens, cfg.key_heads, cfg.key_dim), (1, cfg.tokens, cfg.value_heads, cfg.value_dim)
    # Without the kernel's own normalisation, longer keys would make the state grow without bound.
    length = 1.0 if cfg.use_qk_l2norm else cfg.key_dim**-0.5
    cuts = np.sort(rng.integers(0, cfg.tokens + 1, cfg.sequences - 1))
    return Example(
        arrays={
            "q": numbers(rng, keys, cfg.dtype, length),
            "k": numbers(rng, keys, cfg.dtype, length),
            "v": numbers(rng, values, cfg.dtype),
            "g": (-0.02 * rng.random(values[:3])).astype(np.float32),
            "beta": rng.random(values[:3]).astype(np.float32),
            "h0": numbers(rng, (cfg.sequences, cfg.value_heads, cfg.key_dim, cfg.value_dim), f32, 0.3),
            "cu_seqlens": np.concatenate([[0], cuts, [cfg.tokens]]).astype(np.int32),
        },
        options={
            "scale": cfg.scale,
            "use_qk_l2norm": cfg.use_qk_l2norm,
            "block_tokens": cfg.block_tokens,
            "block_heads": cfg.block_heads,
            "block_v": cfg.block_v,
            "transpose_keys": cfg.transpose_keys,
            "vmem_limit_bytes": cfg.vmem_limit_bytes,
        },
    )
