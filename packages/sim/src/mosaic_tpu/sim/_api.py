"""`simulate` and `simulate_devices`: run a module and report."""

from __future__ import annotations

import operator
import time
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from mosaic_tpu.sim import _reference, _uninitialised
from mosaic_tpu.sim._core import Core
from mosaic_tpu.sim._fast import run_fast
from mosaic_tpu.sim._layout import Spec
from mosaic_tpu.sim._memory import Array
from mosaic_tpu.sim._module import Module
from mosaic_tpu.sim._options import Options, Timing
from mosaic_tpu.sim._order import compare_orders
from mosaic_tpu.sim._read import contents, module_of, program_text, read
from mosaic_tpu.sim._report import Report, merged
from mosaic_tpu.sim.errors import InputError, UndefinedResultError

type Engine = Literal["numpy", "xla"]


def simulate(
    source: Any,
    *inputs: Any,
    outputs: Sequence[tuple[tuple[int, ...], Any]] | None = None,
    engine: Engine = "numpy",
    seed: int = 0,
    dma: Timing = "random",
    checks: bool = True,
    collect: bool = False,
    compare_fills: bool = False,
    shuffle: bool = False,
    allow_unwritten: bool | Collection[str] = False,
    cores: int = 1,
    timeout: float | None = None,
    max_steps: int | None = None,
) -> Report:
    """Run a Mosaic module on the CPU, and look for what a TPU would not forgive.

    Products are the MXU's: f32 operands are rounded to bf16 unless the op asks for more (``precision="highest"``), and
    summed in f32. The engines sum in orders of their own.

    Args:
        source: whatever `read` takes, or a lowered JAX function with several kernels and other ops around them.
        *inputs: the arrays the custom call takes, in its order: bounds of a dynamic grid, scalar prefetch, inputs. Of
            a lowered JAX function, its arguments.
        outputs: shape and dtype of each output, where the source does not say them and they are made block by block.
        engine: ``"numpy"``, the reference, or ``"xla"``: jitted, for big shapes. It flags accesses out of bounds,
            failed assertions and undefined results (the reference engine then runs too, and what it finds is reported),
            and no other hazard; it prints nothing. It has no schedule, so ``seed``, ``dma`` and ``shuffle`` mean
            nothing to it; other options of the reference are refused.
        seed: of the schedule: when copies happen and who runs next.
        dma: when copies happen: ``"eager"`` at their start, ``"wait"`` as late as a wait allows, ``"random"`` between.
            Memory in flight is in flight until it is waited for, in each of them.
        checks: look for hazards.
        collect: gather hazards in the report instead of raising the first.
        compare_fills: run again with two other contents of uninitialised memory, and compare the outputs. Without it
            that is done, with one, only after a load that saw what looks unwritten or an undefined result, and where an
            output holds a NaN or what looks unwritten.
        shuffle: run parallel grid dimensions in a seeded order, and compare the outputs with those of the plain order.
        allow_unwritten: outputs may have elements that were never written, all or those with these names (the
            kernel's); the report counts them.
        cores: simulated cores of a device, which share ``core_parallel`` grid dimensions.
        timeout: seconds after which a kernel's run is given up.
        max_steps: loop iterations and grid steps after which it is given up.

    Returns:
        A `Report`.

    Raises:
        MissingJaxError: the engine or a program needs JAX, and it is not installed.
        ModuleFormatError: the source is no Mosaic module.
        UnsupportedOpError: the engine has no rule for an op.
        InputError: the arrays or options do not fit.
        HazardError: a subclass says which.
        LimitError: the time or step limit is reached.

    Example:
        >>> import numpy as np
        >>> from mosaic_tpu.sim import simulate
        >>> text = '''
        ... func.func @double(%x: memref<8x128xf32, #tpu.memory_space<vmem>>,
        ...                   %y: memref<8x128xf32, #tpu.memory_space<vmem>>) {
        ...   %c0 = arith.constant 0 : index
        ...   %0 = vector.load %x[%c0, %c0] : memref<8x128xf32, #tpu.memory_space<vmem>>, vector<8x128xf32>
        ...   %1 = arith.addf %0, %0 : vector<8x128xf32>
        ...   vector.store %1, %y[%c0, %c0] : memref<8x128xf32, #tpu.memory_space<vmem>>, vector<8x128xf32>
        ...   return
        ... }'''
        >>> report = simulate(text, np.ones((8, 128), np.float32))
        >>> report.outputs[0].sum(), report.hazards
        (np.float32(2048.0), ())
    """
    options = Options(
        seed=seed,
        dma=dma,
        checks=checks,
        collect=collect,
        shuffle=shuffle,
        allow_unwritten=allow_unwritten,
        cores=cores,
        timeout=timeout,
        max_steps=max_steps,
    )
    _check(engine, compare_fills)
    if engine == "xla":
        _check_for_xla(compare_fills, options)
    source = contents(source)
    if (text := program_text(source)) is not None:
        if outputs is not None:
            raise InputError("a program says itself what its outputs are", op="simulate", hint="leave outputs out")
        return _program(text, inputs, engine, options, compare_fills)
    return _one(read(source), [inputs], _output_specs(outputs), engine, options, compare_fills)


def recorded(module: Module, *inputs: Any, timeout: float | None = None) -> Report:
    """Run a module on one core, without looking for hazards, and keep in the report's ``record`` what happens.

    Args:
        module: as `mosaic_tpu.sim.ir.read` makes it.
        *inputs: the arrays the custom call takes, as in `simulate`.
        timeout: seconds after which the run is given up.

    Raises:
        SimulationError: as `simulate` raises.
    """
    return _one(module, [inputs], None, "numpy", Options(checks=False, timeout=timeout, record=True), False)


def simulate_devices(
    source: Any,
    inputs: Sequence[Sequence[Any]],
    *,
    outputs: Sequence[tuple[tuple[int, ...], Any]] | None = None,
    seed: int = 0,
    dma: Timing = "random",
    checks: bool = True,
    collect: bool = False,
    compare_fills: bool = False,
    shuffle: bool = False,
    allow_unwritten: bool | Collection[str] = False,
    cores: int = 1,
    timeout: float | None = None,
    max_steps: int | None = None,
) -> Report:
    """Run a Mosaic module on several devices that talk to each other, on the reference engine.

    Args:
        source: whatever `read` takes.
        inputs: for each device, in order of logical device ids, the arrays its call takes.
        outputs: as in `simulate`, and so the other options.
        seed: also of the order in which devices run.
        dma: when copies happen.
        checks: look for hazards, among them races between devices.
        collect: gather hazards in the report.
        compare_fills: run again with two other contents of uninitialised memory.
        shuffle: run parallel grid dimensions in a seeded order, and compare the outputs with those of the plain order.
        allow_unwritten: outputs may have elements that were never written, all or those with these names.
        cores: simulated cores of each device.
        timeout: seconds.
        max_steps: loop iterations and grid steps of all devices together.

    Returns:
        A `Report`, whose ``outputs_of[d]`` are the outputs of device ``d``.

    Raises:
        InputError: no device, or arrays that do not fit.
        SimulationError: as `simulate` raises.
    """
    options = Options(
        seed=seed,
        dma=dma,
        checks=checks,
        collect=collect,
        shuffle=shuffle,
        allow_unwritten=allow_unwritten,
        cores=cores,
        timeout=timeout,
        max_steps=max_steps,
    )
    _check("numpy", compare_fills)
    try:
        of_devices = [tuple(given) for given in inputs]
    except TypeError:
        of_devices = []
    if not of_devices:
        raise InputError("no device", op="simulate_devices", hint="one list of arrays for each device")
    if len({len(given) for given in of_devices}) != 1:
        raise InputError(
            "the devices get different numbers of arrays",
            op="simulate_devices",
            hint="give each device as many arrays as the others",
        )
    return _one(read(source), of_devices, _output_specs(outputs), "numpy", options, compare_fills)


def _check(engine: str, compare_fills: object) -> None:
    if engine not in ("numpy", "xla"):
        raise InputError(f"engine is {engine!r}", op="simulate", hint="'numpy' or 'xla'")
    if not isinstance(compare_fills, bool):
        raise InputError(f"compare_fills is {compare_fills!r}", op="simulate", hint="True or False")


def _check_for_xla(compare_fills: bool, options: Options) -> None:
    """Refuse what only the reference engine can do, so that nobody takes silence for a check."""
    asked = {
        "compare_fills": compare_fills,
        "cores": options.cores > 1,
        "timeout": options.timeout is not None,
        "max_steps": options.max_steps is not None,
    }
    for name, given in asked.items():
        if given:
            raise InputError(
                f'{name} is an option of engine="numpy"', op="simulate", hint="leave it out, or run with that engine"
            )


def _output_specs(outputs: Sequence[tuple[tuple[int, ...], Any]] | None) -> list[Spec] | None:
    """What is said of the outputs, checked."""
    if outputs is None:
        return None
    try:
        made = [(tuple(map(operator.index, shape)), np.dtype(dtype)) for shape, dtype in outputs]
    except (TypeError, ValueError):
        made = []
    if not made or any(n < 0 for shape, _ in made for n in shape):
        raise InputError(f"outputs is {outputs!r}", op="simulate", hint="(shape, dtype) of each output")
    return made


def _program(text: str, inputs: Sequence[Any], engine: Engine, options: Options, compare: bool) -> Report:
    from mosaic_tpu.sim._program import KernelCall, run_program

    kernels: list[Report] = []

    def run(call: KernelCall, operands: list[Array]) -> Sequence[Array]:
        module = module_of(call)
        report = _one(module, [operands], None, engine, options, compare)
        kernels.append(report)
        return report.outputs

    # Copies: what a program returns may be an argument of its own, or one array twice.
    outputs = [np.array(o) for o in run_program(text, list(inputs), run)]
    return merged(outputs, kernels)


def _one(
    module: Module,
    inputs: Sequence[Sequence[Any]],
    outputs: Sequence[Spec] | None,
    engine: Engine,
    options: Options,
    compare: bool,
) -> Report:
    started = time.perf_counter()
    if engine == "xla":
        return _fast(module, inputs[0], outputs, options, started)
    outcome = _reference.run(module, inputs, outputs, options)
    machine = outcome.machine
    stopped = bool(machine.hazards) and machine.hazards[-1] in machine.ended
    unwritten: dict[str, int] = {}
    if options.checks and not machine.hazards:  # after another hazard, what was not written may be its consequence
        again: _reference.Outcome | None = None
        doubtful = machine.doubts or machine.strays or _uninitialised.doubtful(module, outcome, options)
        # Only a run with other contents tells what depends on them.
        for fill in (1, 2) if compare else (1,) if doubtful else ():
            again = _reference.run(module, inputs, outputs, replace(options, fill=fill, collect=True))
            if _uninitialised.compare(module, outcome, again, options, asked=compare):
                break
        if options.shuffle:
            compare_orders(
                outcome, _reference.run(module, inputs, outputs, replace(options, shuffle=False, collect=True))
            )
        if not machine.doubts:
            unwritten = _uninitialised.unwritten(module, outcome, again, options)
    counts = [sum(c) for c in zip(*(c.counts for c in machine.cores), strict=True)]
    results = tuple(
        tuple(
            _reference.typed(a, np.dtype(spec[1]))
            for a, spec in zip(arrays, _specs(module, outputs, arrays), strict=True)
        )
        for arrays in outcome.outputs
    )
    return Report(
        kernel=module.name,
        engine="numpy",
        outputs=results[0],
        outputs_of=results,
        hazards=tuple(machine.hazards),
        seed=options.seed,
        steps=machine.steps,
        dmas=machine.dmas,
        dma_bytes=machine.dma_bytes,
        op_counts=dict(sorted(outcome.compiled.op_counts(counts).items())),
        region_counts=outcome.compiled.region_counts(counts),
        memory=_peaks(machine.cores),
        unwritten=unwritten,
        trace=tuple(machine.trace),
        dropped=machine.dropped,
        record=tuple(machine.record or ()),
        seconds=time.perf_counter() - started,
        options=_said(options, compare),
        stopped=stopped,
    )


def _said(options: Options, compare: bool) -> dict[str, Any]:
    """The options that make a run what it is."""
    allowed = options.allow_unwritten
    return {
        "dma": options.dma,
        "checks": options.checks,
        "compare_fills": compare,
        "shuffle": options.shuffle,
        "cores": options.cores,
        "allow_unwritten": allowed if isinstance(allowed, bool) else sorted(allowed),
    }


def _peaks(cores: Sequence[Core]) -> dict[str, int]:
    """The most that any core had in use of each memory space."""
    spaces = sorted({space for core in cores for space in core.peak})
    return {space: max(core.peak.get(space, 0) for core in cores) for space in spaces}


def _specs(module: Module, outputs: Sequence[Spec] | None, arrays: Sequence[Array]) -> Sequence[Spec]:
    given = outputs if outputs is not None else module.call.outputs
    return given if given is not None else [(a.shape, a.dtype) for a in arrays]


def _fast(
    module: Module, inputs: Sequence[Any], outputs: Sequence[Spec] | None, options: Options, started: float
) -> Report:
    arrays, hazard = run_fast(module, inputs, outputs, options)
    if isinstance(hazard, UndefinedResultError):
        # Whether an output depends on it the reference engine tells.
        hazard = next(
            iter(_one(module, [inputs], outputs, "numpy", replace(options, collect=True), False).hazards), None
        )
    if hazard is not None:
        hazard.seed = options.seed
        if not options.collect:
            raise hazard
    made = tuple(
        _reference.typed(a, np.dtype(spec[1])) for a, spec in zip(arrays, _specs(module, outputs, arrays), strict=True)
    )
    return Report(
        kernel=module.name,
        engine="xla",
        outputs=made,
        outputs_of=(made,),
        hazards=() if hazard is None else (hazard,),
        seed=options.seed,
        seconds=time.perf_counter() - started,
        options={"checks": options.checks},
    )
