"""The scf dialect as context managers: for, if, if/else, while, index_switch; and ``tpu.region``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mosaic_tpu.builder import dtypes as dt
from mosaic_tpu.builder._compat import IrValue, ir
from mosaic_tpu.builder._core import Core
from mosaic_tpu.builder._registry import op
from mosaic_tpu.builder._types import TypeInfo
from mosaic_tpu.builder._value import Value
from mosaic_tpu.builder.errors import ArityError, DTypeError, ForeignValueError, KindError
from mosaic_tpu.builder.ops.regions import For as For
from mosaic_tpu.builder.ops.regions import If as If
from mosaic_tpu.builder.ops.regions import IfElse as IfElse
from mosaic_tpu.builder.ops.regions import Region as Region
from mosaic_tpu.builder.ops.regions import ScopedRegion as ScopedRegion
from mosaic_tpu.builder.ops.regions import Switch as Switch
from mosaic_tpu.builder.ops.regions import While as While
from mosaic_tpu.builder.ops.regions import append_block

if TYPE_CHECKING:
    from mosaic_tpu.builder.builder import Builder

#: A result type: from `scalar_ty`, `vector_ty`, `ref_ty`, or a value of that type.
type TypeLike = TypeInfo | Value


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

    @op("scf.for", "scf.yield", source="k.openFor(lower, upper, step, inits)", traits=("region",))
    def for_(
        self,
        lower: Value | int,
        upper: Value | int,
        step: Value | int = 1,
        init: Sequence[Value] = (),
        *,
        late_unroll: int | None = None,
    ) -> For:
        """A counted loop; ``upper`` is excluded.

        Args:
            lower: first value of ``iv``: an int, an index value or an i32 value.
            upper: end, excluded.
            step: positive step.
            init: start of the loop-carried values.
            late_unroll: how many iterations the compiler unrolls to one, late: ``fori_loop(unroll=…)``.

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
        attributes: dict[str, ir.Attribute] | None = None
        if late_unroll is not None:
            factor = self._i32_attribute(late_unroll, name, "late_unroll")
            attributes = {"tpu.late_unroll": self.types.integer(factor, 32)}
        created = self._emit_many(name, infos, [*(v._ir for v in bounds), *carried], attributes, 1)
        block = append_block(created, 0, [like, *infos])
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

    @op("scf.if", "scf.yield", source="k.openIf(cond)", traits=("region",))
    def if_(self, condition: Value, *, empty_else: bool = True) -> If:
        """Run the with block when ``condition`` holds; the else branch is empty.

        Args:
            condition: an ``i1`` scalar.
            empty_else: whether there is an else branch at all. Pallas makes one; canonical text has none.

        Example:
            >>> with b.if_(b.lift(1) < 2):
            ...     b.scalar_store(a.lens, b.lift(3), [0])
        """
        created = self._emit_many("scf.if", [], [self._condition(condition, "scf.if")], None, 2)
        then = Region(self._self(), created.regions[0].blocks.append(), [], [], "scf.yield")
        if empty_else:
            with Region(self._self(), created.regions[1].blocks.append(), [], [], "scf.yield"):
                pass
        return If(self._self(), created, then)

    @op("scf.if", "scf.yield", source="k.openIfElse(cond, types)", traits=("region",))
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

    @op("scf.while", "scf.condition", "scf.yield", source="k.openWhile(inits, after_types)", traits=("region",))
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
        before = append_block(created, 0, starts)
        body = append_block(created, 1, infos)
        return While(
            self._self(),
            created,
            infos,
            Region(self._self(), before, starts, infos, "scf.condition"),
            Region(self._self(), body, infos, starts, "scf.yield"),
        )

    @op("scf.index_switch", "scf.yield", source="scf.index_switch", traits=("region",))
    def index_switch(self, index: Value, cases: Sequence[int], results: Sequence[TypeLike] = ()) -> Switch:
        """One of several branches by the value of ``index``. Pallas lowers `lax.switch` to nested ``scf.if`` instead.

        Args:
            index: an index scalar.
            cases: the values that have a branch of their own.
            results: types of the results.

        Example:
            >>> with b.index_switch(b.to_index(a.i), [0, 2], [b.scalar_ty(i32)]) as switch:
            ...     with switch.case(0) as case:
            ...         case.yield_(b.lift(10))
            ...     with switch.case(2) as case:
            ...         case.yield_(b.lift(12))
            ...     with switch.default as case:
            ...         case.yield_(a.i)
            >>> switch.results[0].dtype
            i32
        """
        name = "scf.index_switch"
        used = self._use(index, name)
        if index._info is not self.types.index:
            self.fail(DTypeError, "the switch is over an index", op=name, operands=[index], hint="b.to_index(v)")
        values = self._ints(cases, name, "cases")
        if len(set(values)) != len(values):
            self.fail(ArityError, f"cases {values} repeat", op=name, hint="give each value once")
        infos = self._infos(results, name)
        attributes: dict[str, ir.Attribute] = {"cases": self.types.dense(values, 64)}
        created = self._emit_many(name, infos, [used], attributes, 1 + len(values))
        default, *others = (
            Region(self._self(), region.blocks.append(), [], infos, "scf.yield") for region in created.regions
        )
        return Switch(self._self(), created, infos, default, dict(zip(values, others, strict=True)))

    @op("tpu.region", "tpu.yield", source="pl.run_scoped", traits=("region",))
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
