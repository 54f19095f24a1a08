"""Attention of ragged sequences over a paged cache: each head of each sequence by itself."""

from __future__ import annotations

import numpy as np

from mosaic_tpu.zoo.tolerances._expected import Array, Expected
from mosaic_tpu.zoo.tolerances.attention import Options, attention
from mosaic_tpu.zoo.tolerances.rounding import fits_bf16


def expected(
    q: Array,
    kv_pages: Array,
    kv_lens: Array,
    page_indices: Array,
    cu_q_lens: Array,
    num_seqs: Array,
    *,
    sm_scale: float = 1.0,
    sliding_window: int | None = None,
    soft_cap: float | None = None,
    mask_value: float | None = None,
    k_scale: float | None = None,
    v_scale: float | None = None,
) -> tuple[Expected]:
    """Arguments as the reference's. Rows that no sequence has are undefined.

    K and V that have scales are multiplied by them, which gives numbers that bf16 does not hold.
    """
    inexact = not fits_bf16(kv_pages.dtype)
    options = Options(
        scale=sm_scale,
        soft_cap=soft_cap,
        mask=-np.inf if mask_value is None else mask_value,
        rounds_q=not fits_bf16(q.dtype),
        rounds_k=inexact or k_scale is not None,
        rounds_v=inexact or v_scale is not None,
        out_dtype=q.dtype,
    )
    group = q.shape[1] // (kv_pages.shape[2] // 2)
    value, tolerance = np.zeros(q.shape), np.full(q.shape, np.inf)
    for seq in range(int(num_seqs.item())):
        begin, end, kv_len = int(cu_q_lens[seq]), int(cu_q_lens[seq + 1]), int(kv_lens[seq])
        token, query = np.arange(kv_len), np.arange(kv_len - (end - begin), kv_len)[:, None]
        rows = kv_pages[page_indices[seq, token // kv_pages.shape[1]], token % kv_pages.shape[1]].astype(np.float64)
        hidden = token > query
        if sliding_window is not None:
            hidden |= token <= query - sliding_window
        for head in range(q.shape[1] if end > begin else 0):
            k = rows[:, 2 * (head // group)] * (k_scale or 1.0)
            v = rows[:, 2 * (head // group) + 1] * (v_scale or 1.0)
            found = attention(q[begin:end, head].astype(np.float64), k, v, hidden, options)
            value[begin:end, head], tolerance[begin:end, head] = found.value, found.tolerance
    return (Expected(value, tolerance),)
