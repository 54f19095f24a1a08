"""Kernels that the TPU compiler refuses: the error's class, op, line and reason; and its advice, which must help."""

from __future__ import annotations

import re

import pytest

from conformance.conftest import Record
from conformance.refusals.case import Refusal
from conformance.refusals.table import REFUSALS
from mosaic_tpu import aot

pytestmark = pytest.mark.usefixtures("newest_compiler")
#: What is the compiler's own and tells a user nothing.
NOISE = re.compile(r"\.cc\b|\.h:\d|INTERNAL|RESOURCE_EXHAUSTED|Mosaic failed|E\d{4}|[Nn]ot [Ii]mplemented|#tpu|\n")


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda refusal: refusal.name)
def test_a_refusal_names_cause_op_line_and_remedy(refusal: Refusal, record: Record) -> None:
    source = refusal.refused.lower()
    for target in refusal.targets:
        with pytest.raises(aot.CompileError) as caught:
            aot.compile(source, target, cache=False)
        error = caught.value
        record(
            "refusals",
            case=refusal.name,
            target=target,
            error=type(error).__name__,
            op=error.op,
            line=(error.location or "").rpartition("/")[2],
            reason=error.summary,
        )
        assert type(error) is refusal.error, error.raw
        assert (error.op, error.location) == (refusal.op, refusal.refused.refused_line), error.raw
        assert refusal.says in error.summary
        assert not NOISE.search(error.summary), error.summary
        assert refusal.hint in error.hint
        assert error.target == target
        assert error.raw


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda refusal: refusal.name)
def test_the_remedy_helps(refusal: Refusal) -> None:
    source = refusal.remedied.lower()
    for target in refusal.remedied_on:
        aot.compile(source, target, cache=False)
