"""Lifting takes time that is linear in the number of ops. Bounds leave room for a loaded machine."""

from __future__ import annotations

import gc
import time

import pytest

from mosaic_tpu.lift import SourceError, UnsupportedModuleError, lift

from .lift_kit import DOUBLE, module


def seconds(count: int) -> float:
    """CPU time for a kernel of so many ops, half of whose values live all along."""
    ops = [f"%v{n} = arith.constant {n}.0 : f32" for n in range(count // 2)]
    ops += [f"%w{n} = arith.addf %v{n}, %v{count // 2 - 1 - n} : f32" for n in range(count // 2)]
    text = module(*ops)
    start = time.process_time()
    lift(text)
    return time.process_time() - start


def test_four_thousand_ops_take_less_than_two_seconds() -> None:
    seconds(100)  # what is made once
    assert seconds(4000) < 2


def test_time_is_linear() -> None:
    seconds(100)
    small, large = min(seconds(1000) for _ in range(2)), seconds(8000)
    assert large < 20 * small  # eight times the ops; sixty-four times were it quadratic


@pytest.mark.parametrize("on", [True, False])
def test_the_collector_is_as_it_was(on: bool) -> None:
    (gc.enable if on else gc.disable)()
    try:
        lift(DOUBLE, style="idioms")
        assert gc.isenabled() == on
        for wrong, error in ((DOUBLE[:-3], SourceError), ("module { module { } }", SourceError)):
            with pytest.raises(error):
                lift(wrong)
            assert gc.isenabled() == on
        with pytest.raises(UnsupportedModuleError):
            lift(DOUBLE.replace("func.func", "memref.global @g : memref<4xf32> func.func"))
        assert gc.isenabled() == on
    finally:
        gc.enable()
