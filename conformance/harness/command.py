"""The command `mosaic-tpu` run in this process, and what of its output differs from run to run: times, and errors."""

from __future__ import annotations

import io
import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from mosaic_tpu.cli import main

_MASKS: Final = (
    (r"^.*: still at work after \d+ s\n", ""),
    (r" +\d+\.\d\d(?=  (?:disk|libtpu \d[\w.]*)$)", "  <seconds>"),
    (r"\d+\.\d+ ms", "<time>"),
    (r"\d\.\d\de[-+]\d\d", "<share>"),
)


@dataclass(frozen=True)
class Said:
    """What a command did.

    Attributes:
        code: its exit code.
        out: standard output.
        err: standard error.
        data: standard output as bytes.
    """

    code: int
    out: str
    err: str
    data: bytes

    @property
    def json(self) -> Any:
        """Standard output, which is one JSON document and nothing else."""
        return json.loads(self.out)


class Terminal(io.TextIOWrapper):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def cli(*arguments: str | Path, stdin: bytes | None = None, terminal: bool = False) -> Said:
    """Run the command; with `terminal`, as where a person sees all of it."""
    made = Terminal if terminal else io.TextIOWrapper
    out, err = (made(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    given = Terminal(io.BytesIO()) if stdin is None else io.TextIOWrapper(io.BytesIO(stdin))
    kept = sys.stdin, sys.stdout, sys.stderr
    sys.stdin, sys.stdout, sys.stderr = given, out, err
    try:
        code = main([str(argument) for argument in arguments])
    finally:
        sys.stdin, sys.stdout, sys.stderr = kept
    data = out.buffer.getvalue()
    return Said(code, data.decode(errors="replace"), err.buffer.getvalue().decode(), data)


def masked(text: str) -> str:
    """Without what differs from run to run and from machine to machine."""
    for pattern, word in _MASKS:
        text = re.sub(pattern, word, text, flags=re.MULTILINE)
    return "\n".join(line.rstrip() for line in text.splitlines()) + "\n"
