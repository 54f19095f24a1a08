"""`Tuning`: what became of the configs, and how a table keeps it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from mosaic_tpu.aot._identity import described, differing, plain
from mosaic_tpu.aot._table import COMPILER, COUNTED, MEASURED, STAGES, Entry
from mosaic_tpu.aot.errors import EstimateError
from mosaic_tpu.aot.targets import Target

#: Configs that are printed.
_SHOWN: Final = 12
_WHAT: Final = {
    COMPILER: "the compiler's estimate",
    COUNTED: "simulated run timed by bundles",
    MEASURED: "measured",
}


@dataclass(frozen=True)
class Trial:
    """One config of the search space.

    Attributes:
        config: as it was given.
        cycles: that a call takes; ``None`` where there is no estimate.
        refused: why there is none: what lint found, what the compiler said; empty where there is one.
        stage: who refused: ``"config"``, ``"lint"``, ``"compiler"`` or ``"estimate"``; empty where nobody did.
        transient: whether another run may say otherwise: the compiler or the simulator took too long, or something
            outside of the compiler ended it.
    """

    config: Any
    cycles: float | None
    refused: str = ""
    stage: str = ""
    transient: bool = field(default=False, repr=False, compare=False)


@dataclass(frozen=True)
class Tuning:
    """The search space, best first.

    Attributes:
        name: of the kernel.
        target: the generation.
        metric: what cycles are: ``"compiler"``: the compiler's own estimate; ``"counted"``: that of `specialize`,
            bundles as often as the simulator ran them and waits for copies; ``"measured"``: the TPU's clock. Estimates
            rank configs on one generation and are no absolute times.
        trials: every config, that with the fewest cycles first.
        why: where cycles are ``"counted"``, why the compiler's own estimates would not do.
    """

    name: str
    target: Target
    metric: str
    trials: tuple[Trial, ...] = field(repr=False)
    why: str = ""

    @property
    def cycles_are(self) -> str:
        """What the metric is, in words."""
        return _WHAT[self.metric]

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
        """Names of the configs' fields that differ between them."""
        return differing([t.config for t in self.trials])

    def __str__(self) -> str:
        ranked = [t for t in self.trials if t.cycles is not None]
        refused = [t for t in self.trials if t.cycles is None]
        counted = f"{len(ranked)} of {len(self.trials)} configs, cycles are {self.cycles_are}"
        lines = [f"{self.name} for {self.target}: {counted}"]
        if self.why:
            lines.append(f"  not the compiler's estimate: {self.why}")
        best, fields = ranked[0].cycles if ranked else None, self.fields
        for trial in ranked[:_SHOWN]:
            assert trial.cycles is not None
            assert best is not None
            lines.append(f"  {trial.cycles:>12,.0f}  {trial.cycles / best:>5.2f}×  {said(trial.config, fields)}")
        if len(ranked) > _SHOWN:
            lines.append(f"  … and {len(ranked) - _SHOWN} more")
        for stage in STAGES:
            found = [t for t in refused if t.stage == stage]
            if found:
                lines.append(f"  refused by {stage}: {len(found)}; {said(found[0].config, fields)}: {found[0].refused}")
        return "\n".join(lines)


def said(config: Any, fields: Sequence[str]) -> str:
    """These fields of a config, for people."""
    return ", ".join(f"{n}={plain(getattr(config, n, None))}" for n in fields) or repr(config)


def best_first(trials: Iterable[Trial]) -> tuple[Trial, ...]:
    """Those with the fewest cycles first, and last those without."""
    return tuple(sorted(trials, key=lambda t: math.inf if t.cycles is None else t.cycles))


# --- in a table ----------------------------------------------------------------------------------------------------


def entry_of(facts: Mapping[str, Any], key: Mapping[str, Any], made: Tuning, trials: Sequence[Trial]) -> Entry:
    """What a table keeps of a tuning; the trials in the order in which the configs were given."""
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


def restored(entry: Entry, name: str, target: Target, configs: Sequence[Any]) -> Tuning:
    """The tuning of these configs that an entry was made of."""
    kept = zip(configs, entry["trials"], strict=True)
    trials = [Trial(config, t["cycles"], t["refused"], t["stage"]) for config, t in kept]
    return Tuning(name, target, entry["metric"], best_first(trials), entry["why"])
