"""Loads, stores and views of refs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from mosaic_tpu.builder import dtypes as dt
from mosaic_tpu.builder._compat import IrValue
from mosaic_tpu.builder._registry import idiom
from mosaic_tpu.builder._value import Operand, Value
from mosaic_tpu.builder.enums import MemorySpace
from mosaic_tpu.builder.errors import DTypeError, KindError, MemorySpaceError, ShapeError
from mosaic_tpu.builder.pallas._base import Idioms
from mosaic_tpu.builder.pallas.elementwise import SIGNED
from mosaic_tpu.builder.views import (
    Bitcast,
    Index,
    RefView,
    Reshape,
    Slice,
    SqueezedAway,
    Transform,
    joined,
    parse_index,
)

_BOOLEAN = "True or False, or a comparison"

type RefLike = Value | RefView
#: A view without its values: static slices, reshapes, bitcasts, ``None`` for an index, and the rank that ends an index.
type Structure = tuple[Any, ...]
#: Constants made ahead, by the number of the transform and then by dimension.
type Hoisted = dict[int, list[Value | None]]


class RefIdioms(Idioms):
    """``ref[…]``, ``ref[…] = x``, ``ref.at[…]``, `pltpu.store`."""

    @idiom("pl.ds(start, size)", group="refs")
    def ds(self, start: Value | int, size: Value | int, stride: int = 1) -> Slice:
        """`pl.ds`: a slice whose start may be known at run time only.

        Example:
            >>> b.pallas.ds(b.lift(8), 8).size
            8
        """
        return Slice(start, size, stride)

    @idiom("ref.at[…]", "tpu.memref_slice", "tpu.memref_squeeze", group="refs")
    def at(self, ref: RefLike, index: object) -> RefView:
        """``ref.at[index]``: a view, emitted at each use. Same as ``ref.at[index]`` on the value itself.

        Example:
            >>> row = b.pallas.at(a.x, (0,))
            >>> row.shape
            (128,)
            >>> b.pallas.async_copy(b.pallas.at(a.hbm, (0,)), row, b.sem_alloc("dma")).start()
        """
        return self._view(ref, "at").at[index]

    def _view(self, ref: RefLike, op: str) -> RefView:
        view = ref if isinstance(ref, RefView) else None
        if view is None:
            if not isinstance(ref, Value) or not ref.is_ref:
                self._b.fail(KindError, "a ref is needed", op=op, operands=[ref], hint="pass a declared argument")
            view = RefView(ref)
        self._b._use(view.ref, op)
        return view

    # --- how views are emitted -----------------------------------------------------------------------------------

    def _materialize(self, view: RefView, hoisted: Hoisted | None = None) -> Value:
        """Emit every transform of a view: the operand of a DMA or a semaphore op."""
        ref = view.ref
        for number, transform in enumerate(view.transforms):
            ref = self._apply(ref, transform, None if hoisted is None else hoisted.get(number))
        return ref

    def _split(self, view: RefView) -> tuple[Structure, list[Value]]:
        """A view as its structure, which decides the ops it becomes, and the values in it.

        Static indices become constants here, where Pallas makes them: before it emits any view.
        """
        values = [view.ref]
        structure: list[object] = []
        for number, transform in enumerate(view.transforms):
            if not isinstance(transform, Index):
                structure.append(transform)
                continue
            for d, entry in enumerate(transform.entries):
                if isinstance(entry, Slice):
                    dynamic = [v for v in (entry.start, entry.size) if isinstance(v, Value)]
                    values += dynamic
                    structure.append((entry.start, entry.size, entry.stride) if not dynamic else _dynamic(entry))
                elif type(entry) is SqueezedAway:
                    structure.append((entry, None, 1))
                else:
                    values.append(entry if isinstance(entry, Value) else self._static(view, number, d, entry))
                    structure.append(None)
            structure.append(len(transform.entries))
        return tuple(structure), values

    def _static(self, view: RefView, number: int, dimension: int, entry: int) -> Value:
        """A static index as a constant: made here, or taken over from the block where the view was made."""
        outer = self._outer(view, number, dimension, entry)
        return self._const(entry, dt.i32) if outer is None else outer

    def _outer(self, view: RefView, number: int, dimension: int, entry: int) -> Value | None:
        """The constant of a view that was made outside of the branch or loop in which it is used, if that is the case.

        Pallas makes it before the outermost of them, as its operand, once.
        """
        b = self._b
        place = view.places[number] if view.places else None
        if place is None or place.scope is b._scope:
            return None
        inner = b._scope
        while inner.parent is not None and inner.parent is not place.scope:
            inner = inner.parent
        if inner.parent is None:
            return None
        branch = inner.branch
        return None if branch is None else branch.operand((place, dimension), entry, b.types.scalar(dt.i32))

    def _placed(self, view: RefView, number: int, index: Index) -> Index:
        """The index with the constants of outer blocks for its static ints."""
        if not view.places or view.places[number] is None:
            return index
        outer = [self._outer(view, number, d, e) if type(e) is int else None for d, e in enumerate(index.entries)]
        if all(value is None for value in outer):
            return index
        return Index(tuple(e if v is None else v for e, v in zip(index.entries, outer, strict=True)))

    def _join(self, structure: Structure, values: Iterator[Value]) -> RefView:
        """The view of a structure on other values."""
        ref = next(values)
        transforms: list[Transform] = []
        entries: list[Slice | Value | int] = []
        for part in structure:
            match part:
                case None:
                    entries.append(next(values))
                case int():
                    transforms.append(Index(tuple(entries)))
                    entries = []
                case (SqueezedAway(), None, _):
                    entries.append(SqueezedAway(0))
                case (start, size, stride):
                    first = next(values) if start is Value else start
                    entries.append(Slice(first, next(values) if size is Value else size, stride))
                case _:
                    transforms.append(part)
        return RefView(ref, tuple(transforms))

    def _apply(self, ref: Value, transform: Transform, offsets: list[Value | None] | None = None) -> Value:
        match transform:
            case Index():
                return self._slice(ref, transform, offsets)
            case Reshape(shape):
                return self._b.memref_reshape(ref, shape)
            case Bitcast(dtype):
                return self._b.memref_bitcast(ref, dtype)

    def _slice(self, ref: Value, index: Index, hoisted: list[Value | None] | None) -> Value:
        """``tpu.memref_slice`` and ``tpu.memref_squeeze``; the index was checked when it was parsed."""
        b = self._b
        if index.steps:
            b.fail(ShapeError, "views have no strides", op="at", operands=[ref], hint="load with the stride instead")
        starts = [
            self._offset(e.start if isinstance(e, Slice) else e, None if hoisted is None else hoisted[d])
            for d, e in enumerate(index.entries)
        ]
        if not index.static:
            values = [Value(s, b.types.scalar(dt.i32), b._scope) for s in starts]
            sliced = b.memref_slice(ref, values, index.sizes)
            shape = tuple(s for s, q in zip(sliced._info.shape, index.squeezed, strict=True) if not q)
            return b._view("tpu.memref_squeeze", sliced, shape) if index.drops else sliced
        sliced_info, squeezed_info = b.types.sliced(ref._info, index.sizes, index.squeezed)  # pyright: ignore[reportArgumentType]
        sliced = b._emit("tpu.memref_slice", sliced_info, [ref._ir, *starts], b._slice_attributes(len(starts), 0))
        return b._emit("tpu.memref_squeeze", squeezed_info, [sliced._ir]) if index.drops else sliced

    def _offset(self, start: Value | int, hoisted: Value | None) -> IrValue:
        """An i32 offset: the hoisted constant, a value, or a constant made here."""
        b = self._b
        if hoisted is not None:
            return hoisted._ir
        i32 = b.types.scalar(dt.i32)
        if not isinstance(start, Value):
            return b._raw_constant(start, i32)
        used = b._use(start, "at")
        if start._info.ir is not i32.ir:
            b.fail(DTypeError, "offsets must be i32", op="at", operands=[start], hint="b.index_cast(v, i32)")
        return used

    def _starts(self, index: Index) -> list[IrValue]:
        """Index operands of a load or store: constants in place, one a dimension."""
        b = self._b
        starts: list[IrValue] = []
        for entry in index.entries:
            start = entry.start if isinstance(entry, Slice) else entry
            if isinstance(start, Value):
                used = b._use(start, "ref[…]")
                index_info = b.types.index
                is_index = start._info is index_info
                starts.append(used if is_index else b._emit("arith.index_cast", index_info, [used])._ir)
            else:
                starts.append(b._raw_constant(start, b.types.index))
        return starts

    def _access(self, ref: RefLike, index: object, op: str) -> tuple[Value, Index]:
        """The ref after all transforms but the last index, and that index."""
        if type(ref) is Value and ref._info.is_ref and ref._scope.live is self._b:
            return ref, parse_index(index, ref._info.shape)
        view = self._view(ref, op)
        transforms = view.transforms
        if index is ...:
            last = transforms[-1] if transforms else None
            if isinstance(last, Index):
                transforms, found = transforms[:-1], self._placed(view, len(transforms) - 1, last)
            else:
                found = parse_index(..., view.shape)
        else:
            transforms, found = joined(transforms, parse_index(index, view.shape))
        base = view.ref
        for number, transform in enumerate(transforms):
            base = self._apply(
                base, self._placed(view, number, transform) if isinstance(transform, Index) else transform
            )
        return base, found

    # --- loads and stores -------------------------------------------------------------------------------------------

    @idiom("ref[…]", "vector.load", "tpu.strided_load", "memref.load", group="refs", traits=("load",))
    def load(self, ref: RefLike, index: object = ...) -> Value:
        """``ref[index]``: a vector of a VMEM ref, a scalar of an SMEM ref.

        Args:
            ref: a ref or a view of one.
            index: ints, integer values, slices, `ds`, one ellipsis; the whole ref if omitted.

        Emits the index constants, ``vector.load`` (``tpu.strided_load`` with steps), and a ``vector.shape_cast`` or
        ``vector.extract`` when dimensions are dropped.

        Example:
            >>> b.pallas.load(a.x, (0,)).shape
            (128,)
        """
        b = self._b
        base, found = self._access(ref, index, "load")
        if base._info.space is MemorySpace.SMEM:
            if found.shape:
                b.fail(
                    ShapeError,
                    "only scalars can be loaded from smem",
                    op="load",
                    operands=[base],
                    hint="index every dimension",
                )
            scalar = b.types.scalar(base._info.element)
            return self._from_memory(base, b._emit("memref.load", scalar, [base._ir, *self._starts(found)]))
        self._vmem(base, "load")
        loaded = self._load_block(base, found, self._starts(found))
        if found.drops:
            loaded = b.shape_cast(loaded, found.shape) if found.shape else b.vector_extract(loaded, (0,) * base.rank)
        return self._from_memory(base, loaded)

    def _from_memory(self, ref: Value, loaded: Value) -> Value:
        """What a load gives: of a ref of booleans, which holds i32, whether it is not 0."""
        info, b = ref._info, self._b
        if info.dtype is info.element:
            return loaded
        zero = b._raw_constant(0, loaded._info)
        not_equal = b.types.predicates(SIGNED)["ne"]
        return b._emit("arith.cmpi", b.types.like(loaded._info, info.dtype), [loaded._ir, zero], not_equal)

    def _to_memory(self, ref: Value, value: Value) -> Value:
        """What a store writes: 0 and 1 for booleans."""
        info, b = ref._info, self._b
        if info.dtype is info.element:
            return value
        return b._emit("arith.extui", b.types.like(value._info, info.element), [value._ir])

    def _vmem(self, ref: Value, op: str) -> None:
        space = ref._info.space
        if space is not MemorySpace.VMEM and space is not MemorySpace.VMEM_SHARED:
            self._b.fail(
                MemorySpaceError,
                f"{space.value if space else '?'} refs cannot be read or written directly",
                op=op,
                operands=[ref],
                hint="copy to vmem with b.pallas.async_copy, which takes views of refs: a.x.at[...]",
            )

    def _load_block(self, base: Value, index: Index, starts: list[IrValue]) -> Value:
        b = self._b
        if not index.static:
            b.fail(
                ShapeError, "loads need static sizes", op="load", operands=[base], hint="only DMAs take run-time sizes"
            )
        info = b.types.vector(index.sizes, base._info.element)  # pyright: ignore[reportArgumentType]
        if index.steps:
            return b._emit("tpu.strided_load", info, [base._ir, *starts], {"strides": b.types.dense(index.strides, 32)})
        return b._emit("vector.load", info, [base._ir, *starts])

    @idiom("ref[…] = x", "vector.load", "tpu.vector_store", "memref.store", group="refs", traits=("store",))
    def store(self, ref: RefLike, value: Operand, index: object = ..., *, mask: Value | None = None) -> None:
        """``ref[index] = value``, `pltpu.store`: a load whose result nobody uses, then the store, on shared indices.

        Args:
            ref: a ref or a view of one.
            value: of the slice's shape and the ref's element type; a number for an SMEM ref.
            index: as in `load`.
            mask: ``i1`` of the value's shape; 32-bit elements only.

        Raises:
            ShapeError: the value's shape is not the slice's: there is no broadcast in a store.
            DTypeError: the element types differ: cast first, as JAX's indexed assignment does not for you here.

        Example:
            >>> b.pallas.store(a.x, b.pallas.load(a.x) * 2.0)
        """
        self._swap(ref, value, index, mask)

    @idiom("jax.ref.swap(ref, index, x)", "vector.load", "tpu.vector_store", "memref.store", group="refs")
    def swap(self, ref: RefLike, value: Operand, index: object = ..., *, mask: Value | None = None) -> Value:
        """`jax.ref.swap`: `store`, and what stood there before, which `store` loads and drops.

        Args:
            ref: a ref or a view of one.
            value: of the slice's shape and the ref's element type; a number for an SMEM ref.
            index: as in `load`.
            mask: as in `store`.

        Example:
            >>> b.pallas.swap(a.x, a.x[...] * 2.0).shape
            (8, 128)
        """
        with self._one_line("swap"):
            return self._swap(ref, value, index, mask)

    def _swap(self, ref: RefLike, value: Operand, index: object, mask: Value | None) -> Value:
        b = self._b
        self._check("store", value)
        base, found = self._access(ref, index, "store")
        if base.dtype is dt.i1 and isinstance(value, int | float | np.number) and not isinstance(value, bool):
            b.fail(
                DTypeError,
                f"the ref holds booleans, the value is {value!r}",
                op="store",
                operands=[base],
                hint=_BOOLEAN,
            )
        if base._info.space is MemorySpace.SMEM:
            return self._store_scalar(base, found, value, mask)
        self._vmem(base, "store")
        stored = self._stored(base, found, value)
        if mask is not None:
            self._check_mask(base, stored, mask)
        starts = self._starts(found)
        old = dead = self._load_block(base, found, starts)
        stored = self._to_memory(base, stored)
        if found.drops:
            old = b.shape_cast(dead, found.shape)
            stored = b.shape_cast(stored, dead.shape)
            mask = mask if mask is None else b.shape_cast(mask, dead.shape)
        old = self._from_memory(base, old)
        if found.steps:
            if mask is not None:
                b.fail(
                    ShapeError, "masked stores have no strides", op="store", operands=[base], hint="store unmasked rows"
                )
            b._emit_void(
                "tpu.strided_store", [stored._ir, base._ir, *starts], {"strides": b.types.dense(found.strides, 32)}
            )
            return old
        self._emit_store(base, stored, starts, mask)
        return old

    def _emit_store(self, base: Value, stored: Value, starts: list[IrValue], mask: Value | None) -> None:
        b = self._b
        masks = [] if mask is None else [mask._ir]
        key = ("tpu.vector_store", len(starts), len(masks), (), False)
        attributes = b.types.named(*key)
        if attributes is None:
            sizes = b.types.dense((1, 1, len(starts), len(masks)), 32)
            attributes = b.types.name({"strides": b.types.dense((), 32), "operandSegmentSizes": sizes}, *key)
        b._emit_void("tpu.vector_store", [stored._ir, base._ir, *starts, *masks], attributes)

    def _stored(self, base: Value, index: Index, value: Operand) -> Value:
        b = self._b
        if not isinstance(value, Value):
            value = b.pallas.full(index.shape, value, base.dtype)
        if not value.is_vector:
            b.fail(
                KindError,
                "scalars cannot be stored to vmem",
                op="store",
                operands=[base, value],
                hint="b.pallas.full(shape, value, dtype) makes a vector",
            )
        if value.shape != index.shape:
            b.fail(
                ShapeError,
                f"the slice has shape {index.shape}, the value {value.shape}",
                op="store",
                operands=[base, value],
                hint="b.pallas.broadcast_to(value, shape); keepdims=True or x[:, None] keep a reduced dimension",
            )
        if value.dtype.mlir != base.dtype.mlir:
            b.fail(
                DTypeError, f"the ref holds {base.dtype}, the value {value.dtype}", op="store", operands=[base, value]
            )
        return value

    def _check_mask(self, base: Value, stored: Value, mask: Value) -> None:
        self._value(mask, "store")
        if mask.dtype is not dt.i1 or mask.shape != stored.shape:
            self._b.fail(
                ShapeError,
                f"the mask must be i1 of shape {stored.shape}",
                op="store",
                operands=[base, mask],
                hint="compare values of that shape",
            )
        if base.dtype.bits != 32:
            self._b.fail(
                DTypeError,
                "masked stores need 32-bit elements",
                op="store",
                operands=[base, mask],
                hint="load, select and store instead",
            )

    def _store_scalar(self, base: Value, index: Index, value: Operand, mask: Value | None) -> Value:
        b = self._b
        if mask is not None or index.shape:
            b.fail(
                ShapeError,
                "only single scalars are stored to smem",
                op="store",
                operands=[base],
                hint="index every dimension",
            )
        scalar = value if isinstance(value, Value) else self._const(*b._number(value, base.dtype))
        if scalar.is_shaped or scalar.dtype.mlir != base.dtype.mlir:
            b.fail(DTypeError, f"needs a scalar {base.dtype}", op="store", operands=[base, scalar])
        starts = self._starts(index)
        old = b._emit("memref.load", b.types.scalar(base._info.element), [base._ir, *starts])
        old = self._from_memory(base, old)
        b._emit_void("memref.store", [self._to_memory(base, scalar)._ir, base._ir, *starts])
        return old


def _dynamic(entry: Slice) -> tuple[object, object, int]:
    """A slice with `Value` in the place of what is known at run time only."""
    start, size = (Value if isinstance(v, Value) else v for v in (entry.start, entry.size))
    return start, size, entry.stride
