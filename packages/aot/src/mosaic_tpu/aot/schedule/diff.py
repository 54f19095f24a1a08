"""Two schedules, compared: the same bundles or not, which differ first, and what became of the figures."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import islice, zip_longest
from typing import TYPE_CHECKING, Final

from mosaic_tpu.aot.errors import OptionError
from mosaic_tpu.aot.schedule.metrics import Metric, metrics

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mosaic_tpu.aot.schedule.schedule import Schedule

_BUNDLE: Final = re.compile(r"(0x[0-9a-f]+|0) ")
_SHOWN: Final = 3
_WIDTH: Final = 110


@dataclass(frozen=True)
class BundleChange:
    """A bundle that two schedules do not share.

    Attributes:
        address: where it stands.
        before: its text in the first schedule, comments stripped; None past its end.
        after: its text in the second, likewise.
    """

    address: int
    before: str | None
    after: str | None


@dataclass(frozen=True)
class MetricChange:
    """A figure of which two schedules have different values.

    Attributes:
        name: what it counts.
        before: in the first; None if it is not known there.
        after: in the second, likewise.
    """

    name: str
    before: Metric
    after: Metric


@dataclass(frozen=True)
class ScheduleDiff:
    """What became of a schedule.

    Attributes:
        before: op and target of the first.
        after: op and target of the second.
        equal: whether all bundles are the same, comments stripped; names of registers count.
        changed_bundles: how many addresses have different bundles. One bundle more moves all that follow.
        first: the first of them.
        metrics: figures that differ.
    """

    before: str
    after: str
    equal: bool
    changed_bundles: int
    first: tuple[BundleChange, ...]
    metrics: tuple[MetricChange, ...]

    def __bool__(self) -> bool:
        """Whether they differ."""
        return not self.equal

    def __str__(self) -> str:
        head = f"{self.before}  →  {self.after}: "
        head += "the same bundles" if self.equal else f"{self.changed_bundles} bundles differ"
        return "\n".join([head, *self._table(), *self._bundles()])

    def _table(self) -> Iterator[str]:
        if self.metrics:
            yield f"  {'':<28}{'before':>14}{'after':>14}{'change':>14}"
        for change in self.metrics:
            yield f"  {change.name:<28}{_number(change.before):>14}{_number(change.after):>14}{_change(change):>14}"

    def _bundles(self) -> Iterator[str]:
        if self.first:
            yield "first bundles that differ"
        for change in self.first:
            yield f"  {change.address:#x}"
            yield f"    - {_cut(change.before)}"
            yield f"    + {_cut(change.after)}"

    def to_json(self) -> dict[str, object]:
        """All of it as plain data. ``"schema"`` is 1."""
        return {
            "schema": 1,
            "before": self.before,
            "after": self.after,
            "equal": self.equal,
            "changed_bundles": self.changed_bundles,
            "first": [vars(change) for change in self.first],
            "metrics": [vars(change) for change in self.metrics],
        }


def diff(before: Schedule, after: Schedule) -> ScheduleDiff:
    """Compare two schedules, bundle by bundle and figure by figure.

    Raises:
        OptionError: one of both is no schedule.

    Example:
        >>> from mosaic_tpu import aot
        >>> old, new = (aot.compile(k, "v6e", schedule=True).schedule for k in kernels)     # doctest: +SKIP
        >>> print(aot.diff(old, new))                                                       # doctest: +SKIP
    """
    from mosaic_tpu.aot.schedule.schedule import Schedule

    for given in (before, after):
        if not isinstance(given, Schedule):  # pyright: ignore[reportUnnecessaryIsInstance]
            what = f"a {type(given).__name__} is no schedule"
            raise OptionError(what, op="diff", hint="compile(…, schedule=True).schedule")
    changes = [change for change in _changes(before.text, after.text) if change.before != change.after]
    old, new = metrics(before), metrics(after)
    names = dict.fromkeys([*old, *new])
    return ScheduleDiff(
        before=f"{before.op} on {before.target}",
        after=f"{after.op} on {after.target}",
        equal=not changes,
        changed_bundles=len(changes),
        first=tuple(islice(changes, _SHOWN)),
        metrics=tuple(
            MetricChange(name, old.get(name), new.get(name)) for name in names if old.get(name) != new.get(name)
        ),
    )


def _changes(before: str, after: str) -> Iterator[BundleChange]:
    pairs = zip_longest(_lines(before), _lines(after))
    return (BundleChange(address, old, new) for address, (old, new) in enumerate(pairs))


def _lines(text: str) -> Iterator[str]:
    return (line for line in text.splitlines() if _BUNDLE.match(line))


def _number(value: Metric) -> str:
    if value is None:
        return "—"
    return f"{value:,.1f}" if isinstance(value, float) and value % 1 else f"{value:,.0f}"


def _change(change: MetricChange) -> str:
    if not change.before or change.after is None:
        return ""
    return f"{(change.after - change.before) / change.before:+.1%}"


def _cut(text: str | None) -> str:
    if text is None:
        return "(none)"
    return text if len(text) <= _WIDTH else text[: _WIDTH - 1] + "…"
