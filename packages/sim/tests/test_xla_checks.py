"""What the fast engine flags, and the healthy twin that it does not."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from mosaic_tpu.sim import _compat, _parse, coverage
from mosaic_tpu.sim._module import Module
from mosaic_tpu.sim.errors import InputError, UndefinedResultError, UnsupportedOpError
from mosaic_tpu.sim.xla import RULES, UNSUPPORTED, _cost, run_xla, translate
from mosaic_tpu.sim.xla._translation import Translation
from packages.sim.tests.rules_kit import REFUSED, agree, apply, both, kernel

F32 = "memref<8x128xf32, #tpu.memory_space<vmem>>"
HBM = "memref<4x8x128xf32, #tpu.memory_space<any>>"
HBM1 = "memref<1x8x128xf32, #tpu.memory_space<any>>"
HBM2 = "memref<8x128xf32, #tpu.memory_space<any>>"
SMEM = "memref<2xi32, #tpu.memory_space<smem>>"
DMA = "memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>"
I32 = "vector<8x128xi32>"
X = np.arange(8 * 128, dtype=np.float32).reshape(8, 128)


def module(arguments: str, body: str, attributes: str = "") -> Module:
    text = f"func.func @kernel({arguments}) attributes {{{attributes}}} {{\n{body}\nreturn\n}}"
    context = _compat.new_context()
    return _parse.parse(_compat.generic_text(_compat.ir.Module.parse(text, context=context)))


def run(found: Module, *inputs: Any, shape: tuple[int, ...] = (8, 128), dtype: Any = np.float32, **kwargs: Any) -> Any:
    return run_xla(found, inputs, [(shape, dtype)], **kwargs)


def failed(result: Any) -> str | None:
    return result.failed.name if result.failed else None


LOAD_AT = f"""
    %c0 = arith.constant 0 : index
    %i = memref.load %n[%c0] : {SMEM}
    %at = arith.index_cast %i : i32 to index
    %v = vector.load %x[%at, %c0] : {F32}, vector<1x128xf32>
    %w = vector.broadcast %v : vector<1x128xf32> to vector<8x128xf32>
    vector.store %w, %o[%c0, %c0] : {F32}, vector<8x128xf32>"""


@pytest.mark.parametrize(("row", "op"), [(0, None), (7, None), (8, "vector.load"), (-1, "vector.load")])
def test_load_out_of_bounds(row: int, op: str | None) -> None:
    found = module(f"%n: {SMEM}, %x: {F32}, %o: {F32}", LOAD_AT)
    result = run(found, np.array([row, 0], np.int32), X)
    assert failed(result) == op
    if op is None:
        np.testing.assert_array_equal(result.outputs[0], np.broadcast_to(X[row], (8, 128)))


def test_no_flag_without_checks() -> None:
    found = module(f"%n: {SMEM}, %x: {F32}, %o: {F32}", LOAD_AT)
    assert run(found, np.array([99, 0], np.int32), X, checks=False).flag == 0


COPY = f"""
    %c0 = arith.constant 0 : index
    %z = arith.constant 0 : i32
    %i = memref.load %n[%c0] : {SMEM}
    %s = tpu.memref_slice %x[%i, %z, %z] : {HBM} -> {HBM1}
    %q = tpu.memref_squeeze %s : {HBM1} -> {HBM2}
    %sem = tpu.sem_alloc : {DMA}
    tpu.enqueue_dma source(%q : {HBM2}) target(%o : {F32}) target_semaphore(%sem : {DMA})"""


@pytest.mark.parametrize(("page", "op"), [(0, None), (3, None), (4, "tpu.enqueue_dma"), (-1, "tpu.enqueue_dma")])
def test_dma_out_of_bounds(page: int, op: str | None) -> None:
    found = module(f"%n: {SMEM}, %x: {HBM}, %o: {F32}", COPY)
    pages = np.random.default_rng(0).normal(size=(4, 8, 128)).astype(np.float32)
    result = run(found, np.array([page, 0], np.int32), pages)
    assert failed(result) == op
    if op is None:
        np.testing.assert_array_equal(result.outputs[0], pages[page])


@pytest.mark.parametrize("select_up_to", [-1, 1 << 20], ids=["branch", "selection"])
def test_a_branch_that_is_not_taken_flags_nothing(select_up_to: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_cost, "SELECT_UP_TO", select_up_to)
    body = f"""
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %z = arith.constant 0 : i32
    %v = vector.load %x[%c0, %c0] : {F32}, vector<8x128xf32>
    vector.store %v, %o[%c0, %c0] : {F32}, vector<8x128xf32>
    %i = memref.load %n[%c0] : {SMEM}
    %t = memref.load %n[%c1] : {SMEM}
    %at = arith.index_cast %i : i32 to index
    %c = arith.cmpi ne, %t, %z : i32
    scf.if %c {{
      %r = vector.load %x[%at, %c0] : {F32}, vector<1x128xf32>
      vector.store %r, %o[%c0, %c0] : {F32}, vector<1x128xf32>
    }}"""
    found = module(f"%n: {SMEM}, %x: {F32}, %o: {F32}", body)
    assert failed(run(found, np.array([9, 0], np.int32), X)) is None
    assert failed(run(found, np.array([9, 1], np.int32), X)) == "vector.load"
    taken = run(found, np.array([5, 1], np.int32), X)
    np.testing.assert_array_equal(taken.outputs[0], np.concatenate([X[5:6], X[1:]]))


@pytest.mark.parametrize(
    ("op", "right", "wrong"),
    [
        ("arith.shli", 31, 32),
        ("arith.shrsi", 3, -1),
        ("arith.shrui", 0, 40),
        ("arith.divsi", 3, 0),
        ("arith.remsi", -3, 0),
        ("arith.divui", 3, 0),
        ("arith.remui", 3, 0),
    ],
)
def test_undefined_integers(op: str, right: int, wrong: int) -> None:
    memref = "memref<8x128xi32, #tpu.memory_space<vmem>>"
    body = f"""
    %c0 = arith.constant 0 : index
    %n = memref.load %s[%c0] : {SMEM}
    %v = vector.load %x[%c0, %c0] : {memref}, {I32}
    %b = vector.broadcast %n : i32 to {I32}
    %r = {op} %v, %b : {I32}
    vector.store %r, %o[%c0, %c0] : {memref}, {I32}"""
    found = module(f"%s: {SMEM}, %x: {memref}, %o: {memref}", body)
    x = np.arange(-512, 512, dtype=np.int32).reshape(8, 128)
    assert failed(run(found, np.array([right, 0], np.int32), x, dtype=np.int32)) is None
    result = run(found, np.array([wrong, 0], np.int32), x, dtype=np.int32)
    assert failed(result) == op
    assert not result.outputs[0].any()


@pytest.mark.parametrize(("value", "whole"), [(np.nan, 0), (3e9, 2**31 - 1), (-3e9, -(2**31)), (-2.9, -2), (2.9, 2)])
def test_float_to_integer_saturates(value: float, whole: int) -> None:
    target = "memref<8x128xi32, #tpu.memory_space<vmem>>"
    body = f"""
    %c0 = arith.constant 0 : index
    %v = vector.load %x[%c0, %c0] : {F32}, vector<8x128xf32>
    %r = arith.fptosi %v : vector<8x128xf32> to {I32}
    vector.store %r, %o[%c0, %c0] : {target}, {I32}"""
    result = run(module(f"%x: {F32}, %o: {target}", body), np.full((8, 128), value, np.float32), dtype=np.int32)
    assert (result.outputs[0] == whole).all()
    assert failed(result) == ("arith.fptosi" if np.isnan(value) else None)


@pytest.mark.parametrize(
    ("op", "expected"), [("maximumf", np.nan), ("maxnumf", 1), ("minimumf", np.nan), ("minnumf", 1)]
)
def test_nan_in_extremes(op: str, expected: float) -> None:
    body = f"""
    %c0 = arith.constant 0 : index
    %v = vector.load %x[%c0, %c0] : {F32}, vector<8x128xf32>
    %one = arith.constant dense<1.0> : vector<8x128xf32>
    %r = arith.{op} %v, %one : vector<8x128xf32>
    vector.store %r, %o[%c0, %c0] : {F32}, vector<8x128xf32>"""
    result = run(module(f"%x: {F32}, %o: {F32}", body), np.full((8, 128), np.nan, np.float32))
    np.testing.assert_array_equal(result.outputs[0], np.full((8, 128), expected, np.float32))


def test_uninitialised_memory_is_poison() -> None:
    body = f"""
    %c0 = arith.constant 0 : index
    %a = memref.alloca() : {F32}
    %v = vector.load %a[%c0, %c0] : {F32}, vector<8x128xf32>
    vector.store %v, %o[%c0, %c0] : {F32}, vector<8x128xf32>"""
    assert np.isnan(run(module(f"%o: {F32}", body)).outputs[0]).all()


@pytest.mark.parametrize(("holds", "op"), [(1, None), (0, "cf.assert")])
def test_assertion(holds: int, op: str | None) -> None:
    body = f"""
    %c0 = arith.constant 0 : index
    %z = arith.constant 0 : i32
    %n = memref.load %s[%c0] : {SMEM}
    %c = arith.cmpi ne, %n, %z : i32
    cf.assert %c, "n is zero"
    %v = vector.load %x[%c0, %c0] : {F32}, vector<8x128xf32>
    vector.store %v, %o[%c0, %c0] : {F32}, vector<8x128xf32>"""
    found = module(f"%s: {SMEM}, %x: {F32}, %o: {F32}", body)
    assert failed(run(found, np.array([holds, 0], np.int32), X)) == op


def test_store_through_a_packed_view() -> None:
    """i32 row r is bf16 rows 2r (low half) and 2r + 1 (high half)."""
    bf16 = "memref<16x128xbf16, #tpu.memory_space<vmem>>"
    i32 = "memref<8x128xi32, #tpu.memory_space<vmem>>"
    body = f"""
    %c0 = arith.constant 0 : index
    %c3 = arith.constant 3 : index
    %v = vector.load %x[%c0, %c0] : {bf16}, vector<16x128xbf16>
    vector.store %v, %o[%c0, %c0] : {bf16}, vector<16x128xbf16>
    %w = tpu.memref_bitcast %o : {bf16} -> {i32}
    %k = arith.constant dense<0x3F804000> : vector<1x128xi32>
    vector.store %k, %w[%c3, %c0] : {i32}, vector<1x128xi32>"""
    bf = ml_dtypes.bfloat16
    x = np.random.default_rng(0).normal(size=(16, 128)).astype(bf)
    result = run(module(f"%x: {bf16}, %o: {bf16}", body), x, shape=(16, 128), dtype=bf)
    expected = x.copy()
    expected[6], expected[7] = 2.0, 1.0
    np.testing.assert_array_equal(result.outputs[0], expected)


def test_masked_and_strided_stores() -> None:
    body = f"""
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %v = vector.load %x[%c0, %c0] : {F32}, vector<8x128xf32>
    vector.store %v, %o[%c0, %c0] : {F32}, vector<8x128xf32>
    %k = arith.constant dense<-1.0> : vector<3x128xf32>
    tpu.strided_store %o[%c1, %c0], %k {{strides = array<i32: 3, 1>}} : {F32}, vector<3x128xf32>
    %limit = arith.constant dense<64> : {I32}
    %lane = tpu.iota {{dimensions = array<i32: 1>}} : {I32}
    %m = arith.cmpi slt, %lane, %limit : {I32}
    %z = arith.constant dense<0.0> : vector<8x128xf32>
    tpu.vector_store %o[%c0, %c0], %z masked %m {{strides = array<i32>}} : {F32}, vector<8x128xf32>, vector<8x128xi1>"""
    result = run(module(f"%x: {F32}, %o: {F32}", body), X)
    expected = X.copy()
    expected[1::3] = -1
    expected[:, :64] = 0
    np.testing.assert_array_equal(result.outputs[0], expected)


LOOP = f"""
    %c0 = arith.constant 0 : index
    %z = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %n = memref.load %s[%c0] : {SMEM}
    %v = vector.load %x[%c0, %c0] : {F32}, vector<8x128xf32>
    vector.store %v, %o[%c0, %c0] : {F32}, vector<8x128xf32>
    %sum = LOOP
    %f = arith.sitofp %sum : i32 to f32
    %b = vector.broadcast %f : f32 to vector<8x128xf32>
    %a = vector.load %o[%c0, %c0] : {F32}, vector<8x128xf32>
    %r = arith.addf %a, %b : vector<8x128xf32>
    vector.store %r, %o[%c0, %c0] : {F32}, vector<8x128xf32>"""
DOUBLE = f"""
      %l = vector.load %o[%c0, %c0] : {F32}, vector<8x128xf32>
      %d = arith.addf %l, %l : vector<8x128xf32>
      vector.store %d, %o[%c0, %c0] : {F32}, vector<8x128xf32>"""
FOR = f"""scf.for %i = %z to %n step %one iter_args(%acc = %z) -> (i32) : i32 {{{DOUBLE}
      %t = arith.addi %acc, %i : i32
      scf.yield %t : i32
    }}"""
WHILE = f"""scf.while (%i = %n) : (i32) -> i32 {{
      %c = arith.cmpi sgt, %i, %z : i32
      scf.condition(%c) %i : i32
    }} do {{
    ^bb0(%i: i32):{DOUBLE}
      %t = arith.subi %i, %one : i32
      scf.yield %t : i32
    }}"""


@pytest.mark.parametrize("count", [0, 1, 5])
@pytest.mark.parametrize("kind", ["for", "while"])
def test_loops_carry_values_and_memory(kind: str, count: int) -> None:
    body = LOOP.replace("LOOP", FOR if kind == "for" else WHILE)
    result = run(module(f"%s: {SMEM}, %x: {F32}, %o: {F32}", body), np.array([count, 0], np.int32), X)
    total = count * (count - 1) // 2 if kind == "for" else 0
    np.testing.assert_array_equal(result.outputs[0], X * 2**count + total)


def test_other_devices_are_refused() -> None:
    sizes = "operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 0, 0>, priority = 0 : i32"
    body = f"""
    %z = arith.constant 0 : i32
    %a = tpu.sem_alloc : {DMA}
    %b = tpu.sem_alloc : {DMA}
    "tpu.enqueue_dma"(%x, %a, %o, %b, %z) <{{{sizes}}}> : ({F32}, {DMA}, {F32}, {DMA}, i32) -> ()"""
    with pytest.raises(UnsupportedOpError, match="another device") as caught:
        run(module(f"%x: {F32}, %o: {F32}", body), X)
    assert "numpy" in str(caught.value.hint)


@pytest.mark.parametrize("op", ["tpu.prng_random_bits", "other.thing"])
def test_an_op_without_a_rule_is_named_before_anything_runs(op: str) -> None:
    found = module(f"%o: {F32}", f'%r = "{op}"() : () -> {I32}')
    with pytest.raises(UnsupportedOpError, match=op):
        translate(found, [((8, 128), np.float32)])


def test_too_few_arrays() -> None:
    found = module(f"%n: {SMEM}, %x: {F32}, %o: {F32}", LOAD_AT)
    with pytest.raises(InputError, match=r"1 arrays are given, and the kernel takes 2 \(arg0, arg1\)"):
        run(found, X)


def test_steady_state_is_one_jitted_function() -> None:
    found = module(f"%n: {SMEM}, %x: {F32}, %o: {F32}", LOAD_AT)
    outputs = [((8, 128), np.float32)]
    assert translate(found, outputs) is translate(found, outputs)
    assert translate(found, outputs) is not translate(found, outputs, checks=False)


def test_no_op_is_both_supported_and_not() -> None:
    assert not set(RULES) & set(UNSUPPORTED)
    assert all(UNSUPPORTED.values())


def test_what_the_reference_engine_runs_alone_is_on_the_list() -> None:
    """Of these ops the tests of rules see one engine only: the list shrinks or says why in `UNSUPPORTED`."""
    assert {row.op for row in coverage().rows if row.numpy and not row.xla} == REFUSED <= set(UNSUPPORTED)


# --- the comparison of the engines itself ---------------------------------------------------------------------------

ADD = kernel(
    [f"%x: {F32}", f"%o: {F32}"],
    f"""
    %v = vector.load %x[%zero, %zero] : {F32}, vector<8x128xf32>
    %r = arith.addf %v, %v : vector<8x128xf32>
    vector.store %r, %o[%zero, %zero] : {F32}, vector<8x128xf32>""",
)
SPEC = [((8, 128), np.float32)]


@pytest.mark.parametrize("off", [0, 1e-7])
def test_sums_of_the_engines_agree_to_the_bit(off: float) -> None:
    wrong = (X + X) * np.float32(1 + off)
    if off == 0:
        agree([wrong], ADD, [X], SPEC)
        return
    with pytest.raises(AssertionError, match="the fast engine"):
        agree([wrong], ADD, [X], SPEC)


def test_denormals_may_be_zeros_and_zeros_may_not_be_numbers() -> None:
    zeros = np.zeros_like(X)
    agree([np.full_like(X, 1e-39)], ADD, [zeros], SPEC)
    with pytest.raises(AssertionError):
        agree([np.full_like(X, 2e-38)], ADD, [zeros], SPEC)


@pytest.mark.parametrize("name", ["arith.shli", "arith.divsi", "arith.addi"])
def test_a_hazard_is_flagged_by_both_or_by_neither(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What `both` raises is the reference's hazard; a fast engine that sees none fails the test."""
    line = f"%r = {name} %a, %b : i32"
    given = np.int32(5), np.int32(40 if name == "arith.shli" else 0)
    if name == "arith.addi":
        assert apply(line, *given, out="i32") == 5
        return
    with pytest.raises(UndefinedResultError):
        apply(line, *given, out="i32")

    def sees_nothing(*_: Any) -> None:
        pass

    monkeypatch.setattr(Translation, "fail_if", sees_nothing)
    with pytest.raises(AssertionError):
        apply(f"{line}  // not compiled yet", *given, out="i32")


def test_a_refusal_that_is_not_on_the_list_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(RULES, "arith.addf")
    with pytest.raises(AssertionError, match=r"arith\.addf"):
        both(ADD, [X], SPEC, {})


# --- what Python knows before anything runs ---------------------------------------------------------------------------


@pytest.mark.parametrize(("step", "op"), [(2, None), (0, "scf.for"), (-1, "scf.for")])
@pytest.mark.parametrize("checks", [True, False])
def test_a_step_that_is_not_positive_ends(step: int, op: str | None, checks: bool) -> None:
    body = LOOP.replace("LOOP", FOR.replace("step %one", "step %step")).replace(
        "%sum", f"%c1 = arith.constant 1 : index\n%step = memref.load %s[%c1] : {SMEM}\n%sum", 1
    )
    found = module(f"%s: {SMEM}, %x: {F32}, %o: {F32}", body)
    result = run(found, np.array([4, step], np.int32), X, checks=checks)
    assert failed(result) == (op if checks else None)
    if op is None:
        np.testing.assert_array_equal(result.outputs[0], X * 4 + 2)
