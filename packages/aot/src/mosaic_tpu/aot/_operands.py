"""What a kernel takes and gives; and operands for a run that counts: the scalars given, zeros for the rest."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

import numpy as np

from mosaic_tpu.aot._program import Program, program_of
from mosaic_tpu.aot._source import readable
from mosaic_tpu.aot.errors import OptionError, SourceError
from mosaic_tpu.sim import Report, ir
from mosaic_tpu.sim.record import recorded

#: Memories of arguments whose arrays XLA may place: those that windows are made of, and those given as they are.
_PLACED: Final = ("any", "hbm", "vmem")

type Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Operand:
    """An array of a kernel's call.

    Attributes:
        name: of the kernel's argument.
        shape: of the whole array, not of a block.
        dtype: of its elements.
        role: ``"bound"`` of the grid, ``"prefetch"``, ``"input"`` or ``"output"``.
    """

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    role: str

    def __str__(self) -> str:
        return f"{self.name} {self.dtype}{list(self.shape)}"


def operands(source: Any) -> tuple[Operand, ...]:
    """The arrays of a kernel's call: what it takes, in order, then what it gives.

    Args:
        source: as `mosaic_tpu.aot.compile` takes it, with one kernel in it. Of a module without a call, the arrays are
            those that its windows cover.

    Raises:
        SourceError: there is not one kernel in the source, or its windows do not say the shapes.

    Example:
        >>> text = '''
        ... func.func @copy(%x: memref<8x128xf32, #tpu.memory_space<vmem>>,
        ...                 %y: memref<8x128xf32, #tpu.memory_space<vmem>>) {
        ...   %c0 = arith.constant 0 : index
        ...   %0 = vector.load %x[%c0, %c0] : memref<8x128xf32, #tpu.memory_space<vmem>>, vector<8x128xf32>
        ...   vector.store %0, %y[%c0, %c0] : memref<8x128xf32, #tpu.memory_space<vmem>>, vector<8x128xf32>
        ...   return
        ... }'''
        >>> [(str(o), o.role) for o in operands(text)]
        [('arg0 float32[8, 128]', 'input'), ('arg1 float32[8, 128]', 'output')]
    """
    call, module = only_kernel(program_of(source, op="operands"))
    layout = layout_of(call, module)
    names = [f"grid{n}" for n in range(layout.dynamic)]
    roles = ["bound"] * layout.dynamic
    for argument in layout.role("prefetch", "input", "output"):
        names.append(argument.name)
        roles.append(argument.role)
    specs = (*call.inputs, *call.outputs)
    return tuple(
        Operand(name, tuple(shape), np.dtype(dtype), role)
        for name, role, (shape, dtype) in zip(names, roles, specs, strict=True)
    )


def only_kernel(program: Program) -> tuple[ir.KernelCall, ir.Module]:
    """The call and module of a program's kernel.

    Raises:
        SourceError: there are several.
    """
    if len(program.calls) != 1:
        raise SourceError(
            f"the program has {len(program.calls)} kernels", op=program.name, hint="give one kernel, lowered alone"
        )
    return program.calls[0], program.modules[0]


def layout_of(call: ir.KernelCall, module: ir.Module) -> ir.Layout:
    """Roles and windows of a kernel's arguments."""
    with readable(module.name):
        return ir.layout(module, len(call.inputs), len(call.outputs))


def operands_in_hbm_of(program: Program) -> dict[str, Any]:
    """Which operands of a program's kernel can stay in HBM: all but its scalars; and how many results it has."""
    call, module = only_kernel(program)
    layout = layout_of(call, module)
    first = layout.dynamic + len(layout.role("prefetch"))
    inputs = layout.role("input")
    operands = [first + n for n, argument in enumerate(inputs) if argument.type.space in _PLACED]
    return {"operands": operands, "results": len(call.outputs)}


def scalar_names(call: ir.KernelCall, module: ir.Module) -> list[str]:
    """Names of the operands that decide trip counts: bounds of the grid, then the scalar prefetch."""
    layout = layout_of(call, module)
    return [f"grid{n}" for n in range(layout.dynamic)] + [a.name for a in layout.role("prefetch")]


def simulated(
    call: ir.KernelCall, module: ir.Module, scalars: Sequence[Any] | Mapping[str, Any], timeout: float | None = None
) -> Report:
    """The simulator's report of a run with these scalars and zeros elsewhere.

    Raises:
        OptionError: the scalars do not fit.
        SimulationError: the simulator cannot run it.
    """
    given = scalar_values(call, module, scalars)
    key = ("counted", *(array.tobytes() for array in given))
    found = module.cache.get(key)
    if found is None:  # the same counts serve every generation
        zeros = [np.zeros(shape, dtype) for shape, dtype in call.inputs[len(given) :]]
        found = module.cache[key] = recorded(module, *given, *zeros, timeout=timeout)
    return found


def scalar_values(call: ir.KernelCall, module: ir.Module, scalars: Sequence[Any] | Mapping[str, Any]) -> list[Array]:
    """The scalar operands as arrays, in their order.

    Raises:
        OptionError: the scalars do not fit.
    """
    names = scalar_names(call, module)
    made: list[Array] = []
    given = _in_order(arrays_of(scalars, module.name), names, module.name)
    for name, array, (shape, dtype) in zip(names, given, call.inputs, strict=False):
        fits = array.shape == shape and np.can_cast(array.dtype, dtype, "same_kind")
        if fits and not np.array_equal(array.astype(dtype), array):
            raise OptionError(
                f"the scalars {name!r} are beyond {dtype}", op=module.name, hint="give what the call gets"
            )
        if not fits:
            raise OptionError(
                f"the scalars {name!r} are {array.dtype}{list(array.shape)}, not {dtype}{list(shape)}",
                op=module.name,
                hint="give the values that the call would get",
            )
        made.append(array.astype(dtype))
    return made


def arrays_of(scalars: Any, op: str) -> list[Array] | dict[str, Array]:
    """Scalars as arrays, by their names where they have some, whatever kernel they are for.

    Raises:
        OptionError: they are no arrays of numbers.
    """
    hint = "scalars=[array, …] in the order of the operands, or by name"
    if isinstance(scalars, Mapping):
        named = cast("Mapping[Any, Any]", scalars)
        if not all(isinstance(name, str) for name in named):
            raise OptionError(f"scalars has the names {list(named)!r:.60}", op=op, hint=hint)
        return {name: _array(name, value, op) for name, value in named.items()}
    if isinstance(scalars, str | bytes) or not isinstance(scalars, Sequence):
        raise OptionError(f"scalars is {scalars!r:.60}", op=op, hint=hint)
    return [_array(n, value, op) for n, value in enumerate(cast("Sequence[Any]", scalars))]


def _array(name: str | int, value: Any, op: str) -> Array:
    with contextlib.suppress(ValueError, TypeError):  # rows of different lengths
        array = np.asarray(value)
        if array.dtype.kind not in "OSUMm":
            return array
    what = f"the scalars {name!r} are no array of numbers: {value!r:.60}"
    raise OptionError(what, op=op, hint="give arrays in the order of the operands, or by name, with rows of one length")


def _in_order(arrays: list[Array] | dict[str, Array], names: list[str], op: str) -> list[Array]:
    """The arrays in the order of the operands.

    Raises:
        OptionError: there are others than these, or not as many.
    """
    if isinstance(arrays, dict):
        if set(arrays) != set(names):
            raise OptionError(f"scalars names {sorted(arrays)}", op=op, hint=f"the kernel has {', '.join(names)}")
        return [arrays[name] for name in names]
    if len(arrays) != len(names):
        raise OptionError(
            f"{len(arrays)} scalar operands are given, the kernel has {len(names)}",
            op=op,
            hint=f"scalars=[{', '.join(names)}], a real batch" if names else "give none",
        )
    return arrays
