"""Element-wise idioms: the jnp and lax operators, with their constants and broadcasts."""

from __future__ import annotations

from typing import NoReturn

import numpy as np

from mosaic_tpu.builder import dtypes as dt
from mosaic_tpu.builder._compat import PALLAS_DROPS_IDENTITY_BITCAST
from mosaic_tpu.builder._registry import idiom
from mosaic_tpu.builder._value import Operand, Value
from mosaic_tpu.builder.dtypes import DType
from mosaic_tpu.builder.errors import DTypeError, ShapeError, UnsupportedOpError
from mosaic_tpu.builder.ops.arith import CMPF, CMPI
from mosaic_tpu.builder.pallas._base import Idioms

SIGNED = {name: CMPI[p] for name, p in dict(lt="slt", le="sle", gt="sgt", ge="sge", eq="eq", ne="ne").items()}
_UNSIGNED = {name: CMPI[p] for name, p in dict(lt="ult", le="ule", gt="ugt", ge="uge", eq="eq", ne="ne").items()}
_ORDERED = {name: CMPF[p] for name, p in dict(lt="olt", le="ole", gt="ogt", ge="oge", eq="oeq", ne="one").items()}


class ElementwiseIdioms(Idioms):
    """Operators of jnp and lax."""

    def _arithmetic(
        self, name: str, x: Operand, y: Operand, signed: str | None, unsigned: str | None, floating: str | None
    ) -> Value:
        x, y = self._pair(x, y, name)
        info = x._info
        dtype = info.dtype
        op = floating if dtype.is_float else unsigned if dtype.is_unsigned else signed
        if op is None or (dtype is dt.i1 and op not in ("arith.andi", "arith.ori", "arith.xori")):
            self._b.fail(DTypeError, f"does not take {dtype}", op=name, operands=[x, y])
        return self._b._emit(op, info, [x._ir, y._ir])

    def _lax(
        self, name: str, x: Operand, y: Operand, signed: str | None, unsigned: str | None, floating: str | None
    ) -> Value:
        """An operator of lax, which converts neither numbers nor ranks."""
        if not isinstance(x, Value):
            self._of_kind(name, x, y)
        elif not isinstance(y, Value):
            self._of_kind(name, y, x)
        elif x.rank and y.rank and x.rank != y.rank:
            hint = "lax adds no dimensions: b.pallas.expand_dims"
            self._b.fail(ShapeError, f"ranks {x.rank} and {y.rank}", op=name, operands=[x, y], hint=hint)
        return self._arithmetic(name, x, y, signed, unsigned, floating)

    def _of_kind(self, name: str, number: Operand, like: Operand) -> None:
        """A number must be what lax takes beside a value: a float beside floats, an int beside integers."""
        if isinstance(like, Value) and (like.dtype.is_float or like.dtype.is_int):
            known = float | np.floating if like.dtype.is_float else int | np.integer
            if isinstance(number, bool | np.bool_) or not isinstance(number, known):
                wanted = "a float" if like.dtype.is_float else "an int"
                hint = f"lax converts nothing: {wanted}"
                self._b.fail(DTypeError, f"{number!r} beside {like.dtype}", op=name, operands=[like], hint=hint)

    @idiom("x + y", "arith.addi", "arith.addf", group="elementwise", traits=("elementwise", "pure"))
    def add(self, x: Operand, y: Operand) -> Value:
        """``x + y``: a number becomes a scalar constant and, beside a vector, a broadcast.

        Example:
            >>> b.pallas.add(a.x[...], 1.0).shape
            (8, 128)
        """
        return self._arithmetic("add", x, y, "arith.addi", "arith.addi", "arith.addf")

    @idiom("x - y", "arith.subi", "arith.subf", group="elementwise", traits=("elementwise", "pure"))
    def sub(self, x: Operand, y: Operand) -> Value:
        """``x - y``.

        Example:
            >>> b.pallas.sub(a.x[...], 1.0).shape
            (8, 128)
        """
        return self._arithmetic("sub", x, y, "arith.subi", "arith.subi", "arith.subf")

    @idiom("x * y", "arith.muli", "arith.mulf", group="elementwise", traits=("elementwise", "pure"))
    def mul(self, x: Operand, y: Operand) -> Value:
        """``x * y``.

        Example:
            >>> b.pallas.mul(a.x[...], 2.0).shape
            (8, 128)
        """
        return self._arithmetic("mul", x, y, "arith.muli", "arith.muli", "arith.mulf")

    @idiom(
        "lax.div(x, y)", "arith.divsi", "arith.divui", "arith.divf", group="elementwise", traits=("elementwise", "pure")
    )
    def div(self, x: Operand, y: Operand) -> Value:
        """`lax.div`: integers divide towards zero.

        Example:
            >>> b.pallas.div(b.lift(7), 2).dtype
            i32
        """
        return self._lax("div", x, y, "arith.divsi", "arith.divui", "arith.divf")

    @idiom("x / y", "arith.divf", group="elementwise", traits=("elementwise", "pure"))
    def true_divide(self, x: Operand, y: Operand) -> Value:
        """``x / y``: integers are converted to f32 first. ``//`` rounds down, `div` towards zero.

        Example:
            >>> b.pallas.true_divide(a.x[...], 2.0).dtype, b.pallas.true_divide(b.lift(7), 2).dtype
            (f32, f32)
        """
        x, y = self._inexact_pair(x, y, "true_divide")
        return self._arithmetic("true_divide", x, y, None, None, "arith.divf")

    def _inexact_type(self, x: Operand, y: Operand, op: str) -> DType:
        """The floats that jnp computes in: f32 of integers."""
        self._check(op, x, y)
        common = self._common(x, y, op)
        if not (common.is_int or common.is_float):
            self._b.fail(DTypeError, f"does not take {common}", op=op, operands=[x, y], hint="numbers only")
        return common if common.is_float else dt.f32

    def _inexact_pair(self, x: Operand, y: Operand, op: str) -> tuple[Operand, Operand]:
        """Values as the floats that jnp computes in; numbers as they are."""
        return self._converted(x, y, self._inexact_type(x, y, op))

    def _converted(self, x: Operand, y: Operand, dtype: DType) -> tuple[Operand, Operand]:
        first = self.astype(x, dtype) if isinstance(x, Value) else x
        return first, self.astype(y, dtype) if isinstance(y, Value) else y

    def _inexact_values(self, x: Operand, y: Operand, op: str) -> tuple[Value, Value]:
        """The same, then numbers as constants of that type, and ranks alike."""
        dtype = self._inexact_type(x, y, op)
        first, second = (
            v if isinstance(v, Value) else self._const(self._b._number(v, dtype)[0], dtype)
            for v in self._converted(x, y, dtype)
        )
        self._joint_shape(op, first, second)
        return self._ranks(first, second)

    @idiom(
        "lax.rem(x, y)", "arith.remsi", "arith.remui", "arith.remf", group="elementwise", traits=("elementwise", "pure")
    )
    def rem(self, x: Operand, y: Operand) -> Value:
        """`lax.rem`: the sign of the dividend.

        Example:
            >>> b.pallas.rem(b.lift(7), 2).dtype
            i32
        """
        return self._lax("rem", x, y, "arith.remsi", "arith.remui", "arith.remf")

    @idiom("x & y", "arith.andi", group="elementwise", traits=("elementwise", "pure"))
    def bitwise_and(self, x: Operand, y: Operand) -> Value:
        """``x & y``; of ``i1``, `jnp.logical_and`.

        Example:
            >>> b.pallas.bitwise_and(b.lift(6), 3).dtype
            i32
        """
        return self._arithmetic("bitwise_and", x, y, "arith.andi", "arith.andi", None)

    @idiom("x | y", "arith.ori", group="elementwise", traits=("elementwise", "pure"))
    def bitwise_or(self, x: Operand, y: Operand) -> Value:
        """``x | y``; of ``i1``, `jnp.logical_or`.

        Example:
            >>> b.pallas.bitwise_or(b.lift(6), 3).dtype
            i32
        """
        return self._arithmetic("bitwise_or", x, y, "arith.ori", "arith.ori", None)

    @idiom("x ^ y", "arith.xori", group="elementwise", traits=("elementwise", "pure"))
    def bitwise_xor(self, x: Operand, y: Operand) -> Value:
        """``x ^ y``.

        Example:
            >>> b.pallas.bitwise_xor(b.lift(6), 3).dtype
            i32
        """
        return self._arithmetic("bitwise_xor", x, y, "arith.xori", "arith.xori", None)

    @idiom("x << y", "arith.shli", group="elementwise", traits=("elementwise", "pure"))
    def left_shift(self, x: Operand, y: Operand) -> Value:
        """``x << y``.

        Example:
            >>> b.pallas.left_shift(b.lift(1), 4).dtype
            i32
        """
        return self._arithmetic("left_shift", x, y, "arith.shli", "arith.shli", None)

    @idiom("x >> y", "arith.shrsi", "arith.shrui", group="elementwise", traits=("elementwise", "pure"))
    def right_shift(self, x: Operand, y: Operand) -> Value:
        """``x >> y``: arithmetic for signed, logical for unsigned elements.

        Example:
            >>> b.pallas.right_shift(b.lift_as(8, u32), 1).dtype
            u32
        """
        return self._arithmetic("right_shift", x, y, "arith.shrsi", "arith.shrui", None)

    @idiom(
        "jnp.minimum(x, y)",
        "arith.minsi",
        "arith.minui",
        "arith.minimumf",
        group="elementwise",
        traits=("elementwise", "pure"),
    )
    def minimum(self, x: Operand, y: Operand) -> Value:
        """`jnp.minimum`: NaN wins.

        Example:
            >>> b.pallas.minimum(a.x[...], 0.0).shape
            (8, 128)
        """
        return self._arithmetic("minimum", x, y, "arith.minsi", "arith.minui", "arith.minimumf")

    @idiom(
        "jnp.maximum(x, y)",
        "arith.maxsi",
        "arith.maxui",
        "arith.maximumf",
        group="elementwise",
        traits=("elementwise", "pure"),
    )
    def maximum(self, x: Operand, y: Operand) -> Value:
        """`jnp.maximum`: NaN wins.

        Example:
            >>> b.pallas.maximum(a.x[...], 0.0).shape
            (8, 128)
        """
        return self._arithmetic("maximum", x, y, "arith.maxsi", "arith.maxui", "arith.maximumf")

    @idiom("-x", "arith.subi", "arith.subf", group="elementwise", traits=("elementwise", "pure"))
    def neg(self, x: Value) -> Value:
        """``-x``, which Pallas emits as ``0 - x``.

        Example:
            >>> b.pallas.neg(a.x[...]).shape
            (8, 128)
        """
        return self._arithmetic("neg", 0, x, "arith.subi", "arith.subi", "arith.subf")

    @idiom("~x", "arith.xori", group="elementwise", traits=("elementwise", "pure"))
    def bitwise_not(self, x: Value) -> Value:
        """``~x``: exclusive or with -1, a dense constant for vectors.

        Raises:
            DTypeError: the elements are floats.

        Example:
            >>> b.pallas.bitwise_not(a.x[...] < 0.0).dtype
            i1
        """
        self._value(x, "bitwise_not")
        if not x.dtype.is_int:
            hint = "b.pallas.logical_not asks whether a number is 0"
            self._b.fail(DTypeError, f"does not take {x.dtype}", op="bitwise_not", operands=[x], hint=hint)
        return self._b.xori(x, self._b._constant(-1, x._info))

    # --- comparisons -------------------------------------------------------------------------------------------

    def _compare(self, name: str, x: Operand, y: Operand) -> Value:
        given = (x, y)
        x, y = self._pair(x, y, name)
        b, info = self._b, x._info
        dtype = info.dtype
        if dtype is dt.i1:
            return self._compare_booleans(name, x, y, given)
        if dtype.is_float:
            op, attributes = "arith.cmpf", b.types.predicates(_ORDERED)[name]
        else:
            op, attributes = "arith.cmpi", b.types.predicates(_UNSIGNED if dtype.is_unsigned else SIGNED)[name]
        return b._emit(op, b.types.like(info, dt.i1), [x._ir, y._ir], attributes)

    def _compare_booleans(self, name: str, x: Value, y: Value, given: tuple[Operand, Operand]) -> Value:
        """A logical expression; what was broadcast for the comparison is broadcast once more for that expression."""
        b, info = self._b, x._info
        shapes = [v.shape if isinstance(v, Value) else () for v in given]
        stretched = [info.shape != ((1,) * (x.rank - len(s)) + s if s else s) for s in shapes]
        if any(stretched) and name not in ("eq", "ne"):
            b.fail(
                UnsupportedOpError, "ordering booleans of two shapes", op=name, operands=[x, y], hint="use & | ^ and ~"
            )
        x, y = (
            b._emit("vector.broadcast", info, [v._ir]) if again else v
            for v, again in zip((x, y), stretched, strict=True)
        )
        match name:
            case "eq":
                return self.bitwise_not(self.bitwise_xor(x, y))
            case "ne":
                return self.bitwise_xor(x, y)
            case "lt":
                return self.bitwise_and(self.bitwise_not(x), y)
            case "le":
                return self.bitwise_or(self.bitwise_not(x), y)
            case "gt":
                return self.bitwise_and(x, self.bitwise_not(y))
            case _:
                return self.bitwise_or(x, self.bitwise_not(y))

    @idiom("x < y", "arith.cmpi", "arith.cmpf", group="elementwise", traits=("elementwise", "pure"))
    def lt(self, x: Operand, y: Operand) -> Value:
        """``x < y``.

        Example:
            >>> b.pallas.lt(a.x[...], 0.0).dtype
            i1
        """
        return self._compare("lt", x, y)

    @idiom("x <= y", "arith.cmpi", "arith.cmpf", group="elementwise", traits=("elementwise", "pure"))
    def le(self, x: Operand, y: Operand) -> Value:
        """``x <= y``.

        Example:
            >>> b.pallas.le(a.x[...], 0.0).dtype
            i1
        """
        return self._compare("le", x, y)

    @idiom("x > y", "arith.cmpi", "arith.cmpf", group="elementwise", traits=("elementwise", "pure"))
    def gt(self, x: Operand, y: Operand) -> Value:
        """``x > y``.

        Example:
            >>> b.pallas.gt(a.x[...], 0.0).dtype
            i1
        """
        return self._compare("gt", x, y)

    @idiom("x >= y", "arith.cmpi", "arith.cmpf", group="elementwise", traits=("elementwise", "pure"))
    def ge(self, x: Operand, y: Operand) -> Value:
        """``x >= y``.

        Example:
            >>> b.pallas.ge(a.x[...], 0.0).dtype
            i1
        """
        return self._compare("ge", x, y)

    @idiom("x == y", "arith.cmpi", "arith.cmpf", group="elementwise", traits=("elementwise", "pure"))
    def eq(self, x: Operand, y: Operand) -> Value:
        """``x == y``.

        Example:
            >>> b.pallas.eq(a.x[...], 0.0).dtype
            i1
        """
        return self._compare("eq", x, y)

    @idiom("x != y", "arith.cmpi", "arith.cmpf", group="elementwise", traits=("elementwise", "pure"))
    def ne(self, x: Operand, y: Operand) -> Value:
        """``x != y``.

        Example:
            >>> b.pallas.ne(a.x[...], 0.0).dtype
            i1
        """
        return self._compare("ne", x, y)

    # --- selects ------------------------------------------------------------------------------------------------

    @idiom("lax.select(pred, x, y)", "arith.select", group="elementwise", traits=("elementwise", "pure"))
    def select(self, condition: Value, on_true: Operand, on_false: Operand) -> Value:
        """`lax.select`: no broadcast, no conversion; the constant of ``on_false`` comes first, as in ``select_n``.

        Example:
            >>> b.pallas.select(b.lift(1) < 2, 1, 0).dtype
            i32
        """
        self._value(condition, "select")
        self._check("select", on_true, on_false)
        like = next((v.dtype for v in (on_true, on_false) if isinstance(v, Value)), None)
        no = self._select_operand(on_false, like)
        yes = self._select_operand(on_true, like)
        return self._b.select(condition, yes, no)

    def _select_operand(self, value: Operand, like: DType | None) -> Value:
        if isinstance(value, Value):
            return value
        return self._own(value) if like is None else self._const(*self._b._number(value, like))

    @idiom("jnp.where(cond, x, y)", "arith.select", group="elementwise", traits=("elementwise", "pure"))
    def where(self, condition: Value, x: Operand, y: Operand) -> Value:
        """`jnp.where`: numbers become constants of their own dtype, are converted, then broadcast.

        A scalar condition selects whole vectors and is not broadcast.

        Example:
            >>> b.pallas.where(a.x[...] < 0.0, a.x[...], 0).dtype
            f32
        """
        self._value(condition, "where")
        self._check("where", x, y)
        if condition.dtype is not dt.i1:
            self._b.fail(DTypeError, "the condition must be i1", op="where", operands=[condition], hint="compare first")
        with self._one_line("where"):
            first, second = self._own(x), self._own(y)
            dtype = self._where_dtype(x, y, first, second)
            first, second = self.astype(first, dtype), self.astype(second, dtype)
            shape = self._joint_shape("where", *((condition, first, second) if condition.rank else (first, second)))
            if condition.rank and condition.shape != shape:
                condition = self._b.pallas.broadcast_to(condition, shape)
            if first.shape != shape:
                first = self._b.pallas.broadcast_to(first, shape)
            if second.shape != shape:
                second = self._b.pallas.broadcast_to(second, shape)
            return self._b.select(condition, first, second)

    def _where_dtype(self, x: Operand, y: Operand, first: Value, second: Value) -> DType:
        if isinstance(x, Value) or isinstance(y, Value):
            return self._common(x, y, "where")
        return dt.f32 if dt.f32 in (first.dtype, second.dtype) else first.dtype

    # --- casts and integer division --------------------------------------------------------------------------------

    @idiom(
        "x.astype(dtype)",
        "arith.extf",
        "arith.truncf",
        "arith.sitofp",
        "arith.extsi",
        group="elementwise",
        traits=("elementwise", "pure"),
    )
    def astype(self, x: Value, dtype: DType) -> Value:
        """``x.astype(dtype)`` as Pallas lowers it; nothing when the type is the same.

        Raises:
            UnsupportedOpError: Pallas refuses the conversion too (bf16 ↔ f16, 64 bits).

        Example:
            >>> b.pallas.astype(a.x[...], bf16).dtype
            bf16
        """
        # Most of what idioms convert has the type already.
        if type(x) is Value and x._info.dtype is dtype and x._scope.live is self._b and not x._info.is_ref:
            return x
        self._value(x, "astype")
        source, dtype = x.dtype, self._b._data_type(dtype, "astype")
        if source is dtype:
            return x
        if dtype.bits == 64 or not (source.is_int or source.is_float):
            self._refuse_cast(x, dtype)
        if source is dt.i1 and dtype.is_float:
            number = self._b.sitofp(self._b.extui(x, dt.i32), dt.f32)
            return self._b.cast(number, dtype)
        if dtype is dt.i1:
            if source.bits < 32:
                x = self._b.cast(x, dt.f32 if source.is_float else dt.u32 if source.is_unsigned else dt.i32)
            return self._compare("ne", x, 0)
        if source.is_float and dtype.is_float and source.bits == dtype.bits:
            self._refuse_cast(x, dtype)
        return self._b.cast(x, dtype)

    @idiom("pltpu.bitcast(x, dtype)", "tpu.bitcast", group="elementwise", traits=("pure",))
    def bitcast(self, x: Value, dtype: DType) -> Value:
        """`pltpu.bitcast`: the same bits; a change of width scales the second-to-last dimension.

        Since jaxlib 0.12 nothing is emitted where the MLIR type stays (u8 to i8).

        Example:
            >>> b.pallas.bitcast(a.x[...], u32).dtype
            u32
        """
        self._value(x, "bitcast")
        dtype = self._b._element(dtype, "bitcast")
        if x.dtype.mlir == dtype.mlir and PALLAS_DROPS_IDENTITY_BITCAST:
            return Value(x._ir, self._b.types.like(x._info, dtype), x._scope)
        return self._b.bitcast_to(x, dtype)

    def _refuse_cast(self, x: Value, dtype: DType) -> NoReturn:
        self._b.fail(
            UnsupportedOpError,
            f"Pallas has no conversion from {x.dtype} to {dtype}",
            op="astype",
            operands=[x],
            hint="go through f32: x.to(f32).to(dtype)",
        )

    def _at_jit(self, x: Operand, y: Operand, op: str, *, inexact: bool = False) -> tuple[Value, Value]:
        """Operands of a jitted jnp function: a number becomes one scalar constant at the call.

        There it is a constant of its own type; what is promoted, and integers where floats are meant, is converted in
        the function.
        """
        self._check(op, x, y)
        common = self._common(x, y, op)
        first, second = self._jit_operand(x, common), self._jit_operand(y, common)
        if inexact and common.is_int:
            common = dt.f32
        if common is dt.i1 or not (common.is_int or common.is_float):
            self._b.fail(DTypeError, f"does not take {common}", op=op, operands=[first, second], hint="numbers only")
        return self._ranks(self.astype(first, common), self.astype(second, common))

    def _jit_operand(self, x: Operand, common: DType) -> Value:
        if type(x) is int and common is dt.u32:  # it may be more than fits in i32
            return self._const(x, common)
        return self._own(x)

    def _bits(self, x: Value, dtype: DType, op: str) -> Value:
        """The same bits as another type of the same width: a vector's through ``tpu``, a scalar's through ``arith``."""
        if dtype.bits != x.dtype.bits:
            self._b.fail(
                DTypeError,
                f"{x.dtype} and {dtype} differ in width",
                op=op,
                operands=[x],
                hint="b.pallas.bitcast changes the second-to-last dimension with the width",
            )
        info = self._b.types.like(x._info, dtype)
        if info.ir is x._info.ir and PALLAS_DROPS_IDENTITY_BITCAST:
            return Value(x._ir, info, x._scope)
        return self._b._emit("tpu.bitcast" if x.is_vector else "arith.bitcast", info, [x._ir])
