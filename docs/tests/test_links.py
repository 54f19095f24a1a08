"""Every link of the built site leads somewhere, and no page asks another host for anything."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag, urlsplit

from docs.tests.built import SITE, pages

#: Tags whose address the browser fetches by itself.
_FETCHED = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src", "video": "src"}
#: Links of the head that say something and fetch nothing.
_SAID = {"canonical", "prev", "next", "alternate", "author"}


@dataclass(eq=False)
class Page(HTMLParser):
    """What a page refers to."""

    links: list[str] = field(default_factory=list)
    fetched: list[str] = field(default_factory=list)
    anchors: set[str] = field(default_factory=set)
    twice: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if given.get("id") in self.anchors:
            self.twice.append(given["id"])
        self.anchors.update(given[name] for name in ("id", "name") if name in given)
        if tag in _FETCHED and _FETCHED[tag] in given and given.get("rel") not in _SAID:
            self.fetched.append(given[_FETCHED[tag]])
        if tag == "a" and "href" in given:
            self.links.append(given["href"])


@functools.cache
def read(file: Path) -> Page:
    page = Page()
    page.feed(file.read_text(encoding="utf-8"))
    return page


def broken(read_pages: dict[Path, Page]) -> list[str]:
    """Links inside the site that lead nowhere."""
    found: list[str] = []
    for file, page in read_pages.items():
        for link in (*page.links, *page.fetched):
            if urlsplit(link).scheme or link.startswith("//"):
                continue
            path, anchor = urldefrag(link)
            base = SITE if path.startswith("/") else file.parent
            target = (base / unquote(path).lstrip("/")).resolve() if path else file
            target = target / "index.html" if target.is_dir() else target
            if file.name == "404.html":
                continue  # its links are those of a site at the root of its host
            if not target.is_file():
                found.append(f"{file.relative_to(SITE)}: {link}")
            elif anchor and target in read_pages and unquote(anchor) not in read_pages[target].anchors:
                found.append(f"{file.relative_to(SITE)}: {link} has no such anchor")
    return found


def test_no_link_is_broken() -> None:
    assert broken({file: read(file) for file in pages()}) == []


def test_no_anchor_is_on_a_page_twice() -> None:
    assert {file.relative_to(SITE).as_posix(): read(file).twice for file in pages() if read(file).twice} == {}


def test_nothing_is_fetched_from_elsewhere() -> None:
    outside = [
        f"{file.relative_to(SITE)}: {address}"
        for file in pages()
        for address in read(file).fetched
        if urlsplit(address).scheme in ("http", "https") or address.startswith("//")
    ]
    assert outside == []


def test_no_stylesheet_fetches_from_elsewhere() -> None:
    addresses = re.compile(r"(?:@import|url\()\s*['\"]?(?:https?:)?//[^)'\"\s]+")
    found = [
        f"{f.relative_to(SITE)}: {a}" for f in sorted(SITE.rglob("*.css")) for a in addresses.findall(f.read_text())
    ]
    assert found == []


def test_drawings_have_alternatives_in_words() -> None:
    drawings = [svg for file in pages() for svg in re.findall(r"<figure class=\"drawing.*?</figure>", file.read_text())]
    assert drawings
    for drawing in drawings:
        assert "<title" in drawing
        assert "<desc" in drawing
        assert 'role="img"' in drawing
        assert "currentColor" in drawing


def test_a_broken_link_is_seen(tmp_path: Path) -> None:
    page = Page()
    page.feed('<a href="nowhere.html">x</a><a href="#here">y</a><p id="there"></p><script src="//host/x.js"></script>')
    file = SITE / "index.html"
    assert broken({file: page}) == ["index.html: nowhere.html", "index.html: #here has no such anchor"]
    assert page.fetched == ["//host/x.js"]


def test_an_anchor_that_is_there_twice_is_seen() -> None:
    page = Page()
    page.feed('<h2 id="here"></h2><h2 id="there"></h2><h3 id="here"></h3>')
    assert page.twice == ["here"]
