"""Gated delta net in float64, one token at a time, from its definition."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

L2_EPSILON = 1e-6


def _tokens(x: ArrayLike) -> NDArray[np.float64]:
    """The array without its leading 1."""
    return np.asarray(x, np.float64)[0]


def _l2_normalise(x: NDArray[np.float64]) -> NDArray[np.float64]:
    return x / np.sqrt(np.sum(x * x, axis=-1, keepdims=True) + L2_EPSILON)


def gated_delta_net(
    q: ArrayLike,
    k: ArrayLike,
    v: ArrayLike,
    g: ArrayLike,
    beta: ArrayLike,
    h0: ArrayLike,
    cu_seqlens: ArrayLike,
    *,
    scale: float | None = None,
    use_qk_l2norm: bool = True,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Outputs and final states of the gated delta rule over ragged sequences.

    A value head keeps a state S of shape [K, V]. Each token decays it, corrects what it predicts for the token's key,
    and reads it with the token's query:

        S ← exp(g) S;   S ← S + β k (v - Sᵀk)ᵀ;   o = Sᵀ(scale · q)

    Arguments: `q, k [1, T, H, K]`, `v [1, T, HV, V]`, log-decay `g [1, T, HV]`, `beta [1, T, HV]`,
    `h0 [N, HV, K, V]`, `cu_seqlens [N + 1]`. Value head j uses query/key head j // (HV / H). `scale` defaults to
    K^-1/2. With `use_qk_l2norm`, q and k are first divided by sqrt(Σx² + 1e-6).

    Returns float64 `o [1, T, HV, V]`, zero at tokens of no sequence, and `ht [N, HV, K, V]`.

    >>> o, ht = gated_delta_net(
    ...     q=np.ones((1, 1, 1, 1)), k=np.ones((1, 1, 1, 1)), v=np.full((1, 1, 1, 1), 3.0), g=np.zeros((1, 1, 1)),
    ...     beta=np.ones((1, 1, 1)), h0=np.ones((1, 1, 1, 1)), cu_seqlens=[0, 1], use_qk_l2norm=False,
    ... )
    >>> o.item(), ht.item()
    (3.0, 3.0)
    """
    queries, keys, values, decays, rates = (_tokens(x) for x in (q, k, v, g, beta))
    bounds = [int(x) for x in np.asarray(cu_seqlens, np.int64)]
    if use_qk_l2norm:
        queries, keys = _l2_normalise(queries), _l2_normalise(keys)
    queries = queries * (queries.shape[-1] ** -0.5 if scale is None else scale)
    group = values.shape[1] // queries.shape[1]
    queries, keys = np.repeat(queries, group, axis=1), np.repeat(keys, group, axis=1)

    o = np.zeros(values.shape, np.float64)
    ht = np.array(h0, np.float64)
    for n, (bos, eos) in enumerate(pairwise(bounds)):
        for t in range(bos, eos):
            state = ht[n] * np.exp(decays[t])[:, None, None]
            error = values[t] - np.einsum("hkv,hk->hv", state, keys[t])
            state = state + np.einsum("hk,hv->hkv", keys[t], rates[t][:, None] * error)
            o[t] = np.einsum("hkv,hk->hv", state, queries[t])
            ht[n] = state
    return o[None], ht
