"""Memory as functional arrays: roots, and views as chains of steps over a root."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mosaic_tpu.sim._types import DYNAMIC, bits_of
from mosaic_tpu.sim.errors import UnsupportedOpError
from mosaic_tpu.sim.xla._elements import Array, is_static, reinterpret
from mosaic_tpu.sim.xla._untyped import lax

#: A position: a Python int while translating, or a traced i32.
Index = Any


@dataclass(frozen=True, eq=False, slots=True)
class Root:
    """A piece of memory; the translation's state says what it holds.

    Attributes:
        name: for people.
        shape: its sizes.
        element: MLIR's name of its element type.
    """

    name: str
    shape: tuple[int, ...]
    element: str


@dataclass(frozen=True, slots=True)
class Window:
    """A box of the memory; dimensions that are not ``kept`` have size 1 and are dropped."""

    starts: tuple[Index, ...]
    sizes: tuple[int, ...]
    kept: tuple[bool, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes that are kept."""
        return tuple(s for s, k in zip(self.sizes, self.kept, strict=True) if k)


@dataclass(frozen=True, slots=True)
class Reshape:
    """The same elements in another shape."""

    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Bitcast:
    """The same bits as other elements."""

    source: str
    target: str


Step = Window | Reshape | Bitcast


@dataclass(frozen=True, eq=False, slots=True)
class View:
    """A memref: steps from a root to what it shows.

    Attributes:
        root: the memory.
        steps: from the root on.
        shape: the view's sizes.
        element: the view's element type.
        outside: conditions under which a slice on the way left its memref: ``True`` or traced bools.
    """

    root: Root
    steps: tuple[Step, ...]
    shape: tuple[int, ...]
    element: str
    outside: tuple[Any, ...] = ()

    @classmethod
    def whole(cls, root: Root) -> View:
        """All of a root."""
        return cls(root, (), root.shape, root.element)

    def slice(self, starts: Sequence[Index], sizes: Sequence[int]) -> View:
        """A box of this view."""
        if DYNAMIC in sizes:
            raise UnsupportedOpError("a slice has a size known at run time only", hint='run it with engine="numpy"')
        steps = _append(self.steps, tuple(starts), tuple(sizes), self.shape)
        return replace(self, steps=steps, shape=tuple(sizes))

    def also_outside(self, conditions: tuple[Any, ...]) -> View:
        """The same view, outside its memref under further conditions."""
        return replace(self, outside=(*self.outside, *conditions)) if conditions else self

    def squeeze(self, shape: tuple[int, ...]) -> View:
        """Without some dimensions of size 1."""
        if self.steps and isinstance(last := self.steps[-1], Window):
            kept = _squeezed(last, shape)
            if kept is not None:
                return replace(self, steps=(*self.steps[:-1], replace(last, kept=kept)), shape=shape)
        return self.reshape(shape)

    def reshape(self, shape: tuple[int, ...]) -> View:
        """In another shape."""
        return self if shape == self.shape else replace(self, steps=(*self.steps, Reshape(shape)), shape=shape)

    def bitcast(self, element: str, shape: tuple[int, ...]) -> View:
        """As other elements."""
        if element == self.element:
            return self
        return replace(self, steps=(*self.steps, Bitcast(self.element, element)), element=element, shape=shape)


def plus(a: Index, b: Index) -> Index:
    """Sum of static and traced positions."""
    if isinstance(a, int) and isinstance(b, int):
        return a + b
    if isinstance(a, int) and a == 0:
        return b
    if isinstance(b, int) and b == 0:
        return a
    return lax.add(as_index(a), as_index(b))


def as_index(value: Index) -> Array:
    """A position as an i32 scalar."""
    return np.int32(value) if is_static(value) else value


def _append(
    steps: tuple[Step, ...], starts: tuple[Index, ...], sizes: tuple[int, ...], shape: tuple[int, ...]
) -> tuple[Step, ...]:
    """Add a box to a chain: merged with a box before it, and moved before a change of element type."""
    if all(isinstance(s, int) and s == 0 for s in starts) and sizes == shape:
        return steps
    last = steps[-1] if steps else None
    if isinstance(last, Window):
        places = iter(zip(starts, sizes, strict=True))
        merged = [
            (plus(start, place[0]), place[1]) if kept and (place := next(places)) else (start, size)
            for start, size, kept in zip(last.starts, last.sizes, last.kept, strict=True)
        ]
        return (*steps[:-1], Window(tuple(m[0] for m in merged), tuple(m[1] for m in merged), last.kept))
    if isinstance(last, Bitcast) and (moved := _before_bitcast(last, starts, sizes, shape)) is not None:
        return (*_append(steps[:-1], *moved), last)
    return (*steps, Window(starts, sizes, (True,) * len(sizes)))


def _before_bitcast(
    step: Bitcast, starts: tuple[Index, ...], sizes: tuple[int, ...], shape: tuple[int, ...]
) -> tuple[tuple[Index, ...], tuple[int, ...], tuple[int, ...]] | None:
    """The same box in the elements before a change of type, and their shape; ``None`` if it cuts through one."""
    old, new = bits_of(step.source), bits_of(step.target)
    if old == new:
        return starts, sizes, shape
    start, size, rows = starts[-2], sizes[-2], shape[-2]
    if new > old:
        factor = new // old
        start = start * factor if isinstance(start, int) else lax.mul(start, np.int32(factor))
        size, rows = size * factor, rows * factor
    else:
        factor = old // new
        if not isinstance(start, int) or start % factor or size % factor:
            return None
        start, size, rows = start // factor, size // factor, rows // factor
    return (
        (*starts[:-2], start, starts[-1]),
        (*sizes[:-2], size, sizes[-1]),
        (*shape[:-2], rows, shape[-1]),
    )


def _squeezed(window: Window, shape: tuple[int, ...]) -> tuple[bool, ...] | None:
    """Which dimensions stay so that those kept have ``shape``."""
    kept: list[bool] = []
    rest = list(shape)
    for size, was in zip(window.sizes, window.kept, strict=True):
        stays = was and bool(rest) and rest[0] == size
        if was and not stays and size != 1:
            return None
        if stays:
            rest.pop(0)
        kept.append(stays)
    return None if rest else tuple(kept)


def read(array: Array, steps: tuple[Step, ...]) -> Array:
    """What a view shows of its root's content."""
    for step in steps:
        if isinstance(step, Window):
            array = _cut(array, step)
            array = array if all(step.kept) else lax.reshape(array, step.shape)
        elif isinstance(step, Reshape):
            array = lax.reshape(array, step.shape)
        else:
            array = reinterpret(array, step.source, step.target)
    return array


def write(array: Array, steps: tuple[Step, ...], value: Array) -> Array:
    """The root's content after a store of ``value`` through a view."""
    if not steps:
        return value
    step, rest = steps[0], steps[1:]
    if isinstance(step, Window):
        part = write(read(array, (step,)), rest, value) if rest else value
        return _paste(array, step, lax.reshape(part, step.sizes))
    if isinstance(step, Reshape):
        return lax.reshape(write(lax.reshape(array, step.shape), rest, value), array.shape)
    seen = write(reinterpret(array, step.source, step.target), rest, value)
    return reinterpret(seen, step.target, step.source)


def _cut(array: Array, window: Window) -> Array:
    if window.sizes == array.shape:
        return array
    if all(isinstance(s, int) for s in window.starts):
        starts = _clamped(array, window)
        return lax.slice(array, starts, [a + b for a, b in zip(starts, window.sizes, strict=True)])
    return lax.dynamic_slice(array, _starts(array, window), window.sizes, allow_negative_indices=False)


def _paste(array: Array, window: Window, part: Array) -> Array:
    if window.sizes == array.shape:
        return part
    return lax.dynamic_update_slice(array, part, _starts(array, window), allow_negative_indices=False)


def _starts(array: Array, window: Window) -> list[Array]:
    """Where the box starts; XLA moves what is outside back inside, as is done here with what is known."""
    return [as_index(s) for s in _clamped(array, window)]


def _clamped(array: Array, window: Window) -> list[Any]:
    limits = [n - m for n, m in zip(array.shape, window.sizes, strict=True)]
    return [max(0, min(s, last)) if isinstance(s, int) else s for s, last in zip(window.starts, limits, strict=True)]


def filled(shape: tuple[int, ...], value: Any) -> Array:
    """An array of one value."""
    return lax.full(shape, np.asarray(value))
