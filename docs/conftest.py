"""Sybil runs the examples of the pages, each page in its own names."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from sybil import Document, Example, Region, Sybil

from docs.generate import examples as made
from docs.generate.site import NO_PAGES


def parse(document: Document) -> Iterable[Region]:
    """Each python block with its output."""
    for example in made.examples(document.text):
        yield Region(example.start, example.end, parsed=example, evaluator=evaluate)


def evaluate(example: Example) -> str | None:
    """Run a block and compare what it prints."""
    block: made.Example = example.parsed
    printed = block.run(example.namespace)
    if made.same(printed, block.shown):
        return None
    return (
        f"The page shows\n\n{block.shown or 'no output'}\nand the block prints\n\n{printed}\n"
        "`python -m docs.generate.examples` writes what is printed into the pages."
    )


pytest_collect_file = Sybil(
    parsers=[parse], patterns=["**/*.md"], excludes=[f"{name}/**" for name in NO_PAGES]
).pytest()


def pytest_addoption(parser: pytest.Parser) -> None:
    """In continuous integration a missing browser is a failure."""
    parser.addoption("--require-browser", action="store_true", help="fail where there is no Chromium")
