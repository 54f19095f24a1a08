"""The reference: a page per dialect and per theme of idioms from the registry, and the packages' public names."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from types import ModuleType
from typing import Final

from conformance.cheat_sheet import is_zig
from docs.generate.errors import anchor
from docs.generate.site import Site, code, fenced, prose, table
from mosaic_tpu import aot, builder, kernel, lift, sim, zoo
from mosaic_tpu.builder import OpSpec, registry

#: What a group of the registry is, one sentence each; the order is that of the navigation.
DIALECTS: Final = {
    "arith": "Arithmetic on scalars and vectors of integers and floats, comparisons and conversions.",
    "math": "Functions of floats, and a few of integers.",
    "vector": "Vectors whole: loads, shapes, broadcasts and reductions.",
    "memref": "Scalars in SMEM, and views of refs.",
    "scf": "Loops and branches, as `with` blocks.",
    "cf": "Assertions.",
    "tpu": "What only a TPU has: strided loads, matmuls, DMAs, semaphores, rotations, packing.",
    "sparsecore": "Ops of the SparseCore.",
    "constants": "Numbers, and vectors filled with one.",
    "types": "MLIR types, for ops that take them.",
    "escape": "Any op that has no method, and MLIR's own hands.",
}
THEMES: Final = {
    "refs": "Loads and stores of refs.",
    "elementwise": "Arithmetic and comparisons with jnp's promotion and broadcasting.",
    "math": "Functions of jnp and lax.",
    "functions": "Functions of jax.nn, jax.scipy and lax.",
    "activations": "Activations of jax.nn.",
    "reductions": "Sums, extremes and their like.",
    "averages": "Means, variances and norms.",
    "choices": "Selections by a mask.",
    "shapes": "Shapes, broadcasts and conversions.",
    "movement": "Parts of vectors: slices, joins, turns.",
    "fills": "Vectors of one number, and positions.",
    "bits": "Bits and packing.",
    "random": "Random numbers.",
    "dot": "Products on the MXU.",
    "control": "Branches and loops.",
    "dma": "Copies and semaphores. A `RefLike` is a ref, or a view of one: `a.x`, `a.x.at[0:8]`.",
    "pipelines": "`pltpu.emit_pipeline`.",
    "debug": "Prints and assertions.",
}


@dataclass(frozen=True)
class Package:
    """A package's page.

    Attributes:
        module: whose public names it lists.
        text: what the package is for.
        first: names that come before the others.
        without: names that have pages of their own.
    """

    module: ModuleType
    text: str
    first: tuple[str, ...] = ()
    without: tuple[str, ...] = ()


#: Those of the builder that stand on its own page.
_SPECS: Final = (
    "Scalar", "Ref", "Window", "Sem", "SemArray", "Iter", "Buffered", "BoundedSlice", "ElementWindow", "program_id",
)  # fmt: skip
_PACKAGES: Final = (
    Package(kernel, "A kernel as a thing to call: emit, lower, run, simulate, compile.", ("Kernel", "LoweredKernel")),
    Package(sim, "Kernels run on a CPU, with their races seen.", ("simulate", "simulate_devices", "Report")),
    Package(aot, "The TPU compiler without a TPU.", ("compile", "compile_all", "Compilation", "lint", "vmem_need")),
    Package(lift, "Modules read back into source.", ("lift", "build", "run", "diff")),
    Package(zoo, "Kernels ready to call. Each has its [own page](../zoo/index.md).", without=("KERNELS",)),
)


def write(site: Site) -> None:
    """Write the section."""
    groups: dict[str, list[OpSpec]] = {}
    for spec in registry().values():
        groups.setdefault(spec.group, []).append(spec)
    missing = [g for g in groups if g not in DIALECTS and g.removeprefix("pallas.") not in THEMES]
    if missing:
        raise SystemExit(f"docs/generate/reference.py has no sentence for the groups {', '.join(missing)}")
    site.fill("reference/index.md", **_index(groups))
    site.link("reference", "Overview", "reference/index.md")
    site.add("reference", "Builder", "reference/builder.md", _builder_page())
    site.link("reference", "Value", "reference/value.md")
    for package in _PACKAGES:
        site.add("reference", package.module.__name__, f"reference/{_short(package)}.md", _package_page(package))
    site.link("reference", "Command line", "reference/cli.md")
    site.link("reference", "Errors", "reference/errors.md")
    for group, about in DIALECTS.items():
        page = _group_page(group.capitalize() if group in _PLAIN else group, about, groups.get(group, []), "b.")
        site.add("reference", group, f"reference/ops/{group}.md", page, under="Ops by dialect")
    for theme, about in THEMES.items():
        page = _group_page(f"b.pallas: {theme}", about, groups.get(f"pallas.{theme}", []), "b.")
        site.add("reference", theme, f"reference/idioms/{theme}.md", page, under="Idioms")


#: Classes of what a group's methods return.
_RETURNED: Final = {"pallas.dma": ("mosaic_tpu.builder.pallas.dma.AsyncCopy",)}
#: Characters of a signature that fit on a line of the page.
_WIDE: Final = 92
_PLAIN: Final = ("constants", "types", "escape")


def _index(groups: dict[str, list[OpSpec]]) -> dict[str, str]:
    def rows(names: dict[str, str], folder: str, prefix: str) -> Iterable[Sequence[str]]:
        for name, about in names.items():
            yield f"[{name}]({folder}/{name}.md)", str(len(groups.get(prefix + name, []))), about

    packages = [
        ("[Builder](builder.md)", "Declares arguments, holds the ops, finishes the module."),
        ("[Value](value.md)", "A scalar, vector or ref: operators, and what can be asked of it."),
        *((f"[{p.module.__name__}]({_short(p)}.md)", p.text) for p in _PACKAGES),
        ("[Command line](cli.md)", "`mosaic-tpu`: each verb with its options, exit codes and answers in JSON."),
        ("[Errors](errors.md)", "Every error, with its hint."),
    ]
    return {
        "packages": table(("page", "what it has"), packages),
        "dialects": table(("dialect", "ops", "what they do"), rows(DIALECTS, "ops", "")),
        "idioms": table(("theme", "idioms", "what they do"), rows(THEMES, "idioms", "pallas.")),
    }


def _short(package: Package) -> str:
    return package.module.__name__.rpartition(".")[2]


def _builder_page() -> str:
    methods = ("declare_args", "function", "finish", "type_of")
    shown = [name for name in methods if hasattr(builder.Builder, name)]
    rest = [n for n in builder.__all__ if n not in (*_SPECS, "Builder", "Value", "OpSpec", "registry")]
    classes = [n for n in rest if inspect.isclass(getattr(builder, n)) or inspect.isfunction(getattr(builder, n))]
    dtypes = [n for n in rest if isinstance(getattr(builder, n), builder.DType)]
    parts = ["# mosaic_tpu.builder\n", _identifier("mosaic_tpu.builder.Builder", members=shown)]
    parts += ["## What declare_args takes\n", *(_identifier(f"mosaic_tpu.builder.{name}", 3) for name in _SPECS)]
    parts += ["## Element types\n", ", ".join(f"`{name}`" for name in dtypes) + ".\n"]
    parts += ["## All else\n", *(_identifier(f"mosaic_tpu.builder.{name}", 3) for name in classes)]
    parts += ["## The registry\n", *(_identifier(f"mosaic_tpu.builder.{name}", 3) for name in ("OpSpec", "registry"))]
    return "\n".join(parts)


def _package_page(package: Package) -> str:
    name = package.module.__name__
    parts = [f"# {name}\n", package.text + "\n"]
    names = dict.fromkeys((*package.first, *(n for n in package.module.__all__ if n not in package.without)))
    errors = [n for n in names if n.endswith("Error")]
    for public in names:
        found = getattr(package.module, public)
        if public not in errors and (inspect.isclass(found) or inspect.isfunction(found)):
            parts.append(_identifier(f"{name}.{public}"))
    if errors:
        parts.append(
            "## Errors\n\n"
            + ", ".join(f"[`{e}`](errors.md#{anchor(getattr(package.module, e))})" for e in errors)
            + ".\n"
        )
    return "\n".join(parts)


def _group_page(title: str, about: str, specs: Sequence[OpSpec], prefix: str) -> str:
    parts = [f"# {title}\n", about + "\n"]
    rows = [(f"[`{prefix}{s.name}`](#{_anchor(s)})", ", ".join(map(code, s.emits)), _first_sentence(s)) for s in specs]
    parts.append(table(("method", "emits", "what it does"), rows) + "\n")
    parts += [_op(spec, prefix) for spec in specs]
    parts += [_identifier(path) for path in _RETURNED.get(specs[0].group if specs else "", ())]
    return "\n".join(parts)


def _op(spec: OpSpec, prefix: str) -> str:
    facts: list[str] = []
    if spec.emits:
        facts.append("Emits " + ", ".join(map(code, spec.emits)) + ".")
    if spec.source and spec.source not in spec.emits:
        whose = "In [ZML's Zig DSL](../../coming-from/zig.md)" if is_zig(spec) else "Stands for"
        facts.append(f"{whose} {code(spec.source)}.")
    path = f"{spec.function.__module__}.{spec.function.__qualname__}"
    name = spec.function.__name__
    called = f"{prefix}{spec.name}" if name in spec.name else f"{prefix}{name}"
    return "\n".join(
        [
            f"## `{called}` {{#{_anchor(spec)}}}\n",
            fenced(_signature(called, spec), "py") + "\n",
            " ".join(facts) + "\n",
            f"::: {path}\n    options:\n      show_root_heading: false\n      show_root_toc_entry: false\n"
            "      heading_level: 3\n",
        ]
    )


def _signature(called: str, spec: OpSpec) -> str:
    """The call as it is written, with types; an argument a line where it is long."""
    _, *parameters = inspect.signature(spec.function).parameters.values()
    shown: list[str] = []
    keyword_only = False
    for parameter in parameters:
        if parameter.kind is parameter.KEYWORD_ONLY and not keyword_only:
            keyword_only = True
            if not any(p.kind is p.VAR_POSITIONAL for p in parameters):
                shown.append("*")
        # Annotations are strings here, which `str(parameter)` would quote.
        annotated = (
            f"{parameter.name}: {parameter.annotation}"
            if parameter.annotation is not parameter.empty
            else parameter.name
        )
        stars = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
        default = "" if parameter.default is parameter.empty else f" = {_default(parameter.default)}"
        shown.append(stars + annotated + default)
    returns = inspect.signature(spec.function).return_annotation
    end = f") -> {returns}" if returns is not inspect.Signature.empty else ")"
    line = f"{called}({', '.join(shown)}{end}"
    return line if len(line) <= _WIDE else "\n".join([f"{called}(", *(f"    {p}," for p in shown), end])


def _default(value: object) -> str:
    return f"{type(value).__name__}.{value.name}" if isinstance(value, Enum) else repr(value)


def _anchor(spec: OpSpec) -> str:
    return spec.name.removeprefix("pallas.")


def _first_sentence(spec: OpSpec) -> str:
    return prose((inspect.getdoc(spec.function) or "").partition("\n\n")[0].replace("\n", " "))


def _identifier(path: str, level: int = 2, *, members: Sequence[str] | None = None) -> str:
    options = [f"      heading_level: {level}"]
    if members is not None:
        options.append("      members: [" + ", ".join(members) + "]")
    return f"::: {path}\n    options:\n" + "\n".join(options) + "\n"
