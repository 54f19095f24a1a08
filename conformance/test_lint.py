"""Lint and the compiler agree: no false alarm, and most refusals are predicted.

Of two corpora. Most rules were made with the kernels of `conformance.lint` at hand; those of `conformance.refusals`
come from public reports, and many of their causes are none of lint's topics.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import pytest

from conformance.conftest import Record
from conformance.harness.targets import REQUIRED
from conformance.lint.cases import CASES
from conformance.lint.kernels import programs
from conformance.lint.measure import rows
from conformance.refusals.case import EVERYWHERE
from conformance.refusals.table import REFUSALS
from mosaic_tpu import aot
from mosaic_tpu.aot._lint._support import MATMULS, MEASURED, REFUSED

#: What lint predicts of the refusals of each corpus, at least: what it did with libtpu 0.0.50.1, less a few.
SHARES: Final = {"corpus": 0.95, "refusals": 0.6}


@dataclass(frozen=True)
class Subject:
    """A program of a corpus, and the generations to ask."""

    corpus: str
    name: str
    make: Callable[[], Any]
    targets: tuple[str, ...]


def subjects() -> Iterator[Subject]:
    for case in CASES:
        yield Subject("corpus", case.id, case.stablehlo, REQUIRED)
    for name, program in programs():
        yield Subject("corpus", name, program, REQUIRED)
    for refusal in REFUSALS:
        yield Subject("refusals", f"{refusal.name}, refused", refusal.refused.lower, refusal.targets)
        remedied_on = refusal.remedied_on if refusal.remedied is refusal.refused else EVERYWHERE
        yield Subject("refusals", f"{refusal.name}, remedied", refusal.remedied.lower, remedied_on)


SUBJECTS: Final = list(subjects())
newest_compiler = pytest.mark.usefixtures("newest_compiler")


def _verdicts(subject: Subject) -> Iterator[tuple[aot.Compilation, list[str]]]:
    """For each target what the compiler said, and the rules by which lint foresees a refusal."""
    source = subject.make()
    report = aot.lint(source, target=subject.targets)
    for result in aot.compile_all([source], subject.targets, workers=1):
        yield result, list(dict.fromkeys(f.rule for f in report.of(str(result.target)).errors))


@newest_compiler
@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda subject: subject.name)
def test_no_false_alarm_on_a_kernel(subject: Subject, record: Record) -> None:
    for result, rules in _verdicts(subject):
        said = result.error.summary[:90] if result.error else "accepted"
        foreseen = ", ".join(rules) or "nothing"
        record("lint", case=subject.name, target=str(result.target), compiler=said, lint=foreseen)
        assert not (result.ok and rules), f"false alarm for {result.target}: {foreseen}"


@newest_compiler
@pytest.mark.parametrize("corpus", SHARES)
def test_most_of_what_the_compiler_refuses_is_predicted(corpus: str, record: Record) -> None:
    found = [verdict for subject in SUBJECTS if subject.corpus == corpus for verdict in _verdicts(subject)]
    verdicts = [(result.ok, bool(rules)) for result, rules in found]
    refused = [alarm for accepted, alarm in verdicts if not accepted]
    accepted = [alarm for accepted, alarm in verdicts if accepted]
    record(
        "lint: predicted",
        corpus=corpus,
        programs=len(verdicts),
        accepted=len(accepted),
        false_alarms=sum(accepted),
        refused=len(refused),
        predicted=f"{sum(refused)} of {len(refused)}",
        share=f"{sum(refused) / len(refused):.1%}",
    )
    assert not any(accepted)
    assert sum(refused) >= SHARES[corpus] * len(refused)


def test_all_of_the_table_is_measured() -> None:
    measured = [(row.op, *row.elements) for row in rows()]
    wanted = [(op, element) for op, refused in REFUSED.items() for element in refused]
    products = {(lhs, rhs) for lhs in MEASURED for rhs in MEASURED}
    wanted += [("tpu.matmul", *product) for product in products]
    assert [row for row in wanted if row not in measured] == []
    assert {pair for pairs in MATMULS.values() for pair in pairs} <= products
