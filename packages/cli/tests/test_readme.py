"""What the README shows is what the commands print."""

from __future__ import annotations

from pathlib import Path

from conformance.harness import transcripts

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")


def test_the_transcripts_are_true() -> None:
    found = 0
    for block in transcripts.documented(README):
        found += len(list(transcripts.steps(block)))
        assert transcripts.faults(block) == ""
    assert found >= 6
