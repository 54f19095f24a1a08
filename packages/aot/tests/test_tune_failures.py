"""A config that fails, in whatever way, ends no tuning, and who is to blame is told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mosaic_tpu.aot import _candidate, _compile, space, specialize, tune
from mosaic_tpu.aot._pool import Outcome
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
)
from mosaic_tpu.sim.errors import LimitError

from .conftest import multiplied
from .test_work import counted_loop
from .tune_kit import Blocked, Config, Counted, Odd, failing

compiler = pytest.mark.usefixtures("needs_compiler")


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
    monkeypatch.setattr(_candidate, "compile_to_rank", lambda *_, **__: failing(error)())
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
@pytest.mark.parametrize("place", ["lint", "compile_to_rank"])
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
