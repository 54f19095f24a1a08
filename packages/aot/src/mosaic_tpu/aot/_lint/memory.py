"""Rules about how much memory a kernel takes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from mosaic_tpu.aot._lint._registry import Issue, rule
from mosaic_tpu.aot._lint._subject import Subject
from mosaic_tpu.aot._lint._tiling import rounded
from mosaic_tpu.aot._text import size
from mosaic_tpu.aot._vmem import VmemBuffer, need_of, needed_at_once
from mosaic_tpu.aot.targets import LANES, Generation
from mosaic_tpu.sim import ir

#: Share of the limit from which what is not counted may exceed it.
_NEARLY: Final = 0.9


@rule("vmem-limit", per_generation=True)
def vmem_limit(subject: Subject, generation: Generation) -> Iterator[Issue]:
    """Windows and scratch need more VMEM than the kernel may use.

    The limit is the call's, else the compiler's default, no more than the generation has; the need is that of
    `mosaic_tpu.aot._vmem`. It is a warning where XLA may put enough operands into VMEM in whole: arrays whose rows are
    no multiple of 128 elements, and operands that ops of the program make; on tpu7x all that fit beside the kernel. So
    it is where a kernel of one step uses its buffers one after the other.
    """
    need = need_of(subject)
    limit = need.limit(generation)
    if need.total <= _NEARLY * limit:
        return
    if need.total <= limit:
        yield Issue(
            None,
            f"windows and scratch take {size(need.total)} of VMEM, of {size(limit)}: spilled registers and large "
            "intermediate values come on top",
            _raised(generation) if limit < generation.vmem_bytes else "take smaller blocks",
            "warning",
        )
        return
    windows = [b for b in need.buffers if not _may_be_placed(b, subject, generation, limit)]
    certain = needed_at_once(subject, windows)
    largest = max(need.buffers, key=lambda b: b.bytes)
    given = "vmem_limit_bytes" if subject.vmem_limit_bytes else "the default limit"
    yield Issue(
        None,
        f"windows and scratch take {size(need.total)} of VMEM, {given} is {size(limit)}; "
        f"{largest.name} takes most: {size(largest.bytes)} in {largest.buffers} "
        f"buffer{'s' if largest.buffers > 1 else ''}",
        _raised(generation)
        if need.total <= generation.vmem_bytes
        else f"take smaller blocks or less scratch: {generation.name} has {size(generation.vmem_bytes)}",
        "error" if certain > limit else "warning",
    )


def _raised(generation: Generation) -> str:
    """All that there is: what the compiler adds to windows and scratch is not known without it."""
    return (
        f"set vmem_limit_bytes to {generation.vmem_bytes}, all that {generation.name} has: what the compiler adds is "
        "known to it alone; compile() says how much less is enough"
    )


def _may_be_placed(buffer: VmemBuffer, subject: Subject, generation: Generation, limit: int) -> bool:
    """Whether XLA may put the array behind a window into VMEM, so that the kernel needs no window."""
    if buffer.role == "scratch":
        return False
    fits = buffer.array_bytes <= generation.vmem_bytes - limit
    return buffer.narrow or not subject.direct or (generation.places_arguments_in_vmem and fits)


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
    if generation.semaphores is not None and count >= generation.semaphores:
        why = f"{count} semaphores, of less than {generation.semaphores}"
        yield Issue(None, why, "share semaphores among copies")


def _smem_bytes(type_: ir.Type) -> int:
    if type_.is_semaphore or ir.DYNAMIC in type_.shape or not type_.shape:
        return 0
    *lead, last = type_.shape
    words = rounded(last, LANES * max(1, 32 // type_.bits)) * type_.bits // 32
    return words * math.prod(lead) * 4
