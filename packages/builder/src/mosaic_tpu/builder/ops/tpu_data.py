"""The tpu dialect's vector ops: iota, bitcast, concatenate, transpose, rotate, reductions, scan, sort."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from mosaic_tpu.builder import dtypes as dt
from mosaic_tpu.builder._compat import HAS_REPEAT, tpu_ops
from mosaic_tpu.builder._core import Core
from mosaic_tpu.builder._registry import op
from mosaic_tpu.builder._value import Value
from mosaic_tpu.builder.dtypes import DType
from mosaic_tpu.builder.enums import ReductionKind
from mosaic_tpu.builder.errors import ArityError, AttributeValueError, DTypeError, ShapeError

_KIND_MEMBERS = {
    ReductionKind.SUM: "kSum",
    ReductionKind.ARG_MAX: "kArgMax",
    ReductionKind.ARG_MIN: "kArgMin",
    ReductionKind.FIND_FIRST_SET: "kFindFirstSet",
    ReductionKind.MAX_F: "kMaxF",
    ReductionKind.MIN_F: "kMinF",
    ReductionKind.MAX_SI: "kMaxSI",
    ReductionKind.MIN_SI: "kMinSI",
    ReductionKind.MAX_UI: "kMaxUI",
    ReductionKind.MIN_UI: "kMinUI",
}


class TpuDataOps(Core):
    """``tpu.*`` on vectors."""

    def _native_kind(self, kind: ReductionKind | str, source: Value, name: str) -> Any:
        member = self._member(ReductionKind, kind, name)
        return getattr(tpu_ops().ReductionKind, _KIND_MEMBERS[member])

    def _axis(self, axis: int, rank: int, name: str, *operands: Value) -> int:
        axis = self._int(axis, name, "axis")
        if not -rank <= axis < rank:
            self.fail(
                ArityError,
                f"axis {axis} of a vector of rank {rank}",
                op=name,
                operands=operands,
                hint="axes count from 0",
            )
        return axis % rank

    @op("tpu.iota", source="b.iota(shape, dtype, dimensions)")
    def iota(self, shape: Sequence[int], dtype: DType = dt.i32, dimensions: Sequence[int] = (0,)) -> Value:
        """Each element is its position along ``dimensions``: `lax.broadcasted_iota`.

        The layout pass refuses 1-D iotas: see `arange`.

        Args:
            shape: of the result.
            dtype: an integer type.
            dimensions: the dimension counted, or several flattened together.

        Example:
            >>> b.iota((8, 128), i32, [1]).shape
            (8, 128)
        """
        target, dims = self._shape(shape, "tpu.iota"), self._ints(dimensions, "tpu.iota", "dimensions")
        dtype = self._dtype(dtype, "tpu.iota")
        if not dtype.is_int:
            self.fail(DTypeError, f"counts integers, not {dtype}", op="tpu.iota", hint="cast the result")
        if not dims or any(not 0 <= d < len(target) for d in dims):
            self.fail(ArityError, f"dimensions {dims} of shape {target}", op="tpu.iota", hint="count from 0")
        attributes = self.types.named("tpu.iota", dims)
        if attributes is None:
            attributes = self.types.name({"dimensions": self.types.dense(dims, 32)}, "tpu.iota", dims)
        return self._emit("tpu.iota", self.types.vector(target, dtype), [], attributes)

    @op("tpu.bitcast", source="b.bitcastTo(src, dtype)")
    def bitcast_to(self, source: Value, dtype: DType) -> Value:
        """Reinterpret a vector's bits; a change of width scales the second-to-last dimension: `pltpu.bitcast`.

        Raises:
            ShapeError: the sublanes do not divide.

        Example:
            >>> b.bitcast_to(b.ref_load(a.x), i32).shape
            (8, 128)
        """
        name = "tpu.bitcast"
        used = self._use_vector(source, name)
        shape, dtype = source.shape, self._element(dtype, name)
        if dtype.bits != source.dtype.bits:
            if len(shape) < 2 or not dtype.bits:
                self.fail(
                    ShapeError,
                    f"cannot change the width to {dtype}",
                    op=name,
                    operands=[source],
                    hint="a change of width needs rank 2 or more",
                )
            rows = shape[-2] * source.dtype.bits
            if rows % dtype.bits:
                self.fail(
                    ShapeError,
                    f"{shape[-2]} sublanes of {source.dtype} do not make {dtype}",
                    op=name,
                    operands=[source],
                )
            shape = (*shape[:-2], rows // dtype.bits, shape[-1])
        return self._emit(name, self.types.vector(shape, dtype), [used])

    @op("tpu.reshape", source="b.reshape(src, new_shape)")
    def reshape(self, source: Value, shape: Sequence[int]) -> Value:
        """The TPU-flavoured reshape. Pallas emits `shape_cast` everywhere.

        Example:
            >>> b.reshape(b.ref_load(a.x), (1, 8, 128)).shape
            (1, 8, 128)
        """
        used = self._use_vector(source, "tpu.reshape")
        target = self._shape(shape, "tpu.reshape")
        if math.prod(target) != math.prod(source.shape) or not target:
            self.fail(
                ShapeError,
                f"{math.prod(source.shape)} elements do not make shape {target}",
                op="tpu.reshape",
                operands=[source],
                hint="the number of elements must stay",
            )
        return self._emit("tpu.reshape", self.types.vector(target, source.dtype), [used])

    @op("tpu.repeat", "tpu.concatenate", group="tpu", source="b.repeat(src, dimension, times)")
    def repeat(self, source: Value, dimension: int, times: int) -> Value:
        """``times`` copies one after the other: ``tpu.repeat`` on jaxlib 0.11, ``tpu.concatenate`` since 0.12.

        Example:
            >>> b.repeat(b.ref_load(a.x), 1, 2).shape
            (8, 256)
        """
        used = self._use_vector(source, "tpu.repeat")
        axis, times = self._axis(dimension, source.rank, "tpu.repeat", source), self._int(times, "tpu.repeat", "count")
        if not 1 <= times <= 1 << 16:
            self.fail(
                AttributeValueError, f"{times} copies", op="tpu.repeat", operands=[source], hint="from 1 to 65536"
            )
        if not HAS_REPEAT:
            return source if times == 1 else self.concatenate([source] * times, axis)
        shape = tuple(s * times if d == axis else s for d, s in enumerate(source.shape))
        attributes = {"dimension": self.types.integer(axis, 32), "times": self.types.integer(times, 32)}
        return self._emit("tpu.repeat", self.types.vector(shape, source.dtype), [used], attributes)

    @op("tpu.concatenate", source="b.concatenate(sources, dimension)")
    def concatenate(self, sources: Sequence[Value], dimension: int) -> Value:
        """Vectors joined along ``dimension``.

        Args:
            sources: two or more vectors that differ in ``dimension`` only.
            dimension: counted from 0, or from the end when negative.

        Example:
            >>> x = b.ref_load(a.x)
            >>> b.concatenate([x, x], 0).shape
            (16, 128)
        """
        name = "tpu.concatenate"
        self._sequence(sources, name)
        if len(sources) < 2:
            self.fail(ArityError, f"{len(sources)} sources", op=name, operands=list(sources), hint="give two or more")
        used = [self._use_vector(s, name) for s in sources]
        first = sources[0]
        axis = self._axis(dimension, first.rank, name, *sources)
        total = 0
        for s in sources:
            if s.dtype.mlir != first.dtype.mlir:
                self.fail(DTypeError, f"element types {first.dtype} and {s.dtype} differ", op=name, operands=sources)
            if (
                s.rank != first.rank
                or s.shape[:axis] + s.shape[axis + 1 :] != first.shape[:axis] + first.shape[axis + 1 :]
            ):
                self.fail(ShapeError, f"shapes differ outside dimension {axis}", op=name, operands=sources)
            total += s.shape[axis]
        shape = (*first.shape[:axis], total, *first.shape[axis + 1 :])
        attributes = {"dimension": self.types.integer(axis, 32)}
        return self._emit(name, self.types.vector(shape, first.dtype), used, attributes)

    @op("tpu.transpose", source="b.transpose(src, permutation)")
    def transpose(self, source: Value, permutation: Sequence[int]) -> Value:
        """Dimensions reordered: dimension ``i`` of the result is ``permutation[i]`` of the source.

        Example:
            >>> b.transpose(b.ref_load(a.x), [1, 0]).shape
            (128, 8)
        """
        used = self._use_vector(source, "tpu.transpose")
        order = self._ints(permutation, "tpu.transpose", "permutation")
        if sorted(order) != list(range(source.rank)):
            self.fail(
                ArityError,
                f"{order} is not a permutation of {source.rank} dimensions",
                op="tpu.transpose",
                operands=[source],
            )
        info = self.types.vector(tuple(source.shape[p] for p in order), source.dtype)
        return self._emit("tpu.transpose", info, [used], {"permutation": self.types.dense(order, 64)})

    @op("tpu.broadcast_in_sublanes", source="b.broadcastInSublanes(src, lane)")
    def broadcast_in_sublanes(self, source: Value, lane: int, shape: Sequence[int] | None = None) -> Value:
        """One lane repeated over the sublanes of ``shape`` (the source's own if omitted). Pallas never emits it.

        Example:
            >>> b.broadcast_in_sublanes(b.ref_load(a.x), 0).shape
            (8, 128)
        """
        used = self._use_vector(source, "tpu.broadcast_in_sublanes")
        lane = self._int(lane, "tpu.broadcast_in_sublanes", "lane")
        if not 0 <= lane < source.shape[-1]:
            self.fail(
                AttributeValueError,
                f"lane {lane}",
                op="tpu.broadcast_in_sublanes",
                operands=[source],
                hint="lanes count the last dimension",
            )
        target = self._shape(shape, "tpu.broadcast_in_sublanes") if shape is not None else source.shape
        info = self.types.vector(target, source.dtype)
        return self._emit("tpu.broadcast_in_sublanes", info, [used], {"lane": self.types.integer(lane, 32)})

    @op("tpu.dynamic_rotate", source="b.rotate(src, opts)")
    def dynamic_rotate(
        self,
        source: Value,
        amount: Value,
        dimension: int,
        stride: int | None = None,
        stride_dimension: int | None = None,
    ) -> Value:
        """`numpy.roll` by a run-time amount: `pltpu.roll`.

        Args:
            source: any vector.
            amount: an i32 scalar, not negative.
            dimension: rolled.
            stride: extra shift for each step along ``stride_dimension``.
            stride_dimension: given with ``stride``.

        Example:
            >>> b.dynamic_rotate(b.ref_load(a.x), b.lift(1), 1).shape
            (8, 128)
        """
        name = "tpu.dynamic_rotate"
        used, shift = self._use_vector(source, name), self._use(amount, name)
        axis = self._axis(dimension, source.rank, name, source)
        if amount._info is not self.types.scalar(dt.i32):
            self.fail(DTypeError, "the amount must be an i32 scalar", op=name, operands=[source, amount])
        if (stride is None) != (stride_dimension is None):
            self.fail(
                ArityError, "stride and stride_dimension go together", op=name, operands=[source], hint="give both"
            )
        if stride is not None and stride_dimension is not None:
            stride = self._int(stride, name, "stride")
            stride_dimension = self._axis(stride_dimension, source.rank, name, source)
            if not -(1 << 31) <= stride < 1 << 31:
                self.fail(AttributeValueError, f"stride {stride}", op=name, operands=[source], hint="it is an i32")
        created = self._native(
            "DynamicRotateOp", name, used, shift, axis, stride=stride, stride_dimension=stride_dimension
        )
        return Value(created.results[0], source._info, self._scope)

    @op("tpu.dynamic_rotate", group="tpu", source="b.rotate(src, .{ .amount, .dimension, .stride, .stride_dimension })")
    def rotate(
        self, source: Value, amount: int, dimension: int, stride: int | None = None, stride_dimension: int | None = None
    ) -> Value:
        """`numpy.roll` by a static amount. ``tpu.rotate`` is in no jaxlib since 0.10.2: emits ``tpu.dynamic_rotate``.

        Example:
            >>> b.rotate(b.ref_load(a.x), 3, 1).shape
            (8, 128)
        """
        shift = self._constant(self._int(amount, "tpu.dynamic_rotate", "amount"), self.types.scalar(dt.i32))
        return self.dynamic_rotate(source, shift, dimension, stride, stride_dimension)

    @op("tpu.dynamic_gather", source="jnp.take_along_axis(x, indices, axis)")
    def dynamic_gather(self, source: Value, indices: Value, dimensions: Sequence[int]) -> Value:
        """Each element taken from where ``indices`` says along ``dimensions``, modulo their size.

        Args:
            source: any vector.
            indices: integers; the result has their shape, which may differ from the source's in ``dimensions`` only.
            dimensions: the one that is indexed, or several flattened together; the TensorCore takes the last two.

        Example:
            >>> b.dynamic_gather(b.ref_load(a.x), b.zeros((8, 128), i32), [1]).shape
            (8, 128)
        """
        name = "tpu.dynamic_gather"
        used = [self._use_vector(v, name) for v in (source, indices)]
        if not indices.dtype.is_int:
            self.fail(DTypeError, "indices are integers", op=name, operands=[source, indices])
        dims = self._ints(dimensions, name, "dimensions")
        if not dims or len(set(dims)) != len(dims) or any(not 0 <= d < source.rank for d in dims):
            hint = "give one or more, each once, counted from 0"
            self.fail(ArityError, f"dimensions {dims}", op=name, operands=[source, indices], hint=hint)
        if source.rank != indices.rank or any(
            s != i for d, (s, i) in enumerate(zip(source.shape, indices.shape, strict=True)) if d not in dims
        ):
            self.fail(ShapeError, f"shapes differ outside dimensions {dims}", op=name, operands=[source, indices])
        info = self.types.vector(indices.shape, source.dtype)
        return self._emit(name, info, used, {"dimensions": self.types.dense(dims, 32)})

    # --- reductions, scans, sorts -----------------------------------------------------------------------------------

    @op("tpu.all_reduce", source="b.allReduce(input, kind, dim)", traits=("reduction", "pure"))
    def all_reduce(self, source: Value, kind: ReductionKind | str, dimension: int) -> Value:
        """Reduce along ``dimension`` and repeat the result over it: the shape stays. Pallas never emits it.

        Example:
            >>> b.all_reduce(b.ref_load(a.x), "sum", 1).shape
            (8, 128)
        """
        used = self._use_vector(source, "tpu.all_reduce")
        axis = self._axis(dimension, source.rank, "tpu.all_reduce", source)
        member = self._native_kind(kind, source, "tpu.all_reduce")
        created = self._native("AllReduceOp", "tpu.all_reduce", source.type, used, axis, member)
        return Value(created.results[0], source._info, self._scope)

    @op("tpu.reduce_index", source="b.reduceIndex(input, kind, axis)", traits=("reduction", "pure"))
    def reduce_index(self, source: Value, kind: ReductionKind | str, axis: int) -> Value:
        """Position of the largest or smallest element along ``axis``, which is dropped: `jnp.argmax`.

        Example:
            >>> b.reduce_index(b.ref_load(a.x), "arg_max", 1).dtype
            i32
        """
        name = "tpu.reduce_index"
        used = self._use_vector(source, name)
        dim = self._axis(axis, source.rank, name, source)
        if self._member(ReductionKind, kind, name) not in (ReductionKind.ARG_MAX, ReductionKind.ARG_MIN):
            self.fail(
                AttributeValueError, f"{kind!r} finds no index", op=name, operands=[source], hint="arg_max or arg_min"
            )
        rest = source.shape[:dim] + source.shape[dim + 1 :]
        if not rest:
            self.fail(
                ShapeError,
                "a vector of rank 1 has no dimension left",
                op=name,
                operands=[source],
                hint="shape_cast to (1, n) and reduce axis 1",
            )
        info = self.types.vector(rest, dt.i32)
        created = self._native("ReduceIndexOp", name, info.ir, used, dim, self._native_kind(kind, source, name))
        return Value(created.results[0], info, self._scope)

    @op("tpu.scan", source="b.scan(input, kind, mask)", traits=("reduction", "pure"))
    def scan(self, source: Value, kind: ReductionKind | str, mask: Value | None = None, dimension: int = -1) -> Value:
        """Running reduction along ``dimension``. Pallas's TensorCore lowering never emits it.

        Example:
            >>> b.scan(b.ref_load(a.x), "sum").shape
            (8, 128)
        """
        used = self._use_vector(source, "tpu.scan")
        axis = self._axis(dimension, source.rank, "tpu.scan", source)
        masked = None if mask is None else self._use_vector(mask, "tpu.scan")
        member = self._native_kind(kind, source, "tpu.scan")
        created = self._native("ScanOp", "tpu.scan", source.type, used, member, axis, mask=masked)
        return Value(created.results[0], source._info, self._scope)

    @op("tpu.sort", source="b.sort(keys, values, mask, .{ .descending })", traits=("pure",))
    def sort(
        self, keys: Value, values: Value, mask: Value | None = None, *, descending: bool = False
    ) -> tuple[Value, Value, Value]:
        """Sort ``values`` by ``keys``: (mask of valid results, sorted keys, sorted values). SparseCore only.

        Example:
            >>> x = b.ref_load(a.x)
            >>> [v.shape for v in b.sort(x, x)]
            [(8, 128), (8, 128), (8, 128)]
        """
        used = [self._use_vector(v, "tpu.sort") for v in (keys, values)]
        if keys.shape != values.shape:
            self.fail(ShapeError, "keys and values differ in shape", op="tpu.sort", operands=[keys, values])
        mask_info = self.types.vector(keys.shape, dt.i1)
        masked = None if mask is None else self._use_vector(mask, "tpu.sort")
        created = self._native(
            "SortOp",
            "tpu.sort",
            mask_info.ir,
            keys.type,
            values.type,
            *used,
            mask=masked,
            descending=self._flag(descending, "tpu.sort", "descending") or None,
        )
        infos = (mask_info, keys._info, values._info)
        first, second, third = (Value(r, i, self._scope) for r, i in zip(created.results, infos, strict=True))
        return first, second, third

    # --- numeric --------------------------------------------------------------------------------------------------

    @op("tpu.reciprocal", source="b.reciprocal(x)", traits=("elementwise", "pure"))
    def reciprocal(self, x: Value, *, approximate: bool = False, full_range: bool = False) -> Value:
        """``1 / x`` of a float vector: `pl.reciprocal`.

        Args:
            x: a float vector.
            approximate: a faster, looser result.
            full_range: handle denormals and infinities exactly.

        Example:
            >>> b.reciprocal(b.ref_load(a.x), approximate=True).shape
            (8, 128)
        """
        used = self._use_vector(x, "tpu.reciprocal")
        if not x.dtype.is_float:
            self.fail(DTypeError, "needs float elements", op="tpu.reciprocal", operands=[x])
        created = self._native(
            "ReciprocalOp",
            "tpu.reciprocal",
            used,
            approx=self._flag(approximate, "tpu.reciprocal", "approximate") or None,
            full_range=self._flag(full_range, "tpu.reciprocal", "full_range") or None,
        )
        return Value(created.results[0], x._info, self._scope)

    @op("tpu.reciprocal", source="b.reciprocalOpts(x, .{ .approximate })", traits=("elementwise", "pure"))
    def reciprocal_opts(self, x: Value, *, approximate: bool = False, full_range: bool = False) -> Value:
        """The Zig DSL's name for `reciprocal` with its options.

        Example:
            >>> b.reciprocal_opts(b.ref_load(a.x), approximate=True).dtype
            f32
        """
        return self.reciprocal(x, approximate=approximate, full_range=full_range)

    @op("tpu.assume_multiple", source="pl.multiple_of(x, n)")
    def assume_multiple(self, value: Value, multiple: int) -> Value:
        """Promise the compiler that an integer scalar is a multiple of ``multiple``.

        Example:
            >>> b.assume_multiple(b.lift(128), 128).dtype
            i32
        """
        used = self._use(value, "tpu.assume_multiple")
        multiple = self._int(multiple, "tpu.assume_multiple", "multiple")
        if not 1 <= multiple < 1 << 31 or value._info.kind != "scalar" or value.dtype.is_float:
            self.fail(
                AttributeValueError,
                f"{value!r} cannot be a multiple of {multiple}",
                op="tpu.assume_multiple",
                operands=[value],
                hint="an integer or index scalar, and a positive number",
            )
        attributes = {"multiple": self.types.integer(multiple, 32)}
        return self._emit("tpu.assume_multiple", value._info, [used], attributes)
