"""Warnings of our packages, as notes."""

from __future__ import annotations

import warnings
from collections.abc import Generator
from contextlib import contextmanager

from mosaic_tpu.cli._output import note


@contextmanager
def noted() -> Generator[None]:
    """While the compiler works: what the disk would not take is told in a line, whatever Python does with warnings.

    The line comes at the end, once for all that say the same; what others warn of is told as ever.
    """
    from mosaic_tpu.aot.errors import NotKeptWarning

    caught: list[warnings.WarningMessage] = []
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", NotKeptWarning)
            yield
    finally:
        for warning in caught:
            if not issubclass(warning.category, NotKeptWarning):
                warnings.showwarning(warning.message, warning.category, warning.filename, warning.lineno)
        for text in dict.fromkeys(str(w.message) for w in caught if issubclass(w.category, NotKeptWarning)):
            note(f"note: {text}")
