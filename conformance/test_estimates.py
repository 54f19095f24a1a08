"""The estimate of `specialize` against the compiler's own, where that one can be trusted: both are printed.

Only kernels whose trip counts are constants have one. For a kernel like ragged paged attention, `specialize` is all
there is; that it counts right is shown here, and in `packages/aot/tests`.
"""

from __future__ import annotations

import functools
from dataclasses import fields, replace
from typing import Final

import jax.numpy as jnp
import pytest

from conformance import estimates
from conformance.conftest import Record
from conformance.estimates import ESTIMATED, KERNELS, PROBES, TOLERANCE, off, step_of, within
from conformance.harness.targets import REQUIRED
from mosaic_tpu.aot.schedule.machine import _MACHINES, Latencies

pytestmark = pytest.mark.usefixtures("newest_compiler")
#: As often as an op of a probe takes the result of the one before it.
VALU: Final = functools.partial(estimates._chain, lambda v: jnp.abs(v * 1.5), (8, 128))


@pytest.mark.parametrize("target", REQUIRED)
@pytest.mark.parametrize("name", KERNELS)
def test_a_run_on_the_clock_comes_near_the_compilers_estimate(name: str, target: str, record: Record) -> None:
    share, counted, own = off(KERNELS[name](), target)
    record("estimates", kernel=name, target=target, counted=round(counted), compiler=own, off=f"{share:+.0%}")
    assert abs(share) < TOLERANCE


def test_each_latency_has_its_probe() -> None:
    assert {f.name for f in fields(Latencies)} == set(PROBES)


@pytest.mark.parametrize("target", ESTIMATED)
@pytest.mark.parametrize("name", PROBES)
def test_a_step_that_waits_for_the_one_before_takes_what_the_compiler_says(name: str, target: str) -> None:
    assert within(*step_of(PROBES[name], target))


@pytest.mark.parametrize("target", ESTIMATED)
def test_an_op_of_the_vector_alus_takes_what_the_compiler_says(target: str) -> None:
    assert within(*step_of(VALU, target))


@pytest.mark.parametrize("name", PROBES)
def test_another_latency_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    of = _MACHINES["v6e"]
    wrong = replace(of.latencies, **{name: getattr(of.latencies, name) + 20})
    monkeypatch.setitem(_MACHINES, "v6e", replace(of, latencies=wrong))
    assert not within(*step_of(PROBES[name], "v6e"))
