"""`Value`: one SSA value, small: its MLIR handle, its interned type and the region it lives in."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, NoReturn

import numpy as np

from mosaic_tpu.builder._compat import IrValue, ir
from mosaic_tpu.builder._frames import user_frame
from mosaic_tpu.builder._names import refuse_name
from mosaic_tpu.builder._spelling import foreign, hint_for
from mosaic_tpu.builder._types import TypeInfo
from mosaic_tpu.builder.dtypes import DType
from mosaic_tpu.builder.enums import MemorySpace
from mosaic_tpu.builder.errors import ConcreteValueError, ForeignCallError, KindError
from mosaic_tpu.builder.views import RefIndexer, RefView

if TYPE_CHECKING:
    from mosaic_tpu.builder._core import Scope
    from mosaic_tpu.builder.builder import Builder

type Number = bool | int | float
type Operand = Value | Number

_COMPARISONS: Final[Mapping[str, str]] = {
    "less": "__gt__", "less_equal": "__ge__", "greater": "__lt__", "greater_equal": "__le__",
    "equal": "__eq__", "not_equal": "__ne__",
}  # fmt: skip
#: What NumPy's scalars and arrays call for an operator with a value at its right.
_REFLECTED: Final[Mapping[str, str]] = {
    "add": "__radd__", "subtract": "__rsub__", "multiply": "__rmul__", "matmul": "__rmatmul__",
    "divide": "__rtruediv__", "floor_divide": "__rfloordiv__", "remainder": "__rmod__", "power": "__rpow__",
    "bitwise_and": "__rand__", "bitwise_or": "__ror__", "bitwise_xor": "__rxor__",
    "left_shift": "__rlshift__", "right_shift": "__rrshift__", "divmod": "__rdivmod__", **_COMPARISONS,
}  # fmt: skip


class Value:
    """A scalar, vector or ref of the kernel being built.

    Operators emit what Pallas emits for the same expression: ``x * 2.0`` is a scalar constant, a broadcast and
    ``arith.mulf``; ``a // b`` is `jnp.floor_divide`. Operands of two element types are promoted as JAX promotes them.
    Python numbers take this value's element type, floats beside integers make f32, NumPy scalars keep their own. Raw
    MLIR ops are the builder's methods: ``b.mulf(x, y)``.

    Example:
        >>> from mosaic_tpu.builder import Builder, Scalar, i32
        >>> b = Builder("k")
        >>> a = b.declare_args(dict(n=Scalar(i32)), grid=(4,))
        >>> (a.n * 8 + 1).dtype
        i32
    """

    __slots__ = ("_info", "_ir", "_scope")

    def __init__(self, value: IrValue, info: TypeInfo, scope: Scope) -> None:
        self._ir = value
        self._info = info
        self._scope = scope

    # --- introspection ---------------------------------------------------------------------------------------

    @property
    def ir(self) -> IrValue:
        """The raw MLIR value, for ops the builder does not have."""
        return self._ir

    @property
    def builder(self) -> Builder:
        """The builder that made it."""
        return self._scope.owner

    @property
    def type(self) -> ir.Type:
        """The full MLIR type: scalar, vector or memref."""
        return self._info.ir

    @property
    def dtype(self) -> DType:
        """The element type; of a scalar, its own."""
        return self._info.dtype

    @property
    def elem_type(self) -> ir.Type:
        """The MLIR element type; same as ``type`` for scalars."""
        if self._info.kind == "opaque":
            return self._info.ir
        return self._scope.owner.types.element(self._info.dtype)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape; ``()`` for scalars."""
        return self._info.shape

    @property
    def rank(self) -> int:
        """The number of dimensions; 0 for scalars."""
        return len(self._info.shape)

    @property
    def memory_space(self) -> MemorySpace | None:
        """Where a ref lives; ``None`` for scalars and vectors."""
        return self._info.space

    @property
    def is_vector(self) -> bool:
        """Whether this is a vector."""
        return self._info.is_vector

    @property
    def is_ref(self) -> bool:
        """Whether this is a ref (an MLIR memref)."""
        return self._info.is_ref

    @property
    def is_memref(self) -> bool:
        """The Zig DSL's name for `is_ref`."""
        return self._info.is_ref

    @property
    def is_shaped(self) -> bool:
        """Whether this is a vector or a ref."""
        return self._info.is_vector or self._info.is_ref

    @property
    def is_float_elem(self) -> bool:
        """Whether the elements are floats."""
        return self._info.dtype.is_float

    @property
    def is_int_elem(self) -> bool:
        """Whether the elements are integers (``i1`` included)."""
        return self._info.dtype.is_int

    def dim(self, axis: int) -> int:
        """The size of one dimension.

        Raises:
            KindError: this is a scalar, or has no such dimension.
        """
        try:
            return self._info.shape[axis]
        except (IndexError, TypeError):
            raise KindError(
                f"dim({axis!r}) of a value of rank {self.rank}",
                op="dim",
                operands=[str(self._info)],
                hint="an axis from 0 to rank - 1; scalars have none",
            ) from None

    # --- arithmetic: what Pallas emits for the same operator -----------------------------------------------------

    @property
    def _b(self) -> Builder:
        return self._scope.owner

    def __add__(self, other: Operand) -> Value:
        return self._scope.owner.pallas.add(self, other)

    def __radd__(self, other: Number) -> Value:
        return self._scope.owner.pallas.add(other, self)

    def __sub__(self, other: Operand) -> Value:
        return self._scope.owner.pallas.sub(self, other)

    def __rsub__(self, other: Number) -> Value:
        return self._scope.owner.pallas.sub(other, self)

    def __mul__(self, other: Operand) -> Value:
        return self._scope.owner.pallas.mul(self, other)

    def __rmul__(self, other: Number) -> Value:
        return self._scope.owner.pallas.mul(other, self)

    def __matmul__(self, other: Value) -> Value:
        return self._product(self, other)

    def __rmatmul__(self, other: object) -> Value:
        return self._product(other, self)

    def _product(self, x: Any, y: Any) -> Value:
        for operand in (x, y):
            if not isinstance(operand, Value):
                raise KindError(
                    f"one side of @ is of type {type(operand).__name__}, and no value of this kernel",
                    op="dot",
                    operands=[str(self._info)],
                    hint="x * 2.0 scales; matrices are loaded from refs",
                )
        return self._scope.owner.pallas.dot(x, y)

    def __truediv__(self, other: Operand) -> Value:
        return self._scope.owner.pallas.true_divide(self, other)

    def __rtruediv__(self, other: Number) -> Value:
        return self._scope.owner.pallas.true_divide(other, self)

    def __floordiv__(self, other: Operand) -> Value:
        return self._scope.owner.pallas.floor_divide(self, other)

    def __rfloordiv__(self, other: Number) -> Value:
        return self._scope.owner.pallas.floor_divide(other, self)

    def __mod__(self, other: Operand) -> Value:
        return self._scope.owner.pallas.remainder(self, other)

    def __rmod__(self, other: Number) -> Value:
        return self._scope.owner.pallas.remainder(other, self)

    def __divmod__(self, other: Operand) -> tuple[Value, Value]:
        return self._scope.owner.pallas.divmod(self, other)

    def __rdivmod__(self, other: Number) -> tuple[Value, Value]:
        return self._scope.owner.pallas.divmod(other, self)

    def __pow__(self, other: Operand) -> Value:
        return self._scope.owner.pallas.power(self, other)

    def __rpow__(self, other: Number) -> Value:
        return self._scope.owner.pallas.power(other, self)

    def __and__(self, other: Operand) -> Value:
        return self._scope.owner.pallas.bitwise_and(self, other)

    def __rand__(self, other: Number) -> Value:
        return self._scope.owner.pallas.bitwise_and(other, self)

    def __or__(self, other: Operand) -> Value:
        return self._scope.owner.pallas.bitwise_or(self, other)

    def __ror__(self, other: Number) -> Value:
        return self._scope.owner.pallas.bitwise_or(other, self)

    def __xor__(self, other: Operand) -> Value:
        return self._scope.owner.pallas.bitwise_xor(self, other)

    def __rxor__(self, other: Number) -> Value:
        return self._scope.owner.pallas.bitwise_xor(other, self)

    def __lshift__(self, other: Operand) -> Value:
        return self._scope.owner.pallas.left_shift(self, other)

    def __rlshift__(self, other: Number) -> Value:
        return self._scope.owner.pallas.left_shift(other, self)

    def __rshift__(self, other: Operand) -> Value:
        return self._scope.owner.pallas.right_shift(self, other)

    def __rrshift__(self, other: Number) -> Value:
        return self._scope.owner.pallas.right_shift(other, self)

    def __lt__(self, other: Operand) -> Value:
        return self._scope.owner.pallas.lt(self, other)

    def __le__(self, other: Operand) -> Value:
        return self._scope.owner.pallas.le(self, other)

    def __gt__(self, other: Operand) -> Value:
        return self._scope.owner.pallas.gt(self, other)

    def __ge__(self, other: Operand) -> Value:
        return self._scope.owner.pallas.ge(self, other)

    def __neg__(self) -> Value:
        return self._scope.owner.pallas.neg(self)

    def __invert__(self) -> Value:
        return self._scope.owner.pallas.bitwise_not(self)

    def __pos__(self) -> Value:
        return self._b.pallas._value(self, "positive")

    def __abs__(self) -> Value:
        return self._b.pallas.abs(self)

    def __round__(self, ndigits: int | None = None) -> Value:
        return self._b.pallas._rounded(self, ndigits)

    @property
    def at(self) -> RefIndexer:
        """``ref.at[…]``: a view, emitted anew at each use as Pallas does."""
        return RefIndexer(RefView(self))

    def __getitem__(self, index: object) -> Value:
        return self._scope.owner.pallas.load(self, index) if self._info.is_ref else self._b.pallas.index(self, index)

    def __setitem__(self, index: object, value: Operand) -> None:
        self._scope.owner.pallas.store(self, value, index)

    def eq(self, other: Operand) -> Value:
        """Element-wise ``==``: ``arith.cmpi eq`` or ``arith.cmpf oeq``."""
        return self._scope.owner.pallas.eq(self, other)

    def ne(self, other: Operand) -> Value:
        """Element-wise ``!=``: ``arith.cmpi ne`` or ``arith.cmpf one``."""
        return self._scope.owner.pallas.ne(self, other)

    # --- the Zig DSL's fluent names -----------------------------------------------------------------------------

    def add(self, other: Operand) -> Value:
        """``arith.addi`` or ``arith.addf``; same as ``+``."""
        return self._scope.owner.pallas.add(self, other)

    def sub(self, other: Operand) -> Value:
        """``arith.subi`` or ``arith.subf``; same as ``-``."""
        return self._scope.owner.pallas.sub(self, other)

    def mul(self, other: Operand) -> Value:
        """``arith.muli`` or ``arith.mulf``; same as ``*``."""
        return self._scope.owner.pallas.mul(self, other)

    def div(self, other: Operand) -> Value:
        """``arith.divsi`` (towards zero), ``arith.divui`` or ``arith.divf``: `lax.div`."""
        return self._scope.owner.pallas.div(self, other)

    def rem(self, other: Operand) -> Value:
        """``arith.remsi``, ``arith.remui`` or ``arith.remf``: `lax.rem`, the sign of the dividend."""
        return self._scope.owner.pallas.rem(self, other)

    def bit_and(self, other: Operand) -> Value:
        """``arith.andi``; same as ``&``."""
        return self._scope.owner.pallas.bitwise_and(self, other)

    def bit_or(self, other: Operand) -> Value:
        """``arith.ori``; same as ``|``."""
        return self._scope.owner.pallas.bitwise_or(self, other)

    def minimum(self, other: Operand) -> Value:
        """``arith.minsi``, ``arith.minui`` or ``arith.minimumf``."""
        return self._scope.owner.pallas.minimum(self, other)

    def maximum(self, other: Operand) -> Value:
        """``arith.maxsi``, ``arith.maxui`` or ``arith.maximumf``."""
        return self._scope.owner.pallas.maximum(self, other)

    def lt(self, other: Operand) -> Value:
        """Element-wise ``<``."""
        return self._scope.owner.pallas.lt(self, other)

    def le(self, other: Operand) -> Value:
        """Element-wise ``<=``."""
        return self._scope.owner.pallas.le(self, other)

    def gt(self, other: Operand) -> Value:
        """Element-wise ``>``."""
        return self._scope.owner.pallas.gt(self, other)

    def ge(self, other: Operand) -> Value:
        """Element-wise ``>=``."""
        return self._scope.owner.pallas.ge(self, other)

    def to(self, dtype: DType) -> Value:
        """A numeric cast that keeps the shape, by the Zig DSL's table; nothing is emitted when the type is the same."""
        return self._b.cast(self, dtype)

    def bitcast(self, dtype: DType) -> Value:
        """``tpu.bitcast`` to another element type of the same width."""
        return self._b.bitcast_to(self, dtype)

    def abs(self) -> Value:
        """``math.absf`` or ``math.absi``."""
        return self._b.abs(self)

    # --- what a traced value cannot be ---------------------------------------------------------------------------

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        """NumPy's scalars leave the arithmetic to us, and no function of NumPy sees a value."""
        name = str(getattr(ufunc, "__name__", "a ufunc"))
        if method != "__call__" or options or name not in _REFLECTED or len(inputs) != 2 or inputs[1] is not self:
            self._foreign(name)
        other = inputs[0]
        if name in _COMPARISONS and type(other) is np.ndarray and not other.ndim:
            other = other[()]  # NumPy makes an array of a scalar that it compares
        return getattr(self, _REFLECTED[name])(other)

    def __array_function__(self, function: Any, types: object, args: object, options: object) -> NoReturn:
        self._foreign(str(getattr(function, "__name__", "a function")))

    def _foreign(self, name: str) -> NoReturn:
        """A function of NumPy was called, by the kernel or by one of JAX that the kernel called."""
        called = foreign(user_frame(sys._getframe(2)))
        written = f"np.{name}" if called is None else called[0]
        raise ForeignCallError(
            "no value of a kernel is an array",
            op=written,
            operands=[str(self._info)],
            hint=hint_for(written.rpartition(".")[2]),
        )

    if not TYPE_CHECKING:  # a checker sees what there is

        def __getattr__(self, name: str) -> NoReturn:
            refuse_name(self, None, name)

    def _refuse(self, what: str, hint: str) -> NoReturn:
        raise ConcreteValueError(
            "needs a concrete value, this is only known when the kernel runs",
            op=what,
            operands=[str(self._info)],
            hint=hint,
        )

    def __bool__(self) -> bool:
        self._refuse("bool()", "use b.if_(cond), b.pallas.when(cond) or b.select(cond, x, y)")

    def __int__(self) -> int:
        self._refuse("int()", "sizes and loop counts of the Python program come from the config")

    def __float__(self) -> float:
        self._refuse("float()", "numbers of the Python program come from the config")

    def __index__(self) -> int:
        self._refuse("index", "loop with b.pallas.fori_loop, index refs with ref[i], or b.to_index(i) for raw ops")

    def __array__(self, dtype: object = None, copy: object = None) -> NoReturn:
        self._refuse("array", "numpy and jnp see no traced values: use b.exp(x), b.pallas.sum(x, axis) and the like")

    def __len__(self) -> int:
        self._refuse("len()", "the size of a dimension is value.shape[axis] or value.dim(axis)")

    def __contains__(self, item: object) -> bool:
        self._refuse("in", "compare elements: x.eq(y), then b.pallas.max")

    def __iter__(self) -> Iterator[Value]:
        self._refuse("iteration", "loop with b.for_(…), or take slices one by one")

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if isinstance(other, Value | int | float | np.generic):
            self._refuse("==", "x.eq(y) compares elements: with b.pallas.when(x.eq(y)): …")
        return NotImplemented

    def __ne__(self, other: object) -> bool:
        if self is other:
            return False
        if isinstance(other, Value | int | float | np.generic):
            self._refuse("!=", "x.ne(y) compares elements: with b.pallas.when(x.ne(y)): …")
        return NotImplemented

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"Value({self._info})"
