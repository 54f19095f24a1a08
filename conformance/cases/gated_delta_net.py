"""Gated delta net configs: the zoo's design against its twin, and the seed's own form against its Pallas source.

All lower on JAX 0.11.2 and on 0.12. The seed's form is for parity of the IR only: the TPU compiler refuses it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace

import jax

from conformance.kernels.gated_delta_net_seed import GatedDeltaNetSeedConfig
from conformance.twins import gated_delta_net as twin
from conformance.twins import gated_delta_net_seed as seed_twin
from mosaic_tpu.builder import as_dtype
from mosaic_tpu.zoo.kernels.gated_delta_net import GatedDeltaNetConfig


@dataclass(frozen=True)
class GdnConfig:
    """One gated delta net: `tokens` tokens of `seqs` sequences. Blocks of `None` are chosen as the twin chooses."""

    id: str
    tokens: int = 256
    heads: int = 2
    value_heads: int = 4
    key_dim: int = 128
    value_dim: int = 128
    seqs: int = 2
    dtype: str = "bfloat16"
    beta_dtype: str = "bfloat16"
    block_tokens: int = 128
    block_heads: int | None = None
    block_v: int = 128
    scale: float | None = None
    use_qk_l2norm: bool = True
    transpose_keys: bool = False
    vmem_limit_bytes: int | None = None


@dataclass(frozen=True)
class GdnSeedConfig:
    """One gated delta net in the seed's form, in blocks of `block_k` and `block_v` lanes."""

    id: str
    tokens: int = 16
    heads: int = 2
    value_heads: int = 4
    key_dim: int = 128
    value_dim: int = 128
    seqs: int = 2
    dtype: str = "bfloat16"
    beta_dtype: str = "bfloat16"
    block_k: int = 128
    block_v: int = 128
    scale: float | None = None
    use_qk_l2norm: bool = True


_QWEN3_NEXT = GdnConfig("qwen3-next", tokens=4096, heads=16, value_heads=32, seqs=8)
_F32 = GdnConfig("f32", dtype="float32", beta_dtype="float32")

CONFIGS = [
    # dtypes
    GdnConfig("bf16"),
    _F32,
    GdnConfig("bf16-beta-f32", beta_dtype="float32"),
    # heads
    GdnConfig("one-head", heads=1, value_heads=1),
    GdnConfig("one-head-two-value-heads", heads=1, value_heads=2),
    GdnConfig("group-1", heads=4, value_heads=4),
    GdnConfig("group-3", heads=2, value_heads=6),
    GdnConfig("group-4", heads=8, value_heads=32),
    GdnConfig("heads-3", heads=3, value_heads=3),
    GdnConfig("head-blocks-2", heads=16, value_heads=16),
    GdnConfig("head-blocks-3", heads=24, value_heads=48),
    GdnConfig("head-blocks-all", heads=16, value_heads=16, block_heads=16),
    # widths
    GdnConfig("key-dim-64", key_dim=64),
    GdnConfig("key-dim-96", key_dim=96),
    GdnConfig("key-dim-256", key_dim=256),
    GdnConfig("value-dim-64", value_dim=64),
    GdnConfig("value-dim-192", value_dim=192),
    GdnConfig("value-dim-256", value_dim=256),
    GdnConfig("value-dim-256-one-block", value_dim=256, block_v=256),
    GdnConfig("value-dim-320-blocks-256", value_dim=320, block_v=256),
    GdnConfig("odd-widths", key_dim=40, value_dim=200),
    # sequences and tokens
    GdnConfig("one-sequence", seqs=1),
    GdnConfig("sequences-9", seqs=9),
    GdnConfig("tokens-1", tokens=1),
    GdnConfig("tokens-13", tokens=13),
    GdnConfig("tokens-ragged", tokens=300),
    GdnConfig("one-token-block", tokens=128),
    GdnConfig("block-tokens-8", tokens=64, block_tokens=8),
    GdnConfig("block-tokens-64-ragged", tokens=200, block_tokens=64, seqs=5),
    GdnConfig("block-tokens-256", tokens=512, block_tokens=256),
    # options
    GdnConfig("no-l2norm", use_qk_l2norm=False),
    replace(_F32, id="f32-no-l2norm", use_qk_l2norm=False),
    GdnConfig("scale", scale=0.25),
    GdnConfig("scale-1", scale=1.0),
    GdnConfig("transpose-keys", transpose_keys=True),
    GdnConfig("transpose-keys-one-head", transpose_keys=True, heads=1, value_heads=2),
    replace(_F32, id="f32-transpose-keys-no-l2norm", transpose_keys=True, use_qk_l2norm=False),
    GdnConfig("vmem-limit", vmem_limit_bytes=64 * 1024 * 1024),
    # models
    _QWEN3_NEXT,
    replace(_QWEN3_NEXT, id="qwen3-next-transpose-keys", transpose_keys=True),
    replace(_QWEN3_NEXT, id="qwen3-next-f32", dtype="float32", beta_dtype="float32"),
    replace(_QWEN3_NEXT, id="qwen3-next-blocks-256", block_tokens=256),
    replace(_QWEN3_NEXT, id="qwen3-next-decode", tokens=8),
    replace(_QWEN3_NEXT, id="qwen3-next-half", tokens=4096, heads=8, value_heads=16),
]

SEED_CONFIGS = [
    GdnSeedConfig("seed-bf16"),
    GdnSeedConfig("seed-f32", dtype="float32", beta_dtype="float32"),
    GdnSeedConfig("seed-beta-f32", beta_dtype="float32"),
    GdnSeedConfig("seed-one-head", heads=1, value_heads=1),
    GdnSeedConfig("seed-group-1", heads=4, value_heads=4),
    GdnSeedConfig("seed-group-3", heads=2, value_heads=6),
    GdnSeedConfig("seed-one-sequence", seqs=1),
    GdnSeedConfig("seed-tokens-50", tokens=50, seqs=5),
    GdnSeedConfig("seed-two-value-blocks", value_dim=256),
    GdnSeedConfig("seed-key-dim-256", key_dim=256, block_k=256),
    GdnSeedConfig("seed-key-dim-96", key_dim=96),
    GdnSeedConfig("seed-value-dim-96", value_dim=96),
    GdnSeedConfig("seed-odd-widths", key_dim=100, value_dim=200),
    GdnSeedConfig("seed-block-v-8", value_dim=20, block_v=8),
    GdnSeedConfig("seed-no-l2norm", use_qk_l2norm=False),
    GdnSeedConfig("seed-scale", scale=0.25),
]


def args(config: GdnConfig | GdnSeedConfig) -> dict[str, jax.ShapeDtypeStruct]:
    """The shapes and dtypes of the operands, in the order of the function's parameters."""
    c = config
    shapes = {
        "q": ((1, c.tokens, c.heads, c.key_dim), c.dtype),
        "k": ((1, c.tokens, c.heads, c.key_dim), c.dtype),
        "v": ((1, c.tokens, c.value_heads, c.value_dim), c.dtype),
        "g": ((1, c.tokens, c.value_heads), "float32"),
        "beta": ((1, c.tokens, c.value_heads), c.beta_dtype),
        "h0": ((c.seqs, c.value_heads, c.key_dim, c.value_dim), "float32"),
        "cu_seqlens": ((c.seqs + 1,), "int32"),
    }
    return {name: jax.ShapeDtypeStruct(shape, dtype) for name, (shape, dtype) in shapes.items()}


def pallas_fn(config: GdnConfig) -> Callable[..., tuple[jax.Array, jax.Array]]:
    """The twin at `config`, a function of the arrays in the order of `args`."""
    return functools.partial(
        twin.gated_delta_net,
        scale=config.scale,
        use_qk_l2norm=config.use_qk_l2norm,
        block_tokens=config.block_tokens,
        block_heads=config.block_heads,
        block_v=config.block_v,
        transpose_keys=config.transpose_keys,
        vmem_limit_bytes=config.vmem_limit_bytes,
    )


def seed_pallas_fn(config: GdnSeedConfig) -> Callable[..., tuple[jax.Array, jax.Array]]:
    """The seed's form in Pallas at `config`."""
    return functools.partial(
        seed_twin.fused_recurrent_gated_delta_rule_fwd,
        scale=config.scale,
        use_qk_l2norm=config.use_qk_l2norm,
        block_k=config.block_k,
        block_v=config.block_v,
    )


def zoo_config(config: GdnConfig) -> GatedDeltaNetConfig:
    """The zoo's config, with the twin's choice of blocks."""
    arrays = args(config)
    blocks = twin.plan_gated_delta_net(
        arrays["q"].shape,
        arrays["v"].shape,
        config.seqs,
        block_tokens=config.block_tokens,
        block_heads=config.block_heads,
        block_v=config.block_v,
    )
    return GatedDeltaNetConfig(
        tokens=config.tokens,
        key_heads=config.heads,
        value_heads=config.value_heads,
        key_dim=config.key_dim,
        value_dim=config.value_dim,
        sequences=config.seqs,
        block_tokens=blocks.block_tokens,
        block_heads=blocks.block_heads,
        block_v=blocks.block_v,
        dtype=as_dtype(config.dtype),
        scale=config.scale,
        use_qk_l2norm=config.use_qk_l2norm,
        transpose_keys=config.transpose_keys,
        vmem_limit_bytes=config.vmem_limit_bytes,
    )


def seed_config(config: GdnSeedConfig) -> GatedDeltaNetSeedConfig:
    """The config of `conformance.kernels.gated_delta_net_seed`."""
    return GatedDeltaNetSeedConfig(
        tokens=config.tokens,
        key_heads=config.heads,
        value_heads=config.value_heads,
        key_dim=config.key_dim,
        value_dim=config.value_dim,
        sequences=config.seqs,
        block_k=config.block_k,
        block_v=config.block_v,
        dtype=as_dtype(config.dtype),
        beta_dtype=as_dtype(config.beta_dtype),
        scale=config.scale,
        use_qk_l2norm=config.use_qk_l2norm,
    )
