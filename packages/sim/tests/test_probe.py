"""Bytes are read in a process that may crash, hang, die or never start: each is told from damaged bytes."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mosaic_tpu.sim import _probe, ir
from mosaic_tpu.sim.errors import InternalError, ModuleFormatError, SimulationError

from .test_bad_input import body

BODY = body()


@pytest.fixture(autouse=True)
def anew() -> Iterator[None]:
    _probe.close()
    yield
    _probe.close()


def test_sound_bytes_are_not_refused() -> None:
    assert _probe.refusal(BODY, b"") == ""
    assert _probe.refusal(BODY[:40], b"") != ""


def test_the_process_serves_more_than_one_and_is_replaced_when_it_has_died() -> None:
    assert _probe.refusal(BODY, b"") == ""
    first = _probe._STATE.process
    assert first is not None
    assert _probe.refusal(BODY, b"") == ""
    assert _probe._STATE.process is first
    first.popen.send_signal(signal.SIGKILL)
    first.popen.wait()
    assert _probe.refusal(BODY, b"") == ""
    assert _probe._STATE.process is not first


def _that_ends_by(number: signal.Signals, monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on the process ends by a signal as soon as it has been given bytes."""
    script = _probe._SCRIPT.replace("data, debug =", f"os.kill(os.getpid(), {int(number)}); data, debug =")
    monkeypatch.setattr(_probe, "_SCRIPT", script)
    monkeypatch.setattr("mosaic_tpu.sim._read._TRUSTED", set())


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_process_that_is_killed_is_no_fault_of_the_bytes(
    number: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    _that_ends_by(number, monkeypatch)
    with pytest.raises(InternalError, match=f"ended by {number.name}") as error:
        ir.read(BODY)
    assert not isinstance(error.value, ModuleFormatError)


@pytest.mark.parametrize("number", [signal.SIGABRT, signal.SIGSEGV])
def test_a_process_that_crashes_is_one(number: signal.Signals, monkeypatch: pytest.MonkeyPatch) -> None:
    _that_ends_by(number, monkeypatch)
    with pytest.raises(ModuleFormatError, match="crashed"):
        ir.read(BODY)


@pytest.mark.parametrize("python", ["/bin/false", "/proc/nowhere/python"])
def test_a_process_that_does_not_start_is_no_fault_of_the_bytes(python: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", python)
    monkeypatch.setattr("mosaic_tpu.sim._read._TRUSTED", set())
    with pytest.raises(InternalError, match="did not start") as error:
        ir.read(BODY)
    assert not isinstance(error.value, ModuleFormatError)
    monkeypatch.undo()
    assert ir.read(BODY).kernel.operation.name == "func.func"


def test_bytes_that_never_end_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_probe, "LIMIT", 1.0)
    assert _probe.refusal(BODY, b"") == ""
    process = _probe._STATE.process
    assert process is not None
    process.popen.send_signal(signal.SIGSTOP)
    with pytest.raises(TimeoutError):
        _probe.refusal(BODY, b"")
    assert process.popen.poll() is not None
    assert _probe.refusal(BODY, b"") == ""


def test_a_fork_has_a_process_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "body").write_bytes(BODY)
    code = f"""
import os
from pathlib import Path
from mosaic_tpu.sim import _probe
body = Path({str(tmp_path / "body")!r}).read_bytes()
print(repr(_probe.refusal(body, b"")), flush=True)
with _probe._STATE.lock:  # another thread may hold it
    child = os.fork()
if not child:
    print(repr(_probe.refusal(body, b"")), flush=True)
    _probe.close()
    os._exit(0)
os.waitpid(child, 0)
print(repr(_probe.refusal(body, b"")))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120)
    assert done.stdout.split() == ["''"] * 3, done.stderr


def test_threads_take_turns() -> None:
    found: list[Any] = []
    threads = [
        threading.Thread(target=lambda n=n: found.append((n, _probe.refusal(BODY[: 50 if n % 2 else None], b"") == "")))
        for n in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == [(n, n % 2 == 0) for n in range(8)]


# --- what is a program, and what a module --------------------------------------------------------------------------

TEXT = """func.func @double(%x: memref<8x128xf32, #tpu.memory_space<vmem>>) {
  return
}"""


@pytest.mark.parametrize(
    "text",
    [
        TEXT,
        TEXT.replace("@double", "@stablehlo.add"),
        TEXT.replace("@double", '@"stablehlo.add"'),
        TEXT.replace("  return", "  // as stablehlo.add does\n  return"),
        TEXT.replace("  return", '  return loc("stablehlo.py":3:1)'),
    ],
)
def test_a_module_may_have_the_word_in_it(text: str) -> None:
    assert ir.program_text(text) is None
    assert ir.read(text).kernel.arguments[0].type.shape == (8, 128)


def test_a_file_may_have_the_word_in_its_name(tmp_path: Path) -> None:
    file = tmp_path / "stablehlo.mlir"
    file.write_text(TEXT)
    assert ir.read(str(file)).name == ir.read(file).name == "double"
    with pytest.raises(SimulationError, match="cannot read"):
        ir.read(str(tmp_path / "stablehlo.other.mlir"))


def test_half_a_character_is_no_text() -> None:
    with pytest.raises(ModuleFormatError, match="no character"):
        ir.read("\ud800" + TEXT)
