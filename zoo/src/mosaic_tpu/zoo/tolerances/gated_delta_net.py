"""Gated delta net: what the f32 state's roundings, one token after the other, may add up to."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

import numpy as np

from mosaic_tpu.zoo.references.gated_delta_net import L2_EPSILON
from mosaic_tpu.zoo.references.gated_delta_net import gated_delta_net as reference
from mosaic_tpu.zoo.tolerances._expected import Array, Expected, Float64
from mosaic_tpu.zoo.tolerances.rounding import F32, spread, stored

#: Upper bounds in f32 roundings: an exponential of the decay, and q or k divided by its length.
_EXPONENTIAL: Final = 2
_NORMALISED: Final = 4


def expected(
    q: Array,
    k: Array,
    v: Array,
    g: Array,
    beta: Array,
    h0: Array,
    cu_seqlens: Array,
    *,
    scale: float | None = None,
    use_qk_l2norm: bool = True,
) -> tuple[Expected, Expected]:
    """Arguments as the reference's. Outputs are stored in v's type, and final states in f32."""
    o, ht = reference(q, k, v, g, beta, h0, cu_seqlens, scale=scale, use_qk_l2norm=use_qk_l2norm)
    queries, keys, values, decays, rates = (x[0].astype(np.float64) for x in (q, k, v, g, beta))
    if use_qk_l2norm:
        queries, keys = (x / np.sqrt((x**2).sum(-1, keepdims=True) + L2_EPSILON) for x in (queries, keys))
    queries = queries * (q.shape[-1] ** -0.5 if scale is None else scale)
    queries, keys = (np.repeat(x, v.shape[2] // q.shape[2], axis=1) for x in (queries, keys))

    of_o, of_ht = np.zeros(values.shape), np.zeros((len(h0), *values.shape[1:]))
    for n, (begin, end) in enumerate(pairwise(cu_seqlens)):
        state = h0[n].astype(np.float64)
        for t in range(begin, end):
            decay = np.exp(decays[t])[:, None]
            decayed = state * decay[:, :, None]
            predicted = np.einsum("hkv,hk->hv", decayed, keys[t])
            update = rates[t][:, None] * (values[t] - predicted)
            state = decayed + keys[t][:, :, None] * update[:, None, :]
            of_ht[n] = decay**2 * of_ht[n] + _of_step(decayed, state, keys[t], update, predicted, rates[t])
            of_o[t] = _of_output(of_ht[n], state, queries[t])
    tolerance_of_ht = np.broadcast_to(spread(of_ht)[:, :, None, :], ht.shape)
    return (
        Expected(o, stored(o, spread(of_o)[None], v.dtype)),
        Expected(ht, stored(ht, tolerance_of_ht, np.float32)),
    )


def _of_step(
    decayed: Float64, state: Float64, k: Float64, update: Float64, predicted: Float64, rate: Float64
) -> Float64:
    """Squares of the errors that one token adds to the f32 state, ``[H, V]``: of any element of a column.

    A step decays the state, S' = exp(g) S, predicts p = S'ᵀ k, and adds k ⊗ u with u = β (v - p). Its roundings,
    2⁻²⁴ relative each unless more is said, are

    - of S': the product, and the exponential's error (2);
    - of p: K products and additions in any order; partial sums of products of random signs make that
      (1 + K/2) Σ(S'ᵢⱼ kᵢ)² in squares; and the error of k (4 where it was divided by its length);
    - of u: a difference and a product;
    - of S: the product with k, with k's error, and the sum.

    An element is taken as large as the largest of its column. Later steps multiply an error with exp(g) (I - β k kᵀ),
    which lengthens no vector as long as β |k|² ≤ 2: so squares add up from step to step, and decay.
    """
    squares = decayed**2
    products = np.einsum("hkv,hk->hv", squares, k**2)
    of_prediction = (1 + k.shape[1] / 2) * products + _NORMALISED**2 * predicted**2
    of_update = rate[:, None] ** 2 * of_prediction + 2 * update**2
    of_sum = (1 + _NORMALISED**2) * update**2
    own = (1 + _EXPONENTIAL**2) * squares.max(axis=1) + (state**2).max(axis=1)
    return F32**2 * (own + (k**2).max(axis=1)[:, None] * (of_update + of_sum))


def _of_output(of_state: Float64, state: Float64, q: Float64) -> Float64:
    """Squares of the errors of the outputs ``Sᵀ q``, ``[H, V]``: the state's, those of the sum, and q's."""
    products = np.einsum("hkv,hk->hv", state**2, q**2)
    own = (1 + q.shape[1] / 2) * products + (_NORMALISED + 1) ** 2 * np.einsum("hkv,hk->hv", state, q) ** 2
    return (q**2).sum(axis=1)[:, None] * of_state + F32**2 * own
