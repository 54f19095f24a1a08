"""Every error the builder raises: one class per cause.

Each message says what was wrong, in which operation, with which operands, at which line of the kernel, and
what to write instead. All derive from `MosaicError`; the docs' error catalogue is generated from this module.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar


class MosaicError(Exception):
    """Base of all errors of mosaic-tpu.

    Attributes:
        summary: what was wrong, one sentence.
        op: the operation or function that refused, if one did.
        operands: descriptions of its operands, ``"vector<8x128xf32>"``.
        location: ``"file.py:12"`` of the kernel's line, if known.
        hint: what to write instead.
    """

    default_hint: ClassVar[str] = ""

    def __init__(
        self,
        summary: str,
        *,
        op: str | None = None,
        operands: Sequence[str] = (),
        location: str | None = None,
        hint: str | None = None,
    ) -> None:
        self.summary = summary
        self.op = op
        self.operands = tuple(operands)
        self.location = location
        self.hint = self.default_hint if hint is None else hint
        super().__init__(summary)

    def __str__(self) -> str:
        lines = [f"{self.op}: {self.summary}" if self.op else self.summary]
        if self.operands:
            lines.append(f"  operands: {', '.join(self.operands)}")
        if self.location:
            lines.append(f"  at: {self.location}")
        if self.hint:
            lines.append(f"  hint: {self.hint}")
        return "\n".join(lines)


class DTypeError(MosaicError, TypeError):
    """An element type does not fit the operation, or does not exist."""

    default_hint = "cast first with value.to(dtype)"


class ShapeError(MosaicError, ValueError):
    """Shapes or ranks do not fit the operation."""

    default_hint = "there is no implicit broadcast between vectors: use shape_cast and broadcast_to"


class KindError(MosaicError, TypeError):
    """A scalar, vector, ref or semaphore stands where another kind is needed."""


class ArityError(MosaicError, TypeError):
    """The wrong number of indices, operands, axes or results."""


class AttributeValueError(MosaicError, ValueError):
    """An enumerated or numeric attribute has a value outside its set (a memory space, a reduction kind …)."""


class MemorySpaceError(MosaicError, ValueError):
    """The memory space is unknown or cannot be used by this operation."""


class ConstantError(MosaicError, ValueError):
    """A Python number cannot be represented in the element type."""


class ForeignValueError(MosaicError, ValueError):
    """A value of another builder was used."""

    default_hint = "values belong to the builder that made them; pass numbers, shapes and configs between kernels"


class ClosedRegionError(MosaicError, ValueError):
    """A value defined inside a region was used after the region closed."""

    default_hint = "yield it from the region and read it from .results"


class YieldMissingError(MosaicError, ValueError):
    """A region that must yield values was left without a yield."""


class YieldTwiceError(MosaicError, ValueError):
    """A region yielded twice, or an op followed its yield."""

    default_hint = "yield ends a region: make it the last statement of the with block"


class YieldTypeError(MosaicError, TypeError):
    """The yielded values differ in number or type from what the region carries."""


class RegionOrderError(MosaicError, ValueError):
    """A region was entered twice, out of order, or its results were read too early."""


class BuilderStateError(MosaicError, RuntimeError):
    """The builder is finished, has no arguments declared yet, or is used from outside its own kernel."""


class ArgumentSpecError(MosaicError, ValueError):
    """An argument given to declare_args is malformed or in the wrong place."""


class WindowError(MosaicError, ValueError):
    """A window's block shape, index map or pipeline mode does not fit its ref or the grid."""


class ConcreteValueError(MosaicError, TypeError):
    """A traced value was used where Python needs a concrete one: bool(), int(), iteration, ==."""


class UnsupportedOpError(MosaicError, NotImplementedError):
    """The installed jaxlib's dialect has no such operation, or Pallas emits nothing for this case."""


class VerificationError(MosaicError, ValueError):
    """MLIR's verifier refused the finished module."""


class ModuleFormatError(MosaicError, ValueError):
    """Bytes or text handed in are not a Mosaic module this jaxlib can read."""
