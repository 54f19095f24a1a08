"""What the compiler says today is read: its dumps keep their form."""

from __future__ import annotations

import pytest

from mosaic_tpu.aot import compile
from mosaic_tpu.aot.schedule import diff

from .conftest import doubled, multiplied

pytestmark = pytest.mark.usefixtures("needs_compiler")


@pytest.mark.parametrize("target", ["v4", "tpu7x"])  # One without the compiler's profile, and the newest.
def test_a_kernel_over_a_grid_has_a_schedule_on_old_and_new_generations(target: str) -> None:
    found = compile(doubled(rows=64), target, schedule=True).schedule
    assert str(found.target) == target
    assert found.bundles > 0
    assert found.matmuls == ()
    # Eight blocks of 8 × 128; two TensorCores of a v4 or v5p may share them. Where XLA keeps the operands in VMEM
    # there is no copy to say so.
    assert found.grid in (None, (8,), (4,))
    assert any(block.slots["VALU"] for block in found.kernel.walk())


def test_the_matmuls_of_a_product_make_up_its_flops() -> None:
    (matmul,) = compile(multiplied(), "v5e", schedule=True).schedule.matmuls
    assert matmul.count * matmul.rows * 128 * 128 * 2 == 2 * 128**3


def test_the_same_kernel_gets_the_same_bundles_and_another_one_others() -> None:
    first, again, other = (
        compile(source, "v6e", schedule=True, cache=False).schedule for source in (doubled(), doubled(), doubled(128))
    )
    assert diff(first, again).equal
    assert not diff(first, other).equal
