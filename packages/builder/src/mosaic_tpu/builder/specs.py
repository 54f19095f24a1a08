"""What `declare_args` takes: scalars, iteration indices, refs with windows, semaphores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from mosaic_tpu.builder.dtypes import DType
from mosaic_tpu.builder.enums import (
    DimensionSemantics,
    MemorySpace,
    PipelineMode,
    RevisitMode,
    Role,
    SemaphoreKind,
)

if TYPE_CHECKING:
    from mosaic_tpu.builder._value import Value

type BlockIndex = Sequence[Value | int]
#: One alternative a rank of the grid, so that type checkers know what a lambda's parameters are; prefetch refs follow.
type IndexMap = (
    Callable[[Value], BlockIndex]
    | Callable[[Value, Value], BlockIndex]
    | Callable[[Value, Value, Value], BlockIndex]
    | Callable[[Value, Value, Value, Value], BlockIndex]
    | Callable[..., Sequence[Any]]
)


@dataclass(frozen=True)
class ProgramId:
    """One coordinate of a window's block index: the program id of a grid dimension."""

    axis: int


@dataclass(frozen=True)
class Zero:
    """One coordinate of a window's block index: the constant 0."""


def program_id(axis: int) -> ProgramId:
    """The Zig DSL's ``.{ .program_id = axis }`` for ``Window(transform_returns=…)``."""
    return ProgramId(axis)


zero: Final = Zero()


@dataclass(frozen=True)
class ElementWindow:
    """A window indexed by elements instead of blocks, with padding on each side of the array.

    Attributes:
        pad_low: rows added before the array, one entry for each dimension.
        pad_high: rows added after it.
    """

    pad_low: tuple[int, ...]
    pad_high: tuple[int, ...]


@dataclass(frozen=True)
class BoundedSlice:
    """A dimension of a block of which a part is copied: Pallas's ``pl.BoundedSlice``.

    Attributes:
        block_size: the most elements a slice may have. The index map returns ``b.pallas.ds(start, size)``.
    """

    block_size: int


@dataclass(frozen=True)
class Buffered:
    """How many buffers a block has: Pallas's ``pl.Buffered``.

    Attributes:
        buffer_count: 1 is synchronous, 2 the default; a pair is (in, out) of a ref that is read and written.
        use_lookahead: fetch the next block that differs as soon as a buffer is free; `emit_pipeline` only.
    """

    buffer_count: int | tuple[int, int]
    use_lookahead: bool = False


type BlockDim = int | BoundedSlice | None


@dataclass(frozen=True)
class Window:
    """How a ref's block moves over its array: Pallas's ``BlockSpec``.

    Attributes:
        block_shape: of one block; the ref's shape if omitted, and equal to it. ``None`` is a dimension of size 1 that
            the kernel does not see, `BoundedSlice` one whose size is known at run time.
        index_map: called with the program ids and, when it takes them, the scalar-prefetch refs; returns one int or
            i32 value a dimension, counted in blocks (in elements with ``element_window``).
        transform_returns: the Zig DSL's form of the same, `program_id` and `zero` entries.
        pipeline_mode: ``"synchronous"`` (``Buffered(1)``) or ``"double_buffered"``; the compiler decides if omitted.
            `emit_pipeline` takes any ``Buffered(n)``.
        revisit_mode: ``"immediate"`` or ``"any"``; only with a pipeline mode.
        element_window: element indexing with padding.
        memory_space: of the buffers of `emit_pipeline`, ``vmem`` if omitted; elsewhere the ref says it.

    Example:
        >>> Window((128, 512), index_map=lambda i, j: (i, 0)).block_shape
        (128, 512)
    """

    block_shape: tuple[BlockDim, ...] | None = None
    index_map: IndexMap | None = None
    transform_returns: tuple[ProgramId | Zero, ...] | None = None
    pipeline_mode: PipelineMode | Buffered | str | None = None
    revisit_mode: RevisitMode | str | None = None
    element_window: ElementWindow | None = None
    memory_space: MemorySpace | str | None = None


@dataclass(frozen=True)
class Scalar:
    """A plain scalar argument: a program id (i32), or a size."""

    dtype: DType


@dataclass(frozen=True)
class Iter:
    """An ``index`` argument, a loop or grid index, with optional ``tpu.dimension_semantics``."""

    semantics: DimensionSemantics | str | None = None


@dataclass(frozen=True)
class Ref:
    """A memory operand.

    Attributes:
        shape: what the kernel sees: one block of the array.
        dtype: element type. Booleans, ``i1``, are i32 in memory, as in Pallas: ``ref[…]`` converts, ops see i32.
        memory_space: ``vmem`` by default.
        role: input, output, scalar_prefetch or scratch.
        window: how the block moves over the array; ``None`` for a trivial window.
        array_shape: of the whole array; if omitted it follows from the grid and the index map, which supposes that
            the blocks divide it. Needed for ragged edges and for index maps that read prefetch refs.

    Example:
        >>> Ref((128, 512), bf16, window=Window(index_map=lambda i: (i, 0)))  # doctest: +ELLIPSIS
        Ref(shape=(128, 512), dtype=bf16, ...)
    """

    shape: tuple[int, ...]
    dtype: DType
    memory_space: MemorySpace | str = MemorySpace.VMEM
    role: Role | str = Role.INPUT
    window: Window | None = None
    array_shape: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Sem:
    """A single semaphore handle, ``!tpu.semaphore`` or ``!tpu.dma_semaphore``."""

    kind: SemaphoreKind | str = SemaphoreKind.REGULAR


@dataclass(frozen=True)
class SemArray:
    """An array of semaphores in semaphore memory, as scratch: for double buffering."""

    shape: tuple[int, ...]
    kind: SemaphoreKind | str = SemaphoreKind.DMA


type ArgSpec = Scalar | Iter | Ref | Sem | SemArray
