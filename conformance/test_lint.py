"""Lint and the compiler agree: no false alarm, and most refusals are predicted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import pytest

from conformance.conftest import Record
from conformance.lint.cases import CASES, LintCase
from conformance.lint.kernels import programs
from mosaic_tpu import aot

TARGETS: Final = ("v5e", "v6e", "tpu7x")
#: What lint predicts of the refusals of the corpus, at least.
SHARE: Final = 0.9
KERNELS: Final = list(programs())
pytestmark = pytest.mark.usefixtures("newest_compiler")


def _verdicts(text: str) -> Iterator[tuple[aot.Compilation, list[str]]]:
    """For each target what the compiler said, and the rules by which lint foresees a refusal."""
    report = aot.lint(text, target=TARGETS)
    for result in aot.compile_all([text], TARGETS, workers=1):
        yield result, list(dict.fromkeys(f.rule for f in report.of(str(result.target)).errors))


def _compared(name: str, text: str, record: Record) -> None:
    for result, rules in _verdicts(text):
        said = result.error.summary[:90] if result.error else "accepted"
        foreseen = ", ".join(rules) or "nothing"
        record("lint", case=name, target=str(result.target), compiler=said, lint=foreseen)
        assert not (result.ok and rules), f"false alarm for {result.target}: {foreseen}"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_no_false_alarm_on_a_small_kernel(case: LintCase, record: Record) -> None:
    _compared(case.id, case.stablehlo(), record)


@pytest.mark.parametrize(("name", "program"), KERNELS, ids=[name for name, _ in KERNELS])
def test_no_false_alarm_on_a_kernel(name: str, program: Callable[[], str], record: Record) -> None:
    _compared(name, program(), record)


def test_most_of_what_the_compiler_refuses_is_predicted(record: Record) -> None:
    texts = [*(case.stablehlo() for case in CASES), *(program() for _, program in KERNELS)]
    verdicts = [(result.ok, bool(rules)) for text in texts for result, rules in _verdicts(text)]
    refused = [alarm for accepted, alarm in verdicts if not accepted]
    accepted = [alarm for accepted, alarm in verdicts if accepted]
    record(
        "lint: the corpus",
        programs=len(verdicts),
        accepted=len(accepted),
        false_alarms=sum(accepted),
        refused=len(refused),
        predicted=sum(refused),
        share=f"{sum(refused) / len(refused):.1%}",
    )
    assert not any(accepted)
    assert sum(refused) >= SHARE * len(refused)
