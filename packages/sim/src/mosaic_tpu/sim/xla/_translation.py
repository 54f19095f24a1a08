"""The state of a translation: what each value is, what memory holds, what went wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import numpy as np

from mosaic_tpu.sim._effects import base_of
from mosaic_tpu.sim._module import Block, Module, Operation, Value
from mosaic_tpu.sim._types import Type
from mosaic_tpu.sim.errors import UnsupportedOpError
from mosaic_tpu.sim.xla._elements import Array, dtype_of, held_dtype, hold, is_static, unhold
from mosaic_tpu.sim.xla._ranges import Ranges
from mosaic_tpu.sim.xla._rules import RULES, UNSUPPORTED
from mosaic_tpu.sim.xla._untyped import jnp, lax
from mosaic_tpu.sim.xla._views import Index, Root, View, as_index, read, write

#: Ops that end a block; what they carry is read by the op around them.
TERMINATORS: Final = {"scf.yield", "scf.condition", "func.return", "tpu.yield"}
NO_FLAG: Final = np.int32(0)
_ELSEWHERE: Final = 'run it with engine="numpy"'


def both(a: Any, b: Any) -> Any:
    """And of static and traced conditions."""
    if a is False or b is False:
        return False
    if a is True:
        return b
    return a if b is True else lax.bitwise_and(a, b)


def either(a: Any, b: Any) -> Any:
    """Or of static and traced conditions."""
    if a is True or b is True:
        return True
    if a is False:
        return b
    return a if b is False else lax.bitwise_or(a, b)


def materialise(found: Any, of: Type) -> Array:
    """A value as an array of its type, held: splats are spread, numbers get their dtype."""
    dtype = dtype_of(of.element)
    if is_static(found):
        number = hold(np.asarray(found).astype(dtype))
        return lax.full(of.shape, number) if of.shape else number
    return np.asarray(found, held_dtype(of.element)) if type(found) is np.ndarray else found  # a constant, or traced


class Translation:
    """Ops become JAX operations on what is here.

    Attributes:
        module: what is translated.
        checks: whether undefined behaviour is flagged.
        values: what each value is: a Python or NumPy number (a splat, for a vector), an array as it is held, or a view.
        memory: what each root holds.
        flag: 0, or the number after that of the first op that went wrong.
        when: under which condition the ops that are being translated take effect.
        bounds: sizes of the grid.
        counts: whether semaphores are counted: only where the kernel reads one.
        ranges: what is known of integers.
    """

    def __init__(self, module: Module, *, checks: bool) -> None:
        self.module = module
        self.checks = checks
        self.values: dict[Value, Any] = {}
        self.memory: dict[Root, Array] = {}
        self.flag: Any = NO_FLAG
        self.when: Any = True
        self.bounds: tuple[Index, ...] = ()
        self.counts = any(op.name == "tpu.sem_read" for f in module.functions.values() for op in f.operation.walk())
        self.ranges = Ranges()
        self._moves = False
        self._leaves: dict[tuple[int, int], tuple[Any, Any]] = {}
        self._flagged: dict[int, Any] = {}

    # --- values ------------------------------------------------------------------------------------------------

    def get(self, value: Value) -> Any:
        """What a value is."""
        return self.values[value]

    def array(self, value: Value) -> Array:
        """What a value is, as an array of its type; as it is held for a rule that moves elements."""
        return self._seen(materialise(self.values[value], value.type), value.type.element)

    def _seen(self, x: Array, element: str) -> Array:
        return x if self._moves else unhold(x, element)

    def index(self, value: Value) -> Index:
        """A position: a Python int or a traced scalar."""
        found = self.values[value]
        return int(found) if is_static(found) else found

    def view(self, value: Value) -> View:
        """What a memref shows."""
        return self.values[value]

    # --- blocks ------------------------------------------------------------------------------------------------

    def run(self, block: Block, arguments: Iterable[Any] = ()) -> list[Any]:
        """Translate the ops of a block; what its terminator carries."""
        self.values.update(zip(block.arguments, arguments, strict=True))
        for op in block.operations:
            if op.name in TERMINATORS:
                return [self.values[v] for v in op.operands]
            self._apply(op)
        return []

    def _apply(self, op: Operation) -> None:
        rule = RULES[op.name]
        if rule.pure and op.results and not any(r.users for r in op.results):
            return
        saved, self._moves = self._moves, rule.moves
        try:
            made = rule.apply(self, op)
        finally:
            self._moves = saved
        if len(op.results) == 1:
            self.values[op.results[0]] = hold(made)
        elif op.results:
            self.values.update(zip(op.results, map(hold, made), strict=True))

    def region(
        self, body: Callable[[], list[Any]], memory: dict[Root, Array], flag: Any
    ) -> tuple[list[Any], list[Array], Any]:
        """Translate inside a function that JAX traces: with the memory it is given, leaving no trace outside.

        Returns:
            What ``body`` returns, what the given roots hold at the end, and the flag.
        """
        saved = self.memory, self.flag, self.when, self._leaves, self._flagged
        self.memory = self.memory | memory
        self.flag, self.when = flag, True
        self._leaves, self._flagged = dict(self._leaves), dict(self._flagged)
        try:
            results = body()
            return results, [self.memory[root] for root in memory], jnp.asarray(self.flag)
        finally:
            self.memory, self.flag, self.when, self._leaves, self._flagged = saved

    def predicated(self, condition: Any, body: Callable[[], list[Any]]) -> list[Any]:
        """Translate ops in place, of which the stores and checks take effect under a condition only."""
        saved = self.when, dict(self._flagged)
        self.when = both(self.when, condition)
        try:
            return body()
        finally:
            self.when, self._flagged = saved

    def written(self, blocks: Iterable[Block]) -> list[Root]:
        """The roots that exist now and that ops of the blocks may write to."""
        found: dict[Root, None] = {}
        for block in blocks:
            for outer in block.operations:
                for op in outer.walk():
                    rule = RULES.get(op.name)
                    for memref in rule.writes(op) if rule is not None and rule.writes is not None else ():
                        base = base_of(memref)
                        if base in self.values:
                            found[self.view(base).root] = None
        return [root for root in found if root in self.memory]

    # --- memory ------------------------------------------------------------------------------------------------

    def slice(self, view: View, starts: Sequence[Index], sizes: Sequence[int]) -> View:
        """A box of a view, with the conditions under which it leaves the view."""
        found = view.slice(starts, sizes)
        if not self.checks:
            return found
        outside = tuple(
            condition
            for start, size, limit in zip(starts, sizes, view.shape, strict=True)
            if (condition := self.leaves(start, limit - size)) is not False
        )
        return found.also_outside(outside)

    def leaves(self, start: Index, last: int) -> Any:
        """Whether a start is outside ``0 … last``."""
        if isinstance(start, int):
            return not 0 <= start <= last
        low, high = self.ranges.of(start)
        if low >= 0 and high <= last:
            return False
        if last < 0:
            return True
        key = id(start), last
        if key not in self._leaves:  # a negative start is a large unsigned number
            unsigned = lax.bitcast_convert_type(start, jnp.uint32)
            self._leaves[key] = start, lax.gt(unsigned, np.uint32(last))
        return self._leaves[key][1]

    def load(self, op: Operation, view: View) -> Array:
        """What a view shows now."""
        self._check_bounds(op, view)
        return self._seen(read(self.memory[view.root], view.steps), view.element)

    def store(self, op: Operation, view: View, value: Array, mask: Any = True) -> None:
        """Write all of a view, or what is under the mask."""
        self._check_bounds(op, view)
        array, value = self.memory[view.root], hold(value)
        mask = self._effective(mask, view.shape)
        if mask is not True:
            value = lax.select(mask, value, read(array, view.steps))
        self.memory[view.root] = write(array, view.steps, value)

    def _effective(self, mask: Any, shape: tuple[int, ...]) -> Any:
        when = self.when
        if when is True or mask is True:
            return when if mask is True else mask
        return lax.bitwise_and(mask, lax.broadcast(when, shape))

    def allocate(self, name: str, of: Type, content: Array) -> View:
        """New memory."""
        root = Root(name, of.shape, of.element)
        self.memory[root] = content
        return View.whole(root)

    # --- checks ------------------------------------------------------------------------------------------------

    def _check_bounds(self, op: Operation, view: View) -> None:
        for condition in view.outside:
            self.fail_if(condition, op)

    def fail_if(self, condition: Any, op: Operation) -> None:
        """Flag an op where a condition holds, unless another was flagged before."""
        if not self.checks or condition is False or id(condition) in self._flagged:
            return
        if condition is not True:
            self._flagged[id(condition)] = condition
        condition = both(self.when, condition)
        flag = as_index(self.flag)
        first = both(condition, lax.eq(flag, np.int32(0)))
        self.flag = lax.select(first, np.int32(op.number + 1), flag)


def check_supported(module: Module) -> None:
    """Refuse what has no rule, before anything is translated.

    Raises:
        UnsupportedOpError: it names the op.
    """
    for function in module.functions.values():
        for op in function.operation.walk():
            if op.name in ("func.func", *TERMINATORS):
                continue
            rule = RULES.get(op.name)
            if rule is None:
                why = UNSUPPORTED.get(op.name, "it has no rule there")
                raise UnsupportedOpError(
                    f"the fast engine does not run {op.name}: {why}",
                    op=op.name,
                    location=module.line(op),
                    hint=_ELSEWHERE,
                )
            carried = [a for block in op.regions for a in block.arguments if a.type.kind == "memref"]
            chosen = (
                [r for r in op.results if r.type.kind == "memref"] if op.regions or op.name == "arith.select" else []
            )
            if carried or chosen:
                raise UnsupportedOpError(
                    f"the fast engine cannot choose between memrefs in {op.name}",
                    op=op.name,
                    location=module.line(op),
                    hint=_ELSEWHERE,
                )
