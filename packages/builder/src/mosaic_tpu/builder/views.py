"""Views of refs: what ``ref.at[…]``, ``.reshape`` and ``.bitcast`` record, and how indices are read.

A view emits nothing by itself. Each load, store or DMA that uses it emits its slices and squeezes anew, as Pallas
does; the last index of a view is folded into a load or store instead.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from types import EllipsisType
from typing import TYPE_CHECKING, Any, cast

from mosaic_tpu.builder.dtypes import DType, i1
from mosaic_tpu.builder.errors import ArityError, DTypeError, KindError, ShapeError

if TYPE_CHECKING:
    from mosaic_tpu.builder._core import Scope as BlockScope
    from mosaic_tpu.builder._value import Value


#: Pallas refuses both: to bitcast, and to reshape.
NOT_OF_BOOLEANS = "load, and reshape or cast what was loaded; or declare the ref as i32, and compare"


@dataclass(frozen=True)
class Slice:
    """``pl.ds(start, size, stride)``: part of one dimension, with a start that may be known at run time only.

    Attributes:
        start: first element, an int or an integer scalar value.
        size: number of elements; an i32 value where only a DMA uses it.
        stride: step between elements.

    Raises:
        KindError: one of them is neither an int nor, except for ``stride``, an integer scalar.
    """

    start: Value | int
    size: Value | int
    stride: int = 1

    def __post_init__(self) -> None:
        if type(self.start) is int and type(self.size) is int and type(self.stride) is int:
            return
        from mosaic_tpu.builder._value import Value

        for name in ("start", "size", "stride"):
            given = getattr(self, name)
            if type(given) is int:
                continue
            if isinstance(given, Value) and name != "stride" and not given.is_shaped and not given.dtype.is_float:
                continue
            number = _plain_int(given)
            if number is None:
                raise KindError(
                    f"the {name} of a slice is {given!r}",
                    op="ds",
                    hint="ints; start and size may also be integer scalars",
                )
            object.__setattr__(self, name, number)


class Index:
    """A full index of a ref: one entry for each dimension.

    Attributes:
        entries: a `Slice`, an int or an integer value for each dimension.
        squeezed: which dimensions the index drops.
        sizes: the size of each dimension before squeezing.
        shape: the shape after squeezing; sizes known at run time only count as they are.
        strides: the step in each dimension.
        drops: whether any dimension is dropped.
        steps: whether any stride is not 1.
        static: whether every size is an int.
        constant: whether nothing in it is a value.
    """

    __slots__ = ("constant", "drops", "entries", "shape", "sizes", "squeezed", "static", "steps", "strides")

    def __init__(self, entries: tuple[Slice | Value | int, ...]) -> None:
        self.entries = entries
        squeezed, strides = [False] * len(entries), [1] * len(entries)
        sizes: list[Value | int] = [1] * len(entries)
        shape: list[int] = []
        self.drops, self.steps, self.static, self.constant = False, False, True, True
        for d, entry in enumerate(entries):  # one loop: an index is made at every load and store
            if type(entry) is Slice:
                start = entry.start
                sizes[d], strides[d] = entry.size, entry.stride
                shape.append(entry.size)  # pyright: ignore[reportArgumentType]
                if entry.stride != 1:
                    self.steps = True
                if type(entry.size) is not int:
                    self.static = self.constant = False
            else:
                start = entry
                squeezed[d] = self.drops = True
            if type(start) is not int:
                self.constant = False
        self.squeezed, self.sizes, self.strides = tuple(squeezed), tuple(sizes), tuple(strides)
        self.shape = tuple(shape)


class SqueezedAway(int):
    """The 0 at which a ref is indexed along a dimension that its kernel does not see."""


@dataclass(frozen=True)
class Reshape:
    """``ref.reshape(shape)``."""

    shape: tuple[int, ...]


@dataclass(frozen=True)
class Bitcast:
    """``ref.bitcast(dtype)``."""

    dtype: DType
    shape: tuple[int, ...]


type Transform = Index | Reshape | Bitcast


@dataclass(frozen=True, eq=False, slots=True)
class Place:
    """Where an index was written: its static ints are arrays of that block, in JAX, which inner blocks take over.

    Attributes:
        scope: the open block at that time.
    """

    scope: BlockScope


class RefView:
    """A ref and the transforms recorded on it.

    Attributes:
        ref: the declared or allocated ref.
        transforms: in the order they apply.
        shape: of the view.
        dtype: element type of the view.
        places: where each transform was written; none of them, if there is nothing to know.
    """

    __slots__ = ("dtype", "places", "ref", "shape", "transforms")

    def __init__(
        self,
        ref: Value,
        transforms: tuple[Transform, ...] = (),
        shape: tuple[int, ...] | None = None,
        dtype: DType | None = None,
        places: tuple[Place | None, ...] = (),
    ) -> None:
        if not ref.is_ref:
            raise KindError(
                "a ref is needed",
                op="at",
                operands=[str(ref.type)],
                hint="only refs have .at; slice vectors with b.pallas.slice",
            )
        self.ref = ref
        self.transforms = transforms
        self.places = places
        self.shape = ref.shape if shape is None else shape
        self.dtype = ref.dtype if dtype is None else dtype

    @property
    def at(self) -> RefIndexer:
        """A view of part of this view."""
        return RefIndexer(self)

    def reshape(self, *shape: int | tuple[int, ...]) -> RefView:
        """The same elements with another shape, of several sizes or one tuple; one size may be -1.

        Of booleans there is none, as in Pallas.
        """
        if self.dtype is i1:
            raise DTypeError("a ref of booleans cannot be reshaped", op="reshape", hint=NOT_OF_BOOLEANS)
        sizes = cast("tuple[int, ...]", shape[0] if len(shape) == 1 and isinstance(shape[0], tuple) else shape)
        target = _resolve(self.ref._b._ints(sizes, "reshape", "shape"), self.shape)
        places = (*self.places, None) if self.places else ()
        return RefView(self.ref, (*self.transforms, Reshape(target)), target, self.dtype, places)

    def bitcast(self, dtype: DType) -> RefView:
        """The same memory as another element type; a change of width scales the second-to-last dimension."""
        shape, dtype = self.shape, self.ref._b._element(dtype, "bitcast")
        if i1 in (self.dtype, dtype):
            summary = f"a ref of {self.dtype} cannot be viewed as {dtype}"
            raise DTypeError(summary, op="bitcast", hint=NOT_OF_BOOLEANS)
        if dtype.bits != self.dtype.bits:
            if len(shape) < 2 or shape[-2] * self.dtype.bits % dtype.bits:
                raise ShapeError(f"a view of shape {shape} and {self.dtype} does not divide into {dtype}", op="bitcast")
            shape = (*shape[:-2], shape[-2] * self.dtype.bits // dtype.bits, shape[-1])
        places = (*self.places, None) if self.places else ()
        return RefView(self.ref, (*self.transforms, Bitcast(dtype, shape)), shape, dtype, places)

    def __getitem__(self, index: object) -> Value:
        return self.ref._b.pallas.load(self, index)  # pyright: ignore[reportPrivateUsage]

    def __setitem__(self, index: object, value: Any) -> None:
        self.ref._b.pallas.store(self, value, index)  # pyright: ignore[reportPrivateUsage]

    def __repr__(self) -> str:
        return f"RefView(shape={self.shape}, dtype={self.dtype}, of={self.ref!r})"


class RefIndexer:
    """``ref.at``: index it to get a view."""

    __slots__ = ("_view",)

    def __init__(self, view: RefView) -> None:
        self._view = view

    def __getitem__(self, index: object) -> RefView:
        view = self._view
        if isinstance(index, EllipsisType):
            return view
        transforms, found = joined(view.transforms, parse_index(index, view.shape))
        # Refs outlive the block they were declared in only by mistake, which is told where the view is used.
        live = view.ref._scope.live  # pyright: ignore[reportPrivateUsage]
        place = None if live is None or not found.drops else Place(live._scope)  # pyright: ignore[reportPrivateUsage]
        known = view.places or (None,) * len(transforms)
        places = (*known, place) if len(known) == len(transforms) and (place or view.places) else ()
        return RefView(view.ref, (*transforms, found), found.shape, view.dtype, places)


def squeezed(ref: Value, dropped: Sequence[bool]) -> RefView:
    """A ref without some of its dimensions, each of size 1; an index of the view is one of the ref itself."""
    entries = [SqueezedAway(0) if d else Slice(0, s) for s, d in zip(ref.shape, dropped, strict=True)]
    found = Index(tuple(entries))
    return RefView(ref, (found,), found.shape)


def joined(transforms: tuple[Transform, ...], index: Index) -> tuple[tuple[Transform, ...], Index]:
    """The transforms that an index follows, and the index: one that follows `squeezed` alone takes its place."""
    last = transforms[-1] if transforms else None
    if len(transforms) != 1 or not isinstance(last, Index) or not last.drops:
        return transforms, index
    if not any(type(e) is SqueezedAway for e in last.entries):
        return transforms, index
    if len(index.entries) == len(last.entries):
        return transforms, index
    kept = iter(index.entries)
    return (), Index(tuple(e if type(e) is SqueezedAway else next(kept) for e in last.entries))


def _resolve(shape: tuple[int, ...], old: tuple[int, ...]) -> tuple[int, ...]:
    known = math.prod(s for s in shape if s != -1)
    total = math.prod(old)
    if shape.count(-1) == 1 and known and total % known == 0:
        shape = tuple(total // known if s == -1 else s for s in shape)
    if math.prod(shape) != total or any(s < 1 for s in shape):
        raise ShapeError(
            f"a view of shape {old} cannot be reshaped to {shape}",
            op="reshape",
            hint="sizes are positive, one may be -1, and the number of elements stays",
        )
    return shape


#: Parsed indices without run-time values, by index, kinds of its entries (True is not 1) and shape.
_parsed: dict[object, Index] = {}


def parse_index(index: object, shape: tuple[int, ...]) -> Index:
    """Read ``ref[index]``: ints, integer values, slices, `Slice` and one ellipsis.

    Raises:
        ArityError: more entries than dimensions.
        ShapeError: a static index leaves the dimension.
        KindError: an entry of another kind.
    """
    entries = cast("tuple[object, ...]", index) if isinstance(index, tuple) else (index,)
    kinds = tuple(map(type, entries))
    if slice in kinds:  # 0.0:4 would be taken for 0:4, which it equals
        for e in entries:
            if type(e) is slice and not {type(e.start), type(e.stop), type(e.step)} <= _BOUNDS:
                entries = tuple([_plain_slice(e, d) if type(e) is slice else e for d, e in enumerate(entries)])
                break
    key = (entries, kinds, shape)
    try:
        found = _parsed.get(key)
    except TypeError:  # an entry that cannot be hashed, and then is none that an index takes
        return _parse(entries, shape)
    if found is None:
        found = _parse(entries, shape)
        if found.constant:
            _parsed[key] = found
    return found


def _parse(entries: tuple[object, ...], shape: tuple[int, ...]) -> Index:
    gaps = [i for i, e in enumerate(entries) if e is ...]
    count = len(entries) - len(gaps)
    if len(gaps) > 1 or count > len(shape):
        raise ArityError(f"{count} indices for rank {len(shape)}", op="[…]", hint="one entry a dimension, one ellipsis")
    at = gaps[0] if gaps else len(entries)
    fill = (_ALL,) * (len(shape) - count)
    full = (*entries[:at], *fill, *entries[at + 1 :])
    return Index(
        tuple(
            [
                Slice(0, size) if e is _ALL else _entry(e, size, d)
                for d, (e, size) in enumerate(zip(full, shape, strict=True))
            ]
        )
    )


_ALL = slice(None)
#: What the bounds of a slice are, as a rule.
_BOUNDS = frozenset((int, type(None)))


def _entry(entry: object, size: int, dim: int) -> Slice | Value | int:
    from mosaic_tpu.builder._value import Value

    match entry:
        case Slice():
            _check_span(entry, size, dim)
            return entry
        case slice():
            return _python_slice(cast("slice[Any, Any, Any]", entry), size, dim)
        case bool():
            raise KindError(f"cannot index dimension {dim} with {entry!r}", op="[…]", hint="ints, slices or i32 values")
        case int():
            if not -size <= entry < size:
                raise ShapeError(
                    f"index {entry} leaves dimension {dim} of size {size}", op="[…]", hint=f"from {-size} to {size - 1}"
                )
            return entry % size
        case Value():
            if entry.is_shaped or entry.dtype.is_float:
                raise KindError(f"cannot index dimension {dim} with {entry!r}", op="[…]", hint="an integer scalar")
            return entry
        case _:
            raise KindError(
                f"cannot index dimension {dim} with a {type(entry).__name__}",
                op="[…]",
                hint="ints, slices, b.pallas.ds(start, size) or integer values",
            )


def _plain_int(given: object) -> int | None:
    """The int that something is to Python, or ``None``; True and values are none."""
    if isinstance(given, bool):
        return None
    try:
        return operator.index(cast("Any", given))
    except TypeError:
        return None


def _plain_slice(entry: slice[Any, Any, Any], dim: int) -> slice[Any, Any, Any]:
    """The slice with ints for bounds."""
    from mosaic_tpu.builder._value import Value

    bounds: list[int | None] = []
    for given in (entry.start, entry.stop, entry.step):
        if isinstance(given, Value):
            raise KindError(
                f"dimension {dim} is sliced with a run-time bound",
                op="[…]",
                hint="b.pallas.ds(start, size) has a run-time start and a static size",
            )
        bounds.append(None if given is None else _plain_int(given))
        if given is not None and bounds[-1] is None:
            raise KindError(
                f"dimension {dim} is sliced with {given!r}", op="[…]", hint="the bounds of a slice are ints"
            )
    return slice(*bounds)


def _python_slice(entry: slice[Any, Any, Any], size: int, dim: int) -> Slice:
    start, stop, step = (0, 0, 0) if entry.step == 0 else entry.indices(size)
    if step < 1 or stop <= start:
        raise ShapeError(
            f"slice {entry} of dimension {dim} of size {size} has no element",
            op="[…]",
            hint="slice within the dimension, from a start to a later stop",
        )
    return Slice(start, -(-(stop - start) // step), step)


def _check_span(entry: Slice, dim_size: int, dim: int) -> None:
    """Refuse what leaves the dimension whatever the run-time start or size is."""
    start = entry.start if isinstance(entry.start, int) else 0
    size = entry.size if isinstance(entry.size, int) else 1
    if start < 0 or size < 1 or entry.stride < 1 or start + (size - 1) * entry.stride >= dim_size:
        what = f"{entry.size} elements from {entry.start} by {entry.stride}"
        hint = f"start at 0 or later, and end at {dim_size} at most"
        raise ShapeError(f"{what} leave dimension {dim} of size {dim_size}", op="[…]", hint=hint)


__all__ = ["Bitcast", "Index", "RefIndexer", "RefView", "Reshape", "Slice", "Transform", "parse_index"]
