"""Each rule on a small module and on its twin; conformance/test_lint.py asks the compiler about such modules."""

from __future__ import annotations

import itertools

import jax.numpy as jnp
import ml_dtypes
import pytest
from jax.experimental.pallas import tpu as pltpu

from mosaic_tpu.aot._lint import RULES, lint
from mosaic_tpu.aot._lint._support import is_native
from mosaic_tpu.aot.targets import TARGETS

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


def test_an_iota_has_two_dimensions() -> None:
    def counted(shape: str, dimension: int) -> str:
        indices = ", ".join(["%c0"] * (shape.count("x") + 1))
        body = f"""%0 = tpu.iota {{dimensions = array<i32: {dimension}>}} : vector<{shape}xi32>
    vector.store %0, %y[{indices}] : YT, vector<{shape}xi32>"""
        return module(body, y=f"{shape}xi32")

    assert rules(counted("128", 0)) == ["iota-rank"]
    assert rules(counted("8x128", 1)) == []


def test_scratch_beyond_the_limit_is_found() -> None:
    rows = 20 * 2048  # of 128 f32: 20 MiB
    body = "%0 = vector.load %y[%c0, %c0] : YT, vector<8x128xf32>"
    text = module(body, x="8x128xf32", y=f"{rows}x128xf32", scratch=1)
    assert rules(text, "v5e") == ["vmem-limit"]
    assert rules(text, "v6e") == []
    assert lint(text, target="v5e", vmem_limit_bytes=32 << 20).errors == ()


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


def test_every_rule_says_what_it_checks() -> None:
    assert all(len(rule.summary) > 20 for rule in RULES.values())
    assert {rule.severity for rule in RULES.values()} == {"error", "warning"}
    assert all(name == rule.id for name, rule in RULES.items())
