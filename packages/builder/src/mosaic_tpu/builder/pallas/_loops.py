"""Loops as JAX hands them to Pallas: what the body carries unchanged is no carry.

If the body reads it, its constant comes before all others. After the loop it is what it was before, a number if it was
one: JAX has computed with it before anything of it is in the kernel.

A body is built in a block of its own, before the loop exists, since only then it is known which carries the loop has.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mosaic_tpu.builder import dtypes as dt
from mosaic_tpu.builder._compat import (
    DROPS_IN_WHILE_LOOPS,
    DYNAMIC_FORI_IS_ONE_LOOP,
    IrBlock,
    IrOperation,
    IrValue,
    ir,
    open_ir,
)
from mosaic_tpu.builder._core import Branch, Scope
from mosaic_tpu.builder._types import TypeInfo
from mosaic_tpu.builder._value import Number, Operand, Value
from mosaic_tpu.builder.errors import DTypeError

if TYPE_CHECKING:
    from mosaic_tpu.builder.builder import Builder

#: The body of a loop: of the counter and the carry to the next carry.
type Body = Callable[[Value, list[Value]], Sequence[Value]]
#: Makes the value of a carry's start.
type Start = Callable[[], Value]
#: What carries come to: values, and numbers where the body left them as they came.
type Results = list[Any]


@dataclass(frozen=True)
class Literal:
    """The start of a carry that is a number: a constant is made of it only where the loop needs one."""

    number: Number
    make: Start

    def __call__(self) -> Value:
        return self.make()


@dataclass(frozen=True)
class Kept:
    """A carry that the body leaves as it is, and that is none of the loop's.

    Attributes:
        inside: what the body reads; nothing where it does not.
        after: what it is after the loop.
    """

    inside: Value | None
    after: Operand


@dataclass
class Built:
    """A body in a block that is nowhere yet.

    Attributes:
        owner: holds the block; it is thrown away.
        block: the ops, without a terminator.
        yields: what goes to the next iteration.
    """

    owner: IrOperation
    block: IrBlock
    yields: list[Value]

    def copy(self, b: Builder) -> Built:
        """The same body once more."""
        ending = end(b, self.block, "scf.yield", self.yields)
        owner = self.owner.clone(ip=False)
        block = owner.regions[0].blocks[0]
        again = list(block.operations)[-1]
        yields = [Value(v, y._info, y._scope) for v, y in zip(again.operands, self.yields, strict=True)]
        ending.erase()
        again.erase()
        return Built(owner, block, yields)

    def forwards(self, leading: int) -> list[bool]:
        """Of each carry, whether it is yielded as it came; ``leading`` arguments come before the carries."""
        arguments = list(self.block.arguments)[leading:]
        return [y.ir == a for y, a in zip(self.yields, arguments, strict=True)]

    def kept(
        self, leading: int, same: Sequence[bool], starts: Sequence[Start], *, all_made: bool = False
    ) -> list[Kept | None]:
        """Of each carry that stays as it is, what it is, in the loop and after it; the constants it takes are made.

        Args:
            leading: how many arguments come before the carries.
            same: of each carry, whether it stays.
            starts: of each carry, what makes its start.
            all_made: whether the constants are too that the body does not read.
        """
        found: list[Kept | None] = []
        for n, (stays, start) in enumerate(zip(same, starts, strict=True)):
            if not stays:
                found.append(None)
            elif isinstance(start, Literal):
                argument = self.block.arguments[leading + n]
                others = self.yields[:n] + self.yields[n + 1 :]
                read = next(iter(argument.uses), None) is not None or any(y.ir == argument for y in others)
                found.append(Kept(start() if read or all_made else None, start.number))
            else:
                value = start()
                found.append(Kept(value, value))
        return found


@contextmanager
def building(b: Builder) -> Generator[list[IrOperation]]:
    """Around the building of blocks that are nowhere in the module yet; what holds them is put on the list.

    After an exception the module is incomplete. The blocks are then in it, since they use values that live as long.
    """
    owners: list[IrOperation] = []
    b._incomplete += 1
    try:
        yield owners
    except BaseException:
        for owner in owners:
            b.module.body.append(owner)
        raise
    b._incomplete -= 1


@contextmanager
def aside(
    b: Builder,
    owners: list[IrOperation],
    infos: Sequence[TypeInfo],
    *,
    drops: bool = True,
    branch: Branch | None = None,
) -> Generator[tuple[IrOperation, IrBlock, list[Value]]]:
    """Emit into a block of its own, with arguments of these types, that is nowhere in the module.

    Args:
        b: whose ops these are.
        owners: takes what holds the block (`building`).
        infos: of the arguments.
        drops: whether JAX drops what nobody reads in it.
        branch: that of which it is a side; of a loop's body it makes one.
    """
    with b.types.context, b.types.unknown:
        kind = ir.FunctionType.get([i.ir for i in infos], [])
        attributes = {"function_type": ir.TypeAttr.get(kind), "sym_name": b.types.string("aside")}
        owner = open_ir.Operation.create("func.func", attributes=attributes, regions=1, ip=False)
    owners.append(owner)
    location = b._loc()
    block = owner.regions[0].blocks.append(*(i.ir for i in infos), arg_locs=[location] * len(infos))
    outer, outer_ip = b._scope, b._ip
    scope = Scope(b, block, outer)
    scope.branch = Branch(outer, drops=drops) if branch is None else branch
    b._scope, b._ip = scope, scope.ip
    try:
        yield owner, block, [Value(a, i, scope) for a, i in zip(block.arguments, infos, strict=True)]
    finally:
        scope.live = None
        b._scope, b._ip = outer, outer_ip


@contextmanager
def nowhere(b: Builder, infos: Sequence[TypeInfo] = ()) -> Generator[tuple[IrBlock, list[Value]]]:
    """Emit into a block, with arguments of these types, that is thrown away."""
    with building(b) as owners, aside(b, owners, infos) as (_, block, values):
        yield block, values
    owners[0].erase()


def build(b: Builder, infos: Sequence[TypeInfo], body: Body, *, drops: bool = True) -> Built:
    """Build the body of a counted loop: its arguments are the counter and the carries."""
    counter = b.types.scalar(dt.i32)
    with building(b) as owners, aside(b, owners, [counter, *infos], drops=drops) as (owner, block, (index, *carried)):
        yields = list(body(index, carried))
        for y in yields:
            b._use(y, "scf.yield")
    return Built(owner, block, yields)


def drops_unread(b: Builder) -> bool:
    """Whether JAX drops what nobody reads where the builder is."""
    scope: Scope | None = b._scope
    while scope is not None:
        if scope.branch is not None and not scope.branch.drops:
            return False
        scope = scope.parent
    return True


def is_used(built: Built, argument: int) -> bool:
    """Whether the body reads one of its arguments."""
    value = built.block.arguments[argument]
    return next(iter(value.uses), None) is not None or any(y.ir == value for y in built.yields)


def count_itself(b: Builder, built: Built) -> int | None:
    """Let a carry be the counter that the body does not read: the first one that changes, if it is one more each time.

    Pallas looks for the counter of a loop in that place. It is no carry then, and the body does not add.
    """
    found = next((n for n, same in enumerate(built.forwards(1)) if not same), None)
    if found is None or built.yields[found]._info is not b.types.scalar(dt.i32):
        return None
    carry, after = built.block.arguments[1 + found], built.yields[found].ir
    add = _made_by("arith.addi", after, built.block)
    one = None if add is None or add.operands[0] != carry else _made_by("arith.constant", add.operands[1], built.block)
    if add is None or one is None or one.attributes["value"] != b.types.integer(1, 32):
        return None
    if next(iter(after.uses), None) is not None or sum(y.ir == after for y in built.yields) > 1:
        return None
    counter, info = built.block.arguments[0], built.yields[found]._info
    built.yields = [Value(counter, info, y._scope) if y.ir == carry else y for y in built.yields]
    add.erase()
    one.erase()
    carry.replace_all_uses_with(counter)
    built.block.erase_argument(1 + found)
    del built.yields[found]
    return found


def _made_by(name: str, value: IrValue, block: IrBlock) -> IrOperation | None:
    """The op of this name in this block that makes a value."""
    if isinstance(value.owner, ir.Block):
        return None
    maker = value.owner.operation
    return maker if maker.name == name and maker.block == block else None


#: Of each carry, what it is where the body leaves it as it is; and its value before the loop where it does not.
type Split = tuple[list[Kept | None], list[Value | None]]


def settle(b: Builder, built: Built, starts: Sequence[Start]) -> Split:
    """Make the constants of the carries that are none, then of the others: (unchanged, carried), a list each."""
    same = built.forwards(1)
    unchanged = built.kept(1, same, starts, all_made=not drops_unread(b))
    return unchanged, [None if s else start() for s, start in zip(same, starts, strict=True)]


def together(split: Split) -> Results:
    """Every carry, in order."""
    found = [c if u is None else u.after for u, c in zip(*split, strict=True)]
    return [v for v in found if v is not None]


def place(
    b: Builder, built: Built, low: Value, high: Value, step: Value, split: Split, late_unroll: int | None = None
) -> Results:
    """Emit the ``scf.for`` around the body; the results of all carries."""
    unchanged, carried = split
    kept = [v for v in carried if v is not None]
    infos = [v._info for v in kept]
    attributes = None if late_unroll is None else {"tpu.late_unroll": b.types.integer(late_unroll, 32)}
    operands = [low._ir, high._ir, step._ir, *(v._ir for v in kept)]
    created = b._emit_many("scf.for", infos, operands, attributes, 1)
    block = built.block
    end(b, block, "scf.yield", [y for y, u in zip(built.yields, unchanged, strict=True) if u is None], created)
    _bind(block, 1, unchanged)
    block.append_to(created.regions[0])
    return _results(b, created, unchanged, infos)


def end(b: Builder, block: IrBlock, name: str, values: Sequence[Value], like: IrOperation | None = None) -> IrOperation:
    """End a block with an op that takes these values."""
    with b.types.context, b.types.unknown:
        location = b.types.unknown if like is None else like.location
        used = [v._ir for v in values]
        return open_ir.Operation.create(name, operands=used, loc=location, ip=ir.InsertionPoint(block))


def _results(b: Builder, created: IrOperation, unchanged: Sequence[Kept | None], infos: Sequence[TypeInfo]) -> Results:
    results = iter([Value(r, i, b._scope) for r, i in zip(created.results, infos, strict=True)])
    return [next(results) if u is None else u.after for u in unchanged]


def _bind(block: IrBlock, leading: int, kept: Sequence[Kept | None]) -> None:
    """Put values in the place of arguments, which go."""
    for number, value in reversed(list(enumerate(kept))):
        if value is not None:
            if value.inside is not None:
                block.arguments[leading + number].replace_all_uses_with(value.inside._ir)
            block.erase_argument(leading + number)


def unrolled(b: Builder, built: Built, first: int, steps: int, split: Split) -> Results:
    """Emit the body here, once an iteration; the results of all carries."""
    unchanged, carried = split
    for n in range(steps):
        index = b._constant(first + n, b.types.scalar(dt.i32))
        carried = _inlined(b, built if n == steps - 1 else built.copy(b), index, (unchanged, carried))
    return together((unchanged, carried))


def _inlined(b: Builder, built: Built, index: Value, split: Split) -> list[Value | None]:
    """Emit the body behind the constant of its index; what it carries on."""
    unchanged, carried = split
    inputs = [index, *(c if u is None else u.inside for u, c in zip(unchanged, carried, strict=True))]
    ending = end(b, built.block, "scf.yield", built.yields)
    _bind(built.block, 0, [None if value is None else Kept(value, value) for value in inputs])
    results = [
        Value(v, y._info, b._scope) if u is None else None
        for v, y, u in zip(ending.operands, built.yields, unchanged, strict=True)
    ]
    ending.erase()
    anchor = index.ir.owner
    for operation in list(built.block.operations):
        operation.operation.move_after(anchor)
        anchor = operation.operation
    return results


def counted(
    b: Builder, built: Built, first: Start, steps: int, split: Split, factor: int = 1
) -> tuple[Results, Value | None]:
    """Emit a loop of so many steps, or the steps: what all carries come to, and the counter if that is a value."""
    if factor in (0, steps) and isinstance(first, Literal):
        return unrolled(b, built, int(first.number), steps, split), None
    low, factor = first(), factor or steps
    high = b.addi(low, b._constant(steps, b.types.scalar(dt.i32)))
    if not steps and factor == 1:
        return together(split), high
    step = b._constant(1, b.types.scalar(dt.i32))
    return place(b, built, low, high, step, split, factor if factor > 1 else None), high


def static_loop(b: Builder, steps: int, starts: Sequence[Start], infos: Sequence[TypeInfo], body: Body) -> Results:
    """A `lax.scan` that counts from 0; the dead counter it leaves behind included."""
    i32 = b.types.scalar(dt.i32)
    built = build(b, infos, body)
    first = Literal(0, lambda: b._constant(0, i32))
    results, _ = counted(b, built, first, steps, settle(b, built, starts))
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
) -> Results:
    """A `lax.fori_loop` whose bounds are known at run time only; ``settled`` is called before the bounds are used."""
    i32 = b.types.scalar(dt.i32)
    built = build(b, infos, body, drops=DROPS_IN_WHILE_LOOPS)
    same = built.forwards(1)
    unchanged = built.kept(1, same, starts, all_made=not DROPS_IN_WHILE_LOOPS)
    low, high = lower(), upper()
    carried = [None if s else start() for s, start in zip(same, starts, strict=True)]
    settled()
    count = b.subi(high, low)
    last = b.addi(low, count)
    if DYNAMIC_FORI_IS_ONE_LOOP:
        return place(b, built, low, last, b._constant(1, i32), (unchanged, carried))
    one = b._constant(1, i32)
    main = b.addi(low, b.muli(b.divsi(count, one), one))
    again = built.copy(b)
    results = place(b, built, low, main, b._constant(1, i32), (unchanged, carried))
    rest: list[Value | None] = [None if s else r for s, r in zip(same, results, strict=True)]
    return place(b, again, main, last, b._constant(1, i32), (unchanged, rest))


def while_loop(
    b: Builder,
    starts: Sequence[Start],
    infos: Sequence[TypeInfo],
    condition: Callable[..., Value],
    body: Callable[..., Sequence[Value]],
) -> Results:
    """A `lax.while_loop`: what the body leaves as it is, and the condition does not read, is no carry."""
    with building(b) as owners:
        with aside(b, owners, infos, drops=DROPS_IN_WHILE_LOOPS) as (test_owner, test, carried):
            go_on = condition(*carried)
            b._use(go_on, "scf.condition")
            if go_on._info is not b.types.scalar(dt.i1):
                b.fail(DTypeError, "the condition must be an i1 scalar", op="scf.condition", operands=[go_on])
        with aside(b, owners, infos, drops=DROPS_IN_WHILE_LOOPS) as (owner, block, carried):
            yields = list(body(*carried))
            for y in yields:
                b._use(y, "scf.yield")
    built, tested = Built(owner, block, yields), Built(test_owner, test, [go_on])
    same = [s and not is_used(tested, n) for n, s in enumerate(built.forwards(0))]
    unchanged = built.kept(0, same, starts, all_made=not DROPS_IN_WHILE_LOOPS)
    kept = [start() for s, start in zip(same, starts, strict=True) if not s]
    kept_infos = [v._info for v in kept]
    created = b._emit_many("scf.while", kept_infos, [v._ir for v in kept], None, 2)
    _bind(test, 0, unchanged)
    with b.types.context, b.types.unknown:
        used = [go_on._ir, *test.arguments]
        open_ir.Operation.create("scf.condition", operands=used, loc=created.location, ip=ir.InsertionPoint(test))
    end(b, block, "scf.yield", [y for y, u in zip(yields, unchanged, strict=True) if u is None], created)
    _bind(block, 0, unchanged)
    test.append_to(created.regions[0])
    block.append_to(created.regions[1])
    return _results(b, created, unchanged, kept_infos)
