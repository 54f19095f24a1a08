"""Reduction idioms: sums, extremes and where they are, means, and reductions of booleans."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, Literal

from mosaic_tpu.builder import dtypes as dt
from mosaic_tpu.builder._registry import idiom
from mosaic_tpu.builder._value import Number, Operand, Value
from mosaic_tpu.builder.dtypes import DType
from mosaic_tpu.builder.errors import ArityError, AttributeValueError, DTypeError, ShapeError, UnsupportedOpError
from mosaic_tpu.builder.pallas.elementwise import ElementwiseIdioms

type Axis = int | Sequence[int] | None
#: How the elements of a reduction are combined.
type Combine = Literal["add", "max", "min"]


class ReductionIdioms(ElementwiseIdioms):
    """`jnp` reductions, with Pallas's dense start values and its detour to a scalar."""

    def _reduce(
        self,
        name: str,
        x: Value,
        axis: Axis,
        keepdims: bool,
        combine: Combine,
        *,
        where: Value | None = None,
        initial: Operand | None = None,
    ) -> Value:
        self._value(x, name)
        if not (x.dtype.is_float or x.dtype is dt.i32):
            self._b.fail(
                UnsupportedOpError,
                f"Pallas reduces floats and i32, not {x.dtype}",
                op=name,
                operands=[x],
                hint="cast to i32 or f32 first",
            )
        axes = tuple(range(x.rank)) if axis is None else self._axes(axis, x.rank, name, x)
        kind, value = _KINDS[combine][x.dtype.is_float]
        keepdims = self._b._flag(keepdims, name, "keepdims")
        x = x if where is None else self._masked(name, x, where, value)
        if len(axes) == x.rank:
            reduced = self._to_scalar(x, kind, value, axes)
        else:
            kept = tuple(s for d, s in enumerate(x.shape) if d not in axes)
            reduced = self._b.multi_reduction(kind, x, self._b.full(kept, value, x.dtype), axes)
        if initial is not None:
            reduced = self._from_initial(name, combine, reduced, initial)
        return self._kept(reduced, x.shape, axes) if keepdims else reduced

    def _masked(self, name: str, x: Value, where: Value, value: Number) -> Value:
        """``x`` where the mask is true, and elsewhere what the reduction starts with."""
        self._value(where, name)
        if where.dtype is not dt.i1:
            self._b.fail(DTypeError, f"a mask of {where.dtype}", op=name, operands=[x, where], hint="compare first")
        if self._joint_shape(name, x, where) != x.shape:
            self._b.fail(ShapeError, "the mask is larger", op=name, operands=[x, where], hint="it broadcasts to x")
        return self.where(where, x, self._const(value, x.dtype))

    def _from_initial(self, name: str, combine: Combine, x: Value, initial: Operand) -> Value:
        """The result of a reduction, and one number more."""
        self._check(name, initial)
        if isinstance(initial, Value):
            if initial.rank:
                self._b.fail(ShapeError, "the initial value is a vector", op=name, operands=[initial], hint="a scalar")
            initial = self.astype(initial, x.dtype)
        elif isinstance(initial, float) and x.dtype.is_int:
            self._b.fail(DTypeError, f"{initial} beside {x.dtype}", op=name, operands=[x], hint="an int")
        return {"add": self.add, "max": self.maximum, "min": self.minimum}[combine](initial, x)

    def _to_scalar(self, x: Value, kind: str, value: Number, axes: Sequence[int]) -> Value:
        """A leading 1, a reduction of the rest, ``1 x 1 …``, an extract: no scalar reduction exists on the VPU."""
        rank = x.rank
        if not rank:
            return self._scalar_reduced(x, kind, value)
        lifted = self._b.shape_cast(x, (1, *x.shape))
        acc = self._b.full((1,), value, x.dtype)
        reduced = self._b.multi_reduction(kind, lifted, acc, tuple([axis + 1 for axis in axes]))
        kept = self._b.shape_cast(reduced, (1,) * (rank + 1))
        return self._squeezed(kept)

    def _scalar_reduced(self, x: Value, kind: str, value: Number) -> Value:
        """A scalar reduced: a vector of one, which is reduced along no dimension."""
        b = self._b
        one = b.broadcast_to(x, (1,))
        return b.vector_extract(b.multi_reduction(kind, one, b.full((1,), value, x.dtype), ()), (0,))

    @idiom("jnp.sum(x, axis)", "vector.multi_reduction", group="reductions", traits=("reduction", "pure"))
    def sum(
        self,
        x: Value,
        axis: Axis = None,
        *,
        keepdims: bool = False,
        dtype: DType | None = None,
        where: Value | None = None,
        initial: Operand | None = None,
    ) -> Value:
        """`jnp.sum`: 16-bit floats are summed in f32 and cast back, narrow integers and booleans in i32, as JAX does.

        Args:
            x: floats or signed integers, or booleans, which are counted; a scalar, too.
            axis: one axis, several, or all of them (a scalar result).
            keepdims: keep reduced axes with size 1.
            dtype: what to cast to first, and of the result.
            where: ``i1`` that broadcasts to ``x``: what is left out where it is false.
            initial: a number or a scalar that is added.

        Raises:
            UnsupportedOpError: of unsigned integers; cast to i32 or floats.
            DTypeError: a mask that is not ``i1``, or a float ``initial`` beside integers.
            ShapeError: a mask that is larger than ``x``, or a vector as ``initial``.

        Example:
            >>> b.pallas.sum(a.x[...], 1).shape, b.pallas.sum(a.x[...]).shape
            ((8,), ())
        """
        self._value(x, "sum")
        with self._one_line("sum"):
            if x.dtype is dt.i1 or (dtype is None and x.dtype in (dt.i4, dt.i8, dt.i16)):
                x = self.astype(x, dt.i32)
            small = dtype is None and x.dtype.is_float and x.dtype.bits == 16
            result = x.dtype if dtype is None else self._b._element(dtype, "sum")
            wide = self.astype(x, dt.f32 if small else result)
            total = self._reduce("sum", wide, axis, keepdims, "add", where=where, initial=initial)
            return self.astype(total, result)

    @idiom("jnp.max(x, axis)", "vector.multi_reduction", group="reductions", traits=("reduction", "pure"))
    def max(
        self,
        x: Value,
        axis: Axis = None,
        *,
        keepdims: bool = False,
        where: Value | None = None,
        initial: Operand | None = None,
    ) -> Value:
        """`jnp.max`: NaN wins.

        Args:
            x: floats or i32; a scalar, too.
            axis: one axis, several, or all of them (a scalar result).
            keepdims: keep reduced axes with size 1.
            where: ``i1`` that broadcasts to ``x``: what is left out where it is false; with ``initial``.
            initial: a number or a scalar, the least that the result is.

        Raises:
            ArityError: a mask without an initial value.
            UnsupportedOpError: of other integers than i32.
            DTypeError: a mask that is not ``i1``, or a float ``initial`` beside integers.
            ShapeError: a mask that is larger than ``x``, or a vector as ``initial``.

        Example:
            >>> b.pallas.max(a.x[...], 1, keepdims=True).shape
            (8, 1)
        """
        return self._largest("max", x, axis, keepdims, where, initial)

    @idiom("jnp.min(x, axis)", "vector.multi_reduction", group="reductions", traits=("reduction", "pure"))
    def min(
        self,
        x: Value,
        axis: Axis = None,
        *,
        keepdims: bool = False,
        where: Value | None = None,
        initial: Operand | None = None,
    ) -> Value:
        """`jnp.min`: NaN wins. See `max`.

        Raises:
            ArityError: a mask without an initial value.
            UnsupportedOpError: of other integers than i32.
            DTypeError: a mask that is not ``i1``, or a float ``initial`` beside integers.
            ShapeError: a mask that is larger than ``x``, or a vector as ``initial``.

        Example:
            >>> b.pallas.min(a.x[...], 0).shape
            (128,)
        """
        return self._largest("min", x, axis, keepdims, where, initial)

    def _largest(
        self,
        name: Literal["max", "min"],
        x: Value,
        axis: Axis,
        keepdims: bool,
        where: Value | None,
        initial: Operand | None,
    ) -> Value:
        if where is not None and initial is None:
            hint = "an initial value, for where the mask leaves nothing"
            self._b.fail(ArityError, "a mask without an initial value", op=name, operands=[x], hint=hint)
        with self._one_line(name):
            return self._reduce(name, x, axis, keepdims, name, where=where, initial=initial)

    # --- of booleans -------------------------------------------------------------------------------------------------

    def _reduce_booleans(self, name: str, x: Value, axis: Axis, keepdims: bool, combine: Combine) -> Value:
        """1.0 and 0.0 reduced, and compared with 0: Mosaic reduces no booleans."""
        self._value(x, name)
        axes = None if axis is None else self._axes(axis, x.rank, name, x)
        keepdims = self._b._flag(keepdims, name, "keepdims")
        with self._one_line(name):
            truth = self.astype(x, dt.i1)
            numbers = self.where(truth, 1.0, 0.0)
            found = self.gt(self._reduce(name, numbers, axes, False, combine), 0.0)
            return self._kept(found, x.shape, axes) if keepdims else found

    @idiom("jnp.any(x, axis)", "vector.multi_reduction", "arith.cmpf", group="reductions", traits=("reduction", "pure"))
    def any(self, x: Value, axis: Axis = None, *, keepdims: bool = False) -> Value:
        """`jnp.any`: the maximum of 1.0 and 0.0 is above 0; other types are compared with 0 first.

        Example:
            >>> b.pallas.any(a.x[...] > 0.0, 1).dtype
            i1
        """
        return self._reduce_booleans("any", x, axis, keepdims, "max")

    @idiom("jnp.all(x, axis)", "vector.multi_reduction", "arith.cmpf", group="reductions", traits=("reduction", "pure"))
    def all(self, x: Value, axis: Axis = None, *, keepdims: bool = False) -> Value:
        """`jnp.all`: the minimum of 1.0 and 0.0 is above 0; other types are compared with 0 first.

        Example:
            >>> b.pallas.all(a.x[...] > 0.0, 1).dtype
            i1
        """
        return self._reduce_booleans("all", x, axis, keepdims, "min")

    @idiom("jnp.count_nonzero(x, axis)", "arith.extui", "vector.multi_reduction", group="reductions")
    def count_nonzero(self, x: Value, axis: Axis = None, *, keepdims: bool = False) -> Value:
        """`jnp.count_nonzero` of numbers: the i32 sum of ``x != 0``.

        Example:
            >>> b.pallas.count_nonzero(a.x[...], 1).dtype
            i32
        """
        self._value(x, "count_nonzero")
        self._no_list(axis, "count_nonzero")
        axis = None if axis is None else self._axes(axis, x.rank, "count_nonzero", x)
        with self._one_line("count_nonzero"):
            return self.sum(self.ne(x, False if x.dtype is dt.i1 else 0), axis, keepdims=keepdims)

    # --- means -------------------------------------------------------------------------------------------------------

    def _count(self, x: Value, axis: Axis, op: str) -> float:
        axes = range(x.rank) if axis is None else self._axes(axis, x.rank, op, x)
        return float(math.prod(x.shape[d] for d in axes))

    def _floating(self, x: Value, op: str) -> tuple[Value, DType]:
        """What a mean is taken of, and its type: of integers f32, of 16-bit floats that type, summed in f32."""
        self._value(x, op)
        if not x.dtype.is_float and not x.dtype.is_int:
            self._b.fail(DTypeError, f"{op} of {x.dtype}", op=op, operands=[x], hint="floats or integers")
        wide = x if x.dtype.is_float and x.dtype.bits != 16 else self.astype(x, dt.f32)
        return wide, x.dtype if x.dtype.is_float else dt.f32

    @idiom(
        "jnp.mean(x, axis)", "vector.multi_reduction", "arith.divf", group="reductions", traits=("reduction", "pure")
    )
    def mean(
        self,
        x: Value,
        axis: Axis = None,
        *,
        keepdims: bool = False,
        dtype: DType | None = None,
        where: Value | None = None,
    ) -> Value:
        """`jnp.mean`: the sum, in f32 for 16-bit floats, over the count.

        Args:
            x: a vector of floats or integers.
            axis: one axis, several, or all of them (a scalar result).
            keepdims: keep reduced axes with size 1.
            dtype: of the sum and the result.
            where: ``i1`` that broadcasts to ``x``: what is left out, and not counted, where it is false.

        Raises:
            DTypeError: ``x`` is neither floats nor integers, the mask is not ``i1``, or ``dtype`` is not f32.
            ShapeError: a mask that is larger than ``x``.

        Example:
            >>> b.pallas.mean(a.x[...], 1).shape, b.pallas.mean(a.half[...], 1).dtype
            ((8,), bf16)
        """
        with self._one_line("mean"):
            self._value(x, "mean")
            count: Operand = self._count(x, axis, "mean")
            if where is not None:
                mask = self._b.pallas.broadcast_to(self._value(where, "mean"), x.shape)
                count = self.sum(mask, axis, keepdims=keepdims, dtype=dt.f32)
            x, result = self._floating(x, "mean")
            if dtype is not None:
                result = self._b._element(dtype, "mean")
                if not result.is_float or result.bits < 32:
                    self._b.fail(DTypeError, f"a mean in {result}", op="mean", operands=[x], hint="f32")
            total = self._reduce("mean", x, axis, keepdims, "add", where=where)
            return self.astype(self.div(total, count), result)

    @idiom("jnp.var(x, axis)", "vector.multi_reduction", "arith.divf", "arith.select", group="reductions")
    def var(self, x: Value, axis: Axis = None, *, ddof: int = 0, keepdims: bool = False) -> Value:
        """`jnp.var`: the mean square distance from the mean, NaN where ``ddof`` leaves nothing.

        Args:
            x: a vector of floats or integers.
            axis: one axis, several, or all of them (a scalar result).
            ddof: how much the divisor is less than the count.
            keepdims: keep reduced axes with size 1.

        Example:
            >>> b.pallas.var(a.x[...], 1).shape
            (8,)
        """
        self._value(x, "var")
        less = self._b._int(ddof, "var", "ddof")
        count = self._count(x, axis, "var")
        with self._one_line("var"):
            correction = self._const(less, dt.i32)
            wide, result = self._floating(x, "var")
            mean = self._reduce("var", wide, axis, True, "add")
            centred = self.sub(wide, self.div(mean, count))
            squares = self.mul(centred, centred)
            divisor = self.sub(count, self.astype(correction, wide.dtype))
            total = self._reduce("var", squares, axis, keepdims, "add")
            found = self.astype(self.div(total, divisor), result)
            return self.where(self.gt(divisor, 0), found, math.nan)

    @idiom("jnp.std(x, axis)", "vector.multi_reduction", "math.sqrt", group="reductions", traits=("reduction", "pure"))
    def std(self, x: Value, axis: Axis = None, *, ddof: int = 0, keepdims: bool = False) -> Value:
        """`jnp.std`: the square root of `var`.

        Example:
            >>> b.pallas.std(a.x[...], 1).shape
            (8,)
        """
        with self._one_line("std"):
            return self._b.sqrt(self.var(x, axis, ddof=ddof, keepdims=keepdims))

    # --- positions ---------------------------------------------------------------------------------------------------

    def _position(self, name: str, x: Value, axis: int | None, keepdims: bool, index_dtype: DType) -> Value:
        self._b._use_vector(x, name)
        if x.dtype not in (dt.f32, dt.bf16):
            self._b.fail(UnsupportedOpError, f"{name} of {x.dtype}", op=name, operands=[x], hint="cast to f32 first")
        native = dt.i16 if x.dtype is dt.bf16 else dt.i32
        wanted = self._b._element(index_dtype, name)
        if wanted not in (dt.i32, native):
            self._b.fail(DTypeError, f"indices of {wanted} into {x.dtype}", op=name, operands=[x], hint="i32")
        keepdims = self._b._flag(keepdims, name, "keepdims")
        shape = x.shape
        with self._one_line(name):
            axes = None if axis is None else self._axes(self._b._int(axis, name, "axis"), x.rank, name, x)
            if axes is None and x.rank > 1:
                x = self._b.shape_cast(x, (math.prod(shape),))
            found = self._reduce_index(name, x, 0 if axes is None else axes[0], native, wanted)
            return self._kept(found, shape, axes) if keepdims else found

    def _reduce_index(self, name: str, x: Value, axis: int, native: DType, wanted: DType) -> Value:
        b = self._b
        flat = x.rank == 1
        if flat:  # Mosaic reduces no vectors of rank 1
            x, axis = b.shape_cast(x, (1, *x.shape)), 1
        info = b.types.vector((*x.shape[:axis], *x.shape[axis + 1 :]), native)
        kind = b.types.parse(f"#tpu.reduction_kind<arg_{name[3:]}>")
        found = b._emit("tpu.reduce_index", info, [x._ir], {"axis": b.types.integer(axis, 32), "kind": kind})
        if wanted is not native:
            found = b.extsi(found, wanted)
        return b.vector_extract(found, (0,)) if flat else found

    @idiom("jnp.argmax(x, axis)", "tpu.reduce_index", group="reductions", traits=("reduction", "pure"))
    def argmax(
        self, x: Value, axis: int | None = None, *, keepdims: bool = False, index_dtype: DType = dt.i32
    ) -> Value:
        """`jnp.argmax`, `lax.argmax` of f32 or bf16: where the largest element along one axis is.

        Args:
            x: a vector.
            axis: one axis; if omitted, of the vector with its dimensions flattened.
            keepdims: keep the reduced axis with size 1.
            index_dtype: i32; of bf16 also i16, which is what the hardware gives.

        Example:
            >>> b.pallas.argmax(a.x[...], 1).dtype
            i32
        """
        return self._position("argmax", x, axis, keepdims, index_dtype)

    @idiom("jnp.argmin(x, axis)", "tpu.reduce_index", group="reductions", traits=("reduction", "pure"))
    def argmin(
        self, x: Value, axis: int | None = None, *, keepdims: bool = False, index_dtype: DType = dt.i32
    ) -> Value:
        """`jnp.argmin`, `lax.argmin` of f32 or bf16: where the smallest element along one axis is. See `argmax`.

        Example:
            >>> b.pallas.argmin(a.x[...], 1).dtype
            i32
        """
        return self._position("argmin", x, axis, keepdims, index_dtype)

    @idiom("lax.top_k(x, k, is_stable=False)", "tpu.reduce_index", "tpu.concatenate", group="reductions")
    def top_k(self, x: Value, k: int, *, axis: int = -1) -> tuple[Value, Value]:
        """`lax.top_k`: the largest elements and their positions, found one after the other.

        Args:
            x: a vector of f32, or of bf16 on a TPU v6 or later, of rank 2 or more.
            k: how many.
            axis: along which.

        Returns:
            The elements, and their positions as i32; both have size ``k`` in ``axis``.

        Example:
            >>> values, positions = b.pallas.top_k(a.x[...], 2)
            >>> values.shape, positions.dtype
            ((8, 2), i32)
        """
        b = self._b
        b._use_vector(x, "top_k")
        if x.dtype not in (dt.f32, dt.bf16):
            b.fail(UnsupportedOpError, f"top_k of {x.dtype}", op="top_k", operands=[x], hint="cast to f32 first")
        at = self._axis(axis, x.rank, "top_k", x)
        count = b._int(k, "top_k", "number of elements")
        if x.rank < 2:
            b.fail(ArityError, "a vector of rank 2 or more is needed", op="top_k", operands=[x], hint="x[None, :]")
        if not 1 <= count <= x.shape[at]:
            b.fail(AttributeValueError, f"k = {count}", op="top_k", operands=[x], hint=f"from 1 to {x.shape[at]}")
        native = dt.i16 if x.dtype is dt.bf16 else dt.i32
        with self._one_line("top_k"):
            places = b.iota(x.shape, native, (at,))
            values: list[Value] = []
            positions: list[Value] = []
            for _ in range(count):
                positions.append(self._reduce_index("argmax", x, at, native, native))
                values.append(self._reduce("top_k", x, at, False, "max"))
                here = self.eq(places, b.pallas.expand_dims(positions[-1], at))
                x = self.where(here, self._const(-math.inf, x.dtype), x)
            return self._stacked(values, at), self.astype(self._stacked(positions, at), dt.i32)

    def _stacked(self, xs: Sequence[Value], axis: int) -> Value:
        wide = [self._b.pallas.expand_dims(x, axis) for x in xs]
        return wide[0] if len(wide) == 1 else self._b.concatenate(wide, axis)


#: What combines two numbers in MLIR, and what a reduction starts from: of integers, of floats.
_KINDS: Final[dict[Combine, tuple[tuple[str, Number], tuple[str, Number]]]] = {
    "add": (("add", 0), ("add", 0.0)),
    "max": (("maxsi", -(1 << 31)), ("maximumf", -math.inf)),
    "min": (("minsi", (1 << 31) - 1), ("minimumf", math.inf)),
}
