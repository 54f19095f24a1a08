"""Operators, casts, selects, integer division, math: over dtypes and over what stands on either side."""

from __future__ import annotations

import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from conformance.cases.cheat_sheet.pairs import Arg, Pairs, smem, vmem
from mosaic_tpu.builder import DType, bf16, f8e4m3fn, f8e5m2, f16, f32, i1, i8, i16, i32, u8, u16, u32

PAIRS = Pairs("elementwise")
WORDS = (i32, u32)
FLOATS = (f32, bf16)

#: Python operators: the same function on both sides.
OPERATORS = {
    "+": ("add", lambda x, y: x + y, (*WORDS, *FLOATS)),
    "-": ("sub", lambda x, y: x - y, (*WORDS, *FLOATS)),
    "*": ("mul", lambda x, y: x * y, (*WORDS, *FLOATS)),
    "/": ("true_divide", lambda x, y: x / y, FLOATS),
    "//": ("floor_divide", lambda x, y: x // y, WORDS),
    "%": ("remainder", lambda x, y: x % y, WORDS),
    "&": ("bitwise_and", lambda x, y: x & y, WORDS),
    "|": ("bitwise_or", lambda x, y: x | y, WORDS),
    "^": ("bitwise_xor", lambda x, y: x ^ y, WORDS),
    "<<": ("left_shift", lambda x, y: x << y, WORDS),
    ">>": ("right_shift", lambda x, y: x >> y, WORDS),
    "<": ("lt", lambda x, y: x < y, (*WORDS, *FLOATS)),
    "<=": ("le", lambda x, y: x <= y, (*WORDS, *FLOATS)),
    ">": ("gt", lambda x, y: x > y, (*WORDS, *FLOATS)),
    ">=": ("ge", lambda x, y: x >= y, (*WORDS, *FLOATS)),
}
#: Functions of two operands: Pallas's text, Pallas's function, the builder's name.
FUNCTIONS = {
    "eq": ("x == y", lambda x, y: x == y, (*WORDS, *FLOATS)),
    "ne": ("x != y", lambda x, y: x != y, (*WORDS, *FLOATS)),
    "minimum": ("jnp.minimum(x, y)", jnp.minimum, (*WORDS, *FLOATS)),
    "maximum": ("jnp.maximum(x, y)", jnp.maximum, (*WORDS, *FLOATS)),
    "div": ("lax.div(x, y)", lax.div, (*WORDS, *FLOATS)),
    "rem": ("lax.rem(x, y)", lax.rem, (*WORDS, *FLOATS)),
}
#: Rows of the guide's cheat-sheet that are one function of two operands.
ROWS = {("div", "scalar-scalar"): "lax.div(a, b)", ("rem", "scalar-scalar"): "lax.rem(a, b)", ("lt", "vector-number"): "o_k < KEY_DIM"}


def _forms(dtype: DType, number: int | float) -> dict[str, tuple[dict[str, Arg], tuple[str, str]]]:
    """What stands on the left and on the right: operands, and the two names in a text."""
    vector, other, scalar, second = vmem(dtype), vmem(dtype), smem(dtype), smem(dtype)
    forms = {
        "vector-vector": ({"x": vector, "y": other}, ("x", "y")),
        "vector-number": ({"x": vector}, ("x", str(number))),
        "number-vector": ({"x": vector}, (str(number), "x")),
    }
    if dtype.bits == 32:  # narrower scalars do not exist in SMEM
        forms |= {
            "scalar-number": ({"s": scalar}, ("s", str(number))),
            "number-scalar": ({"s": scalar}, (str(number), "s")),
            "scalar-scalar": ({"s": scalar, "t": second}, ("s", "t")),
            "vector-scalar": ({"x": vector, "s": scalar}, ("x", "s")),
            "scalar-vector": ({"s": scalar, "x": vector}, ("s", "x")),
        }
    return forms


def _apply(function, names, number):
    """A function of the operands that are not numbers."""
    left, right = (n.isidentifier() for n in names)
    if left and right:
        return lambda **values: function(values[names[0]], values[names[1]])
    if left:
        return lambda **values: function(values[names[0]], number)
    return lambda **values: function(number, values[names[1]])


def _operators() -> None:
    for symbol, (name, function, dtypes) in OPERATORS.items():
        for dtype in dtypes:
            number = 2.5 if dtype.is_float else 3
            for form, (args, names) in _forms(dtype, number).items():
                if name.endswith("shift") and form.startswith("number"):
                    continue
                text = f"{names[0]} {symbol} {names[1]}"
                PAIRS.generated(
                    f"{name}-{form}-{dtype}", function, function, args, names, number, (text, text), (f"pallas.{name}",),
                    ROWS.get((name, form)),
                )  # fmt: skip


def _functions() -> None:
    for name, (shown, function, dtypes) in FUNCTIONS.items():
        for dtype in dtypes:
            number = 2.5 if dtype.is_float else 3
            for form, (args, names) in _forms(dtype, number).items():
                if name in ("div", "rem") and form in ("vector-scalar", "scalar-vector"):
                    pass
                left, right = names
                theirs = shown.replace("x", "\0").replace("y", right).replace("\0", left) if shown[0] == "x" else (
                    f"{shown.partition('(')[0]}({left}, {right})"
                )
                ours = f"b.pallas.{name}({left}, {right})"
                PAIRS.generated(f"{name}-{form}-{dtype}", function, name, args, names, number, (theirs, ours), (),
                                ROWS.get((name, form)))  # fmt: skip
