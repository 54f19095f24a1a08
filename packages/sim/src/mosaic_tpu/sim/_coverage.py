"""`coverage`: which ops each engine runs, and why not the others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from mosaic_tpu.sim import rules as rules
from mosaic_tpu.sim._registry import RULES, UNSUPPORTED
from mosaic_tpu.sim.errors import InputError


@dataclass(frozen=True, slots=True)
class Row:
    """What the engines make of one op.

    Attributes:
        op: its name.
        numpy: whether the reference engine runs it.
        xla: whether the fast engine does; ``None`` where that engine cannot be loaded, for want of jax.
        reason: why one of them does not.
    """

    op: str
    numpy: bool
    xla: bool | None
    reason: str = ""


@dataclass(frozen=True)
class Coverage:
    """The table of `coverage`, a row an op, that prints as one."""

    rows: tuple[Row, ...]

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, op: str) -> Row:
        for row in self.rows:
            if row.op == op:
                return row
        raise InputError(f"no engine knows the op {op!r}", op="coverage", hint='a full name, "tpu.matmul"')

    def __str__(self) -> str:
        width = max(len(row.op) for row in self.rows)
        lines = [f"{'op':<{width}}  numpy  xla  reason"]
        lines += [f"{r.op:<{width}}  {_word(r.numpy):<5}  {_word(r.xla):<3}  {r.reason}".rstrip() for r in self.rows]
        counts = [sum(1 for r in self.rows if r.numpy), sum(1 for r in self.rows if r.xla)]
        return "\n".join([*lines, f"{len(self.rows)} ops: numpy runs {counts[0]}, xla {counts[1]}"])


def _word(runs: bool | None) -> str:
    return "?" if runs is None else "yes" if runs else "no"


def coverage() -> Coverage:
    """Every op that an engine has a rule for, or a reason to have none.

    Returns:
        A table of `Row`s in order of the ops' names.

    Example:
        >>> from mosaic_tpu.sim import coverage
        >>> coverage()["tpu.matmul"].numpy
        True
        >>> coverage()["tpu.barrier"].reason
        'it belongs to the SparseCore, and this simulator runs TensorCore kernels'
    """
    fast = _fast()
    names = {*RULES, *UNSUPPORTED, *(fast[0] if fast else ()), *(fast[1] if fast else ())}
    return Coverage(tuple(_row(name, fast) for name in sorted(names)))


def _fast() -> tuple[set[str], dict[str, str]] | None:
    """The names that the fast engine has rules for, and its reasons; ``None`` without jax."""
    try:
        from mosaic_tpu.sim import xla
    except ImportError:
        return None
    return {*xla.RULES, *xla.TERMINATORS}, xla.UNSUPPORTED


def _row(name: str, fast: tuple[set[str], dict[str, str]] | None) -> Row:
    numpy = name in RULES
    xla = None if fast is None else name in fast[0]
    if not numpy:
        reason = UNSUPPORTED.get(name, "the reference engine has no rule for it")
    elif xla is False:
        assert fast is not None
        reason = "xla: " + fast[1].get(name, "the fast engine has no rule for it")
    else:
        reason = ""
    return Row(name, numpy, xla, reason)
