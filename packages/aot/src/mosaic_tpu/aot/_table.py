"""A file of tunings, an entry for each target and key. It is written whole after each: a killed run goes on."""

from __future__ import annotations

import contextlib
import json
import math
import os
import tempfile
from collections.abc import Callable, Generator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NoReturn, cast

from mosaic_tpu.aot._files import check, put
from mosaic_tpu.aot.errors import OptionError
from mosaic_tpu.sim.ir import contents_of

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None

SCHEMA: Final = 3

#: What a config's cycles are.
COMPILER: Final = "compiler"
COUNTED: Final = "counted"
MEASURED: Final = "measured"
#: Who refuses a config.
STAGES: Final = ("config", "lint", "compiler", "estimate")

type Entry = dict[str, Any]


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
    """The file. Its content is JSON: ``{"schema": 3, "kernel": …, "entries": […]}``.

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
            found = json.loads(contents_of(self._file).decode(), parse_constant=_no_number)
            return _checked(found, self.kernel)
        except FileNotFoundError:
            return [], {}
        except (OSError, ValueError, RecursionError) as error:
            why = _reason(error)
        hint = "delete it, or name another file" if self._file.is_file() else "name another file"
        raise OptionError(f"{self.path} holds no tunings of {self.kernel}: {why}", op="tune", hint=hint)

    def find(
        self,
        facts: Mapping[str, Any],
        key: Mapping[str, Any],
        configs: Sequence[Mapping[str, Any]],
        *,
        measured: bool = False,
    ) -> Entry | None:
        """The entry of a key, measured or not, of which these facts hold, with a trial for each of these configs.

        Its trials are in the order of the configs.
        """
        for entry in self.entries:
            same = entry["key"] == key and facts.items() <= entry.items()
            if same and (entry["metric"] == MEASURED) == measured:
                trials = _of_configs(entry["trials"], configs)
                if trials is not None:
                    return {**entry, "trials": trials}
        return None

    def prepare(self) -> None:
        """See that the file can be written: one that is there may be written as it is, a new one needs its folder.

        Raises:
            OptionError: it cannot.
        """
        try:
            check(self._file)
            if not self._file.exists():
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
            put(self._file, (json.dumps(content, indent=1) + "\n").encode())


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


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__


# --- what is used of it --------------------------------------------------------------------------------------------

#: No kernel takes as many: they are centuries.
_MOST_CYCLES: Final = 1e19


def _of_configs(trials: Sequence[Entry], configs: Sequence[Mapping[str, Any]]) -> list[Entry] | None:
    """The trials in the order of these configs; nothing if they are not of these alone, or no kernel takes so long."""
    left: dict[str, list[Entry]] = {}
    for trial in trials:
        if trial["cycles"] is not None and not 0 < trial["cycles"] < _MOST_CYCLES:
            return None
        left.setdefault(_text(trial["config"]), []).append(trial)
    if len(trials) != len(configs):
        return None
    found = [left[told].pop(0) for config in configs if left.get(told := _text(config))]
    return found if len(found) == len(configs) else None


def _text(config: Mapping[str, Any]) -> str:
    return json.dumps(config, sort_keys=True)


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
    "digest": _is_text,
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
