"""The search finds what a kernel's author types: names whole, dots and all, their parts, and words for a thing."""

from __future__ import annotations

from playwright.sync_api import Page

from docs.generate.search import parts, with_parts
from docs.tests.conftest import Visit

#: Queries, and a page that must be among the first three found.
EXPECTED = {
    "pl.when": "cheat-sheet/control",
    "pl.ds": "coming-from/pallas",
    "jnp.exp": "cheat-sheet/math",
    "jnp.where": "coming-from/pallas",
    "BlockSpec": "coming-from/pallas",
    "CompilerParams": "coming-from/pallas",
    "num_scalar_prefetch": "coming-from/pallas",
    "pltpu.roll": "coming-from/pallas",
    "fori_loop": "reference/idioms/control",
    "enqueue_dma": "reference/ops/tpu",
    "CallExtras": "reference/kernel",
    "vmem limit": "concepts/memory-spaces",
    "VMEM limit": "how-to/read-a-compile-error",
    "interpret mode": "coming-from/pallas",
    "scratch": "concepts/memory-spaces",
    "MXU": "concepts/glossary",
    "bundle": "concepts/glossary",
    "dma": "learn/dma-and-semaphores",
    "race": "how-to/debug-a-race",
    "causal": "learn/attention",
    "simulate": "reference/cli",
    "export": "how-to/export",
}
_FOUND = """() => [...document.querySelectorAll(".md-search-result__item")].map(
  item => new URL(item.querySelector("a").href).pathname.slice(1).replace(".html", ""))"""
_ANY = "() => document.querySelector('.md-search-result__item') !== null"
_NONE = "() => document.querySelector('.md-search-result__item') === null"
NOWHERE = "qqqqzzzz"


def found(page: Page, query: str) -> list[str]:
    """Pages that a query finds, the best first; the box is emptied first, so that they are not those of another."""
    box = page.locator("[data-md-component=search-query]")
    for text, until in ((NOWHERE, _NONE), (query, _ANY)):
        box.fill(text[:-1])
        box.press_sequentially(text[-1])
        page.wait_for_function(until, timeout=15_000)
    return page.evaluate(_FOUND)


def test_what_is_typed_finds_its_page(visit: Visit) -> None:
    page = visit.open("index.html")
    page.locator("[data-md-component=search-query]").click()
    first = {query: found(page, query)[:3] for query in EXPECTED}
    assert {query: pages for query, pages in first.items() if EXPECTED[query] not in pages} == {}


def test_parts_of_names_are_found_and_not_shown(visit: Visit) -> None:
    page = visit.open("index.html")
    page.locator("[data-md-component=search-query]").click()
    assert "reference/ops/tpu" in found(page, "rotate")
    title = page.locator(".md-search-result__item a[href*='ops/tpu.html'] :is(h1, h2)", has_text="dynamic_rotate").first
    assert "hidden" in title.evaluate("title => title.innerHTML")
    assert title.evaluate("title => title.innerText").strip() == "b.dynamic_rotate"


def test_the_parts_of_a_name_are_its_ends() -> None:
    assert parts("b.enqueue_dma") == ["enqueue_dma", "dma"]
    assert parts("DmaIdioms") == ["Idioms"]
    assert parts("TPUInfo") == ["Info"]
    assert parts("vector") == parts("f32") == parts("x1") == []


def test_markup_keeps_its_form_and_known_words_are_not_written_again() -> None:
    assert with_parts("<code>a.x &lt;pl.when</code>") == "<code>a.x &lt;pl.when<i hidden> when </i></code>"
    assert with_parts('<a class="two_words">dma</a>') == '<a class="two_words">dma</a>'
    assert with_parts("wait_dma, dma, wait_dma") == "wait_dma, dma, wait_dma"
    assert with_parts("no names at all.") == "no names at all."
