"""`jnp.einsum` of one operand or two: sums, one product, a transpose, in a span of the profile."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from mosaic_tpu.builder import dtypes as dt
from mosaic_tpu.builder._registry import idiom
from mosaic_tpu.builder._value import Value
from mosaic_tpu.builder.dtypes import DType
from mosaic_tpu.builder.enums import Precision
from mosaic_tpu.builder.errors import ArityError, AttributeValueError, ShapeError, UnsupportedOpError
from mosaic_tpu.builder.pallas._promotion import promoted
from mosaic_tpu.builder.pallas.dot import DotIdioms
from mosaic_tpu.builder.pallas.movement import MovementIdioms
from mosaic_tpu.builder.pallas.reductions import ReductionIdioms


@dataclass(frozen=True)
class _Named:
    """An operand, and a letter for each of its dimensions."""

    value: Value
    names: str

    def size(self, name: str) -> int:
        """The size of a dimension, -1 of one that is not there."""
        return self.value.shape[self.names.index(name)] if name in self.names else -1


class EinsumIdioms(DotIdioms, ReductionIdioms, MovementIdioms):
    """`jnp.einsum`."""

    @idiom("jnp.einsum(spec, *xs)", "tpu.trace_start", "tpu.matmul", "tpu.trace_stop", group="dot")
    def einsum(
        self,
        spec: str,
        *operands: Value,
        preferred_element_type: DType | None = None,
        precision: Precision | str | None = None,
    ) -> Value:
        """`jnp.einsum` of one vector or two: what no other has is summed, then one product, then a transpose.

        Args:
            spec: a letter for each dimension, ``"nd,md->nm"``; without ``->`` the result has the letters that stand
                once, sorted.
            operands: one vector or two.
            preferred_element_type: of the result; the operands' promoted type if omitted.
            precision: of the product, as in `dot_general`.

        Raises:
            ArityError: three operands or more: multiply them two at a time.
            AttributeValueError: the spec has another form.
            ShapeError: it does not fit the operands.
            UnsupportedOpError: nothing is contracted, or the product is a scalar: Pallas refuses both.

        Example:
            >>> x = b.zeros((8, 128), bf16)
            >>> b.pallas.einsum("nd,md->nm", x, x, preferred_element_type=f32).shape
            (8, 8)
            >>> b.pallas.einsum("nd->d", x).shape
            (128,)
        """
        b = self._b
        for value in operands:
            b._use_vector(value, "einsum")
        names, out = self._spec(spec, operands)
        dtype = self._einsum_type(operands, preferred_element_type)
        if names == [out] and operands[0].dtype is dtype:
            return operands[0]
        named = [_Named(value, text) for value, text in zip(operands, names, strict=True)]
        if len(named) == 2:
            self._check_product(named[0], named[1], out)
        with self._one_line("einsum"), b.pallas.named_scope(spec):
            if len(named) == 1:
                found = self._one(named[0], out, dtype)
            else:
                found = self._two(named[0], named[1], out, dtype, precision)
            return self.astype(self._ordered(found, out), dtype)

    def _spec(self, spec: str, operands: Sequence[Value]) -> tuple[list[str], str]:
        """The letters of each operand, and those of the result."""
        b = self._b
        text = b._text(spec, "einsum", "spec").replace(" ", "")
        given, arrow, out = text.partition("->")
        names = given.split(",")
        counts = Counter("".join(names))
        if not arrow:
            out = "".join(sorted(name for name, count in counts.items() if count == 1))
        if not ("".join(names) + out).isalpha() or len(set(out)) != len(out) or not set(out) <= set(counts):
            hint = "a letter for each dimension, each of the result once: 'nd,md->nm'"
            b.fail(AttributeValueError, f"the spec {spec!r}", op="einsum", operands=operands, hint=hint)
        if len(names) != len(operands) or len(names) > 2:
            hint = "one operand or two, as the spec has it; multiply more two at a time"
            b.fail(ArityError, f"{spec!r} of {len(operands)} operands", op="einsum", operands=operands, hint=hint)
        sizes: dict[str, set[int]] = {}
        for value, letters in zip(operands, names, strict=True):
            if len(letters) != value.rank:
                b.fail(ShapeError, f"{letters!r} does not fit rank {value.rank}", op="einsum", operands=operands)
            for name, size in zip(letters, value.shape, strict=True):
                sizes.setdefault(name, set()).add(size)
        for name, found in sizes.items():
            if len(found - {1}) > 1:
                b.fail(ShapeError, f"{name!r} has sizes {sorted(found)}", op="einsum", operands=operands)
        return names, out

    def _einsum_type(self, operands: Sequence[Value], preferred: DType | None) -> DType:
        if preferred is not None:
            return self._b._element(preferred, "einsum")
        return operands[0].dtype if len(operands) == 1 else self._common(operands[0], operands[1], "einsum")

    def _ordered(self, x: _Named, out: str) -> Value:
        return x.value if x.names == out else self.transpose(x.value, [x.names.index(name) for name in out])

    # --- sums ---------------------------------------------------------------------------------------------------------

    def _one(self, x: _Named, out: str, dtype: DType) -> _Named:
        counts = Counter(x.names)
        summed = self._summed(x, [n for n in sorted(counts) if counts[n] == 1 and n not in out], dtype)
        return self._diagonals(summed, counts, out, dtype)

    def _summed(self, x: _Named, names: Sequence[str], dtype: DType) -> _Named:
        """Without the dimensions of some letters, each of which stands once."""
        if not names:
            return x
        rest = "".join(name for name in x.names if name not in names)
        return _Named(self._sum_of(x.value, [x.names.index(name) for name in names], dtype), rest)

    def _sum_of(self, x: Value, axes: Sequence[int], dtype: DType) -> Value:
        wide = x if promoted(x.dtype, dtype) is x.dtype else self.astype(x, dtype)
        return self._reduce("einsum", wide, axes, False, "add")

    def _diagonals(self, x: _Named, counts: Counter[str], kept: str, dtype: DType) -> _Named:
        """Where a letter stands twice, zeros off the diagonal, and a sum."""
        for name, count in counts.items():
            if count < 2:
                continue
            axes = [axis for axis, letter in enumerate(x.names) if letter == name]
            masked = self._on_diagonal(x.value, axes)
            gone = axes[:-1] if name in kept else axes
            rest = "".join(letter for axis, letter in enumerate(x.names) if axis not in gone)
            x = _Named(self._sum_of(masked, gone, dtype), rest)
        return x

    def _on_diagonal(self, x: Value, axes: Sequence[int]) -> Value:
        shape = tuple(x.shape[axis] for axis in axes)
        places = [self._b.iota(shape, dt.u32, (axis,)) for axis in range(len(axes))]
        equal = [self.eq(first, second) for first, second in pairwise(places)]
        found = equal[0]
        for more in equal[1:]:
            found = self.bitwise_and(found, more)
        found = self.broadcast_in_dim(found, x.shape, axes)
        return self._b.select(found, x, self._b.pallas.zeros_like(x))

    # --- products -----------------------------------------------------------------------------------------------------

    def _two(self, x: _Named, y: _Named, out: str, dtype: DType, precision: Precision | str | None) -> _Named:
        # JAX prepares the second operand first.
        y = self._unstretched(y, x)
        x = self._unstretched(x, y)
        y = self._alone(y, x.names, out, dtype)
        x = self._alone(x, y.names, out, dtype)
        y_counts, x_counts = Counter(y.names), Counter(x.names)
        y = self._diagonals(y, y_counts, out + x.names, dtype)
        x = self._diagonals(x, x_counts, out + y.names, dtype)
        batch = [name for name in out if name in x.names and name in y.names]
        contracted = [name for name in sorted(set(x.names) & set(y.names)) if name not in out]
        taken = [*batch, *contracted]
        x_rest, y_rest = ("".join(n for n in v.names if n not in taken) for v in (x, y))
        first, second, rest = (
            (x, y, x_rest + y_rest) if "".join(batch) + x_rest + y_rest == out else (y, x, y_rest + x_rest)
        )
        places = [
            (tuple(v.names.index(n) for n in contracted), tuple(v.names.index(n) for n in batch))
            for v in (first, second)
        ]
        dims = ((places[0][0], places[1][0]), (places[0][1], places[1][1]))
        product = self.dot_general(first.value, second.value, dims, preferred_element_type=dtype, precision=precision)
        return _Named(product, "".join(batch) + rest)

    def _check_product(self, x: _Named, y: _Named, out: str) -> None:
        """Refuse what Pallas does not lower, before anything is emitted."""
        shared = {name for name in x.names if name in y.names and (x.size(name) == 1) == (y.size(name) == 1)}
        operands = [x.value, y.value]
        if not shared - set(out):
            hint = "multiply the operands: x[:, None] * y[None, :]"
            self._b.fail(UnsupportedOpError, "nothing is contracted", op="einsum", operands=operands, hint=hint)
        if not out:
            hint = "multiply the operands, and b.pallas.sum what is left"
            self._b.fail(UnsupportedOpError, "the product is a scalar", op="einsum", operands=operands, hint=hint)

    def _unstretched(self, x: _Named, other: _Named) -> _Named:
        """Without dimensions of size 1 that the other operand has larger."""
        gone = [axis for axis, name in enumerate(x.names) if x.value.shape[axis] == 1 and other.size(name) > 1]
        if not gone:
            return x
        rest = "".join(name for axis, name in enumerate(x.names) if axis not in gone)
        return _Named(self.squeeze(x.value, gone), rest)

    def _alone(self, x: _Named, others: str, out: str, dtype: DType) -> _Named:
        """Without what stands once, in this operand only."""
        return self._summed(
            x, [n for n in sorted(set(x.names)) if x.names.count(n) == 1 and n not in others + out], dtype
        )
