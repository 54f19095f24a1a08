"""Running a module on the fast engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mosaic_tpu.sim._layout import Spec, layout
from mosaic_tpu.sim._memory import Array
from mosaic_tpu.sim._module import Module, Operation
from mosaic_tpu.sim._options import Options
from mosaic_tpu.sim._reference import as_array, fitted, grid_bounds, output_spec
from mosaic_tpu.sim.errors import (
    HazardError,
    InternalError,
    KernelAssertionError,
    LimitError,
    MissingJaxError,
    OutOfBoundsError,
    SimulationError,
    UndefinedResultError,
    UnsupportedOpError,
)


def run_fast(
    module: Module, inputs: Sequence[Any], outputs: Sequence[Spec] | None, options: Options
) -> tuple[list[Array], HazardError | None]:
    """The outputs, and what the run flagged first.

    Raises:
        MissingJaxError: JAX is not installed.
        UnsupportedOpError: an op has no rule, or another device is involved.
        InputError: the arrays do not fit.
    """
    run_xla = _engine()
    wanted = outputs if outputs is not None else module.call.outputs
    plan = layout(module, len(inputs), None if wanted is None else len(wanted))
    arrays = [as_array(module, a) for a in inputs]
    grid_bounds(module, plan, arrays)  # refuses what is none
    for i, argument in enumerate(plan.role("prefetch", "input"), plan.dynamic):
        arrays[i] = fitted(module, argument, arrays[i])
    specs = [
        output_spec(module, argument, None if wanted is None else wanted[i])
        for i, argument in enumerate(plan.role("output"))
    ]
    if any(a.size == 0 for a in arrays) or any(0 in shape for shape, _ in specs):
        raise UnsupportedOpError(
            "the fast engine does not run kernels on empty arrays", op=module.name, hint='run it with engine="numpy"'
        )
    try:
        result = run_xla(module, arrays, specs, checks=options.checks)
    except SimulationError:
        raise
    except Exception as error:
        if isinstance(error, OverflowError | MemoryError) or "RESOURCE_EXHAUSTED" in str(error):
            raise LimitError(
                "the arrays and buffers do not fit into memory", op=module.name, hint="simulate at smaller shapes"
            ) from None
        raise InternalError(
            f"{type(error).__name__}: {error}", op=module.name, hint='please report this, and use engine="numpy"'
        ) from error
    return list(result.outputs), None if result.failed is None else hazard_of(module, result.failed)


def _engine() -> Any:
    try:
        from mosaic_tpu.sim.xla import run_xla
    except ModuleNotFoundError as error:
        if error.name != "jax":
            raise
        raise MissingJaxError("the fast engine needs JAX", op="simulate") from None
    return run_xla


def hazard_of(module: Module, op: Operation) -> HazardError:
    """What the fast engine flags an op for."""
    line = module.line(op)
    if op.name == "cf.assert":
        message = op.attributes.string("msg", "assertion failed")
        return KernelAssertionError(message, op=op.name, location=line)
    if op.name == "func.return":
        return OutOfBoundsError("a window lies outside its array", op=module.name, location=line)
    if op.name.startswith(("arith.", "tpu.fpto", "tpu.assume_multiple")):
        return UndefinedResultError("the operands leave the result undefined", op=op.name, location=line)
    if op.name == "scf.for":
        return OutOfBoundsError("a loop whose step is not positive", op=op.name, location=line)
    return OutOfBoundsError(
        "an access outside its buffer", op=op.name, location=line, hint='engine="numpy" says which index, and of what'
    )
