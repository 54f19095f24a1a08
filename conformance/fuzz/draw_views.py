"""Draws views of buffers, and indices of loads, stores and copies: always in range."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from conformance.fuzz.program import (
    SCALAR_MAX,
    Bitcast,
    Buffer,
    Dim,
    Reshape,
    Scalar,
    Shape,
    Slice,
    Start,
    Type,
    View,
)
from conformance.fuzz.tape import Tape

#: Element types that memory is seen as, by its own.
PARTNERS: Final = {
    "f32": ("i32", "bf16"),
    "i32": ("f32", "bf16", "i16", "i8"),
    "bf16": ("i32", "i16"),
    "i16": ("i32", "bf16"),
    "i8": ("i32",),
}


@dataclass
class Views:
    """What views are drawn with.

    Attributes:
        tape: what choices are read from.
        scalars: those in scope.
    """

    tape: Tape
    scalars: list[Scalar]

    # --- indices -----------------------------------------------------------------------------------------------------

    def start(self, room: int, align: int = 1) -> Start:
        """Where a part starts that may move by ``room``."""
        if room >= SCALAR_MAX * align and self.scalars and self.tape.boolean():
            scalar = self.tape.pick(self.scalars)
            times = align * self.tape.integer(1, room // (SCALAR_MAX * align))
            return Start(align * self.tape.integer(0, (room - SCALAR_MAX * times) // align), times, scalar)
        return Start(align * self.tape.integer(0, room // align))

    def part(self, size: int, align: int, *, drop: bool = False) -> Dim:
        """Part of a dimension."""
        if drop:
            return Dim(self.start(size - 1), 1, drop=True)
        sizes = [n for n in (size, size // 2, size // 4, 3 * align, align) if 0 < n <= size and n % align == 0]
        chosen = self.tape.pick(sizes)
        return Dim(self.start(size - chosen, align), chosen)

    def index(self, shape: Shape, *, strides: bool) -> Slice:
        """The index of a load or of a copy's view."""
        dims = [Dim(Start(0), n) for n in shape]
        if len(shape) == 3 and self.tape.boolean():
            dims[0] = self.part(shape[0], 1, drop=True)
        if len(shape) >= 2 and self.tape.boolean():
            rows = shape[-2]
            if strides and rows >= 4 and self.tape.chance():
                dims[-2] = self.strided(rows)
            else:
                dims[-2] = self.part(rows, 1, drop=self.tape.chance())
        if self.tape.chance() and shape[-1] % 64 == 0 and shape[-1] > 64:
            dims[-1] = self.part(shape[-1], 64)
        return Slice(tuple(dims))

    def strided(self, rows: int, size: int | None = None) -> Dim:
        """Every second or third row."""
        stride = self.tape.integer(2, 3) if size is None else 2
        most = (rows - 1) // stride + 1
        chosen = self.tape.integer(1, most) if size is None else size
        return Dim(self.start(rows - 1 - (chosen - 1) * stride), chosen, stride)

    # --- views -------------------------------------------------------------------------------------------------------

    def view(self, buffer: Buffer, *, strides: bool = True, widths: bool = True) -> View:
        """A view of a buffer, with its last index; without ``widths`` no bitcast changes the size of elements."""
        found = View(buffer.name, (), buffer.type)
        for _ in range(self.tape.pick((0, 0, 1, 2))):
            found = self._transformed(found, widths)
        index = self.index(found.type.shape, strides=strides and found.type.bits == 32)
        return extended(found, index)

    def _transformed(self, view: View, widths: bool) -> View:
        """One transform more, which may be followed by any."""
        shape = view.type.shape
        kinds = ["slice", *(f"as {d}" for d in _partners(view.type, widths))]
        kinds += ["reshape"] if _reshapes(view) else []
        kind = self.tape.pick(kinds) if len(shape) >= 2 else "none"
        if kind == "slice":
            dims = [Dim(Start(0), n) for n in shape]
            if len(shape) == 3:
                dims[0] = self.part(shape[0], 1, drop=self.tape.boolean())
            if len(shape) == 2 or self.tape.boolean():
                dims[-2] = self.part(shape[-2], 32 // view.type.bits)
            return extended(view, Slice(tuple(dims)))
        if kind == "reshape":
            return extended(view, Reshape(self.tape.pick(_reshapes(view))))
        if kind == "none":
            return view
        return seen_as(view, kind.removeprefix("as "))

    def fitted(self, buffer: Buffer, wanted: Type, *, strides: bool = True, widths: bool = True) -> View | None:
        """A view of a buffer of a certain type, if there is one."""
        view = View(buffer.name, (), buffer.type)
        if buffer.type.dtype != wanted.dtype:
            if wanted.dtype not in _partners(buffer.type, widths):
                return None
            view = seen_as(view, wanted.dtype)
        shape = view.type.shape
        if not _fits(wanted.shape, shape):
            return None
        if self.tape.chance() and len(shape) == 2 and len(wanted.shape) == 2:
            view = self._narrowed(view, wanted.shape[0])
            shape = view.type.shape
        dropped = len(shape) - len(wanted.shape)
        sizes = (1,) * dropped + wanted.shape
        dims = [Dim(self.start(n - m), m, drop=d < dropped) for d, (n, m) in enumerate(zip(shape, sizes, strict=True))]
        row = len(shape) - 2
        if strides and row >= dropped and wanted.bits == 32 and 2 * sizes[row] - 1 <= shape[row] and sizes[row] > 1:
            dims[row] = self.strided(shape[row], sizes[row]) if self.tape.boolean() else dims[row]
        return extended(view, Slice(tuple(dims)))

    def _narrowed(self, view: View, rows: int) -> View:
        """Some rows of a view, at least so many."""
        total, align = view.type.shape[0], 32 // view.type.bits
        size = align * self.tape.integer(-(-rows // align), total // align)
        return extended(view, Slice((Dim(self.start(total - size, align), size), Dim(Start(0), view.type.shape[1]))))


def extended(view: View, transform: Slice | Reshape | Bitcast) -> View:
    """A view with one more transform."""
    dtype = transform.dtype if isinstance(transform, Bitcast) else view.type.dtype
    return View(view.buffer, (*view.transforms, transform), Type(transform.shape, dtype))


def seen_as(view: View, dtype: str) -> View:
    """A view as other elements."""
    *outer, rows, columns = view.type.shape
    shape = (*outer, rows * view.type.bits // Type((), dtype).bits, columns)
    return extended(view, Bitcast(dtype, shape))


def whole(buffer: Buffer) -> View:
    """All of a buffer."""
    return View(buffer.name, (Slice(tuple(Dim(Start(0), n) for n in buffer.type.shape)),), buffer.type)


def _partners(type_: Type, widths: bool) -> list[str]:
    """What the memory can be seen as."""
    return [
        dtype
        for dtype in PARTNERS.get(type_.dtype, ())
        if type_.bits == (bits := Type((), dtype).bits)
        or (widths and len(type_.shape) >= 2 and type_.shape[-2] * type_.bits % bits == 0)
    ]


def _fits(shape: Sequence[int], room: Sequence[int]) -> bool:
    if not 0 < len(shape) <= len(room):
        return False
    return all(a <= b for a, b in zip(shape, room[len(room) - len(shape) :], strict=True))


def _reshapes(view: View) -> list[Shape]:
    """Other shapes of all of a buffer: rows split or joined at a whole tile."""
    if any(isinstance(t, Slice) for t in view.transforms):
        return []
    shape, tile = view.type.shape, 256 // view.type.bits
    if len(shape) == 3:
        return [(shape[0] * shape[1], shape[2])] if shape[1] % tile == 0 else []
    if len(shape) == 2 and shape[0] % (2 * tile) == 0:
        return [(2, shape[0] // 2, shape[1])]
    return []
