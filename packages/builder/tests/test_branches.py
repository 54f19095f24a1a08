"""`lax.cond`, `lax.switch` and `pl.when`: the types of what branches return, numbers, and what Python knows itself."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mosaic_tpu.builder import Args, Builder, bf16, f32, i32, u32
from mosaic_tpu.builder import errors as e

from .conftest import Raises, declare

type Chosen = Callable[..., Any]


def _cond(b: Builder, a: Args, *branches: Callable[[], Any], **more: Any) -> Any:
    return b.pallas.cond(a.i < 2, branches[0], branches[-1], **more)


def _switch(b: Builder, a: Args, *branches: Callable[[], Any], **more: Any) -> Any:
    return b.pallas.switch(a.i, [branches[0], branches[0], branches[-1]], **more)


BOTH = pytest.mark.parametrize("choose", [_cond, _switch])


@BOTH
def test_the_first_branch_gives_the_types(b: Builder, a: Args, choose: Chosen) -> None:
    x = a.x[...]
    n, y, half = choose(
        b, a, lambda: (a.i, x, b.pallas.astype(x, bf16)), lambda: (a.i + 1, x * 2.0, b.pallas.zeros((8, 128), bf16))
    )
    assert (n.dtype, n.shape) == (i32, ())
    assert (y.dtype, y.shape) == (f32, (8, 128))
    assert half.dtype is bf16
    b.finish()


@BOTH
def test_numbers_are_results(b: Builder, a: Args, choose: Chosen) -> None:
    n, y, z = choose(b, a, lambda: (1, 1.0, np.float32(2)), lambda: (a.i, 2.0, 3.0))
    assert (n.dtype, y.dtype, z.dtype) == (i32, f32, f32)
    b.finish()


@BOTH
def test_what_no_branch_changes_is_no_result(b: Builder, a: Args, choose: Chosen) -> None:
    x = a.x[...]
    same, other = choose(b, a, lambda: (x, a.i), lambda: (x, a.i + 1))
    assert same is x
    made = other.ir.owner
    assert made.name == "scf.if" and len(made.results) == 1
    b.finish()


@BOTH
def test_what_one_branch_changes_is_a_result(b: Builder, a: Args, choose: Chosen) -> None:
    x = a.x[...]
    other = choose(b, a, lambda: (x,), lambda: (x + 1.0,))[0]
    assert other is not x and other.ir.owner.name == "scf.if"


@BOTH
@pytest.mark.parametrize(
    "second",
    [
        lambda b, a: (b.lift(1.0),),
        lambda b, a: (),
        lambda b, a: (a.i, a.i),
        lambda b, a: (a.x[...],),
        lambda b, a: None,
        lambda b, a: (b.pallas.astype(a.i, u32),),  # the same type in MLIR
    ],
)
def test_branches_of_other_types_are_told(b: Builder, a: Args, raises: Raises, choose: Chosen, second: Any) -> None:
    with raises(e.YieldTypeError, choose.__name__[1:], "the first branch returns (i32)", hint="of the same types"):
        choose(b, a, lambda: (a.i,), lambda: second(b, a))


@BOTH
def test_given_types_are_checked(b: Builder, a: Args, raises: Raises, choose: Chosen) -> None:
    branch = lambda: (a.i,)  # noqa: E731 - as a kernel has it
    assert choose(b, a, branch, lambda: (a.i + 1,), results=[b.scalar_ty(i32)])[0].dtype is i32
    with raises(e.YieldTypeError, "the results are (f32)"):
        choose(b, a, branch, branch, results=[b.scalar_ty(f32)])


@pytest.mark.parametrize("known", [True, False, 0, 1])
def test_given_types_are_checked_where_python_knows_the_branch(b: Builder, a: Args, raises: Raises, known: Any) -> None:
    branch = lambda: (a.i,)  # noqa: E731 - as a kernel has it

    def choose(dtype: Any) -> Any:
        types = [b.scalar_ty(dtype)]
        if isinstance(known, bool):
            return b.pallas.cond(known, branch, branch, types)
        return b.pallas.switch(known, [branch, branch], types)

    assert choose(i32)[0].dtype is i32
    for other in (f32, u32):
        with raises(e.YieldTypeError, f"the results are ({other}), this branch (i32)"):
            choose(other)


def test_a_carry_without_a_sign_stays_so(b: Builder, a: Args, raises: Raises) -> None:
    unsigned = b.pallas.astype(a.i, u32)
    assert b.pallas.fori_loop(0, 4, lambda _, n: (n + unsigned,), (unsigned,))[0].dtype is u32
    with raises(e.YieldTypeError, "the loop carries (i32)"):
        b.pallas.fori_loop(0, 4, lambda _, n: (b.pallas.astype(n, u32),), (a.i,))


def test_a_dtype_is_no_type(b: Builder, a: Args, raises: Raises) -> None:
    results: Any = (f32,)
    with raises(e.KindError, "cond: f32 is not a type", hint="b.scalar_ty(f32), b.vector_ty(shape, f32)"):
        b.pallas.cond(a.i < 2, lambda: (1.0,), lambda: (2.0,), results)


@BOTH
def test_a_value_of_a_branch_stays_in_it(b: Builder, a: Args, raises: Raises, choose: Chosen) -> None:
    made: list[Any] = []

    def branch() -> tuple[Any]:
        made.append(a.i + 1)
        return (made[-1],)

    choose(b, a, branch, branch)
    with raises(e.ClosedRegionError, "add"):
        made[0] + 1


@pytest.mark.parametrize("known", [True, False, np.True_, np.False_])
def test_a_cond_that_python_knows_is_its_branch(b: Builder, a: Args, known: bool) -> None:
    found = b.pallas.cond(known, lambda: (a.i + 1,), lambda: (a.i - 1,))[0]
    assert found.ir.owner.name == ("arith.addi" if known else "arith.subi")
    assert "scf.if" not in [op.name for op in b.current_block.operations]
    b.finish()


@pytest.mark.parametrize("known", [True, False, np.True_, np.False_])
@pytest.mark.parametrize("block", [True, False])
def test_a_when_that_python_knows_is_what_it_holds_or_nothing(b: Builder, a: Args, known: bool, block: bool) -> None:
    if block:
        with b.pallas.when(known):
            a.y[...] = a.x[...] + 1.0
    else:

        @b.pallas.when(known)
        def _() -> None:
            assert known
            a.y[...] = a.x[...] + 1.0

    names = [op.name for op in b.current_block.operations]
    assert ("arith.addf" in names) == bool(known) and "scf.if" not in names
    b.finish()


def test_what_a_false_when_held_is_nowhere(b: Builder, a: Args, raises: Raises) -> None:
    with b.pallas.when(False):
        held = a.x[...] + 1.0
    with raises(e.ClosedRegionError, "add"):
        held + 1.0
    del held
    gc.collect()
    b.finish()


def _fails() -> tuple[Any]:
    raise KeyError("the kernel's own")


@pytest.mark.parametrize(
    "use",
    [
        lambda b, a, x: b.pallas.cond(a.i < 2, lambda: (x[0:4] + 1.0,), _fails),
        lambda b, a, x: b.pallas.switch(a.i, [lambda: (x[0:4],), lambda: (x[0:4] * 2.0,), _fails]),
        lambda b, a, x: b.pallas.fori_loop(0, 4, lambda i, c: (c + x[0:4], *_fails()), (x[0:4],)),
        lambda b, a, x: b.pallas.while_loop(lambda c: a.i < 4, lambda c: (c + x, *_fails()), (x,)),
        lambda b, a, x: b.pallas.fori_loop(0, 4, lambda i, c: (c[0:4] + x[0:4],), (x,)),
    ],
)
def test_a_body_that_fails_leaves_the_module_whole_and_unfinished(use: Any) -> None:
    """Its ops use values of the kernel: they must not outlive it, nor be taken for a part of it."""
    for _ in range(20):
        b = Builder("kernel")
        a = declare(b)
        with pytest.raises((KeyError, e.YieldTypeError)):
            use(b, a, a.x[...] + 1.0)
        with pytest.raises(e.RegionOrderError, match="left by an exception"):
            b.finish()
        del a, b
        gc.collect()
