"""The estimate of `specialize` against the compiler's own, where that one can be trusted: both are printed.

Only kernels whose trip counts are constants have one. For a kernel like ragged paged attention, `specialize` is all
there is; that it counts right is shown here, and in `packages/aot/tests`.
"""

from __future__ import annotations

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


def runs(stalls: Stalls) -> list[Run]:
    """Of a compiler that reckons with these stalls."""
    counts = [(1000, 4, 500.0), (2000, 10, 9000.0), (8000, 20, 2000.0), (5000, 90, 1000.0)]
    return [
        Run(issue, waits, memory, 0.0, round(max(issue, stalls.hbm * memory) + stalls.wait * waits + stalls.start))
        for issue, waits, memory in counts
    ]


def test_the_fit_finds_the_stalls_that_the_compiler_reckons_with() -> None:
    compiler = Stalls(120, 700, 0.8)
    assert best_share({"v5e": runs(compiler)}) == compiler.hbm
    found = fit(runs(compiler), compiler.hbm)
    assert (round(found.wait), round(found.start)) == (120, 700)
    assert worst(runs(compiler), found) < 1e-6


def test_stalls_that_are_not_the_compilers_are_off() -> None:
    assert worst(runs(Stalls(120, 700)), Stalls(240, 700)) > TOLERANCE
