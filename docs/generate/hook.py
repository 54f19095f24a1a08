"""What MkDocs asks while it builds: the navigation of the generated sections, a lexer for MLIR, words of the search."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from docs.generate import search
from docs.generate.mlir_lexer import register
from docs.generate.site import NAV

register()


def on_config(config: Any) -> Any:
    """Put the pages that the generator made where ``nav`` says ``section/*``."""
    if not NAV.exists():
        raise SystemExit("The pages are not made yet: `nox -s docs`, or `python -m docs.generate` before `mkdocs`.")
    sections = json.loads(NAV.read_text(encoding="utf-8"))
    config.nav = [
        {title: sections[pages.removesuffix("/*")] if isinstance(pages, str) and pages.endswith("/*") else pages}
        for entry in config.nav
        for title, pages in entry.items()
    ]
    return config


def on_post_build(config: Any) -> None:
    """Once the index of the search is written."""
    search.write(Path(config.site_dir))
