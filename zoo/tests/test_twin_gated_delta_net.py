"""The Pallas twin of the gated delta net, interpreted, computes what the reference does: so do our bytes, its own."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.pallas import tpu as pltpu

from conformance.twins.gated_delta_net import gated_delta_net as twin
from mosaic_tpu.zoo.references.gated_delta_net import gated_delta_net

TOKENS = 20


def _call(bounds: list[int], value_dim: int = 128) -> tuple[Any, ...]:
    """Keys that share a direction, weak decay."""
    rng = np.random.default_rng(3)
    q, own = (rng.standard_normal((1, TOKENS, 1, 16)) for _ in range(2))
    k = own + 2.0 * rng.standard_normal((1, 1, 1, 16))
    v = rng.standard_normal((1, TOKENS, 2, value_dim))
    g, beta = -0.01 * rng.random((1, TOKENS, 2)), rng.random((1, TOKENS, 2))
    h0 = rng.standard_normal((len(bounds) - 1, 2, 16, value_dim))
    return *(jnp.asarray(x, jnp.float32) for x in (q, k, v, g, beta, h0)), jnp.asarray(bounds, jnp.int32)


@pytest.mark.parametrize(
    ("bounds", "value_dim", "options", "only_twin"),
    [
        ([0, 5, 16, 20], 128, {}, {}),
        ([0, 0, 8, 8, 20, 20], 40, {}, {}),
        ([3, 10, 17], 128, {}, {"transpose_keys": True}),
        ([0, 11, 20], 40, {"scale": 0.5}, {}),
    ],
    ids=str,
)
def test_the_twin_computes_what_the_reference_does(
    bounds: list[int], value_dim: int, options: dict[str, Any], only_twin: dict[str, Any]
) -> None:
    arrays = _call(bounds, value_dim)
    theirs = twin(*arrays, block_tokens=8, interpret=pltpu.InterpretParams(), **options, **only_twin)
    for got, wanted in zip(theirs, gated_delta_net(*arrays, **options), strict=True):
        # f32: at most 20 steps, each a few roundings of numbers up to 10.
        np.testing.assert_allclose(got, wanted, rtol=0, atol=2e-5)


def test_a_state_that_starts_elsewhere_is_seen() -> None:
    bounds = [0, 11, 20]
    *arrays, h0, cu_seqlens = _call(bounds)
    o, _ = twin(*arrays, h0 + 1.0, cu_seqlens, block_tokens=8, interpret=pltpu.InterpretParams())
    wanted, _ = gated_delta_net(*arrays, h0, cu_seqlens)
    assert all(np.abs(np.asarray(o)[0, a:b] - wanted[0, a:b]).max() > 1e-2 for a, b in pairwise(bounds))
