"""Running a module on the reference engine."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mosaic_tpu.sim._blas import one_thread
from mosaic_tpu.sim._compile import Compiled, compiled
from mosaic_tpu.sim._core import Core, share
from mosaic_tpu.sim._effects import whole_tiles
from mosaic_tpu.sim._fenv import default_environment
from mosaic_tpu.sim._grid import pipeline, run_grid, steps
from mosaic_tpu.sim._layout import Argument, Layout, Spec, layout
from mosaic_tpu.sim._machine import Machine, Run
from mosaic_tpu.sim._memory import Array, Buffer, new_array, semaphores
from mosaic_tpu.sim._module import Module
from mosaic_tpu.sim._options import Options
from mosaic_tpu.sim._record import RecordedCounts
from mosaic_tpu.sim._types import DYNAMIC
from mosaic_tpu.sim.errors import (
    HazardError,
    InputError,
    InternalError,
    LimitError,
    SimulationError,
    UnsupportedOpError,
)


@dataclass
class Outcome:
    """What a run left behind."""

    machine: Machine
    compiled: Compiled
    layout: Layout
    outputs: list[list[Array]]


def run(module: Module, inputs: Sequence[Sequence[Any]], outputs: Sequence[Spec] | None, options: Options) -> Outcome:
    """Run a module on as many devices as there are lists of inputs.

    Raises:
        SimulationError: of the kind that the run ended in.
    """
    code: Compiled | None = None
    try:
        code = compiled(module, checks=options.checks, several=len(inputs) * options.cores > 1)
        wanted = outputs if outputs is not None else module.call.outputs
        plan = layout(module, len(inputs[0]), None if wanted is None else len(wanted))
        machine = Machine(module, options, len(inputs))
        results = [_device(machine, code, plan, d, given, wanted) for d, given in enumerate(inputs)]
        with one_thread(), default_environment(), np.errstate(all="ignore"):
            _run(machine)
    except SimulationError:
        raise
    except Exception as error:
        raise _explained(error, module, code, options) from error
    return Outcome(machine, code, plan, results)


def _run(machine: Machine) -> None:
    try:
        machine.run()
    except HazardError as error:
        if not machine.options.collect:
            raise
        if error not in machine.hazards:
            machine.hazards.append(error)


def _explained(error: Exception, module: Module, code: Compiled | None, options: Options) -> SimulationError:
    """An error of ours for one of Python's or NumPy's."""
    if isinstance(error, MemoryError) or "array is too big" in str(error):
        return LimitError(
            "the arrays and buffers do not fit into memory",
            op=module.name,
            hint="simulate the kernel at smaller shapes",
        )
    if isinstance(error, RecursionError | SyntaxError):  # Python nests at most 20 loops
        return UnsupportedOpError(
            "the kernel's loops, branches or calls are nested too deeply", op=module.name, hint="nest fewer of them"
        )
    op = code.culprit(error) if code is not None else None
    name, location = (op.name, module.line(op)) if op is not None else (module.name, None)
    return InternalError(f"{type(error).__name__}: {error}", op=name, location=location, seed=options.seed)


def _device(
    machine: Machine, code: Compiled, plan: Layout, device: int, given: Sequence[Any], wanted: Sequence[Spec] | None
) -> list[Array]:
    """Make the memory and the cores of one device; its output arrays."""
    options = machine.options
    module = machine.module
    grid = grid_bounds(module, plan, given)
    arrays = [as_array(module, a) for a in given[plan.dynamic :]]
    hbm, outputs = _arrays(module, plan, arrays, wanted, device, options)
    contended = _contended(module, plan)
    for index in range(options.cores):
        core = Core(machine, device, index)
        blocks = code.sources[module.name].blocks
        core.counts = [0] * len(blocks) if machine.record is None else RecordedCounts(blocks, machine.record)
        core.grid = grid
        machine.cores.append(core)
        _equip(core, code, plan, grid, hbm, contended)
        core.reserve("hbm", sum(b.array.size * b.bits // 8 for b in {id(b): b for b in hbm}.values()))
    return outputs


def grid_bounds(module: Module, plan: Layout, given: Sequence[Any]) -> tuple[int, ...]:
    """The grid of a call, some of whose bounds are its first operands."""
    dynamic = iter(given[: plan.dynamic])
    bounds: list[int] = []
    for bound in plan.grid:
        if bound == DYNAMIC:
            value = as_array(module, next(dynamic))
            if value.size != 1 or value.dtype.kind not in "iu" or value.reshape(()) < 0:
                shown = value.item() if value.size == 1 else f"{value.dtype}{list(value.shape)}"
                raise InputError(f"a bound of the grid is {shown}", op=module.name, hint="give an int32, 0 or more")
            bound = int(value.reshape(()))
        bounds.append(bound)
    return tuple(bounds)


def as_array(module: Module, value: Any) -> Array:
    """What a caller gives, as NumPy's."""
    try:
        return np.asarray(value)
    except Exception as error:
        raise InputError(
            f"a {type(value).__name__} cannot be made an array: {error}",
            op=module.name,
            hint="give NumPy or JAX arrays",
        ) from None


def _arrays(
    module: Module, plan: Layout, arrays: list[Array], wanted: Sequence[Spec] | None, device: int, options: Options
) -> tuple[list[Buffer], list[Array]]:
    """Buffers of the arguments that are arrays, and the outputs among them."""
    hbm: list[Buffer] = []
    outputs: list[Array] = []
    inputs = plan.role("prefetch", "input")
    aliased = {source - plan.dynamic for source in module.call.aliases.values()}
    for i, (argument, array) in enumerate(zip(inputs, arrays, strict=True)):
        array = fitted(module, argument, array)
        # Windows and prefetch are copied as they are fetched; what else the kernel writes to must not be the caller's.
        written = i in aliased or (argument.role == "input" and argument.window is None)
        hbm.append(_buffer(argument, np.array(array, order="C") if written else array, device))
    for i, argument in enumerate(plan.role("output")):
        shape, dtype = output_spec(module, argument, None if wanted is None else wanted[i])
        source = module.call.aliases.get(i)
        if source is not None:
            buffer = hbm[source - plan.dynamic]
        else:
            buffer = _buffer(argument, new_array(shape, dtype, options.fill), device)
            buffer.blank = True
        outputs.append(buffer.array)
        hbm.append(buffer)
    _pad(plan, hbm, options.fill)
    return hbm, [_logical(array, buffer) for array, buffer in zip(outputs, hbm[len(inputs) :], strict=True)]


def _pad(plan: Layout, hbm: list[Buffer], fill: int) -> None:
    """Give arrays whose slices may reach into the padding of the last tile that padding; nobody knows what it holds."""
    for argument, buffer in zip(plan.role("prefetch", "input", "output"), hbm, strict=True):
        if argument.padded and buffer.array.shape == argument.type.shape:
            whole = new_array(whole_tiles(argument.type), buffer.array.dtype, fill)
            whole[tuple(map(slice, buffer.array.shape))] = buffer.array
            buffer.array = whole


def _logical(array: Array, buffer: Buffer) -> Array:
    """An output without its padding."""
    return array if buffer.array is array else buffer.array[tuple(map(slice, array.shape))]


def _buffer(argument: Argument, array: Array, device: int) -> Buffer:
    space = argument.type.space if argument.window is None else "hbm"
    return Buffer(argument.name, space, array, device=device, key=argument.name, bits=argument.type.bits)


def fitted(module: Module, argument: Argument, array: Array) -> Array:
    """An array that is given for an argument, in the dtype the kernel sees.

    Raises:
        InputError: it does not fit.
    """
    array = array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))
    wanted = argument.type.dtype
    if _holds_booleans(wanted, array.dtype):
        array = array.astype(wanted)
    signless = array.dtype.kind in "iu" and wanted.kind in "iu" and array.dtype.itemsize == wanted.itemsize
    if array.dtype != wanted and not signless and not _same_storage(array.dtype, wanted):
        raise InputError(
            f"{argument.name} is {array.dtype}{list(array.shape)}, the kernel takes {wanted}", op=module.name
        )
    shape = argument.type.shape
    exact = argument.window is None or argument.window.transform is None
    if array.ndim != len(shape) or (exact and array.shape != shape and DYNAMIC not in shape):
        raise InputError(
            f"{argument.name} is {array.dtype}{list(array.shape)}, the kernel takes {list(shape)}"
            + ("" if exact else " blocks"),
            op=module.name,
        )
    return array if array.dtype == wanted else array.view(wanted)


def _holds_booleans(held: np.dtype[Any], given: np.dtype[Any]) -> bool:
    """Whether an array of booleans meets memory of i32, which is how kernels hold them."""
    return given == np.bool_ and held == np.int32


def typed(array: Array, dtype: np.dtype[Any]) -> Array:
    """An output in the dtype that the call gives it."""
    if array.dtype == dtype:
        return array
    return array != 0 if _holds_booleans(array.dtype, dtype) else array.view(dtype)


def _same_storage(a: np.dtype[Any], b: np.dtype[Any]) -> bool:
    return a.itemsize == b.itemsize and {a.name, b.name} in ({"uint4", "int4"}, {"uint2", "int2"}, {"bool", "int8"})


def output_spec(module: Module, argument: Argument, given: Spec | None) -> Spec:
    window = argument.window
    if given is not None:
        shape, dtype = tuple(given[0]), np.dtype(given[1])
        held = argument.type.dtype
        fits = dtype.itemsize == held.itemsize or _holds_booleans(held, dtype)
        if not fits or len(shape) != len(argument.type.shape):
            raise InputError(
                f"the output {argument.name} is said to be {dtype}{list(shape)}, the kernel writes {argument.type}",
                op=module.name,
            )
        return shape, held
    if window is not None and window.transform is not None:
        raise InputError(
            f"the shape of the output {argument.name} is not known, only that of its blocks",
            op=module.name,
            hint="pass outputs=[(shape, dtype), …]",
        )
    return argument.type.shape, argument.type.dtype


def _contended(module: Module, plan: Layout) -> bool:
    """Whether windows and the kernel's own DMAs may meet in one array."""
    return bool(module.call.aliases) and any(a.window is not None for a in plan.role("input", "output"))


def _equip(core: Core, code: Compiled, plan: Layout, grid: tuple[int, ...], hbm: list[Buffer], contended: bool) -> None:
    """Give a core its memory and its program."""
    holders: list[Any] = []
    prefetch: list[Any] = []
    arrays = iter(hbm)
    for argument in plan.arguments:
        if argument.role == "scratch":
            holders.append(_scratch(core, argument))
        elif argument.role == "prefetch":
            source = next(arrays)
            own = Buffer(source.name, "smem", source.array.copy(), device=core.device, key=source.key)
            core.buffers[own.key] = own
            core.reserve("smem", own.array.nbytes)
            holders.append(own)
            prefetch += (own.array, own)
        elif argument.window is None:
            buffer = next(arrays)
            core.buffers[buffer.key] = buffer
            holders.append(buffer)
        else:
            buffer = next(arrays)
            transform = _transform(core, code, argument, prefetch)
            holders.append(pipeline(core, argument, buffer, transform, queued=contended))
            for slot in holders[-1].slots:
                core.buffers[slot.key] = slot
    options = core.machine.options
    if core.clock is not None and core.checks:
        _share(core, plan, hbm)
    shuffle = random.Random(options.seed) if options.shuffle else None
    order = steps(grid, plan.semantics, shuffle, core.index, options.cores)

    def program() -> Run:
        yield from run_grid(core, code.kernel, code.waits, order, holders)

    core.program = program


def _share(core: Core, plan: Layout, hbm: list[Buffer]) -> None:
    """Keep the history of what others reach: what remote DMAs write, and arrays of a device with several cores."""
    arguments = zip(plan.role("prefetch", "input", "output"), hbm, strict=True)
    filled = {buffer.key for argument, buffer in arguments if argument.role != "output"}
    buffers = list(core.buffers.values())
    reached = [b for b in buffers if core.machine.reaches(b.key)] + (hbm if core.machine.options.cores > 1 else [])
    for buffer in reached:
        if buffer.history is None:
            share(buffer, filled=buffer.key in filled)


def _scratch(core: Core, argument: Argument) -> Any:
    if argument.type.is_semaphore:
        array = semaphores(argument.type, argument.name, core.device, argument.name)
        core.semaphores.update({s.key: s for s in array.flat})
        return array
    array = new_array(argument.type.shape, argument.type.dtype, core.machine.options.fill)
    space = argument.type.space or "vmem"
    buffer = Buffer(argument.name, space, array, device=core.device, key=argument.name, bits=argument.type.bits)
    buffer.blank = True
    core.buffers[buffer.key] = buffer
    core.reserve(space, argument.type.size * argument.type.bits // 8)
    return buffer


def _transform(
    core: Core, code: Compiled, argument: Argument, prefetch: list[Any]
) -> Callable[[tuple[int, ...]], tuple[int, ...]]:
    assert argument.window is not None
    if argument.window.transform is None:
        zeros = (0,) * len(argument.window.bounds)
        return lambda ids: zeros
    function = code.functions[argument.window.transform]
    quiet = Core(core.machine, core.device, core.index)
    quiet.grid = core.grid
    quiet.counts = [0] * len(code.sources[argument.window.transform].histograms)
    return lambda ids: function(quiet, *ids, *prefetch)
