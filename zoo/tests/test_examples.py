"""The arrays that the command line tries a kernel with are a valid call, and one that the config serves."""

from __future__ import annotations

import inspect
from dataclasses import replace
from importlib import import_module
from typing import Any

import numpy as np
import pytest

from mosaic_tpu.builder import DType, bf16, f32, i8
from mosaic_tpu.zoo import KERNELS
from mosaic_tpu.zoo.examples._example import numbers

CONFIGS = [(name, preset, cfg) for name, info in KERNELS.items() for preset, cfg in info.presets.items()] + [
    ("matmul", "i8", replace(KERNELS["matmul"].default, x_dtype=i8, y_dtype=i8, out_dtype=f32)),
    ("ragged_paged_attention", "few tokens", replace(KERNELS["ragged_paged_attention"].default, num_tokens=3)),
    ("ragged_paged_attention", "small cache", replace(KERNELS["ragged_paged_attention"].default, num_pages=2)),
    ("ragged_paged_attention", "window", replace(KERNELS["ragged_paged_attention"].default, sliding_window=9)),
    ("gated_delta_net", "no norm", replace(KERNELS["gated_delta_net"].default, use_qk_l2norm=False)),
    ("gated_delta_net", "one token", replace(KERNELS["gated_delta_net"].default, tokens=1, block_tokens=8)),
]
each = pytest.mark.parametrize(("name", "preset", "cfg"), CONFIGS, ids=[f"{n}-{p}" for n, p, _ in CONFIGS])


@each
def test_an_example_is_a_call_that_its_config_serves(name: str, preset: str, cfg: Any) -> None:
    info = KERNELS[name]
    found = info.example(cfg, np.random.default_rng(0))
    plan = import_module(f"mosaic_tpu.zoo.api.{name}").plan
    assert plan(*found.arrays.values(), **found.options) == cfg
    if info.validate is not None:
        info.validate(*found.arrays.values())


@each
def test_an_example_names_the_functions_parameters(name: str, preset: str, cfg: Any) -> None:
    found = KERNELS[name].example(cfg, np.random.default_rng(0))
    parameters = inspect.signature(KERNELS[name].function).parameters
    assert [*found.arrays] == [n for n, p in parameters.items() if p.kind is p.POSITIONAL_OR_KEYWORD]
    assert set(found.options) <= set(parameters)
    assert set(found.options_of(KERNELS[name].reference)) < set(found.options)


@pytest.mark.parametrize("kind", [bf16, f32, i8])
def test_numbers_are_those_of_one_draw(kind: DType) -> None:
    """Though no more of them are drawn at once than there is memory for."""
    shape, rng = (3, 50_000), np.random.default_rng(0)
    draw = rng.standard_normal(shape, np.float32) * 2 if kind.is_float else rng.integers(-7, 8, shape)
    found = numbers(np.random.default_rng(0), shape, kind, 2.0)
    assert found.dtype == kind.numpy
    assert np.array_equal(found, draw.astype(kind.numpy))


@pytest.mark.parametrize("name", KERNELS)
def test_a_seed_decides_the_arrays(name: str) -> None:
    info = KERNELS[name]
    one, same, other = (info.example(info.default, np.random.default_rng(seed)).arrays for seed in (0, 0, 1))
    assert all(np.array_equal(one[n], same[n]) for n in one)
    assert not all(np.array_equal(one[n], other[n]) for n in one)
