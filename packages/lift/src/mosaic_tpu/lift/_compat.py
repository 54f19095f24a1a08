"""Everything that lift takes from jaxlib. Nothing else imports it.

===============================  ==========================================================================
name                             if it moves
===============================  ==========================================================================
``jaxlib.mlir.ir``               the MLIR Python bindings; any build of them with the same C API will do
``jaxlib.mlir.passmanager``      runs ``mosaic-serde`` and ``strip-debuginfo``; part of the same bindings
``Traceback.raw_frames``         the code and the place in it of each frame; `sys._getframe` has them too
===============================  ==========================================================================
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from types import CodeType
from typing import Any, Final

from jaxlib.mlir import ir
from jaxlib.mlir.passmanager import PassManager

from mosaic_tpu.builder import MosaicModule
from mosaic_tpu.builder._compat import DROPS_IN_WHILE_LOOPS as DROPS_IN_WHILE_LOOPS
from mosaic_tpu.builder._compat import DYNAMIC_FORI_IS_ONE_LOOP as DYNAMIC_FORI_IS_ONE_LOOP
from mosaic_tpu.builder._compat import FORWARD_COMPATIBLE_IR_VERSION as FORWARD_COMPATIBLE_IR_VERSION
from mosaic_tpu.builder._compat import MODULE_HAS_NAME as MODULE_HAS_NAME
from mosaic_tpu.builder._compat import PALLAS_WAITS_WITH_WAIT_DMA as PALLAS_WAITS_WITH_WAIT_DMA
from mosaic_tpu.sim.ir import in_stable_form, new_context

MLIRError: Final = ir.MLIRError
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
        if not in_stable_form(module):
            if _VERSION in attributes:  # the mark stays when a module leaves the form
                del attributes[_VERSION]
            _serialize(module.operation, version)
        return _written(module.operation)


#: `#tpu.memory_space`, `!tpu.dma_semaphore`.
_DIALECT: Final = re.compile(r"[#!]([A-Za-z_]\w*)[.<]")
#: What the compiler marks the kernel's function with, and no stable form takes.
_MARK: Final = "tpu.main"


def unmarked(text: str) -> str:
    """The text of a module from a dump of the compiler, as it was before the compiler marked the kernel's function.

    Raises:
        MLIRError: it is no module.
    """
    if _MARK not in text:
        return text
    context = new_context()
    with context, ir.Location.unknown():
        module: Any = ir.Module.parse(text)
        for function in module.body.operations:
            if function.operation.name == "func.func" and _MARK in function.operation.attributes:
                del function.operation.attributes[_MARK]
        return module.operation.get_asm(enable_debug_info=True, print_generic_op_form=True)


def rewritten(data: bytes | str, version: int | None) -> bytes:
    """A module, read to the end and written again.

    Raises:
        MLIRError: an op does not exist in that version.
    """
    context = new_context()
    with context, ir.Location.unknown():
        module: Any = ir.Module.parse(data)
        if in_stable_form(module):
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


type _Position = tuple[int | None, int | None, int | None, int | None]


def locator(filename: str, context: Any) -> Callable[[Any], ir.Location]:
    """From a traceback to the location of its innermost frame in a file, in time that does not depend on the file.

    Python counts the lines of a function from its first one, each time that it is asked for one: of source with a
    function of many lines that is most of the time. Here they are counted once.
    """
    #: By the id of the code, whose hash takes as long as it is; the code beside it keeps it alive.
    known: dict[int, tuple[CodeType, list[_Position], dict[int, ir.Location]]] = {}

    def locate(traceback: Any) -> ir.Location:
        for code, at in zip(*traceback.raw_frames(), strict=True):
            if code.co_filename != filename:
                continue
            if id(code) not in known:
                known[id(code)] = code, [*code.co_positions()], {}
            _, positions, made = known[id(code)]
            if at not in made:
                made[at] = _location(filename, code.co_qualname, positions[int(at) // 2], context)
            return made[at]
        return ir.Location.unknown(context)

    return locate


def _location(filename: str, function: str, position: _Position, context: Any) -> ir.Location:
    line, last_line, column, last_column = (number or 0 for number in position)
    place = ir.Location.file(filename, line, column, last_line, last_column, context=context)
    return ir.Location.name(function, childLoc=place, context=context)


class Registered:
    """What the installed jaxlib knows of ops and dialects."""

    def __init__(self, context: Any) -> None:
        self._context = context
        self._ops: dict[str, bool] = {}
        self._dialects: dict[str, bool] = {}

    def op(self, name: str) -> bool:
        """Whether an op exists."""
        if name not in self._ops:
            self._ops[name] = bool(self._context.is_registered_operation(name))
        return self._ops[name]

    def all_dialects(self, text: str) -> bool:
        """Whether the dialects exist whose types and attributes a text holds."""
        return all(map(self._dialect, _DIALECT.findall(text)))

    def _dialect(self, name: str) -> bool:
        if name not in self._dialects:
            try:
                self._context.get_dialect_descriptor(name)
            except ValueError:
                self._dialects[name] = False
            else:
                self._dialects[name] = True
        return self._dialects[name]
