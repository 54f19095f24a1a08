"""Ragged paged attention: prefill and decode of many sequences in one call, keys and values in pages.

The design, and the bytes, are those of `jax.experimental.pallas.ops.tpu.ragged_paged_attention` (Apache-2.0): a grid
over blocks of heads and blocks of queries; for each sequence in a block of queries, a loop over its blocks of pages,
which are copied while the block before them is computed. Two scalars outlive a grid step, in SMEM: the sequence to go
on with, and the buffer that its first pages were already copied to.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from mosaic_tpu.builder import (
    Args,
    Builder,
    DType,
    MemorySpace,
    Ref,
    Role,
    Scalar,
    SemArray,
    Value,
    Window,
    arbitrary,
    bf16,
    f8e4m3b11fnuz,
    f8e4m3fn,
    f8e5m2,
    f16,
    f32,
    i4,
    i8,
    i16,
    i32,
    u8,
    u16,
    u32,
)
from mosaic_tpu.kernel import CallExtras, ConfigError, Kernel
from mosaic_tpu.zoo.kernels._flash_attention import (
    LANES,
    LogitOptions,
    OnlineSoftmax,
    SequenceRows,
    flash_attention_step,
    load_kv_heads,
)
from mosaic_tpu.zoo.kernels._numbers import is_number, is_size
from mosaic_tpu.zoo.kernels._paged_copies import PagedCache

#: Added to the logits of hidden keys: far below any logit, and its sum with one is still finite.
DEFAULT_MASK_VALUE: Final = -0.7 * 3.4028234663852886e38

Q_DTYPES: Final = (bf16, f32)
KV_DTYPES: Final = (f32, i32, u32, bf16, f16, i16, u16, i8, u8, f8e4m3fn, f8e5m2, f8e4m3b11fnuz, i4)


@dataclass(frozen=True)
class HeadBlock:
    """The heads that one step of the grid works on.

    Attributes:
        q_heads: query heads.
        kv_heads: KV heads they attend to.
    """

    q_heads: int
    kv_heads: int


@dataclass(frozen=True)
class RaggedPagedAttentionConfig:
    """Shapes, element types and options of one ragged paged attention.

    Attributes:
        num_tokens: rows of ``q``: tokens of all sequences, and padding.
        num_q_heads: query heads, a multiple of `num_kv_heads`.
        num_kv_heads: KV heads; a page holds K and V of each, interleaved.
        head_dim: elements a head, a multiple of 128.
        num_pages: pages in the cache, of all sequences.
        page_size: tokens a page.
        max_num_seqs: rows of ``page_indices``: the most sequences a call can have.
        pages_per_seq: columns of ``page_indices``: the most pages a sequence can have.
        num_kv_pages_per_block: pages that one step of flash attention takes.
        num_queries_per_block: tokens that one step of the grid takes.
        q_dtype: of ``q`` and the output: ``bf16`` or ``f32``.
        kv_dtype: of the cache: floats and integers of 4 to 32 bits; unsigned ones need both scales.
        sm_scale: factor of ``q kᵀ``.
        sliding_window: how many tokens back a query sees, itself counted; all of them if ``None``.
        soft_cap: bound ``c`` of logits ``c · tanh(x / c)``; unbounded if ``None``.
        mask_value: added to the logits of keys that a query must not see.
        k_scale: factor of K, of a quantized cache. K and V become `q_dtype` by their scales: give both or none.
        v_scale: factor of V.
        vmem_limit_bytes: how much VMEM the compiler may give the kernel; its own limit if ``None``.

    Raises:
        ConfigError: sizes or types that the kernel does not take.

    Example:
        >>> cfg = RaggedPagedAttentionConfig(
        ...     num_tokens=256, num_q_heads=32, num_kv_heads=8, head_dim=128, num_pages=256, page_size=16,
        ...     max_num_seqs=16, pages_per_seq=32, num_kv_pages_per_block=8, num_queries_per_block=32)
        >>> cfg.head_block, cfg.grid
        (HeadBlock(q_heads=32, kv_heads=8), (1, 8))
    """

    num_tokens: int
    num_q_heads: int
    num_kv_heads: int
    head_dim: int
    num_pages: int
    page_size: int
    max_num_seqs: int
    pages_per_seq: int
    num_kv_pages_per_block: int
    num_queries_per_block: int
    q_dtype: DType = bf16
    kv_dtype: DType = bf16
    sm_scale: float = 1.0
    sliding_window: int | None = None
    soft_cap: float | None = None
    mask_value: float = DEFAULT_MASK_VALUE
    k_scale: float | None = None
    v_scale: float | None = None
    vmem_limit_bytes: int | None = None

    def __post_init__(self) -> None:
        self._check_sizes()
        self._check_dtypes()
        self._check_options()
        block = self.head_block
        if block.q_heads % 8 and block.q_heads != self.num_q_heads:
            raise ConfigError(
                f"blocks of {block.q_heads} of {self.num_q_heads} query heads do not fill tiles of 8 rows",
                hint="use fewer KV heads, more query heads a KV head, or a cache of a smaller type",
            )

    def _check_sizes(self) -> None:
        for name in (
            "num_tokens", "num_q_heads", "num_kv_heads", "head_dim", "num_pages", "page_size", "max_num_seqs",
            "pages_per_seq", "num_kv_pages_per_block", "num_queries_per_block",
        ):  # fmt: skip
            value = getattr(self, name)
            if not is_size(value):
                raise ConfigError(f"{name} is {value!r}", hint="sizes are positive ints")
        if self.num_q_heads % self.num_kv_heads:
            raise ConfigError(
                f"{self.num_q_heads} query heads do not divide into {self.num_kv_heads} KV heads",
                hint="num_q_heads is a multiple of num_kv_heads",
            )
        if self.head_dim % LANES:
            raise ConfigError(f"head_dim is {self.head_dim}", hint=f"pad heads to a multiple of {LANES}")
        if self.num_kv_pages_per_block > self.pages_per_seq:
            raise ConfigError(
                f"blocks of {self.num_kv_pages_per_block} pages, but a sequence has {self.pages_per_seq} at most",
                hint="num_kv_pages_per_block is at most pages_per_seq",
            )

    def _check_dtypes(self) -> None:
        for name, allowed in (("q_dtype", Q_DTYPES), ("kv_dtype", KV_DTYPES)):
            if getattr(self, name) not in allowed:
                raise ConfigError(f"{name} is {getattr(self, name)!r}", hint=f"one of {', '.join(map(str, allowed))}")
        k, v = (self.kv_dtype if scale is None else self.q_dtype for scale in (self.k_scale, self.v_scale))
        if k is not v:
            raise ConfigError(f"K is {k} and V {v} after scaling", hint="give both k_scale and v_scale, or none")
        if k.is_unsigned:
            raise ConfigError(f"a cache of {k} without scales", hint="give k_scale and v_scale: 1.0 changes nothing")
        q = f32 if self.group % self.q_dtype.packing else self.q_dtype
        if self.num_kv_pages_per_block * self.page_size == 1 and not (q is k is f32):
            raise ConfigError("blocks of one page of one token", hint="larger pages, or more of them a block")

    def _check_options(self) -> None:
        for name in ("sm_scale", "mask_value", "soft_cap", "k_scale", "v_scale"):
            value = getattr(self, name)
            optional = name not in ("sm_scale", "mask_value")
            hides = name == "mask_value" and value == -math.inf
            if not (is_number(value) or hides or (optional and value is None)):
                raise ConfigError(f"{name} is {value!r}", hint=f"a finite number{', or None' if optional else ''}")
        if self.sliding_window is not None and not is_size(self.sliding_window):
            raise ConfigError(
                f"sliding_window is {self.sliding_window!r}", hint="a positive int, or None for no window"
            )
        if self.soft_cap == 0.0:
            raise ConfigError("soft_cap is 0", hint="None leaves the logits unbounded")
        if self.vmem_limit_bytes is not None and not is_size(self.vmem_limit_bytes):
            raise ConfigError(f"vmem_limit_bytes is {self.vmem_limit_bytes!r}", hint="None leaves it to the compiler")

    @property
    def group(self) -> int:
        """Query heads that share a KV head."""
        return self.num_q_heads // self.num_kv_heads

    @property
    def head_block(self) -> HeadBlock:
        """The heads of one grid step: the fewest whose tiles are full, in ``q`` and in the cache, or all."""
        return min_head_block(self.num_q_heads, self.num_kv_heads, self.q_dtype, self.kv_dtype)

    @property
    def num_head_blocks(self) -> int:
        """Steps of the grid's first dimension."""
        return self.num_q_heads // self.head_block.q_heads

    @property
    def grid(self) -> tuple[int, int]:
        """Blocks of heads, blocks of queries."""
        return self.num_head_blocks, -(-self.num_tokens // self.num_queries_per_block)

    @property
    def logit_options(self) -> LogitOptions:
        """What is done to ``q kᵀ``."""
        return LogitOptions(self.sm_scale, self.mask_value, self.soft_cap, self.sliding_window)


def min_head_block(num_q_heads: int, num_kv_heads: int, q_dtype: DType, kv_dtype: DType) -> HeadBlock:
    """The fewest heads that XLA stores as full tiles, in the queries and in the cache, or all of them.

    Raises:
        ConfigError: XLA pads the heads of the cache.

    Example:
        >>> min_head_block(32, 16, bf16, bf16)
        HeadBlock(q_heads=16, kv_heads=8)
    """
    combined = 2 * num_kv_heads
    if not _fills_tiles(combined, kv_dtype):
        raise ConfigError(
            f"{num_kv_heads} KV heads of {kv_dtype}: K and V of them do not fill tiles",
            hint=f"2 * num_kv_heads is {kv_dtype.packing} times 1, 2, 4 or a multiple of 8",
        )
    tile = 8 * kv_dtype.packing
    kv_heads = (tile if combined % tile == 0 else combined) // 2
    q_heads = kv_heads * (num_q_heads // num_kv_heads)
    return HeadBlock(q_heads, kv_heads) if _fills_tiles(q_heads, q_dtype) else HeadBlock(num_q_heads, num_kv_heads)


def _fills_tiles(rows: int, dtype: DType) -> bool:
    words, rest = divmod(rows, dtype.packing)
    return not rest and (words in (1, 2, 4) or words % 8 == 0)


def _declare(b: Builder, cfg: RaggedPagedAttentionConfig) -> Args:
    heads = cfg.head_block
    rows = cfg.num_queries_per_block * cfg.group
    q_block = (cfg.num_queries_per_block, heads.q_heads, cfg.head_dim)
    q_window = Window(index_map=lambda head_block, q_block: (q_block, head_block, 0))
    q_shape = (cfg.num_tokens, cfg.num_q_heads, cfg.head_dim)
    page = (cfg.page_size, 2 * heads.kv_heads, cfg.head_dim)
    cache_shape = (cfg.num_pages, cfg.page_size, 2 * cfg.num_kv_heads, cfg.head_dim)

    def prefetched(*shape: int) -> Ref:
        return Ref(shape, i32, memory_space=MemorySpace.SMEM, role=Role.SCALAR_PREFETCH)

    return b.declare_args(
        {
            "head_block": Scalar(i32),
            "q_block": Scalar(i32),
            "kv_lens": prefetched(cfg.max_num_seqs),
            "page_indices": prefetched(cfg.max_num_seqs, cfg.pages_per_seq),
            "cu_q_lens": prefetched(cfg.max_num_seqs + 1),
            "seq_buf_idx": prefetched(2),
            "num_seqs": prefetched(1),
            "q": Ref(q_block, cfg.q_dtype, window=q_window, array_shape=q_shape),
            "kv_pages": Ref(cache_shape, cfg.kv_dtype, memory_space=MemorySpace.ANY),
            "o": Ref(q_block, cfg.q_dtype, role=Role.OUTPUT, window=q_window, array_shape=q_shape),
            "kv_buffers": Ref((2, cfg.num_kv_pages_per_block, *page), cfg.kv_dtype, role=Role.SCRATCH),
            "semaphores": SemArray((2,)),
            "totals": Ref((heads.kv_heads, rows, LANES), f32, role=Role.SCRATCH),
            "maxima": Ref((heads.kv_heads, rows, LANES), f32, role=Role.SCRATCH),
            "output": Ref(q_block, f32, role=Role.SCRATCH),
        },
        grid=cfg.grid,
        dimension_semantics=(arbitrary, arbitrary),
    )


def ragged_paged_attention_kernel(b: Builder, cfg: RaggedPagedAttentionConfig) -> None:
    """Emit the kernel.

    Args:
        b: an empty builder, named as Pallas's kernel: ``ragged_paged_attention_kernel``.
        cfg: shapes and options.
    """
    a = _declare(b, cfg)
    cache = PagedCache(b, a.kv_pages, a.kv_lens, a.page_indices, a.kv_buffers, a.semaphores)
    num_seqs = a.num_seqs[0]
    first_seq, first_buffer = a.seq_buf_idx[0], a.seq_buf_idx[1]
    block_start = a.q_block * cfg.num_queries_per_block
    block_end = block_start + cfg.num_queries_per_block

    with b.pallas.when((a.head_block + a.q_block).eq(0)):
        cache.copies(a.head_block, first_seq, 0, first_buffer).start()

    def has_queries(done: Value, seq: Value, buffer: Value) -> Value:
        remains = (block_start < a.cu_q_lens[num_seqs]) & (seq < num_seqs)
        return done.eq(0) & remains

    def attend(done: Value, seq: Value, buffer: Value) -> tuple[Value, Value, Value]:
        q_start, q_end = a.cu_q_lens[seq], a.cu_q_lens[seq + 1]
        q_len = q_end - q_start
        rows = SequenceRows(block_start, cfg.num_queries_per_block, q_start, q_end, q_len, a.kv_lens[seq])
        buffer = _attend_sequence(b, cfg, a, cache, rows, seq, num_seqs, buffer, block_end)
        next_seq = b.pallas.select(q_end <= block_end, seq + 1, seq)
        return b.pallas.select(q_end < block_end, done, 1), next_seq, buffer

    _, seq, buffer = b.pallas.while_loop(has_queries, attend, (0, first_seq, first_buffer))
    # Out of sequences: the next block of heads starts again with the first.
    a.seq_buf_idx[0] = b.pallas.select(seq < num_seqs, seq, 0)
    a.seq_buf_idx[1] = buffer
    a.o[...] = a.output[...].to(cfg.q_dtype)


def _attend_sequence(
    b: Builder,
    cfg: RaggedPagedAttentionConfig,
    a: Args,
    cache: PagedCache,
    rows: SequenceRows,
    seq: Value,
    num_seqs: Value,
    buffer: Value,
    block_end: Value,
) -> Value:
    """Loop over the sequence's blocks of pages, each copied one step ahead; returns the buffer to go on with."""
    kv_per_block = cfg.num_kv_pages_per_block * cfg.page_size

    def has_pages(kv_block: Value, buffer: Value) -> Value:
        return kv_block * kv_per_block < rows.kv_len

    def attend(kv_block: Value, buffer: Value) -> tuple[Value, Value]:
        following = _following_block(b, a, rows, seq, num_seqs, kv_block, kv_per_block, block_end)
        next_head_block, next_seq, next_kv_block = following
        next_buffer = b.pallas.select(buffer.eq(0), 1, 0)
        with b.pallas.when(next_head_block < cfg.num_head_blocks):
            cache.copies(next_head_block, next_seq, next_kv_block, next_buffer).start()
        kv_rows = cache.copies(a.head_block, seq, kv_block, buffer).wait()
        heads_per_word = max(1, cfg.kv_dtype.packing // 2)
        for first in range(0, cfg.head_block.kv_heads, heads_per_word):
            for i, (k, v) in enumerate(load_kv_heads(b, kv_rows, first, 2 * cfg.head_block.kv_heads)):
                _attend_head(b, cfg, a, rows, first + i, k, v, kv_block)
        return kv_block + 1, next_buffer

    return b.pallas.while_loop(has_pages, attend, (0, buffer))[1]


def _following_block(
    b: Builder,
    a: Args,
    rows: SequenceRows,
    seq: Value,
    num_seqs: Value,
    kv_block: Value,
    kv_per_block: int,
    block_end: Value,
) -> tuple[Value, Value, Value]:
    """The block of heads, the sequence and the block of pages that come after these, across all loops."""
    select = b.pallas.select
    next_kv_block = kv_block + 1
    was_last = next_kv_block * kv_per_block >= rows.kv_len
    next_kv_block = select(was_last, 0, next_kv_block)
    after_sequence = select(rows.q_end <= block_end, seq + 1, seq)
    next_seq = select(was_last, after_sequence, seq)
    was_last_seq = next_seq.eq(num_seqs)
    next_seq = select(was_last_seq, 0, next_seq)
    next_head_block = select(was_last_seq, a.head_block + 1, a.head_block)
    return next_head_block, next_seq, next_kv_block


def _attend_head(
    b: Builder,
    cfg: RaggedPagedAttentionConfig,
    a: Args,
    rows: SequenceRows,
    kv_head: int,
    k: Value,
    v: Value,
    kv_block: Value,
) -> None:
    """One step of flash attention for the query heads of one KV head."""
    if cfg.k_scale is not None:
        k = (k.to(f32) * cfg.k_scale).to(cfg.q_dtype)
    if cfg.v_scale is not None:
        v = (v.to(f32) * cfg.v_scale).to(cfg.q_dtype)
    heads = slice(kv_head * cfg.group, (kv_head + 1) * cfg.group)
    q = a.q[:, heads, :]
    if cfg.group % cfg.q_dtype.packing:
        q = q.to(f32)  # rows of several tokens would share words
    q = b.pallas.reshape(q, (-1, cfg.head_dim))
    state = OnlineSoftmax(a.maxima.at[kv_head], a.totals.at[kv_head], a.output.at[:, heads, :])
    flash_attention_step(b, q, k, v, state, rows, cfg.logit_options, kv_block)


def _extras(cfg: RaggedPagedAttentionConfig) -> CallExtras:
    return CallExtras(vmem_limit_bytes=cfg.vmem_limit_bytes)


KERNEL: Final = Kernel(
    "ragged_paged_attention_kernel",
    RaggedPagedAttentionConfig,
    inputs=("kv_lens", "page_indices", "cu_q_lens", "seq_buf_idx", "num_seqs", "q", "kv_pages"),
    outputs=("o",),
    run=ragged_paged_attention_kernel,
    extras=_extras,
    partial_outputs=("o",),  # rows past the last sequence's are padding
)

__all__ = [
    "DEFAULT_MASK_VALUE",
    "KERNEL",
    "HeadBlock",
    "RaggedPagedAttentionConfig",
    "min_head_block",
    "ragged_paged_attention_kernel",
]
