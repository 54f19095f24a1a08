"""Running a module on the fast engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mosaic_tpu.sim._layout import Spec, layout
from mosaic_tpu.sim._memory import Array
from mosaic_tpu.sim._module import Module, Operation
from mosaic_tpu.sim._options import Options
from mosaic_tpu.sim._reference import fitted, output_spec
from mosaic_tpu.sim.errors import (
    HazardError,
    InternalError,
    KernelAssertionError,
    MissingJaxError,
    OutOfBoundsError,
    SimulationError,
    UndefinedResultError,
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
    arrays = [np.asarray(a) for a in inputs]
    for i, argument in enumerate(plan.role("prefetch", "input"), plan.dynamic):
        arrays[i] = fitted(module, argument, arrays[i])
    specs = [
        output_spec(module, argument, None if wanted is None else wanted[i])
        for i, argument in enumerate(plan.role("output"))
    ]
    try:
        result = run_xla(module, arrays, specs, checks=options.checks)
    except SimulationError:
        raise
    except Exception as error:
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
