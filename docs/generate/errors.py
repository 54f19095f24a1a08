"""The catalogue of errors, from the modules that define them."""

from __future__ import annotations

import importlib
import inspect
from types import ModuleType
from typing import Any, Final

from docs.generate.site import Site, prose, table
from mosaic_tpu import aot

#: What defines errors, and what they are about. The zoo raises those of the kernel package.
PACKAGES: Final = {
    "builder.errors": "Raised while a kernel is built, at the kernel's line.",
    "kernel.errors": "Raised when a kernel is defined, configured or called.",
    "sim.errors": "Raised, or gathered with `collect=True`, while a kernel is simulated.",
    "aot.errors": "What the TPU compiler refused, and what was handed to it in vain.",
    "lift.errors": "Raised when a module cannot be read back.",
    "cli._errors": "Of the command line, with exit code 2, `OutputError` with 1. Any other error of this page ends it "
    "with exit code 1, `FlagError` with 2, a time-out with 124.",
}


def write(site: Site) -> None:
    """Fill the catalogue, and the table of what the compiler refuses."""
    parts: list[str] = []
    for name, about in PACKAGES.items():
        module = importlib.import_module(f"mosaic_tpu.{name}")
        own = _defined(module, Exception)
        title = f"mosaic_tpu.{name}" if "._" not in name else f"mosaic_tpu.{name.partition('.')[0]}"
        parts.append(f"## {title}\n\n{about}\n")
        parts += [_entry(error) for error in own]
    site.fill("reference/errors.md", errors="\n".join(parts))
    kinds = [
        (f"[`{error.__name__}`](../reference/errors.md#{anchor(error)})", _about(error), prose(error.default_hint))
        for error in _defined(aot.errors, aot.CompileError)[1:]
    ]
    site.fill("how-to/read-a-compile-error.md", kinds=table(("class", "what it says", "what helps"), kinds))


def _defined(module: ModuleType, base: type[Any]) -> list[type[Any]]:
    """The errors of a base that a module defines, in its order."""
    classes = [found for _, found in inspect.getmembers(module, inspect.isclass) if found.__module__ == module.__name__]
    return sorted((c for c in classes if issubclass(c, base)), key=lambda c: inspect.getsourcelines(c)[1])


def anchor(error: type[Any]) -> str:
    """Where on the page it is. Packages have errors of the same name."""
    return f"{error.__module__.split('.')[1]}-{error.__name__.lower()}"


def _entry(error: type[Any]) -> str:
    bases = [base.__name__ for base in error.__bases__ if base is not Exception]
    lines = [f"### {error.__name__} {{#{anchor(error)}}}\n", _about(error) + "\n"]
    hint = vars(error).get("default_hint")
    if hint:
        lines.append(f"*Hint*: {prose(hint)}\n")
    if bases:
        lines.append(f"*Is a* {', '.join(f'`{base}`' for base in bases)}.\n")
    return "\n".join(lines)


def _about(error: type[Any]) -> str:
    """The docstring's prose, without its table of attributes."""
    return prose((inspect.getdoc(error) or "").partition("\n\nAttributes:")[0])
