"""The ``console`` blocks of a document: commands, what they print, their exit codes.

A block is one transcript: after ``$`` a command, below it what it prints, where ``…`` stands for lines that are left
out, and ``[exit code 1]`` where it is not 0. A block of any language that has a title is a file of that name, which
the commands below it may read. Times need not agree: see `command.masked`.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from conformance.harness.command import cli, masked

PROGRAM: Final = "mosaic-tpu"
BLOCK: Final = re.compile(
    r"^```(?P<language>\w+)(?P<options>[^\n]*)\n(?P<text>.*?)^```[^\S\n]*$", re.MULTILINE | re.DOTALL
)
_TITLE: Final = re.compile(r'title="([\w.-]+)"')
#: What of the terminal that a test runs in would change an output.
_TERMINAL: Final = ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "MOSAIC_TPU_DEBUG")


@dataclass(frozen=True)
class Step:
    """A command, and what a document says that it does.

    Attributes:
        command: the line after ``$``.
        shown: the output, as the document has it.
        code: the exit code.
    """

    command: str
    shown: str
    code: int = 0

    def run(self) -> Step:
        """Run the command in the folder that is current; what it does."""
        program, *arguments = shlex.split(self.command)
        assert program == PROGRAM, f"a transcript runs {PROGRAM}, and not {program}"
        with _no_terminal():
            said = cli(*arguments)
        return Step(self.command, said.err + said.out, said.code)

    def agrees(self, done: Step) -> bool:
        """Whether the document tells what was done."""
        pattern = re.escape(masked(self.shown)).replace(re.escape("…\n"), "(?:.*\n)*")
        return self.code == done.code and re.fullmatch(pattern, masked(done.shown)) is not None

    def __str__(self) -> str:
        """As it stands in a document."""
        shown = "\n".join(line.rstrip() for line in self.shown.splitlines())
        code = f"[exit code {self.code}]" if self.code else ""
        return "\n".join(filter(None, (f"$ {self.command}", shown, code))) + "\n"


def steps(block: str) -> Iterator[Step]:
    """The steps of a block, in order.

    Raises:
        ValueError: the block has text that is no command's.
    """
    before, *texts = re.split(r"^\$ ", block, flags=re.MULTILINE)
    for text in texts:
        command, _, printed = text.partition("\n")
        shown, *code = re.split(r"^\[exit code (\d+)\]$\n?", printed, flags=re.MULTILINE)
        before += "".join(code[1:])
        yield Step(command, shown, int(code[0]) if code else 0)
    if before.strip():
        raise ValueError(f"a transcript has text before its first $ or after an exit code: {before.strip()!r}")


def rewrite(block: str) -> str:
    """The block with what the commands print now, where it shows something else."""
    return "".join(str(step if step.agrees(done := step.run()) else done) for step in steps(block))


def faults(block: str) -> str:
    """Run a block; what it shows and is not so, nothing if it is true."""
    told: list[str] = []
    for step in steps(block):
        done = step.run()
        if not step.agrees(done):
            told.append(f"The transcript is\n\n{step}\nand what happens is\n\n{done}")
    return "\n".join(told)


def title(options: str) -> str | None:
    """The file that a block is, by what stands after its language."""
    found = _TITLE.search(options)
    return found[1] if found else None


def documented(text: str) -> Iterator[str]:
    """The console blocks of a document, with each of its files written into the current folder when it is reached."""
    for found in BLOCK.finditer(text):
        if found["language"] == "console":
            yield found["text"]
        elif name := title(found["options"]):
            Path(name).write_text(found["text"], encoding="utf-8")


@contextmanager
def _no_terminal() -> Iterator[None]:
    kept = {name: os.environ.pop(name) for name in _TERMINAL if name in os.environ}
    try:
        yield
    finally:
        os.environ.update(kept)
