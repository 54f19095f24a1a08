"""Control flow as Pallas lowers it: pl.when, lax.fori_loop, lax.while_loop, lax.cond, pl.run_scoped."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager

from mosaic_tpu.builder import dtypes as dt
from mosaic_tpu.builder._compat import DYNAMIC_FORI_IS_ONE_LOOP, IrOperation
from mosaic_tpu.builder._registry import idiom
from mosaic_tpu.builder._value import Operand, Value
from mosaic_tpu.builder.errors import AttributeValueError, DTypeError, YieldTypeError
from mosaic_tpu.builder.ops.scf import TypeLike
from mosaic_tpu.builder.pallas._base import Idioms, Scope

type Carry = tuple[Value, ...]


class ControlIdioms(Idioms):
    """Structured control flow."""

    def _predicate(self, condition: Value, op: str) -> Value:
        """``i1 → i32 → != 0``: the branch index of `lax.cond`."""
        self._value(condition, op)
        if condition.dtype is not dt.i1 or condition.is_shaped:
            self._b.fail(
                DTypeError, "the condition must be an i1 scalar", op=op, operands=[condition], hint="compare first"
            )
        index = self._b.extui(condition, dt.i32)
        return self._b.cmpi("ne", index, self._const(0, dt.i32))

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
        with self._b.if_(self._predicate(condition, "when")):
            yield

    @idiom(
        "lax.cond(pred, true_fn, false_fn)", "arith.extui", "arith.cmpi", "scf.if", group="control", traits=("region",)
    )
    def cond(
        self,
        condition: Value,
        on_true: Callable[[], Carry],
        on_false: Callable[[], Carry],
        results: Sequence[TypeLike] = (),
    ) -> Carry:
        """`lax.cond`; ``results`` are the types both branches return.

        Example:
            >>> b.pallas.cond(b.lift(1) < 2, lambda: (b.lift(3),), lambda: (b.lift(4),), [b.scalar_ty(i32)])[0].dtype
            i32
        """
        self._callable("cond", on_true, on_false)
        with self._b.if_else(self._predicate(condition, "cond"), results) as choice:
            with choice.then:
                choice.yield_then(*on_true())
            with choice.otherwise:
                choice.yield_else(*on_false())
        return choice.results

    def _init(self, init: Sequence[Operand]) -> list[Value]:
        self._b._sequence(init, "carry")
        return [v if isinstance(v, Value) else self._own_number(v) for v in init]

    @idiom("lax.while_loop(cond, body, init)", "scf.while", group="control", traits=("region",))
    def while_loop(
        self, condition: Callable[..., Value], body: Callable[..., Sequence[Operand]], init: Sequence[Operand]
    ) -> Carry:
        """`lax.while_loop` that is not a counted loop; both functions take the carry unpacked.

        Example:
            >>> b.pallas.while_loop(lambda i: i < 4, lambda i: (i + 1,), (0,))[0].dtype
            i32
        """
        self._callable("while_loop", condition, body)
        with self._b.while_(self._init(init)) as loop:
            with loop.before:
                carried = loop.before.carried
                loop.condition(condition(*carried), *carried)
            with loop.after:
                loop.yield_(*self._init(body(*loop.after.carried)))
        return loop.results

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

    def _run(self, body: Callable[..., Sequence[Operand] | None], i: Value, carried: Carry) -> list[Value]:
        returned = body(i, *carried)
        found = self._init(() if returned is None else returned)
        if len(found) != len(carried):
            self._b.fail(
                YieldTypeError,
                f"the body returned {len(found)} values for a carry of {len(carried)}",
                op="fori_loop",
                operands=found,
                hint="return the next carry as a tuple",
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
        carried = tuple(self._init(init))
        if factor == steps:
            indices = [self._const(start, dt.i32)]
            carried = tuple(self._run(body, indices[0], carried))
            for i in range(start + 1, start + steps):
                indices.append(self._const(i, dt.i32))
                carried = tuple(self._run(body, indices[-1], carried))
            counts = any(_is_used(i) for i in indices)
        else:
            indices = [self._const(start, dt.i32)]
            end = b.addi(indices[0], self._const(steps, dt.i32))
            step = self._const(1, dt.i32)
            with b.for_(indices[0], end, step, carried) as loop:
                loop.yield_(*self._run(body, loop.iv, loop.carried))
            counts = _is_used(loop.iv)
            if factor > 1:
                loop.operation.attributes["tpu.late_unroll"] = b.types.integer(factor, 32)
            if steps or factor > 1:
                carried = loop.results
            else:
                loop.operation.erase()
                _maker(step).erase()
        if counts:
            self._const(steps, dt.i32)  # the scan's final counter, which nobody uses
        else:
            # JAX drops a counter that the body does not read: the loop then counts from 0.
            for i, index in enumerate(indices):
                _maker(index).attributes["value"] = b.types.integer(i, 32)
        return carried

    def _dynamic_loop(
        self,
        lower: Value | int,
        upper: Value | int,
        body: Callable[..., Sequence[Operand] | None],
        init: Sequence[Operand],
    ) -> Carry:
        b = self._b
        low = lower if isinstance(lower, Value) else self._const(lower, dt.i32)
        high = upper if isinstance(upper, Value) else self._const(upper, dt.i32)
        carried = tuple(self._init(init))
        steps = b.subi(high, low)
        end = b.addi(low, steps)
        if DYNAMIC_FORI_IS_ONE_LOOP:
            with b.for_(low, end, self._const(1, dt.i32), carried) as loop:
                loop.yield_(*self._run(body, loop.iv, loop.carried))
            return loop.results
        one = self._const(1, dt.i32)
        main = b.addi(low, b.muli(b.divsi(steps, one), one))
        with b.for_(low, main, self._const(1, dt.i32), carried) as loop:
            loop.yield_(*self._run(body, loop.iv, loop.carried))
        with b.for_(main, end, self._const(1, dt.i32), loop.results) as rest:
            rest.yield_(*self._run(body, rest.iv, rest.carried))
        return rest.results

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
