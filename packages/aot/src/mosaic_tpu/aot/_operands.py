"""Operands for a run that counts: the scalars that are given, zeros for the rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from mosaic_tpu.aot._program import Program
from mosaic_tpu.aot._source import readable
from mosaic_tpu.aot.errors import OptionError, SourceError
from mosaic_tpu.sim import Report, ir, simulate

#: Memories of arguments whose arrays XLA may place: those that windows are made of, and those given as they are.
_PLACED: Final = ("any", "hbm", "vmem")


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
        found = module.cache[key] = simulate(module, *given, *zeros, checks=False, timeout=timeout)
    return found


def scalar_values(
    call: ir.KernelCall, module: ir.Module, scalars: Sequence[Any] | Mapping[str, Any]
) -> list[np.ndarray[Any, np.dtype[Any]]]:
    """The scalar operands as arrays, in their order.

    Raises:
        OptionError: the scalars do not fit.
    """
    names = scalar_names(call, module)
    made: list[np.ndarray[Any, np.dtype[Any]]] = []
    for name, value, (shape, dtype) in zip(names, _values(scalars, names, module.name), call.inputs, strict=False):
        array = _array(name, value, module.name)
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


def _array(name: str, value: Any, op: str) -> np.ndarray[Any, np.dtype[Any]]:
    try:
        return np.asarray(value)
    except ValueError:  # rows of different lengths
        what = f"the scalars {name!r} are no array: {value!r:.60}"
        raise OptionError(what, op=op, hint="rows of one length") from None


def _values(scalars: Sequence[Any] | Mapping[str, Any], names: list[str], op: str) -> list[Any]:
    if isinstance(scalars, Mapping):
        if set(scalars) != set(names):
            raise OptionError(f"scalars names {sorted(scalars)}", op=op, hint=f"the kernel has {', '.join(names)}")
        return [scalars[name] for name in names]
    if isinstance(scalars, str) or not isinstance(scalars, Sequence):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise OptionError(f"scalars is {scalars!r:.60}", op=op, hint="scalars=[array, …], or by name")
    if len(scalars) != len(names):
        raise OptionError(
            f"{len(scalars)} scalar operands are given, the kernel has {len(names)}",
            op=op,
            hint=f"in this order: {', '.join(names)}" if names else "give none",
        )
    return list(scalars)
