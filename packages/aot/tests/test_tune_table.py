"""What was tuned is kept in a table, and not tuned again; a run that was killed goes on."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mosaic_tpu.aot import _candidate, _compat, space, tune
from mosaic_tpu.aot._table import Table
from mosaic_tpu.aot.errors import (
    LayoutError,
    NoCompilerError,
    OptionError,
)

from .conftest import DOUBLE
from .tune_kit import Blocked, Config, Odd, failing

compiler = pytest.mark.usefixtures("needs_compiler")


def test_what_is_in_the_table_is_not_tuned_again(clock: list[int], tmp_path: Path) -> None:
    configs, file = space(Config(), block=(256, 512)), tmp_path / "table.json"
    given: dict[str, Any] = {"configs": configs, "target": "v5e", "table": file, "key": {"m": 512}}
    first = tune(Blocked(), **given)
    assert sorted(clock) == [256, 512]
    again = tune(Blocked(), **given)
    assert (again, again.trials, str(again)) == (first, first.trials, str(first))
    assert sorted(clock) == [256, 512]
    for other in ({"configs": configs[:1]}, {"configs": configs[::-1]}, {"key": {"m": 1}}, {"scalars": [np.array(3)]}):
        before = len(clock)
        tune(Blocked(), **given | other)
        assert len(clock) > before
    entries = json.loads(file.read_text())["entries"]
    assert [(e["target"], e["key"]["m"]) for e in entries] == [("v5e", 1), ("v5e", 512)]
    assert [e["best"] for e in entries] == [{"block": 512}] * 2


@compiler
def test_each_generation_and_compiler_has_its_own_entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, compiled = tmp_path / "table.json", []
    real = _candidate.compile_to_rank
    monkeypatch.setattr(_candidate, "compile_to_rank", lambda *a, **kw: (compiled.append(a[1]), real(*a, **kw))[1])
    for target, times in (("v5e", 1), ("v5e", 1), ("v6e", 2), ("v5e", 2)):
        tune(Blocked(), [Config()], target, table=file)
        assert len(compiled) == times
    monkeypatch.setattr(_compat, "compiler_version", lambda: "0.0.1")
    monkeypatch.setattr(_candidate, "compile_to_rank", lambda *_, **__: failing(LayoutError("not with this one"))())
    assert tune(Blocked(), [Config()], "v5e", table=file).trials[0].stage == "compiler"


def test_what_was_measured_is_measured_again_with_another_compiler(
    clock: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "t.json"
    for version, times in (("1", 1), ("1", 1), ("2", 2)):
        monkeypatch.setattr(_compat, "compiler_version", lambda version=version: version)
        tune(Blocked(), [Config()], "v5e", table=file)
        assert len(clock) == times
    assert [(e["compiler"], e["metric"]) for e in json.loads(file.read_text())["entries"]] == [("2", "measured")]


def test_what_was_measured_is_no_estimate(clock: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_compat, "compiler_version", lambda: None)
    tune(Blocked(), [Config()], "v5e", table=tmp_path / "t.json")
    with pytest.raises(NoCompilerError):
        tune(Blocked(), [Config()], "v5e", table=tmp_path / "t.json", measure=False)


@dataclass(frozen=True)
class Hidden:
    """A config whose repr does not say all."""

    block: int = field(repr=False)
    rows: int = 512


def test_configs_of_which_repr_says_not_all_are_told_apart(clock: list[int], tmp_path: Path) -> None:
    file, configs = tmp_path / "t.json", [Hidden(128), Hidden(512)]
    assert [repr(c) for c in configs] == ["Hidden(rows=512)"] * 2
    assert tune(Odd(), configs, "v5e", table=file).best == Hidden(512)
    assert tune(Odd(), configs[::-1], "v5e", table=file).best == Hidden(512)
    assert tune(Odd(), configs[::-1], "v5e", table=file).best == Hidden(512)
    (entry,) = json.loads(file.read_text())["entries"]
    assert (entry["best"], entry["key"]) == ({"block": 512}, {"rows": 512})
    assert len(clock) == 4


class Edited(Blocked):
    """A kernel whose source changes."""

    def __init__(self, text: str = DOUBLE) -> None:
        self.text = text

    def lower(self, config: Config) -> Any:
        return self.text


def test_a_kernel_that_was_edited_is_tuned_again_and_one_that_moved_is_not(clock: list[int], tmp_path: Path) -> None:
    file = tmp_path / "t.json"
    tune(Edited(), [Config()], "v5e", table=file)
    tune(Edited("\n\n\n" + DOUBLE), [Config()], "v5e", table=file)
    assert len(clock) == 1
    tune(Edited(DOUBLE.replace("addf", "mulf")), [Config()], "v5e", table=file)
    assert len(clock) == 2
    assert len(json.loads(file.read_text())["entries"]) == 1


def test_a_kernel_that_says_something_else_of_a_config_is_tuned_again(clock: list[int], tmp_path: Path) -> None:
    file, kernel = tmp_path / "t.json", Odd()
    for said in ("too large", "too small"):
        kernel.junk = failing(ValueError(said))
        tuning = tune(kernel, [Config(block=256)], "v5e", table=file)
        assert (tuning.trials[0].stage, tuning.trials[0].refused) == ("config", said)


@dataclass(frozen=True)
class Confusing:
    """A config whose fields are named as what a trial says."""

    cycles: int = 1
    refused: str = "a"
    stage: str = "b"
    block: int = 512


def test_fields_of_a_config_are_not_mixed_up_with_its_result(clock: list[int], tmp_path: Path) -> None:
    file = tmp_path / "t.json"
    configs = [Confusing(7, "x", "y", 256), Confusing()]
    first = tune(Odd(), configs, "v5e", table=file)
    assert tune(Odd(), configs, "v5e", table=file).trials == first.trials
    assert [(t.stage, t.config.block) for t in first.trials] == [("", 512), ("config", 256)]
    (entry,) = json.loads(file.read_text())["entries"]
    assert entry["trials"][0]["config"] == {"cycles": 7, "refused": "x", "stage": "y", "block": 256}
    assert entry["trials"][0]["stage"] == "config"
    assert entry["best"] == {"cycles": 1, "refused": "a", "stage": "b", "block": 512}


def test_configs_that_are_no_dataclass_or_of_several_are_tuned_too(clock: list[int], tmp_path: Path) -> None:
    file = tmp_path / "t.json"
    configs = [Config(block=256), Hidden(512)]
    assert tune(Odd(), configs, "v5e", table=file).trials[0].config == Hidden(512)
    assert tune(Odd(), configs, "v5e", table=file).trials[0].config == Hidden(512)
    (entry,) = json.loads(file.read_text())["entries"]
    assert entry["best"] == {"config": "Hidden(rows=512)"}


def test_an_entry_with_fewer_trials_is_not_used(clock: list[int], tmp_path: Path) -> None:
    file, configs = tmp_path / "t.json", space(Config(), block=(256, 512))
    tune(Blocked(), configs, "v5e", table=file)
    content = json.loads(file.read_text())
    del content["entries"][0]["trials"][1]
    file.write_text(json.dumps(content))
    assert len(tune(Blocked(), configs, "v5e", table=file).trials) == 2
    assert len(clock) == 4


def edited(file: Path, change: Callable[[list[dict[str, Any]]], None]) -> None:
    """Change the trials in a table's one entry."""
    content = json.loads(file.read_text())
    change(content["entries"][0]["trials"])
    file.write_text(json.dumps(content))


def test_trials_are_those_of_their_configs_in_any_order(clock: list[int], tmp_path: Path) -> None:
    file, configs = tmp_path / "t.json", space(Config(), block=(128, 256, 512))
    first = tune(Blocked(), configs, "v5e", table=file)
    edited(file, list.reverse)
    assert tune(Blocked(), configs, "v5e", table=file).trials == first.trials
    assert len(clock) == 3


def test_trials_of_configs_that_look_the_same_stay_in_their_order(clock: list[int], tmp_path: Path) -> None:
    file, configs = tmp_path / "t.json", [Config(block=256), Hidden(128), Hidden(512)]
    first = tune(Odd(), configs, "v5e", table=file)
    tried = len(clock)
    assert tune(Odd(), configs, "v5e", table=file).trials == first.trials
    assert len(clock) == tried


@pytest.mark.parametrize(
    "change",
    [
        lambda trials: trials[0].update(config={"block": 64}),
        lambda trials: trials[0].update(config={}),
        lambda trials: trials[0].update(config={"block": 256.5}),
        lambda trials: trials[0].update(config=trials[1]["config"]),
        lambda trials: trials.append(trials[0]),
        lambda trials: trials[0].update(cycles=0),
        lambda trials: trials[0].update(cycles=1e300),
        lambda trials: trials[0].update(cycles=10**400),
    ],
    ids=["foreign", "empty", "odd", "twice", "more", "none", "too many", "no float"],
)
def test_an_entry_of_other_configs_or_impossible_cycles_is_not_used(
    change: Any, clock: list[int], tmp_path: Path
) -> None:
    file, configs = tmp_path / "t.json", space(Config(), block=(256, 512))
    first = tune(Blocked(), configs, "v5e", table=file)
    edited(file, change)
    assert tune(Blocked(), configs, "v5e", table=file).trials == first.trials
    assert len(clock) == 4


def test_a_disk_that_is_full_in_the_end_loses_no_tuning(
    clock: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def put(self: Table, entry: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Table, "put", put)
    with pytest.warns(UserWarning, match=r"not kept in .*t.json: No space left on device") as said:
        tuning = tune(Blocked(), [Config()], "v5e", table=tmp_path / "t.json")
    assert tuning.best == Config()
    assert said[0].filename == __file__


def test_a_table_that_became_something_else_meanwhile_is_kept(clock: list[int], tmp_path: Path) -> None:
    file = tmp_path / "t.json"

    class Spoiling(Blocked):
        def lower(self, config: Config) -> Any:
            file.write_text("mine")
            return super().lower(config)

    with pytest.warns(UserWarning, match="holds no tunings of blocked"):
        assert tune(Spoiling(), [Config()], "v5e", table=file).best == Config()
    assert file.read_text() == "mine"


def test_a_table_that_can_only_be_read_still_serves(
    clock: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "t.json"
    tune(Blocked(), [Config()], "v5e", table=file)

    def prepare(self: Table) -> None:
        raise OptionError("cannot be written", op="tune")

    monkeypatch.setattr(Table, "prepare", prepare)
    with warnings.catch_warnings(action="error"):
        assert tune(Blocked(), [Config()], "v5e", table=file).best == Config()
    with pytest.raises(OptionError, match="cannot be written"):
        tune(Blocked(), [Config(m=1024)], "v5e", table=file)
    assert len(clock) == 1


# --- runs that are killed ------------------------------------------------------------------------------------------

RUN = """
from mosaic_tpu.aot import tune

class Sized:
    name = "sized"

    def lower(self, rows):
        return DOUBLE.replace("8x128", f"{rows}x128")

tune(Sized(), [8, 16, 24, 32], "v5e", table=FILE, workers=1, measure=False)
"""


@compiler
def test_a_run_that_is_killed_goes_on_to_the_same_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, resumed, cache = tmp_path / "whole.json", tmp_path / "resumed.json", tmp_path / "another cache"
    exec(RUN, {"DOUBLE": DOUBLE, "FILE": whole})
    monkeypatch.setenv("MOSAIC_TPU_CACHE", str(cache))
    script = f"DOUBLE, FILE = {DOUBLE!r}, {str(resumed)!r}{RUN}"
    deadline = time.monotonic() + 300
    for answers in (1, 3, None):
        process = subprocess.Popen([sys.executable, "-c", script])
        try:
            while answers is not None and len(list(cache.glob("*/*/*.gz"))) < answers:
                assert process.poll() is None
                assert time.monotonic() < deadline
                time.sleep(0.002)
            if answers is not None:
                process.kill()
            assert process.wait(deadline - time.monotonic()) == (0 if answers is None else -signal.SIGKILL)
        finally:
            process.kill()
            process.wait()
    assert resumed.read_text() == whole.read_text()
