"""Modules are first read in another process: MLIR's parser may crash on damaged ones, or never return.

The process stays for the next module, and is replaced when it has died.
"""

from __future__ import annotations

import atexit
import contextlib
import math
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import threading
import time
from typing import IO, Final

from mosaic_tpu.sim import _compat

#: Seconds that MLIR may take for bytes.
LIMIT: Final = 20.0
_START_LIMIT: Final = 120.0

#: All that MLIR does here with a module, of a kernel or a program. It loads `_compat` alone, by its path. A job is two
#: sizes and the bytes, an answer a size and what MLIR said, nothing if it can read them.
_SCRIPT: Final = """
import importlib.util, os, signal, sys
spec = importlib.util.spec_from_file_location("compat", sys.argv[1])
compat = importlib.util.module_from_spec(spec)
spec.loader.exec_module(compat)
answers = os.fdopen(os.dup(1), "wb")
os.dup2(2, 1)

def said(data, debug):
    context = compat.program_context()
    try:
        with context, compat.open_ir.Location.unknown():
            module = compat.parsed(data, context)
            compat.deserialize(module)
            module.operation.verify()
            compat.generic_text(module)
            if compat.may_be_program(data):
                compat.debug_text(module)
            if debug:
                compat.debug_text(compat.open_ir.Module.parse(debug, context=context))
    except Exception as error:
        return str(error).strip() or "unknown format"
    return ""

compat.program_context()
answers.write(b"ready\\n")
answers.flush()
while sizes := sys.stdin.buffer.read(16):
    signal.alarm(int(sys.argv[2]))  # if nobody is left to end it
    data, debug = (sys.stdin.buffer.read(int.from_bytes(s, "little")) for s in (sizes[:8], sizes[8:]))
    text = said(data, debug).encode(errors="replace")
    answers.write(len(text).to_bytes(8, "little") + text)
    answers.flush()
    signal.alarm(0)
"""


class CrashedError(Exception):
    """The process ended over the bytes."""


class KilledError(Exception):
    """Somebody else ended the process: how."""


class StartError(Exception):
    """The process did not start: what it said."""


class _LostError(Exception):
    """The process had ended before it was given anything."""


def refusal(data: bytes, debug_locations: bytes) -> str:
    """What MLIR says against bytes, empty if nothing.

    Raises:
        CrashedError: its parser crashed.
        KilledError: the process was killed, and so was the next.
        StartError: there is no such process.
        TimeoutError: it did not return within `LIMIT` seconds.
    """
    with _STATE.lock:
        try:
            return _asked(data, debug_locations)
        except (_LostError, KilledError):
            return _asked(data, debug_locations)  # of a new one


def _asked(data: bytes, debug_locations: bytes) -> str:
    process, _STATE.process = _STATE.process or _Process(), None
    try:
        said = process.ask(data, debug_locations)
    except BaseException:
        process.end()
        raise
    _STATE.process = process
    return said


class _Process:
    def __init__(self) -> None:
        self._said: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `end`
        try:
            self.popen = subprocess.Popen(
                [sys.executable, "-c", _SCRIPT, str(_compat.__file__), str(math.ceil(LIMIT) + 1)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._said,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
                start_new_session=True,  # an interrupt is the caller's to handle
            )
        except OSError as error:
            self._said.close()
            raise StartError(str(error)) from None
        self._out = self.popen.stdout
        self._received = b""
        try:
            self._read(len(b"ready\n"), time.monotonic() + _START_LIMIT)
        except (CrashedError, KilledError, TimeoutError) as error:
            said = self._last_line() or f"nothing in {_START_LIMIT:.0f} s" * isinstance(error, TimeoutError)
            self.end()
            raise StartError(said or f"exit code {self.popen.returncode}") from None
        except BaseException:
            self.end()
            raise

    def _last_line(self) -> str:
        self._said.seek(0)
        lines = self._said.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else ""

    def ask(self, data: bytes, debug_locations: bytes) -> str:
        assert self.popen.stdin is not None
        deadline = time.monotonic() + LIMIT
        sizes = b"".join(len(part).to_bytes(8, "little") for part in (data, debug_locations))
        try:
            self.popen.stdin.write(sizes + data + debug_locations)
            self.popen.stdin.flush()
        except BrokenPipeError:  # it reads all of them before MLIR does
            raise _LostError from None
        size = int.from_bytes(self._read(8, deadline), "little")
        return self._read(size, deadline).decode(errors="replace")

    def _read(self, size: int, deadline: float) -> bytes:
        assert self._out is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self._out, selectors.EVENT_READ)
            while len(self._received) < size:
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    raise TimeoutError
                piece = os.read(self._out.fileno(), 1 << 16)
                if not piece:
                    raise self._ended()
                self._received += piece
        found, self._received = self._received[:size], self._received[size:]
        return found

    def _ended(self) -> Exception:
        """Why it ended by itself: a parser that crashes aborts or reads where it must not; memory runs out outside."""
        code = self.popen.wait()
        if -code in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            return KilledError(f"ended by {signal.Signals(-code).name}")
        return CrashedError()

    def end(self) -> None:
        self.popen.kill()
        self.popen.wait()
        for pipe in (self.popen.stdin, self.popen.stdout, self._said):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()


class _State:
    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """In a fork: the process is the parent's, and so may be who holds the lock."""
        self.lock = threading.Lock()
        self.process: _Process | None = None


_STATE: Final = _State()


@atexit.register
def close() -> None:
    """End the process."""
    if _STATE.process is not None:
        _STATE.process.end()
        _STATE.process = None


os.register_at_fork(after_in_child=_STATE.reset)
