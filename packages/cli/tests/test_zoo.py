"""`mosaic-tpu zoo`: what it says, in both forms, and what it refuses."""

from __future__ import annotations

import base64
import dataclasses
import json
import os
import re
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from mosaic_tpu import zoo
from mosaic_tpu.cli._errors import source_line
from mosaic_tpu.zoo import KERNELS

from .cli_kit import SMALL, cli, refused, same_shape, same_text

LEFT_OUT = "jax_hlo_source_file_canonicalization_regex"
#: Where this installation has the zoo, as it would stand in what is emitted.
HERE = os.fsencode(Path(zoo.__file__).parents[2])

# --- list ---------------------------------------------------------------------------------------------------------


def test_the_kernels_are_listed() -> None:
    said = cli("zoo", "list")
    assert (said.code, said.err) == (0, "")
    same_text("zoo-list", said)


def test_the_list_as_json() -> None:
    said = cli("zoo", "list", "--json")
    assert (said.code, said.err) == (0, "")
    assert [kernel["name"] for kernel in said.json["kernels"]] == list(KERNELS)
    same_shape("zoo-list", said)


def test_a_tag_chooses() -> None:
    assert [k["name"] for k in cli("zoo", "list", "--tag", "serving", "--json").json["kernels"]] == [
        "ragged_paged_attention"
    ]
    assert cli("zoo", "list", "--tag", "nothing", "--json").json["kernels"] == []


# --- show ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_is_shown(name: str) -> None:
    said = cli("zoo", "show", name)
    assert (said.code, said.err) == (0, "")
    same_text(f"zoo-show-{name}", said)


def test_a_kernel_as_json() -> None:
    said = cli("zoo", "show", "matmul:llama-3-8b-mlp", "--json")
    assert said.json["inputs"][1] == {"name": "y", "dtype": "bf16", "shape": [4096, 14336]}
    assert all(field["meaning"] for field in said.json["fields"])
    same_shape("zoo-show", said)


def test_a_changed_config_is_shown_beside_the_presets() -> None:
    said = cli("zoo", "show", "matmul", "--set", "out_dtype=f32", "--json")
    assert said.json["presets"]["this"]["out_dtype"] == "f32"
    assert said.json["outputs"][0]["dtype"] == "f32"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["matmull"], ("no kernel 'matmull'", "did you mean 'matmul'?")),
        (["nothing"], ("no kernel 'nothing'", "one of matmul, ")),
        (["matmul:llama"], ("no preset 'llama'", "llama-3-8b-mlp")),
        (["matmul", "--set", "m"], ("--set m is no name and value", "FIELD=VALUE")),
        (["matmul", "--set", "x_dtyp=f32"], ("no field 'x_dtyp'", "did you mean 'x_dtype'?")),
        (["matmul", "--set", "x_dtype=f99"], ("'f99', which is no element type", "bf16")),
        (["matmul", "--set", "x_dtype=3"], ("x_dtype is 3, and must be the name of an element type", "x_dtype=bf16")),
        (["matmul", "--set", "m=abc"], ('m is "abc", and must be an integer', "m=512")),
        (["matmul", "--set", "m=1.5"], ("m is 1.5, and must be an integer",)),
        (["matmul", "--set", "m=true"], ("m is true, and must be an integer",)),
        (["matmul", "--set", "m=[1]"], ("m is [1], and must be an integer",)),
        (["gated_delta_net", "--set", "scale=x"], ('scale is "x", and must be a number or null',)),
        (["gated_delta_net", "--set", "use_qk_l2norm=1"], ("use_qk_l2norm is 1, and must be true or false",)),
        (["no.toml"], ("cannot read no.toml", "an existing file")),
        ([], ("KERNEL", "mosaic-tpu zoo show --help")),
    ],
)
def test_what_is_no_kernel_is_wrong_usage(arguments: list[str], words: tuple[str, ...]) -> None:
    refused(cli("zoo", "show", *arguments), *words)


def test_a_config_that_the_kernel_refuses_is_a_failure() -> None:
    refused(cli("zoo", "show", "matmul", "--set", "m=100"), "block_m=512 does not divide m=100", "pad m", code=1)


@pytest.mark.parametrize("value", ["Infinity", "-Infinity", "NaN"])
@pytest.mark.parametrize("kernel, field", [("gated_delta_net", "scale"), ("ragged_paged_attention", "sm_scale")])
def test_a_number_that_is_not_finite_is_a_failure(kernel: str, field: str, value: str) -> None:
    toml = value.lower().replace("infinity", "inf")
    Path("c.toml").write_text(f'kernel = "{kernel}"\n{field} = {toml}\n')
    refused(cli("zoo", "show", kernel, "--set", f"{field}={value}"), f"{field} is ", "a finite number", code=1)
    refused(cli("zoo", "show", "c.toml"), f"{field} is ", "a finite number", code=1)


@pytest.mark.parametrize("value", ["-Infinity", '"-Infinity"', "-1e30"])
def test_a_mask_is_what_was_given(value: str) -> None:
    said = cli("zoo", "show", "ragged_paged_attention", "--set", f"mask_value={value}", "--json")
    mask = said.json["presets"]["this"]["mask_value"]
    assert mask == ("-Infinity" if "Inf" in value else -1e30)


# --- config files -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("small.toml", 'kernel = "matmul"\nm = 512\nx_dtype = "f32"\n'),
        ("small.json", '{"kernel": "matmul", "m": 512, "x_dtype": "f32"}'),
    ],
)
def test_a_file_says_a_config(name: str, text: str) -> None:
    Path(name).write_text(text)
    this = cli("zoo", "show", name, "--set", "n=1024", "--json").json["presets"]["this"]
    assert (this["m"], this["n"], this["k"], this["x_dtype"], this["y_dtype"]) == (512, 1024, 2048, "f32", "bf16")


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("bad.json", '{"kernel": "matmul"', "is no JSON"),
        ("bad.json", "[1]", "names no kernel"),
        ("bad.json", '{"m": 512}', "names no kernel"),
        ("bad.json", '{"kernel": "matmul", "preset": 3}', "names no kernel"),
        ("bad.json", '{"kernel": "matmul", "mm": 512}', "no field 'mm'"),
        ("bad.json", '{"kernel": "nothing"}', "no kernel 'nothing'"),
        ("bad.toml", "kernel = ", "is no TOML"),
        ("bad.toml", "\xff", "is no TOML"),
    ],
)
def test_a_damaged_config_is_wrong_usage(name: str, text: str, words: str) -> None:
    Path(name).write_text(text, encoding="latin-1")
    refused(cli("zoo", "show", name), words)


# --- emit ---------------------------------------------------------------------------------------------------------


def test_text_is_emitted() -> None:
    said = cli("zoo", "emit", "matmul")
    assert said.out == KERNELS["matmul"].kernel.emit(KERNELS["matmul"].default)
    assert "loc(" in cli("zoo", "emit", "matmul", "--locations", "--no-canonical").out


@pytest.fixture
def named_from_the_package() -> Generator[None]:
    jax.config.update(LEFT_OUT, "^.*/(?=mosaic_tpu/zoo/)")
    yield
    jax.config.update(LEFT_OUT, None)


@pytest.mark.usefixtures("named_from_the_package")
def test_every_form_is_what_the_kernel_gives() -> None:
    lowered = KERNELS["matmul"].kernel.lower(KERNELS["matmul"].default)
    assert cli("zoo", "emit", "matmul", "--form", "bytes").data == lowered.body
    assert cli("zoo", "emit", "matmul", "--form", "backend-config").out.rstrip("\n") == lowered.backend_config
    assert cli("zoo", "emit", "matmul", "--form", "stablehlo").out.rstrip("\n") == lowered.stablehlo.rstrip("\n")


@pytest.mark.parametrize("form", ["text", "bytes", "backend-config", "stablehlo"])
@pytest.mark.parametrize("name", KERNELS)
def test_what_is_emitted_is_the_same_on_every_machine(name: str, form: str) -> None:
    options = ("--locations",) if form == "text" else ()
    said = cli("zoo", "emit", name, "--form", form, *options)
    assert said.code == 0
    read = _with_what_is_inside(said.data)
    assert HERE not in read
    assert getattr(jax.config, LEFT_OUT) is None
    assert b"mosaic_tpu/zoo/kernels/" in read or form == "bytes"  # where they leave the body, they are not in it


def _with_what_is_inside(data: bytes) -> bytes:
    encoded = re.findall(rb'(?:"|\\22)([A-Za-z0-9+/=]{40,})(?:"|\\22)', data)
    return b"\n".join((data, *map(base64.b64decode, encoded)))


def test_without_the_setting_a_kernel_says_where_its_files_are() -> None:
    config = KERNELS["matmul"].kernel.lower(KERNELS["matmul"].default).backend_config.encode()
    assert HERE in _with_what_is_inside(config)


def test_a_setting_of_jax_goes_before_ours() -> None:
    jax.config.update(LEFT_OUT, "^.*/(?=kernels/)")
    try:
        text = cli("zoo", "emit", "matmul", "--locations").out
        assert getattr(jax.config, LEFT_OUT) == "^.*/(?=kernels/)"
    finally:
        jax.config.update(LEFT_OUT, None)
    assert '"kernels/matmul.py"' in text


def test_a_report_on_what_was_emitted_shows_the_line() -> None:
    text = cli("zoo", "emit", "matmul", "--locations").out
    found = re.search(r'"(mosaic_tpu/zoo/kernels/matmul.py)":(\d+)', text)
    assert found is not None
    assert source_line(f"{found[1]}:{found[2]}")
    assert not source_line("mosaic_tpu/zoo/kernels/not_there.py:1")


@pytest.mark.parametrize("form", ["text", "bytes", "backend-config", "stablehlo"])
def test_a_file_is_written_and_read_back(form: str) -> None:
    said = cli("zoo", "emit", "matmul", "--form", form, "--no-canonical", "-o", "matmul.out", "--json")
    assert (said.code, said.json["bytes"]) == (0, Path("matmul.out").stat().st_size)
    same_shape("written", said)
    assert cli("ir", "diff", "matmul", "matmul.out").code == 0


def test_canonical_text_is_what_is_compared_as_mlir() -> None:
    cli("zoo", "emit", "matmul", "-o", "matmul.mlir")
    assert cli("ir", "diff", "matmul", "matmul.mlir").code == 1
    assert cli("ir", "diff", "matmul", "matmul.mlir", "--style", "mlir").code == 0


def test_emitted_bytes_as_json() -> None:
    said = cli("zoo", "emit", "matmul", "--form", "bytes", "--json")
    assert base64.b64decode(said.json["base64"]).startswith(b"ML\xefR")
    same_shape("zoo-emit", said, cli("zoo", "emit", "matmul", "--json"))


def test_bytes_are_not_for_a_terminal() -> None:
    said = cli("zoo", "emit", "matmul", "--form", "bytes", terminal=True)
    assert (said.code, said.data) == (2, b"")
    assert "bytes are not for a terminal" in said.err and "-o FILE" in said.err


def test_a_file_that_cannot_be_written_is_wrong_usage() -> None:
    refused(cli("zoo", "emit", "matmul", "-o", "no/such/folder"), "cannot write no/such/folder")


# --- run ----------------------------------------------------------------------------------------------------------


def test_a_kernel_runs_and_agrees_with_its_reference() -> None:
    said = cli("zoo", "run", "matmul", *SMALL)
    assert said.code == 0, said.out + said.err
    same_text("zoo-run", said)


@pytest.mark.parametrize("name", ["ragged_paged_attention", "gated_delta_net"])
def test_every_kernel_runs(name: str) -> None:
    said = cli("zoo", "run", name, "--json")
    assert (said.code, said.json["good"]) == (0, True)
    same_shape(f"zoo-run-{name}", said)


def test_integers_are_exact() -> None:
    types = [word for name in ("x", "y", "out") for word in ("--set", f"{name}_dtype=i8")]
    (result,) = cli("zoo", "run", "matmul", *SMALL, *types, "--engine", "xla", "--json").json["results"]
    assert (result["error"], result["tolerance"], result["agrees"]) == (0.0, 0.0, True)


def _set(*changes: str) -> tuple[str, ...]:
    return tuple(word for change in changes for word in ("--set", change))


SCALED = _set("sm_scale=0.088")
F32 = _set("q_dtype=f32", "kv_dtype=f32")
#: By kernel, configs, and what a call may go wrong by: what it is given in place of the arrays.
CONFIGS: dict[str, list[tuple[str, ...]]] = {
    "matmul": [
        _set("m=512", "n=512", "k=1024"),
        _set("m=512", "n=512", "k=1024", "x_dtype=f32", "y_dtype=f32", "out_dtype=f32"),
        _set("m=512", "n=512", "k=1024", "x_dtype=i8", "y_dtype=i8", "out_dtype=i32"),
    ],
    "ragged_paged_attention": [(), F32, SCALED, (*SCALED, *F32)],
    "gated_delta_net": [(), _set("dtype=f32")],
}
FAULTS: dict[str, dict[str, Callable[..., Any]]] = {
    "matmul": {
        "a block of k is left out": lambda x, y: (x.at[:, -512:].set(0), y),
        "a product is added twice": lambda x, y: (x.at[3].set(x[3] * (1 + (jnp.arange(x.shape[1]) == 5))), y),
    },
    "ragged_paged_attention": {
        "a key is another": lambda q, kv, n, pages, *more: (q, kv.at[pages[0, 0], 0, 0].set(1), n, pages, *more),
        "a value is another": lambda q, kv, n, pages, *more: (q, kv.at[pages[0, 0], 0, 1].set(1), n, pages, *more),
        "a key is left out": lambda q, kv, n, *more: (q, kv, n.at[0].add(-1), *more),
    },
    "gated_delta_net": {
        "a token is left out": lambda q, k, v, g, beta, *more: (q, k, v, g, beta.at[0, 9, 0].set(0), *more),
        "a token does not decay": lambda q, k, v, g, *more: (q, k, v, g.at[0, 9, 0].set(0), *more),
    },
}


@pytest.mark.parametrize(
    ("kernel", "config", "fault"),
    [(k, config, fault) for k in KERNELS for config in CONFIGS[k] for fault in (None, *FAULTS[k])],
)
def test_the_least_fault_is_beyond_what_rounding_allows(
    kernel: str, config: tuple[str, ...], fault: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    info, parts = KERNELS[kernel], KERNELS[kernel]._parts

    def faulty(*arrays: Any, **options: Any) -> Any:
        return parts.function(*(FAULTS[kernel][fault](*arrays) if fault else arrays), **options)

    monkeypatch.setitem(vars(info), "_parts", dataclasses.replace(parts, function=faulty))
    said = cli("zoo", "run", kernel, *config)
    assert (said.code, "DIFFERS" in said.out) == ((1, True) if fault else (0, False)), said.out + said.err


@pytest.mark.parametrize(
    "options",
    [
        ("matmul", *SMALL, "--set", "x_dtype=f16", "--set", "y_dtype=f16", "--set", "out_dtype=f32"),
        ("matmul", *SMALL, "--set", "x_dtype=f8e4m3fn", "--set", "out_dtype=f32"),
        ("ragged_paged_attention", "--set", "q_dtype=f32", "--set", "kv_dtype=f32"),
        ("ragged_paged_attention", *SCALED, "--set", "q_dtype=f32"),
        ("ragged_paged_attention", *SCALED, "--set", "kv_dtype=f32"),
        ("ragged_paged_attention", *SCALED, "--set", "num_kv_heads=4", "--set", "kv_dtype=i8",
         "--set", "k_scale=0.2", "--set", "v_scale=0.2"),
    ],
)  # fmt: skip
def test_kernels_of_other_types_agree(options: tuple[str, ...]) -> None:
    said = cli("zoo", "run", *options)
    assert said.code == 0, said.out + said.err


def test_a_config_of_json_is_plain() -> None:
    config = cli("zoo", "run", "matmul", *SMALL, "--json").json["config"]
    assert json.dumps(config) and config["x_dtype"] == "bf16"
