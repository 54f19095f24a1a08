"""One step of flash attention for one KV head, and how K and V of a head are read from packed rows."""

from __future__ import annotations

import math
from dataclasses import dataclass

from mosaic_tpu.builder import Builder, DType, RefView, Value, bf16, f32, i4, i32, u8, u16, u32

#: Lanes of a vector register: the row maxima and sums are kept repeated over them.
LANES = 128
_UNSIGNED = {4: i4, 8: u8, 16: u16}
_HIGH_HALF = 0xFFFF0000


def load_kv_heads(b: Builder, rows: RefView, head: int, combined_heads: int) -> list[tuple[Value, Value]]:
    """K and V of the heads from ``head`` on that share 32-bit words.

    Args:
        b: the kernel's builder.
        rows: ``[tokens * combined_heads, head_dim]``; K and V of a head are neighbours, so the rows of a token go
            K₀, V₀, K₁, V₁ …
        head: the first head: a multiple of how many share a word.
        combined_heads: rows a token, two for each head.

    Returns:
        ``[tokens, head_dim]`` K and V for one head (32- and 16-bit elements) or two (8-bit).
    """
    packing = rows.dtype.packing
    first = 2 * head
    if packing == 1:
        return [(rows[first::combined_heads, :], rows[first + 1 :: combined_heads, :])]
    words = rows.bitcast(u32)[first // packing :: combined_heads // packing, :]
    if rows.dtype is bf16:
        # A bf16 is the high half of an f32. Going through f32 is what Mosaic's layout pass can do.
        k, v = words << 16, words & _HIGH_HALF
        return [(b.pallas.bitcast(k, f32).to(bf16), b.pallas.bitcast(v, f32).to(bf16))]
    return [
        (_unpacked(b, words, slot, rows.dtype), _unpacked(b, words, slot + 1, rows.dtype))
        for slot in range(0, packing, 2)
    ]


def _unpacked(b: Builder, words: Value, slot: int, dtype: DType) -> Value:
    """Element ``slot`` of each 32-bit word, the lowest first."""
    element = (words >> slot * dtype.bits).to(_UNSIGNED[dtype.bits])
    return b.pallas.bitcast(element, dtype)


@dataclass(frozen=True)
class LogitOptions:
    """What is done to ``q kᵀ`` before the softmax.

    Attributes:
        scale: factor of the logits.
        mask_value: added where a query must not see a key.
        soft_cap: bound ``c`` of ``c · tanh(x / c)``, or ``None``.
        sliding_window: how many tokens back a query sees, itself counted, or ``None`` for all.
    """

    scale: float
    mask_value: float
    soft_cap: float | None
    sliding_window: int | None


@dataclass(frozen=True)
class SequenceRows:
    """Where the queries of one sequence are, beside the block of queries in VMEM.

    Attributes:
        block_start: first token of the block.
        block_size: tokens a block.
        q_start: first token of the sequence among the queries.
        q_end: its end, excluded.
        q_len: tokens between them.
        kv_len: tokens of the sequence in the cache; the queries are the last of them.
    """

    block_start: Value
    block_size: int
    q_start: Value
    q_end: Value
    q_len: Value
    kv_len: Value


@dataclass(frozen=True)
class OnlineSoftmax:
    """The running state of one KV head, in VMEM scratch.

    Attributes:
        maximum: f32 ``[rows, 128]``, the largest logit of each row so far.
        total: f32 ``[rows, 128]``, the sum of exponentials so far.
        output: f32 ``[block_size, group, head_dim]``, the normalised output so far.
    """

    maximum: RefView
    total: RefView
    output: RefView

    @property
    def group(self) -> int:
        """Query heads that share the KV head."""
        return self.output.shape[1]


def flash_attention_step(
    b: Builder,
    q: Value,
    k: Value,
    v: Value,
    state: OnlineSoftmax,
    sequence: SequenceRows,
    options: LogitOptions,
    kv_block: Value,
) -> None:
    """Take one block of keys and values into the softmax of one KV head.

    Args:
        b: the kernel's builder.
        q: ``[rows, head_dim]``, a row for each token and query head of the group, the heads of a token together.
        k: ``[kv_tokens, head_dim]``.
        v: like ``k``.
        state: read, and written for the rows of this sequence only.
        sequence: where the rows belong.
        options: scale, mask, soft cap and window.
        kv_block: index of the block; 0 starts the softmax anew.
    """
    p = b.pallas
    kv_start = kv_block * k.shape[0]
    k, v = _without_tail(b, k, v, sequence.kv_len, kv_start)
    logits = p.einsum("nd,md->nm", q, k, preferred_element_type=f32) * options.scale

    first = p.maximum(sequence.q_start - sequence.block_start, 0)
    end = p.minimum(sequence.q_end - sequence.block_start, sequence.block_size)
    hidden = _hidden(b, logits.shape, state.group, sequence, kv_start, options.sliding_window)
    if options.soft_cap is not None:
        logits = options.soft_cap * b.tanh(logits / options.soft_cap)
    logits = logits + p.where(hidden, options.mask_value, 0.0)

    maximum = p.max(logits, 1, keepdims=True)
    weights = b.exp(logits - maximum)
    values = p.dot(weights, v, preferred_element_type=f32)

    shape = state.maximum.shape
    m_block = p.broadcast_to(maximum, shape)
    l_block = p.broadcast_to(p.sum(weights, 1, keepdims=True), shape)
    m_before = _load_or(b, state.maximum, -math.inf, kv_block)
    l_before = _load_or(b, state.total, 0.0, kv_block)
    m_after = p.maximum(m_before, m_block)
    _store_rows(b, state.maximum, m_after, first, end, state.group)
    alpha, beta = b.exp(m_before - m_after), b.exp(m_block - m_after)
    l_scaled = alpha * l_before
    l_after = l_scaled + beta * l_block
    l_after = p.where(l_after.eq(0.0), 1.0, l_after)
    _store_rows(b, state.total, l_after, first, end, state.group)

    o_before = p.reshape(_load_or(b, state.output, 0.0, kv_block), values.shape)
    copies = values.shape[1] // LANES
    l_scaled, beta, l_after = (p.concatenate([x] * copies, 1) for x in (l_scaled, beta, l_after))
    output = (l_scaled * o_before + beta * values) / l_after
    _store_rows(b, state.output, p.reshape(output, state.output.shape), first, end)


def _without_tail(b: Builder, k: Value, v: Value, kv_len: Value, kv_start: Value) -> tuple[Value, Value]:
    """Zeros after the end of the sequence: a NaN of an old page would get through the product."""
    inside = b.pallas.broadcasted_iota(i32, k.shape, 0) < kv_len - kv_start
    k = b.pallas.where(inside, k.to(f32), 0).to(k.dtype)
    v = b.pallas.where(inside, v.to(f32), 0).to(v.dtype)
    return k, v


def _hidden(
    b: Builder,
    shape: tuple[int, ...],
    group: int,
    sequence: SequenceRows,
    kv_start: Value,
    sliding_window: int | None,
) -> Value:
    """Which keys a query must not see: those after it, and those before its window."""
    of_first_query = sequence.kv_len - sequence.q_len + sequence.block_start - sequence.q_start
    query = of_first_query + b.pallas.broadcasted_iota(i32, shape, 0) // group
    key = kv_start + b.pallas.broadcasted_iota(i32, shape, 1)
    hidden = query < key
    return hidden if sliding_window is None else hidden | (query - sliding_window >= key)


def _load_or(b: Builder, ref: RefView, start: float, kv_block: Value) -> Value:
    """The state so far, or ``start`` before the first block."""
    return b.pallas.where(kv_block.eq(0), b.pallas.full(ref.shape, start, ref.dtype), ref[...])


def _store_rows(b: Builder, ref: RefView, value: Value, first: Value, end: Value, group: int = 1) -> None:
    """Store the rows of the tokens from ``first`` to ``end``; other sequences own the others."""
    token = b.pallas.broadcasted_iota(i32, ref.shape, 0) // group
    b.pallas.store(ref, value, mask=(token >= first) & (token < end))


__all__ = [
    "LANES",
    "LogitOptions",
    "OnlineSoftmax",
    "SequenceRows",
    "flash_attention_step",
    "load_kv_heads",
]
