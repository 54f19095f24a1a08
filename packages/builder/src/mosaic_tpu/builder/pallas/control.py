"""Control flow as Pallas lowers it: pl.when, pl.loop, lax.fori_loop, while_loop, cond and switch, pl.run_scoped."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np

from mosaic_tpu.builder import dtypes as dt
from mosaic_tpu.builder._compat import IrOperation
from mosaic_tpu.builder._core import Branch
from mosaic_tpu.builder._registry import idiom
from mosaic_tpu.builder._types import TypeInfo
from mosaic_tpu.builder._value import Number, Operand, Value
from mosaic_tpu.builder.dtypes import DType
from mosaic_tpu.builder.errors import ArityError, AttributeValueError, DTypeError, YieldTypeError
from mosaic_tpu.builder.ops.scf import If, TypeLike
from mosaic_tpu.builder.pallas import _branches, _loops
from mosaic_tpu.builder.pallas._base import Idioms, Scope
from mosaic_tpu.builder.pallas._calls import called

type Carry = tuple[Value, ...]
#: What a loop comes to: values, and numbers where the body left them as they came.
type Carried = tuple[Any, ...]

#: What to write where a condition is no scalar of i1.
_SCALAR = "compare scalars, n > 0; for vectors b.pallas.where, or b.pallas.any(…) first"


class ControlIdioms(Idioms):
    """Structured control flow."""

    def _predicate(self, condition: Value, op: str) -> Value:
        """``i1 → i32``: the branch index of `lax.cond`."""
        self._value(condition, op)
        if condition.dtype is not dt.i1 or condition.is_shaped:
            self._b.fail(
                DTypeError,
                "the condition must be an i1 scalar",
                op=op,
                operands=[condition],
                hint=_SCALAR,
            )
        return self._b.extui(condition, dt.i32)

    def _is_not_0(self, index: Value) -> tuple[Value, Branch]:
        """``!= 0``, and what holds the operands of all branches."""
        zero = self._const(0, dt.i32)
        return self._b.cmpi("ne", index, zero), Branch(self._b._scope, _maker(zero))

    def _if(self, condition: Value, op: str) -> tuple[If, Branch]:
        predicate, branch = self._is_not_0(self._predicate(condition, op))
        made = self._b.if_(predicate)
        made._then._scope.branch = branch
        return made, branch

    @idiom("@pl.when(cond)", "arith.extui", "arith.cmpi", "scf.if", group="control", traits=("region",))
    def when(self, condition: Value | bool) -> Scope:
        """`pl.when` as a with block, or as the decorator of a function without arguments.

        Of Python's own True what is in it is emitted as it stands, of False nothing: a function is then not called,
        and the ops of a block are thrown away.

        Example:
            >>> with b.pallas.when(b.lift(1) < 2):
            ...     b.pallas.store(a.x, b.pallas.zeros((8, 128), f32))
            >>> @b.pallas.when(b.lift(1) < 2)
            ... def _():
            ...     b.pallas.store(a.x, b.pallas.zeros((8, 128), f32))
        """
        if isinstance(condition, bool | np.bool):
            known = bool(condition)
            if type(condition) is not bool:  # to Pallas an array, which it makes a constant of
                self._const(int(condition), dt.i32)
            return Scope("when", nullcontext() if known else self._nowhere(), runs=known)
        return Scope("when", self._when(condition))

    @contextmanager
    def _nowhere(self) -> Generator[None]:
        with _loops.nowhere(self._b):
            yield

    @contextmanager
    def _when(self, condition: Value) -> Generator[None]:
        with self._if(condition, "when")[0]:
            yield

    @idiom(
        "lax.cond(pred, true_fn, false_fn)", "arith.extui", "arith.cmpi", "scf.if", group="control", traits=("region",)
    )
    def cond(
        self,
        condition: Value | bool,
        on_true: Callable[[], Sequence[Operand] | None],
        on_false: Callable[[], Sequence[Operand] | None],
        results: Sequence[TypeLike] | None = None,
    ) -> Carry:
        """`lax.cond`: what the branch returned.

        What both return as it was before is no result of the ``scf.if``, as in JAX, and comes out as it was.

        Args:
            condition: an ``i1`` scalar; of Python's own True or False, that branch alone is emitted.
            on_true: a function without arguments that returns a tuple of values and numbers, or nothing.
            on_false: the same; of the same types.
            results: the types, to have them checked; those of what ``on_true`` returns if omitted.

        Raises:
            YieldTypeError: a branch returns no tuple, or values of other types.

        Example:
            >>> b.pallas.cond(b.lift(1) < 2, lambda: (b.lift(3),), lambda: (b.lift(4),))[0].dtype
            i32
        """
        self._callable("cond", on_true, on_false)
        if isinstance(condition, bool | np.bool):
            self._const(int(condition), dt.i32)
            return self._known("cond", on_true if condition else on_false, results)
        index = self._predicate(condition, "cond")
        test, branch = self._is_not_0(index)
        true, false = self._sides("cond", branch, (on_true, on_false), results)
        return tuple(_branches.choose(self._b, index, test, (false, true)))

    @idiom(
        "lax.switch(index, branches)",
        "arith.maxsi",
        "arith.minsi",
        "arith.cmpi",
        "scf.if",
        group="control",
        traits=("region",),
    )
    def switch(
        self,
        index: Value | int,
        branches: Sequence[Callable[[], Sequence[Operand] | None]],
        results: Sequence[TypeLike] | None = None,
    ) -> Carried:
        """`lax.switch`: the branch of that number, the first or last beyond; one ``scf.if`` inside another.

        Args:
            index: an i32 scalar; of an int, the branch alone is emitted.
            branches: functions without arguments that return a tuple of values and numbers, or nothing.
            results: the types, to have them checked; those of what the first branch returns if omitted.

        Raises:
            ArityError: there is no branch.
            DTypeError: the index is not an i32 scalar.
            YieldTypeError: a branch returns no tuple, or values of other types.

        Example:
            >>> branches = [lambda: (b.lift(10),), lambda: (b.lift(11),), lambda: (a.i,)]
            >>> b.pallas.switch(a.i, branches)[0].dtype
            i32
        """
        b, op = self._b, "switch"
        b._sequence(branches, op)
        self._callable(op, *branches)
        if not branches:
            b.fail(ArityError, "a switch without branches", op=op, hint="one function a case")
        if isinstance(index, Value) and self._value(index, op)._info is not b.types.scalar(dt.i32):
            b.fail(DTypeError, "the index must be an i32 scalar", op=op, operands=[index], hint="b.index_cast(v, i32)")
        known = None if isinstance(index, Value) else b._int(index, op, "index")
        if len(branches) == 1:
            return self._branch(op, branches[0])
        first = self._const(0, dt.i32)
        chosen = self._i32(index, op, "index")
        last = self._const(len(branches) - 1, dt.i32)
        chosen = b.minsi(b.maxsi(chosen, first), last)
        if known is not None:
            return self._known(op, branches[min(max(known, 0), len(branches) - 1)], results)
        test, branch = self._is_not_0(chosen)
        return tuple(_branches.choose(b, chosen, test, self._sides(op, branch, branches, results)))

    def _sides(
        self,
        op: str,
        branch: Branch,
        functions: Sequence[Callable[[], Sequence[Operand] | None]],
        results: Sequence[TypeLike] | None,
    ) -> list[_loops.Built]:
        """The branches, built; ``branch`` holds their operands."""
        infos = None if results is None else self._b._infos(results, op)

        def side(function: Callable[[], Sequence[Operand] | None]) -> Callable[[], Carry]:
            return lambda: self._owned(op, function)

        return _branches.build(self._b, op, branch, [side(f) for f in functions], infos)

    def _known(
        self, op: str, branch: Callable[[], Sequence[Operand] | None], results: Sequence[TypeLike] | None
    ) -> Carry:
        """The branch that Python chooses."""
        infos = None if results is None else self._b._infos(results, op)
        found = self._owned(op, branch)
        _branches.check(self._b, op, found, infos, "the results are")
        return found

    def _owned(self, op: str, branch: Callable[[], Sequence[Operand] | None]) -> Carry:
        """What a branch returned, as values."""
        return tuple(self._own(v) for v in self._branch(op, branch))

    def _branch(self, op: str, branch: Callable[[], Sequence[Operand] | None]) -> Carried:
        """What a branch returned, a tuple or nothing."""
        found = called(op, branch)
        if found is None:
            return ()
        if not isinstance(found, tuple | list):
            hint = "return (x,) for a single one"
            self._b.fail(YieldTypeError, f"a branch returned {type(found).__name__}, no tuple", op=op, hint=hint)
        return tuple(found)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]

    def _init(self, init: Sequence[Operand]) -> list[Value]:
        self._b._sequence(init, "carry")
        return [self._own(v) for v in init]

    @idiom("lax.while_loop(cond, body, init)", "scf.while", group="control", traits=("region",))
    def while_loop(
        self, condition: Callable[..., Value], body: Callable[..., Sequence[Operand]], init: Sequence[Operand]
    ) -> Carried:
        """`lax.while_loop` that is not a counted loop; both functions take the carry unpacked.

        What the body returns as it came, and the condition does not read, is no carry of the ``scf.while``: it comes
        out as it went in, a number as that number.

        Example:
            >>> b.pallas.while_loop(lambda i: i < 4, lambda i: (i + 1,), (0,))[0].dtype
            i32
        """
        self._callable("while_loop", condition, body)
        starts, infos = self._starts_of(init)

        def step(*carried: Value) -> list[Value]:
            return self._next_carry("while_loop", called("while_loop", body, *carried), infos)

        def test(*carried: Value) -> Value:
            return called("while_loop", condition, *carried)

        return tuple(_loops.while_loop(self._b, starts, infos, test, step))

    @idiom("lax.fori_loop(lo, hi, body, init)", "scf.for", group="control", traits=("region",))
    def fori_loop(
        self,
        lower: Value | int,
        upper: Value | int,
        body: Callable[..., Sequence[Operand] | None],
        init: Sequence[Operand] = (),
        *,
        unroll: int | bool = 1,
    ) -> Carried:
        """`lax.fori_loop`: ``body(i, *carry)`` returns the next carry.

        What it returns as it came is no carry of the loop, and comes out as it went in: a number as that number, as in
        JAX, with which Python computes. If the body does not read ``i``, and returns ``c + 1`` for the first carry that
        changes, the loop counts that, as in Pallas, which says that it comes to the number of steps wherever it starts;
        here it comes to what it should.

        Bytes differ from Pallas's where JAX drops what nobody uses, a loop without effects or a carry that is not read
        after it; and by a constant where a carry of this loop is given to another in it that never runs, or that is
        unrolled and does not read it.

        Args:
            lower: first ``i``, an int or an i32 value.
            upper: end, excluded.
            body: called once.
            init: start of the carry.
            unroll: iterations a step, done by the compiler (``tpu.late_unroll``); ``True``, 0 or the trip count unrolls
                here, and then no loop is emitted, but for a body that counts by itself from a value.

        Raises:
            ArityError: the body does not take the index and the carry.
            YieldTypeError: it returns another carry.
            AttributeValueError: ``unroll`` is no number of iterations.

        Example:
            >>> b.pallas.fori_loop(0, 4, lambda i, s: (s + i,), (0,))[0].dtype
            i32
        """
        b, op = self._b, "fori_loop"
        self._callable(op, body)
        low, high = (n if isinstance(n, Value) else b._int(n, op, "bound") for n in (lower, upper))
        factor = unroll if isinstance(unroll, bool) else b._int(unroll, op, "number of unrolled iterations")
        if not 0 <= factor < 1 << 63:
            b.fail(AttributeValueError, f"unroll={unroll}", op=op, hint="True, False, or 0 or more iterations a step")
        if not isinstance(low, Value) and not isinstance(high, Value):
            return self._static_loop(
                self._checked(low, dt.i32, op, "a bound that an i32 holds"), high - low, body, init, factor
            )
        if factor is not False and factor != 1:
            self._b.fail(
                AttributeValueError,
                f"unroll={unroll} of a loop with run-time bounds",
                op="fori_loop",
                hint="JAX refuses it too: unroll loops with static bounds",
            )
        return self._dynamic_loop(low, high, body, init)

    def _starts_of(self, init: Sequence[Operand]) -> tuple[list[_loops.Start], list[TypeInfo]]:
        """What makes the start of each carry, when its turn has come, and the types."""
        b = self._b
        b._sequence(init, "carry")
        b._use_all([v for v in init if isinstance(v, Value)], "carry")
        infos = [v._info if isinstance(v, Value) else b.types.scalar(self._own_dtype(v)) for v in init]
        return [self._start_of(v) for v in init], infos

    def _start_of(self, start: Operand) -> _loops.Start:
        if isinstance(start, Value):
            return lambda: start
        return _loops.Literal(self._checked(start, dt.i32, "carry"), lambda: self._own(start))

    def _own_dtype(self, number: Number) -> DType:
        self._check("carry", number)
        if isinstance(number, np.generic):
            return dt.as_dtype(number.dtype)
        if isinstance(number, bool):
            return dt.i1
        return dt.f32 if isinstance(number, float) else dt.i32

    def _next_carry(self, op: str, returned: Sequence[Operand] | None, infos: Sequence[TypeInfo]) -> list[Value]:
        """What a body returned, as the next carry."""
        found = self._init(() if returned is None else returned)
        if len(found) != len(infos):
            self._b.fail(
                YieldTypeError,
                f"the body returned {len(found)} values for a carry of {len(infos)}",
                op=op,
                operands=found,
                hint="return the next carry as a tuple",
            )
        if any(v._info is not i for v, i in zip(found, infos, strict=True)):
            self._b.fail(
                YieldTypeError,
                f"the loop carries ({', '.join(map(str, infos))})",
                op=op,
                operands=found,
                hint="return one value for each, of the same type",
            )
        return found

    def _static_loop(
        self,
        start: int,
        steps: int,
        body: Callable[..., Sequence[Operand] | None],
        init: Sequence[Operand],
        unroll: int | bool,
    ) -> Carried:
        b = self._b
        steps = max(0, steps)
        factor = 1 if unroll is False else max(1, steps) if unroll is True else unroll
        starts, infos = self._starts_of(init)
        built = _loops.build(
            b, infos, lambda i, carried: self._next_carry("fori_loop", called("fori_loop", body, i, *carried), infos)
        )
        # JAX drops a counter that the body does not read: the loop then counts from 0.
        counts = _loops.is_used(built, 0) or not _loops.drops_unread(b)
        own = None if counts else _loops.count_itself(b, built)
        first = start if counts else 0
        begin = _loops.Literal(first, lambda: self._const(first, dt.i32)) if own is None else starts.pop(own)
        split = _loops.settle(b, built, starts)
        results, end = _loops.counted(b, built, begin, steps, split, factor)
        if own is not None:
            results.insert(own, self._end_of(begin, steps, end))
        elif counts:
            self._const(steps, dt.i32)  # the scan's final counter, which nobody uses
        return tuple(results)

    def _end_of(self, begin: _loops.Start, steps: int, end: Value | None) -> Value:
        """What a counter of the body's own comes to. Pallas says the number of steps, from wherever it counts."""
        number = int(begin.number) if isinstance(begin, _loops.Literal) else None
        count = self._const(steps if number is None or end is not None else number + steps, dt.i32)
        return count if end is None or number == 0 else end

    def _dynamic_loop(
        self,
        lower: Value | int,
        upper: Value | int,
        body: Callable[..., Sequence[Operand] | None],
        init: Sequence[Operand],
    ) -> Carried:
        starts, infos = self._starts_of(init)

        def step(i: Value, carried: list[Value]) -> list[Value]:
            return self._next_carry("fori_loop", called("fori_loop", body, i, *carried), infos)

        return tuple(
            _loops.dynamic_loop(
                self._b,
                lambda: self._i32(lower, "fori_loop", "bound"),
                lambda: self._i32(upper, "fori_loop", "bound"),
                starts,
                infos,
                step,
            )
        )

    @idiom("@pl.loop(lo, hi, step=…)", "scf.for", group="control", traits=("region",))
    def loop(
        self,
        lower: Value | int,
        upper: Value | int,
        *,
        init_carry: Sequence[Operand] | None = None,
        step: Value | int = 1,
        unroll: int | bool = 1,
    ) -> Callable[[Callable[..., Sequence[Operand] | None]], Carried]:
        """`pl.loop`: the decorator of a function of the index, and of the carry, that is looped at once.

        Args:
            lower: first index, an int or an i32 value.
            upper: end, excluded.
            init_carry: start of the carry; the name of the function is then what it comes to.
            step: between indices. Of a negative one Pallas rounds away from 0: it visits an index or two too many.
            unroll: as in `fori_loop`.

        Raises:
            AttributeValueError: the step is 0.

        Example:
            >>> @b.pallas.loop(0, 8, step=2)
            ... def _(i):
            ...     a.y[i] = a.x[i]
        """
        b, op = self._b, "loop"
        low, high, stride = (n if isinstance(n, Value) else b._int(n, op, "bound") for n in (lower, upper, step))
        if stride.__class__ is int and stride == 0:
            b.fail(AttributeValueError, "a step of 0", op=op, hint="step=1 visits every index")

        def decorator(body: Callable[..., Sequence[Operand] | None]) -> Carried:
            self._callable(op, body)
            start, each = low, stride
            if isinstance(low, int) and isinstance(high, int) and isinstance(stride, int):
                trips: Value | int = (high - low + stride - 1) // stride
            else:
                trips = self._trips(low, high, stride)
                each, start = self._i32(stride, op, "step"), self._i32(low, op, "bound")

            def one(i: Value, *carry: Value) -> Sequence[Operand] | None:
                moved = b.muli(i, self._i32(each, op, "step"))
                first = self._i32(start, op, "bound")
                return called(op, body, b.addi(first, moved), *carry)

            return self.fori_loop(0, trips, one, () if init_carry is None else init_carry, unroll=unroll)

        return decorator

    def _trips(self, low: Value | int, high: Value | int, stride: Value | int) -> Value:
        """How often a loop runs: ``cdiv(high - low, stride)``."""
        b = self._b
        end = self._i32(high, "loop", "bound")
        length = b.subi(end, self._i32(low, "loop", "bound"))
        whole = self._i32(stride, "loop", "step")
        length = b.addi(length, b.subi(whole, self._const(1, dt.i32)))
        return b.divsi(length, self._i32(stride, "loop", "step"))

    @idiom("pl.debug_check(cond, message)", "arith.xori", "cf.assert", group="control", traits=("debug",))
    def debug_check(self, condition: Value, message: str, *, enabled: bool = False) -> None:
        """`pl.debug_check`: two dead ops, unless checks are ``enabled``.

        Args:
            condition: an ``i1`` scalar, true where all is well.
            message: reported where it is not.
            enabled: emit the assertion, as Pallas does under `pl.enable_debug_checks`.

        Example:
            >>> b.pallas.debug_check(a.i < 4, "the grid has 4 steps", enabled=True)
        """
        b, op = self._b, "debug_check"
        self._value(condition, op)
        if condition._info is not b.types.scalar(dt.i1):
            b.fail(
                DTypeError,
                "the condition must be an i1 scalar",
                op=op,
                operands=[condition],
                hint=_SCALAR,
            )
        text = b._text(message, op, "message")
        failed = b.xori(condition, self._const(True, dt.i1))
        self._const(0, dt.i32)  # the error's code, which the lowering does not read
        if b._flag(enabled, op, "enabled"):
            b.assert_(b.xori(failed, self._const(True, dt.i1)), text)

    @idiom(
        "pl.run_scoped(body, …)", "tpu.region", "memref.alloca", "tpu.sem_alloc", group="control", traits=("region",)
    )
    def run_scoped(self, *given: object) -> Scope:
        """`pl.run_scoped` as a with block: allocate inside with ``b.alloca`` and ``b.sem_alloc``.

        As Pallas's it may also be the decorator of a function, here one without arguments.

        Args:
            given: nothing; refused with what to write.

        Raises:
            ArityError: it was given a function, or what to allocate.

        Example:
            >>> with b.pallas.run_scoped():
            ...     scratch = b.alloca((8, 128), f32)
            ...     scratch[...] = a.x[...]
        """
        if given:
            hint = 'with b.pallas.run_scoped(): tile = b.alloca((8, 128), f32); arrived = b.sem_alloc("dma"); …'
            self._b.fail(ArityError, "the scope is a with block, and allocates inside", op="run_scoped", hint=hint)
        return Scope("run_scoped", self._scope())

    @contextmanager
    def _scope(self) -> Generator[None]:
        with self._b.region():
            yield


def _maker(value: Value) -> IrOperation:
    """The operation whose result a value is."""
    return value.ir.owner
