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
