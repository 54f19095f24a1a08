"""Ragged paged attention, with page tables that name pages which are not there."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Final

from conformance.faults.fault import Array, Fault, Working
from conformance.numerics.ragged_paged_attention import CASES
from mosaic_tpu.sim import errors

_CASE: Final = CASES[0]


def _pages(index: int) -> Sequence[Array]:
    """The case's arrays, the second page of its first sequence at another place in the cache."""
    q, cache, lengths, pages, *more = _CASE.arrays()
    pages[0, 1] = index
    return [q, cache, lengths, pages, *more]


KERNEL: Final = Working("ragged paged attention", lambda _: _CASE.function, _CASE.arrays)

_planted = functools.partial(
    Fault, kernel=KERNEL, error=errors.OutOfBoundsError, line="copy.start()", op="tpu.memref_slice", buffer="bfloat16"
)

FAULTS: Final = [
    _planted("page index too large", arrays=functools.partial(_pages, 10_000), says="index 10000 of dimension 0"),
    _planted("negative page index", arrays=functools.partial(_pages, -1), says="index -1 of dimension 0"),
]
