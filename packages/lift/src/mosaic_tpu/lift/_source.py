"""Whatever holds a Mosaic module, read; and the bytes that lifted source has to give."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, cast

from mosaic_tpu.builder import MosaicModule, Role
from mosaic_tpu.lift._compat import FORWARD_COMPATIBLE_IR_VERSION, MLIRError, stripped, unmarked
from mosaic_tpu.lift._run import BuiltModule
from mosaic_tpu.lift.errors import ChoiceError, LiftError, NewerVersionError, SourceError
from mosaic_tpu.sim import ir
from mosaic_tpu.sim.errors import InternalError, SimulationError

_MAGIC: Final = b"ML\xefR"
_OP: Final = "lift"
_NEWEST: Final = re.compile(r"highest supported version is (\d+)")
_DETAIL: Final = re.compile(r"error: (?:\S+:\d+:\d+: )?(.*)")


@dataclass(frozen=True)
class Given:
    """A module to lift.

    Attributes:
        module: as data.
        data: as it came: text or bytecode.
        version: of Mosaic's stable form; ``None`` for the newest.
        outputs: how many results the call has, if it is known.
        shapes: of the call's arrays, scalar prefetch first, outputs last, those that are known.
    """

    module: ir.Module
    data: bytes | str = field(repr=False)
    version: int | None
    outputs: int | None = None
    shapes: tuple[tuple[int, ...] | None, ...] | None = None


def given(source: Any, kernel: str | int | None = None) -> Given:
    """Read a source.

    Args:
        source: a lowered kernel, a lowered or exported JAX function or its StableHLO in any form, or a Mosaic module:
            MLIR text, bytecode, the path of a file with either, or a module object.
        kernel: which kernel of a program, by its name or number.

    Raises:
        SourceError: there is no Mosaic module in it, or it is damaged.
        ChoiceError: the program holds several kernels, or not this one.
    """
    if callable(getattr(source, "emit", None)) and callable(getattr(source, "lower", None)):
        raise SourceError("a Kernel has as many bodies as configs", op=_OP, hint="give kernel.lower(cfg)")
    with readable():
        source = ir.contents(source)
    if isinstance(source, bytes | bytearray | memoryview):
        source = bytes(cast("bytes", source))
        if not source.startswith(_MAGIC):
            source = _decoded(source)
    with readable():
        text = ir.program_text(source)
        if text is not None:
            return _of_call(_chosen(ir.calls_of(text), kernel))
        if kernel is not None:
            raise ChoiceError("this is one module and no program", op=_OP, hint="leave kernel= out")
        return _of_module(source)


@contextlib.contextmanager
def readable() -> Generator[None]:
    """What the reader of modules says against one is said as our own error."""
    try:
        yield
    except LiftError:
        raise
    except InternalError as error:
        raise SourceError(f"the module cannot be read: {error.summary}", op=error.op or _OP) from error
    except SimulationError as error:
        newer = "Unsupported version: expected" in error.summary
        cls = NewerVersionError if newer else SourceError
        raise cls(
            error.summary, op=error.op or _OP, location=error.location, hint=None if newer else error.hint
        ) from None


def _chosen(calls: Sequence[ir.KernelCall], kernel: str | int | None) -> ir.KernelCall:
    names = [call.kernel_name or f"kernel {n}" for n, call in enumerate(calls)]
    listed = ", ".join(f"{n}: {name[:60]!r}" for n, name in enumerate(names))
    if isinstance(kernel, int) and not isinstance(kernel, bool):
        found = [calls[kernel]] if 0 <= kernel < len(calls) else []
    else:
        found = list(calls) if kernel is None else [c for c, n in zip(calls, names, strict=True) if n == kernel]
    if len({call.body for call in found}) != 1:
        what = f"holds {len(calls)} kernels" if found else f"holds no kernel {kernel!r}"
        raise ChoiceError(f"the program {what}", op=_OP, hint=f"kernel= takes a name or a number: {listed}")
    return found[0]


def _of_call(call: ir.KernelCall) -> Given:
    module = ir.module_of(call)
    dynamic = module.kernel.attributes.integers("iteration_bounds").count(ir.DYNAMIC)
    shapes = tuple(shape for shape, _ in (*call.inputs[dynamic:], *call.outputs))
    return Given(module, call.body, _version(module, call.body), len(call.outputs), shapes)


def _of_module(source: Any) -> Given:
    if isinstance(source, str):
        with contextlib.suppress(MLIRError):  # the reader says what is wrong
            source = unmarked(source)
    if isinstance(source, MosaicModule):
        return _of_built(source)
    module = ir.read(source)
    outputs = None
    if isinstance(source, str | bytes):
        data = source
    elif isinstance(getattr(source, "body", None), bytes):
        data, outputs = source.body, getattr(source, "outputs", None)
    else:
        data = _bytecode(source)
    return Given(module, data, _version(module, data), None if outputs is None else len(outputs))


def _of_built(source: MosaicModule) -> Given:
    """What the builder made, which knows the names and arrays of the arguments; and lifted source its version."""
    signature: Any = source.signature
    module, data = ir.read(source), _bytecode(source.module)
    version = source.ir_version if isinstance(source, BuiltModule) else _version(module, data)
    if signature is None:
        return Given(module, data, version)
    names = tuple(argument.name for argument in signature.arguments)
    outputs = signature.with_role(Role.OUTPUT)
    arrays = (*signature.with_role(Role.SCALAR_PREFETCH), *signature.with_role(Role.INPUT), *outputs)
    shapes = tuple(getattr(a.spec, "array_shape", None) for a in arrays)
    return Given(replace(module, names=names), data, version, len(outputs), shapes)


def _version(module: ir.Module, data: bytes | str) -> int | None:
    root = module.operations[0].attributes
    if "stable_mosaic.version" not in root:
        return _writable(data)
    version = root.integer("stable_mosaic.version")
    if version < 1:
        raise SourceError(f"the module is in version {version} of Mosaic's stable form, and the first is 1", op=_OP)
    return version


def _writable(data: bytes | str) -> int | None:
    """Modules that are in no stable form are written as Pallas would here and now, if their ops are in that version."""
    try:
        stripped(data, FORWARD_COMPATIBLE_IR_VERSION)
    except MLIRError:
        return None
    return FORWARD_COMPATIBLE_IR_VERSION


def _bytecode(module: Any) -> bytes:
    buffer = io.BytesIO()
    module.operation.write_bytecode(buffer)
    return buffer.getvalue()


def wanted(given: Given) -> bytes:
    """The bytes of a module without its locations, in the version it is written in."""
    try:
        return stripped(given.data, given.version)
    except (MLIRError, ValueError) as error:
        said = str(error).strip()
        if newest := _NEWEST.search(said):
            summary = f"the module is in version {given.version} of Mosaic's stable form, and jaxlib's newest is "
            raise NewerVersionError(summary + newest[1], op=_OP) from None
        detail = _DETAIL.search(said)
        why = detail[1] if detail else said.partition("\n")[0] or "unknown reason"
        raise SourceError(f"the module cannot be written in a stable form: {why}", op=_OP) from None


def _decoded(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise SourceError("these bytes are neither MLIR text nor bytecode", op=_OP) from None
