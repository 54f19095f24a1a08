"""Matrix products as the MXU computes them."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from mosaic_tpu.sim import _runtime as runtime
from mosaic_tpu.sim._memory import Array


@dataclass(frozen=True)
class Dot:
    """Which dimensions a product contracts, batches and keeps, as ``jax.lax.dot_general`` says it."""

    lhs_contract: tuple[int, ...]
    rhs_contract: tuple[int, ...]
    lhs_free: tuple[int, ...]
    rhs_free: tuple[int, ...]
    order: tuple[int, ...]
    lhs_batch: tuple[int, ...]
    rhs_batch: tuple[int, ...]


def dot_of(text: str) -> Dot:
    """The dimension numbers of the tpu dialect."""
    groups = [tuple(int(n) for n in re.findall(r"\d+", part)) for part in re.findall(r"\[([^\]]*)\]", text)]
    return Dot(*groups)


def product(a: Array, b: Array, dot: Dot) -> Array:
    """The product of two arrays of one dtype, in the order the dimension numbers say."""
    if not dot.lhs_batch and a.ndim == b.ndim == 2 and dot.order == (0, 0, 1, dot.rhs_free[0]):
        x = a if dot.lhs_contract == (1,) else a.T
        return x @ (b if dot.rhs_contract == (0,) else b.T)
    x = a.transpose(dot.lhs_batch + dot.lhs_free + dot.lhs_contract)
    y = b.transpose(dot.rhs_batch + dot.rhs_contract + dot.rhs_free)
    batch = x.shape[: len(dot.lhs_batch)]
    rows = x.shape[len(batch) : len(batch) + len(dot.lhs_free)]
    columns = y.shape[y.ndim - len(dot.rhs_free) :]
    depth = int(np.prod(x.shape[len(batch) + len(rows) :], dtype=np.int64))
    flat = np.matmul(
        x.reshape(*batch, int(np.prod(rows, dtype=np.int64)), depth),
        y.reshape(*batch, depth, int(np.prod(columns, dtype=np.int64))),
    )
    made = flat.reshape(*batch, *rows, *columns)
    # The order names (side, dimension) pairs; what was made is batch, free of lhs, free of rhs.
    have = [(0, d) for d in dot.lhs_batch] + [(0, d) for d in dot.lhs_free] + [(1, d) for d in dot.rhs_free]
    pairs = list(zip(dot.order[::2], dot.order[1::2], strict=True))
    return made.transpose([have.index(p) for p in pairs])


def plain_dot(transpose_lhs: bool, transpose_rhs: bool) -> Dot:
    """The dimension numbers of a product of matrices."""
    left, right = (0, 1) if transpose_lhs else (1, 0), (1, 0) if transpose_rhs else (0, 1)
    return Dot((left[0],), (right[0],), (left[1],), (right[1],), (0, left[1], 1, right[1]), (), ())


def multiply(a: Array, b: Array, dot: Dot, single_pass: bool) -> Array:
    """A matrix product as the MXU computes it: exact products, sums in f32; integers in f64, which is exact."""
    return product(*_operands(a, b, single_pass), dot)


def _operands(a: Array, b: Array, single_pass: bool) -> tuple[Array, Array]:
    if is_integer(a) and is_integer(b):
        return a.astype(np.float64), b.astype(np.float64)
    return _operand(a, single_pass), _operand(b, single_pass)


def is_integer(x: Array) -> bool:
    """Whether an array holds integers, of less than a byte too."""
    return x.dtype.kind in "iub" or x.dtype.name.startswith(("int", "uint"))


def _operand(x: Array, single_pass: bool) -> Array:
    if x.dtype == np.float32:
        return runtime.rounded_bf16(x) if single_pass else x
    return x.astype(np.float32)


# --- convolutions ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Conv:
    """A convolution, as ``jax.lax.conv_general_dilated`` says it.

    Attributes:
        lhs: batch, feature and spatial dimensions of the left operand.
        rhs: input feature, output feature and spatial dimensions of the right one.
        out: batch, feature and spatial dimensions of the result.
        strides: of the window, by spatial dimension.
        padding: low and high, by spatial dimension.
        dilation: of the left and right operands.
        reversal: whether the window is reversed, by spatial dimension.
        groups: of features, and of the batch.
    """

    lhs: tuple[int, ...]
    rhs: tuple[int, ...]
    out: tuple[int, ...]
    strides: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    dilation: tuple[tuple[int, ...], tuple[int, ...]]
    reversal: tuple[int, ...]
    groups: tuple[int, int]


def conv_of(
    text: str,
    strides: tuple[int, ...],
    padding: tuple[int, ...],
    dilation: tuple[tuple[int, ...], tuple[int, ...]],
    reversal: tuple[int, ...],
    groups: tuple[int, int],
) -> Conv:
    """From the attributes of the tpu dialect."""
    numbers = [int(n) for n in re.findall(r"\d+", text)]
    rank = len(numbers) // 3
    lhs, rhs, out = (tuple(numbers[i * rank : (i + 1) * rank]) for i in range(3))
    pairs = tuple(zip(padding[::2], padding[1::2], strict=True))
    return Conv(lhs, rhs, out, strides, pairs, dilation, reversal, groups)


def convolve(a: Array, b: Array, conv: Conv, single_pass: bool) -> Array:
    """A convolution with the arithmetic of `multiply`."""
    left, right = _operands(a, b, single_pass)
    x, w = left.transpose(conv.lhs), right.transpose(conv.rhs)
    features, batches = conv.groups
    if batches > 1:
        parts = zip(np.split(x, batches, 0), np.split(w, batches, 1), strict=True)
    else:
        parts = zip(np.split(x, features, 1), np.split(w, features, 1), strict=True)
    made = np.concatenate([_convolved(u, v, conv) for u, v in parts], axis=1)
    return made.transpose(np.argsort(conv.out))


def _convolved(x: Array, w: Array, conv: Conv) -> Array:
    """Batch, feature and space of one group: a matrix product for each place in the window."""
    x = _padded(x, conv)
    w = w[(slice(None), slice(None), *(slice(None, None, -1 if r else 1) for r in conv.reversal))]
    window = w.shape[2:]
    reach = [(k - 1) * d + 1 for k, d in zip(window, conv.dilation[1], strict=True)]
    sizes = [max(0, (n - r) // s + 1) for n, r, s in zip(x.shape[2:], reach, conv.strides, strict=True)]
    total = np.zeros((x.shape[0], *sizes, w.shape[1]), x.dtype)
    for place in np.ndindex(*window):
        starts = [k * d for k, d in zip(place, conv.dilation[1], strict=True)]
        taken = tuple(slice(k, k + n * s, s) for k, n, s in zip(starts, sizes, conv.strides, strict=True))
        total += np.moveaxis(x[(slice(None), slice(None), *taken)], 1, -1) @ w[(slice(None), slice(None), *place)]
    return np.moveaxis(total, -1, 1)


def _padded(x: Array, conv: Conv) -> Array:
    """With zeros between its elements and around them; negative padding crops."""
    for axis, ((low, high), step) in enumerate(zip(conv.padding, conv.dilation[0], strict=True), 2):
        size = max(0, (x.shape[axis] - 1) * step + 1)
        wide = np.zeros((*x.shape[:axis], size, *x.shape[axis + 1 :]), x.dtype)
        wide[(slice(None),) * axis + (slice(None, None, step),)] = x
        around = [(0, 0)] * x.ndim
        around[axis] = (max(low, 0), max(high, 0))
        wide = np.pad(wide, around)
        crop = slice(max(-low, 0), wide.shape[axis] - max(-high, 0))
        x = wide[(slice(None),) * axis + (crop,)]
    return x
