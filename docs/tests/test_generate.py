"""What the generator promises: no example escapes the tests, outputs are what is printed, each group has a page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import markdown
import pytest

from conformance.harness import transcripts
from docs.conftest import SYBIL
from docs.generate import cli, examples, hook, project
from docs.generate.reference import DIALECTS, THEMES
from docs.generate.site import MADE, NO_PAGES, ROOT, WRITTEN, Site, code, fenced, prose, table, tabs
from docs.tests.built import NO_SITE
from mosaic_tpu.aot import _cache
from mosaic_tpu.builder import registry

PAGE = """# Page

```python title="kernel.py"
x = 2
print(x * 21)
```

```text
42
```

```python
print("again", x)
```

```bash
not run
```
"""


@pytest.fixture
def workspace() -> Iterator[examples.Workspace]:
    with examples.workspace() as made:
        yield made


def test_blocks_of_a_page_share_names_and_a_folder(workspace: examples.Workspace) -> None:
    first, second = examples.examples(PAGE)
    assert (first.line, first.shown, second.shown) == (4, "42\n", None)
    assert examples.same(first.run(workspace), first.shown)
    assert second.run(workspace) == "again 2\n"
    assert (workspace.folder / "kernel.py").read_text() == first.code


def test_an_output_that_is_not_printed_is_seen(workspace: examples.Workspace) -> None:
    first, second = examples.examples(PAGE.replace("42", "43"))
    assert not examples.same(first.run(workspace), first.shown)
    assert not examples.same(second.run(workspace), second.shown)


def test_outputs_are_written_into_the_page() -> None:
    wrong = PAGE.replace("42\n```", "43\n44\n```")
    written = examples.rewrite(wrong)
    assert written == PAGE.replace("x)\n```", "x)\n```\n\n```text\nagain 2\n```")
    assert examples.rewrite(written) == written


def test_a_block_that_fails_names_its_line(workspace: examples.Workspace) -> None:
    (example,) = examples.examples("```python\nx = 1\nx / 0\n```\n")
    with pytest.raises(ZeroDivisionError) as failed:
        example.run(workspace)
    assert str(failed.traceback[-1].path).endswith(examples.FILE) and failed.traceback[-1].lineno == 1


def test_the_compilers_answers_are_kept_for_the_page_alone(workspace: examples.Workspace) -> None:
    (example,) = examples.examples("```python\nfrom mosaic_tpu.aot import _cache\nprint(_cache.cache_folder())\n```\n")
    assert example.run(workspace) == f"{workspace.cache}\n"
    assert not workspace.cache.is_relative_to(workspace.folder)
    assert _cache.cache_folder() != workspace.cache


def test_a_transcript_runs_beside_the_files_of_its_page(workspace: examples.Workspace) -> None:
    page = (
        '```json title="mine.json"\n{"kernel": "matmul", "m": 512}\n```\n\n'
        "```console\n$ mosaic-tpu lint mine.json --target v6e\nall is well\n```\n"
    )
    file, transcript = examples.examples(page)
    assert file.run(workspace) == ""
    assert not examples.same(transcript.run(workspace), transcript.shown)
    right = page.replace("all is well", "matmul_kernel for v6e: nothing found")
    assert examples.rewrite(page) == right
    assert examples.rewrite(right) == right


def test_no_page_with_examples_is_passed_over() -> None:
    found = examples.pages()
    assert WRITTEN / "index.md" in found
    assert [file for file in found if not SYBIL.should_parse(file)] == []


def test_every_block_of_the_site_that_could_run_is_run() -> None:
    """Made pages have blocks of source and signatures, which are indented or of another language."""
    made = sorted((MADE / "pages").rglob("*.md"))
    assert made, NO_SITE
    for page in made:
        inside = page.relative_to(MADE / "pages")
        written = WRITTEN / inside
        text = written.read_text(encoding="utf-8") if written.exists() else ""
        tested = [text[example.start : example.end] for example in examples.examples(text)]
        if inside == Path("reference/cli.md"):  # the tests of the package run the transcripts of its README
            tested.append(cli.README.read_text(encoding="utf-8"))
        for found in transcripts.BLOCK.finditer(page.read_text(encoding="utf-8")):
            ran = found["language"] not in ("python", "console") or any(found["text"] in run for run in tested)
            assert ran, f"{inside} has a block that nobody runs:\n{found[0]}"


def unseen(text: str) -> list[str]:
    """Fences of a written page that no test would see: of a language that is not known, or not at the left."""
    known = ("python", "console", "text", "mlir", "diff", "bash")
    blocks = list(transcripts.BLOCK.finditer(text))
    other = [b[0] for b in blocks if b["language"] not in known and transcripts.title(b["options"]) is None]
    return [*other, *re.findall(r"^.*(?:```|~~~).*", transcripts.BLOCK.sub("", text), re.MULTILINE)]


def test_no_block_of_a_written_page_is_unseen() -> None:
    written = [f for f in WRITTEN.rglob("*.md") if f.relative_to(WRITTEN).parts[0] not in NO_PAGES]
    assert {f.name: found for f in written if (found := unseen(f.read_text(encoding="utf-8")))} == {}


@pytest.mark.parametrize("language", ["py", "python3", "pycon", "sh"])
def test_blocks_of_other_forms_are_seen(language: str) -> None:
    assert unseen(PAGE) == []
    assert unseen('```json title="x.json"\n{}\n```\n') == []
    assert unseen(f"```{language}\nx\n```\n") == [f"```{language}\nx\n```"]
    for block in ("    ```python\n    x\n    ```", "- ```python\n  x\n  ```", "~~~python\nx\n~~~", "```\nx\n```"):
        assert len(unseen(block + "\n")) == 2


def test_pages_are_no_folders_of_the_generator() -> None:
    assert all((WRITTEN / name).is_dir() for name in NO_PAGES if name != "__pycache__")
    assert not any((MADE / "pages" / name).exists() for name in NO_PAGES)


def test_every_group_of_the_registry_has_a_page() -> None:
    groups = {spec.group for spec in registry().values()}
    assert groups == {*DIALECTS, *(f"pallas.{theme}" for theme in THEMES)}


def test_tabs_are_indented() -> None:
    assert tabs(("a", "one\n\ntwo")) == '=== "a"\n\n    one\n\n    two\n'


def test_a_fragment_of_no_known_kind_ends_the_build() -> None:
    kinds = ("added", "fixed")
    named = {"3.added.md": "added", "+a.b.fixed.md": "fixed", "3.added.2.md": "added"}
    assert {name: project.kind_of(name, kinds) for name in named} == named
    for name in ("3.improved.md", "added.md", "notes.md"):
        with pytest.raises(SystemExit, match=f"changelog.d/{re.escape(name)} is of no kind"):
            project.kind_of(name, kinds)


def test_the_changelog_has_every_fragment_below_its_kind() -> None:
    page = (MADE / "pages/project/changelog.md").read_text(encoding="utf-8")
    waiting = page.partition("## Not released yet")[2]
    for file in (ROOT / "changelog.d").glob("*.*.md"):
        first = file.read_text(encoding="utf-8").strip().splitlines()[0]
        above = waiting.partition(re.sub(r"\[([^\]]+)\]\([^)]+\)", r"\1", first))[0]
        assert above != waiting, f"{file.name} is not on the page"
        assert re.findall(r"^### (\w+)$", above, re.MULTILINE)[-1].lower() in file.name


def test_mkdocs_finds_the_navigation_from_any_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    config = hook.on_config(SimpleNamespace(nav=[{"Home": "index.md"}, {"Kernel zoo": "zoo/*"}]))
    assert config.nav[0] == {"Home": "index.md"}
    assert {"Matmul": "zoo/matmul.md"} in config.nav[1]["Kernel zoo"]
    monkeypatch.setattr(hook, "NAV", tmp_path / "nav.json")
    with pytest.raises(SystemExit, match="The pages are not made yet"):
        hook.on_config(config)


# --- marks ---------------------------------------------------------------------------------------------------------


def test_a_mark_that_nothing_fills_ends_the_build(tmp_path: Path) -> None:
    site = Site(tmp_path / "pages")
    site.pages.mkdir()
    (site.pages / "index.md").write_text("<!-- made: one -->\n\n<!-- made: two -->\n")
    site.fill("index.md", one="1")
    with pytest.raises(SystemExit, match=re.escape("index.md has <!-- made: two -->, which nothing fills")):
        site.write_nav()
    with pytest.raises(SystemExit, match=re.escape("index.md has no <!-- made: three -->")):
        site.fill("index.md", three="3")
    site.fill("index.md", two="2")
    site.write_nav()
    assert (site.pages / "index.md").read_text() == "1\n\n2\n"


# --- any text as Markdown --------------------------------------------------------------------------------------------

HOSTILE = (
    "vector<8x128xf32> to <b>",
    "a | b || c",
    "*no* __strong__ _x_",
    "[link](http://x) [ref][x] ![x](y)",
    "a ` tick, and ``` three",
    "&amp; &lt; {.class} {: #id }",
    "back\\slash \\| \\`",
    "# 1. > no",
)


def rendered(text: str) -> list[str]:
    """The text of the cells and blocks that MkDocs makes of Markdown."""
    html = markdown.markdown(
        text, extensions=["attr_list", "md_in_html", "tables", "pymdownx.superfences", "pymdownx.inlinehilite"]
    )
    root = ElementTree.fromstring(f"<div>{html}</div>".replace("&nbsp;", " "))
    assert {part.tag for part in root.iter()} <= {
        "div",
        "table",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
        "p",
        "code",
        "pre",
        "span",
    }
    cells = [*root.iter("td")] or list(root)
    return ["".join(cell.itertext()).strip() for cell in cells]


@pytest.mark.parametrize("text", HOSTILE)
def test_any_text_is_shown_as_it_is(text: str) -> None:
    plain = text.replace("`", "'")  # ticks in prose are code
    assert rendered(table(("a", "b"), [(prose(plain), "z")])) == [plain, "z"]
    assert rendered(table(("a", "b"), [(code(text), "z")])) == [text, "z"]
    assert rendered(prose("x " + plain)) == ["x " + plain]
    assert rendered(fenced(text)) == [text]


def test_inline_code_of_a_docstring_stays_code() -> None:
    assert prose("``a_b | c`` and `d_e`, but f_g") == "`a_b | c` and `d_e`, but f&#95;g"
    assert rendered(table(("a", "b"), [(prose("``x | y`` or `z`"), "z")])) == ["x | y or z", "z"]


def test_the_cheat_sheet_has_bars_without_backslashes() -> None:
    parts = {file.stem: file.read_text(encoding="utf-8") for file in (MADE / "pages/cheat-sheet").glob("*.md")}
    assert "| `x | y` | `x | y` |" in parts["elementwise"]
    assert [name for name, page in parts.items() if "\\|" in page] == []


def test_no_code_of_a_help_text_starts_inside_another() -> None:
    assert cli._prose("Once `nox -s conformance` has run, - or --set a_b=1,2: <x>") == (
        "Once `nox -s conformance` has run, `-` or `--set a_b=1,2`: &#60;x&#62;"
    )
    page = re.sub(
        r"^ *```.*?^ *```", "", (MADE / "pages/reference/cli.md").read_text(encoding="utf-8"), flags=re.M | re.S
    )
    assert "once `nox -s conformance` has run" in page
    assert "`--vary block_m=256,512`" in page
    assert "``" not in page
