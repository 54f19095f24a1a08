"""Sybil runs the examples of the pages, each page with its own names and its own folder."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack
from typing import Any

import pytest
from sybil import Document, Example, Region, Sybil

from docs.generate import examples
from docs.generate.site import NO_PAGES


def parse(document: Document) -> Iterable[Region]:
    """Each block that runs, with its output."""
    for example in examples.examples(document.text):
        yield Region(example.start, example.end, parsed=example, evaluator=evaluate)


def evaluate(example: Example) -> str | None:
    """Run a block and compare what it prints."""
    block: examples.Example = example.parsed
    printed = block.run(example.namespace["workspace"])
    if examples.same(printed, block.shown):
        return None
    return (
        f"The page shows\n\n{block.shown or 'no output'}\nand what is printed is\n\n{printed}\n"
        "`python -m docs.generate.examples` writes what is printed into the pages."
    )


def enter(namespace: dict[str, Any]) -> None:
    """Before a page's first block."""
    namespace["open"] = ExitStack()
    namespace["workspace"] = namespace["open"].enter_context(examples.workspace())


def leave(namespace: dict[str, Any]) -> None:
    """After its last."""
    namespace["open"].close()


SYBIL = Sybil(
    parsers=[parse],
    patterns=["*.md", "**/*.md"],
    excludes=[f"{name}/**" for name in NO_PAGES],
    setup=enter,
    teardown=leave,
)
pytest_collect_file = SYBIL.pytest()


def pytest_addoption(parser: pytest.Parser) -> None:
    """In continuous integration a missing browser is a failure."""
    parser.addoption("--require-browser", action="store_true", help="fail where there is no Chromium")
