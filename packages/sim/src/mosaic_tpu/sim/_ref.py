"""Views of memory as generated code knows them: a base, and where in it each dimension starts and ends."""

from __future__ import annotations

from dataclasses import dataclass

from mosaic_tpu.sim._types import Type


@dataclass(frozen=True, slots=True)
class Dim:
    """One dimension of a view.

    Attributes:
        start: where it starts in the base.
        size: how long it is.
        squeezed: whether the memref has lost it.
        room: elements after it that a slice of a size known at run time may reach: the rest of the last tile.
    """

    start: str | int
    size: int | str
    squeezed: bool = False
    room: int = 0


@dataclass(frozen=True, slots=True)
class Ref:
    """What generated code knows of a memref.

    Attributes:
        base: the expression of the array that subscripts apply to.
        buffer: the expression of its `Buffer`, ``"None"`` for semaphores.
        root: identifies the argument or allocation it comes from.
        dims: of the base.
        type: of the memref's elements.
        packed: ``(from bits, to bits)`` where the memref has another element width than the base.
    """

    base: str
    buffer: str
    root: object
    dims: tuple[Dim, ...]
    type: Type
    packed: tuple[Type, Type] | None = None

    def subscript(self) -> str:
        """The text in brackets that makes the view of the base."""
        return ", ".join(_dim(d) for d in self.dims) or "()"

    @property
    def static(self) -> bool:
        """Whether the view is known before the run."""
        return all(isinstance(d.start, int) and isinstance(d.size, int) for d in self.dims)


def end_of(d: Dim) -> int:
    assert isinstance(d.start, int)
    assert isinstance(d.size, int)
    return d.start + d.size


def _dim(d: Dim) -> str:
    if d.squeezed:
        return str(d.start)
    if isinstance(d.start, int) and isinstance(d.size, int):
        return f"{d.start}:{d.start + d.size}"
    return f"{d.start}:{d.start}+{d.size}"


def sizes_of(ref: Ref) -> tuple[int | str, ...]:
    return tuple(d.size for d in ref.dims)
