"""Standard streams as a command may rely on them: each is there, takes every character, and has a width."""

from __future__ import annotations

import codecs
import io
import os
import re
import sys
from contextlib import suppress
from typing import Any, Final

#: Error handler of encodings, which writes what one lacks as JSON has it, so that a document stays one.
ESCAPED: Final = "mosaic-tpu-escaped"
#: Columns that tables can be drawn in.
_NARROWEST: Final = 20
_WIDEST: Final = 1000
#: All but tabs and ends of lines.
_CONTROLS: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def prepare() -> None:
    """A closed input is empty, a closed output cannot be written, what an encoding lacks is written as an escape."""
    for name in ("stdin", "stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            # Of standard output, a descriptor that refuses what is written: nobody would have got it.
            null = os.open(os.devnull, os.O_RDONLY if name != "stderr" else os.O_WRONLY)
            mode = "r" if name == "stdin" else "w"
            setattr(sys, name, open(null, mode, encoding="utf-8"))  # noqa: SIM115 - open as long as the process
        elif name != "stdin" and isinstance(stream, io.TextIOWrapper):
            setattr(sys, name, whole := _buffered(stream))
            whole.reconfigure(errors=ESCAPED)
    _set_width()


def _buffered(stream: Any) -> Any:
    """The stream; under PYTHONUNBUFFERED one that loses nothing of what a pipe or a disk takes in part."""
    if not isinstance(stream.buffer, io.RawIOBase):
        return stream
    return io.TextIOWrapper(io.BufferedWriter(stream.detach()), stream.encoding, line_buffering=True)


def _set_width() -> None:
    """Leave a COLUMNS that Rich can draw in, or none; it would write nothing or never end in 1, and fill memory."""
    given = os.environ.pop("COLUMNS", "")
    digits = given.lstrip("0") if given.isascii() and given.isdecimal() else ""
    if digits:
        os.environ["COLUMNS"] = str(_drawn(int(digits[:9])))
        return
    with suppress(OSError, ValueError, AttributeError):  # it is no terminal
        columns = os.get_terminal_size(sys.stdout.fileno()).columns
        if columns and _drawn(columns) != columns:
            os.environ["COLUMNS"] = str(_drawn(columns))


def _drawn(columns: int) -> int:
    return min(max(columns, _NARROWEST), _WIDEST)


def say(text: str) -> None:
    """Write to standard error; where it is full or closed nobody reads it, and nothing else changes."""
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except (OSError, ValueError):
        silence(sys.stderr)


def silence(stream: Any) -> None:
    """Point what cannot be written elsewhere, or Python would complain once more at its exit."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def visible(text: str) -> str:
    r"""Text whose control characters do nothing to a terminal.

    Example:
        >>> print(visible("\x1b[31mred"))
        \x1b[31mred
    """
    return _CONTROLS.sub(lambda found: f"\\x{ord(found[0]):02x}", text)


def one_line(text: str) -> str:
    """Such text on one line, as a name in a table or a header is."""
    return visible(text).replace("\n", "\\n").replace("\t", "\\t")


def _escaped(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    units = error.object[error.start : error.end].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[n]:02x}{units[n + 1]:02x}" for n in range(0, len(units), 2)), error.end


codecs.register_error(ESCAPED, _escaped)
