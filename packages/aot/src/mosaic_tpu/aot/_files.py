"""Files that are written whole or not at all: tables, answers, and what the command is asked for."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import uuid
from pathlib import Path
from typing import Final

#: What a folder answers in which no other file may be put, or a file that is a mount of its own.
_FIXED: Final = (errno.EACCES, errno.EPERM, errno.EBUSY, errno.EXDEV)


def put(file: Path, data: bytes) -> None:
    """Write beside a file, with the mode that it has or a new one gets, and put that in its place; a link stays one.

    A file that nothing can be put in place of is written as it is.

    Raises:
        OSError: it cannot be written.
    """
    file = Path(os.path.realpath(file))
    check(file)
    there = file.exists()
    new = file.with_name(f".{uuid.uuid4().hex}")
    try:
        with new.open("xb") as out:
            if there:
                new.chmod(stat.S_IMODE(file.stat().st_mode))
            out.write(data)
            out.flush()
            os.fsync(out.fileno())
        os.replace(new, file)
    except BaseException as error:
        with contextlib.suppress(OSError):
            new.unlink()
        if not (there and isinstance(error, OSError) and error.errno in _FIXED):
            raise
        file.write_bytes(data)


def check(file: Path) -> None:
    """Refuse a file that is there to be read only: its folder would let another be put in its place.

    Raises:
        PermissionError: it is one.
    """
    if file.exists() and not os.access(file, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
