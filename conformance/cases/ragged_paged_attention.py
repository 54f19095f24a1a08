"""Configs of `jax.experimental.pallas.ops.tpu.ragged_paged_attention`.

All lower on JAX 0.11.2 and on 0.12. Not here, because the kernel refuses them: float16 queries (it asserts bf16 or
f32), and head blocks of fewer than eight query heads that are not all of them (multi-head f32 with 16 heads).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace

import jax
from jax.experimental.pallas.ops.tpu import ragged_paged_attention as wheel
from jax.experimental.pallas.ops.tpu.ragged_paged_attention.kernel import DEFAULT_MASK_VALUE


@dataclass(frozen=True)
class RpaConfig:
    """One ragged paged attention: `tokens` queries of up to `seqs` sequences against a paged KV cache."""

    id: str
    tokens: int = 64
    q_heads: int = 8
    kv_heads: int = 2
    head_dim: int = 128
    q_dtype: str = "bfloat16"
    kv_dtype: str = "bfloat16"
    pages: int = 64
    page_size: int = 16
    seqs: int = 4
    pages_per_seq: int = 16
    pages_per_block: int = 4
    queries_per_block: int = 16
    sm_scale: float = 1.0
    soft_cap: float | None = None
    sliding_window: int | None = None
    mask_value: float | None = DEFAULT_MASK_VALUE
    k_scale: float | None = None
    v_scale: float | None = None
    vmem_limit_bytes: int | None = None

    @property
    def refused(self) -> str:
        """What the TPU compiler says to it; empty where it compiles.

        One config of each reason is compiled for v5e, v6e and tpu7x, and refused by each (`test_compile.py`).
        """
        if self.head_dim != 128:
            return "Not Implemented: The last dim size is not 128 in original base memref"
        return "Invalid vector register cast" if self.kv_dtype == "float16" else ""


_SCALED = {"k_scale": 0.5, "v_scale": 0.25}
_LLAMA = RpaConfig(
    "llama3-8b",
    tokens=256,
    q_heads=32,
    kv_heads=8,
    pages=256,
    seqs=16,
    pages_per_seq=32,
    pages_per_block=8,
    queries_per_block=32,
    sm_scale=128**-0.5,
)
_F32 = RpaConfig("f32", q_dtype="float32", kv_dtype="float32")
_S8 = RpaConfig("bf16-s8", kv_heads=4, kv_dtype="int8", **_SCALED)
_E4M3 = RpaConfig("bf16-e4m3", kv_heads=4, kv_dtype="float8_e4m3fn", **_SCALED)
_E5M2 = RpaConfig("bf16-e5m2", kv_heads=4, kv_dtype="float8_e5m2", **_SCALED)
_WIDE = {"tokens": 256, "pages": 256, "seqs": 8, "pages_per_seq": 32}

CONFIGS = [
    # dtypes
    RpaConfig("bf16"),
    _F32,
    RpaConfig("f32-bf16", q_dtype="float32"),
    RpaConfig("bf16-f32", kv_dtype="float32"),
    RpaConfig("bf16-f16", kv_dtype="float16"),
    RpaConfig("bf16-f16-scaled", kv_dtype="float16", **_SCALED),
    RpaConfig("f32-f16-scaled", q_dtype="float32", kv_dtype="float16", **_SCALED),
    _S8,
    _E4M3,
    _E5M2,
    replace(_S8, id="f32-s8", q_dtype="float32"),
    replace(_E4M3, id="f32-e4m3", q_dtype="float32"),
    replace(_E5M2, id="f32-e5m2", q_dtype="float32"),
    replace(_S8, id="bf16-s8-unscaled", k_scale=None, v_scale=None),
    replace(_E4M3, id="bf16-e4m3-unscaled", k_scale=None, v_scale=None),
    replace(_E5M2, id="bf16-e5m2-unscaled", k_scale=None, v_scale=None),
    # heads
    RpaConfig("multi-head", q_heads=4, kv_heads=4),
    RpaConfig("multi-query", q_heads=8, kv_heads=1),
    RpaConfig("group-2", q_heads=8, kv_heads=4),
    RpaConfig("group-3-odd", q_heads=6, kv_heads=2),
    RpaConfig("group-7", q_heads=28, kv_heads=4),
    RpaConfig("f32-group-1", q_heads=4, kv_heads=4, q_dtype="float32", kv_dtype="float32"),
    RpaConfig("bf16-head-blocks-2", q_heads=32, kv_heads=16),
    RpaConfig("bf16-head-blocks-3", q_heads=48, kv_heads=24),
    RpaConfig("bf16-head-blocks-2-group-4", q_heads=64, kv_heads=16),
    RpaConfig("f32-head-blocks-2", q_heads=16, kv_heads=8, q_dtype="float32", kv_dtype="float32"),
    RpaConfig("f32-head-blocks-4", q_heads=64, kv_heads=16, q_dtype="float32", kv_dtype="float32"),
    replace(_S8, id="s8-head-blocks-2", q_heads=32, kv_heads=32),
    replace(_E4M3, id="e4m3-head-blocks-2", q_heads=64, kv_heads=32),
    replace(_E5M2, id="e5m2-two-kv-heads", q_heads=8, kv_heads=2),
    # head dimension
    RpaConfig("bf16-256", head_dim=256),
    replace(_F32, id="f32-256", head_dim=256),
    replace(_S8, id="s8-256", head_dim=256),
    replace(_E4M3, id="e4m3-256", head_dim=256),
    replace(_E5M2, id="e5m2-256", head_dim=256),
    RpaConfig("bf16-256-head-blocks-2", q_heads=32, kv_heads=16, head_dim=256),
    # blocks and pages
    RpaConfig("pages-1", pages_per_block=1),
    RpaConfig("pages-2", pages_per_block=2),
    RpaConfig("pages-3", pages_per_block=3),
    RpaConfig("pages-8", pages_per_block=8),
    RpaConfig("pages-16", pages_per_block=16),
    RpaConfig("page-size-8", page_size=8, pages_per_block=16),
    RpaConfig("page-size-32", page_size=32),
    RpaConfig("page-size-64", page_size=64, pages_per_block=2),
    RpaConfig("page-size-128", page_size=128, pages_per_block=1),
    RpaConfig("page-size-256", page_size=256, pages_per_block=2),
    RpaConfig("queries-8", queries_per_block=8),
    RpaConfig("queries-32", queries_per_block=32),
    RpaConfig("queries-64", queries_per_block=64),
    RpaConfig("queries-128-of-256", queries_per_block=128, **_WIDE),
    RpaConfig("queries-ragged", tokens=50, queries_per_block=16),
    RpaConfig("one-sequence", seqs=1),
    RpaConfig("decode-only", tokens=8, seqs=8, queries_per_block=8),
    replace(_F32, id="f32-pages-1-queries-8", pages_per_block=1, queries_per_block=8),
    replace(_S8, id="s8-pages-16-queries-32", page_size=32, pages_per_block=16, queries_per_block=32),
    # options
    RpaConfig("sm-scale", sm_scale=128**-0.5),
    RpaConfig("soft-cap", soft_cap=30.0),
    RpaConfig("sliding-window", sliding_window=5),
    RpaConfig("soft-cap-sliding-window", soft_cap=50.0, sliding_window=128, sm_scale=0.0883),
    RpaConfig("k-scale-only", k_scale=0.5),
    RpaConfig("v-scale-only", v_scale=2.0),
    RpaConfig("scales", **_SCALED),
    RpaConfig("mask-value", mask_value=-1e30),
    RpaConfig("mask-value-none", mask_value=None),
    RpaConfig("vmem-limit", vmem_limit_bytes=32 * 1024 * 1024),
    replace(_F32, id="f32-soft-cap-window", soft_cap=20.0, sliding_window=64),
    replace(_S8, id="s8-soft-cap-window", soft_cap=20.0, sliding_window=64),
    replace(_E4M3, id="e4m3-window-vmem-limit", sliding_window=32, vmem_limit_bytes=64 * 1024 * 1024),
    # models
    _LLAMA,
    replace(_LLAMA, id="llama3-8b-page-32", page_size=32),
    replace(_LLAMA, id="llama3-8b-page-64", page_size=64, pages_per_block=4),
    replace(_LLAMA, id="llama3-8b-page-128", page_size=128, pages_per_block=2),
    replace(_LLAMA, id="llama3-8b-page-128-queries-64", page_size=128, pages_per_block=4, queries_per_block=64),
    replace(_LLAMA, id="llama3-8b-decode", tokens=16, queries_per_block=16, pages_per_block=16),
    replace(_LLAMA, id="llama3-8b-e4m3", kv_dtype="float8_e4m3fn", **_SCALED),
    replace(_LLAMA, id="llama3-8b-s8", kv_dtype="int8", **_SCALED),
    replace(_LLAMA, id="llama3-8b-vmem-limit", vmem_limit_bytes=100 * 1024 * 1024),
    replace(_LLAMA, id="llama3-70b", q_heads=64),
    replace(_LLAMA, id="gemma2-9b", q_heads=16, head_dim=256, soft_cap=50.0, sliding_window=4096),
]


def args(config: RpaConfig) -> dict[str, jax.ShapeDtypeStruct]:
    """The shapes and dtypes of the operands, in the order of the function's parameters."""
    kv_shape = (config.pages, config.page_size, 2 * config.kv_heads, config.head_dim)
    shapes = {
        "q": ((config.tokens, config.q_heads, config.head_dim), config.q_dtype),
        "kv_pages": (kv_shape, config.kv_dtype),
        "kv_lens": ((config.seqs,), "int32"),
        "page_indices": ((config.seqs, config.pages_per_seq), "int32"),
        "cu_q_lens": ((config.seqs + 1,), "int32"),
        "num_seqs": ((1,), "int32"),
    }
    return {name: jax.ShapeDtypeStruct(shape, dtype) for name, (shape, dtype) in shapes.items()}


def pallas_fn(config: RpaConfig) -> Callable[..., jax.Array]:
    """The jax wheel's kernel at `config`, a function of the arrays in the order of `args`."""
    return functools.partial(
        wheel.ragged_paged_attention,
        sm_scale=config.sm_scale,
        sliding_window=config.sliding_window,
        soft_cap=config.soft_cap,
        mask_value=config.mask_value,
        k_scale=config.k_scale,
        v_scale=config.v_scale,
        num_kv_pages_per_block=config.pages_per_block,
        num_queries_per_block=config.queries_per_block,
        vmem_limit_bytes=config.vmem_limit_bytes,
    )
