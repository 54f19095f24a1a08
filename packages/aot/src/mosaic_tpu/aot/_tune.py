"""`tune`: the best config of a kernel, by the compiler's estimates; on a TPU, by its clock."""

from __future__ import annotations

import dataclasses
import itertools
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from mosaic_tpu.aot import _compat
from mosaic_tpu.aot._compile import TIMEOUT, Compilation, run_jobs
from mosaic_tpu.aot._compile import compile as compile_source
from mosaic_tpu.aot._lint import lint
from mosaic_tpu.aot._measure import measured, tpu_generation
from mosaic_tpu.aot._specialize import ESTIMATOR, specialize
from mosaic_tpu.aot._table import Entry, Table, field_of, fields_of, plain_key
from mosaic_tpu.aot.errors import AotError, CompileError, EstimateError, OptionError
from mosaic_tpu.aot.targets import Target, find_target
from mosaic_tpu.sim.errors import SimulationError

#: What a config's cycles are.
COMPILER: Final = "compiler"
COUNTED: Final = "counted"
MEASURED: Final = "measured"
_SHOWN: Final = 12


@dataclass(frozen=True)
class Trial:
    """One config of the field.

    Attributes:
        config: as it was given.
        cycles: that a call takes; ``None`` where there is no estimate.
        refused: why there is none: what lint found, what the compiler said; empty where there is one.
        stage: who refused: ``"config"``, ``"lint"``, ``"compiler"`` or ``"estimate"``; empty where nobody did.
    """

    config: Any
    cycles: float | None
    refused: str = ""
    stage: str = ""


@dataclass(frozen=True)
class Tuning:
    """The field, best first.

    Attributes:
        name: of the kernel.
        target: the generation.
        metric: what cycles are: ``"compiler"``: the compiler's own estimate; ``"counted"``: bundles times the runs that
            the simulator counted; ``"measured"``: the TPU's clock. Estimates rank configs on one generation and are no
            absolute times.
        trials: every config.
    """

    name: str
    target: Target
    metric: str
    trials: tuple[Trial, ...]

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
        return _differing([t.config for t in self.trials])

    def __str__(self) -> str:
        ranked = [t for t in self.trials if t.cycles is not None]
        refused = [t for t in self.trials if t.cycles is None]
        counted = f"{len(ranked)} of {len(self.trials)} configs, cycles are {_WHAT[self.metric]}"
        lines = [f"{self.name} for {self.target}: {counted}"]
        best = ranked[0].cycles if ranked else None
        for trial in ranked[:_SHOWN]:
            assert trial.cycles is not None
            assert best is not None
            lines.append(f"  {trial.cycles:>12,.0f}  {trial.cycles / best:>5.2f}×  {self._said(trial.config)}")
        if len(ranked) > _SHOWN:
            lines.append(f"  … and {len(ranked) - _SHOWN} more")
        for stage in ("config", "lint", "compiler", "estimate"):
            found = [t for t in refused if t.stage == stage]
            if found:
                lines.append(f"  refused by {stage}: {len(found)}; {self._said(found[0].config)}: {found[0].refused}")
        return "\n".join(lines)

    def _said(self, config: Any) -> str:
        return ", ".join(f"{n}={getattr(config, n)}" for n in self.fields) or repr(config)


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
        OptionError: a field does not exist, or every config is refused.

    Example:
        >>> from dataclasses import dataclass
        >>> @dataclass(frozen=True)
        ... class Config:
        ...     rows: int = 512
        ...     block: int = 128
        >>> [c.block for c in space(Config(), block=(64, 128, 256))]
        [64, 128, 256]
    """
    if not dataclasses.is_dataclass(base) or isinstance(base, type):
        raise OptionError(f"base is a {type(base).__name__}", op="space", hint="a config: a frozen dataclass")
    unknown = [name for name in choices if name not in {f.name for f in dataclasses.fields(base)}]
    if unknown:
        raise OptionError(
            f"the config has no field {unknown[0]!r}", op="space", hint=f"fields of {type(base).__name__}"
        )
    configs: list[Any] = []
    said: list[str] = []
    for values in itertools.product(*choices.values()):
        try:
            configs.append(dataclasses.replace(base, **dict(zip(choices, values, strict=True))))
        except ValueError as error:  # what config classes raise for values that do not fit each other
            said.append(str(error).splitlines()[0])
    if not configs:
        raise OptionError("every config is refused", op="space", hint=said[0] if said else "give values to try")
    return configs


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
    run that was killed compiles nothing twice; with a table, what it had finished is not tuned again.

    Args:
        kernel: a `Kernel`: ``kernel.lower(config)`` gives what `mosaic_tpu.aot.compile` takes.
        configs: to try; `space` makes them.
        target: the generation; if not given, that of the attached TPU, or ``"v6e"``.
        scalars: values of the scalar operands, for a kernel whose trip counts depend on them: in their order, by name,
            or a function from a config to either.
        timeout: seconds for each.
        workers: compiler processes.
        progress: report on standard error; by default where that is a terminal.
        measure: run on the TPU; by default if one of the target's generation is attached.
        table: a JSON file to keep the result in, and to find it in if the same field was tuned before.
        key: what the entry is for, as a served model asks: ``{"dtype": "bf16", "heads": 32, "page_size": 16}``. If not
            given, the fields that all configs share.

    Raises:
        OptionError: there is no config, no TPU to measure on, or something else in the table's file.
        NoCompilerError: libtpu is not installed.
    """
    tried = list(configs)
    if not tried:
        raise OptionError("there is no config to try", op="tune", hint="space(base, block=(128, 256))")
    attached = None if measure is False else tpu_generation()
    found = find_target(target if target is not None else attached or "v6e")
    on_tpu = attached == found.generation.name if measure is None else measure
    if on_tpu and attached != found.generation.name:
        raise OptionError(
            f"measure=True for {found}, and {attached or 'no TPU'} is attached", op="tune", hint="leave measure out"
        )

    name = getattr(kernel, "name", "kernel")
    kept = None if table is None else Table(table, name)
    wanted = plain_key(key if key is not None else fields_of(tried[0], _shared(tried)))
    jobs = [_Job(kernel, config, found, scalars(config) if callable(scalars) else scalars, timeout) for config in tried]
    field = field_of(tried, [job.scalars for job in jobs], ESTIMATOR)
    facts = {"target": str(found), "compiler": "" if on_tpu else _compat.compiler_version(), "field": field}
    if kept is not None and (entry := kept.find(str(found), wanted)) and facts.items() <= entry.items():
        return _restored(entry, name, found, tried)

    if on_tpu:
        # Threads on one TPU would disturb each other's clock.
        metric, trials = MEASURED, run_jobs([job.measured for job in jobs], 1, progress, "tuned")
    else:
        metric, trials = _estimated(jobs, workers, progress)
    if kept is not None:
        kept.put(_entry(facts, wanted, metric, trials))
    return Tuning(name, found, metric, _ranked(trials))


def _ranked(trials: Iterable[Trial]) -> tuple[Trial, ...]:
    return tuple(sorted(trials, key=lambda t: math.inf if t.cycles is None else t.cycles))


def _entry(facts: Mapping[str, Any], key: Mapping[str, Any], metric: str, trials: Sequence[Trial]) -> Entry:
    names = _differing([t.config for t in trials])
    best = _ranked(trials)[0]
    return {
        **facts,
        "key": dict(key),
        "metric": metric,
        "best": None if best.cycles is None else fields_of(best.config, names),
        "cycles": best.cycles,
        "trials": [
            {**fields_of(t.config, names), "cycles": t.cycles, "refused": t.refused, "stage": t.stage} for t in trials
        ],
    }


def _restored(entry: Entry, name: str, target: Target, configs: Sequence[Any]) -> Tuning:
    kept = zip(configs, entry["trials"], strict=True)
    trials = [Trial(config, t["cycles"], t["refused"], t["stage"]) for config, t in kept]
    return Tuning(name, target, entry["metric"], _ranked(trials))


def _differing(configs: Sequence[Any]) -> tuple[str, ...]:
    """Names of the fields that differ."""
    if not all(dataclasses.is_dataclass(c) for c in configs):
        return ()
    names = [f.name for f in dataclasses.fields(configs[0])]
    return tuple(n for n in names if len({repr(getattr(c, n, None)) for c in configs}) > 1)


def _shared(configs: Sequence[Any]) -> tuple[str, ...]:
    """Names of the fields that do not."""
    if not all(dataclasses.is_dataclass(c) for c in configs):
        return ()
    differing = _differing(configs)
    return tuple(f.name for f in dataclasses.fields(configs[0]) if f.name not in differing)


type Compiled = tuple[_Job, Compilation]


@dataclass(frozen=True)
class _Job:
    """One config, and what it is tried with."""

    kernel: Any
    config: Any
    target: Target
    scalars: Any
    timeout: float

    def compiled(self) -> Compiled | Trial:
        """What the compiler made of it, or who refused it."""
        try:
            lowered = self.kernel.lower(self.config)
        except Exception as error:  # the kernel's own checks, of whatever class
            return self._refused("config", _line(error))
        errors = lint(lowered, target=self.target.generation.name).errors
        if errors:
            return self._refused("lint", f"{errors[0].rule}: {errors[0].reason}")
        try:
            return self, compile_source(lowered, self.target, operands_in_hbm=True, schedule=True, timeout=self.timeout)
        except CompileError as error:
            return self._refused("compiler", _line(error))

    def counted(self) -> Trial:
        """Cycles by the runs that the simulator counts."""
        try:
            lowered = self.kernel.lower(self.config)
            found = specialize(lowered, self.target, scalars=self.scalars, timeout=self.timeout)
        except (CompileError, EstimateError, SimulationError) as error:
            return self._refused("estimate", _line(error))
        return Trial(self.config, found.cycles)

    def measured(self) -> Trial:
        """Cycles by the TPU's clock."""
        try:
            seconds = measured(self.kernel, self.config, self.scalars)
        except Exception as error:  # the kernel's own checks, and whatever JAX raises for what does not compile
            return self._refused("compiler", _line(error))
        return Trial(self.config, seconds * self.target.generation.clock_hz)

    def _refused(self, stage: str, why: str) -> Trial:
        return Trial(self.config, None, why, stage)


def _estimated(jobs: Sequence[_Job], workers: int | None, progress: bool | None) -> tuple[str, list[Trial]]:
    """Trials by the compiler's own estimates if all can be trusted, else all by counted runs: one measure for all."""
    found = run_jobs([job.compiled for job in jobs], workers, progress, "compiled")
    estimates = [f[1].schedule.estimate for f in found if not isinstance(f, Trial)]
    if all(estimate.trustworthy for estimate in estimates):
        return COMPILER, [f if isinstance(f, Trial) else _by_compiler(*f) for f in found]
    counts = [(lambda f=f: f) if isinstance(f, Trial) else f[0].counted for f in found]
    return COUNTED, run_jobs(counts, workers, progress, "counted")


def _by_compiler(job: _Job, compiled: Compilation) -> Trial:
    cycles = compiled.schedule.estimate.cycles
    return Trial(job.config, None if cycles is None else float(cycles))


def _line(error: Exception) -> str:
    return error.summary if isinstance(error, AotError) else str(error).splitlines()[0] if str(error) else repr(error)
