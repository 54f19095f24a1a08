"""The jax wheel's flash attention, forward, and its paged attention."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import jax
import numpy as np
from jax.experimental.pallas.ops.tpu.flash_attention import BlockSizes, SegmentIds, flash_attention
from jax.experimental.pallas.ops.tpu.paged_attention import paged_attention
from jax.experimental.pallas.ops.tpu.paged_attention.quantization_utils import QuantizedTensor

from conformance.numerics.case import NumericsCase
from mosaic_tpu.zoo.tolerances import Array, Expected
from mosaic_tpu.zoo.tolerances.attention import Options, attention
from mosaic_tpu.zoo.tolerances.rounding import fits_bf16


def _joined(found: Sequence[Expected], shape: tuple[int, ...]) -> Expected:
    value, tolerance = (np.reshape([getattr(f, name) for f in found], shape) for name in ("value", "tolerance"))
    return Expected(value, tolerance)


@dataclass(frozen=True)
class FlashConfig:
    """One flash attention in blocks of `block_q` queries and `block_k` keys, of which `block_major` are in VMEM."""

    id: str
    batch: int = 1
    heads: int = 2
    queries: int = 256
    keys: int = 256
    head_dim: int = 128
    dtype: str = "float32"
    causal: bool = False
    segments: bool = False
    bias: bool = False
    block_q: int = 128
    block_major: int = 128
    block_k: int = 128
    batches_per_block: int = 1
    sm_scale: float = 128**-0.5


FLASH_CONFIGS = [
    FlashConfig("f32", heads=1, queries=128),
    FlashConfig("f32, causal", heads=1, queries=128, causal=True),
    FlashConfig("bf16", dtype="bfloat16"),
    FlashConfig("bf16, causal", dtype="bfloat16", causal=True),
    FlashConfig("bf16, segments", dtype="bfloat16", segments=True),
    FlashConfig("bf16, segments, causal", dtype="bfloat16", segments=True, causal=True),
    FlashConfig("bf16, bias", dtype="bfloat16", bias=True),
    FlashConfig("f32, bias", heads=1, queries=128, bias=True),
    FlashConfig("bf16, one step", dtype="bfloat16", block_major=256, block_k=256),
    FlashConfig("bf16, one step, causal", dtype="bfloat16", block_major=256, block_k=256, causal=True),
    FlashConfig("bf16, two steps in VMEM", dtype="bfloat16", keys=512, block_major=256),
    FlashConfig("bf16, two batches a block", dtype="bfloat16", batch=2, queries=128, batches_per_block=2),
    FlashConfig("bf16, head_dim 256", dtype="bfloat16", heads=1, head_dim=256),
    FlashConfig("bf16, large logits", dtype="bfloat16", sm_scale=1.0),
]


def _flash(config: FlashConfig) -> NumericsCase:
    c = config
    blocks = BlockSizes(c.block_q, c.block_major, c.block_k, c.batches_per_block)
    rows = {"q": (c.batch, c.heads, c.queries, c.head_dim), "kv": (c.batch, c.heads, c.keys, c.head_dim)}

    def function(q: jax.Array, k: jax.Array, v: jax.Array, *more: jax.Array) -> jax.Array:
        bias = more[0] if c.bias else None
        segments = SegmentIds(*more[-2:]) if c.segments else None
        return flash_attention(q, k, v, bias, segments, causal=c.causal, sm_scale=c.sm_scale, block_sizes=blocks)

    def inputs(rng: np.random.Generator) -> list[Array]:
        arrays = [rng.standard_normal(rows[name]).astype(c.dtype) for name in ("q", "kv", "kv")]
        if c.bias:
            arrays.append(rng.standard_normal((c.batch, c.heads, c.queries, c.keys)).astype(np.float32))
        if c.segments:  # three, whose edges are inside blocks
            ids = [np.searchsorted([90, 200], np.arange(n), "right") for n in (c.queries, c.keys)]
            arrays += [np.tile(row.astype(np.int32), (c.batch, 1)) for row in ids]
        return arrays

    def expected(q: Array, k: Array, v: Array, *more: Array) -> list[Expected]:
        rounds = not fits_bf16(c.dtype)
        options = Options(scale=c.sm_scale, rounds_q=rounds, rounds_k=rounds, rounds_v=rounds, out_dtype=c.dtype)
        found: list[Expected] = []
        for b, h in np.ndindex(c.batch, c.heads):
            hidden = np.zeros((c.queries, c.keys), bool)
            if c.causal:
                hidden |= np.arange(c.keys) > np.arange(c.queries)[:, None]
            if c.segments:
                of_q, of_kv = more[-2:]
                hidden |= of_q[b][:, None] != of_kv[b]
            bias = more[0][b, h].astype(np.float64) if c.bias else 0.0
            found.append(attention(*(x[b, h].astype(np.float64) for x in (q, k, v)), hidden, options, bias))
        return [_joined(found, q.shape)]

    return NumericsCase("jax: flash_attention", config.id, function, inputs, expected)


@dataclass(frozen=True)
class PagedConfig:
    """One query of each sequence against its pages; `kv_dtype` int8 has a scale for each token."""

    id: str
    lengths: tuple[int, ...] = (37, 256, 64, 1)
    q_heads: int = 8
    kv_heads: int = 4
    q_dtype: str = "float32"
    kv_dtype: str = "float32"
    page_size: int = 16
    pages_per_sequence: int = 16
    pages_per_block: int = 4
    head_dim: int = 128
    soft_cap: float | None = None
    inline: bool = True

    @property
    def running(self) -> int:
        """Keys a block, where the output is kept in the queries' type from block to block: where heads fill tiles."""
        in_f32 = self.q_dtype == "float32" or (self.q_heads // self.kv_heads) % 8
        return 0 if in_f32 else self.pages_per_block * self.page_size


PAGED_CONFIGS = [
    PagedConfig("f32"),
    PagedConfig("bf16", q_dtype="bfloat16", kv_dtype="bfloat16"),
    PagedConfig("bf16, group of 8", q_heads=16, kv_heads=2, q_dtype="bfloat16", kv_dtype="bfloat16"),
    PagedConfig("f32, group of 8", q_heads=8, kv_heads=1),
    PagedConfig("bf16, page edges", (16, 128, 48, 240), q_dtype="bfloat16", kv_dtype="bfloat16"),
    PagedConfig("bf16, an empty sequence between", (30, 0, 75, 100), q_dtype="bfloat16", kv_dtype="bfloat16"),
    PagedConfig("f32, soft cap", soft_cap=1.0),
    PagedConfig("bf16, a grid step a block", q_dtype="bfloat16", kv_dtype="bfloat16", inline=False),
    PagedConfig("f32, s8 pages", kv_dtype="int8"),
    PagedConfig("f32, s8 pages, a grid step a block", kv_dtype="int8", inline=False),
]


def _paged_inputs(c: PagedConfig, rng: np.random.Generator) -> list[Array]:
    pages = len(c.lengths) * c.pages_per_sequence
    shape = (c.kv_heads, pages, c.page_size, c.head_dim)
    # The kernel has no scale of its own: it comes with the queries.
    q = rng.standard_normal((len(c.lengths), c.q_heads, c.head_dim)) * c.head_dim**-0.5
    tables = rng.permutation(pages).reshape(len(c.lengths), c.pages_per_sequence)
    cache: list[Array] = []
    for _ in "kv":
        if c.kv_dtype == "int8":
            weights = rng.integers(-127, 128, shape).astype(np.int8)
            cache += [weights, (1.5 + rng.random((*shape[:3], 1))).astype(np.float32)]
        else:
            cache.append(rng.standard_normal(shape).astype(c.kv_dtype))
    return [q.astype(c.q_dtype), *cache, np.array(c.lengths, np.int32), tables.astype(np.int32)]


def _paged_function(c: PagedConfig, q: jax.Array, *arrays: jax.Array) -> jax.Array:
    *cache, lengths, tables = arrays
    k, v = (QuantizedTensor(*cache[i : i + 2]) for i in (0, 2)) if c.kv_dtype == "int8" else cache
    options = {"attn_logits_soft_cap": c.soft_cap, "pages_per_compute_block": c.pages_per_block}
    return paged_attention(q, k, v, lengths, tables, **options, inline_seq_dim=c.inline)


def _paged_expected(c: PagedConfig, q: Array, *arrays: Array) -> list[Expected]:
    *cache, _, tables = arrays
    k, v = (x.astype(np.float64) for x in cache[:: len(cache) // 2])
    if c.kv_dtype == "int8":  # 127.5, the wheel's `MAX_INT8`, is what stands for 1
        k, v = (x * scales.astype(np.float64) / 127.5 for x, scales in ((k, cache[1]), (v, cache[3])))
    inexact = not fits_bf16(c.kv_dtype) or c.kv_dtype == "int8"
    options = Options(
        soft_cap=c.soft_cap,
        rounds_q=not fits_bf16(c.q_dtype),
        rounds_k=inexact,
        rounds_v=inexact,
        out_dtype=c.q_dtype,
        running=c.running,
    )
    group = c.q_heads // c.kv_heads
    found: list[Expected] = []
    for b, head in np.ndindex(len(c.lengths), c.kv_heads):
        length = c.lengths[b]
        queries = q[b, head * group : (head + 1) * group].astype(np.float64)
        if not length:
            found.append(Expected(np.zeros(queries.shape), np.zeros(queries.shape)))
            continue
        keys, values = (x[head, tables[b]].reshape(-1, c.head_dim)[:length] for x in (k, v))
        found.append(attention(queries, keys, values, np.zeros((group, length), bool), options))
    return [_joined(found, q.shape)]


def _paged(config: PagedConfig) -> NumericsCase:
    function, inputs, expected = (
        functools.partial(part, config) for part in (_paged_function, _paged_inputs, _paged_expected)
    )
    return NumericsCase("jax: paged_attention", config.id, function, inputs, expected)


CASES = [*map(_flash, FLASH_CONFIGS), *map(_paged, PAGED_CONFIGS)]
