"""Files that are read: one that never comes, or never ends, is refused and not waited for."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path


def contents_of(file: Path, *, pipes: bool = False) -> bytes:
    """What is in a file that `check_file` lets pass."""
    check_file(file, pipes=pipes)
    return file.read_bytes()


def check_file(file: Path, *, pipes: bool = False) -> None:
    """See that a file is a regular one.

    Args:
        file: its name.
        pipes: take what is read once too: a pipe, a terminal.

    Raises:
        OSError: it is not there, or is something else.
        ValueError: there is a zero in its name.
    """
    mode = file.stat().st_mode
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(file))
    if not stat.S_ISREG(mode) and not (pipes and (stat.S_ISFIFO(mode) or _is_terminal(file, mode))):
        raise OSError(errno.EINVAL, "it is no regular file", str(file))


def _is_terminal(file: Path, mode: int) -> bool:
    if not stat.S_ISCHR(mode):
        return False
    handle = os.open(file, os.O_RDONLY | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_NONBLOCK", 0))
    try:
        return os.isatty(handle)
    finally:
        os.close(handle)
