"""What a case is: a kernel's program, its inputs, and what the mathematics says, with how far a result may be off."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import jax
import numpy as np

from conformance.harness import pallas
from mosaic_tpu.zoo.tolerances import Array, Expected

type Engine = Literal["numpy", "xla"]


@dataclass(frozen=True)
class NumericsCase:
    """One config of one kernel.

    Attributes:
        kernel: the name in the table.
        config: the config's name.
        function: a function of arrays that holds the kernel, ours or Pallas's.
        inputs: its arrays.
        expected: its results, from those arrays.
        shapes: what the function is lowered for, where that is not the arrays.
        pads: whether an output of the kernel has padding, which it leaves unwritten or undefined.
        devices: how many devices share the work; the arrays are then one for each device, and so are the results.
    """

    kernel: str
    config: str
    function: Callable[..., Any] = field(repr=False)
    inputs: Callable[[np.random.Generator], Sequence[Array]] = field(repr=False)
    expected: Callable[..., Sequence[Expected]] = field(repr=False)
    shapes: Sequence[jax.ShapeDtypeStruct] = ()
    pads: bool = False
    devices: int = 1

    @property
    def engines(self) -> tuple[Engine, ...]:
        """Which run it. Several devices are the reference engine's."""
        return ("numpy", "xla") if self.devices == 1 else ("numpy",)

    @property
    def id(self) -> str:
        """As pytest shows it."""
        return f"{self.kernel}-{self.config}"

    def arrays(self) -> tuple[Array, ...]:
        """The same arrays every time."""
        return tuple(self.inputs(np.random.default_rng(0)))

    def program(self, arrays: Sequence[Array]) -> str:
        """The function's StableHLO, lowered by JAX for a TPU."""
        shapes = self.shapes or [jax.ShapeDtypeStruct(array.shape, array.dtype) for array in arrays]
        return pallas.lower_to_stablehlo(self.function, *shapes)
