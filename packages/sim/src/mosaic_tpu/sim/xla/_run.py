"""The public functions of the fast engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mosaic_tpu.sim._module import Module, Operation
from mosaic_tpu.sim.xla import _grid
from mosaic_tpu.sim.xla._elements import Array
from mosaic_tpu.sim.xla._translation import check_supported
from mosaic_tpu.sim.xla._untyped import jax

Output = tuple[Sequence[int], Any]
#: The jitted function: arrays in, outputs and the flag out.
Jitted = Callable[..., tuple[list[Array], Array]]


@dataclass(frozen=True)
class XlaResult:
    """What a run on the fast engine gives.

    Attributes:
        outputs: the custom call's results.
        flag: 0, or the number after that of the first op that did what is undefined.
        failed: that op: a memory access out of bounds; the ``func.return`` of a window's transform, for a window
            outside its array; a shift by the width or more; a division by zero; a step that is not positive; an
            assertion that does not hold.
    """

    outputs: tuple[np.ndarray[Any, Any], ...]
    flag: int = 0
    failed: Operation | None = None


def translate(module: Module, outputs: Sequence[Output], *, checks: bool = True) -> Jitted:
    """A kernel as a jitted JAX function of the custom call's operands.

    It returns the outputs and the flag (see `XlaResult`), and may be called under another ``jax.jit``.

    Args:
        module: the kernel.
        outputs: shape and dtype of each of the call's results.
        checks: flag undefined behaviour; without it the function is faster and the flag stays 0.

    Raises:
        UnsupportedOpError: an op has no rule here, or another device is involved.
    """
    key = "xla", _key(outputs), checks, tuple(sorted(module.call.aliases.items()))
    cached: dict[Any, Jitted] = module.cache  # lives as long as the module
    found = cached.get(key)
    if found is None:
        check_supported(module)
        wanted = [(tuple(shape), np.dtype(dtype)) for shape, dtype in outputs]

        def kernel(*inputs: Any) -> tuple[list[Array], Array]:
            return _grid.run(module, inputs, wanted, checks=checks)

        kernel.__name__ = module.name
        found = cached[key] = jax.jit(kernel)
    return found


def _key(outputs: Sequence[Output]) -> tuple[Any, ...]:
    return tuple((tuple(shape), np.dtype(dtype)) for shape, dtype in outputs)


def run_xla(module: Module, inputs: Sequence[Any], outputs: Sequence[Output], *, checks: bool = True) -> XlaResult:
    """Run a kernel on the fast engine.

    Args:
        module: the kernel.
        inputs: the custom call's operands: bounds of a dynamic grid, scalar prefetch, inputs.
        outputs: shape and dtype of each of the call's results.
        checks: flag undefined behaviour.

    Raises:
        UnsupportedOpError: an op has no rule here, or another device is involved.
    """
    made, flag = translate(module, outputs, checks=checks)(*inputs)
    number = int(flag) if checks else 0
    return XlaResult(tuple(np.asarray(x) for x in made), number, module.operations[number - 1] if number else None)
