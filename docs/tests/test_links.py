"""Every link of the built site leads somewhere, and no page asks another host for anything."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag, urlsplit
from xml.etree import ElementTree

import pytest

from docs.generate.site import ARTEFACTS
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


@functools.cache
def target_of(folder: Path, path: str) -> Path | None:
    """The file that a page of a folder means by a path, if there is one."""
    base = SITE if path.startswith("/") else folder
    target = (base / unquote(path).lstrip("/")).resolve()
    target = target / "index.html" if target.is_dir() else target
    return target if target.is_file() else None


def broken(read_pages: dict[Path, Page]) -> list[str]:
    """Links inside the site that lead nowhere."""
    found: list[str] = []
    for file, page in read_pages.items():
        for link in (*page.links, *page.fetched):
            if urlsplit(link).scheme or link.startswith("//"):
                continue
            path, anchor = urldefrag(link)
            target = target_of(file.parent, path) if path else file
            if file.name == "404.html":
                continue  # its links are those of a site at the root of its host
            if target is None:
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
        f"{file.relative_to(SITE)}: {address}"
        for file in sorted(SITE.rglob("*.css"))
        for address in addresses.findall(file.read_text(encoding="utf-8"))
    ]
    assert found == []


def unsaid(drawing: str) -> list[str]:
    """What a drawing lacks for those who do not see it, or see it on a dark page."""
    root = ElementTree.fromstring(drawing)
    own = [root.find("{*}title"), root.find("{*}desc")]
    ids = " ".join(part.get("id", "") for part in own if part is not None)
    lacks = {
        "title": own[0] is None or not own[0].text,
        "desc": own[1] is None or not own[1].text,
        "aria-labelledby": root.get("aria-labelledby") != ids,
        "role": root.get("role") != "img",
        "currentColor": root.get("fill") != "currentColor",
    }
    return [name for name, is_so in lacks.items() if is_so]


def test_drawings_have_alternatives_in_words() -> None:
    figure = re.compile(r"<figure class=\"drawing[^>]*>(<svg.*?</svg>)", re.DOTALL)
    drawings = [svg for file in pages() for svg in figure.findall(file.read_text(encoding="utf-8"))]
    assert len(drawings) == sum(1 for _ in (ARTEFACTS / "zoo").glob("*.svg"))
    assert [found for svg in drawings if (found := unsaid(svg))] == []


@pytest.mark.parametrize(
    ("found", "put", "lacks"),
    [
        ("", "", []),
        ('<title id="a">Title</title>', "", ["title", "aria-labelledby"]),
        ("Title", "", ["title"]),
        ('<desc id="b">Words</desc>', "", ["desc", "aria-labelledby"]),
        (' aria-labelledby="a b"', "", ["aria-labelledby"]),
        ('id="b"', 'id="c"', ["aria-labelledby"]),
        ("currentColor", "#000", ["currentColor"]),
    ],
)
def test_a_drawing_without_words_is_seen(found: str, put: str, lacks: list[str]) -> None:
    """The titles of its parts are none of its own."""
    drawing = (
        '<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-labelledby="a b" fill="currentColor">'
        '<title id="a">Title</title><desc id="b">Words</desc><g><title>a bar</title><desc>of it</desc></g></svg>'
    )
    assert unsaid(drawing.replace(found, put) if found else drawing) == lacks


def test_mlir_has_colours() -> None:
    """By kind of token, and so by the lexer of the site: Pygments has none that is called so."""
    (block, *_) = re.findall(
        r'class="language-mlir.*?</pre>', (SITE / "index.html").read_text(encoding="utf-8"), re.DOTALL
    )
    for kind, text in (("k", "module"), ("nf", "@scale"), ("nb", "vector.load"), ("nv", "%cst"), ("kt", "f32")):
        assert f'<span class="{kind}">{text}</span>' in block


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
