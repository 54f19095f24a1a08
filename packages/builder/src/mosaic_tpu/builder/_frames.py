"""Whose line it is: the nearest frame that is the kernel's and not the builder's."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import re
import sys
from pathlib import Path
from types import CodeType, FrameType
from typing import Final

_PACKAGE: Final = str(Path(__file__).parent) + os.sep
_STANDARD_LIBRARY: Final = (contextlib.__file__, dataclasses.__file__, functools.__file__)
#: Folders whose files are no kernel's: ours, and those of packages that stand between ours and the kernel's.
_folders: list[str] = [_PACKAGE]

#: Whether a file is ours (skipped when looking for the user's line); filled as files are met.
is_internal: Final[dict[str, bool]] = {}


def internal_folder(path: str) -> None:
    """Skip the files below this absolute folder when errors and ops look for the kernel's line.

    For packages that call kernels on behalf of their users; call it when the package is imported.

    Example:
        >>> internal_folder("/opt/venv/lib/python3.14/site-packages/my_kernels/calling")
    """
    _folders.append(os.path.join(path, ""))
    is_internal.clear()


def _jax_folder() -> str:
    """The folder of JAX, which calls our rules while it traces and lowers; ``""`` as long as it is not imported."""
    found = getattr(sys.modules.get("jax"), "__file__", None)
    return os.path.join(os.path.dirname(found), "_src", "") if found else ""


def internal(filename: str) -> bool:
    """Whether a file is ours, or stands between ours and the kernel's."""
    jax = _jax_folder()
    found = (
        filename.startswith(tuple(_folders))
        or filename in _STANDARD_LIBRARY
        or (bool(jax) and filename.startswith(jax))
    )
    is_internal[filename] = found
    return found


def user_filename(left_out: str | None, code: CodeType) -> str | None:
    """The code's file, without what matches the pattern ``left_out``, or ``None`` if it is ours."""
    if internal(code.co_filename):
        return None
    return re.sub(left_out, "", code.co_filename) if left_out else code.co_filename


def user_frame(frame: FrameType) -> FrameType:
    """The nearest frame that is not the builder's."""
    while True:
        filename = frame.f_code.co_filename
        found = is_internal.get(filename)
        if found is None:
            found = internal(filename)
        if not found or frame.f_back is None:
            return frame
        frame = frame.f_back


def maker(frame: FrameType) -> FrameType:
    """The frame that makes the dataclass whose checks run in ``frame``, or ``frame`` if those are none.

    Checks are what its module runs inside of the ``__init__`` that `dataclasses` generates.
    """
    found: FrameType | None = frame
    while found is not None and found.f_globals is frame.f_globals:
        if found.f_code.co_filename == "<string>" and found.f_code.co_name == "__init__" and found.f_back is not None:
            return found.f_back
        found = found.f_back
    return frame


def user_line() -> str:
    """``"file.py:12"`` of the kernel's line that made what the caller of the caller refuses, for messages."""
    frame = user_frame(maker(sys._getframe(2)))
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"
