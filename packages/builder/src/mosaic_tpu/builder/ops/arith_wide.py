"""The arith dialect's products in twice the width."""

from __future__ import annotations

from mosaic_tpu.builder._registry import op
from mosaic_tpu.builder._value import Value
from mosaic_tpu.builder.errors import DTypeError
from mosaic_tpu.builder.ops.arith import ArithOps


class ArithWideOps(ArithOps):
    """``arith.mul*_extended``."""

    def _extended(self, name: str, lhs: Value, rhs: Value) -> tuple[Value, Value]:
        a, b = self._use(lhs, name), self._use(rhs, name)
        info = lhs._info
        if info is not rhs._info:
            self._same(lhs, rhs, name)
        if not info.is_data or info.dtype.is_float:
            self._refuse_domain(name, "int", lhs, rhs)
        if not info.dtype.bits:
            self.fail(DTypeError, f"{info.dtype} has no width to double", op=name, operands=[lhs, rhs], hint="use i32")
        created = self._emit_many(name, [info, info], [a, b])
        low, high = created.results
        return Value(low, info, self._scope), Value(high, info, self._scope)

    @op("arith.mulsi_extended", source="lax.mulhi(x, y)", traits=("elementwise", "pure"))
    def mulsi_extended(self, lhs: Value, rhs: Value) -> tuple[Value, Value]:
        """The signed product in twice the width, as its low and its high half.

        Args:
            lhs: integers.
            rhs: of the same type, which both halves have too.

        Example:
            >>> low, high = b.mulsi_extended(b.lift(1 << 20), b.lift(1 << 20))
            >>> high.dtype
            i32
        """
        return self._extended("arith.mulsi_extended", lhs, rhs)

    @op("arith.mului_extended", source="lax.mulhi(x, y)", traits=("elementwise", "pure"))
    def mului_extended(self, lhs: Value, rhs: Value) -> tuple[Value, Value]:
        """The unsigned product in twice the width, as its low and its high half.

        Args:
            lhs: integers.
            rhs: of the same type, which both halves have too.

        Example:
            >>> low, high = b.mului_extended(b.lift(1 << 20), b.lift(1 << 20))
            >>> low.dtype
            i32
        """
        return self._extended("arith.mului_extended", lhs, rhs)
