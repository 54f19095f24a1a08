"""What a verb answers: a table for people or JSON for programs, on standard output; all else on standard error."""

from __future__ import annotations

import json
import math
import re
import sys
import threading
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TextIO, cast

from mosaic_tpu.cli._errors import UsageError
from mosaic_tpu.cli._files import put
from mosaic_tpu.cli._hints import answer_for_shell, hints_for_shell
from mosaic_tpu.cli._streams import ESCAPED, one_line, say, visible

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table

#: The answer of each verb that has written its content to a file.
WRITTEN: Final = "mosaic-tpu/written/1"
#: Seconds that work may take without a word.
PATIENCE: Final = 10.0
_LABELS: Final = (
    ("operands", "operands"), ("location", "at"), ("line", ""), ("buffer", "buffer"), ("device", "where"),
    ("step", "grid step"), ("related", "related"), ("seed", "seed"), ("target", "target"), ("remedy", "hint"),
)  # fmt: skip


def drawn(show: Callable[[Console], None], stream: TextIO | None = None) -> str:
    """What is printed for people, as a stream shows it: standard output if not given."""
    from mosaic_tpu.cli._console import console

    out = console(stream)
    with out.capture() as captured:
        show(out)
    # Rich fills the last column with blanks.
    return re.sub(r"[ ]+$", "", captured.get(), flags=re.MULTILINE)


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
    sys.stdout.write(drawn(show))


def deliver(
    as_json: bool,
    schema: str,
    data: Mapping[str, Any],
    content: str | bytes,
    file: Path | None,
    styles: Sequence[tuple[str, str]] = (),
) -> None:
    """Answer a verb whose answer others read: as it is to the last blank, in colours on a terminal, or in a file.

    Args:
        as_json: for a program.
        schema: of the answer, where there is no file.
        data: all of that answer, the content too.
        content: what others read.
        file: where to write it; standard output if not given.
        styles: of a text.
    """
    if file is not None:
        size = write(content, file)
        said = {"file": str(file), "bytes": size}
        answer(as_json, WRITTEN, said, lambda out: out.print(f"{size:,} bytes in {file}", soft_wrap=True))
    elif as_json:
        print_json(schema, data)
    elif isinstance(content, str) and styles and sys.stdout.isatty():
        sys.stdout.write(drawn(lambda out: code(out, content, styles)))
    else:
        write(content, None)


def print_json(schema: str, data: Mapping[str, Any]) -> None:
    """One JSON document on standard output."""
    sys.stdout.write(json_text(schema, data))


def json_text(schema: str, data: Mapping[str, Any]) -> str:
    """One JSON document, its schema first."""
    document = answer_for_shell(plain({"schema": schema, **data}))
    return json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def without_schema(data: Mapping[str, Any]) -> dict[str, Any]:
    """What a package says, as a part of an answer, whose own schema is its version too."""
    return {name: value for name, value in data.items() if name != "schema"}


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
        made.add_row(*(cell if isinstance(cell, Text) else Text(one_line(str(cell))) for cell in row))
    return made


def verdict(good: bool, text: str) -> RenderableType:
    """A word in green or red."""
    from rich.text import Text

    return Text(text, style="green" if good else "bold red")


def code(out: Console, text: str, styles: Sequence[tuple[str, str]]) -> None:
    """Text as it is, never wrapped, coloured by patterns and their styles."""
    from rich.text import Text

    shown = Text(visible(text.rstrip("\n")))
    if out.is_terminal:
        for pattern, style in styles:
            shown.highlight_regex(pattern, style=style)
    out.print(shown, soft_wrap=True)


def report(out: Console, text: str) -> None:
    """What a package says of a kernel, with hints for who typed the command."""
    code(out, hints_for_shell(text), _REPORT)


#: Colours of a report: names of errors, labels, places.
_REPORT: Final = (
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

    op = f"{facts['op']}: " if facts.get("op") else ""
    lines = [Text.assemble(("error: ", "bold red"), visible(f"{op}{facts['cause']}"))]
    for name, label in _LABELS:
        value = facts.get(name)
        if value in (None, ""):
            continue
        text = visible(", ".join(map(str, cast("list[Any]", value))) if isinstance(value, list) else str(value))
        line = ("  ", (f"{label}: ", "bold"), text) if label else ("      ", (text, "dim"))
        lines.append(Text.assemble(*line))
    say(drawn(lambda out: out.print(*lines, sep="\n", soft_wrap=True), sys.stderr))


def note(text: str) -> None:
    """A remark for people, on standard error."""
    say(drawn(lambda out: out.print(text, soft_wrap=True), sys.stderr))


@contextmanager
def working(what: str, *, shown: bool = True) -> Generator[Callable[[str], None]]:
    """Say what takes time, on standard error.

    On a terminal as long as it does; elsewhere in a plain line, where it takes long, and in one more each time that
    it has taken twice as long.

    Args:
        what: is done.
        shown: whether a terminal shows it; not where something else does.

    Yields:
        Call it with what is done by now.
    """
    if sys.stderr.isatty():
        if not shown:
            yield lambda _: None
            return
        from rich.text import Text

        from mosaic_tpu.cli._console import console

        with console(sys.stderr).status(Text(f"{one_line(what)} …")) as status:
            yield lambda now: status.update(Text(f"{one_line(now)} …"))
        return
    steps, done = [what], threading.Event()
    teller = threading.Thread(target=_tell, args=(steps, done), daemon=True)
    teller.start()
    try:
        yield steps.append
    finally:
        done.set()
        teller.join()


def _tell(steps: list[str], done: threading.Event) -> None:
    """Of work that takes long, until it is done."""
    passed, wait = 0.0, PATIENCE
    while not done.wait(wait):
        passed += wait
        say(f"{one_line(steps[-1])}: still at work after {passed:.0f} s\n")
        wait = passed


def write(data: str | bytes, file: Path | None) -> int:
    """Write a result as it is, to a file or to standard output: text in UTF-8, unless a terminal shows it.

    Returns:
        How many bytes a file has.

    Raises:
        UsageError: the file cannot be written, or bytes would go to a terminal.
        OutputError: the disk does not take it.
    """
    if file is not None:
        return put(_encoded(data), file)
    if isinstance(data, str) and not data.endswith("\n"):
        data += "\n"
    if isinstance(data, str) and (sys.stdout.isatty() or not hasattr(sys.stdout, "buffer")):
        sys.stdout.write(data)
    elif sys.stdout.isatty():
        raise UsageError("bytes are not for a terminal", "write them to a file with -o FILE, or into a pipe")
    else:
        sys.stdout.flush()
        sys.stdout.buffer.write(_encoded(data))
        sys.stdout.buffer.flush()
    return 0


def _encoded(data: str | bytes) -> bytes:
    return data if isinstance(data, bytes) else data.encode(errors=ESCAPED)
