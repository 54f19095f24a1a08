"""The table of hardware facts says what JAX's own says, and targets are found by the names people write."""

from __future__ import annotations

import pytest
from jax.experimental.pallas import tpu as pltpu

from mosaic_tpu.aot import TARGETS, find_target
from mosaic_tpu.aot.errors import TargetError


@pytest.mark.parametrize("name", TARGETS)
def test_figures_are_those_of_jax(name: str) -> None:
    ours = TARGETS[name]
    theirs = pltpu.get_tpu_info_for_chip(pltpu.ChipVersion[ours.chip_version], 1)
    assert (ours.number, ours.mxus, ours.mxu_size) == (theirs.generation, theirs.num_mxus, theirs.mxu_column_size)
    assert (ours.vmem_bytes, ours.smem_bytes) == (theirs.vmem_capacity_bytes, theirs.smem_capacity_bytes)
    assert ours.hbm_bytes_per_second == theirs.mem_bw_bytes_per_second
    peaks = {
        "bf16": theirs.bf16_ops_per_second,
        "i8": theirs.int8_ops_per_second,
        "f8": theirs.fp8_ops_per_second,
        "i4": theirs.int4_ops_per_second,
    }
    assert dict(ours.flops_per_second) == {dtype: peak for dtype, peak in peaks.items() if peak}


def test_flops_a_cycle_are_those_of_the_compilers_bundles() -> None:
    # Counted in the compiler's bundles: a vmatmul of 16 packed rows every 16 cycles on v5e, every 8 on v6e.
    assert TARGETS["v5e"].flops_per_cycle == 131_072
    assert TARGETS["v6e"].flops_per_cycle == TARGETS["tpu7x"].flops_per_cycle == 524_288


@pytest.mark.parametrize(
    ("name", "topology", "bounds", "shown"),
    [
        ("v6e", "v6e:1x1", (1, 1, 1), "v6e"),
        ("v5e:2x2", "v5e:2x2", (2, 2, 1), "v5e:2x2"),
        ("tpu7x:2x2", "tpu7x:2x2x1", (2, 2, 1), "tpu7x:2x2x1"),
        ("v5p:1x1x1", "v5p:1x1x1", (1, 1, 1), "v5p"),
        ("v5e:1x4", "v5e:1x4", (1, 4, 1), "v5e:1x4"),
        ("v5e:16x16", "v5e:16x16", (16, 16, 1), "v5e:16x16"),
        ("v4:12x12x24", "v4:12x12x24", (12, 12, 24), "v4:12x12x24"),
        ("v5p:16x16x24", "v5p:16x16x24", (16, 16, 24), "v5p:16x16x24"),
    ],
)
def test_a_name_is_a_generation_or_a_topology(name: str, topology: str, bounds: tuple[int, ...], shown: str) -> None:
    found = find_target(name)
    assert (found.topology, found.bounds, str(found)) == (topology, bounds, shown)
    assert find_target(found) is found


@pytest.mark.parametrize("name", ["v7x", "", "v6e:", "v6e:2", "v6e:2x2x2", "v5e:0x2", "V6E", None, 6])
def test_another_name_is_refused(name: object) -> None:
    with pytest.raises(TargetError, match=r"hint: "):
        find_target(name)  # type: ignore[arg-type]


@pytest.mark.parametrize("sizes", ["1x1", "2x2", "2x4", "4x4", "4x8", "8x8", "8x16", "16x16"])
@pytest.mark.parametrize("generation", ["v5e", "v6e"])
def test_the_slices_of_the_documentation_are_there(generation: str, sizes: str) -> None:
    assert find_target(f"{generation}:{sizes}").bounds == (*map(int, sizes.split("x")), 1)


@pytest.mark.parametrize(
    ("name", "lists"),
    [
        ("v6e:99x99", "v6e has 1x1, 2x2, 2x4, 4x4, 4x8, 8x8, 8x16, 16x16, and parts of these"),
        ("v6e:0x1", "v6e has 1x1, 2x2"),
        ("v6e:32x8", "v6e has 1x1, 2x2"),
        ("v6e:12x16", "v6e has 1x1, 2x2"),
        ("v6e:2x2x1", "v6e has 1x1, 2x2"),
        ("v5e:3x1", "v5e has 1x1, 2x2"),
        ("v5e:2", "v5e has 1x1, 2x2"),
        ("v5e:", "v5e has 1x1, 2x2"),
        ("v5e:02x2", "v5e has 1x1, 2x2"),
        ("v4:3x3x3", "v4 has three sides, each 1, 2 or a multiple of 4, of 4096 chips in all at most: 1x1x1, 2x2x1"),
        ("v4:16x16x20", "of 4096 chips"),
        ("v5p:16x24x24", "of 6144 chips"),
        ("tpu7x:6x4x4", "of 9216 chips"),
        ("tpu7x:2x2x2x2", "three sides"),
        ("v6f:2x2", "one of v4, v5e, v5p, v6e, tpu7x"),
    ],
)
def test_what_does_not_exist_is_refused_with_what_does(name: str, lists: str) -> None:
    with pytest.raises(TargetError) as refused:
        find_target(name)
    assert repr(name) in refused.value.summary
    assert lists in refused.value.hint
