"""Element types: the field's names, one object each, compared by identity.

``i32``, ``bf16``, ``f8e4m3fn`` … are `DType` objects. Mosaic's integers are signless; ``u8``, ``u16`` and
``u32`` lower to the same MLIR types as ``i8``, ``i16`` and ``i32`` but make the Pallas idioms pick the
unsigned op (``arith.divui``, ``arith.shrui``, ``arith.extui``), as JAX's dtype does.
"""

from __future__ import annotations

from typing import Final, Literal

import ml_dtypes
import numpy as np

from mosaic_tpu.builder.errors import DTypeError

Kind = Literal["int", "uint", "bool", "float", "index", "semaphore", "opaque"]


class DType:
    """An element type.

    Attributes:
        name: the field's name, ``"bf16"``.
        kind: ``"int"``, ``"uint"``, ``"bool"``, ``"float"``, ``"index"``, ``"semaphore"`` or ``"opaque"``.
        bits: width of one element in bits; 0 for ``index`` and semaphores.
        mlir: the MLIR spelling of the type.
        numpy: the NumPy dtype that holds it, or ``None``.

    Example:
        >>> from mosaic_tpu.builder import bf16
        >>> bf16, bf16.bits, bf16.is_float
        (bf16, 16, True)
    """

    __slots__ = ("bits", "is_float", "is_int", "is_unsigned", "kind", "mlir", "name", "numpy")

    def __init__(self, name: str, kind: Kind, bits: int, mlir: str, numpy: np.dtype[np.generic] | None) -> None:
        self.name: Final = name
        self.kind: Final = kind
        self.bits: Final = bits
        self.mlir: Final = mlir
        self.numpy: Final = numpy
        self.is_float: Final = kind == "float"
        self.is_int: Final = kind in ("int", "uint", "bool")
        self.is_unsigned: Final = kind == "uint"

    @property
    def packing(self) -> int:
        """How many elements share one 32-bit word: 1 for f32, 2 for bf16, 4 for int8."""
        return max(1, 32 // self.bits) if self.bits else 1

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return (as_dtype, (self.name,))


def _np(name: str) -> np.dtype[np.generic]:
    return np.dtype(getattr(ml_dtypes, name, name))


i1: Final = DType("i1", "bool", 1, "i1", _np("bool"))
i4: Final = DType("i4", "int", 4, "i4", _np("int4"))
i8: Final = DType("i8", "int", 8, "i8", _np("int8"))
i16: Final = DType("i16", "int", 16, "i16", _np("int16"))
i32: Final = DType("i32", "int", 32, "i32", _np("int32"))
i64: Final = DType("i64", "int", 64, "i64", _np("int64"))
u8: Final = DType("u8", "uint", 8, "i8", _np("uint8"))
u16: Final = DType("u16", "uint", 16, "i16", _np("uint16"))
u32: Final = DType("u32", "uint", 32, "i32", _np("uint32"))
f16: Final = DType("f16", "float", 16, "f16", _np("float16"))
bf16: Final = DType("bf16", "float", 16, "bf16", _np("bfloat16"))
f32: Final = DType("f32", "float", 32, "f32", _np("float32"))
f64: Final = DType("f64", "float", 64, "f64", _np("float64"))
f8e4m3fn: Final = DType("f8e4m3fn", "float", 8, "f8E4M3FN", _np("float8_e4m3fn"))
f8e5m2: Final = DType("f8e5m2", "float", 8, "f8E5M2", _np("float8_e5m2"))
f8e4m3b11fnuz: Final = DType("f8e4m3b11fnuz", "float", 8, "f8E4M3B11FNUZ", _np("float8_e4m3b11fnuz"))
index: Final = DType("index", "index", 0, "index", None)
semaphore: Final = DType("semaphore", "semaphore", 0, "!tpu.semaphore", None)
dma_semaphore: Final = DType("dma_semaphore", "semaphore", 0, "!tpu.dma_semaphore", None)
#: Of values whose MLIR type the builder does not know; it names no type, and so it is in no list.
opaque: Final = DType("opaque", "opaque", 0, "", None)

ALL: Final[tuple[DType, ...]] = (
    i1, i4, i8, i16, i32, i64, u8, u16, u32,
    f16, bf16, f32, f64, f8e4m3fn, f8e5m2, f8e4m3b11fnuz,
    index, semaphore, dma_semaphore,
)  # fmt: skip

_BY_NAME: Final[dict[str, DType]] = {d.name: d for d in ALL}
_BY_NUMPY: Final[dict[np.dtype[np.generic], DType]] = {d.numpy: d for d in ALL if d.numpy is not None}


def as_dtype(value: object) -> DType:
    """The `DType` for a `DType`, a name or anything NumPy takes as a dtype.

    Raises:
        DTypeError: nothing of that name exists on a TPU.

    Example:
        >>> import numpy as np
        >>> as_dtype(np.float32), as_dtype("bf16"), as_dtype("bfloat16")
        (f32, bf16, bf16)
    """
    if isinstance(value, DType):
        return value
    if isinstance(value, str) and value in _BY_NAME:
        return _BY_NAME[value]
    found = None
    # jnp.float32 is neither a type nor a dtype: it has one.
    named = value if isinstance(value, str | type | np.dtype) else getattr(value, "dtype", None)  # pyright: ignore[reportUnknownVariableType]
    if isinstance(named, str | type | np.dtype) and not isinstance(value, np.ndarray | np.generic):
        try:
            found = _BY_NUMPY.get(np.dtype(named))  # pyright: ignore[reportUnknownArgumentType]
        except (TypeError, ValueError, SyntaxError):  # NumPy parses strings
            found = None
    if found is None:
        raise DTypeError(f"{value!r} is not an element type", op="as_dtype", hint=f"use one of {', '.join(_BY_NAME)}")
    return found
