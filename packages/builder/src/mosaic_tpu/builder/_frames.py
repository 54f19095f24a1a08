"""Whose line it is: the nearest frame that is the kernel's and not the builder's."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import sys
from pathlib import Path
from types import CodeType, FrameType
from typing import Final

_PACKAGE: Final = str(Path(__file__).parent) + os.sep
#: Our factory, what the zoo does before a kernel, and JAX, which calls our rules while it traces and lowers.
_BETWEEN: Final = tuple(
    str(Path(*folder)) + os.sep
    for folder in (
        ("mosaic_tpu", "kernel"),
        ("mosaic_tpu", "zoo", "api"),
        ("mosaic_tpu", "zoo", "validation"),
        ("jax", "_src"),
    )
)
_STANDARD_LIBRARY: Final = (contextlib.__file__, dataclasses.__file__)

#: Whether a file is ours (skipped when looking for the user's line); filled as files are met.
is_internal: Final[dict[str, bool]] = {}


def internal(filename: str) -> bool:
    """Whether a file is ours, or stands between ours and the kernel's."""
    found = filename.startswith(_PACKAGE) or filename in _STANDARD_LIBRARY or any(part in filename for part in _BETWEEN)
    is_internal[filename] = found
    return found


def user_filename(code: CodeType) -> str | None:
    """The code's file, or ``None`` if it is ours."""
    return None if internal(code.co_filename) else code.co_filename


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
