"""Control flow, calls and debugging: against what Python does with the same numbers."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest
from jaxlib.mosaic.python import tpu

from mosaic_tpu.sim.errors import (
    HazardError,
    KernelAssertionError,
    OutOfBoundsError,
    ReadBeforeWaitError,
    UndefinedResultError,
    UnsupportedOpError,
)
from packages.sim.tests.rules_kit import apply, equal, memref, run

X: Final = np.arange(8 * 128, dtype=np.float32).reshape(8, 128)
TILE: Final = memref((8, 128), "f32")

# --- loops -----------------------------------------------------------------------------------------------------------

SUM: Final = """%z = arith.constant 0 : i32
%r = scf.for %i = %a to %b step %c iter_args(%s = %z) -> (i32) : i32 {
  %n = arith.addi %s, %i : i32
  scf.yield %n : i32
}"""


@pytest.mark.parametrize(("low", "high", "step"), [(0, 5, 1), (3, 11, 4), (5, 5, 1), (5, 2, 1), (-4, 3, 2)])
def test_for_loops_run_as_often_as_ranges(low: int, high: int, step: int) -> None:
    assert apply(SUM, np.int32(low), np.int32(high), np.int32(step), out="i32") == sum(range(low, high, step))


@pytest.mark.parametrize("step", [0, -1])
def test_a_step_must_be_positive(step: int) -> None:
    with pytest.raises(OutOfBoundsError, match="step"):
        apply(SUM, np.int32(0), np.int32(5), np.int32(step), out="i32")


def test_carries_are_swapped_all_at_once() -> None:
    lines = """%l = arith.constant 0 : i32
    %h = arith.constant 10 : i32
    %s = arith.constant 1 : i32
    %r, %q = scf.for %i = %l to %h step %s iter_args(%x = %a, %y = %b) -> (i32, i32) : i32 {
      %n = arith.addi %x, %y : i32
      scf.yield %y, %n : i32, i32
    }"""
    assert apply(lines, np.int32(0), np.int32(1), out="i32") == 55


def test_a_loop_carries_a_broadcast_vector() -> None:
    lines = """%l = arith.constant 0 : i32
    %s = arith.constant 1 : i32
    %one = arith.constant dense<1.0> : vector<8x128xf32>
    %r = scf.for %i = %l to %b step %s iter_args(%x = %one) -> (vector<8x128xf32>) : i32 {
      %n = arith.mulf %x, %a : vector<8x128xf32>
      scf.yield %n : vector<8x128xf32>
    }"""
    equal(apply(lines, X, np.int32(2), out=((8, 128), "f32")), X * X)
    equal(apply(lines, X, np.int32(0), out=((8, 128), "f32")), np.ones((8, 128)))


def _collatz(n: int, limit: int) -> int:
    """How many odd steps all numbers below a limit take together."""
    total = 0
    while n < limit:
        m = n
        while m > 1:
            total += m % 2
            m = m // 2 if m % 2 == 0 else 3 * m + 1
        n += 1
    return total


def test_nested_whiles_whose_results_are_used_later() -> None:
    lines = """%one = arith.constant 1 : i32
    %two = arith.constant 2 : i32
    %three = arith.constant 3 : i32
    %z = arith.constant 0 : i32
    %e, %r = scf.while (%n = %a, %t = %z) : (i32, i32) -> (i32, i32) {
      %more = arith.cmpi slt, %n, %b : i32
      scf.condition(%more) %n, %t : i32, i32
    } do {
    ^bb0(%n: i32, %t: i32):
      %m, %u = scf.while (%k = %n, %v = %t) : (i32, i32) -> (i32, i32) {
        %more = arith.cmpi sgt, %k, %one : i32
        scf.condition(%more) %k, %v : i32, i32
      } do {
      ^bb0(%k: i32, %v: i32):
        %odd = arith.remsi %k, %two : i32
        %w = arith.addi %v, %odd : i32
        %even = arith.cmpi eq, %odd, %z : i32
        %next = scf.if %even -> (i32) {
          %half = arith.divsi %k, %two : i32
          scf.yield %half : i32
        } else {
          %t3 = arith.muli %k, %three : i32
          %t4 = arith.addi %t3, %one : i32
          scf.yield %t4 : i32
        }
        scf.yield %next, %w : i32, i32
      }
      %up = arith.addi %n, %one : i32
      scf.yield %up, %u : i32, i32
    }"""
    assert apply(lines, np.int32(1), np.int32(30), out="i32") == _collatz(1, 30)
    assert apply(lines, np.int32(30), np.int32(1), out="i32") == 0


@pytest.mark.parametrize("condition", [True, False])
def test_branches_give_vectors_that_are_filled_differently(condition: bool) -> None:
    lines = """%n = arith.constant dense<2.0> : vector<8x128xf32>
    %r = scf.if %b -> (vector<8x128xf32>) {
      scf.yield %n : vector<8x128xf32>
    } else {
      scf.yield %a : vector<8x128xf32>
    }"""
    made = apply(lines, X, np.bool_(condition), out=((8, 128), "f32"))
    equal(made, np.full((8, 128), 2.0) if condition else X)


@pytest.mark.parametrize(("case", "wanted"), [(2, 20), (5, 50), (0, 7), (-1, 7)])
def test_index_switch(case: int, wanted: int) -> None:
    lines = """%i = arith.index_cast %a : i32 to index
    %x = arith.constant 20 : i32
    %y = arith.constant 50 : i32
    %d = arith.constant 7 : i32
    %r = scf.index_switch %i -> i32
    case 2 { scf.yield %x : i32 }
    case 5 { scf.yield %y : i32 }
    default { scf.yield %d : i32 }"""
    assert apply(lines, np.int32(case), out="i32") == wanted


# --- calls -----------------------------------------------------------------------------------------------------------


def _called(inner: str) -> Any:
    """A kernel that calls a function that calls another, on memrefs."""
    functions = f"""func.func @outer(%x: {TILE}, %y: {TILE}, %n: i32) -> (i32, vector<8x128xf32>) {{
      %s = func.call @inner(%x, %y, %n) : ({TILE}, {TILE}, i32) -> i32
      %two = arith.constant 2 : i32
      %p = arith.muli %s, %two : i32
      %one = arith.constant dense<1.0> : vector<8x128xf32>
      return %p, %one : i32, vector<8x128xf32>
    }}
    func.func @inner(%x: {TILE}, %y: {TILE}, %n: i32) -> i32 {{
      %c0 = arith.constant 0 : index
      %one = arith.constant 1 : i32
      %positive = arith.cmpi sgt, %n, %one : i32
      scf.if %positive {{
        {inner}
      }}
      %m = arith.addi %n, %one : i32
      return %m : i32
    }}
    """
    lines = f"""%n = arith.constant 4 : i32
    %r, %w = func.call @outer(%x, %o, %n) : ({TILE}, {TILE}, i32) -> (i32, vector<8x128xf32>)
    %f = arith.sitofp %r : i32 to f32
    %b = vector.broadcast %f : f32 to vector<8x128xf32>
    %v = vector.load %o[%zero, %zero] : {TILE}, vector<8x128xf32>
    %s = arith.addf %v, %b : vector<8x128xf32>
    %t = arith.addf %s, %w : vector<8x128xf32>
    vector.store %t, %o[%zero, %zero] : {TILE}, vector<8x128xf32>"""
    return run(lines, [f"%x: {TILE}", f"%o: {TILE}"], [X], [((8, 128), np.float32)], functions)


def test_functions_are_called_several_levels_deep() -> None:
    inner = f"""%v = vector.load %x[%c0, %c0] : {TILE}, vector<8x128xf32>
    vector.store %v, %y[%c0, %c0] : {TILE}, vector<8x128xf32>"""
    equal(_called(inner).outputs[0], X + 11)


SEMAPHORE: Final = "memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>"
DMA: Final = f"""%sem = tpu.sem_alloc : {SEMAPHORE}
tpu.enqueue_dma source(%x : {TILE}) target(%o : {TILE}) target_semaphore(%sem : {SEMAPHORE})"""
#: As each jaxlib spells it.
WAIT: Final = (
    f"tpu.wait_dma2 semaphore(%s : {SEMAPHORE}) src(%a : {TILE}) dst(%b : {TILE})"
    if hasattr(tpu, "wait_dma2")
    else f"tpu.wait_dma source(%a : {TILE}) target(%b : {TILE}) target_semaphore(%s : {SEMAPHORE})"
)


def test_a_function_that_is_called_may_wait() -> None:
    lines = f"{DMA}\nfunc.call @wait(%sem, %x, %o) : ({SEMAPHORE}, {TILE}, {TILE}) -> ()"
    functions = f"func.func @wait(%s: {SEMAPHORE}, %a: {TILE}, %b: {TILE}) {{\n{WAIT}\nreturn\n}}\n"
    report = run(lines, [f"%x: {TILE}", f"%o: {TILE}"], [X], [((8, 128), np.float32)], functions)
    equal(report.outputs[0], X)


def test_a_read_before_the_wait_is_seen_in_a_function_that_is_called() -> None:
    lines = f"{DMA}\nfunc.call @look(%o) : ({TILE}) -> ()"
    functions = f"""func.func @look(%a: {TILE}) {{
      %c0 = arith.constant 0 : index
      %v = vector.load %a[%c0, %c0] : {TILE}, vector<8x128xf32>
      vector.store %v, %a[%c0, %c0] : {TILE}, vector<8x128xf32>
      return
    }}
    """
    with pytest.raises(ReadBeforeWaitError):
        run(lines, [f"%x: {TILE}", f"%o: {TILE}"], [X], [((8, 128), np.float32)], functions)


def test_a_callee_has_blocks_of_its_own() -> None:
    inner = "\n".join(
        f"""scf.if %positive {{
          %v{i} = vector.load %x[%c0, %c0] : {TILE}, vector<8x128xf32>
          vector.store %v{i}, %y[%c0, %c0] : {TILE}, vector<8x128xf32>
        }}"""
        for i in range(6)
    )
    report = _called(inner)
    assert report.op_counts["func.call"] == 1
    equal(report.outputs[0], X + 11)


# --- assumptions -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [16, 12])
def test_what_is_assumed_is_checked(n: int) -> None:
    line = '%r = "tpu.assume_multiple"(%a) {multiple = 8 : i32} : (i32) -> i32'
    if n % 8 == 0:
        assert apply(line, np.int32(n), out="i32") == n
        return
    with pytest.raises(UndefinedResultError, match="not a multiple of 8"):
        apply(line, np.int32(n), out="i32")
    assert apply(line, np.int32(n), out="i32", checks=False) == n


def test_assertions() -> None:
    lines = """%r = arith.constant 1 : i32
    %n = arith.constant 3 : i32
    %ok = arith.cmpi slt, %a, %n : i32
    cf.assert %ok, "a is too large" """
    assert apply(lines, np.int32(2), out="i32") == 1
    with pytest.raises(KernelAssertionError, match="a is too large"):
        apply(lines, np.int32(3), out="i32")


# --- debugging -------------------------------------------------------------------------------------------------------


def test_logs_go_to_standard_error_and_into_the_trace(capsys: pytest.CaptureFixture[str]) -> None:
    lines = f""""tpu.log"(%n, %n) {{tag = "n is $s0, unsigned $u1", formatted = true}} : (i32, i32) -> ()
    "tpu.log"(%n) {{tag = "plain", formatted = false}} : (i32) -> ()
    %v = vector.load %x[%zero, %zero] : {TILE}, vector<8x128xf32>
    vector.store %v, %o[%zero, %zero] : {TILE}, vector<8x128xf32>
    "tpu.log_buffer"(%x) {{shape = array<i64: 1, 2>, tag = "x: "}} : ({TILE}) -> ()"""
    lines = "%n = arith.constant -3 : i32\n" + lines
    report = run(lines, [f"%x: {TILE}", f"%o: {TILE}"], [X], [((8, 128), np.float32)])
    wanted = ["n is -3, unsigned 4294967293", "plain -3", "x:  [[0. 1.]]"]
    assert capsys.readouterr().err.splitlines() == wanted
    assert [e.what for e in report.trace if e.kind == "log"] == wanted


def test_traces_leave_values_alone() -> None:
    lines = """%r = "tpu.trace"() <{level = 1 : i32, message = "m"}> ({
      %d = arith.addi %a, %a : i32
      "tpu.yield"(%d) : (i32) -> ()
    }) : () -> i32
    "tpu.trace_start"() {level = 1 : i32, message = "m"} : () -> ()
    "tpu.trace_stop"() : () -> ()"""
    assert apply(lines, np.int32(4), out="i32") == 8


def test_a_scope_gives_values() -> None:
    lines = """%r = "tpu.region"() ({
      %m = memref.alloca() : memref<8x128xf32, #tpu.memory_space<vmem>>
      vector.store %a, %m[%zero, %zero] : memref<8x128xf32, #tpu.memory_space<vmem>>, vector<8x128xf32>
      %v = vector.load %m[%zero, %zero] : memref<8x128xf32, #tpu.memory_space<vmem>>, vector<8x128xf32>
      "tpu.yield"(%v) : (vector<8x128xf32>) -> ()
    }) : () -> vector<8x128xf32>"""
    equal(apply(lines, X, out=((8, 128), "f32")), X)


def test_blocks_without_structure_are_refused() -> None:
    with pytest.raises((UnsupportedOpError, HazardError, ValueError)):
        apply("%r = arith.constant 1 : i32\ncf.br ^next\n^next:", out="i32")
