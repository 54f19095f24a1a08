"""Gated delta net, recurrent forward: the state of a block of heads stays in VMEM while tokens stream past in blocks.

A token block may hold several sequences and a sequence may span many blocks. Each grid step walks the sequences that
touch its block, copies a sequence's state in where it starts and out where it ends. Heads are unrolled, tokens are a
loop, so that the work of one token has enough independent chains to fill the vector unit.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from mosaic_tpu.builder import (
    Args,
    Builder,
    DType,
    MemorySpace,
    Ref,
    RefView,
    Role,
    Scalar,
    Sem,
    Value,
    Window,
    arbitrary,
    bf16,
    f32,
    i32,
    parallel,
)
from mosaic_tpu.kernel import CallExtras, ConfigError, Kernel
from mosaic_tpu.zoo.kernels._numbers import is_number, is_size

LANES: Final = 128
SUBLANES: Final = 8
L2_EPSILON: Final = 1e-6
_SIZES: Final = ("tokens", "key_heads", "value_heads", "key_dim", "value_dim", "sequences")


@dataclass(frozen=True)
class GatedDeltaNetConfig:
    """Sizes, blocks and options of one call.

    Attributes:
        tokens: T, of all sequences together.
        key_heads: H, heads of q and k.
        value_heads: HV, heads of v; a multiple of ``key_heads``.
        key_dim: K, the width of a head of q and k.
        value_dim: V, the width of a head of v.
        sequences: N.
        block_tokens: tokens a grid step holds in VMEM; a multiple of 8, at most T rounded up to one.
        block_heads: query/key heads a grid step works on: all of them, or a multiple of 8 that divides them.
        block_v: lanes of V a grid step works on; a multiple of 128.
        dtype: of q, k, v and o: bf16 or f32.
        scale: multiplies q; K^-1/2 if omitted.
        use_qk_l2norm: divide q and k by sqrt(Σx² + 1e-6) first.
        transpose_keys: take the columns of q and k from one transpose a token instead of one relayout a head: fewer
            bundles on v4, v5e and v5p, more on v6e and tpu7x; the results are the same.
        vmem_limit_bytes: VMEM the kernel may use; the compiler's default if omitted.

    Raises:
        ConfigError: heads that do not divide, blocks that do not fit the sizes, another element type, or an option
            that is not of its kind.

    Example:
        >>> GatedDeltaNetConfig(tokens=4096, key_heads=16, value_heads=32, key_dim=128, value_dim=128, sequences=8).grid
        (2, 1, 32)
    """

    tokens: int
    key_heads: int
    value_heads: int
    key_dim: int
    value_dim: int
    sequences: int
    block_tokens: int = 128
    block_heads: int = 8
    block_v: int = 128
    dtype: DType = bf16
    scale: float | None = None
    use_qk_l2norm: bool = True
    transpose_keys: bool = False
    vmem_limit_bytes: int | None = None

    def __post_init__(self) -> None:
        for name in (*_SIZES, "block_tokens", "block_heads", "block_v"):
            if not is_size(getattr(self, name)):
                raise ConfigError(f"{name} is {getattr(self, name)!r}", hint="sizes and blocks are positive ints")
        if self.value_heads % self.key_heads:
            raise ConfigError(
                f"{self.value_heads} value heads for {self.key_heads} query/key heads",
                hint="each query/key head serves the same number of value heads",
            )
        if self.dtype not in (bf16, f32):
            raise ConfigError(f"dtype is {self.dtype!r}", hint="cast q, k and v to bf16 or f32")
        self._check_options()
        self._check_blocks()

    def _check_options(self) -> None:
        if self.scale is not None and not is_number(self.scale):
            raise ConfigError(f"scale is {self.scale!r}", hint="a finite number, or None for K^-1/2")
        for name in ("use_qk_l2norm", "transpose_keys"):
            if not isinstance(getattr(self, name), bool):
                raise ConfigError(f"{name} is {getattr(self, name)!r}", hint="True or False")
        if self.vmem_limit_bytes is not None and not is_size(self.vmem_limit_bytes):
            raise ConfigError(f"vmem_limit_bytes is {self.vmem_limit_bytes!r}", hint="None leaves it to the compiler")

    def _check_blocks(self) -> None:
        whole = self.block_heads == self.key_heads
        if self.key_heads % self.block_heads or (self.block_heads % SUBLANES and not whole):
            raise ConfigError(
                f"block_heads={self.block_heads} of {self.key_heads} query/key heads",
                hint=f"all {self.key_heads}, or a multiple of {SUBLANES} that divides them",
            )
        if self.block_v % LANES:
            raise ConfigError(f"block_v={self.block_v}", hint=f"a positive multiple of {LANES}")
        most = _round_up(self.tokens, SUBLANES)
        if self.block_tokens > most or self.block_tokens % SUBLANES:
            raise ConfigError(
                f"block_tokens={self.block_tokens} of {self.tokens} tokens",
                hint=f"a positive multiple of {SUBLANES}, at most {most}",
            )

    @property
    def group(self) -> int:
        """Value heads that share one query/key head."""
        return self.value_heads // self.key_heads

    @property
    def block_value_heads(self) -> int:
        """Value heads a grid step works on."""
        return self.block_heads * self.group

    @property
    def padded_value_dim(self) -> int:
        """Lanes of the state in HBM: a DMA moves whole tiles."""
        return _round_up(self.value_dim, self.block_v)

    @property
    def grid(self) -> tuple[int, int, int]:
        """Head blocks, value blocks, token blocks; the tokens run innermost because the state is carried over them."""
        return (
            self.key_heads // self.block_heads,
            self.padded_value_dim // self.block_v,
            _round_up(self.tokens, self.block_tokens) // self.block_tokens,
        )

    @property
    def query_scale(self) -> float:
        """What q is multiplied with."""
        return self.key_dim**-0.5 if self.scale is None else self.scale


def _round_up(n: int, step: int) -> int:
    return -(-n // step) * step


def gated_delta_net_kernel(b: Builder, cfg: GatedDeltaNetConfig) -> None:
    """One token block of one block of heads and one block of V."""
    a = _declare(b, cfg)
    step = _Step(b, cfg, a)
    # Tokens of no sequence are visited by none of them; their outputs are zero.
    with b.pallas.when((step.begin < a.cu_seqlens[0]) | (step.end > a.cu_seqlens[cfg.sequences])):
        b.pallas.fori_loop(0, cfg.block_tokens, step.clear)
    b.pallas.fori_loop(0, cfg.sequences, step.sequence)


def _declare(b: Builder, cfg: GatedDeltaNetConfig) -> Args:
    """Program ids, ``cu_seqlens`` in SMEM, windows over tokens, states left in HBM, one state in scratch."""
    block_t, block_h, block_hv = cfg.block_tokens, cfg.block_heads, cfg.block_value_heads
    keys = Ref(
        (block_t, block_h, cfg.key_dim),
        cfg.dtype,
        window=Window(index_map=lambda h, w, t: (t, h, 0)),
        array_shape=(cfg.tokens, cfg.key_heads, cfg.key_dim),
    )
    values = Ref(
        (block_t, block_hv, cfg.block_v),
        cfg.dtype,
        window=Window(index_map=lambda h, w, t: (t, h, w)),
        array_shape=(cfg.tokens, cfg.value_heads, cfg.value_dim),
    )
    gates = Ref(
        (block_t, cfg.value_heads),
        f32,
        memory_space=MemorySpace.SMEM,
        window=Window(index_map=lambda h, w, t: (t, 0)),
        array_shape=(cfg.tokens, cfg.value_heads),
    )
    states = Ref((cfg.sequences, cfg.value_heads, cfg.key_dim, cfg.padded_value_dim), f32, memory_space=MemorySpace.ANY)
    return b.declare_args(
        {
            "i_h": Scalar(i32),
            "i_v": Scalar(i32),
            "i_t": Scalar(i32),
            "cu_seqlens": Ref((cfg.sequences + 1,), i32, memory_space=MemorySpace.SMEM, role=Role.SCALAR_PREFETCH),
            "q": keys,
            "k": keys,
            "v": values,
            "g": gates,
            "beta": gates,
            "h0": states,
            "o": replace(values, role=Role.OUTPUT),
            "ht": replace(states, role=Role.OUTPUT),
            "state": Ref((block_hv, cfg.key_dim, cfg.block_v), f32, role=Role.SCRATCH),
            "sem": Sem("dma"),
        },
        grid=cfg.grid,
        dimension_semantics=(parallel, parallel, arbitrary),
    )


class _Step:
    """One grid step: tokens ``begin`` to ``end``, value heads from ``first_head``."""

    def __init__(self, b: Builder, cfg: GatedDeltaNetConfig, a: Args) -> None:
        self.b, self.cfg, self.a = b, cfg, a
        self.first_head = a.i_h * cfg.block_value_heads
        self.begin = a.i_t * cfg.block_tokens
        self.end = (self.begin + cfg.block_tokens).minimum(cfg.tokens)

    def clear(self, t: Value) -> None:
        """Zero the outputs of one token."""
        self.a.o[t] = self.b.pallas.zeros((self.cfg.block_value_heads, self.cfg.block_v), self.cfg.dtype)

    def sequence(self, n: Value) -> None:
        """Run sequence ``n`` over its tokens in this block."""
        b, a = self.b, self.a
        bos = a.cu_seqlens[n]
        eos = a.cu_seqlens[n + 1]
        lo = bos.maximum(self.begin)
        hi = eos.minimum(self.end)
        # An empty sequence belongs to the block it would start in, and the last block also takes those at T.
        starts = (bos >= self.begin) & ((bos < self.end) | self.end.eq(self.cfg.tokens))
        ends = (eos <= self.end) & (starts | (lo < hi))
        with b.pallas.when(starts):
            self.copy(self.state_in(a.h0, n), a.state)
        b.pallas.fori_loop(lo - self.begin, hi - self.begin, self.token)
        with b.pallas.when(ends):
            self.copy(a.state, self.state_in(a.ht, n))

    def state_in(self, states: Value, n: Value) -> RefView:
        """This step's heads and lanes of the state of sequence ``n`` in HBM."""
        ds, block_v = self.b.pallas.ds, self.cfg.block_v
        return states.at[n, ds(self.first_head, self.cfg.block_value_heads), :, ds(self.a.i_v * block_v, block_v)]

    def copy(self, source: Value | RefView, target: Value | RefView) -> None:
        """Copy a state and wait for it."""
        copy = self.b.pallas.async_copy(source, target, self.a.sem)
        copy.start()
        copy.wait()

    def token(self, t: Value) -> None:
        """Advance every head by token ``t`` of the block and write its outputs."""
        b, cfg, a = self.b, self.cfg, self.a
        q, k, v = (b.pallas.astype(ref[t], f32) for ref in (a.q, a.k, a.v))
        if cfg.use_qk_l2norm:
            q, k = self.l2_normalise(q), self.l2_normalise(k)
        q = q * cfg.query_scale
        if cfg.transpose_keys:
            q, k = b.transpose(q, (1, 0)), b.transpose(k, (1, 0))
        rows: list[Value] = []
        for h in range(cfg.block_heads):
            k_column, q_column = self.column(k, h), self.column(q, h)
            rows += [self.head(t, hv, v, k_column, q_column) for hv in range(h * cfg.group, (h + 1) * cfg.group)]
        a.o[t] = b.pallas.astype(b.pallas.concatenate(rows, 0), cfg.dtype)

    def head(self, t: Value, hv: int, v: Value, k_column: Value, q_column: Value) -> Value:
        """Decay, correct and read the state of one value head: its row of outputs ``[1, V]``."""
        b, a, cfg = self.b, self.a, self.cfg
        decay = b.exp(b.pallas.full((1, cfg.block_v), a.g[t, self.first_head + hv], f32))
        state = a.state[hv] * decay
        predicted = b.pallas.sum(state * k_column, 0, keepdims=True)
        update = a.beta[t, self.first_head + hv] * (v[hv : hv + 1] - predicted)
        state = state + k_column * update
        a.state[hv] = state
        return b.pallas.sum(state * q_column, 0, keepdims=True)

    def l2_normalise(self, x: Value) -> Value:
        """Divide each row by its length."""
        return x / self.b.sqrt(self.b.pallas.sum(x * x, 1, keepdims=True) + L2_EPSILON)

    def column(self, x: Value, h: int) -> Value:
        """Head ``h`` of q or k as a column ``[K, 1]``."""
        return x[:, h : h + 1] if self.cfg.transpose_keys else x[h][:, None]


def _extras(cfg: GatedDeltaNetConfig) -> CallExtras:
    return CallExtras(vmem_limit_bytes=cfg.vmem_limit_bytes)


KERNEL: Final = Kernel(
    "gated_delta_net",
    GatedDeltaNetConfig,
    inputs=("cu_seqlens", "q", "k", "v", "g", "beta", "h0"),
    outputs=("o", "ht"),
    run=gated_delta_net_kernel,
    extras=_extras,
    partial_outputs=("ht",),  # columns past the value width are padding
)
