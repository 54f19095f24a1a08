"""A kernel of the zoo, simulated on an example and compared with its reference."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

if TYPE_CHECKING:
    from mosaic_tpu.cli._options import Engine
    from mosaic_tpu.sim import Report
    from mosaic_tpu.zoo import KernelInfo

#: Of the largest element, what roundings of sums in f32 add up to: 2⁻²⁴ each, 2⁻¹⁸ in 4,096 products of either sign.
_SUMS: Final = 2.0**-16


@dataclass(frozen=True)
class Result:
    """One output.

    Attributes:
        name: of the output.
        kind: dtype and shape.
        error: the largest, as a share of the reference's largest element.
        tolerance: of that.
    """

    name: str
    kind: str
    error: float
    tolerance: float

    @property
    def good(self) -> bool:
        """Whether it agrees."""
        return self.error <= self.tolerance


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
    expected: Any = info.reference(*arrays, **example.options_of(info.reference))
    references = cast("tuple[Any, ...]", expected if isinstance(expected, tuple) else (expected,))
    parts = example.defined or (...,) * len(references)
    results = (
        _compared(name, output, output[part], reference[part], example.roundoff)
        for name, output, reference, part in zip(info.kernel.outputs, report.outputs, references, parts, strict=True)
    )
    return Run(report, tuple(results))


def _compared(name: str, output: Any, got: Any, reference: Any, roundoff: float) -> Result:
    """An output against its reference.

    A result is rounded when it is stored, which moves an element by its unit roundoff of the largest one, at most.
    What goes into it is added up in f32, and may be rounded to bf16 before the MXU multiplies it: the example knows how
    far that goes. Integers are exact, in as many bits as they have.
    """
    import ml_dtypes
    import numpy as np

    kind = f"{output.dtype}{list(output.shape)}"
    if np.dtype(output.dtype).kind in "iub" or "int" in str(output.dtype):
        wrapped = reference.astype(np.int64).astype(output.dtype)
        return Result(name, kind, float(np.max(got != wrapped, initial=0)), 0.0)
    largest = float(np.max(np.abs(reference), initial=0.0)) or 1.0
    distance = np.abs(got.astype(np.float64) - reference)
    error = float(np.max(np.where(np.isnan(distance), np.inf, distance), initial=0.0)) / largest
    details = cast("Any", ml_dtypes.finfo)(output.dtype)
    return Result(name, kind, error, roundoff + _SUMS + float(details.eps) / 2)
