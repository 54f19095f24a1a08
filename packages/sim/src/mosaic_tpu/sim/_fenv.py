"""The floating-point environment of a run: a thread of XLA's, which calls back under `jit`, flushes denormals."""

from __future__ import annotations

import contextlib
import ctypes
import functools
from collections.abc import Generator
from typing import Final

_DEFAULT: Final = ctypes.c_void_p(-1)  # FE_DFL_ENV of glibc
_SIZE: Final = 64  # more than any fenv_t of glibc


@functools.cache
def _library() -> ctypes.CDLL | None:
    """The C library's, where it is glibc; elsewhere a run has the environment of its thread."""
    try:
        library = ctypes.CDLL("libm.so.6")
        assert library.fegetenv and library.fesetenv
    except (OSError, AttributeError):
        return None
    return library


@contextlib.contextmanager
def default_environment() -> Generator[None]:
    """Within, this thread rounds to nearest and keeps denormals."""
    library = _library()
    if library is None:
        yield
        return
    saved = ctypes.create_string_buffer(_SIZE)
    library.fegetenv(saved)
    library.fesetenv(_DEFAULT)
    try:
        yield
    finally:
        library.fesetenv(saved)
