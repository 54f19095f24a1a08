"""`ragged_paged_attention`, with the signature of the jax wheel's function."""

from __future__ import annotations

import jax
import numpy as np

from mosaic_tpu.zoo.api._paged_attention_blocks import default_pages, default_queries, shrink_to_vmem
from mosaic_tpu.zoo.kernels.ragged_paged_attention import DEFAULT_MASK_VALUE, KERNEL, RaggedPagedAttentionConfig
from mosaic_tpu.zoo.tuned import attached_generation, tuned
from mosaic_tpu.zoo.validation._arguments import element_type, number, optional_number
from mosaic_tpu.zoo.validation.ragged_paged_attention import check_shapes

type Abstract = jax.Array | jax.ShapeDtypeStruct

_OP = "ragged_paged_attention"


def ragged_paged_attention(
    q: jax.Array,
    kv_pages: jax.Array,
    kv_lens: jax.Array,
    page_indices: jax.Array,
    cu_q_lens: jax.Array,
    num_seqs: jax.Array,
    *,
    sm_scale: float = 1.0,
    sliding_window: int | None = None,
    soft_cap: float | None = None,
    mask_value: float | None = DEFAULT_MASK_VALUE,
    k_scale: float | None = None,
    v_scale: float | None = None,
    num_kv_pages_per_block: int | None = None,
    num_queries_per_block: int | None = None,
    vmem_limit_bytes: int | None = None,
) -> jax.Array:
    """Causal attention of many sequences, in prefill and decode, over a paged KV cache.

    A drop-in for `jax.experimental.pallas.ops.tpu.ragged_paged_attention.ragged_paged_attention`: given the same block
    sizes, the custom call is the same byte for byte. `mosaic_tpu.zoo.validation.validate_ragged_paged_attention`
    checks the tables' contents.

    Args:
        q: ``[tokens, q_heads, head_dim]``, bf16 or f32: queries of all sequences, one after the other.
        kv_pages: ``[pages, page_size, 2 * kv_heads, head_dim]``: K of head ``h`` at ``2h``, V at ``2h + 1``.
        kv_lens: i32 ``[seqs]``: tokens of each sequence, its queries counted. One or more.
        page_indices: i32 ``[seqs, pages_per_seq]``: the pages of each sequence.
        cu_q_lens: i32 ``[seqs + 1]``: where each sequence's queries start, and where the last ends; the last has one
            or more.
        num_seqs: i32 ``[1]``: how many rows of the tables are in use. One or more.
        sm_scale: factor of ``q kᵀ``.
        sliding_window: how many tokens back a query sees, itself counted.
        soft_cap: bound ``c`` of logits ``c · tanh(x / c)``.
        mask_value: added to the logits of keys that a query must not see; ``None`` means the default.
        k_scale: factor of K, of a quantized cache.
        v_scale: factor of V.
        num_kv_pages_per_block: pages that one step of flash attention takes. If omitted, what was found best where
            these heads and pages were tuned for the attached TPU's generation (`mosaic_tpu.zoo.tuned`), if
            ``num_queries_per_block`` is omitted too; else 32 pages or 1024 tokens. In both cases what fits into VMEM.
        num_queries_per_block: tokens that one step of the grid takes. If omitted, likewise, else 32.
        vmem_limit_bytes: VMEM for the kernel; the compiler's default if omitted.

    Returns:
        Like ``q``. Rows of no sequence are undefined.

    Raises:
        InputError: arrays that do not fit each other, or options that are not Python numbers.
        ConfigError: shapes, types or options that the kernel does not take.
    """
    cfg = plan(
        q,
        kv_pages,
        kv_lens,
        page_indices,
        cu_q_lens,
        num_seqs,
        sm_scale=sm_scale,
        sliding_window=sliding_window,
        soft_cap=soft_cap,
        mask_value=mask_value,
        k_scale=k_scale,
        v_scale=v_scale,
        num_kv_pages_per_block=num_kv_pages_per_block,
        num_queries_per_block=num_queries_per_block,
        vmem_limit_bytes=vmem_limit_bytes,
    )
    return KERNEL(
        cfg=cfg,
        kv_lens=kv_lens,
        page_indices=page_indices,
        cu_q_lens=cu_q_lens,
        seq_buf_idx=np.zeros((2,), np.int32),
        num_seqs=num_seqs,
        q=q,
        kv_pages=kv_pages,
    )


def plan(
    q: Abstract,
    kv_pages: Abstract,
    kv_lens: Abstract,
    page_indices: Abstract,
    cu_q_lens: Abstract,
    num_seqs: Abstract,
    *,
    sm_scale: float = 1.0,
    sliding_window: int | None = None,
    soft_cap: float | None = None,
    mask_value: float | None = DEFAULT_MASK_VALUE,
    k_scale: float | None = None,
    v_scale: float | None = None,
    num_kv_pages_per_block: int | None = None,
    num_queries_per_block: int | None = None,
    vmem_limit_bytes: int | None = None,
) -> RaggedPagedAttentionConfig:
    """The config of a call, with blocks chosen; only shapes and dtypes of the arrays are looked at."""
    check_shapes(q, kv_pages, kv_lens, page_indices, cu_q_lens, num_seqs)
    num_tokens, num_q_heads, head_dim = q.shape
    num_pages, page_size, combined_heads, _ = kv_pages.shape
    max_num_seqs, pages_per_seq = page_indices.shape
    pages, queries = num_kv_pages_per_block, num_queries_per_block
    q_dtype, kv_dtype = element_type(_OP, "q", q.dtype), element_type(_OP, "kv_pages", kv_pages.dtype)
    start_pages, start_queries = default_pages(page_size, pages_per_seq), default_queries(num_tokens)
    best = tuned(
        _OP,
        attached_generation(),
        q_dtype=str(q_dtype),
        kv_dtype=str(kv_dtype),
        num_q_heads=num_q_heads,
        num_kv_heads=combined_heads // 2,
        head_dim=head_dim,
        page_size=page_size,
    )
    if best is not None and pages is None and queries is None:
        start_pages = min(best["num_kv_pages_per_block"], pages_per_seq)
        start_queries = min(best["num_queries_per_block"], num_tokens)
    cfg = RaggedPagedAttentionConfig(
        num_tokens=num_tokens,
        num_q_heads=num_q_heads,
        num_kv_heads=combined_heads // 2,
        head_dim=head_dim,
        num_pages=num_pages,
        page_size=page_size,
        max_num_seqs=max_num_seqs,
        pages_per_seq=pages_per_seq,
        num_kv_pages_per_block=start_pages if pages is None else pages,
        num_queries_per_block=start_queries if queries is None else queries,
        q_dtype=q_dtype,
        kv_dtype=kv_dtype,
        sm_scale=number(_OP, "sm_scale", sm_scale),
        sliding_window=sliding_window,
        soft_cap=optional_number(_OP, "soft_cap", soft_cap),
        mask_value=DEFAULT_MASK_VALUE if mask_value is None else number(_OP, "mask_value", mask_value),
        k_scale=optional_number(_OP, "k_scale", k_scale),
        v_scale=optional_number(_OP, "v_scale", v_scale),
        vmem_limit_bytes=vmem_limit_bytes,
    )
    return shrink_to_vmem(cfg, pages=pages is None, queries=queries is None)
