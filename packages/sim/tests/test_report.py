"""What a report says: its JSON form, its print, its trace, and its numbers against counts by hand."""

from __future__ import annotations

import json
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from mosaic_tpu.sim import Report, errors, ir, simulate, simulate_devices
from mosaic_tpu.sim._report import SCHEMA
from packages.sim.tests.conftest import DMA, HBM, TILE, lowered, on_devices, ramp, run_devices
from packages.sim.tests.test_schedules import swap

X = ramp(32, 128)
BLOCK = 8 * 128 * 4
KEYS = {
    "options",
    "stopped",
    "schema",
    "kernel",
    "engine",
    "seed",
    "seconds",
    "outputs",
    "hazards",
    "steps",
    "dmas",
    "dma_bytes",
    "memory",
    "unwritten",
    "op_counts",
}
HAZARD_KEYS = {"kind", "summary", "op", "location", "buffer", "device", "step", "seed", "related", "hint"}


def staged(x: Any, o: Any, scratch: Any, semaphore: Any) -> None:
    """A step's block through a scratch, by DMA, and 3 additions."""
    pltpu.async_copy(x.at[pl.ds(pl.program_id(0) * 8, 8)], scratch, semaphore).wait()

    def add(_: Any, value: Any) -> Any:
        return value + 1.0

    o[...] = jax.lax.fori_loop(0, 3, add, scratch[...])


def report_of(kernel: Any = staged, **options: Any) -> Report:
    call = pl.pallas_call(
        kernel,
        grid=(4,),
        in_specs=[HBM],
        out_specs=pl.BlockSpec(TILE, lambda i: (i, 0)),
        out_shape=jax.ShapeDtypeStruct(X.shape, X.dtype),
        scratch_shapes=[pltpu.VMEM(TILE, jnp.float32), DMA],
    )
    return simulate(lowered(call, X), X, **options)


def test_numbers_are_those_counted_by_hand() -> None:
    report = report_of(seed=5)
    np.testing.assert_array_equal(report.outputs[0], X + 3)
    assert (report.kernel, report.engine, report.seed) == ("staged", "numpy", 5)
    # 4 grid steps, of 3 iterations each.
    assert report.steps == 4 + 4 * 3
    # A DMA in and a window out at each step.
    assert (report.dmas, report.dma_bytes) == (8, 8 * BLOCK)
    # Two buffers of the output's window and the scratch; the arrays.
    assert report.memory == {"vmem": 3 * BLOCK, "hbm": 2 * X.nbytes}
    counts = report.op_counts
    waits = counts.get("tpu.wait_dma") or counts["tpu.wait_dma2"]  # before JAX 0.12
    assert (counts["tpu.enqueue_dma"], waits) == (4, 4)
    assert (counts["scf.for"], counts["arith.addf"], counts["tpu.vector_store"]) == (4, 12, 4)
    assert report.unwritten == {}
    assert report.hazards == ()


BRANCHES = """
func.func @branches(%t: memref<4xi32, #tpu.memory_space<smem>>, %x: memref<8x128xf32, #tpu.memory_space<vmem>>,
                    %o: memref<8x128xf32, #tpu.memory_space<vmem>>) attributes {scalar_prefetch = 1 : i64} {
  %c = arith.constant 0 : index
  %one = arith.constant 1 : index
  %four = arith.constant 4 : index
  %v = vector.load %x[%c, %c] : memref<8x128xf32, #tpu.memory_space<vmem>>, vector<8x128xf32>
  vector.store %v, %o[%c, %c] : memref<8x128xf32, #tpu.memory_space<vmem>>, vector<8x128xf32>
  scf.for %i = %c to %four step %one {
    %n = memref.load %t[%i] : memref<4xi32, #tpu.memory_space<smem>>
    %bound = arith.index_cast %n : i32 to index
    scf.for %j = %c to %bound step %one {
      %odd = arith.remui %j, %four : index
      %is = arith.cmpi eq, %odd, %one : index
      scf.if %is {
        vector.store %v, %o[%c, %c] : memref<8x128xf32, #tpu.memory_space<vmem>>, vector<8x128xf32>
      } else {
        memref.store %n, %t[%c] : memref<4xi32, #tpu.memory_space<smem>>
      }
    }
  }
  return
}"""


def test_each_region_is_counted_by_itself() -> None:
    report = simulate(BRANCHES, np.array([2, 0, 3, 6], np.int32), X[:8])
    ops = ir.read(BRANCHES).operations
    outer, inner = (op.number for op in ops if op.name == "scf.for")
    (branch,) = (op.number for op in ops if op.name == "scf.if")
    (function,) = (op.number for op in ops if op.name == "func.func")
    assert report.region_counts[function, 0] == 1
    assert (report.region_counts[outer, 0], report.region_counts[inner, 0]) == (4, 2 + 0 + 3 + 6)
    # j = 1 of the first, the third and the last loop, j = 5 of the last.
    assert (report.region_counts[branch, 0], report.region_counts[branch, 1]) == (4, 7)
    assert len(report.region_counts) == 5


def test_the_trace_is_what_happened_in_order() -> None:
    report = report_of(dma="wait")
    kinds = ["dma", "wait", "window"] * 4
    assert [e.kind for e in report.trace] == kinds
    first, wait, window = report.trace[:3]
    assert (first.what, first.amount, first.core) == ("x to scratch", BLOCK, "device 0")
    assert (wait.what, wait.amount) == ("semaphore", BLOCK)
    assert (window.what, window.amount, window.line) == ("o window 0 to o", BLOCK, None)
    assert "test_report.py:" in str(first.line)
    assert "test_report.py:" in str(wait.line)
    assert report.dropped == 0
    assert report_of(checks=False).trace == ()


SCOPES = """
func.func @scopes(%x: memref<8x128xf32, #tpu.memory_space<vmem>>, %o: memref<8x128xf32, #tpu.memory_space<vmem>>) {
  %c = arith.constant 0 : index
  %v = vector.load %x[%c, %c] : memref<8x128xf32, #tpu.memory_space<vmem>>, vector<8x128xf32>
  vector.store %v, %o[%c, %c] : memref<8x128xf32, #tpu.memory_space<vmem>>, vector<8x128xf32>
  "tpu.region"() ({
    %a = memref.alloca() : memref<16x128xf32, #tpu.memory_space<vmem>>
    "tpu.region"() ({
      %b = memref.alloca() : memref<32x128xbf16, #tpu.memory_space<vmem>>
      "tpu.yield"() : () -> ()
    }) : () -> ()
    "tpu.yield"() : () -> ()
  }) : () -> ()
  "tpu.region"() ({
    %a = memref.alloca() : memref<24x128xf32, #tpu.memory_space<vmem>>
    %s = memref.alloca() : memref<8x128xi32, #tpu.memory_space<smem>>
    "tpu.yield"() : () -> ()
  }) : () -> ()
  return
}"""


def test_memory_of_scopes_is_given_back() -> None:
    report = simulate(SCOPES, X[:8])
    # Two windows of one buffer each; then 16 rows and 32 of half the width, or 24 rows.
    assert report.memory == {"hbm": 2 * BLOCK, "smem": BLOCK, "vmem": 2 * BLOCK + 4 * BLOCK}


def test_the_json_form_has_these_keys() -> None:
    report = report_of()
    made = json.loads(report.json())
    assert set(made) == KEYS
    assert made["schema"] == SCHEMA == 1
    assert made["outputs"] == [["float32[32, 128]"]]
    assert made["op_counts"] == report.op_counts
    assert set(json.loads(report.json(trace=True))) == KEYS | {"trace", "dropped"}
    kind, core, what, amount, line = json.loads(report.json(trace=True, indent=None))["trace"][0]
    assert (kind, core, what, amount) == ("dma", "device 0", "x to scratch", BLOCK)
    assert line == report.trace[0].line


def unfinished(x: Any, o: Any, scratch: Any, semaphore: Any) -> None:
    step = pl.program_id(0)
    fetch = pltpu.make_async_copy(x.at[pl.ds(step * 8, 8)], scratch, semaphore)
    fetch.start()
    o[...] = scratch[...]

    @pl.when(step < 3)
    def finish() -> None:
        fetch.wait()


def test_hazards_are_gathered_in_the_json_form_and_the_print() -> None:
    report = report_of(unfinished, collect=True, allow_unwritten=True)
    kinds = [errors.ReadBeforeWaitError, errors.MissingWaitError]
    assert [type(h) for h in report.hazards] == kinds
    made = json.loads(report.json())["hazards"]
    assert [set(h) for h in made] == [HAZARD_KEYS] * 2
    assert [h["kind"] for h in made] == [k.__name__ for k in kinds]
    assert made[0]["op"] == "vector.load"
    text = str(report)
    assert "hazards    2" in text
    assert "  ReadBeforeWaitError: vector.load: memory is read that a DMA in flight writes" in text
    assert "test_report.py:" in text
    with pytest.raises(errors.ReadBeforeWaitError):
        report.raise_for_hazards()


def late(x: Any, o: Any, scratch: Any, semaphore: Any) -> None:
    """Reads too early in its third step only."""
    step = pl.program_id(0)
    fetch = pltpu.make_async_copy(x.at[pl.ds(step * 8, 8)], scratch, semaphore)
    fetch.start()

    @pl.when(step != 2)
    def wait() -> None:
        fetch.wait()

    o[...] = scratch[...]

    @pl.when(step == 2)
    def wait_late() -> None:
        fetch.wait()


def test_a_hazard_tells_the_grid_step() -> None:
    (hazard,) = report_of(late, collect=True).hazards
    assert hazard.step == "(2,)"
    assert "  grid step: (2,)\n" in str(hazard)
    of_every_step, after_the_last = report_of(unfinished, collect=True, allow_unwritten=True).hazards
    assert (of_every_step.step, after_the_last.step) == ("(0,)", None)


def test_a_hazard_of_a_kernel_without_a_grid_has_no_step() -> None:
    call = pl.pallas_call(
        unfinished,
        grid=(1,),
        in_specs=[HBM],
        out_specs=pl.BlockSpec(TILE, lambda i: (i, 0)),
        out_shape=jax.ShapeDtypeStruct(TILE, X.dtype),
        scratch_shapes=[pltpu.VMEM(TILE, jnp.float32), DMA],
    )
    (hazard,) = simulate(lowered(call, X[:8]), X[:8], collect=True).hazards
    assert hazard.step is None
    assert "grid step" not in str(hazard)


def test_the_print_of_a_clean_run() -> None:
    lines = str(report_of(seed=2)).splitlines()
    assert lines[0] == "kernel     staged"
    assert lines[1].startswith("engine     numpy, seed 2, ")
    assert lines[2] == "outputs    float32[32, 128]"
    assert "DMAs       8, 32.0 KiB" in lines
    assert "memory     hbm 32.0 KiB, vmem 12.0 KiB" in lines
    assert lines[-1] == "hazards    none"
    assert all(len(line) < 120 for line in lines)


def test_several_devices_and_their_outputs() -> None:
    shards = list(ramp(2, *TILE))
    report = run_devices(on_devices(swap, shards, scratch=[DMA, DMA]), shards)
    np.testing.assert_array_equal([o[0] for o in report.outputs_of], shards[::-1])
    np.testing.assert_array_equal(report.outputs[0], shards[1])
    assert report.dmas == 2
    assert "devices    2" in str(report)
    assert json.loads(report.json())["outputs"] == [["float32[8, 128]"]] * 2
    assert {e.core for e in report.trace} == {"device 0", "device 1"}
    assert any(e.what.endswith(" on device 1") for e in report.trace if e.kind == "dma")


def test_memory_is_of_the_core_that_uses_most() -> None:
    report = simulate_devices(SCOPES, [[X[:8]], [X[:8]]])
    assert report.memory["vmem"] == 6 * BLOCK
    assert report.op_counts["vector.load"] == 2


def test_unwritten_elements_are_counted() -> None:
    def part(x: Any, o: Any, scratch: Any, semaphore: Any) -> None:
        o[pl.ds(0, 3)] = jnp.ones((3, 128), jnp.float32)

    report = report_of(part, allow_unwritten=True)
    assert report.unwritten == {"o": 4 * 5 * 128}
    assert "unwritten  o 2,560 elements" in str(report)
    with pytest.raises(errors.UnwrittenOutputError, match=r"2560 of 4096 .*, the first at \[3, 0\]"):
        report_of(part)
