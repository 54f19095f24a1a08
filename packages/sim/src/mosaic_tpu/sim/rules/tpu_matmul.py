"""Matrix products and convolutions."""

from __future__ import annotations

from mosaic_tpu.sim._emit import Emitter, rule
from mosaic_tpu.sim._module import Operation
from mosaic_tpu.sim._products import Conv, conv_of, convolve, dot_of, multiply, plain_dot
from mosaic_tpu.sim.rules._elementwise import dtype


@rule("tpu.matmul")
def _matmul(e: Emitter, op: Operation) -> None:
    a, b, _ = op.operands
    text = op.attributes.text("dimension_numbers")
    transposed = op.attributes.boolean("transpose_lhs"), op.attributes.boolean("transpose_rhs")
    dot = e.constant_object(dot_of(text) if text else plain_dot(*transposed))
    _accumulated(e, op, f"{e.runtime(multiply)}({e.full(a)}, {e.full(b)}, {dot}, {_single_pass(op)})")


@rule("tpu.conv")
def _conv(e: Emitter, op: Operation) -> None:
    a, b, _ = op.operands
    numbers = op.attributes.integers
    conv: Conv = conv_of(
        op.attributes.text("dimension_numbers"),
        numbers("window_strides"),
        numbers("padding"),
        (numbers("lhs_dilation"), numbers("rhs_dilation")),
        numbers("window_reversal"),
        (op.attributes.integer("feature_group_count", 1), op.attributes.integer("batch_group_count", 1)),
    )
    name = e.constant_object(conv)
    _accumulated(e, op, f"{e.runtime(convolve)}({e.full(a)}, {e.full(b)}, {name}, {_single_pass(op)})")


def _single_pass(op: Operation) -> bool:
    """Whether f32 operands are rounded to bf16."""
    return "fp32" not in op.attributes.text("precision")


def _accumulated(e: Emitter, op: Operation, product: str) -> None:
    """A product in f32, or exact integers in f64, added to its start value."""
    initial = op.operands[2]
    result = op.result.type
    name = dtype(e, result)
    if not result.is_float:
        product = f"{product}.astype(np.int64).astype({name})"
    elif not any(o.type.is_float for o in op.operands[:2]):
        product = f"{product}.astype(np.float32)"
    known = e.known(initial)
    if known is None or known != 0:
        start = e.text(initial)
        product = f"{product} + " + (f"{start}.astype(np.float32)" if result.is_float else start)
    if result.is_float and result.element != "f32":
        product = f"({product}).astype({name})"
    e.define(op.result, product)
