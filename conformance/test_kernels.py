"""The zoo's kernels, and two that only serve comparison, emit Pallas's bytes: body and whole custom call."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import pytest

from conformance.cases.kernels import CASES, KernelCase
from conformance.conftest import Record
from conformance.harness import levels, pallas

#: Cases with two arguments of one type, q and k or x and y, one of each kernel that has such arguments.
WITH_TWO_OF_ONE_TYPE = (
    "matmul-bf16",
    "matmul, scratch accumulator-bf16",
    "gated_delta_net-bf16",
    "gated_delta_net, seed's form-seed-bf16",
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_the_bytes_are_pallas_bytes(case: KernelCase, record: Record) -> None:
    ours, theirs = case.lowered()
    result = levels.compare(ours, theirs)
    row = {"kernel": case.kernel, "config": case.config, "level": result.level.value, "bytes": len(theirs.body)}
    record("identity", **row, operands="by type" if case.direct else "in full")
    assert result.level.reaches(levels.required_level(theirs)), result.detail


@pytest.mark.parametrize("kernel", sorted({case.kernel for case in CASES}))
def test_another_config_has_other_bytes(kernel: str) -> None:
    first, second = [case for case in CASES if case.kernel == kernel][:2]
    ours = pallas.lower(first.ours, *first.ours_args)
    theirs = pallas.lower(second.theirs, *second.args)
    assert levels.compare(ours, theirs).level is levels.Level.DIFFERENT


def _same_typed(case: KernelCase) -> tuple[int, int]:
    """Two arguments of one type, of which the call's line tells which is which."""
    shapes = [(a.shape, a.dtype) for a in case.args]
    return next((i, j) for j, of_j in enumerate(shapes) for i in range(j) if shapes[i] == of_j)


@pytest.mark.parametrize("case_id", WITH_TWO_OF_ONE_TYPE)
def test_swapped_operands_are_a_difference(case_id: str) -> None:
    case = next(case for case in CASES if case.id == case_id)
    i, j = _same_typed(case)

    def swapped(*arrays: jax.Array) -> Any:
        order = {i: j, j: i}
        return case.ours(*(arrays[order.get(n, n)] for n in range(len(arrays))))

    ours, theirs = replace(case, ours=swapped).lowered()
    assert levels.stripped(ours.body) == levels.stripped(theirs.body)
    result = levels.compare(ours, theirs)
    assert result.level is levels.Level.DIFFERENT
    assert f"%arg{j}" in result.detail


@pytest.mark.parametrize("kernel", sorted({case.kernel for case in CASES}))
def test_a_scaled_operand_is_a_difference(kernel: str) -> None:
    case = next(case for case in CASES if case.kernel == kernel)

    def scaled(first: jax.Array, *others: jax.Array) -> Any:
        return case.ours(first * 2, *others)

    ours, theirs = replace(case, ours=scaled).lowered()
    assert levels.stripped(ours.body) == levels.stripped(theirs.body)
    result = levels.compare(ours, theirs)
    assert result.level is levels.Level.DIFFERENT
    assert "multiply" in result.detail


def test_operands_are_compared_by_type_only_where_pallas_prepares_them() -> None:
    direct = [case for case in CASES if case.direct]
    assert {case.kernel for case in direct} == {"gated_delta_net, seed's form"}
    assert all(case.ours_args != case.args for case in direct)
    assert all(case.ours_args == case.args for case in CASES if not case.direct)


@pytest.mark.parametrize("kernel", sorted({case.kernel for case in CASES}))
def test_under_export_the_bytes_are_pallas_bytes(kernel: str, record: Record) -> None:
    """jax.export: an older IR version, and locations stay in the body."""
    case = next(case for case in CASES if case.kernel == kernel)
    ours, theirs = case.lowered(forward_compatible=True)
    result = levels.compare(ours, theirs)
    record("identity under export", kernel=case.kernel, config=case.config, level=result.level.value)
    assert result.level.reaches(levels.Level.STRIPPED), result.detail
