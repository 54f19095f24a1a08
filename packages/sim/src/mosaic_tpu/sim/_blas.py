"""One BLAS thread: several would sum in another order from run to run, and are slower at a block's size."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Generator
from typing import Any

import threadpoolctl

_LOCK = threading.Lock()
_within = 0
_limit: Any = None


@functools.cache
def _controller() -> Any:
    controller: Any = threadpoolctl.ThreadpoolController()
    return controller.select(user_api="blas")


@contextlib.contextmanager
def one_thread() -> Generator[None]:
    """Within, matrix products use one thread; the setting is the process's, so that the last to leave undoes it."""
    _enter()
    try:
        yield
    finally:
        _leave()


def _enter() -> None:
    global _within, _limit
    with _LOCK:
        if _within == 0:
            _take_control()
            _limit = _controller().limit(limits=1)
        _within += 1


def _leave() -> None:
    global _within
    with _LOCK:
        _within -= 1
        if _within == 0:
            _take_control()
            _limit.restore_original_limits()
            _take_control()


def _take_control() -> None:
    """Have the calling thread's word count: threadpoolctl lets the first thread that sets a limit lift it, no other."""
    for library in _controller().lib_controllers:
        if hasattr(library, "clear_controlling_thread"):
            library.clear_controlling_thread(force=True)
