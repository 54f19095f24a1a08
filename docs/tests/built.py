"""The built site, and where a browser is: what the tests of this folder look at."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Final

import pytest

from docs.generate.site import MADE

SITE: Final = (MADE / "site").resolve()
#: Programs that are Chromium, by the names that distributions give them.
CHROMIUMS: Final = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome", "chrome")
NO_SITE: Final = "The site is not built: `nox -s docs` builds and tests it."
NO_CHROMIUM: Final = (
    "There is no Chromium here to test the site in: `apt-get install chromium`, or set CHROMIUM to where one is."
)


def pages() -> list[Path]:
    """Every page; a failure where there is none."""
    found = sorted(SITE.rglob("*.html"))
    if not found:
        pytest.fail(NO_SITE)
    return found


def chromium() -> str | None:
    """The browser's program."""
    named = os.environ.get("CHROMIUM")
    return named or next((path for name in CHROMIUMS if (path := shutil.which(name))), None)
