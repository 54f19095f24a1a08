"""The rules: functions from a kernel to issues, registered with an id and a summary."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from mosaic_tpu.aot._lint._report import Severity
from mosaic_tpu.aot._lint._subject import Subject
from mosaic_tpu.aot.targets import Generation
from mosaic_tpu.sim import ir


@dataclass(frozen=True)
class Issue:
    """What a rule found, before it becomes a finding.

    Attributes:
        op: where; ``None`` for the kernel's signature.
        reason: what is wrong.
        remedy: what to write instead.
        severity: where it differs from the rule's.
        location: where it is not the op's.
    """

    op: ir.Operation | None
    reason: str
    remedy: str
    severity: Severity | None = None
    location: str | None = None


type Check = Callable[[Subject, Generation], Iterator[Issue]]


@dataclass(frozen=True)
class Rule:
    """One check.

    Attributes:
        id: stable, as findings carry it.
        severity: of its findings, where they say no other.
        summary: one sentence.
        description: the whole docstring: what is checked, and how it is known that the compiler refuses it.
        check: from a kernel and a generation to issues.
        same: whether it finds the same for all generations, so that it is asked once.
    """

    id: str
    severity: Severity
    summary: str
    description: str
    check: Check = field(repr=False)
    same: bool = True


RULES: Final[dict[str, Rule]] = {}
"""Every rule by its id."""


def rule(id: str, severity: Severity = "error", *, same: bool = True) -> Callable[[Check], Check]:
    """Register a check; its docstring describes the rule. Not `same` are those that look at the generation."""

    def register(check: Check) -> Check:
        description = inspect.cleandoc(check.__doc__ or "")
        RULES[id] = Rule(id, severity, description.splitlines()[0], description, check, same)
        return check

    return register
