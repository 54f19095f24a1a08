"""Whatever holds kernels: a program or one Mosaic module."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Sequence
from typing import Any, Final

from mosaic_tpu.aot.errors import SourceError
from mosaic_tpu.sim import ir
from mosaic_tpu.sim.errors import SimulationError

_STORES: Final = ("vector.store", "tpu.vector_store", "tpu.strided_store", "memref.store", "tpu.store")


def opened(source: Any, op: str) -> tuple[Any, str | None]:
    """A source, the contents of the file if it names one, and its StableHLO text if it is a program.

    Args:
        source: a lowered kernel, a lowered or exported JAX function or its StableHLO in any form, or a Mosaic module:
            MLIR text, bytecode, the path of a file with either, or a module object.
        op: who asks.

    Raises:
        SourceError: it is a kernel that was not lowered, or a file that cannot be read.
    """
    if callable(getattr(source, "emit", None)) and callable(getattr(source, "lower", None)):
        raise SourceError("a Kernel has as many programs as configs", op=op, hint="give kernel.lower(cfg)")
    with readable(op):
        source = ir.contents(source)
    if not isinstance(source, str) and isinstance(text := getattr(source, "stablehlo", None), str):
        return source, ir.LoweredText(text)
    with readable(op):
        return source, ir.program_text(source)


@contextlib.contextmanager
def readable(op: str) -> Generator[None]:
    """What the reader of modules says against one is said as our own error."""
    try:
        yield
    except SimulationError as error:
        raise SourceError(error.summary, op=error.op or op, location=error.location, hint=error.hint) from None


def outputs_of(module: ir.Module) -> int:
    """How many outputs a module has that stands alone: the last operands, as far as the kernel writes them."""
    scratch = module.kernel.attributes.integer("scratch_operands", 0)
    arguments = module.kernel.arguments[: len(module.kernel.arguments) - scratch]
    written = {ir.base_of(ref).index for op in module.kernel.operation.walk() for ref in _targets(op)}
    count = 0
    for argument in reversed(arguments):
        if argument.index not in written:
            break
        count += 1
    return count


def _targets(op: ir.Operation) -> Sequence[ir.Value]:
    """The refs that an op writes."""
    if op.name == "tpu.enqueue_dma":
        return op.segments()[2]
    refs = [v for v in op.operands if v.type.kind == "memref"] if op.name in _STORES else []
    return refs[:1]
