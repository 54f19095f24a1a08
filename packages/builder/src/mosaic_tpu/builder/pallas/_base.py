"""What every idiom stands on: the builder, and operands as JAX's jaxprs hold them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from mosaic_tpu.builder import dtypes as dt
from mosaic_tpu.builder._core import ENTERS
from mosaic_tpu.builder._types import TypeInfo
from mosaic_tpu.builder._value import Number, Operand, Value
from mosaic_tpu.builder.dtypes import DType
from mosaic_tpu.builder.errors import (
    ArityError,
    ConstantError,
    DTypeError,
    KindError,
    MosaicError,
    ShapeError,
    UnsupportedOpError,
)
from mosaic_tpu.builder.pallas._calls import called
from mosaic_tpu.builder.pallas._promotion import ADOPTING, STRICT, beside, promoted

if TYPE_CHECKING:
    from mosaic_tpu.builder.builder import Builder

_I31 = 1 << 31
#: Beside these an int may be larger than an i32, which JAX has as a NumPy scalar; or must be smaller anyway.
_NOT_I32 = frozenset({dt.u32, dt.i64, dt.index, dt.i1, dt.i4, dt.i8, dt.u8, dt.i16, dt.u16})


class Scope(AbstractContextManager[None]):
    """A with block, which may also be written as Pallas does: as the decorator of a function that is run at once."""

    def __init__(self, op: str, manager: AbstractContextManager[None], *, runs: bool = True) -> None:
        self._op, self._manager, self._runs = op, manager, runs

    def __enter__(self) -> None:
        self._manager.__enter__()

    def __exit__(self, *exception: Any) -> bool | None:
        return self._manager.__exit__(*exception)

    def __call__(self, body: Callable[[], object]) -> None:
        """Run the function in the block."""
        if self._runs:
            with self:
                called(self._op, body)


class _OneLine:
    """What `Idioms._one_line` gives. A class, since a generator costs three times the calls, and idioms are many."""

    __slots__ = ("_b", "_op", "_outer")

    def __init__(self, b: Builder, op: str | None) -> None:
        self._b, self._op = b, op

    def __enter__(self) -> None:
        b = self._b
        self._outer, b._line = b._line, b._loc()

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        self._b._line = self._outer
        if self._op is not None and isinstance(error, MosaicError):
            error.op = self._op


class Idioms:
    """Base of the idiom mixins."""

    def __init__(self, builder: Builder) -> None:
        self._b = builder

    def _one_line(self, op: str | None = None) -> _OneLine:
        """Ops of an idiom made of others: the kernel's line is looked up once for all, and errors name the idiom.

        Args:
            op: the idiom; of what runs a function of the kernel none, since that is told of its own ops.
        """
        return _OneLine(self._b, op)

    def _check(self, op: str, *operands: Operand) -> None:
        """Operands must be this builder's scalars or vectors, or numbers."""
        for operand in operands:
            if isinstance(operand, Value):
                self._value(operand, op)
            elif not isinstance(operand, bool | int | float | np.generic):  # pyright: ignore[reportUnnecessaryIsInstance]
                self._b._refuse(operand, op, ENTERS)

    def _value(self, x: Value, op: str) -> Value:
        """A scalar or vector of this builder: no number, no ref."""
        self._b._use(x, op)
        if x._info.is_ref:
            self._b._refuse(x, op)
        return x

    def _callable(self, op: str, *functions: object) -> None:
        for function in functions:
            if not callable(function):
                self._b.fail(KindError, f"{function!r} is not a function", op=op, hint="pass a function of the carry")

    def _axes(self, axis: int | Sequence[int], rank: int, op: str, x: Value) -> tuple[int, ...]:
        """Axes, negative ones counted from the end, each once."""
        b = self._b
        axes = (b._int(axis, op, "axis"),) if isinstance(axis, int) else b._ints(axis, op, "axes")
        found = tuple(a % rank for a in axes if -rank <= a < rank)
        if len(found) != len(axes) or len(set(found)) != len(axes):
            b.fail(
                ArityError,
                f"axes {axes} of rank {rank}",
                op=op,
                operands=[x],
                hint="each axis once, from -rank to rank - 1",
            )
        return found

    def _squeezed(self, x: Value) -> Value:
        """The only element of a vector, as Pallas squeezes one: of 32 bits."""
        if x.dtype.bits != 32:
            hint = "cast to f32 or i32 first, or keep the dimensions: shape (1, 1)"
            self._b.fail(
                UnsupportedOpError, f"a scalar of {x.dtype} out of a vector", op="squeeze", operands=[x], hint=hint
            )
        return self._b.vector_extract(x, (0,) * x.rank)

    def _no_list(self, axis: object, op: str) -> None:
        """Where axes are part of what JAX keeps a program under, they are a number or a tuple."""
        if isinstance(axis, list):
            hint = f"a tuple, axis={tuple(cast('list[object]', axis))}"
            self._b.fail(ArityError, f"the axes are a list, {axis}, which JAX refuses here", op=op, hint=hint)

    def _axis(self, axis: int, rank: int, op: str, x: Value) -> int:
        """One axis, negative ones counted from the end."""
        return self._axes((self._b._int(axis, op, "axis"),), rank, op, x)[0]

    def _i32(self, number: Value | int, op: str, what: str) -> Value:
        """An i32 value of the kernel, or a constant that an i32 holds."""
        if isinstance(number, Value):
            return number
        fits = self._checked(self._b._int(number, op, what), dt.i32, op, f"a {what} that an i32 holds")
        return self._const(fits, dt.i32)

    def _checked[N](
        self, number: N, dtype: DType, op: str, hint: str = "a float, or a NumPy scalar: np.uint32(…)"
    ) -> N:
        """A number beside an operand: JAX makes an i32 of a Python int first, of whatever type the operand is."""
        if type(number) is int and not -_I31 <= number < _I31 and dtype not in _NOT_I32:
            self._b.fail(ConstantError, f"{number} does not fit in i32, which JAX makes of an int", op=op, hint=hint)
        return number

    def _const(self, value: Number, dtype: DType) -> Value:
        return self._b._constant(value, self._b.types.scalar(self._b._data_type(dtype, "arith.constant")))

    def _own(self, value: Operand) -> Value:
        """A value; or a number at a jit boundary: its own JAX dtype (int → i32, float → f32), not its neighbour's."""
        return value if isinstance(value, Value) else self._b.lift(self._checked(value, dt.i32, "lift"))

    def _pair(self, x: Operand, y: Operand, op: str) -> tuple[Value, Value]:
        """Both operands as values of one type: `_bcast` of Pallas's lowering, after jnp's rank promotion."""
        # What kernels do most goes first, with the checks of the general way folded into these lines.
        b = self._b
        if type(x) is Value and x._scope.live is b:
            info = x._info
            if type(y) is Value:
                if y._info is info and y._scope.live is b and not info.is_ref:
                    return x, y
            elif type(y) in ADOPTING[info.dtype.kind] and not info.is_ref:
                return x, self._splat(y, info)  # pyright: ignore[reportArgumentType]
        elif type(y) is Value and y._scope.live is b:
            info = y._info
            if type(x) in ADOPTING[info.dtype.kind] and not info.is_ref:
                return self._splat(x, info), y  # pyright: ignore[reportArgumentType]
        return self._any_pair(x, y, op)

    def _splat(self, number: Number, info: TypeInfo) -> Value:
        """A number beside an operand of a type: a scalar constant and, for a vector, its broadcast."""
        b = self._b
        if number.__class__ is int and not -_I31 <= number < _I31:
            self._checked(number, info.dtype, "arith.constant")
        if not info.is_vector:
            return b._constant(number, info)
        return b._emit("vector.broadcast", info, [b._raw_constant(number, b.types.scalar(info.dtype))])

    def _any_pair(self, x: Operand, y: Operand, op: str) -> tuple[Value, Value]:
        self._check(op, x, y)
        if isinstance(x, Value) and isinstance(y, Value):
            if x._info.dtype is not y._info.dtype:
                x, y = self._promote(x, y, op)
            if len(x._info.shape) != len(y._info.shape):
                x, y = self._ranks(x, y)
        elif isinstance(x, Value):
            x, y = self._beside(x, y, op)
        elif isinstance(y, Value):
            y, x = self._beside(y, x, op)
        else:
            self._b.fail(
                KindError, "one operand must be a value of the kernel", op=op, operands=[x, y], hint="b.lift(x)"
            )
        return self._broadcast_pair(x, y, op)

    def _promote(self, x: Value, y: Value, op: str) -> tuple[Value, Value]:
        """Both in the type that jnp computes in; lax converts nothing."""
        if x._info.dtype is y._info.dtype:
            return x, y
        common = None if op in STRICT else promoted(x.dtype, y.dtype)
        if common is None:
            self._check_dtypes(x, y, op)
            return x, y
        cast = self._b.pallas.astype
        return cast(x, common), cast(y, common)

    def _beside(self, x: Value, number: Operand, op: str) -> tuple[Value, Value]:
        """A value and a number in the type that jnp computes in: the value converted, then a constant."""
        common = None if op in STRICT else beside(x.dtype, number)
        if common is None:
            constant = self._const(*self._b._number(self._checked(number, x.dtype, op), x.dtype))
            self._check_dtypes(x, constant, op)
            return x, constant
        x = self._b.pallas.astype(x, common)
        return x, self._const(self._b._number(self._checked(number, x.dtype, op), common)[0], common)

    def _common(self, x: Operand, y: Operand, op: str) -> DType:
        """The type that jnp computes in, of two values or of a value and a number."""
        if isinstance(x, Value):
            found = promoted(x.dtype, y.dtype) if isinstance(y, Value) else beside(x.dtype, y)
        elif isinstance(y, Value):
            found = beside(y.dtype, x)
        else:
            self._b.fail(
                KindError, "one operand must be a value of the kernel", op=op, operands=[x, y], hint="b.lift(x)"
            )
        if found is None:
            names = " and ".join(str(v.dtype if isinstance(v, Value) else type(v).__name__) for v in (x, y))
            self._b.fail(DTypeError, f"JAX promotes neither of {names} to the other", op=op, operands=[x, y])
        return found

    def _check_dtypes(self, x: Value, y: Value, op: str) -> None:
        if x._info.dtype is not y._info.dtype:
            self._b.fail(DTypeError, f"element types {x.dtype} and {y.dtype} differ", op=op, operands=[x, y])

    def _rank(self, x: Value, rank: int) -> Value:
        """Jnp's rank promotion of a vector: leading size-1 dimensions."""
        if not x.rank or x.rank >= rank:
            return x
        return self._b.shape_cast(x, (1,) * (rank - x.rank) + x.shape)

    def _ranks(self, x: Value, y: Value) -> tuple[Value, Value]:
        """Both of the higher rank."""
        return self._rank(x, y.rank), self._rank(y, x.rank)

    def _kept(self, reduced: Value, shape: Sequence[int], axes: Sequence[int] | None) -> Value:
        """A reduction of a vector of some shape, with the reduced dimensions once more, of size 1."""
        kept = tuple(1 if axes is None or d in axes else s for d, s in enumerate(shape))
        if not kept:  # of a scalar
            return reduced
        return self._b.shape_cast(reduced, kept) if reduced.rank else self._b.broadcast_to(reduced, kept)

    def _broadcast_pair(self, x: Value, y: Value, op: str) -> tuple[Value, Value]:
        if x._info.shape == y._info.shape:
            return x, y
        b = self._b
        if not x._info.shape:
            return b._emit("vector.broadcast", y._info, [x._ir]), y
        if not y._info.shape:
            return x, b._emit("vector.broadcast", x._info, [y._ir])
        out = self._joint_shape(op, x, y)
        if x._info.shape != out:
            x = b.broadcast_to(x, out)
        if y._info.shape != out:
            y = b.broadcast_to(y, out)
        return x, y

    def _joint_shape(self, op: str, *values: Value) -> tuple[int, ...]:
        """The shape that scalars and equal-rank vectors broadcast to."""
        shapes = [v._info.shape for v in values if v._info.shape]
        if not shapes:
            return ()
        rank = max(map(len, shapes))
        out = [1] * rank
        for shape in shapes:
            for d, s in enumerate((1,) * (rank - len(shape)) + shape):
                if s != 1 and out[d] not in (1, s):
                    self._b.fail(
                        ShapeError,
                        f"shapes {shapes} do not broadcast",
                        op=op,
                        operands=values,
                        hint="only dimensions of size 1 stretch: x[:, None] inserts one",
                    )
                out[d] = max(out[d], s)
        return tuple(out)
