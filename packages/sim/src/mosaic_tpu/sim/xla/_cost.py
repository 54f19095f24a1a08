"""How much work a block is: what decides between a branch and a selection, a loop and its unrolled body."""

from __future__ import annotations

import math
from typing import Final

from mosaic_tpu.sim._module import Block, Operation
from mosaic_tpu.sim.xla._rules import RULES

#: Elements written and computed up to which both branches of an ``scf.if`` are run and their results selected.
SELECT_UP_TO: Final = 1 << 16
#: Ops up to which a loop of known length is unrolled.
UNROLL_UP_TO: Final = 64
#: Ops up to which the fastest dimensions of the grid are unrolled.
UNROLL_GRID_UP_TO: Final = 512
#: Ops whose memory is carried through them: they cannot be run and then not count.
_CARRYING: Final = {"scf.for", "scf.while", "scf.index_switch", "func.call"}
_VIEWS: Final = {"tpu.memref_slice", "tpu.memref_squeeze", "arith.constant", "vector.broadcast", "vector.shape_cast"}


def operations(block: Block) -> int:
    """How many ops JAX would trace."""
    return sum(1 for op in block.operations for inner in op.walk() if inner.name != "arith.constant")


def work(blocks: list[Block]) -> float:
    """Elements that ops of the blocks make or write; infinite if there is a loop, a switch or a call."""
    return sum(_work(inner) for block in blocks for op in block.operations for inner in op.walk())


def _work(op: Operation) -> float:
    if op.name in _CARRYING:
        return math.inf
    if op.name in _VIEWS or (op.results and not any(r.users for r in op.results)):
        return 0
    rule = RULES.get(op.name)
    written = rule.writes(op) if rule is not None and rule.writes is not None else ()
    sizes = [v.type.size for v in (*op.results, *written) if v.type.kind != "memref" or v in written]
    if op.name == "tpu.matmul":
        return math.inf
    if op.name == "tpu.vector_store":
        return op.operands[0].type.size
    return sum(sizes)
