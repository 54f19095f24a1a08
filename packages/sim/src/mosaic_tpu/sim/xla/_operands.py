"""What a kernel is given: operands of the call, their windows, scratch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from mosaic_tpu.sim._module import Block, Function, Module, Value
from mosaic_tpu.sim._types import DYNAMIC, integers, parse_attributes, split
from mosaic_tpu.sim.errors import ModuleFormatError
from mosaic_tpu.sim.xla._elements import Array, dtype_of, held_dtype, hold, poison
from mosaic_tpu.sim.xla._untyped import jnp, lax
from mosaic_tpu.sim.xla._views import Root

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Blocks:
    """How an operand is cut into windows.

    Attributes:
        bounds: the window's shape.
        transform: gives the window's place from the grid's indices.
        scaled: whether that place counts windows; elements otherwise.
        low: elements of padding before the array, a dimension each.
        high: after it.
    """

    bounds: Shape
    transform: Function
    scaled: bool = True
    low: Shape = ()
    high: Shape = ()

    def padding(self, shape: Shape) -> list[tuple[int, int, int]]:
        """What to add to an array so that every window is inside."""
        if self.scaled:
            return [(0, -size % block, 0) for size, block in zip(shape, self.bounds, strict=True)]
        return [(low, high, 0) for low, high in zip(self.low, self.high, strict=True)]


@dataclass(eq=False)
class Operand:
    """An input or output of the kernel.

    Attributes:
        argument: the kernel's argument.
        root: the array, padded.
        shape: of the array as the caller knows it.
        blocks: its windows; ``None`` where the kernel sees the array itself.
        window: where the current window is.
        is_output: whether windows are written back.
    """

    argument: Value
    root: Root
    shape: Shape
    blocks: Blocks | None
    is_output: bool
    window: Root = field(init=False)

    def __post_init__(self) -> None:
        element = self.argument.type.element
        self.window = self.root if self.blocks is None else Root("window", self.blocks.bounds, element)

    @property
    def low(self) -> Shape:
        """Where the array starts in its root."""
        return self.blocks.low if self.blocks is not None and self.blocks.low else (0,) * len(self.shape)


_NO_GRID: Final = "give as many arrays as the custom call takes: bounds of the grid, scalar prefetch, inputs"


@dataclass
class Signature:
    """The arguments of a kernel by what they are for."""

    bounds: tuple[int, ...]
    indices: tuple[Value, ...]
    prefetch: tuple[Value, ...]
    arrays: tuple[Value, ...]
    scratch: tuple[Value, ...]
    windows: list[Blocks | None]

    @classmethod
    def of(cls, module: Module) -> Signature:
        """Read from the kernel's attributes."""
        kernel = module.kernel
        attributes = kernel.attributes
        bounds = attributes.integers("iteration_bounds")
        prefetch = attributes.integer("scalar_prefetch", 0)
        scratch = attributes.integer("scratch_operands", 0)
        arguments = kernel.arguments
        start, end = len(bounds), len(arguments) - scratch
        arrays = arguments[start + prefetch : end]
        windows = [_blocks(module, text) for text in attributes.array("window_params")] or [None] * len(arrays)
        if len(windows) != len(arrays):
            raise ModuleFormatError(f"{len(windows)} window_params for {len(arrays)} operands", op="func.func")
        named = arguments[:start], arguments[start : start + prefetch], arrays, arguments[end:]
        return cls(bounds, *named, windows)

    @property
    def dynamic(self) -> int:
        """How many bounds of the grid are operands of the call."""
        return sum(b == DYNAMIC for b in self.bounds)

    def check(self, inputs: int, outputs: int) -> None:
        """Whether a call gives and takes as many arrays as there are arguments."""
        expected = self.dynamic + len(self.prefetch) + len(self.arrays)
        if inputs + outputs != expected:
            raise ModuleFormatError(
                f"{inputs} inputs and {outputs} outputs, the kernel has {expected} operands",
                op="func.func",
                hint=_NO_GRID,
            )


def _blocks(module: Module, text: str) -> Blocks | None:
    attributes = parse_attributes(text.strip()[1:-1])
    if "transform_indices" not in attributes:
        return None
    transform = module.functions[attributes.text("transform_indices").lstrip("@").strip('"')]
    bounds = attributes.integers("window_bounds")
    kind = attributes.text("window_kind")
    if "element_window" not in kind:
        return Blocks(bounds, transform)
    low, high = (integers(part) for part in split(kind[kind.index("<") + 1 : kind.rindex(">")]))
    return Blocks(bounds, transform, False, low, high)


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


def padded(x: Array, blocks: Blocks | None, element: str) -> Array:
    """With poison around it, so that every window is inside."""
    if blocks is None:
        return x
    padding = blocks.padding(x.shape)
    return x if not any(low or high for low, high, _ in padding) else lax.pad(x, poison(element), padding)


def unpadded(x: Array, operand: Operand) -> Array:
    """The array without what surrounds it."""
    low = operand.low
    return lax.slice(x, low, [a + b for a, b in zip(low, operand.shape, strict=True)])


def padded_shape(shape: Sequence[int], blocks: Blocks | None) -> Shape:
    """The shape after `padded`."""
    if blocks is None:
        return tuple(shape)
    return tuple(size + low + high for size, (low, high, _) in zip(shape, blocks.padding(tuple(shape)), strict=True))
