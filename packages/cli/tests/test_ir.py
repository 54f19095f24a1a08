"""`mosaic-tpu ir`: modules of every form as text, compared, verified and lifted."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import jax
import jax.export
import jax.numpy as jnp
import pytest
from jax.experimental import pallas as pl
from jaxlib.mlir.dialects import stablehlo

from mosaic_tpu.cli._errors import UsageError
from mosaic_tpu.cli._input import picked

from .cli_kit import DOUBLE, RACE, cli, refused, same_shape, same_text

TRIPLE = DOUBLE.replace(
    "%1 = arith.addf %0, %0", "%2 = arith.addf %0, %0 : vector<8x128xf32>\n    %1 = arith.addf %2, %0"
)


@pytest.fixture(autouse=True)
def files(alone: None) -> None:
    Path("double.mlir").write_text(DOUBLE)
    Path("triple.mlir").write_text(TRIPLE)
    Path("damaged.mlirbc").write_bytes(b"ML\xefR" + bytes(range(64)))
    Path("noise").write_bytes(b"\xff\xfe\x00noise")


# --- show ---------------------------------------------------------------------------------------------------------


def test_a_module_is_shown() -> None:
    same_text("ir-show", cli("ir", "show", "double.mlir"))
    said = cli("ir", "show", "double.mlir", "--canonical", "--json")
    same_shape("ir-show", said)
    assert "arith.addf" in said.json["text"]


def test_standard_input_is_read() -> None:
    assert cli("ir", "show", "-", stdin=DOUBLE.encode()).out == cli("ir", "show", "double.mlir").out
    refused(cli("ir", "show", "-"), "standard input is a terminal")


@pytest.mark.parametrize("form", ["bytes", "stablehlo", "backend-config"])
def test_every_form_of_a_kernel_shows_the_same_text(form: str) -> None:
    emitted = cli("zoo", "emit", "matmul", "--form", form)
    assert cli("ir", "show", "-", stdin=emitted.data).out == cli("ir", "show", "matmul").out


@pytest.mark.parametrize("form", ["artifact", "export"])
def test_a_program_in_a_binary_form_shows_the_same_text(form: str) -> None:
    emitted = cli("zoo", "emit", "matmul", "--form", "stablehlo").data.decode()
    artifact = stablehlo.serialize_portable_artifact_str(emitted, stablehlo.get_minimum_version())
    x = jax.ShapeDtypeStruct((2,), jnp.float32)
    unrelated = jax.export.export(jax.jit(jnp.sin), platforms=["tpu"])(x)
    found = dataclasses.replace(unrelated, mlir_module_serialized=artifact)
    Path("program").write_bytes(artifact if form == "artifact" else found.serialize())
    for given, stdin in (("program", b""), ("-", Path("program").read_bytes())):
        assert cli("ir", "show", given, stdin=stdin).out == cli("ir", "show", "matmul").out
        assert cli("ir", "diff", given, "matmul", "--style", "mlir", stdin=stdin).code == 0
    Path("other").write_bytes(unrelated.serialize())
    for verb in (["ir", "lift"], ["lint"], ["simulate"]):
        refused(cli(*verb, "other"), "the program holds no tpu_custom_call", "platforms=('tpu',)", code=1)
    Path("cut").write_bytes(Path("program").read_bytes()[:700])
    words = "damaged" if form == "export" else "not a StableHLO program"
    refused(cli("ir", "lift", "cut"), words, "  at: cut\n", code=1)
    refused(cli("ir", "lift", "-", stdin=Path("cut").read_bytes()), words, "  at: standard input\n", code=1)


@pytest.mark.parametrize("verb", [("ir", "show"), ("ir", "verify"), ("lint",), ("simulate",)])
def test_a_program_with_a_damaged_kernel_is_named_and_no_line_of_it(verb: tuple[str, ...]) -> None:
    emitted = cli("zoo", "emit", "matmul", "--form", "stablehlo").out
    at = emitted.index("body") + 200
    Path("cut.shlo").write_text(emitted[:at] + "A" * 40 + emitted[at + 40 :])
    said = cli(*verb, "cut.shlo")
    assert said.code == 1
    assert "cut.shlo" in said.out + said.err or verb == ("lint",)  # its report speaks of the ops
    assert '"-"' not in said.out + said.err
    assert ":0" not in said.out + said.err


def test_a_text_goes_to_a_file() -> None:
    said = cli("ir", "show", "double.mlir", "-o", "out.mlir")
    assert (said.code, said.out) == (0, f"{Path('out.mlir').stat().st_size:,} bytes in out.mlir\n")
    assert Path("out.mlir").read_text() == cli("ir", "show", "double.mlir", "-o", "-").out
    same_shape("written", cli("ir", "show", "double.mlir", "-o", "out.mlir", "--json"))


@pytest.fixture
def program(files: None) -> str:
    """A program with two kernels."""

    def kernel(factor: float) -> Any:
        def body(x_ref: Any, o_ref: Any) -> None:
            o_ref[...] = x_ref[...] * factor

        return pl.pallas_call(body, out_shape=x, name=f"times_{int(factor)}")

    x = jax.ShapeDtypeStruct((16, 128), jnp.float32)
    lowered = jax.jit(lambda y: kernel(3.0)(jnp.sin(kernel(2.0)(y)))).trace(x).lower(lowering_platforms=("tpu",))
    Path("two.stablehlo").write_text(lowered.as_text())
    return "two.stablehlo"


def test_one_of_several_kernels_is_named(program: str) -> None:
    refused(cli("ir", "show", program), "holds 2 kernels", "0 times_2, 1 times_3")
    assert "@times_3" in cli("ir", "show", program, "--kernel", "times_3").out
    assert 'NAME = "times_2"' in cli("ir", "lift", program, "--kernel", "0").out
    assert cli("ir", "diff", program, program, "--kernel", "1").code == 0
    assert cli("ir", "verify", program, "--json").json["modules"][0]["kernel"] == "times_2, times_3"


def test_a_program_is_linted_and_simulated_whole(program: str) -> None:
    assert cli("lint", program, "--json").json["kernels"] == ["times_2", "times_3"]
    said = cli("simulate", program, "--json")
    assert (said.code, said.json["runs"][0]["kernel"]) == (0, "times_2, times_3")


@pytest.mark.usefixtures("needs_compiler")
def test_a_schedule_of_one_of_several_kernels(program: str) -> None:
    refused(cli("schedule", program), "holds 2 kernels", "0 times_2, 1 times_3")
    refused(cli("schedule", program, "--kernel", "name.2"), "no kernel 'name.2'", "0 times_2, 1 times_3")
    named = cli("schedule", program, "--kernel", "times_3")
    assert named.out.startswith("times_3 on v6e: ")
    assert cli("schedule", program, "--kernel", "1").out == named.out


def test_a_kernel_of_a_program_is_chosen() -> None:
    program = cli("zoo", "emit", "matmul", "--form", "stablehlo").data
    for which in ("0", "matmul_kernel"):
        assert cli("ir", "show", "-", "--kernel", which, stdin=program).code == 0
    refused(cli("ir", "show", "-", "--kernel", "1", stdin=program), "holds no kernel '1'", "0 matmul_kernel")
    refused(cli("ir", "show", "double.mlir", "--kernel", "double"), "one module and no program")


TWICE = [("same", b"1"), ("same", b"1"), ("other", b"2"), ("other", b"3"), ("3", b"4")]


@pytest.mark.parametrize(("which", "content"), [("same", b"1"), ("0", b"1"), ("1", b"1"), ("3", b"3"), ("4", b"4")])
def test_kernels_that_are_the_same_are_one(which: str, content: bytes) -> None:
    assert picked(TWICE, which, "x") == content
    assert picked(TWICE[:2], None, "x") == b"1"


@pytest.mark.parametrize(
    ("which", "said"), [(None, "5 kernels"), ("other", "several kernels 'other'"), ("5", "no kernel '5'")]
)
def test_kernels_that_are_not_are_several(which: str | None, said: str) -> None:
    with pytest.raises(UsageError, match=f"x holds {said}") as raised:
        picked(TWICE, which, "x")
    assert raised.value.hint.endswith("0 same, 1 same, 2 other, 3 other, 4 3")


@pytest.mark.parametrize("verb", ["show", "lift", "verify"])
@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("no.mlir", "there is no file no.mlir"),
        ("nothing", "no kernel 'nothing'"),
        ("matmul:nothing", "no preset 'nothing'"),
        ("no/such", "there is no file no/such"),
        (".", "it is a folder"),
    ],
)
def test_what_is_not_there_is_wrong_usage(verb: str, name: str, word: str) -> None:
    refused(cli("ir", verb, name), word)


@pytest.mark.parametrize(
    "way", [("ir", "show"), ("ir", "lift"), ("lint",), ("simulate",), ("ir", "diff", "double.mlir")]
)
def test_what_cannot_be_read_is_named(way: tuple[str, ...]) -> None:
    Path("broken.mlir").write_text("func.func @x() {\n  nonsense\n}\n")
    refused(cli(*way, "broken.mlir"), "\n  at: broken.mlir:2\n      nonsense\n", code=1)
    refused(cli(*way, "damaged.mlirbc"), "\n  at: damaged.mlirbc\n", code=1)
    refused(cli(*way, "-", stdin=b"func.func @x() {"), "\n  at: standard input:1\n", code=1)


@pytest.mark.parametrize("verb", ["diff", "verify"])
def test_standard_input_is_read_once(verb: str) -> None:
    refused(cli("ir", verb, "-", "-", stdin=DOUBLE.encode()), "- stands twice")
    assert cli("ir", verb, "-", "double.mlir", stdin=DOUBLE.encode()).code == 0


@pytest.mark.parametrize("verb", ["show", "lift"])
@pytest.mark.parametrize("name", ["damaged.mlirbc", "noise"])
def test_damaged_bytes_are_a_failure(verb: str, name: str) -> None:
    refused(cli("ir", verb, name), code=1)


def test_an_empty_input_is_a_failure() -> None:
    refused(cli("ir", "show", "-", stdin=b""), "empty", code=1)


def test_settings_are_for_kernels_of_the_zoo() -> None:
    refused(cli("lint", "double.mlir", "--set", "m=3"), "double.mlir is a module")


# --- diff ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("style", ["ops", "idioms", "mlir"])
def test_a_difference_is_exit_code_1(style: str) -> None:
    said = cli("ir", "diff", "double.mlir", "triple.mlir", "--style", style)
    assert said.code == 1
    same_text(f"ir-diff-{style}", said)


def test_names_do_not_shift() -> None:
    lines = cli("ir", "diff", "double.mlir", "triple.mlir", "--json").json["diff"].splitlines()
    assert sum(line.startswith("-") for line in lines) <= 3  # the file, and what follows from the op


def test_no_difference_is_exit_code_0() -> None:
    said = cli("ir", "diff", "double.mlir", "double.mlir", "--json")
    assert (said.code, said.json["same"], said.json["diff"]) == (0, True, "")
    same_shape("ir-diff", said)


def test_a_difference_has_colours_on_a_terminal_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "\x1b[32m+" in cli("ir", "diff", "double.mlir", "triple.mlir", terminal=True).out
    assert "\x1b" not in cli("ir", "diff", "double.mlir", "triple.mlir").out
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[32m" not in cli("ir", "diff", "double.mlir", "triple.mlir", terminal=True).out


def test_an_unknown_style_is_wrong_usage() -> None:
    refused(cli("ir", "diff", "double.mlir", "triple.mlir", "--style", "c"), "--style", "ops")


# --- verify -------------------------------------------------------------------------------------------------------


def test_sound_modules_are_valid() -> None:
    said = cli("ir", "verify", "double.mlir", "matmul")
    assert said.code == 0
    same_text("ir-verify", said)


def test_a_damaged_module_is_exit_code_1() -> None:
    said = cli("ir", "verify", "double.mlir", "damaged.mlirbc", "noise", "--json")
    assert said.code == 1
    assert [module["valid"] for module in said.json["modules"]] == [True, False, False]
    same_shape("ir-verify", said)
    text = cli("ir", "verify", "damaged.mlirbc")
    assert "INVALID" in text.out and "hint: " in text.out


def test_a_module_that_does_not_hold_together_is_found() -> None:
    broken = DOUBLE.replace("vector<8x128xf32>,\n    return", "vector<8x64xf32>,\n    return")
    assert cli("ir", "verify", "-", stdin=broken.encode()).code == 1


# --- lift ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("style", ["ops", "idioms"])
def test_a_module_is_lifted(style: str) -> None:
    said = cli("ir", "lift", "double.mlir", "--style", style)
    assert said.code == 0
    same_text(f"ir-lift-{style}", said)


def test_a_lifted_module_as_json_and_in_a_file() -> None:
    said = cli("ir", "lift", "-", "--json", stdin=RACE.encode())
    same_shape("ir-lift", said)
    file = cli("ir", "lift", "double.mlir", "-o", "double.py", "--json")
    assert file.json["bytes"] == len(Path("double.py").read_bytes())
    same_shape("written", file)
