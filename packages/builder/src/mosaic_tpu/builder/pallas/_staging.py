"""Numbers as JAX's tracing has them, and named scopes as Pallas lowers them: what a schedule is computed with.

A number is one of three things: a Python int or bool, with which Python computes; a `Literal`, an array that JAX knows
and yet traces, so that a constant is made at each use; or a value of the kernel.

Where a span of the profile begins at an op, the constants that are its operands come before the span or after it:
after it for arithmetic, loads and static loops, whose lowering makes them, and before it for everything else.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from mosaic_tpu.builder import dtypes as dt
from mosaic_tpu.builder._compat import IrOperation
from mosaic_tpu.builder._core import Branch
from mosaic_tpu.builder._value import Value
from mosaic_tpu.builder.dtypes import DType
from mosaic_tpu.builder.pallas.debug import TRACE_LEVEL

if TYPE_CHECKING:
    from mosaic_tpu.builder.builder import Builder


@dataclass(frozen=True, eq=False)
class Literal:
    """A concrete array of rank 0: ``jnp.int32(0)``.

    Attributes:
        number: its value.
        dtype: its element type.
        depth: how many branches it was made in; a deeper branch takes it as an operand.
    """

    number: int
    dtype: DType
    depth: int = 0


type Staged = int | Literal | Value


class Staging:
    """Arithmetic on `Staged` numbers, conditions and named scopes.

    Args:
        builder: whose ops these are.
        named: whether named scopes become spans of the profile.
    """

    def __init__(self, builder: Builder, *, named: bool = True) -> None:
        self.b = builder
        self._named = named
        self._wanted: list[str] = []
        self._open: list[str] = []
        self._branches: list[Branch] = []

    # --- arithmetic ---------------------------------------------------------------------------------------------------

    def literal(self, number: int, dtype: DType) -> Literal:
        """An array that is made here."""
        return Literal(number, dtype, len(self._branches))

    def value(self, number: Staged, dtype: DType = dt.i32) -> Value:
        """The number as a value: a constant made here, unless it is one already or is an operand of the branch."""
        if isinstance(number, Value):
            return number
        if isinstance(number, Literal) and number.depth < len(self._branches):
            info = self.b.types.scalar(number.dtype)
            return self._branches[number.depth].operand((number,), number.number, info)
        kind, plain = (number.dtype, number.number) if isinstance(number, Literal) else (dtype, number)
        return self.b._constant(plain, self.b.types.scalar(kind))

    def _operands(self, x: Staged, y: Staged) -> tuple[Value, Value]:
        """Operands of arithmetic."""
        self.sync()
        dtype = _dtype(x, y)
        first = self.value(x, dtype)
        return first, self.value(y, dtype)

    def add(self, x: Staged, y: Staged) -> Staged:
        """``x + y``."""
        return x + y if isinstance(x, int) and isinstance(y, int) else self.b.addi(*self._operands(x, y))

    def sub(self, x: Staged, y: Staged) -> Staged:
        """``x - y``."""
        return x - y if isinstance(x, int) and isinstance(y, int) else self.b.subi(*self._operands(x, y))

    def mul(self, x: Staged, y: Staged) -> Staged:
        """``x * y``."""
        return x * y if isinstance(x, int) and isinstance(y, int) else self.b.muli(*self._operands(x, y))

    def slot(self, count: Staged, buffers: int) -> Value:
        """``lax.rem(count, jnp.uint32(buffers))``."""
        return self.b.remui(*self._operands(count, self.literal(buffers, dt.u32)))

    def product(self, numbers: Sequence[Staged]) -> Staged:
        """`math.prod`."""
        found: Staged = math.prod(n for n in numbers[: _leading_ints(numbers)] if isinstance(n, int))
        for number in numbers[_leading_ints(numbers) :]:
            found = self.mul(found, number)
        return found

    def compare(self, predicate: str, x: Staged, y: Staged) -> Staged:
        """``x == y`` and the like; ``predicate`` is ``eq ne lt le gt ge``. Python asks the traced operand first."""
        if isinstance(x, int) and isinstance(y, int):
            return _PYTHON[predicate](x, y)
        if isinstance(x, int):
            predicate, x, y = _SWAPPED[predicate], y, x
        dtype = _dtype(x, y)
        first, second = self.value(x, dtype), self.value(y, dtype)
        self.sync()
        if predicate not in ("eq", "ne"):
            predicate = ("u" if first.dtype.is_unsigned else "s") + predicate
        return self.b.cmpi(predicate, first, second)  # pyright: ignore[reportArgumentType]

    def both(self, x: Staged, y: Staged) -> Staged:
        """``x & y`` of booleans."""
        if isinstance(x, int) and isinstance(y, int):
            return x & y
        self.sync()
        first = self.value(x, dt.i1)
        return self.b.andi(first, self.value(y, dt.i1))

    def either(self, x: Staged, y: Staged) -> Staged:
        """``x | y`` of booleans."""
        if isinstance(x, int) and isinstance(y, int):
            return x | y
        self.sync()
        first = self.value(x, dt.i1)
        return self.b.ori(first, self.value(y, dt.i1))

    def negation(self, x: Staged) -> Value:
        """`jnp.logical_not`, which is traced even of what Python knows."""
        first = self.value(x, dt.i1)
        self.sync()
        return self.b.xori(first, self.value(True, dt.i1))

    def select(self, condition: Staged, x: Staged, y: Staged) -> Value:
        """`lax.select`, which is traced even of what Python knows; the constant of the false case comes first."""
        chosen = self.value(condition, dt.i1)
        dtype = _dtype(x, y)
        second = self.value(y, dtype)
        first = self.value(x, dtype)
        self.sync()
        return self.b.select(chosen, first, second)

    def where(self, condition: Staged, x: Staged, y: Staged) -> Value:
        """`jnp.where` of scalars: the same, with the constants in order."""
        chosen = self.value(condition, dt.i1)
        dtype = _dtype(x, y)
        first = self.value(x, dtype)
        second = self.value(y, dtype)
        self.sync()
        return self.b.select(chosen, first, second)

    # --- conditions ---------------------------------------------------------------------------------------------------

    def when(self, condition: Staged, body: Callable[[], object]) -> None:
        """`pl.when`: Python's own ``if`` of a Python bool."""
        if isinstance(condition, int):
            if condition:
                body()
            return
        given = self.value(condition, dt.i1)
        self.sync()
        made, branch = self.b.pallas._if(given, "when")
        self._branches.append(branch)
        try:
            with made, self.block():
                body()
        finally:
            self._branches.pop()

    # --- named scopes -------------------------------------------------------------------------------------------------

    @contextmanager
    def scope(self, name: str) -> Generator[None]:
        """`jax.named_scope`. A span opens with the first op in it, and two in a row of one name are one."""
        if self._named:
            self._wanted.append(name)
        try:
            yield
        finally:
            if self._named:
                self._wanted.pop()

    @contextmanager
    def block(self) -> Generator[None]:
        """Around the ops of a nested block, which has spans of its own."""
        outer, self._wanted, self._open = (self._wanted, self._open), [], []
        yield
        self.sync()
        self._wanted, self._open = outer

    def sync(self) -> None:
        """Close and open spans, before an op is emitted."""
        if self._open == self._wanted:
            return
        shared = 0
        while shared < min(len(self._open), len(self._wanted)) and self._open[shared] == self._wanted[shared]:
            shared += 1
        for _ in self._open[shared:]:
            self.b.trace_stop()
        for name in self._wanted[shared:]:
            self.b.trace_start(TRACE_LEVEL, name)
        self._open = list(self._wanted)

    def lazily[R](self, run: Callable[[], R]) -> R:
        """Run what may emit ops: spans change before them only if it does."""
        if self._open == self._wanted:
            return run()
        before, block = self._open, self.b._scope.block
        count = len(block.operations)
        self.sync()
        spans = [op.operation for op in list(block.operations)[count:]]
        result = run()
        emitted = [op.operation for op in list(block.operations)[count + len(spans) :]]
        if not emitted:
            for span in reversed(spans):
                span.erase()
            self._open = before
        for constant in _operands_first(emitted):
            constant.move_before(spans[0])
        return result


#: Ops whose lowering makes the constants among their operands itself.
_MAKES_CONSTANTS: Final = re.compile(
    r"arith\.(add|sub|mul|div|rem|and|or|xor|max|min|sh)\w*|vector\.load|memref\.load|tpu\.strided_load"
)


def _operands_first(emitted: Sequence[IrOperation]) -> Sequence[IrOperation]:
    """The leading constants that are operands of an op whose lowering does not make them."""
    count = next((n for n, op in enumerate(emitted) if op.name != "arith.constant"), len(emitted))
    rest = [op for op in emitted[count : count + 3] if op.name != "vector.broadcast"]
    if rest and rest[0].name == "tpu.memref_slice" and "semaphore" not in str(rest[0].operands[0].type):
        own = list(rest[0].operands)  # the lowering makes those; the others are indices of copies, made ahead
        return [op for op in emitted[:count] if op.results[0] not in own and str(op.results[0].type) != "index"]
    if rest and rest[0].name == "arith.cmpi" and all(v.owner in emitted[:count] for v in rest[0].operands):
        return [rest[0].operands[0].owner]  # `jnp.remainder`: the divisor is its operand, the 0 it makes itself
    known = rest and _MAKES_CONSTANTS.fullmatch(rest[0].name)
    if not known or _starts_loop(emitted[count:]) or _rounds_down(emitted[count:]):
        return [op for op in emitted[:count] if str(op.results[0].type) != "index"]
    return ()


def _rounds_down(emitted: Sequence[IrOperation]) -> bool:
    """Whether this is `jnp.floor_divide`, a function of its own: a division, then the sign of the dividend."""
    if len(emitted) < 3 or emitted[0].name not in ("arith.divsi", "arith.divui"):
        return False
    return emitted[2].name == "arith.cmpi" and emitted[2].operands[0] == emitted[0].operands[0]


def _starts_loop(emitted: Sequence[IrOperation]) -> bool:
    """Whether these are the bounds of a loop that ends at run time: ``end - start``, ``start + …``."""
    if len(emitted) < 2 or (emitted[0].name, emitted[1].name) != ("arith.subi", "arith.addi"):
        return False
    return emitted[1].operands[0] == emitted[0].operands[1] and emitted[1].operands[1] == emitted[0].results[0]


def _dtype(x: Staged, y: Staged) -> DType:
    """The element type that a Python number takes beside another operand."""
    return next((n.dtype for n in (x, y) if not isinstance(n, int)), dt.i32)


def _leading_ints(numbers: Sequence[Staged]) -> int:
    return next((n for n, number in enumerate(numbers) if not isinstance(number, int)), len(numbers))


_PYTHON: Final[dict[str, Callable[[int, int], bool]]] = {
    "eq": int.__eq__,
    "ne": int.__ne__,
    "lt": int.__lt__,
    "le": int.__le__,
    "gt": int.__gt__,
    "ge": int.__ge__,
}
_SWAPPED: Final = {"eq": "eq", "ne": "ne", "lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}
