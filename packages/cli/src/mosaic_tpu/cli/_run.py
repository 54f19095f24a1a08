"""A kernel of the zoo, simulated on an example and compared with its reference."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from mosaic_tpu.cli._options import Engine
    from mosaic_tpu.sim import Report
    from mosaic_tpu.zoo import KernelInfo
    from mosaic_tpu.zoo.tolerances import Expected


@dataclass(frozen=True)
class Result:
    """One output.

    Attributes:
        name: of the output.
        kind: dtype and shape.
        error: where it is the largest share of what rounding allows, by the reference's largest element.
        tolerance: what rounding allows there, likewise.
        good: whether it allows all errors.
    """

    name: str
    kind: str
    error: float
    tolerance: float
    good: bool


@dataclass(frozen=True)
class Run:
    """What the simulator said, and how the results compare."""

    report: Report
    results: tuple[Result, ...]

    @property
    def good(self) -> bool:
        """Whether all is well."""
        return not self.report.hazards and all(result.good for result in self.results)

    def as_dict(self) -> dict[str, Any]:
        """As plain data."""
        results = [
            {"name": r.name, "array": r.kind, "error": r.error, "tolerance": r.tolerance, "agrees": r.good}
            for r in self.results
        ]
        return {"good": self.good, "results": results, "report": self.report.as_dict()}


def run_example(info: KernelInfo, config: Any, engine: Engine, seed: int) -> Run:
    """Call the JAX-facing function in the simulator, and its reference.

    Raises:
        SimulationError: the simulator cannot run it.
    """
    import jax as _jax
    import numpy as np

    from mosaic_tpu.sim import simulate

    example = info.example(config, np.random.default_rng(seed))
    arrays = list(example.arrays.values())
    jax = cast("Any", _jax)
    call = jax.jit(functools.partial(info.function, **example.options))
    lowered = call.trace(*arrays).lower(lowering_platforms=("tpu",))
    report = simulate(
        lowered, *arrays, engine=engine, seed=seed, collect=True, allow_unwritten=bool(info.kernel.partial_outputs)
    )
    expected = info.expected(*arrays, **example.options_of(info.expected))
    results = map(_compared, info.kernel.outputs, report.outputs, expected)
    return Run(report, tuple(results))


def _compared(name: str, got: Any, expected: Expected) -> Result:
    """An output against its reference, element by element: `mosaic_tpu.zoo.tolerances` knows what rounding allows."""
    share, error, tolerance = expected.worst(got)
    largest = expected.largest
    return Result(name, f"{got.dtype}{list(got.shape)}", error / largest, tolerance / largest, share <= 1)
