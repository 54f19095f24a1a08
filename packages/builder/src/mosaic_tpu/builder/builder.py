"""`Builder`: opens a module, declares the kernel's function, collects ops, and finishes it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from mosaic_tpu.builder import _declare
from mosaic_tpu.builder import dtypes as dt
from mosaic_tpu.builder._compat import MODULE_HAS_NAME, ir
from mosaic_tpu.builder._core import NO_BLOCK, Scope
from mosaic_tpu.builder._declare import Signature
from mosaic_tpu.builder._types import TypeInfo
from mosaic_tpu.builder._value import Value
from mosaic_tpu.builder.enums import CoreType, DimensionSemantics, MemorySpace
from mosaic_tpu.builder.errors import (
    ArgumentSpecError,
    AttributeValueError,
    BuilderStateError,
    RegionOrderError,
    VerificationError,
)
from mosaic_tpu.builder.module import MosaicModule, explain_verifier
from mosaic_tpu.builder.ops.guide import GuideOps
from mosaic_tpu.builder.ops.math import MathOps
from mosaic_tpu.builder.ops.memref import MemrefOps
from mosaic_tpu.builder.ops.scf import ScfOps
from mosaic_tpu.builder.ops.tpu_dma import TpuDmaOps
from mosaic_tpu.builder.ops.tpu_matmul import TpuMatmulOps
from mosaic_tpu.builder.ops.tpu_memory import TpuMemoryOps
from mosaic_tpu.builder.pallas import Pallas
from mosaic_tpu.builder.specs import ArgSpec


class Args:
    """The declared arguments as attributes: ``a.x``."""

    def __init__(self, values: Mapping[str, Value]) -> None:
        self.__dict__.update(values)

    def __getattr__(self, name: str) -> Value:
        raise AttributeError(f"no argument {name!r}; declared: {', '.join(self.__dict__)}")

    def __getitem__(self, name: str) -> Value:
        return self.__dict__[name]

    def __iter__(self) -> Iterator[Value]:
        return iter(self.__dict__.values())


class Builder(GuideOps, MathOps, TpuMemoryOps, MemrefOps, TpuMatmulOps, TpuDmaOps, ScfOps):
    """Builds one Mosaic kernel.

    Methods emit one MLIR operation each, in the dialect's vocabulary; `pallas` holds the idioms that emit what
    Pallas emits for an expression of jnp, lax, pl or pltpu. A builder belongs to the thread that made it.

    Args:
        name: of the kernel's function: what Pallas takes from the Python function's name.

    Example:
        >>> from mosaic_tpu.builder import Builder, Ref, Role, f32
        >>> b = Builder("double")
        >>> a = b.declare_args(dict(x=Ref((8, 128), f32), y=Ref((8, 128), f32, role=Role.OUTPUT)))
        >>> b.pallas.store(a.y, b.pallas.load(a.x) * 2.0)
        >>> print(b.finish().text())  # doctest: +ELLIPSIS
        module ... {
        ...
    """

    def __init__(self, name: str) -> None:
        self._start()
        if not name:
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
    ) -> Iterator[tuple[Scope, list[Value]]]:
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
    ) -> ir.Block:
        with self.types.context, self.types.unknown:
            kind = ir.FunctionType.get([i.ir for i in inputs], [i.ir for i in results])
            created = ir.Operation.create(
                "func.func",
                attributes={
                    "function_type": ir.TypeAttr.get(kind),
                    "sym_name": self.types.string(symbol),
                    **attributes,
                },
                regions=1,
                ip=ir.InsertionPoint(block),
            )
            return created.regions[0].blocks.append(*(i.ir for i in inputs))

    def declare_args(
        self,
        args: Mapping[str, ArgSpec],
        results: Sequence[TypeInfo] = (),
        *,
        grid: Sequence[int] | None = None,
        dimension_semantics: Sequence[DimensionSemantics | str] | None = None,
        core_type: CoreType | str | None = CoreType.TC,
        no_inline: bool = False,
        window_params: bool | None = None,
    ) -> Args:
        """Create the kernel's function and return its arguments by name.

        Args:
            args: name to `Scalar`, `Iter`, `Ref`, `Sem` or `SemArray`, in Pallas's order: program ids, scalar
                prefetch, inputs, outputs, scratch. The counts of scalar prefetch and scratch operands follow.
            results: types the function returns; Pallas kernels return nothing.
            grid: the iteration bounds; as many leading `Scalar` or `Iter` arguments are its program ids.
            dimension_semantics: one a grid dimension; ``arbitrary`` if omitted.
            core_type: which core runs the kernel; ``None`` leaves the attribute out.
            no_inline: add the ``no_inline`` attribute.
            window_params: add ``window_params`` and the ``transform_N`` functions; by default when there is a grid.

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
        arguments = _declare.describe(self, args)
        bounds = None if grid is None else tuple(grid)
        semantics = self._semantics(bounds, dimension_semantics, arguments)
        signature = Signature(arguments, bounds)
        with_windows = bool(bounds) if window_params is None else window_params
        if with_windows and not bounds:
            self.fail(ArgumentSpecError, "window_params need a grid", op="declare_args", hint="give grid=(…)")
        infos = [a.info for a in arguments]
        entry = self._create_function(self.name, infos, results, {}, self.module.body)
        self._result_infos = tuple(results)
        windows = _declare.emit_windows(self, signature, self.module.body) if with_windows else None
        function = entry.owner
        attributes = _declare.function_attributes(self, signature, semantics, windows)
        if core_type is not None:
            attributes["tpu.core_type"] = self.types.parse(f"#tpu.core_type<{CoreType.of(core_type).value}>")
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
        return Args({a.name: v for a, v in zip(arguments, values, strict=True)})

    def _semantics(
        self,
        grid: tuple[int, ...] | None,
        given: Sequence[DimensionSemantics | str] | None,
        arguments: Sequence[_declare.Argument],
    ) -> list[DimensionSemantics]:
        rank = len(grid or ())
        leading = sum(a.role is None for a in arguments)
        if grid is not None and leading < rank:
            self.fail(
                ArgumentSpecError,
                f"a grid of rank {rank} with {leading} program ids",
                op="declare_args",
                hint="declare one leading Scalar(i32) a grid dimension",
            )
        if grid is not None and any(not isinstance(g, int) or g < 0 for g in grid):
            self.fail(ArgumentSpecError, f"grid {grid}", op="declare_args", hint="bounds are non-negative ints")
        if given is None:
            return [DimensionSemantics.ARBITRARY] * rank
        found = [DimensionSemantics.of(s) for s in given]
        if grid is not None and len(found) != rank:
            self.fail(ArgumentSpecError, f"{len(found)} dimension semantics for a grid of rank {rank}", op="declare_args",
                      hint="give one a grid dimension")  # fmt: skip
        return found

    def _iter_semantics(self, function: Any, arguments: Sequence[_declare.Argument]) -> None:
        """``tpu.dimension_semantics`` on `Iter` arguments that ask for it."""
        wanted = [getattr(a.spec, "semantics", None) for a in arguments]
        if any(wanted):
            with self.types.context:
                dictionaries = [
                    ir.DictAttr.get(
                        {} if w is None else {"tpu.dimension_semantics": self.types.parse(DimensionSemantics.of(w).mlir)}
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
            self.fail(BuilderStateError, "no arguments declared yet", op="current_block", hint="call declare_args first")
        return self._scope.block

    def emit(self, operation: ir.Operation | ir.OpView) -> Value | tuple[Value, ...] | None:
        """Wrap the results of an operation built by hand, appending it to the current block if it is nowhere yet.

        Raises:
            UnsupportedOpError: a result type that the builder does not know.

        Example:
            >>> from jaxlib.mlir import ir
            >>> created = ir.Operation.create(
            ...     "math.exp", [b.lift(1.0).type], [b.lift(1.0).ir], loc=ir.Location.unknown(b.context))
            >>> b.emit(created).dtype
            f32
        """
        raw = operation.operation
        if self._ip is NO_BLOCK:
            self._diagnose_create(raw.name)
        if raw.parent is None:
            self._ip.insert(raw)
        values = tuple(Value(r, self.type_of(r.type), self._scope) for r in raw.results)
        return None if not values else values[0] if len(values) == 1 else values

    def type_of(self, mlir: ir.Type) -> TypeInfo:
        """The interned type of a raw MLIR type."""
        text = str(mlir)
        for dtype in dt.ALL:
            if text == dtype.mlir and not dtype.is_unsigned:
                return self.types.scalar(dtype)
        shaped = re.fullmatch(r"(vector|memref)<((?:\d+x)*)([^,>]+)(?:, #tpu\.memory_space<(\w+)>)?>", text)
        element = shaped and next((d for d in dt.ALL if d.mlir == shaped[3] and not d.is_unsigned), None)
        if not shaped or element is None:
            self.fail(AttributeValueError, f"the builder does not know the type {text}", op="emit",
                      hint="keep such values as raw MLIR")  # fmt: skip
        shape = tuple(int(s) for s in shaped[2].split("x") if s)
        if shaped[1] == "vector":
            return self.types.vector(shape, element)
        return self.types.ref(shape, element, MemorySpace.of(shaped[4] or "any"))

    def scalar_ty(self, dtype: dt.DType) -> TypeInfo:
        """A scalar type, for results of `if_else` and `while_`."""
        return self.types.scalar(dtype)

    def vector_ty(self, shape: Sequence[int], dtype: dt.DType) -> TypeInfo:
        """A vector type."""
        return self.types.vector(tuple(shape), dtype)

    def ref_ty(self, shape: Sequence[int], dtype: dt.DType, memory_space: MemorySpace | str = "vmem") -> TypeInfo:
        """A ref type."""
        return self.types.ref(tuple(shape), dtype, MemorySpace.of(memory_space))

    # --- the end ----------------------------------------------------------------------------------------------------

    def finish(self, results: Sequence[Value] = (), *, verify: bool = True) -> MosaicModule:
        """Return from the function, verify the module, and hand it over; the builder is then closed.

        Args:
            results: values the function returns, as declared.
            verify: run MLIR's verifier.

        Raises:
            BuilderStateError: nothing was declared, or the builder is finished.
            RegionOrderError: a region is still open.
            VerificationError: MLIR refused the module; the message names the kernel's line.
        """
        if self._finished:
            self.fail(BuilderStateError, "the builder is finished", op="finish", hint="make a new Builder")
        if self._root is None or self.signature is None:
            self.fail(BuilderStateError, "no arguments declared yet", op="finish", hint="call declare_args first")
        if self._scope is not self._root:
            self.fail(RegionOrderError, "a region is still open", op="finish", hint="finish after its with block")
        used = self._use_all(results, "func.return")
        if [v._info.ir for v in results] != [i.ir for i in self._result_infos]:
            self.fail(ArgumentSpecError, f"the function returns {[str(i) for i in self._result_infos]}", op="finish",
                      operands=results, hint="declare results in declare_args")  # fmt: skip
        self._emit_void("func.return", used)
        self._root.live = None
        self._ip = NO_BLOCK
        self._finished = True
        if verify:
            self._verify()
        return MosaicModule(self.module, self.name, self.signature, self.types)

    def _verify(self) -> None:
        try:
            self.module.operation.verify()
        except ir.MLIRError as error:
            raise explain_verifier(error) from None


def sanitize_name(name: str) -> str:
    """The name as Pallas sanitizes it: anything but letters, digits, ``_``, ``.`` and ``-`` becomes ``_``."""
    return re.sub(r"[^\w.-]", "_", name)


__all__ = ["Args", "Builder", "VerificationError", "sanitize_name"]
