"""`mosaic-tpu simulate`: a planted race is found, and what is sound is not blamed."""

from __future__ import annotations

import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from conformance.memory import peak
from mosaic_tpu.cli._arrays import arrays_of, foreseen, foreseen_with_reference
from mosaic_tpu.cli._kernels import chosen

from .cli_kit import DOUBLE, RACE, SMALL, cli, refused, same_shape, same_text


@pytest.fixture(autouse=True)
def files(alone: None) -> None:
    Path("race.mlir").write_text(RACE)
    Path("double.mlir").write_text(DOUBLE)


def test_a_planted_race_is_exit_code_1_and_named_with_its_line() -> None:
    said = cli("simulate", "race.mlir")
    assert (said.code, said.err) == (1, "")
    assert "ReadBeforeWaitError" in said.out and "at: kernel.py:10" in said.out
    same_text("simulate-race", said)


def test_the_line_of_source_is_shown_where_the_file_is_here() -> None:
    Path("kernel.py").write_text("\n" * 9 + "y[...] = tile[...] * 2.0\n")
    assert "y[...] = tile[...] * 2.0" in cli("simulate", "race.mlir").out


def test_a_race_as_json() -> None:
    said = cli("simulate", "race.mlir", "--json")
    assert (said.code, said.json["hazards"]) == (1, 1)
    (hazard,) = said.json["runs"][0]["hazards"]
    assert (hazard["kind"], hazard["location"], hazard["op"]) == ("ReadBeforeWaitError", "kernel.py:10", "vector.load")
    same_shape("simulate", said)


def test_without_checks_nothing_is_found() -> None:
    said = cli("simulate", "race.mlir", "--no-checks")
    assert said.code == 0
    assert "not looked for" in said.out


def test_a_sound_module_is_exit_code_0() -> None:
    said = cli("simulate", "-", stdin=DOUBLE.encode())
    assert said.code == 0
    same_text("simulate-double", said)


def test_several_seeds_are_a_table() -> None:
    said = cli("simulate", "race.mlir", "--seed", "4", "--seeds", "3")
    assert said.code == 1
    same_text("simulate-seeds", said)
    assert [run["seed"] for run in cli("simulate", "double.mlir", "--seeds", "2", "--json").json["runs"]] == [0, 1]


def test_a_kernel_of_the_zoo_gets_a_valid_call() -> None:
    said = cli("simulate", "ragged_paged_attention", "--dma", "wait", "--json")
    assert (said.code, said.json["hazards"]) == (0, 0)
    assert {given["from"] for given in said.json["inputs"]} == {"generated"}


def test_a_program_gets_arrays_of_its_main() -> None:
    program = cli("zoo", "emit", "matmul", "--set", "m=512", "--set", "n=512", "--set", "k=512", "--form", "stablehlo")
    said = cli("simulate", "-", "--json", stdin=program.data)
    assert (said.code, [given["array"] for given in said.json["inputs"]]) == (0, ["bfloat16[512, 512]"] * 2)


def test_a_program_whose_arrays_have_other_names_and_types() -> None:
    types = ("--set", "x_dtype=f8e5m2", "--set", "y_dtype=f8e4m3fn")
    program = cli("zoo", "emit", "matmul", *SMALL, *types, "--form", "stablehlo").data
    named = program.replace(b"%arg0", b"%x").replace(b"%arg1", b"%y")
    said = cli("simulate", "-", "--json", stdin=named)
    assert [tuple(given.values()) for given in said.json["inputs"]] == [
        ("arg0", "float8_e5m2[512, 512]", "normal"),
        ("arg1", "float8_e4m3fn[512, 512]", "normal"),
    ]
    unknown = named.replace(b"(%x: ", b"(%z: tensor<?xf32>, %x: ", 1)
    refused(cli("simulate", "-", stdin=unknown), "values of type tensor<?xf32>", code=1)


def test_arrays_come_from_files_and_go_to_one() -> None:
    x = np.arange(1024, dtype=np.float32).reshape(8, 128)
    np.save("x.npy", x)
    said = cli("simulate", "double.mlir", "--input", "x.npy", "-o", "y.npz")
    assert said.code == 0, said.err
    with np.load("y.npz") as found:
        np.testing.assert_array_equal(found["arr_0"], 2 * x)


@pytest.mark.parametrize("kind", ["bf16", "f8E5M2"])
def test_what_one_run_writes_another_reads_in_any_element_type(kind: str) -> None:
    Path("k.mlir").write_text(DOUBLE.replace("8x128xf32", f"32x128x{kind}").replace("addf", "maximumf"))
    assert cli("simulate", "k.mlir", "-o", "y.npz").code == 0
    said = cli("simulate", "k.mlir", "-i", "y.npz", "--json")
    name = {"bf16": "bfloat16", "f8E5M2": "float8_e5m2"}[kind]
    assert (said.code, said.json["inputs"][0]["array"]) == (0, f"{name}[32, 128]"), said.err


def test_a_kernel_of_the_zoo_reads_bf16_and_no_other_size() -> None:
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal((512, 512), np.float32) for _ in range(2))
    np.savez("xy.npz", x.astype(ml_dtypes.bfloat16), y.astype(ml_dtypes.bfloat16))
    said = cli("simulate", "matmul", *SMALL, "-i", "xy.npz", "--json")
    assert (said.code, [i["array"] for i in said.json["inputs"]]) == (0, ["bfloat16[512, 512]"] * 2)
    np.save("x.npy", x.astype(ml_dtypes.float8_e5m2).view("V1"))
    refused(cli("simulate", "matmul", *SMALL, "-i", "x.npy", "-i", "x.npy"), "|V1[512, 512]", "bfloat16", code=1)


def test_a_seed_decides_the_arrays() -> None:
    def result(seed: str) -> bytes:
        cli("simulate", "double.mlir", "--seed", seed, "-o", "y.npz")
        with np.load("y.npz") as found:
            return found["arr_0"].tobytes()

    assert result("1") == result("1") != result("2")


def test_arrays_that_are_none_are_wrong_usage() -> None:
    Path("noise.npy").write_bytes(b"noise")
    refused(cli("simulate", "double.mlir", "--input", "noise.npy"), "noise.npy holds no arrays")
    refused(cli("simulate", "double.mlir", "--input", "no.npy"), "cannot read no.npy")
    refused(cli("simulate", "double.mlir", "--seeds", "0"), "--seeds")
    refused(cli("simulate", "double.mlir", "--dma", "never"), "--dma")
    refused(cli("simulate", "double.mlir", "-o", "no/such.npz"), "cannot write no/such.npz")
    refused(cli("simulate", "double.mlir", "--input", "."), "cannot read .: it is a folder")
    refused(cli("simulate", "no.mlir"), "there is no file no.mlir")


def test_a_file_has_the_name_that_was_given() -> None:
    Path("folder").mkdir()
    refused(cli("simulate", "double.mlir", "-o", "folder"), "cannot write folder: it is a folder")
    refused(cli("simulate", "double.mlir", "-o", "-"), "-o - would mix with the answer", "name a file")
    assert cli("simulate", "double.mlir", "-o", "y").code == 0
    assert sorted(path.name for path in Path().iterdir()) == ["double.mlir", "folder", "race.mlir", "y"]
    with np.load("y") as found:
        assert found["arr_0"].shape == (8, 128)


def test_a_trace_is_part_of_the_answer_in_json() -> None:
    refused(cli("simulate", "double.mlir", "--trace"), "--trace", "--json")
    assert "trace" in cli("simulate", "double.mlir", "--trace", "--json").json["runs"][0]
    assert "trace" not in cli("simulate", "double.mlir", "--json").json["runs"][0]


LARGE = ("--set", "m=262144", "--set", "k=16384")
#: The same module with arrays of 16 GB.
VAST = DOUBLE.replace("memref<8x128xf32", "memref<16777216x128xf32")


@pytest.mark.parametrize("verb", [("simulate",), ("zoo", "run")])
def test_what_takes_gigabytes_is_refused_before_it_does(verb: tuple[str, ...]) -> None:
    refused(cli(*verb, "matmul", *LARGE), "GB of memory", "--large")
    assert cli(*verb, "matmul", *SMALL).code == 0


def test_a_module_of_vast_arrays_is_refused_too() -> None:
    refused(cli("simulate", "-", stdin=VAST.encode()), "GB of memory", "--large")


def test_what_is_large_goes_on_if_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mosaic_tpu.cli._arrays.LARGE", 1e3)
    refused(cli("simulate", "double.mlir"), "--large")
    assert cli("simulate", "double.mlir", "--large").code == 0


@pytest.mark.skipif(sys.platform != "linux", reason="Linux says what a process held at the most, in /proc")
@pytest.mark.parametrize(
    ("verb", "kernel", "small", "large"),
    [
        (("simulate",), "ragged_paged_attention", (), ("num_pages=1024", "num_kv_heads=8", "num_q_heads=32")),
        (("zoo", "run"), "matmul", ("m=512", "n=512", "k=512"), ("m=4096", "n=4096", "k=512")),
    ],
)
def test_what_is_foreseen_is_what_it_takes_at_the_most(
    verb: tuple[str, ...], kernel: str, small: tuple[str, ...], large: tuple[str, ...]
) -> None:
    """`python -m conformance.memory` does the same for all kernels and engines."""
    foresee = foreseen if verb == ("simulate",) else foreseen_with_reference
    found = chosen(kernel, large)
    need = foresee(*arrays_of(found.info.kernel, found.config))
    lines = [(*verb, kernel, *(word for change in changes for word in ("--set", change))) for changes in (small, large)]
    base, most = (peak([*line, "--large"]) for line in lines)
    assert need / 4 < most - base <= need


def test_a_run_that_takes_too_long_is_no_failed_check() -> None:
    refused(cli("simulate", "matmul", *SMALL, "--timeout", "1e-6"), "raise --timeout", code=124)


def test_arrays_that_do_not_fit_are_a_failure() -> None:
    np.save("x.npy", np.zeros((4, 4), np.float32))
    refused(cli("simulate", "double.mlir", "--input", "x.npy"), code=1)


def test_damaged_bytes_are_a_failure() -> None:
    refused(cli("simulate", "-", stdin=b"ML\xefR" + bytes(40)), code=1)


@pytest.mark.parametrize("verb", ["simulate", "lint"])
def test_what_ir_show_prints_is_a_source(verb: str) -> None:
    """A body's text keeps the mark of the form that it has left."""
    file = Path("small.mlirbc")
    cli("zoo", "emit", "matmul", *SMALL, "--form", "bytes", "-o", str(file))
    text = cli("ir", "show", str(file)).out
    assert "stable_mosaic.version" in text
    assert cli(verb, "-", stdin=text.encode()).code == 0
