"""Which of two: limits, selects, and the logic of booleans."""

from __future__ import annotations

from mosaic_tpu.builder import dtypes as dt
from mosaic_tpu.builder._registry import idiom
from mosaic_tpu.builder._value import Operand, Value
from mosaic_tpu.builder.dtypes import DType
from mosaic_tpu.builder.errors import ArityError, DTypeError, ShapeError
from mosaic_tpu.builder.pallas.elementwise import ElementwiseIdioms


class ChoiceIdioms(ElementwiseIdioms):
    """`jnp.clip`, `lax.clamp`, `lax.select_n`, `jnp.logical_*`."""

    # --- limits -----------------------------------------------------------------------------------------------------

    @idiom("jnp.clip(x, min, max)", "arith.maximumf", "arith.minimumf", "arith.maxsi", group="choices")
    def clip(self, x: Value, min: Operand | None = None, max: Operand | None = None) -> Value:
        """`jnp.clip`: at least ``min``, then at most ``max``; numbers become constants first, of their own type.

        Args:
            x: a scalar or a vector.
            min: lower limit, a number or a value that broadcasts to ``x``.
            max: upper limit.

        Raises:
            ArityError: neither limit is given.
            DTypeError: a limit of a type that JAX does not promote.

        Example:
            >>> b.pallas.clip(a.x[...], -1.0, 1.0).shape
            (8, 128)
        """
        self._value(x, "clip")
        given = [limit for limit in (min, max) if limit is not None]
        if not given:
            self._b.fail(ArityError, "no limit", op="clip", operands=[x], hint="give min, max or both")
        self._check("clip", *given)
        with self._one_line("clip"):
            low, high = (None if limit is None else self._own(limit) for limit in (min, max))
            if low is not None and min is not None:
                dtype = self._common(x, min, "clip")
                x = self.maximum(self.astype(low, dtype), self.astype(x, dtype))
            if high is not None and max is not None:
                dtype = self._common(x, max, "clip")
                x = self.minimum(self.astype(high, dtype), self.astype(x, dtype))
            return x

    @idiom("lax.clamp(min, x, max)", "arith.maximumf", "arith.minimumf", "arith.maxsi", group="choices")
    def clamp(self, min: Operand, x: Value, max: Operand) -> Value:
        """`lax.clamp`: no conversion; limits are scalars or have the shape of ``x``.

        Example:
            >>> b.pallas.clamp(0.0, a.x[...], 1.0).shape
            (8, 128)
        """
        self._value(x, "clamp")
        self._check("clamp", min, max)
        with self._one_line("clamp"):
            for v in (min, max):
                if not isinstance(v, Value):
                    self._of_kind("clamp", v, x)
            low, high = (v if isinstance(v, Value) else self._const(*self._b._number(v, x.dtype)) for v in (min, max))
            for limit in (low, high):
                self._check_dtypes(x, limit, "clamp")
                if limit.rank and limit.shape != x.shape:
                    self._b.fail(ShapeError, "limits are scalars or whole vectors", op="clamp", operands=[x, limit])
            return self.minimum(self.maximum(x, low), high)

    # --- selects ----------------------------------------------------------------------------------------------------

    @idiom("lax.select_n(which, *cases)", "arith.select", group="choices", traits=("elementwise", "pure"))
    def select_n(self, which: Value, *cases: Value) -> Value:
        """`lax.select_n` of two cases: the second where ``which`` is true, or not 0.

        Raises:
            ArityError: Pallas takes two cases.

        Example:
            >>> b.pallas.select_n(a.x[...] < 0.0, a.x[...], -a.x[...]).shape
            (8, 128)
        """
        self._value(which, "select_n")
        if len(cases) != 2:
            self._b.fail(ArityError, f"{len(cases)} cases", op="select_n", operands=cases, hint="Pallas takes two")
        for case in cases:
            self._value(case, "select_n")
        if which.dtype not in (dt.i1, dt.i32):
            self._b.fail(DTypeError, f"which is {which.dtype}", op="select_n", operands=[which], hint="i1 or i32")
        with self._one_line("select_n"):
            condition = which if which.dtype is dt.i1 else self.ne(which, 0)
            return self._b.select(condition, cases[1], cases[0])

    # --- booleans ---------------------------------------------------------------------------------------------------

    def _logical(self, name: str, op: str, x: Operand, y: Operand) -> Value:
        self._check(name, x, y)
        common = self._common(x, y, name)
        with self._one_line(name):
            x, y = self._converted(x, y, common)
            if isinstance(x, Value) and isinstance(y, Value):
                x, y = self._ranks(x, y)
            first = self._truth(x, common, name)
            return self._arithmetic(name, first, self._truth(y, common, name), op, None, None)

    def _truth(self, x: Operand, dtype: DType, op: str) -> Operand:
        """Whether it is not 0; of a number, in the type of its neighbour."""
        if not (dtype.is_int or dtype.is_float):
            self._b.fail(DTypeError, f"does not take {dtype}", op=op, operands=[x], hint="numbers only")
        if dtype is dt.i1:
            return x
        return self.ne(x if isinstance(x, Value) else self._const(self._b._number(x, dtype)[0], dtype), 0)

    @idiom(
        "jnp.logical_not(x)", "arith.xori", "arith.cmpi", "arith.cmpf", group="choices", traits=("elementwise", "pure")
    )
    def logical_not(self, x: Value) -> Value:
        """`jnp.logical_not`; other types than ``i1`` are compared with 0 first.

        Raises:
            DTypeError: the elements are no numbers.

        Example:
            >>> b.pallas.logical_not(a.ints[...]).dtype
            i1
        """
        self._value(x, "logical_not")
        with self._one_line("logical_not"):
            truth = self._truth(x, x.dtype, "logical_not")
            assert isinstance(truth, Value)
            return self.bitwise_not(truth)

    @idiom("jnp.logical_and(x, y)", "arith.andi", group="choices", traits=("elementwise", "pure"))
    def logical_and(self, x: Operand, y: Operand) -> Value:
        """`jnp.logical_and`; other types than ``i1`` are promoted to one and compared with 0 first.

        Example:
            >>> b.pallas.logical_and(a.x[...] > 0.0, a.ints[...]).dtype
            i1
        """
        return self._logical("logical_and", "arith.andi", x, y)

    @idiom("jnp.logical_or(x, y)", "arith.ori", group="choices", traits=("elementwise", "pure"))
    def logical_or(self, x: Operand, y: Operand) -> Value:
        """`jnp.logical_or`; other types than ``i1`` are promoted to one and compared with 0 first.

        Example:
            >>> b.pallas.logical_or(a.x[...] > 0.0, a.ints[...]).dtype
            i1
        """
        return self._logical("logical_or", "arith.ori", x, y)

    @idiom("jnp.logical_xor(x, y)", "arith.xori", group="choices", traits=("elementwise", "pure"))
    def logical_xor(self, x: Operand, y: Operand) -> Value:
        """`jnp.logical_xor`; other types than ``i1`` are promoted to one and compared with 0 first.

        Example:
            >>> b.pallas.logical_xor(a.x[...] > 0.0, a.ints[...]).dtype
            i1
        """
        return self._logical("logical_xor", "arith.xori", x, y)
