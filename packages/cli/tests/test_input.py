"""What others wrote is read once, in full, and refused where it is ambiguous or no one could have meant it."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import pytest

from .cli_kit import DOUBLE, RACE, cli, refused

DEEP = 100_000
REPORT = '{"schema": 1, "tables": {}, "date": '


def nested(depth: int, inner: str = "1") -> str:
    return "[" * depth + inner + "]" * depth


# --- a name stands once --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("zoo", "show", "matmul", "--set", "m=512", "--set", "m=1024"), ("--set gives m twice", "--set m=…")),
        (("lint", "matmul", "--set", "m=512", "--set", "m=512"), ("--set gives m twice",)),
        (("compile", "matmul", "--flag", "xla_a=1", "--flag=--xla_a=2"), ("--flag gives xla_a twice",)),
    ],
)
def test_an_option_gives_a_name_once(arguments: tuple[str, ...], words: tuple[str, ...]) -> None:
    refused(cli(*arguments), *words)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("twice.json", '{"kernel": "matmul", "m": 512, "m": 1024}'),
        ("twice.json", '{"kernel": "matmul", "kernel": "gated_delta_net"}'),
        ("twice.toml", 'kernel = "matmul"\nm = 512\nm = 1024\n'),
    ],
)
@pytest.mark.parametrize("verb", [("zoo", "show"), ("ir", "show")])
def test_a_file_gives_a_name_once(verb: tuple[str, str], name: str, text: str) -> None:
    Path(name).write_text(text)
    refused(cli(*verb, name), f"{name} is no")


def test_a_report_gives_a_name_once() -> None:
    Path("report.json").write_text('{"schema": 1, "tables": {"a": [{"x": 1, "x": 2}]}}')
    refused(cli("conformance", "report.json"), "report.json is no report", "'x' twice")


def test_values_of_a_field_that_varies_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    from mosaic_tpu import aot

    tried: list[dict[str, list[int]]] = []

    class SeenError(Exception):
        pass

    def space(base: object, **choices: list[int]) -> list[object]:
        tried.append(choices)
        raise SeenError

    monkeypatch.setattr(aot, "space", space)
    cli("tune", "matmul", "--vary", "block_m=128", "--vary", "block_n=256", "--vary", "block_m=256,128")
    assert tried == [{"block_m": [128, 256], "block_n": [256]}]


def test_more_configs_than_anyone_waits_for_are_refused_at_once() -> None:
    values = ",".join(map(str, range(1, 102)))
    vary = [part for name in ("block_m", "block_n", "block_k") for part in ("--vary", f"{name}={values}")]
    refused(cli("tune", "matmul", *vary), "1,030,301 configs", "fewer values")


# --- no deeper than can be read ------------------------------------------------------------------------------------


@pytest.mark.parametrize("depth", [200, 2_000, DEEP])
@pytest.mark.parametrize(
    ("arguments", "text", "words"),
    [
        (("zoo", "show", "c.json"), '{{"kernel": "matmul", "m": {}}}', "nested too deeply"),
        (("ir", "show", "c.json"), '{{"kernel": "matmul", "m": {}}}', "nested too deeply"),
        (("ir", "show", "c.json"), '{{"custom_call_config": {}}}', "nested too deeply"),
        (("zoo", "show", "c.toml"), 'kernel = "matmul"\nm = {}', "nested too deeply"),
        (("conformance", "c.json"), '{{"schema": 1, "tables": {{}}, "date": {}}}', "nested too deeply"),
    ],
)
def test_what_is_nested_too_deeply_is_wrong_usage(
    arguments: tuple[str, ...], text: str, words: str, depth: int
) -> None:
    Path(arguments[-1]).write_text(text.format(nested(depth)))
    refused(cli(*arguments), f"{arguments[-1]} is no", words)


@pytest.mark.parametrize("depth", [200, 2_000, DEEP])
@pytest.mark.parametrize("field", ["m", "x_dtype"])
def test_a_value_that_is_nested_too_deeply_is_told_in_a_line(field: str, depth: int) -> None:
    said = cli("zoo", "show", "matmul", "--set", f"{field}={nested(depth)}")
    refused(said, f"{field} is ")
    assert len(said.err) < 400


def test_what_is_nested_a_little_is_read() -> None:
    Path("r.json").write_text(REPORT + nested(20) + "}")
    assert cli("conformance", "r.json", "--json").json["reports"][0]["date"] == json.loads(nested(20))


# --- a pipe is read once -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "text", "verb", "word"),
    [
        ("c.json", '{"kernel": "matmul"}', ("lint",), "matmul"),
        ("c.json", '{"kernel": "matmul"}', ("zoo", "show"), "matmul"),
        ("c.toml", 'kernel = "matmul"', ("lint",), "matmul"),
        ("c.mlir", DOUBLE, ("ir", "show"), "@double"),
        ("c.mlir", RACE, ("simulate",), "kernel.py:10"),
        ("c.mlir", "module {\n  nothing\n}", ("ir", "show"), "c.mlir:2"),
    ],
)
def test_a_named_pipe_is_a_source(name: str, text: str, verb: tuple[str, ...], word: str) -> None:
    os.mkfifo(name)
    writer = threading.Thread(target=Path(name).write_text, args=(text,), daemon=True)
    writer.start()
    said = cli(*verb, name)
    assert word in said.out + said.err
    writer.join(10)
    assert not writer.is_alive()


# --- what never comes, or never ends -------------------------------------------------------------------------------

DEVICES = [name for name in ("/dev/zero", "/dev/full", "/dev/null") if Path(name).is_char_device()]
MATMUL = ("tune", "matmul", "--vary", "block_m=128")


@pytest.fixture
def special() -> list[str]:
    os.mkfifo("pipe")
    Path("link.mlir").symlink_to("/dev/zero")
    return ["pipe", *DEVICES, *(["link.mlir"] if DEVICES else [])]


@pytest.mark.parametrize(
    ("verb", "what"),
    [((*MATMUL, "--table"), "cannot be kept"), (("conformance",), "cannot read"),
     (("simulate", "double.mlir", "--input"), "cannot read")],
    ids=["tune", "conformance", "simulate"],
)  # fmt: skip
def test_a_table_a_report_and_arrays_are_regular_files(verb: tuple[str, ...], what: str, special: list[str]) -> None:
    Path("double.mlir").write_text(DOUBLE)
    for name in special:
        refused(cli(*verb, name), name, what, "it is no regular file")


@pytest.mark.parametrize("verb", [("ir", "show"), ("lint",), ("simulate",), ("compile",), ("schedule",)], ids=str)
def test_a_device_is_no_source(verb: tuple[str, ...], special: list[str]) -> None:
    for name in special[1:]:
        refused(cli(*verb, name), f"cannot read {name}: it is no regular file")


def test_a_device_is_no_config() -> None:
    for name, verb in (("c.json", "zoo"), ("c.toml", "zoo"), ("d.toml", "lint")):
        Path(name).symlink_to("/dev/zero")
        refused(cli(*(("zoo", "show") if verb == "zoo" else ("lint",)), name), "it is no regular file")


def test_a_terminal_is_a_source_as_standard_input_is() -> None:
    main, other = os.openpty()
    os.write(main, DOUBLE.strip().encode() + b"\n\x04")
    assert "@double" in cli("ir", "show", os.ttyname(other)).out
    os.close(main)
    os.close(other)


@pytest.mark.parametrize("verb", [("ir", "show"), ("ir", "verify"), ("ir", "lift"), ("lint",)], ids=" ".join)
def test_the_mark_of_utf_8_before_a_module_is_skipped(verb: tuple[str, ...]) -> None:
    Path("k.mlir").write_text("\ufeff" + DOUBLE, encoding="utf-8")
    said = cli(*verb, "k.mlir")
    assert (said.code, said.err) == (0, "")


# --- how many ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("compile", "a.mlir", "b.mlir"), "compile takes one source, and 'b.mlir' is left over"),
        (("ir", "show", "a.mlir", "b.mlir"), "ir show takes one source, and 'b.mlir' is left over"),
        (("zoo", "show", "matmul", "b", "c"), "zoo show takes one kernel, and 'b', 'c' are left over"),
        (("ir", "diff", "a", "b", "c"), "ir diff takes 2 arguments, and 'c' is left over"),
        (("doctor", "x"), "doctor takes no arguments, and 'x' is left over"),
    ],
)
def test_what_is_left_over_is_named_with_what_the_verb_takes(arguments: tuple[str, ...], said: str) -> None:
    refused(cli(*arguments), said, "--help")


@pytest.mark.parametrize("verb", [("ir", "show"), ("lint",), ("simulate",), ("compile",), ("schedule",)], ids=str)
def test_an_empty_name_is_no_folder(verb: tuple[str, ...]) -> None:
    refused(cli(*verb, ""), "the name of the source is empty", "name a module's file")
    refused(cli(*verb, "."), "cannot read .: it is a folder")


def test_an_empty_name_of_a_file_to_write() -> None:
    for arguments in (("ir", "show", "matmul", "-o", ""), (*MATMUL, "--table", "")):
        refused(cli(*arguments), "the name of the file to write is empty", "name a file")


# --- numbers of options --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "option", "value"),
    [
        *(
            ((*verb, "double.mlir"), "--timeout", value)
            for verb in (("compile",), ("schedule",), ("simulate",))
            for value in ("inf", "1e300", "nan", "0", "-1", "31622401")
        ),
        (("tune", "matmul", "--vary", "block_m=128"), "--timeout", "inf"),
        (("doctor",), "--timeout", "inf"),
        *(
            ((verb, "double.mlir"), "--vmem-limit-bytes", value)
            for verb in ("compile", "lint", "schedule")
            for value in ("99999999999999999999", str((1 << 40) + 1), "0")
        ),
        *((("simulate", "double.mlir"), "--cores", value) for value in ("0", "65", "99999999")),
        *((("simulate", "double.mlir"), "--seed", value) for value in ("-1", "9" * 30)),
        (("simulate", "double.mlir"), "--seeds", "9" * 30),
        (("zoo", "run", "matmul"), "--seed", "9" * 30),
    ],
)
def test_a_number_outside_its_range_is_wrong_usage_of_its_option(
    arguments: tuple[str, ...], option: str, value: str
) -> None:
    Path("double.mlir").write_text(DOUBLE)
    refused(cli(*arguments, f"{option}={value}"), option, "Must be ")


@pytest.mark.parametrize("value", ["/a b", "a\tb", "é", "x" * 5000, "Infinity"])
@pytest.mark.usefixtures("needs_compiler")
def test_a_flag_that_is_no_word_is_wrong_usage(value: str) -> None:
    Path("double.mlir").write_text(DOUBLE)
    said = cli("compile", "double.mlir", "--target", "v6e", "--flag", f"xla_jf_dump_to={value}")
    refused(said, "--flag: the flag xla_jf_dump_to is ", "--flag xla_tpu_…=VALUE")


def test_the_largest_numbers_are_those_that_the_packages_take() -> None:
    Path("double.mlir").write_text(DOUBLE)
    largest = ("--cores", "64", "--seed", str((1 << 62) - 1), "--timeout", "31622400")
    assert cli("simulate", "double.mlir", *largest).code == 0
    assert cli("lint", "double.mlir", "--vmem-limit-bytes", str(1 << 40)).code == 0


def test_a_file_that_does_not_fit_into_memory_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(file: Path) -> bytes:
        raise MemoryError

    Path("double.mlir").write_text(DOUBLE)
    monkeypatch.setattr(Path, "read_bytes", full)
    refused(cli("ir", "show", "double.mlir"), "not enough memory: double.mlir", "a smaller file", code=1)
