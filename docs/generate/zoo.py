"""The kernel zoo: an index, and a page for each kernel from its metadata and its artefacts."""

from __future__ import annotations

import dataclasses
import difflib
import inspect
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from conformance.cases.kernels import CASES
from conformance.harness import levels
from docs.generate.artefacts import BATCHES
from docs.generate.site import (
    ARTEFACTS,
    ROOT,
    Site,
    artefact,
    code,
    fenced,
    matrix,
    of_kernel,
    prose,
    provenance,
    svg,
    table,
    tabs,
)
from mosaic_tpu import zoo
from mosaic_tpu.cli._describe import meanings
from mosaic_tpu.zoo import KernelInfo

#: What the columns of the table of schedules mean.
_SLOTS: Final = ("MXU", "XLU", "VALU", "EUP", "VLOAD", "VSTORE", "SALU")


def write(site: Site) -> None:
    """Write the section; what the index says in words is written by hand."""
    site.fill("zoo/index.md", **_tables())
    site.link("zoo", "Overview", "zoo/index.md")
    for info in zoo.KERNELS.values():
        site.add("zoo", info.title, f"zoo/{info.name}.md", page(info))


def _tables() -> dict[str, str]:
    rows = [
        (f"[{info.title}]({info.name}.md)", prose(info.summary), _tags(info), "<br>".join(map(code, info.presets)))
        for info in zoo.KERNELS.values()
    ]
    tags = sorted({tag for info in zoo.KERNELS.values() for tag in info.tags}, key=str.lower)
    by_tag = [
        (tag, ", ".join(f"[{i.title}]({i.name}.md)" for i in zoo.KERNELS.values() if tag in i.tags)) for tag in tags
    ]
    return {
        "kernels": table(("kernel", "what it computes", "tags", "presets"), rows),
        "tags": table(("tag", "kernels"), by_tag),
    }


def page(info: KernelInfo) -> str:
    """A kernel's page."""
    parts = [
        f"# {info.title}\n",
        f"{prose(info.summary)}\n",
        f"{_tags(info)}\n",
        _twins(info),
        f"::: {_path(info.function)}\n    options:\n      heading_level: 2\n",
        "## The config\n",
        _config(info),
        "## Presets\n",
        _presets(info),
        "## Operands\n",
        "Of the preset `default`: what the custom call takes and gives.\n",
        _operands(info),
        "## IR { data-search-exclude }\n",
        _ir(info),
        "## Numerics\n",
        _numerics(info),
        "## Schedule and roofline\n",
        _schedules(info),
        "## Source { data-search-exclude }\n",
        _source(info),
    ]
    return "\n".join(parts)


def _tags(info: KernelInfo) -> str:
    return " ".join(f'<span class="tag">{tag}</span>' for tag in info.tags)


def _twins(info: KernelInfo) -> str:
    own = [case for case in CASES if case.kernel == info.name]
    twin = code(info.twin)
    said = f"Its Pallas twin is {twin}: {len(own)} configs of it are compared." if own else f"Its twin is {twin}."
    checked = "" if info.validate is None else f" {code(_path(info.validate))} checks the values of concrete arrays."
    return f"{said} Its float64 reference is {code(_path(info.reference))}.{checked}\n"


def _path(function: Any) -> str:
    return f"{function.__module__}.{function.__qualname__}"


def _config(info: KernelInfo) -> str:
    config = info.kernel.config
    about = meanings(config)
    rows = []
    for field in dataclasses.fields(config):
        default = "" if field.default is dataclasses.MISSING else code(_shown(field.default))
        rows.append((code(field.name), code(_type(field.type)), default, prose(about.get(field.name, ""))))
    summary = (inspect.getdoc(config) or "").partition("\n\n")[0].replace("\n", " ")
    head = f"{code(config.__name__)}: {prose(summary)}\n"
    return f"{head}\n{table(('field', 'type', 'default', 'what it is'), rows)}\n"


def _type(annotation: Any) -> str:
    return annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))


def _shown(value: Any) -> str:
    return str(value) if type(value).__module__.startswith("mosaic_tpu") else repr(value)


def _presets(info: KernelInfo) -> str:
    names = [field.name for field in dataclasses.fields(info.kernel.config)]
    configs = list(info.presets.values())
    rows = [(code(name), *(code(_shown(getattr(c, name))) for c in configs)) for name in names]
    head = ("field", *(code(name) for name in info.presets))
    sizes = [f"{len(info.kernel.lower(c).body):,}" for c in configs]
    return table(head, [*rows, ("bytes of body", *sizes)]) + "\n"


def _operands(info: KernelInfo) -> str:
    inputs, outputs = info.kernel.inputs_of(info.default), info.kernel.outputs_of(info.default)
    rows = [(code(o.name), kind, code(o.dtype), " × ".join(map(str, o.shape)) or "scalar")
            for kind, found in (("input", inputs), ("output", outputs)) for o in found]  # fmt: skip
    return table(("name", "role", "element type", "shape"), rows) + "\n"


# --- IR --------------------------------------------------------------------------------------------------------------


def _ir(info: KernelInfo) -> str:
    first = next(iter(info.presets))
    shown = [(f"preset {first}", _canonical(info, first))]
    case = next((case for case in CASES if case.kernel == info.name), None)
    if case is not None:
        ours, theirs = case.lowered()
        result = levels.compare(ours, theirs)
        texts = [levels.to_text(ours.body), levels.to_text(theirs.body)]
        about = f"Config `{case.config}` of the conformance suite, op for op, {len(ours.body):,} bytes.\n\n"
        shown.append(("as emitted", about + fenced(texts[0], "mlir")))
        if texts[0] != texts[1]:
            shown.append(("Pallas's", about + fenced(texts[1], "mlir")))
        shown.append(("diff against Pallas", _difference(case.config, texts, result)))
    text = "The preset's module after canonicalisation; and one config of the suite, op for op, compared with Pallas.\n"
    return f"{text}\n{tabs(*shown)}"


def _canonical(info: KernelInfo, preset: str) -> str:
    cfg = info.presets[preset]
    command = f'KERNELS["{info.name}"].kernel.emit(KERNELS["{info.name}"].presets["{preset}"])'
    verb = code(f"mosaic-tpu zoo emit {info.name}:{preset}")
    return f"{verb}, or {code(command)}\n\n{fenced(info.kernel.emit(cfg), 'mlir')}"


def _difference(config: str, texts: Sequence[str], result: levels.Result) -> str:
    lines = list(difflib.unified_diff(*(t.splitlines() for t in texts), "ours", "Pallas's", lineterm="", n=2))
    if not lines:
        same = "The two are the same bytes" if result.level is levels.Level.IDENTICAL else "The texts are equal"
        return f"Config `{config}`: level **{result.level.value}**. {same}, and no line differs.\n"
    return f"Config `{config}`: level **{result.level.value}**.\n\n{fenced('\n'.join(lines), 'diff')}"


# --- numerics --------------------------------------------------------------------------------------------------------


def _numerics(info: KernelInfo) -> str:
    report = next(iter(artefact("conformance.json").values()))
    columns, rows = report["columns"]["numerics"], report["rows"]["numerics"]
    found: dict[str, dict[str, Any]] = {}
    for row in rows:
        entry = dict(zip(columns, row, strict=True))
        if entry["kernel"] == info.name:
            found.setdefault(entry["config"], {})[entry["engine"]] = _verdict(entry)
    body = [(config, of.get("numpy", ""), of.get("xla", "")) for config, of in sorted(found.items())]
    text = (
        "The largest error against the float64 reference, as a share of the tolerance: 100 % is the most that is "
        "allowed. Tolerances are derived from element type and length of the sums, in "
        "`mosaic_tpu.zoo.tolerances`. The simulator ran the emitted bytes, on each of its engines. "
        f"`mosaic-tpu zoo run {info.name}` runs a preset on generated arrays and holds it to the same tolerance.\n"
    )
    return f"{text}\n{table(('config', 'numpy', 'xla'), body)}\n\n{provenance(report, 'nox -s conformance')}\n"


def _verdict(entry: dict[str, Any]) -> str:
    share = entry["share_of_tolerance"]
    return entry["level"] if share is None else percent(share, 1)


def percent(share: float, digits: int = 0) -> str:
    """With a space that does not break."""
    return f"{share:.{digits}%}".replace("%", "\N{NO-BREAK SPACE}%")


# --- schedules -------------------------------------------------------------------------------------------------------


def _schedules(info: KernelInfo) -> str:
    found = of_kernel(info.name)
    targets = {target: of for target, of in found["targets"].items() if "refused" not in of}
    text = (
        f"What the TPU compiler made of the preset `{found['preset']}`, without a TPU. A bundle is one VLIW "
        "instruction, and the columns are units of the [glossary](../concepts/glossary.md); shares are of a "
        "slot's places over all bundles of the text. Cycles are estimates, none was measured."
    )
    text += "".join(f" They are {by}." for by in dict.fromkeys(of["by"] for of in targets.values() if of["by"]))
    text += " The roofline has nominal rates. The expressions need `from mosaic_tpu import aot`"
    if info.name in BATCHES:
        text += ", `from docs.generate.artefacts import BATCHES` in a clone,"
    text += " and `from mosaic_tpu.zoo import KERNELS`."
    rows = [
        (
            target,
            f"{of['bundles']:,}",
            f"{of['cycles']:,.0f}" if of["cycles"] else "none",
            _bound(of),
            of["spills"],
            *(percent(of["slots"].get(slot, 0)) for slot in _SLOTS),
        )
        for target, of in targets.items()
    ]
    head = ("target", "bundles", "cycles", "roofline", "spills", *_SLOTS)
    notes = "".join(f"\nNo cycles on {t}: {prose(of['why'])}.\n" for t, of in targets.items() if not of["cycles"])
    below = [target for target, of in targets.items() if _is_below(of)]
    if below:
        notes += (
            f"\nOn {', '.join(below)} the estimate is below the roofline, and the point above its line: the compiler's "
            "estimate takes copies from HBM for faster than the nominal bandwidth, which the roofline has.\n"
        )
    refused = "".join(
        f"\n{t} refuses it: {prose(of['refused'])}.\n" for t, of in found["targets"].items() if "refused" in of
    )
    pictures = tabs(*((target, _pictures(info, target)) for target in targets))
    command = f"nox -s docs-artefacts -- {info.name}"
    return f"{text}\n\n{matrix(head, rows)}\n{notes}{refused}\n{pictures}\n{provenance(found['made'], command)}"


def _is_below(of: dict[str, Any]) -> bool:
    return "roofline" in of and of["cycles"] is not None and of["cycles"] < of["roofline"]["ideal_cycles"]


def _bound(of: dict[str, Any]) -> str:
    if "roofline" not in of:
        return ""
    least = f"{of['roofline']['bound']}, ≥ {of['roofline']['ideal_cycles']:,.0f}"
    return least if of["roofline"]["flops"] else f"no matmul, ≥ {of['roofline']['ideal_cycles']:,.0f}"


def _pictures(info: KernelInfo, target: str) -> str:
    """Both pictures, each with what draws it: the command where there is one, and the expression."""
    kernel = f'KERNELS["{info.name}"]'
    drawn = {
        "schedule": (
            f"Slots used by the bundles of the hot loop on {target}; full height is all of them.",
            f'{kernel}.kernel.compile({kernel}.default, "{target}", schedule=True).schedule.svg()',
        ),
        "roofline": (
            f"The kernel and the roofline of {target}.",
            roofline_expression(info, target),
        ),
    }
    parts: list[str] = []
    for kind, (caption, expression) in drawn.items():
        file = ARTEFACTS / "zoo" / f"{info.name}-{target}-{kind}.svg"
        if file.exists():
            verb = f"{code(f'mosaic-tpu schedule {info.name} --target {target} --form svg')}, or " * (
                kind == "schedule"
            )
            parts += [
                svg(file.read_text(encoding="utf-8"), caption, narrow=kind == "roofline"),
                verb + code(expression),
            ]
    return "\n\n".join(parts)


def roofline_expression(info: KernelInfo, target: str) -> str:
    """What draws a kernel's roofline again. Batches are made by the generator of this site, in a clone."""
    kernel = f'KERNELS["{info.name}"]'
    lowered = f'{kernel}.kernel.lower({kernel}.default), "{target}"'
    if info.name not in BATCHES:
        cycles = of_kernel(info.name)["targets"][target]["cycles"]
        return f"aot.roofline({lowered}, cycles={cycles}).svg()"
    return f'aot.specialize({lowered}, scalars=BATCHES["{info.name}"]({kernel}.default)[1]).roofline.svg()'


# --- source ----------------------------------------------------------------------------------------------------------


def _source(info: KernelInfo) -> str:
    file = Path(inspect.getsourcefile(info.kernel.run) or "")
    text = file.read_text(encoding="utf-8")
    inside = file.relative_to(ROOT).as_posix()
    block = "\n".join(f"    {line}" if line else "" for line in fenced(text, "python").split("\n"))
    return f'??? abstract "{inside}"\n\n{block}\n'
