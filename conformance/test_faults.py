"""Faults planted in working kernels are found, in every schedule; the working kernels run through without one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np
import pytest

from conformance.conftest import Record
from conformance.faults import copies, rings
from conformance.faults.fault import Fault, Working, same
from conformance.faults.mutants import Call, call_of, mutants
from conformance.faults.table import FAULTS, KERNELS
from conformance.faults.tiles import RUNNING_SUM
from conformance.numerics.table import CASES as NUMERICS
from mosaic_tpu.sim import HazardError, errors

MODES: Final = ("eager", "wait", "random")
SEEDS: Final = range(30)


def lines_named(error: HazardError) -> Iterator[str]:
    """The source lines that a hazard names, its own first."""
    for text in (error.location, error.related):
        file, _, number = (text or "").rpartition(" ")[2].rpartition(":")
        if file and number.isdecimal():
            yield Path(file).read_text(encoding="utf-8").splitlines()[int(number) - 1]


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_a_working_kernel_has_no_hazard_in_any_schedule(kernel: Working, record: Record) -> None:
    expected = None if kernel.expected is None else kernel.expected(kernel.arrays())
    runs = [kernel.run(dma=mode, seed=seed, collect=True) for mode in MODES for seed in SEEDS]
    record("faults: working kernels", kernel=kernel.name, runs=len(runs), hazards=sum(len(r.hazards) for r in runs))
    for report in runs:
        assert not report.hazards
        assert expected is None or same([outputs[0] for outputs in report.outputs_of], expected)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.id)
def test_a_planted_fault_is_found_in_every_schedule(fault: Fault, record: Record) -> None:
    found = {(mode, seed): fault.find(dma=mode, seed=seed) for mode in MODES for seed in SEEDS}
    caught = sum(type(error) is fault.error for error in found.values())
    row = {"kernel": fault.kernel.name, "fault": fault.name, "error": fault.error.__name__}
    record("faults: planted", **row, schedules=f"{caught} of {len(found)}")
    for (_, seed), error in found.items():
        assert type(error) is fault.error, error
        assert str(error.op).removesuffix("2") == fault.op  # wait_dma2 before JAX 0.12
        assert error.seed == seed
        assert fault.says in str(error)
        assert fault.buffer in (error.buffer or "")
        lines = list(lines_named(error))
        assert any(fault.line in line for line in lines) if fault.line else not lines, error
        assert (error.device is not None) == (fault.kernel.devices > 1)


def test_every_fault_has_a_name_of_its_own() -> None:
    assert len({fault.id for fault in FAULTS}) == len(FAULTS)


def test_a_parallel_dimension_whose_order_matters_differs_from_seed_to_seed() -> None:
    """How to look for it: run with ``shuffle=True`` and several seeds, and compare the outputs."""
    runs = [RUNNING_SUM.run("parallel", shuffle=True, checks=False, seed=seed).outputs[0] for seed in range(8)]
    assert any(not np.array_equal(runs[0], other) for other in runs[1:])
    with pytest.raises(errors.UninitializedError):  # where the order is wrong, this one adds to what nobody wrote
        for seed in range(8):
            RUNNING_SUM.run("parallel", shuffle=True, seed=seed)


def test_an_arbitrary_dimension_is_not_shuffled() -> None:
    assert RUNNING_SUM.expected is not None
    expected = RUNNING_SUM.expected(RUNNING_SUM.arrays())
    assert all(same(RUNNING_SUM.run(shuffle=True, seed=seed).outputs, expected) for seed in range(8))


#: One case of each kernel of the numerics table, two of those with DMAs of their own.
HEALTHY: Final = [
    "matmul-bf16",
    "jax: matmul-bf16",
    "jax: gmm-groups across tiles",
    "jax: flash_attention-bf16, causal",
    "gated_delta_net-bf16",
    "ragged_paged_attention-bf16, prefill and decode",
    "ragged_paged_attention-s8, no scales, decode",
    "jax: ragged_paged_attention-bf16, page edges",
    "jax: paged_attention-f32",
    "jax: paged_attention-f32, s8 pages",
    "jax: all_gather-f32",
    "jax: all_gather-bf16",
]


@pytest.mark.parametrize("case_id", HEALTHY)
def test_public_kernels_have_no_hazard_in_any_schedule(case_id: str, record: Record) -> None:
    """On one device a seed decides nothing but when copies happen, and with "eager" and "wait" not that."""
    call = from_numerics(case_id)
    several = len(call.operands) > 1
    schedules = [(mode, seed) for mode in MODES for seed in SEEDS if several or mode == "random" or seed == 0]
    reports = [call.run(dma=mode, seed=seed, collect=True) for mode, seed in schedules]
    hazards = sum(len(report.hazards) for report in reports)
    record("faults: working kernels", kernel=case_id, runs=len(reports), hazards=hazards)
    assert not hazards
    first = [outputs[0] for outputs in reports[0].outputs_of]
    assert all(same([outputs[0] for outputs in report.outputs_of], first) for report in reports)


MUTATED: Final = {
    "double-buffered copy": lambda: from_faults(copies.KERNEL),
    "ring all-gather": lambda: from_faults(rings.KERNEL),
    "ragged_paged_attention": lambda: from_numerics("ragged_paged_attention-bf16, prefill and decode"),
    "jax: paged_attention": lambda: from_numerics("jax: paged_attention-f32"),
    "jax: all_gather": lambda: from_numerics("jax: all_gather-f32"),
}


def from_faults(kernel: Working) -> Call:
    return call_of(kernel.program(), kernel.arrays(), devices=kernel.devices)


def from_numerics(case_id: str) -> Call:
    case = next(case for case in NUMERICS if case.id == case_id)
    arrays = case.arrays()
    return call_of(case.program(arrays), arrays, devices=case.devices, pads=case.pads)


@pytest.mark.parametrize("name", MUTATED)
def test_no_dma_signal_or_wait_can_be_left_out(name: str, record: Record) -> None:
    call = MUTATED[name]()
    healthy = call.run()  # raises, if it is not
    missed: list[str] = []
    count = 0
    for op, text in mutants(call.text):
        for mode in MODES:
            found = call.find(text, dma=mode)
            if found is None and call.run(text, dma=mode).op_counts == healthy.op_counts:
                continue  # the op is in a loop without trips, as JAX 0.11 has them: nothing was left out
            count += 1
            if found is None:
                missed.append(f"{op}, dma={mode}")
    record("faults: ops left out", kernel=name, mutants=count, caught=count - len(missed))
    assert count
    assert not missed
