"""`lift`: write the source, run it, compare the bytes; what is not exact is written generically."""

from __future__ import annotations

import contextlib
import gc
import re
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, Final, Literal

from mosaic_tpu.builder import Builder, MosaicModule
from mosaic_tpu.builder.errors import AttributeValueError
from mosaic_tpu.lift._compat import MLIRError, Registered, rewritten, stripped_module
from mosaic_tpu.lift._run import built, function_of, line_of
from mosaic_tpu.lift._source import Given, given, readable, wanted
from mosaic_tpu.lift._write import Written, write
from mosaic_tpu.lift._writer import Choices, signature
from mosaic_tpu.lift.errors import BuildError, LiftError, NotExactError, OptionError, UnsupportedModuleError
from mosaic_tpu.sim import ir

_STYLES: Final = ("ops", "idioms")
#: After so many attempts all ops are written generically, at last without `declare_args` too.
_ATTEMPTS: Final = 12
#: Signatures of one op that may fail before none of that name is tried any more.
_SIGNATURES: Final = 3
#: Idioms of one module that may fail before none is written any more.
_REFUSED: Final = 3
#: Of what an error says of an attribute, whose text may be of any length.
_LONGEST: Final = 200
_QUOTED: Final = re.compile(r'"(?:[^"\\]|\\.)*"')
#: What an attribute has from elsewhere in its module, and no text of an attribute alone says.
_ELSEWHERE: Final = {
    "a location": re.compile(r"(?<![\w.#])(?:#loc\d*\b|loc\()"),
    "a resource of the module": re.compile(r"(?<![\w.#])dense_resource<"),
}

Style = Literal["ops", "idioms"]


@dataclass(frozen=True)
class Lifted:
    """Source that gives its module's bytes, and how much of it helpers write.

    Attributes:
        text: the source.
        helped: how many ops stand as calls of their helpers, operators or numbers.
        idiomatic: how many of those stand in idioms.
        generic: names of the ops in the generic form, one for each.
        attempts: how often it was written.
    """

    text: str
    helped: int
    idiomatic: int
    generic: tuple[str, ...]
    attempts: int


def lift(source: Any, *, style: Style = "ops", kernel: str | int | None = None) -> str:
    """Turn a Mosaic module into Python source that builds it, byte for byte.

    Args:
        source: MLIR text or bytecode in either form, the path of a file with it or of a compiler's dump
            (``--xla_mosaic_dump_to``), a lowered kernel, or a program with kernels in it: StableHLO as text, bytecode
            or a portable artifact, a file of `jax.export`, a lowered or exported JAX function.
        style: ``"ops"``, one helper of the builder for each op, or ``"idioms"``, where ops that an idiom of `b.pallas`
            emits are written as it, and all others as in ``"ops"``.
        kernel: which kernel of a program, by its name or number, where there are several.

    Returns:
        The source: `build` and `run` execute it. It was run once, and gave the module's bytes: those of the body
        without locations, in the same version of Mosaic's stable form; of a dump without the compiler's mark
        ``tpu.main``, which no such form takes.

    Raises:
        SourceError: there is no Mosaic module in it, or it is damaged.
        UnsupportedModuleError: it holds something that no source stands for.
        NotExactError: no source was found that gives its bytes.
        OptionError: there is no such style.

    Example:
        >>> from mosaic_tpu.lift import lift
        >>> print("    a = " + lift(text).partition("    a = ")[2])
            a = b.declare_args(dict(input_0=Ref((8, 128), f32), output_0=Ref((8, 128), f32, role=Role.OUTPUT)))
            input_0 = b.vector_load(a.input_0)
            plus = input_0 + input_0
            b.vector_store(a.output_0, plus)
        <BLANKLINE>
    """
    style = checked_style(style, "lift")
    return lifted(given(source, kernel), style).text


def checked_style(style: Any, op: str) -> Style:
    """A style, refused for ``op`` if there is none such."""
    if style not in _STYLES:
        raise OptionError(f"there is no style {style!r}", op=op, hint='style="ops" or style="idioms"')
    return style


def lifted(found: Given, style: Style = "ops") -> Lifted:
    """Write, run and compare until the bytes are those of the module."""
    bytes_ = wanted(found)
    choices = Choices(idioms=style == "idioms")
    context = Builder("lift").context
    failures: dict[str, int] = {}
    last: BaseException | None = None
    for attempt in range(1, _ATTEMPTS + 2):
        choices.everything = choices.everything or attempt >= _ATTEMPTS
        choices.functions = choices.functions or attempt > _ATTEMPTS
        try:
            written = _written(found, choices, context)
        except LiftError:
            raise
        except Exception as error:
            # A rule that an odd attribute has surprised.
            last = error
            if choices.idioms:
                choices.idioms = False
                continue
            choices.everything = True
            choices.functions = choices.functions or attempt > 1
            continue
        blamed, last = _blamed(found, written, bytes_)
        if blamed is None and last is None:
            generic = tuple(op.name for op in written.generic)
            return Lifted(written.text, len(written.helped), written.idiomatic, generic, attempt)
        if not _avoid(choices, blamed, written, failures):
            break
    with contextlib.suppress(MLIRError):
        if rewritten(found.data, found.version) != bytes_:
            summary = "the installed jaxlib itself writes this module in other bytes"
            raise NotExactError(
                summary, op="lift", hint="the bytes are damaged, or of another jaxlib's making"
            ) from last
    if refusal := _unsupported(found.module, last):
        raise refusal from last
    raise NotExactError("no source gives this module's bytes", op="lift", hint="please report this module") from last


def _unsupported(module: ir.Module, last: BaseException | None) -> UnsupportedModuleError | None:
    """An attribute that no source stands for, if there is one."""
    hint = "leave the attribute out"
    for op in module.operations:
        for name, text in op.attributes.raw.items():
            for what, mark in _ELSEWHERE.items():
                if mark.search(_QUOTED.sub("", text)):
                    return UnsupportedModuleError(f"the attribute {name!r} holds {what}", op=op.name, hint=hint)
    cause = None if last is None else last.__cause__
    if isinstance(cause, AttributeValueError):
        summary = cause.summary if len(cause.summary) <= _LONGEST else cause.summary[: _LONGEST - 1] + "…"
        return UnsupportedModuleError(summary, op=cause.op, hint=hint)
    return None


def _written(found: Given, choices: Choices, context: Any) -> Written:
    with _uncollected():
        return write(found, choices, Registered(context))


@contextlib.contextmanager
def _uncollected() -> Generator[None]:
    """Python's collector looks again and again through all of a process while ops are made: longer than that takes."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _blamed(found: Given, written: Written, bytes_: bytes) -> tuple[ir.Operation | None, BaseException | None]:
    """The first op that is not emitted as it was; nothing at all if the bytes are the same."""
    try:
        run, names = function_of(written.text)
        module = built(run, names["NAME"], locations=False)
        ours = stripped_module(module, found.version)
    except (BuildError, MLIRError) as error:
        cause = error.__cause__ if isinstance(error, BuildError) and error.__cause__ is not None else error
        line = line_of(cause)
        return (None if line is None else written.ops.get(line)), error
    if ours == bytes_:
        return None, None
    return _first_difference(found.module, module), NotExactError("other bytes", op="lift")


def _first_difference(theirs: ir.Module, module: MosaicModule) -> ir.Operation | None:
    with readable():
        ours = ir.read(module)
    for a, b in zip(theirs.operations, ours.operations, strict=False):
        if _shown(a) != _shown(b):
            return a
    return None


def _shown(op: ir.Operation) -> object:
    operands = tuple(v.index for v in op.operands)
    blocks = tuple(tuple(a.type for a in r.arguments) for r in op.regions)
    ignored = {k: v for k, v in op.attributes.raw.items() if k != "stable_mosaic.version"}
    return op.name, operands, ignored, tuple(r.type for r in op.results), blocks


def _avoid(choices: Choices, op: ir.Operation | None, written: Written, failures: dict[str, int]) -> bool:
    """Write what failed in a plainer way from now on; false if nothing is left to try."""
    if choices.idioms:
        refused = None if op is None else written.idiom_of(op)
        choices.idioms = refused is not None and len(choices.refused) < _REFUSED
        choices.refused.add(refused)
        return True
    if op is None or op.name in ("func.func", "builtin.module", "func.return"):
        if op is None and not choices.everything:
            choices.everything = True
            return True
        if not choices.functions:
            choices.functions = True
            return True
        if not choices.everything:
            choices.everything = True
            return True
        return False
    if op in set(written.generic):
        # It differs although it is generic: what comes before or around it does.
        if choices.everything and choices.functions:
            return False
        choices.functions = choices.functions or choices.everything
        choices.everything = True
        return True
    failures[op.name] = failures.get(op.name, 0) + 1
    if failures[op.name] >= _SIGNATURES:
        choices.names.add(op.name)
    choices.signatures.add(signature(op))
    return True
