"""Every case, and how one is run."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from conformance.numerics import all_gather, gated_delta_net, matmul, ragged_paged_attention, wheel_attention
from conformance.numerics.case import Engine, NumericsCase
from mosaic_tpu.sim import simulate, simulate_devices
from mosaic_tpu.zoo.tolerances import Array, Expected

CASES: Final[list[NumericsCase]] = [
    *matmul.CASES,
    *gated_delta_net.CASES,
    *ragged_paged_attention.CASES,
    *wheel_attention.CASES,
    *all_gather.CASES,
]


@dataclass(frozen=True)
class Prepared:
    """A case, ready to run: its program, lowered, its arrays, and its results."""

    case: NumericsCase
    program: str
    arrays: Sequence[Array]
    expected: Sequence[Expected]


@functools.lru_cache(maxsize=1)
def prepared(case: NumericsCase) -> Prepared:
    """The case made ready, kept while the next engine runs it too."""
    arrays = case.arrays()
    return Prepared(case, case.program(arrays), arrays, case.expected(*arrays))


def run(case: NumericsCase, engine: Engine) -> float:
    """The largest error of a case on an engine, as a share of the tolerance.

    Raises:
        SimulationError: a hazard, or what the engine cannot do.
    """
    ready = prepared(case)
    results = simulated(ready, engine)
    return max(e.distance(got) for e, got in zip(ready.expected, results, strict=True))


def simulated(ready: Prepared, engine: Engine) -> Sequence[Array]:
    """The program's results; where there are several devices, the kernel's, of one device after the other."""
    if ready.case.devices > 1:
        report = simulate_devices(ready.program, [[shard] for shard in ready.arrays])
        return [outputs[0] for outputs in report.outputs_of]
    return simulate(ready.program, *ready.arrays, engine=engine, allow_unwritten=ready.case.pads).outputs
