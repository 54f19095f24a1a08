"""What rounding may make of a result: around the reference, as derived, and no wider than the types that round."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from mosaic_tpu.builder import bf16, f8e4m3fn, f16, f32, i8, i32, u8
from mosaic_tpu.zoo import KERNELS
from mosaic_tpu.zoo.tolerances import Expected, _expected
from mosaic_tpu.zoo.tolerances.matmul import expected as of_matmul
from mosaic_tpu.zoo.tolerances.ragged_paged_attention import expected as of_attention

from .test_examples import each


@each
def test_the_results_are_the_references(name: str, preset: str, cfg: Any) -> None:
    info = KERNELS[name]
    example = info.example(_small(cfg), np.random.default_rng(0))
    reference = info.reference(*example.arrays.values(), **example.options_of(info.reference))
    found = info.expected(*example.arrays.values(), **example.options_of(info.expected))
    references = reference if isinstance(reference, tuple) else (reference,)
    assert len(found) == len(info.kernel.outputs)
    for one, value in zip(found, references, strict=True):
        tolerance = np.broadcast_to(one.tolerance, value.shape)
        defined = np.isfinite(tolerance)
        assert defined.mean() >= 0.5
        np.testing.assert_allclose(one.value[defined], value[defined], rtol=1e-9, atol=1e-12)
        assert np.all(tolerance[defined] >= 0)


def _small(cfg: Any) -> Any:
    """The presets of models take seconds."""
    if getattr(cfg, "tokens", 0) > 1000:
        return replace(cfg, tokens=128)
    return replace(cfg, n=1024) if getattr(cfg, "n", 0) > 10_000 else cfg


def test_what_a_call_does_not_define_is_no_matter() -> None:
    info = KERNELS["ragged_paged_attention"]
    example = info.example(info.default, np.random.default_rng(0))
    arrays = example.arrays | {"cu_q_lens": np.minimum(example.arrays["cu_q_lens"], 40)}
    arrays["num_seqs"] = np.array([int(np.searchsorted(arrays["cu_q_lens"], 40))], np.int32)
    (found,) = of_attention(*arrays.values())
    rows = np.isfinite(found.tolerance).all(axis=(1, 2))
    assert rows[:40].all()
    assert not rows[40:].any()
    got = found.value.copy()
    got[40:] = np.nan
    assert found.distance(got) == 0
    got[39, 0, 0] = np.nan
    assert found.distance(got) == np.inf


@pytest.mark.parametrize(
    ("name", "changes", "least", "most"),
    [
        ("matmul", {}, 2**-9, 2**-8),  # the rounding of the result
        ("matmul", dict(out_dtype=f32), 2**-20, 2**-17),
        ("matmul", dict(x_dtype=i8, y_dtype=i8, out_dtype=i32), 0, 0),
        ("matmul", dict(x_dtype=i8, y_dtype=i8, out_dtype=f32), 2**-25, 2**-23),
        ("matmul", dict(x_dtype=f16, y_dtype=f16, out_dtype=f32), 2**-20, 2**-17),
        ("matmul", dict(x_dtype=f8e4m3fn, out_dtype=f32), 2**-20, 2**-17),
        ("matmul", dict(x_dtype=f32, out_dtype=f32), 2**-9, 2**-7),
        ("matmul", dict(x_dtype=f32, y_dtype=f32, out_dtype=f32), 2**-9, 2**-7),
        ("gated_delta_net", {}, 2**-9, 2**-8),
        ("gated_delta_net", dict(dtype=f32), 2**-24, 2**-18),
        ("ragged_paged_attention", {}, 2**-9, 2**-5),
        ("ragged_paged_attention", dict(sm_scale=128**-0.5, q_dtype=f32), 2**-10, 2**-5),
        ("ragged_paged_attention", dict(sm_scale=128**-0.5, q_dtype=f32, kv_dtype=f32), 2**-10, 2**-5),
        ("ragged_paged_attention", dict(q_dtype=f32, kv_dtype=f32), 2**-9, 2**-3),
    ],
)
def test_it_is_what_the_types_round(name: str, changes: dict[str, Any], least: float, most: float) -> None:
    """As a share of the largest element of the first output: of its typical element, and where it is widest."""
    info = KERNELS[name]
    example = info.example(replace(info.default, **changes), np.random.default_rng(0))
    found = info.expected(*example.arrays.values(), **example.options_of(info.expected))[0]
    tolerance = np.broadcast_to(found.tolerance, found.value.shape)
    assert np.max(tolerance[np.isfinite(tolerance)]) / found.largest >= least
    assert np.median(tolerance[np.isfinite(tolerance)]) / found.largest <= most


@pytest.mark.parametrize(
    ("x", "out", "value", "tolerance"),
    [
        (np.int8([[100, 100]]), i32.numpy, 20_000, 0),
        (np.int8([[100, 100]]), i8.numpy, 20_000 - 78 * 256, 0),  # its lowest bits
        (np.float32([[1.5, 0.25]]), i32.numpy, 175, 1),  # rounding may carry it below
        (np.float32([[1.5, 0.255]]), i32.numpy, 175, 1),
        (np.array([[1.5, 0.255]], ml_dtypes.bfloat16), i32.numpy, 175, 0),
        (np.float32([[100, 100]]), i8.numpy, 127, 0),
        (np.float32([[-100, 100]]), u8.numpy, 0, 1),
        (np.float32([[-100, -100]]), u8.numpy, 0, 0),
    ],
)
def test_a_result_that_is_an_integer(x: Any, out: Any, value: int, tolerance: int) -> None:
    y = np.full((2, 1), 100, np.int8 if x.dtype == np.int8 else bf16.numpy)
    (found,) = of_matmul(x, y, out_dtype=out)
    assert (found.value.item(), np.broadcast_to(found.tolerance, (1, 1)).item()) == (value, tolerance)


@pytest.mark.parametrize(
    ("got", "worst"),
    [
        ([1.0, 2.0, 7.0], (0.0, 0.0, 0.5)),
        ([1.25, 2.0, np.nan], (0.5, 0.25, 0.5)),
        ([1.0, 2.5, 0.0], (np.inf, 0.5, 0.0)),
        ([np.nan, 2.0, 0.0], (np.inf, np.inf, 0.5)),
        ([1.0, 2.0], (np.inf, np.inf, 0.0)),
    ],
)
def test_the_worst_is_the_largest_share(got: list[float], worst: tuple[float, float, float]) -> None:
    expected = Expected(np.array([1.0, 2.0, 3.0]), np.array([0.5, 0.0, np.inf]))
    assert expected.worst(np.array(got)) == worst
    assert expected.largest == 2.0


@pytest.mark.parametrize("shape", [(0,), (0, 8), (8, 0)])
def test_nothing_is_off_where_there_is_nothing(shape: tuple[int, ...]) -> None:
    expected = Expected(np.zeros(shape), 0.5)
    assert expected.worst(np.zeros(shape, np.float32)) == (0.0, 0.0, 0.0)
    assert expected.distance(np.zeros((1, *shape))) == np.inf


@pytest.mark.parametrize(("got", "worst"), [(1.25, (0.5, 0.25, 0.5)), (2.0, (2.0, 1.0, 0.5))])
def test_one_number_is_a_result(got: float, worst: tuple[float, float, float]) -> None:
    assert Expected(np.array(1.0), 0.5).worst(np.array(got)) == worst


def test_the_worst_is_found_wherever_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_expected, "_AT_ONCE", 4)
    value, tolerance = np.zeros((3, 5)), np.array([[1.0], [2.0], [4.0]])
    for place in np.ndindex(value.shape):
        got = value.astype(ml_dtypes.bfloat16)
        got[place] = 8.0
        allowed = tolerance[place[0], 0]
        assert Expected(value, tolerance).worst(got) == (8.0 / allowed, 8.0, allowed)
