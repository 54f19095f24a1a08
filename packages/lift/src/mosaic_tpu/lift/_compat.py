"""Everything that lift takes from jaxlib. Nothing else imports it.

===============================  ==========================================================================
name                             if it moves
===============================  ==========================================================================
``jaxlib.mlir.ir``               the MLIR Python bindings; any build of them with the same C API will do
``jaxlib.mlir.passmanager``      runs ``mosaic-serde`` and ``strip-debuginfo``; part of the same bindings
===============================  ==========================================================================
"""

from __future__ import annotations

import io
from typing import Any, Final, cast

from jaxlib.mlir import ir
from jaxlib.mlir.passmanager import PassManager

from mosaic_tpu.builder import MosaicModule
from mosaic_tpu.builder._compat import FORWARD_COMPATIBLE_IR_VERSION as FORWARD_COMPATIBLE_IR_VERSION
from mosaic_tpu.sim.ir import names_of, new_context

MLIRError: Final = ir.MLIRError
_open_ir: Final = cast("Any", ir)
_VERSION: Final = "stable_mosaic.version"


def stripped(data: bytes | str, version: int | None) -> bytes:
    """A module in the stable form of a version, without its locations, as bytecode.

    A module that is in a stable form stays as it is, but for the locations.

    Raises:
        MLIRError: an op does not exist in that version.
    """
    context = new_context()
    with context, ir.Location.unknown():
        module: Any = ir.Module.parse(data)
        attributes = module.operation.attributes
        if "func.func" in names_of(module):
            if _VERSION in attributes:  # the mark stays when a module leaves the form
                del attributes[_VERSION]
            _serialize(module.operation, version)
        return _written(module.operation)


def rewritten(data: bytes | str, version: int | None) -> bytes:
    """A module, read to the end and written again.

    Raises:
        MLIRError: an op does not exist in that version.
    """
    context = new_context()
    with context, ir.Location.unknown():
        module: Any = ir.Module.parse(data)
        if "func.func" not in names_of(module):
            PassManager.parse("builtin.module(mosaic-serde{serialize=false})").run(module.operation)
        if _VERSION in module.operation.attributes:
            del module.operation.attributes[_VERSION]
        _serialize(module.operation, version)
        return _written(module.operation)


def stripped_module(module: MosaicModule, version: int | None) -> bytes:
    """What the builder made, in the same form."""
    operation: Any = module.module.operation
    context: Any = operation.context
    before = context.allow_unregistered_dialects
    context.allow_unregistered_dialects = True
    try:
        with context, ir.Location.unknown():
            clone = operation.clone(ip=False)
            _serialize(clone, version)
            return _written(clone)
    finally:
        context.allow_unregistered_dialects = before


def _serialize(operation: Any, version: int | None) -> None:
    target = "" if version is None else f" target-version={version}"
    pipeline = PassManager.parse(f"builtin.module(mosaic-serde{{serialize=true{target}}})")
    pipeline.enable_verifier(False)
    pipeline.run(operation)


def _written(operation: Any) -> bytes:
    PassManager.parse("builtin.module(strip-debuginfo)").run(operation)
    buffer = io.BytesIO()
    operation.write_bytecode(buffer, desired_version=0)
    return buffer.getvalue()


def is_registered(context: Any, name: str) -> bool:
    """Whether the installed jaxlib knows an op."""
    return bool(context.is_registered_operation(name))
