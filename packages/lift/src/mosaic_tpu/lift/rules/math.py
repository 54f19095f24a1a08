"""The math dialect."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mosaic_tpu.lift._code import Call, Node
from mosaic_tpu.lift._registry import rule
from mosaic_tpu.sim import ir

if TYPE_CHECKING:
    from mosaic_tpu.lift._writer import Writer

#: The helper of each op, and what its result is called: as in style ``idioms``, where an idiom emits it alone.
_FUNCTIONS: Final = {
    "exp": ("exp", "exp"),
    "exp2": ("math_exp2", "exp2"),
    "log": ("log", "log"),
    "log1p": ("log1p", "log1p"),
    "log2": ("log2", "log2"),
    "sqrt": ("sqrt", "sqrt"),
    "rsqrt": ("rsqrt", "rsqrt"),
    "sin": ("sin", "sine"),
    "cos": ("cos", "cosine"),
    "tan": ("tan", "tangent"),
    "tanh": ("tanh", "tanh"),
    "erf": ("erf", "erf"),
    "absf": ("absf", "size"),
    "absi": ("absi", "size"),
    "floor": ("floor", "floor"),
    "ceil": ("ceil", "ceil"),
    "round": ("round", "rounded"),
    "roundeven": ("roundeven", "rounded"),
    "ctlz": ("ctlz", "leading"),
    "ctpop": ("ctpop", "population"),
    "powf": ("powf", "power"),
    "atan2": ("atan2", "angle"),
    "fma": ("fma", "sum_of_product"),
}


def _write(w: Writer, op: ir.Operation) -> Node:
    return Call(f"b.{_FUNCTIONS[op.name.removeprefix('math.')][0]}", *[w.use(v) for v in op.operands])


for _name, (_, _called) in _FUNCTIONS.items():
    rule(f"math.{_name}", name=_called, attributes={"fastmath": "#arith.fastmath<none>"})(_write)
