"""`tune`: the best config of a kernel, by the compiler's estimates; on a TPU, by its clock."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import math
import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

import numpy as np

from mosaic_tpu.aot import _compat
from mosaic_tpu.aot._checks import check_timeout, check_workers
from mosaic_tpu.aot._compile import TIMEOUT, run_jobs
from mosaic_tpu.aot._compile import compile as compile_source
from mosaic_tpu.aot._lint import lint
from mosaic_tpu.aot._measure import measured, tpu_generation
from mosaic_tpu.aot._program import program_of
from mosaic_tpu.aot._specialize import ESTIMATOR, specialize
from mosaic_tpu.aot._table import (
    COMPILER,
    COUNTED,
    MEASURED,
    STAGES,
    Entry,
    Table,
    described,
    differing,
    digest_of,
    field_of,
    plain,
    plain_key,
    shared,
)
from mosaic_tpu.aot.errors import AotError, CompileError, DumpError, EstimateError, NoCompilerError, OptionError
from mosaic_tpu.aot.schedule import Estimate
from mosaic_tpu.aot.targets import Target, find_target
from mosaic_tpu.sim.errors import SimulationError

_SHOWN: Final = 12


@dataclass(frozen=True)
class Trial:
    """One config of the field.

    Attributes:
        config: as it was given.
        cycles: that a call takes; ``None`` where there is no estimate.
        refused: why there is none: what lint found, what the compiler said; empty where there is one.
        stage: who refused: ``"config"``, ``"lint"``, ``"compiler"`` or ``"estimate"``; empty where nobody did.
        passing: whether another run may say otherwise: the compiler took too long, or could not write.
    """

    config: Any
    cycles: float | None
    refused: str = ""
    stage: str = ""
    passing: bool = field(default=False, repr=False, compare=False)


@dataclass(frozen=True)
class Tuning:
    """The field, best first.

    Attributes:
        name: of the kernel.
        target: the generation.
        metric: what cycles are: ``"compiler"``: the compiler's own estimate; ``"counted"``: bundles times the runs that
            the simulator counted; ``"measured"``: the TPU's clock. Estimates rank configs on one generation and are no
            absolute times.
        trials: every config, that with the fewest cycles first.
        why: where cycles are ``"counted"``, why the compiler's own estimates would not do.
    """

    name: str
    target: Target
    metric: str
    trials: tuple[Trial, ...] = field(repr=False)
    why: str = ""

    @property
    def best(self) -> Any:
        """The config with the fewest cycles.

        Raises:
            EstimateError: no config has an estimate.
        """
        first = self.trials[0]
        if first.cycles is None:
            raise EstimateError(
                f"none of {len(self.trials)} configs can be estimated; the first: {first.refused}",
                op=self.name,
                target=str(self.target),
                hint="print the tuning: it says who refused which config",
            )
        return first.config

    @property
    def fields(self) -> tuple[str, ...]:
        """Names of what differs between the configs."""
        return differing([t.config for t in self.trials])

    def __str__(self) -> str:
        ranked = [t for t in self.trials if t.cycles is not None]
        refused = [t for t in self.trials if t.cycles is None]
        counted = f"{len(ranked)} of {len(self.trials)} configs, cycles are {_WHAT[self.metric]}"
        lines = [f"{self.name} for {self.target}: {counted}"]
        if self.why:
            lines.append(f"  not the compiler's estimate: {self.why}")
        best, fields = ranked[0].cycles if ranked else None, self.fields
        for trial in ranked[:_SHOWN]:
            assert trial.cycles is not None
            assert best is not None
            lines.append(f"  {trial.cycles:>12,.0f}  {trial.cycles / best:>5.2f}×  {_said(trial.config, fields)}")
        if len(ranked) > _SHOWN:
            lines.append(f"  … and {len(ranked) - _SHOWN} more")
        for stage in STAGES:
            found = [t for t in refused if t.stage == stage]
            if found:
                lines.append(
                    f"  refused by {stage}: {len(found)}; {_said(found[0].config, fields)}: {found[0].refused}"
                )
        return "\n".join(lines)


def _said(config: Any, fields: Sequence[str]) -> str:
    return ", ".join(f"{n}={plain(getattr(config, n, None))}" for n in fields) or repr(config)


_WHAT: Final = {
    COMPILER: "the compiler's estimate",
    COUNTED: "bundles times counted runs",
    MEASURED: "measured",
}


def space(base: Any, **choices: Iterable[Any]) -> list[Any]:
    """Every config that differs from `base` in these fields, but those its class refuses.

    Args:
        base: a frozen dataclass.
        **choices: for each field, the values to try.

    Raises:
        OptionError: `base` is no dataclass or has no such field, there are no values for one, or the class refuses
            every config.

    Example:
        >>> from dataclasses import dataclass
        >>> @dataclass(frozen=True)
        ... class Config:
        ...     rows: int = 512
        ...     block: int = 128
        ...     def __post_init__(self):
        ...         if self.rows % self.block:
        ...             raise ValueError(f"{self.block} does not divide {self.rows}")
        >>> [c.block for c in space(Config(), block=(64, 96, 128))]
        [64, 128]
    """
    if not dataclasses.is_dataclass(base) or isinstance(base, type):
        raise OptionError(f"base is a {type(base).__name__}", op="space", hint="a config: a frozen dataclass")
    fields = [f.name for f in dataclasses.fields(base)]
    unknown = [name for name in choices if name not in fields]
    if unknown:
        raise OptionError(f"the config has no field {unknown[0]!r}", op="space", hint=f"one of {', '.join(fields)}")
    tried = [_choices(name, values) for name, values in choices.items()]
    configs: list[Any] = []
    said: list[str] = []
    for values in itertools.product(*tried):
        try:
            configs.append(dataclasses.replace(base, **dict(zip(choices, values, strict=True))))
        except Exception as error:  # the class's own checks, of whatever class
            said.append(_line(error))
    if not configs:
        raise OptionError("every config is refused", op="space", hint=f"the first: {said[0]}")
    return configs


def _choices(name: str, values: Iterable[Any]) -> list[Any]:
    hint = f"values to try: {name}=(128, 256)"
    if not isinstance(values, Iterable) or isinstance(values, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise OptionError(f"{name} is {values!r}", op="space", hint=hint)
    if not (tried := list(values)):
        raise OptionError(f"{name} has no value", op="space", hint=hint)
    return tried


def tune(
    kernel: Any,
    configs: Iterable[Any],
    target: str | Target | None = None,
    *,
    scalars: Sequence[Any] | Mapping[str, Any] | Callable[[Any], Any] = (),
    timeout: float = TIMEOUT,
    workers: int | None = None,
    progress: bool | None = None,
    measure: bool | None = None,
    table: str | os.PathLike[str] | None = None,
    key: Mapping[str, Any] | None = None,
) -> Tuning:
    """Rank configs of a kernel.

    What lint refuses is not compiled. The rest is, several at a time, and ranked: by the compiler's own estimate where
    it can be trusted for all of them, else by the bundles of each block times how often the simulator ran it. Where a
    TPU of that generation is attached, each is run and timed instead. What the compiler said is on disk, so that a
    run that was killed compiles nothing twice; with a table, what it had finished is not tuned again, unless the
    kernel was changed, or the compiler. A config that the compiler took too long with keeps its field out of the table.

    Args:
        kernel: a `Kernel`: ``kernel.lower(config)`` gives what `mosaic_tpu.aot.compile` takes.
        configs: to try; `space` makes them. One that fails is a `Trial` that says why, and no error.
        target: the generation; if not given, that of the attached TPU, or ``"v6e"``.
        scalars: values of the scalar operands, for a kernel whose trip counts depend on them: in their order, by name,
            or a function from a config to either.
        timeout: seconds for each, of the compiler and of the simulator.
        workers: compiler processes.
        progress: report on standard error; by default where that is a terminal.
        measure: run on the TPU; by default if one of the target's generation is attached.
        table: a JSON file to keep the result in, and to find it in if the same field was tuned before.
        key: what the entry is for, as a served model asks: ``{"dtype": "bf16", "heads": 32, "page_size": 16}``. If not
            given, the fields that all configs share.

    Returns:
        All configs, ranked. A table that cannot be written in the end is no reason to lose them: there is a warning.

    Raises:
        OptionError: an option is of the wrong kind, there is no config, the scalars fit none, there is no TPU to
            measure on, or something else in the table's file, or it cannot be written.
        TargetError: there is no such target.
        NoCompilerError: libtpu is not installed.

    Example:
        >>> from dataclasses import dataclass
        >>> import jax
        >>> from jax.experimental import pallas as pl
        >>> @dataclass(frozen=True)
        ... class Config:
        ...     rows: int = 8
        >>> class Doubled:
        ...     name = "doubled"
        ...     def lower(self, config):
        ...         def kernel(x_ref, o_ref):
        ...             o_ref[...] = x_ref[...] * 2
        ...         x = jax.ShapeDtypeStruct((512, 128), "float32")
        ...         block = pl.BlockSpec((config.rows, 128), lambda i: (i, 0))
        ...         grid = (512 // config.rows,)
        ...         call = pl.pallas_call(kernel, out_shape=x, grid=grid, in_specs=[block], out_specs=block)
        ...         return jax.jit(call).trace(x).lower(lowering_platforms=("tpu",))
        >>> configs = space(Config(), rows=(8, 64, 512))
        >>> tune(Doubled(), configs, "v6e", table="doubled.json").best      # doctest: +SKIP
        Config(rows=512)
    """
    tried = _checked(kernel, configs, timeout, workers)
    given = scalars if callable(scalars) else _arrays(scalars)
    found, on_tpu = _target(target, measure)
    name = str(getattr(kernel, "name", "kernel"))
    kept = None if table is None else Table(table, name)
    wanted = plain_key(shared(tried) if key is None else key)

    prepare = functools.partial(_prepared, kernel, found, given, timeout)
    jobs = run_jobs([functools.partial(prepare, config) for config in tried], workers, progress, "lowered")
    facts = {
        "target": str(found),
        "compiler": "" if on_tpu else _compat.compiler_version() or "",
        "field": field_of(ESTIMATOR, tried, [_deciding(job) for job in jobs]),
    }
    if kept is not None:
        if entry := kept.find(facts, wanted, len(tried)):
            return _restored(entry, name, found, tried)
        kept.prepare()

    metric, trials, why = _timed(jobs, progress) if on_tpu else _estimated(jobs, workers, progress)
    made = Tuning(name, found, metric, _ranked(trials), why)
    if kept is not None and not any(t.passing for t in trials):
        _keep(kept, _entry(facts, wanted, made, trials))
    return made


def _target(target: str | Target | None, measure: bool | None) -> tuple[Target, bool]:
    """The generation, and whether configs are run on a TPU of it.

    Raises:
        OptionError: they cannot be.
        TargetError: there is no such target.
    """
    attached = None if measure is False else tpu_generation()
    found = find_target(target if target is not None else attached or "v6e")
    on_tpu = attached == found.generation.name
    if measure and not on_tpu:
        raise OptionError(
            f"measure=True for {found}, and {attached or 'no TPU'} is attached", op="tune", hint="leave measure out"
        )
    return found, on_tpu


def _checked(kernel: Any, configs: Iterable[Any], timeout: float, workers: int | None) -> list[Any]:
    """The configs to try.

    Raises:
        OptionError: an option is of the wrong kind.
    """
    if not callable(getattr(kernel, "lower", None)):
        raise OptionError(f"the kernel is a {type(kernel).__name__}", op="tune", hint="what has a .lower(config)")
    hint = "space(base, block=(128, 256))"
    if not isinstance(configs, Iterable) or isinstance(configs, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise OptionError(f"configs is {configs!r}", op="tune", hint=f"a list of them: {hint}")
    tried = list(configs)
    if not tried:
        raise OptionError("there is no config to try", op="tune", hint=hint)
    check_timeout(timeout, "tune")
    check_workers(workers, "tune")
    return tried


def _arrays(scalars: Any) -> list[Any] | dict[str, Any]:
    """Scalars as arrays, by their names where they have some.

    Raises:
        OptionError: they are no arrays of numbers.
    """
    hint = "arrays in the order of the operands, or by name, or a function from a config to either"
    if isinstance(scalars, str | bytes) or not isinstance(scalars, Iterable):
        raise OptionError(f"scalars is {scalars!r}", op="tune", hint=hint)
    if isinstance(scalars, Mapping):
        named = cast("Mapping[Any, Any]", scalars)
        if not all(isinstance(name, str) for name in named):
            raise OptionError(f"scalars has the names {list(named)}", op="tune", hint=hint)
        return {name: _array(name, value, hint) for name, value in named.items()}
    return [_array(n, value, hint) for n, value in enumerate(cast("Iterable[Any]", scalars))]


def _array(name: Any, value: Any, hint: str) -> np.ndarray[Any, Any]:
    with contextlib.suppress(ValueError, TypeError):  # rows of different lengths
        array = np.asarray(value)
        if array.dtype.kind not in "OSUMm":
            return array
    raise OptionError(f"the scalars {name!r} are {value!r:.60}", op="tune", hint=hint)


def _ranked(trials: Iterable[Trial]) -> tuple[Trial, ...]:
    return tuple(sorted(trials, key=lambda t: math.inf if t.cycles is None else t.cycles))


# --- the table -----------------------------------------------------------------------------------------------------


def _entry(facts: Mapping[str, Any], key: Mapping[str, Any], made: Tuning, trials: Sequence[Trial]) -> Entry:
    told = described([t.config for t in trials])
    best = made.trials[0]
    # By what it is: configs may be equal, and arrays in them have no ==.
    place = next(n for n, t in enumerate(trials) if t is best)
    return {
        **facts,
        "key": dict(key),
        "metric": made.metric,
        "why": made.why,
        "best": None if best.cycles is None else told[place],
        "cycles": best.cycles,
        "trials": [
            {"config": config, "cycles": t.cycles, "refused": t.refused, "stage": t.stage}
            for config, t in zip(told, trials, strict=True)
        ],
    }


def _restored(entry: Entry, name: str, target: Target, configs: Sequence[Any]) -> Tuning:
    kept = zip(configs, entry["trials"], strict=True)
    trials = [Trial(config, t["cycles"], t["refused"], t["stage"]) for config, t in kept]
    return Tuning(name, target, entry["metric"], _ranked(trials), entry["why"])


def _keep(table: Table, entry: Entry) -> None:
    try:
        table.put(entry)
    except (OSError, OptionError) as error:
        why = error.summary if isinstance(error, OptionError) else error.strerror or error
        warnings.warn(f"the tuning is not kept in {table.path}: {why}", stacklevel=3)


# --- one config ----------------------------------------------------------------------------------------------------


type _Compiled = tuple[_Job, Estimate]


@dataclass(frozen=True)
class _Job:
    """One config, and what it is tried with.

    Attributes:
        text: the program.
        digest: of it, wherever its lines are.
    """

    kernel: Any
    config: Any
    target: Target
    scalars: Any
    timeout: float
    text: str
    digest: str

    def compiled(self) -> _Compiled | Trial:
        """The compiler's estimate, or who refused the config."""
        try:
            errors = lint(self.text, target=self.target.generation.name).errors
            if errors:
                return Trial(self.config, None, f"{errors[0].rule}: {errors[0].reason}", "lint")
            found = compile_source(self.text, self.target, operands_in_hbm=True, schedule=True, timeout=self.timeout)
            return self, found.schedule.estimate
        except NoCompilerError:
            raise
        except AotError as error:
            return _refused(self.config, error)

    def counted(self) -> Trial | OptionError:
        """Cycles by the runs that the simulator counts; an error where the scalars do not fit."""
        try:
            found = specialize(self.text, self.target, scalars=self.scalars, timeout=self.timeout)
        except NoCompilerError:
            raise
        except OptionError as error:
            return error
        except (AotError, SimulationError) as error:
            return _refused(self.config, error)
        return Trial(self.config, found.cycles)

    def measured(self) -> Trial:
        """Cycles by the TPU's clock."""
        try:
            seconds = measured(self.kernel, self.config, self.scalars)
        except (AotError, SimulationError) as error:
            return _refused(self.config, error)
        except Exception as error:  # the kernel's own checks, and whatever JAX raises for what does not compile
            return Trial(self.config, None, _line(error), "compiler")
        return Trial(self.config, seconds * self.target.generation.clock_hz)


def _prepared(kernel: Any, target: Target, scalars: Any, timeout: float, config: Any) -> _Job | Trial:
    """A config with its program, or why it has none."""
    try:
        given = _arrays(scalars(config)) if callable(scalars) else scalars
        program = program_of(kernel.lower(config))
        return _Job(kernel, config, target, given, timeout, program.text, digest_of(program))
    except Exception as error:  # the kernel's own checks, of whatever class
        return Trial(config, None, _line(error), "config")


def _deciding(job: _Job | Trial) -> tuple[Any, ...]:
    """What decides a config's cycles, besides the config."""
    return (job.refused,) if isinstance(job, Trial) else (job.digest, job.scalars)


def _refused(config: Any, error: AotError | SimulationError) -> Trial:
    known = {CompileError: "compiler", DumpError: "estimate", EstimateError: "estimate", SimulationError: "estimate"}
    stage = next((stage for kind, stage in known.items() if isinstance(error, kind)), "config")
    return Trial(config, None, _line(error), stage, isinstance(error, OSError))


def _line(error: Exception) -> str:
    said = error.summary if isinstance(error, AotError | SimulationError) else str(error)
    return next((line for line in said.splitlines() if line.strip()), repr(error))


# --- all of them ---------------------------------------------------------------------------------------------------


def _each[J, R](
    found: Sequence[J | Trial], work: Callable[[J], R], workers: int | None, progress: bool | None, what: str
) -> list[R | Trial]:
    """Work on what was not refused yet; refusals stay where they are."""
    calls = [functools.partial(_kept, f) if isinstance(f, Trial) else functools.partial(work, f) for f in found]
    return run_jobs(calls, workers, progress, what)


def _kept(trial: Trial) -> Trial:
    return trial


def _timed(jobs: Sequence[_Job | Trial], progress: bool | None) -> tuple[str, list[Trial], str]:
    """By the TPU's clock, one after the other: threads would disturb it."""
    return MEASURED, _each(jobs, _Job.measured, 1, progress, "tuned"), ""


def _estimated(
    jobs: Sequence[_Job | Trial], workers: int | None, progress: bool | None
) -> tuple[str, list[Trial], str]:
    """By the compiler's own estimates if all can be trusted, else all by counted runs: one measure for all."""
    found = _each(jobs, _Job.compiled, workers, progress, "compiled")
    compiled = [f for f in found if not isinstance(f, Trial)]
    doubts = [(job, estimate) for job, estimate in compiled if not estimate.trustworthy]
    if not doubts:
        return COMPILER, [f if isinstance(f, Trial) else _by_compiler(*f) for f in found], ""
    counts = _each([f if isinstance(f, Trial) else f[0] for f in found], _Job.counted, workers, progress, "counted")
    wrong = [f for f in counts if isinstance(f, OptionError)]
    if len(wrong) == len(compiled):  # they are the caller's mistake, and no config's
        raise wrong[0]
    configs = [f.config if isinstance(f, Trial) else f[0].config for f in found]
    trials = [_refused(c, f) if isinstance(f, OptionError) else f for c, f in zip(configs, counts, strict=True)]
    doubted, estimate = doubts[0]
    why = estimate.why.removeprefix("not estimable: ")
    if len(doubts) < len(found):
        why = f"{_said(doubted.config, differing(configs))}: {why}"
    return COUNTED, trials, why


def _by_compiler(job: _Job, estimate: Estimate) -> Trial:
    if estimate.cycles is None:
        return Trial(job.config, None, "the compiler made no estimate", "estimate")
    return Trial(job.config, float(estimate.cycles))
