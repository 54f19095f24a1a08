"""What the column *here* of a table writes runs in a kernel."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from docs.generate.site import WRITTEN
from mosaic_tpu import builder, kernel

PAGES = sorted(WRITTEN.glob("coming-from/*.md"))


def rows(text: str) -> list[str]:
    """The last cells of the rows of tables whose last column is called *here*."""
    found: list[str] = []
    inside = False
    for line in text.splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))]
        if not line.startswith("|"):
            inside = False
        elif cells[-1] == "here" and len(cells) == 2:
            inside = True
        elif inside and not set(cells[-1]) <= set("-"):
            found.append(cells[-1])
    return found


CELLS = [(page.stem, cell) for page in PAGES for cell in rows(page.read_text(encoding="utf-8"))]


@pytest.mark.parametrize(("page", "cell"), CELLS, ids=[f"{page}: {cell[:60]}" for page, cell in CELLS])
def test_what_a_table_writes_runs(page: str, cell: str) -> None:
    b = builder.Builder("kernel")
    square = builder.Ref((128, 128), builder.f32)
    a = b.declare_args(
        {
            "i": builder.Scalar(builder.i32),
            "lens": builder.Ref((4,), builder.i32, memory_space="smem", role="scalar_prefetch"),
            "x": square,
            "y": square,
            "o": replace(square, role="output"),
            "tile": replace(square, role="scratch"),
            "arrived": builder.Sem("dma"),
            "send": builder.Sem("dma"),
            "recv": builder.Sem("dma"),
            "sem": builder.Sem(),
        },
        grid=(2,),
    )
    x, y = a.x[...], a.y[...]
    names = vars(builder) | vars(kernel) | {"kernel": print, "a": a, "b": b, "x": x, "y": y, "c": x.gt(y), "i": a.i}
    snippets = re.findall("`(.*?)`", cell)
    assert snippets, f"nothing to run in {cell!r}"
    for code in snippets:
        if code.endswith(" as loop:"):
            code += " loop.yield_()"
        # Arguments are declared once, and those of the fixture are.
        fresh = {"b": builder.Builder("kernel")} if code.startswith("b.declare_args") else {}
        exec(code + " pass" * code.endswith(":"), names | fresh)
    b.finish()


def test_the_tables_are_found() -> None:
    assert len(CELLS) > 60
    assert rows("| Pallas | here |\n| --- | --- |\n| `a` | `b`, `c` |\n\n| x | y |\n| `d` | `e` |") == ["`b`, `c`"]
