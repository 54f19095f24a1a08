"""The arith dialect: integer and float arithmetic, comparisons, casts, constants."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal

from mosaic_tpu.builder import dtypes as dt
from mosaic_tpu.builder._core import Core
from mosaic_tpu.builder._registry import op
from mosaic_tpu.builder._types import TypeInfo
from mosaic_tpu.builder._value import Number, Value
from mosaic_tpu.builder.dtypes import DType
from mosaic_tpu.builder.errors import AttributeValueError, DTypeError, KindError, ShapeError

CmpIPredicate = Literal["eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge"]
CmpFPredicate = Literal[
    "false", "oeq", "ogt", "oge", "olt", "ole", "one", "ord", "ueq", "ugt", "uge", "ult", "ule", "une", "uno", "true"
]

CMPI: Final = {name: i for i, name in enumerate(("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge"))}
CMPF: Final = {
    name: i
    for i, name in enumerate(
        (
            "false",
            "oeq",
            "ogt",
            "oge",
            "olt",
            "ole",
            "one",
            "ord",
            "ueq",
            "ugt",
            "uge",
            "ult",
            "ule",
            "une",
            "uno",
            "true",
        )
    )
}

#: Which element types each cast goes from and to.
_CASTS: Final[dict[str, Callable[[DType, DType], bool]]] = {
    "arith.extsi": lambda a, b: a.is_int and b.is_int and a.bits < b.bits,
    "arith.extui": lambda a, b: a.is_int and b.is_int and a.bits < b.bits,
    "arith.trunci": lambda a, b: a.is_int and b.is_int and a.bits > b.bits,
    "arith.extf": lambda a, b: a.is_float and b.is_float and a.bits < b.bits,
    "arith.truncf": lambda a, b: a.is_float and b.is_float and a.bits > b.bits,
    "arith.sitofp": lambda a, b: a.is_int and b.is_float,
    "arith.uitofp": lambda a, b: a.is_int and b.is_float,
    "arith.fptosi": lambda a, b: a.is_float and b.is_int,
    "arith.fptoui": lambda a, b: a.is_float and b.is_int,
    "arith.bitcast": lambda a, b: a.bits == b.bits and a.bits > 0,
    "arith.index_cast": lambda a, b: (a is dt.index and b.is_int) or (a.is_int and b is dt.index),
}


class ArithOps(Core):
    """``arith.*``. Operands must have the same type; the result has it too unless stated."""

    def _binary(self, name: str, lhs: Value, rhs: Value, domain: Literal["int", "float"]) -> Value:
        a, b = self._use(lhs, name), self._use(rhs, name)
        info = lhs._info
        if info is not rhs._info:
            self._same(lhs, rhs, name)
        if info.dtype.is_float != (domain == "float") or not info.is_data:
            self._refuse_domain(name, domain, lhs, rhs)
        return self._emit(name, info, [a, b])

    def _refuse_domain(self, name: str, domain: str, *operands: Value) -> None:
        info = operands[0]._info
        if info.is_ref:
            self.fail(KindError, "a ref is not a value", op=name, operands=operands, hint="load it first: ref[...]")
        if info.kind == "opaque":
            self.fail(DTypeError, "nothing is known of the type", op=name, operands=operands, hint="use b.generic_op")
        if domain == "int" and info.dtype is dt.index:
            return
        other = "integer" if info.dtype.is_float else "float"
        self.fail(
            DTypeError, f"needs {domain} elements", op=name, operands=operands, hint=f"use the {other} op, or cast"
        )

    @op("arith.constant", source="b.constant(value, dtype)", traits=("constant", "pure"))
    def constant(self, value: Number, dtype: DType = dt.i32) -> Value:
        """A fresh scalar ``arith.constant``.

        Args:
            value: the number; it must be representable in ``dtype``.
            dtype: the element type of the result.

        Raises:
            ConstantError: the number does not fit.

        Example:
            >>> b.constant(7).dtype
            i32
        """
        return self._constant(value, self.types.scalar(self._data_type(dtype, "arith.constant")))

    @op("arith.addi", traits=("elementwise", "pure"))
    def addi(self, lhs: Value, rhs: Value) -> Value:
        """Integer sum, wrapping.

        Example:
            >>> b.addi(b.lift(1), b.lift(2)).dtype
            i32
        """
        return self._binary("arith.addi", lhs, rhs, "int")

    @op("arith.addf", traits=("elementwise", "pure"))
    def addf(self, lhs: Value, rhs: Value) -> Value:
        """Float sum.

        Example:
            >>> b.addf(b.lift(1.0), b.lift(2.0)).dtype
            f32
        """
        return self._binary("arith.addf", lhs, rhs, "float")

    @op("arith.subi", traits=("elementwise", "pure"))
    def subi(self, lhs: Value, rhs: Value) -> Value:
        """Integer difference, wrapping.

        Example:
            >>> b.subi(b.lift(1), b.lift(2)).dtype
            i32
        """
        return self._binary("arith.subi", lhs, rhs, "int")

    @op("arith.subf", traits=("elementwise", "pure"))
    def subf(self, lhs: Value, rhs: Value) -> Value:
        """Float difference.

        Example:
            >>> b.subf(b.lift(1.0), b.lift(2.0)).dtype
            f32
        """
        return self._binary("arith.subf", lhs, rhs, "float")

    @op("arith.muli", traits=("elementwise", "pure"))
    def muli(self, lhs: Value, rhs: Value) -> Value:
        """Integer product, wrapping.

        Example:
            >>> b.muli(b.lift(3), b.lift(2)).dtype
            i32
        """
        return self._binary("arith.muli", lhs, rhs, "int")

    @op("arith.mulf", traits=("elementwise", "pure"))
    def mulf(self, lhs: Value, rhs: Value) -> Value:
        """Float product.

        Example:
            >>> b.mulf(b.lift(3.0), b.lift(2.0)).dtype
            f32
        """
        return self._binary("arith.mulf", lhs, rhs, "float")

    @op("arith.divsi", traits=("elementwise", "pure"))
    def divsi(self, lhs: Value, rhs: Value) -> Value:
        """Signed division towards zero (`lax.div`); for `//` see `div_floor`.

        Example:
            >>> b.divsi(b.lift(7), b.lift(2)).dtype
            i32
        """
        return self._binary("arith.divsi", lhs, rhs, "int")

    @op("arith.divui", traits=("elementwise", "pure"))
    def divui(self, lhs: Value, rhs: Value) -> Value:
        """Unsigned division.

        Example:
            >>> b.divui(b.lift(7), b.lift(2)).dtype
            i32
        """
        return self._binary("arith.divui", lhs, rhs, "int")

    @op("arith.divf", traits=("elementwise", "pure"))
    def divf(self, lhs: Value, rhs: Value) -> Value:
        """Float quotient.

        Example:
            >>> b.divf(b.lift(3.0), b.lift(2.0)).dtype
            f32
        """
        return self._binary("arith.divf", lhs, rhs, "float")

    @op("arith.remsi", traits=("elementwise", "pure"))
    def remsi(self, lhs: Value, rhs: Value) -> Value:
        """Signed remainder with the sign of the dividend (`lax.rem`).

        Example:
            >>> b.remsi(b.lift(7), b.lift(2)).dtype
            i32
        """
        return self._binary("arith.remsi", lhs, rhs, "int")

    @op("arith.remui", traits=("elementwise", "pure"))
    def remui(self, lhs: Value, rhs: Value) -> Value:
        """Unsigned remainder.

        Example:
            >>> b.remui(b.lift(7), b.lift(2)).dtype
            i32
        """
        return self._binary("arith.remui", lhs, rhs, "int")

    @op("arith.remf", traits=("elementwise", "pure"))
    def remf(self, lhs: Value, rhs: Value) -> Value:
        """Float remainder with the sign of the dividend.

        Example:
            >>> b.remf(b.lift(7.0), b.lift(2.0)).dtype
            f32
        """
        return self._binary("arith.remf", lhs, rhs, "float")

    @op("arith.andi", traits=("elementwise", "pure"))
    def andi(self, lhs: Value, rhs: Value) -> Value:
        """Bitwise and; of ``i1``, logical and.

        Example:
            >>> b.andi(b.lift(6), b.lift(3)).dtype
            i32
        """
        return self._binary("arith.andi", lhs, rhs, "int")

    @op("arith.ori", traits=("elementwise", "pure"))
    def ori(self, lhs: Value, rhs: Value) -> Value:
        """Bitwise or; of ``i1``, logical or.

        Example:
            >>> b.ori(b.lift(6), b.lift(3)).dtype
            i32
        """
        return self._binary("arith.ori", lhs, rhs, "int")

    @op("arith.xori", traits=("elementwise", "pure"))
    def xori(self, lhs: Value, rhs: Value) -> Value:
        """Bitwise exclusive or; of ``i1``, ``!=``.

        Example:
            >>> b.xori(b.lift(6), b.lift(3)).dtype
            i32
        """
        return self._binary("arith.xori", lhs, rhs, "int")

    @op("arith.shli", traits=("elementwise", "pure"))
    def shli(self, lhs: Value, rhs: Value) -> Value:
        """Shift left; shifting by the width or more is undefined.

        Example:
            >>> b.shli(b.lift(1), b.lift(4)).dtype
            i32
        """
        return self._binary("arith.shli", lhs, rhs, "int")

    @op("arith.shrsi", traits=("elementwise", "pure"))
    def shrsi(self, lhs: Value, rhs: Value) -> Value:
        """Arithmetic shift right: the sign bit is repeated.

        Example:
            >>> b.shrsi(b.lift(-8), b.lift(1)).dtype
            i32
        """
        return self._binary("arith.shrsi", lhs, rhs, "int")

    @op("arith.shrui", traits=("elementwise", "pure"))
    def shrui(self, lhs: Value, rhs: Value) -> Value:
        """Logical shift right: zeros come in.

        Example:
            >>> b.shrui(b.lift(8), b.lift(1)).dtype
            i32
        """
        return self._binary("arith.shrui", lhs, rhs, "int")

    @op("arith.minsi", traits=("elementwise", "pure"))
    def minsi(self, lhs: Value, rhs: Value) -> Value:
        """Signed minimum.

        Example:
            >>> b.minsi(b.lift(1), b.lift(2)).dtype
            i32
        """
        return self._binary("arith.minsi", lhs, rhs, "int")

    @op("arith.maxsi", traits=("elementwise", "pure"))
    def maxsi(self, lhs: Value, rhs: Value) -> Value:
        """Signed maximum.

        Example:
            >>> b.maxsi(b.lift(1), b.lift(2)).dtype
            i32
        """
        return self._binary("arith.maxsi", lhs, rhs, "int")

    @op("arith.minui", traits=("elementwise", "pure"))
    def minui(self, lhs: Value, rhs: Value) -> Value:
        """Unsigned minimum.

        Example:
            >>> b.minui(b.lift(1), b.lift(2)).dtype
            i32
        """
        return self._binary("arith.minui", lhs, rhs, "int")

    @op("arith.maxui", traits=("elementwise", "pure"))
    def maxui(self, lhs: Value, rhs: Value) -> Value:
        """Unsigned maximum.

        Example:
            >>> b.maxui(b.lift(1), b.lift(2)).dtype
            i32
        """
        return self._binary("arith.maxui", lhs, rhs, "int")

    @op("arith.minimumf", traits=("elementwise", "pure"))
    def minimumf(self, lhs: Value, rhs: Value) -> Value:
        """Float minimum; NaN if either is NaN.

        Example:
            >>> b.minimumf(b.lift(1.0), b.lift(2.0)).dtype
            f32
        """
        return self._binary("arith.minimumf", lhs, rhs, "float")

    @op("arith.maximumf", traits=("elementwise", "pure"))
    def maximumf(self, lhs: Value, rhs: Value) -> Value:
        """Float maximum; NaN if either is NaN.

        Example:
            >>> b.maximumf(b.lift(1.0), b.lift(2.0)).dtype
            f32
        """
        return self._binary("arith.maximumf", lhs, rhs, "float")

    @op("arith.minnumf", traits=("elementwise", "pure"))
    def minnumf(self, lhs: Value, rhs: Value) -> Value:
        """Float minimum that ignores NaN. Pallas never emits it.

        Example:
            >>> b.minnumf(b.lift(1.0), b.lift(2.0)).dtype
            f32
        """
        return self._binary("arith.minnumf", lhs, rhs, "float")

    @op("arith.maxnumf", traits=("elementwise", "pure"))
    def maxnumf(self, lhs: Value, rhs: Value) -> Value:
        """Float maximum that ignores NaN. Pallas never emits it.

        Example:
            >>> b.maxnumf(b.lift(1.0), b.lift(2.0)).dtype
            f32
        """
        return self._binary("arith.maxnumf", lhs, rhs, "float")

    @op("arith.negf", traits=("elementwise", "pure"))
    def negf(self, x: Value) -> Value:
        """Float negation. For ``-x`` Pallas emits ``0 - x``: see ``b.pallas.neg``.

        Example:
            >>> b.negf(b.lift(1.0)).dtype
            f32
        """
        used = self._use(x, "arith.negf")
        if not x.dtype.is_float or x.is_ref:
            self._refuse_domain("arith.negf", "float", x)
        return self._emit("arith.negf", x._info, [used])

    # --- comparisons -------------------------------------------------------------------------------------------

    def _predicate(self, known: dict[str, int], predicate: str, name: str) -> int:
        number = known.get(predicate) if isinstance(predicate, str) else None  # pyright: ignore[reportUnnecessaryIsInstance]
        if number is None:
            self.fail(
                AttributeValueError, f"{predicate!r} is not a predicate", op=name, hint=f"one of {' '.join(known)}"
            )
        return number

    def _compare(self, name: str, number: int, lhs: Value, rhs: Value) -> Value:
        a, b = self._use(lhs, name), self._use(rhs, name)
        info = lhs._info
        if info is not rhs._info:
            self._same(lhs, rhs, name)
        if not info.is_data or info.dtype.is_float != (name == "arith.cmpf"):
            self._refuse_domain(name, "float" if name == "arith.cmpf" else "int", lhs, rhs)
        attributes = self.types.named(name, number)
        if attributes is None:
            attributes = self.types.name({"predicate": self.types.integer(number, 64)}, name, number)
        return self._emit(name, self.types.like(info, dt.i1), [a, b], attributes)

    @op("arith.cmpi", traits=("elementwise", "pure"))
    def cmpi(self, predicate: CmpIPredicate, lhs: Value, rhs: Value) -> Value:
        """Integer comparison; ``i1`` of the operands' shape.

        Args:
            predicate: ``eq ne slt sle sgt sge ult ule ugt uge``.
            lhs: any integer or index value.
            rhs: of the same type.

        Example:
            >>> b.cmpi("slt", b.lift(1), b.lift(2)).dtype
            i1
        """
        return self._compare("arith.cmpi", self._predicate(CMPI, predicate, "arith.cmpi"), lhs, rhs)

    @op("arith.cmpf", traits=("elementwise", "pure"))
    def cmpf(self, predicate: CmpFPredicate, lhs: Value, rhs: Value) -> Value:
        """Float comparison; the ``o…`` predicates are false on NaN.

        Args:
            predicate: ``oeq one olt ole ogt oge ord`` and the unordered ``u…`` forms.
            lhs: any float value.
            rhs: of the same type.

        Example:
            >>> b.cmpf("olt", b.lift(1.0), b.lift(2.0)).dtype
            i1
        """
        return self._compare("arith.cmpf", self._predicate(CMPF, predicate, "arith.cmpf"), lhs, rhs)

    @op("arith.select", traits=("elementwise", "pure"))
    def select(self, condition: Value, x: Value, y: Value) -> Value:
        """``x`` where ``condition`` holds, else ``y``.

        Args:
            condition: ``i1``: a scalar, or a vector of the operands' shape.
            x: any value.
            y: of the same type as ``x``.

        Example:
            >>> b.select(b.cmpi("eq", b.lift(1), b.lift(2)), b.lift(3), b.lift(4)).dtype
            i32
        """
        used = [self._use(condition, "arith.select"), self._use(x, "arith.select"), self._use(y, "arith.select")]
        info = x._info
        key = ("arith.select", condition._info, info, y._info)
        if key not in self.types.plans:
            self._check_select(condition, x, y)
            self.types.plans[key] = info
        return self._emit("arith.select", info, used)

    def _check_select(self, condition: Value, x: Value, y: Value) -> None:
        info = x._info
        if info is not y._info:
            self._same(x, y, "arith.select")
        if condition.dtype is not dt.i1 or condition.is_ref:
            self.fail(
                DTypeError,
                "the condition must be i1",
                op="arith.select",
                operands=[condition, x, y],
                hint="compare first: x < y, v.ne(0)",
            )
        if condition.is_vector and condition.shape != info.shape:
            self.fail(ShapeError, "the condition's shape differs", op="arith.select", operands=[condition, x, y])

    # --- casts -------------------------------------------------------------------------------------------------

    def _cast(self, name: str, x: Value, dtype: DType) -> Value:
        if type(x) is not Value or x._scope.live is not self:
            self._use(x, name)
        key = (name, x._info, dtype)
        result = self.types.plans.get(key) if type(dtype) is DType else None
        if result is None:
            result = self._cast_result(name, x, dtype)
            self.types.plans[key] = result
        return self._emit(name, result, [x._ir])

    def _cast_result(self, name: str, x: Value, dtype: DType) -> TypeInfo:
        info, dtype = x._info, self._data_type(dtype, name)
        if info.is_ref:
            self.fail(KindError, "a ref is not a value", op=name, operands=[x], hint="load it first: ref[...]")
        if not _CASTS[name](info.dtype, dtype) or (dtype is dt.index and info.is_vector):
            self.fail(
                DTypeError,
                f"cannot cast {info.dtype} to {dtype} with this op",
                op=name,
                operands=[x],
                hint="x.to(dtype) picks the right one",
            )
        return self.types.like(info, dtype)

    @op("arith.extsi", traits=("elementwise", "pure"))
    def extsi(self, x: Value, dtype: DType) -> Value:
        """Widen a signed integer.

        Example:
            >>> b.extsi(b.lift_as(1, i8), i32).dtype
            i32
        """
        return self._cast("arith.extsi", x, dtype)

    @op("arith.extui", traits=("elementwise", "pure"))
    def extui(self, x: Value, dtype: DType) -> Value:
        """Widen an unsigned integer or an ``i1``.

        Example:
            >>> b.extui(b.cmpi("eq", b.lift(1), b.lift(1)), i32).dtype
            i32
        """
        return self._cast("arith.extui", x, dtype)

    @op("arith.trunci", traits=("elementwise", "pure"))
    def trunci(self, x: Value, dtype: DType) -> Value:
        """Narrow an integer, keeping the low bits.

        Example:
            >>> b.trunci(b.lift(300), i8).dtype
            i8
        """
        return self._cast("arith.trunci", x, dtype)

    @op("arith.extf", traits=("elementwise", "pure"))
    def extf(self, x: Value, dtype: DType) -> Value:
        """Widen a float.

        Example:
            >>> b.extf(b.lift_as(1.0, bf16), f32).dtype
            f32
        """
        return self._cast("arith.extf", x, dtype)

    @op("arith.truncf", traits=("elementwise", "pure"))
    def truncf(self, x: Value, dtype: DType) -> Value:
        """Narrow a float, to nearest even.

        Example:
            >>> b.truncf(b.lift(1.0), bf16).dtype
            bf16
        """
        return self._cast("arith.truncf", x, dtype)

    @op("arith.sitofp", traits=("elementwise", "pure"))
    def sitofp(self, x: Value, dtype: DType) -> Value:
        """Signed integer to float.

        Example:
            >>> b.sitofp(b.lift(1), f32).dtype
            f32
        """
        return self._cast("arith.sitofp", x, dtype)

    @op("arith.uitofp", traits=("elementwise", "pure"))
    def uitofp(self, x: Value, dtype: DType) -> Value:
        """Unsigned integer to float.

        Example:
            >>> b.uitofp(b.lift(1), f32).dtype
            f32
        """
        return self._cast("arith.uitofp", x, dtype)

    @op("arith.fptosi", traits=("elementwise", "pure"))
    def fptosi(self, x: Value, dtype: DType) -> Value:
        """Float to signed integer, towards zero.

        Example:
            >>> b.fptosi(b.lift(1.5), i32).dtype
            i32
        """
        return self._cast("arith.fptosi", x, dtype)

    @op("arith.fptoui", traits=("elementwise", "pure"))
    def fptoui(self, x: Value, dtype: DType) -> Value:
        """Float to unsigned integer, towards zero.

        Example:
            >>> b.fptoui(b.lift(1.5), u32).dtype
            u32
        """
        return self._cast("arith.fptoui", x, dtype)

    @op("arith.bitcast", traits=("elementwise", "pure"))
    def arith_bitcast(self, x: Value, dtype: DType) -> Value:
        """Reinterpret the bits of a scalar or vector; same width. Vectors usually want ``tpu.bitcast``.

        Example:
            >>> b.arith_bitcast(b.lift(1.0), i32).dtype
            i32
        """
        return self._cast("arith.bitcast", x, dtype)

    @op("arith.index_cast", source="b.indexCast(v, ty)")
    def index_cast(self, x: Value, dtype: DType) -> Value:
        """Between an integer and ``index``.

        Example:
            >>> b.index_cast(b.c_index(3), i32).dtype
            i32
        """
        return self._cast("arith.index_cast", x, dtype)
