"""The catalogue of errors, from the modules that define them."""

from __future__ import annotations

import importlib
import inspect
import re
from typing import Any, Final

from docs.generate.site import Site

PACKAGES: Final = ("builder", "kernel", "sim", "aot", "lift")
#: What each package's errors are about.
_ABOUT: Final = {
    "builder": "Raised while a kernel is built, at the kernel's line.",
    "kernel": "Raised when a kernel is defined, configured or called.",
    "sim": "Raised, or gathered with `collect=True`, while a kernel is simulated.",
    "aot": "What the TPU compiler refused, and what was handed to it in vain.",
    "lift": "Raised when a module cannot be read back.",
}


def write(site: Site) -> None:
    """Write the page."""
    parts: list[str] = []
    for package in PACKAGES:
        module = importlib.import_module(f"mosaic_tpu.{package}.errors")
        own = [
            found
            for _, found in inspect.getmembers(module, inspect.isclass)
            if issubclass(found, Exception) and found.__module__ == module.__name__
        ]
        own.sort(key=lambda found: inspect.getsourcelines(found)[1])
        parts.append(f"## mosaic_tpu.{package}.errors\n\n{_ABOUT[package]}\n")
        parts += [_entry(error) for error in own]
    site.fill("reference/errors.md", errors="\n".join(parts))


def _entry(error: type[Any]) -> str:
    anchor = error.__name__.lower()
    bases = [base.__name__ for base in error.__bases__ if base is not Exception]
    lines = [f"### {error.__name__} {{#{anchor}}}\n", _prose(inspect.getdoc(error) or "") + "\n"]
    hint = vars(error).get("default_hint")
    if hint:
        lines.append(f"*Hint*: {_escaped(hint)}\n")
    if bases:
        lines.append(f"*Is a* {', '.join(f'`{base}`' for base in bases)}.\n")
    return "\n".join(lines)


def _prose(text: str) -> str:
    """The docstring's prose, without its table of attributes."""
    return re.sub(r"``(.+?)``", r"`\1`", text.partition("\n\nAttributes:")[0])


def _escaped(text: str) -> str:
    return text.replace("<", "&lt;").replace("*", "\\*").replace("_", "\\_").replace("[", "\\[")
