"""What a working kernel and a planted fault are."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from conformance.harness import pallas
from mosaic_tpu.sim import HazardError, Report, simulate, simulate_devices

type Array = NDArray[Any]


@dataclass(frozen=True)
class Working:
    """A kernel that is right, and that can be built with one thing wrong.

    Attributes:
        name: in the table.
        build: from the name of a fault, ``""`` for none, to a function of arrays that holds the kernel.
        arrays: what it takes, of each device in turn.
        expected: the kernel's outputs from those arrays, of each device in turn, bit for bit; from NumPy. ``None``
            where the numerics table has them.
        devices: how many there are.
        shapes: what the function is lowered for, where that is not the arrays.
    """

    name: str
    build: Callable[[str], Callable[..., Any]]
    arrays: Callable[[], Sequence[Array]]
    expected: Callable[[Sequence[Array]], Sequence[Array]] | None = None
    devices: int = 1
    shapes: tuple[jax.ShapeDtypeStruct, ...] = ()

    @functools.cache  # noqa: B019 - a table lives as long as its module
    def program(self, fault: str = "") -> str:
        """The function's StableHLO, lowered by JAX for a TPU."""
        shapes = self.shapes or [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in self.arrays()]
        return pallas.lower_to_stablehlo(self.build(fault), *shapes)

    def run(self, fault: str = "", arrays: Sequence[Array] | None = None, **options: Any) -> Report:
        """Simulate it, with a fault or without."""
        given = self.arrays() if arrays is None else arrays
        if self.devices > 1:
            return simulate_devices(self.program(fault), [[shard] for shard in given], **options)
        return simulate(self.program(fault), *given, **options)


@dataclass(frozen=True)
class Fault:
    """One thing wrong with a kernel.

    Attributes:
        name: what is wrong, as the table shows it.
        kernel: the working kernel.
        error: what the simulator must raise.
        line: part of the source line that the error must name; empty if it is about none.
        op: the op that it must name.
        buffer: part of the buffer that it must name.
        says: part of its message.
        planted: how the kernel is told; empty where the arrays are wrong.
        arrays: the wrong arrays.
        options: how to look for it, where that is not the default.
    """

    name: str
    kernel: Working
    error: type[HazardError]
    line: str
    op: str
    buffer: str = ""
    says: str = ""
    planted: str = ""
    arrays: Callable[[], Sequence[Array]] | None = None
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def id(self) -> str:
        """As pytest shows it."""
        return f"{self.kernel.name}-{self.name}"

    def find(self, **options: Any) -> HazardError | None:
        """The error that a run ends in."""
        arrays = None if self.arrays is None else self.arrays()
        try:
            self.kernel.run(self.planted, arrays, **self.options, **options)
        except HazardError as error:
            return error
        return None


def same(got: Sequence[Array], expected: Sequence[Array]) -> bool:
    """Whether outputs are the expected ones, bit for bit."""
    return all(np.array_equal(a, b) for a, b in zip(got, expected, strict=True))
