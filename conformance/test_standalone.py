"""A lowered kernel's text alone is a program: the TPU compiler takes it, with every extra, from any client."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from mosaic_tpu import aot
from mosaic_tpu.aot.errors import VmemError
from mosaic_tpu.builder import Builder, Ref, Role, Scalar, Window, f32, i32
from mosaic_tpu.kernel import CallExtras, CostEstimate, Kernel, SideEffects

pytestmark = pytest.mark.usefixtures("tpu_compiler")


@dataclass(frozen=True)
class Config:
    rows: int = 64


def scale_kernel(b: Builder, cfg: Config) -> None:
    block = Window((8, 128), index_map=lambda i: (i, 0))
    a = b.declare_args(
        {
            "i": Scalar(i32),
            "x": Ref((8, 128), f32, window=block),
            "y": Ref((8, 128), f32, role=Role.OUTPUT, window=block),
        },
        grid=(cfg.rows // 8,),
    )
    a.y[...] = a.x[...] * 2.0


SCALE = Kernel("scale_kernel", Config, inputs=("x",), outputs=("y",), run=scale_kernel)

EXTRAS = {
    "none": CallExtras(),
    "vmem_limit_bytes": CallExtras(vmem_limit_bytes=8 << 20),
    "disabled checks": CallExtras(disable_bounds_checks=True, disable_semaphore_checks=True),
    "skip_device_barrier": CallExtras(skip_device_barrier=True),
    "cost_estimate": CallExtras(cost_estimate=CostEstimate(64 * 128, 0, 2 * 64 * 128 * 4)),
    "dataflow": CallExtras(side_effects=SideEffects.DATAFLOW),
    "side effects": CallExtras(side_effects=SideEffects.SIDE_EFFECTING),
    "metadata": CallExtras(metadata={"layer": '"3"'}),
    "hbm": CallExtras(input_memory_spaces={"x": "hbm"}, output_memory_spaces={"y": "hbm"}),
    "vmem": CallExtras(output_memory_spaces={"y": "vmem"}),
    "alias": CallExtras(output_operand_aliases={"y": "x"}),
    "allow_input_fusion": CallExtras(allow_input_fusion=frozenset({"x"})),
    "internal_scratch_in_bytes": CallExtras(internal_scratch_in_bytes=1 << 16),
    "shape_invariant_numerics": CallExtras(shape_invariant_numerics=False),
    "needs_hlo_passes": CallExtras(needs_hlo_passes=True),
    "kernel_name": CallExtras(kernel_name="layer <3>"),
}


@pytest.mark.parametrize("name", EXTRAS)
def test_the_compiler_takes_the_text(name: str) -> None:
    assert aot.compile(SCALE.lower(Config(), extras=EXTRAS[name]).stablehlo, "v5e").ok


def test_a_limit_that_is_too_low_reaches_the_compiler() -> None:
    with pytest.raises(VmemError):
        aot.compile(SCALE.lower(Config(), extras=CallExtras(vmem_limit_bytes=4096)).stablehlo, "v5e")
