"""The cheat-sheet for the site: the committed page, with a list of topics, and wide tables that scroll by themselves."""

from __future__ import annotations

import re

from docs.generate.site import Site


def write(site: Site) -> None:
    """Change the copy of ``docs/cheat-sheet.md`` among the pages."""
    file = site.pages / "cheat-sheet.md"
    head, *topics = re.split(r"^(?=## )", file.read_text(encoding="utf-8"), flags=re.MULTILINE)
    print_hint = '\n<p class="no-print made">Printed, it has no navigation and breaks between rows.</p>\n'
    text = head + print_hint + "".join(topics)
    file.write_text("---\nclass: cheat-sheet\nhide:\n  - navigation\n---\n\n" + text, encoding="utf-8")
