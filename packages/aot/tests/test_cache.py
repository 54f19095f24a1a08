"""Answers are kept on disk: whole, found again, and never in the way."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

from mosaic_tpu.aot import _cache

RESULT = {"error": "", "seconds": 0.5, "dumps": {}}


def test_what_is_kept_is_found_again(own_cache: Path) -> None:
    key = _cache.key_of({"program": "a"})
    assert _cache.load(key) is None
    _cache.save(key, RESULT)
    assert _cache.load(key) == RESULT
    assert [f.suffixes for f in own_cache.rglob("*.gz")] == [[".json", ".gz"]]
    assert not list(own_cache.rglob("tmp*"))
    _cache.clear()
    assert _cache.load(key) is None


def test_no_damaged_byte_is_more_than_a_miss(own_cache: Path) -> None:
    key = _cache.key_of({"program": "a"})
    _cache.save(key, RESULT)
    (file,) = own_cache.rglob("*.gz")
    whole = file.read_bytes()
    for at in range(len(whole)):
        file.write_bytes(whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :])
        assert _cache.load(key) in (None, RESULT)


@pytest.mark.parametrize("damage", [b"", b"\x1f\x8b", b"plain text", gzip.compress(b"[" * 100_000), None])
def test_a_damaged_file_counts_as_none(damage: bytes | None, own_cache: Path) -> None:
    key = _cache.key_of({"program": "a"})
    _cache.save(key, RESULT)
    (file,) = own_cache.rglob("*.gz")
    file.write_bytes(file.read_bytes()[:20] if damage is None else damage)
    assert _cache.load(key) is None
    _cache.save(key, RESULT)
    assert _cache.load(key) == RESULT


def test_a_disk_that_cannot_be_written_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("MOSAIC_TPU_CACHE", str(tmp_path / "file"))
    with pytest.warns(UserWarning, match="the compiler.s answer is not kept"):
        _cache.save(_cache.key_of({}), RESULT)
    assert _cache.load(_cache.key_of({})) is None


def test_the_oldest_go_when_there_are_too_many(own_cache: Path) -> None:
    keys = ["00" + f"{n:062d}" for n in range(20)]
    for n, key in enumerate(keys):
        _cache.save(key, RESULT)
        for file in own_cache.rglob(f"{key[2:]}*"):
            os.utime(file, (n, n))
    assert _cache.load(keys[-1]) == RESULT
    assert _cache.load(keys[0]) is None
    assert len(list(own_cache.rglob("*.gz"))) <= 17


def test_the_users_cache_folder_is_the_default(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("MOSAIC_TPU_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert _cache.cache_folder() == tmp_path / "mosaic-tpu"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert _cache.cache_folder() == Path.home() / ".cache" / "mosaic-tpu"


def test_a_home_that_is_not_there_is_not_made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    home, key = tmp_path / "home", _cache.key_of({})
    for name in ("MOSAIC_TPU_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(home))
    with pytest.warns(UserWarning, match="not kept: there is no home folder .*home: set MOSAIC_TPU_CACHE"):
        _cache.save(key, RESULT)
    assert _cache.load(key) is None
    _cache.clear()
    assert not home.exists()
    home.mkdir()
    _cache.save(key, RESULT)
    assert _cache.load(key) == RESULT
    assert [f.name for f in home.iterdir()] == [".cache"]
