"""No test sees the user's terminal or cache."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache and a folder of its own, and nothing of the terminal that pytest runs in."""
    for name in ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "MOSAIC_TPU_DEBUG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("MOSAIC_TPU_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def needs_compiler() -> None:
    if importlib.util.find_spec("libtpu") is None:
        pytest.skip("the TPU compiler is not installed: pip install libtpu, on Linux on x86-64")
