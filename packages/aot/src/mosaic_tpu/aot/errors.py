"""Every error of `mosaic_tpu.aot`: one class per cause.

A `CompileError` is the TPU compiler's refusal: it names the op, the line of the kernel's source, the reason in plain
words and, where one is known, the remedy. What the compiler said in full is its ``raw``.
"""

from __future__ import annotations

from types import MappingProxyType

from mosaic_tpu.sim.errors import ModuleError


class NotKeptWarning(UserWarning):
    """An answer is good, and the disk would not take it: it will be asked for again."""


class AotError(ModuleError):
    """Base of all errors of `mosaic_tpu.aot`.

    Attributes:
        summary: what was wrong, one sentence.
        op: the MLIR op, ``"vector.shape_cast"``, or the function that refused.
        location: ``"file.py:12"`` of the kernel's source, if the module says it.
        hint: what to do next.
        target: the generation or topology it was compiled for.
        raw: what the compiler said in full; empty for what is not the compiler's.
        transient: whether the same may do better another time: the compiler took too long, was killed from outside, for
            want of memory for one, or did not start, or could not write.
    """

    default_hint = "see help(mosaic_tpu.aot.compile)"
    shown = MappingProxyType({"target": "target"})
    transient: bool = False

    def __init__(
        self,
        summary: str,
        *,
        op: str | None = None,
        location: str | None = None,
        hint: str | None = None,
        target: str | None = None,
        raw: str = "",
    ) -> None:
        self.target = target
        self.raw = raw
        super().__init__(summary, op=op, location=location, hint=hint)


# --- what was handed in ------------------------------------------------------------------------------------------


class SourceError(AotError, ValueError):
    """There is no kernel in what was given, or too little is known of its call."""

    default_hint = "give a lowered kernel or JAX function, or a Mosaic module with the shapes of its operands"


class TargetError(AotError, ValueError):
    """The target is no generation or topology that the compiler knows."""

    default_hint = "one of mosaic_tpu.aot.TARGETS, or a topology of one: 'v5e:2x2'"


class OptionError(AotError, ValueError):
    """An option has a value outside its range."""


class DumpError(AotError, ValueError):
    """A dump of the compiler is missing, empty or damaged, or another compiler's: it cannot be read."""

    default_hint = "compile again with cache=False; a newer libtpu may write other dumps"


class EstimateError(AotError):
    """There is no estimate to be had of this kernel."""

    default_hint = "look at compile(…, schedule=True).schedule, which says what it found"


class NoCompilerError(AotError, ImportError):
    """The TPU compiler is not installed."""

    default_hint = "pip install 'mosaic-tpu-aot[tpu]', on Linux on x86-64; lint, VMEM model and roofline work without"


# --- what the compiler said ---------------------------------------------------------------------------------------


class CompileError(AotError):
    """The TPU compiler refused the kernel. The base of all refusals, and the class of those of no other kind."""

    default_hint = "error.raw is what the compiler said in full"


class LayoutError(CompileError):
    """No vector layout serves an op: a reshape, a slice or a transpose that the compiler has no code for."""

    default_hint = "keep the last two dimensions in whole tiles (8 × 128 of 32 bits), or take another route there"


class UnsupportedError(CompileError):
    """This generation, or this compiler, has no code for an op, a type or a combination of them."""

    default_hint = "take another op, a type that the generation has, or another generation; lint may know which"


class AlignmentError(CompileError):
    """An offset of a load or a store cannot be shown to be a multiple of the tile."""

    default_hint = "round the index with pl.multiple_of (here b.assume_multiple), or slice along a leading dimension"


class DMAAlignmentError(CompileError):
    """A DMA's slice does not start or end on a tile."""

    default_hint = "copy whole tiles: offsets and sizes of the last two dimensions in multiples of the tiling"


class VmemError(CompileError):
    """The kernel's blocks and scratch do not fit into VMEM at all."""

    default_hint = "no vmem_limit_bytes is enough: take smaller blocks, fewer buffers, or less scratch"


class ScopedVmemError(VmemError):
    """The kernel needs more VMEM than the limit it was compiled with."""

    default_hint = "raise vmem_limit_bytes, or take smaller blocks"


class SmemError(CompileError):
    """Scalars and scalar prefetch do not fit into SMEM."""

    default_hint = "prefetch fewer scalars, or keep them in HBM and copy what a step needs"


class SemaphoreMemoryError(CompileError):
    """The kernel has more semaphores than semaphore memory holds."""

    default_hint = "one semaphore a DMA in flight is enough: use them in turn"


class InvalidKernelError(CompileError):
    """The module or its call is malformed: the compiler's verifier refused it."""

    default_hint = "look at the op with mosaic_tpu.sim.ir.read, or lint the module"


class InternalCompilerError(CompileError):
    """The compiler failed in itself: it aborted, crashed, or reported an internal error."""

    default_hint = "error.raw has its log; another block shape often avoids it"


class FlagError(CompileError, OptionError):
    """The compiler knows no such flag, or not this value of it."""

    default_hint = "flags are libtpu's own, by their names without dashes: flags={'xla_tpu_…': value}"


class CompileTimeoutError(CompileError, TimeoutError):
    """The compiler gave no answer in time."""

    default_hint = "raise timeout, or compile a smaller config"
    transient = True


class DiskError(CompileError, OSError):
    """The compiler or its cache could not write."""

    default_hint = "make room on the disk, or set MOSAIC_TPU_CACHE to a folder elsewhere"
    transient = True
