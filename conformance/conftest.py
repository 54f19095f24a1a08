"""Collects what the conformance tests record, from all processes, into tables and a JSON file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import pytest

from conformance.harness.attached import NO_TPU, tpu_attached
from conformance.harness.report import Record, Report, packed
from mosaic_tpu import aot

#: Not the file of a run of the whole suite, which `nox -s conformance` names: the site shows what that has.
_DEFAULT_FILE = ".conformance/part.json"
#: The JAX that comes with it.
_NEWEST_COMPILER = (0, 12)
#: How many tests were deselected since they are of the newest compiler.
_DESELECTED = pytest.StashKey[int]()


@pytest.fixture
def record(request: pytest.FixtureRequest) -> Record:
    """Adds a row to a table of this session's report. Record before asserting: a failed test's row counts too."""

    def add(table: str, **row: Any) -> None:
        request.node.user_properties.append(packed(table, row))

    return add


@pytest.fixture
def tpu_compiler() -> None:
    """Skips where the TPU compiler is not installed; answers of one run serve the next."""
    if aot.compiler_version() is None:
        pytest.skip("the TPU compiler is not installed: pip install 'mosaic-tpu-aot[tpu]', on Linux on x86-64")


@pytest.fixture
def newest_compiler(tpu_compiler: None) -> None:
    """For what is said of one compiler: its refusals, its schedules, its estimates. Deselected with an older one."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--conformance-json",
        default=_DEFAULT_FILE,
        metavar="FILE",
        help="where the conformance report goes (from the root folder; default %(default)s)",
    )


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """What runs on a TPU needs one, and a process to itself: every worker of pytest-xdist would take the TPU."""
    if collection_path.name != "test_on_tpu.py":
        return None
    return True if _in_parallel(config) or not tpu_attached() else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What an older compiler says differs in places from what is shown with the newest."""
    if jax.__version_info__ >= _NEWEST_COMPILER:
        return
    kept: list[pytest.Item] = []
    deselected: list[pytest.Item] = []
    for item in items:
        (deselected if "newest_compiler" in getattr(item, "fixturenames", ()) else kept).append(item)
    config.hook.pytest_deselected(items=deselected)
    config.stash[_DESELECTED] = len(deselected)
    items[:] = kept


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """A worker of pytest-xdist tells its controller how many it deselected."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["deselected"] = session.config.stash.get(_DESELECTED, 0)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Every worker collects all tests, so one's word is enough; one that crashed has none."""
    if deselected := getattr(node, "workeroutput", {}).get("deselected"):
        node.config.stash[_DESELECTED] = deselected


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):  # a worker of pytest-xdist: its controller reports
        config.pluginmanager.register(_Reporter(config), "conformance-reporter")


def _in_parallel(config: pytest.Config) -> bool:
    """Whether pytest-xdist runs the tests, seen from a worker or from its controller."""
    return hasattr(config, "workerinput") or bool(config.getoption("numprocesses", None))


class _Reporter:
    def __init__(self, config: pytest.Config) -> None:
        self._report = Report()
        # A parallel run leaves the TPU alone and has no word on it: `nox -s conformance` says it at its end.
        self._has_word_on_tpu = not _in_parallel(config)
        # Where this file is loaded late, as by `pytest .`, its option does not exist.
        self._file: Path = config.rootpath / config.getoption("--conformance-json", _DEFAULT_FILE)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call":
            self._report.add_properties(report.user_properties)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if count := terminalreporter.config.stash.get(_DESELECTED, 0):
            only = "tests of the newest TPU compiler only"
            terminalreporter.write_line(f"{count} {only} are deselected on JAX {jax.__version__}")
        if self._report.tables:
            self._report.write(self._file)
            terminalreporter.section("conformance")
            terminalreporter.write_line(self._report.to_text())
            terminalreporter.write_line(f"\nwritten to {self._file}")
            if self._has_word_on_tpu and not tpu_attached():
                terminalreporter.write_line(NO_TPU)
