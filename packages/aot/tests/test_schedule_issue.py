"""When bundles issue: reckoned by hand, and what a step of a kernel takes by the compiler's own estimates."""

from __future__ import annotations

import pytest

from mosaic_tpu.aot import TARGETS, find_target
from mosaic_tpu.aot.schedule import read_schedule
from mosaic_tpu.aot.schedule.machine import machine

from .schedule_kit import LOOP, written


def issue(*bundles: str, target: str = "v6e", **texts: str) -> list[float]:
    return list(read_schedule(written(*bundles, **texts), find_target(target)).issue)


def test_a_bundle_takes_a_cycle() -> None:
    assert issue(": { %s1 = smov 1 }", ": { %v1_v0 = vld [vmem:[%s1]] }", ": { %9 = vst [vmem:[%s1]] %v1_v0 }") == [
        1,
        1,
        1,
    ]


def test_what_needs_the_sum_of_the_bundle_before_waits_a_cycle() -> None:
    assert issue(": { %v1_v0 = vadd.f32 %v0_v0, %v0_v0 }", ": { %v2_v0 = vmul.f32 %v1_v0, %v0_v0 }") == [1, 2]


def test_what_needs_it_later_or_not_at_all_does_not_wait() -> None:
    add, other = ": { %v1_v0 = vadd.f32 %v0_v0, %v0_v0 }", ": { %v3_v1 = vadd.f32 %v0_v0, %v0_v0 }"
    assert issue(add, other, ": { %v2_v0 = vmul.f32 %v1_v0, %v0_v0 }") == [1, 1, 1]
    assert issue(add, ": { %vm1_vm0 = vcmp.gt.f32.partialorder %v0_v0, 0.0 }", ": { %v4_v0 = vsel %vm1_vm0 }") == [
        1,
        1,
        1,
    ]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("push", "pop", "unit"), [("vexp2.f32", "vpop.eup", "eup"), ("vadd.xlane.f32.xlu0", "vpop.xlane.xlu0", "xlu")]
)
def test_a_pop_waits_for_what_was_pushed(push: str, pop: str, unit: str, target: str) -> None:
    latency = getattr(machine(TARGETS[target]).latencies, unit)
    pushed, popped = f": {{ %7 = {push} %v0_v0 }}", f": {{ %v1_v0 = {pop} %7 }}"
    assert issue(pushed, popped, target=target) == [1, latency]
    assert issue(pushed, ": { %s1 = smov 1 }", popped, target=target) == [1, 1, latency - 1]


def test_a_number_that_no_pop_takes_is_not_waited_for() -> None:
    setting, using = ": { %7 = vset.pattern.permute.xlu0 %v0_v0 }", ": { %8 = vperm.lane.xlu0 pattern=%7, %v0_v0 }"
    assert issue(setting, using) == [1, 1]
    assert issue(setting, using, ": { %v1_v0 = vpop.permute.xlu0 %8 }") == [1, 1, 137]


@pytest.mark.parametrize(
    "names",
    ["vmatmul.mubr.bf16.gmra.mxu0 / vpop.f32.mrf.mxu0", "vmatmul.mubr.bf16.gmra.mrb[0].mxu0 / vpop.f32.mrb[0].mxu0"],
)
def test_an_mxu_takes_a_product_every_8_cycles_and_gives_its_rows_after_210(names: str) -> None:
    matmul, pop = names.split(" / ")
    bundles = [": { %7 = " + matmul + " %v0_v0 }"] * 2 + [": { %v1_v0 = " + pop + " }"] * 4
    # At 1 and 9; two rows of each at 211 and 212, and at 219 and 220.
    assert issue(*bundles) == [1, 8, 202, 1, 7, 1]


def test_another_mxu_is_free() -> None:
    one, other = (f": {{ %7 = vmatmul.mubr.bf16.gmra.mxu{n} %v0_v0 }}" for n in (0, 1))
    assert issue(one, other) == [1, 1]
    assert issue(one, one) == [1, 8]
    assert issue(one, ": { %v1_v0 = vpop.f32.mrf.mxu1 }") == [1, 1]  # begun in another block


def test_a_block_begins_with_all_results_there() -> None:
    add, use = (f": {{ {what} }}" for what in ("%v1_v0 = vadd.f32 %v0_v0, %v0_v0", "%v2_v0 = vmul.f32 %v1_v0, %v0_v0"))
    back = [": > { %9 = sbr.rel (!%p2_p1) target = $region2 }", *[": {}"] * 4]
    # The loop begins with what uses the sum; or the sum is in the loop, too.
    assert issue(add, f"LB{use} /* Start region 2 */", *back, allocations=LOOP)[:2] == [1, 1]
    assert issue(f"LB{add} /* Start region 2 */", use, *back, allocations=LOOP)[:2] == [1, 2]


def test_a_generation_without_estimates_has_the_latencies_of_v5e() -> None:
    borrowed = [name for name, generation in TARGETS.items() if not machine(generation).estimated]
    assert borrowed == ["v4"]
    assert machine(TARGETS["v4"]).latencies == machine(TARGETS["v5e"]).latencies
