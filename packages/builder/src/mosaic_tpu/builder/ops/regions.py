"""Open regions of structured ops: the ``with`` objects of for, if, while, index_switch and ``tpu.region``.

A region's values are dead when its ``with`` block ends; what leaves it is yielded and read from ``.results``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self

from mosaic_tpu.builder import dtypes as dt
from mosaic_tpu.builder._compat import IrBlock, IrOperation, IrValue
from mosaic_tpu.builder._core import NO_BLOCK, Scope
from mosaic_tpu.builder._types import TypeInfo
from mosaic_tpu.builder._value import Value
from mosaic_tpu.builder.errors import (
    ArityError,
    DTypeError,
    RegionOrderError,
    YieldMissingError,
    YieldTwiceError,
    YieldTypeError,
)

if TYPE_CHECKING:
    from mosaic_tpu.builder.builder import Builder


def append_block(operation: IrOperation, region: int, arguments: Sequence[TypeInfo]) -> IrBlock:
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
        """The Zig DSL's name for `yield_`."""
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
            require_built(self._builder, self.operation, {"then": self.then, "otherwise": self.otherwise})


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
        """The Zig DSL's name for `condition`."""
        self.condition(condition, *forwarded)

    def yield_after(self, *values: Value) -> None:
        """The Zig DSL's name for `yield_`."""
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
            require_built(self._builder, self.operation, {"before": self.before, "after": self.after})


class Switch(_Structured):
    """An ``scf.index_switch``: ``with s.case(0) as c: … c.yield_(x)``, ``with s.default as d: … d.yield_(y)``."""

    def __init__(
        self,
        builder: Builder,
        created: IrOperation,
        results: Sequence[TypeInfo],
        default: Region,
        cases: Mapping[int, Region],
    ) -> None:
        super().__init__(builder, created, results, [default, *cases.values()])
        self.default = default
        self._cases = dict(cases)

    def case(self, value: int) -> Region:
        """The branch for one value.

        Raises:
            ArityError: the switch has no such case.
        """
        found = self._cases.get(value)
        if found is None:
            self._builder.fail(
                ArityError,
                f"no case {value!r}",
                op="scf.index_switch",
                hint=f"the cases are {', '.join(map(str, self._cases))}",
            )
        return found

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            regions = {"default": self.default, **{f"case({v})": r for v, r in self._cases.items()}}
            require_built(self._builder, self.operation, regions)


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


def require_built(builder: Builder, created: IrOperation, regions: dict[str, Region]) -> None:
    """Refuse to leave an op of whose regions one was never built."""
    missing = [name for name, region in regions.items() if not region._done]
    if missing:
        builder.fail(
            YieldMissingError,
            f"region {missing[0]!r} was never built",
            op=created.name,
            hint=f"write: with x.{missing[0]}: …",
        )
