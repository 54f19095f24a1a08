"""Configs are tried, refused by whoever knows why, and ranked by one and the same measure."""

from __future__ import annotations

import doctest
from dataclasses import dataclass, field
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from mosaic_tpu.aot import _candidate, _measure, _space, _tune, space, specialize, tune
from mosaic_tpu.aot.errors import (
    EstimateError,
    OptionError,
    TargetError,
)

from .conftest import doubled, multiplied
from .test_work import counted_loop
from .tune_kit import Blocked, Called, Config, Counted

compiler = pytest.mark.usefixtures("needs_compiler")


def test_a_space_is_every_combination_that_its_class_accepts() -> None:
    found = space(Config(), block=(128, 96, 256), m=(512, 768))
    assert [(c.block, c.m) for c in found] == [(128, 512), (128, 768), (96, 768), (256, 512), (256, 768)]


@dataclass(frozen=True)
class Mute:
    rows: int = 8

    def __post_init__(self) -> None:
        if self.rows != 8:
            raise ValueError


@dataclass(frozen=True)
class Dividing:
    rows: int = 8
    left: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        object.__setattr__(self, "left", 64 % self.rows)


def test_a_class_may_refuse_with_any_error_and_without_a_word() -> None:
    assert space(Mute(), rows=(16, 8)) == [Mute(8)]
    assert space(Dividing(), rows=(0, "x", 8)) == [Dividing(8)]


@pytest.mark.parametrize(
    ("base", "choices", "said", "hint"),
    [
        (3, {}, "base is a int", "a frozen dataclass"),
        (None, {}, "base is a NoneType", "a frozen dataclass"),
        (Config, {}, "base is a type", "a frozen dataclass"),
        (Config(), {"size": (1,)}, "no field 'size'", "one of m, block"),
        (Config(), {"block": (100, 200)}, "every config is refused", "the first: 100 does not divide 512"),
        (Config(), {"block": (0,)}, "every config is refused", "the first: integer modulo by zero"),
        (Mute(), {"rows": (1, 2)}, "every config is refused", "the first: ValueError()"),
        (Config(), {"block": ()}, "block has no value", "block=(128, 256)"),
        (Config(), {"m": (512,), "block": iter(())}, "block has no value", "block=(128, 256)"),
        (Config(), {"block": 128}, "block is 128", "block=(128, 256)"),
        (Config(), {"block": "128"}, "block is '128'", "block=(128, 256)"),
        (Config(), {"block": None}, "block is None", "block=(128, 256)"),
    ],
)
def test_a_space_without_configs_is_refused(base: Any, choices: dict[str, Any], said: str, hint: str) -> None:
    with pytest.raises(OptionError, match=said) as error:
        space(base, **choices)
    assert error.value.op == "space"
    assert hint in error.value.hint


@pytest.mark.parametrize(
    ("options", "said", "hint"),
    [
        ({"kernel": 3}, "the kernel is a int", "lower"),
        ({"kernel": doubled}, "the kernel is a function", "lower"),
        ({"configs": 5}, "configs is 5", "space("),
        ({"configs": None}, "configs is None", "space("),
        ({"configs": Config()}, "configs is Config(", "a list of them"),
        ({"configs": "abc"}, "configs is 'abc'", "space("),
        ({"configs": []}, "there is no config to try", "space("),
        ({"scalars": 5}, "scalars is 5", "in the order"),
        ({"scalars": None}, "scalars is None", "in the order"),
        ({"scalars": "abc"}, "scalars is 'abc'", "in the order"),
        ({"scalars": [[1, [2]]]}, "the scalars 0 are", "in the order"),
        ({"scalars": {"n": None}}, "the scalars 'n' are no array of numbers: None", "in the order"),
        ({"scalars": np.array(3)}, "scalars is array(3)", "in the order"),
        ({"scalars": {1: 2}}, "scalars has the names", "by name"),
        ({"timeout": float("nan")}, "timeout is nan", "seconds"),
        ({"timeout": 0}, "timeout is 0", "seconds"),
        ({"timeout": None}, "timeout is None", "seconds"),
        ({"workers": 0}, "workers is 0", "processes"),
        ({"workers": 1.5}, "workers is 1.5", "processes"),
        ({"key": 5}, "key is 5", "names to numbers"),
        ({"key": {"x": object()}, "table": "t.json"}, "key is", "names to numbers"),
        ({"table": 5}, "table is 5", "the name of a JSON file"),
        ({"table": "/proc/nowhere/t.json"}, "/proc/nowhere/t.json cannot be written", "name a file"),
        ({"measure": True}, "measure=True for v6e, and no TPU is attached", "leave measure out"),
    ],
)
def test_an_option_of_the_wrong_kind_is_refused_before_anything_is_compiled(
    options: dict[str, Any], said: str, hint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_candidate, "compile_to_rank", lambda *_, **__: pytest.fail("compiled"))
    given = {"kernel": Blocked(), "configs": [Config()], **options}
    with pytest.raises(OptionError) as error:
        tune(given.pop("kernel"), given.pop("configs"), "v6e", **given)
    assert said in error.value.summary
    assert error.value.op == "tune"
    assert hint in error.value.hint


def test_a_target_that_is_none_is_refused() -> None:
    with pytest.raises(TargetError):
        tune(Blocked(), [Config()], "v99")


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


def test_a_search_space_without_an_estimate_has_no_best() -> None:
    tuning = tune(Refusing(), [Config()], "v5e", measure=False)
    with pytest.raises(EstimateError, match="none of 1 configs"):
        _ = tuning.best


@compiler
def test_trip_counts_from_data_are_counted() -> None:
    few, many = (specialize(counted_loop(), "v6e", scalars=[np.array([n], np.int32)]) for n in (2, 12))
    assert not few.compiler.trustworthy
    (loop,) = (s for s in many.segments if s.block.kind == "loop" and s.block.trips is None)
    assert loop.runs == 12
    assert many.bundles - few.bundles == 10 * loop.block.own_bundles
    assert "depend on data" in str(few)
    assert many.to_json()["compiler_cycles"] is None
    tuning = tune(Counted(), [Config()], "v6e", scalars=lambda config: [np.array([12], np.int32)])
    assert (tuning.metric, tuning.trials[0].cycles) == ("counted", many.cycles)


def test_on_a_tpu_its_clock_decides(clock: list[int]) -> None:
    tuning = tune(Called(), space(Config(), block=(128, 512, 256)))
    assert (tuning.metric, str(tuning.target)) == ("measured", "v5e")
    assert [t.config.block for t in tuning.trials] == [512, 256, 128]
    assert sorted(clock) == [128, 256, 512]


def test_a_call_is_timed_after_it_has_been_compiled() -> None:
    assert 0 < _measure.measured(Called(), Config(), ()) < 1
    calls: list[int] = []
    seconds = _measure.seconds_of(lambda: calls.append(1), lambda result: None)
    assert seconds > 0
    assert len(calls) == 1 + _measure._CALLS * _measure._ROUNDS


def test_the_examples_run() -> None:
    for module in (_space, _tune):
        found = doctest.testmod(module)
        assert found.attempted
        assert not found.failed
