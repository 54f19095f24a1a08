"""Loops and what branches skip are found where the compiler put them, on generations with other delays."""

from __future__ import annotations

import pytest

from mosaic_tpu.aot import find_target
from mosaic_tpu.aot.schedule import Block, DumpError, LoopBounds, Schedule, read_schedule

from .schedule_kit import LOOP, schedule, written


def outline(block: Block) -> list[tuple[str, int, int, int | None]]:
    """Name, bundles, bundles of its own, and runs of each block."""
    return [(b.name, b.bundles, b.own_bundles, b.runs) for b in block.walk()]


def by_hand(*bundles: str, allocations: str = LOOP, target: str = "v6e") -> Schedule:
    return read_schedule(written(*bundles, allocations=allocations), find_target(target))


# --- what the compiler left -------------------------------------------------------------------------------------
def test_a_pipeline_runs_its_step_for_each_point_of_the_grid() -> None:
    # 4 points and 2 trips more to fill and to drain; the accumulator is cleared on some of the steps.
    assert outline(schedule("matmul", "v6e").kernel) == [
        ("kernel", 185, 20, 1),
        ("pipeline 0xe", 165, 83, 6),
        ("step 0x4d", 82, 77, 4),
        ("predicated 0x59", 5, 5, None),
    ]
    assert schedule("matmul", "v6e").grid == (2, 1, 2)


def test_a_branch_takes_effect_after_the_delay_of_its_generation() -> None:
    # v5e: the branches at 0x38 and 0x44 are followed by four bundles each that run in any case.
    step = next(block for block in schedule("matmul", "v5e").kernel.walk() if block.role == "step")
    assert (step.branch, step.start) == (0x38, 0x3D)
    assert (step.children[0].branch, step.children[0].start) == (0x44, 0x49)


def test_an_empty_bundle_may_stand_for_the_rest_of_a_delay() -> None:
    # tpu7x waits six. Behind the branch at 0x15 is one empty bundle, behind that at 0x17 are six full ones, behind that
    # at 0x23 three full ones and an empty one. The branch at 0x28 skips nothing: what it guards runs in its delay.
    blocks = [block for block in schedule("matmul", "tpu7x").kernel.walk() if block.kind == "predicated"]
    assert [(block.branch, block.start, block.stop) for block in blocks] == [
        (0x15, 0x17, 0x20),
        (0x17, 0x1E, 0x20),
        (0x23, 0x28, 0x6F),
    ]


def test_trips_that_depend_on_data_are_not_known() -> None:
    found = schedule("ragged", "v6e")
    (loop,) = found.loops
    assert (loop.trips, loop.runs, found.mxu_cycles) == (None, None, 0)


def test_a_core_without_work_skips_the_kernel_to_its_end() -> None:
    # Two TensorCores of a v5p share this kernel, which has one grid point.
    whole = schedule("ragged", "v5p").kernel.children[0]
    assert (whole.kind, whole.stop, whole.runs) == ("predicated", 69, 1)


def test_every_bundle_lies_in_one_block_and_at_the_compilers_depth() -> None:
    for kernel, target in (("matmul", "v5e"), ("matmul", "v6e"), ("matmul", "tpu7x"), ("ragged", "v4")):
        tree = schedule(kernel, target).kernel
        owned = sorted(address for block in tree.walk() for address in block.addresses)
        assert owned == list(range(tree.stop))
        assert all(tree.path(address)[-1].start <= address for address in owned)


# --- written by hand --------------------------------------------------------------------------------------------
def test_a_loop_reaches_from_its_top_to_the_end_of_the_delay() -> None:
    bundles = [
        ": {}",
        "LB: > {} /* Start region 2 */",
        ": > { %9 = sbr.rel (!%p2_p1) target = $region2 }",
        *[": {}"] * 6,
    ]
    (loop,) = by_hand(*bundles).loops
    assert (loop.start, loop.stop, loop.branch, loop.predicate) == (1, 7, 2, "!%p2_p1")
    assert (loop.bounds, loop.trips, loop.runs) == (LoopBounds(0, 1, 5), 5, 5)


def test_a_branch_without_a_predicate_skips_the_other_way_of_an_if() -> None:
    # if: 2–4, and behind its end a branch over the else: 6–7. A v4 waits one bundle.
    bundles = [
        ": { %1 = sbr.rel (%p1_p0) target = $region7 }",
        ": {}",
        ": { %2 = sfence }",
        ": {}",
        ": { %3 = sbr.rel target = $region8 }",
        ": {}",
        "PB: { %4 = sfence } /* Start region 7 */",
        ": {}",
        "CT: {} /* Start region 8 */",
    ]
    kernel = by_hand(*bundles, target="v4").kernel
    assert [(b.start, b.stop, b.predicate) for b in kernel.children] == [(2, 6, "%p1_p0"), (6, 8, "")]


@pytest.mark.parametrize(
    ("bounds", "trips"),
    [("start=0, step=1, limit=5", 5), ("start=1, step=2, limit=6", 3), ("start=6, step=-2, limit=0", 3)],
)
def test_trips_follow_from_the_bounds(bounds: str, trips: int) -> None:
    changed = LOOP.replace("start=0, step=1, limit=5", bounds)
    loop = by_hand("LB: > { %9 = sbr.rel target = $region2 } /* Start region 2 */", allocations=changed).loops[0]
    assert loop.trips == trips


@pytest.mark.parametrize("bounds", ["start=0, step=1, limit=%s4_s1", "start=%s1, step=1, limit=4", "start=0"])
def test_bounds_in_a_register_give_no_trips(bounds: str) -> None:
    changed = LOOP.replace("start=0, step=1, limit=5", bounds)
    loop = by_hand("LB: > { %9 = sbr.rel target = $region2 } /* Start region 2 */", allocations=changed).loops[0]
    assert loop.trips is None


def test_a_branch_to_nowhere_is_refused() -> None:
    with pytest.raises(DumpError, match="leads nowhere"):
        by_hand(": { %9 = sbr.rel target = $region77 }")


def test_a_dump_of_allocations_without_regions_is_refused() -> None:
    with pytest.raises(DumpError, match="no region"):
        by_hand(": {}", allocations="")
