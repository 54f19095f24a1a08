"""`mosaic-tpu lint`, `compile`, `schedule` and `tune`: what the TPU compiler says, or would."""

from __future__ import annotations

import dataclasses
import warnings
from pathlib import Path
from typing import Literal

import pytest

from mosaic_tpu.aot import TARGETS
from mosaic_tpu.cli._notes import noted

from .cli_kit import DOUBLE, SMALL, cli, refused, same_shape, same_text

#: The compiler has no product of integers of 8 bits outside of the MXU, and lint knows.
BYTES = DOUBLE.replace("xf32", "xi8").replace("arith.addf", "arith.muli").replace("arith.muli %0", "arith.muli %0", 1)


@pytest.fixture(autouse=True)
def files(alone: None) -> None:
    Path("double.mlir").write_text(DOUBLE)
    Path("bytes.mlir").write_text(BYTES)


# --- lint ---------------------------------------------------------------------------------------------------------


def test_lint_finds_nothing_in_a_sound_kernel() -> None:
    said = cli("lint", "matmul", "--target", "v5e,v6e", "--vmem")
    assert said.code == 0
    same_text("lint-matmul", said)


def test_lint_finds_an_error() -> None:
    said = cli("lint", "bytes.mlir", "--target", "v5e")
    assert said.code == 1
    same_text("lint-bytes", said)


def test_lint_as_json() -> None:
    said = cli("lint", "bytes.mlir", "--target", "v5e", "--vmem", "--json")
    assert said.code == 1
    same_shape("lint", said)


def test_every_target_is_looked_at_unless_some_are_named() -> None:
    assert cli("lint", "matmul", "--json").json["targets"] == list(TARGETS)
    assert cli("lint", "matmul", "--target", "v6e", "--target", "v5e", "--json").json["targets"] == ["v6e", "v5e"]


@pytest.mark.parametrize(
    ("action", "arguments"),
    [
        ("default", ("compile", "double.mlir", "--target", "v5e,v6e")),
        ("error", ("schedule", "double.mlir")),
        ("ignore", ("compile", "double.mlir", "--target", "v6e")),
    ],
)
@pytest.mark.usefixtures("needs_compiler")
def test_a_cache_that_takes_nothing_is_a_note_and_the_answer_stays(
    action: Literal["default", "error", "ignore"], arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("file").write_text("")
    monkeypatch.setenv("MOSAIC_TPU_CACHE", str(Path("file").absolute()))
    with warnings.catch_warnings():
        warnings.simplefilter(action)
        said = cli(*arguments)
    assert (said.code, said.out != "") == (0, True)
    assert said.err.startswith(
        f"note: the compiler's answer is not kept in {Path('file').absolute()}: Not a directory; "
    )
    assert said.err.count("\n") == 1
    assert "set MOSAIC_TPU_CACHE" in said.err
    monkeypatch.setenv("MOSAIC_TPU_CACHE", str(Path("cache").absolute()))
    assert "not kept" not in cli(*arguments).err


def test_warnings_of_others_are_told_as_ever() -> None:
    with pytest.warns(DeprecationWarning, match="old"), noted():
        warnings.warn("old", DeprecationWarning, stacklevel=1)


@pytest.mark.parametrize("verb", ["lint", "compile", "schedule"])
def test_an_unknown_target_is_wrong_usage(verb: str) -> None:
    refused(cli(verb, "double.mlir", "--target", "v9"), "no target 'v9'", "v6e")


@pytest.mark.parametrize("verb", ["lint", "compile", "schedule"])
def test_damaged_bytes_are_a_failure(verb: str) -> None:
    refused(cli(verb, "-", stdin=b"ML\xefR" + bytes(40)), code=1)


@pytest.mark.parametrize("verb", ["lint", "compile", "schedule", "tune"])
def test_a_kernel_that_is_not_there_is_wrong_usage(verb: str) -> None:
    refused(cli(verb, "matmul:nothing"), "no preset 'nothing'")


# --- compile ------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("needs_compiler")
def test_compile_says_what_each_target_says() -> None:
    said = cli("compile", "double.mlir", "--target", "v5e,v6e", "--json")
    assert said.code == 0
    assert [(t["target"], t["accepted"]) for t in said.json["targets"]] == [("v5e", True), ("v6e", True)]
    same_shape("compile", said, cli("compile", "bytes.mlir", "--target", "v5e", "--json"))
    again = cli("compile", "double.mlir", "--target", "v5e,v6e")
    assert again.out.splitlines()[0].split() == ["target", "verdict", "seconds", "answer", "of"]
    assert again.out.count("disk") == 2


@pytest.mark.usefixtures("needs_compiler")
def test_a_refusal_is_exit_code_1_with_its_reason() -> None:
    said = cli("compile", "bytes.mlir", "--target", "v5e")
    assert said.code == 1
    assert "REFUSED: UnsupportedError" in said.out and "hint: " in said.out
    error = cli("compile", "bytes.mlir", "--target", "v5e", "--json").json["targets"][0]["error"]
    assert error["kind"] == "UnsupportedError" and error["op"] == "arith.muli"


def test_a_flag_needs_a_value() -> None:
    for flag in ("xla_tpu", "a b=1", "=1"):
        refused(cli("compile", "double.mlir", "--flag", flag), f"--flag {flag} is no name and value", "xla_tpu_…=VALUE")


@pytest.mark.usefixtures("needs_compiler")
@pytest.mark.parametrize("flag", ["xla_tpu_nothing=1", "xla_tpu_nothing=true"])
def test_a_flag_that_there_is_not_is_no_word_on_the_kernel(flag: str) -> None:
    said = cli("compile", "double.mlir", "--target", "v5e,v6e", "--flag", flag)
    refused(said, "xla_tpu_nothing", "--flag xla_tpu_…=VALUE")
    assert "flags={" not in said.err and "REFUSED" not in said.err
    told = cli("compile", "double.mlir", "--target", "v5e", "--flag", flag, "--json")
    assert (told.code, told.json["exit_code"], told.json["error"]["kind"]) == (2, 2, "FlagError")


@pytest.mark.usefixtures("needs_compiler")
def test_a_limit_that_is_too_small_has_a_hint_that_can_be_typed() -> None:
    said = cli("compile", "double.mlir", "--target", "v6e", "--vmem-limit-bytes", "1")
    assert said.code == 1
    assert "--vmem-limit-bytes " in said.out
    assert "vmem_limit_bytes=" not in said.out


@pytest.mark.usefixtures("needs_compiler")
def test_a_time_out_is_no_refusal() -> None:
    given = ("compile", "double.mlir", "--target", "v5e", "--timeout", "0.01", "--no-cache")
    said = cli(*given)
    assert said.code == 124
    assert "TIMED OUT" in said.out and "REFUSED" not in said.out and "raise --timeout" in said.out
    told = cli(*given, "--json")
    (target,) = told.json["targets"]
    assert (told.code, target["verdict"], target["accepted"]) == (124, "timed-out", False)
    refused(cli("schedule", *given[1:]), "no answer within 0.01 s", "raise --timeout", code=124)


@pytest.mark.usefixtures("needs_compiler")
def test_a_refusal_beside_a_time_out_is_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    from mosaic_tpu import aot
    from mosaic_tpu.aot.errors import CompileTimeoutError, DiskError, UnsupportedError

    good = aot.compile(DOUBLE, "v5e")
    late, bad, full = (
        dataclasses.replace(good, error=error("why", target="v5e"))
        for error in (CompileTimeoutError, UnsupportedError, DiskError)
    )
    for results, code in (([good], 0), ([good, late], 124), ([late, bad], 1), ([good, full], 1), ([late, full], 1)):
        monkeypatch.setattr("mosaic_tpu.aot.compile_all", lambda *_, results=results, **__: results)
        assert cli("compile", "double.mlir").code == code
    words = [target["verdict"] for target in cli("compile", "double.mlir", "--json").json["targets"]]
    assert words == ["timed-out", "no-answer"]


# --- schedule -----------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("needs_compiler")
def test_a_schedule_in_every_form() -> None:
    said = cli("schedule", "matmul", *SMALL, "--target", "v5e")
    assert said.code == 0
    assert said.out.startswith("matmul_kernel on v5e: ") and "slots of the hot block" in said.out
    data = cli("schedule", "matmul", *SMALL, "--target", "v5e", "--json")
    assert data.json == cli("schedule", "matmul", *SMALL, "--target", "v5e", "--form", "json").json
    assert (data.json["schema"], data.json["target"]) == ("mosaic-tpu/schedule/1", "v5e")
    same_shape("schedule", data)
    picture = cli("schedule", "matmul", *SMALL, "--target", "v5e", "--form", "svg")
    assert picture.out.startswith("<svg ") and picture.out.endswith("</svg>\n")
    for form, shown in (("text", said), ("json", data), ("svg", picture)):
        written = cli("schedule", "matmul", *SMALL, "--target", "v5e", "--form", form, "-o", "file", "--json")
        assert written.json["bytes"] == Path("file").stat().st_size
        assert Path("file").read_text().rstrip("\n") == shown.out.rstrip("\n")
        same_shape("written", written)
    assert Path("file").read_text().startswith("<svg ")


@pytest.mark.usefixtures("needs_compiler")
def test_a_kernel_that_is_refused_has_no_schedule() -> None:
    refused(cli("schedule", "bytes.mlir", "--target", "v5e"), "arith.muli", code=1)
    refused(cli("schedule", "double.mlir", "--target", "v5e,v6e"), "one target and not 2")
    refused(cli("schedule", "double.mlir", "--kernel", "nothing"), "holds no kernel 'nothing'", "0 double")


# --- tune ---------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("needs_compiler")
def test_configs_are_ranked() -> None:
    said = cli("tune", "matmul", *SMALL, "--vary", "block_m=256,512", "--json")
    assert said.code == 0
    cycles = [trial["cycles"] for trial in said.json["trials"]]
    assert cycles == sorted(cycles) and said.json["best"] == said.json["trials"][0]["config"]
    same_shape("tune", said)
    text = cli("tune", "matmul", *SMALL, "--vary", "block_m=256,512")
    assert text.out.splitlines()[2].split() == ["cycles", "of", "best", "block_m"]


@pytest.mark.usefixtures("needs_compiler")
def test_trip_counts_that_depend_on_data_are_counted() -> None:
    said = cli("tune", "ragged_paged_attention", "--vary", "num_kv_pages_per_block=2,4", "--json")
    assert (said.code, said.json["metric"]) == (0, "counted")


def test_a_search_space_is_needed() -> None:
    refused(cli("tune", "matmul"), "no field varies", "block_m")
    refused(cli("tune", "matmul", "--vary", "block_m"), "--vary block_m is no name and value")
    refused(cli("tune", "matmul", "--vary", "block_m="), 'block_m is "", and must be an integer')
    refused(cli("tune", "matmul", "--vary", "block_z=3"), "no field 'block_z'")
    refused(cli("tune", "matmul", "--vary", "block_m=100"), "every config is refused", code=1)
    refused(cli("tune", "nothing", "--vary", "block_m=100"), "no kernel 'nothing'")
    refused(cli("tune", "matmul", "--vary", "block_m=256", "--target", "v9"), "no target 'v9'")
    refused(cli("tune", "matmul", "--vary", "block_m=256,abc"), 'block_m is "abc", and must be an integer')


def test_a_table_makes_no_folder() -> None:
    refused(cli("tune", "matmul", "--vary", "block_m=256", "--table", "no/t.json"), "there is no folder no")
    assert not Path("no").exists()
    refused(cli("tune", "matmul", "--vary", "block_m=256", "--table", "-"), "--table -", "name a file")


@pytest.mark.parametrize("option", ["--timeout", "--vmem-limit-bytes", "--workers"])
def test_numbers_of_options_are_positive(option: str) -> None:
    verb = ("tune", "matmul", "--vary", "block_m=256") if option != "--vmem-limit-bytes" else ("compile", "matmul")
    refused(cli(*verb, option, "0"), option)
