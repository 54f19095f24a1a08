"""What is written is whole or not there, whoever writes it."""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from mosaic_tpu.aot import _cache
from mosaic_tpu.aot._files import put
from mosaic_tpu.aot._table import Table
from mosaic_tpu.aot.errors import OptionError

from .test_table import entry


def _answer(folder: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MOSAIC_TPU_CACHE", str(folder))
        _cache.save(_cache.key_of({}), {"error": "", "seconds": 0.5, "dumps": {}})


WRITERS: Final[dict[str, Callable[[Path], None]]] = {
    "bytes": lambda folder: put(folder / "file", b"new"),
    "a table": lambda folder: Table(folder / "table.json", "k").put(entry()),
    "an answer": _answer,
}


def raising(number: int) -> Callable[..., None]:
    def broken(*_: Any, **__: Any) -> None:
        raise OSError(number, os.strerror(number))

    return broken


def files_of(folder: Path) -> list[Path]:
    return [file for file in folder.rglob("*") if file.is_file()]


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize(("mask", "mode"), [(0o077, 0o600), (0o022, 0o644)])
def test_one_file_is_there_with_the_mode_of_any(writer: str, mask: int, mode: int, tmp_path: Path) -> None:
    before = os.umask(mask)
    try:
        WRITERS[writer](tmp_path)
    finally:
        os.umask(before)
    (file,) = files_of(tmp_path)
    assert stat.S_IMODE(file.stat().st_mode) == mode


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("step", ["fsync", "replace"])
@pytest.mark.filterwarnings("ignore::mosaic_tpu.aot.errors.NotKeptWarning")
def test_what_is_not_whole_is_not_there(
    writer: str, step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, step, raising(errno.ENOSPC))
    try:
        WRITERS[writer](tmp_path)
    except OSError as error:
        assert error.errno == errno.ENOSPC
    else:
        assert writer == "an answer"  # which is a warning
    assert files_of(tmp_path) == []


@pytest.mark.parametrize(("number", "written"), [(errno.EBUSY, True), (errno.EXDEV, True), (errno.ENOSPC, False)])
def test_only_what_nothing_can_replace_is_written_as_it_is(
    number: int, written: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"old")
    monkeypatch.setattr(os, "replace", raising(number))
    if written:
        put(file, b"new")
    else:
        with pytest.raises(OSError, match="No space"):
            put(file, b"new")
    assert (file.read_bytes(), files_of(tmp_path)) == (b"new" if written else b"old", [file])


@pytest.mark.parametrize("writable", [True, False])
def test_a_file_to_be_read_only_stays(writable: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "table.json"
    Table(file, "k").put(entry(1))
    monkeypatch.setattr(os, "access", lambda *_: writable)  # a test as root may write all
    if writable:
        Table(file, "k").prepare()
        Table(file, "k").put(entry(2))
    else:
        with pytest.raises(OptionError, match="cannot be written: Permission denied"):
            Table(file, "k").prepare()
        with pytest.raises(PermissionError):
            Table(file, "k").put(entry(2))
    assert ('"n": 2' in file.read_text()) == writable


@pytest.mark.parametrize("there", [True, False])
def test_only_a_new_table_needs_a_folder_that_takes_files(
    there: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "table.json"
    if there:
        Table(file, "k").put(entry(1))
    monkeypatch.setattr(tempfile, "TemporaryFile", raising(errno.EACCES))  # a test as root may write all
    monkeypatch.setattr(os, "replace", raising(errno.EACCES))
    table = Table(file, "k")
    if there:
        table.prepare()
        table.put(entry(2))
        assert '"n": 2' in file.read_text()
    else:
        with pytest.raises(OptionError, match="cannot be written: Permission denied"):
            table.prepare()
        assert files_of(tmp_path) == []
