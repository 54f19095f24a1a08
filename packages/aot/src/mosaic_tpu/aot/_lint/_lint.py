"""`lint`: every rule on every kernel of a source, for every generation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from mosaic_tpu.aot._checks import check_limit
from mosaic_tpu.aot._lint._registry import RULES, Issue, Rule
from mosaic_tpu.aot._lint._report import Finding, LintReport
from mosaic_tpu.aot._lint._subject import Subject, Unreadable, subjects_of
from mosaic_tpu.aot.errors import TargetError
from mosaic_tpu.aot.targets import TARGETS, Generation, Target, find_target


def lint(
    source: Any,
    *,
    target: str | Target | Sequence[str | Target] | None = None,
    vmem_limit_bytes: int | None = None,
) -> LintReport:
    """Check the kernels of a source for what the TPU compiler would refuse, without it.

    Of a program, the arrays' shapes are known too: blocks are checked against them, and the grid.

    Args:
        source: a lowered kernel, MLIR text or bytecode of a Mosaic module or the path of a file with it, an
            ``ir.Module``, what `mosaic_tpu.sim.ir.read` returned; or a program with any number of kernels: StableHLO
            text, a lowered or exported JAX function.
        target: a generation or several, ``"v6e"``; all that are known if omitted.
        vmem_limit_bytes: VMEM that the kernel may use; what the call says, else the compiler's default, if omitted.

    Returns:
        The report; it is never falsy, so look at ``report.errors``.

    Raises:
        SourceError: there is no kernel in the source, or it is a module whose windows do not match: of a program that
            is a finding of the rule ``"invalid-module"``.
        TargetError: there is no such generation.

    Example:
        >>> text = '''
        ... func.func @kernel(%x: memref<8x128xi8, #tpu.memory_space<vmem>>) {
        ...   %c0 = arith.constant 0 : index
        ...   %0 = vector.load %x[%c0, %c0] : memref<8x128xi8, #tpu.memory_space<vmem>>, vector<8x128xi8>
        ...   %1 = arith.muli %0, %0 : vector<8x128xi8>
        ...   vector.store %1, %x[%c0, %c0] : memref<8x128xi8, #tpu.memory_space<vmem>>, vector<8x128xi8>
        ...   return
        ... }'''
        >>> lint(text, target="v5e").errors[0].rule
        'unsupported-type'
    """
    generations = _generations(target)
    check_limit(vmem_limit_bytes, "lint")
    subjects = subjects_of(source, vmem_limit_bytes, "lint")
    findings = [f for subject in subjects for f in _findings(subject, generations)]
    return LintReport(tuple(s.name for s in subjects), tuple(g.name for g in generations), tuple(findings))


def _generations(target: str | Target | Sequence[str | Target] | None) -> list[Generation]:
    if target is None:
        return list(TARGETS.values())
    wanted = [target] if isinstance(target, str | Target) else target
    if not isinstance(wanted, Sequence):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TargetError(f"target is {target!r}", op="lint")
    if not wanted:
        raise TargetError("no target is given", op="lint")
    return list({(g := find_target(t).generation).name: g for t in wanted}.values())


def _findings(subject: Subject | Unreadable, generations: Sequence[Generation]) -> list[Finding]:
    """In the order of the ops; what stands on one line for one reason is said once."""
    if isinstance(subject, Unreadable):
        names = tuple(g.name for g in generations)
        rule = RULES["invalid-module"]
        return [Finding(rule.id, "error", names, "builtin.module", None, subject.summary, subject.hint, subject.name)]
    found: dict[tuple[Any, ...], tuple[int, Finding]] = {}
    for rule in RULES.values():
        for issue, names in _issues(rule, subject, generations):
            location = subject.module.line(issue.op)
            severity = issue.severity or rule.severity
            key = (rule.id, severity, location or (issue.op and issue.op.number), issue.reason, issue.remedy)
            number, finding = found.get(key, (-1 if issue.op is None else issue.op.number, None))
            targets = tuple(dict.fromkeys((*(finding.targets if finding else ()), *names)))
            op = "func.func" if issue.op is None else issue.op.name
            made = Finding(rule.id, severity, targets, op, location, issue.reason, issue.remedy, subject.name)
            found[key] = (number, made)
    ordered = sorted(found.values(), key=lambda pair: (pair[0], pair[1].severity))
    return [finding for _, finding in ordered]


def _issues(rule: Rule, subject: Subject, generations: Sequence[Generation]) -> Iterator[tuple[Issue, tuple[str, ...]]]:
    """What a rule finds, and for which generations."""
    if not rule.per_generation:
        names = tuple(g.name for g in generations)
        yield from ((issue, names) for issue in rule.check(subject, generations[0]))
        return
    for generation in generations:
        yield from ((issue, (generation.name,)) for issue in rule.check(subject, generation))
