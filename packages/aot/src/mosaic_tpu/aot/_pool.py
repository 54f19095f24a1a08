"""Compiler processes, kept warm for the next job with the same flags."""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import errno
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Generator, Mapping
from concurrent.futures import CancelledError
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from mosaic_tpu.aot._worker import Answer, Worker, cannot_start
from mosaic_tpu.aot.errors import DumpError
from mosaic_tpu.aot.schedule import Dumps, find_dumps

#: What a job leaves behind besides its answer: nothing, its bundles, or its bundles and the compiler's estimate.
type Dump = Literal["", "bundles", "profile"]
type Flags = Mapping[str, str | int | float | bool]

#: Processes that wait for work.
_IDLE: Final = 4
#: Jobs after which a process is replaced: libtpu keeps what it compiled, some 20 MB a kernel.
_JOBS: Final = 60
#: Bytes that the compiler's dumps of a kernel may well take.
_ROOM: Final = 1 << 20
#: What libtpu says where another process has it, and no longer than these waits, in seconds.
_LOCKED: Final = "libtpu_lockfile"
_WAITS: Final = (0.2, 0.4, 0.8, 1.6, 3.2, 6.4)


@dataclass(frozen=True)
class Outcome:
    """A job's answer, and the dumps of its kernels by the name of their HLO op."""

    answer: Answer
    dumps: Mapping[str, Dumps]


def run(job: dict[str, Any], flags: Flags, dump: Dump, timeout: float) -> Outcome:
    """Have a job done by a process with these flags; as many run at once as threads call this."""
    outcome = _once(job, flags, dump, timeout)
    for wait in _WAITS:
        if _LOCKED not in outcome.answer.error:
            break
        # Another process, not of ours, has just loaded libtpu.
        time.sleep(wait)
        outcome = _once(job, flags, dump, timeout)
    return outcome


def _once(job: dict[str, Any], flags: Flags, dump: Dump, timeout: float) -> Outcome:
    try:
        member = _POOL.take(_line(flags), dump)
    except OSError as error:
        raise cannot_start(error) from None
    try:
        outcome = member.run(job, timeout)
    except BaseException:
        _POOL.give(member, keep=False)
        raise
    _POOL.give(member, keep=_LOCKED not in outcome.answer.error)
    return outcome


class Batch:
    """Jobs that belong together, and are interrupted together."""

    def __init__(self) -> None:
        self.interrupted = False

    def interrupt(self) -> None:
        """End every process that is at work for it, and begin no other: its jobs fail at once."""
        _POOL.interrupt(self)


@contextlib.contextmanager
def within(batch: Batch) -> Generator[None]:
    """What this thread runs belongs to a batch."""
    outer: Batch | None = getattr(_THREAD, "batch", None)
    _THREAD.batch = batch
    try:
        yield
    finally:
        _THREAD.batch = outer


def close() -> None:
    """End every process that waits for work."""
    _POOL.close()


def _line(flags: Flags) -> str:
    said = {True: "true", False: "false"}
    return " ".join(f"--{name}={said[v] if isinstance(v, bool) else v}" for name, v in sorted(flags.items()))


class _Member:
    """A worker, with the folder that its dumps go to."""

    def __init__(self, line: str, dump: Dump) -> None:
        self.line, self.dump, self.jobs = line, dump, 0
        self._folder = Path(tempfile.mkdtemp(prefix="mosaic-tpu-")) if dump else None
        self._worker = Worker(" ".join(filter(None, (line, self._dump_flags()))), str(self._folder or ""))
        self.batch: Batch | None = None

    def _dump_flags(self) -> str:
        if self._folder is None:
            return ""
        flags = {
            "xla_jf_dump_to": self._folder,
            "xla_jf_dump_llo_text": "true",
            "xla_jf_emit_annotations": "true",
            "xla_jf_dump_llo_pass_label_regex": "final",
            "xla_mosaic_enable_llo_source_annotations": "true",
        }
        if self.dump == "profile":
            flags["xla_jf_dump_static_llo_profile_to"] = self._folder
        return " ".join(f"--{name}={value}" for name, value in flags.items())

    def run(self, job: dict[str, Any], timeout: float) -> Outcome:
        self.jobs += 1
        if self._folder is None:
            return Outcome(self._worker.run(job, timeout), {})
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(exist_ok=True)
        answer = self._worker.run(job, timeout)
        if answer.crashed and _is_full(self._folder):  # the compiler only says that it could not write
            answer = dataclasses.replace(answer, error=f"{answer.error}\n{os.strerror(errno.ENOSPC)}")
        if answer.error or answer.died:
            return Outcome(answer, {})
        try:
            return Outcome(answer, find_dumps(self._folder))
        except DumpError:  # as where there is none
            return Outcome(answer, {})

    @property
    def killed(self) -> bool:
        return self._worker.killed

    def kill(self) -> None:
        """Have its job fail."""
        self._worker.kill()

    def end(self) -> None:
        self._worker.end()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)


class _Pool:
    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """In a fork: the processes are the parent's, and so may be who holds the lock."""
        self._lock = threading.Lock()
        self._idle: list[_Member] = []
        self._busy: list[_Member] = []

    def take(self, line: str, dump: Dump) -> _Member:
        """A warm process if there is one, else a new one."""
        batch: Batch | None = getattr(_THREAD, "batch", None)
        with self._lock:
            if batch is not None and batch.interrupted:
                raise CancelledError
            same = [member for member in self._idle if (member.line, member.dump) == (line, dump)]
            member = same[-1] if same else _Member(line, dump)
            if same:
                self._idle.remove(member)
            self._busy.append(member)
            member.batch = batch
        return member

    def give(self, member: _Member, *, keep: bool) -> None:
        """Take a process back; the one that has waited longest ends when there are too many."""
        keep = keep and member.jobs < _JOBS and not member.killed
        ended = [] if keep else [member]
        with self._lock:
            if member in self._busy:
                self._busy.remove(member)
            if keep:
                self._idle.append(member)
                ended += self._idle[:-_IDLE]
                self._idle = self._idle[-_IDLE:]
        for one in ended:
            one.end()

    def interrupt(self, batch: Batch) -> None:
        """Kill those that work for a batch."""
        with self._lock:
            batch.interrupted = True
            for member in self._busy:
                if member.batch is batch:
                    member.kill()

    def close(self) -> None:
        """End those that wait."""
        with self._lock:
            ended, self._idle = self._idle, []
        for member in ended:
            member.end()


def _is_full(folder: Path) -> bool:
    with contextlib.suppress(OSError):
        return shutil.disk_usage(folder).free < _ROOM
    return False


_THREAD: Final = threading.local()
_POOL: Final = _Pool()
atexit.register(close)
os.register_at_fork(after_in_child=_POOL.reset)
