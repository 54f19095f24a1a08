"""What is written and where: files whole or not at all, streams that are full, closed, narrow or not in UTF-8."""

from __future__ import annotations

import errno
import io
import json
import os
import stat
import sys
import threading
from pathlib import Path
from typing import Any, cast

import pytest

from mosaic_tpu.cli import main
from mosaic_tpu.cli._errors import asked
from mosaic_tpu.cli._streams import ESCAPED, one_line, visible

from .cli_kit import DOUBLE, SMALL, Pipe, cli, refused

EMIT = ("zoo", "emit", "matmul", "-o")


def run(
    *line: str, out: type[io.BytesIO] = io.BytesIO, err: type[io.BytesIO] = io.BytesIO, encoding: str = "utf-8"
) -> tuple[int, bytes, str]:
    """The command, with streams of another kind: its exit code and what they took."""
    streams = io.TextIOWrapper(out(), encoding), io.TextIOWrapper(err(), "utf-8", line_buffering=True)
    kept = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = streams
    try:
        code = main(line)
    finally:
        sys.stdout, sys.stderr = kept
    taken = [cast("io.BytesIO", stream.buffer).getvalue() for stream in streams]
    return code, taken[0], taken[1].decode()


def _raises(number: int) -> Any:
    def broken(*_: Any, **__: Any) -> Any:
        raise OSError(number, os.strerror(number))

    return broken


# --- files --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EFBIG, errno.EDQUOT])
@pytest.mark.parametrize("line", [EMIT, ("simulate", "matmul", *SMALL, "-o")], ids=["emit", "simulate"])
def test_a_file_stays_as_it_is_where_the_disk_is_full(
    line: tuple[str, ...], number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("keep").write_text("old")
    monkeypatch.setattr(os, "fsync", _raises(number))
    refused(cli(*line, "keep"), f"cannot write keep: {os.strerror(number)}", code=1)
    assert (Path("keep").read_text(), os.listdir()) == ("old", ["keep"])


def test_a_file_is_written_in_place_of_the_old_one() -> None:
    assert cli(*EMIT, "new").code == 0
    text = Path("new").read_text()
    Path("old").write_text("old" * len(text))
    Path("old").chmod(0o640)
    Path("link").symlink_to("old")
    assert cli(*EMIT, "link").code == 0
    assert Path("link").is_symlink()
    assert (Path("old").read_text(), stat.S_IMODE(Path("old").stat().st_mode)) == (text, 0o640)
    assert sorted(os.listdir()) == ["link", "new", "old"]


@pytest.mark.parametrize(("there", "code"), [(True, 0), (False, 2)])
def test_a_file_that_nothing_can_replace_is_written_as_it_is(
    there: bool, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one that is mounted by itself."""
    if there:
        Path("fixed").touch()
    monkeypatch.setattr(os, "replace", _raises(errno.EBUSY))
    assert cli(*EMIT, "fixed").code == code
    assert os.listdir() == ["fixed"] * there


def test_a_named_pipe_takes_what_is_written() -> None:
    os.mkfifo("pipe")
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(Path("pipe").read_text()), daemon=True)
    reader.start()
    assert cli(*EMIT, "pipe").code == 0
    reader.join()
    assert read[0].startswith("module")
    assert stat.S_ISFIFO(Path("pipe").stat().st_mode)


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("x" * 300, "File name too long"),
        (f"{'x' * 300}/y", "there is no folder"),
        ("keep/", "it names a folder"),
        ("keep/.", "it names a folder"),
        ("keep/..", "there is no folder"),
        ("new/", "it names a folder"),
        (".", "it is a folder"),
        ("", "the name of the file to write is empty"),
    ],
)
def test_what_names_no_file_is_refused_before_the_work(name: str, word: str) -> None:
    Path("keep").write_text("old")
    refused(cli(*EMIT, name), word)
    assert Path("keep").read_text() == "old"


# --- streams ------------------------------------------------------------------------------------------------------


class Full(io.BytesIO):
    """A disk that is full."""

    def __init__(self) -> None:
        self.descriptor = os.open(os.devnull, os.O_WRONLY)
        super().__init__()

    def write(self, data: Any) -> int:
        if data:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return 0

    def fileno(self) -> int:
        return self.descriptor


@pytest.mark.parametrize("broken", [Full, Pipe])
@pytest.mark.parametrize(("line", "code"), [(["zoo", "foo"], 2), (["zoo", "list"], 0), (["zoo", "list", "--json"], 0)])
def test_an_exit_code_stays_where_standard_error_takes_nothing(
    line: list[str], code: int, broken: type[io.BytesIO]
) -> None:
    assert run(*line, err=broken)[0] == code


@pytest.mark.parametrize("broken", [Full, Pipe])
def test_an_error_is_told_where_standard_output_takes_no_json(broken: type[io.BytesIO]) -> None:
    code, _, err = run("zoo", "foo", "--json", out=broken)
    assert (code, len(err.splitlines())) == (2, 2)
    assert err.startswith("error: Unknown command")


@pytest.mark.parametrize(
    ("line", "answered"),
    [
        (["--json"], True),
        (["--json=true"], True),
        (["--json=Yes"], True),
        (["--json=false"], False),
        (["--json", "--json=0"], False),
        (["--", "--json"], False),
        (["--jsonx"], False),
        ([], False),
    ],
)
def test_an_error_is_a_document_where_one_is_asked_for(line: list[str], answered: bool) -> None:
    assert asked("--json", line) == answered
    said = cli("zoo", "emit", "nope", *line)
    assert said.code == 2
    assert (said.out.startswith("{"), said.err.startswith("error: ")) == (answered, True)


def test_a_program_is_told_of_an_interrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr("mosaic_tpu.cli.verbs.zoo.answer", interrupted)
    said = cli("zoo", "list", "--json")
    assert (said.code, said.json["exit_code"], said.json["error"]["kind"]) == (130, 130, "Interrupted")
    assert said.err == "error: interrupted from the keyboard\n"


@pytest.mark.parametrize("place", ["mosaic_tpu.cli._main.guarded", "mosaic_tpu.cli._main.prepare"])
def test_an_interrupt_leaves_no_traceback_wherever_it_comes(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(place, interrupted)
    said = cli("zoo", "list")
    assert (said.code, said.out) == (130, "")
    assert "Traceback" not in said.err


@pytest.mark.parametrize("group", ["", "zoo", "ir", "simulate"])
def test_the_version_is_the_commands_own_wherever_it_is_asked(group: str) -> None:
    verbs = {"zoo": ["list"], "ir": ["show"]}.get(group, [])
    said = [cli(*filter(None, [group]), *more, "--version").out for more in ([], verbs)]
    assert said == [cli("--version").out] * 2


# --- widths and colours -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "columns"),
    [("1", "20"), ("2", "20"), ("19", "20"), ("21", "21"), ("1000", "1000"), ("1001", "1000"), ("9" * 5000, "1000")],
)
def test_a_width_is_one_that_a_table_can_be_drawn_in(given: str, columns: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    likely = cli("zoo", "list").out, cli("zoo", "emit", "--help").out
    assert all(text.strip() for text in likely)
    monkeypatch.setenv("COLUMNS", given)
    assert (cli("zoo", "list").out, cli("zoo", "emit", "--help").out) == likely


@pytest.mark.parametrize("given", ["", "0", "000", "-5", "abc", "²", "٣"])
def test_what_is_no_width_is_none(given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    wide = cli("zoo", "list").out, cli("zoo", "emit", "--help").out
    monkeypatch.setenv("COLUMNS", given)
    assert (cli("zoo", "list").out, cli("zoo", "emit", "--help").out) == wide


def test_a_terminal_may_be_narrower_than_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "unset by the command")
    monkeypatch.setattr(os, "get_terminal_size", lambda *_: os.terminal_size((1, 24)))
    code, out, _ = run("zoo", "emit", "--help", out=Screen)
    assert (code, max(map(len, out.decode().splitlines()))) == (0, 20)


class Screen(io.BytesIO):
    """A terminal's own end."""

    def fileno(self) -> int:
        return 1


@pytest.mark.parametrize("line", [["zoo", "list"], ["zoo", "show", "matmul"], ["zoo", "--help"], ["zoo", "nope"]])
def test_no_color_leaves_neither_colours_nor_bold(line: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    said = cli(*line, terminal=True)
    assert "\x1b[" in said.out + said.err
    monkeypatch.setenv("NO_COLOR", "1")
    said = cli(*line, terminal=True)
    assert "\x1b" not in said.out + said.err


# --- characters ---------------------------------------------------------------------------------------------------

#: With what names may hold: an escape sequence, another line, a character of two and one of four bytes, half a one.
NAME = "esc\x1b[31mred\nline é😀 \udcff.mlir"
SHOWN = "esc\\x1b[31mred\\nline é😀 \\udcff.mlir"


@pytest.fixture
def named() -> str:
    try:
        Path(NAME).write_text(DOUBLE)
    except (OSError, ValueError):
        pytest.skip("this system has no such names")
    return NAME


def test_control_characters_are_shown() -> None:
    assert visible("a\tb\nc\x1b\x07\r\x9b") == "a\tb\nc\\x1b\\x07\\x0d\\x9b"
    assert one_line("a\tb\nc") == "a\\tb\\nc"
    assert visible(text := "plain é😀") == one_line(text) == text


@pytest.mark.parametrize("terminal", [False, True])
def test_a_name_does_nothing_to_a_terminal(named: str, terminal: bool) -> None:
    """On a terminal it is cut where a column ends."""
    for line in (["ir", "verify", named], ["lint", named], ["simulate", named], ["ir", "show", f"no{named}"]):
        said = cli(*line, terminal=terminal)
        assert "\x1b[31mred" not in said.out + said.err
    said = cli("ir", "verify", named)
    assert said.out.splitlines()[1].startswith(SHOWN)
    assert len(said.out.splitlines()) == 2


@pytest.mark.parametrize("style", ["mlir", "ops"])
def test_a_name_in_a_diff_is_one_line(named: str, style: str) -> None:
    said = cli("ir", "diff", named, "matmul", "--style", style)
    assert (said.code, said.out.splitlines()[0]) == (1, f"--- {SHOWN}")


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252", "utf-8"])
def test_a_document_is_one_in_every_encoding(named: str, encoding: str) -> None:
    code, out, _ = run("ir", "verify", named, "--json", encoding=encoding)
    assert (code, json.loads(out.decode(encoding))["modules"][0]["source"]) == (0, NAME)


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_a_result_is_in_utf8_as_its_file_is(encoding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mosaic_tpu.cli.verbs.zoo._emitted", lambda *_: "// é😀\n")
    assert cli(*EMIT, "file").code == 0
    code, out, _ = run("zoo", "emit", "matmul", encoding=encoding)
    assert (code, out) == (0, "// é😀\n".encode())
    assert out == Path("file").read_bytes()


def test_a_caller_may_take_what_is_written_as_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", out := io.StringIO())
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert main(["zoo", "emit", "matmul"]) == 0
    assert out.getvalue() == cli("zoo", "emit", "matmul").out


@pytest.mark.parametrize("text", ["é", "€", "😀", "\udcff", "é😀x€"])
def test_what_an_encoding_lacks_is_escaped_as_json_has_it(text: str) -> None:
    assert json.loads(f'"{text.encode("ascii", ESCAPED).decode()}"') == text
    assert "é".encode("latin-1", ESCAPED) == b"\xe9"
