"""What a kernel's function says of its arguments: grid, scalar prefetch, windows, scratch."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from mosaic_tpu.sim._effects import overhanging
from mosaic_tpu.sim._module import Module
from mosaic_tpu.sim._types import DYNAMIC, Type, integers, parse_attributes, split
from mosaic_tpu.sim.errors import InputError, ModuleFormatError, UnsupportedOpError

type Spec = tuple[tuple[int, ...], np.dtype[Any]]
#: Memory that no window is made for: the kernel gets the array itself.
DIRECT: Final = ("any", "hbm", "semaphore_mem", "vmem_shared", "host")


@dataclass(frozen=True)
class Window:
    """How an argument's blocks are found.

    Attributes:
        bounds: the block's shape.
        transform: the function from grid indices to block indices; ``None`` for one block that is all of the array.
        synchronous: one buffer, not two.
        element: indices count elements, not blocks.
        pad_low: elements before the array that a window may cover, by dimension, where indices count elements.
        pad_high: those after it.
    """

    bounds: tuple[int, ...]
    transform: str | None
    synchronous: bool = True
    element: bool = False
    pad_low: tuple[int, ...] = ()
    pad_high: tuple[int, ...] = ()


@dataclass(frozen=True)
class Argument:
    """An argument of the kernel's function.

    Attributes:
        name: for messages.
        type: its memref type: one block where there is a window.
        role: ``"prefetch"``, ``"input"``, ``"output"`` or ``"scratch"``.
        window: how blocks are found; ``None`` where the kernel gets the array itself.
        padded: whether it gets the rest of the array's last tile too.
    """

    name: str
    type: Type
    role: str
    window: Window | None = None
    padded: bool = False


@dataclass(frozen=True)
class Layout:
    """All of it.

    Attributes:
        grid: bounds of the grid; `DYNAMIC` where the call gives them.
        semantics: of each dimension, ``"parallel"`` …
        arguments: what follows the grid indices.
    """

    grid: tuple[int, ...]
    semantics: tuple[str, ...]
    arguments: tuple[Argument, ...]

    @property
    def dynamic(self) -> int:
        """How many bounds of the grid come first among the inputs."""
        return sum(bound == DYNAMIC for bound in self.grid)

    def role(self, *roles: str) -> tuple[Argument, ...]:
        """Arguments of some roles."""
        return tuple(a for a in self.arguments if a.role in roles)


def layout(module: Module, inputs: int, outputs: int | None) -> Layout:
    """Roles of the arguments of a module that is called with a number of inputs, cached with it.

    Raises:
        InputError: there are not as many arguments.
    """
    key = ("layout", inputs, outputs, module.names)
    found = module.cache.get(key)
    if found is None:
        found = module.cache[key] = _layout(module, inputs, outputs)
    return found


def _layout(module: Module, inputs: int, outputs: int | None) -> Layout:
    kernel = module.kernel
    attributes = kernel.attributes
    grid = attributes.integers("iteration_bounds")
    prefetch = attributes.integer("scalar_prefetch", 0)
    scratch = attributes.integer("scratch_operands", 0)
    if prefetch < 0 or scratch < 0:
        raise ModuleFormatError("scalar_prefetch or scratch_operands is negative", op=module.name)
    types = [a.type for a in kernel.arguments]
    names = module.names
    indices = 0
    while indices < len(types) and types[indices].kind == "scalar" and indices < len(grid):
        indices += 1
    given = inputs - sum(bound == DYNAMIC for bound in grid)
    operands = len(types) - indices - prefetch - scratch
    if operands < 1:
        counts = f"{indices} are grid indices, scalar_prefetch is {prefetch} and scratch_operands {scratch}"
        summary = f"of {len(types)} arguments {counts}: that leaves no output"
        raise ModuleFormatError(summary, op=module.name, hint="look at the attributes of the kernel's function")
    if outputs is not None and outputs > operands:
        summary = f"{outputs} outputs are meant, and only {operands} of the kernel's arguments are arrays"
        raise InputError(summary, op=module.name)
    made = operands - (given - prefetch)
    if given < prefetch or made < 1 or (outputs is not None and made != outputs):
        wanted = f"{operands - outputs + prefetch}" if outputs is not None else f"fewer than {operands + prefetch}"
        end = len(types) - scratch - (outputs or 0)
        taken = ", ".join(names[indices:end])
        raise InputError(f"{given} arrays are given, and the kernel takes {wanted} ({taken})", op=module.name)
    windows = _windows(module, operands)
    roles = ["prefetch"] * prefetch + ["input"] * (given - prefetch) + ["output"] * made + ["scratch"] * scratch
    padded = overhanging(kernel)
    arguments = tuple(
        Argument(name, value.type, role, window, window is None and value.index in padded)
        for name, value, role, window in zip(
            names[indices:],
            kernel.arguments[indices:],
            roles,
            [None] * prefetch + windows + [None] * scratch,
            strict=True,
        )
    )
    semantics = tuple(
        re.findall(r"dimension_semantics<(\w+)>", attributes.text("dimension_semantics")) or ["arbitrary"] * len(grid)
    )
    return Layout(grid, semantics[len(semantics) - len(grid) :], arguments)


def _windows(module: Module, operands: int) -> list[Window | None]:
    kernel = module.kernel
    first = len(kernel.arguments) - operands - kernel.attributes.integer("scratch_operands", 0)
    types = [a.type for a in kernel.arguments[first : first + operands]]
    texts = kernel.attributes.array("window_params")
    if not texts:
        return [None if t.space in DIRECT else Window(t.shape, None) for t in types]
    if len(texts) != len(types):
        summary = f"window_params has {len(texts)} entries and the kernel {len(types)} operands"
        raise ModuleFormatError(summary, op=module.name)
    return [_window(text, type_) for text, type_ in zip(texts, types, strict=True)]


def _window(text: str, type_: Type) -> Window | None:
    attributes = parse_attributes(text.strip()[1:-1])
    if "transform_indices" not in attributes:
        return None if type_.space in DIRECT else Window(type_.shape, None)
    transform = attributes.text("transform_indices")
    if not transform.startswith("@"):
        raise UnsupportedOpError(f"transform_indices is {transform}", hint="Pallas writes a function's name")
    kind = attributes.text("window_kind")
    pads = split(kind.partition("<")[2][:-1]) if "element" in kind else []
    if "element" in kind and len(pads) != 2:
        raise ModuleFormatError(f"window_kind is {kind}", hint="Pallas writes #tpu.element_window<[…], […]>")
    return Window(
        integers(attributes.text("window_bounds")),
        transform[1:],
        "synchronous" in attributes.text("pipeline_mode"),
        bool(pads),
        *map(integers, pads),
    )
