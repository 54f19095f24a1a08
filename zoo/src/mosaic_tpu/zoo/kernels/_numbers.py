"""What the fields of configs may be."""

from __future__ import annotations

import sys


def is_size(value: object) -> bool:
    """Whether it is a positive int."""
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def is_number(value: object) -> bool:
    """Whether it is an int or a float; NaN and what is infinite, or an int too large for a float, are none."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


__all__ = ["is_number", "is_size"]
