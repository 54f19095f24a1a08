"""Compiler processes, kept warm for the next job with the same flags."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from mosaic_tpu.aot._worker import Answer, Worker
from mosaic_tpu.aot.schedule import Dumps, find_dumps

#: What a job leaves behind besides its answer: nothing, its bundles, or its bundles and the compiler's estimate.
type Dump = Literal["", "bundles", "profile"]
type Flags = Mapping[str, str | int | bool]

#: Processes that wait for work; each takes some 300 MB.
_IDLE: Final = 4
_LOCKED: Final = "lockfile"
_LOCK_RETRIES: Final = 8


@dataclass(frozen=True)
class Outcome:
    """A job's answer, and the dumps of its kernels by the name of their HLO op."""

    answer: Answer
    dumps: Mapping[str, Dumps]


def run(job: dict[str, Any], flags: Flags, dump: Dump, timeout: float) -> Outcome:
    """Have a job done by a process with these flags; as many run at once as threads call this."""
    for attempt in range(_LOCK_RETRIES):
        member = _POOL.take(_line(flags), dump)
        try:
            outcome = member.run(job, timeout)
        except BaseException:
            member.end()
            raise
        locked = _LOCKED in outcome.answer.error
        _POOL.give(member, keep=not locked)
        if not locked:
            return outcome
        # Another process, not of ours, has just loaded libtpu.
        time.sleep(0.2 * 2**attempt)
    return outcome


def close() -> None:
    """End every process that waits for work."""
    _POOL.close()


def _line(flags: Flags) -> str:
    said = {True: "true", False: "false"}
    return " ".join(f"--{name}={said[v] if isinstance(v, bool) else v}" for name, v in sorted(flags.items()))


class _Member:
    """A worker, with the folder that its dumps go to."""

    def __init__(self, line: str, dump: Dump) -> None:
        self.line, self.dump = line, dump
        self._folder = Path(tempfile.mkdtemp(prefix="mosaic-tpu-")) if dump else None
        self._worker = Worker(" ".join(filter(None, (line, self._dump_flags()))))

    def _dump_flags(self) -> str:
        if self._folder is None:
            return ""
        flags = {
            "xla_jf_dump_to": self._folder,
            "xla_jf_dump_llo_text": "true",
            "xla_jf_emit_annotations": "true",
            "xla_jf_dump_llo_pass_label_regex": "final",
        }
        if self.dump == "profile":
            flags["xla_jf_dump_static_llo_profile_to"] = self._folder
        return " ".join(f"--{name}={value}" for name, value in flags.items())

    def run(self, job: dict[str, Any], timeout: float) -> Outcome:
        if self._folder is None:
            return Outcome(self._worker.run(job, timeout), {})
        for file in self._folder.iterdir():
            file.unlink()
        answer = self._worker.run(job, timeout)
        return Outcome(answer, {} if answer.error or answer.died else find_dumps(self._folder))

    def end(self) -> None:
        self._worker.end()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)


class _Pool:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[_Member] = []
        self._pid = os.getpid()

    def take(self, line: str, dump: Dump) -> _Member:
        """A warm process if there is one, else a new one."""
        with self._lock:
            if self._pid != os.getpid():  # a fork: the processes are the parent's
                self._pid, self._idle = os.getpid(), []
            for member in reversed(self._idle):
                if (member.line, member.dump) == (line, dump):
                    self._idle.remove(member)
                    return member
        return _Member(line, dump)

    def give(self, member: _Member, *, keep: bool) -> None:
        """Take a process back; the one that has waited longest ends when there are too many."""
        ended = [] if keep else [member]
        with self._lock:
            if keep:
                self._idle.append(member)
                ended += self._idle[:-_IDLE]
                self._idle = self._idle[-_IDLE:]
        for one in ended:
            one.end()

    def close(self) -> None:
        """End those that wait."""
        with self._lock:
            ended, self._idle = self._idle, []
            ended = ended if self._pid == os.getpid() else []
        for member in ended:
            member.end()


_POOL: Final = _Pool()
atexit.register(close)
