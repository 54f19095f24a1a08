"""Endless and oversized runs end in an error; an interrupt leaves nothing behind."""

from __future__ import annotations

import signal
import time
from typing import Any

import numpy as np
import pytest
import threadpoolctl

from mosaic_tpu.sim import errors, simulate, simulate_devices
from packages.sim.tests.conftest import ramp

VMEM = "memref<8x128xf32, #tpu.memory_space<vmem>>"
ENDLESS = f"""
func.func @endless(%x: {VMEM}, %o: {VMEM}) {{
  %c = arith.constant 0 : index
  %true = arith.constant true
  scf.while : () -> () {{
    scf.condition(%true)
  }} do {{
    %v = vector.load %x[%c, %c] : {VMEM}, vector<8x128xf32>
    vector.store %v, %o[%c, %c] : {VMEM}, vector<8x128xf32>
    scf.yield
  }}
  return
}}"""
X = ramp(8, 128)


def looping(count: int) -> str:
    return f"""
func.func @looping(%x: {VMEM}, %o: {VMEM}) {{
  %c = arith.constant 0 : index
  %low = arith.constant 0 : i32
  %high = arith.constant {count} : i32
  %one = arith.constant 1 : i32
  scf.for %i = %low to %high step %one : i32 {{
    %v = vector.load %x[%c, %c] : {VMEM}, vector<8x128xf32>
    vector.store %v, %o[%c, %c] : {VMEM}, vector<8x128xf32>
  }}
  return
}}"""


def on_grid(*bounds: int) -> str:
    indices = ", ".join(f"%i{n}: i32" for n in range(len(bounds)))
    semantics = ", ".join(["#tpu.dimension_semantics<parallel>"] * len(bounds))
    listed = ", ".join(map(str, bounds))
    attributes = f"dimension_semantics = [{semantics}], iteration_bounds = array<i64: {listed}>"
    head = f"@grid({indices}, %x: {VMEM}, %o: {VMEM}) attributes {{{attributes}}}"
    return looping(1).replace(f"@looping(%x: {VMEM}, %o: {VMEM})", head)


def test_a_step_limit() -> None:
    with pytest.raises(errors.LimitError, match="more than 5000 steps") as caught:
        simulate(ENDLESS, X, max_steps=5000)
    assert caught.value.seed == 0
    assert "raise timeout or max_steps" in str(caught.value)


@pytest.mark.parametrize(("steps", "limit"), [(9, 10), (1023, 1024), (3000, 3001)])
def test_a_step_limit_is_exact(steps: int, limit: int) -> None:
    """The grid's one step counts too."""
    assert simulate(looping(steps), X, max_steps=limit).steps == limit
    with pytest.raises(errors.LimitError):
        simulate(looping(steps), X, max_steps=limit - 1)


def test_a_time_limit() -> None:
    started = time.monotonic()
    with pytest.raises(errors.LimitError, match=r"more than 0\.3 s"):
        simulate(ENDLESS, X, timeout=0.3)
    assert time.monotonic() - started < 10


def test_a_limit_holds_for_all_devices_together() -> None:
    with pytest.raises(errors.LimitError):
        simulate_devices(looping(600), [[X], [X]], max_steps=1000)
    assert simulate_devices(looping(400), [[X], [X]], max_steps=1000).steps == 802


@pytest.mark.parametrize("options", [{}, {"shuffle": True}])
def test_a_grid_without_end_is_limited_too(options: dict[str, Any]) -> None:
    """A range is shuffled as a list, so that one dimension stays small there."""
    bounds = (1000, 1000, 1000) if options else (2**31 - 1, 2**31 - 1)
    with pytest.raises(errors.LimitError):
        simulate(on_grid(*bounds), X, max_steps=3000, **options)


@pytest.mark.parametrize("shape", [(2**40, 128), (2**62, 128), (10**6, 10**6)])
def test_arrays_larger_than_memory(shape: tuple[int, int]) -> None:
    text = f"""
func.func @large(%x: {VMEM}, %o: memref<{shape[0]}x{shape[1]}xf32, #tpu.memory_space<any>>) {{
  return
}}"""
    with pytest.raises(errors.LimitError, match="memory"):
        simulate(text, X)


def test_loops_nested_too_deeply() -> None:
    depth = 30
    loop = "scf.for %i{n} = %c to %d step %d {{\n"
    loops = "".join(loop.format(n=n) for n in range(depth))
    text = f"""
func.func @deep(%x: {VMEM}, %o: {VMEM}) {{
  %c = arith.constant 0 : index
  %d = arith.constant 1 : index
  {loops} vector.store %v, %o[%c, %c] : {VMEM}, vector<8x128xf32> {"}" * depth}
  return
}}""".replace("%d = ", f"%v = vector.load %x[%c, %c] : {VMEM}, vector<8x128xf32>\n  %d = ")
    with pytest.raises(errors.SimulationError, match="nested too deeply"):
        simulate(text, X)


def test_an_interrupt_leaves_nothing_behind() -> None:
    text = looping(200)
    before = simulate(text, X)
    threads = [pool["num_threads"] for pool in threadpoolctl.threadpool_info()]
    settings = np.geterr()
    old = signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    try:
        with pytest.raises(KeyboardInterrupt):
            simulate(ENDLESS, X)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
    assert [pool["num_threads"] for pool in threadpoolctl.threadpool_info()] == threads
    assert np.geterr() == settings
    after = simulate(text, X)
    assert after.as_dict() | {"seconds": 0} == before.as_dict() | {"seconds": 0}
    np.testing.assert_array_equal(after.outputs[0], before.outputs[0])
