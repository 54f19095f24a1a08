"""`Builder`: opens a module, declares the kernel's function, collects ops, and finishes it."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

from mosaic_tpu.builder import _declare
from mosaic_tpu.builder import dtypes as dt
from mosaic_tpu.builder._compat import MODULE_HAS_NAME, IrOperation, ir, open_ir
from mosaic_tpu.builder._core import NO_BLOCK, Scope
from mosaic_tpu.builder._declare import Signature
from mosaic_tpu.builder._names import refuse_name
from mosaic_tpu.builder._registry import op
from mosaic_tpu.builder._types import TypeInfo
from mosaic_tpu.builder._value import Value
from mosaic_tpu.builder.enums import CoreType, DimensionSemantics, MemorySpace
from mosaic_tpu.builder.errors import (
    ArgumentSpecError,
    ArityError,
    AttributeValueError,
    BuilderStateError,
    ForeignValueError,
    KindError,
    MosaicError,
    RegionOrderError,
    UnknownArgumentError,
    VerificationError,
)
from mosaic_tpu.builder.module import MosaicModule, explain_verifier
from mosaic_tpu.builder.ops.arith_wide import ArithWideOps
from mosaic_tpu.builder.ops.cf import CfOps
from mosaic_tpu.builder.ops.generic import GenericOps
from mosaic_tpu.builder.ops.guide import GuideOps
from mosaic_tpu.builder.ops.math import MathOps
from mosaic_tpu.builder.ops.memref import MemrefOps
from mosaic_tpu.builder.ops.scf import ScfOps
from mosaic_tpu.builder.ops.sparsecore import SparseCoreOps
from mosaic_tpu.builder.ops.tpu_conv import TpuConvOps
from mosaic_tpu.builder.ops.tpu_debug import TpuDebugOps
from mosaic_tpu.builder.ops.tpu_dma import TpuDmaOps
from mosaic_tpu.builder.ops.tpu_matmul import TpuMatmulOps
from mosaic_tpu.builder.ops.tpu_memory import TpuMemoryOps
from mosaic_tpu.builder.ops.tpu_mxu import TpuMxuOps
from mosaic_tpu.builder.ops.tpu_numeric import TpuNumericOps
from mosaic_tpu.builder.pallas import Pallas
from mosaic_tpu.builder.specs import ArgSpec


class Args:
    """The declared arguments as attributes: ``a.x``."""

    def __init__(self, values: Mapping[str, Value]) -> None:
        self.__dict__.update(values)

    def __getattr__(self, name: str) -> Value:
        declared = f"declared: {', '.join(self.__dict__)}"
        raise UnknownArgumentError(f"no argument {name!r}", op="args", hint=declared)

    def __setattr__(self, name: str, value: object) -> None:
        raise UnknownArgumentError(
            f"argument {name!r} cannot be replaced", op="args", hint=f"a.{name}[...] = value stores into the ref"
        )

    def __getitem__(self, name: str) -> Value:
        found = self.__dict__.get(name) if isinstance(name, str) else None  # pyright: ignore[reportUnnecessaryIsInstance]
        return self.__getattr__(name) if found is None else found

    def __iter__(self) -> Iterator[Value]:
        return iter(self.__dict__.values())


class Builder(
    GuideOps,
    ArithWideOps,
    MathOps,
    TpuMemoryOps,
    MemrefOps,
    TpuMatmulOps,
    TpuMxuOps,
    TpuConvOps,
    TpuNumericOps,
    TpuDmaOps,
    TpuDebugOps,
    ScfOps,
    CfOps,
    SparseCoreOps,
    GenericOps,
):
    """Builds one Mosaic kernel.

    Methods emit one MLIR operation each, in the dialect's vocabulary, with the constants it needs; a few helpers emit
    more. `pallas` holds the idioms that emit what Pallas emits for an expression of jnp, lax, pl or pltpu. A builder
    belongs to the thread that made it.

    Args:
        name: of the kernel's function: what Pallas takes from the Python function's name.
        locations: whether each op keeps the line of the kernel that emitted it, for the compiler's messages.

    Example:
        >>> from mosaic_tpu.builder import Builder, Ref, Role, f32
        >>> b = Builder("double")
        >>> a = b.declare_args(dict(x=Ref((8, 128), f32), y=Ref((8, 128), f32, role=Role.OUTPUT)))
        >>> b.pallas.store(a.y, b.pallas.load(a.x) * 2.0)
        >>> print(b.finish().text())  # doctest: +ELLIPSIS
        module ... {
        ...
    """

    if not TYPE_CHECKING:  # a checker sees what there is

        def __getattr__(self, name: str) -> NoReturn:
            refuse_name(self, "a builder", name)

    def __init__(self, name: str, *, locations: bool = True) -> None:
        self._start()
        if not self._flag(locations, "Builder", "locations"):
            self._line = self.types.unknown
        if not isinstance(name, str) or not name:  # pyright: ignore[reportUnnecessaryIsInstance]
            self.fail(AttributeValueError, "a kernel needs a name", op="Builder", hint='Builder("my_kernel")')
        self.name = sanitize_name(name)
        self.pallas = Pallas(self)
        self.signature: Signature | None = None
        self._result_infos: tuple[TypeInfo, ...] = ()
        self._finished = False
        self._root: Scope | None = None
        with self.types.context, self.types.unknown:
            self.module = ir.Module.create(self.types.unknown)
            if MODULE_HAS_NAME:
                self.module.operation.attributes["sym_name"] = self.types.string(self.name)

    # --- the function -------------------------------------------------------------------------------------------------

    @contextmanager
    def function(
        self,
        symbol: str,
        inputs: Sequence[TypeInfo],
        results: Sequence[TypeInfo],
        attributes: Mapping[str, ir.Attribute],
        block: ir.Block,
    ) -> Generator[tuple[Scope, list[Value]]]:
        """Open another ``func.func`` in the module for the with block (index maps are built so)."""
        outer, outer_ip = getattr(self, "_scope", None), self._ip
        entry = self._create_function(symbol, inputs, results, attributes, block)
        scope, values = _declare.open_scope(self, entry, inputs)
        self._scope, self._ip = scope, scope.ip
        try:
            yield scope, values
        finally:
            scope.live = None
            if outer is not None:
                self._scope = outer
            else:
                del self._scope
            self._ip = outer_ip

    def _create_function(
        self,
        symbol: str,
        inputs: Sequence[TypeInfo],
        results: Sequence[TypeInfo],
        attributes: Mapping[str, ir.Attribute],
        block: ir.Block,
        names: Sequence[str] = (),
    ) -> ir.Block:
        unknown = self.types.unknown
        with self.types.context, unknown:
            kind = ir.FunctionType.get([i.ir for i in inputs], [i.ir for i in results])
            created = open_ir.Operation.create(
                "func.func",
                attributes={
                    "function_type": ir.TypeAttr.get(kind),
                    "sym_name": self.types.string(symbol),
                    **attributes,
                },
                regions=1,
                ip=ir.InsertionPoint(block),
            )
            # As Pallas has them: what reads the module names the arguments so.
            places = [ir.Location.name(name) for name in names] or [unknown] * len(inputs)
            return created.regions[0].blocks.append(*(i.ir for i in inputs), arg_locs=places)

    def declare_args(
        self,
        args: Mapping[str, ArgSpec],
        results: Sequence[TypeInfo] = (),
        *,
        grid: Sequence[int | None] | None = None,
        dimension_semantics: Sequence[DimensionSemantics | str] | None = None,
        core_type: CoreType | str | None = CoreType.TC,
        no_inline: bool = False,
        window_params: bool | None = None,
        unused_zero: bool = True,
    ) -> Args:
        """Create the kernel's function and return its arguments by name.

        Args:
            args: name to `Scalar`, `Iter`, `Ref`, `Sem` or `SemArray`, in Pallas's order: program ids, scalar
                prefetch, inputs, outputs, scratch. The counts of scalar prefetch and scratch operands follow.
            results: types the function returns; Pallas kernels return nothing.
            grid: the iteration bounds; as many leading `Scalar` or `Iter` arguments are its program ids. ``()`` is no
                grid, as in Pallas. ``None`` is a bound that the call gives, known at run time only.
            dimension_semantics: one for each dimension of the grid; ``arbitrary`` if omitted.
            core_type: which core runs the kernel; ``None`` leaves the attribute out.
            no_inline: add the ``no_inline`` attribute.
            window_params: add ``window_params`` and the ``transform_N`` functions; by default when there is a grid.
            unused_zero: end those functions with the constant that Pallas makes in each and nothing takes; canonical
                text has none.

        Raises:
            ArgumentSpecError: a spec is malformed or out of order, or the program ids do not match the grid.
            WindowError: a window does not fit its ref or the grid.

        Example:
            >>> b = Builder("k")
            >>> a = b.declare_args(dict(i=Scalar(i32), x=Ref((8, 128), f32)), grid=(4,))
            >>> a.x.shape
            (8, 128)
        """
        if self._root is not None:
            self.fail(BuilderStateError, "arguments are declared twice", op="declare_args", hint="call it once, first")
        if self._ip is not NO_BLOCK:
            self.fail(BuilderStateError, "arguments are declared inside an index map", op="declare_args")
        arguments = _declare.describe(self, args)
        bounds = None if grid is None else self._grid(grid)
        semantics = self._semantics(bounds, dimension_semantics, arguments)
        signature = Signature(arguments, bounds or None)  # Pallas takes () for no grid
        with_windows = bool(bounds) if window_params is None else window_params
        if with_windows and not bounds:
            self.fail(ArgumentSpecError, "window_params need a grid", op="declare_args", hint="give grid=(…)")
        infos = [a.info for a in arguments]
        self._result_infos = tuple(self._infos(results, "declare_args"))
        core = None if core_type is None else self._member(CoreType, core_type, "declare_args")
        names = [a.name for a in arguments] if self._line is None else ()
        entry = self._create_function(self.name, infos, self._result_infos, {}, self.module.body, names)
        try:
            windows = _declare.emit_windows(self, signature, self.module.body, unused_zero) if with_windows else None
        except BaseException:  # an index map may raise anything; the builder is then as it was
            for created in list(self.module.body.operations):
                created.operation.erase()
            self._incomplete = 0
            raise
        function = entry.owner
        attributes = _declare.function_attributes(self, signature, semantics, windows)
        if core is not None:
            attributes["tpu.core_type"] = self.types.parse(f"#tpu.core_type<{core.value}>")
        if no_inline:
            with self.types.context:
                attributes["no_inline"] = ir.UnitAttr.get()
        for key, value in attributes.items():
            function.attributes[key] = value
        self._iter_semantics(function, arguments)
        for a in arguments:
            signature.array_shapes.setdefault(a.name, a.array_shape)
        self.signature = signature
        self._root, values = _declare.open_scope(self, entry, infos)
        self._scope, self._ip = self._root, self._root.ip
        return Args({a.name: _declare.seen(a, v) for a, v in zip(arguments, values, strict=True)})

    def _grid(self, grid: Sequence[int | None]) -> tuple[int | None, ...]:
        known = [0 if g is None else g for g in grid] if isinstance(grid, tuple | list) else grid
        try:
            bounds = self._ints(known, "declare_args", "grid bounds")  # pyright: ignore[reportArgumentType]
        except MosaicError as error:
            self.fail(ArgumentSpecError, error.summary, op="declare_args", hint="grid=(rows, columns): ints")
        if any(not 0 <= g < 1 << 31 for g in bounds):
            self.fail(ArgumentSpecError, f"grid {bounds}", op="declare_args", hint="bounds are non-negative ints")
        return tuple(None if g is None else n for g, n in zip(grid, bounds, strict=True))

    def _semantics(
        self,
        grid: tuple[int | None, ...] | None,
        given: Sequence[DimensionSemantics | str] | None,
        arguments: Sequence[_declare.Argument],
    ) -> list[DimensionSemantics]:
        rank = len(grid or ())
        ids = [a for a in arguments if a.role is None]
        if grid is not None and (len(ids) != rank or any(a.info.dtype not in (dt.i32, dt.index) for a in ids)):
            self.fail(
                ArgumentSpecError,
                f"a grid of rank {rank} with {len(ids)} program ids",
                op="declare_args",
                operands=[a.info for a in ids],
                hint="declare one leading Scalar(i32) a grid dimension",
            )
        if given is None:
            return [DimensionSemantics.ARBITRARY] * rank
        self._sequence(given, "declare_args")
        found = [self._member(DimensionSemantics, s, "declare_args") for s in given]
        if grid is not None and len(found) != rank:
            self.fail(
                ArgumentSpecError,
                f"{len(found)} dimension semantics for a grid of rank {rank}",
                op="declare_args",
                hint="give one a grid dimension",
            )
        return found

    def _iter_semantics(self, function: Any, arguments: Sequence[_declare.Argument]) -> None:
        """``tpu.dimension_semantics`` on `Iter` arguments that ask for it."""
        wanted = [getattr(a.spec, "semantics", None) for a in arguments]
        if any(wanted):
            with self.types.context:
                dictionaries = [
                    ir.DictAttr.get(
                        {}
                        if w is None
                        else {
                            "tpu.dimension_semantics": self.types.parse(
                                self._member(DimensionSemantics, w, "declare_args").mlir
                            )
                        }
                    )
                    for w in wanted
                ]
                function.attributes["arg_attrs"] = ir.ArrayAttr.get(dictionaries)

    # --- escape hatches ---------------------------------------------------------------------------------------------

    @property
    def context(self) -> ir.Context:
        """The MLIR context, this thread's."""
        return self.types.context

    @property
    def current_block(self) -> ir.Block:
        """The block that ops are appended to."""
        if getattr(self, "_scope", None) is None:
            self.fail(
                BuilderStateError, "no arguments declared yet", op="current_block", hint="call declare_args first"
            )
        return self._scope.block

    @op(group="escape", source="b.emit(op)")
    def emit(self, operation: ir.Operation | ir.OpView) -> Value | tuple[Value, ...] | None:
        """Wrap the results of an operation built by hand, appending it to the current block if it is nowhere yet.

        Raises:
            ForeignValueError: it lives in another context.

        Example:
            >>> from jaxlib.mlir import ir
            >>> created = ir.Operation.create(
            ...     "math.exp", [b.lift(1.0).type], [b.lift(1.0).ir], loc=ir.Location.unknown(b.context))
            >>> b.emit(created).dtype
            f32
        """
        if not isinstance(operation, ir.Operation | ir.OpView):  # pyright: ignore[reportUnnecessaryIsInstance]
            self.fail(KindError, f"{operation!r} is not an MLIR operation", op="emit", hint="ir.Operation.create(…)")
        raw: IrOperation = operation.operation
        if raw.context != self.context:
            self.fail(
                ForeignValueError, "the operation lives in another context", op=raw.name, hint="create it in b.context"
            )
        if self._ip is NO_BLOCK:
            self._diagnose_create(raw.name)
        try:
            nowhere = raw.parent is None
        except ValueError:  # what jaxlib 0.12 says of an operation that is nowhere
            nowhere = True
        if nowhere:
            self._ip.insert(raw)
        self._needs_verifier = True
        values = tuple(Value(r, self.types.exact(r.type), self._scope) for r in raw.results)
        return None if not values else values[0] if len(values) == 1 else values

    @op(group="escape", source="b.emitMulti(op, n)")
    def emit_multi(self, operation: ir.Operation | ir.OpView, count: int) -> tuple[Value, ...]:
        """`emit` of an operation with ``count`` results, always as a tuple.

        Raises:
            ArityError: the operation has another number of results.

        Example:
            >>> from jaxlib.mlir import ir
            >>> one = b.lift(1.0)
            >>> created = ir.Operation.create("math.exp", [one.type], [one.ir], loc=ir.Location.unknown(b.context))
            >>> [v.dtype for v in b.emit_multi(created, 1)]
            [f32]
        """
        found = self.emit(operation)
        values = found if isinstance(found, tuple) else () if found is None else (found,)
        if len(values) != count:
            self.fail(
                ArityError,
                f"{len(values)} results, not {count}",
                op=operation.operation.name,
                operands=values,
                hint="count what the operation returns",
            )
        return values

    @op(group="types")
    def type_of(self, mlir: ir.Type) -> TypeInfo:
        """The builder's type for a raw MLIR type.

        Raises:
            AttributeValueError: the builder has no such type.

        Example:
            >>> b.type_of(a.x.type).shape
            (8, 128)
        """
        found = self.types.known(mlir)
        if found is None:
            self.fail(
                AttributeValueError,
                f"the builder does not know the type {mlir}",
                op="emit",
                hint="b.generic_op takes and returns values of any type",
            )
        return found

    @op(group="types", source="b.scalarTy(dtype)")
    def scalar_ty(self, dtype: dt.DType) -> TypeInfo:
        """A scalar type, for results of `if_else` and `while_`.

        Example:
            >>> str(b.scalar_ty(f32))
            'f32'
        """
        return self.types.scalar(self._data_type(dtype, "scalar_ty"))

    @op(group="types", source="b.vectorTy(shape, dtype)")
    def vector_ty(self, shape: Sequence[int], dtype: dt.DType) -> TypeInfo:
        """A vector type.

        Example:
            >>> str(b.vector_ty((8, 128), f32))
            'vector<8x128xf32>'
        """
        return self.types.vector(self._shape(shape, "vector_ty"), self._element(dtype, "vector_ty"))

    @op(group="types")
    def ref_ty(self, shape: Sequence[int], dtype: dt.DType, memory_space: MemorySpace | str = "vmem") -> TypeInfo:
        """A ref type.

        Example:
            >>> str(b.ref_ty((8, 128), f32))
            'memref<8x128xf32, #tpu.memory_space<vmem>>'
        """
        space = self._member(MemorySpace, memory_space, "ref_ty")
        return self.types.ref(self._shape(shape, "ref_ty"), self._dtype(dtype, "ref_ty"), space)

    @op(group="types", source="b.memRefTy(shape, dtype, mem_space)")
    def memref_ty(self, shape: Sequence[int], dtype: dt.DType, memory_space: MemorySpace | str = "vmem") -> TypeInfo:
        """The Zig DSL's name for `ref_ty`.

        Example:
            >>> b.memref_ty((4,), i32, "smem") is b.ref_ty((4,), i32, "smem")
            True
        """
        return self.ref_ty(shape, dtype, memory_space)

    # --- the end ----------------------------------------------------------------------------------------------------

    def finish(
        self, results: Sequence[Value] = (), *, verify: bool | None = True, anonymous: bool = False
    ) -> MosaicModule:
        """Return from the function, verify the module, and hand it over; the builder is then closed.

        Args:
            results: values the function returns, as declared.
            verify: run MLIR's verifier; ``None`` runs it only where the builder did not check every op itself, that is
                after `emit` and ops that go through jaxlib's generated classes.
            anonymous: give the final return no line, so that equal kernels have equal bytes wherever they are finished.

        Raises:
            BuilderStateError: nothing was declared, or the builder is finished.
            RegionOrderError: a region is still open, or was left by an exception.
            VerificationError: MLIR refused the module; the message names the kernel's line.
        """
        if self._finished:
            self.fail(BuilderStateError, "the builder is finished", op="finish", hint="make a new Builder")
        if self._root is None and not self._functions:
            self.fail(BuilderStateError, "no arguments declared yet", op="finish", hint="call declare_args first")
        if getattr(self, "_scope", None) is not self._root:
            self.fail(RegionOrderError, "a region is still open", op="finish", hint="finish after its with block")
        if self._incomplete:
            self.fail(
                RegionOrderError,
                "a region is incomplete: it was left by an exception, or never entered",
                op="finish",
                hint="build the kernel again, with a new Builder",
            )
        anonymous = self._flag(anonymous, "finish", "anonymous")
        used = self._use_all(results, "func.return")
        if [v._info.ir for v in results] != [i.ir for i in self._result_infos]:
            self.fail(
                ArgumentSpecError,
                f"the function returns {[str(i) for i in self._result_infos]}",
                op="finish",
                operands=results,
                hint="declare results in declare_args",
            )
        if self._root is not None:
            line = self._line
            self._line = self.types.unknown if anonymous else line
            self._emit_void("func.return", used)
            self._line = line
            self._root.live = None
        self._ip = NO_BLOCK
        self._finished = True
        if verify or (verify is None and self._needs_verifier):
            self._verify()
        return MosaicModule(self.module, self.name, self.signature or Signature((), None), self.types)

    def _verify(self) -> None:
        try:
            with self.types.unregistered(self._foreign):
                self.module.operation.verify()
        except ir.MLIRError as error:
            raise explain_verifier(error) from None


def sanitize_name(name: str) -> str:
    """The name as Pallas sanitizes it: anything but letters, digits, ``_``, ``.`` and ``-`` becomes ``_``."""
    return re.sub(r"[^\w.-]", "_", name)


__all__ = ["Args", "Builder", "VerificationError", "sanitize_name"]
