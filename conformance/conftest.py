"""Collects what the conformance tests record, from all processes, into tables and a JSON file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import pytest

from conformance.harness.attached import NO_TPU, tpu_attached
from conformance.harness.report import Record, Report, packed
from mosaic_tpu import aot

_DEFAULT_FILE = ".conformance/report.json"


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
    """For what is said of one compiler: its refusals, its schedules, its estimates."""
    if jax.__version_info__ < (0, 12):
        pytest.skip("shown with the newest TPU compiler; what an older one says differs in places")


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
        if self._report.tables:
            self._report.write(self._file)
            terminalreporter.section("conformance")
            terminalreporter.write_line(self._report.to_text())
            terminalreporter.write_line(f"\nwritten to {self._file}")
            if self._has_word_on_tpu and not tpu_attached():
                terminalreporter.write_line(NO_TPU)
