"""`mosaic-tpu zoo`: the kernels of the zoo."""

import base64
import os
import re
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Final, Literal, cast

from cyclopts import App, Parameter

from mosaic_tpu.cli._kernels import Chosen, chosen, plain_config
from mosaic_tpu.cli._main import version
from mosaic_tpu.cli._options import COMMON, Common, Engine, Kernel, Large, Output, Seed, Settings, flag
from mosaic_tpu.cli._output import MLIR, answer, deliver, report, table, verdict, working
from mosaic_tpu.cli._run import Run, run_example

LIST: Final = "mosaic-tpu/zoo-list/1"
SHOW: Final = "mosaic-tpu/zoo-show/1"
EMIT: Final = "mosaic-tpu/zoo-emit/1"
RUN: Final = "mosaic-tpu/zoo-run/1"

app = App(name="zoo", help="List, show, emit and run the kernels of the zoo.", help_epilogue="", version=version)


@app.command(name="list")
def list_(
    *,
    tag: Annotated[str | None, Parameter(help="Only those with this tag.")] = None,
    common: Common = COMMON,
) -> int:
    """List the kernels."""
    from mosaic_tpu.zoo import KERNELS

    infos = [info for info in KERNELS.values() if tag is None or tag.lower() in map(str.lower, info.tags)]
    data = [
        {
            "name": info.name,
            "title": info.title,
            "summary": info.summary,
            "tags": info.tags,
            "twin": info.twin,
            "presets": list(info.fields),
        }
        for info in infos
    ]
    rows = [(info.name, ", ".join(info.fields), info.summary) for info in infos]
    answer(
        common.json,
        LIST,
        {"kernels": data},
        lambda out: out.print(table(["kernel", "presets", "what it computes"], rows)),
    )
    return 0


@app.command
def show(name: Kernel, /, *, settings: Settings = None, common: Common = COMMON) -> int:
    """Show a kernel: what it takes and gives, its config, its presets."""
    from mosaic_tpu.cli._describe import described, print_described

    found = chosen(name, settings)
    data = described(found)
    answer(common.json, SHOW, data, lambda out: print_described(out, data))
    return 0


type Form = Literal["text", "bytes", "backend-config", "stablehlo"]


@app.command
def emit(
    name: Kernel,
    /,
    *,
    form: Annotated[
        Form,
        Parameter(
            help="MLIR text; the bytes of a custom call's body; its whole configuration; or a StableHLO "
            "program that another framework can embed.",
        ),
    ] = "text",
    canonical: Annotated[
        bool,
        Parameter(help="Text after canonicalize and cse, or op for op as emitted, in which `ir lift` finds idioms."),
    ] = True,
    locations: Annotated[bool, flag("Text with the kernel's file and line on each op.")] = False,
    settings: Settings = None,
    output: Output = None,
    common: Common = COMMON,
) -> int:
    """Emit a kernel.

    Source files are named from their package on: the same on every machine.
    """
    found = chosen(name, settings)
    with _files_named_from_the_package(found):
        content = _emitted(found, form, canonical, locations)
    data: dict[str, Any] = {"kernel": found.info.name, "preset": found.preset, "form": form}
    data["config"] = plain_config(found.config)
    if isinstance(content, str):
        data["text"] = content
    else:
        data["base64"] = base64.b64encode(content).decode()
    deliver(common.json, EMIT, data, content, output, MLIR)
    return 0


@contextmanager
def _files_named_from_the_package(found: Chosen) -> Generator[None]:
    import jax

    settings: Any = jax.config
    name = "jax_hlo_source_file_canonicalization_regex"
    given = getattr(settings, name)
    module = found.info.kernel.run.__module__
    root = Path(cast("str", sys.modules[module].__file__)).parents[module.count(".")]
    settings.update(name, f"^{re.escape(os.path.join(root, ''))}" if given is None else given)
    try:
        yield
    finally:
        settings.update(name, given)


def _emitted(found: Chosen, form: Form, canonical: bool, locations: bool) -> str | bytes:
    config = found.config
    kernel = found.info.kernel
    if form == "text":
        return kernel.emit(config, canonical=canonical, locations=locations)
    lowered = kernel.lower(config)
    return {
        "bytes": lambda: lowered.body,
        "backend-config": lambda: lowered.backend_config,
        "stablehlo": lambda: lowered.stablehlo,
    }[form]()


@app.command
def run(
    name: Kernel,
    /,
    *,
    engine: Engine = "numpy",
    seed: Seed = 0,
    large: Large = False,
    settings: Settings = None,
    common: Common = COMMON,
) -> int:
    """Run a kernel in the simulator, and compare with its float64 reference.

    Inputs are generated: see mosaic_tpu.zoo.examples. How far rounding may carry each element of a result is derived in
    mosaic_tpu.zoo.tolerances.

    Exit code 1 if a result is off or the simulator finds a hazard.
    """
    found = chosen(name, settings)
    from mosaic_tpu.cli._arrays import arrays_of, foreseen_with_reference, room_for

    config = found.config
    room_for(foreseen_with_reference(*arrays_of(found.info.kernel, config)), large)
    with working(f"{found.name} in the simulator"):
        done = run_example(found.info, config, engine, seed)
    data = {"kernel": found.info.name, "preset": found.preset, "config": plain_config(config), **done.as_dict()}
    answer(common.json, RUN, data, lambda out: _print_run(out, found, done))
    return 0 if done.good else 1


def _print_run(out: Any, found: Chosen, done: Run) -> None:
    rows = [
        (r.name, r.kind, f"{r.error:.2e}", f"{r.tolerance:.2e}", verdict(r.good, "agrees" if r.good else "DIFFERS"))
        for r in done.results
    ]
    columns = ["output", "array", "error", "tolerance", "with the reference"]
    what = "errors nearest to their tolerance, as shares of the largest element"
    out.print(f"{found.name}, seed {done.report.seed}: {what}\n")
    out.print(table(columns, rows, right=["error", "tolerance"]))
    out.print()
    report(out, str(done.report))
