"""Kernels of the zoo, as a command line names them: KERNEL, KERNEL:PRESET, or the file of a config."""

from __future__ import annotations

import dataclasses
import json
import math
import typing
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from types import NoneType
from typing import Any, Final, cast

from mosaic_tpu.cli._errors import UsageError, unreadable
from mosaic_tpu.cli._parse import from_json, from_toml
from mosaic_tpu.zoo import KERNELS, KernelInfo

#: As Python's JSON writes the least float, which is no number of JSON's.
_LEAST: Final = "-Infinity"


@dataclass(frozen=True)
class Chosen:
    """A kernel and a config of it.

    Attributes:
        info: the kernel.
        preset: where the config started from.
        fields: those that are given: the preset's and what was changed.
        changed: whether anything was.
    """

    info: KernelInfo
    preset: str
    fields: Mapping[str, Any]
    changed: bool

    @property
    def name(self) -> str:
        """For people: ``"matmul:default"``."""
        return f"{self.info.name}:{self.preset}{' (changed)' if self.changed else ''}"

    @property
    def config(self) -> Any:
        """The config itself.

        Raises:
            UsageError: a field is missing or unknown, or has a value of the wrong kind.
            ConfigError: the kernel does not take these values.
        """
        return made(self.info.kernel.config, self.fields)


def is_config(name: str) -> bool:
    """Whether a name is that of a config's file."""
    return name.endswith((".toml", ".json"))


def chosen(name: str, settings: Sequence[str] | None = None, data: bytes | None = None) -> Chosen:
    """What a name stands for, with fields set on the command line.

    Args:
        name: of a kernel, or of a config's file.
        settings: fields with their values.
        data: what is in the file, where it was read: a pipe gives it once.

    Raises:
        UsageError: there is no such kernel, preset or file, or a setting is none.
    """
    changes = each_once("--set", settings, "FIELD=VALUE")
    if is_config(name):
        kernel, preset, given = _of_file(Path(name), data)
        changes = {**given, **changes}
    else:
        kernel, _, preset = name.partition(":")
    info = KERNELS.get(kernel)
    if info is None:
        raise UsageError(f"the zoo has no kernel {kernel!r}", near(kernel, KERNELS, "mosaic-tpu zoo list"))
    preset = preset or "default"
    if preset not in info.fields:
        raise UsageError(f"{kernel} has no preset {preset!r}", near(preset, info.fields))
    return Chosen(info, preset, {**info.fields[preset], **changes}, bool(changes))


def near(name: str, names: Iterable[str], where: str = "") -> str:
    """A hint: the name that may have been meant, else all of them."""
    known = list(names)
    close = get_close_matches(name, known, 1)
    text = f"did you mean {close[0]!r}?" if close else f"one of {', '.join(known)}"
    return f"{text} (see {where})" if where else text


def _of_file(file: Path, data: bytes | None) -> tuple[str, str, dict[str, Any]]:
    """The kernel, the preset and the fields that a config's file names."""
    hint = 'a table of the config\'s fields, with kernel = "matmul" and, to start from one, preset = "default"'
    try:
        if data is None:
            from mosaic_tpu.sim import ir

            data = ir.contents_of(file, pipes=True)
        text = data.decode()
        read = from_toml(text) if file.suffix == ".toml" else from_json(text)
    except OSError as error:
        raise unreadable(file, error, "give an existing file") from None
    except ValueError as error:  # of both parsers, and of what is no UTF-8
        raise UsageError(f"{file} is no {file.suffix[1:].upper()}: {error}", hint) from None
    fields = dict(cast("Mapping[str, Any]", read)) if isinstance(read, dict) else {}
    kernel, preset = fields.pop("kernel", None), fields.pop("preset", "default")
    if not isinstance(kernel, str) or not isinstance(preset, str):
        raise UsageError(f"{file} names no kernel", hint)
    return kernel, preset, fields


def assigned(option: str, text: str, form: str) -> tuple[str, str]:
    """The name and the value that an option gives.

    Args:
        option: for people.
        text: what stands after it.
        form: what may, ``"FIELD=VALUE"``.

    Raises:
        UsageError: it is no name and value.
    """
    name, found, value = text.partition("=")
    if not found or not name.isidentifier():
        raise UsageError(f"{option} {short(text)} is no name and value", f"{option} {form}")
    return name, value


def each_once(option: str, texts: Sequence[str] | None, form: str) -> dict[str, Any]:
    """The values of an option that may be repeated, by their names; raises as `assigned` does.

    Raises:
        UsageError: a name stands twice.
    """
    found: dict[str, Any] = {}
    for text in texts or ():
        name, value = assigned(option, text, form)
        if name in found:
            raise UsageError(f"{option} gives {name} twice", f"leave all but one {option} {name}=… out")
        found[name] = value_of(value)
    return found


def value_of(text: str) -> Any:
    """A number, a truth value or null as JSON writes it; all else, ``bf16``, is text."""
    try:
        return from_json(text)
    except ValueError:
        return text


def short(text: str) -> str:
    """What an error says of a value, however long it is."""
    return text if len(text) <= 80 else text[:79] + "…"


def made(kind: type[Any], fields: Mapping[str, Any]) -> Any:
    """A config of these fields; element types are given by name.

    Raises:
        UsageError: a field is missing or unknown, or a name is no element type.
    """
    known = {f.name: f for f in dataclasses.fields(kind)}
    for name in fields:
        if name not in known:
            raise UsageError(f"{kind.__name__} has no field {name!r}", near(name, known))
    values = {name: typed(kind, name, value) for name, value in fields.items()}
    missing = [n for n, f in known.items() if f.default is dataclasses.MISSING and n not in fields]
    if missing:
        raise UsageError(f"the config lacks {', '.join(missing)}", f"--set {missing[0]}=VALUE")
    return kind(**values)


def typed(kind: type[Any], name: str, value: Any) -> Any:
    """A field's value, which is of the field's type; element types are given by name.

    Raises:
        UsageError: it is not.
    """
    from mosaic_tpu.builder import DType, as_dtype
    from mosaic_tpu.builder.errors import DTypeError

    hint = typing.get_type_hints(kind)[name]
    kinds = typing.get_args(hint) or (hint,)
    if DType in kinds and isinstance(value, str):
        try:
            return as_dtype(value)
        except DTypeError as error:
            raise UsageError(f"{name} is {short(repr(value))}, which is no element type", error.hint) from None
    if float in kinds and value == _LEAST:
        return -math.inf
    allowed = {kind: words for kind, words in _kinds().items() if kind in kinds}
    if len(allowed) < len(kinds) or type(value) in kinds or (type(value) is int and float in kinds):
        return value
    wanted = " or ".join(words for words, _ in allowed.values())
    example = next(iter(allowed.values()))[1]
    raise UsageError(f"{name} is {short(json.dumps(value, default=str))}, and must be {wanted}", f"{name}={example}")


def _kinds() -> dict[Any, tuple[str, str]]:
    """What a config's field may be: as people call it, and as one types it."""
    from mosaic_tpu.builder import DType

    return {
        int: ("an integer", "512"),
        float: ("a number", "0.5"),
        bool: ("true or false", "true"),
        DType: ("the name of an element type", "bf16"),
        NoneType: ("null", "null"),
    }


def plain_config(config: Any) -> dict[str, Any]:
    """A config as JSON has it: element types by name, and an infinite mask in a word."""
    from mosaic_tpu.builder import DType

    values = {f.name: getattr(config, f.name) for f in dataclasses.fields(config)}
    words = {name: str(value) for name, value in values.items() if isinstance(value, DType)}
    return values | words | {name: _LEAST for name, value in values.items() if value == -math.inf}
