"""`mosaic-tpu simulate`: run a kernel on the CPU, and look for hazards."""

import io
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from cyclopts import Parameter
from cyclopts.validators import Number

from mosaic_tpu.cli._errors import UsageError, with_lines
from mosaic_tpu.cli._input import Source, source
from mosaic_tpu.cli._options import (
    COMMON,
    SECONDS,
    SEEDS,
    Common,
    Engine,
    Large,
    Seed,
    Settings,
    SourceName,
    flag,
    writes,
)
from mosaic_tpu.cli._output import answer, report, table, verdict, working, write

if TYPE_CHECKING:
    from mosaic_tpu.sim import Report

SIMULATE: Final = "mosaic-tpu/simulate/1"


def simulate(
    name: SourceName,
    /,
    *,
    inputs: Annotated[
        list[Path] | None,
        Parameter(name=("--input", "-i"), negative=(), help="Arrays, .npy or .npz, in order; else generated ones."),
    ] = None,
    seed: Seed = 0,
    seeds: Annotated[
        int, Parameter(help="How many schedules, with seeds from --seed on.", validator=Number(gte=1, lte=SEEDS))
    ] = 1,
    dma: Annotated[Literal["random", "eager", "wait"], Parameter(help="When copies happen.")] = "random",
    engine: Engine = "numpy",
    checks: Annotated[bool, Parameter(help="Look for hazards.")] = True,
    shuffle: Annotated[bool, flag("Run parallel grid steps in a seeded order.")] = False,
    compare_fills: Annotated[bool, flag("Run again with other contents of uninitialised memory.")] = False,
    allow_unwritten: Annotated[bool, flag("Outputs may have unwritten elements.")] = False,
    cores: Annotated[int, Parameter(help="Simulated cores.", validator=Number(gte=1, lte=64))] = 1,
    timeout: Annotated[float | None, Parameter(help="Seconds for each run.", validator=SECONDS)] = None,
    large: Large = False,
    trace: Annotated[bool, flag("With every event, in JSON.")] = False,
    output: Annotated[
        Path | None, writes(("--output", "-o"), "Write the outputs of the last run to this file, in NumPy's .npz.")
    ] = None,
    settings: Settings = None,
    common: Common = COMMON,
) -> int:
    """Run a kernel on the CPU, and look for races, deadlocks and stray memory.

    Exit code 1 if there is a hazard. A hazard's seed shows it again.
    """
    from mosaic_tpu.cli._arrays import given
    from mosaic_tpu.sim import simulate as simulated

    if trace and not common.json:
        raise UsageError("--trace is part of the answer in JSON", "add --json, or leave --trace out")
    found = source(name, settings)
    with found.named():
        arrays = given(found, inputs or [], seed, large=large)
    partial = found.chosen is not None and bool(found.chosen.info.kernel.partial_outputs)
    options: dict[str, Any] = {
        "engine": engine, "dma": dma, "checks": checks, "shuffle": shuffle, "compare_fills": compare_fills,
        "allow_unwritten": allow_unwritten or partial, "cores": cores, "timeout": timeout,
    }  # fmt: skip
    if arrays.outputs is not None:
        options["outputs"] = arrays.outputs
    reports: list[Report] = []
    with found.named(), working(f"{found.name} in the simulator") as say:
        for number in range(seed, seed + seeds):
            say(f"{found.name} in the simulator, seed {number}")
            reports.append(simulated(found.data, *arrays.arrays, seed=number, collect=True, **options))
    bad = [run for run in reports if run.hazards]
    if output is not None:
        write(_saved(reports[-1]), output)
    data = {
        "source": found.name,
        "inputs": arrays.how,
        "hazards": sum(len(run.hazards) for run in reports),
        "runs": [run.as_dict(trace=trace) for run in reports],
    }
    answer(common.json, SIMULATE, found.placed(data), lambda out: _print(out, found, arrays.how, reports))
    return 1 if bad else 0


def _saved(run: "Report") -> bytes:
    """Its outputs; NumPy would add an ending to the name of a file.

    Of an element type that NumPy has no name for, as bf16, it keeps the bytes: `-i` reads them as what a kernel takes.
    """
    import numpy as np

    content = io.BytesIO()
    np.savez(content, *(a.view(f"V{a.dtype.itemsize}") if a.dtype.isbuiltin == 2 else a for a in run.outputs))
    return content.getvalue()


def _print(out: Any, found: Source, how: list[dict[str, str]], reports: list["Report"]) -> None:
    """One run as its report; several as a table, with the report of the first that has a hazard."""
    out.print(table(["input", "array", "from"], [list(h.values()) for h in how]))
    out.print()
    shown = next((run for run in reports if run.hazards), reports[0])
    if len(reports) > 1:
        rows = [(r.seed, f"{r.steps:,}", f"{r.dmas:,}", _verdict(r)) for r in reports]
        out.print(table(["seed", "steps", "DMAs", "hazards"], rows, right=["seed", "steps", "DMAs"]))
        out.print(f"\nseed {shown.seed}:")
    report(out, with_lines(found.placed(str(shown))))


def _verdict(run: "Report") -> Any:
    kinds = dict.fromkeys(type(hazard).__name__ for hazard in run.hazards)
    return verdict(not kinds, ", ".join(kinds) or "none")
