"""The estimate of `specialize` against the compiler's own, where that one can be trusted: both are printed.

Only kernels whose trip counts are constants have one. For a kernel like ragged paged attention, `specialize` is all
there is; that it counts right is shown here, and in `packages/aot/tests`.
"""

from __future__ import annotations

from typing import Final

import pytest

from conformance.conftest import Record
from conformance.estimates import KERNELS, TOLERANCE, Run, best_share, fit, worst
from conformance.harness.targets import REQUIRED
from mosaic_tpu import aot
from mosaic_tpu.aot._specialize import Stalls


@pytest.mark.usefixtures("newest_compiler")
@pytest.mark.parametrize("target", REQUIRED)
@pytest.mark.parametrize("name", KERNELS)
def test_counted_runs_come_near_the_compilers_estimate(name: str, target: str, record: Record) -> None:
    found = aot.specialize(KERNELS[name](), target)
    own = found.compiler
    assert own.trustworthy, own.why
    assert own.cycles
    off = found.cycles / own.cycles - 1
    record("estimates", kernel=name, target=target, counted=round(found.cycles), compiler=own.cycles,
           off=f"{off:+.0%}")  # fmt: skip
    assert abs(off) < TOLERANCE


#: With the cycles of a compiler that reckons with 120 a wait, 700 until the first step and 0.8 of HBM's time.
RUNS: Final = (
    Run(issue=1000, waits=4, memory=500.0, ideal=0.0, compiler=2180),
    Run(issue=2000, waits=10, memory=9000.0, ideal=0.0, compiler=9100),
    Run(issue=8000, waits=20, memory=2000.0, ideal=0.0, compiler=11100),
    Run(issue=5000, waits=90, memory=1000.0, ideal=0.0, compiler=16500),
)


def test_the_fit_finds_the_stalls_that_the_compiler_reckons_with() -> None:
    assert best_share({"v5e": RUNS}) == 0.8
    found = fit(RUNS, 0.8)
    assert (round(found.wait), round(found.start)) == (120, 700)
    assert worst(RUNS, found) < 1e-6


def test_stalls_that_are_not_the_compilers_are_off() -> None:
    assert worst(RUNS, Stalls(240, 700, 0.8)) > TOLERANCE


def test_an_estimate_is_never_less_than_the_roofline() -> None:
    stalls = Stalls(120, 700, 0.8)
    assert stalls.cycles(1000, 4, 500.0, 2180.5) == 2180.5
    assert stalls.cycles(1000, 4, 500.0, 2179.5) == 2180
