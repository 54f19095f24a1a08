"""The reference of ragged paged attention says what the jax wheel's own says, and what a loop over tokens says."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.pallas.ops.tpu.ragged_paged_attention import ref_ragged_paged_attention

from mosaic_tpu.zoo.references.ragged_paged_attention import ragged_paged_attention

PAGE, PAGES_PER_SEQ, PAGES = 4, 6, 24
#: Prefill, decode, prefill with a prefix, a sequence that fills its pages.
KV_LENS, Q_LENS = (9, 13, 17, 24), (9, 1, 6, 3)
TOKENS = sum(Q_LENS)


def _call(dtype: Any = np.float32, *, padding: int = 0, scale: float = 1.0) -> tuple[Any, ...]:
    rng = np.random.default_rng(1)
    q = rng.standard_normal((TOKENS + padding, 4, 16)).astype(dtype)
    kv_pages = (scale * rng.standard_normal((PAGES, PAGE, 4, 16))).astype(dtype)
    page_indices = rng.permutation(PAGES).reshape(len(KV_LENS), PAGES_PER_SEQ).astype(np.int32)
    cu_q_lens = np.cumsum([0, *Q_LENS]).astype(np.int32)
    return q, kv_pages, np.asarray(KV_LENS, np.int32), page_indices, cu_q_lens, np.asarray([len(KV_LENS)], np.int32)


OPTIONS = [
    {},
    {"sm_scale": 0.25},
    {"sliding_window": 1},
    {"sliding_window": 5},
    {"soft_cap": 2.0},
    {"soft_cap": 0.5, "sliding_window": 3, "sm_scale": 0.5},
    {"k_scale": 0.5, "v_scale": 3.0},
    {"mask_value": -1.0},
    {"mask_value": None},
]


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: "-".join(options) or "plain")
def test_it_is_what_the_wheels_reference_computes(options: dict[str, Any]) -> None:
    arrays = _call()
    with jax.default_matmul_precision("highest"):
        theirs = ref_ragged_paged_attention(*map(jnp.asarray, arrays), **options)
    # f32 beside f64: a few roundings of logits of magnitude 10, and of sums of 24 terms.
    np.testing.assert_allclose(ragged_paged_attention(*arrays, **options), theirs, rtol=0, atol=2e-5)


@pytest.mark.parametrize("options", OPTIONS[1:-1], ids="-".join)
def test_every_option_changes_the_result(options: dict[str, Any]) -> None:
    arrays = _call()
    assert np.abs(ragged_paged_attention(*arrays, **options) - ragged_paged_attention(*arrays)).max() > 1e-2


def test_it_is_a_weighted_mean_of_the_values_a_token_may_see() -> None:
    q, kv_pages, kv_lens, page_indices, cu_q_lens, num_seqs = _call()
    o = ragged_paged_attention(q, kv_pages, kv_lens, page_indices, cu_q_lens, num_seqs, soft_cap=2.0, sliding_window=5)
    for seq in range(len(KV_LENS)):
        for i in range(Q_LENS[seq]):
            position, token = KV_LENS[seq] - Q_LENS[seq] + i, cu_q_lens[seq] + i
            for head in range(4):
                seen = range(max(0, position - 4), position + 1)
                rows = [kv_pages[page_indices[seq, j // PAGE], j % PAGE].astype(np.float64) for j in seen]
                weights = [math.exp(2.0 * math.tanh(float(q[token, head] @ r[head // 2 * 2]) / 2.0)) for r in rows]
                values = [r[head // 2 * 2 + 1] for r in rows]
                mean = sum(w * v for w, v in zip(weights, values, strict=True)) / sum(weights)
                np.testing.assert_allclose(o[token, head], mean, rtol=1e-5, atol=1e-6)


def test_one_token_sees_its_own_value_alone() -> None:
    page = np.arange(2 * 2 * 8, dtype=np.float64).reshape(2, 1, 2, 8)
    o = ragged_paged_attention(np.ones((1, 1, 8)), page, [1], [[1]], [0, 1], [1])
    assert o.ravel().tolist() == page[1, 0, 1].tolist()


def test_pages_that_a_sequence_does_not_reach_are_not_read() -> None:
    q, kv_pages, kv_lens, page_indices, cu_q_lens, num_seqs = _call()
    poisoned, table = kv_pages.copy(), page_indices.copy()
    poisoned[page_indices[0, 3:]] = np.nan
    poisoned[page_indices[0, 2], 1:] = np.nan
    table[0, 3:] = 10**6
    wanted = ragged_paged_attention(q, kv_pages, kv_lens, page_indices, cu_q_lens, num_seqs)
    assert (ragged_paged_attention(q, poisoned, kv_lens, table, cu_q_lens, num_seqs) == wanted).all()
    poisoned[page_indices[0, 2], 0] = np.nan
    assert np.isnan(ragged_paged_attention(q, poisoned, kv_lens, table, cu_q_lens, num_seqs)).any()


def test_rows_of_no_sequence_are_zero() -> None:
    o = ragged_paged_attention(*_call(padding=3))
    assert not o[TOKENS:].any() and o[:TOKENS].all()


def test_sequences_beyond_num_seqs_do_not_count() -> None:
    *arrays, _ = _call()
    o = ragged_paged_attention(*arrays, [2])
    assert not o[Q_LENS[0] + Q_LENS[1] :].any()
    assert (o[: Q_LENS[0]] == ragged_paged_attention(*arrays, [4])[: Q_LENS[0]]).all()


@pytest.mark.parametrize("dtype", ["int8", "float8_e4m3fn", "bfloat16"])
def test_a_narrow_cache_is_read_by_its_numbers(dtype: str) -> None:
    q, kv_pages, *tables = _call(scale=20.0)
    narrow = np.asarray(jnp.asarray(kv_pages, dtype))
    wide = narrow.astype(np.float64)
    scales = {"k_scale": 0.125, "v_scale": 0.5}
    o = ragged_paged_attention(q, narrow, *tables, **scales)
    assert (o == ragged_paged_attention(q, wide, *tables, **scales)).all()
    wide[:, :, 0::2] *= 0.125
    wide[:, :, 1::2] *= 0.5
    np.testing.assert_allclose(o, ragged_paged_attention(q, wide, *tables), rtol=1e-12)
