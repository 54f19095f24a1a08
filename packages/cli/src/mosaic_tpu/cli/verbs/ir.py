"""`mosaic-tpu ir`: Mosaic modules as text, compared, verified, and as source."""

import difflib
import re
from typing import Annotated, Any, Final, Literal

from cyclopts import App, Parameter

from mosaic_tpu.cli._input import Source, once, source
from mosaic_tpu.cli._main import version
from mosaic_tpu.cli._options import COMMON, Common, Output, SourceName, Which, flag, no_option
from mosaic_tpu.cli._output import DIFF, MLIR, PYTHON, answer, code, deliver, table, verdict
from mosaic_tpu.cli._streams import one_line

SHOW: Final = "mosaic-tpu/ir-show/1"
DIFFERENCE: Final = "mosaic-tpu/ir-diff/1"
VERIFY: Final = "mosaic-tpu/ir-verify/1"
LIFT: Final = "mosaic-tpu/ir-lift/1"

#: What says in which form a module came, and no difference between two.
_MARK: Final = re.compile(r" attributes \{stable_mosaic\.version = \d+ : i64\}")

type Style = Literal["ops", "idioms"]

app = App(name="ir", help="Show, compare, verify and lift Mosaic modules.", help_epilogue="", version=version)


@app.command
def show(
    name: SourceName,
    /,
    *,
    canonical: Annotated[bool, flag("After canonicalize and cse.")] = False,
    kernel: Which = None,
    output: Output = None,
    common: Common = COMMON,
) -> int:
    """Show a module as MLIR text, whatever form it has."""
    found = source(name)
    text = found.text(kernel, canonical=canonical)
    data = {"source": found.name, "canonical": canonical, "text": text}
    deliver(common.json, SHOW, data, text, output, MLIR)
    return 0


@app.command
def diff(
    before: Annotated[SourceName, Parameter(name="BEFORE")],
    after: Annotated[SourceName, Parameter(name="AFTER")],
    /,
    *,
    style: Annotated[
        Literal["ops", "idioms", "mlir"],
        Parameter(help="As builder calls, as Pallas-like source, or as canonical MLIR text."),
    ] = "ops",
    kernel: Which = None,
    common: Common = COMMON,
) -> int:
    """Say what differs between two modules; exit code 1 if anything does.

    They are compared as lifted source: its names do not shift with an op more.
    """
    once([before, after])
    pair = source(before), source(after)
    text = _mlir_diff(*pair, kernel) if style == "mlir" else _lifted_diff(*pair, style, kernel)
    same = not text
    names = [found.name for found in pair]
    data = {"before": names[0], "after": names[1], "style": style, "same": same, "diff": text}
    shown = text or f"{names[0]} and {names[1]}: the same in style {style}"
    answer(common.json, DIFFERENCE, data, lambda out: code(out, shown, DIFF))
    return 0 if same else 1


def _lifted_diff(before: Source, after: Source, style: Style, kernel: str | None) -> str:
    from mosaic_tpu.lift import diff as lifted_diff

    # A kernel of the zoo with the names of its arguments, which no body has.
    pair = [s.body(_which(s, kernel)) if s.chosen is None else s.data for s in (before, after)]
    text = lifted_diff(*pair, style=style)
    return text.replace("--- a\n+++ b\n", f"--- {one_line(before.name)}\n+++ {one_line(after.name)}\n", 1)


def _which(found: Source, kernel: str | None) -> str | None:
    """Of two sources, the kernel is named of those that are programs."""
    return None if found.program is None else kernel


def _mlir_diff(before: Source, after: Source, kernel: str | None) -> str:
    texts = [_MARK.sub("", found.text(_which(found, kernel), canonical=True)).splitlines() for found in (before, after)]
    names = one_line(before.name), one_line(after.name)
    return "\n".join(difflib.unified_diff(texts[0], texts[1], *names, lineterm=""))


@app.command
def verify(
    names: Annotated[
        list[str],
        Parameter(
            name="SOURCE",
            help="Files of modules, - or KERNEL[:PRESET].",
            negative=(),
            allow_leading_hyphen=True,
            validator=no_option,
        ),
    ],
    /,
    *,
    common: Common = COMMON,
) -> int:
    """Check that modules can be read and hold together; exit code 1 if one does not."""
    once(names)
    found = [_verified(name) for name in names]
    bad = [row for row in found if not row["valid"]]

    def shown(out: Any) -> None:
        rows = [
            (row["source"], verdict(row["valid"], "valid" if row["valid"] else "INVALID"), *_described(row))
            for row in found
        ]
        out.print(table(["source", "verdict", "kernel", "ops", "IR", "arguments"], rows, right=["ops"]))
        for row in bad:
            out.print(f"\n{row['source']}: {row['reason']}\n  hint: {row['remedy']}", soft_wrap=True)

    answer(common.json, VERIFY, {"modules": found}, shown)
    return 1 if bad else 0


def _described(row: dict[str, Any]) -> tuple[str, ...]:
    if not row["valid"]:
        return ("", "", "", "")
    version = "-" if row["ir_version"] is None else str(row["ir_version"])
    return row["kernel"], f"{row['ops']:,}", version, f"{len(row['arguments'])}"


def _verified(name: str) -> dict[str, Any]:
    from mosaic_tpu.sim import ir
    from mosaic_tpu.sim.errors import SimulationError

    found = name
    try:
        read = source(name)
        found = read.name
        with read.named():
            modules = [ir.read(read.body())] if read.program is None else _modules_of(read.program)
    except SimulationError as error:
        return {"source": found, "valid": False, "reason": error.summary, "remedy": error.hint}
    first = modules[0]
    root = first.operations[0].attributes
    mark = "stable_mosaic.version"
    return {
        "source": found,
        "valid": True,
        "kernel": ", ".join(module.name for module in modules),
        "ops": sum(1 for module in modules for _ in module.kernel.operation.walk()),
        "ir_version": root.integer(mark) if mark in root else None,
        "arguments": [str(argument.type) for module in modules for argument in module.kernel.arguments],
    }


def _modules_of(program: str) -> list[Any]:
    from mosaic_tpu.sim import ir

    return [ir.module_of(call) for call in ir.calls_of(program)]


@app.command
def lift(
    name: SourceName,
    /,
    *,
    style: Annotated[Style, Parameter(help="A call for each op, or source as one writes it for Pallas.")] = "ops",
    kernel: Which = None,
    output: Output = None,
    common: Common = COMMON,
) -> int:
    """Turn a module into Python source that builds the same bytes."""
    from mosaic_tpu.lift import lift as lifted

    found = source(name)
    # A kernel of the zoo as it was lowered, with the names of its arguments.
    text = lifted(found.data if found.chosen is not None else found.body(kernel), style=style)
    deliver(common.json, LIFT, {"source": found.name, "style": style, "text": text}, text, output, PYTHON)
    return 0
