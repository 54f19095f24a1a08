"""The cheat-sheet for the site: the committed page in parts, a page for each of its headings, and their contents."""

from __future__ import annotations

import re
from typing import Final

from docs.generate.site import Site, table

#: Their own width, so that the columns fit; the contents are on each page.
_FRONT: Final = "---\nclass: cheat-sheet\nhide:\n  - navigation\n  - toc\n---\n"


def write(site: Site) -> None:
    """Change the copy of ``docs/cheat-sheet.md`` among the pages into the contents, and write a page for each part."""
    text = (site.pages / "cheat-sheet.md").read_text(encoding="utf-8")
    head, parts = split(text.replace("\\|", "|"))  # GitHub needs the backslash, and MkDocs shows it
    rows = [(f"[{title}](cheat-sheet/{name(title)}.md)", about(text), str(entries(text))) for title, text in parts]
    contents = table(("part", "what is in it", "rows"), rows)
    site.add("cheat-sheet", "Contents", "cheat-sheet.md", f"{head}\n{contents}")
    for title, text in parts:
        others = " · ".join(t if t == title else f"[{t}]({name(t)}.md)" for t, _ in parts)
        page = f"{_FRONT}\n# Cheat-sheet: {title}\n\n{text}\n[Contents](../cheat-sheet.md): {others}\n{{ .made }}\n"
        site.add("cheat-sheet", title, f"cheat-sheet/{name(title)}.md", page)


def split(text: str) -> tuple[str, list[tuple[str, str]]]:
    """What stands before the first heading, and each heading with what is below it."""
    head, *parts = re.split(r"^## (.+)\n", text, flags=re.MULTILINE)
    return head, list(zip(parts[::2], parts[1::2], strict=True))


def name(title: str) -> str:
    """Of a part's file."""
    return title.lower().replace(" ", "-")


def about(text: str) -> str:
    """The part's first paragraph."""
    return text.strip().partition("\n\n")[0].replace("\n", " ")


def entries(text: str) -> int:
    """Rows of its table, without the two of the head."""
    return sum(line.startswith("| ") for line in text.splitlines()) - 2
