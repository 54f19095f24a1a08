"""The state of a core's MXUs, for kernels that work them by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from mosaic_tpu.sim._memory import Array
from mosaic_tpu.sim._products import Dot, multiply

if TYPE_CHECKING:
    from mosaic_tpu.sim._core import Core

#: Rows of an accumulator: its address counts them in registers.
_ROWS: Final = 8
_DOT: Final = Dot((1,), (0,), (0,), (1,), (0, 0, 1, 1), (), ())


class Mxu:
    """One MXU: what is staged, what is loaded, its accumulators and its queue.

    Attributes:
        staged: right-hand sides by register, each to be loaded once.
        loaded: the right-hand side that products use.
        accumulators: registers of sums, by address; those that are not there are zero.
        queue: rows of results that were not taken.
    """

    def __init__(self, core: Core) -> None:
        self.core = core
        self.staged: dict[int, Array] = {}
        self.loaded: Array | None = None
        self.accumulators: dict[int, Array] = {}
        self.queue: list[Array] = []

    def push(self, number: int, rhs: Array, register: int) -> None:
        """Stage a right-hand side."""
        if register in self.staged:
            self._undefined(number, f"staging register {register} is written twice before it is loaded")
        self.staged[register] = np.array(rhs)

    def _product(self, number: int, lhs: Array, register: int | None) -> Array:
        if register is not None:
            staged = self.staged.pop(register, None)
            if staged is None:
                self._undefined(number, f"staging register {register} is loaded, and nothing was pushed to it")
            else:
                self.loaded = staged
        rhs = self.loaded
        if rhs is None:
            self._undefined(number, "a product without a right-hand side in the MXU")
            rhs = np.zeros((lhs.shape[1], lhs.shape[1]), lhs.dtype)
        made = multiply(lhs, rhs, _DOT, True)
        return made.astype(np.int64).astype(np.int32) if made.dtype == np.float64 else made

    def accumulate(self, number: int, lhs: Array, address: int, register: int | None) -> None:
        """Add a product to accumulators."""
        made = self._product(number, lhs, register)
        for i in range(0, made.shape[0], _ROWS):
            place, rows = address + i // _ROWS, made[i : i + _ROWS]
            self.accumulators[place] = self.accumulators[place] + rows if place in self.accumulators else rows

    def pop(self, number: int, address: int, shape: tuple[int, ...], dtype: Any) -> Array:
        """Take sums, and leave zeros."""
        flat = np.zeros((int(np.prod(shape[:-1])), shape[-1]), dtype)
        for i in range(0, flat.shape[0], _ROWS):
            rows = self.accumulators.pop(address + i // _ROWS, None)
            if rows is None:
                self._undefined(number, f"accumulator {address + i // _ROWS} is taken, and nothing was added to it")
            else:
                flat[i : i + _ROWS] = rows
        return flat.reshape(shape)

    def enqueue(self, number: int, lhs: Array, register: int | None) -> None:
        """Put a product at the end of the queue."""
        self.queue += list(self._product(number, lhs, register))

    def dequeue(self, number: int, shape: tuple[int, ...], dtype: Any) -> Array:
        """Take the oldest rows of the queue."""
        count = int(np.prod(shape[:-1]))
        rows, self.queue = self.queue[:count], self.queue[count:]
        if len(rows) < count:
            self._undefined(number, f"{count} rows are taken from a queue of {len(rows)}")
            rows += [np.zeros(shape[-1], dtype)] * (count - len(rows))
        return np.stack(rows).astype(dtype).reshape(shape)

    def leftovers(self) -> str | None:
        """What a kernel must not leave behind."""
        if self.staged:
            return f"staging register {min(self.staged)} was pushed to and never loaded"
        if self.accumulators:
            return f"accumulator {min(self.accumulators)} was added to and never taken"
        return f"{len(self.queue)} rows of results were never taken" if self.queue else None

    def _undefined(self, number: int, what: str) -> None:
        if self.core.checks:
            self.core.undefined(number, what)


def mxu(core: Core, index: int) -> Mxu:
    """An MXU of a core."""
    found = core.mxus.get(index)
    if found is None:
        found = core.mxus[index] = Mxu(core)
    return found
