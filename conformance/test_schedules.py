"""What the TPU compiler makes of our kernels is what it makes of Pallas's: the level "schedule".

Where the bodies are the same bytes that only shows that the compiler is deterministic; where a pair is canonically
equal and no more, it shows that the difference does not reach the TPU. Other code must be found to be other code.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest

from conformance.cases.kernels import CASES
from conformance.conftest import Record
from conformance.harness import levels
from conformance.harness.targets import REQUIRED
from mosaic_tpu import aot
from mosaic_tpu.builder import Builder, Ref, Role, f32
from mosaic_tpu.kernel import Kernel

#: Cases of every kernel of the zoo.
TWINS: Final = (
    "matmul-bf16-256x128x384",
    "matmul-s8-to-s32",
    "ragged_paged_attention-bf16",
    "ragged_paged_attention-llama3-8b-decode",
    "gated_delta_net-bf16",
)

pytestmark = pytest.mark.usefixtures("newest_compiler")


@pytest.mark.parametrize("target", REQUIRED)
@pytest.mark.parametrize("id_", TWINS)
def test_the_schedule_of_a_kernel_is_that_of_its_twin(id_: str, target: str, record: Record) -> None:
    case = next(c for c in CASES if c.id == id_)
    found = [aot.compile(call.stablehlo, target, schedule=True).schedule for call in case.lowered()]
    same = aot.diff(*found)
    record("schedules", kernel=case.kernel, config=case.config, target=target, bundles=found[0].bundles,
           level="schedule" if same.equal else "different")  # fmt: skip
    assert same.equal, str(same)
    assert found[0].bundles > 10


def kernel(body: Callable[[Builder, Any], None]) -> Kernel[int]:
    def sum_kernel(b: Builder, rows: int) -> None:
        refs = {name: Ref((rows, 128), f32) for name in ("x", "y")}
        body(b, b.declare_args({**refs, "o": Ref((rows, 128), f32, role=Role.OUTPUT)}))

    return Kernel("sum_kernel", int, inputs=("x", "y"), outputs=("o",), run=sum_kernel)


def as_pallas(b: Builder, a: Any) -> None:
    b.pallas.store(a.o, b.exp(a.x[...]) + a.y[...])  # loads what it is about to overwrite, as Pallas does


def without_the_dead_load(b: Builder, a: Any) -> None:
    b.ref_store(a.o, b.exp(a.x[...]) + a.y[...])


def swapped(b: Builder, a: Any) -> None:
    b.pallas.store(a.o, a.y[...] + b.exp(a.x[...]))


@pytest.mark.parametrize("target", REQUIRED)
def test_what_differs_by_dead_code_alone_has_the_same_schedule(target: str) -> None:
    ours, theirs = (kernel(body).lower(16) for body in (without_the_dead_load, as_pallas))
    assert ours.body != theirs.body
    assert levels.canonical(ours.body) == levels.canonical(theirs.body)
    found = [aot.compile(lowered, target, schedule=True).schedule for lowered in (ours, theirs)]
    assert aot.diff(*found).equal


@pytest.mark.parametrize("target", REQUIRED)
def test_swapped_operands_are_other_code(target: str) -> None:
    found = [kernel(body).compile(16, target, schedule=True).schedule for body in (as_pallas, swapped)]
    difference = aot.diff(*found)
    assert not difference.equal
    assert difference.changed_bundles
