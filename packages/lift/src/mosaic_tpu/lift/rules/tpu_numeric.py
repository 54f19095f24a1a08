"""The tpu dialect's numerics: conversions, packing, random bits, convolutions, and products by hand on the MXU."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from mosaic_tpu.lift._code import Call, Items, Node, Shape, String, Text
from mosaic_tpu.lift._registry import rule
from mosaic_tpu.lift._types import DTYPES, Imported
from mosaic_tpu.lift.rules._names import like
from mosaic_tpu.sim import ir

if TYPE_CHECKING:
    from mosaic_tpu.lift._writer import Writer


def number(op: ir.Operation, name: str) -> Text:
    """An integer attribute."""
    return Text(str(op.attributes.integer(name)))


def flag(op: ir.Operation, name: str) -> Text | None:
    """A keyword that is there if it is true."""
    return Text("True") if op.attributes.boolean(name) else None


def _call(w: Writer, op: ir.Operation) -> Node:
    """A call on the operands alone, of the method of the op's name."""
    return Call(f"b.{op.name.rpartition('.')[2]}", *[w.use(v) for v in op.operands])


for _name, _called in {
    "arith.mulsi_extended": "half",
    "arith.mului_extended": "half",
    "tpu.logistic": "logistic",
    "tpu.weird": "weird",
    "tpu.assume_layout": "value",
    "tpu.prng_set_seed_32": "",
}.items():
    rule(_name, name=_called)(_call)


@rule("tpu.reduce_precision", name=like(), attributes={"exponent_bits": None, "mantissa_bits": None})
def _reduce_precision(w: Writer, op: ir.Operation) -> Node:
    return Call("b.reduce_precision", w.use(op.operands[0]), number(op, "exponent_bits"), number(op, "mantissa_bits"))


@rule("tpu.stochastic_convert", name=like())
def _stochastic_convert(w: Writer, op: ir.Operation) -> Node:
    return Call("b.stochastic_convert", *[w.use(v) for v in op.operands], w.dtype(op.results[0]))


@rule("tpu.pack_elementwise", name="packed", attributes={"target_type": None},
      when=lambda op: op.attributes.text("target_type") in DTYPES)  # fmt: skip
def _pack(w: Writer, op: ir.Operation) -> Node:
    return Call("b.pack_elementwise", w.uses(op.operands), Imported(DTYPES[op.attributes.text("target_type")].name))


@rule("tpu.unpack_elementwise", name="unpacked", attributes={"source_type": None, "index": None},
      when=lambda op: op.attributes.text("source_type") in DTYPES)  # fmt: skip
def _unpack(w: Writer, op: ir.Operation) -> Node:
    packed = Imported(DTYPES[op.attributes.text("source_type")].name)
    return Call("b.unpack_elementwise", w.use(op.operands[0]), number(op, "index"), packed, w.dtype(op.results[0]))


@rule("tpu.prng_random_bits", name="bits")
def _random_bits(w: Writer, op: ir.Operation) -> Node:
    result = op.results[0]
    return Call("b.prng_random_bits", w.shape(result), *([] if result.type.element == "i32" else [w.dtype(result)]))


@rule("tpu.dynamic_gather", name="gathered", attributes={"dimensions": None})
def _dynamic_gather(w: Writer, op: ir.Operation) -> Node:
    return Call("b.dynamic_gather", *[w.use(v) for v in op.operands], Shape(op.attributes.integers("dimensions")))


# --- products by hand ------------------------------------------------------------------------------------------------


@rule(
    "tpu.matmul_push_rhs",
    name="",
    attributes={"mxu_index": None, "staging_register": None, "transpose": None},
)
def _push(w: Writer, op: ir.Operation) -> Node:
    register = number(op, "staging_register")
    more = [] if register.text == "0" else [register]
    return Call(
        "b.matmul_push_rhs", w.use(op.operands[0]), number(op, "mxu_index"), *more, transpose=flag(op, "transpose")
    )


def _staged(op: ir.Operation) -> Text | None:
    return number(op, "load_staged_rhs") if "load_staged_rhs" in op.attributes else None


@rule("tpu.matmul_acc_lhs", name="", attributes={"acc": None, "mxu_index": None, "load_staged_rhs": None})
def _acc(w: Writer, op: ir.Operation) -> Node:
    at = number(op, "acc"), number(op, "mxu_index")
    return Call("b.matmul_acc_lhs", w.use(op.operands[0]), *at, load_staged_rhs=_staged(op))


@rule("tpu.matmul_lhs_fifo", name="", attributes={"mxu_index": None, "load_staged_rhs": None})
def _lhs_fifo(w: Writer, op: ir.Operation) -> Node:
    return Call("b.matmul_lhs_fifo", w.use(op.operands[0]), number(op, "mxu_index"), load_staged_rhs=_staged(op))


@rule("tpu.matmul_pop", name="product", attributes={"acc": None, "mxu_index": None})
def _pop(w: Writer, op: ir.Operation) -> Node:
    result = op.results[0]
    return Call("b.matmul_pop", w.shape(result), w.dtype(result), number(op, "acc"), number(op, "mxu_index"))


@rule("tpu.matmul_pop_fifo", name="product", attributes={"mxu_index": None})
def _pop_fifo(w: Writer, op: ir.Operation) -> Node:
    result = op.results[0]
    return Call("b.matmul_pop_fifo", w.shape(result), w.dtype(result), number(op, "mxu_index"))


# --- convolutions ----------------------------------------------------------------------------------------------------

_SIDE: Final = r"(\d+), (\d+), \[([\d, ]*)\]"
_CONV: Final = re.compile(rf"#tpu\.conv_dimension_numbers<{_SIDE}, {_SIDE}, {_SIDE}>")
_PER_SPACE: Final = ("window_strides", "lhs_dilation", "rhs_dilation")
_LETTERS: Final = "DHW"


def _layouts(op: ir.Operation) -> list[str] | None:
    """JAX's letters for the dimension numbers."""
    found = _CONV.fullmatch(op.attributes.text("dimension_numbers"))
    if found is None:
        return None
    groups, layouts = found.groups(), list[str]()
    for first, letters in ((0, "NC"), (3, "IO"), (6, "NC")):
        space = [int(n) for n in groups[first + 2].split(",") if n.strip()]
        places = [int(groups[first]), int(groups[first + 1]), *space]
        if len(space) > len(_LETTERS) or sorted(places) != list(range(len(places))):
            return None
        named = dict(zip(places, letters + _LETTERS[len(_LETTERS) - len(space) :], strict=True))
        layouts.append("".join(named[d] for d in range(len(places))))
    return layouts


@rule(
    "tpu.conv",
    name="convolved",
    attributes={
        "dimension_numbers": None,
        "precision": None,
        "padding": None,
        "window_reversal": None,
        "feature_group_count": None,
        "batch_group_count": None,
        **dict.fromkeys(_PER_SPACE),
    },
    when=lambda op: _layouts(op) is not None,
)
def _conv(w: Writer, op: ir.Operation) -> Node:
    attributes = op.attributes
    layouts = Items("(", [String(t) for t in _layouts(op) or ()], ")")
    how: dict[str, Node | None] = {}
    for name in _PER_SPACE:
        sizes = attributes.integers(name)
        how[name] = None if set(sizes) <= {1} else Shape(sizes)
    pads = attributes.integers("padding")
    if any(pads):
        pairs: list[Node] = [Shape((low, high)) for low, high in zip(pads[::2], pads[1::2], strict=True)]
        how["padding"] = Items("[", pairs, "]")
    reversal = attributes.integers("window_reversal")
    if any(reversal):
        how["window_reversal"] = Items("[", [Text(str(bool(r))) for r in reversal], "]")
    for name in ("feature_group_count", "batch_group_count"):
        how[name] = None if attributes.integer(name, 1) == 1 else number(op, name)
    precision = re.fullmatch(r"#tpu\.contract_precision<(\w+)>", attributes.text("precision"))
    how["precision"] = None if precision is None else String(precision[1])
    return Call("b.conv", *[w.use(v) for v in op.operands], layouts, **how)
