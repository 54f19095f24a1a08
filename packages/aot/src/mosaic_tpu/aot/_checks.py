"""What options may be, whoever takes them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final, cast

from mosaic_tpu.aot.errors import OptionError

#: More VMEM than any TPU will have, and still a number of the compiler's.
_MOST_BYTES: Final = 1 << 40
#: A year.
_MOST_SECONDS: Final = 366 * 24 * 3600
_LONGEST: Final = 4096


def check_limit(limit: Any, op: str) -> None:
    """A VMEM limit is a positive number of bytes, or nothing.

    Raises:
        OptionError: it is not.
    """
    if limit is not None and (type(limit) is not int or not 0 < limit <= _MOST_BYTES):
        raise OptionError(f"vmem_limit_bytes is {limit!r}", op=op, hint="a positive number of bytes")


def check_timeout(timeout: Any, op: str) -> None:
    """A time-out is a positive number of seconds.

    Raises:
        OptionError: it is not.
    """
    number = isinstance(timeout, int | float) and not isinstance(timeout, bool)
    if not number or not 0 < timeout <= _MOST_SECONDS:
        raise OptionError(f"timeout is {timeout!r}", op=op, hint="a positive number of seconds, up to a year")


def check_workers(workers: Any, op: str) -> None:
    """Workers are a positive number of processes, or nothing.

    Raises:
        OptionError: they are not.
    """
    if workers is not None and (type(workers) is not int or workers < 1):
        raise OptionError(f"workers is {workers!r}", op=op, hint="a positive number of processes")


def check_flags(flags: Any, op: str) -> None:
    """Flags are names with words, numbers or bools.

    Raises:
        OptionError: they are not.
    """
    if not isinstance(flags, Mapping):
        raise OptionError(f"flags is {flags!r}", op=op, hint="flags={'xla_tpu_…': value}")
    for name, value in cast("Mapping[Any, Any]", flags).items():
        if not isinstance(name, str) or not name.isidentifier() or not name.isascii():
            raise OptionError(f"{name!r} is no name of a flag", op=op, hint="flags={'xla_tpu_…': value}")
        word = isinstance(value, str | int | float) and str(value).isprintable() and not set(str(value)) & set(" ")
        if not word or len(str(value)) > _LONGEST or not str(value).isascii() or _is_infinite(value):
            raise OptionError(f"the flag {name} is {value!r:.80}", op=op, hint="a word, a number or a bool")


def _is_infinite(value: Any) -> bool:
    return isinstance(value, float) and not math.isfinite(value)
