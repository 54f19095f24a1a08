"""Standard streams as a command may rely on them: each is there, and takes every character."""

from __future__ import annotations

import io
import os
import sys
from typing import Any


def prepare() -> None:
    """What the shell closed reads and writes nothing; what an encoding lacks is written as an escape."""
    for name in ("stdin", "stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            mode = "r" if name == "stdin" else "w"
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 - open as long as the process
        elif name != "stdin" and isinstance(stream, io.TextIOWrapper):
            setattr(sys, name, whole := _buffered(stream))
            whole.reconfigure(errors="backslashreplace")
    if os.environ.get("COLUMNS") == "0":  # as some terminals have it that do not know; Rich would write nothing
        del os.environ["COLUMNS"]


def _buffered(stream: Any) -> Any:
    """The stream; under PYTHONUNBUFFERED one that loses nothing of what a pipe or a disk takes in part."""
    if not isinstance(stream.buffer, io.RawIOBase):
        return stream
    return io.TextIOWrapper(io.BufferedWriter(stream.detach()), stream.encoding, line_buffering=True)
