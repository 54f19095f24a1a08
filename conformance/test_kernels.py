"""The zoo's kernels, and two that only serve comparison, emit Pallas's bytes: body and whole custom call."""

from __future__ import annotations

import pytest

from conformance.cases.kernels import CASES, KernelCase
from conformance.conftest import Record
from conformance.harness import levels, pallas


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_the_bytes_are_pallas_bytes(case: KernelCase, record: Record) -> None:
    theirs = pallas.lower(case.theirs, *case.args)
    ours = pallas.lower(case.ours, *case.ours_args)
    result = levels.compare(ours, theirs)
    record("identity", kernel=case.kernel, config=case.config, level=result.level.value, bytes=len(theirs.body))
    assert result.level.reaches(levels.required_level(theirs)), result.detail


@pytest.mark.parametrize("kernel", sorted({case.kernel for case in CASES}))
def test_another_config_has_other_bytes(kernel: str) -> None:
    first, second = [case for case in CASES if case.kernel == kernel][:2]
    ours = pallas.lower(first.ours, *first.ours_args)
    theirs = pallas.lower(second.theirs, *second.args)
    assert levels.compare(ours, theirs).level is levels.Level.DIFFERENT


@pytest.mark.parametrize("kernel", sorted({case.kernel for case in CASES}))
def test_under_export_the_bytes_are_pallas_bytes(kernel: str, record: Record) -> None:
    """jax.export: an older IR version, and locations stay in the body."""
    case = next(case for case in CASES if case.kernel == kernel)
    theirs = pallas.lower(case.theirs, *case.args, forward_compatible=True)
    ours = pallas.lower(case.ours, *case.ours_args, forward_compatible=True)
    result = levels.compare(ours, theirs)
    record("identity under export", kernel=case.kernel, config=case.config, level=result.level.value)
    assert result.level.reaches(levels.Level.STRIPPED), result.detail
