"""Softmax attention of one head in float64, and how far a kernel's roundings may carry its output."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from mosaic_tpu.zoo.tolerances._expected import Expected, Float64
from mosaic_tpu.zoo.tolerances.rounding import BF16, F32, LAMBDA, spread, stored, unit_roundoff

#: Of bf16, of either sign: what weights are rounded to.
_SMALLEST: Final = 2.0**-133


@dataclass(frozen=True)
class Options:
    """What is done to ``q kᵀ``, and where a kernel rounds.

    Attributes:
        scale: factor of the logits.
        soft_cap: bound c of ``c · tanh(x / c)``.
        mask: added to the logits of hidden keys.
        rounds_q: whether q is rounded to bf16, because it was not bf16 before; `rounds_k` and `rounds_v` likewise.
        out_dtype: of the output.
        running: keys a block, where the output is kept in `out_dtype` from block to block; 0 where it is kept in f32.
    """

    scale: float = 1.0
    soft_cap: float | None = None
    mask: float = -np.inf
    rounds_q: bool = False
    rounds_k: bool = False
    rounds_v: bool = False
    out_dtype: Any = np.float32
    running: int = 0


def attention(
    q: Float64, k: Float64, v: Float64, hidden: NDArray[np.bool_], options: Options, bias: Float64 | float = 0.0
) -> Expected:
    """``softmax(cap(scale (q kᵀ + bias)) + mask) v``, the mask for hidden keys, with ``q [T, D]`` and ``k, v [J, D]``.

    The tolerance. With p the weights and o the output, oₑ = Σⱼ pⱼ vⱼₑ. To first order, in each query,

    - rounding the weights to bf16 for the product with v changes oₑ by 2⁻⁸ pⱼ vⱼₑ for each j, rounding v as much;
    - changing logit j by ε changes oₑ by ε gⱼ pⱼ (vⱼₑ - oₑ), with g the derivative of cap. Rounding k changes it by
      2⁻⁸ scale q_d kⱼ_d for each j and d. Rounding q does the same, but one rounding of q_d changes all logits
      together: the changes are summed over j before they are squared;
    - f32 adds little: each logit has D products and a few ops, each weight an exponential, sums run over J keys and are
      rescaled for every block of keys; 2⁻²⁴ relative each, taken as λ √(D + J) + 16 + 4 max|x| of them;
    - a weight below the smallest normal number is rounded to a multiple of bf16's smallest one, 2⁻¹³³;
    - at last, the output is rounded to its type. Where it is stored between blocks, the output of the keys so far is
      rounded each time, and weighs as much as those keys in the end.
    """
    products = q @ k.T
    logits = options.scale * (products + bias)
    slope = np.ones_like(logits)
    if options.soft_cap is not None:
        bounded = np.tanh(logits / options.soft_cap)
        logits, slope = options.soft_cap * bounded, 1 - bounded**2
    logits = np.where(hidden, logits + options.mask, logits)
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    p = weights / weights.sum(axis=1, keepdims=True)
    o = p @ v

    roundings = 1 + options.rounds_v
    of_weights = roundings * BF16**2 * (p**2 @ v**2)
    of_logits = np.zeros_like(o)
    pull = options.scale * p * slope  # how a change of q·k pulls the output towards v
    if options.rounds_k:
        by_key = pull**2 * (q**2 @ k.T**2)
        of_logits += BF16**2 * np.maximum(by_key @ v**2 - 2 * o * (by_key @ v) + o**2 * by_key.sum(1, keepdims=True), 0)
    if options.rounds_q:
        of_logits += BF16**2 * np.stack([_of_query(*row, k, v) for row in zip(q, pull, o, strict=True)])
    few = roundings * BF16 * (p @ np.abs(v)) + spread(of_logits)  # less than the spread where few keys have weight
    seen = np.where(hidden & (p == 0), 0.0, np.abs(logits)).max(axis=1, keepdims=True)
    in_f32 = LAMBDA * np.sqrt(q.shape[1] + k.shape[0]) + 16 + 4 * seen
    tolerance = np.minimum(spread(of_weights + of_logits), few) + F32 * in_f32 * (p @ np.abs(v) + np.abs(o))
    tolerance = tolerance + _SMALLEST / 2 * ((p > 0) @ np.abs(v))
    if options.running:
        tolerance = tolerance + unit_roundoff(options.out_dtype) * _running(p, v, options.running)
    return Expected(o, stored(o, tolerance, options.out_dtype))


def _of_query(q: Float64, pull: Float64, o: Float64, k: Float64, v: Float64) -> Float64:
    """The squares of what rounding each element of one query changes in its output, added up."""
    return ((pull * (v - o).T) @ k) ** 2 @ q**2


def _running(p: Float64, v: Float64, block: int) -> Float64:
    """The outputs after each block of keys but the last, by how much they weigh in the end, added up."""
    sums = [np.abs(p[:, :end] @ v[:end]) for end in range(block, p.shape[1], block)]
    return np.sum(sums, axis=0) if sums else np.zeros((p.shape[0], v.shape[1]))
