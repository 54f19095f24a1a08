"""The examples of the pages: every ``python`` block runs, and what stands right after it is what it prints.

An output is a block of ``text``, ``mlir`` or ``diff``. Blocks of a page share their names and a folder, in order. Each
runs as a file called ``kernel.py``, so that the lines that messages name are those of the block; a block that has a
title is a file of that name in the folder. A ``console`` block is a transcript of the command `mosaic-tpu` in that
folder: see ``conformance/harness/transcripts.py``. ``python -m docs.generate.examples`` runs the pages and writes what
was printed into them; the tests (``docs/conftest.py``) only compare.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import re
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

from conformance.harness import transcripts
from docs.generate.site import NO_PAGES, ROOT, WRITTEN

FILE: Final = "kernel.py"
#: Languages of outputs.
_PRINTED: Final = ("text", "mlir", "diff")


@dataclass(frozen=True)
class Workspace:
    """Where the blocks of a page run.

    Attributes:
        folder: what is current for them.
        cache: what the compiler answers them, and nobody else.
        names: what they have defined.
    """

    folder: Path
    cache: Path
    names: dict[str, Any] = field(default_factory=lambda: {"__name__": "__main__"})


@contextlib.contextmanager
def workspace() -> Iterator[Workspace]:
    """A fresh one; its folders are removed in the end."""
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as cache:
        yield Workspace(Path(folder), Path(cache))


@dataclass(frozen=True)
class Example:
    """A block, and what stands on the page as its output.

    Attributes:
        language: ``"python"``, ``"console"``, or that of a file.
        code: the text of the block.
        title: the file that it is, if any.
        shown: the output on the page; ``None`` where there is none.
        start: where the block starts in the page, in characters.
        end: where the block and its output end.
        output: where the text that is printed starts and ends: of a transcript, all of it.
        line: of the block's first line of code.
    """

    language: str
    code: str
    title: str | None
    shown: str | None
    start: int
    end: int
    output: tuple[int, int]
    line: int

    def run(self, at: Workspace) -> str:
        """Run it after the blocks before it; what it printed, or the transcript as it is now."""
        with contextlib.chdir(at.folder), patch.dict("os.environ", MOSAIC_TPU_CACHE=str(at.cache)):
            if self.title is not None:
                Path(self.title).write_text(self.code, encoding="utf-8")
            if self.language == "console":
                return transcripts.rewrite(self.code)
            printed = io.StringIO()
            if self.language == "python":
                with contextlib.redirect_stdout(printed):
                    exec(compile(self.code, FILE, "exec"), at.names)
            return printed.getvalue()


def examples(text: str) -> Iterator[Example]:
    """The examples of a page, in order."""
    blocks = [*transcripts.BLOCK.finditer(text), None]
    for found, following in itertools.pairwise(blocks):
        language, title = found["language"], transcripts.title(found["options"])
        if language not in ("python", "console") and title is None:
            continue
        printed = following if _is_output(text, found, following) else None
        if language == "console":
            output, shown = found.span("text"), found["text"]
        else:
            output, shown = (printed.span("text"), printed["text"]) if printed else ((-1, -1), None)
        yield Example(
            language=language,
            code=found["text"],
            title=title,
            shown=shown,
            start=found.start(),
            end=(printed or found).end(),
            output=output,
            line=text.count("\n", 0, found.start("text")) + 1,
        )


def _is_output(text: str, block: re.Match[str], following: re.Match[str] | None) -> bool:
    return (
        following is not None
        and block["language"] != "console"
        and text[block.end() : following.start()] == "\n\n"
        and following["language"] in _PRINTED
        and not following["options"].strip()
    )


def same(printed: str, shown: str | None) -> bool:
    """Whether the page shows what was printed; spaces at the ends of lines do not count."""
    return _lines(printed) == _lines(shown or "")


def _lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.strip("\n").splitlines()]


def pages() -> list[Path]:
    """Pages that have examples."""
    files = (f for f in sorted(WRITTEN.rglob("*.md")) if f.relative_to(WRITTEN).parts[0] not in NO_PAGES)
    return [file for file in files if any(examples(file.read_text(encoding="utf-8")))]


def rewrite(text: str) -> str:
    """The page with each output as it is printed now. A block that prints needs a text block, an empty one will do."""
    parts: list[str] = []
    at = 0
    with workspace() as made:
        for example in examples(text):
            printed = example.run(made)
            if example.shown is None:
                if printed.strip():
                    parts += [text[at : example.end], f"\n\n```text\n{_shown(printed)}```"]
                    at = example.end
                continue
            first, last = example.output
            parts += [text[at:first], _shown(printed)]
            at = last
    return "".join([*parts, text[at:]])


def _shown(printed: str) -> str:
    return "\n".join(_lines(printed)) + "\n"


def main(arguments: list[str]) -> int:
    """Write the outputs of the named pages, of all if none is named."""
    for file in [Path(name).resolve() for name in arguments] or pages():
        text = file.read_text(encoding="utf-8")
        new = rewrite(text)
        print(f"{file.relative_to(ROOT)} is {'as it was' if new == text else 'written'}", file=sys.stderr)
        file.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
