"""Control flow as Pallas lowers it: pl.when, pl.loop, lax.fori_loop, while_loop, cond and switch, pl.run_scoped."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager

import numpy as np

from mosaic_tpu.builder import dtypes as dt
from mosaic_tpu.builder._compat import IrOperation
from mosaic_tpu.builder._core import Branch
from mosaic_tpu.builder._registry import idiom
from mosaic_tpu.builder._types import TypeInfo
from mosaic_tpu.builder._value import Number, Operand, Value
from mosaic_tpu.builder.dtypes import DType
from mosaic_tpu.builder.errors import ArityError, AttributeValueError, DTypeError, YieldTypeError
from mosaic_tpu.builder.ops.scf import If, IfElse, TypeLike
from mosaic_tpu.builder.pallas import _loops
from mosaic_tpu.builder.pallas._base import Idioms, Scope

type Carry = tuple[Value, ...]


class ControlIdioms(Idioms):
    """Structured control flow."""

    def _predicate(self, condition: Value, op: str) -> tuple[Value, Branch]:
        """``i1 → i32 → != 0``: the branch index of `lax.cond`, and what holds the operands of both branches."""
        self._value(condition, op)
        if condition.dtype is not dt.i1 or condition.is_shaped:
            self._b.fail(
                DTypeError, "the condition must be an i1 scalar", op=op, operands=[condition], hint="compare first"
            )
        return self._is_not_0(self._b.extui(condition, dt.i32))

    def _is_not_0(self, index: Value) -> tuple[Value, Branch]:
        b = self._b
        zero = self._const(0, dt.i32)
        return b.cmpi("ne", index, zero), Branch(_maker(zero), b._scope)

    def _if(self, condition: Value, op: str) -> tuple[If, Branch]:
        predicate, branch = self._predicate(condition, op)
        made = self._b.if_(predicate)
        made._then._scope.branch = branch
        return made, branch

    def _if_else(self, predicate: Value, branch: Branch, results: Sequence[TypeLike]) -> IfElse:
        made = self._b.if_else(predicate, results)
        made.then._scope.branch = made.otherwise._scope.branch = branch
        return made

    @idiom("@pl.when(cond)", "arith.extui", "arith.cmpi", "scf.if", group="control", traits=("region",))
    def when(self, condition: Value) -> Scope:
        """`pl.when` as a with block, or as the decorator of a function without arguments.

        Example:
            >>> with b.pallas.when(b.lift(1) < 2):
            ...     b.pallas.store(a.x, b.pallas.zeros((8, 128), f32))
            >>> @b.pallas.when(b.lift(1) < 2)
            ... def _():
            ...     b.pallas.store(a.x, b.pallas.zeros((8, 128), f32))
        """
        return Scope(self._when(condition))

    @contextmanager
    def _when(self, condition: Value) -> Generator[None]:
        with self._if(condition, "when")[0]:
            yield

    @idiom(
        "lax.cond(pred, true_fn, false_fn)", "arith.extui", "arith.cmpi", "scf.if", group="control", traits=("region",)
    )
    def cond(
        self,
        condition: Value,
        on_true: Callable[[], Carry | None],
        on_false: Callable[[], Carry | None],
        results: Sequence[TypeLike] = (),
    ) -> Carry:
        """`lax.cond`; ``results`` are the types both branches return.

        Example:
            >>> b.pallas.cond(b.lift(1) < 2, lambda: (b.lift(3),), lambda: (b.lift(4),), [b.scalar_ty(i32)])[0].dtype
            i32
        """
        self._callable("cond", on_true, on_false)
        with self._if_else(*self._predicate(condition, "cond"), results) as choice:
            with choice.then:
                choice.yield_then(*(on_true() or ()))
            with choice.otherwise:
                choice.yield_else(*(on_false() or ()))
        return choice.results

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
        self, index: Value | int, branches: Sequence[Callable[[], Carry | None]], results: Sequence[TypeLike] = ()
    ) -> Carry:
        """`lax.switch`: the branch of that number, the first or last beyond; one ``scf.if`` inside another.

        Args:
            index: an i32 scalar; of an int, the branch alone is emitted.
            branches: functions without arguments that return the results.
            results: the types they return.

        Raises:
            ArityError: there is no branch.
            DTypeError: the index is not an i32 scalar.

        Example:
            >>> branches = [lambda: (b.lift(10),), lambda: (b.lift(11),), lambda: (a.i,)]
            >>> b.pallas.switch(a.i, branches, [b.scalar_ty(i32)])[0].dtype
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
            return tuple(branches[0]() or ())
        first = self._const(0, dt.i32)
        chosen = self._i32(index)
        last = self._const(len(branches) - 1, dt.i32)
        chosen = b.minsi(b.maxsi(chosen, first), last)
        if known is not None:
            return tuple(branches[min(max(known, 0), len(branches) - 1)]() or ())
        return self._switch(chosen, list(branches), results)

    def _switch(self, index: Value, branches: list[Callable[[], Carry | None]], results: Sequence[TypeLike]) -> Carry:
        b = self._b
        with self._if_else(*self._is_not_0(index), results) as choice:
            with choice.then:
                if len(branches) > 2:
                    rest = b.subi(index, self._const(1, dt.i32))
                    choice.yield_then(*self._switch(rest, branches[1:], results))
                else:
                    choice.yield_then(*(branches[1]() or ()))
            with choice.otherwise:
                choice.yield_else(*(branches[0]() or ()))
        return choice.results

    def _init(self, init: Sequence[Operand]) -> list[Value]:
        self._b._sequence(init, "carry")
        return [self._own(v) for v in init]

    @idiom("lax.while_loop(cond, body, init)", "scf.while", group="control", traits=("region",))
    def while_loop(
        self, condition: Callable[..., Value], body: Callable[..., Sequence[Operand]], init: Sequence[Operand]
    ) -> Carry:
        """`lax.while_loop` that is not a counted loop; both functions take the carry unpacked.

        What the body returns as it came, and the condition does not read, is no carry of the ``scf.while``.

        Example:
            >>> b.pallas.while_loop(lambda i: i < 4, lambda i: (i + 1,), (0,))[0].dtype
            i32
        """
        self._callable("while_loop", condition, body)
        starts, infos = self._starts_of(init)

        def step(*carried: Value) -> list[Value]:
            return self._next_carry("while_loop", body(*carried), infos)

        return tuple(_loops.while_loop(self._b, starts, infos, condition, step))

    @idiom("lax.fori_loop(lo, hi, body, init)", "scf.for", group="control", traits=("region",))
    def fori_loop(
        self,
        lower: Value | int,
        upper: Value | int,
        body: Callable[..., Sequence[Operand] | None],
        init: Sequence[Operand] = (),
        *,
        unroll: int | bool = 1,
    ) -> Carry:
        """`lax.fori_loop`: ``body(i, *carry)`` returns the next carry.

        Args:
            lower: first ``i``, an int or an i32 value.
            upper: end, excluded.
            body: called once, or once an iteration when fully unrolled.
            init: start of the carry.
            unroll: iterations a step, done by the compiler (``tpu.late_unroll``); ``True`` or the trip count unrolls
                here, and then no loop is emitted.

        Example:
            >>> b.pallas.fori_loop(0, 4, lambda i, s: (s + i,), (0,))[0].dtype
            i32
        """
        self._callable("fori_loop", body)
        if isinstance(lower, int) and isinstance(upper, int):
            return self._static_loop(lower, upper - lower, body, init, unroll)
        if unroll is not False and (isinstance(unroll, Value) or unroll != 1):
            self._b.fail(
                AttributeValueError,
                f"unroll={unroll} of a loop with run-time bounds",
                op="fori_loop",
                hint="JAX refuses it too: unroll loops with static bounds",
            )
        return self._dynamic_loop(lower, upper, body, init)

    def _starts_of(self, init: Sequence[Operand]) -> tuple[list[_loops.Start], list[TypeInfo]]:
        """What makes the start of each carry, when its turn has come, and the types."""
        b = self._b
        b._sequence(init, "carry")
        b._use_all([v for v in init if isinstance(v, Value)], "carry")
        infos = [v._info if isinstance(v, Value) else b.types.scalar(self._own_dtype(v)) for v in init]
        return [lambda v=v: self._own(v) for v in init], infos

    def _own_dtype(self, number: Number) -> DType:
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
        if any(v._info.ir is not i.ir for v, i in zip(found, infos, strict=True)):
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
    ) -> Carry:
        b = self._b
        steps = max(0, steps)
        factor = max(1, steps if unroll is True else int(unroll))
        if factor == steps:
            return self._unrolled(start, steps, body, init)
        starts, infos = self._starts_of(init)
        built = _loops.build(b, infos, lambda i, carried: self._next_carry("fori_loop", body(i, *carried), infos))
        # JAX drops a counter that the body does not read: the loop then counts from 0.
        counts = _loops.is_used(built, 0)
        split = _loops.settle(b, built, starts)
        low = self._const(start if counts else 0, dt.i32)
        high = b.addi(low, self._const(steps, dt.i32))
        if steps or factor > 1:
            step = self._const(1, dt.i32)
            results = _loops.place(b, built, low, high, step, split, factor if factor > 1 else None)
        else:
            results = _loops.together(split)
        if counts:
            self._const(steps, dt.i32)  # the scan's final counter, which nobody uses
        return tuple(results)

    def _unrolled(
        self, start: int, steps: int, body: Callable[..., Sequence[Operand] | None], init: Sequence[Operand]
    ) -> Carry:
        b = self._b
        carried = self._init(init)
        infos = [v._info for v in carried]
        indices: list[Value] = []
        for i in range(start, start + steps):
            indices.append(self._const(i, dt.i32))
            carried = self._next_carry("fori_loop", body(indices[-1], *carried), infos)
        if any(_is_used(i) for i in indices):
            self._const(steps, dt.i32)
        else:
            for i, index in enumerate(indices):
                _maker(index).attributes["value"] = b.types.integer(i, 32)
        return tuple(carried)

    def _dynamic_loop(
        self,
        lower: Value | int,
        upper: Value | int,
        body: Callable[..., Sequence[Operand] | None],
        init: Sequence[Operand],
    ) -> Carry:
        starts, infos = self._starts_of(init)

        def step(i: Value, carried: list[Value]) -> list[Value]:
            return self._next_carry("fori_loop", body(i, *carried), infos)

        return tuple(
            _loops.dynamic_loop(self._b, lambda: self._i32(lower), lambda: self._i32(upper), starts, infos, step)
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
    ) -> Callable[[Callable[..., Sequence[Operand] | None]], Carry]:
        """`pl.loop`: the decorator of a function of the index, and of the carry, that is looped at once.

        Args:
            lower: first index, an int or an i32 value.
            upper: end, excluded.
            init_carry: start of the carry; the name of the function is then what it comes to.
            step: between indices.
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

        def decorator(body: Callable[..., Sequence[Operand] | None]) -> Carry:
            self._callable(op, body)
            start, each = low, stride
            if isinstance(low, int) and isinstance(high, int) and isinstance(stride, int):
                trips: Value | int = -((low - high) // stride)
            else:
                trips = self._trips(low, high, stride)
                each, start = self._i32(stride), self._i32(low)

            def one(i: Value, *carry: Value) -> Sequence[Operand] | None:
                moved = b.muli(i, self._i32(each))
                first = self._i32(start)
                return body(b.addi(first, moved), *carry)

            return self.fori_loop(0, trips, one, () if init_carry is None else init_carry, unroll=unroll)

        return decorator

    def _trips(self, low: Value | int, high: Value | int, stride: Value | int) -> Value:
        """How often a loop runs: ``cdiv(high - low, stride)``."""
        b = self._b
        end = self._i32(high)
        length = b.subi(end, self._i32(low))
        whole = self._i32(stride)
        length = b.addi(length, b.subi(whole, self._const(1, dt.i32)))
        return b.divsi(length, self._i32(stride))

    def _i32(self, number: Value | int) -> Value:
        return number if isinstance(number, Value) else self._const(number, dt.i32)

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
            b.fail(DTypeError, "the condition must be an i1 scalar", op=op, operands=[condition], hint="compare first")
        text = b._text(message, op, "message")
        failed = b.xori(condition, self._const(True, dt.i1))
        self._const(0, dt.i32)  # the error's code, which the lowering does not read
        if b._flag(enabled, op, "enabled"):
            b.assert_(b.xori(failed, self._const(True, dt.i1)), text)

    @idiom(
        "pl.run_scoped(body, …)", "tpu.region", "memref.alloca", "tpu.sem_alloc", group="control", traits=("region",)
    )
    def run_scoped(self) -> Scope:
        """`pl.run_scoped` as a with block: allocate inside with ``b.alloca`` and ``b.sem_alloc``.

        As Pallas's it may also be the decorator of a function, here one without arguments.

        Example:
            >>> with b.pallas.run_scoped():
            ...     scratch = b.alloca((8, 128), f32)
            ...     scratch[...] = a.x[...]
        """
        return Scope(self._scope())

    @contextmanager
    def _scope(self) -> Generator[None]:
        with self._b.region():
            yield


def _maker(value: Value) -> IrOperation:
    """The operation whose result a value is."""
    return value.ir.owner


def _is_used(value: Value) -> bool:
    return next(iter(value.ir.uses), None) is not None
