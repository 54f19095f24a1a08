"""Each rule on a small module and on its twin; conformance/test_lint.py asks the compiler about such modules."""

from __future__ import annotations

import itertools
from typing import Final

import jax.numpy as jnp
import ml_dtypes
import pytest
from jax.experimental.pallas import tpu as pltpu

from mosaic_tpu.aot._lint import RULES, lint
from mosaic_tpu.aot._lint._support import is_native
from mosaic_tpu.aot.targets import TARGETS

from .lint_kit import program, windowed

HEAD = """module {
  func.func @kernel(%i: i32, %s: memref<4xi32, #tpu.memory_space<smem>>, ARGS) attributes {
      dimension_semantics = [#tpu.dimension_semantics<arbitrary>], iteration_bounds = array<i64: 4>,
      scalar_prefetch = 1 : i64, scratch_operands = SCRATCH : i64} {
    %c0 = arith.constant 0 : index
    %c3 = arith.constant 3 : index
    %n = memref.load %s[%c0] : memref<4xi32, #tpu.memory_space<smem>>
    %at = arith.index_cast %n : i32 to index
    %m8 = tpu.assume_multiple %n, 8 : i32
    %at8 = arith.index_cast %m8 : i32 to index
    BODY
    return
  }
}"""
VMEM = "#tpu.memory_space<vmem>"


def module(body: str, *, x: str = "64x256xf32", y: str = "8x256xf32", space: str = VMEM, scratch: int = 0) -> str:
    arguments = f"%x: memref<{x}, {space}>, %y: memref<{y}, {VMEM}>"
    body = body.replace("XT", f"memref<{x}, {space}>").replace("YT", f"memref<{y}, {VMEM}>")
    return HEAD.replace("ARGS", arguments).replace("SCRATCH", str(scratch)).replace("BODY", body)


def rules(text: str, target: str = "v6e") -> list[str]:
    return [f.rule for f in lint(text, target=target).errors]


def load(index: str, vector: str = "8x256xf32", x: str = "64x256xf32") -> str:
    y = vector
    body = f"""%0 = vector.load %x[{index}] : XT, vector<{vector}>
    vector.store %0, %y[{", ".join(["%c0"] * vector.count("x"))}] : YT, vector<{vector}>"""
    return module(body, x=x, y=y)


@pytest.mark.parametrize(
    ("bad", "good", "rule"),
    [
        (load("%at, %c0"), load("%at8, %c0"), "sublane-alignment"),
        (load("%at, %c0", "1x256xbf16", "64x256xbf16"), load("%at, %c0", "1x256xf32"), "sublane-alignment"),
        (load("%c0, %at", "8x128xf32"), load("%c0, %c3", "8x128xf32"), "dynamic-lane-index"),
        (load("%at", "128xf32", "1024xf32"), load("%c0", "128xf32", "1024xf32"), "dynamic-lane-index"),
        (load("%at, %c0", "256xbf16", "64x256xbf16"), load("%at, %c0", "256xf32"), "sublane-alignment"),
    ],
)
def test_a_dynamic_index_needs_a_proof(bad: str, good: str, rule: str) -> None:
    assert rules(bad) == [rule]
    assert rules(good) == []


def sliced(offset: str, size: int = 8, x: str = "64x512xf32") -> str:
    width, element = x.split("x")[1:]
    made = f"memref<{size}x{width}x{element}, #tpu.memory_space<any>>"
    body = f"""%z = arith.constant 0 : i32
    %three = arith.constant 3 : i32
    %eight = arith.constant 8 : i32
    %v = tpu.memref_slice %x[{offset}, %z] : XT -> {made}
    %q = tpu.sem_alloc : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
    tpu.enqueue_dma source(%v : {made}) target(%y : YT)
        target_semaphore(%q : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>)"""
    return module(body, x=x, y=f"{size}x{width}x{element}", space="#tpu.memory_space<any>")


@pytest.mark.parametrize(
    ("bad", "good"),
    [
        (sliced("%three"), sliced("%eight")),
        (sliced("%n"), sliced("%m8")),
        (sliced("%n"), sliced("%n", x="64x128xf32")),
        (sliced("%n", 1, "64x512xbf16"), sliced("%n", 1)),
        (sliced("%z", 7, "64x128xbf16"), sliced("%z", 6, "64x128xbf16")),
    ],
)
def test_a_copy_takes_whole_tiles(bad: str, good: str) -> None:
    assert rules(bad) == ["dma-alignment"]
    assert rules(good) == []


def test_the_remedy_of_a_copy_is_whole_tiles() -> None:
    (found,) = lint(sliced("%three", 16, "64x256xbf16"), target="v6e").errors
    assert "start on a multiple of 8 rows" in found.remedy
    assert rules(sliced("%eight", 16, "64x256xbf16")) == []


def computed(op: str, element: str, operands: int = 2) -> str:
    body = f"""%0 = vector.load %x[%c0, %c0] : XT, vector<64x128x{element}>
    %1 = {op} {", ".join(["%0"] * operands)} : vector<64x128x{element}>
    vector.store %1, %y[%c0, %c0] : YT, vector<64x128x{element}>"""
    return module(body, x=f"64x128x{element}", y=f"64x128x{element}")


@pytest.mark.parametrize(
    ("op", "bad", "good", "operands"),
    [
        ("arith.addi", "i8", "i16", 2),
        ("arith.maxsi", "i16", "i32", 2),
        ("arith.addf", "f8E4M3FN", "bf16", 2),
        ("math.exp", "f8E5M2", "bf16", 1),
        ("arith.remf", "bf16", "f32", 2),
        ("arith.addf", "f16", "f32", 2),
        ("arith.addf", "f64", "f32", 2),
        ("arith.addi", "i64", "i32", 2),
    ],
)
def test_a_type_without_code_is_found(op: str, bad: str, good: str, operands: int) -> None:
    found = lint(computed(op, bad, operands)).errors
    assert {f.rule for f in found} == {"unsupported-type"}
    assert found[0].targets == tuple(TARGETS)
    assert rules(computed(op, good, operands)) == []


def test_an_op_is_refused_by_the_generations_that_lack_it() -> None:
    (found,) = lint(computed("arith.shli", "i8")).errors
    assert found.targets == ("v4",)


def test_what_nothing_uses_is_not_judged() -> None:
    body = "%0 = vector.load %x[%c0, %at] : XT, vector<8x128xf32>"
    assert rules(module(body)) == []


def counted(shape: str, dimension: int) -> str:
    indices = ", ".join(["%c0"] * (shape.count("x") + 1))
    body = f"""%0 = tpu.iota {{dimensions = array<i32: {dimension}>}} : vector<{shape}xi32>
    vector.store %0, %y[{indices}] : YT, vector<{shape}xi32>"""
    return module(body, y=f"{shape}xi32")


def test_scratch_beyond_the_limit_is_found() -> None:
    rows = 20 * 2048  # of 128 f32: 20 MiB
    body = "%0 = vector.load %y[%c0, %c0] : YT, vector<8x128xf32>"
    text = module(body, x="8x128xf32", y=f"{rows}x128xf32", scratch=1)
    assert rules(text, "v5e") == ["vmem-limit"]
    assert rules(text, "v6e") == []
    assert lint(text, target="v5e", vmem_limit_bytes=32 << 20).errors == ()


@pytest.mark.parametrize(("mib", "severities"), [(28, []), (29, ["warning"]), (32, ["warning"]), (33, ["error"])])
def test_a_need_near_the_limit_is_a_warning(mib: int, severities: list[str]) -> None:
    body = "%0 = vector.load %y[%c0, %c0] : YT, vector<8x128xf32>"
    text = module(body, x="8x128xf32", y=f"{mib * 2048 - 16}x128xf32", scratch=1)
    findings = lint(text, target="v6e").findings
    assert [f.severity for f in findings] == severities


def counted_rows(element: str, dimension: int) -> str:
    body = f"""%0 = tpu.iota {{dimensions = array<i32: {dimension}>}} : vector<64x128x{element}>
    vector.store %0, %y[%c0, %c0] : YT, vector<64x128x{element}>"""
    return module(body, y=f"64x128x{element}")


def test_an_iota_of_small_integers_is_found() -> None:
    refused = {(e, d): rules(counted_rows(e, d), "v5e") for e in ("i4", "i16", "i32") for d in (0, 1)}
    assert {key for key, found in refused.items() if found} == {("i4", 0), ("i4", 1), ("i16", 0)}


def test_what_the_mxu_takes_is_what_jax_says() -> None:
    types = {
        "f32": jnp.float32,
        "bf16": jnp.bfloat16,
        "i8": jnp.int8,
        "i4": ml_dtypes.int4,
        "f8E4M3FN": ml_dtypes.float8_e4m3fn,
        "f8E5M2": ml_dtypes.float8_e5m2,
        "f8E4M3B11FNUZ": ml_dtypes.float8_e4m3b11fnuz,
    }
    for name, generation in TARGETS.items():
        version = pltpu.ChipVersion[generation.chip_version]
        info = pltpu.get_tpu_info_for_chip(version, 1)
        for lhs, rhs in itertools.product(types, repeat=2):
            expected = info.is_matmul_supported(types[lhs], types[rhs])
            assert is_native(name, lhs, rhs) == expected, (name, lhs, rhs)


def test_a_rule_is_summed_up_in_one_line() -> None:
    """The first line of the docstring is whole: no sentence goes on in the next."""
    assert [rule.id for rule in RULES.values() if not rule.summary.endswith(".")] == []
    assert len({rule.summary for rule in RULES.values()}) == len(RULES)


def test_a_dynamic_size_is_a_question_mark() -> None:
    body = f"""%z = arith.constant 0 : i32
    %v = "tpu.memref_slice"(%x, %z, %z, %m8) {{operandSegmentSizes = array<i32: 1, 2, 1>}}
        : (XT, i32, i32, i32) -> memref<?x256xf32, {VMEM}>
    %0 = vector.load %v[%c0, %at] : memref<?x256xf32, {VMEM}>, vector<8x128xf32>
    vector.store %0, %y[%c0, %c0] : YT, vector<8x128xf32>"""
    (found,) = lint(module(body), target="v6e").errors
    assert found.rule == "dynamic-lane-index"
    assert "?×256×f32" in found.reason


# --- every rule ------------------------------------------------------------------------------------------------------

SMEM: Final = "#tpu.memory_space<smem>"
DOT: Final = "#tpu.dot_dimension_numbers<[1], [0], [0], [1], [0, 0, 1, 1], [], []>"


def strided(x: str) -> str:
    body = f"""%0 = "tpu.strided_load"(%x, %c0, %c0) {{strides = array<i32: 2, 1>}}
        : (XT, index, index) -> vector<8x{x}>
    vector.store %0, %y[%c0, %c0] : YT, vector<8x{x}>"""
    return module(body, x=f"64x{x}", y=f"8x{x}")


def squeezed(element: str) -> str:
    made = f"memref<256x{element}, #tpu.memory_space<any>>"
    semaphore = "memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>"
    body = f"""%v = "tpu.memref_squeeze"(%x) : (XT) -> {made}
    %q = tpu.sem_alloc : {semaphore}
    tpu.enqueue_dma source(%v : {made}) target(%y : YT) target_semaphore(%q : {semaphore})"""
    return module(body, x=f"1x256x{element}", y=f"256x{element}", space="#tpu.memory_space<any>")


def multiplied(element: str, result: str) -> str:
    numbers = f"{{dimension_numbers = {DOT}, transpose_lhs_hint = false}}"
    taken, made = f"vector<256x256x{element}>", f"vector<256x256x{result}>"
    body = f"""%0 = vector.load %x[%c0, %c0] : XT, {taken}
    %z = arith.constant dense<0{".0" if "f" in result else ""}> : {made}
    %1 = "tpu.matmul"(%0, %0, %z) {numbers} : ({taken}, {taken}, {made}) -> {made}
    vector.store %1, %y[%c0, %c0] : YT, {made}"""
    return module(body, x=f"256x256x{element}", y=f"256x256x{result}")


def scratch(type_: str, space: str = VMEM) -> str:
    text = module("", x="8x128xf32", y="8x128xf32", scratch=1)
    return text.replace(f"%y: memref<8x128xf32, {VMEM}>", f"%y: memref<{type_}, {space}>")


def scalars(shape: str) -> str:
    return module("", x=f"{shape}xi32", space=SMEM)


def doubled(shape: str) -> str:
    indices = ", ".join(["%c0"] * (shape.count("x") + 1))
    body = f"""%0 = vector.load %x[{indices}] : XT, vector<{shape}xf32>
    %1 = arith.addf %0, %0 : vector<{shape}xf32>
    vector.store %1, %y[{indices}] : YT, vector<{shape}xf32>"""
    return module(body, x=f"{shape}xf32", y=f"{shape}xf32")


def masked(before: str, after: str) -> str:
    """A mask of a load that is reshaped: before it is compared, or after."""
    lines = {"cast": "vector<8xi32> to vector<8x1xi32>", "cmpi": "vector<8x1xi32>"}
    if before == "cmpi":
        lines = {"cmpi": "vector<8xi32>", "cast": "vector<8xi1> to vector<8x1xi1>"}
    named = {"cmpi": "arith.cmpi slt, {0}, {0}", "cast": "vector.shape_cast {0}"}
    body = f"""%0 = vector.load %x[%c0] : XT, vector<8xi32>
    %1 = {named[before].format("%0")} : {lines[before]}
    %2 = {named[after].format("%1")} : {lines[after]}
    %3 = arith.extui %2 : vector<8x1xi1> to vector<8x1xi32>
    vector.store %3, %y[%c0, %c0] : YT, vector<8x1xi32>"""
    return module(body, x="8xi32", y="8x1xi32")


def called(array: str, *block: int, grid: int = 8) -> str:
    return program(windowed(*block, grid=grid), [f"{array}xf32"], ["8x128xf32"])


#: Of every rule a target, a kernel that breaks it there, and one close to it that breaks none.
EVERY: Final = {
    "dynamic-lane-index": ("v6e", load("%c0, %at", "8x128xf32"), load("%c0, %c3", "8x128xf32")),
    "sublane-alignment": ("v6e", load("%at, %c0"), load("%at8, %c0")),
    "strided-access": ("v6e", strided("256xf32"), strided("128xf32")),
    "squeezed-row": ("v6e", squeezed("bf16"), squeezed("f32")),
    "dma-alignment": ("v6e", sliced("%three"), sliced("%eight")),
    "unsupported-type": ("v6e", computed("arith.addi", "i8"), computed("arith.addi", "i16")),
    "boolean-memory": ("v6e", module("", x="8x128xi1"), module("", x="8x128xi8")),
    "matmul-type": ("v6e", multiplied("i16", "i32"), multiplied("i8", "i32")),
    "matmul-speed": ("tpu7x", multiplied("i8", "i32"), multiplied("bf16", "f32")),
    "vmem-limit": ("v5e", scratch("40960x128xf32"), scratch("8x128xf32")),
    "smem-limit": ("v6e", scalars("2200x8"), scalars("8x2200")),
    "semaphores": (
        "v6e",
        scratch("600x!tpu.dma_semaphore", "#tpu.memory_space<semaphore_mem>"),
        scratch("300x!tpu.dma_semaphore", "#tpu.memory_space<semaphore_mem>"),
    ),
    "iota-rank": ("v6e", counted("128", 0), counted("8x128", 1)),
    "one-dimensional-vector": ("v6e", doubled("512"), doubled("8x128")),
    "mask-column": ("v6e", masked("cmpi", "cast"), masked("cast", "cmpi")),
    "block-tiling": ("v6e", windowed(4, 128), windowed(8, 128)),
    "element-window": (
        "v6e",
        windowed(8, 128, factor=3, padding=([0, 0], [0, 0])),
        windowed(8, 128, factor=8, padding=([0, 0], [0, 0])),
    ),
    "grid-range": ("v6e", called("64x128", 8, 128, grid=9), called("64x128", 8, 128, grid=8)),
}


def allocated(element: str, space: str = VMEM) -> str:
    return module(f"%buffer = memref.alloca() : memref<8x{element}, {space}>")


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("bad", "good"),
    [
        (module("", x="8xi1", space=SMEM), scratch("8xi1", SMEM)),
        (module("", x="8x128xi1", space="#tpu.memory_space<any>"), module("", x="8x128xi32")),
        (scratch("8x128xi1"), scratch("8x128xi32")),
        (allocated("i1"), allocated("i1", SMEM)),
        (allocated("i1"), allocated("i32")),
    ],
)
def test_memory_of_booleans_is_scratch_in_smem(bad: str, good: str, target: str) -> None:
    assert rules(bad, target) == ["boolean-memory"]
    assert rules(good, target) == []


def test_every_rule_has_a_kernel() -> None:
    assert set(EVERY) == set(RULES) - {"invalid-module"}  # tests/test_damaged.py has that one


@pytest.mark.parametrize("id", EVERY)
def test_every_rule_finds_its_kernel_and_spares_the_twin(id: str) -> None:
    target, bad, good = EVERY[id]
    found = [f for f in lint(bad, target=target).findings if f.rule == id]
    assert found
    assert all(f.severity == RULES[id].severity for f in found)
    # A comparison of vectors of one dimension is another rule's, which only warns.
    assert {f.rule for f in lint(bad, target=target).errors} <= {id}
    assert lint(good, target=target).findings == ()


@pytest.mark.parametrize(
    ("rule", "bad", "good"),
    [
        ("block-tiling", called("4x128", 2, 128, grid=2), called("4x128", 4, 128, grid=1)),
        ("block-tiling", called("64x128", 12, 128, grid=4), called("64x128", 16, 128, grid=4)),
        ("block-tiling", windowed(128, element="bf16"), windowed(256, element="bf16")),
        (
            "element-window",
            windowed(8, 128, factor=8, padding=([8, 0], [0, 0])),
            windowed(8, 128, factor=8, padding=([0, 0], [8, 0])),
        ),
    ],
)
def test_a_window_is_whole_tiles_or_all_of_the_array(rule: str, bad: str, good: str) -> None:
    assert rules(bad) == [rule]
    assert rules(good) == []


@pytest.mark.parametrize(("id", "spared"), [("matmul-speed", "v6e"), ("semaphores", "tpu7x"), ("vmem-limit", "v6e")])
def test_a_rule_that_depends_on_the_generation_spares_the_others(id: str, spared: str) -> None:
    assert RULES[id].per_generation
    target, bad, _ = EVERY[id]
    assert [f.rule for f in lint(bad, target=target).findings] == [id]
    assert lint(bad, target=spared).findings == ()


def test_a_rule_that_does_not_says_the_same_of_all() -> None:
    for id, (_, bad, _) in EVERY.items():
        if not RULES[id].per_generation:
            assert {f.targets for f in lint(bad).findings if f.rule == id} == {tuple(TARGETS)}, id
