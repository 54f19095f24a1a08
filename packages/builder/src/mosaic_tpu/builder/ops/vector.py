"""The vector dialect: loads, shapes, reductions, masks."""

from __future__ import annotations

import math
from collections.abc import Sequence

from mosaic_tpu.builder import dtypes as dt
from mosaic_tpu.builder._compat import IrValue, ir
from mosaic_tpu.builder._core import Core
from mosaic_tpu.builder._registry import op
from mosaic_tpu.builder._types import TypeInfo
from mosaic_tpu.builder._value import Value
from mosaic_tpu.builder.enums import CombiningKind, MemorySpace
from mosaic_tpu.builder.errors import ArityError, DTypeError, KindError, MemorySpaceError, ShapeError

type Indices = Sequence[Value | int]


class VectorOps(Core):
    """``vector.*``."""

    # --- memory ----------------------------------------------------------------------------------------------------

    def _indices(self, ref: Value, indices: Indices, name: str) -> list[IrValue]:
        """Index operands, one fresh zero a dimension when none are given."""
        rank = len(ref._info.shape)
        self._sequence(indices, name)
        if not indices:
            indices = (0,) * rank
        if len(indices) != rank:
            self.fail(
                ArityError,
                f"{len(indices)} indices for a ref of rank {rank}",
                op=name,
                operands=[ref],
                hint=f"give {rank}, or none for the whole ref",
            )
        return [self._index(i, name) for i in indices]

    def _vector_shape(self, ref: Value, shape: Sequence[int] | None, name: str) -> tuple[int, ...]:
        found = ref._info.shape if shape is None else self._shape(shape, name)
        if len(found) != len(ref._info.shape) or not found:
            self.fail(
                ShapeError,
                f"a slice of shape {found} from a ref of rank {ref.rank}",
                op=name,
                operands=[ref],
                hint="loads keep the rank: use size 1 for an indexed dimension, then shape_cast",
            )
        if any(s > r for s, r in zip(found, ref._info.shape, strict=True)):
            self.fail(ShapeError, f"a slice of shape {found} is larger than the ref", op=name, operands=[ref])
        return found

    def _check_stored(self, ref: Value, value: Value, name: str) -> None:
        element = ref._info.element
        if value._info.dtype.mlir != element.mlir:
            hint = "ref[…] = v stores booleans as i32, ops do not: b.extui(v, i32)" if value.dtype is dt.i1 else None
            summary = f"the ref holds {element}, the value {value.dtype}"
            self.fail(DTypeError, summary, op=name, operands=[value, ref], hint=hint)

    def _vmem(self, ref: Value, name: str) -> IrValue:
        used = self._use_ref(ref, name)
        space = ref._info.space
        if space is MemorySpace.VMEM or space is MemorySpace.VMEM_SHARED:
            return used
        if space is MemorySpace.SMEM:
            hint = "use scalar_load and scalar_store for SMEM"
        else:
            hint = "copy it to a VMEM scratch with enqueue_dma first"
        self.fail(
            MemorySpaceError,
            f"vectors live in vmem, the ref in {space.value if space else '?'}",
            op=name,
            operands=[ref],
            hint=hint,
        )

    @op("vector.load", source="b.refLoad(ref)", traits=("load",))
    def ref_load(self, ref: Value) -> Value:
        """The whole of a VMEM ref, from zero indices: what ``ref[...]`` emits.

        Example:
            >>> b.ref_load(a.x).shape
            (8, 128)
        """
        return self.vector_load(ref)

    @op("vector.load", source="vector.load", traits=("load",))
    def vector_load(self, ref: Value, indices: Indices = (), shape: Sequence[int] | None = None) -> Value:
        """A slice of a VMEM ref, contiguous in every dimension.

        Args:
            ref: in VMEM.
            indices: one start a dimension (index values or ints); none means zeros.
            shape: of the slice, the ref's rank; the ref's own shape if omitted.

        Example:
            >>> b.vector_load(a.x, [0, 0], (4, 128)).shape
            (4, 128)
        """
        used = self._vmem(ref, "vector.load")
        found = self._vector_shape(ref, shape, "vector.load")
        info = self.types.vector(found, ref._info.element)
        return self._emit("vector.load", info, [used, *self._indices(ref, indices, "vector.load")])

    @op("vector.load", source="b.vectorLoadAt(ref, indices)", traits=("load",))
    def vector_load_at(self, ref: Value, indices: Indices) -> Value:
        """`vector_load` of the ref's full shape at ``indices``.

        Example:
            >>> b.vector_load_at(a.x, [0, 0]).shape
            (8, 128)
        """
        return self.vector_load(ref, indices)

    @op("vector.load", source="b.vectorLoadShape(ref, indices, shape)", traits=("load",))
    def vector_load_shape(self, ref: Value, indices: Indices, shape: Sequence[int]) -> Value:
        """`vector_load` of a slice of ``shape`` at ``indices``.

        Example:
            >>> b.vector_load_shape(a.x, [0, 0], (1, 128)).shape
            (1, 128)
        """
        return self.vector_load(ref, indices, shape)

    @op("vector.store", source="pl.debug_print(message, vector)", traits=("store",))
    def plain_vector_store(self, ref: Value, value: Value, indices: Indices = ()) -> None:
        """The vector dialect's own store: what Pallas emits only to print a vector. Else it is `vector_store`.

        Args:
            ref: in VMEM.
            value: a vector of the ref's rank and element type.
            indices: one start a dimension; none means zeros.

        Example:
            >>> b.plain_vector_store(a.x, b.zeros((8, 128), f32))
        """
        name = "vector.store"
        used, stored = self._vmem(ref, name), self._use_vector(value, name)
        self._check_stored(ref, value, name)
        self._vector_shape(ref, value._info.shape, name)
        self._emit_void(name, [stored, used, *self._indices(ref, indices, name)])

    # --- shapes ------------------------------------------------------------------------------------------------------

    @op("vector.broadcast", source="b.broadcastTo(src, shape)")
    def broadcast_to(self, source: Value, shape: Sequence[int]) -> Value:
        """A scalar or vector repeated to ``shape``; size-1 dimensions stretch, leading dimensions are added.

        Raises:
            ShapeError: the shapes do not broadcast.

        Example:
            >>> b.broadcast_to(b.lift(1.0), (8, 128)).shape
            (8, 128)
        """
        used = self._use(source, "vector.broadcast")
        target = self._shape(shape, "vector.broadcast")
        key = ("vector.broadcast", source._info, target)
        result = self.types.plans.get(key)
        if result is None:
            result = self.types.plans[key] = self._broadcast_result(source, target)
        return self._emit("vector.broadcast", result, [used])

    def _broadcast_result(self, source: Value, target: tuple[int, ...]) -> TypeInfo:
        if source.is_ref:
            self.fail(KindError, "a ref is not a value", op="vector.broadcast", operands=[source], hint="load it first")
        if not target or source._info.dtype is dt.index:
            self.fail(
                ShapeError if not target else DTypeError,
                f"no vector<{target}> of {source.dtype}",
                op="vector.broadcast",
                operands=[source],
                hint="vectors have one dimension or more, of numbers",
            )
        aligned = target[len(target) - source.rank :] if source.rank else ()
        if source.rank > len(target) or any(s not in (1, t) for s, t in zip(source.shape, aligned, strict=True)):
            self.fail(
                ShapeError,
                f"does not broadcast to {target}",
                op="vector.broadcast",
                operands=[source],
                hint="insert size-1 dimensions with shape_cast first",
            )
        return self.types.vector(target, source._info.dtype)

    @op("vector.shape_cast", source="b.shapeCast(src, new_shape)")
    def shape_cast(self, source: Value, shape: Sequence[int]) -> Value:
        """The same elements in row-major order with another shape: what `jnp.reshape` emits.

        Raises:
            ShapeError: the number of elements differs.

        Example:
            >>> b.shape_cast(b.ref_load(a.x), (1, 8, 128)).shape
            (1, 8, 128)
        """
        used = self._use_vector(source, "vector.shape_cast")
        target = self._shape(shape, "vector.shape_cast")
        key = ("vector.shape_cast", source._info, target)
        result = self.types.plans.get(key)
        if result is None:
            if math.prod(target) != math.prod(source.shape) or not target:
                self.fail(
                    ShapeError,
                    f"{math.prod(source.shape)} elements do not make shape {target}",
                    op="vector.shape_cast",
                    operands=[source],
                    hint="the number of elements must stay",
                )
            result = self.types.plans[key] = self.types.vector(target, source._info.dtype)
        return self._emit("vector.shape_cast", result, [used])

    @op("vector.extract", source="b.vectorExtract(src, position)")
    def vector_extract(self, source: Value, position: Sequence[int]) -> Value:
        """One element, or the lower-rank slice at leading positions.

        Args:
            source: any vector.
            position: static indices of the leading dimensions; all of them give a scalar.

        Example:
            >>> b.vector_extract(b.ref_load(a.x), [0, 0]).shape
            ()
        """
        used = self._use_vector(source, "vector.extract")
        at = self._ints(position, "vector.extract", "position")
        if len(at) > source.rank:
            self.fail(ArityError, f"{len(at)} positions for rank {source.rank}", op="vector.extract", operands=[source])
        if any(not 0 <= p < s for p, s in zip(at, source.shape, strict=False)):
            hint = "each position from 0 to the size of its dimension - 1"
            self.fail(ShapeError, f"position {at} is outside", op="vector.extract", operands=[source], hint=hint)
        rest = source.shape[len(at) :]
        info = self.types.vector(rest, source.dtype) if rest else self.types.scalar(source.dtype)
        return self._emit("vector.extract", info, [used], {"static_position": self.types.dense(at, 64)})

    @op("vector.extract_strided_slice")
    def extract_strided_slice(
        self, source: Value, offsets: Sequence[int], sizes: Sequence[int], strides: Sequence[int] | None = None
    ) -> Value:
        """A static slice of a vector: what `lax.slice` and ``x[a:b]`` emit.

        Args:
            source: any vector.
            offsets: static start of every dimension.
            sizes: static size of every dimension.
            strides: static step of every dimension; ones if omitted.

        Example:
            >>> b.extract_strided_slice(b.ref_load(a.x), [0, 0], [4, 128]).shape
            (4, 128)
        """
        name = "vector.extract_strided_slice"
        used = self._use_vector(source, name)
        offsets, sizes = self._ints(offsets, name, "offsets"), self._shape(sizes, name)
        steps = self._ints(strides, name, "strides") if strides is not None else (1,) * source.rank
        if not len(offsets) == len(sizes) == len(steps) == source.rank:
            self.fail(
                ArityError, f"offsets, sizes and strides must have {source.rank} entries", op=name, operands=[source]
            )
        for o, s, t, d in zip(offsets, sizes, steps, source.shape, strict=True):
            if o < 0 or s < 1 or t < 1 or o + (s - 1) * t >= d:
                what = f"slice {tuple(offsets)} + {tuple(sizes)} is outside"
                hint = "start at 0 or later in each dimension, and end at its size at most"
                self.fail(ShapeError, what, op=name, operands=[source], hint=hint)
        attributes: dict[str, ir.Attribute] = {
            key: ir.ArrayAttr.get([self.types.integer(int(v), 64) for v in values], self.types.context)
            for key, values in (("offsets", offsets), ("sizes", sizes), ("strides", steps))
        }
        return self._emit(name, self.types.vector(tuple(int(s) for s in sizes), source.dtype), [used], attributes)

    @op("vector.bitcast")
    def vector_bitcast(self, source: Value, dtype: dt.DType) -> Value:
        """Reinterpret along the last dimension: its size scales with the ratio of widths.

        Example:
            >>> b.vector_bitcast(b.ref_load(a.x), bf16).shape
            (8, 256)
        """
        used = self._use_vector(source, "vector.bitcast")
        dtype = self._element(dtype, "vector.bitcast")
        bits = source.shape[-1] * source.dtype.bits
        if not dtype.bits or bits % dtype.bits:
            self.fail(
                DTypeError, f"{bits} bits a row do not divide into {dtype}", op="vector.bitcast", operands=[source]
            )
        return self._emit("vector.bitcast", self.types.vector((*source.shape[:-1], bits // dtype.bits), dtype), [used])

    # --- reductions --------------------------------------------------------------------------------------------------

    @op("vector.multi_reduction", source="b.multiReduction(kind, src, acc, axes)", traits=("reduction", "pure"))
    def multi_reduction(self, kind: CombiningKind | str, source: Value, acc: Value, axes: Sequence[int]) -> Value:
        """Reduce ``source`` along ``axes``, starting from ``acc``.

        Args:
            kind: how two elements combine.
            source: the vector.
            acc: start value, of the result's type: the remaining dimensions, or a scalar when none remain.
            axes: dimensions to reduce; none is how Pallas reduces a scalar, as a vector of one.

        Example:
            >>> b.multi_reduction("add", b.ref_load(a.x), b.zeros((8,), f32), [1]).shape
            (8,)
        """
        name = "vector.multi_reduction"
        combining = self._member(CombiningKind, kind, name)
        used = self._use_vector(source, name)
        dims = self._ints(axes, name, "axes")
        if len(set(dims)) != len(dims) or any(not 0 <= d < source.rank for d in dims):
            self.fail(
                ArityError,
                f"axes {dims} of a vector of rank {source.rank}",
                op=name,
                operands=[source],
                hint="give each reduced dimension once, counted from 0",
            )
        start = self._use(acc, name)
        rest = tuple(s for d, s in enumerate(source.shape) if d not in dims)
        info = self.types.vector(rest, source.dtype) if rest else self.types.scalar(source.dtype)
        if acc._info.ir is not info.ir:
            wrong = ShapeError if acc.shape != rest else DTypeError
            self.fail(
                wrong, f"the start value must be {info}", op=name, operands=[source, acc], hint="use b.zeros or b.full"
            )
        self._check_combining(combining, source, name)
        attributes = self.types.named(name, combining, dims)
        if attributes is None:
            kind_attribute = self.types.parse(f"#vector.kind<{combining.value}>")
            attributes = {"kind": kind_attribute, "reduction_dims": self.types.dense(dims, 64)}
            self.types.name(attributes, name, combining, dims)
        return self._emit(name, info, [used, start], attributes)

    def _check_combining(self, kind: CombiningKind, source: Value, name: str) -> None:
        floats = kind.value.endswith("f")
        if floats != source.dtype.is_float and kind not in (CombiningKind.ADD, CombiningKind.MUL):
            self.fail(
                DTypeError,
                f"{kind.value} does not combine {source.dtype}",
                op=name,
                operands=[source],
                hint="maximumf and minimumf are of floats, maxsi, and, … of integers",
            )

    @op("vector.reduction", source="b.vectorReductionFlat(kind, src)", traits=("reduction", "pure"))
    def vector_reduction_flat(self, kind: CombiningKind | str, source: Value) -> Value:
        """A bare 1-D reduction. The layout pass usually refuses it: prefer `reduce_to_scalar`.

        Example:
            >>> b.vector_reduction_flat("add", b.zeros((128,), f32)).shape
            ()
        """
        combining = self._member(CombiningKind, kind, "vector.reduction")
        used = self._use_vector(source, "vector.reduction")
        if source.rank != 1:
            self.fail(
                ShapeError, "needs a 1-D vector", op="vector.reduction", operands=[source], hint="use multi_reduction"
            )
        self._check_combining(combining, source, "vector.reduction")
        attributes = {"kind": self.types.parse(f"#vector.kind<{combining.value}>")}
        return self._emit("vector.reduction", self.types.scalar(source.dtype), [used], attributes)

    @op("vector.create_mask", "tpu.create_mask", source="b.createMask(low_bounds, high_bounds, shape)")
    def create_mask(self, low: Indices, high: Indices, shape: Sequence[int]) -> Value:
        """``i1`` mask that holds where ``low <= position < high`` in every dimension.

        Emits ``vector.create_mask`` when all of ``low`` are the int 0, else ``tpu.create_mask``.

        Example:
            >>> b.create_mask([0, 0], [4, 128], (8, 128)).dtype
            i1
        """
        name = "tpu.create_mask"
        self._sequence(low, name)
        self._sequence(high, name)
        target = self._shape(shape, name)
        if not len(low) == len(high) == len(target):
            self.fail(ArityError, f"{len(low)} and {len(high)} bounds for shape {target}", op=name)
        if all(isinstance(v, int) and v == 0 for v in low):
            return self.range_mask(high, target)
        info = self.types.vector(target, dt.i1)
        lows, highs = [self._index(v, name) for v in low], [self._index(v, name) for v in high]
        return self._emit(name, info, [*lows, *highs])

    @op("vector.create_mask", source="b.rangeMask(limits, shape)")
    def range_mask(self, limits: Indices, shape: Sequence[int]) -> Value:
        """``i1`` mask that holds where ``position < limit`` in every dimension.

        Example:
            >>> b.range_mask([4, 128], (8, 128)).shape
            (8, 128)
        """
        target = self._shape(shape, "vector.create_mask")
        self._sequence(limits, "vector.create_mask")
        if len(limits) != len(target):
            self.fail(ArityError, f"{len(limits)} limits for shape {target}", op="vector.create_mask")
        info = self.types.vector(target, dt.i1)
        return self._emit("vector.create_mask", info, [self._index(v, "vector.create_mask") for v in limits])
