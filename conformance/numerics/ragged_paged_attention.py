"""Ragged paged attention, the zoo's and the jax wheel's: the batches that serving sees.

The wheel's kernel, and so the zoo's, whose bytes are the same, goes wrong where the last sequence has no queries; that
batch is refused by `validate_ragged_paged_attention` and not here.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from conformance.cases.ragged_paged_attention import RpaConfig, args, pallas_fn
from conformance.numerics.case import NumericsCase
from mosaic_tpu import zoo
from mosaic_tpu.zoo.references.ragged_paged_attention import ragged_paged_attention as reference
from mosaic_tpu.zoo.tolerances import Array, Expected
from mosaic_tpu.zoo.tolerances.ragged_paged_attention import expected
from mosaic_tpu.zoo.validation import validate_ragged_paged_attention

type Lengths = Sequence[tuple[int, int]]

#: Queries and tokens of each sequence. A page has 16 tokens, a block of pages 64, and a block of queries 16 rows. All
#: but the last batch have 33 queries, so that one module serves many.
BATCHES: dict[str, Lengths] = {
    "prefill and decode": ((1, 65), (24, 24), (7, 100), (1, 1)),
    "chunked prefill": ((20, 150), (13, 77)),
    "page edges": ((6, 48), (3, 16), (16, 64), (8, 128)),
    "off every edge": ((12, 67), (2, 129), (5, 13), (14, 199)),
    "two of four": ((19, 60), (14, 33)),
    "longest": ((33, 256),),
    "no queries between": ((20, 40), (0, 70), (13, 64)),
    "decode": ((1, 37), (1, 200), (1, 1), (1, 90)),
}


@dataclass(frozen=True)
class _Batch:
    config: RpaConfig
    lengths: Lengths

    def inputs(self, rng: np.random.Generator) -> tuple[Array, ...]:
        """The kernel's arrays. What no sequence owns, in the cache and after the queries, is NaN where there is one."""
        shapes = args(self.config)
        q = rng.standard_normal(shapes["q"].shape).astype(shapes["q"].dtype)
        pages = _cache(rng, shapes["kv_pages"].shape, shapes["kv_pages"].dtype)
        tables = rng.permutation(self.config.pages)[: self.config.seqs * self.config.pages_per_seq]
        page_indices = tables.reshape(self.config.seqs, self.config.pages_per_seq).astype(np.int32)
        kv_lens, cu_q_lens = np.zeros(self.config.seqs, np.int32), np.zeros(self.config.seqs + 1, np.int32)
        owned = np.zeros(pages.shape[:2], bool)
        for seq, (q_len, kv_len) in enumerate(self.lengths):
            kv_lens[seq] = kv_len
            cu_q_lens[seq + 1 :] = cu_q_lens[seq] + q_len
            token = np.arange(kv_len)
            owned[page_indices[seq, token // self.config.page_size], token % self.config.page_size] = True
        if np.dtype(pages.dtype).kind != "i":
            pages[~owned] = np.nan
        arrays = (q, pages, kv_lens, page_indices, cu_q_lens, np.array([len(self.lengths)], np.int32))
        validate_ragged_paged_attention(*arrays)
        return arrays

    def expected(self, q: Array, pages: Array, *tables: Array) -> Sequence[Expected]:
        """The results, which are the reference's; other rows are undefined."""
        c = self.config
        options = {"sm_scale": c.sm_scale, "k_scale": c.k_scale, "v_scale": c.v_scale}
        options |= {"sliding_window": c.sliding_window, "soft_cap": c.soft_cap}
        (found,) = expected(q, pages, *tables, **options)
        clean = np.nan_to_num(pages.astype(np.float64), nan=0.0)  # the reference reads whole pages
        rows = slice(sum(q_len for q_len, _ in self.lengths))
        value = reference(q, clean, *tables, **options)
        np.testing.assert_allclose(found.value[rows], value[rows], rtol=1e-9, atol=1e-12)
        return [found]


def _cache(rng: np.random.Generator, shape: Sequence[int], dtype: Any) -> Array:
    if np.dtype(dtype) == np.int8:
        return np.clip(np.rint(40 * rng.standard_normal(shape)), -127, 127).astype(np.int8)
    return rng.standard_normal(shape).astype(dtype)


def _case(kernel: str, function: Any, config: RpaConfig, batch: str, *, padding: int = 0) -> NumericsCase:
    tokens = sum(q_len for q_len, _ in BATCHES[batch]) + padding
    made = _Batch(replace(config, tokens=tokens, pages=config.seqs * config.pages_per_seq), BATCHES[batch])
    name = f"{config.id}, {batch}{f', {padding} rows of padding' if padding else ''}"
    return NumericsCase(kernel, name, function, made.inputs, made.expected, pads=padding > 0)


def _zoo(config: RpaConfig, batch: str, padding: int = 0) -> NumericsCase:
    function = functools.partial(
        zoo.ragged_paged_attention,
        sm_scale=config.sm_scale,
        sliding_window=config.sliding_window,
        soft_cap=config.soft_cap,
        k_scale=config.k_scale,
        v_scale=config.v_scale,
        num_kv_pages_per_block=config.pages_per_block,
        num_queries_per_block=config.queries_per_block,
    )
    return _case("ragged_paged_attention", function, config, batch, padding=padding)


def _wheel(config: RpaConfig, batch: str) -> NumericsCase:
    return _case("jax: ragged_paged_attention", pallas_fn(config), config, batch)


BF16 = RpaConfig("bf16", sm_scale=128**-0.5)
F32 = replace(BF16, id="f32", q_dtype="float32", kv_dtype="float32")
S8 = replace(BF16, id="s8", kv_heads=4, kv_dtype="int8", k_scale=0.03, v_scale=0.02)
E4M3 = replace(BF16, id="e4m3", kv_heads=4, kv_dtype="float8_e4m3fn", k_scale=0.7, v_scale=0.3)
E5M2 = replace(E4M3, id="e5m2", kv_dtype="float8_e5m2")
MIXED = "prefill and decode"

CASES = [
    *(_zoo(BF16, batch) for batch in BATCHES),
    *(_zoo(BF16, "two of four", padding) for padding in (3, 40)),
    # element types
    *(_zoo(config, MIXED) for config in (F32, S8, E4M3, E5M2)),
    _zoo(replace(F32, id="f32, bf16 cache", kv_dtype="bfloat16"), MIXED),
    _zoo(replace(BF16, id="f32 cache", kv_dtype="float32"), MIXED),
    _zoo(replace(BF16, id="f16 cache", kv_dtype="float16"), MIXED),
    _zoo(replace(S8, id="s8, f32 queries", q_dtype="float32"), "off every edge"),
    _zoo(replace(S8, id="s8, no scales", k_scale=None, v_scale=None, sm_scale=0.003), "decode"),
    # heads
    _zoo(replace(BF16, id="multi-query", kv_heads=1), MIXED),
    _zoo(replace(BF16, id="multi-head", q_heads=4, kv_heads=4), MIXED),
    _zoo(replace(BF16, id="group of 3", q_heads=6), MIXED),
    _zoo(replace(BF16, id="two head blocks", q_heads=16, kv_heads=16), MIXED),
    _zoo(replace(BF16, id="head_dim 256", head_dim=256), MIXED),
    _zoo(replace(F32, id="f32, head_dim 256", head_dim=256), "decode"),
    # logits
    _zoo(replace(BF16, id="soft cap", soft_cap=2.0), MIXED),
    _zoo(replace(F32, id="f32, soft cap", soft_cap=2.0), "off every edge"),
    _zoo(replace(BF16, id="large logits", sm_scale=1.0), MIXED),
    *(_zoo(replace(BF16, id=f"window of {n}", sliding_window=n), MIXED) for n in (1, 5, 40)),
    _zoo(replace(BF16, id="window of 20", sliding_window=20), "longest"),
    _zoo(replace(E4M3, id="e4m3, window of 30, soft cap", sliding_window=30, soft_cap=5.0), "chunked prefill"),
    # blocks
    _zoo(replace(BF16, id="a page a block", pages_per_block=1), MIXED),
    _zoo(replace(BF16, id="a sequence a block", pages_per_block=16), MIXED),
    _zoo(replace(BF16, id="pages of 32, blocks of 8 queries", page_size=32, queries_per_block=8), MIXED),
    # the wheel's
    *(_wheel(BF16, batch) for batch in (MIXED, "page edges", "longest")),
    _wheel(F32, MIXED),
    _wheel(E4M3, "off every edge"),
    _wheel(replace(BF16, id="window of 20, soft cap", sliding_window=20, soft_cap=5.0), MIXED),
]
