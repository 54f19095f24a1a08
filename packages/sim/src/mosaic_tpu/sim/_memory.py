"""Memory: buffers that know what is in flight, and semaphores."""

from __future__ import annotations

import functools
import math
import os
from collections import deque
from typing import TYPE_CHECKING, Any, Final

import ml_dtypes
import numpy as np

from mosaic_tpu.sim._types import Type
from mosaic_tpu.sim.errors import LimitError

if TYPE_CHECKING:
    from mosaic_tpu.sim._dma import Leg
    from mosaic_tpu.sim._module import Operation
    from mosaic_tpu.sim._races import History

type Array = np.ndarray[Any, np.dtype[Any]]
type Clock = dict[object, int]

#: Bit patterns of uninitialised memory in the first fill: signalling NaNs for floats, so that arithmetic on them shows,
#: and negative numbers that fit no index for integers.
_FLOATS: Final = {8: 0xA5, 16: 0x7FA5, 32: 0x7FA5A5A5, 64: 0x7FF5A5A5A5A5A5A5}
_INTEGERS: Final = {8: 0xA5, 16: 0xA5A5, 32: 0xA5A5A5A5, 64: 0xA5A5A5A5A5A5A5A5}
#: The other fills: large numbers, then their negatives for floats and zeros for integers. What looks right with one
#: is wrong with another: a comparison with zero, a running maximum or minimum, a sum.
_LARGE: Final = 16384.0
_LARGE_BYTE: Final = 24.0  # fits every float of 8 bits
_LARGE_INTEGER: Final = 0x5A5A5A5A5A5A5A5A
_WORDS: Final = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}
_NARROW: Final = tuple(map(np.dtype, (ml_dtypes.int2, ml_dtypes.int4, ml_dtypes.float4_e2m1fn)))
_POISON: dict[tuple[Any, int], Any] = {}


def poison(dtype: np.dtype[Any], fill: int = 0) -> Any:
    """What uninitialised memory of a dtype holds, as a scalar of that dtype; ``fill`` is 0, 1 or 2."""
    key = (dtype, fill)
    found = _POISON.get(key)
    if found is None:
        found = _POISON[key] = _other(dtype, fill) if fill else _unlikely(dtype)
    return found


def _other(dtype: np.dtype[Any], fill: int) -> Any:
    if dtype == np.bool_:
        return np.bool_(False)
    if dtype in _NARROW:
        return np.array([1.0 if fill == 1 else 0.0]).astype(dtype)[0]
    if is_floating(dtype):
        size = _LARGE_BYTE if dtype.itemsize == 1 else _LARGE
        return np.array([size if fill == 1 else -size]).astype(dtype)[0]
    bits = dtype.itemsize * 8
    word = _LARGE_INTEGER & ((1 << bits) - 1) if fill == 1 else 0
    return np.array([word], _WORDS[bits]).view(dtype)[0]


def _unlikely(dtype: np.dtype[Any]) -> Any:
    if dtype == np.bool_:
        return np.bool_(True)
    if dtype in _NARROW:
        return np.array([-2.0]).astype(dtype)[0]
    bits = dtype.itemsize * 8
    word = 0x7DA5 if dtype == np.float16 else (_FLOATS if is_floating(dtype) else _INTEGERS)[bits]
    return np.array([word], _WORDS[bits]).view(dtype)[0]


def is_floating(dtype: np.dtype[Any]) -> bool:
    """Whether a dtype is one of floating-point numbers, NumPy's own or not."""
    return dtype.kind in "fV" or "float" in dtype.name


@functools.cache
def pattern(dtype: np.dtype[Any], fill: int) -> Any:
    """The word that `poison` is."""
    return words(np.array([poison(dtype, fill)], dtype))[0]


def poison_all(array: Array, fill: int) -> None:
    """Make a buffer's contents undefined."""
    words(array)[...] = pattern(array.dtype, fill)


def words(array: Array) -> Array:
    """The bit patterns of an array's elements."""
    return array.view(_WORDS[array.dtype.itemsize * 8])


@functools.cache
def _physical() -> int:
    """Bytes of this machine's memory."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return 1 << 36  # where nobody says


def poisoned(array: Array, fill: int) -> Array:
    """Where an array holds the pattern of uninitialised memory, which may be a number like any other."""
    return words(array) == pattern(array.dtype, fill)


def new_array(shape: tuple[int, ...], dtype: np.dtype[Any], fill: int) -> Array:
    """Uninitialised memory."""
    size = math.prod(shape) * dtype.itemsize
    if size > _physical():
        raise LimitError(
            f"a buffer {dtype}{list(shape)} takes {size / 2**30:.0f} GiB, more than this machine's memory",
            hint="simulate the kernel at smaller shapes",
        )
    array = np.empty(shape, dtype)
    poison_all(array, fill)
    return array


class Buffer:
    """A piece of memory.

    Attributes:
        name: for messages.
        space: memory space.
        array: its contents.
        shape: without the padding of its last tile.
        pending: halves of DMAs in flight that read or write it.
        history: who used it when, where other cores or devices can reach it.
        device: on which device it is.
        key: the same on every device.
        blank: whether some of it may not have been written yet.
    """

    __slots__ = ("array", "bits", "blank", "device", "history", "key", "name", "pending", "shape", "space")

    def __init__(self, name: str, space: str, array: Array, *, device: int = 0, key: object = None, bits: int = 0):
        self.name = name
        self.space = space
        self.array = array
        self.shape = array.shape
        self.pending: list[Leg] = []
        self.history: History | None = None
        self.device = device
        self.key = key
        self.blank = False
        self.bits = bits or array.dtype.itemsize * 8

    def describe(self, view: Array | None = None) -> str:
        """``"x (vmem bfloat16[8, 128]) [0:8, 0:128]"``."""
        text = f"{self.name} ({self.space or 'memory'} {self.array.dtype}{list(self.shape)})"
        return text if view is None else text + region(self.array, view)


def region(root: Array, view: Array) -> str:
    """Which part of ``root`` a view covers, ``" [0:8, 128:256]"``; empty if it is all of it or cannot be said."""
    if view.shape == root.shape or view.dtype != root.dtype or not root.size or not view.size:
        return ""
    offset = view.__array_interface__["data"][0] - root.__array_interface__["data"][0]
    last = offset + sum((n - 1) * s for n, s in zip(view.shape, view.strides, strict=True) if n > 0)
    if offset < 0 or last >= root.nbytes:
        return ""
    first, end = (_place(o // root.itemsize, root.shape) for o in (offset, last))
    return " [" + ", ".join(f"{a}:{b + 1}" for a, b in zip(first, end, strict=True)) + "]"


def _place(number: int, shape: tuple[int, ...]) -> list[int]:
    """The indices of an element by its number."""
    made: list[int] = []
    for size in reversed(shape):
        made.insert(0, number % size)
        number //= size
    return made


class Semaphore:
    """A regular or DMA semaphore.

    Attributes:
        name: for messages.
        kind: ``"semaphore"`` or ``"dma_semaphore"``.
        value: what a wait can take now; bytes for DMAs.
        born: its core's own time when it came to be.
        balance: bytes of DMAs started and not waited for.
        legs: halves of DMAs not waited for.
        signalled: the op that signalled it last, or started the last DMA that did.
        arrivals: amounts with the clocks of who signalled them.
    """

    __slots__ = ("arrivals", "balance", "born", "device", "key", "kind", "legs", "name", "signalled", "value", "waits")

    def __init__(self, name: str, kind: str, device: int, key: object, born: int = 1) -> None:
        self.name = name
        self.kind = kind
        self.device = device
        self.key = key
        self.value = 0
        self.born = born
        self.balance = 0
        self.waits = 0
        self.legs: list[Leg] = []
        self.signalled: Operation | None = None
        self.arrivals: deque[tuple[int, Clock]] = deque()

    def arrive(self, amount: int, clock: Clock | None) -> None:
        """Add to the value; a later wait learns what the signaller knew."""
        self.value += amount
        if clock is not None:
            self.arrivals.append((amount, clock))

    def take(self, amount: int, clock: Clock | None) -> None:
        """Subtract a wait's amount, and learn from those who signalled it, first come first."""
        self.value -= amount
        self.waits += 1
        if self.kind == "dma_semaphore":
            self.balance -= amount
            if self.balance == 0:
                self._settle()
        if clock is not None:
            self._learn(amount, clock)

    def _settle(self) -> None:
        """The DMAs of a semaphore are known to be over once all their bytes were waited for.

        With less, any of them may be the one still in flight: the hardware promises no order.
        """
        for leg in self.legs:
            leg.buffer.pending.remove(leg)
        self.legs.clear()

    def _learn(self, amount: int, clock: Clock) -> None:
        while amount > 0 and self.arrivals:
            have, known = self.arrivals.popleft()
            if have > amount:
                self.arrivals.appendleft((have - amount, known))
            if have <= amount or self.kind == "semaphore":  # of a DMA that is waited for in part nothing is known
                join(clock, known)
            amount -= have


def join(clock: Clock, other: Clock) -> None:
    """Learn what another knows."""
    for who, when in other.items():
        if clock.get(who, 0) < when:
            clock[who] = when


def semaphores(type_: Type, name: str, device: int, key: object, born: int = 1) -> Array:
    """Semaphore memory: an array of `Semaphore` objects."""
    array = np.empty(type_.shape, object)
    for index in np.ndindex(*type_.shape):
        place = f"{name}{list(index)}" if index else name
        array[index] = Semaphore(place, type_.element, device, (key, index), born)
    return array
