"""Every page of the built site, opened in a browser; beside the other tests, since it takes as long as they do."""

from __future__ import annotations

import json

from docs.tests.built import SITE, pages
from docs.tests.conftest import Visit


def test_no_page_has_an_error_or_asks_another_host(visit: Visit) -> None:
    # Each page would build the whole index of the search anew; the tests of the search have the real one.
    index = json.loads((SITE / "search/search_index.json").read_text(encoding="utf-8"))
    visit.page.route("**/search_index.json", lambda route: route.fulfill(json=index | {"docs": index["docs"][:1]}))
    for file in pages():
        visit.open(file.relative_to(SITE).as_posix(), until="domcontentloaded")
