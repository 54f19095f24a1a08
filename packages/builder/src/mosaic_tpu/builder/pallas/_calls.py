"""Functions of the kernel that idioms call: bodies of loops, branches, blocks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import signature
from typing import Any

from mosaic_tpu.builder.errors import ArityError


def called(op: str, function: Callable[..., Any], *arguments: object) -> Any:
    """What a function of the kernel returns.

    Raises:
        ArityError: it does not take as many arguments.
    """
    try:
        return function(*arguments)
    except TypeError:
        if _takes(function, arguments):
            raise
        name, given = getattr(function, "__name__", "the function"), len(arguments)
        hint = f"it is called with {given} argument{'s' * (given != 1)}"
        raise ArityError(f"{name} does not take {given}", op=op, hint=hint) from None


def _takes(function: Callable[..., Any], arguments: Sequence[object]) -> bool:
    try:
        signature(function).bind(*arguments)
    except TypeError:
        return False
    except ValueError:  # of a function written in C
        pass
    return True
