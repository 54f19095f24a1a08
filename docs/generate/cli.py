"""The reference of the command line: each verb as its app describes it, with its transcripts and its answer's form."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any, Final, Literal, get_args, get_origin

from conformance.harness import transcripts
from docs.generate import examples
from docs.generate.site import ROOT, WRITTEN, Site, code, fenced, outside, prose, table
from mosaic_tpu.cli._errors import EXIT_CODES
from mosaic_tpu.cli._main import GROUPS, NAME, VERBS, app

if TYPE_CHECKING:
    from cyclopts import App, Argument

README: Final = ROOT / "packages/cli/README.md"
#: What the tests of the command hold its answers in JSON to: names and kinds.
FORMS: Final = ROOT / "packages/cli/tests/golden"
#: The same in Python, for verbs that are a call.
_PYTHON: Final = {
    "zoo list": ("mosaic_tpu.zoo.KERNELS", "zoo.md"),
    "zoo show": ("mosaic_tpu.zoo.KernelInfo", "zoo.md#mosaic_tpu.zoo.KernelInfo"),
    "zoo emit": ("Kernel.emit", "kernel.md#mosaic_tpu.kernel.Kernel.emit"),
    "zoo run": ("Kernel.simulate", "kernel.md#mosaic_tpu.kernel.Kernel.simulate"),
    "ir diff": ("mosaic_tpu.lift.diff", "lift.md#mosaic_tpu.lift.diff"),
    "ir lift": ("mosaic_tpu.lift.lift", "lift.md#mosaic_tpu.lift.lift"),
    "simulate": ("mosaic_tpu.sim.simulate", "sim.md#mosaic_tpu.sim.simulate"),
    "lint": ("mosaic_tpu.aot.lint", "aot.md#mosaic_tpu.aot.lint"),
    "compile": ("mosaic_tpu.aot.compile_all", "aot.md#mosaic_tpu.aot.compile_all"),
    "schedule": ("mosaic_tpu.aot.compile", "aot.md#mosaic_tpu.aot.compile"),
    "tune": ("mosaic_tpu.aot.tune", "aot.md#mosaic_tpu.aot.tune"),
}
#: An option in a help text, or the ``-`` that stands for a stream.
_OPTION: Final = re.compile(r"(?<!\w)(--?[a-z][\w-]*(?: \w+=[\w,]+)?|(?<= )-(?= ))")
#: What stands for the value of an option that has no word of its own.
_VALUES: Final[dict[Any, str]] = {Literal: "CHOICE", Path: "FILE", int: "N", str: "TEXT", "--timeout": "SECONDS"}
#: Characters of a form's line.
_LINE: Final = 80


@dataclass(frozen=True)
class Verb:
    """A verb, or one of a group.

    Attributes:
        words: what is typed after the command's name.
        app: what cyclopts knows of it.
    """

    words: tuple[str, ...]
    app: App = field(repr=False)

    @property
    def name(self) -> str:
        """As one types it."""
        return " ".join(self.words)

    @property
    def anchor(self) -> str:
        """On the page."""
        return "-".join(self.words)

    @property
    def doc(self) -> str:
        """All of its help."""
        return inspect.getdoc(self.app.default_command) or ""

    @property
    def summary(self) -> str:
        """The first sentence of it."""
        return self.doc.partition("\n\n")[0].replace("\n", " ")

    def arguments(self) -> list[Argument]:
        """What it takes, as its help lists it."""
        return [argument for argument in self.app.assemble_argument_collection() if argument.show]


def verbs() -> Iterator[Verb]:
    """All, in the order of the command's help."""
    for name in VERBS:
        found = app(name)[name]
        for inner in GROUPS.get(name, ()):
            yield Verb((name, inner), found[inner])
        if name not in GROUPS:
            yield Verb((name,), found)


def write(site: Site) -> None:
    """Fill the page."""
    found = list(verbs())
    rows = [(f"[`{verb.name}`](#{verb.anchor})", _prose(verb.summary)) for verb in found]
    site.fill(
        "reference/cli.md",
        verbs=table(("verb", "what it does"), rows),
        common=_options([a for a in found[0].arguments() if _is_common(a)]),
        codes=table(("exit code", "when"), ((f"`{number}`", _prose(when)) for number, when in EXIT_CODES.items())),
        error=fenced(_form("error") or "", "json"),
        written=fenced(_form("written") or "", "json"),
        each="\n".join(map(_section, found)),
    )


def _section(verb: Verb) -> str:
    parts = [f"## {NAME} {verb.name} {{#{verb.anchor}}}\n", fenced(_usage(verb)) + "\n", _prose(verb.doc) + "\n"]
    own = [argument for argument in verb.arguments() if not _is_common(argument)]
    if own:
        parts.append(_options(own) + "\n")
    if len(own) == len(verb.arguments()):
        parts.append("It takes none of the common options.\n")
    if verb.name in _PYTHON:
        name, link = _PYTHON[verb.name]
        parts.append(f"In Python: [`{name}`]({link}).\n")
    used = [f"[{title}](../{path})" for title, path in _used_in(verb.words)]
    if used:
        parts.append(f"Used in {', '.join(used)}.\n")
    parts += _transcripts(verb.words)
    for stem, title in ((verb.anchor, "in JSON"), (f"{verb.anchor}-table", "in JSON, with `--table`")):
        if form := _form(stem):
            inside = "\n".join(f"    {line}" for line in fenced(form, "json").splitlines())
            parts.append(f'??? note "{NAME} {verb.name} {title}"\n\n{inside}\n')
    return "\n".join(parts)


def _usage(verb: Verb) -> str:
    positional = [a.name for a in verb.arguments() if a.field_info.is_positional]
    options = ["[OPTIONS]"] if len(positional) < len(verb.arguments()) else []
    shown = [name if a.required else f"[{name}]" for name, a in zip(positional, verb.arguments(), strict=False)]
    return " ".join([NAME, verb.name, *options, *shown])


def _prose(text: str) -> str:
    """A help text as Markdown, with its options, and what follows one to show its use, as code."""
    return prose(outside(text, lambda part: _OPTION.sub(r"`\1`", part)))


def _is_common(argument: Argument) -> bool:
    return any(group.name == "Common" for group in _groups(argument))


def _groups(argument: Argument) -> tuple[Any, ...]:
    group = argument.parameter.group
    return group if isinstance(group, tuple) else (group,)


def _options(arguments: list[Argument]) -> str:
    return table(("argument", "what it is", "default"), map(_row, arguments))


def _row(argument: Argument) -> tuple[str, str, str]:
    names = [name for name in argument.names if name not in argument.negatives]
    value = "" if argument.field_info.is_positional else _value(argument)
    shown = ", ".join(f"`{name}{value}`" for name in (*names, *argument.negatives))
    told = _prose(argument.parameter.help or "")
    choices = argument.get_choices()
    if choices:
        told += " One of " + ", ".join(map(code, choices)) + "."
    return shown, told, "required" if argument.required else _default(argument)


def _default(argument: Argument) -> str:
    default = argument.field_info.default
    if default is None or argument.parameter.show_default is False:
        return ""
    return code(argument.names[0] if default is True else default)


def _value(argument: Argument) -> str:
    """What follows an option: nothing after one that is on or off."""
    if argument.hint is bool:
        return ""
    word = argument.parameter.metavar or _VALUES.get(argument.name) or _VALUES.get(_kind(argument.hint))
    if word is None:
        raise SystemExit(f"{argument.name} takes a {argument.hint}, which has no word: give it a metavar")
    return f" {word}"


def _kind(hint: Any) -> Any:
    """Of one value: without lists of them, and without None."""
    if get_origin(hint) is Literal:
        return Literal
    inner = [kind for kind in get_args(hint) if kind is not NoneType]
    return _kind(inner[0]) if len(inner) == 1 else hint


@cache
def _forms() -> dict[str, str]:
    """The form of each answer by its golden file's stem; of several for one schema, the first stands for it."""
    found: dict[str, str] = {}
    for file in sorted(FORMS.glob("*.json")):
        form = json.loads(file.read_text(encoding="utf-8"))
        found[file.stem] = _dense(form)
        found.setdefault(form["schema"].split("/")[1], found[file.stem])
    return found


def _dense(value: Any, indent: int = 0) -> str:
    """JSON, what fits into a line on one."""
    line = json.dumps(value)
    if indent + len(line) <= _LINE or not value or not isinstance(value, dict | list):
        return line
    inner = " " * (indent + 2)
    if isinstance(value, list):
        parts, ends = [_dense(v, indent + 2) for v in value], "[]"
    else:
        parts, ends = [f"{json.dumps(n)}: {_dense(v, indent + 2)}" for n, v in value.items()], "{}"
    return f"{ends[0]}\n{inner}" + f",\n{inner}".join(parts) + f"\n{' ' * indent}{ends[1]}"


def _form(stem: str) -> str | None:
    return _forms().get(stem)


def _is_of(step: transcripts.Step, words: tuple[str, ...]) -> bool:
    return step.command.split()[1 : 1 + len(words)] == list(words)


def _transcripts(words: tuple[str, ...]) -> Iterator[str]:
    """What the package's README shows of the verb, and the files that this reads."""
    text = README.read_text(encoding="utf-8")
    blocks = list(transcripts.BLOCK.finditer(text))
    shown = [
        step
        for block in blocks
        if block["language"] == "console"
        for step in transcripts.steps(block["text"])
        if _is_of(step, words)
    ]
    for block in blocks:
        name = transcripts.title(block["options"])
        if name and any(name in step.command for step in shown):
            yield fenced(block["text"], block["language"], name) + "\n"
    if shown:
        yield fenced("".join(map(str, shown)), "console") + "\n"


@cache
def _pages() -> list[tuple[str, str, list[transcripts.Step]]]:
    """Pages with transcripts: title, path, steps."""
    found: list[tuple[str, str, list[transcripts.Step]]] = []
    for file in examples.pages():
        text = file.read_text(encoding="utf-8")
        blocks = [e.code for e in examples.examples(text) if e.language == "console"]
        steps = [step for block in blocks for step in transcripts.steps(block)]
        heading = re.search(r"^# (.+)$", text, re.MULTILINE)
        if steps and heading:
            found.append((heading[1], file.relative_to(WRITTEN).as_posix(), steps))
    return found


def _used_in(words: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    for title, path, steps in _pages():
        if any(_is_of(step, words) for step in steps):
            yield title, path
