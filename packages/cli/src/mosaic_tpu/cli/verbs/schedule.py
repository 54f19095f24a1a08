"""`mosaic-tpu schedule`: what the compiler made of a kernel."""

from typing import Annotated, Final, Literal

from cyclopts import Parameter

from mosaic_tpu.cli._input import picked, source
from mosaic_tpu.cli._notes import noted
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
    with noted(), found.named(), working(f"{found.name} for {wanted}"):
        compiled = aot.compile(found.data, wanted, schedule=True, **vars(compiler))
    made = compiled.schedule_of(picked([(name, name) for name in compiled.dumps], kernel, found.name))
    data = {"source": found.name, **without_schema(made.to_json())}
    content = json_text(SCHEDULE, data) if form == "json" else made.svg() if form == "svg" else str(made)
    styles = ((r"(?m)^▶.*", "bold"),) if form == "text" else ()
    deliver(common.json, SCHEDULE, data, content, output, styles)
    return 0
