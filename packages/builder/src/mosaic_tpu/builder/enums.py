"""Enumerations of the tpu dialect that a kernel's signature names."""

from __future__ import annotations

from enum import Enum
from typing import Any, Self

from mosaic_tpu.builder.errors import AttributeValueError, MemorySpaceError


class Named(Enum):
    """An enumeration whose values are the dialect's spellings."""

    @classmethod
    def of(cls, value: object) -> Self:
        """The member for a member or its spelling; an `AttributeValueError` names the allowed ones."""
        try:
            return cls(value)
        except (ValueError, TypeError):
            allowed = ", ".join(repr(m.value) for m in cls)
            error = cls.error()
            raise error(f"{value!r} is not a {cls.__name__}", op=cls.__name__, hint=f"use one of {allowed}") from None

    @classmethod
    def error(cls) -> type[AttributeValueError] | type[MemorySpaceError]:
        """The error class that `of` raises."""
        return AttributeValueError


class MemorySpace(Named):
    """Where a ref lives.

    ``any`` leaves the choice to XLA (HBM in practice); DMAs move data between spaces, loads and stores need
    ``vmem`` (vectors) or ``smem`` (scalars).
    """

    ANY = "any"
    VMEM = "vmem"
    SMEM = "smem"
    CMEM = "cmem"
    HBM = "hbm"
    SEMAPHORE_MEM = "semaphore_mem"
    VMEM_SHARED = "vmem_shared"
    HOST = "host"

    # A MemorySpace keys the type cache; identity hashing avoids Enum's Python-level hash of the name.
    __hash__ = object.__hash__

    @property
    def mlir(self) -> str:
        """The attribute's text, ``#tpu.memory_space<vmem>``."""
        return f"#tpu.memory_space<{self.value}>"

    @classmethod
    def error(cls) -> type[AttributeValueError] | type[MemorySpaceError]:
        """Unknown spaces raise `MemorySpaceError`."""
        return MemorySpaceError


class DimensionSemantics(Named):
    """How the steps of one grid dimension may be ordered and split over cores.

    The dialect has no ``sequential``: ``arbitrary`` is that.
    """

    PARALLEL = "parallel"
    ARBITRARY = "arbitrary"
    CORE_PARALLEL = "core_parallel"
    SUBCORE_PARALLEL = "subcore_parallel"

    @classmethod
    def of(cls, value: object) -> Self:
        """The member; ``sequential`` is refused by name."""
        if value == "sequential":
            raise AttributeValueError(
                "the dialect has no 'sequential'", op=cls.__name__, hint="use 'arbitrary': its steps run in order"
            )
        return super().of(value)

    @property
    def mlir(self) -> str:
        """The attribute's text."""
        return f"#tpu.dimension_semantics<{self.value}>"


class CoreType(Named):
    """Which core runs the function: the TensorCore, or a SparseCore's scalar or vector subcore."""

    TC = "tc"
    SC_SCALAR_SUBCORE = "sc_scalar_subcore"
    SC_VECTOR_SUBCORE = "sc_vector_subcore"


class PipelineMode(Named):
    """How many buffers a window has: one (Pallas's ``Buffered(1)``) or two (``Buffered(2)``)."""

    SYNCHRONOUS = "synchronous"
    DOUBLE_BUFFERED = "double_buffered"


class RevisitMode(Named):
    """Whether an output block may be revisited only in the next step, or at any later one."""

    IMMEDIATE = "immediate"
    ANY = "any"


class Role(Named):
    """What a ref is to ``pallas_call``: an input, an output, a scalar-prefetch operand or scratch."""

    INPUT = "input"
    OUTPUT = "output"
    SCALAR_PREFETCH = "scalar_prefetch"
    SCRATCH = "scratch"


class SemaphoreKind(Named):
    """A semaphore that counts signals, or one that counts the bytes of DMAs."""

    REGULAR = "regular"
    DMA = "dma"


class CombiningKind(Named):
    """How a reduction combines two elements.

    Pallas emits ``maximumf``/``minimumf`` (NaN wins); ``maxnumf``/``minnumf`` (NaN loses) exist in the dialect.
    """

    ADD = "add"
    MUL = "mul"
    MINSI = "minsi"
    MAXSI = "maxsi"
    MINUI = "minui"
    MAXUI = "maxui"
    MINIMUMF = "minimumf"
    MAXIMUMF = "maximumf"
    MINNUMF = "minnumf"
    MAXNUMF = "maxnumf"
    AND = "and"
    OR = "or"
    XOR = "xor"


class Precision(Named):
    """How a matmul rounds f32 operands: one bf16 pass, exact f32 (six passes), or three passes."""

    BF16 = "bf16"
    FP32 = "fp32"
    BF16X3 = "bf16x3"


class ReductionKind(Named):
    """The kinds of ``tpu.all_reduce``, ``tpu.reduce_index`` and ``tpu.scan``."""

    SUM = "sum"
    ARG_MAX = "arg_max"
    ARG_MIN = "arg_min"
    FIND_FIRST_SET = "find_first_set"
    MAX_F = "maxf"
    MIN_F = "minf"
    MAX_SI = "maxsi"
    MIN_SI = "minsi"
    MAX_UI = "maxui"
    MIN_UI = "minui"


def spelling(member: Any) -> str:
    """The dialect's spelling of an enumeration member."""
    return str(member.value)
