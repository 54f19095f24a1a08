"""Attention of ragged sequences over a paged cache in float64, from its definition."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray


def ragged_paged_attention(
    q: ArrayLike,
    kv_pages: ArrayLike,
    kv_lens: ArrayLike,
    page_indices: ArrayLike,
    cu_q_lens: ArrayLike,
    num_seqs: ArrayLike,
    *,
    sm_scale: float = 1.0,
    sliding_window: int | None = None,
    soft_cap: float | None = None,
    mask_value: float | None = None,
    k_scale: float | None = None,
    v_scale: float | None = None,
) -> NDArray[np.float64]:
    """Causal attention of each sequence's queries over its keys and values.

    The queries of a sequence are its last tokens. With a query at position i, a key at position j and x = sm_scale q·k:

        o_i = Σ_j softmax_j(cap(x_ij)) v_j     over j ≤ i, and j > i - sliding_window;   cap(x) = c tanh(x / c)

    Arguments: `q [tokens, q_heads, head_dim]`, `kv_pages [pages, page_size, 2 * kv_heads, head_dim]` with K of head h
    at 2h and V at 2h + 1, `kv_lens [seqs]`, `page_indices [seqs, pages_per_seq]`, `cu_q_lens [seqs + 1]`,
    `num_seqs [1]`.
    Query head h uses KV head h // (q_heads / kv_heads). `soft_cap` is c, and without it, cap(x) = x. K and V are
    multiplied with `k_scale` and `v_scale` where those are given. Hidden keys have no weight, or, where `mask_value`
    is given, that value added to their logits.

    Returns float64 of the shape of `q`, zero at tokens of no sequence.

    >>> page = np.zeros((1, 2, 2, 1))
    >>> page[0, :, 1, 0] = [3.0, 5.0]
    >>> ragged_paged_attention(np.zeros((2, 1, 1)), page, [2], [[0]], [0, 2], [1]).ravel().tolist()
    [3.0, 4.0]
    """
    queries, pages = np.asarray(q).astype(np.float64), np.asarray(kv_pages)
    lengths, table = np.asarray(kv_lens, np.int64), np.asarray(page_indices, np.int64)
    bounds = np.asarray(cu_q_lens, np.int64)
    page_size, combined_heads, head_dim = pages.shape[1:]
    group = queries.shape[1] // (combined_heads // 2)

    o = np.zeros(queries.shape, np.float64)
    for s in range(int(np.asarray(num_seqs).item())):
        kv_len = int(lengths[s])
        used = table[s, : -(-kv_len // page_size)]
        rows = pages[used].reshape(-1, combined_heads, head_dim)[:kv_len].astype(np.float64)
        keys = np.repeat(rows[:, 0::2] * (1.0 if k_scale is None else k_scale), group, axis=1)
        values = np.repeat(rows[:, 1::2] * (1.0 if v_scale is None else v_scale), group, axis=1)
        tokens = slice(int(bounds[s]), int(bounds[s + 1]))
        logits = sm_scale * np.einsum("qhd,khd->hqk", queries[tokens], keys)
        if soft_cap is not None:
            logits = soft_cap * np.tanh(logits / soft_cap)
        hidden = _hidden(logits.shape[1], kv_len, sliding_window)
        logits = logits + np.where(hidden, -np.inf if mask_value is None else mask_value, 0.0)
        o[tokens] = np.einsum("hqk,khd->qhd", _softmax(logits), values)
    return o


def _hidden(q_len: int, kv_len: int, sliding_window: int | None) -> NDArray[np.bool_]:
    """Which keys are after the query, or before its window."""
    query = np.arange(kv_len - q_len, kv_len)[:, None]
    key = np.arange(kv_len)[None, :]
    hidden = key > query
    return hidden if sliding_window is None else hidden | (key <= query - sliding_window)


def _softmax(x: NDArray[np.float64]) -> NDArray[np.float64]:
    weights = np.exp(x - x.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)
