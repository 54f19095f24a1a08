"""Gated delta net with correlated keys and weak decay: random keys and fast decay hide what an inexact state does."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from conformance.cases.gated_delta_net import CONFIGS, GdnConfig, args
from conformance.numerics.case import Array, Expected, Float64, NumericsCase
from conformance.numerics.tolerances import F32, spread, stored
from mosaic_tpu import zoo
from mosaic_tpu.zoo.references.gated_delta_net import L2_EPSILON
from mosaic_tpu.zoo.references.gated_delta_net import gated_delta_net as reference

#: By their ids in `conformance.cases.gated_delta_net`: every dtype, width, option and kind of block.
AS_THEY_ARE = (
    "bf16", "f32", "bf16-beta-f32", "one-head-two-value-heads", "group-3", "key-dim-64", "key-dim-256",
    "value-dim-256-one-block", "odd-widths", "one-sequence", "sequences-9", "tokens-1", "tokens-13",
    "block-tokens-64-ragged", "no-l2norm", "scale", "transpose-keys",
)  # fmt: skip
#: Configs of many heads or tokens, with fewer tokens.
SHORTENED = {"head-blocks-2": 24, "tokens-ragged": 140, "group-4": 16, "block-tokens-8": 40}
#: Upper bounds in f32 roundings: an exponential of the decay, and q or k divided by its length.
_EXPONENTIAL = 2
_NORMALISED = 4


def _inputs(config: GdnConfig, rng: np.random.Generator) -> Sequence[Array]:
    """Keys that mostly point one way in each head, decays of about 1 % a token, rates near 1."""
    shapes = args(config)

    def normal(name: str) -> Float64:
        return rng.standard_normal(shapes[name].shape)

    q, k = normal("q"), rng.standard_normal((1, 1, config.heads, config.key_dim)) + 0.3 * normal("k")
    if not config.use_qk_l2norm:  # longer keys would make the state grow without bound
        q, k = (x / np.linalg.norm(x, axis=-1, keepdims=True) for x in (q, k))
    arrays = {
        "q": q,
        "k": k,
        "v": normal("v"),
        "g": -0.02 * rng.random(shapes["g"].shape),
        "beta": 0.7 + 0.3 * rng.random(shapes["beta"].shape),
        "h0": 0.3 * normal("h0"),
        "cu_seqlens": _bounds(config, rng),
    }
    return [arrays[name].astype(shape.dtype) for name, shape in shapes.items()]


def _bounds(config: GdnConfig, rng: np.random.Generator) -> Array:
    """Sequences of any length, some empty, and with many of them, tokens that belong to none at either end."""
    spare = 2 if config.seqs > 4 else 0
    cuts = np.sort(rng.integers(spare, config.tokens - spare + 1, config.seqs - 1))
    return np.concatenate([[spare], cuts, [config.tokens - spare]])


def _of_step(decayed: Float64, k: Float64, update: Float64, predicted: Float64, rate: Float64) -> Float64:
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
    after = decayed + k[:, :, None] * update[:, None, :]
    products = np.einsum("hkv,hk->hv", decayed**2, k**2)
    of_prediction = (1 + k.shape[1] / 2) * products + _NORMALISED**2 * predicted**2
    of_update = rate[:, None] ** 2 * of_prediction + 2 * update**2
    of_sum = (1 + _NORMALISED**2) * update**2
    own = (1 + _EXPONENTIAL**2) * (decayed**2).max(axis=1) + (after**2).max(axis=1)
    return F32**2 * (own + (k**2).max(axis=1)[:, None] * (of_update + of_sum))


def _of_output(of_state: Float64, state: Float64, q: Float64) -> Float64:
    """Squares of the errors of the outputs ``Sᵀ q``, ``[H, V]``: the state's, those of the sum, and q's."""
    products = np.einsum("hkv,hk->hv", state**2, q**2)
    own = (1 + q.shape[1] / 2) * products + (_NORMALISED + 1) ** 2 * np.einsum("hkv,hk->hv", state, q) ** 2
    return (q**2).sum(axis=1)[:, None] * of_state + F32**2 * own


def _expected(config: GdnConfig, *arrays: Array) -> list[Expected]:
    options = {"scale": config.scale, "use_qk_l2norm": config.use_qk_l2norm}
    q, k, v, g, beta = (x[0].astype(np.float64) for x in arrays[:5])
    h0, bounds = arrays[5].astype(np.float64), arrays[6]
    if config.use_qk_l2norm:
        q, k = (x / np.sqrt((x**2).sum(-1, keepdims=True) + L2_EPSILON) for x in (q, k))
    q = q * (config.key_dim**-0.5 if config.scale is None else config.scale)
    q, k = (np.repeat(x, config.value_heads // config.heads, axis=1) for x in (q, k))

    of_o, of_ht = np.zeros(v.shape), np.zeros((len(h0), *v.shape[1:]))
    for n, (begin, end) in enumerate(pairwise(bounds)):
        state = h0[n]
        for t in range(begin, end):
            decay = np.exp(g[t])[:, None]
            decayed = state * decay[:, :, None]
            predicted = np.einsum("hkv,hk->hv", decayed, k[t])
            update = beta[t][:, None] * (v[t] - predicted)
            of_ht[n] = decay**2 * of_ht[n] + _of_step(decayed, k[t], update, predicted, beta[t])
            state = decayed + k[t][:, :, None] * update[:, None, :]
            of_o[t] = _of_output(of_ht[n], state, q[t])
    o, ht = reference(*arrays, **options)
    tolerance_of_ht = np.broadcast_to(spread(of_ht)[:, :, None, :], ht.shape)
    return [
        Expected(o, stored(o, spread(of_o)[None], config.dtype)),
        Expected(ht, stored(ht, tolerance_of_ht, np.float32)),
    ]


def _case(config: GdnConfig) -> NumericsCase:
    function = functools.partial(
        zoo.gated_delta_net,
        scale=config.scale,
        use_qk_l2norm=config.use_qk_l2norm,
        block_tokens=config.block_tokens,
        block_heads=config.block_heads,
        block_v=config.block_v,
        transpose_keys=config.transpose_keys,
    )
    inputs, expected = functools.partial(_inputs, config), functools.partial(_expected, config)
    # The state's columns are padded to whole blocks, and the padding is cut off after the kernel.
    pads = config.value_dim % config.block_v != 0
    return NumericsCase("gated_delta_net", config.id, function, inputs, expected, pads=pads)


_BY_ID = {config.id: config for config in CONFIGS}
CASES = [
    *(_case(_BY_ID[name]) for name in AS_THEY_ARE),
    *(_case(replace(_BY_ID[name], tokens=tokens)) for name, tokens in SHORTENED.items()),
]
