"""The rules: functions from a kernel to issues, registered with an id and a summary."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, Literal, overload

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
    """

    op: ir.Operation | None
    reason: str
    remedy: str
    severity: Severity | None = None


type Check = Callable[[Subject], Iterator[Issue]]
type GenerationCheck = Callable[[Subject, Generation], Iterator[Issue]]


@dataclass(frozen=True)
class Rule:
    """One check.

    Attributes:
        id: stable, as findings carry it.
        severity: of its findings, where they say no other.
        summary: one sentence.
        description: the whole docstring: what is checked, and how it is known that the compiler refuses it.
        check: from a kernel and a generation to issues.
        per_generation: whether it looks at the generation; else it finds the same for all, and is asked once.
    """

    id: str
    severity: Severity
    summary: str
    description: str
    check: GenerationCheck = field(repr=False)
    per_generation: bool = False


RULES: Final[dict[str, Rule]] = {}
"""Every rule by its id."""


@overload
def rule(id: str, severity: Severity = ..., *, per_generation: Literal[False] = ...) -> Callable[[Check], Check]: ...


@overload
def rule(
    id: str, severity: Severity = ..., *, per_generation: Literal[True]
) -> Callable[[GenerationCheck], GenerationCheck]: ...


def rule(id: str, severity: Severity = "error", *, per_generation: bool = False) -> Callable[[Any], Any]:
    """Register a check; its docstring describes the rule.

    A check takes the kernel, and the generation too where it says different things of them: `per_generation`.
    """

    def register(check: Any) -> Any:
        description = inspect.cleandoc(check.__doc__ or "")
        asked: GenerationCheck = check if per_generation else lambda subject, _: check(subject)
        RULES[id] = Rule(id, severity, description.splitlines()[0], description, asked, per_generation)
        return check

    return register
