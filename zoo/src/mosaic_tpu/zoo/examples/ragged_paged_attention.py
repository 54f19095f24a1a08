"""A batch of prefill and decode over a paged cache."""

from __future__ import annotations

import numpy as np

from mosaic_tpu.zoo.examples._example import Example, numbers
from mosaic_tpu.zoo.kernels.ragged_paged_attention import RaggedPagedAttentionConfig


def example(cfg: RaggedPagedAttentionConfig, rng: np.random.Generator) -> Example:
    """The first half of the sequences are prompts that share the tokens, the others decode one token each."""
    queries = _queries(cfg)
    seqs = len(queries)
    pages = rng.permutation(cfg.num_pages)
    kv_lens, cu_q_lens = np.zeros(cfg.max_num_seqs, np.int32), np.zeros(cfg.max_num_seqs + 1, np.int32)
    page_indices = np.zeros((cfg.max_num_seqs, cfg.pages_per_seq), np.int32)
    most = _pages_each(cfg, seqs)
    for seq, count in enumerate(queries):
        kv_lens[seq] = rng.integers(count, most * cfg.page_size + 1)
        cu_q_lens[seq + 1 :] = cu_q_lens[seq] + count
        page_indices[seq, :most] = pages[seq * most : (seq + 1) * most]
    rows = (cfg.num_pages, cfg.page_size, 2 * cfg.num_kv_heads, cfg.head_dim)
    return Example(
        arrays={
            "q": numbers(rng, (cfg.num_tokens, cfg.num_q_heads, cfg.head_dim), cfg.q_dtype),
            "kv_pages": numbers(rng, rows, cfg.kv_dtype),
            "kv_lens": kv_lens,
            "page_indices": page_indices,
            "cu_q_lens": cu_q_lens,
            "num_seqs": np.array([seqs], np.int32),
        },
        options={
            "sm_scale": cfg.sm_scale,
            "sliding_window": cfg.sliding_window,
            "soft_cap": cfg.soft_cap,
            "mask_value": cfg.mask_value,
            "k_scale": cfg.k_scale,
            "v_scale": cfg.v_scale,
            "num_kv_pages_per_block": cfg.num_kv_pages_per_block,
            "num_queries_per_block": cfg.num_queries_per_block,
            "vmem_limit_bytes": cfg.vmem_limit_bytes,
        },
    )


def _pages_each(cfg: RaggedPagedAttentionConfig, seqs: int) -> int:
    """Pages that each sequence can have for itself."""
    return min(cfg.pages_per_seq, cfg.num_pages // seqs)


def _queries(cfg: RaggedPagedAttentionConfig) -> list[int]:
    """Tokens of each sequence: as many of them as find room in the cache."""
    seqs = min(cfg.max_num_seqs, cfg.num_tokens, cfg.num_pages)
    most, left = _pages_each(cfg, seqs) * cfg.page_size, cfg.num_tokens - seqs
    prompts = -(-seqs // 2)
    counts = [1] * seqs
    for seq in range(seqs):
        share = -(-left // max(1, prompts - seq))
        counts[seq] += min(share, most - 1)
        left -= counts[seq] - 1
    return counts
