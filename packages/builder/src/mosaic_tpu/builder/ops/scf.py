"""The scf dialect as context managers: for, if, if/else, while; and ``tpu.region``.

A region's values are dead when its ``with`` block ends; what leaves it is yielded and read from ``.results``.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self

from mosaic_tpu.builder import dtypes as dt
from mosaic_tpu.builder._compat import IrBlock, IrOperation, IrValue
from mosaic_tpu.builder._core import NO_BLOCK, Core, Scope
from mosaic_tpu.builder._registry import op
from mosaic_tpu.builder._types import TypeInfo
from mosaic_tpu.builder._value import Value
from mosaic_tpu.builder.errors import (
    ArityError,
    DTypeError,
    ForeignValueError,
    KindError,
    RegionOrderError,
    YieldMissingError,
    YieldTwiceError,
    YieldTypeError,
)

if TYPE_CHECKING:
    from mosaic_tpu.builder.builder import Builder

#: A result type: from `scalar_ty`, `vector_ty`, `ref_ty`, or a value of that type.
type TypeLike = TypeInfo | Value


def _append_block(operation: IrOperation, region: int, arguments: Sequence[TypeInfo]) -> IrBlock:
    """The region's block, its arguments at the operation's own line."""
    locations = [operation.location] * len(arguments)
    return operation.regions[region].blocks.append(*(a.ir for a in arguments), arg_locs=locations)


class Region:
    """One block of a structured op, entered with ``with``.

    Attributes:
        carried: the block's arguments as values.
    """

    def __init__(
        self,
        builder: Builder,
        block: IrBlock,
        arguments: Sequence[TypeInfo],
        yields: Sequence[TypeInfo],
        terminator: str,
    ) -> None:
        self._builder = builder
        self._scope = Scope(builder, block, None)
        self._values = [Value(a, i, self._scope) for a, i in zip(block.arguments, arguments, strict=True)]
        self._yields = tuple(yields)
        self._terminator = terminator
        self._entered = False
        self._done = False
        builder._incomplete += 1

    @property
    def carried(self) -> tuple[Value, ...]:
        """The values the region starts with."""
        return tuple(self._values)

    def __enter__(self) -> Self:
        b = self._builder
        if self._entered:
            b.fail(
                RegionOrderError, "a region was entered twice", op=self._terminator, hint="each region is built once"
            )
        self._entered = True
        self._scope.parent = b._scope
        b._scope, b._ip = self._scope, self._scope.ip
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        b = self._builder
        parent = self._scope.parent
        if parent is None or self._scope is not b._scope:
            if kind is not None:
                return
            b.fail(
                RegionOrderError,
                "regions must close in the order they opened",
                op=self._terminator,
                hint="nest the with blocks",
            )
        try:
            if kind is None and not self._done:
                if self._yields:
                    shown = ", ".join(map(str, self._yields))
                    b.fail(
                        YieldMissingError,
                        f"the region must yield ({shown})",
                        op=self._terminator,
                        hint="end the with block with .yield_(…)",
                    )
                self.yield_()
        finally:
            self._scope.live = None
            b._scope, b._ip = parent, parent.ip

    def yield_(self, *values: Value) -> None:
        """End the region with these values; they become `results`.

        Raises:
            YieldTwiceError: the region has already yielded.
            YieldTypeError: number or types differ from what the region carries.
        """
        self._finish(values, [])

    def _finish(self, values: Sequence[Value], leading: list[IrValue]) -> None:
        b = self._builder
        if self._done:
            b.fail(YieldTwiceError, "the region yields twice", op=self._terminator, operands=values)
        if b._scope is not self._scope:
            b.fail(
                RegionOrderError,
                "yield belongs to the innermost open region",
                op=self._terminator,
                operands=values,
                hint="call yield_ of the region whose with block you are in",
            )
        used = b._use_all(values, self._terminator)
        wanted = [i.ir for i in self._yields]
        got = [v._info.ir for v in values]
        if len(wanted) != len(got) or any(w is not g for w, g in zip(wanted, got, strict=True)):
            b.fail(
                YieldTypeError,
                f"the region carries ({', '.join(map(str, self._yields))})",
                op=self._terminator,
                operands=values,
                hint="yield one value for each, of the same type",
            )
        b._emit_void(self._terminator, [*leading, *used])
        self._done = True
        b._incomplete -= 1
        b._ip = NO_BLOCK


class _Structured:
    """What the regions of one op share: the op itself, and its results in the enclosing scope."""

    def __init__(
        self, builder: Builder, created: IrOperation, results: Sequence[TypeInfo], regions: Sequence[Region]
    ) -> None:
        self.operation = created
        self._builder = builder
        self._results = tuple(Value(r, i, builder._scope) for r, i in zip(created.results, results, strict=True))
        self._regions = tuple(regions)

    @property
    def results(self) -> tuple[Value, ...]:
        """The op's results, readable once every region is built."""
        if not all(r._done for r in self._regions):
            self._builder.fail(
                RegionOrderError,
                "results were read before the regions were built",
                op=self.operation.name,
                hint="leave the with block first",
            )
        return self._results


class For(_Structured):
    """An open ``scf.for``: ``iv``, ``carried``, ``yield_``, then ``results``."""

    def __init__(self, builder: Builder, created: IrOperation, results: Sequence[TypeInfo], region: Region) -> None:
        super().__init__(builder, created, results, [region])
        self._region = region

    @property
    def iv(self) -> Value:
        """The induction variable, of the bounds' type."""
        return self._region._values[0]

    @property
    def carried(self) -> tuple[Value, ...]:
        """The loop-carried values at the start of an iteration."""
        return tuple(self._region._values[1:])

    def yield_(self, *values: Value) -> None:
        """End the body; the values are carried into the next iteration."""
        self._region.yield_(*values)

    def __enter__(self) -> Self:
        self._region.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._region.__exit__(kind, error, trace)


class If(_Structured):
    """An open ``scf.if`` without results: the with block is the then branch."""

    def __init__(self, builder: Builder, created: IrOperation, then: Region) -> None:
        super().__init__(builder, created, [], [then])
        self._then = then

    def yield_(self) -> None:
        """End the branch (implied at the end of the with block)."""
        self._then.yield_()

    def yield_then(self) -> None:
        """The guide's name for `yield_`."""
        self._then.yield_()

    def __enter__(self) -> Self:
        self._then.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._then.__exit__(kind, error, trace)


class IfElse(_Structured):
    """An ``scf.if`` with two branches: ``with i.then: … i.yield_then(x)``, ``with i.otherwise: … i.yield_else(y)``."""

    def __init__(
        self, builder: Builder, created: IrOperation, results: Sequence[TypeInfo], then: Region, otherwise: Region
    ) -> None:
        super().__init__(builder, created, results, [then, otherwise])
        self.then = then
        self.otherwise = otherwise

    def yield_then(self, *values: Value) -> None:
        """End the then branch."""
        self.then.yield_(*values)

    def yield_else(self, *values: Value) -> None:
        """End the else branch."""
        self.otherwise.yield_(*values)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            _require_built(self._builder, self.operation, {"then": self.then, "otherwise": self.otherwise})


class While(_Structured):
    """An ``scf.while``: ``with w.before: … w.condition(c, …)``, ``with w.after: … w.yield_(…)``."""

    def __init__(
        self, builder: Builder, created: IrOperation, results: Sequence[TypeInfo], before: Region, after: Region
    ) -> None:
        super().__init__(builder, created, results, [before, after])
        self.before = before
        self.after = after

    @property
    def before_carried(self) -> tuple[Value, ...]:
        """The before region's arguments; same as ``before.carried``."""
        return self.before.carried

    @property
    def after_carried(self) -> tuple[Value, ...]:
        """The after region's arguments; same as ``after.carried``."""
        return self.after.carried

    def yield_before(self, condition: Value, *forwarded: Value) -> None:
        """The guide's name for `condition`."""
        self.condition(condition, *forwarded)

    def yield_after(self, *values: Value) -> None:
        """The guide's name for `yield_`."""
        self.yield_(*values)

    def condition(self, condition: Value, *forwarded: Value) -> None:
        """End the before region: go on while ``condition`` holds; ``forwarded`` are the after region's arguments."""
        b = self._builder
        if self.before._done:
            b.fail(YieldTwiceError, "the region yields twice", op="scf.condition", operands=[condition, *forwarded])
        used = b._use(condition, "scf.condition")
        if condition.dtype is not dt.i1 or condition.is_shaped:
            b.fail(DTypeError, "the condition must be an i1 scalar", op="scf.condition", operands=[condition])
        self.before._finish(forwarded, [used])

    def yield_(self, *values: Value) -> None:
        """End the after region; the values are the before region's next arguments."""
        self.after.yield_(*values)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            _require_built(self._builder, self.operation, {"before": self.before, "after": self.after})


class ScopedRegion(_Structured):
    """An open ``tpu.region``: allocations inside live until its end."""

    def __init__(self, builder: Builder, created: IrOperation, results: Sequence[TypeInfo], body: Region) -> None:
        super().__init__(builder, created, results, [body])
        self._body = body

    def yield_(self, *values: Value) -> None:
        """End the region with its results."""
        self._body.yield_(*values)

    def __enter__(self) -> Self:
        self._body.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._body.__exit__(kind, error, trace)


def _require_built(builder: Builder, created: IrOperation, regions: dict[str, Region]) -> None:
    missing = [name for name, region in regions.items() if not region._done]
    if missing:
        builder.fail(
            YieldMissingError,
            f"region {missing[0]!r} was never built",
            op=created.name,
            hint=f"write: with x.{missing[0]}: …",
        )


class ScfOps(Core):
    """``scf.*`` and ``tpu.region``."""

    def _infos(self, types: Sequence[TypeLike], name: str) -> list[TypeInfo]:
        self._sequence(types, name)
        found = [t._info if isinstance(t, Value) else t for t in types]
        for info in found:
            if not isinstance(info, TypeInfo):  # pyright: ignore[reportUnnecessaryIsInstance]
                self.fail(
                    KindError, f"{info!r} is not a type", op=name, hint="b.scalar_ty(f32), b.vector_ty(shape, f32)"
                )
            if info.ir.context != self.types.context:
                self.fail(
                    ForeignValueError,
                    "a type of another thread was used",
                    op=name,
                    operands=[info],
                    hint="make types with this builder: b.scalar_ty(f32)",
                )
        return found

    def _bound(self, value: Value | int, like: TypeInfo, name: str) -> Value:
        if not isinstance(value, Value):
            return self._constant(self._int(value, name, "bound"), like)
        self._use(value, name)
        if value._info.ir is not like.ir:
            self.fail(
                DTypeError, f"bounds must all be {like}", op=name, operands=[value], hint="b.index_cast, or use ints"
            )
        return value

    def _self(self) -> Builder:
        return self  # pyright: ignore[reportReturnType]

    @op("scf.for", source="k.openFor(lower, upper, step, inits)", traits=("region",))
    def for_(self, lower: Value | int, upper: Value | int, step: Value | int = 1, init: Sequence[Value] = ()) -> For:
        """A counted loop; ``upper`` is excluded.

        Args:
            lower: first value of ``iv``: an int, an index value or an i32 value.
            upper: end, excluded.
            step: positive step.
            init: start of the loop-carried values.

        Ints take the type of the other bounds; when all are ints the counter is ``index``.

        Example:
            >>> with b.for_(0, b.lift(4), init=[b.lift(0)]) as loop:
            ...     loop.yield_(loop.carried[0] + loop.iv)
            >>> loop.results[0].dtype
            i32
        """
        name = "scf.for"
        self._use_all([v for v in (lower, upper, step) if isinstance(v, Value)], name)
        given = [v for v in (lower, upper, step) if isinstance(v, Value)]
        like = given[0]._info if given else self.types.index
        if like.kind != "scalar" or not (like.dtype.is_int or like.dtype is dt.index) or like.dtype is dt.i1:
            self.fail(
                DTypeError, "bounds must be integers", op=name, operands=given, hint="i32 or index scalars, or ints"
            )
        bounds = [self._bound(v, like, name) for v in (lower, upper, step)]
        carried = self._use_all(init, name)
        infos = [v._info for v in init]
        created = self._emit_many(name, infos, [*(v._ir for v in bounds), *carried], None, 1)
        block = _append_block(created, 0, [like, *infos])
        return For(self._self(), created, infos, Region(self._self(), block, [like, *infos], infos, "scf.yield"))

    def _condition(self, condition: Value, name: str) -> IrValue:
        used = self._use(condition, name)
        if condition._info is not self.types.scalar(dt.i1):
            wrong = KindError if condition.is_shaped else DTypeError
            self.fail(
                wrong,
                "the condition must be an i1 scalar",
                op=name,
                operands=[condition],
                hint="compare scalars: n > 0; for vectors use select",
            )
        return used

    @op("scf.if", source="k.openIf(cond)", traits=("region",))
    def if_(self, condition: Value) -> If:
        """Run the with block when ``condition`` holds; the else branch is empty.

        Example:
            >>> with b.if_(b.lift(1) < 2):
            ...     b.scalar_store(a.lens, b.lift(3), [0])
        """
        created = self._emit_many("scf.if", [], [self._condition(condition, "scf.if")], None, 2)
        then = Region(self._self(), created.regions[0].blocks.append(), [], [], "scf.yield")
        with Region(self._self(), created.regions[1].blocks.append(), [], [], "scf.yield"):
            pass
        return If(self._self(), created, then)

    @op("scf.if", source="k.openIfElse(cond, types)", traits=("region",))
    def if_else(self, condition: Value, results: Sequence[TypeLike] = ()) -> IfElse:
        """Two branches that yield values of the given types.

        Args:
            condition: an ``i1`` scalar.
            results: types of the results: `scalar_ty`, `vector_ty`, or a value of that type.

        Example:
            >>> with b.if_else(b.lift(1) < 2, [b.scalar_ty(i32)]) as choice:
            ...     with choice.then:
            ...         choice.yield_then(b.lift(3))
            ...     with choice.otherwise:
            ...         choice.yield_else(b.lift(4))
            >>> choice.results[0].dtype
            i32
        """
        infos = self._infos(results, "scf.if")
        created = self._emit_many("scf.if", infos, [self._condition(condition, "scf.if")], None, 2)
        then, otherwise = (
            Region(self._self(), region.blocks.append(), [], infos, "scf.yield") for region in created.regions
        )
        return IfElse(self._self(), created, infos, then, otherwise)

    @op("scf.while", source="k.openWhile(inits, after_types)", traits=("region",))
    def while_(self, init: Sequence[Value], after: Sequence[TypeLike] | None = None) -> While:
        """A loop that tests first.

        Args:
            init: start values: the before region's arguments.
            after: types forwarded to the after region and of the results; those of ``init`` if omitted.

        Example:
            >>> with b.while_([b.lift(0)]) as loop:
            ...     with loop.before:
            ...         (s,) = loop.before.carried
            ...         loop.condition(s < 10, s)
            ...     with loop.after:
            ...         (s,) = loop.after.carried
            ...         loop.yield_(s + 1)
            >>> loop.results[0].dtype
            i32
        """
        used = self._use_all(init, "scf.while")
        starts = [v._info for v in init]
        infos = starts if after is None else self._infos(after, "scf.while")
        created = self._emit_many("scf.while", infos, used, None, 2)
        before = _append_block(created, 0, starts)
        body = _append_block(created, 1, infos)
        return While(
            self._self(),
            created,
            infos,
            Region(self._self(), before, starts, infos, "scf.condition"),
            Region(self._self(), body, infos, starts, "scf.yield"),
        )

    @op("tpu.region", source="pl.run_scoped", traits=("region",))
    def region(self, results: Sequence[TypeLike] = ()) -> ScopedRegion:
        """A region that frees what is allocated inside: `alloca`, `sem_alloc`.

        Example:
            >>> with b.region():
            ...     buffer = b.alloca((8, 128), f32)
        """
        infos = self._infos(results, "tpu.region")
        if any(i.is_ref for i in infos):
            self.fail(ArityError, "refs cannot leave a region", op="tpu.region", hint="yield values")
        created = self._emit_many("tpu.region", infos, [], None, 1)
        body = Region(self._self(), created.regions[0].blocks.append(), [], infos, "tpu.yield")
        return ScopedRegion(self._self(), created, infos, body)
