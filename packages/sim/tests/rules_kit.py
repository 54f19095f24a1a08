"""What the tests of rules share: a kernel around some lines of MLIR, simulated on some arrays."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from typing import Any, Final

import ml_dtypes
import numpy as np

from mosaic_tpu.sim import Module, Report, read, simulate
from mosaic_tpu.sim.errors import (
    HazardError,
    KernelAssertionError,
    OutOfBoundsError,
    UndefinedResultError,
    UnsupportedOpError,
)

type Array = np.ndarray[Any, Any]

ELEMENTS = {
    "bool": "i1",
    "int4": "i4",
    "int8": "i8",
    "int16": "i16",
    "int32": "i32",
    "int64": "i64",
    "float16": "f16",
    "bfloat16": "bf16",
    "float32": "f32",
    "float8_e5m2": "f8E5M2",
    "float8_e4m3fn": "f8E4M3FN",
}
DTYPES: dict[str, Any] = {e: np.dtype(getattr(ml_dtypes, n, None) or getattr(np, n)) for n, e in ELEMENTS.items()}


def vector(shape: tuple[int, ...], element: str) -> str:
    """The MLIR type of a vector."""
    return f"vector<{''.join(f'{n}x' for n in shape)}{element}>"


def memref(shape: tuple[int, ...], element: str, space: str = "vmem") -> str:
    """The MLIR type of a memref."""
    return f"memref<{''.join(f'{n}x' for n in shape)}{element}, #tpu.memory_space<{space}>>"


def kernel(arguments: list[str], lines: str, more: str = "") -> str:
    """A module with one kernel of these arguments, and maybe more functions."""
    declared = ", ".join(arguments)
    return f"module {{\nfunc.func @k({declared}) {{\n%zero = arith.constant 0 : index\n{lines}\nreturn\n}}\n{more}}}"


def apply(lines: str, *arrays: Any, out: tuple[tuple[int, ...], str] | str, **options: Any) -> Any:
    """Run lines on values ``%a``, ``%b`` …, and give back ``%r``.

    An array is loaded as a vector from ``%a_ref``, a number as a scalar of its dtype; ``out`` is the shape and element
    type of ``%r``, the element type alone for a scalar.
    """
    arguments: list[str] = []
    loads: list[str] = []
    given: list[Array] = []
    for name, array in zip("abcdefgh", map(np.asarray, arrays), strict=False):
        element = ELEMENTS[array.dtype.name]
        if array.shape:
            zeros = ", ".join(["%zero"] * array.ndim)
            type_ = memref(array.shape, element)
            loads.append(f"%{name} = vector.load %{name}_ref[{zeros}] : {type_}, {vector(array.shape, element)}")
        else:
            type_ = memref((1,), element, "smem")
            loads.append(f"%{name} = memref.load %{name}_ref[%zero] : {type_}")
        arguments.append(f"%{name}_ref: {type_}")
        given.append(array if array.shape else array.reshape(1))
    if isinstance(out, str):
        type_ = memref((1,), out, "smem")
        stores = f"memref.store %r, %o[%zero] : {type_}"
        spec = ((1,), DTYPES[out])
    else:
        shape, element = out
        type_ = memref(shape, element)
        zeros = ", ".join(["%zero"] * len(shape))
        stores = f"vector.store %r, %o[{zeros}] : {type_}, {vector(shape, element)}"
        spec = (shape, DTYPES[element])
    text = kernel([*arguments, f"%o: {type_}"], "\n".join([*loads, lines, stores]))
    made = both(text, given, [spec], options).outputs[0]
    return made[0] if isinstance(out, str) else made


def run(
    lines: str, arguments: list[str], arrays: list[Array], outputs: list[Any], more: str = "", **options: Any
) -> Any:
    """Run a kernel with its arguments written out; the report."""
    return both(kernel(arguments, lines, more), arrays, outputs, options)


# --- the fast engine -------------------------------------------------------------------------------------------------

#: The ops of these tests that the fast engine refuses: their tests see the reference engine alone.
REFUSED: Final = frozenset(
    {
        "tpu.matmul_acc_lhs",
        "tpu.matmul_lhs_fifo",
        "tpu.matmul_pop",
        "tpu.matmul_pop_fifo",
        "tpu.matmul_push_rhs",
        "tpu.prng_random_bits",
        "tpu.prng_set_seed_32",
    }
)
#: Ops whose float sums (or products) are made in an order of the engine's own.
_SUMS: Final = re.compile(r"tpu\.matmul|tpu\.conv|<add>|<mul>|<sum>")
#: Functions that NumPy and XLA each compute in f32, to an ulp or a few.
_APPROXIMATE: Final = re.compile(
    r"tpu\.logistic|math\.(?!abs|ceil|floor|round|trunc|copysign|clampf|is|ct|ipowi|fma|sqrt)"
)
_finfo: Final[Any] = ml_dtypes.finfo
#: Hazards that the fast engine looks for as well.
_FLAGGED: Final = (UndefinedResultError, OutOfBoundsError, KernelAssertionError)


def both(text: str, given: Sequence[Array], spec: Sequence[Any], options: dict[str, Any]) -> Report:
    """The reference engine's report, after the fast engine agreed: the same outputs, or the same hazard."""
    shared = options.keys() <= {"checks"}
    try:
        report = simulate(_module(text), *given, outputs=spec, **options)
    except _FLAGGED as hazard:
        found = _fast(text, given, spec, options) if shared else None
        assert found is None or (type(found), getattr(found, "op", "")) == (type(hazard), hazard.op), found
        raise
    if shared:
        agree(report.outputs, text, given, spec, **options)
    return report


@functools.lru_cache(maxsize=4)
def _module(text: str) -> Module:
    """A module that is read and compiled once for all the numbers it is run on."""
    return read(text)


def agree(made: Sequence[Array], text: str, given: Sequence[Array], spec: Sequence[Any], **options: Any) -> None:
    """Check the reference engine's outputs of a module against the fast engine's, unless that refuses it."""
    found = _fast(text, given, spec, options)
    if isinstance(found, HazardError):
        raise found
    if found is None:
        return
    for x, y in zip(made, found, strict=True):
        assert (x.dtype, x.shape) == (y.dtype, y.shape)
        relative, absolute = _tolerance(text, given, x)
        np.testing.assert_allclose(_flushed(y), _flushed(x), relative, absolute, err_msg=f"the fast engine:\n{text}")


def _fast(text: str, given: Sequence[Array], spec: Sequence[Any], options: dict[str, Any]) -> Any:
    """The fast engine's outputs, or the hazard it flags; nothing where it has no rule."""
    try:
        return simulate(_module(text), *given, outputs=spec, engine="xla", **options).outputs
    except HazardError as hazard:
        return hazard
    except UnsupportedOpError as error:
        assert error.op in REFUSED, error
        return None


def _flushed(x: Array) -> Array:
    """As f64 (integers as they are), without the denormals of f32, which XLA's CPU code takes for zeros."""
    if not _is_float(x):
        return x.astype(np.int64)
    wide = x.astype(np.float64)
    return np.where(np.abs(wide) < np.finfo(np.float32).smallest_normal, 0, wide)


def _is_float(x: Array) -> bool:
    return "float" in x.dtype.name


def _tolerance(text: str, given: Sequence[Array], made: Array) -> tuple[float, float]:
    """Relative and absolute: none where both engines round once per op, as they do unless a function is approximate.

    A sum of n terms rounds n times by half an ulp of what it has so far, taken to be as large as the largest result.
    """
    if not _is_float(made):
        return 0, 0
    wide = made.astype(np.float64)
    half_ulp = 2.0**-24
    relative = absolute = 0.0
    if _SUMS.search(text):
        terms = max((n for a in given for n in a.shape), default=1)
        absolute = 2 * terms * half_ulp * float(np.max(np.abs(wide), initial=0, where=np.isfinite(wide)))
    if _APPROXIMATE.search(text):
        relative = 1e-6
    if (relative or absolute) and made.dtype != np.float32:
        relative = float(_finfo(made.dtype).eps)  # to the neighbour, where f32 is on the other side of a tie
    return relative, absolute


# --- numbers ---------------------------------------------------------------------------------------------------------


def wrap(value: int, bits: int) -> int:
    """Two's complement."""
    half = 1 << (bits - 1)
    return (value + half) % (1 << bits) - half


def equal(a: Any, b: Any) -> None:
    """The same values, NaN for NaN, of the same shape."""
    np.testing.assert_array_equal(np.asarray(a).astype(np.float64), np.asarray(b).astype(np.float64))
    assert np.shape(a) == np.shape(b)
