"""Reduction idioms: jnp.sum, max, min."""

from __future__ import annotations

import math
from collections.abc import Sequence

from mosaic_tpu.builder import dtypes as dt
from mosaic_tpu.builder._registry import idiom
from mosaic_tpu.builder._value import Number, Value
from mosaic_tpu.builder.errors import UnsupportedOpError
from mosaic_tpu.builder.pallas._base import Idioms

type Axis = int | Sequence[int] | None


class ReductionIdioms(Idioms):
    """`jnp` reductions, with Pallas's dense start values and its detour to a scalar."""

    def _reduce(
        self, name: str, x: Value, axis: Axis, keepdims: bool, kinds: tuple[str, str], start: tuple[Number, Number]
    ) -> Value:
        self._b._use_vector(x, name)
        if not (x.dtype.is_float or x.dtype is dt.i32):
            self._b.fail(
                UnsupportedOpError,
                f"Pallas reduces floats and i32, not {x.dtype}",
                op=name,
                operands=[x],
                hint="cast to i32 or f32 first",
            )
        axes = tuple(range(x.rank)) if axis is None else tuple(sorted(self._axes(axis, x.rank, name, x)))
        kind, value = (kinds[1], start[1]) if x.dtype.is_float else (kinds[0], start[0])
        keepdims = self._b._flag(keepdims, name, "keepdims")
        if len(axes) == x.rank and not keepdims:
            return self._to_scalar(x, kind, value)
        if len(axes) == x.rank:
            scalar = self._to_scalar(x, kind, value)
            return self._b.broadcast_to(scalar, (1,) * x.rank)
        kept = tuple(s for d, s in enumerate(x.shape) if d not in axes)
        reduced = self._b.multi_reduction(kind, x, self._b.full(kept, value, x.dtype), axes)
        if not keepdims:
            return reduced
        return self._b.shape_cast(reduced, tuple(1 if d in axes else s for d, s in enumerate(x.shape)))

    def _to_scalar(self, x: Value, kind: str, value: Number) -> Value:
        """A leading 1, a reduction of the rest, ``1 x 1 …``, an extract: no scalar reduction exists on the VPU."""
        rank = x.rank
        lifted = self._b.shape_cast(x, (1, *x.shape))
        acc = self._b.full((1,), value, x.dtype)
        reduced = self._b.multi_reduction(kind, lifted, acc, tuple(range(1, rank + 1)))
        kept = self._b.shape_cast(reduced, (1,) * (rank + 1))
        return self._b.vector_extract(kept, (0,) * (rank + 1))

    @idiom("jnp.sum(x, axis)", "vector.multi_reduction", group="reductions", traits=("reduction", "pure"))
    def sum(self, x: Value, axis: Axis = None, *, keepdims: bool = False) -> Value:
        """`jnp.sum`: 16-bit floats are summed in f32 and cast back, as JAX does.

        Args:
            x: a float or i32 vector.
            axis: one axis, several, or all of them (a scalar result).
            keepdims: keep reduced axes with size 1.

        Example:
            >>> b.pallas.sum(a.x[...], 1).shape, b.pallas.sum(a.x[...]).shape
            ((8,), ())
        """
        self._b._use_vector(x, "sum")
        small = x.dtype.is_float and x.dtype.bits == 16
        wide = self._b.extf(x, dt.f32) if small else x
        total = self._reduce("sum", wide, axis, keepdims, ("add", "add"), (0, 0.0))
        return self._b.truncf(total, x.dtype) if small else total

    @idiom("jnp.max(x, axis)", "vector.multi_reduction", group="reductions", traits=("reduction", "pure"))
    def max(self, x: Value, axis: Axis = None, *, keepdims: bool = False) -> Value:
        """`jnp.max`: NaN wins.

        Example:
            >>> b.pallas.max(a.x[...], 1, keepdims=True).shape
            (8, 1)
        """
        return self._reduce("max", x, axis, keepdims, ("maxsi", "maximumf"), (-(1 << 31), -math.inf))

    @idiom("jnp.min(x, axis)", "vector.multi_reduction", group="reductions", traits=("reduction", "pure"))
    def min(self, x: Value, axis: Axis = None, *, keepdims: bool = False) -> Value:
        """`jnp.min`: NaN wins.

        Example:
            >>> b.pallas.min(a.x[...], 0).shape
            (128,)
        """
        return self._reduce("min", x, axis, keepdims, ("minsi", "minimumf"), ((1 << 31) - 1, math.inf))
