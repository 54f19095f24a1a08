"""What is handed in wrong ends in an error of ours that says what it is: never a crash, a hang or a foreign error."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import random
import threading
import types
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jaxlib.mlir import ir as mlir

from mosaic_tpu.sim import SimulationError, errors, ir, read, simulate, simulate_devices
from mosaic_tpu.sim._program import calls_of
from packages.sim.tests.conftest import TILE, lowered, ramp

VMEM = "memref<8x128xf32, #tpu.memory_space<vmem>>"
COPY = f"""
func.func @copy(%x: {VMEM}, %o: {VMEM}) {{
  %c = arith.constant 0 : index
  %v = vector.load %x[%c, %c] : {VMEM}, vector<8x128xf32>
  vector.store %v, %o[%c, %c] : {VMEM}, vector<8x128xf32>
  return
}}"""
X = ramp(*TILE)


def kernel_text(lines: str) -> str:
    return COPY.replace("  vector.store", f"  {lines}\n  vector.store")


def body() -> bytes:
    def double(x: Any, o: Any) -> None:
        o[...] = x[...] * 2

    call = pl.pallas_call(double, out_shape=jax.ShapeDtypeStruct(TILE, X.dtype))
    (found,) = calls_of(lowered(call, X))
    return found.body


# --- damage --------------------------------------------------------------------------------------------------------


def damaged(data: bytes, case: int) -> bytes:
    """Cut short, with some bits flipped, or with a stretch of it overwritten."""
    rng = random.Random(case)
    if case % 4 == 0:
        return data[: rng.randrange(4, len(data))]
    made = bytearray(data)
    if case % 4 == 3:
        start = rng.randrange(4, len(made) - 16)
        made[start : start + 16] = rng.randbytes(16)
    else:
        for _ in range(rng.choice((1, 3, 20))):
            made[rng.randrange(4, len(made))] ^= 1 << rng.randrange(8)
    return bytes(made)


@pytest.mark.parametrize("case", range(40))
def test_damaged_bytes(case: int) -> None:
    """Some are still a module, and run; whatever happens is ours."""
    try:
        report = simulate(damaged(body(), case), X, max_steps=1000, timeout=10)
    except SimulationError as error:
        assert not isinstance(error, errors.InternalError), error
    else:
        assert report.outputs[0].shape == TILE


def test_bytes_that_are_whole() -> None:
    np.testing.assert_array_equal(simulate(body(), X).outputs[0], X * 2)


def test_a_module_that_has_left_the_serialized_form_and_keeps_its_mark() -> None:
    text = f"module attributes {{stable_mosaic.version = 15 : i64}} {{{COPY}}}"
    np.testing.assert_array_equal(simulate(text, X).outputs[0], X)


@pytest.mark.parametrize(
    ("source", "stable"),
    [
        (body(), True),
        (COPY, False),
        (f"module attributes {{stable_mosaic.version = 15 : i64}} {{{COPY}}}", False),
    ],
    ids=["body", "text", "text with the mark"],
)
def test_the_ops_tell_the_form_and_not_its_mark(source: bytes | str, stable: bool) -> None:
    with ir.new_context():
        assert ir.in_stable_form(mlir.Module.parse(source)) is stable


@pytest.mark.parametrize("case", range(20))
def test_damaged_text(case: int) -> None:
    rng = random.Random(case)
    text = list(COPY)
    for _ in range(rng.choice((1, 2, 8))):
        text[rng.randrange(len(text))] = chr(rng.randrange(32, 127))
    try:
        simulate("".join(text), X, max_steps=1000)
    except SimulationError as error:
        assert not isinstance(error, errors.InternalError), error


def test_damaged_locations() -> None:
    def double(x: Any, o: Any) -> None:
        o[...] = x[...] * 2

    (call,) = calls_of(lowered(pl.pallas_call(double, out_shape=jax.ShapeDtypeStruct(TILE, X.dtype)), X))
    if call.debug_locations is None:
        pytest.skip("locations are in the body before JAX 0.12")
    assert read(call.body, call.debug_locations).name == "double"
    with pytest.raises(errors.ModuleFormatError):
        read(call.body, call.debug_locations[:-40])


# --- what is no module ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR",
        b"\x7fELF\x02\x01\x01",
        b"PK\x03\x04\x14\x00",
        b"ML\xefR",
        b"ML\xefR" + bytes(64),
        b"not MLIR at all",
        bytes(range(256)),
    ],
)
def test_files_that_hold_something_else(data: bytes, tmp_path: Path) -> None:
    file = tmp_path / "kernel.mlir"
    file.write_bytes(data)
    for source in (data, file):
        with pytest.raises(errors.ModuleFormatError) as caught:
            simulate(source, X)
        assert caught.value.hint


def test_a_file_that_holds_a_module(tmp_path: Path) -> None:
    file = tmp_path / "kernel.mlir"
    file.write_text(COPY)
    np.testing.assert_array_equal(simulate(file, X).outputs[0], X)
    (tmp_path / "kernel.mlirbc").write_bytes(body())
    other = tmp_path / "0001-mosaic-dump-copy-original.txt"
    other.write_text(COPY)
    assert read(str(other)).kernel.name == "copy"
    np.testing.assert_array_equal(simulate(tmp_path / "kernel.mlirbc", X).outputs[0], X * 2)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    for path in (tmp_path / "none.mlir", tmp_path):
        with pytest.raises(errors.ModuleFormatError, match="cannot read"):
            simulate(path, X)


@pytest.mark.parametrize("source", [None, 3, 2.5, object(), [COPY], {"body": b""}, np.zeros(3)])
def test_objects_that_hold_no_module(source: Any) -> None:
    with pytest.raises(errors.ModuleFormatError, match="holds no Mosaic module"):
        simulate(source, X)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "empty"),
        ("   \n", "empty"),
        ("kernel.mlir", "cannot read kernel.mlir: No such file"),
        ("func.func @f(", "not a Mosaic module"),
        ("module {}", "no function"),
        ("func.func private @f()", "has no body"),
        (COPY.replace("%v, %o", "%w, %o"), "undeclared"),
        (COPY.replace("vector<8x128xf32>\n  return", "vector<8x64xf32>\n  return"), "not a Mosaic module"),
        (COPY.replace("  return\n", ""), "not a Mosaic module"),
        ("module {" * 3000 + "}" * 3000, "nested"),
        ("func.func @f(%x: i32) { cf.br ^bb1\n^bb1:\n return }", "several blocks"),
    ],
)
def test_text_that_is_no_kernel(text: str, says: str) -> None:
    with pytest.raises(errors.ModuleFormatError) as caught:
        simulate(text, X)
    assert says in str(caught.value)


@pytest.mark.parametrize("name", ["\\FF", "k\\C3\\28", "\\C3"])
@pytest.mark.parametrize(
    "line",
    [
        '"tpu.NAME"() : () -> ()',
        '"other.NAME"() : () -> ()',
        'func.call @"NAME"() : () -> ()',
        '"tpu.trace_stop"() {a = "NAME"} : () -> ()',
        '"tpu.trace_stop"() : () -> () loc("NAME")',
    ],
)
def test_names_and_strings_that_are_no_utf8(line: str, name: str) -> None:
    """Jaxlib ends the process over some of them."""
    text = COPY.replace("  return\n", f"  {line.replace('NAME', name)}\n  return\n")
    with pytest.raises(errors.ModuleFormatError, match="not UTF-8"):
        read(text)


def test_names_and_strings_beyond_ascii() -> None:
    text = COPY.replace(
        "  return\n",
        '  "tpu.trace_stop"() {a = "\\C3\\A9", b = "ü", c = "C:\\\\Fa"} : () -> () loc("é\\\\FF":1:2)\n  return\n',
    )
    np.testing.assert_array_equal(simulate(text, X).outputs[0], X)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('kernel_name = "double"', 'kernel_name = "\\FF"'),
        ('backend_config = "{', 'backend_config = "\\FF{'),
        (
            "stablehlo.custom_call @tpu_custom_call",
            '"stablehlo.\\FF"() : () -> ()\nstablehlo.custom_call @tpu_custom_call',
        ),
    ],
)
def test_programs_with_names_that_are_no_utf8(old: str, new: str) -> None:
    def double(x: Any, o: Any) -> None:
        o[...] = x[...] * 2

    text = lowered(pl.pallas_call(double, out_shape=jax.ShapeDtypeStruct(TILE, X.dtype)), X)
    np.testing.assert_array_equal(simulate(text, X).outputs[0], X * 2)
    assert old in text
    with pytest.raises(errors.ModuleFormatError):
        simulate(text.replace(old, new), X)


def test_a_lowered_kernel_whose_body_is_damaged() -> None:
    """Any object with a body is taken, so none is trusted."""
    assert read(types.SimpleNamespace(body=body())).kernel.operation.name == "func.func"
    for case in range(8):
        with contextlib.suppress(errors.ModuleFormatError):
            read(types.SimpleNamespace(body=damaged(body(), case)))


@pytest.mark.parametrize(
    ("lines", "name"),
    [
        ('"foo.bar"() : () -> ()', "foo.bar"),
        ('%u = "llvm.mlir.undef"() : () -> vector<8x128xf32>', "llvm.mlir.undef"),
        ('"tpu.no_such_op"(%c) : (index) -> ()', "tpu.no_such_op"),
    ],
)
def test_an_op_without_a_rule_is_named(lines: str, name: str) -> None:
    with pytest.raises(SimulationError, match=name):
        simulate(kernel_text(lines), X)


def test_an_op_without_a_rule_names_its_line() -> None:
    text = kernel_text('"foo.bar"() : () -> () loc("attention.py":12:3)')
    with pytest.raises(errors.UnsupportedOpError) as caught:
        simulate(text, X)
    assert caught.value.location == "attention.py:12"
    assert "coverage" in str(caught.value.hint)


# --- arrays --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arrays",
    [
        (X, X),
        (X[:4],),
        (X[0],),
        (X.T,),
        (np.float32(1),),
        (X.astype(np.float64),),
        (X.astype(np.int32),),
        (X.astype(np.complex64),),
        (X.astype(str),),
        (X.astype(object),),
        (None,),
        ("x",),
        ([[1.0], [2.0, 3.0]],),
        (object(),),
    ],
)
def test_arrays_that_do_not_fit(arrays: tuple[Any, ...]) -> None:
    with pytest.raises(errors.InputError) as caught:
        simulate(COPY, *arrays)
    assert caught.value.op == "copy"


WINDOWED = """
func.func @windowed(%i: i32, %x: memref<8x128xf32, #tpu.memory_space<vmem>>,
                    %y: memref<8x128xf32, #tpu.memory_space<vmem>>) attributes {
    iteration_bounds = array<i64: 2>, scalar_prefetch = 0 : i64, scratch_operands = 0 : i64,
    window_params = [{transform_indices = @same, window_bounds = array<i64: 8, 128>},
                     {transform_indices = @same, window_bounds = array<i64: 8, 128>}]} {
  %c0 = arith.constant 0 : index
  %0 = vector.load %x[%c0, %c0] : memref<8x128xf32, #tpu.memory_space<vmem>>, vector<8x128xf32>
  vector.store %0, %y[%c0, %c0] : memref<8x128xf32, #tpu.memory_space<vmem>>, vector<8x128xf32>
  return
}
func.func @same(%i: i32) -> (i32, i32) {
  %z = arith.constant 0 : i32
  return %i, %z : i32, i32
}"""


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("scratch_operands = 0 : i64", 'scratch_operands = "none"', 'scratch_operands is "none", no integer'),
        (
            "[{transform_indices = @same, window_bounds = array<i64: 8, 128>},",
            "[",
            "1 entries and the kernel 2 operands",
        ),
        ("window_params = [", "window_params = [{}, ", "3 entries and the kernel 2 operands"),
        ("128>}]", '128>, window_kind = "element"}]', 'window_kind is "element"'),
    ],
)
def test_attributes_that_make_no_sense(old: str, new: str, says: str) -> None:
    x = np.ones((16, 128), np.float32)
    made = [((16, 128), np.float32)]
    np.testing.assert_array_equal(simulate(WINDOWED, x, outputs=made).outputs[0], x)
    with pytest.raises(errors.ModuleFormatError, match=says):
        simulate(WINDOWED.replace(old, new), x, outputs=made)


def test_too_few_arrays_for_the_outputs() -> None:
    with pytest.raises(errors.InputError, match="0 arrays are given, and the kernel takes 1"):
        simulate(COPY, outputs=[(TILE, np.float32)])


def test_arrays_that_fit() -> None:
    for array in (X, jax.numpy.asarray(X), X.astype(">f4").astype(np.float32), np.asfortranarray(X)):
        np.testing.assert_array_equal(simulate(COPY, array).outputs[0], X)


@pytest.mark.parametrize(
    "outputs",
    [
        [],
        [(TILE, np.float32)] * 2,
        [((8, 128, 1), np.float32)],
        [(TILE, np.int8)],
        [(TILE, "no dtype")],
        [TILE],
        [(8, np.float32)],
        [(("a", 3), np.float32)],
        [((-8, 128), np.float32)],
        3,
        "ab",
    ],
)
def test_outputs_that_do_not_fit(outputs: Any) -> None:
    with pytest.raises(errors.InputError):
        simulate(COPY, X, outputs=outputs)


NOT = """
func.func @invert(%x: MEMREF, %o: MEMREF) {
  %c = arith.constant 0 : index
  %one = arith.constant dense<1> : vector<8x128xi32>
  %v = vector.load %x[%c, %c] : MEMREF, vector<8x128xi32>
  %w = arith.subi %one, %v : vector<8x128xi32>
  vector.store %w, %o[%c, %c] : MEMREF, vector<8x128xi32>
  return
}""".replace("MEMREF", "memref<8x128xi32, #tpu.memory_space<vmem>>")
MASK = X.mean() < X


@pytest.mark.parametrize("engine", ["numpy", "xla"])
def test_booleans_fit_memory_of_i32(engine: Any) -> None:
    """Kernels hold booleans as i32, 0 or not, and calls convert."""
    for array in (MASK, jax.numpy.asarray(MASK), np.asfortranarray(MASK)):
        (found,) = simulate(NOT, array, outputs=[(TILE, np.bool_)], engine=engine).outputs
        assert found.dtype == np.bool_
        np.testing.assert_array_equal(found, ~MASK)
    (found,) = simulate(NOT, MASK.astype(np.int32) + 1, outputs=[(TILE, np.bool_)], engine=engine).outputs
    np.testing.assert_array_equal(found, MASK)  # 0 and -1
    np.testing.assert_array_equal(simulate(NOT, MASK, engine=engine).outputs[0], (~MASK).astype(np.int32))


@pytest.mark.parametrize("engine", ["numpy", "xla"])
def test_booleans_fit_no_other_memory(engine: Any) -> None:
    with pytest.raises(errors.InputError, match="is bool"):
        simulate(COPY, MASK, engine=engine)
    with pytest.raises(errors.InputError, match="said to be bool"):
        simulate(COPY, X, outputs=[(TILE, np.bool_)], engine=engine)


def test_devices_that_do_not_fit() -> None:
    for inputs in ([], [[X], [X, X]], [[X], [X[:4]]], 3, [3]):
        with pytest.raises(errors.InputError):
            simulate_devices(COPY, inputs)


# --- options -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {"engine": "cuda"},
        {"engine": None},
        {"dma": "late"},
        {"dma": None},
        {"seed": -1},
        {"seed": 1.5},
        {"seed": "one"},
        {"cores": 0},
        {"cores": 2.0},
        {"max_steps": 0},
        {"max_steps": -3},
        {"timeout": 0},
        {"timeout": -1.0},
        {"timeout": float("nan")},
        {"timeout": "soon"},
        {"checks": "no"},
        {"collect": 1},
        {"shuffle": None},
        {"allow_unwritten": "yes"},
        {"compare_fills": 3},
    ],
)
def test_options_out_of_range(options: dict[str, Any]) -> None:
    with pytest.raises(errors.InputError) as caught:
        simulate(COPY, X, **options)
    assert next(iter(options)) in str(caught.value)


# --- errors themselves ---------------------------------------------------------------------------------------------


def test_errors_survive_pickling_and_say_what_to_do() -> None:
    with pytest.raises(errors.InputError) as caught:
        simulate(COPY, X[:4])
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == str(caught.value)
    assert isinstance(again, errors.InputError)
    assert "hint: " in str(again)
    json.dumps(str(again))


@pytest.mark.parametrize("alias", ["affine_map<(d0) -> (d0, 0)>", "affine_set<(d0) : (d0 - 2 >= 0, d0 - 4 == 0)>"])
def test_attributes_that_have_an_alias_and_signs_for_brackets(alias: str) -> None:
    text = f"#it = {alias}\n" + COPY.replace(
        "  return\n", '  "tpu.trace_stop"() {a = #it, b = "c"} : () -> ()\n  return\n'
    )
    module = read(text)
    (stop,) = (op for op in module.operations if op.name == "tpu.trace_stop")
    assert stop.attributes.raw == {"a": alias, "b": '"c"'}


# --- files ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/full", "/dev/null"])
def test_a_device_is_not_read(device: str, tmp_path: Path) -> None:
    if not Path(device).is_char_device():
        pytest.skip("this system has none")
    (tmp_path / "k.mlir").symlink_to(device)
    for name in (Path(device), tmp_path / "k.mlir", str(tmp_path / "k.mlir")):
        with pytest.raises(errors.ModuleFormatError, match=r"cannot read .*: it is no regular file"):
            read(name)


def test_a_pipe_is_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "k.mlir")
    threading.Thread(target=(tmp_path / "k.mlir").write_text, args=(COPY,), daemon=True).start()
    assert read(tmp_path / "k.mlir").name == "copy"


def test_a_mark_before_the_text_is_skipped(tmp_path: Path) -> None:
    marked = "\ufeff" + COPY.strip()
    (tmp_path / "k.mlir").write_text(marked, encoding="utf-8")
    for source in (marked, marked.encode(), tmp_path / "k.mlir", bytearray(marked.encode())):
        assert read(source).name == "copy"
    for source in ("\ufeff" + marked, COPY.replace("func.func", "\ufefffunc.func")):
        with pytest.raises(errors.ModuleFormatError):
            read(source)
    with pytest.raises(errors.ModuleFormatError, match="the text is empty"):
        read("\ufeff")
