"""What all verbs share: help, versions, exit codes, streams, and how fast the light ones are."""

from __future__ import annotations

import importlib
import io
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mosaic_tpu.aot import TARGETS
from mosaic_tpu.cli import _errors, _main, main
from mosaic_tpu.cli._hints import for_shell, hints_for_shell
from mosaic_tpu.cli._options import GENERATIONS, targets_of

from .cli_kit import DOUBLE, SMALL, Pipe, cli, refused, same_shape

LIGHT = [
    *(["--help"], ["--version"], ["zoo", "list"], ["zoo", "list", "--json"], ["zoo", "--help"], ["tune", "--help"]),
    *(["simulate", "--help"], ["completion", "bash"], ["conformance"], ["__complete", "zoo", "show", ""]),
]
HEAVY = (
    "jax",
    "jaxlib",
    "numpy",
    "scipy",
    "mosaic_tpu.kernel",
    "mosaic_tpu.builder",
    "mosaic_tpu.sim",
    "mosaic_tpu.aot",
)
WAYS = [[verb] for verb in _main.VERBS if verb not in _main.GROUPS] + [
    [group, verb] for group, verbs in _main.GROUPS.items() for verb in verbs
]


# --- help and version ---------------------------------------------------------------------------------------------


def test_every_verb_is_listed() -> None:
    said = cli("--help")
    assert said.code == 0
    assert all(f"│ {verb} " in said.out for verb in _main.VERBS)
    assert said.out == cli().out


def test_every_exit_code_is_in_the_help() -> None:
    codes = {value for value in vars(_errors).values() if isinstance(value, int)}
    assert {0, *codes} == set(_errors.EXIT_CODES)
    assert all(f"{code}  {when}" in cli("--help").out for code, when in _errors.EXIT_CODES.items())


@pytest.mark.parametrize("way", WAYS, ids=" ".join)
def test_every_verb_has_help_with_json(way: list[str]) -> None:
    said = cli(*way, "--help")
    assert said.code == 0
    assert said.out.startswith(f"Usage: mosaic-tpu {' '.join(way)}")
    assert way == ["completion"] or "--json" in said.out


@pytest.mark.parametrize("way", WAYS, ids=" ".join)
def test_help_has_no_line_that_a_terminal_would_break(way: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    description = cli(*way, "--help").out.partition("╭")[0]
    monkeypatch.setenv("COLUMNS", "200")
    assert cli(*way, "--help").out.partition("╭")[0] == description


def test_the_generations_that_help_names_are_those_there_are() -> None:
    assert GENERATIONS.split(", ") == list(TARGETS)


@pytest.mark.parametrize("group", _main.GROUPS)
def test_groups_are_those_that_the_verbs_are_in(group: str) -> None:
    said = cli(group, "--help")
    assert all(f"│ {verb} " in said.out for verb in _main.GROUPS[group])


def test_the_version_is_said() -> None:
    said = cli("--version")
    assert said.code == 0
    assert said.out.startswith("mosaic-tpu")


# --- light verbs --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", LIGHT, ids=" ".join)
def test_light_verbs_import_nothing_heavy(arguments: list[str]) -> None:
    code = (
        "import sys; from mosaic_tpu.cli import main; main(sys.argv[1:]); "
        f"print(sorted({{*{HEAVY}}} & {{*sys.modules}}), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
    assert done.stderr.splitlines()[-1] == "[]"


@pytest.mark.parametrize("arguments", [["ir", "show", "double.mlir"], ["lint", "double.mlir"], ["lint", "matmul"]])
def test_verbs_that_run_nothing_import_no_scipy(arguments: list[str]) -> None:
    """It takes as long as all the rest of the simulator."""
    Path("double.mlir").write_text(DOUBLE)
    code = "import sys; from mosaic_tpu.cli import main; main(sys.argv[1:]); sys.exit('scipy.special' in sys.modules)"
    subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, check=True)


# --- completion ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_gets_a_script(shell: str) -> None:
    said = cli("completion", shell)
    assert (said.code, said.err) == (0, "")
    assert "mosaic-tpu" in said.out and "conformance" in said.out


def test_kernels_and_presets_are_completed() -> None:
    said = cli("__complete", "zoo", "show", "matmul:")
    assert "matmul:llama-3-8b-mlp" in said.out


def test_files_are_completed_where_a_module_may_stand() -> None:
    Path("mine.mlir").touch()
    Path("mines").mkdir()
    said = cli("__complete", "ir", "show", "mi")
    assert "mine.mlir" in said.out and "mines/" in said.out
    assert "mine.mlir" not in cli("__complete", "zoo", "show", "mi").out


def test_an_unknown_shell_is_wrong_usage() -> None:
    refused(cli("completion", "csh"), "csh")


# --- errors -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nothing"], ("nothing", "mosaic-tpu --help")),
        (["zoo", "lst"], ("list", "mosaic-tpu zoo --help")),
        (["zoo", "list", "--bogus"], ("--bogus", "mosaic-tpu zoo list --help")),
        (["simulate", "matmul", "--seed", "x"], ("--seed", "mosaic-tpu simulate --help")),
        (["simulate", "matmul", "--seed", "-1"], ("--seed", "mosaic-tpu simulate --help")),
        (["simulate", "matmul", "--seeds", "0"], ("--seeds",)),
        (["simulate", "matmul", "--cores", "0"], ("--cores",)),
        (["simulate", "matmul", "--timeout", "0"], ("--timeout",)),
        (["zoo", "run", "matmul", "--seed", "-1"], ("--seed", "mosaic-tpu zoo run --help")),
        (["ir", "show", "--bogus"], ("there is no option --bogus",)),
        (["ir", "verify", "--", "-x.mlir"], ("there is no option -x.mlir", "a file of this name is ./-x.mlir")),
    ],
)
def test_wrong_usage_is_exit_code_2(arguments: list[str], words: tuple[str, ...]) -> None:
    refused(cli(*arguments), *words)


def test_an_error_as_json_is_one_document() -> None:
    said = cli("zoo", "show", "nothing", "--json")
    assert (said.code, said.json["schema"], said.json["exit_code"]) == (2, "mosaic-tpu/error/1", 2)
    assert said.json["error"]["cause"] in said.err
    said = cli("lint", "-", "--json", stdin=b"func.func @x() {")
    assert (said.code, said.json["error"]["op"]) == (1, "read")
    assert said.json["error"]["kind"] and said.json["error"]["remedy"]
    same_shape("error", said)


def _fails(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def broken(*_: Any, **__: Any) -> Any:
        raise error

    monkeypatch.setattr("mosaic_tpu.cli.verbs.zoo.answer", broken)


def test_a_fault_of_ours_says_so_in_two_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    _fails(monkeypatch, KeyError("x"))
    said = cli("zoo", "list")
    assert (said.code, said.out) == (70, "")
    assert len(said.err.splitlines()) == 2
    assert "KeyError" in said.err and "please report it" in said.err and "--debug" in said.err


@pytest.mark.parametrize("how", ["--debug", "MOSAIC_TPU_DEBUG"])
def test_a_traceback_is_shown_on_request(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _fails(monkeypatch, KeyError("x"))
    if how.isupper():
        monkeypatch.setenv(how, "1")
    said = cli("zoo", "list", *([how] if how.startswith("-") else []))
    assert said.code == 70
    assert "Traceback (most recent call last)" in said.err


def test_ctrl_c_ends_in_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    _fails(monkeypatch, KeyboardInterrupt())
    said = cli("zoo", "list")
    assert (said.code, said.out, said.err) == (130, "", "error: interrupted from the keyboard\n")


def test_a_closed_pipe_ends_quietly(monkeypatch: pytest.MonkeyPatch) -> None:
    err = io.StringIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(Pipe()))
    monkeypatch.setattr(sys, "stderr", err)
    assert main(["zoo", "list"]) == 141
    assert err.getvalue() == ""


def _in_a_shell(line: str, **variables: str) -> subprocess.CompletedProcess[str]:
    command = line.replace("mosaic-tpu", f"{sys.executable} -m mosaic_tpu.cli")
    given = {**os.environ, **variables}
    return subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False, env=given)


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize(("reader", "code"), [("head -c 1", 141), ("cat", 0)])
def test_a_pipe_that_is_closed_early_leaves_no_word(reader: str, code: int, unbuffered: str) -> None:
    """The text is larger than the buffer of a pipe, 64 KiB."""
    emit = "mosaic-tpu zoo emit ragged_paged_attention --no-canonical"
    done = _in_a_shell(f"{emit} | {reader} > {os.devnull}; exit ${{PIPESTATUS[0]}}", PYTHONUNBUFFERED=unbuffered)
    assert (done.returncode, done.stderr) == (code, "")


@pytest.mark.parametrize("line", ["zoo list >&-", "--help >&-", "zoo list --json >&-", "zoo emit matmul >&-"])
def test_a_closed_standard_output_is_told(line: str) -> None:
    done = _in_a_shell(f"mosaic-tpu {line}")
    assert done.returncode == 1
    assert done.stderr.startswith("error: standard output: it is closed")
    assert len(done.stderr.splitlines()) == 2


@pytest.mark.parametrize(("line", "code"), [("zoo list", 0), ("zoo foo", 2)])
def test_standard_error_may_be_closed_or_full(line: str, code: int) -> None:
    ends = ["2>&-", "2>/dev/full"] if Path("/dev/full").exists() else ["2>&-"]
    assert [_in_a_shell(f"mosaic-tpu {line} {end}").returncode for end in ends] == [code] * len(ends)


def test_standard_input_may_be_closed() -> None:
    done = _in_a_shell("mosaic-tpu lint - <&-")
    assert done.returncode == 1
    assert "the text is empty" in done.stderr


@pytest.mark.parametrize("more", ["", " --json"])
def test_a_full_disk_is_told(more: str) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    done = _in_a_shell(f"mosaic-tpu zoo list{more} > /dev/full")
    assert done.returncode == 1
    assert done.stderr.startswith("error: standard output: No space left on device")
    assert len(done.stderr.splitlines()) == 2


def test_too_little_memory_is_no_fault_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    _fails(monkeypatch, MemoryError("Unable to allocate 4.00 PiB"))
    refused(cli("zoo", "list"), "not enough memory: Unable to allocate 4.00 PiB", "--set", code=1)


# --- hints --------------------------------------------------------------------------------------------------------

#: What only a caller in Python can write: an argument by its name, an attribute, a function of a package.
_PYTHON = re.compile(r"\b\w+=[\"'\[({]|\b(collect|cache|schedule)=(True|False)|help\(|\berror\.raw|mosaic_tpu\.")


def _classes(module: str) -> list[type[Any]]:
    found = vars(importlib.import_module(module)).values()
    return [kind for kind in found if isinstance(kind, type) and hasattr(kind, "default_hint")]


@pytest.mark.parametrize("kind", [*_classes("mosaic_tpu.sim.errors"), *_classes("mosaic_tpu.aot.errors")])
def test_hints_speak_of_options(kind: type[Any]) -> None:
    assert not _PYTHON.search(for_shell(kind.default_hint)), for_shell(kind.default_hint)


@pytest.mark.parametrize(
    ("hint", "said"),
    [
        ('run it with engine="numpy"', "run it with --engine numpy"),
        ("raise vmem_limit_bytes, or take smaller blocks", "raise --vmem-limit-bytes, or take smaller blocks"),
        ("pass outputs=[(shape, dtype), …]", "give the program it is called in"),
        ("give vmem_limit_bytes=512 or more", "give --vmem-limit-bytes 512 or more"),
        ("None leaves it to the compiler", "null leaves it to the compiler"),
        ("True or False", "true or false"),
        ("wait for the DMA before reading what it copies", "wait for the DMA before reading what it copies"),
        ("None of the blocks fits: smaller ones", "None of the blocks fits: smaller ones"),
    ],
)
def test_a_hint_for_a_caller_is_one_for_who_types(hint: str, said: str) -> None:
    assert for_shell(hint) == said
    assert hints_for_shell(f"  at: a.py:1\n  hint: {hint}\n{hint}") == f"  at: a.py:1\n  hint: {said}\n{hint}"


# --- terminals ----------------------------------------------------------------------------------------------------


def test_colours_are_for_terminals(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "\x1b[" in cli("zoo", "list", terminal=True).out
    assert "\x1b[" not in cli("zoo", "list").out
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[" not in cli("ir", "show", "-", stdin=DOUBLE.encode(), terminal=True).out


def test_what_is_no_terminal_is_never_wrapped(monkeypatch: pytest.MonkeyPatch) -> None:
    assert max(map(len, cli("zoo", "list").out.splitlines())) > 100
    monkeypatch.setenv("COLUMNS", "60")
    assert max(map(len, cli("zoo", "list").out.splitlines())) <= 60


@pytest.mark.parametrize("line", ["mosaic-tpu --help", "mosaic-tpu zoo list"])
def test_a_terminal_that_does_not_know_its_width(line: str) -> None:
    assert _in_a_shell(line, COLUMNS="0").stdout == _in_a_shell(line).stdout != ""


def test_characters_that_an_encoding_lacks_are_escaped() -> None:
    done = _in_a_shell(
        "mosaic-tpu schedule --help; mosaic-tpu nö", PYTHONIOENCODING="ascii", LC_ALL="C", PYTHONUTF8="0"
    )
    assert done.returncode == 2
    assert "n\\u00f6" in done.stderr or "n\\udcc3" in done.stderr


def test_text_that_is_emitted_is_never_wrapped(monkeypatch: pytest.MonkeyPatch) -> None:
    wide = cli("zoo", "emit", "matmul").out
    monkeypatch.setenv("COLUMNS", "60")
    assert cli("zoo", "emit", "matmul").out == wide


def test_progress_is_for_terminals() -> None:
    assert cli("zoo", "run", "matmul", *SMALL).err == ""


LONG = [
    ["zoo", "run", "matmul", *SMALL],
    ["simulate", "double.mlir", "--seeds", "99"],
    ["compile", "double.mlir", "--target", "v5e"],
    ["schedule", "double.mlir", "--target", "v5e"],
    ["tune", "matmul", *SMALL, "--vary", "block_m=256"],
    ["doctor"],
]


@pytest.mark.parametrize("arguments", LONG, ids=lambda words: words[0])
@pytest.mark.usefixtures("needs_compiler")
def test_work_that_takes_long_says_so_in_a_plain_line(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    Path("double.mlir").write_text(DOUBLE)
    monkeypatch.setattr("mosaic_tpu.cli._output.PATIENCE", 0.001)
    said = cli(*arguments)
    assert said.code == 0
    assert all(re.fullmatch(r"[^\r\x1b]+: still at work after \d+ s", line) for line in said.err.splitlines())
    assert said.err


def test_answers_in_json_have_no_colours_on_a_terminal() -> None:
    said = cli("zoo", "list", "--json", terminal=True)
    assert said.json["schema"] == "mosaic-tpu/zoo-list/1"
    assert "\x1b" not in said.out


# --- options ------------------------------------------------------------------------------------------------------


def test_targets_stand_between_commas_or_are_repeated() -> None:
    assert targets_of(["v5e,v6e", "v5e:2x2", "v5e"]) == ["v5e", "v6e", "v5e:2x2"]
    assert targets_of(None) is None
    refused(cli("lint", "-", "--target", ",", stdin=DOUBLE.encode()), "no target is given")
