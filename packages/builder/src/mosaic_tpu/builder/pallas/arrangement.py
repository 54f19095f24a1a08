"""More of what moves or copies data: stacks along other dimensions, uneven parts, differences, grids, products."""

from __future__ import annotations

from collections.abc import Sequence

from mosaic_tpu.builder._registry import idiom
from mosaic_tpu.builder._value import Value
from mosaic_tpu.builder.errors import ArityError, AttributeValueError, ShapeError
from mosaic_tpu.builder.pallas.movement import MovementIdioms


class ArrangementIdioms(MovementIdioms):
    """`jnp.dstack`, `jnp.array_split`, `jnp.diff`, `jnp.meshgrid`, `jnp.kron` and their relatives."""

    # --- joined and split ---------------------------------------------------------------------------------------------

    @idiom("jnp.dstack(xs)", "vector.shape_cast", "tpu.concatenate", group="movement")
    def dstack(self, xs: Sequence[Value]) -> Value:
        """`jnp.dstack`: joined along the third dimension, a new one of matrices.

        Example:
            >>> b.pallas.dstack([a.x[...], a.x[...]]).shape
            (8, 128, 2)
        """
        self._b._use_all(xs, "dstack")
        with self._one_line("dstack"):
            deep = [self._with_rank_3(self._vector(x, "dstack")) for x in xs]
            return self.concatenate(deep, 2)

    def _with_rank_3(self, x: Value) -> Value:
        if x.rank == 1:
            return self.expand_dims(x, (0, 2))
        return self.expand_dims(x, 2) if x.rank == 2 else x

    @idiom("jnp.column_stack(xs)", "tpu.transpose", "tpu.concatenate", group="movement")
    def column_stack(self, xs: Sequence[Value]) -> Value:
        """`jnp.column_stack`: columns joined; vectors of rank 1 are columns.

        Example:
            >>> b.pallas.column_stack([a.x[...], a.x[:, 0]]).shape
            (8, 129)
        """
        self._b._use_all(xs, "column_stack")
        with self._one_line("column_stack"):
            columns = [
                self.transpose(self.expand_dims(x, 0)) if self._vector(x, "column_stack").rank == 1 else x for x in xs
            ]
            return self.concatenate(columns, 1)

    @idiom("jnp.array_split(x, n, axis)", "vector.extract_strided_slice", group="movement")
    def array_split(self, x: Value, sections: int | Sequence[int], axis: int = 0) -> tuple[Value, ...]:
        """`jnp.array_split`: as `split`, into parts whose sizes may differ by one.

        Raises:
            ShapeError: a part would have no element.

        Example:
            >>> [part.shape for part in b.pallas.array_split(a.x[...], 3)]
            [(3, 128), (3, 128), (2, 128)]
        """
        b = self._b
        b._use_vector(x, "array_split")
        at = self._axis(axis, x.rank, "array_split", x)
        with self._one_line("array_split"):
            if not isinstance(sections, int):
                return self.split(x, sections, axis)
            size = x.shape[at]
            if not 1 <= sections <= size:
                b.fail(ShapeError, f"{size} elements in {sections} parts", op="array_split", operands=[x], hint="fewer")
            small, larger = divmod(size, sections)
            return self.split(x, [n * small + min(n, larger) for n in range(1, sections)], axis)

    @idiom("jnp.delete(x, i, axis)", "vector.extract_strided_slice", "tpu.concatenate", group="movement")
    def delete(self, x: Value, index: int, axis: int) -> Value:
        """`jnp.delete` of one element along a dimension: what is before it, joined to what is behind it.

        Raises:
            AttributeValueError: it is the first or the last one, where Pallas refuses the empty part: take a slice.

        Example:
            >>> b.pallas.delete(a.x[...], 3, 0).shape
            (7, 128)
        """
        b = self._b
        b._use_vector(x, "delete")
        at = self._axis(axis, x.rank, "delete", x)
        size = x.shape[at]
        place = b._int(index, "delete", "index")
        if not 0 < place % size < size - 1 or not -size <= place < size:
            hint = "neither the first nor the last: x[1:]"
            b.fail(AttributeValueError, f"element {index} of {size}", op="delete", operands=[x], hint=hint)
        with self._one_line("delete"):
            before = self._part(x, at, 0, place % size)
            return b.concatenate([before, self._part(x, at, place % size + 1, size - place % size - 1)], at)

    # --- neighbours, grids, products ----------------------------------------------------------------------------------

    @idiom("jnp.diff(x, n, axis)", "vector.extract_strided_slice", "arith.subf", "arith.subi", group="movement")
    def diff(self, x: Value, n: int = 1, axis: int = -1) -> Value:
        """`jnp.diff`: each element less the one before it, ``n`` times.

        Raises:
            AttributeValueError: as many differences as there are elements, or more.

        Example:
            >>> b.pallas.diff(a.x[...], axis=0).shape
            (7, 128)
        """
        b = self._b
        b._use_vector(x, "diff")
        at = self._axis(axis, x.rank, "diff", x)
        times = b._int(n, "diff", "number of differences")
        if not 0 <= times < x.shape[at]:
            hint = "fewer than there are elements"
            b.fail(AttributeValueError, f"{n} differences", op="diff", operands=[x], hint=hint)
        with self._one_line("diff"):
            for _ in range(times):
                size = x.shape[at] - 1
                later = self._part(x, at, 1, size)
                x = self.sub(later, self._part(x, at, 0, size))
            return x

    @idiom("jnp.meshgrid(*xs)", "vector.shape_cast", "vector.broadcast", group="movement")
    def meshgrid(self, *xs: Value, sparse: bool = False, indexing: str = "xy") -> tuple[Value, ...]:
        """`jnp.meshgrid`: each vector of rank 1 along a dimension of its own, broadcast along the others.

        Args:
            xs: vectors of rank 1.
            sparse: leave the other dimensions at size 1.
            indexing: ``"xy"``, where the first two change places, or ``"ij"``.

        Raises:
            ShapeError: a vector of another rank.
            AttributeValueError: another ``indexing``, or no vector.

        Example:
            >>> [grid.shape for grid in b.pallas.meshgrid(a.x[0], a.x[0, :8])]
            [(8, 128), (8, 128)]
        """
        for x in xs:
            if self._vector(x, "meshgrid").rank != 1:
                self._b.fail(ShapeError, "a vector of rank 1 is needed", op="meshgrid", operands=xs)
        if self._b._text(indexing, "meshgrid", "indexing") not in ("xy", "ij") or not xs:
            self._b.fail(AttributeValueError, f"indexing {indexing!r}", op="meshgrid", operands=xs, hint="xy or ij")
        order = list(range(len(xs)))
        if indexing == "xy" and len(xs) > 1:
            order[:2] = 1, 0
        sizes = [xs[n].shape[0] for n in order]
        with self._one_line("meshgrid"):
            grids: dict[int, Value] = {}
            for axis, n in enumerate(order):
                shape = [s if axis == d or not sparse else 1 for d, s in enumerate(sizes)]
                grids[n] = self.broadcast_in_dim(xs[n], shape, (axis,))
            return tuple(grids[n] for n in range(len(xs)))

    @idiom("jnp.kron(x, y)", "vector.shape_cast", "arith.mulf", group="movement")
    def kron(self, x: Value, y: Value) -> Value:
        """`jnp.kron`: ``y`` times each element of ``x``, in its place.

        Example:
            >>> b.pallas.kron(a.x[:2, :2], a.x[...]).shape
            (16, 256)
        """
        with self._one_line("kron"):
            x, y = self._promote(self._vector(x, "kron"), self._vector(y, "kron"), "kron")
            if x.rank < y.rank:
                x = self.expand_dims(x, range(y.rank - x.rank))
            elif y.rank < x.rank:
                y = self.expand_dims(y, range(x.rank - y.rank))
            first = self.expand_dims(x, range(1, 2 * x.rank, 2))
            product = self.mul(first, self.expand_dims(y, range(0, 2 * y.rank, 2)))
            return self.reshape(product, tuple(m * n for m, n in zip(x.shape, y.shape, strict=True)))

    @idiom("jnp.rollaxis(x, axis, start)", "tpu.transpose", group="movement")
    def rollaxis(self, x: Value, axis: int, start: int = 0) -> Value:
        """`jnp.rollaxis`: one dimension moved before another.

        Raises:
            ArityError: the dimension, or the place, is not there.

        Example:
            >>> b.pallas.rollaxis(a.cube[...], 2).shape
            (128, 2, 8)
        """
        self._b._use_vector(x, "rollaxis")
        at = self._axis(axis, x.rank, "rollaxis", x)
        before = self._b._int(start, "rollaxis", "start")
        if not -x.rank <= before <= x.rank:
            hint = "from -rank to rank"
            self._b.fail(ArityError, f"start {start} of rank {x.rank}", op="rollaxis", operands=[x], hint=hint)
        before += x.rank if before < 0 else 0
        return self.moveaxis(x, at, before - 1 if before > at else before)
