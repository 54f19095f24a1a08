"""Configs are tried, refused by whoever knows why, and ranked by one and the same measure."""

from __future__ import annotations

import doctest
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

import jax.numpy as jnp
import numpy as np
import pytest

from mosaic_tpu.aot import _candidate, _compat, _compile, _measure, _space, _tune, space, specialize, tune
from mosaic_tpu.aot._pool import Outcome
from mosaic_tpu.aot._table import Table
from mosaic_tpu.aot._worker import Answer
from mosaic_tpu.aot.errors import (
    AotError,
    CompileTimeoutError,
    DiskError,
    DumpError,
    EstimateError,
    InternalCompilerError,
    LayoutError,
    NoCompilerError,
    OptionError,
    TargetError,
)
from mosaic_tpu.sim.errors import LimitError

from .conftest import DOUBLE, doubled, multiplied
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
    monkeypatch.setattr(_candidate, "compile_source", lambda *_, **__: pytest.fail("compiled"))
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


class Called(Blocked):
    inputs = ("x",)

    def lower(self, config: Config) -> Any:
        return doubled()

    def __call__(self, *, cfg: Config, x: Any) -> Any:
        return x * 2


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A TPU of the generation v5e, on which each config takes as long as it has blocks; which were timed."""
    timed: list[int] = []

    def seconds(kernel: Any, config: Any, scalars: Any) -> float:
        timed.append(config.block)
        return 1e-6 * 512 / config.block

    monkeypatch.setattr(_tune, "tpu_generation", lambda: "v5e")
    monkeypatch.setattr(_candidate, "measured", seconds)
    return timed


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


# --- one config that fails -----------------------------------------------------------------------------------------


class Odd(Blocked):
    """One config whose program is junk, between sound ones."""

    junk: Any = 3

    def lower(self, config: Config) -> Any:
        if config.block != 256:
            return doubled()
        return self.junk() if callable(self.junk) else self.junk


def failing(error: BaseException) -> Callable[[], Any]:
    def fail() -> Any:
        raise error

    return fail


@compiler
@pytest.mark.parametrize(
    ("junk", "said"),
    [
        (3, "holds no Mosaic module"),
        (None, "holds no Mosaic module"),
        ("", "empty"),
        (b"ML\xefR damaged", "not a Mosaic module"),
        ("nowhere.mlir", "cannot read nowhere.mlir"),
        (failing(KeyError("no such block")), "no such block"),
        (failing(ValueError()), "ValueError()"),
        (failing(ValueError("\n\n the second line")), "the second line"),
    ],
)
def test_a_config_whose_program_is_junk_ends_nothing(junk: Any, said: str) -> None:
    kernel = Odd()
    kernel.junk = junk
    tuning = tune(kernel, space(Config(), block=(128, 256, 512)), "v5e")
    assert [t.stage for t in tuning.trials] == ["", "", "config"]
    assert tuning.trials[2].config.block == 256
    assert said in tuning.trials[2].refused


@pytest.mark.parametrize(
    ("error", "stage", "transient"),
    [
        (LayoutError("no layout"), "compiler", False),
        (InternalCompilerError("an internal error"), "compiler", False),
        (CompileTimeoutError("no answer"), "compiler", True),
        (DiskError("no room"), "compiler", True),
        (DumpError("damaged"), "estimate", False),
        (EstimateError("no estimate"), "estimate", False),
        (OptionError("several kernels"), "config", False),
        (AotError("another"), "config", False),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_wrong_with_one_config_is_told_of_it(
    error: AotError, stage: str, transient: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_candidate, "compile_source", lambda *_, **__: failing(error)())
    (trial,) = tune(Blocked(), [Config()], "v5e", table=tmp_path / "t.json").trials
    assert (trial.stage, trial.refused, trial.transient) == (stage, error.summary, transient)
    # What another run may see otherwise is not kept.
    assert (tmp_path / "t.json").exists() is not transient


@compiler
@pytest.mark.parametrize(
    ("answer", "transient"),
    [
        (Answer("LLVM ERROR: no", died="SIGABRT"), False),
        (Answer("", died="SIGSEGV"), False),
        (Answer("INTERNAL: Mosaic failed to compile TPU kernel: Not implemented"), False),
        (Answer("", died="SIGKILL"), True),  # the machine had no memory left
        (Answer("", died="SIGTERM"), True),
        (Answer("no module", died="exit code 1", started=False), True),
        (Answer("", died="no answer within 120 s", timed_out=True, started=False), True),
        (Answer("", died="no answer within 1 s", timed_out=True), True),
        (Answer("No space left on device", died="SIGABRT"), True),
    ],
    ids=str,
)
def test_what_ended_the_compiler_from_outside_is_not_kept(
    answer: Answer, transient: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_compile._pool, "run", lambda *_: Outcome(answer, {}))
    (trial,) = tune(Blocked(), [Config()], "v5e", table=tmp_path / "t.json").trials
    assert (trial.stage, trial.transient) == ("compiler", transient)
    assert (tmp_path / "t.json").exists() is not transient


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3), NoCompilerError("not installed")], ids=repr)
@pytest.mark.parametrize("place", ["lint", "compile_source"])
def test_what_is_no_config_s_fault_ends_it_all(
    error: BaseException, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_candidate, place, lambda *_, **__: failing(error)())
    with pytest.raises(type(error)):
        tune(Blocked(), [Config()], "v5e")


def test_an_interrupt_while_a_config_is_lowered_passes() -> None:
    kernel = Odd()
    kernel.junk = failing(KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        tune(kernel, [Config(block=256)], "v5e")


class Mixed(Blocked):
    """One config whose trip counts depend on data, and one of which the compiler knows all."""

    def lower(self, config: Config) -> Any:
        return counted_loop() if config.block == 128 else multiplied()


def twelve(config: Config) -> list[Any]:
    return [np.array([12], np.int32)] if config.block == 128 else []


@compiler
def test_why_the_compilers_estimates_would_not_do_is_printed_and_kept(tmp_path: Path) -> None:
    configs = space(Config(), block=(128, 512))
    tuning = tune(Mixed(), configs, "v6e", scalars=twelve, table=tmp_path / "t.json")
    own = specialize(counted_loop(), "v6e", scalars=twelve(configs[0])).compiler.why.removeprefix("not estimable: ")
    assert (tuning.metric, tuning.why) == ("counted", f"block=128: {own}")
    assert str(tuning).splitlines()[1] == f"  not the compiler's estimate: block=128: {own}"
    again = tune(Mixed(), configs, "v6e", scalars=twelve, table=tmp_path / "t.json")
    assert (again, again.trials) == (tuning, tuning.trials)
    assert json.loads((tmp_path / "t.json").read_text())["entries"][0]["why"] == tuning.why


@compiler
def test_where_the_compilers_estimates_do_there_is_no_why() -> None:
    tuning = tune(Mixed(), [Config(block=512)], "v6e")
    assert tuning.why == ""
    assert "not the compiler's estimate" not in str(tuning)
    # Where none can be trusted, the reason is nobody's own.
    assert not tune(Counted(), [Config()], "v6e", scalars=twelve).why.startswith("block")


@compiler
def test_scalars_that_fit_no_config_are_the_callers_mistake_and_of_one_config_its_own() -> None:
    configs = space(Config(), block=(128, 512))
    with pytest.raises(OptionError, match="the kernel has 1"):
        tune(Counted(), configs, "v6e")
    with pytest.raises(OptionError, match="not int32"):
        tune(Counted(), configs, "v6e", scalars=[np.array([1.5])])
    tuning = tune(Counted(), configs, "v6e", scalars=lambda config: twelve(config)[:1] or [np.zeros(2, np.int32)])
    assert [t.stage for t in tuning.trials] == ["", "config"]
    tuning = tune(Counted(), configs, "v6e", scalars=lambda config: {128: twelve(config)}[config.block])
    assert [(t.stage, t.refused) for t in tuning.trials] == [("", ""), ("config", "512")]


@compiler
def test_a_simulation_that_takes_too_long_may_do_better_another_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_candidate, "specialize", lambda *_, **__: failing(LimitError("too long"))())
    (trial,) = tune(Counted(), [Config()], "v6e", scalars=twelve).trials
    assert (trial.stage, trial.transient) == ("estimate", True)


def test_the_examples_run() -> None:
    for module in (_space, _tune):
        found = doctest.testmod(module)
        assert found.attempted
        assert not found.failed


# --- the table -----------------------------------------------------------------------------------------------------


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
    real = _candidate.compile_source
    monkeypatch.setattr(_candidate, "compile_source", lambda *a, **kw: (compiled.append(a[1]), real(*a, **kw))[1])
    for target, times in (("v5e", 1), ("v5e", 1), ("v6e", 2), ("v5e", 2)):
        tune(Blocked(), [Config()], target, table=file)
        assert len(compiled) == times
    monkeypatch.setattr(_compat, "compiler_version", lambda: "0.0.1")
    monkeypatch.setattr(_candidate, "compile_source", lambda *_, **__: failing(LayoutError("not with this one"))())
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
