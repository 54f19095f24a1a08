"""What results are called after."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mosaic_tpu.lift._registry import Naming
from mosaic_tpu.sim import ir

if TYPE_CHECKING:
    from mosaic_tpu.lift._writer import Writer

_LONGEST = 24

#: What the result of a function is called, where it is not called as the function is.
_CALLED: Final = {
    "abs": "size",
    "sin": "sine",
    "cos": "cosine",
    "tan": "tangent",
    "round": "rounded",
    "arctan2": "angle",
    "atan2": "angle",
    "sum": "total",
    "prod": "product",
    "max": "largest",
    "min": "smallest",
    "all": "are_all",
    "any": "is_any",
}


def called(function: str) -> str:
    """What the result of a function is called, in either style."""
    return _CALLED.get(function, function)


def like(number: int = 0, suffix: str = "") -> Naming:
    """As an operand is called: for casts, broadcasts and views."""

    def naming(w: Writer, op: ir.Operation) -> str:
        base = base_of(w, op.operands[number])
        return base if base.endswith(suffix) or len(base) > _LONGEST else base + suffix

    return naming


def base_of(w: Writer, value: ir.Value) -> str:
    """What a value is called, or what a constant is."""
    definition = value.definition
    if definition is not None and definition.name == "arith.constant":
        return "filled"
    base = w.base(value)
    return base.removesuffix("_ref") if base not in ("_ref", "a_ref", "b_ref") else base
