"""What the fields of configs may be."""

from __future__ import annotations

import math


def is_size(value: object) -> bool:
    """Whether it is a positive int."""
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def is_number(value: object) -> bool:
    """Whether it is an int or a float; NaN, which does not equal itself, is none."""
    return isinstance(value, int | float) and not isinstance(value, bool) and not math.isnan(value)


__all__ = ["is_number", "is_size"]
