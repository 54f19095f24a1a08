"""The kernels, simulated from the bytes they emit, against float64 references: the numerics table.

Ours come from our own lowering, those of the jax wheel from Pallas's. `conformance/numerics` has the cases, each with
the derivation of its tolerance.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from conformance.conftest import Record
from conformance.numerics.case import Engine, NumericsCase
from conformance.numerics.table import CASES, prepared, run, simulated
from mosaic_tpu.zoo.tolerances import Array, Expected

BY_ID = {case.id: case for case in CASES}


@pytest.mark.parametrize(
    ("case", "engine"),
    [pytest.param(case, engine, id=f"{case.id}-{engine}") for case in CASES for engine in case.engines],
)
def test_the_results_are_within_the_tolerance(case: NumericsCase, engine: Engine, record: Record) -> None:
    row = {"kernel": case.kernel, "config": case.config, "engine": engine}
    try:
        share = run(case, engine)
    except Exception as error:
        record("numerics", **row, level=type(error).__name__)
        raise
    record("numerics", **row, level="within" if share <= 1 else "beyond", share_of_tolerance=share)
    assert share <= 1


# --- what would be beyond it -----------------------------------------------------------------------------------------


def _scaled(number: int, factor: float) -> Callable[..., list[Array]]:
    """The arrays with one of them scaled."""

    def change(*arrays: Array) -> list[Array]:
        scaled = (arrays[number].astype(np.float64) * factor).astype(arrays[number].dtype)
        return [scaled if n == number else a for n, a in enumerate(arrays)]

    return change


def _without_decay(*arrays: Array) -> list[Array]:
    return [np.zeros_like(a) if n == 3 else a for n, a in enumerate(arrays)]


def _one_key_more(*arrays: Array) -> list[Array]:
    """Of ragged paged attention: the first sequence sees the token after its last."""
    changed = [a.copy() for a in arrays]
    pages, kv_lens = changed[1:3]
    pages[np.isnan(pages.astype(np.float64))] = 1
    kv_lens[0] += 1
    return changed


def _another_page(*arrays: Array) -> list[Array]:
    """Of paged attention: the first sequence has the second's first page."""
    changed = [a.copy() for a in arrays]
    changed[-1][0, 0] = changed[-1][1, 0]
    return changed


def _groups_shifted(lhs: Array, rhs: Array, sizes: Array) -> list[Array]:
    """Of gmm: one row belongs to the group after its own."""
    return [lhs, rhs, sizes + np.array([-1, 1, *[0] * (len(sizes) - 2)], np.int32)]


def _rotated(*shards: Array) -> list[Array]:
    return [*shards[1:], shards[0]]


PLANTED = [
    ("matmul-bf16", _scaled(0, 1.02)),
    ("matmul-f32", _scaled(0, 1.05)),
    ("matmul-s8-to-s32", lambda x, y: [x ^ (np.arange(x.size).reshape(x.shape) == 0), y]),
    ("gated_delta_net-bf16", _without_decay),
    ("gated_delta_net-f32", _scaled(2, 1 + 2.0**-12)),
    ("ragged_paged_attention-bf16, decode", _one_key_more),
    ("ragged_paged_attention-f32, prefill and decode", _scaled(0, 1.2)),
    ("jax: gmm-groups across tiles", _groups_shifted),
    ("jax: flash_attention-bf16", _scaled(0, 1.2)),
    ("jax: flash_attention-bf16, segments", lambda *a: [*a[:-1], np.roll(a[-1], 1, axis=1)]),
    ("jax: paged_attention-bf16", _another_page),
    ("jax: all_gather-f32", _rotated),
]


@pytest.mark.parametrize(("case_id", "change"), PLANTED, ids=[case_id for case_id, _ in PLANTED])
def test_a_planted_error_is_beyond_the_tolerance(case_id: str, change: Callable[..., list[Any]]) -> None:
    ready = prepared(BY_ID[case_id])
    results = simulated(replace(ready, arrays=change(*ready.arrays)), "numpy")
    assert max(e.distance(got) for e, got in zip(ready.expected, results, strict=True)) > 1


def test_a_mask_that_is_off_by_one_is_beyond_the_tolerance() -> None:
    case = BY_ID["ragged_paged_attention-window of 5, prefill and decode"]
    function = functools.partial(case.function, sliding_window=6)
    ready = prepared(replace(case, function=function))
    (expected,), (got,) = ready.expected, simulated(ready, "numpy")
    assert expected.distance(got) > 1


# --- the tolerances themselves ---------------------------------------------------------------------------------------


def test_every_kernel_of_the_zoo_and_of_the_wheel_is_in_the_table() -> None:
    assert {case.kernel for case in CASES} == {
        "matmul",
        "gated_delta_net",
        "ragged_paged_attention",
        "jax: matmul",
        "jax: gmm",
        "jax: flash_attention",
        "jax: paged_attention",
        "jax: ragged_paged_attention",
        "jax: all_gather",
    }
    assert len(BY_ID) == len(CASES)


@pytest.mark.parametrize("kernel", ["ragged_paged_attention", "jax: flash_attention", "jax: paged_attention"])
def test_attention_is_held_to_far_less_than_in_public_tests(kernel: str) -> None:
    """Those allow 0.15 where values are about 1."""
    for case in [case for case in CASES if case.kernel == kernel][:4]:
        for expected in case.expected(*case.arrays()):
            tolerance = np.asarray(expected.tolerance)
            finite = tolerance[np.isfinite(tolerance)]
            assert finite.mean() < 0.025
            assert finite.max() < 0.15


@pytest.mark.parametrize(
    ("got", "share"),
    [
        ([1.0, 2.0, 7.0], 0.0),
        ([1.1, 2.0, np.nan], 1.0),
        ([1.0, 2.0 + 1e-9, 0.0], np.inf),
        ([np.nan, 2.0, 0.0], np.inf),
        ([1.05, 2.0, np.inf], 0.5),
        ([1.0, 2.0], np.inf),
    ],
)
def test_the_distance_is_the_worst_share(got: list[float], share: float) -> None:
    """A tolerance of 0 asks for the same number, and one of infinity for nothing."""
    expected = Expected(np.array([1.0, 2.0, 3.0]), np.array([0.1, 0.0, np.inf]))
    assert expected.distance(np.array(got)) == pytest.approx(share)
