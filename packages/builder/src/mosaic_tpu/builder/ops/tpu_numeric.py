"""The tpu dialect's number formats and random bits: logistic, rounding, packing, the PRNG."""

from __future__ import annotations

from collections.abc import Sequence

from mosaic_tpu.builder import dtypes as dt
from mosaic_tpu.builder._compat import ir
from mosaic_tpu.builder._core import Core
from mosaic_tpu.builder._registry import op
from mosaic_tpu.builder._value import Value
from mosaic_tpu.builder.dtypes import DType
from mosaic_tpu.builder.errors import ArityError, AttributeValueError, DTypeError, KindError, ShapeError

#: What `tpu.stochastic_convert` rounds to; the dialect's verifier takes any type, the compiler these.
_ROUNDED = (dt.bf16, dt.f8e5m2, dt.f8e4m3fn, dt.f8e4m3b11fnuz, dt.i4)


class TpuNumericOps(Core):
    """``tpu.*`` that look into numbers."""

    @op("tpu.logistic", source="jax.nn.sigmoid(x)", traits=("elementwise", "pure"))
    def logistic(self, x: Value) -> Value:
        """``1 / (1 + exp(-x))`` of a float vector. A forward-compatible Pallas spells it out instead.

        Example:
            >>> b.logistic(b.ref_load(a.x)).shape
            (8, 128)
        """
        used = self._use_vector(x, "tpu.logistic")
        if not x.dtype.is_float:
            self.fail(DTypeError, "needs float elements", op="tpu.logistic", operands=[x])
        return self._emit("tpu.logistic", x._info, [used])

    @op("tpu.reduce_precision", source="lax.reduce_precision(x, exponent_bits, mantissa_bits)", traits=("elementwise",))
    def reduce_precision(self, x: Value, exponent_bits: int, mantissa_bits: int) -> Value:
        """Round to the nearest number of a narrower format, ties to even, and back.

        Args:
            x: a vector of f32 or bf16.
            exponent_bits: of the narrower format, 1 or more.
            mantissa_bits: of the narrower format, 0 or more.

        Example:
            >>> b.reduce_precision(b.ref_load(a.x), 5, 10).dtype
            f32
        """
        name = "tpu.reduce_precision"
        used = self._use_vector(x, name)
        if x.dtype not in (dt.f32, dt.bf16):
            self.fail(DTypeError, "needs f32 or bf16 elements", op=name, operands=[x])
        exponent = self._i32_attribute(exponent_bits, name, "exponent_bits")
        mantissa = self._i32_attribute(mantissa_bits, name, "mantissa_bits")
        if exponent < 1:
            self.fail(AttributeValueError, f"exponent_bits {exponent}", op=name, operands=[x], hint="1 or more")
        attributes = {
            "exponent_bits": self.types.integer(exponent, 32),
            "mantissa_bits": self.types.integer(mantissa, 32),
        }
        return self._emit(name, x._info, [used], attributes)

    @op("tpu.weird", source="~jnp.isfinite(x)", traits=("elementwise", "pure"))
    def weird(self, x: Value) -> Value:
        """Whether each f32 is infinite or NaN, as ``i1``.

        Example:
            >>> b.weird(b.ref_load(a.x)).dtype
            i1
        """
        used = self._use(x, "tpu.weird")
        if x.is_ref:
            self.fail(KindError, "a ref is not a value", op="tpu.weird", operands=[x], hint="load it first: ref[...]")
        if x.dtype is not dt.f32:
            self.fail(DTypeError, "needs f32 elements", op="tpu.weird", operands=[x])
        return self._emit("tpu.weird", self.types.like(x._info, dt.i1), [used])

    @op("tpu.stochastic_convert", source="pltpu.stochastic_round(x, bits, target_dtype=…)", traits=("pure",))
    def stochastic_convert(self, x: Value, random_bits: Value, dtype: DType) -> Value:
        """Round f32 up or down at random, the nearer neighbour more often.

        Args:
            x: a vector of f32.
            random_bits: 32 random bits an element, integers of the same shape.
            dtype: of the result: bf16, a float of 8 bits, or i4.

        Example:
            >>> b.stochastic_convert(b.ref_load(a.x), b.prng_random_bits((8, 128)), bf16).dtype
            bf16
        """
        name = "tpu.stochastic_convert"
        used, bits = self._use_vector(x, name), self._use_vector(random_bits, name)
        if x.dtype is not dt.f32 or random_bits.dtype.mlir != "i32":
            self.fail(DTypeError, "rounds f32 by random i32", op=name, operands=[x, random_bits])
        if x.shape != random_bits.shape:
            self.fail(ShapeError, "as many random numbers as elements are needed", op=name, operands=[x, random_bits])
        target = self._element(dtype, name)
        if target not in _ROUNDED:
            hint = f"one of {', '.join(map(str, _ROUNDED))}"
            self.fail(DTypeError, f"does not round to {target}", op=name, operands=[x, random_bits], hint=hint)
        return self._emit(name, self.types.like(x._info, target), [used, bits])

    # --- several narrow elements in a wide one ------------------------------------------------------------------------

    def _packing(self, wide: DType, narrow: DType, name: str, *operands: Value) -> int:
        """How many ``narrow`` elements share a ``wide`` one."""
        floats = wide is dt.f32 and narrow is dt.bf16
        if not floats and not (wide.is_int and narrow.is_int):
            self.fail(
                DTypeError,
                f"{wide} and {narrow} do not pack",
                op=name,
                operands=operands,
                hint="f32 with bf16, or integers with narrower integers",
            )
        if wide.bits <= narrow.bits:
            self.fail(DTypeError, f"{narrow} is not narrower than {wide}", op=name, operands=operands)
        return wide.bits // narrow.bits

    @op("tpu.pack_elementwise", source="pltpu.pack_elementwise(xs, packed_dtype=…)", traits=("elementwise", "pure"))
    def pack_elementwise(self, sources: Sequence[Value], dtype: DType) -> Value:
        """Several vectors in one, each element narrowed and put beside those at its place; the first lowest.

        Args:
            sources: as many vectors of one type as narrow elements fit in one: two of f32 for bf16, four of i32 for i8.
            dtype: of the narrow elements; integers lose their upper bits.

        Returns:
            A vector of integers as wide as the sources.

        Example:
            >>> x = b.ref_load(a.x)
            >>> b.pack_elementwise([x, x], bf16).dtype
            i32
        """
        name = "tpu.pack_elementwise"
        self._sequence(sources, name)
        used = [self._use_vector(s, name) for s in sources]
        if not used:
            self.fail(ArityError, "no sources", op=name, hint="as many as narrow elements fit in a wide one")
        for other in sources[1:]:
            self._same(sources[0], other, name)
        narrow = self._element(dtype, name)
        count = self._packing(sources[0].dtype, narrow, name, *sources)
        if len(sources) != count:
            self.fail(ArityError, f"{len(sources)} sources, not {count}", op=name, operands=sources)
        wide = {8: dt.i8, 16: dt.i16, 32: dt.i32, 64: dt.i64}[sources[0].dtype.bits]
        attributes: dict[str, ir.Attribute] = {"target_type": self.types.parse(narrow.mlir)}
        return self._emit(name, self.types.vector(sources[0].shape, wide), used, attributes)

    @op("tpu.unpack_elementwise", source="pltpu.unpack_elementwise(x, index=…, …)", traits=("elementwise", "pure"))
    def unpack_elementwise(self, source: Value, index: int, packed: DType, dtype: DType) -> Value:
        """The ``index``-th of the narrow elements in each element, widened: the reverse of `pack_elementwise`.

        Args:
            source: a vector of integers.
            index: which one, 0 the lowest.
            packed: of the narrow elements.
            dtype: of the result, as wide as the source's.

        Example:
            >>> b.unpack_elementwise(b.ref_load(a.ints), 1, bf16, f32).dtype
            f32
        """
        name = "tpu.unpack_elementwise"
        used = self._use_vector(source, name)
        narrow, wide = self._element(packed, name), self._element(dtype, name)
        if not source.dtype.is_int or source.dtype.bits != wide.bits:
            hint = f"a vector of {wide.bits}-bit integers"
            self.fail(DTypeError, f"cannot hold packed parts of {wide}", op=name, operands=[source], hint=hint)
        count = self._packing(wide, narrow, name, source)
        at = self._int(index, name, "index")
        if not 0 <= at < count:
            hint = f"{count} elements of {narrow} are packed in one: from 0 to {count - 1}"
            self.fail(AttributeValueError, f"index {at}", op=name, operands=[source], hint=hint)
        attributes: dict[str, ir.Attribute] = {
            "source_type": self.types.parse(narrow.mlir),
            "index": self.types.integer(at, 32),
        }
        return self._emit(name, self.types.vector(source.shape, wide), [used], attributes)

    # --- random bits -------------------------------------------------------------------------------------------------

    @op("tpu.prng_set_seed_32", source="pltpu.prng_seed(*seeds)", traits=())
    def prng_set_seed_32(self, *seeds: Value) -> None:
        """Seed the core's random generator.

        Args:
            seeds: one i32 scalar or more, mixed.

        Example:
            >>> b.prng_set_seed_32(b.lift(0), a.i)
        """
        name = "tpu.prng_set_seed_32"
        used = self._use_all(seeds, name)
        if not seeds:
            self.fail(ArityError, "no seed", op=name, hint="give one i32 scalar or more")
        if any(s._info.kind != "scalar" or s.dtype.mlir != "i32" for s in seeds):
            self.fail(DTypeError, "seeds are i32 scalars", op=name, operands=seeds)
        self._emit_void(name, used)

    @op("tpu.prng_random_bits", source="pltpu.prng_random_bits(shape)", traits=())
    def prng_random_bits(self, shape: Sequence[int], dtype: DType = dt.i32) -> Value:
        """Random bits from the core's generator; `prng_set_seed_32` comes first.

        Args:
            shape: of the result, of rank 2 or more.
            dtype: of the result, 32 bits wide.

        Example:
            >>> b.prng_set_seed_32(b.lift(0)); b.prng_random_bits((8, 128)).shape
            (8, 128)
        """
        name = "tpu.prng_random_bits"
        target, element = self._shape(shape, name), self._element(dtype, name)
        if len(target) < 2:
            self.fail(ShapeError, f"shape {target}", op=name, hint="two dimensions or more: (1, n), then shape_cast")
        if element.bits != 32:
            self.fail(DTypeError, f"makes 32 bits an element, not {element}", op=name, hint="i32, then cast")
        return self._emit(name, self.types.vector(target, element), [])
