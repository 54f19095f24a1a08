"""StableHLO in binary forms: bytecode, portable artifacts, and the files of `jax.export`, whole, damaged, and others.

That JAX itself reads them is told by its own text of each.
"""

from __future__ import annotations

import functools
import io
import struct
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jaxlib.mlir.dialects import stablehlo
from jaxlib.mlir.ir import Module

from mosaic_tpu.sim import SimulationError, _probe, ir, read, simulate
from mosaic_tpu.sim._program import calls_of
from mosaic_tpu.sim.errors import ModuleFormatError
from packages.sim.tests.conftest import TILE, ramp
from packages.sim.tests.test_bad_input import damaged

X = ramp(*TILE)


def call(factor: float) -> Callable[[Any], Any]:
    def times(x: Any, o: Any) -> None:
        o[...] = x[...] * factor

    return pl.pallas_call(times, out_shape=jax.ShapeDtypeStruct(TILE, X.dtype))


@jax.custom_vjp
def times_two(x: Any) -> Any:
    return call(2.0)(x) + 1


times_two.defvjp(lambda x: (times_two(x), None), lambda _, g: (call(3.0)(g),))


def exported(function: Callable[[Any], Any] = times_two) -> Any:
    return jax.export.export(jax.jit(function), platforms=["tpu"])(jax.ShapeDtypeStruct(TILE, X.dtype))


def file_of(found: Any, vjp_order: int = 0) -> bytes:
    return bytes(found.serialize(vjp_order=vjp_order))


def module_of(function: Callable[[Any], Any]) -> Any:
    lowered = jax.jit(function).trace(jax.ShapeDtypeStruct(TILE, X.dtype)).lower(lowering_platforms=("tpu",))
    return lowered.compiler_ir("stablehlo")


def bytecode(function: Callable[[Any], Any]) -> bytes:
    buffer = io.BytesIO()
    module_of(function).operation.write_bytecode(buffer)
    return buffer.getvalue()


def artifact(function: Callable[[Any], Any]) -> bytes:
    text = str(module_of(function))  # of a module it would become another dialect's
    return stablehlo.serialize_portable_artifact_str(text, stablehlo.get_minimum_version())


FORMS: dict[str, Callable[[Callable[[Any], Any]], bytes]] = {
    "bytecode": bytecode,
    "artifact": artifact,
    "artifact of an export": lambda function: exported(function).mlir_module_serialized,
    "file": lambda function: file_of(exported(function)),
}
form = pytest.mark.parametrize("made", FORMS.values(), ids=FORMS)


@form
@pytest.mark.parametrize("where", ["bytes", "file"])
def test_a_program_is_read_in_every_form(made: Callable[..., bytes], where: str, tmp_path: Path) -> None:
    source: Any = made(times_two)
    if where == "file":
        (source := tmp_path / "program").write_bytes(made(times_two))
    assert read(source).name == "times"
    assert [found.kernel_name for found in calls_of(source)] == ["times"]
    np.testing.assert_array_equal(simulate(source, X).outputs[0], X * 2 + 1)


def test_the_kernel_is_the_one_that_jax_reads() -> None:
    found = exported()
    (wanted,) = calls_of(found.mlir_module())
    for data in (found.mlir_module_serialized, file_of(found), bytearray(file_of(found))):
        assert calls_of(data)[0].body == wanted.body


def test_an_export_with_its_derivative_is_the_function_itself() -> None:
    data = file_of(exported(), vjp_order=1)
    assert data.count(b"StableHLO_v") == 2
    np.testing.assert_array_equal(simulate(data, X).outputs[0], X * 2 + 1)
    again = jax.export.deserialize(bytearray(data))
    np.testing.assert_array_equal(simulate(again.vjp(), X).outputs[0], X * 3)


#: A program that does nothing is of no dialect in plain bytecode, which has no op of StableHLO then.
WITHOUT_KERNELS = [
    pytest.param(made, function, id=f"{name}-{what}")
    for name, made in FORMS.items()
    for what, function in (("sin", jnp.sin), ("nothing", lambda x: x))
    if made is not bytecode or what == "sin"
]


@pytest.mark.parametrize(("made", "function"), WITHOUT_KERNELS)
def test_a_program_without_kernels_says_so(made: Callable[..., bytes], function: Callable[[Any], Any]) -> None:
    for reader in (read, calls_of, lambda data: simulate(data, X)):
        with pytest.raises(ModuleFormatError, match="the program holds no tpu_custom_call") as caught:
            reader(made(function))
        assert "platforms=('tpu',)" in str(caught.value)


def test_a_module_with_the_word_in_its_strings_is_no_program() -> None:
    buffer = io.BytesIO()
    text = 'func.func @k() attributes {note = "stablehlo.add StableHLO_v1.0.0"} { return }'
    with ir.new_context():
        Module.parse(text).operation.write_bytecode(buffer)
    assert read(buffer.getvalue()).name == "k"
    assert ir.contents(buffer.getvalue()) == buffer.getvalue()


# --- damage ----------------------------------------------------------------------------------------------------------


@form
def test_damage_ends_in_an_error_of_ours(made: Callable[..., bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_probe, "LIMIT", 2.0)  # some never end
    data, outcomes = made(times_two), Counter[str]()
    for case in range(100):
        try:
            read(damaged(data, case))
        except SimulationError as error:
            assert error.summary and error.hint
            outcomes["refused"] += 1
        else:
            outcomes["read"] += 1
    assert outcomes["refused"] > 50


@functools.cache
def whole() -> bytes:
    return file_of(exported())


@pytest.mark.parametrize("size", [0, 1, 4, 40, 200, 400, 1000])
def test_a_file_that_is_cut_short(size: int) -> None:
    with pytest.raises(ModuleFormatError):
        read(whole()[:size])


@pytest.mark.parametrize("offset", [0, 1, 1 << 20, (1 << 32) - 1])
def test_a_file_whose_offsets_lead_elsewhere(offset: int) -> None:
    with pytest.raises(ModuleFormatError, match=r"a file of jax\.export that is damaged"):
        read(struct.pack("<I", offset) + whole()[4:])


def test_bytes_of_no_kind_are_no_export() -> None:
    with pytest.raises(ModuleFormatError, match="neither MLIR text nor bytecode"):
        read(b"\xff" + whole()[:200])
