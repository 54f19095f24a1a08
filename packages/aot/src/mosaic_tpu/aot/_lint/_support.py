"""Which generation has which op for which element type.

Measured: each entry is a kernel of one op on 64×128 vectors (256×256 of a matmul), compiled for each generation with
libtpu 0.0.50.1; ``nox -s measure`` compares the compiler at hand with all of the table. What is not in it was
accepted, or was not measured. It holds for vectors: the scalar unit has ops of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from mosaic_tpu.aot.targets import TARGETS

ALL: Final = tuple(TARGETS)
_OLD: Final = ("v4", "v5e", "v5p")
_V4: Final = ("v4",)

type Refused = Mapping[str, tuple[str, ...]]


def _never(*elements: str) -> Refused:
    return dict.fromkeys(elements, ALL)


_F8: Final = ("f8E4M3FN", "f8E5M2")
_FLOATS: Final = _never(*_F8)
_SMALL: Final = _never("i16", "i8", "i4")
_BYTES: Final = _never("i8", "i4")

#: By op, ``op:detail`` where it depends on an attribute: the element types that are refused, and where. Of f16, which
#: no generation has in vectors at all, `elements` says so itself.
REFUSED: Final[Mapping[str, Refused]] = {
    **dict.fromkeys(
        (
            *(f"arith.{op}" for op in ("addf", "subf", "mulf", "divf", "minimumf", "maximumf", "negf", "cmpf")),
            *(f"math.{op}" for op in ("exp", "exp2", "log", "log1p", "log2", "sqrt", "rsqrt", "sin", "cos", "tan")),
            *(f"math.{op}" for op in ("tanh", "erf", "absf", "floor", "ceil", "round", "roundeven", "powf")),
            *(f"vector.multi_reduction:{kind}" for kind in ("maximumf", "minimumf")),
        ),
        _FLOATS,
    ),
    **dict.fromkeys(("arith.remf", "math.atan2"), _never("bf16", *_F8)),
    "math.fma": _never("f32", "bf16", *_F8),
    "tpu.reciprocal": {"bf16": _OLD},
    "vector.multi_reduction:add": _never(*_F8, "i16", "i8", "i4"),
    **dict.fromkeys(("vector.multi_reduction:maxsi", "vector.multi_reduction:minsi"), _SMALL),
    **dict.fromkeys(("arith.addi", "arith.subi", "arith.muli", "math.absi"), _BYTES),
    **dict.fromkeys(("arith.divsi", "arith.remsi", "arith.minsi", "arith.maxsi", "math.ctlz", "math.ctpop"), _SMALL),
    **{op: {"i8": _OLD, "i4": ALL} for op in ("arith.divui", "arith.remui")},
    **dict.fromkeys(("arith.minui", "arith.maxui"), _never("i32", "i16", "i8", "i4")),
    **{op: {"i8": _V4, "i4": _V4} for op in ("arith.shli", "arith.shrsi", "arith.shrui")},
    "tpu.all_reduce:sum": _never("f32", "bf16", *_F8, "i32", "i16", "i8", "i4"),
    "vector.extract": _never("bf16", *_F8, "i16", "i8", "i4"),
}

_FLOATING: Final = ("f32", "bf16", *_F8)
_WIDE: Final = ("f32", "bf16")
_NARROW: Final = ("i32", "i8", "i4")
_INTEGRAL: Final = ("i32", "i16", "i8", "i4")

type Pairs = frozenset[tuple[str, str]]


def _with_a_float(floats: tuple[str, ...], integers: tuple[str, ...]) -> Pairs:
    """Every pair that has a float in it."""
    both = (*floats, *integers)
    return frozenset((x, y) for x in both for y in both if x in floats or y in floats)


#: What the MXU multiplies, left by right, where the compiler accepts it; from the same measurement.
MATMULS: Final[Mapping[str, Pairs]] = {
    "v4": _with_a_float(_WIDE, _INTEGRAL),
    **dict.fromkeys(("v5e", "v5p", "v6e"), _with_a_float(_FLOATING, _INTEGRAL) | {("i8", "i8"), ("i4", "i4")}),
    "tpu7x": _with_a_float(_FLOATING, _NARROW) | {(x, y) for x in _NARROW for y in _NARROW if (x, y) != ("i32", "i32")},
}
#: Types that were measured; others are not judged, and f16 is by another rule.
MEASURED: Final = (*_FLOATING, "i32", "i16", "i8", "i4")

_F32_BF16: Final = frozenset(_WIDE)
_OLD_F8: Final = frozenset((*_WIDE, "f8E5M2", "f8E4M3B11FNUZ"))
_INTEGERS: Final = frozenset({("i8", "i8"), ("i4", "i4")})


def is_native(generation: str, lhs: str, rhs: str) -> bool:
    """Whether the MXU multiplies these element types as they are, without a cast before.

    It is the table that JAX publishes, ``pltpu.get_tpu_info_for_chip(…).is_matmul_supported``; a test compares.

    Example:
        >>> is_native("v6e", "i8", "i8"), is_native("tpu7x", "i8", "i8")
        (True, False)
    """
    if generation == "v4":
        return lhs in _F32_BF16 and (rhs in _F32_BF16 or rhs == "i8")
    if generation in ("v5e", "v5p", "v6e"):
        return (lhs in _OLD_F8 and rhs in _OLD_F8) or (lhs, rhs) in _INTEGERS
    return (lhs in _F32_BF16 or lhs in _F8) and (rhs in _F8 or (rhs in _F32_BF16 and lhs in _F32_BF16))
