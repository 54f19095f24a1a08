"""`mosaic-tpu simulate`: run a kernel on the CPU, and look for hazards."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from cyclopts import Parameter
from cyclopts.validators import Number

from mosaic_tpu.cli._errors import UsageError, source_line
from mosaic_tpu.cli._input import Source, source
from mosaic_tpu.cli._options import COMMON, Common, Settings, SourceName, flag
from mosaic_tpu.cli._output import REPORT, answer, code, table, verdict, working

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
    seed: Annotated[int, Parameter(help="Of the schedule and of generated inputs.", validator=Number(gte=0))] = 0,
    seeds: Annotated[
        int, Parameter(help="How many schedules, with seeds from --seed on.", validator=Number(gte=1))
    ] = 1,
    dma: Annotated[Literal["random", "eager", "wait"], Parameter(help="When copies happen.")] = "random",
    engine: Annotated[Literal["numpy", "xla"], Parameter(help="Only numpy looks for all hazards.")] = "numpy",
    checks: Annotated[bool, Parameter(help="Look for hazards.")] = True,
    shuffle: Annotated[bool, flag("Run parallel grid steps in a seeded order.")] = False,
    compare_fills: Annotated[bool, flag("Run again with other contents of uninitialised memory.")] = False,
    allow_unwritten: Annotated[bool, flag("Outputs may have unwritten elements.")] = False,
    cores: Annotated[int, Parameter(help="Simulated cores.", validator=Number(gte=1))] = 1,
    timeout: Annotated[float | None, Parameter(help="Seconds for each run.", validator=Number(gt=0))] = None,
    trace: Annotated[bool, flag("With every event, in JSON.")] = False,
    output: Annotated[
        Path | None, Parameter(name=("--output", "-o"), help="Write the outputs of the last run to this .npz file.")
    ] = None,
    settings: Settings = None,
    common: Common = COMMON,
) -> int:
    """Run a kernel on the CPU, and look for races, deadlocks and stray memory.

    Exit code 1 if there is a hazard. A hazard's seed shows it again.
    """
    from mosaic_tpu.cli._arrays import given
    from mosaic_tpu.sim import simulate as simulated

    found = source(name, settings)
    arrays = given(found, inputs or [], seed)
    partial = found.chosen is not None and bool(found.chosen.info.kernel.partial_outputs)
    options: dict[str, Any] = {
        "engine": engine, "dma": dma, "checks": checks, "shuffle": shuffle, "compare_fills": compare_fills,
        "allow_unwritten": allow_unwritten or partial, "cores": cores, "timeout": timeout,
    }  # fmt: skip
    if arrays.outputs is not None:
        options["outputs"] = arrays.outputs
    reports: list[Report] = []
    for number in range(seed, seed + seeds):
        with working(f"{found.name}, seed {number} …"):
            reports.append(simulated(found.data, *arrays.arrays, seed=number, collect=True, **options))
    bad = [report for report in reports if report.hazards]
    if output is not None:
        _save(output, reports[-1])
    data = {
        "source": found.name,
        "inputs": arrays.how,
        "hazards": sum(len(report.hazards) for report in reports),
        "runs": [report.as_dict(trace=trace) for report in reports],
    }
    answer(common.json, SIMULATE, found.placed(data), lambda out: _print(out, found, arrays.how, reports))
    return 1 if bad else 0


def _save(file: Path, report: "Report") -> None:
    import numpy as np

    try:
        np.savez(file, *report.outputs)
    except OSError as error:
        raise UsageError(f"cannot write {file}: {error.strerror}", "name a file in a folder that exists") from None


def _print(out: Any, found: Source, how: list[dict[str, str]], reports: list["Report"]) -> None:
    """One run as its report; several as a table, with the report of the first that has a hazard."""
    out.print(table(["input", "array", "from"], [list(h.values()) for h in how]))
    out.print()
    shown = next((report for report in reports if report.hazards), reports[0])
    if len(reports) > 1:
        rows = [(r.seed, f"{r.steps:,}", f"{r.dmas:,}", _verdict(r)) for r in reports]
        out.print(table(["seed", "steps", "DMAs", "hazards"], rows, right=["seed", "steps", "DMAs"]))
        out.print(f"\nseed {shown.seed}:")
    code(out, _with_lines(found.placed(str(shown))), REPORT)


def _verdict(report: "Report") -> Any:
    kinds = dict.fromkeys(type(hazard).__name__ for hazard in report.hazards)
    return verdict(not kinds, ", ".join(kinds) or "none")


def _with_lines(report: str) -> str:
    """A report with the line of source under each place, where the file is here."""
    lines: list[str] = []
    for line in report.splitlines():
        lines.append(line)
        label, found, place = line.partition("at: ")
        if found and not label.strip() and (text := source_line(place)):
            lines.append(f"{label}    {text}")
    return "\n".join(lines)
