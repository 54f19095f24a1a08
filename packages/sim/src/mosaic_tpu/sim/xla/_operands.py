"""What a kernel is given: operands of the call, their windows, scratch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mosaic_tpu.sim._layout import Window
from mosaic_tpu.sim._module import Block, Value
from mosaic_tpu.sim.xla._elements import Array, dtype_of, held_dtype, hold, poison
from mosaic_tpu.sim.xla._untyped import jnp, lax
from mosaic_tpu.sim.xla._views import Root

Shape = tuple[int, ...]


@dataclass(eq=False)
class Operand:
    """An input or output of the kernel.

    Attributes:
        argument: the kernel's argument.
        root: the array, padded.
        shape: of the array as the caller knows it.
        blocks: how its windows are found; ``None`` where the kernel sees the array itself.
        window: where the current window is.
        is_output: whether windows are written back.
    """

    argument: Value
    root: Root
    shape: Shape
    blocks: Window | None
    is_output: bool
    window: Root = field(init=False)

    def __post_init__(self) -> None:
        element = self.argument.type.element
        self.window = self.root if self.blocks is None else Root("window", self.blocks.bounds, element)

    @property
    def low(self) -> Shape:
        """Where the array starts in its root."""
        return self.blocks.pad_low if self.blocks is not None and self.blocks.element else (0,) * len(self.shape)


def overwrites(block: Block, memref: Value) -> bool:
    """Whether a block stores all of a memref before it does anything else with it."""
    for op in block.operations:
        if not any(memref in inner.operands for inner in op.walk()):
            continue
        if op.results and not any(r.users for r in op.results):
            continue  # what Pallas reads before a store
        if op.name not in ("tpu.vector_store", "vector.store") or op.operands[1] is not memref:
            return False
        masked = op.name == "tpu.vector_store" and bool(op.segments()[3])
        return not masked and not op.attributes.boolean("add") and op.operands[0].type.shape == memref.type.shape
    return False


def adopt(x: Any, element: str) -> Array:
    """The caller's array as the kernel's elements are held: signless integers, masks as integers."""
    x = jnp.asarray(x)
    dtype = held_dtype(element)
    if x.dtype == dtype:
        return x
    if x.dtype == jnp.bool_ or x.dtype.itemsize != dtype.itemsize or dtype == jnp.bool_:
        return hold(x.astype(dtype_of(element)))
    # The barrier keeps XLA from moving floats in place of integers: see `held_dtype`.
    return lax.optimization_barrier(lax.bitcast_convert_type(x, dtype))


def hand_back(x: Array, dtype: Any) -> Array:
    """The kernel's array with the caller's dtype."""
    dtype = np.dtype(dtype)
    if x.dtype == dtype:
        return x
    if dtype == np.bool_ or x.dtype.itemsize != dtype.itemsize:
        return x.astype(dtype)
    return lax.bitcast_convert_type(lax.optimization_barrier(x), dtype)


def _padding(blocks: Window, shape: Sequence[int]) -> list[tuple[int, int, int]]:
    """What to add to an array so that every window is inside."""
    if blocks.element:
        return [(low, high, 0) for low, high in zip(blocks.pad_low, blocks.pad_high, strict=True)]
    return [(0, -size % block, 0) for size, block in zip(shape, blocks.bounds, strict=True)]


def padded(x: Array, blocks: Window | None, element: str) -> Array:
    """With poison around it, so that every window is inside."""
    if blocks is None:
        return x
    padding = _padding(blocks, x.shape)
    return x if not any(low or high for low, high, _ in padding) else lax.pad(x, poison(element), padding)


def unpadded(x: Array, operand: Operand) -> Array:
    """The array without what surrounds it."""
    low = operand.low
    return lax.slice(x, low, [a + b for a, b in zip(low, operand.shape, strict=True)])


def padded_shape(shape: Sequence[int], blocks: Window | None) -> Shape:
    """The shape after `padded`."""
    if blocks is None:
        return tuple(shape)
    return tuple(size + low + high for size, (low, high, _) in zip(shape, _padding(blocks, shape), strict=True))
