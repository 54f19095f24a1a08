"""A file of tunings, an entry for each target and key. It is written whole after each: a killed run goes on."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from mosaic_tpu.aot.errors import OptionError

SCHEMA: Final = 1

type Entry = dict[str, Any]

_FIELDS: Final = frozenset({"target", "key", "field", "metric", "trials"})


def field_of(configs: Sequence[Any], scalars: Sequence[Any], method: str) -> str:
    """What stands for a field of configs, the batch each is tuned for, and how: another one is tuned anew."""
    known = hashlib.sha256(repr([method, *configs]).encode())
    for values in scalars:
        named = sorted(values.items()) if isinstance(values, Mapping) else list(enumerate(values))
        for name, value in named:
            array = np.asarray(value)
            known.update(repr((name, array.shape, str(array.dtype))).encode() + array.tobytes())
    return known.hexdigest()[:16]


def plain_key(key: Mapping[str, Any]) -> dict[str, Any]:
    """A key as it comes back from the file.

    Raises:
        OptionError: JSON cannot hold it.
    """
    try:
        return json.loads(json.dumps(dict(key)))
    except (TypeError, ValueError) as error:
        raise OptionError(f"key is {key!r}: {error}", op="tune", hint="names to numbers, words and bools") from None


def fields_of(config: Any, names: Sequence[str]) -> dict[str, Any]:
    """The fields of a config that differ in the field, as JSON has them."""
    if not dataclasses.is_dataclass(config):
        return {"config": repr(config)}
    return {name: _plain(getattr(config, name)) for name in names}


def _plain(value: Any) -> Any:
    return value if isinstance(value, int | float | str | bool | None) else str(value)


class Table:
    """The file. Its content is JSON: ``{"schema": 1, "kernel": …, "entries": […]}``.

    Raises:
        OptionError: the file is there and holds something else.
    """

    def __init__(self, path: str | os.PathLike[str], kernel: str) -> None:
        self.path = Path(path)
        self.kernel = kernel
        self.entries: list[Entry] = []
        self.more: dict[str, Any] = {}
        if self.path.exists():
            self._read()

    def _read(self) -> None:
        try:
            found = json.loads(self.path.read_text(encoding="utf-8"))
            entries = found.pop("entries")
            if found.pop("schema") != SCHEMA or found.pop("kernel") != self.kernel:
                raise ValueError("another schema or kernel")
            if not all(entry.keys() >= _FIELDS for entry in entries):
                raise ValueError("an entry without " + ", ".join(sorted(_FIELDS)))
        except (OSError, ValueError, KeyError, AttributeError, TypeError) as error:
            raise OptionError(
                f"{self.path} holds no tunings of {self.kernel}: {error}", op="tune", hint="name another file"
            ) from None
        self.entries, self.more = entries, found

    def find(self, target: str, key: Mapping[str, Any]) -> Entry | None:
        """The entry of a target and a key."""
        return next((e for e in self.entries if e["target"] == target and e["key"] == dict(key)), None)

    def put(self, entry: Entry) -> None:
        """Add an entry, in place of one of the same target and key, and write the file."""
        kept = [e for e in self.entries if (e["target"], e["key"]) != (entry["target"], entry["key"])]
        self.entries = sorted([*kept, entry], key=lambda e: (json.dumps(e["key"]), e["target"]))
        self.path.parent.mkdir(parents=True, exist_ok=True)
        content = {"schema": SCHEMA, "kernel": self.kernel, **self.more, "entries": self.entries}
        handle, name = tempfile.mkstemp(dir=self.path.parent, suffix=".json")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as out:
                out.write(json.dumps(content, indent=1) + "\n")
            Path(name).chmod(0o644)
            os.replace(name, self.path)
        except BaseException:
            with contextlib.suppress(OSError):
                Path(name).unlink()
            raise
