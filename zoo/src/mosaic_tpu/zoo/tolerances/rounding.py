"""How far rounding may carry a result: bounds from dtypes and reduction lengths, for the kernels to be held to.

A rounding to a type of unit roundoff u changes x by u |x| at most: u is 2⁻⁸ for bf16, 2⁻¹¹ for f16, 2⁻²⁴ for f32,
2⁻⁴ for f8 e4m3 and 2⁻³ for f8 e5m2. Many roundings do not add up in the worst way. Where their errors are independent
and centred, the sum of errors within ±cᵢ exceeds λ √Σcᵢ² with a probability of 2 exp(-λ²/2) at most (Hoeffding), which
for λ = 6 is 3·10⁻⁸: once in 300 tables of 100,000 elements. So a bound here is λ times the root of a sum of squares,
each term the largest change that one rounding makes in the result, to first order.
"""

from __future__ import annotations

from typing import Any, Final, cast

import ml_dtypes
import numpy as np

from mosaic_tpu.zoo.tolerances._expected import Float64

_finfo: Final = cast("Any", ml_dtypes.finfo)
#: Deviations allowed, see above.
LAMBDA: Final = 6.0
#: Unit roundoff of what the matrix unit takes, and of what it adds up in.
BF16: Final = 2.0**-8
F32: Final = 2.0**-24


def unit_roundoff(dtype: Any) -> float:
    """The largest relative change that rounding to this type makes; 0 for integers, which are exact here."""
    kind = np.dtype(dtype)
    return 0.0 if np.issubdtype(kind, np.integer) or "int" in kind.name else float(_finfo(kind).eps) / 2


def fits_bf16(dtype: Any) -> bool:
    """Whether bf16 holds every number of this type, so that the matrix unit takes it unrounded."""
    return np.dtype(dtype).name not in ("float32", "float16")


def spread(squares: Float64) -> Float64:
    """The bound for independent errors, from the sum of their squares."""
    made = np.sqrt(squares)
    made *= LAMBDA
    return made


def stored(value: Float64, tolerance: Float64 | float, dtype: Any) -> Float64:
    """The tolerance of a value after it is rounded to the type it is stored in; numbers below it become subnormal."""
    if not (roundoff := unit_roundoff(dtype)):
        return np.broadcast_to(np.asarray(tolerance, np.float64), value.shape)
    smallest = float(_finfo(np.dtype(dtype)).smallest_subnormal)
    made = np.abs(value)  # in place: a result may be large
    made += tolerance
    made *= roundoff
    made += tolerance
    made += smallest / 2
    return made
