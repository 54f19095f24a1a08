"""Rules about how much memory a kernel takes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from mosaic_tpu.aot._lint._registry import Issue, rule
from mosaic_tpu.aot._lint._subject import Subject
from mosaic_tpu.aot._lint._tiling import rounded
from mosaic_tpu.aot._vmem import VmemBuffer, need_of
from mosaic_tpu.aot.targets import LANES, Generation
from mosaic_tpu.sim import ir

_MIB: Final = 1 << 20
_SEMAPHORES: Final = 512
_MORE_SEMAPHORES_FROM: Final = 7
#: Generations for which XLA puts arguments of the program into VMEM too.
_PLACES_ALL_FROM: Final = 7


@rule("vmem-limit", per_generation=True)
def vmem_limit(subject: Subject, generation: Generation) -> Iterator[Issue]:
    """Windows and scratch need more VMEM than the kernel may use.

    The limit is the call's, else the compiler's default, no more than the generation has; the need is that of
    `mosaic_tpu.aot._vmem`. It is a warning where XLA may put enough operands into VMEM in whole: arrays whose rows are
    no multiple of 128 elements, and operands that ops of the program make; on tpu7x all that fit beside the kernel.
    """
    need = need_of(subject)
    limit = need.limit(generation)
    if need.total <= limit:
        return
    certain = sum(b.bytes for b in need.buffers if not _may_be_placed(b, subject, generation, limit))
    largest = max(need.buffers, key=lambda b: b.bytes)
    given = "vmem_limit_bytes" if subject.vmem_limit_bytes else "the default limit"
    yield Issue(
        None,
        f"windows and scratch take {need.total / _MIB:.2f} MiB of VMEM, {given} is {limit / _MIB:.2f} MiB; "
        f"{largest.name} takes most: {largest.bytes / _MIB:.2f} MiB in {largest.buffers} "
        f"buffer{'s' if largest.buffers > 1 else ''}",
        "raise vmem_limit_bytes" if need.total <= generation.vmem_bytes else "take smaller blocks or less scratch",
        "error" if certain > limit else "warning",
    )


def _may_be_placed(buffer: VmemBuffer, subject: Subject, generation: Generation, limit: int) -> bool:
    """Whether XLA may put the array behind a window into VMEM, so that the kernel needs no window."""
    if buffer.role == "scratch":
        return False
    fits = buffer.array_bytes <= generation.vmem_bytes - limit
    return buffer.narrow or not subject.direct or (generation.number >= _PLACES_ALL_FROM and fits)


@rule("smem-limit", per_generation=True)
def smem_limit(subject: Subject, generation: Generation) -> Iterator[Issue]:
    """Scalar prefetch, windows and scratch in SMEM take more than there is.

    Arrays of one dimension take whole multiples of 128 words, others 128 words for each row.
    """
    sizes = {a.name: _smem_bytes(a.type) for a in subject.layout.arguments if a.type.space == "smem"}
    total = sum(sizes.values())
    if total > generation.smem_bytes:
        largest = max(sizes, key=lambda name: sizes[name])
        yield Issue(
            None,
            f"the operands in SMEM take {total} bytes of {generation.smem_bytes}; {largest} alone {sizes[largest]}",
            "prefetch fewer scalars, make the last dimension the long one, or copy from HBM what a step needs",
        )


@rule("semaphores", per_generation=True)
def semaphores(subject: Subject, generation: Generation) -> Iterator[Issue]:
    """More semaphores than there is memory for: 512 words before tpu7x, of which the compiler takes some."""
    shapes = [a.type.shape for a in subject.layout.role("scratch") if a.type.is_semaphore]
    count = sum(math.prod(shape) for shape in shapes)
    if count >= _SEMAPHORES and generation.number < _MORE_SEMAPHORES_FROM:
        yield Issue(None, f"{count} semaphores, of less than {_SEMAPHORES}", "share semaphores among copies")


def _smem_bytes(type_: ir.Type) -> int:
    if type_.is_semaphore or ir.DYNAMIC in type_.shape or not type_.shape:
        return 0
    *lead, last = type_.shape
    words = rounded(last, LANES * max(1, 32 // type_.bits)) * type_.bits // 32
    for size in lead:
        words *= size
    return words * 4
