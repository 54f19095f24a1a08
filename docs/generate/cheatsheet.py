"""The cheat-sheet for the site: the committed page, without the list of pages beside it."""

from __future__ import annotations

from docs.generate.site import Site


def write(site: Site) -> None:
    """Change the copy of ``docs/cheat-sheet.md`` among the pages."""
    file = site.pages / "cheat-sheet.md"
    text = file.read_text(encoding="utf-8")
    text = text.replace("\\|", "|")  # GitHub needs the backslash, and MkDocs shows it
    file.write_text("---\nclass: cheat-sheet\nhide:\n  - navigation\n---\n\n" + text, encoding="utf-8")
