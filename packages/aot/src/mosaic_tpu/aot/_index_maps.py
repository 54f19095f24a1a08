"""Index maps that depend on the grid alone, for all of its steps at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final, cast

import numpy as np

from mosaic_tpu.sim import ir

type Integers = np.ndarray[Any, np.dtype[np.int64]]

_BINARY: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "arith.addi": np.add,
    "arith.subi": np.subtract,
    "arith.muli": np.multiply,
    "arith.andi": np.bitwise_and,
    "arith.ori": np.bitwise_or,
    "arith.xori": np.bitwise_xor,
    "arith.minsi": np.minimum,
    "arith.maxsi": np.maximum,
    "arith.divsi": lambda x, y: np.trunc(x / y).astype(np.int64),
    "arith.remsi": np.fmod,
    "arith.floordivsi": np.floor_divide,
    "arith.shli": np.left_shift,
    "arith.shrsi": np.right_shift,
}
#: Steps of a grid that are gone through.
MOST_STEPS: Final = 1 << 22
_DIVISIONS: Final = ("arith.divsi", "arith.remsi", "arith.floordivsi")
_SAME: Final = ("arith.index_cast", "arith.extsi", "arith.extui", "arith.trunci")
#: Of ``arith.cmpi``, by number; the unsigned ones are not here.
_COMPARISONS: Final = (np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal)


def places_of(module: ir.Module, window: ir.Window, grid: Sequence[int]) -> list[Integers] | None:
    """Where a window is at every step of a grid, by dimension of its array.

    Returns:
        ``None`` where that is not known without data, or the grid has no steps or more than `MOST_STEPS`.
    """
    if window.transform is None or min(grid, default=1) < 1 or math.prod(grid) > MOST_STEPS:
        return None
    found = blocks_of(module, window.transform, steps_of(grid))
    return found if found is not None and len(found) == len(window.bounds) else None


def steps_of(grid: Sequence[int]) -> list[Integers]:
    """The grid indices of every step, in order: one array for each dimension."""
    return [axis.reshape(-1) for axis in np.meshgrid(*(np.arange(n) for n in grid), indexing="ij")]


def blocks_of(module: ir.Module, transform: str, steps: Sequence[Integers]) -> list[Integers] | None:
    """What an index map gives at every step, for each dimension; ``None`` if it reads scalars or does more."""
    function = module.functions.get(transform)
    if function is None:
        return None
    values: dict[int, Any] = {}
    for argument, step in zip(function.arguments, steps, strict=False):
        values[argument.index] = step
    size = len(steps[0]) if steps else 1
    for op in function.body.operations:
        if op.name in ("func.return", "return"):
            found = [values.get(v.index) for v in op.operands]
            if any(f is None for f in found):
                return None
            return [np.broadcast_to(np.asarray(f, np.int64), (size,)) for f in found]
        result = _evaluated(op, [values.get(v.index) for v in op.operands])
        if result is None:
            return None
        values[op.result.index] = result
    return None


def _evaluated(op: ir.Operation, operands: list[Any]) -> Any:
    if any(o is None for o in operands):
        return None
    if op.name == "arith.constant":
        return op.attributes.integers("value")[0]
    if op.name in _SAME:
        return operands[0]
    if op.name in _DIVISIONS and not np.all(operands[1]):
        return None
    if op.name in _BINARY:
        with np.errstate(divide="ignore", invalid="ignore"):
            return _BINARY[op.name](*operands)
    if op.name == "arith.select":
        return cast("Integers", np.where(*operands))
    if op.name == "arith.cmpi" and (number := op.attributes.integer("predicate", 99)) < len(_COMPARISONS):
        return np.asarray(_COMPARISONS[number](operands[0], operands[1]), np.int64)
    return None


def constant_of(value: ir.Value) -> int | None:
    """The integer that a value is whatever the data; ``None`` if there is none."""
    known: dict[ir.Value, Any] = {}
    waiting = [value]
    while waiting:  # no recursion: chains have thousands of ops, and values more than one use
        asked = waiting[-1]
        op = asked.definition
        if op is None or op.regions:
            known[waiting.pop()] = None
        elif unknown := [v for v in op.operands if v not in known]:
            waiting += unknown
        else:
            known[waiting.pop()] = _evaluated(op, [known[v] for v in op.operands])
    found = known[value]
    return None if found is None else int(found)
