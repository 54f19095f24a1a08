"""One compiler process: libtpu may abort, hang or fill the disk there, and that is a result."""

from __future__ import annotations

import contextlib
import json
import os
import select
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from typing import IO, Any, Final

from mosaic_tpu.aot.errors import DiskError

# Keeps libtpu quiet and from looking for a TPU. Compiling needs none, so several workers may load it at a time.
_ENVIRONMENT: Final = {
    "JAX_PLATFORMS": "cpu",
    "TPU_SKIP_MDS_QUERY": "1",
    "TPU_ACCELERATOR_TYPE": "v5litepod-1",
    "TPU_WORKER_HOSTNAMES": "localhost",
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
}
#: Names the folder of dumps, which the process removes when the one that asks has gone.
DUMPS: Final = "MOSAIC_TPU_AOT_DUMPS"
_START_LIMIT: Final = 120.0
#: How a process ends that others end, the system for want of memory for one.
_KILLED: Final = ("SIGKILL", "SIGTERM", "SIGINT", "SIGHUP")
#: Bytes of a worker's log that are read, the last ones.
_LOG: Final = 1 << 20


@dataclass(frozen=True)
class Answer:
    """What became of a job.

    Attributes:
        error: the exception's text, or the log of a worker that died; empty where the program compiled.
        died: how the worker ended, ``"SIGABRT"``; empty where it answered.
        timed_out: whether it was killed because it took too long.
        started: whether it got so far as to take the job.
        seconds: that the compiler took.
    """

    error: str
    died: str = ""
    timed_out: bool = False
    started: bool = True
    seconds: float = 0.0

    @property
    def crashed(self) -> bool:
        """Whether the compiler ended by its own fault: not by its time, nor killed from outside."""
        return bool(self.died) and not self.timed_out and self.died not in _KILLED


class _LostError(Exception):
    """The worker ended, or was ended, without an answer."""

    def __init__(self, died: str, log: str, *, timed_out: bool = False) -> None:
        super().__init__(died)
        self.died, self.log, self.timed_out = died, log, timed_out


def cannot_start(error: OSError) -> DiskError:
    """The error for a process that the system does not give."""
    return DiskError(
        f"the compiler's process cannot be started: {error.strerror or error}",
        op="compile",
        hint="is there a folder for temporary files (TMPDIR), with room, and memory for a process?",
    )


class Worker:
    """A process that compiles, started at its first job, and again after it has died."""

    def __init__(self, libtpu_args: str = "", dumps: str = "") -> None:
        """`libtpu_args` goes to ``LIBTPU_INIT_ARGS``, which libtpu reads once a process; `dumps` ends with it."""
        self._environment = _ENVIRONMENT | {"LIBTPU_INIT_ARGS": libtpu_args, DUMPS: dumps}
        self._process: _Process | None = None
        self.killed = False

    @property
    def pid(self) -> int | None:
        """Of the process, if one is running."""
        return self._process.popen.pid if self._process else None

    def run(self, job: dict[str, Any], timeout: float) -> Answer:
        """The answer to a job; `timeout` in seconds, the worker's start not counted."""
        started: float | None = None
        try:
            process = self._started()
            started = time.monotonic()
            answer = process.ask(job, timeout)
        except _LostError as lost:
            self.end()
            seconds = 0.0 if started is None else time.monotonic() - started
            return Answer(lost.log, lost.died, lost.timed_out, started is not None, seconds)
        except BaseException:  # interrupted: what it would answer next belongs to no job
            self.end()
            raise
        return Answer(answer["error"], seconds=answer["seconds"])

    def kill(self) -> None:
        """Have its job fail, from another thread; who waits for it tidies up."""
        self.killed = True  # first: a process that is just being started looks at it afterwards
        if (process := self._process) is not None:
            process.popen.kill()

    def end(self) -> None:
        """End the process, if there is one."""
        if self._process:
            self._process.end()
            self._process = None

    def _started(self) -> _Process:
        if self._process and self._process.popen.poll() is not None:
            self.end()  # It died between two jobs: no job's fault.
        if self._process is None:
            try:
                self._process = _Process(self._environment)
            except OSError as error:
                raise cannot_start(error) from None
            if self.killed:
                self._process.popen.kill()
            self._process.await_ready()
        return self._process


class _Process:
    """The other process: one JSON object a line each way; what it says otherwise goes into a log."""

    def __init__(self, environment: dict[str, str]) -> None:
        self._log: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `end`
        paths = os.pathsep.join(path for path in sys.path if path)
        self.popen = subprocess.Popen(
            [sys.executable, "-m", "mosaic_tpu.aot._serve"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env=os.environ | environment | {"PYTHONPATH": paths},
            cwd=_folder(),
            start_new_session=True,  # an interrupt is the caller's to handle
        )
        self._unread = b""

    def ask(self, job: dict[str, Any], timeout: float) -> dict[str, Any]:
        """The answer to a job."""
        deadline = time.monotonic() + timeout
        # The process writes where this end of the file stands: else it would leave a hole.
        self._log.seek(0)
        self._log.truncate()
        unsent = memoryview(json.dumps(job).encode() + b"\n")
        while unsent:
            self._wait(deadline, timeout, writing=True)
            try:
                # No more than a pipe takes at once without blocking.
                unsent = unsent[os.write(self._stdin.fileno(), unsent[: select.PIPE_BUF]) :]
            except BrokenPipeError:
                raise self._death() from None
        return self._receive(deadline, timeout)

    def await_ready(self) -> None:
        """Wait for the first line, which says that the process has started."""
        self._receive(time.monotonic() + _START_LIMIT, _START_LIMIT)

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
        pipe, event = (self._stdin, selectors.EVENT_WRITE) if writing else (self._stdout, selectors.EVENT_READ)
        with selectors.DefaultSelector() as selector:
            selector.register(pipe, event)
            ready = selector.select(left)
        if not ready:
            self.popen.kill()
            raise _LostError(f"no answer within {timeout:g} s", self._said(), timed_out=True)

    def end(self) -> None:
        self.popen.kill()
        self.popen.wait()
        for pipe in (self._stdin, self._stdout, self._log):
            with contextlib.suppress(BrokenPipeError):
                pipe.close()

    @property
    def _stdin(self) -> IO[bytes]:
        assert self.popen.stdin
        return self.popen.stdin

    @property
    def _stdout(self) -> IO[bytes]:
        assert self.popen.stdout
        return self.popen.stdout

    def _death(self) -> _LostError:
        code = self.popen.wait()
        return _LostError(_ending(code), self._said())

    def _said(self) -> str:
        self._log.seek(0, os.SEEK_END)
        self._log.seek(max(0, self._log.tell() - _LOG))
        return self._log.read().decode(errors="replace")


def _folder() -> str | None:
    """Where a process works: where this one does, unless that folder is gone, in which libtpu aborts."""
    try:
        os.getcwd()
    except OSError:
        return os.path.abspath(os.sep)
    return None


def _ending(code: int) -> str:
    """How a process ended, from what it returned."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:  # real-time signals have no names
        return f"signal {-code}"
