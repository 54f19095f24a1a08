"""Shape idioms: broadcast, reshape, expand_dims, slices, full."""

from __future__ import annotations

import math
from collections.abc import Sequence

from mosaic_tpu.builder import dtypes as dt
from mosaic_tpu.builder._registry import idiom
from mosaic_tpu.builder._value import Operand, Value
from mosaic_tpu.builder.dtypes import DType
from mosaic_tpu.builder.errors import ArityError, KindError, ShapeError
from mosaic_tpu.builder.pallas._base import Idioms
from mosaic_tpu.builder.views import Slice, parse_index


class ShapeIdioms(Idioms):
    """jnp and lax functions that move no data between lanes by themselves."""

    @idiom("jnp.full(shape, value, dtype)", "arith.constant", "vector.broadcast", group="shapes")
    def full(self, shape: Sequence[int], value: Operand, dtype: DType) -> Value:
        """`jnp.full`: a scalar constant and a broadcast, not a dense splat.

        Example:
            >>> b.pallas.full((8, 128), -1.0, f32).shape
            (8, 128)
        """
        target = self._b._shape(shape, "full")
        if not isinstance(value, Value):
            scalar = self._const(value, dtype)
            return self._b.broadcast_to(scalar, target) if target else scalar
        with self._one_line("full"):
            filling = self._b.pallas.astype(self._value(value, "full"), dtype)
            if not target and filling.rank:
                self._b.fail(
                    ShapeError, f"{filling.shape} does not fill ()", op="full", operands=[filling], hint="a scalar"
                )
            return self.broadcast_to(filling, target)

    @idiom("jnp.zeros(shape, dtype)", "arith.constant", "vector.broadcast", group="shapes")
    def zeros(self, shape: Sequence[int], dtype: DType) -> Value:
        """`jnp.zeros`: a scalar 0 and a broadcast.

        Example:
            >>> b.pallas.zeros((8, 128), f32).shape
            (8, 128)
        """
        return self.full(shape, 0, dtype)

    @idiom("jnp.ones(shape, dtype)", "arith.constant", "vector.broadcast", group="shapes")
    def ones(self, shape: Sequence[int], dtype: DType) -> Value:
        """`jnp.ones`: a scalar 1 and a broadcast.

        Example:
            >>> b.pallas.ones((8, 128), f32).shape
            (8, 128)
        """
        return self.full(shape, 1, dtype)

    @idiom("jnp.broadcast_to(x, shape)", "vector.shape_cast", "vector.broadcast", group="shapes")
    def broadcast_to(self, x: Operand, shape: Sequence[int]) -> Value:
        """`jnp.broadcast_to`: of a vector, a shape cast (an identity at equal rank) before the broadcast.

        Example:
            >>> b.pallas.broadcast_to(b.zeros((8, 1), f32), (8, 128)).shape
            (8, 128)
        """
        target = self._b._shape(shape, "broadcast_to")
        value = self._own(x)
        self._check("broadcast_to", value)
        if value.shape == target:
            return value
        if value.rank > len(target):
            self._b.fail(ShapeError, f"does not broadcast to {target}", op="broadcast_to", operands=[value])
        if value.rank:
            aligned = (1,) * (len(target) - value.rank) + value.shape
            value = self._b.shape_cast(value, aligned)
            if aligned == target:
                return value
        return self._b.broadcast_to(value, target)

    @idiom("x.reshape(shape)", "vector.shape_cast", group="shapes")
    def reshape(self, x: Value, shape: Sequence[int]) -> Value:
        """``x.reshape(shape)``: nothing when the shape is the same; one size may be -1.

        Example:
            >>> b.pallas.reshape(a.x[...], (-1, 64)).shape
            (16, 64)
        """
        self._value(x, "reshape")
        target = self._b._ints(shape, "reshape", "shape")
        rest = math.prod(s for s in target if s != -1)
        if target.count(-1) == 1 and rest > 0:
            target = tuple(math.prod(x.shape) // rest if s == -1 else s for s in target)
        if target == x.shape:
            return x
        if any(s < 1 for s in target) or math.prod(target) != math.prod(x.shape):
            hint = "positive sizes, one of them may be -1, and as many elements"
            self._b.fail(ShapeError, f"shape {x.shape} to {tuple(shape)}", op="reshape", operands=[x], hint=hint)
        if not x.rank:
            return self._b.broadcast_to(x, target)
        if not target:
            return self._b.vector_extract(x, (0,) * x.rank)
        return self._b.shape_cast(x, target)

    @idiom("x[:, None]", "vector.shape_cast", group="shapes")
    def expand_dims(self, x: Value, axis: int | Sequence[int]) -> Value:
        """`jnp.expand_dims`, ``x[:, None]``: a shape cast; of a scalar, a broadcast.

        Example:
            >>> b.pallas.expand_dims(b.zeros((128,), f32), 1).shape
            (128, 1)
        """
        self._value(x, "expand_dims")
        axes = (axis,) if isinstance(axis, int) else self._b._ints(axis, "expand_dims", "axes")
        rank = x.rank + len(axes)
        at = self._axes(axes, rank, "expand_dims", x)
        if not at:
            return x
        sizes = iter(x.shape)
        shape = tuple(1 if d in at else next(sizes) for d in range(rank))
        return self._b.shape_cast(x, shape) if x.rank else self._b.broadcast_to(x, shape)

    @idiom("jnp.squeeze(x)", "vector.shape_cast", "vector.extract", group="shapes")
    def squeeze(self, x: Value, axis: int | Sequence[int] | None = None) -> Value:
        """`jnp.squeeze`: a shape cast; to a scalar, an extract.

        Example:
            >>> b.pallas.squeeze(b.zeros((1, 128), f32)).shape
            (128,)
        """
        self._value(x, "squeeze")
        at = [d for d, s in enumerate(x.shape) if s == 1] if axis is None else self._axes(axis, x.rank, "squeeze", x)
        if any(x.shape[a] != 1 for a in at):
            self._b.fail(
                ShapeError,
                f"axes {axis} are not all of size 1",
                op="squeeze",
                operands=[x],
                hint="only dimensions of size 1 can be dropped",
            )
        if not at:
            return x
        shape = tuple(s for d, s in enumerate(x.shape) if d not in at)
        return self._b.shape_cast(x, shape) if shape else self._squeezed(x)

    @idiom("lax.slice(x, start, limit)", "vector.extract_strided_slice", group="shapes")
    def slice(
        self, x: Value, start: Sequence[int], limit: Sequence[int], strides: Sequence[int] | None = None
    ) -> Value:
        """`lax.slice`, static ``x[a:b]``.

        Example:
            >>> b.pallas.slice(a.x[...], (0, 0), (4, 128)).shape
            (4, 128)
        """
        b = self._b
        b._use_vector(x, "slice")
        low, high = b._ints(start, "slice", "starts"), b._ints(limit, "slice", "limits")
        steps = (1,) * len(low) if strides is None else b._ints(strides, "slice", "strides")
        if not len(low) == len(high) == len(steps) == x.rank or any(s < 1 for s in steps):
            b.fail(
                ArityError,
                f"starts {low}, limits {high}, strides {steps}",
                op="slice",
                operands=[x],
                hint="one entry a dimension; strides are positive",
            )
        sizes = [-(-(to - at) // by) for at, to, by in zip(low, high, steps, strict=True)]
        return b.extract_strided_slice(x, low, sizes, strides)

    @idiom("x[i, a:b]", "vector.extract_strided_slice", "vector.shape_cast", "vector.extract", group="shapes")
    def index(self, x: Value, index: object) -> Value:
        """``x[index]`` of a vector, as jnp indexes: a slice unless it is whole, then dropped and new dimensions.

        Same as ``x[index]`` on the value itself. Takes ints, slices without steps, one ellipsis and ``None``; of a
        scalar, ``None`` makes a vector.

        Raises:
            KindError: an index known at run time only, or a slice with a step, which Mosaic refuses.

        Example:
            >>> b.pallas.index(a.x[...], (2, slice(0, 64))).shape, a.x[...][:, None].shape
            ((64,), (8, 1, 128))
        """
        self._value(x, "index")
        entries: tuple[object, ...] = index if isinstance(index, tuple) else (index,)  # pyright: ignore[reportUnknownVariableType]
        if not x.rank and any(e is not None and e is not ... for e in entries):
            self._b.fail(ArityError, "a scalar has no element", op="index", operands=[x], hint="x[None] is a vector")
        found = parse_index(tuple(e for e in entries if e is not None), x.shape)
        starts = [e.start if isinstance(e, Slice) else e for e in found.entries]
        if any(isinstance(n, Value) for n in (*starts, *found.sizes)) or any(
            isinstance(e, Slice) and e.stride != 1 for e in found.entries
        ):
            self._b.fail(
                KindError,
                "vectors are indexed with ints and slices without steps",
                op="index",
                operands=[x],
                hint="load that part from the ref instead: ref[b.pallas.ds(start, size)]",
            )
        part = x if found.sizes == x.shape else self._b.extract_strided_slice(x, starts, found.sizes)  # pyright: ignore[reportArgumentType]
        dropped = [d for d, gone in enumerate(found.squeezed) if gone]
        if dropped:
            part = self.squeeze(part, dropped)
        added = _new_axes(entries, x.rank)
        return self.expand_dims(part, added) if added else part

    @idiom("lax.broadcasted_iota(dtype, shape, dim)", "tpu.iota", group="shapes")
    def broadcasted_iota(self, dtype: DType, shape: Sequence[int], dimension: int) -> Value:
        """`lax.broadcasted_iota`.

        Example:
            >>> b.pallas.broadcasted_iota(i32, (8, 128), 1).shape
            (8, 128)
        """
        target = self._b._shape(shape, "broadcasted_iota")
        axis = self._b._int(dimension, "broadcasted_iota", "dimension")
        if len(target) == 1 and axis == 0:
            return self._b.arange(target[0], dtype)
        return self._b.iota(target, dtype, (axis,))

    @idiom("jnp.arange(start, stop, step)", "tpu.iota", "arith.muli", "arith.addi", group="shapes")
    def arange(
        self, start: int, stop: int | DType | None = None, step: int | None = None, dtype: DType = dt.i32
    ) -> Value:
        """`jnp.arange` of static integers.

        Args:
            start: where it starts; where it ends, if it is alone.
            stop: where it ends; or the element type: ``arange(n, dtype)``.
            step: from one number to the next, not 0; given, it is a factor, even if it is 1.
            dtype: of the result, an integer type.

        Raises:
            ShapeError: no number is left.

        Example:
            >>> b.pallas.arange(128).shape, b.pallas.arange(8, 40, 4).shape, b.pallas.arange(128, u32).dtype
            ((128,), (8,), u32)
        """
        b = self._b
        if isinstance(stop, DType):
            stop, dtype = None, stop
        first, last = (0, start) if stop is None else (start, stop)
        low, high = b._int(first, "arange", "start"), b._int(last, "arange", "stop")
        by = 1 if step is None else b._int(step, "arange", "step")
        size = -((low - high) // by) if by else 0
        if size < 1:
            hint = "vectors have one element or more"
            b.fail(ShapeError, f"no number from {low} to {high} by {by}", op="arange", hint=hint)
        with self._one_line("arange"):
            found = b.arange(size, dtype)
            if step is not None:
                found = b.pallas.mul(by, found)
            return b.pallas.add(low, found) if low or step is not None else found

    @idiom("jnp.concatenate(xs, axis)", "tpu.concatenate", group="shapes")
    def concatenate(self, xs: Sequence[Value], axis: int = 0) -> Value:
        """`jnp.concatenate`; of one vector, that vector.

        Example:
            >>> b.pallas.concatenate([a.x[...], a.x[...]], 1).shape
            (8, 256)
        """
        self._b._use_all(xs, "concatenate")
        with self._one_line("concatenate"):
            return xs[0] if len(xs) == 1 else self._b.concatenate(xs, axis)

    @idiom("pl.multiple_of(x, n)", "tpu.assume_multiple", group="shapes")
    def multiple_of(self, x: Operand, n: int) -> Value:
        """`pl.multiple_of`.

        Example:
            >>> b.pallas.multiple_of(b.lift(8), 8).dtype
            i32
        """
        multiple = self._b._int(n, "multiple_of", "multiple")
        return self._b.assume_multiple(self._own(x), multiple)


def _new_axes(entries: Sequence[object], rank: int) -> list[int]:
    """Where the ``None`` entries of an index stand in its result."""
    axes: list[int] = []
    at = 0
    for entry in entries:
        if entry is None:
            axes.append(at)
        if entry is ...:
            at += rank - sum(e is not None and e is not ... for e in entries)
        elif not isinstance(entry, int):
            at += 1
    return axes
