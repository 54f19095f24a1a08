"""Slots, matmuls, registers and memory are counted right: against sizes known beforehand, and the compiler's own."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mosaic_tpu.aot import TARGETS, find_target
from mosaic_tpu.aot.schedule import DumpError, read_schedule
from mosaic_tpu.aot.schedule.mxu import interval, rows

from .schedule_kit import dumps, schedule, written

FLOPS = 2 * 32 * 256 * 256  # of the matmul's block, in one step


# --- the MXU ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("target", "count"), [("v5e", 8), ("v6e", 2), ("tpu7x", 2)])
def test_vmatmuls_make_up_the_flops_of_the_block(target: str, count: int) -> None:
    (matmul,) = schedule("matmul", target).matmuls
    size = TARGETS[target].mxu_size
    assert (matmul.dtype, matmul.count) == ("bf16", count)
    assert matmul.count * matmul.rows * size * size * 2 == FLOPS


# Of the chips' published peaks, by their clocks: 128 × 128 × 4 or 256 × 256 × 2 multiply-adds, at 1 or 2 rows a cycle.
@pytest.mark.parametrize(
    ("target", "flops"), [("v4", 131072), ("v5e", 131072), ("v5p", 131072), ("v6e", 524288), ("tpu7x", 524288)]
)
def test_intervals_give_the_peak_of_the_generation(target: str, flops: int) -> None:
    chip = TARGETS[target]
    assert rows("bf16") * chip.mxu_size**2 * 2 * chip.mxus / interval("bf16", chip) == flops


@pytest.mark.parametrize(
    ("dtype", "target", "cycles"),
    [
        ("f32", "v5e", 8),  # 8 rows, at the speed of bf16
        ("s8", "v5e", 16),  # 32 rows, twice as fast
        ("s4", "v5e", 16),  # 64 rows, four times as fast
        ("f8e4m3b11", "v5e", 32),  # 32 rows, no faster
        ("f8e5m2", "v6e", 16),
        ("f8e4m3fn", "tpu7x", 8),
    ],
)
def test_a_packed_register_takes_its_rows_times_its_speed(dtype: str, target: str, cycles: int) -> None:
    assert interval(dtype, TARGETS[target]) == cycles


def test_the_mxu_is_busy_for_its_share_in_each_step() -> None:
    # v5e: 8 vmatmul of 16 cycles on 4 MXUs, in 4 steps; v6e: 2 of 8 cycles on 2.
    assert schedule("matmul", "v5e").mxu_cycles == 8 * 16 / 4 * 4
    assert schedule("matmul", "v6e").mxu_cycles == 2 * 8 / 2 * 4


def test_a_kernel_without_a_matmul_has_none() -> None:
    found = schedule("ragged", "v6e")
    assert (found.matmuls, found.mxu_cycles) == ((), 0)


# --- the hot block ----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("target", ["v5e", "v6e", "tpu7x"])
def test_the_step_with_the_matmul_is_hot(target: str) -> None:
    found = schedule("matmul", target)
    assert (found.hot.role, found.hot_loop.role) == ("step", "pipeline")
    assert found.hot.matmuls == {"bf16": found.matmuls[0].count}


def test_a_block_without_vector_work_is_not() -> None:
    found = schedule("ragged", "v6e")
    assert found.hot.slots["VALU"] > 0
    assert found.hot is not found.loops[0]


# --- slots and registers ----------------------------------------------------------------------------------------
def test_slots_have_the_capacity_that_the_compiler_says() -> None:
    capacities = {slot.kind: slot.capacity for slot in schedule("matmul", "v5e").slots}
    assert list(capacities.values()) == [4, 3, 4, 2, 1, 3, 3, 1, 1, 2]
    assert (capacities["MXU"], capacities["EUP"], capacities["VSTORE:SPILL"]) == (4, 1, 1)


def test_the_blocks_share_out_all_slots() -> None:
    found = schedule("matmul", "v6e")
    for slot in found.slots:
        assert sum(block.slots[slot.kind] for block in found.kernel.walk()) == slot.used
        assert 0 <= slot.share <= 1


def test_stores_of_the_text_are_those_of_the_slots() -> None:
    found = schedule("matmul", "v6e")
    stores = next(slot for slot in found.slots if slot.kind == "VSTORE")
    assert stores.used == found.text.count("= vst ")


def test_spills_and_fills_are_told_apart_from_stores_and_loads() -> None:
    store = "%2 = vst [vmem:[#allocation9_spill] sm:$0xff] %v1_v1"
    load = "%v3_v1 = vld [vmem:[#allocation9_spill] sm:$0xff]"
    other = "%4 = vst [vmem:[#allocation9 + $0x8] sm:$0xff] %v3_v1"
    scalar = "%5 = sst [smem:[#allocation7_spill]] %s6_s1"
    text = written(f": {{ {store} ;; {scalar} }}", f": {{ {load} ;; {other} }}")
    used = text.utilization.replace("0 0 0 0 0 0 0 0 0 0\n0 0", "0 0 0 0 0 0 0 1 1 0\n0 0").replace(
        "0 0 0 0 0 0 0 0 0 0\n", "0 0 0 0 0 1 1 1 0 0\n"
    )
    registers = read_schedule(replace(text, utilization=used), find_target("v6e")).registers
    assert (registers.spills, registers.fills) == (1, 1)
    assert (registers.scalar_spills, registers.scalar_fills, registers.vmem_bytes) == (1, 0, 8 * 128 * 4)


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("== CAPAC", "== CAP", "no capacities"),
        ("\n0 0 0 0 0 0 0 0 0 0\n", "\n", "but there are 185"),
        ("\n0 0 0 0 0 0 0 0 0 0\n", "\n0 0 0 0 0 0 0 0 0\n", "damaged"),
        ("\n0 0 0 0 0 0 0 0 0 0\n", "\n0 0 0 0 0 0 0 x 0 0\n", "damaged"),
    ],
)
def test_damaged_slots_are_refused(old: str, new: str, complaint: str) -> None:
    text = dumps("matmul", "v6e").utilization
    with pytest.raises(DumpError, match=complaint):
        schedule("matmul", "v6e", utilization=text.replace(old, new, 1))


def test_no_slots_at_all_are_refused() -> None:
    with pytest.raises(DumpError, match="no capacities"):
        schedule("matmul", "v6e", utilization="")


# --- memory -----------------------------------------------------------------------------------------------------
def test_every_window_and_scratch_has_its_bytes() -> None:
    found = schedule("matmul", "v6e")
    held = {(a.kind, a.bytes) for a in found.allocations if a.space == "vmem"}
    assert held == {
        ("input window", 2 * 32 * 256 * 2),
        ("input window", 2 * 256 * 256 * 2),
        ("output window", 2 * 32 * 256 * 2),
        ("scratch", 32 * 256 * 4),
        ("internal scratch", 144 * 128 * 4),
    }
    assert found.vmem_bytes == sum(size for _, size in held)


def test_places_that_all_programs_share_cost_nothing() -> None:
    fixed = [a for a in schedule("matmul", "v6e").allocations if a.fixed]
    assert fixed
    assert all("dummy sync flag" in a.tag or "core index" in a.tag for a in fixed)


def test_an_allocation_that_lies_elsewhere_has_no_bytes() -> None:
    line = "  #allocation1 [shape = 'f32[8]', space=vmem, size = 0xffffffffffffffff, tag = 'output of copy@{}']"
    text = written(": {}", allocations=f"$region0: #{{k}}\n{line}\n")
    (only,) = read_schedule(text, find_target("v6e")).allocations
    assert (only.kind, only.bytes, only.region) == ("operand", None, 0)


def test_a_damaged_allocation_is_refused() -> None:
    text = dumps("matmul", "v6e").allocations
    with pytest.raises(DumpError, match="unknown form"):
        schedule("matmul", "v6e", allocations=text.replace("space=vmem", "space", 1))


# --- copies -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("target", ["v5e", "v6e"])
def test_copies_move_the_windows_of_the_blocks(target: str) -> None:
    found = schedule("matmul", target)
    assert [(dma.source, dma.destination, dma.bytes) for dma in found.dmas] == [
        ("hbm", "vmem", 32 * 256 * 2),
        ("hbm", "vmem", 256 * 256 * 2),
        ("vmem", "hbm", 32 * 256 * 2),
    ]
    assert [dma.loops for dma in found.dmas] == [(found.loops[0].start,)] * 3
    assert found.waits == 3


@pytest.mark.parametrize("target", ["v4", "v5p", "v6e"])
def test_sizes_are_in_the_unit_of_the_generation(target: str) -> None:
    # One 8 × 128 block of f32 in the loop, and one for the result.
    assert [dma.bytes for dma in schedule("ragged", target).dmas] == [4096, 4096]


def test_a_window_says_what_it_is_of() -> None:
    window = schedule("matmul", "v6e").dmas[0].window
    assert window is not None
    element = window.element_bytes  # of a tile
    assert window.window[0] * window.window[1] * element == 32 * 256 * 2
    assert window.operand[0] * window.operand[1] * element == 64 * 512 * 2
    assert window.grid == (2, 1, 2)


def test_a_copy_outside_the_pipeline_has_no_window() -> None:
    inner, outer = schedule("ragged", "v6e").dmas
    assert (inner.window, inner.runs) == (None, None)
    assert (outer.window is not None, outer.runs) == (True, 1)


def test_a_general_copy_has_the_spaces_of_its_pointers() -> None:
    copy = "%9 = dma.general (%p1_p0), /*src=*/%s1_s1, /*size_in_granules=*/{}, /*dst=*/%s2_s2, /*src_syncflagno=*/%s3"
    pointers = ": { %s1_s1 = scalar_lea.hbm %s7, 16  ;;  %s2_s2 = int_to_ptr.vmem [resolvable:$true] %s8 }"
    text = written(pointers, f": {{ {copy.format(16)} }}", f": {{ {copy.format('%s5_s5')} }}")
    known, unknown = read_schedule(text, find_target("v6e")).dmas
    assert (known.source, known.destination, known.bytes, known.general) == ("hbm", "vmem", 512, True)
    assert (unknown.bytes, unknown.predicate) == (None, "%p1_p0")


def test_a_general_copy_of_unknown_pointers_says_so() -> None:
    text = written(": { %9 = dma.general /*src=*/%s1, /*size_in_granules=*/1, /*dst=*/%s2 }")
    (copy,) = read_schedule(text, find_target("v6e")).dmas
    assert (copy.source, copy.destination) == ("?", "?")
