"""Helpers of ZML's Zig DSL that stand above single ops: lifts, splats, casts, arange, reduce_to_scalar, div_floor."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mosaic_tpu.builder import dtypes as dt
from mosaic_tpu.builder._registry import op
from mosaic_tpu.builder._value import Number, Operand, Value
from mosaic_tpu.builder.dtypes import DType
from mosaic_tpu.builder.enums import CombiningKind
from mosaic_tpu.builder.errors import ConstantError, DTypeError, KindError, ShapeError
from mosaic_tpu.builder.ops.arith import ArithOps
from mosaic_tpu.builder.ops.tpu_data import TpuDataOps
from mosaic_tpu.builder.ops.vector import VectorOps

_PYTHON_DTYPES: dict[type, DType] = {bool: dt.i1, int: dt.i32, float: dt.f32}


class GuideOps(ArithOps, VectorOps, TpuDataOps):
    """Compositions that ZML's Zig DSL names."""

    # --- constants -------------------------------------------------------------------------------------------------

    @op("arith.constant", group="constants", source="b.lift(value)", traits=("constant", "pure"))
    def lift(self, value: Operand) -> Value:
        """A scalar constant: Python ints become i32, floats f32, bools i1; NumPy scalars keep their width.

        Example:
            >>> import numpy as np
            >>> b.lift(3).dtype, b.lift(np.float16(1)).dtype
            (i32, f16)
        """
        if isinstance(value, Value):
            self._use(value, "lift")
            return value
        if isinstance(value, np.generic):
            return self.lift_as(*self._number(value, dt.i32))
        dtype = _PYTHON_DTYPES.get(type(value))
        if dtype is None:
            self.fail(
                KindError, f"cannot lift a {type(value).__name__}", op="lift", hint="a number; arrays enter as refs"
            )
        return self._constant(value, self.types.scalar(dtype))

    @op("arith.constant", group="constants", source="b.liftAs(value, dtype)", traits=("constant", "pure"))
    def lift_as(self, value: Number, dtype: DType) -> Value:
        """A scalar constant of ``dtype``.

        Example:
            >>> b.lift_as(0, i64).dtype
            i64
        """
        if not isinstance(value, bool | int | float | np.generic):  # pyright: ignore[reportUnnecessaryIsInstance]
            self.fail(
                ConstantError, f"cannot lift a {type(value).__name__}", op="lift_as", hint="cast values with .to(dtype)"
            )
        return self._constant(value, self.types.scalar(self._data_type(dtype, "lift_as")))

    @op("arith.constant", group="constants", source="b.cIndex(value)", traits=("constant", "pure"))
    def c_index(self, value: int) -> Value:
        """An ``index`` constant, for raw loads and stores.

        Example:
            >>> b.c_index(2).dtype
            index
        """
        return self._constant(self._int(value, "c_index", "index"), self.types.index)

    @op("arith.constant", group="constants", source="b.full(shape, value, dtype)", traits=("constant", "pure"))
    def full(self, shape: Sequence[int], value: Number, dtype: DType) -> Value:
        """A dense splat ``arith.constant``: what Pallas makes for matmul and reduction accumulators.

        `jnp.full` emits a scalar and a broadcast instead: ``b.pallas.full``.

        Example:
            >>> b.full((8, 128), -1.0, f32).shape
            (8, 128)
        """
        target = self._shape(shape, "full")
        if not target:
            self.fail(
                ShapeError,
                f"shape {target}",
                op="full",
                hint="vectors have one dimension or more; lift_as makes scalars",
            )
        return self._constant(value, self.types.vector(target, self._element(dtype, "full")))

    @op("arith.constant", group="constants", source="b.zeros(shape, dtype)", traits=("constant", "pure"))
    def zeros(self, shape: Sequence[int], dtype: DType) -> Value:
        """A dense splat of 0.

        Example:
            >>> b.zeros((8, 128), f32).shape
            (8, 128)
        """
        return self.full(shape, 0, dtype)

    @op("arith.constant", group="constants", source="b.ones(shape, dtype)", traits=("constant", "pure"))
    def ones(self, shape: Sequence[int], dtype: DType) -> Value:
        """A dense splat of 1.

        Example:
            >>> b.ones((8, 128), i32).dtype
            i32
        """
        return self.full(shape, 1, dtype)

    @op(
        "arith.constant", "vector.broadcast", group="constants", source="b.splat(value, shape, dtype)", traits=("pure",)
    )
    def splat(self, value: Operand, shape: Sequence[int], dtype: DType | None = None) -> Value:
        """`full` of a number, or the broadcast of a scalar value.

        Example:
            >>> b.splat(b.lift(1.0), (8, 128)).shape
            (8, 128)
        """
        if isinstance(value, Value):
            self._use(value, "splat")
            if dtype is not None and value.dtype is not self._dtype(dtype, "splat"):
                self.fail(DTypeError, f"the value is {value.dtype}, not {dtype}", op="splat", operands=[value])
            return self.broadcast_to(value, shape)
        if dtype is None:
            dtype = (
                dt.as_dtype(value.dtype) if isinstance(value, np.generic) else _PYTHON_DTYPES.get(type(value), dt.i32)
            )
        return self.full(shape, value, dtype)

    # --- casts -----------------------------------------------------------------------------------------------------

    @op("arith.index_cast", group="arith", source="b.toIndex(v)")
    def to_index(self, value: Value | int) -> Value:
        """An ``index`` from an integer value, re-emitted per use as Pallas does; nothing when it is one already.

        Example:
            >>> b.to_index(b.lift(3)).dtype
            index
        """
        if not isinstance(value, Value):
            return self.c_index(value)
        self._use(value, "to_index")
        return value if value.dtype is dt.index else self.index_cast(value, dt.index)

    @op(
        "arith.extsi",
        "arith.extui",
        "arith.trunci",
        "arith.sitofp",
        "arith.uitofp",
        "arith.fptosi",
        "arith.fptoui",
        "arith.extf",
        "arith.truncf",
        group="arith",
        source="v.to(dtype)",
        traits=("elementwise", "pure"),
    )
    def cast(self, value: Value, dtype: DType) -> Value:
        """A numeric cast by the Zig DSL's table; nothing when the type is the same.

        int → wider or narrower int, int ↔ float, float → wider or narrower float. ``i1`` and unsigned types widen
        with zeros.

        Raises:
            DTypeError: index values (use `to_index`), refs, or two floats of one width (go through f32).

        Example:
            >>> b.cast(b.lift(1), f32).dtype
            f32
        """
        if type(value) is not Value or value._scope.live is not self:
            self._use(value, "to")
        key = ("to", value._info, dtype)
        name = self.types.plans.get(key) if type(dtype) is DType else None
        if name is None:
            dtype = self._dtype(dtype, "to")
            name = self.types.plans[key] = self._cast_op(value, dtype)
        if not name:
            info = value._info
            return value if info.dtype is dtype else Value(value._ir, self.types.like(info, dtype), value._scope)
        return self._cast(name, value, dtype)

    def _cast_op(self, value: Value, dtype: DType) -> str:
        """The op that casts ``value`` to ``dtype``; empty where the bits stay as they are."""
        source = value._info.dtype
        if value._info.is_ref:
            self.fail(KindError, "a ref is not a value", op="to", operands=[value], hint="load it first: ref[...]")
        if source is dtype:
            return ""
        zero_extends = source.kind in ("bool", "uint")
        if source.is_int and dtype.is_int:
            if source.bits == dtype.bits:
                return ""
            if source.bits > dtype.bits:
                return "arith.trunci"
            return "arith.extui" if zero_extends else "arith.extsi"
        if source.is_int and dtype.is_float:
            return "arith.uitofp" if zero_extends else "arith.sitofp"
        if source.is_float and dtype.is_int:
            return "arith.fptoui" if dtype.is_unsigned else "arith.fptosi"
        if source.is_float and dtype.is_float and source.bits != dtype.bits:
            return "arith.extf" if source.bits < dtype.bits else "arith.truncf"
        hint = "use to_index and index_cast for indices" if dt.index in (source, dtype) else "cast to f32 first"
        self.fail(DTypeError, f"no cast from {source} to {dtype}", op="to", operands=[value], hint=hint)

    # --- compositions ------------------------------------------------------------------------------------------------

    @op("arith.divsi", group="arith", source="b.divFloor(lhs, rhs)", traits=("elementwise", "pure"))
    def div_floor(self, lhs: Value, rhs: Operand) -> Value:
        """Floor division of integers: `jnp.floor_divide`'s sign-correcting expansion. Same as ``//``.

        Example:
            >>> b.div_floor(b.lift(7), 2).dtype
            i32
        """
        return self.pallas.floor_divide(lhs, rhs)

    @op("arith.select", group="arith", source="b.where(cond, x, y)", traits=("elementwise", "pure"))
    def where(self, condition: Value, x: Value, y: Value) -> Value:
        """Alias of `select`; `jnp.where` with its broadcasts is ``b.pallas.where``.

        Example:
            >>> b.where(b.lift(1) < 2, b.lift(3), b.lift(4)).dtype
            i32
        """
        return self.select(condition, x, y)

    @op("math.exp", "arith.mulf", group="math", source="b.exp2(x)", traits=("elementwise", "pure"))
    def exp2(self, x: Value) -> Value:
        """``exp(x * ln 2)``, the Zig DSL's forward-compatible form; `jnp.exp2` emits `math_exp2` today.

        Example:
            >>> b.exp2(b.lift(1.0)).dtype
            f32
        """
        self._use(x, "exp2")
        if x.is_ref or not x.dtype.is_float:
            self.fail(KindError if x.is_ref else DTypeError, "needs float elements", op="exp2", operands=[x])
        factor = self._constant(0.6931471805599453, x._info)
        scaled = self.mulf(x, factor)
        return self._emit("math.exp", x._info, [scaled._ir])

    @op("tpu.iota", "vector.shape_cast", group="tpu", source="b.arange(n, dtype)")
    def arange(self, n: int, dtype: DType = dt.i32) -> Value:
        """``0 … n - 1``: a ``1 x n`` iota and a shape cast, since the layout pass refuses 1-D iotas.

        Example:
            >>> b.arange(128).shape
            (128,)
        """
        size = self._int(n, "arange", "size")
        return self.shape_cast(self.iota((1, size), dtype, (1,)), (size,))

    @op(
        "vector.multi_reduction",
        "vector.shape_cast",
        "vector.extract",
        group="vector",
        source="b.reduceToScalar(kind, src, acc)",
        traits=("reduction", "pure"),
    )
    def reduce_to_scalar(self, kind: CombiningKind | str, source: Value, acc: Value) -> Value:
        """A vector to one scalar, as Pallas does: ``1 x …``, reduce all but the first, ``1 x 1 …``, extract.

        Args:
            kind: how two elements combine.
            source: any vector.
            acc: start value, a vector of shape ``(1,)``.

        Example:
            >>> b.reduce_to_scalar("add", b.ref_load(a.x), b.zeros((1,), f32)).shape
            ()
        """
        self._use_vector(source, "reduce_to_scalar")
        rank = source.rank
        lifted = self.shape_cast(source, (1, *source.shape))
        reduced = self.multi_reduction(kind, lifted, acc, tuple(range(1, rank + 1)))
        kept = self.shape_cast(reduced, (1,) * (rank + 1))
        return self.vector_extract(kept, (0,) * (rank + 1))
