"""Regions nest, carry and yield; misuse is refused, and an exception of the kernel's passes through."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from mosaic_tpu.builder import Args, Builder, Ref, Scalar, Value, f32, i32
from mosaic_tpu.builder import errors as e

from .conftest import Raises

# ------------------------------------------------------------------------------------------------- what works


def test_a_loop_carries_values(b: Builder, a: Args) -> None:
    with b.for_(0, a.i, init=[b.lift(0), b.zeros((8, 128), f32)]) as loop:
        count, total = loop.carried
        loop.yield_(count + loop.iv, total + a.x[...])
    count, total = loop.results
    assert count.dtype is i32 and total.shape == (8, 128)
    a.y[...] = total
    assert "scf.for %arg" in b.finish().text()


def test_bounds_of_ints_make_an_index_counter(b: Builder, a: Args) -> None:
    with b.for_(0, 4) as loop:
        assert str(loop.iv.type) == "index"
    with b.for_(0, a.i, 2) as loop:
        assert loop.iv.dtype is i32
    b.finish()


def test_regions_without_results_end_by_themselves(b: Builder, a: Args) -> None:
    with b.for_(0, 4), b.if_(a.i < 1):
        b.scalar_store(a.lens, a.i, [0])
    with b.if_else(a.i < 1) as choice:
        with choice.then:
            pass
        with choice.otherwise:
            choice.yield_else()
    with b.if_(a.i < 1) as single:
        single.yield_then()
    with b.region():
        pass
    b.finish()


def test_the_else_branch_is_empty_as_in_pallas_or_not_there() -> None:
    for empty_else in (True, False):
        b = Builder("k")
        a = b.declare_args({"i": Scalar(i32), "x": Ref((8, 128), f32)}, grid=(2,))
        with b.if_(a.i < 1, empty_else=empty_else):
            a.x[...] = b.pallas.zeros((8, 128), f32)
        assert ("else" in b.finish().text(canonical=False)) == empty_else


def test_a_block_may_be_the_decorator_of_a_function() -> None:
    """As in Pallas: the function is run at once, and the ops are those of the with block."""

    def kernel(decorated: bool) -> str:
        b = Builder("k")
        a = b.declare_args({"i": Scalar(i32), "x": Ref((8, 128), f32)}, grid=(2,))
        if decorated:

            @b.pallas.when(a.i < 1)
            def _() -> None:
                a.x[...] = b.pallas.zeros((8, 128), f32)

            @b.pallas.run_scoped()
            def _() -> None:
                b.alloca((8, 128), f32)[...] = a.x[...]

        else:
            with b.pallas.when(a.i < 1):
                a.x[...] = b.pallas.zeros((8, 128), f32)
            with b.pallas.run_scoped():
                b.alloca((8, 128), f32)[...] = a.x[...]
        return b.finish().text(canonical=False)

    assert kernel(decorated=True) == kernel(decorated=False)
    assert "vector_store" in kernel(decorated=True)


def test_regions_nest(b: Builder, a: Args) -> None:
    with b.for_(0, a.i, init=[b.lift(0)]) as outer:
        with b.if_else(outer.iv < 2, [b.scalar_ty(i32)]) as choice:
            with choice.then:
                with b.for_(0, outer.iv, init=outer.carried) as inner:
                    inner.yield_(inner.carried[0] + inner.iv + a.i)
                choice.yield_then(*inner.results)
            with choice.otherwise:
                with b.region([b.scalar_ty(i32)]) as scope:
                    scope.yield_(outer.carried[0])
                choice.yield_else(*scope.results)
        outer.yield_(*choice.results)
    b.scalar_store(a.lens, outer.results[0], [0])
    b.finish()


def test_a_while_may_forward_other_types(b: Builder, a: Args) -> None:
    with b.while_([a.i], [b.scalar_ty(f32)]) as loop:
        with loop.before:
            (count,) = loop.before_carried
            loop.yield_before(count < 10, count.to(f32))
        with loop.after:
            (value,) = loop.after_carried
            loop.yield_after(value.to(i32) + 1)
    assert loop.results[0].dtype is f32
    b.finish()


def test_a_type_may_be_given_by_a_value(b: Builder, a: Args) -> None:
    with b.if_else(a.i < 1, [a.x[...]]) as choice:
        with choice.then:
            choice.yield_then(a.x[...])
        with choice.otherwise:
            choice.yield_else(b.zeros((8, 128), f32))
    assert choice.results[0].shape == (8, 128)
    b.finish()


def test_outer_values_are_seen_inside(b: Builder, a: Args) -> None:
    outside = b.lift(1)
    with b.for_(0, 4), b.if_(outside < a.i):
        b.addi(outside, a.i)
    b.finish()


# ------------------------------------------------------------------------------------------------- yields


def test_carried_values_must_be_yielded(b: Builder, a: Args, raises: Raises) -> None:
    with raises(e.YieldMissingError, "scf.yield", "(i32)", hint="yield_"), b.for_(0, 4, init=[a.i]):
        pass


def test_a_branch_must_yield_its_results(b: Builder, a: Args, raises: Raises) -> None:
    with raises(e.YieldMissingError, "scf.yield", "i32"), b.if_else(a.i < 1, [b.scalar_ty(i32)]) as choice, choice.then:
        pass


@pytest.mark.parametrize("branch", ["then", "otherwise"])
def test_both_branches_must_be_built(b: Builder, a: Args, raises: Raises, branch: str) -> None:
    with raises(e.YieldMissingError, "scf.if", hint="with x."), b.if_else(a.i < 1) as choice, getattr(choice, branch):
        pass


def test_a_while_must_test(b: Builder, a: Args, raises: Raises) -> None:
    with raises(e.YieldMissingError, "scf.condition"), b.while_([a.i]) as loop, loop.before:
        pass


def test_a_region_yields_once(b: Builder, a: Args, raises: Raises) -> None:
    with b.for_(0, 4, init=[a.i]) as loop:
        loop.yield_(a.i)
        with raises(e.YieldTwiceError, "scf.yield", "i32", hint="last statement"):
            loop.yield_(a.i)
    b.finish()


def test_a_while_tests_once(b: Builder, a: Args, raises: Raises) -> None:
    with b.while_([a.i]) as loop:
        with loop.before:
            more = a.i < 1
            loop.condition(more, a.i)
            with raises(e.YieldTwiceError, "scf.condition"):
                loop.condition(more, a.i)
        with loop.after:
            loop.yield_(a.i)
    b.finish()


def test_nothing_follows_a_yield(b: Builder, a: Args, raises: Raises) -> None:
    with b.for_(0, 4, init=[a.i]) as loop:
        loop.yield_(a.i)
        with raises(e.YieldTwiceError, "arith.addi", hint="last statement"):
            b.addi(a.i, a.i)
    b.finish()


@pytest.mark.parametrize("count", [0, 2])
def test_as_many_values_are_yielded_as_carried(b: Builder, a: Args, raises: Raises, count: int) -> None:
    with b.for_(0, 4, init=[a.i]) as loop:
        with raises(e.YieldTypeError, "scf.yield", "(i32)"):
            loop.yield_(*[a.i] * count)
        loop.yield_(a.i)
    b.finish()


def test_values_are_yielded_in_the_carried_types(b: Builder, a: Args, raises: Raises) -> None:
    with b.for_(0, 4, init=[a.i]) as loop:
        wrong = a.i.to(f32)
        with raises(e.YieldTypeError, "scf.yield", "(i32)", "operands: f32"):
            loop.yield_(wrong)
        loop.yield_(a.i)
    b.finish()


def test_an_idioms_body_returns_its_carry(b: Builder, a: Args, raises: Raises) -> None:
    with raises(e.YieldTypeError, "fori_loop", "0 values for a carry of 1"):
        b.pallas.fori_loop(0, 4, lambda i, s: None, (0,))


def test_only_the_innermost_region_yields(b: Builder, a: Args, raises: Raises) -> None:
    with b.for_(0, 4, init=[a.i]) as outer:
        with b.for_(0, 4), raises(e.RegionOrderError, "scf.yield", hint="whose with block"):
            outer.yield_(a.i)
        outer.yield_(a.i)
    b.finish()


# ------------------------------------------------------------------------------------------------- order and scope


def test_results_are_read_after_the_region(b: Builder, a: Args, raises: Raises) -> None:
    with b.for_(0, 4, init=[a.i]) as loop:
        with raises(e.RegionOrderError, "scf.for", hint="with block"):
            loop.results  # noqa: B018
        loop.yield_(a.i)
    assert len(loop.results) == 1


def test_a_region_is_entered_once(b: Builder, a: Args, raises: Raises) -> None:
    with b.for_(0, 4) as loop:
        pass
    with raises(e.RegionOrderError, "entered twice"), loop:
        pass
    b.finish()


def test_a_then_value_is_unknown_in_else(b: Builder, a: Args, raises: Raises) -> None:
    with b.if_else(a.i < 1) as choice:
        with choice.then:
            inner = b.lift(1)
        with choice.otherwise, raises(e.ClosedRegionError, "add", "i32", hint=".results"):
            inner + 1
    b.finish()


@pytest.mark.parametrize("which", ["iv", "carried", "inner"])
def test_a_loops_values_are_unknown_after_it(b: Builder, a: Args, raises: Raises, which: str) -> None:
    with b.for_(0, a.i, init=[a.i]) as loop:
        inner = b.lift(1)
        loop.yield_(inner)
    value = {"iv": loop.iv, "carried": loop.carried[0], "inner": inner}[which]
    with raises(e.ClosedRegionError, "arith.addi"):
        b.addi(a.i, value)


def test_a_results_value_lives_where_its_op_stands(b: Builder, a: Args, raises: Raises) -> None:
    with b.if_(a.i < 1):
        with b.for_(0, 4, init=[a.i]) as loop:
            loop.yield_(a.i)
        result = loop.results[0]
    with raises(e.ClosedRegionError, "arith.addi"):
        b.addi(result, result)


def test_a_ref_does_not_leave_a_region(b: Builder, a: Args, raises: Raises) -> None:
    with raises(e.ArityError, "tpu.region"):
        b.region([b.ref_ty((8, 128), f32)])


def test_an_allocation_ends_with_its_region(b: Builder, a: Args, raises: Raises) -> None:
    with b.pallas.run_scoped():
        buffer = b.alloca((8, 128), f32)
    with raises(e.ClosedRegionError, "load"):
        buffer[...]


# ------------------------------------------------------------------------------------------------- conditions, bounds


def test_a_condition_is_an_i1(b: Builder, a: Args, raises: Raises) -> None:
    with raises(e.DTypeError, "scf.if", "i32", hint="compare"):
        b.if_(a.i)


def test_a_condition_is_a_scalar(b: Builder, a: Args, raises: Raises) -> None:
    mask = a.x[...] < 0.0
    with raises(e.KindError, "scf.if", "vector<8x128xi1>", hint="select"):
        b.if_(mask)


@pytest.mark.parametrize("condition", [True, None, 1])
def test_a_condition_is_a_value(b: Builder, a: Args, raises: Raises, condition: object) -> None:
    with raises(e.KindError, "scf.if", hint="b.lift"):
        b.if_(condition)  # type: ignore[arg-type]


def test_bounds_have_one_type(b: Builder, a: Args, raises: Raises) -> None:
    with raises(e.DTypeError, "scf.for", "index"):
        b.for_(b.c_index(0), a.i)


def test_bounds_are_integers(b: Builder, a: Args, raises: Raises) -> None:
    with raises(e.DTypeError, "scf.for", "f32"):
        b.for_(b.lift(0.0), 4)


def test_a_static_bound_is_an_int(b: Builder, a: Args, raises: Raises) -> None:
    with raises(e.AttributeValueError, "scf.for", "1.5"):
        b.for_(0, 1.5)  # type: ignore[arg-type]


def test_a_loop_with_run_time_bounds_is_not_unrolled(b: Builder, a: Args, raises: Raises) -> None:
    with raises(e.AttributeValueError, "fori_loop", "unroll"):
        b.pallas.fori_loop(0, a.i, lambda i: None, unroll=2)


# ------------------------------------------------------------------------------------------------- exceptions


class _KernelError(Exception):
    pass


@pytest.mark.parametrize("idiom", ["for_", "if_", "when", "region", "run_scoped", "if_else", "while_", "fori_loop"])
def test_an_exception_in_a_region_is_the_users_own(b: Builder, a: Args, idiom: str) -> None:
    with pytest.raises(_KernelError):
        match idiom:
            case "for_":
                with b.for_(0, 4, init=[a.i]):
                    raise _KernelError
            case "if_":
                with b.if_(a.i < 1):
                    raise _KernelError
            case "when":
                with b.pallas.when(a.i < 1):
                    raise _KernelError
            case "region":
                with b.region([b.scalar_ty(i32)]):
                    raise _KernelError
            case "run_scoped":
                with b.pallas.run_scoped():
                    raise _KernelError
            case "if_else":
                with b.if_else(a.i < 1, [b.scalar_ty(i32)]) as choice, choice.then:
                    raise _KernelError
            case "while_":
                with b.while_([a.i]) as loop, loop.before:
                    raise _KernelError
            case _:
                b.pallas.fori_loop(0, a.i, _raise)
    # the builder is where the with block stood
    assert b.addi(a.i, a.i).dtype is i32
    assert b.current_block == b._root.block  # type: ignore[union-attr]


def _raise(i: object) -> None:
    raise _KernelError


@pytest.mark.parametrize("verify", [True, False, None])
@pytest.mark.parametrize("built", [True, False])
def test_after_an_exception_an_incomplete_region_is_refused(
    b: Builder, a: Args, raises: Raises, verify: bool | None, built: bool
) -> None:
    if built:
        with pytest.raises(_KernelError), b.for_(0, 4, init=[a.i]):
            raise _KernelError
    else:
        with pytest.raises(_KernelError), b.if_else(a.i < 1):
            raise _KernelError
    with raises(e.RegionOrderError, "finish", "left by an exception", hint="build the kernel again"):
        b.finish(verify=verify)


def test_an_exception_after_the_yield_leaves_a_complete_region(b: Builder, a: Args) -> None:
    with pytest.raises(_KernelError), b.for_(0, 4, init=[a.i]) as loop:
        loop.yield_(*loop.carried)
        raise _KernelError
    b.finish()


def test_a_misuse_deep_inside_closes_every_region(b: Builder, a: Args) -> None:
    with pytest.raises(e.DTypeError), b.for_(0, 4), b.if_(a.i < 1), b.pallas.when(a.i < 2):
        b.addf(a.i, a.i)
    assert b.current_block == b._root.block  # type: ignore[union-attr]


# ----------------------------------------------------------------------------------- numbers that a loop leaves alone


def _constants(b: Builder) -> list[str]:
    return [str(o) for o in b.current_block.operations if o.operation.name == "arith.constant" and " 77 " in str(o)]


def test_a_number_that_nobody_reads_has_no_constant(b: Builder, a: Args) -> None:
    _, total = b.pallas.fori_loop(0, 4, lambda i, n, c: (n, c + i), (77, a.i))
    assert not _constants(b)
    (changed,) = b.pallas.fori_loop(0, 4, lambda i, c: (c + i,), (77,))
    assert len(_constants(b)) == 1 and changed.dtype is total.dtype is i32


LOOPS: dict[str, Callable[[Builder, Args, object], tuple[object, ...]]] = {
    "fori_loop": lambda b, a, n: b.pallas.fori_loop(0, 4, lambda i, n, c: (n, c + n), (n, a.i)),
    "unrolled": lambda b, a, n: b.pallas.fori_loop(0, 4, lambda i, n, c: (n, c + n), (n, a.i), unroll=True),
    "dynamic": lambda b, a, n: b.pallas.fori_loop(0, a.i, lambda i, n, c: (n, c + n), (n, a.i)),
    "never": lambda b, a, n: b.pallas.fori_loop(0, 0, lambda i, n, c: (n, c + n), (n, a.i)),
    "while_loop": lambda b, a, n: b.pallas.while_loop(lambda n, c: c < 9, lambda n, c: (n, c + n), (n, a.i)),
    "loop": lambda b, a, n: b.pallas.loop(0, 4, init_carry=(n, a.i))(lambda i, n, c: (n, c + n)),
}


@pytest.mark.parametrize("loop", LOOPS.values(), ids=LOOPS)
@pytest.mark.parametrize("number", [77, np.int32(77)])
def test_a_number_that_stays_comes_out_as_that_number(
    b: Builder, a: Args, loop: Callable[[Builder, Args, object], tuple[object, ...]], number: object
) -> None:
    found, total = loop(b, a, number)
    assert found is number and isinstance(total, Value)
    one = b.lift(1)
    assert loop(b, a, one)[0]._ir == one._ir  # type: ignore[attr-defined]


def test_what_comes_out_of_a_loop_as_a_number_is_computed_with_before_the_kernel_runs(b: Builder, a: Args) -> None:
    n, _ = b.pallas.fori_loop(0, 4, lambda i, n, c: (n, c + n), (70, a.i))
    made = b.lift(n + 7)
    assert len(_constants(b)) == 1 and made.dtype is i32 and list(range(n)) == list(range(70))


def test_a_number_that_changes_comes_out_as_a_value(b: Builder, a: Args) -> None:
    swapped = b.pallas.fori_loop(0, 4, lambda i, n, m: (m, n), (77, 78))
    twice = b.pallas.fori_loop(0, 4, lambda i, n, m: (n, n), (77, 78))
    assert [type(v) for v in (*swapped, *twice)] == [Value, Value, int, Value]


@pytest.mark.parametrize("loop", LOOPS.values(), ids=LOOPS)
def test_a_carry_that_stays_is_a_number_or_a_value(
    b: Builder, a: Args, raises: Raises, loop: Callable[[Builder, Args, object], tuple[object, ...]]
) -> None:
    with raises(e.KindError, "carry", "'x' is a str"):
        loop(b, a, "x")
    with raises(e.ConstantError, "carry", "does not fit in i32"):
        loop(b, a, 1 << 31)
    with raises(e.ClosedRegionError):
        loop(b, a, _of_a_closed_region(b))


def _of_a_closed_region(b: Builder) -> Value:
    with b.pallas.run_scoped():
        return b.lift(1)


# ----------------------------------------------------------------------------------------------------- unrolled loops


def test_the_body_of_an_unrolled_loop_is_called_once_and_emitted_each_time(b: Builder, a: Args) -> None:
    calls = []

    def body(i: Value, total: Value) -> tuple[Value]:
        calls.append(i)
        with b.pallas.when(i < 2):
            a.y[i] = a.x[i] * 77.5
        return (total + i,)

    b.pallas.fori_loop(3, 6, body, (a.i,), unroll=True)
    text = b.finish().text(canonical=False, locations=True)
    assert len(calls) == 1
    assert text.count("arith.mulf") == text.count("scf.if") == 3 and "scf.for" not in text
    assert [f"arith.constant {n} : i32" in text for n in (2, 3, 4, 5, 6)] == [True, True, True, True, False]
    line = body.__code__.co_firstlineno + 3
    assert text.count(f'test_control_flow.py":{line}:') >= 1


def test_what_an_unrolled_loop_made_inside_stays_inside(b: Builder, a: Args) -> None:
    made: list[Value] = []

    def body(i: Value) -> None:
        made.append(i + 1)

    b.pallas.fori_loop(0, 2, body, unroll=2)
    with pytest.raises(e.ClosedRegionError):
        made[0] + 1


# --------------------------------------------------------------------------------------- counters of the body's own


def _own_counter(b: Builder, start: object, **how: int) -> tuple[str, Value]:
    """The results of a loop that does not read its counter, and counts."""
    count, _ = b.pallas.fori_loop(0, 4, lambda i, k, c: (k + 1, c * k), (start, b.lift(1)), **how)  # type: ignore
    return str(count._ir.owner).strip(), count


def test_a_counter_of_the_bodys_own_is_the_loops(b: Builder, a: Args) -> None:
    made, _ = _own_counter(b, 0)
    assert "value = 4" in made  # as Pallas has it
    made, count = _own_counter(b, a.i)
    assert "arith.addi" in made and count._ir.owner.operands[0] == a.i._ir  # Pallas has 4 here, too
    a.y[count] = a.x[count]
    text = b.finish().text(canonical=False)
    assert text.count("scf.for") == 2 and text.count("iter_args") == 2 and text.count("arith.addi") == 2


def test_a_counter_of_the_bodys_own_comes_to_what_it_should_when_unrolled(b: Builder, a: Args) -> None:
    assert "value = 9" in _own_counter(b, 5, unroll=4)[0]
    assert "arith.addi" in _own_counter(b, a.i, unroll=4)[0]
    assert b.finish().text(canonical=False).count("tpu.late_unroll = 4") == 1


@pytest.mark.parametrize(
    "body",
    [
        lambda i, k, c: (k + 1, c + i),
        lambda i, k, c: (k + 2, c),
        lambda i, k, c: (1 + k, c),
        lambda i, k, c: (c, k + 1),
    ],
    ids=["reads the counter", "adds 2", "adds to 1", "not the first"],
)
def test_what_is_no_counter_is_carried(b: Builder, a: Args, body: Callable[..., tuple[Value, ...]]) -> None:
    b.pallas.fori_loop(0, 4, body, (a.i, b.lift(1)))
    assert "iter_args" in b.finish().text(canonical=False)
    assert any(o.operation.name == "arith.addi" for o in _body_of_for(b))


def _body_of_for(b: Builder) -> list[object]:
    loop = next(o for o in b._root.block.operations if o.operation.name == "scf.for")
    return list(loop.operation.regions[0].blocks[0].operations)
