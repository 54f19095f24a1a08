"""What the README promises: two commands that do all the set-up, and a kernel that prints what is shown."""

import contextlib
import io
import itertools
import re
import sys
from dataclasses import replace

import pytest

from conformance.harness import transcripts
from conformance.repository.repository import ROOT
from mosaic_tpu import builder

README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = [(found["language"], found["text"]) for found in transcripts.BLOCK.finditer(README)]
COMMANDS = [line for language, text in BLOCKS if language == "bash" for line in text.splitlines()]
SET_UP = "python3 -m venv .venv && .venv/bin/pip install -q nox && .venv/bin/nox -s "
NOXFILE = (ROOT / "noxfile.py").read_text(encoding="utf-8")


def test_two_commands_do_all_the_set_up() -> None:
    assert [line for line in COMMANDS if line.startswith("python3")] == [SET_UP + "demo", SET_UP + "tests"]


def test_every_session_that_a_document_names_exists() -> None:
    globs = (
        "*.md",
        "*/*.md",
        "packages/*/*.md",
        "docs/**/*.md",
        "docs/generate/*.py",
        ".ci/run",
        ".github/workflows/*",
    )
    documents = [file for glob in globs for file in ROOT.glob(glob)]
    assert {ROOT / "README.md", ROOT / "docs/index.md", ROOT / ".ci/run"} <= set(documents)
    named = {name for file in documents for name in re.findall(r"nox -s ([a-z-]+)", file.read_text(encoding="utf-8"))}
    functions = re.findall(r"^@\w*[._]?session.*\ndef (\w+)\(", NOXFILE, re.MULTILINE)
    sessions = {name.replace("_", "-") for name in functions}
    assert {"demo", "tests", "conformance", "lint", "types", "bench", "build"} <= sessions
    assert named <= sessions


def test_the_kernel_prints_what_the_readme_shows() -> None:
    pairs = [
        (code, shown)
        for (language, code), (following, shown) in itertools.pairwise(BLOCKS)
        if (language, following) == ("python", "text")
    ]
    assert pairs, "the README has no python block followed by a text block"
    for code, shown in pairs:
        assert len([line for line in code.splitlines() if line.strip()]) <= 20
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, "README.md", "exec"), {"__name__": "readme"})
        assert printed.getvalue().strip() == shown.strip()


def test_the_command_prints_what_the_readme_shows() -> None:
    shown = list(transcripts.documented(README))
    assert shown, "the README has no console block"
    assert [transcripts.faults(block) for block in shown] == [""] * len(shown)


def table() -> list[tuple[list[str], list[str]]]:
    """Rows of the table for those who come from Pallas: the snippets of its two columns."""
    rows = [line.strip("| ").split(" | ") for line in README.splitlines() if line.startswith("| `")]
    return [(re.findall("`(.*?)`", theirs), re.findall("`(.*?)`", ours)) for theirs, ours in rows]


@pytest.mark.parametrize("row", table(), ids=lambda row: row[0][0])
def test_what_the_table_writes_runs(row: tuple[list[str], list[str]]) -> None:
    b = builder.Builder("kernel")
    square = builder.Ref((128, 128), builder.f32)
    a = b.declare_args(
        {"i": builder.Scalar(builder.i32), "x": square, "y": square, "o": replace(square, role=builder.Role.OUTPUT)},
        grid=(2,),
    )
    x, y = a.x[...], a.y[...]
    names = vars(builder) | {"a": a, "b": b, "x": x, "y": y, "c": x.gt(y)}
    theirs, ours = row
    for code in ours or theirs:
        exec(code + " pass" * code.endswith(":"), names)
    b.finish()


@pytest.mark.parametrize("version", [(3, 6, 15), (3, 11, 7)])
def test_an_older_python_is_told_in_one_sentence(version: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "version_info", version)
    with pytest.raises(SystemExit) as stopped:
        exec(compile(NOXFILE, "noxfile.py", "exec"), {"__file__": str(ROOT / "noxfile.py"), "__name__": "noxfile"})
    sentence = stopped.value.code
    assert sentence.startswith(
        "mosaic-tpu needs Python 3.12 or newer and this is Python " + ".".join(map(str, version))
    )
    assert "\n" not in sentence
    assert sentence.endswith(".")
