"""``tpu.matmul`` and ``tpu.conv``: f32 operands are rounded to bf16 unless the precision says otherwise."""

from __future__ import annotations

from typing import Any

import numpy as np

from mosaic_tpu.sim._module import Operation
from mosaic_tpu.sim._types import Type, integers, split
from mosaic_tpu.sim.errors import UnsupportedOpError
from mosaic_tpu.sim.xla._elements import Array, dtype_of, is_static, narrow, widen
from mosaic_tpu.sim.xla._rules import rule
from mosaic_tpu.sim.xla._translation import Translation
from mosaic_tpu.sim.xla._untyped import lax

Dims = tuple[int, ...]


def operand(x: Array, op: Operation) -> Array:
    """What the MXU multiplies: f32 rounded to bf16, kept in f32 where products of bf16 are exact."""
    if "fp32" in op.attributes.text("precision") or x.dtype != np.float32:
        return widen(x)
    return lax.reduce_precision(x, 8, 7)


def _numbers(op: Operation) -> list[Dims]:
    """Contracted dimensions of each side, then batch dimensions; the result has JAX's order, or MLIR refuses it."""
    text = op.attributes.text("dimension_numbers")
    if text:
        left, right, _, _, _, *batch = (integers(part) for part in split(text[text.index("<") + 1 : text.rindex(">")]))
        return [left, right, *batch]
    rank = len(op.operands[0].type.shape)
    batch = tuple(range(rank - 2))
    left = rank - 2 if op.attributes.boolean("transpose_lhs") else rank - 1
    right = rank - 1 if op.attributes.boolean("transpose_rhs") else rank - 2
    return [(left,), (right,), batch, batch]


@rule("tpu.matmul")
def _matmul(t: Translation, op: Operation) -> Any:
    lhs, rhs, _ = op.operands
    left, right, left_batch, right_batch = _numbers(op)
    a, b = t.array(lhs), t.array(rhs)
    of = op.result.type
    if of.is_float:
        made = lax.dot_general(
            operand(a, op),
            operand(b, op),
            ((left, right), (left_batch, right_batch)),
            precision=lax.Precision.HIGHEST,
            preferred_element_type=np.float32,
        )
    else:
        dims = ((left, right), (left_batch, right_batch))
        made = lax.dot_general(_bytes(a), _bytes(b), dims, preferred_element_type=np.int32)
    return _accumulated(t, op, made, of)


def _bytes(x: Array) -> Array:
    """Integers that XLA's CPU code can multiply: it has no products of four or two bits."""
    return x.astype(np.int8) if x.dtype.name in ("int4", "int2") else x


def _pairs(flat: Dims) -> list[tuple[int, int]]:
    return list(zip(flat[::2], flat[1::2], strict=True))


def _accumulated(t: Translation, op: Operation, made: Array, of: Type) -> Array:
    acc = t.get(op.operands[2])
    dtype = dtype_of(of.element)
    if not (is_static(acc) and float(acc) == 0):
        start = t.array(op.operands[2])
        made = lax.add(made, widen(start) if of.is_float else start.astype(made.dtype))
    return narrow(made, dtype) if made.dtype != dtype else made


@rule("tpu.conv")
def _convolution(t: Translation, op: Operation) -> Any:
    a, b = (t.array(v) for v in op.operands[:2])
    of = op.result.type
    numbers = _convolution_numbers(op.attributes.text("dimension_numbers"))
    names = op.attributes.integers
    if any(names("window_reversal")):
        raise UnsupportedOpError("tpu.conv with window_reversal", op=op.name, hint='run it with engine="numpy"')
    made = lax.conv_general_dilated(
        operand(a, op) if of.is_float else _bytes(a),
        operand(b, op) if of.is_float else _bytes(b),
        names("window_strides"),
        _pairs(names("padding")),
        names("lhs_dilation"),
        names("rhs_dilation"),
        lax.ConvDimensionNumbers(*numbers),
        op.attributes.integer("feature_group_count", 1),
        op.attributes.integer("batch_group_count", 1),
        precision=lax.Precision.HIGHEST,
        preferred_element_type=np.float32 if of.is_float else np.int32,
    )
    return _accumulated(t, op, made, of)


def _convolution_numbers(text: str) -> tuple[Dims, Dims, Dims]:
    """Batch, feature and spatial dimensions of input and output; of the kernel, output and input features first."""
    fields = [integers(part) for part in split(text[text.index("<") + 1 : text.rindex(">")])]
    batch, feature, spatial, of_input, of_output, of_kernel, to_batch, to_feature, to_spatial = fields
    return batch + feature + spatial, of_output + of_input + of_kernel, to_batch + to_feature + to_spatial
