"""Everything the simulator takes from jaxlib. Nothing else imports it.

===============================  ==========================================================================
name                             if it moves
===============================  ==========================================================================
``jaxlib.mlir.ir``               the MLIR Python bindings; any build of them with the same C API will do
``…_mlir_libs._tpu_ext``         ``register_dialect`` of the tpu dialect
``_jax_mlir_ext.register_…``     adds the upstream dialects to a registry; JAX's own context is made with it
``jaxlib.mlir.dialects``         ``register_dialect`` of stablehlo, chlo and sdy
``stablehlo.deserialize_…``      reads a portable artifact, which `jax.export` embeds; its text can be read otherwise
===============================  ==========================================================================
"""

from __future__ import annotations

from typing import Any, Final, cast

from jaxlib.mlir import ir as ir
from jaxlib.mlir._mlir_libs import _tpu_ext
from jaxlib.mlir._mlir_libs._jax_mlir_ext import register_dialects as _register_dialects
from jaxlib.mlir.passmanager import PassManager as PassManager

_tpu: Final[Any] = _tpu_ext
open_ir: Final = cast("Any", ir)


def new_context() -> ir.Context:
    """A context that holds the dialects of a Mosaic kernel."""
    registry = ir.DialectRegistry()
    _register_dialects(registry)
    context = ir.Context()
    context.append_dialect_registry(registry)
    for name in ("func", "arith", "math", "vector", "memref", "scf", "cf"):
        context.get_dialect_descriptor(name)  # loads it
    _tpu.register_dialect(context)
    context.allow_unregistered_dialects = True
    return context


def in_stable_form(module: Any) -> bool:
    """Whether a module's ops are those of stable_mosaic, the form in which a call holds it.

    Its mark, ``stable_mosaic.version``, does not tell: it stays when a module leaves that form.
    """
    return "func.func" not in _names_of(module)


def program_context() -> ir.Context:
    """A context that holds the dialects of a program too."""
    from jaxlib.mlir.dialects import chlo, sdy, stablehlo

    context = new_context()
    for dialect in (stablehlo, chlo, sdy):
        cast("Any", dialect).register_dialect(context)
    return context


def parse_program(text: str) -> Any:
    """A StableHLO module, verified.

    Raises:
        MLIRError: it is none, or has an op that no dialect knows.
    """
    context = program_context()
    context.allow_unregistered_dialects = False  # a kernel may have them; XLA knows none in a program
    return open_ir.Module.parse(text, context=context)


def is_portable(data: bytes) -> bool:
    """Whether bytecode is StableHLO's portable artifact: its producer's name stands behind MLIR's mark and version."""
    return data[5:].startswith(b"StableHLO_v") and data.startswith(b"ML\xefR")


def may_be_program(data: bytes) -> bool:
    """Whether bytecode may be of a program: a Mosaic module may have the word in its strings."""
    return is_portable(data) or b"stablehlo" in data


def parsed(data: bytes, context: ir.Context) -> Any:
    """The module of bytecode, or of a portable artifact.

    Raises:
        MLIRError, ValueError: it cannot be read.
    """
    if is_portable(data):
        from jaxlib.mlir.dialects import stablehlo

        return cast("Any", stablehlo).deserialize_portable_artifact(context, data)
    return open_ir.Module.parse(data, context=context)


def deserialize(module: Any) -> None:
    """From the stable_mosaic form to the dialects, in place, if it has the mark of that form and has not left it."""
    if "stable_mosaic.version" in module.operation.attributes and in_stable_form(module):
        context = module.context
        pipeline = PassManager.parse("builtin.module(mosaic-serde{serialize=false})", context=context)
        with open_ir.Location.unknown(context):
            pipeline.run(module.operation)


def _names_of(module: Any) -> list[str]:
    """The names of the ops right in a module. Iterating makes MLIR look for each dialect's Python, every time."""
    names: list[str] = []

    def see(operation: Any) -> Any:
        if operation == module.operation:
            return open_ir.WalkResult.ADVANCE
        names.append(operation.name)
        return open_ir.WalkResult.SKIP

    module.operation.walk(see, open_ir.WalkOrder.PRE_ORDER)
    return names


def generic_text(module: Any) -> str:
    """The generic form with locations."""
    operation = module.operation
    return operation.get_asm(print_generic_op_form=True, enable_debug_info=True, assume_verified=True)


def debug_text(module: Any) -> str:
    """The text with locations."""
    return module.operation.get_asm(enable_debug_info=True)
