"""The matmuls of a schedule: how many, of what, and how long they keep the MXUs busy at the least."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from mosaic_tpu.aot.schedule.bundles import Bundle
    from mosaic_tpu.aot.targets import Generation

_SUBLANES: Final = 8
_WORD: Final = 32
# Element types as they stand in an opcode: bf16, f32, s8, u4, f8e4m3fn, f8e4m3b11.
_DTYPE: Final = re.compile(r"(?:bf|f|s|u)(\d+)(?:e\d+m\d+\w*)?")


@dataclass(frozen=True)
class Matmuls:
    """The vmatmul of an element type in a kernel's text.

    Attributes:
        dtype: of the left operand, as the compiler writes it: ``"bf16"``, ``"f32"``, ``"s8"``, ``"f8e4m3fn"``.
        count: instructions in the text, each counted once however often it runs.
        rows: of the left operand that one takes: a vector register, packed.
        interval: cycles until the same MXU can take the next.
    """

    dtype: str
    count: int
    rows: int
    interval: float


def count_matmuls(bundles: Iterable[Bundle]) -> dict[int, dict[str, int]]:
    """The vmatmul of each bundle, by address, then by element type; bundles without one are left out."""
    counts: dict[int, dict[str, int]] = {}
    for bundle in bundles:
        for instruction in bundle.instructions:
            if instruction.opcode.startswith("vmatmul"):
                here = counts.setdefault(bundle.address, {})
                dtype = dtype_of(instruction.opcode)
                here[dtype] = here.get(dtype, 0) + 1
    return counts


def sum_matmuls(counts: Mapping[int, Mapping[str, int]], generation: Generation) -> tuple[Matmuls, ...]:
    """The vmatmul of a kernel, by element type."""
    total: dict[str, int] = {}
    for here in counts.values():
        for dtype, count in here.items():
            total[dtype] = total.get(dtype, 0) + count
    return tuple(
        Matmuls(dtype, count, rows(dtype), interval(dtype, generation)) for dtype, count in sorted(total.items())
    )


def rows(dtype: str) -> int:
    """Rows that a packed register of an element type holds.

    Example:
        >>> rows("f32"), rows("bf16"), rows("s8")
        (8, 16, 32)
    """
    return _SUBLANES * _WORD // _bits(dtype)


def interval(dtype: str, generation: Generation) -> float:
    """Cycles that one vmatmul keeps one MXU busy: 16 in bf16 on v4 to v5p, 8 on v6e and tpu7x.

    It follows from the peaks of `mosaic_tpu.aot.targets`: a type that has none of its own goes at the speed of bf16.
    """
    speedup = round(generation.peak(dtype) / generation.peak("bf16"))  # The peaks themselves are rounded.
    return rows(dtype) / generation.mxu_rows_per_cycle / speedup


def cycles_of_all(dtypes: Sequence[str], generation: Generation) -> dict[str, float]:
    """Cycles that one vmatmul takes of all MXUs together, when each has its share of them; by element type."""
    return {dtype: interval(dtype, generation) / generation.mxus for dtype in dtypes}


def dtype_of(opcode: str) -> str:
    """The element type that stands in the opcode of a vmatmul."""
    # f32 has no name in some opcodes: vmatmul.msk.gmra.mxu0.
    return next((part for part in opcode.split(".") if _DTYPE.fullmatch(part)), "f32")


def _bits(dtype: str) -> int:
    found = _DTYPE.fullmatch(dtype)
    return int(found[1]) if found else _WORD
