"""Bytes are first read in another process: MLIR's parser may crash on damaged ones, or never return.

The process stays for the next bytes, and is replaced when it has died.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import selectors
import subprocess
import sys
import threading
import time
from typing import Final

from mosaic_tpu.sim import _compat

#: Seconds that MLIR may take for bytes.
LIMIT: Final = 20.0

#: All that MLIR does here with bytes. It loads `_compat` alone, by its path. Each job is two sizes and the bytes, each
#: answer a size and what MLIR said, nothing if it can read them.
_SCRIPT: Final = """
import importlib.util, os, sys
spec = importlib.util.spec_from_file_location("compat", sys.argv[1])
compat = importlib.util.module_from_spec(spec)
spec.loader.exec_module(compat)
answers = os.fdopen(os.dup(1), "wb")
os.dup2(2, 1)

def said(data, debug):
    context = compat.new_context()
    try:
        with context, compat.open_ir.Location.unknown():
            module = compat.open_ir.Module.parse(data, context=context)
            compat.deserialize(module)
            module.operation.verify()
            compat.generic_text(module)
            if debug:
                compat.debug_text(debug, context)
    except Exception as error:
        return str(error).strip() or "unknown format"
    return ""

answers.write(b"ready\\n")
answers.flush()
while sizes := sys.stdin.buffer.read(16):
    data, debug = (sys.stdin.buffer.read(int.from_bytes(s, "little")) for s in (sizes[:8], sizes[8:]))
    text = said(data, debug).encode(errors="replace")
    answers.write(len(text).to_bytes(8, "little") + text)
    answers.flush()
"""


class CrashedError(Exception):
    """The process ended over the bytes."""


def refusal(data: bytes, debug_locations: bytes) -> str:
    """What MLIR says against bytes, empty if nothing.

    Raises:
        CrashedError: its parser crashed.
        TimeoutError: it did not return within `LIMIT` seconds.
    """
    with _LOCK:
        process = _PROCESSES.pop(os.getpid(), None)
        if process is None or process.popen.poll() is not None:
            process = _Process()
        try:
            said = process.ask(data, debug_locations)
        except BaseException:
            process.end()
            raise
        _PROCESSES[os.getpid()] = process
    return said


class _Process:
    def __init__(self) -> None:
        self.popen = subprocess.Popen(
            [sys.executable, "-c", _SCRIPT, str(_compat.__file__)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
            start_new_session=True,  # an interrupt is the caller's to handle
        )
        self._out = self.popen.stdout
        self._received = b""
        try:
            self._read(len(b"ready\n"), time.monotonic() + 6 * LIMIT)
        except BaseException:
            self.end()
            raise

    def ask(self, data: bytes, debug_locations: bytes) -> str:
        assert self.popen.stdin is not None
        deadline = time.monotonic() + LIMIT
        sizes = b"".join(len(part).to_bytes(8, "little") for part in (data, debug_locations))
        try:
            self.popen.stdin.write(sizes + data + debug_locations)
            self.popen.stdin.flush()
        except BrokenPipeError:
            raise CrashedError from None
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
                    raise CrashedError
                self._received += piece
        found, self._received = self._received[:size], self._received[size:]
        return found

    def end(self) -> None:
        self.popen.kill()
        self.popen.wait()
        for pipe in (self.popen.stdin, self.popen.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()


_LOCK: Final = threading.Lock()
#: By the process that asks: one that was forked must not share it.
_PROCESSES: Final[dict[int, _Process]] = {}


@atexit.register
def _close() -> None:
    process = _PROCESSES.pop(os.getpid(), None)
    if process is not None:
        process.end()
