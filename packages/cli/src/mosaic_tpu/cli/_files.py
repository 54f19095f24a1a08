"""Files that the command writes: whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

from mosaic_tpu.cli._errors import FULL, OutputError, UsageError


def writable(name: str) -> Path:
    """A file that may be written, as far as can be seen before the work.

    Raises:
        UsageError: it is a folder, or in none, or there can be none of that name.
    """
    if not name:
        raise UsageError("the name of the file to write is empty", "name a file")
    file = Path(name)
    if os.path.isdir(name):
        raise UsageError(f"cannot write {name}: it is a folder", "name a file in it")
    if os.path.basename(name) in ("", os.curdir):  # which Path would leave out
        raise UsageError(f"cannot write {name}: it names a folder", "name a file")
    if not os.path.isdir(file.parent):
        raise UsageError(
            f"cannot write {name}: there is no folder {file.parent}", "name a file in a folder that exists"
        )
    try:
        file.stat()
    except FileNotFoundError:
        pass
    except OSError as error:
        raise _unwritable(file, error) from None
    return file


def is_special(file: Path) -> bool:
    """Whether it is a device, a pipe or the like, which may have no end."""
    return file.exists() and not file.is_file() and not file.is_dir()


def put(data: bytes, file: Path) -> int:
    """Write a file; one that is there stays as it is until all is written. A device or a pipe takes it as it comes.

    Returns:
        How many bytes it has.

    Raises:
        UsageError: it cannot be written.
        OutputError: the disk does not take it.
    """
    try:
        if file.exists() and not file.is_file():
            file.write_bytes(data)
        else:
            from mosaic_tpu.aot._files import put as replace  # here: it takes a moment to import

            replace(file, data)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise _unwritable(file, error) from None
    return len(data)


def _unwritable(file: Path, error: OSError) -> Exception:
    why = f"cannot write {file}: {error.strerror or error}"
    if error.errno in FULL:
        return OutputError(why)
    return UsageError(why, "name a file that can be written, in a folder that exists")
