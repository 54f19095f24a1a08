"""How much VMEM a kernel needs, by its windows and scratch, without the compiler.

A window's buffer is its block with the last two dimensions rounded up to the tiling, times the number of buffers; a
scratch operand is its array, rounded up likewise. There is one buffer where the block never changes, or is
synchronous, or the grid has one step, and two otherwise.

Each of these allocations is the compiler's to the byte: for the zoo's presets and for a sweep over shapes, types and
index maps on v5e, v6e and tpu7x (conformance/test_lint_vmem.py prints both). Two things are not in the total: spilled
registers and large intermediate values, which the compiler adds (an 8 MiB matmul of one block spills 1.8 MiB on v5e),
so the kernel takes no less than the total; and operands that XLA itself puts into VMEM, in whole, because an op before
the kernel makes them there: these need no window. On tpu7x XLA does that with arguments of the program too, where they
fit beside the kernel. Only a kernel of one step may take less, where its buffers are used one after the other, since
the compiler then lays them over each other: `needed_at_once`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from mosaic_tpu.aot._checks import check_limit
from mosaic_tpu.aot._lint._tiling import padded_bytes, rounded
from mosaic_tpu.aot._text import size
from mosaic_tpu.aot.targets import LANES, TARGETS, Generation, Target, find_target
from mosaic_tpu.sim import ir

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mosaic_tpu.aot._lint._subject import Subject

SCHEMA: Final = 1
#: A window's buffers take whole multiples of this.
_GRANULE: Final = 1024


@dataclass(frozen=True)
class VmemBuffer:
    """What one argument takes.

    Attributes:
        name: of the argument.
        role: ``"input"``, ``"output"`` or ``"scratch"``.
        shape: of the block or the scratch array.
        element: MLIR's name of the element type.
        buffer_bytes: of one buffer, in VMEM.
        buffers: 1 or 2.
        array_bytes: of the whole array in VMEM; of the block, where the call is not known.
        narrow: whether rows of the array are no multiple of 128 elements, so that XLA may copy it, and into VMEM.
    """

    name: str
    role: str
    shape: tuple[int, ...]
    element: str
    buffer_bytes: int
    buffers: int
    array_bytes: int
    narrow: bool = False

    @property
    def bytes(self) -> int:
        """Of all its buffers."""
        total = self.buffer_bytes * self.buffers
        return total if self.role == "scratch" else rounded(total, _GRANULE)


@dataclass(frozen=True)
class VmemNeed:
    """The VMEM of a kernel.

    Attributes:
        kernel: its name.
        buffers: of each argument in VMEM, in order.
        limit_bytes: what the call or the caller says; ``None`` for the compiler's default.
    """

    kernel: str
    buffers: tuple[VmemBuffer, ...]
    limit_bytes: int | None = None

    @property
    def total(self) -> int:
        """Bytes of all buffers."""
        return sum(b.bytes for b in self.buffers)

    def limit(self, target: Generation | Target | str) -> int:
        """Bytes that the kernel may use on a generation: no more than there are.

        Raises:
            TargetError: there is no such generation.
        """
        generation = target if isinstance(target, Generation) else find_target(target).generation
        return min(self.limit_bytes or generation.default_vmem_limit, generation.vmem_bytes)

    def fits(self, target: Generation | Target | str) -> bool:
        """Whether the total is within the limit; the compiler may need more than the total.

        Raises:
            TargetError: there is no such generation.
        """
        return self.total <= self.limit(target)

    def __str__(self) -> str:
        rows = [
            (b.name, b.role, f"{_shape(b)}", f"{b.buffers} × {size(b.buffer_bytes)}", size(b.bytes))
            for b in self.buffers
        ]
        rows.append(("total", "", "", "", size(self.total)))
        widths = [max(len(row[n]) for row in rows) for n in range(5)]
        lines = ["  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows]
        limits = ", ".join(
            f"{name} {size(self.limit(name))}{'' if self.fits(name) else ' (exceeded)'}" for name in TARGETS
        )
        return "\n".join([f"VMEM of {self.kernel}", *(f"  {line}" for line in lines), f"  limits: {limits}"])

    def to_json(self) -> dict[str, Any]:
        """All of it as plain data, for `json.dumps`. ``"schema"`` is 1."""
        return {
            "schema": SCHEMA,
            "kernel": self.kernel,
            "total": self.total,
            "limits": {name: self.limit(name) for name in TARGETS},
            "buffers": [
                {
                    "name": b.name,
                    "role": b.role,
                    "shape": list(b.shape),
                    "element": b.element,
                    "buffer_bytes": b.buffer_bytes,
                    "buffers": b.buffers,
                    "bytes": b.bytes,
                }
                for b in self.buffers
            ],
        }


def vmem_need(source: Any, *, vmem_limit_bytes: int | None = None) -> VmemNeed:
    """The VMEM that the kernel of a source needs.

    Args:
        source: what `mosaic_tpu.aot.lint` takes, with one kernel in it.
        vmem_limit_bytes: VMEM that the kernel may use; what the call says, else the compiler's default, if omitted.

    Raises:
        SourceError: there is no kernel in the source, there are several, or its windows do not match.

    Example:
        >>> text = '''
        ... func.func @kernel(%x: memref<8x100xf32, #tpu.memory_space<vmem>>) {
        ...   return
        ... }'''
        >>> vmem_need(text).total
        4096
    """
    from mosaic_tpu.aot._lint._subject import Unreadable, subjects_of
    from mosaic_tpu.aot.errors import SourceError

    check_limit(vmem_limit_bytes, "vmem_need")
    subjects = subjects_of(source, vmem_limit_bytes, "vmem_need")
    if len(subjects) != 1:
        raise SourceError(f"the program has {len(subjects)} kernels", op="vmem_need", hint="give one, lowered alone")
    (subject,) = subjects
    if isinstance(subject, Unreadable):
        raise SourceError(subject.summary, op="vmem_need", hint=subject.hint)
    return need_of(subject)


def need_of(subject: Subject) -> VmemNeed:
    """The VMEM of a kernel that was read."""
    return VmemNeed(subject.name, tuple(_buffers(subject)), subject.vmem_limit_bytes)


def needed_at_once(subject: Subject, buffers: Sequence[VmemBuffer]) -> int:
    """Bytes of those buffers that are certain to be in use at one time.

    Of a grid of several steps all of them; of one step the inputs, copied before it, or the outputs, copied after it,
    or one scratch array: the compiler orders the ops as it likes.
    """
    if math.prod(subject.layout.grid) != 1:
        return sum(b.bytes for b in buffers)
    windows = (sum(b.bytes for b in buffers if b.role == role) for role in ("input", "output"))
    return max(*windows, *(b.bytes for b in buffers))


def _buffers(subject: Subject) -> Iterator[VmemBuffer]:
    for argument in subject.layout.arguments:
        type_ = argument.type
        if type_.space != "vmem" or type_.is_semaphore or ir.DYNAMIC in type_.shape:
            continue
        array = subject.array_of(argument) or type_.shape
        narrow = argument.role != "scratch" and bool(array) and array[-1] % LANES != 0
        yield VmemBuffer(
            argument.name,
            argument.role,
            type_.shape,
            type_.element,
            padded_bytes(type_.shape, type_),
            _count(subject, argument),
            padded_bytes(array, type_),
            narrow,
        )


def _count(subject: Subject, argument: ir.Argument) -> int:
    """How many buffers a window has."""
    window, grid = argument.window, subject.layout.grid
    if window is None or window.synchronous or window.transform is None:
        return 1
    if subject.array_of(argument) == window.bounds and not window.element:
        return 1
    if math.prod(grid) == 1:
        return 1
    return 1 if _is_constant(subject.module.functions[window.transform]) else 2


def _is_constant(transform: ir.Function) -> bool:
    """Whether an index map gives constants."""
    operands = transform.body.terminator.operands
    return all(v.definition is not None and v.definition.name == "arith.constant" for v in operands)


def _shape(buffer: VmemBuffer) -> str:
    return f"{'×'.join(map(str, buffer.shape))} {buffer.element}"
