"""A finished module: its text to read and diff, and the bytes that Pallas would put into ``backend_config``."""

from __future__ import annotations

import codecs
import io
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mosaic_tpu.builder._compat import (
    FORWARD_COMPATIBLE_IR_VERSION,
    PassManager,
    communication,
    ir,
    new_context,
    unzip_debug_locations,
)
from mosaic_tpu.builder.errors import AttributeValueError, ModuleFormatError, VerificationError

if TYPE_CHECKING:
    from mosaic_tpu.builder._declare import Signature
    from mosaic_tpu.builder._types import Types


@dataclass(frozen=True)
class SerializedModule:
    """A module in the stable_mosaic form.

    Attributes:
        body: MLIR bytecode, base64 of which is ``custom_call_config.body``.
        debug_locations: the locations moved out of the body, or ``None`` when they stayed inside.
        ir_version: the stable_mosaic version, ``None`` for the newest the installed jaxlib writes.
        has_communication: the kernel talks to other devices.
        has_custom_barrier: the kernel uses the barrier semaphore, so its call needs a ``collective_id``.
    """

    body: bytes
    debug_locations: bytes | None
    ir_version: int | None
    has_communication: bool
    has_custom_barrier: bool


class MosaicModule:
    """What `Builder.finish` returns.

    Attributes:
        name: the kernel's function name.
        signature: arguments, grid and array shapes as declared.
    """

    def __init__(self, module: ir.Module, name: str, signature: Signature, types: Types) -> None:
        self._module: ir.Module | None = module
        self._types = types
        self.name = name
        self.signature = signature

    @property
    def module(self) -> ir.Module:
        """The MLIR module.

        Raises:
            ModuleFormatError: it was handed to ``serialize(keep=False)``.
        """
        if self._module is None:
            raise ModuleFormatError(
                "the module was consumed by serialize(keep=False)", op="module", hint="build it again, or keep it"
            )
        return self._module

    def text(self, *, canonical: bool = True, locations: bool = False) -> str:
        """The module as MLIR text.

        Args:
            canonical: after ``canonicalize,cse,canonicalize``, to read and diff; else as emitted.
            locations: with the kernel's file and line on every op.
        """
        operation = self.module.operation
        with self._types.context, self._types.unknown:
            if canonical:
                operation = operation.clone(ip=False)
                with self._types.unregistered():
                    PassManager.parse("builtin.module(canonicalize,cse,canonicalize)").run(operation)
            # Local scope writes each location where it is, and not in a table at the end.
            return str(operation.get_asm(enable_debug_info=locations, use_local_scope=locations)).rstrip() + "\n"

    def serialize(
        self, *, ir_version: int | None = FORWARD_COMPATIBLE_IR_VERSION, unzip: bool = True, keep: bool = True
    ) -> SerializedModule:
        """The bytes Pallas would emit for this module.

        Args:
            ir_version: the stable_mosaic version: 15 without a TPU backend and under jax.export, ``None`` for the
                newest.
            unzip: move the locations out of the body, as JAX 0.12 does unless it exports.
            keep: leave this object usable; ``False`` saves a clone.

        Raises:
            AttributeValueError: ``ir_version`` is no version.
            VerificationError: an op does not exist in that version.
        """
        if ir_version is not None and (type(ir_version) is not int or not 1 <= ir_version < 1 << 31):
            raise AttributeValueError(
                f"ir_version is {ir_version!r}", op="serialize", hint="a positive int, or None for the newest"
            )
        module = self.module
        context = self._types.context
        with context, self._types.unknown:
            operation = module.operation
            has_communication, has_custom_barrier = communication(operation)
            if keep:
                operation = operation.clone(ip=False)
            else:
                self._module = None
            target = "" if ir_version is None else f"target-version={ir_version}"
            with self._types.unregistered():
                pipeline = PassManager.parse(f"builtin.module(mosaic-serde{{serialize=true {target}}})")
                pipeline.enable_verifier(False)
                try:
                    pipeline.run(operation)
                except ir.MLIRError as error:
                    raise explain_verifier(error, "serialize(ir_version=None) writes the newest version") from None
                locations = unzip_debug_locations(operation.operation) if unzip else None
            buffer = io.BytesIO()
            operation.write_bytecode(buffer, desired_version=0)
        return SerializedModule(buffer.getvalue(), locations, ir_version, has_communication, has_custom_barrier)


def body_text(body: bytes | str, *, canonical: bool = False) -> str:
    """Serialized bytes, or text in either form, as readable MLIR text.

    MLIR's parser may never return from damaged bytes, and one flipped bit can be enough: read bytes that you do not
    trust in a process of their own, with a time limit.

    Args:
        body: bytecode or text of a Mosaic module.
        canonical: run ``canonicalize,cse,canonicalize`` too.

    Raises:
        ModuleFormatError: this is not a module the installed jaxlib can read.
    """
    if not isinstance(body, bytes | str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ModuleFormatError(f"a {type(body).__name__} is not a module", op="body_text")
    context = new_context()
    context.allow_unregistered_dialects = True
    with context, ir.Location.unknown():
        try:
            module = ir.Module.parse((body.encode() if isinstance(body, str) else body).removeprefix(codecs.BOM_UTF8))
            # The mark stays when a module leaves that form; its function tells.
            in_dialects = any(op.operation.name == "func.func" for op in module.body.operations)
            if "stable_mosaic.version" in module.operation.attributes and not in_dialects:
                PassManager.parse("builtin.module(mosaic-serde{serialize=false})").run(module.operation)
            if canonical:
                PassManager.parse("builtin.module(canonicalize,cse,canonicalize)").run(module.operation)
        except (ir.MLIRError, ValueError) as error:
            first = str(error).strip().splitlines()[0] if str(error).strip() else "unknown format"
            raise ModuleFormatError(
                f"not a Mosaic module this jaxlib can read: {first}",
                op="body_text",
                hint="give the decoded body of a tpu_custom_call, or text; a newer jaxlib may read newer versions",
            ) from None
        if not len(module.body.operations):
            raise ModuleFormatError("there is no function in the module", op="body_text")
        return str(module.operation.get_asm()).rstrip() + "\n"


_FILE_LINE = re.compile(r'"([^"]+)":(\d+):\d+')


def explain_verifier(error: ir.MLIRError, hint: str | None = None) -> VerificationError:
    """MLIR's diagnostics as one of our errors, at the kernel's line."""
    diagnostics = list(error.error_diagnostics)
    if not diagnostics:
        return VerificationError(str(error), op="verify")
    first = diagnostics[0]
    where = _FILE_LINE.search(str(first.location))
    named = re.match(r"'([\w.]+)' op (.*)", first.message, re.DOTALL)
    # The op itself stands in a note: see current operation: %1 = "tpu.assume_multiple"(%0) <{…}> : (i32) -> i32
    shown = " ".join(note.message for note in first.notes)
    quoted = re.search(r'"([\w.]+)"\(', shown)
    operands = re.findall(r" : \(([^()]+)\) -> ", shown)
    return VerificationError(
        (named[2] if named else first.message).strip(),
        op=(named[1] if named else quoted[1] if quoted else "verify").removeprefix("stable_mosaic."),
        operands=operands[-1:],
        location=f"{where[1]}:{where[2]}" if where else None,
        hint=hint,
    )
