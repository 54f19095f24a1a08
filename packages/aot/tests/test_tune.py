"""Configs are tried, refused by whoever knows why, and ranked by one and the same measure."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from mosaic_tpu.aot import _measure, space, specialize, tune
from mosaic_tpu.aot import tune as tune_function
from mosaic_tpu.aot._table import field_of
from mosaic_tpu.aot.errors import EstimateError, OptionError

from .conftest import doubled, multiplied
from .test_work import blocked, counted_loop

compiler = pytest.mark.usefixtures("needs_compiler")


@dataclass(frozen=True)
class Config:
    m: int = 512
    block: int = 128

    def __post_init__(self) -> None:
        if self.m % self.block:
            raise ValueError(f"{self.block} does not divide {self.m}")


class Blocked:
    """What `tune` needs of a kernel."""

    name = "blocked"
    inputs = ("x", "y")

    def lower(self, config: Config) -> Any:
        return blocked(config.m, 512, 512, config.block, config.block, 512)


def test_a_space_is_every_combination_that_its_class_accepts() -> None:
    found = space(Config(), block=(128, 96, 256), m=(512, 768))
    assert [(c.block, c.m) for c in found] == [(128, 512), (128, 768), (96, 768), (256, 512), (256, 768)]


@pytest.mark.parametrize(
    ("base", "choices", "said"),
    [
        (3, {}, "base is a int"),
        (Config, {}, "base is a type"),
        (Config(), {"size": (1,)}, "no field 'size'"),
        (Config(), {"block": (100, 200)}, "every config is refused"),
        (Config(), {"block": ()}, "every config is refused"),
    ],
)
def test_a_space_without_configs_is_refused(base: Any, choices: dict[str, Any], said: str) -> None:
    with pytest.raises(OptionError, match=said):
        space(base, **choices)


@compiler
def test_configs_are_ranked_and_the_compilers_word_is_the_measure_where_it_can_be_trusted() -> None:
    tuning = tune(Blocked(), space(Config(), block=(128, 256, 512)), "v5e")
    assert tuning.metric == "compiler"
    cycles = [t.cycles for t in tuning.trials]
    assert cycles == sorted(cycles)
    own = {c.block: specialize(Blocked().lower(c), "v5e").compiler.cycles for c in (t.config for t in tuning.trials)}
    assert cycles == [own[t.config.block] for t in tuning.trials]
    assert tuning.best == tuning.trials[0].config
    assert tuning.fields == ("block",)
    assert "block=" in str(tuning)


class Refusing(Blocked):
    """One config that its own checks refuse, one that lint does, one that compiles."""

    def lower(self, config: Config) -> Any:
        if config.block == 128:
            raise ValueError("not this one\nreally")
        return multiplied(jnp.int8, jnp.int32) if config.block == 256 else multiplied()


@compiler
def test_who_refused_which_config_is_told() -> None:
    tuning = tune(Refusing(), space(Config(), block=(128, 256, 512)), "v4")
    stages = {t.config.block: t.stage for t in tuning.trials}
    assert (stages[128], stages[512]) == ("config", "")
    assert stages[256] == "lint"
    assert tuning.best.block == 512
    assert "refused by config: 1; block=128: not this one" in str(tuning)


def test_a_field_without_an_estimate_has_no_best() -> None:
    tuning = tune(Refusing(), [Config()], "v5e", measure=False)
    with pytest.raises(EstimateError, match="none of 1 configs"):
        _ = tuning.best
    with pytest.raises(OptionError, match="no config to try"):
        tune(Refusing(), [], "v5e")


class Counted(Blocked):
    def lower(self, config: Config) -> Any:
        return counted_loop()


@compiler
def test_trip_counts_from_data_are_counted() -> None:
    few, many = (specialize(counted_loop(), "v6e", scalars=[np.array([n], np.int32)]) for n in (2, 12))
    assert not few.compiler.trustworthy
    (loop,) = (s for s in many.segments if s.block.kind == "loop" and s.block.trips is None)
    assert loop.runs == 12
    assert many.issue_cycles - few.issue_cycles == 10 * loop.block.own_bundles
    assert "depend on data" in str(few)
    assert many.to_json()["compiler_cycles"] is None
    tuning = tune(Counted(), [Config()], "v6e", scalars=lambda config: [np.array([12], np.int32)])
    assert (tuning.metric, tuning.trials[0].cycles) == ("counted", many.cycles)


def test_a_tpu_that_is_not_there_is_not_measured() -> None:
    with pytest.raises(OptionError, match="measure=True for v6e, and no TPU is attached"):
        tune(Blocked(), [Config()], "v6e", measure=True)


class Callable(Blocked):
    inputs = ("x",)

    def lower(self, config: Config) -> Any:
        return doubled()

    def __call__(self, *, cfg: Config, x: Any) -> Any:
        return x * 2


def test_on_a_tpu_its_clock_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    module = __import__("sys").modules[tune_function.__module__]
    monkeypatch.setattr(module, "tpu_generation", lambda: "v5e")
    seconds = {128: 3e-6, 256: 1e-6, 512: 2e-6}
    monkeypatch.setattr(module, "measured", lambda kernel, config, scalars: seconds[config.block])
    tuning = tune(Callable(), space(Config(), block=(128, 256, 512)))
    assert (tuning.metric, str(tuning.target)) == ("measured", "v5e")
    assert [t.config.block for t in tuning.trials] == [256, 512, 128]


def test_a_call_is_timed_after_it_has_been_compiled() -> None:
    assert 0 < _measure.measured(Callable(), Config(), ()) < 1
    calls: list[int] = []
    seconds = _measure.seconds_of(lambda: calls.append(1), lambda result: None)
    assert seconds > 0
    assert len(calls) == 1 + _measure._CALLS * _measure._ROUNDS


# --- the table -----------------------------------------------------------------------------------------------------


class Counting(Blocked):
    """How often it was lowered."""

    def __init__(self) -> None:
        self.lowered = 0

    def lower(self, config: Config) -> Any:
        self.lowered += 1
        return super().lower(config)


@compiler
def test_what_is_in_the_table_is_not_tuned_again(tmp_path: Path) -> None:
    kernel, field, file = Counting(), space(Config(), block=(256, 512)), tmp_path / "table.json"
    first = tune(kernel, field, "v5e", table=file, key={"m": 512})
    before = kernel.lowered
    assert str(tune(kernel, field, "v5e", table=file, key={"m": 512})) == str(first)
    assert kernel.lowered == before
    for other in (
        {"configs": field[:1]},
        {"target": "v6e"},
        {"key": {"m": 1}},
    ):
        before = kernel.lowered
        tune(kernel, **{"configs": field, "target": "v5e", "table": file, "key": {"m": 512}, **other})
        assert kernel.lowered > before
    entries = json.loads(file.read_text())["entries"]
    assert {(e["target"], e["key"]["m"]) for e in entries} == {("v5e", 512), ("v6e", 512), ("v5e", 1)}
    assert entries[0]["best"].keys() <= {"block"}


def test_another_batch_is_another_field() -> None:
    batches = [
        ([np.array([5])],),
        ([np.array([6])],),
        ([np.array([5], np.int64)],),
        ([np.array([[5]])],),
        ({"n": [5]},),
    ]
    fields = {field_of([Config()], batch, "1") for batch in batches}
    assert len(fields | {field_of([Config()], batches[0], "2"), field_of([Config(768)], batches[0], "1")}) >= 6


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{}",
        '{"schema": 1, "kernel": "other", "entries": []}',
        '{"schema": 1, "kernel": "blocked", "entries": [{}]}',
        '{"schema": 1, "kernel": "blocked", "entries": 3}',
        '{"schema": 1, "kernel": "blocked", "entries": [3]}',
    ],
)
def test_a_file_that_holds_something_else_is_refused_and_kept(content: str, tmp_path: Path) -> None:
    file = tmp_path / "table.json"
    file.write_text(content)
    with pytest.raises(OptionError, match="holds no tunings of blocked"):
        tune(Blocked(), [Config()], "v5e", table=file, measure=False)
    assert file.read_text() == content


def test_a_key_that_json_cannot_hold_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="key is"):
        tune(Blocked(), [Config()], "v5e", table=tmp_path / "t.json", key={"x": object()}, measure=False)
