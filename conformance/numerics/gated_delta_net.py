"""Gated delta net with correlated keys and weak decay: random keys and fast decay hide what an inexact state does."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from conformance.cases.gated_delta_net import CONFIGS, GdnConfig, args
from conformance.numerics.case import NumericsCase
from mosaic_tpu import zoo
from mosaic_tpu.zoo.tolerances import Array, Float64
from mosaic_tpu.zoo.tolerances.gated_delta_net import expected

#: By their ids in `conformance.cases.gated_delta_net`: every dtype, width, option and kind of block.
AS_THEY_ARE = (
    "bf16", "f32", "bf16-beta-f32", "one-head-two-value-heads", "group-3", "key-dim-64", "key-dim-256",
    "value-dim-256-one-block", "odd-widths", "one-sequence", "sequences-9", "tokens-1", "tokens-13",
    "block-tokens-64-ragged", "no-l2norm", "scale", "transpose-keys",
)  # fmt: skip
#: Configs of many heads or tokens, with fewer tokens.
SHORTENED = {"head-blocks-2": 24, "tokens-ragged": 140, "group-4": 16, "block-tokens-8": 40}


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


def _case(config: GdnConfig) -> NumericsCase:
    options = {"scale": config.scale, "use_qk_l2norm": config.use_qk_l2norm}
    function = functools.partial(
        zoo.gated_delta_net,
        **options,
        block_tokens=config.block_tokens,
        block_heads=config.block_heads,
        block_v=config.block_v,
        transpose_keys=config.transpose_keys,
    )
    inputs, results = functools.partial(_inputs, config), functools.partial(expected, **options)
    # The state's columns are padded to whole blocks, and the padding is cut off after the kernel.
    pads = config.value_dim % config.block_v != 0
    return NumericsCase("gated_delta_net", config.id, function, inputs, results, pads=pads)


_BY_ID = {config.id: config for config in CONFIGS}
CASES = [
    *(_case(_BY_ID[name]) for name in AS_THEY_ARE),
    *(_case(replace(_BY_ID[name], tokens=tokens)) for name, tokens in SHORTENED.items()),
]
