"""Loops as JAX hands them to Pallas: what the body carries unchanged is no carry.

Its constant comes before all others if the body reads it; and one more, where it is used after the loop.

A body is built in a block of its own, before the loop exists, since only then it is known which carries the loop has.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mosaic_tpu.builder import dtypes as dt
from mosaic_tpu.builder._compat import (
    DROPS_UNREAD_NUMBERS,
    DYNAMIC_FORI_IS_ONE_LOOP,
    IrBlock,
    IrOperation,
    IrValue,
    ir,
    open_ir,
)
from mosaic_tpu.builder._core import Branch, Scope
from mosaic_tpu.builder._frames import user_frame
from mosaic_tpu.builder._types import TypeInfo
from mosaic_tpu.builder._value import Value
from mosaic_tpu.builder.errors import DTypeError

if TYPE_CHECKING:
    from mosaic_tpu.builder.builder import Builder

#: The body of a loop: of the counter and the carry to the next carry.
type Body = Callable[[Value, list[Value]], Sequence[Value]]
#: Makes the value of a carry's start.
type Start = Callable[[], Value]


@dataclass(frozen=True)
class Number:
    """The start of a carry that is a number, which JAX has as a literal: a constant is made for each use of it."""

    make: Start
    info: TypeInfo

    def __call__(self) -> Value:
        return self.make()


class Late(Value):
    """A number that a loop leaves as it came: each call of the kernel that uses it has a constant of its own."""

    __slots__ = ("_call", "_made", "number")

    def __init__(self, number: Number, scope: Scope) -> None:
        self.number, self._info, self._scope = number, number.info, scope
        self._made: Value | None = None
        self._call: tuple[int, int] | None = None

    def is_live(self, b: Builder) -> bool:
        """Whether it may be used where the builder is."""
        return self._scope.live is b

    @property
    def _ir(self) -> IrValue:
        frame = user_frame(sys._getframe(1))
        call = id(frame), frame.f_lasti
        made = self._made
        if made is None or made._scope.live is None or (call != self._call and next(iter(made._ir.uses), None)):
            self._made = made = self.number()
        self._call = call
        return made._ir


@dataclass(frozen=True)
class Kept:
    """A carry that the body leaves as it is, and that is none of the loop's.

    Attributes:
        inside: what the body reads; nothing where it does not.
        after: what it is after the loop.
    """

    inside: Value | None
    after: Value


@dataclass
class Built:
    """A body in a block that is nowhere yet.

    Attributes:
        owner: holds the block; it is thrown away.
        block: the ops, without a terminator.
        infos: types of the block's arguments.
        yields: what goes to the next iteration.
    """

    owner: IrOperation
    block: IrBlock
    infos: list[TypeInfo]
    yields: list[Value]

    def forwards(self, leading: int) -> list[bool]:
        """Of each carry, whether it is yielded as it came; ``leading`` arguments come before the carries."""
        arguments = list(self.block.arguments)[leading:]
        return [y.ir == a for y, a in zip(self.yields, arguments, strict=True)]

    def kept(
        self, b: Builder, leading: int, same: Sequence[bool], starts: Sequence[Start], *, all_made: bool = False
    ) -> list[Kept | None]:
        """Of each carry that stays as it is, what it is, in the loop and after it; the constants it takes are made.

        Args:
            b: the builder.
            leading: how many arguments come before the carries.
            same: of each carry, whether it stays.
            starts: of each carry, what makes its start.
            all_made: whether the constants are too that the body does not read.
        """
        found: list[Kept | None] = []
        for n, (stays, start) in enumerate(zip(same, starts, strict=True)):
            if not stays:
                found.append(None)
            elif isinstance(start, Number):
                argument = self.block.arguments[leading + n]
                others = self.yields[:n] + self.yields[n + 1 :]
                read = next(iter(argument.uses), None) is not None or any(y.ir == argument for y in others)
                found.append(Kept(start() if read or all_made else None, Late(start, b._scope)))
            else:
                value = start()
                found.append(Kept(value, value))
        return found


@contextmanager
def aside(
    b: Builder, infos: Sequence[TypeInfo], loop: Branch | None = None
) -> Generator[tuple[IrOperation, IrBlock, list[Value]]]:
    """Emit into a block of its own, with arguments of these types, that is nowhere in the module.

    Args:
        b: the builder.
        infos: types of the arguments.
        loop: whose body it is, if that has more than one.
    """
    with b.types.context, b.types.unknown:
        kind = ir.FunctionType.get([i.ir for i in infos], [])
        attributes = {"function_type": ir.TypeAttr.get(kind), "sym_name": b.types.string("aside")}
        owner = open_ir.Operation.create("func.func", attributes=attributes, regions=1, ip=False)
    location = b._loc()
    block = owner.regions[0].blocks.append(*(i.ir for i in infos), arg_locs=[location] * len(infos))
    outer, outer_ip = b._scope, b._ip
    scope = Scope(b, block, outer)
    scope.branch = loop or Branch(outer)
    b._scope, b._ip = scope, scope.ip
    try:
        yield owner, block, [Value(a, i, scope) for a, i in zip(block.arguments, infos, strict=True)]
    finally:
        scope.live = None
        b._scope, b._ip = outer, outer_ip


@contextmanager
def unrolled(b: Builder) -> Generator[None]:
    """Around the iterations of a loop that is none: what JAX has as an array outside of it is made before it, once."""
    outer, info = b._scope, b.types.scalar(dt.i32)
    start: IrOperation = b._constant(0, info).ir.owner
    scope = Scope(b, outer.block, outer)
    scope.branch = Branch(outer, start)
    b._scope = scope
    try:
        yield
    finally:
        scope.live = None
        b._scope = outer
    start.erase()


def build(b: Builder, infos: Sequence[TypeInfo], body: Body, loop: Branch | None = None) -> Built:
    """Build the body of a counted loop: its arguments are the counter and the carries."""
    counter = b.types.scalar(dt.i32)
    b._incomplete += 1  # until it is built; an exception leaves it so
    with aside(b, [counter, *infos], loop) as (owner, block, (index, *carried)):
        yields = list(body(index, carried))
        for y in yields:
            b._use(y, "scf.yield")
    b._incomplete -= 1
    return Built(owner, block, [counter, *infos], yields)


def is_used(built: Built, argument: int) -> bool:
    """Whether the body reads one of its arguments."""
    value = built.block.arguments[argument]
    return next(iter(value.uses), None) is not None or any(y.ir == value for y in built.yields)


#: Of each carry, what it is where the body leaves it as it is; and its value before the loop where it does not.
type Split = tuple[list[Kept | None], list[Value | None]]


def settle(b: Builder, built: Built, starts: Sequence[Start]) -> Split:
    """Make the constants of the carries that are none, then of the others: (unchanged, carried), a list each."""
    same = built.forwards(1)
    unchanged = built.kept(b, 1, same, starts)
    return unchanged, [None if s else start() for s, start in zip(same, starts, strict=True)]


def together(split: Split) -> list[Value]:
    """Every carry, in order."""
    found = [c if u is None else u.after for u, c in zip(*split, strict=True)]
    return [v for v in found if v is not None]


def place(
    b: Builder, built: Built, low: Value, high: Value, step: Value, split: Split, late_unroll: int | None = None
) -> list[Value]:
    """Emit the ``scf.for`` around the body; the results of all carries."""
    unchanged, carried = split
    kept = [v for v in carried if v is not None]
    infos = [v._info for v in kept]
    attributes = None if late_unroll is None else {"tpu.late_unroll": b.types.integer(late_unroll, 32)}
    operands = [low._ir, high._ir, step._ir, *(v._ir for v in kept)]
    created = b._emit_many("scf.for", infos, operands, attributes, 1)
    block = built.block
    _end(b, block, "scf.yield", [y for y, u in zip(built.yields, unchanged, strict=True) if u is None], created)
    _bind(block, 1, unchanged)
    block.append_to(created.regions[0])
    return _results(b, created, unchanged, infos)


def _end(b: Builder, block: IrBlock, name: str, values: Sequence[Value], like: IrOperation) -> None:
    with b.types.context, b.types.unknown:
        used = [v._ir for v in values]
        open_ir.Operation.create(name, operands=used, loc=like.location, ip=ir.InsertionPoint(block))


def _results(
    b: Builder, created: IrOperation, unchanged: Sequence[Kept | None], infos: Sequence[TypeInfo]
) -> list[Value]:
    results = iter([Value(r, i, b._scope) for r, i in zip(created.results, infos, strict=True)])
    return [next(results) if u is None else u.after for u in unchanged]


def _bind(block: IrBlock, leading: int, kept: Sequence[Kept | None]) -> None:
    """Put values in the place of arguments, which go."""
    for number, value in reversed(list(enumerate(kept))):
        if value is not None:
            if value.inside is not None:
                block.arguments[leading + number].replace_all_uses_with(value.inside._ir)
            block.erase_argument(leading + number)


def inline(b: Builder, built: Built, index: Value, split: Split) -> list[Value]:
    """Emit the body here, once."""
    unchanged, carried = split
    inputs = [index, *(c if u is None else u.after for u, c in zip(unchanged, carried, strict=True))]
    results: list[Value] = []
    for y in built.yields:
        argument = next((n for n, a in enumerate(built.block.arguments) if a == y.ir), None)
        found = y if argument is None else inputs[argument]
        assert found is not None
        results.append(Value(found._ir, found._info, b._scope))
    _bind(built.block, 0, [None if value is None else Kept(value, value) for value in inputs])
    anchor = list(b._scope.block.operations)[-1]
    for operation in list(built.block.operations):
        operation.operation.move_after(anchor)
        anchor = operation.operation
    return results


def static_loop(b: Builder, steps: int, starts: Sequence[Start], infos: Sequence[TypeInfo], body: Body) -> list[Value]:
    """A `lax.scan` that counts from 0; the dead counter it leaves behind included."""
    i32 = b.types.scalar(dt.i32)
    built = build(b, infos, body)
    split = settle(b, built, starts)
    low = b._constant(0, i32)
    if steps == 1:
        results = inline(b, built, low, split)
    else:
        high = b.addi(low, b._constant(steps, i32))
        results = place(b, built, low, high, b._constant(1, i32), split)
    b._constant(steps, i32)
    return results


def dynamic_loop(
    b: Builder,
    lower: Start,
    upper: Start,
    starts: Sequence[Start],
    infos: Sequence[TypeInfo],
    body: Body,
    settled: Callable[[], None] = lambda: None,
) -> list[Value]:
    """A `lax.fori_loop` whose bounds are known at run time only; ``settled`` is called before the bounds are used."""
    i32 = b.types.scalar(dt.i32)
    loop = Branch(b._scope)
    built = build(b, infos, body, loop)
    same = built.forwards(1)
    unchanged = built.kept(b, 1, same, starts, all_made=not DROPS_UNREAD_NUMBERS)
    low, high = lower(), upper()
    carried = [None if s else start() for s, start in zip(same, starts, strict=True)]
    settled()
    count = b.subi(high, low)
    end = b.addi(low, count)
    if DYNAMIC_FORI_IS_ONE_LOOP:
        return place(b, built, low, end, b._constant(1, i32), (unchanged, carried))
    one = b._constant(1, i32)
    main = b.addi(low, b.muli(b.divsi(count, one), one))
    again = build(b, infos, body, loop)
    results = place(b, built, low, main, b._constant(1, i32), (unchanged, carried))
    rest = [None if s else r for s, r in zip(same, results, strict=True)]
    return place(b, again, main, end, b._constant(1, i32), (unchanged, rest))


def while_loop(
    b: Builder,
    starts: Sequence[Start],
    infos: Sequence[TypeInfo],
    condition: Callable[..., Value],
    body: Callable[..., Sequence[Value]],
) -> list[Value]:
    """A `lax.while_loop`: what the body leaves as it is, and the condition does not read, is no carry."""
    b._incomplete += 1
    with aside(b, infos) as (test_owner, test, carried):
        go_on = condition(*carried)
        b._use(go_on, "scf.condition")
        if go_on._info is not b.types.scalar(dt.i1):
            b.fail(DTypeError, "the condition must be an i1 scalar", op="scf.condition", operands=[go_on])
    with aside(b, infos) as (owner, block, carried):
        yields = list(body(*carried))
        for y in yields:
            b._use(y, "scf.yield")
    b._incomplete -= 1
    built, tested = Built(owner, block, list(infos), yields), Built(test_owner, test, list(infos), [go_on])
    same = [s and not is_used(tested, n) for n, s in enumerate(built.forwards(0))]
    unchanged = built.kept(b, 0, same, starts, all_made=not DROPS_UNREAD_NUMBERS)
    kept = [start() for s, start in zip(same, starts, strict=True) if not s]
    kept_infos = [v._info for v in kept]
    created = b._emit_many("scf.while", kept_infos, [v._ir for v in kept], None, 2)
    _bind(test, 0, unchanged)
    with b.types.context, b.types.unknown:
        used = [go_on._ir, *test.arguments]
        open_ir.Operation.create("scf.condition", operands=used, loc=created.location, ip=ir.InsertionPoint(test))
    _end(b, block, "scf.yield", [y for y, u in zip(yields, unchanged, strict=True) if u is None], created)
    _bind(block, 0, unchanged)
    test.append_to(created.regions[0])
    block.append_to(created.regions[1])
    return _results(b, created, unchanged, kept_infos)
