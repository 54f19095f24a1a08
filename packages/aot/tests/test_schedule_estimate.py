"""The compiler's estimate is believed where it means something, and only there."""

from __future__ import annotations

import re

import pytest

from mosaic_tpu.aot.schedule import DumpError

from .schedule_kit import dumps, schedule

PROFILE = dumps("matmul", "v6e").profile
CYCLES = "estimated_cycles: 3024"


def test_an_estimate_that_knows_all_trips_is_believed() -> None:
    estimate = schedule("matmul", "v6e").estimate
    assert (estimate.cycles, estimate.trustworthy, estimate.why, estimate.scalar_inputs) == (3024, True, "", 0)


def test_scalars_that_it_took_for_unknown_make_it_worthless() -> None:
    found = schedule("matmul", "v6e", profile=PROFILE.replace("scalar_inputs: 0", "scalar_inputs: 1")).estimate
    assert (found.trustworthy, found.why) == (False, "not estimable: trip counts depend on data")


def test_so_does_a_loop_without_constant_bounds_even_if_no_scalar_is_unknown() -> None:
    profile = dumps("ragged", "v6e").profile.replace("scalar_inputs: 1", "scalar_inputs: 0")
    found = schedule("ragged", "v6e", profile=profile).estimate
    assert (found.trustworthy, found.why) == (False, "not estimable: the schedule does not say how often a loop runs")


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("TYPE_LOCAL", "TYPE_LOCAL_AND_REMOTE", r"copies that the compiler has no time for \(local and remote\)"),
        ("TYPE_LOCAL", "TYPE_REMOTE", r"\(remote\)"),
        ("dma_instruction_type: DMA_INSTRUCTION_TYPE_LOCAL", "", "of an unknown kind"),
        ("scalar_inputs: 0", "", "does not say how many scalars"),
        (CYCLES, "estimated_cycles: 0", "says 0 cycles"),
        # 4 steps of 8 cycles on both MXUs.
        (CYCLES, "estimated_cycles: 31", "the MXU alone takes 32"),
        # 20 bundles once, 83 in 6 trips, 77 in 4 steps.
        (CYCLES, "estimated_cycles: 825", "issuing the bundles alone takes 826"),
    ],
)
def test_a_number_that_cannot_be_is_not_believed(old: str, new: str, why: str) -> None:
    found = schedule("matmul", "v6e", profile=PROFILE.replace(old, new)).estimate
    assert not found.trustworthy
    assert found.why.startswith("not estimable: ")
    assert re.search(why, found.why)


def test_a_number_at_the_bound_is() -> None:
    assert schedule("matmul", "v6e", profile=PROFILE.replace(CYCLES, "estimated_cycles: 826")).estimate.trustworthy


def test_without_a_profile_there_is_no_estimate_but_a_schedule() -> None:
    found = schedule("ragged", "v4")
    assert (found.estimate.cycles, found.estimate.trustworthy) == (None, False)
    assert found.estimate.why == "not estimable: the compiler made no profile of this kernel"
    assert found.bundles == 54


def test_a_bound_from_elsewhere_can_unmake_it() -> None:
    estimate = schedule("matmul", "v6e").estimate
    assert estimate.above(3000, "HBM").trustworthy
    assert estimate.above(4000, "HBM").why == "not estimable: the compiler says 3024 cycles, but HBM alone takes 4000"


def test_a_profile_that_is_none_is_refused() -> None:
    with pytest.raises(DumpError, match="no estimated_cycles"):
        schedule("matmul", "v6e", profile="hlo_op_estimate {\n}\n")
