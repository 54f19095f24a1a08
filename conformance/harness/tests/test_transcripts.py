"""What a document shows of the command is compared with what it does."""

from __future__ import annotations

from pathlib import Path

import pytest

from conformance.harness import transcripts
from conformance.harness.transcripts import Step

DOCUMENT = """
```json title="mine.json"
{"kernel": "matmul", "m": 512, "n": 512, "k": 512}
```

```console
$ mosaic-tpu lint mine.json --target v6e
matmul_kernel for v6e: nothing found
$ mosaic-tpu zoo emit mine.json --form bytes -o out.bin
…
$ mosaic-tpu ir diff mine.json matmul:default
…
-        grid=(1, 1, 1),
+        grid=(4, 4, 4),
…
[exit code 1]
```
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "20")


def test_a_true_transcript_has_no_faults() -> None:
    (block,) = transcripts.documented(DOCUMENT)
    assert [step.code for step in transcripts.steps(block)] == [0, 0, 1]
    assert transcripts.faults(block) == ""
    assert transcripts.rewrite(block) == block


def test_what_is_not_so_is_told_and_put_right() -> None:
    (block,) = transcripts.documented(DOCUMENT.replace("nothing found", "all is well"))
    told = transcripts.faults(block)
    assert "all is well" in told and "nothing found" in told
    assert "grid" not in told
    (right,) = transcripts.documented(DOCUMENT)
    assert transcripts.rewrite(block) == right


def test_a_wrong_exit_code_is_seen() -> None:
    (block,) = transcripts.documented(DOCUMENT.replace("[exit code 1]\n", ""))
    assert "[exit code 1]" in transcripts.faults(block)


def test_lines_may_be_left_out_and_no_others() -> None:
    assert Step("", "a\n…\nd\n").agrees(Step("", "a\nb\nc\nd\n"))
    assert not Step("", "a\n…\nd\n").agrees(Step("", "a\nb\nc\n"))
    assert not Step("", "a\n").agrees(Step("", "a\nb\n"))


def test_times_need_not_agree() -> None:
    assert Step("", "v5e  accepted     0.41  disk\n").agrees(Step("", "v5e  accepted     12.00  disk\n"))
    assert Step("", "seed 0, 4.1 ms\n").agrees(Step("", "seed 0, 52.3 ms\n"))


@pytest.mark.parametrize(
    ("shown", "printed"),
    [
        ("v5e  accepted     0.41  disk", "v6e  accepted     0.41  disk"),
        ("v5e  accepted     0.41  disk", "v5e  accepted     0.41  libtpu 0.0.50.1"),
        ("v5e  accepted     0.41  libtpu 0.0.48", "v5e  accepted     0.41  libtpu 0.0.50.1"),
        ("1,675 bytes in out.bin", "1,676 bytes in out.bin"),
    ],
)
def test_all_else_has_to_agree(shown: str, printed: str) -> None:
    assert Step("", f"{shown}\n").agrees(Step("", f"{shown}\n"))
    assert not Step("", f"{shown}\n").agrees(Step("", f"{printed}\n"))


def test_text_that_is_no_commands_is_refused() -> None:
    found = list(transcripts.steps("$ mosaic-tpu lint x\nsaid\n[exit code 1]\n\n$ mosaic-tpu lint y\n"))
    assert [(step.command, step.code) for step in found] == [("mosaic-tpu lint x", 1), ("mosaic-tpu lint y", 0)]
    for block, text in (
        ("First:\n$ mosaic-tpu lint x\n", "First:"),
        ("$ mosaic-tpu lint x\n[exit code 1]\nand more\n", "and more"),
        ("$ mosaic-tpu lint x\n[exit code 1]\n[exit code 2]\n", "2"),
        ("no command\n", "no command"),
    ):
        with pytest.raises(ValueError, match=text):
            list(transcripts.steps(block))


def test_another_program_is_refused() -> None:
    with pytest.raises(AssertionError, match="and not rm"):
        transcripts.faults("$ rm -rf x\n")
