"""What the generator promises: no example escapes the tests, outputs are what is printed, drawings stay legible."""

from __future__ import annotations

import re

import pytest

from docs.generate import examples
from docs.generate.artefacts import BATCHES, smaller
from docs.generate.reference import DIALECTS, THEMES
from docs.generate.site import ARTEFACTS, MADE, NO_PAGES, WRITTEN, artefact, code, tabs
from docs.tests.built import NO_SITE
from mosaic_tpu import zoo
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


def test_blocks_of_a_page_share_their_names() -> None:
    first, second = examples.examples(PAGE)
    assert (first.line, first.shown, second.shown) == (4, "42\n", None)
    names: dict[str, object] = {}
    assert examples.same(first.run(names), first.shown)
    assert second.run(names) == "again 2\n"


def test_an_output_that_is_not_printed_is_seen() -> None:
    first, second = examples.examples(PAGE.replace("42", "43"))
    names: dict[str, object] = {}
    assert not examples.same(first.run(names), first.shown)
    assert not examples.same(second.run(names), second.shown)


def test_outputs_are_written_into_the_page() -> None:
    wrong = PAGE.replace("42\n```", "43\n44\n```")
    written = examples.rewrite(wrong)
    assert written == PAGE.replace("x)\n```", "x)\n```\n\n```text\nagain 2\n```")
    assert examples.rewrite(written) == written


def test_a_block_that_fails_names_its_line() -> None:
    (example,) = examples.examples("```python\nx = 1\nx / 0\n```\n")
    with pytest.raises(ZeroDivisionError) as failed:
        example.run({})
    assert failed.traceback[-1].path == examples.FILE or failed.traceback[-1].lineno == 1


def test_every_python_block_of_the_site_is_run() -> None:
    """Made pages have blocks of source and signatures, which are indented or of another language."""
    made = sorted((MADE / "pages").rglob("*.md"))
    assert made, NO_SITE
    block = re.compile(r"^```python", re.MULTILINE)
    for page in made:
        inside = page.relative_to(MADE / "pages")
        found = len(block.findall(page.read_text(encoding="utf-8")))
        written = WRITTEN / inside
        assert found == 0 or written.exists(), f"{inside} is made, and has Python that nobody runs"
        if written.exists():
            assert len(list(examples.examples(written.read_text(encoding="utf-8")))) == found


def test_pages_are_no_folders_of_the_generator() -> None:
    assert all((WRITTEN / name).is_dir() for name in NO_PAGES if name != "__pycache__")
    assert not any((MADE / "pages" / name).exists() for name in NO_PAGES)


def test_every_group_of_the_registry_has_a_page() -> None:
    groups = {spec.group for spec in registry().values()}
    assert groups == {*DIALECTS, *(f"pallas.{theme}" for theme in THEMES)}


def test_artefacts_say_when_and_with_what_they_were_made() -> None:
    for report in artefact("conformance.json")["reports"].values():
        assert report["date"]
        assert report["versions"]["jax"]
    for name, found in artefact("zoo.json")["kernels"].items():
        assert name in zoo.KERNELS
        assert found["made"]["versions"]["libtpu"]
    assert set(BATCHES) <= set(zoo.KERNELS)


def test_artefacts_are_small() -> None:
    assert sum(file.stat().st_size for file in ARTEFACTS.rglob("*") if file.is_file()) < 1_000_000


def test_a_smaller_drawing_keeps_all_but_fractions_of_outlines() -> None:
    drawing = '<rect x="1.5" fill-opacity="0.15"/><path d="M1 2V3.4H5.6V3.2H7.1V9Z"/>'
    assert smaller(drawing) == '<rect x="1.5" fill-opacity="0.15"/><path d="M1 2V3H7V9Z"/>'


def test_code_in_a_table_keeps_its_bars() -> None:
    assert code("x | y") == "<code>x &#124; y</code>"
    assert code("x") == "`x`"
    assert tabs(("a", "one\n\ntwo")) == '=== "a"\n\n    one\n\n    two\n'
