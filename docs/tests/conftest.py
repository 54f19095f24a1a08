"""A browser, and the built site on a port: each page is visited in a tab that tells of requests and errors."""

from __future__ import annotations

import contextlib
import functools
import http.server
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, Request, sync_playwright

from docs.tests.built import NO_CHROMIUM, SITE, chromium, pages

ARGUMENTS = (
    *["--no-sandbox"] * (os.geteuid() == 0),  # Chromium refuses to run as root with one
    "--disable-gpu",
    "--disable-quic",
    "--disable-sync",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
)


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass

    def handle_one_request(self) -> None:
        with contextlib.suppress(ConnectionError):  # the browser has gone on to the next page
            super().handle_one_request()


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """The site on a port of its own."""
    pages()
    handler = functools.partial(_Quiet, directory=str(SITE))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@pytest.fixture(scope="module")
def browser(request: pytest.FixtureRequest) -> Iterator[Browser]:
    """Chromium. Without one the tests are skipped with a sentence; in continuous integration they fail with it."""
    program = chromium()
    if program is None:
        required = os.environ.get("CI") or request.config.getoption("--require-browser", False)
        (pytest.fail if required else pytest.skip)(NO_CHROMIUM)
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=program, args=list(ARGUMENTS))
        yield started
        started.close()


@dataclass
class Visit:
    """A tab, and what went wrong in it."""

    page: Page
    address: str
    wrong: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page.on("console", self._console)
        self.page.on("pageerror", lambda error: self._tell(f"error: {error}"))
        self.page.on("request", self._request)
        self.page.on("response", lambda r: self._tell(f"{r.status}: {r.url}") if r.status >= 400 else None)

    def _tell(self, what: str) -> None:
        self.wrong.append(f"{self.page.url.removeprefix(self.address)}: {what}")

    def _console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self._tell(f"{message.type}: {message.text}")

    def _request(self, request: Request) -> None:
        if not request.url.startswith((self.address, "data:", "blob:")):
            self._tell(f"asks {request.url}")

    def open(self, path: str) -> Page:
        """A page of the site, with all that it loads."""
        self.page.goto(self.address + path)
        return self.page


@pytest.fixture
def visit(browser: Browser, address: str, request: pytest.FixtureRequest) -> Iterator[Visit]:
    """A fresh tab; the test fails at its end if something went wrong in it."""
    context = browser.new_context(**getattr(request, "param", {"viewport": {"width": 1280, "height": 900}}))
    found = Visit(context.new_page(), address)
    yield found
    found.page.wait_for_load_state("networkidle")
    context.close()
    assert found.wrong == []
