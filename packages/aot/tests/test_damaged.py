"""Modules that MLIR reads, with attributes that make no sense: each is refused in a sentence."""

from __future__ import annotations

import base64
import contextlib
import re
from collections.abc import Callable
from typing import Final

import pytest

from mosaic_tpu.aot import TARGETS, AotError, LintReport, lint, operands, roofline, vmem_need
from mosaic_tpu.aot._index_maps import constant_of
from mosaic_tpu.aot._program import program_of
from mosaic_tpu.aot.errors import SourceError
from mosaic_tpu.sim import SimulationError, ir, simulate

from .conftest import DOUBLE
from .lint_kit import program

WHOLE: Final = """module {
  func.func @kernel(%i: i32, %s: memref<4xi32, #tpu.memory_space<smem>>, %x: memref<8x128xf32, #tpu.memory_space<vmem>>,
                    %y: memref<8x128xf32, #tpu.memory_space<vmem>>, %t: memref<8x128xi8, #tpu.memory_space<vmem>>)
      attributes {dimension_semantics = [#tpu.dimension_semantics<arbitrary>], iteration_bounds = array<i64: 4>,
      scalar_prefetch = 1 : i64, scratch_operands = 1 : i64,
      window_params = [{transform_indices = @moving, window_bounds = array<i64: 8, 128>},
                       {transform_indices = @staying, window_bounds = array<i64: 8, 128>}]} {
    %c0 = arith.constant 0 : index
    %0 = vector.load %x[%c0, %c0] : memref<8x128xf32, #tpu.memory_space<vmem>>, vector<8x128xf32>
    vector.store %0, %y[%c0, %c0] : memref<8x128xf32, #tpu.memory_space<vmem>>, vector<8x128xf32>
    return
  }
  func.func @moving(%i: i32, %s: memref<4xi32, #tpu.memory_space<smem>>) -> (i32, i32) {
    %c0 = arith.constant 0 : i32
    return %i, %c0 : i32, i32
  }
  func.func @staying(%i: i32, %s: memref<4xi32, #tpu.memory_space<smem>>) -> (i32, i32) {
    %c0 = arith.constant 0 : i32
    return %c0, %c0 : i32, i32
  }
}"""
MAP: Final = WHOLE[WHOLE.index("  func.func @moving") : WHOLE.index("  func.func @staying")]
WINDOW: Final = "{transform_indices = @moving, window_bounds = array<i64: 8, 128>}"
INPUTS: Final = ["4xi32", "32x128xf32"]
OUTPUTS: Final = ["8x128xf32"]

#: What stands in the module, what is put in its place, and what is said about it, a pattern.
DAMAGES: Final = {
    "an index map that is not there": ("@moving, ", "@nope, ", "@nope, is not in the module"),
    "an index map without a body": (
        MAP,
        "func.func private @moving(i32, memref<4xi32, #tpu.memory_space<smem>>) -> (i32, i32)\n",
        "@moving, is not in the module",
    ),
    "an index map of one result": (
        MAP,
        MAP.replace("(i32, i32) {", "(i32) {").replace("%i, %c0 : i32, i32", "%i : i32"),
        "returns 1 indices for 2 dimensions",
    ),
    "an index map of three results": (
        MAP,
        MAP.replace("(i32, i32) {", "(i32, i32, i32) {").replace("%i, %c0 : ", "%i, %i, %c0 : i32, "),
        "returns 3 indices for 2 dimensions",
    ),
    "the kernel as its index map": ("@moving, ", "@kernel, ", "returns 0 indices"),
    "an index map that is no symbol": ("transform_indices = @moving", 'transform_indices = "moving"', '"moving"'),
    "a window without bounds": (WINDOW, "{transform_indices = @moving}", "2 indices for 0 dimensions"),
    "a window of three dimensions": (WINDOW, WINDOW.replace("128>", "128, 1>"), "2 indices for 3 dimensions"),
    "a window of no elements": (WINDOW, WINDOW.replace("8, 128", "8, 0"), "no elements: 8×0"),
    "a window of an unknown kind": (WINDOW, WINDOW.replace("}", ', window_kind = "element"}'), "window_kind is"),
    "too few windows": (f"{WINDOW},", "", "leaves 2 for 1 windows"),
    "too many windows": (f"{WINDOW},", f"{WINDOW}, {WINDOW},", "leaves 2 for 3 windows"),
    "a negative number of scratch operands": ("scratch_operands = 1", "scratch_operands = -1", "scratch_operands -1"),
    "more scratch operands than arguments": ("scratch_operands = 1", "scratch_operands = 9", "leaves no output"),
    "a number of scratch operands in words": ("scratch_operands = 1 : i64", 'scratch_operands = "one"', "no integer"),
    "a negative number of prefetched scalars": ("scalar_prefetch = 1", "scalar_prefetch = -1", "scalar_prefetch is -1"),
    "more prefetched scalars than arguments": ("scalar_prefetch = 1", "scalar_prefetch = 9", "leaves no output"),
    "a grid in words": ("iteration_bounds = array<i64: 4>", 'iteration_bounds = "four"', "0 are grid indices"),
    "elements of no known type": ("%t: memref<8x128xi8", "%t: memref<8x128xcomplex<f32>", "complex<f32> is unknown"),
}
each = pytest.mark.parametrize(("old", "new", "said"), DAMAGES.values(), ids=DAMAGES.keys())


def test_the_whole_module_is_fine() -> None:
    assert lint(WHOLE).findings == ()
    assert lint(program(WHOLE, INPUTS, OUTPUTS)).findings == ()
    assert vmem_need(WHOLE).total == vmem_need(program(WHOLE, INPUTS, OUTPUTS)).total == 4096 * (2 + 1) + 1024


@each
def test_a_damaged_module_is_refused_in_a_sentence(old: str, new: str, said: str) -> None:
    assert WHOLE.count(old) == 1
    damaged = WHOLE.replace(old, new)
    for judge in (lint, vmem_need):
        with pytest.raises(SourceError) as caught:
            judge(damaged)
        assert re.search(said, caught.value.summary)
        assert "simulator" not in str(caught.value)


@each
def test_no_other_function_ends_in_a_bare_error(old: str, new: str, said: str) -> None:
    del said
    damaged = WHOLE.replace(old, new)
    for source in (damaged, program(damaged, INPUTS, OUTPUTS)):
        for judge in (program_of, roofline):
            with contextlib.suppress(AotError):
                judge(source)


def test_the_others_take_the_whole_module() -> None:
    for source in (WHOLE, program(WHOLE, INPUTS, OUTPUTS)):
        assert program_of(source).calls
        assert roofline(source).work.hbm_bytes == 5 * 8 * 128 * 4


@each
def test_in_a_program_it_is_a_finding(old: str, new: str, said: str) -> None:
    damaged = program(WHOLE.replace(old, new), INPUTS, OUTPUTS)
    (found,) = lint(damaged).findings
    assert (found.rule, found.severity, found.kernel) == ("invalid-module", "error", "called")
    assert found.targets == tuple(TARGETS)
    assert re.search(said, found.reason)
    assert found.remedy
    with pytest.raises(SourceError):
        vmem_need(damaged)


@pytest.mark.parametrize(
    ("inputs", "outputs", "said"),
    [
        (["4xi32", "4x8x128xf32"], OUTPUTS, "3 dimensions, its window 2"),
        (INPUTS, ["1024xf32"], "1 dimensions, its window 2"),
        (["4xi32"], OUTPUTS, "1 arrays are given"),
    ],
)
def test_a_call_that_does_not_fit_its_module_is_a_finding(inputs: list[str], outputs: list[str], said: str) -> None:
    (found,) = lint(program(WHOLE, inputs, outputs), target="v6e").findings
    assert found.rule == "invalid-module"
    assert said in found.reason


@pytest.mark.parametrize("bounds", ["0", "-3"])
def test_a_grid_without_steps_has_nothing_to_be_found(bounds: str) -> None:
    assert lint(program(WHOLE.replace("array<i64: 4>", f"array<i64: {bounds}>"), INPUTS, OUTPUTS)).findings == ()


def test_a_kernel_without_arguments_is_refused() -> None:
    for judge in (lint, vmem_need):
        with pytest.raises(SourceError, match="leaves no output"):
            judge("func.func @nothing() {\n  return\n}")


# --- bodies in a program -------------------------------------------------------------------------------------------


def spoiled(text: str, at: bytes, byte: int) -> str:
    """A program in whose body a byte is another."""
    (body,) = {call.body for call in program_of(text).calls}
    where = body.find(at)
    assert where > 0
    bad = body[:where] + bytes([byte]) + body[where + 1 :]
    return text.replace(base64.b64encode(body).decode(), base64.b64encode(bad).decode())


@pytest.mark.parametrize(("at", "byte"), [(b"func", 0xFF), (b"arith", 0), (b"vector", 0xFE)])
@pytest.mark.parametrize("judge", [lint, roofline, program_of, vmem_need, simulate])
def test_a_damaged_body_does_not_take_the_process_with_it(judge: Callable[..., object], at: bytes, byte: int) -> None:
    text = program_of(DOUBLE).text
    with contextlib.suppress(AotError, SimulationError):
        found = judge(spoiled(text, at, byte))
        assert judge is lint, found  # lint has a rule for it
        assert isinstance(found, LintReport)
        assert [f.rule for f in found.errors] == ["invalid-module"]
    assert lint(text).errors == ()


@pytest.mark.parametrize("name", ['a\\"b', "é☃", "2abc", "a\\00b", "a\\0Ab", "a b", "stablehlo_double", "\\\\"])
def test_a_kernel_may_have_any_name(name: str) -> None:
    text = DOUBLE.replace("@double", f'@"{name}"')
    said = name.replace('\\"', '"').replace("\\00", "\0").replace("\\0A", "\n").replace("\\\\", "\\")
    assert [c.kernel_name for c in program_of(text).calls] == [said]
    assert lint(text).kernels == (said,)
    assert program_of(program_of(text).text).name == said


@pytest.mark.parametrize(("first", "number"), [("arith.constant 3 : i32", 3), ("memref.load %s[%c0] : S", None)])
def test_a_chain_of_thousands_of_ops_is_followed(first: str, number: int | None) -> None:
    # Each value has two uses: whoever follows each of them never ends.
    chain = [f"%a{n + 1} = arith.andi %a{n}, %a{n} : i32" for n in range(3000)]
    start = f"%c0 = arith.constant 0 : index\n%a0 = {first}\n".replace(
        ": S", ": memref<4xi32, #tpu.memory_space<smem>>"
    )
    module = ir.read(WHOLE.replace("%c0 = arith.constant 0 : index\n", start + "\n".join(chain) + "\n", 1))
    (last,) = [op for op in module.kernel.operation.walk() if op.name == "arith.andi"][-1].results
    assert constant_of(last) == number


V = "memref<8x128xf32, #tpu.memory_space<vmem>>"


@pytest.mark.parametrize(
    ("attributes", "said"),
    [
        ("scalar_prefetch = 9 : i64", "of 2 arguments 0 are grid indices, scalar_prefetch is 9 .* leaves no output"),
        ("scalar_prefetch = 2 : i64", "of 2 arguments 0 are grid indices, scalar_prefetch is 2 .* leaves no output"),
        ("scalar_prefetch = 1 : i64", "2 outputs are meant, and only 1 of the kernel's arguments are arrays"),
    ],
)
def test_attributes_that_leave_no_output_are_named(attributes: str, said: str) -> None:
    text = f"""func.func @k(%x: {V}, %y: {V}) attributes {{{attributes}}} {{
      %c0 = arith.constant 0 : index
      %0 = vector.load %x[%c0, %c0] : {V}, vector<8x128xf32>
      vector.store %0, %y[%c0, %c0] : {V}, vector<8x128xf32>
      vector.store %0, %x[%c0, %c0] : {V}, vector<8x128xf32>
      return }}"""
    for function in (operands, roofline, program_of):
        with pytest.raises(SourceError, match=said):
            function(text)
        assert function(text.replace(attributes, "scalar_prefetch = 0 : i64"))
