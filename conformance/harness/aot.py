"""The TPU compiler's word on a StableHLO module, without a TPU: libtpu in a worker process that stays warm.

>>> with Compiler() as compiler:                                    # doctest: +SKIP
...     compiler.compile(stablehlo_text, "v6e")
CompileResult(target='v6e', ok=True, seconds=0.07, reason='')

The worker may abort or hang: that is a result, and the next job gets a new worker.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import re
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final

#: Names of the topologies that hold one chip.
TOPOLOGIES: Final = {
    "v4": "v4:1x1x1",
    "v5e": "v5e:1x1",
    "v5p": "v5p:1x1x1",
    "v6e": "v6e:1x1",
    "tpu7x": "tpu7x:1x1x1",
}
TARGETS: Final = tuple(TOPOLOGIES)
NO_LIBTPU: Final = "The TPU compiler is not installed: pip install libtpu (Linux on x86-64 only)."

# Keeps libtpu quiet and from looking for a TPU. Compiling needs none, so several workers may load it at a time.
ENVIRONMENT: Final = {
    "JAX_PLATFORMS": "cpu",
    "TPU_SKIP_MDS_QUERY": "1",
    "TPU_ACCELERATOR_TYPE": "v5litepod-1",
    "TPU_WORKER_HOSTNAMES": "localhost",
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
}
LOCKED: Final = "lockfile"
LOCK_RETRIES: Final = 8
ROOT: Final = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class CompileResult:
    """What the compiler said: `reason` in one plain line, `raw` in full. Both are empty where it accepted."""

    target: str
    ok: bool
    seconds: float
    reason: str
    raw: str = field(default="", repr=False)


def missing() -> str:
    """Why nothing can be compiled here, in one sentence; empty if it can."""
    return "" if importlib.util.find_spec("libtpu") else NO_LIBTPU


class Compiler:
    """Compiles modules in a worker process, started at the first job and kept until `close`."""

    def __init__(self, libtpu_args: str = "") -> None:
        """`libtpu_args` goes to ``LIBTPU_INIT_ARGS``, which libtpu reads once a process."""
        self._environment = ENVIRONMENT | ({"LIBTPU_INIT_ARGS": libtpu_args} if libtpu_args else {})
        self._worker: _Worker | None = None

    def __enter__(self) -> Compiler:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """End the worker."""
        if self._worker:
            self._worker.end()
            self._worker = None

    @property
    def worker_pid(self) -> int | None:
        """The process id of the worker, if one is running."""
        return self._worker.process.pid if self._worker else None

    def compile(
        self,
        stablehlo_text: str,
        target: str,
        timeout: float = 120.0,
        options: Mapping[str, str | int | bool] | None = None,
    ) -> CompileResult:
        """Compile a StableHLO module for one chip of `target`.

        Arguments:
            stablehlo_text: a module with a public ``@main``; its arguments say all that the compiler has to know.
            target: one of `TARGETS`.
            timeout: seconds, the worker's start not counted.
            options: XLA's, for example ``{"xla_tpu_scoped_vmem_limit_kib": 65536}``.
        """
        if target not in TOPOLOGIES:
            raise ValueError(f"no target {target!r}: one of {', '.join(TARGETS)}")
        if reason := missing():
            return CompileResult(target, False, 0.0, reason)
        job = {"stablehlo": stablehlo_text, "topology": TOPOLOGIES[target], "options": dict(options or {})}
        for attempt in range(LOCK_RETRIES):
            result = self._run(job, target, timeout)
            if result.ok or LOCKED not in result.raw:
                break
            self.close()
            time.sleep(0.2 * 2**attempt)
        return result

    def _run(self, job: dict[str, Any], target: str, timeout: float) -> CompileResult:
        try:
            worker = self._started()
        except _WorkerLostError as died:
            return self._lost(target, 0.0, died)
        started = time.monotonic()
        try:
            answer = worker.ask(job, timeout)
        except _WorkerLostError as died:
            return self._lost(target, time.monotonic() - started, died)
        raw = answer["error"]
        return CompileResult(target, not raw, answer["seconds"], plain_reason(raw), raw)

    def _started(self) -> _Worker:
        if self._worker and self._worker.process.poll() is not None:
            self.close()  # It died between two jobs: no job's fault.
        if self._worker is None:
            self._worker = _Worker(self._environment)
            self._worker.await_ready(timeout=120.0)
        return self._worker

    def _lost(self, target: str, seconds: float, died: _WorkerLostError) -> CompileResult:
        self.close()
        return CompileResult(target, False, seconds, died.reason, died.raw)


# ------------------------------------------------------------------------------------------------ reasons in a line
_NOISE: Final = (
    r"^(?:[A-Z_]{4,}: )+",  # status codes: "INTERNAL: "
    r"^Mosaic failed to compile TPU kernel(?: with MLIR module name `[^`]*`)?(?: HLO name `[^`]*`)?: ?",
    r"^Compilation failure: ",
    r"^E\d{4}: \w+: ?",
    r"\s*\(\w+/[\w/.-]+\.(?:cc|h):\d+\)",  # source files of the compiler
)


def plain_reason(raw: str) -> str:
    """The reason in a compiler's error text, in one line: its code and name if it has one, and the first thing said."""
    if not raw:
        return ""
    code = re.search(r"\b(E\d{4}): ?(\w+)", raw)
    lines = [cleaned for line in raw.splitlines() if (cleaned := _cleaned(line))]
    said = " ".join(lines[: 2 if lines[0].endswith(":") else 1]) if lines else raw.strip()
    return f"{code[1]} {code[2]}: {said}" if code else said


def _cleaned(line: str) -> str:
    before = None
    while before != line:
        before, line = line, line.strip()
        for noise in _NOISE:
            line = re.sub(noise, "", line)
    return line


def _fatal(log: str) -> str:
    """The line of a crashed process's log that says why."""
    lines = [line for line in log.splitlines() if line.strip()]
    marks = (r"^F\d{4}.*?\] ?(.*)", r"(.*Check failed.*)", r"(.*\bassert.*)", r"^(\w*Error: .*)", r"(.*LLVM ERROR.*)")
    for mark in marks:
        for line in lines:
            if found := re.search(mark, line):
                return found[1].strip()
    return ""


# ------------------------------------------------------------------------------------------------------- the worker
class _WorkerLostError(Exception):
    """The worker ended, or was ended, without an answer."""

    def __init__(self, reason: str, raw: str) -> None:
        super().__init__(reason)
        self.reason, self.raw = reason, raw


class _Worker:
    """The other process: one JSON object a line each way; what it says otherwise goes into a log."""

    def __init__(self, environment: dict[str, str]) -> None:
        self._log: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `end`
        self.process = subprocess.Popen(
            [sys.executable, "-m", "conformance.harness.aot"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env=os.environ | environment,
            cwd=ROOT,
        )
        self._unread = b""

    def ask(self, job: dict[str, Any], timeout: float) -> dict[str, Any]:
        """The answer to a job."""
        deadline = time.monotonic() + timeout
        self._log.truncate(0)
        unsent = memoryview(json.dumps(job).encode() + b"\n")
        while unsent:
            self._wait(deadline, timeout, writing=True)
            try:
                # No more than a pipe takes at once without blocking.
                unsent = unsent[os.write(self._stdin.fileno(), unsent[: select.PIPE_BUF]) :]
            except BrokenPipeError:
                raise self._death() from None
        return self._receive(deadline, timeout)

    def await_ready(self, timeout: float) -> None:
        """Wait for the first line, which says that the process has started."""
        self._receive(time.monotonic() + timeout, timeout)

    def _receive(self, deadline: float, timeout: float) -> dict[str, Any]:
        while b"\n" not in self._unread:
            self._wait(deadline, timeout, writing=False)
            piece = os.read(self._stdout.fileno(), 1 << 16)
            if not piece:
                raise self._death()
            self._unread += piece
        line, _, self._unread = self._unread.partition(b"\n")
        return json.loads(line)

    def _wait(self, deadline: float, timeout: float, *, writing: bool) -> None:
        """Until the pipe is ready; at the deadline the process is killed."""
        left = max(0.0, deadline - time.monotonic())
        ready = select.select([] if writing else [self._stdout], [self._stdin] if writing else [], [], left)
        if not any(ready):
            self.process.kill()
            raise _WorkerLostError(f"no answer within {timeout:g} s", self._said())

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self._stdin, self._stdout, self._log):
            with contextlib.suppress(BrokenPipeError):
                pipe.close()

    @property
    def _stdin(self) -> IO[bytes]:
        assert self.process.stdin
        return self.process.stdin

    @property
    def _stdout(self) -> IO[bytes]:
        assert self.process.stdout
        return self.process.stdout

    def _death(self) -> _WorkerLostError:
        code = self.process.wait()
        how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        said = self._said()
        return _WorkerLostError(": ".join(filter(None, (f"the TPU compiler ended ({how})", _fatal(said)))), said)

    def _said(self) -> str:
        self._log.seek(0)
        return self._log.read().decode(errors="replace")


def serve() -> None:
    """The worker's loop. Standard output carries answers only: libtpu's own prints are sent to standard error."""
    with os.fdopen(os.dup(1), "w") as answers:
        os.dup2(2, 1)
        _answer(answers, {"ready": True})
        for line in sys.stdin:
            _answer(answers, _compile(json.loads(line)))


def _answer(answers: IO[str], answer: dict[str, Any]) -> None:
    answers.write(json.dumps(answer) + "\n")
    answers.flush()


def _compile(job: dict[str, Any]) -> dict[str, Any]:
    import jax  # noqa: F401 - registers the TPU plugin; only the worker pays for it

    error, started = "", time.monotonic()
    try:
        device = _device(job["topology"])
        started = time.monotonic()
        _compile_for(device, job["stablehlo"], job["options"])
    except Exception as refused:  # Any error is the answer: jaxlib has several unrelated classes of them.
        error = str(refused) or type(refused).__name__
    return {"error": error, "seconds": time.monotonic() - started}


def _device(topology: str) -> Any:
    from jax.experimental import topologies

    # Before 0.0.50, libtpu takes hosts of four chips for granted if it is not told otherwise.
    options = {"topology_name": topology, "chips_per_host_bounds": (1, 1, 1)}
    return topologies.get_topology_desc(platform="tpu", **options).devices[0]


def _compile_for(device: Any, stablehlo_text: str, options: dict[str, Any]) -> None:
    import numpy as np
    from jaxlib import xla_client  # not public; jax.stages compiles only what JAX has traced
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import stablehlo

    from conformance.harness import levels

    choices = xla_client.CompileOptions()
    choices.num_replicas = choices.num_partitions = 1
    choices.device_assignment = xla_client.DeviceAssignment.create(np.array([[device.id]]))
    choices.env_option_overrides = list(options.items())
    with levels.new_context() as context:
        stablehlo.register_dialect(context)
        module = ir.Module.parse(stablehlo_text)
        device.client.compile(module, xla_client.DeviceList((device,)), choices)


if __name__ == "__main__":
    serve()
