"""What a verb answers: a table for people or JSON for programs, on standard output; all else on standard error."""

from __future__ import annotations

import json
import math
import os
import re
import sys
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TextIO, cast

from mosaic_tpu.cli._errors import UsageError

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table

#: Columns of what is not a terminal: nothing is wrapped or cut, so that `grep` finds whole lines.
_WIDE: Final = 100_000
_LABELS: Final = (
    ("operands", "operands"), ("location", "at"), ("line", ""), ("buffer", "buffer"), ("device", "where"),
    ("step", "grid step"), ("related", "related"), ("seed", "seed"), ("target", "target"), ("remedy", "hint"),
)  # fmt: skip


def console(stream: TextIO | None = None) -> Console:
    """Of a stream, standard output if not given: colours on a terminal only, by NO_COLOR and TERM too."""
    from rich.console import Console

    out = sys.stdout if stream is None else stream
    width = None if out.isatty() or os.environ.get("COLUMNS") else _WIDE
    return Console(file=out, width=width, highlight=False, markup=False, emoji=False)


def answer(as_json: bool, schema: str, data: Mapping[str, Any], show: Callable[[Console], None]) -> None:
    """Answer a verb.

    Args:
        as_json: for a program.
        schema: name and version of the answer's form, ``"mosaic-tpu/zoo-list/1"``.
        data: all of the answer, as plain data.
        show: prints it for people.
    """
    if as_json:
        print_json(schema, data)
        return
    out = console()
    with out.capture() as captured:
        show(out)
    # Rich fills the last column with blanks.
    sys.stdout.write(re.sub(r"[ ]+$", "", captured.get(), flags=re.MULTILINE))


def answer_text(
    as_json: bool, schema: str, data: Mapping[str, Any], text: str, styles: Sequence[tuple[str, str]]
) -> None:
    """Answer a verb whose answer is a text that others read: as it is to the last blank, in colours on a terminal."""
    if as_json:
        print_json(schema, {**data, "text": text})
    elif sys.stdout.isatty():
        code(console(), text, styles)
    else:
        write(text, None)


def print_json(schema: str, data: Mapping[str, Any]) -> None:
    """One JSON document on standard output, its schema first."""
    document = plain({"schema": schema, **data})
    sys.stdout.write(json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def plain(value: Any) -> Any:
    """Only what JSON has: no NaN, no tuples, no NumPy scalars; of anything else its text."""
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in cast("Mapping[Any, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in cast("Sequence[Any]", value)]
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return plain(value.item()) if hasattr(value, "item") else str(value)


def table(columns: Sequence[str], rows: Iterable[Sequence[Any]], *, right: Sequence[str] = ()) -> Table:
    """Columns without lines between them; those named in `right` hold numbers."""
    from rich.table import Table
    from rich.text import Text

    made = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for name in columns:
        made.add_column(name, justify="right" if name in right else "left", overflow="fold")
    for row in rows:
        made.add_row(*(cell if isinstance(cell, Text) else Text(str(cell)) for cell in row))
    return made


def verdict(good: bool, text: str) -> RenderableType:
    """A word in green or red."""
    from rich.text import Text

    return Text(text, style="green" if good else "bold red")


def code(out: Console, text: str, styles: Sequence[tuple[str, str]]) -> None:
    """Text as it is, never wrapped, coloured by patterns and their styles."""
    from rich.text import Text

    shown = Text(text.rstrip("\n"))
    if out.is_terminal:
        for pattern, style in styles:
            shown.highlight_regex(pattern, style=style)
    out.print(shown, soft_wrap=True)


#: Colours of a report: names of errors, labels, places.
REPORT: Final = (
    (r"(?m)^\s*\w+Error(?=:)", "bold red"),
    (r"(?m)^\s*(at|hint|remedy|related|buffer|seed|grid step|where|operands|target)(?=:)", "bold"),
    (r"(?m)^[A-Za-z]\w+(?= {2,})", "bold"),
    (r"\S+\.(py|mlir):\d+", "cyan"),
    (r"\berror(?=\[)", "bold red"),
    (r"\bwarning(?=\[)", "yellow"),
)
MLIR: Final = (
    (r"%[\w$.#-]+", "cyan"),
    (r"@[\w$.-]+", "magenta"),
    (r"[#!][a-z_]\w*(\.\w+)?", "blue"),
    (r"\b(arith|cf|func|llo|math|memref|scf|tpu|vector|stablehlo|stable_mosaic)\.\w+", "bold"),
    (r'"[^"\n]*"', "green"),
    (r"//.*", "dim"),
)
DIFF: Final = (
    (r"(?m)^\+.*", "green"),
    (r"(?m)^-.*", "red"),
    (r"(?m)^@@.*", "cyan"),
    (r"(?m)^(---|\+\+\+).*", "bold"),
)
PYTHON: Final = (
    (r"\b(def|with|as|from|import|return|if|else|for|in|lambda|None|True|False)\b", "bold"),
    (r"(?<=def )\w+", "magenta"),
    (r"\bb\.[\w.]+", "cyan"),
    (r'"[^"\n]*"', "green"),
    (r"#.*", "dim"),
)


def print_error(facts: Mapping[str, Any]) -> None:
    """What went wrong, on standard error."""
    from rich.text import Text

    out = console(sys.stderr)
    op = f"{facts['op']}: " if facts.get("op") else ""
    out.print(Text.assemble(("error: ", "bold red"), f"{op}{facts['cause']}"), soft_wrap=True)
    for name, label in _LABELS:
        value = facts.get(name)
        if value in (None, ""):
            continue
        text = ", ".join(map(str, cast("list[Any]", value))) if isinstance(value, list) else str(value)
        line = ("  ", (f"{label}: ", "bold"), text) if label else ("      ", (text, "dim"))
        out.print(Text.assemble(*line), soft_wrap=True)


def note(text: str) -> None:
    """A remark for people, on standard error."""
    console(sys.stderr).print(text, soft_wrap=True)


@contextmanager
def working(what: str) -> Generator[None]:
    """Say what takes time, on standard error, as long as it does; where that is a terminal."""
    if not sys.stderr.isatty():
        yield
        return
    with console(sys.stderr).status(what):
        yield


def write(data: str | bytes, file: Path | None) -> None:
    """Write a result as it is, to a file or to standard output.

    Raises:
        UsageError: the file cannot be written, or bytes would go to a terminal.
    """
    if file is not None:
        try:
            file.write_bytes(data if isinstance(data, bytes) else data.encode())
        except OSError as error:
            raise UsageError(f"cannot write {file}: {error.strerror}", "name a file in a folder that exists") from None
    elif isinstance(data, str):
        sys.stdout.write(data if data.endswith("\n") else data + "\n")
    elif sys.stdout.isatty():
        raise UsageError("bytes are not for a terminal", "write them to a file with -o FILE, or into a pipe")
    else:
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()


def written(file: Path, data: str | bytes) -> dict[str, Any]:
    """What an answer says of a file that was written."""
    return {"file": str(file), "bytes": len(data if isinstance(data, bytes) else data.encode())}
