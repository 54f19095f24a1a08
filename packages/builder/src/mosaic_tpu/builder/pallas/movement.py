"""What moves or copies data: transposes, joins, splits, copies, rotations, padding, gathers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from mosaic_tpu.builder import dtypes as dt
from mosaic_tpu.builder._registry import idiom
from mosaic_tpu.builder._value import Operand, Value
from mosaic_tpu.builder.errors import (
    ArityError,
    AttributeValueError,
    ConcreteValueError,
    DTypeError,
    ShapeError,
    UnsupportedOpError,
)
from mosaic_tpu.builder.pallas.choices import ChoiceIdioms
from mosaic_tpu.builder.pallas.shapes import ShapeIdioms


class MovementIdioms(ShapeIdioms, ChoiceIdioms):
    """jnp, lax and pltpu functions that put elements elsewhere."""

    # --- dimensions reordered -----------------------------------------------------------------------------------------

    @idiom("jnp.transpose(x, axes)", "tpu.transpose", group="movement")
    def transpose(self, x: Value, axes: Sequence[int] | None = None) -> Value:
        """`jnp.transpose`, ``x.T``: nothing where the order stays.

        Args:
            x: a vector.
            axes: dimension ``i`` of the result is ``axes[i]`` of ``x``; reversed if omitted.

        Example:
            >>> b.pallas.transpose(a.x[...]).shape
            (128, 8)
        """
        self._b._use_vector(x, "transpose")
        order = tuple(range(x.rank))[::-1] if axes is None else self._axes(axes, x.rank, "transpose", x)
        if len(order) != x.rank:
            self._b.fail(ArityError, f"axes {order} of rank {x.rank}", op="transpose", operands=[x])
        return x if order == tuple(range(x.rank)) else self._b.transpose(x, order)

    @idiom("jnp.swapaxes(x, i, j)", "tpu.transpose", group="movement")
    def swapaxes(self, x: Value, axis1: int, axis2: int) -> Value:
        """`jnp.swapaxes`.

        Example:
            >>> b.pallas.swapaxes(a.cube[...], 1, 2).shape
            (2, 128, 8)
        """
        self._b._use_vector(x, "swapaxes")
        first, second = (self._axis(axis, x.rank, "swapaxes", x) for axis in (axis1, axis2))
        order = list(range(x.rank))
        order[first], order[second] = second, first
        return self.transpose(x, order)

    @idiom("jnp.moveaxis(x, source, destination)", "tpu.transpose", group="movement")
    def moveaxis(self, x: Value, source: int | Sequence[int], destination: int | Sequence[int]) -> Value:
        """`jnp.moveaxis`.

        Example:
            >>> b.pallas.moveaxis(a.cube[...], 0, -1).shape
            (8, 128, 2)
        """
        self._b._use_vector(x, "moveaxis")
        from_, to = (self._axes(axes, x.rank, "moveaxis", x) for axes in (source, destination))
        if len(from_) != len(to):
            self._b.fail(ArityError, f"{len(from_)} axes to {len(to)} places", op="moveaxis", operands=[x])
        order = [d for d in range(x.rank) if d not in from_]
        for place, axis in sorted(zip(to, from_, strict=True)):
            order.insert(place, axis)
        return self.transpose(x, order)

    # --- joined and split ---------------------------------------------------------------------------------------------

    @idiom("jnp.stack(xs, axis)", "vector.shape_cast", "vector.broadcast", "tpu.concatenate", group="movement")
    def stack(self, xs: Sequence[Value], axis: int = 0) -> Value:
        """`jnp.stack`: each with a new dimension, then joined; scalars make a vector of rank 1.

        Example:
            >>> b.pallas.stack([a.x[...], a.x[...]]).shape
            (2, 8, 128)
        """
        b = self._b
        b._use_all(xs, "stack")
        if not xs:
            b.fail(ArityError, "nothing to stack", op="stack", hint="give one value or more")
        for x in xs:
            b._same(xs[0], self._value(x, "stack"), "stack")
        at = self._axis(axis, xs[0].rank + 1, "stack", xs[0])
        with self._one_line("stack"):
            wide = [self.expand_dims(x, at) for x in xs]
            return wide[0] if len(wide) == 1 else b.concatenate(wide, at)

    @idiom("jnp.unstack(x, axis=0)", "vector.extract_strided_slice", "vector.shape_cast", group="movement")
    def unstack(self, x: Value, axis: int = 0) -> tuple[Value, ...]:
        """`jnp.unstack`: the slices along one dimension, without it.

        Example:
            >>> [part.shape for part in b.pallas.unstack(a.cube[...])]
            [(8, 128), (8, 128)]
        """
        self._b._use_vector(x, "unstack")
        at = self._axis(axis, x.rank, "unstack", x)
        with self._one_line("unstack"):
            return tuple(self._without(self._part(x, at, start, 1), at) for start in range(x.shape[at]))

    def _without(self, x: Value, axis: int) -> Value:
        rest = (*x.shape[:axis], *x.shape[axis + 1 :])
        return self._b.shape_cast(x, rest) if rest else self._squeezed(x)

    def _part(self, x: Value, axis: int, start: int, size: int) -> Value:
        starts = tuple(start if d == axis else 0 for d in range(x.rank))
        sizes = tuple(size if d == axis else s for d, s in enumerate(x.shape))
        return self._b.extract_strided_slice(x, starts, sizes)

    @idiom("jnp.split(x, n, axis)", "vector.extract_strided_slice", group="movement")
    def split(self, x: Value, sections: int | Sequence[int], axis: int = 0) -> tuple[Value, ...]:
        """`jnp.split`: into equal parts, or at indices. Every part is emitted, whether it is used or not.

        Args:
            x: a vector.
            sections: how many parts of equal size, or where the second and later parts start.
            axis: which dimension.

        Example:
            >>> [part.shape for part in b.pallas.split(a.x[...], 2)]
            [(4, 128), (4, 128)]
        """
        b = self._b
        b._use_vector(x, "split")
        at = self._axis(axis, x.rank, "split", x)
        size = x.shape[at]
        if isinstance(sections, int):
            if sections < 1 or size % sections:
                b.fail(ShapeError, f"{size} elements in {sections} parts", op="split", operands=[x], hint="indices")
            edges = tuple(range(0, size + 1, size // sections))
        else:
            edges = (0, *b._ints(sections, "split", "indices"), size)
        if any(low >= high for low, high in pairwise(edges)):
            hint = "indices that grow, inside the dimension: vectors have one element or more"
            b.fail(ShapeError, f"parts from {edges[:-1]} to {edges[1:]}", op="split", operands=[x], hint=hint)
        with self._one_line("split"):
            return tuple(self._part(x, at, low, high - low) for low, high in pairwise(edges))

    @idiom("jnp.vstack(xs)", "tpu.concatenate", group="movement")
    def vstack(self, xs: Sequence[Value]) -> Value:
        """`jnp.vstack`: rows joined; vectors of rank 1 are rows.

        Example:
            >>> b.pallas.vstack([a.x[0], a.x[...]]).shape
            (9, 128)
        """
        self._b._use_all(xs, "vstack")
        with self._one_line("vstack"):
            rows = [self.expand_dims(self._vector(x, "vstack"), 0) if x.rank == 1 else x for x in xs]
            return self.concatenate(rows, 0)

    @idiom("jnp.hstack(xs)", "tpu.concatenate", group="movement")
    def hstack(self, xs: Sequence[Value]) -> Value:
        """`jnp.hstack`: joined along the second dimension, of rank 1 the first.

        Example:
            >>> b.pallas.hstack([a.x[...], a.x[...]]).shape
            (8, 256)
        """
        self._b._use_all(xs, "hstack")
        with self._one_line("hstack"):
            return self.concatenate(xs, 0 if xs and self._vector(xs[0], "hstack").rank == 1 else 1)

    def _vector(self, x: Value, op: str) -> Value:
        self._b._use_vector(x, op)
        return x

    # --- copies -------------------------------------------------------------------------------------------------------

    @idiom("jnp.tile(x, reps)", "tpu.concatenate", group="movement")
    def tile(self, x: Value, reps: int | Sequence[int]) -> Value:
        """`jnp.tile`: a vector joined to itself, dimension after dimension.

        Args:
            x: a vector.
            reps: copies along each dimension; fewer stand for the last ones, more for new leading ones.

        Example:
            >>> b.pallas.tile(a.x[...], (2, 1)).shape
            (16, 128)
        """
        self._b._use_vector(x, "tile")
        times = (reps,) if isinstance(reps, int) else self._b._ints(reps, "tile", "repetitions")
        if any(not 0 < n <= 1 << 20 for n in times):
            hint = "1 or more, as memory holds"
            self._b.fail(AttributeValueError, f"repetitions {times}", op="tile", operands=[x], hint=hint)
        times = (1,) * (x.rank - len(times)) + tuple(times)
        with self._one_line("tile"):
            if len(times) > x.rank:
                x = self._b.shape_cast(x, (1,) * (len(times) - x.rank) + x.shape)
            for axis, n in enumerate(times):
                if n > 1:
                    x = self._b.concatenate([x] * n, axis)
            return x

    @idiom("jnp.repeat(x, n, axis)", "vector.shape_cast", "vector.broadcast", group="movement")
    def repeat(self, x: Value, repeats: int, axis: int | None = None) -> Value:
        """`jnp.repeat` by a Python int: each element several times, through a broadcast of a new dimension.

        Args:
            x: a vector.
            repeats: how often each element stands in the result.
            axis: along which dimension; if omitted, of the vector with its dimensions flattened.

        Example:
            >>> b.pallas.repeat(a.x[...], 2, 0).shape
            (16, 128)
        """
        b = self._b
        b._use_vector(x, "repeat")
        times = b._int(repeats, "repeat", "number of repetitions")
        if times < 1:
            b.fail(AttributeValueError, f"{times} repetitions", op="repeat", operands=[x], hint="1 or more")
        with self._one_line("repeat"):
            if axis is None:
                at, x = 0, self.reshape(x, (math.prod(x.shape),))
            else:
                at = self._axis(axis, x.rank, "repeat", x)
            before, size, after = x.shape[:at], x.shape[at], x.shape[at + 1 :]
            wide = b.shape_cast(x, (*before, size, 1, *after))
            if times > 1:
                wide = b.broadcast_to(wide, (*before, size, times, *after))
            return b.shape_cast(wide, (*before, size * times, *after))

    # --- rotations ----------------------------------------------------------------------------------------------------

    @idiom("pltpu.roll(x, shift, axis)", "tpu.dynamic_rotate", group="movement")
    def roll(
        self, x: Value, shift: Value | int, axis: int, *, stride: int | None = None, stride_axis: int | None = None
    ) -> Value:
        """`pltpu.roll`: elements move to higher indices by ``shift``, and around.

        Args:
            x: a vector.
            shift: an int or an i32 scalar, not negative.
            axis: along which dimension, counted from 0.
            stride: more shift for each step along ``stride_axis``.
            stride_axis: another dimension.

        Example:
            >>> b.pallas.roll(a.x[...], 3, 1).shape
            (8, 128)
        """
        b = self._b
        b._use_vector(x, "roll")
        axes = [n for n in (axis, stride_axis) if n is not None]
        if any(not 0 <= b._int(n, "roll", "axis") < x.rank for n in axes) or len(set(axes)) != len(axes):
            b.fail(ArityError, f"axes {axes} of rank {x.rank}", op="roll", operands=[x], hint="each once, from 0")
        numbers = [n for n in (shift, stride) if n is not None and not isinstance(n, Value)]
        if any(self._checked(b._int(n, "roll", "shift"), dt.i32, "roll") < 0 for n in numbers):
            hint = f"add the size of the dimension: {x.shape[axis]}"
            b.fail(AttributeValueError, f"shift {numbers[0]}", op="roll", operands=[x], hint=hint)
        amount = shift if isinstance(shift, Value) else self._const(shift, dt.i32)
        return b.dynamic_rotate(x, amount, axis, stride, stride_axis)

    @idiom("jnp.roll(x, shift, axis)", "vector.extract_strided_slice", "tpu.concatenate", group="movement")
    def jnp_roll(self, x: Value, shift: int | Sequence[int], axis: int | Sequence[int] | None = None) -> Value:
        """`jnp.roll` by Python ints: two slices, joined the other way round. `roll` is the hardware's rotation.

        Args:
            x: a vector.
            shift: how far, for each axis if there are several.
            axis: along which dimension, or several; if omitted, of the vector with its dimensions flattened.

        Raises:
            AttributeValueError: nothing would move, which Pallas refuses.
            ArityError: not one shift for each axis.
            ConcreteValueError: a shift that is known at run time only.

        Example:
            >>> b.pallas.jnp_roll(a.x[...], 3, 0).shape, b.pallas.jnp_roll(a.x[...], (1, 2), (0, 1)).shape
            ((8, 128), (8, 128))
        """
        b = self._b
        b._use_vector(x, "jnp_roll")
        if isinstance(shift, Value):
            b.fail(ConcreteValueError, "the shift is static", op="jnp_roll", operands=[shift], hint="b.pallas.roll")
        with self._one_line("jnp_roll"):
            if axis is None:
                flat = self.jnp_roll(self.reshape(x, (math.prod(x.shape),)), shift, 0)
                return self.reshape(flat, x.shape)
            axes = self._axes(axis, x.rank, "jnp_roll", x)
            shifts = [shift] * len(axes) if isinstance(shift, int) else list(b._ints(shift, "jnp_roll", "shifts"))
            if len(shifts) != len(axes):
                b.fail(ArityError, f"{len(shifts)} shifts along {len(axes)} axes", op="jnp_roll", operands=[x])
            for at, by in zip(axes, shifts, strict=True):
                x = self._rolled(x, b._int(by, "jnp_roll", "shift"), at)
            return x

    def _rolled(self, x: Value, shift: int, axis: int) -> Value:
        size = x.shape[axis]
        by = shift % size
        if not by:
            hint = "leave it out"
            self._b.fail(
                AttributeValueError, f"shift {shift} of {size} elements", op="jnp_roll", operands=[x], hint=hint
            )
        last = self._part(x, axis, size - by, by)
        return self._b.concatenate([last, self._part(x, axis, 0, size - by)], axis)

    # --- padding ------------------------------------------------------------------------------------------------------

    @idiom("jnp.pad(x, widths)", "vector.broadcast", "tpu.concatenate", group="movement")
    def pad(self, x: Value, widths: int | Sequence[Sequence[int]], value: Operand = 0) -> Value:
        """`jnp.pad` with a constant: blocks of it joined before and after, dimension after dimension.

        Args:
            x: a vector.
            widths: (before, after) of each dimension, or one number for all.
            value: a number, a constant of its own type that is converted, or a scalar.

        Example:
            >>> b.pallas.pad(a.x[...], ((0, 8), (0, 0))).shape
            (16, 128)
        """
        b = self._b
        b._use_vector(x, "pad")
        self._check("pad", value)
        if isinstance(widths, int):
            each = ((widths, widths),) * x.rank
        else:
            b._sequence(widths, "pad")
            each = tuple(b._ints(pair, "pad", "widths") for pair in widths)
        if len(each) != x.rank or any(len(pair) != 2 or min(pair) < 0 for pair in each):
            hint = "(before, after) of each dimension, not negative"
            b.fail(ArityError, f"widths {each} of rank {x.rank}", op="pad", operands=[x], hint=hint)
        with self._one_line("pad"):
            filling = self.astype(self._own(value), x.dtype)
            self._no_vector(filling, "pad")
            return self._padded(x, filling, each)

    @idiom("lax.pad(x, value, config)", "vector.broadcast", "tpu.concatenate", group="movement")
    def lax_pad(self, x: Value, value: Operand, config: Sequence[tuple[int, int, int]]) -> Value:
        """`lax.pad`: as `pad`, with a number of the vector's type; no padding between elements.

        Args:
            x: a vector.
            value: a number or a scalar.
            config: (before, after, between) of each dimension; a negative width takes elements away (before JAX 0.12
                Pallas refuses those).

        Example:
            >>> b.pallas.lax_pad(a.x[...], 1.0, ((0, 8, 0), (0, 0, 0))).shape
            (16, 128)
        """
        b = self._b
        b._use_vector(x, "lax_pad")
        self._check("lax_pad", value)
        b._sequence(config, "lax_pad")
        each = [b._ints(entry, "lax_pad", "padding") for entry in config]
        if len(each) != x.rank or any(len(entry) != 3 for entry in each):
            hint = "(before, after, between) of each dimension"
            b.fail(ArityError, f"padding {each} of rank {x.rank}", op="lax_pad", operands=[x], hint=hint)
        if any(entry[2] for entry in each):
            b.fail(UnsupportedOpError, "padding between elements", op="lax_pad", operands=[x])
        with self._one_line("lax_pad"):
            filling = value if isinstance(value, Value) else self._const(*b._number(value, x.dtype))
            self._check_dtypes(x, filling, "lax_pad")
            self._no_vector(filling, "lax_pad")
            return self._padded(x, filling, [entry[:2] for entry in each])

    def _no_vector(self, filling: Value, op: str) -> None:
        if filling.rank:
            self._b.fail(ShapeError, "the padding is a vector", op=op, operands=[filling], hint="a number or a scalar")

    def _padded(self, x: Value, filling: Value, widths: Sequence[Sequence[int]]) -> Value:
        b = self._b
        for axis, (low, high) in enumerate(widths):

            def block(size: int, like: Value, axis: int = axis) -> Value:
                return b.broadcast_to(filling, (*like.shape[:axis], size, *like.shape[axis + 1 :]))

            if low > 0:
                x = b.concatenate([block(low, x), x], axis)
            if high > 0:
                x = b.concatenate([x, block(high, x)], axis)
            if low < 0 or high < 0:
                kept = x.shape[axis] + min(0, low) + min(0, high)
                if kept < 1:
                    b.fail(ShapeError, f"{kept} elements left in dimension {axis}", op="lax_pad", operands=[x])
                x = self._part(x, axis, max(0, -low), kept)
        return x

    # --- broadcasts and gathers -------------------------------------------------------------------------------------

    @idiom("lax.broadcast_in_dim(x, shape, dims)", "vector.shape_cast", "vector.broadcast", group="movement")
    def broadcast_in_dim(self, x: Operand, shape: Sequence[int], broadcast_dimensions: Sequence[int]) -> Value:
        """`lax.broadcast_in_dim`: dimension ``i`` of ``x`` is dimension ``broadcast_dimensions[i]`` of the result.

        Example:
            >>> b.pallas.broadcast_in_dim(a.x[0], (8, 128), (1,)).shape
            (8, 128)
        """
        b = self._b
        self._check("broadcast_in_dim", x)
        value = self._own(x)
        target = b._shape(shape, "broadcast_in_dim")
        dims = b._ints(broadcast_dimensions, "broadcast_in_dim", "dimensions")
        grows = all(low < high for low, high in pairwise(dims))
        if len(dims) != value.rank or not grows or any(not 0 <= d < len(target) for d in dims):
            hint = "one dimension of the result for each of the operand, in order"
            b.fail(ArityError, f"dimensions {dims}", op="broadcast_in_dim", operands=[value], hint=hint)
        sizes = dict(zip(dims, value.shape, strict=True))
        if any(size not in (1, target[d]) for d, size in sizes.items()):
            b.fail(ShapeError, f"does not broadcast to {target}", op="broadcast_in_dim", operands=[value])
        if value.shape == target:
            return value
        with self._one_line("broadcast_in_dim"):
            if dims:
                aligned = tuple(sizes.get(d, 1) for d in range(len(target)))
                value = b.shape_cast(value, aligned)
                if aligned == target:
                    return value
            return b.broadcast_to(value, target)

    @idiom("jnp.take_along_axis(x, i, axis)", "arith.select", "tpu.dynamic_gather", group="movement")
    def take_along_axis(self, x: Value, indices: Value, axis: int) -> Value:
        """`jnp.take_along_axis` along one of the last two dimensions: negative indices count from the end.

        Args:
            x: a vector.
            indices: i32, of the shape of the result, which is that of ``x`` but for ``axis``.
            axis: along which dimension.

        Raises:
            UnsupportedOpError: another dimension; the TensorCore gathers along the last two.

        Example:
            >>> b.pallas.take_along_axis(a.x[...], a.ints[...], 1).shape
            (8, 128)
        """
        b = self._b
        for value in (x, indices):
            b._use_vector(value, "take_along_axis")
        at = self._axis(axis, x.rank, "take_along_axis", x)
        if indices.dtype is not dt.i32:
            hint = "i32 indices"
            b.fail(DTypeError, f"indices of {indices.dtype}", op="take_along_axis", operands=[x, indices], hint=hint)
        if at < x.rank - 2:
            hint = "one of the last two"
            b.fail(UnsupportedOpError, f"a gather along {at}", op="take_along_axis", operands=[x, indices], hint=hint)
        if x.rank < 2:
            b.fail(
                UnsupportedOpError, "a gather of rank 1", op="take_along_axis", operands=[x, indices], hint="x[None]"
            )
        with self._one_line("take_along_axis"):
            found = self.where(self.lt(indices, 0), self.add(indices, x.shape[at]), indices)
            found = b.shape_cast(b.shape_cast(found, (*found.shape, 1)), found.shape)
            return b.dynamic_gather(x, found, (at,))

    @idiom("jnp.outer(x, y)", "vector.shape_cast", "arith.mulf", group="movement")
    def outer(self, x: Value, y: Value) -> Value:
        """`jnp.outer`: the product of each element of ``x``, flattened, with each of ``y``.

        Example:
            >>> b.pallas.outer(a.x[0, :8], a.x[0]).shape
            (8, 128)
        """
        with self._one_line("outer"):
            first, second = self._promote(self._vector(x, "outer"), self._vector(y, "outer"), "outer")
            column = self.expand_dims(self.reshape(first, (math.prod(x.shape),)), 1)
            return self.mul(column, self.expand_dims(self.reshape(second, (math.prod(y.shape),)), 0))
