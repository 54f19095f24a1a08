"""The tpu dialect on refs: stores, strided access, slices, squeezes, bitcasts."""

from __future__ import annotations

import math
from collections.abc import Sequence

from mosaic_tpu.builder import dtypes as dt
from mosaic_tpu.builder._compat import IrValue, ir
from mosaic_tpu.builder._registry import op
from mosaic_tpu.builder._types import DYNAMIC
from mosaic_tpu.builder._value import Value
from mosaic_tpu.builder.dtypes import DType
from mosaic_tpu.builder.enums import MemorySpace
from mosaic_tpu.builder.errors import ArityError, AttributeValueError, DTypeError, ShapeError
from mosaic_tpu.builder.ops.vector import Indices, VectorOps
from mosaic_tpu.builder.views import NOT_OF_BOOLEANS


class TpuMemoryOps(VectorOps):
    """``tpu.*`` on refs."""

    # --- loads and stores ----------------------------------------------------------------------------------------

    def _mask(self, mask: Value | None, shape: tuple[int, ...], name: str) -> list[IrValue]:
        if mask is None:
            return []
        used = self._use_vector(mask, name)
        if mask.dtype is not dt.i1 or mask.shape != shape:
            self.fail(
                ShapeError,
                f"the mask must be i1 of shape {shape}",
                op=name,
                operands=[mask],
                hint="compare values of that shape",
            )
        return [used]

    @op("tpu.vector_load", source="b.tpuVectorLoad(ref, indices, .{ .strides, .mask })", traits=("load",))
    def tpu_vector_load(
        self,
        ref: Value,
        indices: Indices = (),
        shape: Sequence[int] | None = None,
        *,
        strides: Sequence[int] = (),
        mask: Value | None = None,
    ) -> Value:
        """The load with sublane strides and a per-element mask. Pallas emits `vector_load` or `strided_load`.

        Example:
            >>> b.tpu_vector_load(a.x).shape
            (8, 128)
        """
        name = "tpu.vector_load"
        used = self._vmem(ref, name)
        found = self._vector_shape(ref, shape, name)
        starts = self._indices(ref, indices, name)
        masks = self._mask(mask, found, name)
        attributes = {
            "strides": self.types.dense(self._sublane_strides(ref, strides, name), 32),
            "operandSegmentSizes": self.types.dense((1, len(starts), len(masks)), 32),
        }
        return self._emit(name, self.types.vector(found, ref._info.element), [used, *starts, *masks], attributes)

    @op("tpu.vector_store", source="b.refStore(ref, value)", traits=("store",))
    def ref_store(self, ref: Value, value: Value) -> None:
        """Write the whole of a VMEM ref, without the dead load that Pallas adds (``b.pallas.store`` adds it).

        Example:
            >>> b.ref_store(a.x, b.zeros((8, 128), f32))
        """
        self.vector_store(ref, value)

    @op("tpu.vector_store", source="tpu.vector_store", traits=("store",))
    def vector_store(
        self,
        ref: Value,
        value: Value,
        indices: Indices = (),
        *,
        mask: Value | None = None,
        strides: Sequence[int] = (),
        add: bool = False,
    ) -> None:
        """Write a vector to a slice of a VMEM ref.

        Args:
            ref: in VMEM.
            value: a vector of the ref's rank and element type.
            indices: one start a dimension; none means zeros.
            mask: ``i1`` of the value's shape: only these elements are written.
            strides: sublane strides, empty for contiguous.
            add: add to what is there instead of replacing it.

        Example:
            >>> b.vector_store(a.x, b.zeros((1, 128), f32), [0, 0])
        """
        name = "tpu.vector_store"
        used = self._vmem(ref, name)
        stored = self._use_vector(value, name)
        self._check_stored(ref, value, name)
        self._vector_shape(ref, value._info.shape, name)
        starts = self._indices(ref, indices, name)
        masks = self._mask(mask, value._info.shape, name)
        steps = self._sublane_strides(ref, strides, name)
        key = (name, len(starts), len(masks), steps, self._flag(add, name, "add"))
        attributes = self.types.named(*key)
        if attributes is None:
            attributes = {
                "strides": self.types.dense(steps, 32),
                "operandSegmentSizes": self.types.dense((1, 1, len(starts), len(masks)), 32),
            }
            if add:
                attributes["add"] = self.types.boolean(True)
            self.types.name(attributes, *key)
        self._emit_void(name, [stored, used, *starts, *masks], attributes)

    @op("tpu.vector_store", source="b.vectorStoreAt(ref, value, indices)", traits=("store",))
    def vector_store_at(self, ref: Value, value: Value, indices: Indices) -> None:
        """`vector_store` at ``indices``.

        Example:
            >>> b.vector_store_at(a.x, b.zeros((1, 128), f32), [0, 0])
        """
        self.vector_store(ref, value, indices)

    @op("tpu.vector_store", source="b.refStoreOpts(ref, value, indices, .{ .strides, .mask, .add })", traits=("store",))
    def ref_store_opts(
        self,
        ref: Value,
        value: Value,
        indices: Indices = (),
        *,
        strides: Sequence[int] = (),
        mask: Value | None = None,
        add: bool = False,
    ) -> None:
        """The Zig DSL's name for `vector_store` with its options.

        Example:
            >>> b.ref_store_opts(a.x, b.zeros((8, 128), f32), add=True)
        """
        self.vector_store(ref, value, indices, mask=mask, strides=strides, add=add)

    def _sublane_strides(self, ref: Value, strides: Sequence[int], name: str) -> tuple[int, ...]:
        """Strides of a tpu.vector_load or vector_store: none, or one for each dimension."""
        steps = self._ints(strides, name, "strides")
        return self._strides(ref, steps, name) if steps else ()

    def _strides(self, ref: Value, strides: Sequence[int], name: str) -> tuple[int, ...]:
        steps = self._ints(strides, name, "strides")
        if len(steps) != ref.rank or any(not 1 <= s < 1 << 31 for s in steps):
            self.fail(
                ArityError,
                f"strides {steps} for a ref of rank {ref.rank}",
                op=name,
                operands=[ref],
                hint="give one positive stride a dimension",
            )
        return steps

    @op("tpu.strided_load", source="b.stridedLoad(ref, indices, strides)", traits=("load",))
    def strided_load(
        self, ref: Value, indices: Indices, strides: Sequence[int], shape: Sequence[int] | None = None
    ) -> Value:
        """Every ``strides``-th element from ``indices``.

        Args:
            ref: in VMEM.
            indices: one start a dimension.
            strides: one step a dimension.
            shape: of the result; ``ceil(ref.shape / strides)`` if omitted.

        Example:
            >>> b.strided_load(a.x, [0, 0], [2, 1]).shape
            (4, 128)
        """
        name = "tpu.strided_load"
        used = self._vmem(ref, name)
        steps = self._strides(ref, strides, name)
        whole = tuple(-(-s // t) for s, t in zip(ref.shape, steps, strict=True))
        found = self._vector_shape(ref, shape if shape is not None else whole, name)
        if any((n - 1) * t >= s for n, t, s in zip(found, steps, ref.shape, strict=True)):
            self.fail(ShapeError, f"shape {found} with strides {steps} leaves the ref", op=name, operands=[ref])
        starts = self._indices(ref, indices, name)
        info = self.types.vector(found, ref._info.element)
        return self._emit(name, info, [used, *starts], {"strides": self.types.dense(steps, 32)})

    @op("tpu.strided_load", source="b.stridedLoadShape(ref, indices, strides, result_shape)", traits=("load",))
    def strided_load_shape(self, ref: Value, indices: Indices, strides: Sequence[int], shape: Sequence[int]) -> Value:
        """`strided_load` with the result's shape given: for half rows and the like.

        Example:
            >>> b.strided_load_shape(a.x, [0, 0], [2, 1], (2, 128)).shape
            (2, 128)
        """
        return self.strided_load(ref, indices, strides, shape)

    @op("tpu.strided_store", source="b.stridedStore(ref, value, indices, strides)", traits=("store",))
    def strided_store(self, ref: Value, value: Value, indices: Indices, strides: Sequence[int]) -> None:
        """Write to every ``strides``-th element from ``indices``.

        Example:
            >>> b.strided_store(a.x, b.zeros((4, 128), f32), [0, 0], [2, 1])
        """
        name = "tpu.strided_store"
        used, stored = self._vmem(ref, name), self._use_vector(value, name)
        steps = self._strides(ref, strides, name)
        self._check_stored(ref, value, name)
        if value.rank != ref.rank or any(
            (n - 1) * t >= s for n, t, s in zip(value.shape, steps, ref.shape, strict=True)
        ):
            self.fail(
                ShapeError, f"shape {value.shape} with strides {steps} leaves the ref", op=name, operands=[value, ref]
            )
        starts = self._indices(ref, indices, name)
        self._emit_void(name, [stored, used, *starts], {"strides": self.types.dense(steps, 32)})

    # --- views -----------------------------------------------------------------------------------------------------

    @op("tpu.memref_slice", source="b.memRefSlice(mem_ref, offsets, sizes, strides, result_shape)")
    def memref_slice(self, ref: Value, offsets: Sequence[Value | int], sizes: Sequence[Value | int]) -> Value:
        """A view of part of a ref: ``ref.at[…]`` before a DMA. Strides do not exist here.

        Args:
            ref: any ref, semaphore arrays too.
            offsets: one for each dimension: i32 values, or ints (a fresh i32 constant each).
            sizes: one for each dimension: ints, or i32 values for a size known at run time.

        Example:
            >>> b.memref_slice(a.x, [0, 0], [4, 128]).shape
            (4, 128)
        """
        name = "tpu.memref_slice"
        used = self._use_ref(ref, name)
        shape = ref._info.shape
        self._sequence(offsets, name)
        self._sequence(sizes, name)
        if not len(offsets) == len(sizes) == len(shape):
            self.fail(
                ArityError,
                f"{len(offsets)} offsets and {len(sizes)} sizes for rank {ref.rank}",
                op=name,
                operands=[ref],
            )
        i32 = self.types.scalar(dt.i32)
        starts: list[IrValue] = []
        for offset in offsets:
            if isinstance(offset, Value):
                starts.append(self._use(offset, name))
                if offset._info.ir is not i32.ir:
                    self.fail(
                        DTypeError, "offsets must be i32", op=name, operands=[ref, offset], hint="b.index_cast(v, i32)"
                    )
            else:
                starts.append(self._constant(self._int(offset, name, "offset"), i32)._ir)
        static, dynamic = list[int](), list[IrValue]()
        for size, dim in zip(sizes, shape, strict=True):
            if isinstance(size, Value):
                dynamic.append(self._use(size, name))
                if size._info.ir is not i32.ir:
                    self.fail(
                        DTypeError, "sizes must be i32", op=name, operands=[ref, size], hint="b.index_cast(v, i32)"
                    )
                static.append(DYNAMIC)
            elif 0 < self._int(size, name, "size") <= dim or (dim == DYNAMIC and size > 0):
                static.append(size)
            else:
                self.fail(ShapeError, f"size {size} of a dimension of {dim}", op=name, operands=[ref])
        for offset, size, dim in zip(offsets, sizes, shape, strict=True):
            if isinstance(offset, int) and isinstance(size, int) and not 0 <= offset <= dim - size and dim != DYNAMIC:
                self.fail(
                    ShapeError, f"offset {offset} with size {size} leaves a dimension of {dim}", op=name, operands=[ref]
                )
        info = self.types.seen_as(ref._info, tuple(static))
        attributes = self._slice_attributes(len(starts), len(dynamic))
        return self._emit(name, info, [used, *starts, *dynamic], attributes)

    def _slice_attributes(self, starts: int, dynamic: int) -> dict[str, ir.Attribute]:
        key = ("tpu.memref_slice", starts, dynamic)
        return self.types.named(*key) or self.types.name(
            {"operandSegmentSizes": self.types.dense((1, starts, dynamic), 32)}, *key
        )

    def _view(self, name: str, ref: Value, shape: Sequence[int], dtype: DType | None = None) -> Value:
        used = self._use_ref(ref, name)
        if dtype is None:
            info = self.types.seen_as(ref._info, tuple(shape))
        else:
            info = self.types.ref(tuple(shape), dtype, MemorySpace.of(ref._info.space))
        return self._emit(name, info, [used])

    @op("tpu.memref_squeeze", source="b.memRefSqueeze(mem_ref, result_shape)")
    def memref_squeeze(self, ref: Value, shape: Sequence[int]) -> Value:
        """A view without some size-1 dimensions.

        Example:
            >>> b.memref_squeeze(b.memref_slice(a.x, [0, 0], [1, 128]), (128,)).shape
            (128,)
        """
        self._use_ref(ref, "tpu.memref_squeeze")
        target = self._ints(shape, "tpu.memref_squeeze", "shape")
        kept = [s for s in ref.shape if s != 1]
        if [s for s in target if s != 1] != kept or len(target) >= ref.rank:
            self.fail(
                ShapeError, f"{target} does not drop size-1 dimensions only", op="tpu.memref_squeeze", operands=[ref]
            )
        return self._view("tpu.memref_squeeze", ref, target)

    @op("tpu.memref_reshape", source="b.memRefReshape(mem_ref, result_shape)")
    def memref_reshape(self, ref: Value, shape: Sequence[int]) -> Value:
        """A view with another shape and as many elements: ``ref.reshape(…)``.

        Example:
            >>> b.memref_reshape(a.x, (2, 4, 128)).shape
            (2, 4, 128)
        """
        self._use_ref(ref, "tpu.memref_reshape")
        target = self._shape(shape, "tpu.memref_reshape")
        if math.prod(target) != math.prod(ref.shape):
            self.fail(
                ShapeError,
                f"{math.prod(ref.shape)} elements do not make shape {target}",
                op="tpu.memref_reshape",
                operands=[ref],
                hint="the number of elements must stay",
            )
        return self._view("tpu.memref_reshape", ref, target)

    @op("tpu.memref_bitcast", source="b.memRefBitcast(mem_ref, dtype)")
    def memref_bitcast(self, ref: Value, dtype: DType, shape: Sequence[int] | None = None) -> Value:
        """A view with another element type; a change of width scales the second-to-last dimension.

        Args:
            ref: any ref.
            dtype: the new element type.
            shape: the new shape, if it should be checked; computed if omitted.

        Example:
            >>> b.memref_bitcast(b.alloca((64, 128), bf16), i32).shape
            (32, 128)
        """
        name = "tpu.memref_bitcast"
        self._use_ref(ref, name)
        dtype = self._dtype(dtype, name)
        old, new = ref.dtype.bits, dtype.bits
        found = ref.shape
        if not new or not old:
            self.fail(DTypeError, f"cannot view memory as {dtype}", op=name, operands=[ref])
        if dt.i1 in (ref.dtype, dtype):
            self.fail(DTypeError, "memory of booleans has no other view", op=name, operands=[ref], hint=NOT_OF_BOOLEANS)
        if old != new:
            if ref.rank < 2 or ref.shape[-2] * old % new:
                self.fail(
                    ShapeError, f"the second-to-last dimension does not divide into {dtype}", op=name, operands=[ref]
                )
            found = (*ref.shape[:-2], ref.shape[-2] * old // new, ref.shape[-1])
        if shape is not None and self._shape(shape, name) != found:
            self.fail(
                ShapeError, f"viewed as {dtype} the shape is {found}, not {tuple(shape)}", op=name, operands=[ref]
            )
        return self._view(name, ref, found, dtype)

    @op("tpu.memref_bitcast", source="b.memRefBitcastShape(mem_ref, result_shape, dtype)")
    def memref_bitcast_shape(self, ref: Value, shape: Sequence[int], dtype: DType) -> Value:
        """`memref_bitcast` with the result's shape given and checked.

        Example:
            >>> b.memref_bitcast_shape(b.alloca((64, 128), bf16), (32, 128), i32).dtype
            i32
        """
        return self.memref_bitcast(ref, dtype, shape)

    @op("tpu.annotate", source="pltpu.annotate(ref, …)")
    def annotate(
        self,
        ref: Value,
        *,
        no_store: bool = False,
        no_bank_conflict: bool = False,
        no_hazard: bool = False,
        no_hazard_no_deps: bool = False,
    ) -> Value:
        """The ref, with promises to the compiler about accesses through it.

        Args:
            ref: any ref.
            no_store: nothing is stored to it.
            no_bank_conflict: accesses do not meet in a bank.
            no_hazard: a load may follow a store at once. In VMEM only.
            no_hazard_no_deps: loads and stores may be reordered. In VMEM only.

        Raises:
            AttributeValueError: more than one of ``no_store``, ``no_hazard`` and ``no_hazard_no_deps``.

        Example:
            >>> b.annotate(a.x, no_store=True).shape
            (8, 128)
        """
        name = "tpu.annotate"
        used = self._use_ref(ref, name)
        promises = {
            "no_store": no_store,
            "no_bank_conflict": no_bank_conflict,
            "no_hazard": no_hazard,
            "no_hazard_no_deps": no_hazard_no_deps,
        }
        attributes = {k: self.types.boolean(self._flag(v, name, k)) for k, v in promises.items()}
        if sum(v for k, v in promises.items() if k != "no_bank_conflict") > 1:
            hint = "at most one of no_store, no_hazard and no_hazard_no_deps"
            self.fail(AttributeValueError, "promises contradict each other", op=name, operands=[ref], hint=hint)
        return self._emit(name, ref._info, [used], attributes)

    @op("tpu.memref_memory_space_is", source="pltpu.has_memory_space(ref, memory_space)")
    def memref_memory_space_is(self, ref: Value, memory_space: MemorySpace | str) -> Value:
        """Whether the compiler puts an ``any`` ref into a memory space, as ``i1``.

        Raises:
            UnsupportedOpError: jaxlib 0.11 does not have it.

        Example:
            >>> b.memref_memory_space_is(a.hbm, "vmem").dtype
            i1
        """
        name = "tpu.memref_memory_space_is"
        used = self._use_ref(ref, name)
        space = self._member(MemorySpace, memory_space, name)
        self._require(name)
        return self._emit(name, self.types.scalar(dt.i1), [used], {"memory_space": self.types.parse(space.mlir)})

    @op("tpu.assume_layout", source="b.assumeLayout(src)")
    def assume_layout(self, source: Value) -> Value:
        """Keep the layout the compiler infers for ``source``. Pallas never emits it.

        Example:
            >>> b.assume_layout(b.ref_load(a.x)).shape
            (8, 128)
        """
        used = self._use(source, "tpu.assume_layout")
        if not source.is_shaped:
            self.fail(AttributeValueError, "a scalar has no layout", op="tpu.assume_layout", operands=[source])
        return self._emit("tpu.assume_layout", source._info, [used])
