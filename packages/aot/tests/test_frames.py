"""The kernel's starts and waits are found where the compiler put them."""

from __future__ import annotations

from mosaic_tpu.aot._frames import _places

S, W = "start", "wait"
#: Each bundle takes a cycle.
FAR = [float(n) for n in range(101)]


def test_in_the_kernels_order_each_is_where_its_bundle_is() -> None:
    assert _places([(7, S), (8, W)], [(20, S), (90, W)], FAR) == {7: (20.0,), 8: (90.0,)}


def test_in_another_order_they_are_spread_evenly() -> None:
    assert _places([(7, S), (8, W), (9, S)], [(20, S), (30, S), (90, W)], FAR) == {7: (25.0,), 8: (50.0,), 9: (75.0,)}
    assert _places([(7, S), (8, W), (9, S)], [], FAR) == {7: (25.0,), 8: (50.0,), 9: (75.0,)}


def test_the_compiler_makes_one_wait_of_several() -> None:
    ops = [(1, S), (2, S), (3, W), (4, W)]
    assert _places(ops, [(10, S), (20, S), (70, W)], FAR) == {1: (10.0,), 2: (20.0,), 3: (70.0,), 4: (70.0,)}
    # But of two starts it makes no one.
    assert _places(ops, [(10, S), (70, W)], FAR)[1] == (25.0,)


def test_scalars_are_staged_before_the_kernel_begins() -> None:
    staged = [(1, S), (2, S), (5, W)]
    assert _places([(7, S), (8, W)], [*staged, (20, S), (90, W)], FAR) == {7: (20.0,), 8: (90.0,)}
    assert _places([(7, S), (8, W)], [(20, S), (90, W), *staged[:2]], FAR)[7] != (20.0,)


def test_what_was_unrolled_has_a_place_for_each_time() -> None:
    ops = [(7, S), (8, W)] * 2
    assert _places(ops, [(10, S), (40, W), (60, S), (90, W)], FAR) == {7: (10.0, 60.0), 8: (40.0, 90.0)}
