"""The kernels on a TPU, where one is attached, against their float64 references.

Without a TPU nothing here is collected, and the session says so in one line; nor is it in a parallel run, whose workers
would each want the TPU (`conformance/conftest.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from conformance.conftest import Record
from mosaic_tpu import zoo


def _rng() -> np.random.Generator:
    return np.random.default_rng(0)


def _matmul() -> tuple[tuple[Any, ...], dict[str, Any], float]:
    x, y = (jnp.asarray(_rng().standard_normal((512, 512)), jnp.bfloat16) for _ in range(2))
    # One product rounds to bf16 at the end; 512 f32 additions of products of magnitude 1 lose 512 · 2⁻²⁴ at most.
    return (x, y), {}, 2.0**-8 + 512 * 2.0**-24


def _attention() -> tuple[tuple[Any, ...], dict[str, Any], float]:
    rng, seqs, pages, page = _rng(), 3, 32, 16
    q = jnp.asarray(rng.standard_normal((48, 8, 128)), jnp.bfloat16)
    kv = jnp.asarray(rng.standard_normal((pages, page, 4, 128)), jnp.bfloat16)
    tables = jnp.asarray(rng.permutation(pages)[: seqs * 8].reshape(seqs, 8), jnp.int32)
    lens, starts = jnp.asarray([40, 17, 100], jnp.int32), jnp.asarray([0, 20, 21, 48], jnp.int32)
    # Probabilities and values are rounded to bf16 once each (2⁻⁹), the output once more; |v| is about 3 at most.
    return (q, kv, lens, tables, starts, jnp.asarray([seqs], jnp.int32)), {"sm_scale": 128**-0.5}, 3 * 3 * 2.0**-9


def _delta_net() -> tuple[tuple[Any, ...], dict[str, Any], float]:
    rng, tokens = _rng(), 200
    q, k = (jnp.asarray(rng.standard_normal((1, tokens, 2, 128)), jnp.bfloat16) for _ in range(2))
    v = jnp.asarray(rng.standard_normal((1, tokens, 4, 128)), jnp.bfloat16)
    g = jnp.asarray(-rng.random((1, tokens, 4)) * 0.1, jnp.float32)
    beta = jnp.asarray(rng.random((1, tokens, 4)), jnp.bfloat16)
    h0 = jnp.asarray(rng.standard_normal((2, 4, 128, 128)) * 0.1, jnp.float32)
    # The recurrence is f32 throughout: the output's one rounding to bf16 is what remains.
    return (q, k, v, g, beta, h0, jnp.asarray([0, 77, tokens], jnp.int32)), {}, 2.0**-8


@pytest.mark.parametrize(
    ("name", "make"), [("matmul", _matmul), ("ragged_paged_attention", _attention), ("gated_delta_net", _delta_net)]
)
def test_on_the_tpu_it_computes_what_the_reference_does(
    name: str, make: Callable[[], tuple[tuple[Any, ...], dict[str, Any], float]], record: Record
) -> None:
    arrays, options, tolerance = make()
    info = zoo.KERNELS[name]
    got = jax.tree.leaves(info.function(*arrays, **options))
    wanted = jax.tree.leaves(info.reference(*(np.asarray(a) for a in arrays), **options))
    for g, w in zip(got, wanted, strict=True):
        error = float(np.max(np.abs(np.asarray(g, np.float64) - w) / np.maximum(1.0, np.abs(w))))
        record("on the TPU", kernel=name, device=jax.devices()[0].device_kind, error=error, tolerance=tolerance)
        assert error <= tolerance
