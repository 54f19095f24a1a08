"""Every error the builder raises: one class per cause.

Each message says what was wrong, in which operation, with which operands, at which line of the kernel, and
what to write instead. All derive from `MosaicError`. Packages that stand between a kernel and its caller name their
folder with `internal_folder`, so that no error points into it.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from typing import ClassVar

from mosaic_tpu.builder._frames import internal, user_line
from mosaic_tpu.builder._frames import internal_folder as internal_folder
from mosaic_tpu.builder._spelling import foreign, hint_for, miscalled


class MosaicError(Exception):
    """Base of errors about a kernel that is built: of this package, and of others that build with it.

    Attributes:
        summary: what was wrong, one sentence.
        op: the operation or function that refused, if one did.
        operands: descriptions of its operands, ``"vector<8x128xf32>"``.
        location: ``"file.py:12"`` of the kernel's line; the one being built if not given.
        hint: what to write instead.
    """

    default_hint: ClassVar[str] = "see help(Builder.<op>), or help(Pallas.<idiom>) of mosaic_tpu.builder.pallas"

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
        self.location = user_line() if location is None else location
        self.hint = hint or self.default_hint
        super().__init__(summary)
        if isinstance(self, AttributeError):
            self.name = None  # Python would add a suggestion of its own

    def __str__(self) -> str:
        lines = [f"{self.op}: {self.summary}" if self.op else self.summary]
        if self.operands:
            lines.append(f"  operands: {', '.join(self.operands)}")
        lines.append(f"  at: {self.location}")
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

    default_hint = "ref[...] loads a ref, b.lift(number) makes a scalar, b.broadcast_to(scalar, shape) a vector"


class ArityError(MosaicError, TypeError):
    """The wrong number of indices, operands, axes or results."""

    default_hint = "give one entry a dimension, counted from 0"


class AttributeValueError(MosaicError, ValueError):
    """An enumerated or numeric attribute has a value outside its set (a memory space, a reduction kind …)."""

    default_hint = "use a value that the function's documentation lists"


class MemorySpaceError(MosaicError, ValueError):
    """The memory space is unknown or cannot be used by this operation."""

    default_hint = "vectors are loaded from vmem and scalars from smem; copy with enqueue_dma between spaces"


class ConstantError(MosaicError, ValueError):
    """A Python number cannot be represented in the element type."""

    default_hint = "use a number the element type holds, or a wider type"


class ForeignValueError(MosaicError, ValueError):
    """A value of another builder was used."""

    default_hint = "values belong to the builder that made them; pass numbers, shapes and configs between kernels"


class ClosedRegionError(MosaicError, ValueError):
    """A value defined inside a region was used after the region closed."""

    default_hint = "yield it from the region and read it from .results"


class YieldMissingError(MosaicError, ValueError):
    """A region that must yield values was left without a yield."""

    default_hint = "end the with block with .yield_(…)"


class YieldTwiceError(MosaicError, ValueError):
    """A region yielded twice, or an op followed its yield."""

    default_hint = "yield ends a region: make it the last statement of the with block"


class YieldTypeError(MosaicError, TypeError):
    """The yielded values differ in number or type from what the region carries."""

    default_hint = "yield one value for each that is carried, of the same type"


class RegionOrderError(MosaicError, ValueError):
    """A region was entered twice, out of order, or its results were read too early."""

    default_hint = "enter each region once, leave it in order, then read .results"


class BuilderStateError(MosaicError, RuntimeError):
    """The builder is finished, has no arguments declared yet, or is used from outside its own kernel."""

    default_hint = "Builder(name), then declare_args, then ops, then finish"


class ArgumentSpecError(MosaicError, ValueError):
    """An argument given to declare_args is malformed or in the wrong place."""

    default_hint = "order: program ids, scalar_prefetch, inputs, outputs, scratch and semaphores"


class UnknownArgumentError(MosaicError, AttributeError, KeyError):
    """An argument was asked for by a name that was not declared."""

    default_hint = "use a name given to declare_args"


class UnknownNameError(MosaicError, AttributeError):
    """A value or a builder has nothing by this name: an array of JAX may have."""

    default_hint = "docs/cheat-sheet.md has what stands here for jnp, lax, pl and pltpu"


class ForeignCallError(MosaicError, TypeError):
    """A function of JAX or NumPy was called in a kernel, which neither of them traces."""

    default_hint = "docs/cheat-sheet.md has what stands here for jnp, lax, pl and pltpu"


class WindowError(MosaicError, ValueError):
    """A window's block shape, index map or pipeline mode does not fit its ref or the grid."""

    default_hint = "Ref.shape is one block; the index map takes the program ids and returns one index a dimension"


class ConcreteValueError(MosaicError, TypeError):
    """A traced value was used where Python needs a concrete one: bool(), int(), iteration, ==."""

    default_hint = "Python's own control flow and sizes come from the config"


class UnsupportedOpError(MosaicError, NotImplementedError):
    """The installed jaxlib's dialect has no such operation, or Pallas emits nothing for this case."""

    default_hint = "compose it of other ops"


class VerificationError(MosaicError, ValueError):
    """MLIR's verifier refused the finished module."""

    default_hint = "the op's operands do not fit each other; see help(Builder.<op>)"


class ModuleFormatError(MosaicError, ValueError):
    """Bytes or text handed in are not a Mosaic module this jaxlib can read."""

    default_hint = "give the decoded body of a tpu_custom_call, or MLIR text"


def explain_foreign(error: Exception) -> None:
    """Say of what a kernel's function raised, if JAX, NumPy or Python refused a call there, what to write instead.

    For packages that call such functions; an error that is not theirs stays.

    Raises:
        ForeignCallError: a function of JAX or NumPy raised the error.
        ArityError: a function of the builder does not take the arguments.
        KindError: Python's arithmetic was given a view of a ref.

    Example:
        >>> explain_foreign(ValueError("no line of a kernel"))
    """
    last, at = None, None if isinstance(error, MosaicError) else error.__traceback__
    while at is not None:
        if not internal(at.tb_frame.f_code.co_filename):
            last = at
        at = at.tb_next
    if last is None:
        return
    line = f"{last.tb_frame.f_code.co_filename}:{last.tb_lineno}"
    if isinstance(error, TypeError) and last.tb_next is None:
        _explain_call(error, line)
    found = foreign(last.tb_frame, last.tb_lasti)
    if found is None or found[1] != "jax":  # NumPy may be called, and tells us where a value is given
        return
    name = found[0]
    text = re.sub(r"<function (\S+) at 0x[0-9a-f]+>", r"\1", str(error).partition("\n")[0])
    said = textwrap.shorten(f"{type(error).__name__} {text}", 120, placeholder=" …")
    raise ForeignCallError(
        f"JAX traces no kernel that is built here: {said}", op=name, location=line, hint=hint_for(name)
    ) from error


def _explain_call(error: TypeError, line: str) -> None:
    """Raise what Python refused at this line of a kernel as an error of ours, if it was to do with us."""
    said = str(error)
    wrong = miscalled(said)
    if wrong is not None:
        raise ArityError(wrong[1], op=wrong[0], location=line, hint=f"the form is {wrong[2]}") from error
    if said.startswith("unsupported operand") and "'RefView'" in said:
        raise KindError("a view of a ref is not a value", location=line, hint="load it first: view[...]") from error
