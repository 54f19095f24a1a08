"""One MLIR context a thread, with its types and attributes interned: the builder's hot path looks them up only.

Interned `TypeInfo` objects make type equality an ``is``; cached attributes cost a dict lookup instead of 1–2 µs.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, Literal

from mosaic_tpu.builder._compat import IrOperation, ir, left_out_of_filenames, location_cache, new_context, open_ir
from mosaic_tpu.builder._frames import user_filename
from mosaic_tpu.builder.dtypes import ALL, DType, i1, i32, opaque
from mosaic_tpu.builder.dtypes import index as index_dtype
from mosaic_tpu.builder.enums import MemorySpace
from mosaic_tpu.builder.errors import DTypeError

Kind = Literal["scalar", "vector", "ref", "opaque"]

#: ``ir.ShapedType.get_dynamic_size()``: stands for a size known at run time only.
DYNAMIC: Final = ir.ShapedType.get_dynamic_size()

_SIGNLESS: Final = {dtype.mlir: dtype for dtype in ALL if not dtype.is_unsigned}
_SPACES: Final = {space.value: space for space in MemorySpace}
_SHAPED: Final = re.compile(r"(vector|memref)<((?:(?:\d+|\?)x)*)([^,>]+)(?:, #tpu\.memory_space<(\w+)>)?>")


class TypeInfo:
    """An interned MLIR type with what Python needs to know of it."""

    __slots__ = ("dtype", "element", "ir", "is_data", "is_ref", "is_vector", "kind", "results", "shape", "space")

    def __init__(
        self,
        mlir: ir.Type,
        kind: Kind,
        dtype: DType,
        shape: tuple[int, ...],
        space: MemorySpace | None,
        element: DType | None = None,
    ) -> None:
        self.ir = mlir
        #: The result types of an op with one result of this type.
        self.results: Final = [mlir]
        self.kind: Final = kind
        self.dtype: Final = dtype
        #: What its elements are in MLIR: i32 of a ref of booleans, which no TPU has in memory.
        self.element: Final = dtype if element is None else element
        self.shape: Final = shape
        self.space: Final = space
        self.is_vector: Final = kind == "vector"
        self.is_ref: Final = kind == "ref"
        #: A scalar or a vector: what arithmetic takes.
        self.is_data: Final = kind in ("scalar", "vector")

    def __str__(self) -> str:
        return str(self.ir)


class Types:
    """The types, attributes and locations of one context."""

    def __init__(self) -> None:
        self.context = new_context()
        with self.context:
            self.unknown = ir.Location.unknown()
            self.i32 = ir.IntegerType.get_signless(32)
            self.i64 = ir.IntegerType.get_signless(64)
        self._mlir: dict[str, ir.Type] = {}
        self._ir_vectors: dict[tuple[tuple[int, ...], str], ir.Type] = {}
        self._scalars: dict[DType, TypeInfo] = {}
        self._vectors: dict[tuple[tuple[int, ...], DType], TypeInfo] = {}
        self._refs: dict[tuple[tuple[int, ...], DType, MemorySpace, DType], TypeInfo] = {}
        self._parsed: dict[str, ir.Attribute] = {}
        self._attributes: dict[tuple[object, ...], Any] = {}
        #: Attributes of constants by number and type; 0.0 is not here, since it equals -0.0.
        self.constants: dict[tuple[Any, TypeInfo], dict[str, ir.Attribute]] = {}
        #: Functions that hold the ops of an idiom for given operand types, and the types of their results.
        self.templates: dict[tuple[object, ...], tuple[IrOperation, tuple[TypeInfo, ...]]] = {}
        #: What an op on operands of these types comes to, checked once: result type, or the op that does it.
        self.plans: dict[tuple[object, ...], Any] = {}
        self._predicates: dict[int, dict[str, dict[str, ir.Attribute]]] = {}
        self._likes: dict[tuple[TypeInfo, DType], TypeInfo] = {}
        self._slices: dict[tuple[TypeInfo, tuple[int, ...], tuple[bool, ...]], tuple[TypeInfo, TypeInfo]] = {}
        #: Types and attributes that were written as text.
        self.texts: dict[str, TypeInfo] = {}
        self.attribute_texts: dict[str, ir.Attribute] = {}
        self._opaque: dict[str, TypeInfo] = {}
        self._locators: dict[str | None, Callable[[object], ir.Location]] = {}
        self.index = self.scalar(index_dtype)

    def locator(self) -> Callable[[object], ir.Location]:
        """From a traceback to the kernel's line; its file is named as JAX names it in this state of its settings."""
        pattern = left_out_of_filenames()
        found = self._locators.get(pattern)
        if found is None:
            found = self._locators[pattern] = location_cache(partial(user_filename, pattern), self.context)
        return found

    def element(self, dtype: DType) -> ir.Type:
        """The MLIR element type."""
        found = self._mlir.get(dtype.mlir)
        if found is None:
            if dtype is opaque:
                raise DTypeError(
                    "nothing is known of an opaque value's elements", op="dtype", hint="b.generic_op takes any value"
                )
            found = self._mlir[dtype.mlir] = ir.Type.parse(dtype.mlir, self.context)
        return found

    def scalar(self, dtype: DType) -> TypeInfo:
        """A scalar of ``dtype``."""
        found = self._scalars.get(dtype)
        if found is None:
            found = self._scalars[dtype] = TypeInfo(self.element(dtype), "scalar", dtype, (), None)
        return found

    def vector(self, shape: tuple[int, ...], dtype: DType) -> TypeInfo:
        """A vector; u32 and i32 share the MLIR type object."""
        key = (shape, dtype)
        found = self._vectors.get(key)
        if found is None:
            mlir_key = (shape, dtype.mlir)
            mlir = self._ir_vectors.get(mlir_key)
            if mlir is None:
                with self.context, self.unknown:
                    mlir = self._ir_vectors[mlir_key] = open_ir.VectorType.get(shape, self.element(dtype))
            found = self._vectors[key] = TypeInfo(mlir, "vector", dtype, shape, None)
        return found

    def ref(self, shape: tuple[int, ...], dtype: DType, space: MemorySpace, element: DType | None = None) -> TypeInfo:
        """A memref in a memory space; of booleans one of i32, as Pallas has it, unless ``element`` says otherwise."""
        if element is None:
            element = i32 if dtype is i1 else dtype
        key = (shape, dtype, space, element)
        found = self._refs.get(key)
        if found is None:
            with self.context, self.unknown:
                mlir = ir.MemRefType.get(shape, self.element(element), memory_space=self.parse(space.mlir))
            found = self._refs[key] = TypeInfo(mlir, "ref", dtype, shape, space, element)
        return found

    def seen_as(self, info: TypeInfo, shape: tuple[int, ...], space: MemorySpace | None = None) -> TypeInfo:
        """A ref with another shape, or in another memory space."""
        return self.ref(shape, info.dtype, space or MemorySpace.of(info.space), info.element)

    @contextmanager
    def unregistered(self, allow: bool = True) -> Generator[None]:
        """Let ops, types and attributes of dialects that this jaxlib does not know pass."""
        before = self.context.allow_unregistered_dialects
        self.context.allow_unregistered_dialects = before or allow
        try:
            yield
        finally:
            self.context.allow_unregistered_dialects = before

    def known(self, mlir: ir.Type) -> TypeInfo | None:
        """A scalar, vector or ref that is written as ``mlir`` is, but for a memory space that is left out."""
        text = str(mlir)
        if text in _SIGNLESS:
            return self.scalar(_SIGNLESS[text])
        shaped = _SHAPED.fullmatch(text)
        element = shaped and _SIGNLESS.get(shaped[3])
        if not shaped or element is None:
            return None
        shape = tuple(DYNAMIC if s == "?" else int(s) for s in shaped[2].split("x") if s)
        if shaped[1] == "vector":
            return self.vector(shape, element)
        space = _SPACES.get(shaped[4] or "any")
        return None if space is None else self.ref(shape, element, space, element)

    def exact(self, mlir: ir.Type) -> TypeInfo:
        """The type ``mlir`` itself; of kind ``opaque`` where Python knows nothing else of it."""
        found = self.known(mlir)
        if found is not None and found.ir == mlir:
            return found
        text = str(mlir)
        found = self._opaque.get(text)
        if found is None:
            found = self._opaque[text] = TypeInfo(mlir, "opaque", opaque, (), None)
        return found

    def like(self, info: TypeInfo, dtype: DType) -> TypeInfo:
        """The same kind and shape with another element type (scalars and vectors)."""
        found = self._likes.get((info, dtype))
        if found is None:
            found = self.vector(info.shape, dtype) if info.is_vector else self.scalar(dtype)
            self._likes[info, dtype] = found
        return found

    def sliced(self, info: TypeInfo, sizes: tuple[int, ...], squeezed: tuple[bool, ...]) -> tuple[TypeInfo, TypeInfo]:
        """A slice of a ref, before and after its squeezed dimensions are dropped."""
        key = (info, sizes, squeezed)
        found = self._slices.get(key)
        if found is None:
            kept = tuple(s for s, q in zip(sizes, squeezed, strict=True) if not q)
            found = (self.seen_as(info, sizes), self.seen_as(info, kept))
            self._slices[key] = found
        return found

    def parse(self, text: str) -> ir.Attribute:
        """An attribute from its MLIR text, parsed once."""
        found = self._parsed.get(text)
        if found is None:
            found = self._parsed[text] = ir.Attribute.parse(text, self.context)
        return found

    def integer(self, value: int, bits: Literal[32, 64]) -> ir.Attribute:
        """An i32 or i64 integer attribute."""
        key = ("int", value, bits)
        found = self._attributes.get(key)
        if found is None:
            found = self._attributes[key] = ir.IntegerAttr.get(self.i32 if bits == 32 else self.i64, value)
        return found

    def string(self, value: str) -> ir.Attribute:
        """A string attribute."""
        key = ("str", value)
        found = self._attributes.get(key)
        if found is None:
            found = self._attributes[key] = ir.StringAttr.get(value, self.context)
        return found

    def boolean(self, value: bool) -> ir.Attribute:
        """A boolean attribute."""
        key = ("bool", value)
        found = self._attributes.get(key)
        if found is None:
            found = self._attributes[key] = ir.BoolAttr.get(value, self.context)
        return found

    def dense(self, values: Sequence[int], bits: Literal[32, 64]) -> ir.Attribute:
        """``array<i32: …>`` or ``array<i64: …>``."""
        key = ("dense", tuple(values), bits)
        found = self._attributes.get(key)
        if found is None:
            array = ir.DenseI32ArrayAttr if bits == 32 else ir.DenseI64ArrayAttr
            found = self._attributes[key] = array.get(list(values), self.context)
        return found

    def constant(self, value: float, sign: float, info: TypeInfo) -> dict[str, ir.Attribute]:
        """The attributes of an ``arith.constant``: a number, or a dense splat of it."""
        key = ("const", value, sign, info)
        found = self._attributes.get(key)
        if found is None:
            element = self.element(info.dtype)
            with self.context, self.unknown:
                scalar: ir.Attribute = (
                    ir.FloatAttr.get(element, value) if info.dtype.is_float else ir.IntegerAttr.get(element, int(value))
                )
                attribute = ir.DenseElementsAttr.get_splat(info.ir, scalar) if info.is_vector else scalar
            attributes: dict[str, ir.Attribute] = {"value": attribute}
            found = self._attributes[key] = attributes
        return found

    def predicates(self, numbers: dict[str, int]) -> dict[str, dict[str, ir.Attribute]]:
        """The attributes of comparisons, by the names of ``numbers``."""
        found = self._predicates.get(id(numbers))
        if found is None:
            found = {name: {"predicate": self.integer(number, 64)} for name, number in numbers.items()}
            self._predicates[id(numbers)] = found
        return found

    def named(self, *key: object) -> dict[str, ir.Attribute] | None:
        """A cached attribute dictionary (read with `named`, written with `name`)."""
        return self._attributes.get(key)

    def name(self, attributes: dict[str, ir.Attribute], *key: object) -> dict[str, ir.Attribute]:
        """Cache an attribute dictionary under ``key``."""
        self._attributes[key] = attributes
        return attributes


class _Local(threading.local):
    types: Types | None = None


_local = _Local()


def thread_types() -> Types:
    """This thread's context: contexts are never shared between threads."""
    if _local.types is None:
        _local.types = Types()
    return _local.types
