"""The reference says all there is: each verb with its options and the form of its answers, each error."""

import ast
import inspect
import json
import re
from pathlib import Path
from typing import Annotated, Any, Literal

import griffe
import pytest
from cyclopts import App, Parameter

from conformance.cheat_sheet import is_zig
from conformance.harness.command import cli
from docs.generate.cheatsheet import about, entries, name, split
from docs.generate.cli import FORMS, Verb, _value, verbs
from docs.generate.errors import PACKAGES
from docs.generate.site import ARTEFACTS, MADE, ROOT, WRITTEN
from docs.generate.zoo import roofline_expression
from docs.tests.built import NO_SITE, SITE
from mosaic_tpu import aot, zoo
from mosaic_tpu.builder import registry
from mosaic_tpu.cli._describe import meanings

VERBS = list(verbs())


def page_text(path: str) -> str:
    file = MADE / "pages" / path
    assert file.exists(), NO_SITE
    return file.read_text(encoding="utf-8")


def section(verb: Verb) -> str:
    _, _, found = page_text("reference/cli.md").partition(f"{{#{verb.anchor}}}\n")
    return found.partition("\n## ")[0]


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.name)
def test_a_verb_has_all_that_its_help_has(verb: Verb, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    said = cli(*verb.words, "--help").out
    page = page_text("reference/cli.md")
    options = set(re.findall(r"(?<![\w-])--[a-z][\w-]*", said)) - {"--help", "--version"}
    shown = section(verb) + page.partition("## Common options")[2].partition("\n## ")[0]
    assert sorted(option for option in options if f"`{option}" not in shown) == []
    usage = said.partition("\n")[0].removeprefix("Usage: ").rstrip()
    # Arguments that may be left out have their name on the page.
    assert f"\n{usage.removesuffix(' [ARGS]')}" in section(verb)


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.name)
def test_a_verb_that_answers_in_json_shows_the_form(verb: Verb) -> None:
    answers = "--json" in cli(*verb.words, "--help").out
    assert answers == (f'"schema": "mosaic-tpu/{verb.anchor}/1"' in section(verb))


@pytest.mark.parametrize(
    ("hint", "word"),
    [
        (int, "N"),
        (Path | None, "FILE"),
        (list[Path] | None, "FILE"),
        (Literal["a", "b"], "CHOICE"),
        (str | None, "TEXT"),
        (float, None),
        (int | str, None),
        (dict[str, int], None),
    ],
)
def test_an_options_value_is_told_by_its_type(hint: Any, word: str | None) -> None:
    app = App()

    @app.default
    def _verb(*, some_path: Annotated[hint, Parameter(name="--interval")]) -> None: ...

    (argument,) = Verb(("x",), app).arguments()
    if word is None:
        with pytest.raises(SystemExit, match=r"--interval takes a .* which has no word"):
            _value(argument)
    else:
        assert _value(argument) == f" {word}"


def test_forms_are_those_of_the_tests() -> None:
    """Written on fewer lines, and nothing else."""
    shown = [json.loads(text) for text in re.findall(r"```json\n(.*?)```", page_text("reference/cli.md"), re.DOTALL)]
    held = [json.loads(file.read_text(encoding="utf-8")) for file in FORMS.glob("*.json")]
    assert len(shown) > len(VERBS)
    assert [form for form in shown if form not in held] == []


def test_every_public_error_is_in_the_catalogue() -> None:
    page = page_text("reference/errors.md")
    for folder in (*ROOT.glob("packages/*/src/mosaic_tpu/*"), *ROOT.glob("zoo/src/mosaic_tpu/*")):
        for file in folder.rglob("*.py"):
            private = any(part.startswith("_") for part in file.relative_to(folder).parts)
            if private and f"{folder.name}.{file.stem}" not in PACKAGES:
                continue
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                if isinstance(node, ast.ClassDef) and re.fullmatch(r"[A-Z]\w*Error", node.name):
                    assert f"{{#{folder.name}-{node.name.lower()}}}" in page, f"{file} has {node.name}"


@pytest.mark.parametrize("name", zoo.KERNELS)
def test_the_meanings_of_a_configs_fields_are_those_in_its_docstring(name: str) -> None:
    config = zoo.KERNELS[name].kernel.config
    sections = griffe.Docstring(inspect.getdoc(config) or "").parse("google", warnings=False)
    found = [item for s in sections if s.kind is griffe.DocstringSectionKind.attributes for item in s.value]
    assert meanings(config) == {item.name: item.description.replace("\n", " ") for item in found} != {}


@pytest.mark.parametrize("name", zoo.KERNELS)
def test_the_verb_of_a_zoo_page_prints_what_the_page_shows(name: str) -> None:
    said = cli("zoo", "emit", f"{name}:default").out
    page = page_text(f"zoo/{name}.md")
    assert f"`mosaic-tpu zoo emit {name}:default`" in page
    assert "\n".join(f"    {line}" if line else "" for line in said.rstrip().splitlines()) in page


@pytest.mark.parametrize(
    ("op", "zig"), [("exp2", True), ("for_", True), ("vector_load_idx", False), ("assert_", False), ("addf", False)]
)
def test_only_a_zig_spelling_is_called_one(op: str, zig: bool) -> None:
    spec = registry()[op]
    assert is_zig(spec) == zig
    text = page_text(f"reference/ops/{spec.group}.md")
    assert (f"Zig DSL](../../coming-from/zig.md) `{spec.source}`" in text) == zig


def test_no_signature_has_a_private_field() -> None:
    private = re.compile(r"^\s+_[a-z]\w*: ", re.MULTILINE)
    files = sorted(SITE.glob("reference/*.html"))
    assert files, NO_SITE
    text = {file.name: re.sub(r"<[^>]*>", "", file.read_text(encoding="utf-8")) for file in files}
    assert [page for page, shown in text.items() if private.search(shown)] == []
    assert "ir_version: int | None" in text["kernel.html"]
    assert private.search("    _stablehlo: Callable")


def test_every_part_of_the_cheat_sheet_has_a_page() -> None:
    _, parts = split((WRITTEN / "cheat-sheet.md").read_text(encoding="utf-8"))
    assert len(parts) > 20
    contents = page_text("cheat-sheet.md")
    for title, text in parts:
        assert f"| [{title}](cheat-sheet/{name(title)}.md) | {about(text)} | {entries(text)} |" in contents
        assert text.strip().replace("\\|", "|") in page_text(f"cheat-sheet/{name(title)}.md")
        assert not about(text).startswith("|")


def test_the_expression_below_a_roofline_draws_it() -> None:
    info = zoo.KERNELS["matmul"]
    drawn = eval(roofline_expression(info, "v6e"), {"aot": aot, "KERNELS": zoo.KERNELS})
    kept = (ARTEFACTS / "zoo" / "matmul-v6e-roofline.svg").read_text(encoding="utf-8")
    said = re.compile(r"<(?:title|desc)\b.*?</(?:title|desc)>", re.DOTALL)
    assert said.findall(drawn) == said.findall(kept)
    for file in (ARTEFACTS / "zoo").glob("*-v6e-roofline.svg"):
        other = zoo.KERNELS[file.name.removesuffix("-v6e-roofline.svg")]
        assert roofline_expression(other, "v6e") in page_text(f"zoo/{other.name}.md")
        assert "…" not in roofline_expression(other, "v6e")


def test_pages_speak_of_kernels_in_terms_of_the_field() -> None:
    pages = sorted((MADE / "pages").rglob("*.md"))
    assert pages, NO_SITE
    assert [page.name for page in pages if re.search(r"\bseed's\b", page.read_text(encoding="utf-8"))] == []
