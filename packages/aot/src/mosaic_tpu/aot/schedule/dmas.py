"""The copies of a schedule: from where, to where, how much, and in which loop."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from mosaic_tpu.aot.schedule.blocks import Block
    from mosaic_tpu.aot.schedule.bundles import Bundle, Instruction

_SPACES: Final = re.compile(r"(\w+?)[_-]to[_-](\w+)")
_SIZE: Final = re.compile(r"\bsize_in_granules=(\S+?),?(?:\s|$)")
_POINTER: Final = re.compile(r"\w+\.(hbm|vmem|smem|cmem)")
_PLACED: Final = "inlined_call_operand.vmem"
_INDEX: Final = re.compile(r"\bindex: (\d+)")
_LOCAL_WAIT: Final = "dma.done.wait"
_PIPELINE: Final = "pipeline-emitter"
_SYNCS: Final = re.compile(r"\bsrc_syncflagno=")


@dataclass(frozen=True)
class Window:
    """What the pipeline copies in a step: a window of an operand, in elements of a tile or a part of one.

    Attributes:
        operand: elements of the whole operand, by dimension.
        window: elements of the window.
        grid: points along each axis of the grid; of one TensorCore, where two share it.
        element_bytes: bytes of an element.
    """

    operand: tuple[int, ...]
    window: tuple[int, ...]
    grid: tuple[int, ...]
    element_bytes: int


@dataclass(frozen=True)
class DMA:
    """A copy that the kernel starts.

    Attributes:
        address: of the bundle that starts it.
        opcode: ``"dma.hbm_to_vmem"``; the spaces of a ``"dma.general"`` are those of the pointers it is given.
        source: memory space it reads: ``"hbm"``, ``"vmem"``, ``"smem"`` …; ``"?"`` if the dump does not say.
        destination: memory space it writes, likewise.
        bytes: that it moves; None if that takes data to know.
        predicate: what must hold for it to start; empty if it always does.
        general: whether it is of the general form, which copies between chips and between cores take.
        window: of the pipeline, if it is one of its copies.
        loops: addresses of the loops it lies in, outermost first.
        runs: how often it is reached in a call of the kernel, if that is known; a predicate may still hold it back.
    """

    address: int
    opcode: str
    source: str
    destination: str
    bytes: int | None
    predicate: str
    general: bool
    window: Window | None
    loops: tuple[int, ...] = ()
    runs: int | None = None


def read_windows(bundles: Sequence[Bundle]) -> dict[int, Window]:
    """The windows of the pipeline's copies, by address."""
    found = ((address, _window(instruction)) for address, instruction in _copies(bundles))
    return {address: window for address, window in found if window}


def read_placed(bundles: Sequence[Bundle]) -> tuple[int, ...]:
    """Operands that are in VMEM when the kernel begins."""
    entry = (i for bundle in bundles for i in bundle.instructions if i.opcode == _PLACED)
    return tuple(sorted(int(found[1]) for i in entry if (found := _INDEX.search(i.operands))))


def read_dmas(bundles: Sequence[Bundle], kernel: Block, granule_bytes: int) -> tuple[DMA, ...]:
    """The copies that a kernel starts, by address.

    Args:
        bundles: of the kernel.
        kernel: the tree of its blocks.
        granule_bytes: unit of a copy's size.
    """
    pointers = _pointers(bundles)
    return tuple(_dma(address, copy, kernel, granule_bytes, pointers) for address, copy in _copies(bundles))


def _pointers(bundles: Sequence[Bundle]) -> dict[str, str]:
    """The memory space that a register points into, where the opcode that wrote it says so."""
    writes = (instruction for bundle in bundles for instruction in bundle.instructions)
    return {i.result: found[1] for i in writes if (found := _POINTER.fullmatch(i.opcode))}


def count_waits(bundles: Sequence[Bundle]) -> dict[int, int]:
    """Waits for a copy in each bundle, by address; bundles without one are left out."""
    counts = {bundle.address: sum(i.opcode == _LOCAL_WAIT for i in bundle.instructions) for bundle in bundles}
    return {address: count for address, count in counts.items() if count}


def read_own_waits(bundles: Sequence[Bundle]) -> tuple[int, ...]:
    """Addresses of the waits for a copy that are the kernel's own, not the pipeline's."""
    waits = ((b.address, i) for b in bundles for i in b.instructions if i.opcode == _LOCAL_WAIT)
    return tuple(address for address, wait in waits if _PIPELINE not in " ".join(wait.comments))


def _copies(bundles: Sequence[Bundle]) -> Iterator[tuple[int, Instruction]]:
    for bundle in bundles:
        for instruction in bundle.instructions:
            if instruction.opcode.startswith("dma.") and instruction.opcode != _LOCAL_WAIT:
                yield bundle.address, instruction


def _dma(address: int, copy: Instruction, kernel: Block, granule_bytes: int, pointers: Mapping[str, str]) -> DMA:
    source, destination = _spaces(copy, pointers)
    size = _SIZE.search(copy.operands)
    path = kernel.path(address)
    return DMA(
        address=address,
        opcode=copy.opcode,
        source=source,
        destination=destination,
        bytes=int(size[1]) * granule_bytes if size and size[1].isdecimal() else None,
        predicate=copy.predicate,
        general=bool(_SYNCS.search(copy.operands)),
        window=_window(copy),
        loops=tuple(block.start for block in path if block.kind == "loop"),
        runs=path[-1].runs,
    )


def _spaces(copy: Instruction, pointers: Mapping[str, str]) -> tuple[str, str]:
    named = _SPACES.search(copy.opcode.removeprefix("dma.")) or _SPACES.search(" ".join(copy.comments))
    if named:
        return named[1], named[2]
    ends = (re.search(rf"\b{end}=(%\w+)", copy.operands) for end in ("src", "dst"))
    source, destination = (pointers.get(found[1], "?") if found else "?" for found in ends)
    return source, destination


def _window(copy: Instruction) -> Window | None:
    remarks = "\n".join(copy.comments)
    bounds = {name: _tuple(remarks, name) for name in ("base_bounds", "window_bounds", "iteration_bounds")}
    size = re.search(r"^element_size_in_bytes: (\d+)", remarks, re.MULTILINE)
    if not size or not all(bounds.values()):
        return None
    return Window(bounds["base_bounds"], bounds["window_bounds"], bounds["iteration_bounds"], int(size[1]))


def _tuple(remarks: str, name: str) -> tuple[int, ...]:
    found = re.search(rf"^{name}: \(([\d, ]+)\)", remarks, re.MULTILINE)
    return tuple(int(word) for word in found[1].split(",") if word.strip()) if found else ()
