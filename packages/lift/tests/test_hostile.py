"""Names and strings of a module are data, and damaged modules end in an error of ours."""

from __future__ import annotations

import ast
import builtins
import contextlib
import keyword
import re
from pathlib import Path
from typing import Any

import pytest

from mosaic_tpu import builder
from mosaic_tpu.lift import (
    BuildError,
    LiftError,
    NewerVersionError,
    NotExactError,
    SourceError,
    UnsupportedModuleError,
    build,
    lift,
    run,
)
from mosaic_tpu.sim import ir

from .lift_kit import DOUBLE, KERNEL, SQUARE, bytes_of, damaged, lowered, module, multiplied, wanted

HOSTILE = [
    '"); import os; os.system("touch /tmp/lifted"); ("',
    "'''\"\"\"\n\nimport os\n",
    "line\nbreak\r\ttab",
    "\\",
    "\\N{BULLET} \\x41 {name} %s",
    "import",
    "None",
    "__class__",
    "__import__('os')",
    "b",
    "Builder",
    "naïve_λ_✓",
    "\u202e\u2066bidi",
    "a" * 10_000,
    "🙂" * 3_000,
    " ",
    "1st",
    "é" * 400 + "'" + '"' * 7,
]


def escaped(text: str) -> str:
    """Inside of quotes in MLIR."""
    return "".join(f"\\{byte:02X}" for byte in text.encode())


def checked(text: str, found: str) -> None:
    """The source is one function of plain names, and gives the bytes."""
    tree = ast.parse(found)
    kinds = {type(node) for node in tree.body}
    assert kinds <= {ast.Expr, ast.Import, ast.ImportFrom, ast.Assign, ast.FunctionDef}
    assert {n.module for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)} == {"mosaic_tpu.builder"}
    assert {a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names} <= {"math"}
    stored = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    assert not stored & ({*dir(builtins), *keyword.kwlist, *builder.__all__})
    assert all(name.isascii() and len(name) < 60 and not name.startswith("__") for name in stored)
    assert found.isascii()
    assert all(len(line) <= 120 for line in found.splitlines())
    assert bytes_of(found) == wanted(text)


@pytest.mark.parametrize("name", HOSTILE, ids=[ascii(h)[:20] for h in HOSTILE])
def test_the_name_of_a_kernel(name: str) -> None:
    text = DOUBLE.replace("@double", f'@"{escaped(name)}"')
    checked(text, lift(text))


@pytest.mark.parametrize("name", HOSTILE, ids=[ascii(h)[:20] for h in HOSTILE])
def test_a_string_in_a_kernel(name: str) -> None:
    text = module(
        f'"tpu.trace_start"() <{{level = 10 : i32, message = "{escaped(name)}"}}> : () -> ()',
        '"tpu.trace_stop"() : () -> ()',
        f'%c = arith.constant {{note = "{escaped(name)}"}} 1 : i32',
    )
    checked(text, lift(text))


@pytest.mark.parametrize("name", HOSTILE, ids=[ascii(h)[:20] for h in HOSTILE])
def test_the_name_of_an_argument(name: str) -> None:
    memref = "memref<8x128xf32, #tpu.memory_space<vmem>>"
    argument = f'%x: {memref} loc("{escaped(name)}"), %y: {memref} loc("{escaped(name)}")'
    text = module("%c0 = arith.constant 0 : index", f"%0 = vector.load %x[%c0, %c0] : {memref}, vector<8x128xf32>",
                  arguments=argument)  # fmt: skip
    checked(text, lift(text))


def test_names_that_cannot_be_read_exactly_are_refused_or_exact() -> None:
    text = module('%c = arith.constant {"no\\22te = }" = 1 : i32} 1 : i32')
    with contextlib.suppress(LiftError):
        checked(text, lift(text))


def test_lifted_source_sees_and_imports_nothing_else() -> None:
    with pytest.raises(BuildError, match=r"imports mosaic_tpu\.builder and math, not os"):
        build("import os\nNAME = 'k'\ndef k(b):\n    pass\n")
    with pytest.raises(BuildError, match="NameError: name 'DOUBLE' is not defined"):
        build(lift(DOUBLE).replace('"""Build the kernel."""', "print(DOUBLE)"))
    with pytest.raises(BuildError, match="NameError: name 'open' is not defined"):
        build("NAME = 'k'\ndef k(b):\n    open('/etc/passwd')\n")


@pytest.mark.parametrize(
    ("source", "what"),
    [
        ("def k(b", "no Python source"),
        ("\0", "no Python source"),
        ("", "defines 0 functions"),
        ("NAME = 3\ndef k(b): pass", "NAME = 3"),
        ("NAME = 'k'\ndef k(b): pass", "no arguments declared"),
        ("NAME = 'k'\ndef k(b): b.declare_args(dict()); b.lift('x')", "cannot lift a str"),
        ("NAME = 'k'\ndef k(b): 1 / 0", "ZeroDivisionError"),
    ],
)
def test_source_that_builds_nothing(source: str, what: str) -> None:
    for function in (build, run):
        with pytest.raises(BuildError, match=re.escape(what)):
            function(source)


def test_an_error_names_the_line_of_the_source() -> None:
    source = lift(DOUBLE).replace("plus = input_0 + input_0", "plus = input_0 + 'x'")
    number = next(n for n, line in enumerate(source.splitlines(), 1) if "'x'" in line)
    with pytest.raises(BuildError) as raised:
        build(source)
    assert raised.value.location == f"<lifted>:{number}"


# --- what is no Mosaic module ----------------------------------------------------------------------------------------

STABLE = '"stable_mosaic.func.func"() ({ "stable_mosaic.func.return"() : () -> () }) {function_type = () -> ()}'


@pytest.mark.parametrize(
    ("source", "error", "what"),
    [
        ("", SourceError, "empty"),
        ("hello", SourceError, "not a Mosaic module"),
        (b"\xff\xfe\x00", SourceError, "neither MLIR text nor bytecode"),
        (b"ML\xefR", SourceError, "not a Mosaic module"),
        (b"", SourceError, "empty"),
        ("module {}", SourceError, "no function"),
        ("func.func @k() { \ud800 }", SourceError, "no character"),
        ("missing.mlir", SourceError, "cannot read missing.mlir"),
        (Path("/nowhere/k.mlir"), SourceError, "No such file"),
        (3, SourceError, "a int holds no Mosaic module"),
        (None, SourceError, "holds no Mosaic module"),
        (lambda x: x, SourceError, "a function holds no Mosaic module"),
        ("func.func @k() { foo.bar }", SourceError, "not a Mosaic module"),
        ("module { stablehlo.add }", SourceError, "MLIR cannot read the program"),
        (f"module attributes {{stable_mosaic.version = 99 : i64}} {{ {STABLE} : () -> () }}", NewerVersionError, "99"),
    ],
    ids=lambda value: ascii(value)[:24],
)
def test_what_is_no_module_is_refused(source: Any, error: type[LiftError], what: str) -> None:
    with pytest.raises(error, match=re.escape(what)) as raised:
        lift(source)
    assert raised.value.hint


def test_a_kernel_that_is_not_lowered_is_refused() -> None:
    class Kernel:
        def emit(self) -> None: ...
        def lower(self) -> None: ...

    with pytest.raises(SourceError, match="as many bodies as configs") as raised:
        lift(Kernel())
    assert "kernel.lower(cfg)" in str(raised.value)


def test_ops_of_an_unknown_dialect_are_lifted_generically() -> None:
    text = module('%0 = "foo.bar"() {level = 3 : i32} : () -> i32', '"foo.baz"(%0) : (i32) -> ()')
    source = lift(text)
    assert "allow_unregistered=True" in source
    assert bytes_of(source) == wanted(text)


@pytest.mark.parametrize("version", [19, 20, 99])
def test_a_newer_version_of_ops_that_jaxlib_knows(version: int) -> None:
    """Text in no stable form that says it is in one."""
    text = DOUBLE.replace("module @double", f"module @double attributes {{stable_mosaic.version = {version} : i64}}")
    with pytest.raises(NewerVersionError, match=f"in version {version} of Mosaic's stable form, and jaxlib's newest"):
        lift(text)
    assert bytes_of(lift(text.replace(f"= {version} ", "= 14 ")), 14) == wanted(DOUBLE, 14)


@pytest.mark.parametrize("version", [0, -3])
def test_a_version_before_the_first_is_none(version: int) -> None:
    text = DOUBLE.replace("module @double", f"module @double attributes {{stable_mosaic.version = {version} : i64}}")
    with pytest.raises(SourceError, match=f"in version {version} of Mosaic's stable form, and the first is 1"):
        lift(text)


AFFINE = {
    "a layout": module(arguments="%x: memref<8x128xf32, affine_map<(d0, d1) -> (d0 * 128 + d1)>>"),
    "an attribute": module('"tpu.trace_stop"() {note = affine_map<(d0)[s0] -> (d0 + s0)>} : () -> ()'),
    "a set": module('"tpu.trace_stop"() {note = affine_set<(d0) : (d0 - 4 >= 0)>} : () -> ()'),
    "names of them in a string": module(
        '"tpu.trace_stop"() {a = affine_map<() -> (0)>, b = affine_map<() -> (1)>, c = "#map, \\22#map1"} : () -> ()'
    ),
}


@pytest.mark.parametrize("text", AFFINE.values(), ids=AFFINE)
def test_affine_maps_are_written_out(text: str) -> None:
    source = lift(text)
    assert "affine_" in source
    assert bytes_of(source) == wanted(text)


# --- what no source stands for ---------------------------------------------------------------------------------------

RESOURCE = '{-# dialect_resources: { builtin: { blob1: "0x0400000001000000" } } #-}'
NO_SOURCE = {
    "a constant of complex numbers": (
        module("%c = arith.constant dense<(1.0, 2.0)> : tensor<2xcomplex<f32>>"),
        ("arith.constant", "'value'", "complex<f32>"),
    ),
    "a location": (module('%c = arith.constant {foo.at = loc("x":1:2)} 1 : i32'), ("arith.constant", "'foo.at'")),
    "a location in a list": (module('%c = arith.constant {foo = [loc("x":1:2)]} 1 : i32'), ("'foo'", "a location")),
    "a location of the kernel": (
        module(attributes=KERNEL.replace("{", '{foo.loc = loc("x":1:2), ')),
        ("func.func", "'foo.loc'", "a location"),
    ),
    "a resource": (
        module("%c = arith.constant dense_resource<blob1> : vector<1xf32>") + RESOURCE,
        ("arith.constant", "'value'", "a resource"),
    ),
    "an empty name": (module(name='""'), ("func.func", "an empty name")),
    "an empty name of another function": (
        DOUBLE.removesuffix("}") + 'func.func @""() { return } }',
        ("func.func", "an empty name"),
    ),
}


@pytest.mark.parametrize("style", ["ops", "idioms"])
@pytest.mark.parametrize(("text", "named"), NO_SOURCE.values(), ids=NO_SOURCE)
def test_what_no_source_stands_for_is_named(text: str, named: tuple[str, ...], style: Any) -> None:
    with pytest.raises(UnsupportedModuleError) as raised:
        lift(text, style=style)
    assert all(part in str(raised.value) for part in named)
    assert "report" not in raised.value.hint


@pytest.mark.parametrize(
    "attribute",
    [
        '"loc(#loc1) dense_resource<blob1>"',
        "dense<[1.0, 2.0]> : tensor<2xf32>",
        "#foo.loc<1>",
        "distinct[0]<1 : i32>",
        "@loc",
    ],
)
def test_what_only_looks_like_that_is_lifted(attribute: str) -> None:
    text = module(f"%c = arith.constant {{foo = {attribute}}} 1 : i32")
    assert bytes_of(lift(text)) == wanted(text)


# --- damaged bytes ---------------------------------------------------------------------------------------------------


def test_damaged_bodies_end_in_an_error_or_in_exact_source() -> None:
    body = ir.calls_of(lowered(multiplied(), SQUARE, SQUARE))[0].body
    outcomes = {"exact": 0, "refused": 0}
    for seed in range(200):
        data = damaged(body, seed)
        try:
            source = lift(data)
        except LiftError as error:
            assert error.summary
            assert error.hint
            outcomes["refused"] += 1
        else:
            found = re.search(r"^IR_VERSION = (\d+)$", source, re.MULTILINE)
            assert found is not None
            assert bytes_of(source, int(found[1])) == wanted(data)
            outcomes["exact"] += 1
    assert outcomes["refused"] > 100
    assert outcomes["exact"] > 5


def test_bytes_that_no_writer_writes_are_refused() -> None:
    body = ir.calls_of(lowered(multiplied(), SQUARE, SQUARE))[0].body
    assert b"transpose_lhs_hint" in body
    changed = body.replace(b"transpose_lhs\0", b"transpose_lhz\0")
    assert changed != body
    with pytest.raises((NotExactError, SourceError)):
        lift(changed)
