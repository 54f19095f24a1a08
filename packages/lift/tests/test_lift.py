"""What lifted source is: the same bytes, in code that reads well."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import jax
import jax.export
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from mosaic_tpu.builder import body_text
from mosaic_tpu.lift import ChoiceError, LiftError, OptionError, SourceError, build, lift, run
from mosaic_tpu.lift._lift import lifted
from mosaic_tpu.lift._source import given
from mosaic_tpu.sim import ir

from .lift_kit import (
    DOUBLE,
    KERNEL,
    SQUARE,
    VMEM,
    bytes_of,
    lowered,
    module,
    multiplied,
    nested,
    objections,
    wanted,
)

LOOP = module(
    "%c0 = arith.constant 0 : i32",
    "%c4 = arith.constant 4 : i32",
    "%c1 = arith.constant 1 : i32",
    "%zero = arith.constant dense<0.0> : vector<8x128xf32>",
    "%sum = scf.for %i = %c0 to %c4 step %c1 iter_args(%acc = %zero) -> (vector<8x128xf32>) : i32 {",
    "  %c0_0 = arith.constant 0 : index",
    "  %c0_1 = arith.constant 0 : index",
    f"  %x0 = vector.load %x[%c0_0, %c0_1] : {VMEM}, vector<8x128xf32>",
    "  %next = arith.addf %acc, %x0 : vector<8x128xf32>",
    "  scf.yield %next : vector<8x128xf32>",
    "}",
    "%two = arith.constant 2 : i32",
    "%some = arith.cmpi slt, %c0, %two : i32",
    "%picked = scf.if %some -> (vector<8x128xf32>) {",
    "  scf.yield %sum : vector<8x128xf32>",
    "} else {",
    "  scf.yield %zero : vector<8x128xf32>",
    "}",
    "%c0_2 = arith.constant 0 : index",
    f"tpu.vector_store %y[%c0_2, %c0_2], %picked {{strides = array<i32>}} : {VMEM}, vector<8x128xf32>,",
)
WHILE = module(
    "%c0 = arith.constant 0 : i32",
    "%n = scf.while (%i = %c0) : (i32) -> i32 {",
    "  %c8 = arith.constant 8 : i32",
    "  %more = arith.cmpi slt, %i, %c8 : i32",
    "  scf.condition(%more) %i : i32",
    "} do {",
    "^bb0(%i: i32):",
    "  %c1 = arith.constant 1 : i32",
    "  %next = arith.addi %i, %c1 : i32",
    "  scf.yield %next : i32",
    "}",
)
PLAIN = f"func.func @k() {KERNEL} {{ return }}"
GENERIC = {
    "an op without a helper": module(
        "%c = arith.constant 1 : i32",
        "%0 = arith.ceildivsi %c, %c : i32",
    ),
    "flags": module("%c = arith.constant 1 : i32", "%0 = arith.addi %c, %c overflow<nsw> : i32"),
    "elements that differ": module("%c = arith.constant dense<[1, 2]> : vector<2xi32>"),
    "a NaN's bits": module("%c = arith.constant 0x7FC00001 : f32"),
    "an unknown attribute": module('%c = arith.constant {note = "a\\22b"} 1 : i32'),
    "a type that the builder lacks": module("%c = arith.constant 1 : i7", "%0 = arith.addi %c, %c : i7"),
    "a region of another op": module(
        "%0 = scf.execute_region -> i32 {", "  %c = arith.constant 1 : i32", "  scf.yield %c : i32", "}"
    ),
    "a function without the kernel's attributes": f"func.func @f(%x: {VMEM}) {{ return }}",
    "an argument with a layout": "func.func @f(%x: memref<8x128xf32, strided<[256, 1]>>) { return }",
    "two functions": f"{PLAIN} func.func private @other(%x: i32) -> i32 {{ return %x : i32 }}",
    "attributes of the module": f"module attributes {{mosaic.note = 1 : i32}} {{ {PLAIN} }}",
}


@pytest.mark.parametrize("text", [DOUBLE, LOOP, WHILE], ids=["double", "loop", "while"])
def test_helpers_give_the_same_bytes(text: str) -> None:
    found = lifted(given(text))
    assert found.generic == ()
    assert found.attempts == 1
    assert bytes_of(found.text) == wanted(text)


@pytest.mark.parametrize("text", GENERIC.values(), ids=GENERIC)
def test_the_generic_form_gives_the_same_bytes(text: str) -> None:
    source = lift(text)
    assert "generic_" in source or "module_attributes" in source or "function_attributes" in source
    assert bytes_of(source) == wanted(text)


def test_another_module_has_other_bytes() -> None:
    assert bytes_of(lift(DOUBLE)) != wanted(DOUBLE.replace("addf", "mulf"))


def test_a_kernel_of_pallas_reads_well() -> None:
    source = lift(lowered(multiplied(), SQUARE, SQUARE))
    assert "x_ref=Ref(SHAPE_128X128, bf16, window=Window(SHAPE_128X128, index_map=lambda i, j, k: (i, k)))" in source
    assert "acc=Ref(SHAPE_128X128, f32, role=Role.SCRATCH)" in source
    assert "grid=(2, 2, 2)" in source
    assert "with b.if_(is_ne):" in source
    assert "plus = acc + product" in source
    assert "generic" not in source


BOOLEANS = VMEM.replace("f32", "i1")


@pytest.mark.parametrize("style", ["ops", "idioms"])
@pytest.mark.parametrize(
    "text",
    [
        module("%c0 = arith.constant 0 : index", arguments=f"%x: {BOOLEANS}, %y: {VMEM}"),
        module(
            "%c0 = arith.constant 0 : index",
            f"%buffer = memref.alloca() : {BOOLEANS}",
            f"%0 = vector.load %buffer[%c0, %c0] : {BOOLEANS}, vector<8x128xi1>",
            f"vector.store %0, %buffer[%c0, %c0] : {BOOLEANS}, vector<8x128xi1>",
        ),
    ],
    ids=["argument", "allocation"],
)
def test_memory_of_booleans_is_written_in_the_generic_form(text: str, style: str) -> None:
    """The builder's refs of booleans hold i32, as Pallas's do."""
    source = lift(text, style=style)
    assert "generic" in source
    assert bytes_of(source) == wanted(text)
    assert "generic" not in lift(text.replace("xi1", "xi32"), style=style)


@pytest.mark.parametrize("style", ["ops", "idioms"])
def test_pallas_s_refs_of_booleans_come_back(style: str) -> None:
    def invert(x_ref: Any, o_ref: Any, s_ref: Any) -> None:
        s_ref[...] = x_ref[...]
        o_ref[...] = ~s_ref[...]
        o_ref[3] = s_ref[4]

    mask = jax.ShapeDtypeStruct((8, 128), bool)
    body = lowered(pl.pallas_call(invert, out_shape=mask, scratch_shapes=[pltpu.VMEM((8, 128), bool)]), mask)
    source = lift(body, style=style)
    assert "x_ref=Ref(SHAPE_8X128, i32)" in source
    assert "generic" not in source
    assert bytes_of(source) == wanted(given(body).data)


def test_canonical_text_reads_well_too() -> None:
    body = lowered(multiplied(), SQUARE, SQUARE)
    text = build(lift(body)).text()
    assert "else" not in text
    for style in ("ops", "idioms"):
        source = lift(text, style=style)
        assert bytes_of(source) == wanted(text)
        assert bytes_of(source) != wanted(given(body).data)
        assert "window=Window(SHAPE_128X128, index_map=lambda i, j, k: (i, k))" in source
        assert "with b.if_(is_eq, empty_else=False):" in source
        assert "unused_zero=False" in source
        assert "generic" not in source


def test_index_maps_of_both_forms_in_one_module_are_functions() -> None:
    text = build(lift(lowered(multiplied(), SQUARE, SQUARE))).text()
    head, start, rest = text.partition("func.func @transform_1(")
    first, end, last = rest.partition("return")
    mixed = f"{head}{start}{first}%unused = arith.constant 0 : i32\n    {end}{last}"
    source = lift(mixed)
    assert 'b.generic_function("transform_1"' in source
    assert bytes_of(source) == wanted(mixed)


def test_constants_stand_where_they_are_used_or_have_a_name() -> None:
    assert "with b.for_(c0, 4" not in lift(LOOP)  # what is used once more cannot be a number
    used_once = module("%a = arith.constant 1 : i32", "%b = arith.constant 2 : i32", "%0 = arith.addi %a, %b : i32")
    assert "n1 + 2" in lift(used_once)
    not_beside = module("%b = arith.constant 2 : i32", "%a = arith.constant 1 : i32", "%0 = arith.addi %a, %b : i32")
    assert "+ 2" not in lift(not_beside)
    for text in (used_once, not_beside):
        assert bytes_of(lift(text)) == wanted(text)


def test_every_source_of_a_module_gives_one_text(tmp_path: Path) -> None:
    kernel = run(lift(DOUBLE))
    path = tmp_path / "k.mlir"
    path.write_text(DOUBLE)
    body = tmp_path / "body.bin"
    body.write_bytes(kernel.body)
    sources = [DOUBLE, DOUBLE.encode(), path, str(path), body, kernel.body, bytearray(kernel.body), build(lift(DOUBLE))]
    texts = {lift(source).replace("input_0", "x").replace("output_0", "y") for source in sources}
    assert len({text.partition("def ")[2] for text in texts}) <= 2  # with names of arguments, and without
    assert {wanted(DOUBLE)} == {bytes_of(lift(source)) for source in [*sources, kernel]}


def test_a_file_of_an_export_in_every_form(tmp_path: Path) -> None:
    found = jax.export.export(jax.jit(multiplied()), platforms=["tpu"])(SQUARE, SQUARE)
    source = lift(found)
    assert source == lift(bytes(found.serialize())) == lift(found.mlir_module_serialized) == lift(found.mlir_module())
    (file := tmp_path / "exported").write_bytes(found.serialize())
    assert source == lift(file) == lift(str(file))
    for wrong in (bytes(found.serialize())[:700], found.mlir_module_serialized[:700]):
        with pytest.raises(SourceError, match=r"damaged|not a StableHLO program"):
            lift(wrong)
    other = jax.export.export(jax.jit(jax.numpy.sin), platforms=["tpu"])(SQUARE)
    with pytest.raises(SourceError, match="the program holds no tpu_custom_call"):
        lift(bytes(other.serialize()))


def test_a_program_of_jax_in_every_form() -> None:
    program = lowered(multiplied(), SQUARE, SQUARE)
    (call,) = ir.calls_of(program)
    for source in (program, program.as_text()):
        assert bytes_of(lift(source)) == wanted(call.body)


def test_one_of_several_kernels_is_named() -> None:
    def both(x: object, w: object) -> object:
        return multiplied("first")(x, w), multiplied("second", lambda v: v + 1)(x, w)

    program = lowered(both, SQUARE, SQUARE)
    assert 'NAME = "first"' in lift(program, kernel="first")
    assert 'NAME = "second"' in lift(program, kernel=1)
    with pytest.raises(ChoiceError, match="holds 2 kernels"):
        lift(program)
    with pytest.raises(ChoiceError, match="no kernel 'third'") as raised:
        lift(program, kernel="third")
    assert "0: 'first', 1: 'second'" in str(raised.value)
    with pytest.raises(ChoiceError, match="one module"):
        lift(DOUBLE, kernel=0)


def test_kernels_of_one_body_need_no_name() -> None:
    def twice(x: object, w: object) -> object:
        return multiplied()(multiplied()(x, w), w)

    assert 'NAME = "multiplied"' in lift(lowered(twice, SQUARE, SQUARE))


def test_there_are_two_styles() -> None:
    with pytest.raises(OptionError, match="idiomatic") as raised:
        lift(DOUBLE, style="idiomatic")  # pyright: ignore
    assert all(f'style="{style}"' in str(raised.value) for style in ("ops", "idioms"))


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("func.func @k() { cf.br ^a ^a: return }", "several blocks"),
        ("memref.global @g : memref<4xi32> func.func @k() { return }", "more than functions"),
        ("func.func @k() { return } func.func private @far()", "no body"),
    ],
)
def test_what_no_source_stands_for_is_refused(text: str, what: str) -> None:
    with pytest.raises(LiftError, match=what):
        lift(text)


@pytest.mark.parametrize("text", [DOUBLE, LOOP, WHILE, *GENERIC.values(), nested(12)])
def test_source_is_clean_and_formatted(text: str) -> None:
    assert objections(lift(text)) == ""


def test_what_is_not_clean_is_found() -> None:
    """The test above sees something."""
    source = lift(DOUBLE)
    assert "F841" in objections(source.replace("    b.vector_store", "    unused = 3\n    b.vector_store"))
    assert "-    plus  =input_0" in objections(source.replace("plus = ", "plus  ="))


def test_names_are_taken_again_and_mean_one_value() -> None:
    source = lift(body_text(ir.calls_of(lowered(multiplied(), SQUARE, SQUARE))[0].body))
    names = [
        t.id
        for n in ast.walk(ast.parse(source))
        if isinstance(n, ast.Assign)
        for t in n.targets
        if isinstance(t, ast.Name)
    ]
    assert len(set(names)) < len(names)
