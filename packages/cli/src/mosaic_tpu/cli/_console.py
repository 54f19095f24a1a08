"""The one console: how wide, in which colours, and that names on it are only shown."""

from __future__ import annotations

import os
import sys
from typing import Any, Final, TextIO

from rich.console import Console
from rich.text import Text

from mosaic_tpu.cli._streams import visible

#: Columns of what is not a terminal: nothing is wrapped or cut, so that `grep` finds whole lines.
_WIDE: Final = 100_000


class _Console(Console):
    """Rich's, which shows control characters as escapes, and leaves a closed pipe to `guarded`."""

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(visible(text), **options)

    def on_broken_pipe(self) -> None:
        raise  # Rich calls it where it has caught the error


def console(stream: TextIO | None = None, *, wide: bool = True) -> Console:
    """Of a stream, standard output if not given: colours and bold on a terminal only, by NO_COLOR and TERM too.

    Args:
        stream: to write to.
        wide: whether what is no terminal has lines of any length.
    """
    out = sys.stdout if stream is None else stream
    width = _WIDE if wide and not out.isatty() and not os.environ.get("COLUMNS") else None
    colours = None if os.environ.get("NO_COLOR") else "auto"
    return _Console(file=out, width=width, color_system=colours, highlight=False, markup=False, emoji=False)
