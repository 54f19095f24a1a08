"""From whatever holds a Mosaic module to plain data."""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, cast

from mosaic_tpu.sim import _binary, _compat, _probe
from mosaic_tpu.sim._files import contents_of
from mosaic_tpu.sim._module import Call, Module
from mosaic_tpu.sim._parse import parse
from mosaic_tpu.sim._types import unescaped
from mosaic_tpu.sim.errors import InternalError, ModuleFormatError, SimulationError

#: How deep brackets may be nested in text: MLIR's parser calls itself for each, and overflows the stack in the end.
_DEEPEST: Final = 1000
_LONE_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_HIGH_ESCAPE: Final = re.compile(r"\\[89A-Fa-f][0-9A-Fa-f]")
#: What some editors begin UTF-8 with.
_MARK: Final = "\ufeff"
_SUFFIXES: Final = (".mlir", ".mlirbc")
#: An op of a program. A Mosaic module may have the word in its names, its strings and its comments.
_STABLEHLO: Final = re.compile(r"(?<![@%#!$.\w])stablehlo\.[a-z]")
_STRING: Final = re.compile(r'"(?:[^"\\]|\\.)*"')
_QUOTED: Final = re.compile(r'"(?:[^"\\]|\\.)*"|//[^\n]*')
_MODULE: Final = "Mosaic module"
_PROGRAM: Final = "StableHLO program"
_GIVE: Final = {
    _MODULE: "the decoded body of a tpu_custom_call",
    _PROGRAM: "exported.mlir_module_serialized, the file of exported.serialize()",
}
_TRUSTED: Final[set[bytes]] = set()
#: Modules of programs, so that a program that runs again reads nothing.
_MODULES: Final[dict[bytes, Module]] = {}
_KEPT: Final = 64


def read(source: Any, debug_locations: bytes | None = None) -> Module:
    """A Mosaic module as data, to run more than once.

    Args:
        source: MLIR text or bytecode in either form, the path of a file with it, an ``ir.Module``, a lowered kernel
            (anything with ``body``), a `Module`, or a program with one kernel in it: StableHLO as text, bytecode or a
            portable artifact, a file of `jax.export`, or a lowered JAX function.
        debug_locations: bytecode of the locations that JAX 0.12 moves out of a body.

    Returns:
        The module. It keeps what is generated for it, so running it again costs no more than the run.

    Raises:
        ModuleFormatError: there is no Mosaic module in it, or it does not verify.

    Example:
        >>> from mosaic_tpu.sim import read
        >>> text = '''
        ... func.func @double(%x: memref<8x128xf32, #tpu.memory_space<vmem>>,
        ...                   %y: memref<8x128xf32, #tpu.memory_space<vmem>>) {
        ...   %c0 = arith.constant 0 : index
        ...   %0 = vector.load %x[%c0, %c0] : memref<8x128xf32, #tpu.memory_space<vmem>>, vector<8x128xf32>
        ...   %1 = arith.addf %0, %0 : vector<8x128xf32>
        ...   vector.store %1, %y[%c0, %c0] : memref<8x128xf32, #tpu.memory_space<vmem>>, vector<8x128xf32>
        ...   return
        ... }'''
        >>> read(text).name
        'double'
    """
    source = contents(source)
    if isinstance(source, Module):
        return source
    if isinstance(source, bytes | bytearray | memoryview):
        return _read_bytes(bytes(cast("bytes", source)), debug_locations)
    if isinstance(source, str):
        return _read_text(source, debug_locations) if program_text(source) is None else _read_program(source)
    if hasattr(source, "body") and isinstance(source.body, bytes):
        return _read_lowered(source)
    if isinstance(source, _compat.open_ir.Module):
        return _read_module(source)
    module = getattr(source, "module", None)
    if isinstance(module, _compat.open_ir.Module):
        return _read_module(module)
    if (text := program_text(source)) is not None:
        return _read_program(text)
    raise ModuleFormatError(f"a {type(source).__name__} holds no Mosaic module", op="read", hint=_hint(source))


def _hint(source: Any) -> str:
    if callable(getattr(source, "simulate", None)):
        return "of a kernel call kernel.simulate(…), or give kernel.lower(cfg)"
    if callable(source) or callable(getattr(source, "lower", None)):
        return "lower the function: jax.jit(f).trace(*arrays).lower(lowering_platforms=('tpu',))"
    return ModuleFormatError.default_hint


def contents(source: Any) -> Any:
    """A source as it is; of the name of a file, what is in it: text, or bytecode; and of a program's bytes, its text.

    Raises:
        ModuleFormatError: the file cannot be read, or holds nothing of the kind; a program is damaged; the text has
            half a character in it.
    """
    if isinstance(source, bytes | bytearray | memoryview):
        return _program_or_bytes(_unmarked(bytes(cast("bytes", source))))
    if isinstance(source, str) and source.startswith(_MARK):
        return source[len(_MARK) :]
    if isinstance(source, str) and (wrong := _LONE_SURROGATE.search(source)) is not None:
        raise ModuleFormatError(f"the text holds {wrong[0]!r}, which is no character", op="read")
    if not isinstance(source, os.PathLike) and not (isinstance(source, str) and _is_name(source)):
        return source
    path = Path(cast("str | os.PathLike[str]", source))
    try:
        data = contents_of(path, pipes=True)
    except (OSError, ValueError) as error:  # a zero in its name is a ValueError
        why = error.strerror if isinstance(error, OSError) else error
        raise ModuleFormatError(f"cannot read {path}: {why}", op="read", hint="give an existing file") from None
    found = _program_or_bytes(_unmarked(data))
    try:
        return found.decode() if isinstance(found, bytes) and not found.startswith(_binary.MAGIC) else found
    except UnicodeDecodeError:
        raise ModuleFormatError(f"{path} is neither MLIR text nor bytecode", op="read") from None


def _unmarked(data: bytes) -> bytes:
    return data.removeprefix(_MARK.encode())


def _program_or_bytes(data: bytes) -> bytes | ProgramText:
    """The text of StableHLO in a binary form; other bytes as they are."""
    artifact = _binary.artifact_of(data)
    code = data if artifact is None else artifact
    if not (code.startswith(_binary.MAGIC) and _compat.may_be_program(code)):
        return data
    first_elsewhere(code, kind=_PROGRAM)
    try:
        text = ProgramText(_binary.text_of(code))
    except (_compat.open_ir.MLIRError, ValueError) as error:
        raise _refused(error, _PROGRAM) from None
    is_program = _compat.is_portable(code) or _holds_stablehlo(text)
    return text if is_program else data


def _is_name(text: str) -> bool:
    """Whether a text names a file: by how it ends, or since there is one."""
    if "\n" in text or not text:
        return False
    try:
        return text.endswith(_SUFFIXES) or Path(text).is_file()
    except (OSError, ValueError):  # longer than a name may be, or with a zero in it
        return False


class ProgramText(str):
    """The text of what is known to be a program."""

    __slots__ = ()


class LoweredText(ProgramText):
    """The text of a program that JAX lowered in this process: the bodies in it need no look from outside."""

    __slots__ = ()


def program_text(source: Any) -> str | None:
    """The text of a lowered JAX function, of a `jax.stages.Lowered` or a `jax.export.Exported`; else nothing."""
    if isinstance(source, str):
        return source if isinstance(source, ProgramText) or _holds_stablehlo(source) else None
    if isinstance(source, Module) or hasattr(source, "body"):
        return None
    lowered, exported = getattr(source, "as_text", None), getattr(source, "mlir_module", None)
    make = lowered or exported
    text = make() if callable(make) else None
    if not isinstance(text, str):
        return None
    return LoweredText(text) if callable(lowered) else text


def _holds_stablehlo(text: str) -> bool:
    return _STABLEHLO.search(text) is not None and _STABLEHLO.search(_QUOTED.sub("", text)) is not None


def _read_bytes(data: bytes, debug_locations: bytes | None) -> Module:
    if not data.startswith(_binary.MAGIC):
        try:
            return read(data.decode())
        except UnicodeDecodeError:
            raise ModuleFormatError("these bytes are neither MLIR text nor bytecode", op="read") from None
    first_elsewhere(data, debug_locations)
    return _parsed(data, debug_locations)


def _read_trusted(data: bytes, debug_locations: bytes | None) -> Module:
    """Bytes that MLIR made in this process."""
    _TRUSTED.add(digest(data, debug_locations))
    return _read_bytes(data, debug_locations)


def first_elsewhere(data: bytes, debug_locations: bytes | None = None, kind: str = _MODULE) -> None:
    """Read in a process of its own, once: MLIR may hang on a damaged module, or take the process with it."""
    key = digest(data, debug_locations)
    if key in _TRUSTED:
        return
    try:
        said = _probe.refusal(data, debug_locations or b"")
    except TimeoutError:
        raise ModuleFormatError(
            f"MLIR's parser did not end within {_probe.LIMIT:.0f} s: the module is damaged", op="read"
        ) from None
    except _probe.StartError as error:
        hint = "is sys.executable a Python that has jaxlib?"
        raise InternalError(
            f"the process that reads modules first did not start: {error}", op="read", hint=hint
        ) from None
    except _probe.KilledError as error:
        hint = "is there memory left? nothing is known of the module: read it again"
        raise InternalError(f"the process that reads modules first was {error}", op="read", hint=hint) from None
    except _probe.CrashedError:
        raise ModuleFormatError("MLIR's parser crashed on this module: it is damaged", op="read") from None
    if said:
        raise _refused(said, kind)
    _TRUSTED.add(key)


def has_high_escapes(text: str) -> bool:
    """Whether bytes beyond ASCII stand in it as escapes: jaxlib ends the process over a message that is no UTF-8."""
    return _HIGH_ESCAPE.search(text) is not None


def _check_utf8(text: str) -> None:
    """A kernel's names and strings are UTF-8.

    Raises:
        ModuleFormatError: one is not.
    """
    if not has_high_escapes(text):
        return
    for found in _STRING.finditer(text):
        try:
            unescaped(found[0]).decode()
        except UnicodeDecodeError:
            line = text.count("\n", 0, found.start()) + 1
            raise ModuleFormatError(
                f"a string is not UTF-8: {found[0][:80]}", op="read", hint=f"see line {line}"
            ) from None


def digest(data: bytes, debug_locations: bytes | None) -> bytes:
    """What stands for a body and its locations."""
    return hashlib.sha256(len(data).to_bytes(8) + data + (debug_locations or b"")).digest()


def _read_text(text: str, debug_locations: bytes | None) -> Module:
    if not text.strip():
        raise ModuleFormatError("the text is empty", op="read")
    if _depth(text) > _DEEPEST:
        raise ModuleFormatError(f"brackets are nested more than {_DEEPEST} deep", op="read", hint="nest fewer regions")
    _check_utf8(text)
    return _parsed(text, debug_locations)


def _depth(text: str) -> int:
    """How deep brackets are nested."""
    deepest = depth = 0
    for token in re.finditer(r'"(?:[^"\\]|\\.)*"|->|[({[<]|[)}\]>]', text):
        mark = token[0]
        if mark in "({[<":
            depth += 1
            deepest = max(deepest, depth)
        elif mark in ")}]>":
            depth -= 1
    return deepest


def _parsed(data: str | bytes, debug_locations: bytes | None) -> Module:
    context = _compat.new_context()
    with context, _compat.open_ir.Location.unknown():
        try:
            module = _compat.open_ir.Module.parse(data, context=context)
        except (_compat.open_ir.MLIRError, ValueError) as error:
            raise _refused(error) from None
        return _read_module(module, debug_locations)


#: How MLIR begins what it says of bytes, which have no lines.
_NOWHERE: Final = 'error: "-":0:0: '


def _refused(error: Exception | str, kind: str = _MODULE) -> ModuleFormatError:
    lines = [line for line in str(error).strip().splitlines() if line.strip()]
    detail = next((line.strip() for line in lines if "error:" in line), lines[0] if lines else "unknown format")
    return ModuleFormatError(
        f"not a {kind} this jaxlib can read: {detail.removeprefix(_NOWHERE)}",
        op="read",
        hint=f"give {_GIVE[kind]}, or text; a newer jaxlib may read newer versions",
    )


def _read_module(module: Any, debug_locations: bytes | None = None) -> Module:
    try:
        _compat.deserialize(module)
        if not module.operation.verify():
            raise ModuleFormatError("the module does not verify", op="read")
        text = _compat.generic_text(module)
        _check_utf8(text)
        locations, aliases = (None, None) if debug_locations is None else _locations(debug_locations, module.context)
    except ModuleFormatError:
        raise
    except (_compat.open_ir.MLIRError, ValueError) as error:
        raise _refused(error) from None
    try:
        made = parse(text, locations, aliases)
    except SimulationError:
        raise
    except RecursionError:
        raise ModuleFormatError("the module's regions are nested too deeply", op="read", hint="nest fewer") from None
    except Exception as error:
        raise InternalError(f"{type(error).__name__}: {error}", op="read") from error
    if not made.kernel.operation.regions or not made.kernel.body.operations:
        raise ModuleFormatError(f"the function {made.name} has no body", op="read")
    return made


def _locations(data: bytes, context: Any) -> tuple[list[str] | None, dict[str, str] | None]:
    """The locations that left a body, in order, and what they abbreviate."""
    text = _compat.debug_text(_compat.open_ir.Module.parse(data, context=context))
    aliases = dict(re.findall(r"^(#loc\d*) = loc\((.*)\)$", text, re.MULTILINE))
    listed = re.search(r"tpu\.locs = \[([^\]]*)\]", text)
    if listed is None:
        return None, None
    return [part.strip() for part in listed[1].split(",")], aliases


def _read_lowered(source: Any) -> Module:
    """A lowered kernel: a body, maybe with its locations, and the shapes and names of its operands."""
    module = _read_bytes(source.body, getattr(source, "debug_locations", None))
    outputs = getattr(source, "outputs", None)
    if outputs is not None:
        specs = tuple((tuple(o.shape), o.dtype.numpy) for o in outputs)
        module = replace(module, call=Call(specs, dict(getattr(source, "aliases", {}))))
    names = getattr(source, "names", ())
    return replace(module, names=tuple(names)) if len(names) == len(module.names) else module


def _read_program(text: str) -> Module:
    from mosaic_tpu.sim._program import calls_of

    calls = calls_of(text)
    if len(calls) != 1:
        raise ModuleFormatError(
            f"the program holds {len(calls)} kernels", op="read", hint="simulate(program, …) runs all of a program"
        )
    return module_of(calls[0])


def module_of(call: Any) -> Module:
    """The module of a kernel's call in a program."""
    key = call.digest
    found = _MODULES.get(key)
    if found is None:
        reader = _read_trusted if call.trusted else _read_bytes
        found = _MODULES[key] = reader(call.body, call.debug_locations)
        if len(_MODULES) > _KEPT:
            _MODULES.pop(next(iter(list(_MODULES)), b""), None)  # a list: other threads add to it
    return replace(found, call=Call(tuple(call.outputs), dict(call.aliases)))


def forget() -> None:
    """Drop the modules of programs, and what was generated for them."""
    _MODULES.clear()
