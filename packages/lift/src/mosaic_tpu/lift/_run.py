"""Runs lifted source."""

from __future__ import annotations

import builtins
import math
import types
from typing import Any, Final

from mosaic_tpu import builder
from mosaic_tpu.builder import Builder, MosaicModule
from mosaic_tpu.builder.errors import MosaicError
from mosaic_tpu.lift._compat import locator
from mosaic_tpu.lift.errors import BuildError

FILENAME: Final = "<lifted>"
_MODULES: Final = {"mosaic_tpu.builder": builder, "math": math}
#: Builtins that a kernel may use: lifted source needs `dict` and `slice`, edited source perhaps others.
_BUILTINS: Final = (
    "abs", "all", "any", "bool", "dict", "divmod", "enumerate", "float", "int", "isinstance", "len", "list", "map",
    "max", "min", "pow", "print", "range", "reversed", "round", "set", "slice", "sorted", "str", "sum", "tuple", "zip",
)  # fmt: skip


def _import(name: str, *_: Any) -> types.ModuleType:
    found = _MODULES.get(name)
    if found is None:
        raise ImportError(f"lifted source imports mosaic_tpu.builder and math, not {name}")
    return found


def namespace() -> dict[str, Any]:
    """What lifted source sees: nothing of the caller's."""
    allowed: dict[str, Any] = {name: getattr(builtins, name) for name in _BUILTINS}
    return {"__name__": "lifted", "__builtins__": {**allowed, "__import__": _import}}


def function_of(source: str) -> tuple[Any, dict[str, Any]]:
    """The kernel's function, and the names beside it.

    Raises:
        BuildError: the source does not run, or defines no kernel.
    """
    found = namespace()
    try:
        exec(compile(source, FILENAME, "exec"), found)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = getattr(error, "lineno", None)
        where = None if line is None else f"{FILENAME}:{line}"
        raise BuildError(f"this is no Python source: {error}", op="build", location=where) from None
    except Exception as error:
        raise _failed(error) from error
    functions = [v for v in found.values() if isinstance(v, types.FunctionType) and v.__globals__ is found]
    if len(functions) != 1 or not isinstance(found.get("NAME"), str):
        raise BuildError(f"the source defines {len(functions)} functions and NAME = {found.get('NAME')!r}", op="build")
    return functions[0], found


class BuiltModule(MosaicModule):
    """The module of lifted source, which says in which version of Mosaic's stable form the lifted one was."""

    def __init__(self, module: MosaicModule, ir_version: int | None) -> None:
        super().__init__(module.module, module.name, module.signature, module._types)
        self.ir_version = ir_version


def build(source: str) -> BuiltModule:
    """Build the module of lifted source.

    The source is executed as Python, in a namespace of its own, where it can import nothing but the builder and
    `math`. That keeps names apart; it is no fence against source that means harm: run what you trust, or have lifted.

    Args:
        source: as `lift` returns it, edited or not.

    Returns:
        What `Builder.finish` returns, and ``ir_version``, the version that the source says. `lift` reads it, and the
        names and arrays of the declared arguments, which are no part of the bytes: of what `lift` has written,
        ``lift(build(source))`` is the source again.

    Raises:
        BuildError: the source does not run, or does not build a kernel.

    Example:
        >>> from mosaic_tpu.lift import build, lift
        >>> build(lift(text)).name
        'double'
    """
    run, names = function_of(source)
    return BuiltModule(built(run, names["NAME"]), version_of(source, names))


def version_of(source: str, names: dict[str, Any]) -> int | None:
    """What source says in ``IR_VERSION``.

    Raises:
        BuildError: that is no version.
    """
    version = names.get("IR_VERSION")
    if version is None or (type(version) is int and 1 <= version < 1 << 31):
        return version
    raise no_version(source, version)


def no_version(source: str, version: object, why: str = "", op: str = "build") -> BuildError:
    """What is said of an ``IR_VERSION`` in which the module cannot be written."""
    line = next((n for n, text in enumerate(source.splitlines(), 1) if text.startswith("IR_VERSION")), None)
    where = None if line is None else f"{FILENAME}:{line}"
    said = f"IR_VERSION is {version!r}{why and ': '}{why}"
    return BuildError(said, op=op, location=where, hint="a version that jaxlib writes, or None for its newest")


def built(run: Any, name: str, *, locations: bool = True) -> MosaicModule:
    """The module that a lifted function builds."""
    try:
        b = Builder(name, locations=locations)
        if locations:
            b._locate = locator(FILENAME, b.context)
        run(b)
        return b.finish(anonymous=True)
    except Exception as error:
        raise _failed(error) from error


def _failed(error: Exception) -> BuildError:
    line = line_of(error)
    summary = error.summary if isinstance(error, MosaicError) else str(error)
    op = error.op if isinstance(error, MosaicError) else None
    where = None if line is None else f"{FILENAME}:{line}"
    said = f"{type(error).__name__}: {summary}"
    return BuildError(said, op=op or "build", location=where, hint=getattr(error, "hint", None))


def line_of(error: BaseException) -> int | None:
    """The innermost line of lifted source that an error passed through."""
    found, trace = None, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == FILENAME:
            found = trace.tb_lineno
        trace = trace.tb_next
    return found
