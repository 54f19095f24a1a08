"""`mosaic-tpu schedule`: what the compiler made of a kernel."""

from typing import Annotated, Any, Final, Literal

from cyclopts import Parameter

from mosaic_tpu.cli._errors import UsageError
from mosaic_tpu.cli._input import source
from mosaic_tpu.cli._options import (
    COMMON,
    COMPILER,
    GENERATIONS,
    Common,
    Compiler,
    Output,
    Settings,
    SourceName,
    Which,
    target_of,
)
from mosaic_tpu.cli._output import deliver, json_text, without_schema, working

SCHEDULE: Final = "mosaic-tpu/schedule/1"


def schedule(
    name: SourceName,
    /,
    *,
    target: Annotated[
        str, Parameter(metavar="NAME", help=f"One of {GENERATIONS}, or a topology of one, v5e:2x2.")
    ] = "v6e",
    form: Annotated[Literal["text", "json", "svg"], Parameter(help="Tables, plain data, or a timeline.")] = "text",
    kernel: Which = None,
    compiler: Compiler = COMPILER,
    settings: Settings = None,
    output: Output = None,
    common: Common = COMMON,
) -> int:
    """Show what the compiler made: bundles, loops, slots, spills, copies, cycles.

    Cycles are its estimates, to rank variants on one generation, and not measured.
    """
    from mosaic_tpu import aot

    found = source(name, settings)
    wanted = target_of(target)
    with found.named(), working(f"{found.name} for {wanted}"):
        compiled = aot.compile(found.data, wanted, schedule=True, **vars(compiler))
    made = _chosen(compiled, kernel, found.name)
    data = {"source": found.name, **without_schema(made.to_json())}
    content = json_text(SCHEDULE, data) if form == "json" else made.svg() if form == "svg" else str(made)
    styles = ((r"(?m)^▶.*", "bold"),) if form == "text" else ()
    deliver(common.json, SCHEDULE, data, content, output, styles)
    return 0


def _chosen(compiled: Any, kernel: str | None, name: str) -> Any:
    """The schedule of the only kernel, or of the one that is named."""
    if kernel is None and len(compiled.dumps) == 1:
        return compiled.schedule
    names = list(compiled.dumps)
    listed = f"--kernel takes a name or a number: {', '.join(f'{n} {known}' for n, known in enumerate(names))}"
    if kernel is None:
        raise UsageError(f"{name} holds {len(names)} kernels", listed)
    if kernel.isdecimal() and int(kernel) < len(names):
        kernel = names[int(kernel)]
    if kernel not in names:
        raise UsageError(f"{name} has no kernel {kernel!r}", listed)
    return compiled.schedule_of(kernel)
