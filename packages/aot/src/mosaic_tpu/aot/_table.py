"""A file of tunings, an entry for each target and key. It is written whole after each: a killed run goes on."""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import hashlib
import json
import math
import os
import re
import tempfile
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NoReturn, cast

import numpy as np

from mosaic_tpu.aot._program import Program
from mosaic_tpu.aot.errors import OptionError
from mosaic_tpu.sim import ir

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None

SCHEMA: Final = 2

#: What a config's cycles are.
COMPILER: Final = "compiler"
COUNTED: Final = "counted"
MEASURED: Final = "measured"
#: Who refuses a config.
STAGES: Final = ("config", "lint", "compiler", "estimate")

type Entry = dict[str, Any]

_ADDRESS: Final = re.compile(r" at 0x[0-9a-fA-F]+")


# --- configs -------------------------------------------------------------------------------------------------------


def identity(value: Any) -> str:
    """What tells values apart, the same in every process: all fields of a dataclass, all bytes of an array."""
    if isinstance(value, str | bytes | bool | int | float | complex | None):
        return repr(value)
    if name := getattr(value, "__qualname__", None):  # a class or a function
        return f"{getattr(value, '__module__', '')}.{name}"
    kind = type(value).__qualname__
    if dataclasses.is_dataclass(value):
        named = ((f.name, getattr(value, f.name, None)) for f in dataclasses.fields(value))
        return f"{kind}({', '.join(f'{name}={identity(held)}' for name, held in named)})"
    if isinstance(value, Mapping):
        items = cast("Mapping[Any, Any]", value).items()
        return f"{kind}({', '.join(sorted(f'{identity(key)}: {identity(held)}' for key, held in items))})"
    if isinstance(value, list | tuple | set | frozenset):
        told = [identity(held) for held in cast("Iterable[Any]", value)]
        return f"{kind}({', '.join(sorted(told) if isinstance(value, set | frozenset) else told)})"
    if hasattr(value, "__array__"):
        return _array_identity(np.asarray(value))
    return f"{kind} {_ADDRESS.sub('', repr(value))}"


def _array_identity(array: np.ndarray[Any, Any]) -> str:
    held = identity(array.tolist()).encode() if array.dtype.hasobject else array.tobytes()
    return f"{array.dtype}{list(array.shape)} {hashlib.sha256(held).hexdigest()[:16]}"


def plain(value: Any) -> Any:
    """A field's value as JSON has it."""
    if isinstance(value, np.generic):
        return plain(cast("Any", value).item())
    if isinstance(value, str | int | None) or (isinstance(value, float) and math.isfinite(value)):
        return value
    if isinstance(value, Mapping | set | frozenset) or hasattr(value, "__array__"):
        return identity(value)
    return _ADDRESS.sub("", str(value))


def differing(configs: Sequence[Any]) -> tuple[str, ...]:
    """Names of the fields that differ; none if they are not all of one dataclass."""
    if not _alike(configs):
        return ()
    names = [f.name for f in dataclasses.fields(configs[0])]
    return tuple(n for n in names if len({identity(getattr(c, n, None)) for c in configs}) > 1)


def described(configs: Sequence[Any]) -> list[dict[str, Any]]:
    """Each config by the fields that differ between them, as JSON has them."""
    if not _alike(configs):
        return [{"config": _ADDRESS.sub("", repr(c))} for c in configs]
    names = differing(configs)
    return [{n: plain(getattr(c, n, None)) for n in names} for c in configs]


def shared(configs: Sequence[Any]) -> dict[str, Any]:
    """The fields that all configs share; the first config if they are not all of one dataclass."""
    if not _alike(configs):
        return described(configs)[0]
    names = differing(configs)
    held = {f.name: getattr(configs[0], f.name, None) for f in dataclasses.fields(configs[0])}
    return {n: plain(value) for n, value in held.items() if n not in names}


def _alike(configs: Sequence[Any]) -> bool:
    return dataclasses.is_dataclass(configs[0]) and all(type(c) is type(configs[0]) for c in configs)


# --- what an entry is for ------------------------------------------------------------------------------------------


def field_of(*facts: Any) -> str:
    """What stands for all that decides a tuning: another field is tuned anew."""
    return hashlib.sha256(identity(facts).encode()).hexdigest()[:16]


def digest_of(program: Program) -> str:
    """What stands for a program, wherever the lines of its kernels are."""
    text, known = program.text, hashlib.sha256()
    for call, module in zip(program.calls, program.modules, strict=True):
        for held in (call.body, call.debug_locations):
            text = text.replace(base64.b64encode(held).decode(), "") if held else text
        for line in _lines(module.operations[0]):
            known.update(line.encode())
    known.update(text.encode())
    return known.hexdigest()


def _lines(op: ir.Operation) -> Iterator[str]:
    """All there is of an op but its location."""
    types = [result.type.text for result in op.results]
    yield f"{op.results} = {op.name}{op.operands} {sorted(op.attributes.raw.items())} {types}\n"
    for block in op.regions:
        yield f"{block.arguments} {[a.type.text for a in block.arguments]} {{\n"
        for inner in block.operations:
            yield from _lines(inner)
        yield "}\n"


def plain_key(key: Mapping[str, Any]) -> dict[str, Any]:
    """A key as it comes back from the file.

    Raises:
        OptionError: JSON cannot hold it.
    """
    try:
        return json.loads(json.dumps(dict(key), allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise OptionError(f"key is {key!r}: {error}", op="tune", hint="names to numbers, words and bools") from None


# --- the file ------------------------------------------------------------------------------------------------------


class Table:
    """The file. Its content is JSON: ``{"schema": 2, "kernel": …, "entries": […]}``.

    Raises:
        OptionError: the file is there and holds something else, or there can be none of that name.
    """

    def __init__(self, path: str | os.PathLike[str], kernel: str) -> None:
        self.kernel = kernel
        try:
            self.path = Path(path)
            self._file = Path(os.path.realpath(path))
        except (TypeError, ValueError, OSError) as error:
            raise OptionError(f"table is {path!r}: {error}", op="tune", hint="the name of a JSON file") from None
        self.entries, self._more = self._read()

    def _read(self) -> tuple[list[Entry], dict[str, Any]]:
        try:
            text = self._file.read_text(encoding="utf-8")
            found = json.loads(text, parse_constant=_no_number)
            return _checked(found, self.kernel)
        except FileNotFoundError:
            return [], {}
        except (OSError, ValueError, RecursionError) as error:
            why = _reason(error)
        hint = "delete it, or name another file"
        raise OptionError(f"{self.path} holds no tunings of {self.kernel}: {why}", op="tune", hint=hint)

    def find(self, facts: Mapping[str, Any], key: Mapping[str, Any], trials: int) -> Entry | None:
        """The entry of a key, with so many trials, of which these facts hold."""
        for entry in self.entries:
            if entry["key"] == key and facts.items() <= entry.items() and len(entry["trials"]) == trials:
                return entry
        return None

    def prepare(self) -> None:
        """See that the file can be written.

        Raises:
            OptionError: it cannot.
        """
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self._file.parent):
                pass
        except OSError as error:
            hint = "name a file in a folder that can be written"
            raise OptionError(f"{self.path} cannot be written: {_reason(error)}", op="tune", hint=hint) from None

    def put(self, entry: Entry) -> None:
        """Add an entry, in place of one of the same target and key, to what is in the file by now.

        Raises:
            OSError: the file cannot be written.
            OptionError: it holds something else by now.
        """
        with _alone_in(self._file.parent):
            entries, self._more = self._read()
            kept = [e for e in entries if (e["target"], e["key"]) != (entry["target"], entry["key"])]
            self.entries = sorted([*kept, entry], key=lambda e: (json.dumps(e["key"]), e["target"]))
            content = {"schema": SCHEMA, "kernel": self.kernel, **self._more, "entries": self.entries}
            _write(self._file, json.dumps(content, indent=1) + "\n")


@contextlib.contextmanager
def _alone_in(folder: Path) -> Generator[None]:
    """No other table of the folder is written meanwhile, where the system has locks."""
    if fcntl is None:
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # a file system without them
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _write(file: Path, text: str) -> None:
    """Whole or not at all."""
    handle, name = tempfile.mkstemp(dir=file.parent, suffix=".json")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as out:
            out.write(text)
            out.flush()
            os.fsync(handle)
        Path(name).chmod(0o644)
        os.replace(name, file)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(name).unlink()
        raise


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__


# --- what a file must hold -----------------------------------------------------------------------------------------


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number")


def _is_object(value: Any) -> bool:
    return isinstance(value, dict)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_cycles(value: Any) -> bool:
    return value is None or (type(value) in (int, float) and 0 <= value < math.inf)


_TRIAL: Final[dict[str, Callable[[Any], bool]]] = {
    "config": _is_object,
    "cycles": _is_cycles,
    "refused": _is_text,
    "stage": lambda stage: stage in ("", *STAGES),
}
_ENTRY: Final[dict[str, Callable[[Any], bool]]] = {
    "target": _is_text,
    "compiler": _is_text,
    "field": _is_text,
    "key": _is_object,
    "metric": lambda metric: metric in (COMPILER, COUNTED, MEASURED),
    "why": _is_text,
    "best": lambda best: best is None or _is_object(best),
    "cycles": _is_cycles,
    "trials": lambda trials: isinstance(trials, list) and bool(cast("list[Any]", trials)),
}


def _checked(found: Any, kernel: str) -> tuple[list[Entry], dict[str, Any]]:
    """The entries of a file, and what else is in it.

    Raises:
        ValueError: they are damaged, or of another schema or kernel.
    """
    if not isinstance(found, dict):
        raise ValueError("it is no JSON object")
    more = cast("dict[str, Any]", found)
    schema, name, entries = (more.pop(key, None) for key in ("schema", "kernel", "entries"))
    if schema != SCHEMA:
        raise ValueError(f"it is of schema {schema}, and not {SCHEMA}")
    if name != kernel:
        raise ValueError(f"they are of the kernel {name}")
    if not isinstance(entries, list):
        raise ValueError("it has no list of entries")
    for entry in cast("list[Entry]", entries):
        _check("an entry", entry, _ENTRY)
        for trial in entry["trials"]:
            _check("a trial", trial, _TRIAL)
            if (trial["cycles"] is None) == (trial["stage"] == ""):
                raise ValueError("a trial has cycles and was refused, or neither")
    return cast("list[Entry]", entries), more


def _check(what: str, found: Any, rules: Mapping[str, Callable[[Any], bool]]) -> None:
    if not isinstance(found, dict):
        raise ValueError(f"{what} is {_short(found)}")
    held = cast("dict[str, Any]", found)
    for name, good in rules.items():
        if name not in held:
            raise ValueError(f"{what} has no {name!r}")
        if not good(held[name]):
            raise ValueError(f"{what} has {_short(held[name])} for {name!r}")


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 40 else text[:39] + "…"
