"""The buffers of a pipeline: the blocks of a ref in turn, in slots of one allocation, with a semaphore a slot."""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal, Self

from mosaic_tpu.builder import dtypes as dt
from mosaic_tpu.builder._compat import PIPELINE_BUFFERS_OUTPUTS
from mosaic_tpu.builder._value import Value
from mosaic_tpu.builder.dtypes import DType
from mosaic_tpu.builder.enums import MemorySpace
from mosaic_tpu.builder.errors import MosaicError, ShapeError, WindowError
from mosaic_tpu.builder.pallas import _staging
from mosaic_tpu.builder.pallas._staging import Staged, Staging
from mosaic_tpu.builder.pallas.dma import AsyncCopy
from mosaic_tpu.builder.specs import BoundedSlice, Window
from mosaic_tpu.builder.views import Index, RefView, Slice

if TYPE_CHECKING:
    from mosaic_tpu.builder.builder import Builder

_LANES: Final = 128
_SUBLANES: Final = 8
type Indices = tuple[Staged, ...]
type SlotName = Literal["copy_in", "wait_in", "copy_out", "wait_out"]


class BufferType(enum.Enum):
    """What a pipeline does with a ref."""

    INPUT = "input"
    OUTPUT = "output"
    INPUT_OUTPUT = "input_output"

    @property
    def is_input(self) -> bool:
        """Whether blocks are copied in."""
        return self is not BufferType.OUTPUT

    @property
    def is_output(self) -> bool:
        """Whether blocks are copied out."""
        return self is not BufferType.INPUT


@dataclass(frozen=True)
class Squeezed:
    """A dimension of size 1 that the body does not see."""


@dataclass(frozen=True)
class Element:
    """A dimension whose index counts elements."""

    size: int


type Dim = int | Squeezed | BoundedSlice | Element


@dataclass(frozen=True)
class Block:
    """A window as the pipeline reads it.

    Attributes:
        window: what it was read from.
        dims: one a dimension of the ref; ``None`` for the whole ref.
        index_map: of the grid's indices.
        space: where the buffers are.
    """

    window: Window
    dims: tuple[Dim, ...] | None
    index_map: Callable[..., Any] | None
    space: MemorySpace

    @property
    def shape(self) -> tuple[int, ...]:
        """What the body sees, at most."""
        return tuple(_size(d) for d in self.dims or () if not isinstance(d, Squeezed))


def _size(dim: Dim) -> int:
    match dim:
        case BoundedSlice(size) | Element(size):
            return size
        case Squeezed():
            return 1
        case _:
            return dim


def read_block(b: Builder, window: Window, rank: int) -> Block:
    """Check a window and read it."""
    op = "emit_pipeline"
    if not isinstance(window, Window):  # pyright: ignore[reportUnnecessaryIsInstance]
        b.fail(WindowError, f"{window!r} is not a window", op=op, hint="Window(block_shape, index_map)")
    space = b._member(MemorySpace, window.memory_space or MemorySpace.VMEM, op)
    if space not in (MemorySpace.VMEM, MemorySpace.SMEM, MemorySpace.HBM):
        b.fail(WindowError, f"blocks in {space.value}", op=op, hint="vmem, smem or hbm")
    if window.transform_returns is not None or window.revisit_mode is not None:
        b.fail(
            WindowError,
            "a pipeline's window has an index_map, and no revisit mode",
            op=op,
            hint="Window(block_shape, index_map, pipeline_mode=Buffered(n))",
        )
    if window.index_map is not None and not callable(window.index_map):
        b.fail(WindowError, f"the index map is {window.index_map!r}", op=op, hint="a function of the grid's indices")
    return Block(window, _dims(b, window, rank), window.index_map, space)


def _dims(b: Builder, window: Window, rank: int) -> tuple[Dim, ...] | None:
    op, shape = "emit_pipeline", window.block_shape
    if shape is None:
        return None
    b._sequence(shape, op)
    if len(shape) != rank:
        b.fail(WindowError, f"blocks of rank {len(shape)} of a ref of rank {rank}", op=op, hint="one entry a dimension")
    element = window.element_window
    if element is not None and (any(element.pad_low) or any(element.pad_high)):
        b.fail(WindowError, "a pipeline does not pad", op=op, hint="ElementWindow with paddings of 0")
    dims: list[Dim] = []
    for entry in shape:
        if entry is None:
            dims.append(Squeezed())
            continue
        size = b._int(entry.block_size if isinstance(entry, BoundedSlice) else entry, op, "size of a block")
        if size < 1:
            b.fail(WindowError, f"blocks of {tuple(shape)}", op=op, hint="sizes are positive")
        dims.append(BoundedSlice(size) if isinstance(entry, BoundedSlice) else Element(size) if element else size)
    return tuple(dims)


def entries_of(returned: Any) -> tuple[Any, ...]:
    """What an index map returned, as a tuple."""
    return tuple(returned) if isinstance(returned, tuple | list) else (returned,)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]


def infer_tiling(shape: Sequence[int], dtype: DType) -> tuple[int, ...]:
    """The tile that a DMA's size is rounded up to, of a TPU v4 or later: one entry a dimension."""
    packing = 8 if dtype.bits == 4 else 4 // max(1, dtype.bits // 8)
    if len(shape) == 1:
        return (packing * _LANES,)
    rows = packing
    while rows < min(shape[-2], _SUBLANES):
        rows *= 2
    return (*(1,) * (len(shape) - 2), rows, _LANES)


def part_of(view: RefView, entries: Sequence[Slice | Staged]) -> RefView:
    """``view.at[entries]``, which may leave the ref at its ragged end."""
    found = Index(tuple(entries))  # pyright: ignore[reportArgumentType]
    return RefView(view.ref, (*view.transforms, found), found.shape, view.dtype)


def _whole(shape: Sequence[int]) -> list[Slice]:
    return [Slice(0, size) for size in shape]


@dataclass(frozen=True)
class Buffers:
    """The buffers of one ref, and how many copies were started and awaited.

    Attributes:
        staging: where the schedule is computed.
        block: what a buffer holds.
        kind: input, output or both.
        in_count: slots that inputs are fetched into.
        out_count: slots that outputs are written back from.
        count: slots in all.
        trivial: whether the block is the whole ref, which is copied once.
        grid_rank: of the grid, with lookahead.
        window: the buffers; a part of the ref itself where nothing is copied.
        receive: semaphores of the copies in.
        send: of the copies out.
        next_fetch: indices of the last block that was fetched, with lookahead.
    """

    staging: Staging
    block: Block
    kind: BufferType
    in_count: int
    out_count: int
    count: int
    trivial: bool
    grid_rank: int | None = None
    window: RefView | None = None
    receive: RefView | None = None
    send: RefView | None = None
    copy_in: Staged | None = None
    wait_in: Staged | None = None
    copy_out: Staged | None = None
    wait_out: Staged | None = None
    next_fetch: Indices | None = None

    @property
    def is_buffered(self) -> bool:
        """Whether blocks are copied at all."""
        return self.count > 0

    @property
    def is_input(self) -> bool:
        """Whether blocks are copied in."""
        return self.kind.is_input

    @property
    def is_output(self) -> bool:
        """Whether blocks are copied out."""
        return self.kind.is_output

    # --- memory -------------------------------------------------------------------------------------------------------

    def allocate(self, ref: RefView) -> Self:
        """Allocate the slots and their semaphores, in the region that is open."""
        if not self.is_buffered:
            return self
        b, shape = self.staging.b, self.block.shape
        if self.trivial:
            shape = ref.shape
        elif len(shape) == 1:
            shape = (self.count * shape[0],)
        else:
            shape = (self.count, *shape)
        window = RefView(b.alloca(shape, ref.dtype, self.block.space))
        receive = send = None
        if not self.trivial:
            receive = RefView(b.sem_alloc("dma", (self.count,))) if self.is_input else None
            send = RefView(b.sem_alloc("dma", (self.count,))) if self.is_output else None
        return replace(self, window=window, receive=receive, send=send)

    def start(self) -> Self:
        """With every count at 0."""
        st = self.staging
        names = [
            *(("copy_in", "wait_in") if self.is_input else ()),
            *(("copy_out", "wait_out") if self.is_output else ()),
        ]
        first = None if self.grid_rank is None else tuple(st.literal(0, dt.i32) for _ in range(self.grid_rank))
        return replace(self, **{name: st.literal(0, dt.u32) for name in names}, next_fetch=first)

    def advance(self, name: SlotName, predicate: Staged) -> Self:
        """Count one more, where the predicate holds."""
        used = self.is_input if name.endswith("in") else self.is_output
        if not self.is_buffered or not used:
            return self
        count = getattr(self, name)
        if predicate is True or predicate is False:
            return replace(self, **{name: self.staging.add(count, 1)}) if predicate else self
        return replace(self, **{name: self.staging.select(predicate, self.staging.add(count, 1), count)})

    def slot(self, name: SlotName) -> Value:
        """The slot that a count has come to."""
        return self.staging.slot(getattr(self, name), self.count)

    def at_slot(self, slot: Value, part: Sequence[Slice] | None = None) -> RefView:
        """A slot of the buffers, or part of it."""
        window = self.window
        assert window is not None
        if self.trivial:
            return window
        if len(window.shape) > 1:
            return part_of(window, [slot, *(_whole(window.shape[1:]) if part is None else part)])
        size = math.prod(window.shape) // self.count
        st = self.staging
        start = st.mul(slot, size)
        if part is None:
            return part_of(window, [Slice(start, size)])  # pyright: ignore[reportArgumentType]
        return part_of(window, [Slice(st.add(start, part[0].start), part[0].size)])  # pyright: ignore[reportArgumentType]

    def current(self) -> RefView:
        """What the body gets."""
        assert self.window is not None
        if not self.is_buffered or self.trivial:
            return self.window
        return self.at_slot(self.slot("copy_out" if self.is_output else "wait_in"))

    def bind(self, ref: RefView, indices: Indices) -> Self:
        """The part of the ref itself that the body gets where nothing is copied."""
        if self.is_buffered:
            return self
        if self.trivial:
            return replace(self, window=ref)
        return replace(self, window=part_of(ref, self._slices_in_place(indices)))

    # --- the index map ------------------------------------------------------------------------------------------------

    def block_index(self, indices: Indices) -> tuple[Any, ...]:
        """What the index map returns: an int, a value or a slice a dimension."""
        b, op = self.staging.b, "emit_pipeline"
        index_map, dims = self.block.index_map, self.block.dims
        assert dims is not None
        if index_map is None:
            b.fail(
                WindowError, f"blocks of {self.block.shape} have no index map", op=op, hint="Window(block, index_map)"
            )
        given = [self.staging.value(i) if isinstance(i, _staging.Literal) else i for i in indices]
        try:
            returned: Any = self.staging.lazily(lambda: index_map(*given))
        except MosaicError:
            raise
        except Exception as error:
            b.fail(
                WindowError,
                f"the index map raised {type(error).__name__}: {error}",
                op=op,
                hint="it is called with the grid's indices, values or ints",
            )
        found = entries_of(returned)
        if len(found) != len(dims):
            b.fail(
                WindowError,
                f"the index map returned {len(found)} indices for rank {len(dims)}",
                op=op,
                hint="return one index a dimension",
            )
        return tuple(self._entry(e, d) for e, d in zip(found, dims, strict=True))

    def _entry(self, entry: object, dim: Dim) -> Slice | Value | int:
        b, op = self.staging.b, "emit_pipeline"
        if isinstance(dim, BoundedSlice):
            if not isinstance(entry, Slice):
                b.fail(
                    WindowError,
                    f"the index map returned {entry!r} for a BoundedSlice",
                    op=op,
                    hint="b.pallas.ds(start, size)",
                )
            return entry
        if isinstance(entry, Value):
            b._use(entry, op)
            if entry.is_shaped or entry._info.ir is not b.types.scalar(dt.i32).ir:
                b.fail(WindowError, f"the index map returned {entry!r}", op=op, hint="indices are ints or i32 scalars")
            return entry
        if isinstance(entry, bool | Slice) or not hasattr(entry, "__index__"):
            b.fail(WindowError, f"the index map returned {entry!r}", op=op, hint="indices are ints or i32 scalars")
        return b._int(entry, op, "index")  # pyright: ignore[reportArgumentType]

    def _slices_in_place(self, indices: Indices) -> list[Slice | Staged]:
        st, found = self.staging, list[Slice | Staged]()
        for dim, index in zip(self.block.dims or (), self.block_index(indices), strict=True):
            match dim:
                case Squeezed():
                    found.append(index)
                case Element(size):
                    found.append(Slice(index, size))
                case BoundedSlice(size):
                    found.append(Slice(index.start, size))
                case _:
                    found.append(Slice(st.mul(index, dim), dim))  # pyright: ignore[reportArgumentType]
        return found

    def slices(self, ref: RefView, indices: Indices) -> list[Slice | Staged]:
        """The part of the ref that is copied: the last block of a ragged ref is rounded up to whole tiles."""
        if not ref.shape:
            return []
        tiling = infer_tiling(ref.shape, ref.dtype)
        parts = zip(self.block.dims or (), self.block_index(indices), ref.shape, tiling, strict=True)
        return [self._copied(*part) for part in parts]

    def _copied(self, dim: Dim, index: Any, size: int, tile: int) -> Slice | Staged:
        match dim:
            case Squeezed():
                return index
            case Element(block):
                return self._bounded(index, block, block, size, tile)
            case BoundedSlice(block):
                return self._bounded(index.start, index.size, block, size, tile)
            case _:
                return self._blocked(index, dim, size, tile)

    def _check_tiles(self, block: int, tile: int) -> None:
        if block % tile:
            self.staging.b.fail(
                ShapeError,
                f"blocks of {block} in tiles of {tile}",
                op="emit_pipeline",
                hint="blocks that do not divide the ref are multiples of its tiles",
            )

    def _blocked(self, index: Staged, block: int, size: int, tile: int) -> Slice:
        st = self.staging
        start = st.mul(block, index)
        if size % block == 0:
            return Slice(start, block)  # pyright: ignore[reportArgumentType]
        self._check_tiles(block, tile)
        last = st.compare("eq", index, -(-size // block) - 1)
        copied = st.where(last, -(-(size % block) // tile) * tile, block)
        copied = st.b.assume_multiple(copied, tile)
        if not PIPELINE_BUFFERS_OUTPUTS:
            start = st.mul(index, block)
        return Slice(start, copied)  # pyright: ignore[reportArgumentType]

    def _bounded(self, start: Staged, wanted: Staged, block: int, size: int, tile: int) -> Slice:
        st = self.staging
        self._check_tiles(block, tile)
        outside = st.compare("gt", st.add(start, wanted), size)
        copied = st.where(outside, st.sub(size, start), wanted)
        copied = st.mul(st.b.pallas.cdiv(copied, tile), tile)
        assert isinstance(copied, Value)
        return Slice(start, st.b.assume_multiple(copied, tile))  # pyright: ignore[reportArgumentType]

    def in_window(self, slices: Sequence[Slice | Staged]) -> list[Slice]:
        """The part of a slot that such a part of the ref fills."""
        dims = self.block.dims or ()
        return [
            Slice(0, s.size)
            for s, d in zip(slices, dims, strict=True)
            if not isinstance(d, Squeezed) and isinstance(s, Slice)
        ]

    # --- copies -------------------------------------------------------------------------------------------------------

    def _copy(self, source: RefView, target: RefView, semaphore: RefView | None, slot: Value) -> AsyncCopy:
        assert semaphore is not None
        return AsyncCopy(self.staging.b, source, target, part_of(semaphore, [slot]))

    def start_in(self, ref: RefView, indices: Indices) -> None:
        """Start copying a block into the current slot."""
        if not self.is_buffered:
            return
        slot = self.slot("copy_in")
        slices = self.slices(ref, indices)
        copy = self._copy(part_of(ref, slices), self.at_slot(slot, self.in_window(slices)), self.receive, slot)
        copy.start()

    def await_in(self, ref: RefView, indices: Indices) -> None:
        """Wait for a block to be there."""
        if not self.is_buffered:
            return
        slices = self.slices(ref, indices)
        slot = self.slot("wait_in")
        self._copy(part_of(ref, slices), self.at_slot(slot, self.in_window(slices)), self.receive, slot).wait()

    def _copy_out(self, slot: Value, ref: RefView, indices: Indices) -> AsyncCopy:
        slices = self.slices(ref, indices)
        return self._copy(self.at_slot(slot, self.in_window(slices)), part_of(ref, slices), self.send, slot)

    def start_out(self, ref: RefView, indices: Indices) -> None:
        """Start copying the current slot out; a single slot is waited for."""
        if not self.is_buffered:
            return
        copy = self._copy_out(self.slot("copy_out"), ref, indices)
        if self.out_count == 1 and not PIPELINE_BUFFERS_OUTPUTS:
            copy_now(self.staging, copy.source, copy.target)
            return
        copy.start()
        if self.out_count == 1:
            copy.wait()

    def await_out(self, ref: RefView, indices: Indices) -> None:
        """Wait for a slot to be written back; a single one was."""
        if not self.is_buffered or (self.out_count == 1 and PIPELINE_BUFFERS_OUTPUTS):
            return
        copy = self._copy_out(self.slot("wait_out"), ref, indices)
        if self.out_count > 1:
            copy.wait()

    def copy_whole(self, ref: RefView, indices: Indices, *, inwards: bool) -> None:
        """Copy a block and wait for it."""
        window = self.current()
        if not self.trivial:
            slices = self.slices(ref, indices)
            ref, window = part_of(ref, slices), part_of(window, self.in_window(slices))
        copy_now(self.staging, *((ref, window) if inwards else (window, ref)))


def copy_now(staging: Staging, source: RefView, target: RefView) -> None:
    """`pltpu.sync_copy`: a copy with a semaphore of its own."""
    b = staging.b
    source, target = b.pallas._pinned(source), b.pallas._pinned(target)
    staging.sync()
    with b.region(), staging.block():
        copy = AsyncCopy(b, source, target, RefView(b.sem_alloc("dma")))
        copy.start()
        copy.wait()
