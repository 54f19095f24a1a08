"""Block sizes of ragged paged attention for shapes nobody tuned: the largest that fit into VMEM.

Queries: 32, since every sequence in a block of queries costs the work of the whole block, and one in decode has one.
Pages: as many as make 1024 tokens, and 32 at most, since each is a copy of its own, three times in the program. Then
pages are halved until the estimate fits, and queries once a block has 128 tokens or one page.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from mosaic_tpu.zoo.kernels._flash_attention import LANES
from mosaic_tpu.zoo.kernels.ragged_paged_attention import RaggedPagedAttentionConfig

QUERIES: Final = 32
KV_TOKENS: Final = 1024
MIN_KV_TOKENS: Final = 128
PAGES: Final = 32
#: What the compiler gives a kernel that does not ask, on the generation that gives the least (v4, v5e).
DEFAULT_VMEM: Final = 16 << 20
# Values that the compiler keeps on its stack at a time, of the size of the logits and of the rows of K: upper bounds
# of what libtpu 0.0.50.1 said it ran out of at Llama-3 shapes.
_LOGITS_ALIVE: Final = 12
_KV_ROWS_ALIVE: Final = 4


def default_queries(num_tokens: int) -> int:
    """Queries a block, to start from."""
    return min(QUERIES, num_tokens)


def default_pages(page_size: int, pages_per_seq: int) -> int:
    """Pages a block, to start from."""
    return min(PAGES, pages_per_seq, max(1, KV_TOKENS // page_size))


def shrink_to_vmem(cfg: RaggedPagedAttentionConfig, *, pages: bool, queries: bool) -> RaggedPagedAttentionConfig:
    """Halve the blocks until they fit into the VMEM that the config allows.

    Args:
        cfg: with the blocks to start from.
        pages: whether pages a block may change.
        queries: whether queries a block may change.

    Returns:
        The config; if even the smallest blocks do not fit it has those, and the compiler has the last word.
    """
    budget = cfg.vmem_limit_bytes or DEFAULT_VMEM
    while vmem_bytes(cfg) > budget:
        p, q = cfg.num_kv_pages_per_block, cfg.num_queries_per_block
        if pages and p // 2 * cfg.page_size > 1 and (p * cfg.page_size > MIN_KV_TOKENS or not queries or q == 1):
            cfg = replace(cfg, num_kv_pages_per_block=p // 2)
        elif queries and q > 1:
            cfg = replace(cfg, num_queries_per_block=q // 2)
        else:
            break
    return cfg


def vmem_bytes(cfg: RaggedPagedAttentionConfig) -> int:
    """An upper estimate of the VMEM one step needs: windows, scratch, and the compiler's stack."""
    heads, queries = cfg.head_block, cfg.num_queries_per_block
    kv_tokens, rows = cfg.num_kv_pages_per_block * cfg.page_size, queries * cfg.group
    q_block = queries * heads.q_heads * cfg.head_dim
    windows = 2 * 2 * q_block * cfg.q_dtype.bits // 8
    buffers = 2 * kv_tokens * 2 * heads.kv_heads * cfg.head_dim * cfg.kv_dtype.bits // 8
    softmax = 4 * (2 * heads.kv_heads * rows * LANES + q_block)
    stack = 4 * (_LOGITS_ALIVE * rows * kv_tokens + _KV_ROWS_ALIVE * kv_tokens * cfg.head_dim)
    return windows + buffers + softmax + stack


__all__ = ["default_pages", "default_queries", "shrink_to_vmem", "vmem_bytes"]
