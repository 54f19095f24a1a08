"""`mosaic-tpu doctor`: what is there, what is not, and what is broken; it never hangs."""

from __future__ import annotations

import importlib.metadata
import os
import re
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from mosaic_tpu.cli import _checks

from .cli_kit import cli, refused, same_shape


@pytest.fixture
def no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mosaic_tpu.aot.compiler_version", lambda: None)


def test_versions_are_those_installed(no_compiler: None) -> None:
    said = cli("doctor", "--json")
    assert said.code == 0, said.out
    assert said.json["packages"]["jax"] == importlib.metadata.version("jax")
    states = {check["name"]: check["state"] for check in said.json["checks"]}
    assert (states["packages"], states["MLIR"], states["simulator"]) == ("ok", "ok", "ok")
    assert states["TPU compiler"] == "no"


def test_its_answer_has_one_form(no_compiler: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever the tests run, and whatever is installed there."""
    found = dict.fromkeys((*_checks.OURS, *_checks.OTHERS), "1.0")
    monkeypatch.setattr("mosaic_tpu.cli.verbs.doctor.versions", lambda: found)
    monkeypatch.setattr("mosaic_tpu.cli.verbs.doctor.users_environment", lambda: dict.fromkeys(_checks.VARIABLES, "1"))
    same_shape("doctor", cli("doctor", "--json"))


def test_it_is_a_table_for_people(no_compiler: None) -> None:
    said = cli("doctor")
    assert said.code == 0
    assert re.search(rf"^jaxlib +{re.escape(importlib.metadata.version('jaxlib'))}$", said.out, re.MULTILINE)
    assert "pip install libtpu" in said.out


@pytest.mark.usefixtures("needs_compiler")
def test_the_compiler_is_tried() -> None:
    check = _checks._guarded("TPU compiler", lambda: _checks._compiler(120.0))
    assert (check.state, check.name) == ("ok", "TPU compiler")


def test_what_is_broken_is_a_fault(no_compiler: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> Any:
        raise RuntimeError("no such symbol\nand more")

    monkeypatch.setattr("mosaic_tpu.sim.simulate", broken)
    said = cli("doctor")
    assert said.code == 1
    assert "RuntimeError: no such symbol\n" in said.out


def test_packages_that_are_missing_or_of_other_versions_are_faults(monkeypatch: pytest.MonkeyPatch) -> None:
    found = dict.fromkeys((*_checks.OURS, *_checks.OTHERS), "1.0")
    monkeypatch.setattr(_checks, "versions", lambda: found)
    assert _checks._packages().state == "ok"
    found["mosaic-tpu-sim"] = "0.9"
    assert (_checks._packages().state, _checks._packages().says) == ("fault", "of different versions")
    monkeypatch.setattr(_checks, "OURS", (*_checks.OURS, "mosaic-tpu-nothing"))
    assert _checks._packages().says == "mosaic-tpu-nothing not installed"


def _python(folder: Path, text: str) -> str:
    """A program in place of Python."""
    file = folder / "python"
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)
    return str(file)


@pytest.mark.parametrize(
    ("text", "state", "says"),
    [
        ("echo noise; echo 'found|tpu|4|TPU v5 lite'", "ok", "4 × TPU v5 lite"),
        ("echo 'found|cpu|1|cpu'", "no", "JAX uses the cpu"),
        ("echo 'Unable to initialize backend' >&2; exit 1", "no", "JAX finds none: Unable to initialize backend"),
        ("exec sleep 60", "no", "JAX did not find one within 1 s"),
    ],
)
def test_a_tpu_is_asked_for_in_a_process_that_may_be_ended(
    text: str, state: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_checks, "_DEVICES", ("null",))
    monkeypatch.setattr(sys, "executable", _python(tmp_path, text))
    started = time.monotonic()
    check = _checks._tpu(1.0, dict(os.environ))
    assert (check.state, check.says) == (state, says)
    assert time.monotonic() - started < 20


def test_without_a_device_nothing_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_checks, "_DEVICES", ("no-such-device*",))
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    assert _checks._tpu(1.0, {}).says.startswith("none attached")


def test_a_timeout_is_positive() -> None:
    refused(cli("doctor", "--timeout", "0"), "--timeout")
