"""The table of rules: how each op becomes JAX operations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from mosaic_tpu.sim import _registry
from mosaic_tpu.sim import rules as rules
from mosaic_tpu.sim._module import Operation, Value

#: A function of the translation and an op, that returns nothing, the op's only result, or a tuple of its results.
Apply = Callable[[Any, Operation], Any]
Writes = Callable[[Operation], tuple[Value, ...]]


@dataclass(frozen=True, slots=True)
class Rule:
    """How one op is translated.

    Attributes:
        apply: makes its results.
        pure: whether an op without users can be left out.
        view: whether its result is a view of its first operand.
        writes: the memrefs it writes to.
        moves: whether it only moves elements: it gets and makes them as they are held (`held_dtype`).
    """

    apply: Apply
    pure: bool = True
    view: bool = False
    writes: Writes | None = None
    moves: bool = False


#: By the op's name.
RULES: Final[dict[str, Rule]] = {}
#: Ops that have no rule here, and why: those that the reference engine has none for, and more.
UNSUPPORTED: Final[dict[str, str]] = {
    **_registry.UNSUPPORTED,
    "tpu.prng_set_seed_32": "the hardware's random bits are not specified",
    "tpu.prng_random_bits": "the hardware's random bits are not specified",
    "tpu.matmul_push_rhs": "the MXU's registers are not modelled",
    "tpu.matmul_acc_lhs": "the MXU's registers are not modelled",
    "tpu.matmul_pop": "the MXU's registers are not modelled",
    "tpu.matmul_lhs_fifo": "the MXU's registers are not modelled",
    "tpu.matmul_pop_fifo": "the MXU's registers are not modelled",
}


def rule(
    *names: str, pure: bool = True, view: bool = False, writes: Writes | None = None, moves: bool = False
) -> Callable[[Apply], Apply]:
    """Register the decorated function as the rule of ops."""

    def register(apply: Apply) -> Apply:
        for name in names:
            RULES[name] = Rule(apply, pure and writes is None, view, writes, moves)
        return apply

    return register
