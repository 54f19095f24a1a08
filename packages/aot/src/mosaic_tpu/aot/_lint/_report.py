"""What lint says: findings, and the report that holds them."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Final, Literal

from mosaic_tpu.aot.errors import TargetError
from mosaic_tpu.aot.targets import Target, find_target

SCHEMA: Final = 1
type Severity = Literal["error", "warning"]


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong, or may be.

    Attributes:
        rule: id of the rule, a key of `RULES`: ``"dma-alignment"``.
        severity: ``"error"`` where the compiler refuses the kernel for these targets, ``"warning"`` where it accepts
            it, or may, and the kernel is slow or reads beyond an array.
        targets: names of the generations it holds for.
        op: the MLIR op, or ``"func.func"`` for what the kernel's signature says.
        location: ``"file.py:12"`` of the kernel's source, ``None`` where the module does not say it.
        reason: what is wrong, with the figures.
        remedy: what to write instead.
        kernel: name of the kernel.
    """

    rule: str
    severity: Severity
    targets: tuple[str, ...]
    op: str
    location: str | None
    reason: str
    remedy: str
    kernel: str

    def __str__(self) -> str:
        where = f"{self.location}: " if self.location else ""
        head = f"{where}{self.severity}[{self.rule}] {self.op} ({', '.join(self.targets)})"
        return f"{head}\n  {self.reason}\n  remedy: {self.remedy}"

    def to_json(self) -> dict[str, Any]:
        """Of plain types, for `json.dumps`."""
        return dataclasses.asdict(self) | {"targets": list(self.targets)}


@dataclass(frozen=True)
class LintReport:
    """What lint found in the kernels of a source.

    Attributes:
        kernels: names of the kernels that were read, in order.
        targets: names of the generations that were asked for.
        findings: in the order of the kernels and of their ops, errors before warnings on the same line.
    """

    kernels: tuple[str, ...]
    targets: tuple[str, ...]
    findings: tuple[Finding, ...]

    @property
    def errors(self) -> tuple[Finding, ...]:
        """Findings that the compiler would refuse."""
        return tuple(f for f in self.findings if f.severity == "error")

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """The other findings."""
        return tuple(f for f in self.findings if f.severity == "warning")

    def of(self, target: str | Target) -> LintReport:
        """The part that holds for one generation.

        Args:
            target: the generation, or a topology of it, of those that were asked for.

        Raises:
            TargetError: there is none of that name, or it was not asked for.
        """
        name = find_target(target).generation.name
        if name not in self.targets:
            asked = ", ".join(self.targets)
            raise TargetError(
                f"the kernels were checked for {asked}, not for {name}",
                op="LintReport.of",
                target=name,
                hint=f"lint(source, target={name!r})",
            )
        return LintReport(self.kernels, (name,), tuple(f for f in self.findings if name in f.targets))

    def __str__(self) -> str:
        count = f"{_counted(self.errors, 'error')}, {_counted(self.warnings, 'warning')}"
        head = f"{', '.join(self.kernels)} for {', '.join(self.targets)}: {count if self.findings else 'nothing found'}"
        return "\n".join([head, *map(str, self.findings)])

    def to_json(self) -> dict[str, Any]:
        """All of it as plain data, for `json.dumps`. ``"schema"`` is 1."""
        return {
            "schema": SCHEMA,
            "kernels": list(self.kernels),
            "targets": list(self.targets),
            "findings": [f.to_json() for f in self.findings],
        }


def _counted(findings: tuple[Finding, ...], noun: str) -> str:
    return f"{len(findings)} {noun}{'' if len(findings) == 1 else 's'}"
