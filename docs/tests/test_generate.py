"""What the generator promises: no example escapes the tests, outputs are what is printed, each group has a page."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from docs.conftest import SYBIL
from docs.generate import examples
from docs.generate.reference import DIALECTS, THEMES
from docs.generate.site import MADE, NO_PAGES, ROOT, WRITTEN, code, tabs
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
    block = re.compile(r"^```(?:python|console).*?^```$", re.MULTILINE | re.DOTALL)
    for page in made:
        inside = page.relative_to(MADE / "pages")
        written = WRITTEN / inside
        text = written.read_text(encoding="utf-8") if written.exists() else ""
        tested = [text[example.start : example.end] for example in examples.examples(text)]
        # The tests of the package run the transcripts of its README.
        tested.append((ROOT / "packages/cli/README.md").read_text(encoding="utf-8"))
        for found in block.findall(page.read_text(encoding="utf-8")):
            inner = found.partition("\n")[2].removesuffix("```")
            assert any(inner in run for run in tested), f"{inside} has a block that nobody runs:\n{found}"


def test_pages_are_no_folders_of_the_generator() -> None:
    assert all((WRITTEN / name).is_dir() for name in NO_PAGES if name != "__pycache__")
    assert not any((MADE / "pages" / name).exists() for name in NO_PAGES)


def test_every_group_of_the_registry_has_a_page() -> None:
    groups = {spec.group for spec in registry().values()}
    assert groups == {*DIALECTS, *(f"pallas.{theme}" for theme in THEMES)}


def test_code_in_a_table_keeps_its_bars() -> None:
    assert code("x | y") == "<code>x &#124; y</code>"
    assert code("x") == "`x`"
    assert tabs(("a", "one\n\ntwo")) == '=== "a"\n\n    one\n\n    two\n'
