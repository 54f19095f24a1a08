"""Any op in its generic form: name, operands, attributes and result types as MLIR text, regions as context managers.

For ops that have no helper, functions that `declare_args` does not write, and attributes it does not know. MLIR's
verifier checks what is written here, when the kernel is finished.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Final, Literal, Self, cast, overload

from mosaic_tpu.builder._compat import IrBlock, IrOperation, ir
from mosaic_tpu.builder._core import NO_BLOCK, Core, Scope
from mosaic_tpu.builder._registry import op
from mosaic_tpu.builder._types import TypeInfo
from mosaic_tpu.builder._value import Value
from mosaic_tpu.builder.errors import (
    ArityError,
    AttributeValueError,
    BuilderStateError,
    ForeignValueError,
    KindError,
    RegionOrderError,
    UnsupportedOpError,
    YieldMissingError,
)

if TYPE_CHECKING:
    from mosaic_tpu.builder.builder import Builder

#: A type as MLIR text, from `scalar_ty` and its like, or as a value of that type.
type AnyType = str | TypeInfo | Value
#: An attribute as MLIR text, or already one.
type AnyAttribute = str | ir.Attribute

type _Parse[T] = Callable[[str, ir.Context], T]

_TERMINATORS: Final = frozenset(
    (
        "func.return",
        "memref.alloca_scope.return",
        "memref.atomic_yield",
        "scf.condition",
        "scf.forall.in_parallel",
        "scf.reduce",
        "scf.reduce.return",
        "scf.yield",
        "tpu.yield",
        "vector.yield",
    )
)
#: Their regions end without a terminator.
_NO_TERMINATOR: Final = frozenset(("builtin.module", "scf.forall.in_parallel"))
_JUMPS: Final = frozenset(("cf.br", "cf.cond_br", "cf.switch"))


class GenericRegion:
    """One block, entered with ``with``: it hands out its arguments as values and must end with a terminator."""

    def __init__(
        self, builder: Builder, block: IrBlock, arguments: Sequence[TypeInfo], name: str, *, ends: bool
    ) -> None:
        self._builder = builder
        self._block = block
        self._name = name
        self._ends = ends
        self._scope = Scope(builder, block, None)
        self._values = tuple(Value(a, i, self._scope) for a, i in zip(block.arguments, arguments, strict=True))
        self._outside: tuple[Scope | None, ir.InsertionPoint] | None = None

    def __enter__(self) -> tuple[Value, ...]:
        b = self._builder
        if self._outside is not None:
            b.fail(RegionOrderError, "a region was entered twice", op=self._name, hint="each region is built once")
        self._outside = getattr(b, "_scope", None), b._ip
        b._incomplete += 1
        b._scope, b._ip = self._scope, self._scope.ip
        return self._values

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        b = self._builder
        if self._outside is None or b._scope is not self._scope:
            if kind is not None:
                return
            b.fail(
                RegionOrderError,
                "regions must close in the order they opened",
                op=self._name,
                hint="nest the with blocks",
            )
        try:
            if kind is None:
                self._check_end()
                b._incomplete -= 1
        finally:
            self._scope.live = None
            outer, b._ip = self._outside
            if outer is None:
                del b._scope
            else:
                b._scope = outer

    def _check_end(self) -> None:
        b = self._builder
        if self._ends and b._ip is not NO_BLOCK:
            b.fail(
                YieldMissingError,
                "the region has no terminator",
                op=self._name,
                hint='end the with block with b.generic_op("scf.yield", …), "tpu.yield" or "func.return"',
            )


class GenericOp:
    """An open op with regions: ``with op.region(0, arguments=…) as (x, …): …``, then ``op.results``."""

    def __init__(self, builder: Builder, created: IrOperation, results: Sequence[TypeInfo], *, ends: bool) -> None:
        self.operation = created
        self._builder = builder
        self._scope = builder._scope
        self._ends = ends
        self._regions: list[GenericRegion] = []
        self._results = tuple(Value(r, i, builder._scope) for r, i in zip(created.results, results, strict=True))

    @property
    def results(self) -> tuple[Value, ...]:
        """The op's results, readable once its regions are built."""
        if any(r._scope.live for r in self._regions):
            self._builder.fail(
                RegionOrderError,
                "results were read before the regions were built",
                op=self.operation.name,
                hint="leave the with block first",
            )
        return self._results

    def region(self, number: int, arguments: Sequence[AnyType] = ()) -> GenericRegion:
        """The one block of a region, to be entered once; a region that is never entered stays empty.

        Args:
            number: which region, counted from 0.
            arguments: types of the block's arguments.

        Raises:
            ArityError: the op has no such region.
            RegionOrderError: the region was built already, or another region is open.
        """
        b, created = self._builder, self.operation
        name = created.name
        number = b._int(number, name, "region")
        if not 0 <= number < len(created.regions):
            b.fail(ArityError, f"region {number} of {len(created.regions)}", op=name, hint="regions count from 0")
        if b._scope is not self._scope:
            b.fail(RegionOrderError, "another region is still open", op=name, hint="leave its with block first")
        blocks = created.regions[number].blocks
        if len(blocks):
            b.fail(
                RegionOrderError,
                f"region {number} was built already",
                op=name,
                hint="a region has one block: Mosaic kernels have structured control flow",
            )
        infos = b._any_types(arguments, name)
        block = blocks.append(*(i.ir for i in infos), arg_locs=[created.location] * len(infos))
        self._regions.append(GenericRegion(b, block, infos, name, ends=self._ends))
        return self._regions[-1]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass


class GenericOps(Core):
    """Whatever else MLIR has."""

    def _any_types(self, types: Sequence[AnyType], name: str) -> list[TypeInfo]:
        if isinstance(types, str):
            self.fail(ArityError, f"the types are {types!r}", op=name, hint='a sequence: ["i32"]')
        self._sequence(types, name)
        return [self._any_type(t, name) for t in types]

    def _any_type(self, given: AnyType, name: str) -> TypeInfo:
        if isinstance(given, str):
            found = self.types.texts.get(given)
            if found is None:
                mlir = self._parsed(given, name, "a type", ir.Type.parse)
                found = self.types.texts[given] = self.types.exact(mlir)
            return found
        info = given._info if isinstance(given, Value) else given
        if not isinstance(info, TypeInfo):  # pyright: ignore[reportUnnecessaryIsInstance]
            self.fail(KindError, f"{given!r} is not a type", op=name, hint='MLIR text, "vector<8x128xf32>"')
        if info.ir.context != self.types.context:
            self.fail(
                ForeignValueError,
                "a type of another thread was used",
                op=name,
                operands=[info],
                hint="make types with this builder: b.scalar_ty(f32)",
            )
        return info

    def _any_attribute(self, given: AnyAttribute, name: str, key: str) -> ir.Attribute:
        if isinstance(given, ir.Attribute):
            if given.context != self.types.context:
                self.fail(ForeignValueError, f"attribute {key!r} lives in another context", op=name)
            return given
        if not isinstance(given, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            self.fail(AttributeValueError, f"attribute {key!r} is {given!r}", op=name, hint='MLIR text, "1 : i32"')
        found = self.types.attribute_texts.get(given)
        if found is None:
            found = self._parsed(given, name, f"attribute {key!r}", ir.Attribute.parse)
            self.types.attribute_texts[given] = found
        return found

    def _parsed[T](self, text: str, name: str, what: str, parse: _Parse[T]) -> T:
        reason = "it is empty"
        if text:  # MLIR's parser reads before an empty text
            try:
                return parse(text, self.types.context)
            except ir.MLIRError as error:
                diagnostics = list(error.error_diagnostics)
                reason = diagnostics[0].message if diagnostics else str(error)
            except (TypeError, ValueError):  # locations are attributes to MLIR's parser, and not to its bindings
                reason = "this kind cannot be written as text"
        self.fail(AttributeValueError, f"MLIR cannot read {what}, {text!r}: {reason}", op=name, hint="write MLIR text")

    def _any_attributes(self, given: Mapping[str, AnyAttribute] | None, name: str) -> dict[str, ir.Attribute]:
        if given is None:
            return {}
        if not isinstance(given, Mapping) or any(not isinstance(k, str) or not k for k in given):  # pyright: ignore[reportUnnecessaryIsInstance]
            self.fail(
                AttributeValueError, f"the attributes are {given!r}", op=name, hint='a mapping: {"level": "1 : i32"}'
            )
        return {key: self._any_attribute(value, name, key) for key, value in given.items()}

    def _known_op(self, name: str, allow_unregistered: bool) -> None:
        if not isinstance(name, str) or not name:  # pyright: ignore[reportUnnecessaryIsInstance]
            self.fail(UnsupportedOpError, f"{name!r} is not the name of an op", op="generic_op", hint='"arith.addi"')
        if name in _JUMPS:
            self.fail(
                UnsupportedOpError,
                "a jump between blocks: regions have one block here",
                op=name,
                hint="use scf.if, scf.for and scf.while",
            )
        if not allow_unregistered and not self.types.context.is_registered_operation(name):
            self.fail(
                UnsupportedOpError,
                "the installed jaxlib knows no such op",
                op=name,
                hint="a newer jaxlib may have it; allow_unregistered=True writes it all the same",
            )

    @overload
    def generic_op(
        self,
        name: str,
        *operands: Value,
        attributes: Mapping[str, AnyAttribute] | None = None,
        results: Sequence[AnyType] = (),
        regions: Literal[0] = 0,
        allow_unregistered: bool = False,
    ) -> Value | tuple[Value, ...] | None: ...
    @overload
    def generic_op(
        self,
        name: str,
        *operands: Value,
        attributes: Mapping[str, AnyAttribute] | None = None,
        results: Sequence[AnyType] = (),
        regions: int,
        allow_unregistered: bool = False,
    ) -> GenericOp: ...
    @op(group="escape", source="any MLIR op")
    def generic_op(
        self,
        name: str,
        *operands: Value,
        attributes: Mapping[str, AnyAttribute] | None = None,
        results: Sequence[AnyType] = (),
        regions: int = 0,
        allow_unregistered: bool = False,
    ) -> Value | tuple[Value, ...] | GenericOp | None:
        """Any op of any dialect, as MLIR's generic form has it.

        Args:
            name: ``"math.exp"``.
            operands: values, in the op's order.
            attributes: name to MLIR text, ``{"dim": "0 : i32", "flag": "unit"}``; inherent and other ones alike.
            results: types as MLIR text or from `vector_ty` and its like. A type that the builder does not know gives
                a value that only `generic_op`, yields and calls take.
            regions: how many; the op is then a context manager, and its results are ``.results``.
            allow_unregistered: let pass an op that the installed jaxlib does not know.

        Returns:
            The result, a tuple of several, ``None`` for none; a `GenericOp` when there are regions.

        Raises:
            UnsupportedOpError: no such op, or one that jumps between blocks.
            AttributeValueError: MLIR cannot read an attribute or type, or the op does not take the attribute's kind.

        Example:
            >>> x = b.generic_op("math.exp", b.lift(1.0), results=["f32"])
            >>> with b.generic_op("scf.execute_region", results=["f32"], regions=1) as outer:
            ...     with outer.region(0):
            ...         b.generic_op("scf.yield", x)
            >>> outer.results[0].dtype
            f32
        """
        flag = self._flag(allow_unregistered, "generic_op", "allow_unregistered")
        self._known_op(name, flag)
        used = [self._use(v, name) for v in operands]
        count = self._int(regions, name, "number of regions")
        if not 0 <= count <= 1 << 16:
            self.fail(AttributeValueError, f"{count} regions", op=name, hint="0 or more")
        with self.types.unregistered(flag):
            infos = self._any_types(results, name)
            found = self._any_attributes(attributes, name)
            self._needs_verifier = True
            self._foreign |= flag
            created = self._emit_many(name, infos, used, found, count)
        self._check_attributes(created, found)
        if name in _TERMINATORS:
            self._ip = NO_BLOCK
        if count:
            ends = name not in _NO_TERMINATOR and self.types.context.is_registered_operation(name)
            return GenericOp(cast("Builder", self), created, infos, ends=ends)
        values = tuple(Value(r, i, self._scope) for r, i in zip(created.results, infos, strict=True))
        return None if not values else values[0] if len(values) == 1 else values

    def _check_attributes(self, created: IrOperation, given: Mapping[str, ir.Attribute]) -> None:
        """MLIR silently drops inherent attributes of the wrong kind."""
        name, kept = created.name, created.attributes
        for key, value in given.items():
            if key not in kept or kept[key] != value:
                created.erase()
                self.fail(
                    AttributeValueError,
                    f"the op takes no {value} as {key!r}",
                    op=name,
                    hint="an attribute of another kind: see the dialect's documentation",
                )

    @op("func.func", "func.return", group="escape", source="func.func")
    def generic_function(
        self,
        name: str,
        inputs: Sequence[AnyType] = (),
        results: Sequence[AnyType] = (),
        attributes: Mapping[str, AnyAttribute] | None = None,
    ) -> GenericRegion:
        """A ``func.func`` of the module with any attributes; its with block hands out the arguments.

        For a kernel that `declare_args` cannot express, and for index maps of another form. A module may consist of
        such functions alone: `finish` then only verifies it.

        Args:
            name: the symbol.
            inputs: types of the arguments.
            results: types it returns, with ``b.generic_op("func.return", …)`` at the end of the with block.
            attributes: name to MLIR text; ``sym_name`` and ``function_type`` are written already.

        Raises:
            YieldMissingError: the body does not return.
            AttributeValueError: MLIR cannot read a type or an attribute.

        Example:
            >>> with b.generic_function("transform_9", ["i32"], ["i32"]) as (i,):
            ...     b.generic_op("func.return", i)
        """
        if self._closed():
            self.fail(BuilderStateError, "the builder is finished", op="func.func", hint="make a new Builder")
        if not isinstance(name, str) or not name:  # pyright: ignore[reportUnnecessaryIsInstance]
            self.fail(AttributeValueError, f"the function's name is {name!r}", op="func.func", hint="a string")
        builder = cast("Builder", self)
        takes, gives = self._any_types(inputs, "func.func"), self._any_types(results, "func.func")
        found = self._any_attributes(attributes, "func.func")
        block = builder._create_function(name, takes, gives, {}, builder.module.body)
        self._needs_verifier = True
        self._set_attributes(block.owner, found)
        self._functions += 1
        return GenericRegion(builder, block, takes, "func.func", ends=True)

    @op(group="escape", source="module attributes {…}")
    def module_attributes(self, attributes: Mapping[str, AnyAttribute | None]) -> None:
        """Set attributes of the module; ``None`` takes one away.

        Args:
            attributes: name to MLIR text.

        Example:
            >>> b.module_attributes({"tpu.note": '"by hand"'})
        """
        builder = cast("Builder", self)
        self._change_attributes(builder.module.operation, attributes, "module_attributes")

    @op(group="escape", source="func.func attributes {…}")
    def function_attributes(self, attributes: Mapping[str, AnyAttribute | None]) -> None:
        """Set attributes of the kernel's function beside or instead of what `declare_args` writes; ``None`` drops one.

        Args:
            attributes: name to MLIR text.

        Raises:
            BuilderStateError: no arguments declared yet.

        Example:
            >>> b.function_attributes({"dimension_semantics": "[#tpu.dimension_semantics<parallel>]"})
        """
        root = cast("Builder", self)._root
        if root is None:
            self.fail(
                BuilderStateError,
                "no arguments declared yet",
                op="function_attributes",
                hint="call declare_args first, or give generic_function its attributes",
            )
        self._change_attributes(root.block.owner, attributes, "function_attributes")

    def _change_attributes(self, target: IrOperation, given: Mapping[str, AnyAttribute | None], name: str) -> None:
        if self._closed():
            self.fail(BuilderStateError, "the builder is finished", op=name, hint="make a new Builder")
        if not isinstance(given, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            self._any_attributes(given, name)
        kept = self._any_attributes({k: v for k, v in given.items() if v is not None}, name)
        for key in given:
            if key not in kept and key in target.attributes:
                del target.attributes[key]
        self._needs_verifier = True
        self._set_attributes(target, kept)

    def _set_attributes(self, target: IrOperation, given: Mapping[str, ir.Attribute]) -> None:
        for key, value in given.items():
            target.attributes[key] = value
            if key not in target.attributes or target.attributes[key] != value:
                self.fail(AttributeValueError, f"{target.name} takes no {value} as {key!r}", op=target.name)

    def _closed(self) -> bool:
        return cast("Builder", self)._finished
