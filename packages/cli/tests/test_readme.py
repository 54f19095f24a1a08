"""What the README shows is what the commands print."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from .cli_kit import cli, masked

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def steps() -> Iterator[tuple[list[str], str, int]]:
    """Each command, what is shown of its output, and its exit code; `…` stands for lines that are left out."""
    for block in blocks("console"):
        for step in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, shown = step.partition("\n")
            code = re.search(r"^\[exit code (\d+)\]\n", shown, re.MULTILINE)
            yield shlex.split(command), shown[: code.start()] if code else shown, int(code[1]) if code else 0


def matches(shown: str, printed: str) -> bool:
    pattern = re.escape(shown).replace(re.escape("…\n"), "(?:.*\n)*")
    return re.fullmatch(pattern, printed) is not None


def test_the_transcripts_are_true() -> None:
    for name, text in re.findall(r"^```mlir (\S+)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL):
        Path(name).write_text(text)
    found = list(steps())
    assert len(found) >= 6
    for (program, *arguments), shown, code in found:
        said = cli(*arguments)
        assert (program, said.code, said.err) == ("mosaic-tpu", code, "")
        assert matches(masked(shown), masked(said.out)), f"{arguments} prints\n{said.out}and not\n{shown}"


def test_a_transcript_that_is_not_true_is_seen() -> None:
    assert matches("a\n…\nd\n", "a\nb\nc\nd\n")
    assert not matches("a\n…\nd\n", "a\nb\nc\n")
    assert not matches("a\n", "a\nb\n")
