"""All that is known of a kernel of the zoo, for `zoo show`."""

from __future__ import annotations

import dataclasses
import inspect
import re
from typing import Any

from mosaic_tpu.cli._kernels import Chosen, plain_config
from mosaic_tpu.cli._output import table


def described(found: Chosen) -> dict[str, Any]:
    """As plain data."""
    info, config = found.info, found.config
    kernel = info.kernel
    presets = {name: plain_config(preset) for name, preset in info.presets.items()}
    if found.changed:
        presets["this"] = plain_config(config)
    return {
        "name": info.name,
        "title": info.title,
        "summary": info.summary,
        "tags": info.tags,
        "twin": info.twin,
        "call": f"{info.name}{_signature(info.function)}",
        "preset": found.preset,
        "inputs": [_operand(o) for o in kernel.inputs_of(config)],
        "outputs": [_operand(o) for o in kernel.outputs_of(config)],
        "fields": _fields(kernel.config),
        "presets": presets,
    }


def _signature(function: Any) -> str:
    """Names and defaults."""
    signature = inspect.signature(function)
    bare = [p.replace(annotation=inspect.Parameter.empty) for p in signature.parameters.values()]
    return str(signature.replace(parameters=bare, return_annotation=inspect.Signature.empty))


def _operand(operand: Any) -> dict[str, Any]:
    return {"name": operand.name, "dtype": str(operand.dtype), "shape": list(operand.shape)}


def meanings(kind: type[Any]) -> dict[str, str]:
    """What a class's docstring says of its attributes, each on one line."""
    block = (inspect.getdoc(kind) or "").partition("Attributes:\n")[2].partition("\n\n")[0]
    found = re.findall(r"^    (\w+): (.*(?:\n {8}.*)*)", block, re.MULTILINE)
    return {name: re.sub(r"\s+", " ", text).strip() for name, text in found}


def _fields(kind: Any) -> list[dict[str, Any]]:
    """Names, defaults and meanings of a config's fields."""
    known = meanings(kind)
    return [
        {
            "name": f.name,
            "required": f.default is dataclasses.MISSING,
            "default": None if f.default is dataclasses.MISSING else _plain(f.default),
            "meaning": known.get(f.name, "").replace("`", ""),
        }
        for f in dataclasses.fields(kind)
    ]


def _plain(value: Any) -> Any:
    return value if isinstance(value, int | float | str | None) else str(value)


def print_described(out: Any, data: dict[str, Any]) -> None:
    """For people."""
    out.print(f"{data['title']}: {data['summary']}", style="bold", soft_wrap=True)
    out.print(f"tags {', '.join(data['tags'])}; bytes of {data['twin']}", soft_wrap=True)
    out.print(data["call"] + "\n", soft_wrap=True)
    rows = [(o["name"], role, f"{o['dtype']}{o['shape']}") for role in ("input", "output") for o in data[f"{role}s"]]
    preset = "this" if "this" in data["presets"] else data["preset"]
    out.print(table([f"operands of {preset}", "role", "array"], rows))
    out.print()
    presets = data["presets"]
    fields = [(f["name"], *(_shown(presets[p][f["name"]]) for p in presets), f["meaning"]) for f in data["fields"]]
    out.print(table(["config", *presets, "meaning"], fields, right=list(presets)))


def _shown(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else "-" if value is None else str(value)
