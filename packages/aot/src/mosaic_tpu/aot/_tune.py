"""`tune`: the best config of a kernel, by the compiler's estimates; on a TPU, by its clock."""

from __future__ import annotations

import functools
import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from mosaic_tpu.aot import _compat
from mosaic_tpu.aot._candidate import Candidate, deciding, prepared, refusal
from mosaic_tpu.aot._checks import check_timeout, check_workers
from mosaic_tpu.aot._compile import TIMEOUT, run_jobs
from mosaic_tpu.aot._identity import described, differing, digest_of, shared
from mosaic_tpu.aot._measure import tpu_generation
from mosaic_tpu.aot._operands import arrays_of
from mosaic_tpu.aot._specialize import ESTIMATOR
from mosaic_tpu.aot._table import COMPILER, COUNTED, MEASURED, Entry, Table, plain_key
from mosaic_tpu.aot._tuning import Trial, Tuning, best_first, entry_of, restored, said
from mosaic_tpu.aot.errors import NotKeptWarning, OptionError
from mosaic_tpu.aot.schedule import Estimate
from mosaic_tpu.aot.targets import Target, find_target


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
    it can be trusted for all of them, else by that of `specialize`: the bundles of each block as often as the simulator
    ran it, and waits for copies. Where a TPU of that generation is attached, each is run and timed instead.
    What the compiler said is on disk, so that a run that was killed compiles nothing twice; with a table, what it had
    finished is not tuned again, unless the kernel was changed, or the compiler, or what was estimated can now be timed.
    While a config fails for a reason that may pass, such as the time or the memory that the compiler had, nothing is
    kept in the table.

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
        table: a JSON file to keep the result in, and to find it in if the same search space was tuned before.
        key: what the entry is for, as a served model asks: ``{"dtype": "bf16", "heads": 32, "page_size": 16}``. If not
            given, the fields that are the same in all configs.

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
        >>> from mosaic_tpu.aot import space, tune
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
    given = scalars if callable(scalars) else arrays_of(scalars, "tune")
    found, on_tpu = _target(target, measure)
    name = str(getattr(kernel, "name", "kernel"))
    kept = None if table is None else Table(table, name)
    wanted = plain_key(shared(tried) if key is None else key)

    prepare = functools.partial(prepared, kernel, found, given, timeout)
    candidates = run_jobs([functools.partial(prepare, config) for config in tried], workers, progress, "lowered")
    facts = {
        "target": str(found),
        "compiler": _compat.compiler_version() or "",
        "digest": digest_of(ESTIMATOR, tried, [deciding(candidate) for candidate in candidates]),
    }
    if kept is not None:
        if entry := kept.find(facts, wanted, described(tried), measured=on_tpu):
            return restored(entry, name, found, tried)
        kept.prepare()

    metric, trials, why = _timed(candidates, progress) if on_tpu else _estimated(candidates, workers, progress)
    made = Tuning(name, found, metric, best_first(trials), why)
    if kept is not None and not any(t.transient for t in trials):
        _keep(kept, entry_of(facts, wanted, made, trials))
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


def _keep(table: Table, entry: Entry) -> None:
    try:
        table.put(entry)
    except (OSError, OptionError) as error:
        why = error.summary if isinstance(error, OptionError) else error.strerror or error
        warnings.warn(f"the tuning is not kept in {table.path}: {why}", NotKeptWarning, stacklevel=3)


# --- all of them ---------------------------------------------------------------------------------------------------


def _each[C, R](
    found: Sequence[C | Trial], work: Callable[[C], R], workers: int | None, progress: bool | None, what: str
) -> list[R | Trial]:
    """Work on what was not refused yet; refusals stay where they are."""
    calls = [functools.partial(_kept, f) if isinstance(f, Trial) else functools.partial(work, f) for f in found]
    return run_jobs(calls, workers, progress, what)


def _kept(trial: Trial) -> Trial:
    return trial


def _timed(candidates: Sequence[Candidate | Trial], progress: bool | None) -> tuple[str, list[Trial], str]:
    """By the TPU's clock, one after the other: threads would disturb it."""
    return MEASURED, _each(candidates, Candidate.measured, 1, progress, "tuned"), ""


def _estimated(
    candidates: Sequence[Candidate | Trial], workers: int | None, progress: bool | None
) -> tuple[str, list[Trial], str]:
    """By the compiler's own estimates if all can be trusted, else all by counted runs: one measure for all."""
    found = _each(candidates, Candidate.compiled, workers, progress, "compiled")
    compiled = [f for f in found if not isinstance(f, Trial)]
    doubts = [(candidate, estimate) for candidate, estimate in compiled if not estimate.trustworthy]
    if not doubts:
        return COMPILER, [f if isinstance(f, Trial) else _by_compiler(*f) for f in found], ""
    counts = _each(
        [f if isinstance(f, Trial) else f[0] for f in found], Candidate.counted, workers, progress, "counted"
    )
    configs = [f.config if isinstance(f, Trial) else f[0].config for f in found]
    doubted, estimate = doubts[0]
    why = estimate.why.removeprefix("not estimable: ")
    if len(doubts) < len(found):
        why = f"{said(doubted.config, differing(configs))}: {why}"
    wrong = [f for f in counts if isinstance(f, OptionError)]
    if len(wrong) == len(compiled):  # they are the caller's mistake, and no config's
        summary = f"the compiler's estimate is not to be trusted ({why}), and {wrong[0].summary}"
        raise OptionError(summary, op=wrong[0].op, hint=wrong[0].hint)
    trials = [refusal(c, f) if isinstance(f, OptionError) else f for c, f in zip(configs, counts, strict=True)]
    return COUNTED, trials, why


def _by_compiler(candidate: Candidate, estimate: Estimate) -> Trial:
    if estimate.cycles is None:
        return Trial(candidate.config, None, "the compiler made no estimate", "estimate")
    return Trial(candidate.config, float(estimate.cycles))
