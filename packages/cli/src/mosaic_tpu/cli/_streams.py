"""Standard streams as a command may rely on them: each is there, and takes every character."""

from __future__ import annotations

import io
import os
import sys


def prepare() -> None:
    """What the shell closed reads and writes nothing; what an encoding lacks is written as an escape.

    Under PYTHONUNBUFFERED a write that a pipe or a disk takes in part would lose the rest without a word.
    """
    for name in ("stdin", "stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            mode = "r" if name == "stdin" else "w"
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 - open as long as the process
        elif name != "stdin" and isinstance(stream, io.TextIOWrapper):
            if isinstance(stream.buffer, io.RawIOBase):
                buffer = io.BufferedWriter(stream.detach())
                stream = io.TextIOWrapper(buffer, stream.encoding, line_buffering=True)
                setattr(sys, name, stream)
            stream.reconfigure(errors="backslashreplace")
    if os.environ.get("COLUMNS") == "0":  # as some terminals have it that do not know; Rich would write nothing
        del os.environ["COLUMNS"]
