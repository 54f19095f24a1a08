"""The reference of the gated delta net says what the chunked form says, where errors would grow too."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mosaic_tpu.zoo.references.gated_delta_net import gated_delta_net

type Array = NDArray[np.float64]


def _chunk(q: Array, k: Array, v: Array, g: Array, beta: Array, state: Array) -> tuple[Array, Array]:
    """One chunk of one head by linear algebra: the corrections of all its tokens solve one triangular system."""
    since = np.cumsum(g)
    decay = np.exp(np.where(np.tri(len(g), dtype=bool), since[:, None] - since[None, :], -np.inf))
    overlap = np.tril(beta[:, None] * (k @ k.T) * decay, -1)
    inverse = np.linalg.inv(np.eye(len(g)) + overlap)
    u = inverse @ (beta[:, None] * v)
    w = inverse @ ((beta * np.exp(since))[:, None] * k)
    corrections = u - w @ state
    o = (np.exp(since)[:, None] * q) @ state + ((q @ k.T) * decay) @ corrections
    to_end = np.exp(since[-1] - since)[:, None]
    return o, np.exp(since[-1]) * state + (k * to_end).T @ corrections


def chunked(arrays: tuple[Any, ...], *, chunk: int, scale: float | None = None, use_qk_l2norm: bool = True) -> Any:
    q, k, v, g, beta, h0, bounds = (np.asarray(x, np.float64) for x in arrays)
    if use_qk_l2norm:
        q, k = (x / np.sqrt((x**2).sum(-1, keepdims=True) + 1e-6) for x in (q, k))
    q = q * (q.shape[-1] ** -0.5 if scale is None else scale)
    o, ht, group = np.zeros(v.shape), h0.copy(), v.shape[2] // q.shape[2]
    for n, (begin, end) in enumerate(pairwise(bounds.astype(int))):
        for head in range(v.shape[2]):
            for first in range(begin, end, chunk):
                at = slice(first, min(first + chunk, end))
                keys = q[0, at, head // group], k[0, at, head // group]
                o[0, at, head], ht[n, head] = _chunk(
                    *keys, v[0, at, head], g[0, at, head], beta[0, at, head], ht[n, head]
                )
    return o, ht


def _call(bounds: list[int], *, tokens: int = 70, correlation: float = 0.0, decay: float = 0.5) -> tuple[Any, ...]:
    """Keys that share a direction by ``correlation``; log-decays down to ``-decay``."""
    rng = np.random.default_rng(2)
    heads, value_heads, key_dim, value_dim = 2, 4, 16, 12
    q, own = (rng.standard_normal((1, tokens, heads, key_dim)) for _ in range(2))
    k = correlation * rng.standard_normal((1, 1, heads, key_dim)) + (1 - correlation) * own
    v = rng.standard_normal((1, tokens, value_heads, value_dim))
    g = -decay * rng.random((1, tokens, value_heads))
    beta = rng.random((1, tokens, value_heads))
    h0 = rng.standard_normal((len(bounds) - 1, value_heads, key_dim, value_dim))
    return q, k, v, g, beta, h0, bounds


SEQUENCES = {
    "one": [0, 70],
    "ragged": [0, 1, 33, 70],
    "empty-first": [0, 0, 40, 70],
    "empty-inside": [0, 40, 40, 40, 70],
    "empty-last": [0, 70, 70],
    "all-empty": [0, 0],
    "starts-late": [5, 20, 70],
    "ends-early": [0, 20, 60],
}


@pytest.mark.parametrize("chunk", [1, 16, 64])
@pytest.mark.parametrize("bounds", SEQUENCES.values(), ids=SEQUENCES)
def test_it_is_what_the_chunked_form_computes(bounds: list[int], chunk: int) -> None:
    arrays = _call(bounds)
    for ours, theirs in zip(gated_delta_net(*arrays), chunked(arrays, chunk=chunk), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-12)


@pytest.mark.parametrize("correlation", [0.5, 0.9, 0.99])
@pytest.mark.parametrize("decay", [0.0, 1e-3, 5.0])
def test_it_is_so_with_correlated_keys_and_weak_decay(correlation: float, decay: float) -> None:
    arrays = _call([0, 25, 70], correlation=correlation, decay=decay)
    for ours, theirs in zip(gated_delta_net(*arrays), chunked(arrays, chunk=64), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-11)


@pytest.mark.parametrize("options", [{"scale": 2.0}, {"use_qk_l2norm": False}], ids="-".join)
def test_options_do_what_they_do_in_the_chunked_form(options: dict[str, Any]) -> None:
    q, k, *rest = _call([0, 30, 70])
    arrays = (q, k / 4, *rest)  # without the norm, long keys make the state grow without bound
    ours, plain = gated_delta_net(*arrays, **options), gated_delta_net(*arrays)
    for x, y in zip(ours, chunked(arrays, chunk=16, **options), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-10, atol=1e-10)
    assert np.abs(ours[0] - plain[0]).max() > 1e-2


def test_an_empty_sequence_keeps_its_state() -> None:
    arrays = _call([0, 40, 40, 70])
    _, ht = gated_delta_net(*arrays)
    assert (ht[1] == arrays[5][1]).all()
    assert (ht[0] != arrays[5][0]).all() and (ht[2] != arrays[5][2]).all()


def test_tokens_of_no_sequence_are_zero() -> None:
    o, _ = gated_delta_net(*_call([5, 20, 60]))
    assert not o[0, :5].any() and not o[0, 60:].any() and o[0, 5:60].all()


def test_a_sequence_does_not_see_the_others() -> None:
    q, k, v, *rest = _call([0, 30, 70])
    o, ht = gated_delta_net(q, k, v, *rest)
    changed = v.copy()
    changed[0, :30] += 1.0
    o_changed, ht_changed = gated_delta_net(q, k, changed, *rest)
    assert (o[0, 30:] == o_changed[0, 30:]).all() and (ht[1] == ht_changed[1]).all()
    assert (o[0, :30] != o_changed[0, :30]).all() and (ht[0] != ht_changed[0]).all()


def test_a_state_goes_on_where_it_ended() -> None:
    *arrays, h0, _ = _call([0, 70])
    whole, end = gated_delta_net(*arrays, h0, [0, 70])
    first, middle = gated_delta_net(*arrays, h0, [0, 33])
    second, last = gated_delta_net(*arrays, middle, [33, 70])
    np.testing.assert_allclose(first + second, whole, rtol=0, atol=1e-14)
    np.testing.assert_allclose(last, end, rtol=0, atol=1e-14)


def test_the_arguments_stay_as_they_are() -> None:
    arrays = _call([0, 30, 70])
    before = [np.array(a) for a in arrays]
    gated_delta_net(*arrays)
    assert all((a == b).all() for a, b in zip(arrays, before, strict=True))
