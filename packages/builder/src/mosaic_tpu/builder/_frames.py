"""Whose line it is: the nearest frame that is the kernel's and not the builder's."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path
from types import CodeType, FrameType
from typing import Final

_PACKAGE: Final = str(Path(__file__).parent) + os.sep
#: Our factory, and JAX, which calls our rules while it traces and lowers.
_BETWEEN: Final = (str(Path("mosaic_tpu", "kernel")) + os.sep, str(Path("jax", "_src")) + os.sep)

#: Whether a file is ours (skipped when looking for the user's line); filled as files are met.
is_internal: Final[dict[str, bool]] = {}


def internal(filename: str) -> bool:
    """Whether a file is ours, or stands between ours and the kernel's."""
    found = (
        filename.startswith(_PACKAGE) or filename == contextlib.__file__ or any(part in filename for part in _BETWEEN)
    )
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


def user_line() -> str:
    """``"file.py:12"`` of the kernel's line that is being built, for messages."""
    frame = user_frame(sys._getframe(1))
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"
