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
        visit.open(file.relative_to(SITE).as_posix())


def test_an_error_after_the_page_is_there_is_told_with_its_page(visit: Visit) -> None:
    late = "<script>addEventListener('load', () => { console.error('late'); throw new Error('later') })</script>"
    visit.page.route("**/late.html", lambda route: route.fulfill(body=f"<p>x</p>{late}", content_type="text/html"))
    visit.open("late.html")
    visit.open("concepts/layouts.html")
    told, visit.wrong[:] = visit.wrong[:], []
    assert told == ["late.html: error: late", "late.html: error: later"]
