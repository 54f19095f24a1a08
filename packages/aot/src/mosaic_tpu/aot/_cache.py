"""What the compiler said, kept on disk: the same program, target, flags and compiler give the same answer."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import json
import os
import warnings
import zlib
from pathlib import Path
from typing import Any, Final, cast

from mosaic_tpu.aot._files import put
from mosaic_tpu.aot.errors import NotKeptWarning

#: A folder of results goes when it has more than so many; the oldest half of them.
_MOST: Final = 4096
_SCHEMA: Final = 2


def cache_folder() -> Path:
    """Where results are kept: ``$MOSAIC_TPU_CACHE``, or ``mosaic-tpu`` in the user's cache folder."""
    named = os.environ.get("MOSAIC_TPU_CACHE")
    if named:
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or _home() / ".cache") / "mosaic-tpu"


def _home() -> Path:
    try:
        home = Path.home()
    except RuntimeError as error:  # nobody's process
        raise FileNotFoundError(f"{error}: set MOSAIC_TPU_CACHE") from None
    if not os.path.isdir(home):  # as a service's may be: it is not for us to make
        raise FileNotFoundError(f"there is no home folder {home}: set MOSAIC_TPU_CACHE")
    return home


def key_of(facts: dict[str, Any]) -> str:
    """What stands for all that decides an answer."""
    text = json.dumps({"schema": _SCHEMA, **facts}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def load(key: str) -> dict[str, Any] | None:
    """The result that was kept under a key; ``None`` where there is none, or it is damaged."""
    try:
        found = json.loads(gzip.decompress(_file(key).read_bytes()))
    except (OSError, EOFError, ValueError, RecursionError, zlib.error):
        return None
    return cast("dict[str, Any]", found) if isinstance(found, dict) else None


def save(key: str, result: dict[str, Any]) -> None:
    """Keep a result. A disk that cannot be written is no reason to lose it: there is a warning."""
    try:
        file = _file(key)
        file.parent.mkdir(parents=True, exist_ok=True)
        _prune(file.parent)
        put(file, gzip.compress(json.dumps(result).encode(), compresslevel=4))
    except OSError as error:
        said = "the compiler's answer is not kept"
        if error.strerror is None:  # there is no folder to be in
            warnings.warn(f"{said}: {error}", NotKeptWarning, stacklevel=2)
        else:
            hint = "set MOSAIC_TPU_CACHE to a folder that can be written"
            warnings.warn(f"{said} in {cache_folder()}: {error.strerror}; {hint}", NotKeptWarning, stacklevel=2)


def clear() -> None:
    """Forget every result on disk."""
    with contextlib.suppress(FileNotFoundError):  # there is no home folder, and so no cache
        for file in (cache_folder() / "aot").glob("*/*.json.gz"):
            file.unlink(missing_ok=True)


def _file(key: str) -> Path:
    return cache_folder() / "aot" / key[:2] / f"{key[2:]}.json.gz"


def _prune(folder: Path) -> None:
    files = list(folder.iterdir())
    if len(files) > _MOST // 256:
        with contextlib.suppress(OSError):  # another process prunes too
            for file in sorted(files, key=lambda f: f.stat().st_mtime)[: len(files) // 2]:
                file.unlink(missing_ok=True)
