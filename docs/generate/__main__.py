"""Write every page of the site into ``.docs/pages``: copy what is written by hand, make the rest."""

from __future__ import annotations

import sys
import time
from typing import Final

from docs.generate import cheatsheet, cli, conformance, errors, project, reference, zoo
from docs.generate.site import MADE, ROOT, Site

#: Each has a `write(site)`. The order is that of the pages in their sections.
PARTS: Final = (cheatsheet, zoo, reference, cli, errors, conformance, project)


def main() -> int:
    """Make all pages."""
    site = Site()
    site.clear()
    site.copy_written()
    for part in PARTS:
        start = time.perf_counter()
        part.write(site)
        print(f"{part.__name__.rpartition('.')[2]:<12} {time.perf_counter() - start:5.1f} s")
    site.write_nav()
    print(f"{len(list(site.pages.rglob('*.md')))} pages in {MADE.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
