"""A user of the jax wheel's kernels swaps an import: names, kinds and order of the parameters are the same."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from inspect import Parameter
from typing import Any

import pytest
from jax.experimental.pallas.ops.tpu.matmul import matmul as wheel_matmul
from jax.experimental.pallas.ops.tpu.ragged_paged_attention import ragged_paged_attention as wheel_attention

from mosaic_tpu import zoo
from mosaic_tpu.zoo.api import gated_delta_net, matmul, ragged_paged_attention

#: Defaults of ours that differ: the wheel has none, or one that need not divide.
DEFAULTS = {"matmul": {"block_shape": None, "block_k": None}, "ragged_paged_attention": {}}
PLANS = {
    module.__name__.rpartition(".")[2]: module.plan for module in (gated_delta_net, matmul, ragged_paged_attention)
}


def _parameters(function: Callable[..., Any]) -> list[Parameter]:
    return list(inspect.signature(function).parameters.values())


@pytest.mark.parametrize(("name", "theirs"), [("matmul", wheel_matmul), ("ragged_paged_attention", wheel_attention)])
def test_parameters_are_the_wheels(name: str, theirs: Callable[..., Any]) -> None:
    ours = _parameters(getattr(zoo, name))
    assert [(p.name, p.kind) for p in ours] == [(p.name, p.kind) for p in _parameters(theirs)]
    expected = {p.name: p.default for p in _parameters(theirs)} | DEFAULTS[name]
    assert {p.name: p.default for p in ours} == expected


def test_arrays_come_by_position_and_options_by_name() -> None:
    kinds = (
        {p.kind for p in _parameters(zoo.gated_delta_net)[:7]},
        {p.kind for p in _parameters(zoo.gated_delta_net)[7:]},
    )
    assert kinds == ({Parameter.POSITIONAL_OR_KEYWORD}, {Parameter.KEYWORD_ONLY})


@pytest.mark.parametrize("name", zoo.KERNELS)
def test_a_plan_takes_what_the_function_takes(name: str) -> None:
    taken = {p.name: (p.kind, p.default) for p in _parameters(getattr(zoo, name)) if p.name != "debug"}
    assert {p.name: (p.kind, p.default) for p in _parameters(PLANS[name])} == taken


@pytest.mark.parametrize("name", zoo.KERNELS)
def test_a_reference_takes_the_functions_arrays_and_some_of_its_options(name: str) -> None:
    ours, reference = _parameters(zoo.KERNELS[name].function), _parameters(zoo.KERNELS[name].reference)
    positional = [p.name for p in ours if p.kind is Parameter.POSITIONAL_OR_KEYWORD]
    assert [p.name for p in reference if p.kind is Parameter.POSITIONAL_OR_KEYWORD] == positional
    assert {p.name for p in reference} <= {p.name for p in ours}


@pytest.mark.parametrize("name", [name for name, info in zoo.KERNELS.items() if info.validate])
def test_validation_takes_the_functions_arrays(name: str) -> None:
    validate = zoo.KERNELS[name].validate
    assert validate is not None and validate.__name__ == f"validate_{name}"
    positional = [p.name for p in _parameters(zoo.KERNELS[name].function) if p.kind is Parameter.POSITIONAL_OR_KEYWORD]
    assert [p.name for p in _parameters(validate)] == positional
