"""The worker: ``python -m mosaic_tpu.aot._serve`` compiles one program a line, and answers each with a line of JSON.

A job is ``{"program": StableHLO text, "topology": …, "bounds": [1, 1, 1], "communicates": bool, "vmem_limit_bytes": int
or null, "in_hbm": {"operands": [0, 1], "results": 1} or null}``, an answer ``{"error": text, "seconds": float}``.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from typing import IO, Any, Final

#: Seconds between looks whether the process that asks is still there.
_LOOK: Final = 1.0
_DUMPS: Final = "MOSAIC_TPU_AOT_DUMPS"
#: Waits for the end of its standard input, which is that of the process at its other end.
_REMOVE: Final = "import shutil, sys; sys.stdin.read(); shutil.rmtree(sys.argv[1], ignore_errors=True)"


def serve() -> None:
    """The worker's loop. Standard output carries answers only: libtpu's own prints are sent to standard error."""
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    try:
        with contextlib.suppress(BrokenPipeError), os.fdopen(os.dup(1), "w") as answers:
            os.dup2(2, 1)
            _answer(answers, {"ready": True})
            for line in sys.stdin:
                _answer(answers, _compile(json.loads(line)))
    finally:
        _remove_dumps()


def _end_with(parent: int) -> None:
    """End when the process that asks has ended, though the compiler be at work."""
    while os.getppid() == parent:
        time.sleep(_LOOK)
    if folder := os.environ.get(_DUMPS):
        # The compiler may be at work and write on: another process removes its dumps, once this one has ended.
        null = subprocess.DEVNULL
        try:
            subprocess.Popen(
                [sys.executable, "-IS", "-c", _REMOVE, folder], stdin=subprocess.PIPE, stdout=null, stderr=null
            )
        except OSError:  # none is to be had
            _remove_dumps()
    os.kill(os.getpid(), signal.SIGKILL)


def _remove_dumps() -> None:
    """What is left of a process that could not tidy up."""
    if folder := os.environ.get(_DUMPS):
        shutil.rmtree(folder, ignore_errors=True)


def _answer(answers: IO[str], answer: dict[str, Any]) -> None:
    answers.write(json.dumps(answer) + "\n")
    answers.flush()


def _compile(job: dict[str, Any]) -> dict[str, Any]:
    import jax  # noqa: F401  # pyright: ignore[reportUnusedImport] - registers the TPU plugin; only the worker pays

    error = ""
    started = time.monotonic()
    try:
        from mosaic_tpu.aot import _compat
        from mosaic_tpu.sim.ir import parse_program

        devices = _compat.devices_of(job["topology"], tuple(job["bounds"]))
        started = time.monotonic()
        module = parse_program(job["program"])
        if job["vmem_limit_bytes"] is not None:
            _compat.limit_vmem(module, job["vmem_limit_bytes"])
        if job["in_hbm"] is not None:
            _compat.keep_in_hbm(module, **job["in_hbm"])
        partitions = _compat.partitions_of(module)
        if partitions > len(devices):
            raise ValueError(f"the program is for {partitions} devices and {job['topology']} has {len(devices)}")
        replicas = len(devices) if job["communicates"] and partitions == 1 else 1
        _compat.compile_for(devices, module, replicas, partitions)
    except Exception as refused:  # Any error is the answer: jaxlib has several unrelated classes of them.
        error = str(refused) or type(refused).__name__
    return {"error": error, "seconds": time.monotonic() - started}


if __name__ == "__main__":
    serve()
