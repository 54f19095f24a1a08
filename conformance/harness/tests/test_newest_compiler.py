"""Tests of the newest TPU compiler are deselected with an older one, and the report says how many."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import jax
import pytest

from conformance import conftest

ITEMS = [SimpleNamespace(fixturenames=names) for names in (("record",), ("newest_compiler", "record"), ("tmp_path",))]


class Config:
    """As much of pytest's as is asked for."""

    def __init__(self) -> None:
        self.stash = pytest.Stash()
        self.deselected: list[Any] = []
        self.hook = SimpleNamespace(pytest_deselected=lambda items: self.deselected.extend(items))


def collected(version: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> tuple[list[Any], Config]:
    config, items = Config(), list(ITEMS)
    monkeypatch.setattr(jax, "__version_info__", version)
    conftest.pytest_collection_modifyitems(config, items)  # pyright: ignore[reportArgumentType]
    return items, config


def test_an_older_jax_deselects_them(monkeypatch: pytest.MonkeyPatch) -> None:
    items, config = collected((0, 11, 2), monkeypatch)
    assert items == [ITEMS[0], ITEMS[2]]
    assert config.deselected == [ITEMS[1]]
    assert config.stash[conftest._DESELECTED] == 1


def test_the_newest_runs_all(monkeypatch: pytest.MonkeyPatch) -> None:
    items, config = collected((0, 12, 0), monkeypatch)
    assert (items, config.deselected) == (ITEMS, [])


def test_a_workers_count_reaches_the_process_that_reports() -> None:
    worker, controller = SimpleNamespace(stash=pytest.Stash(), workeroutput={}), Config()
    worker.stash[conftest._DESELECTED] = 7
    conftest.pytest_sessionfinish(SimpleNamespace(config=worker))  # pyright: ignore[reportArgumentType]
    conftest.pytest_testnodedown(SimpleNamespace(config=controller, workeroutput=worker.workeroutput))
    conftest.pytest_testnodedown(SimpleNamespace(config=controller))  # one that crashed
    assert controller.stash[conftest._DESELECTED] == 7
