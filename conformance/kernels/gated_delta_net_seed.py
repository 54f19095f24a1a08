"""The seed's own form of the gated delta net, op by op: for parity of the IR; the TPU compiler refuses it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from mosaic_tpu.builder import (
    Args,
    Builder,
    DType,
    MemorySpace,
    Ref,
    Role,
    Scalar,
    Value,
    Window,
    arbitrary,
    bf16,
    f32,
    i32,
)
from mosaic_tpu.kernel import Kernel


@dataclass(frozen=True)
class GatedDeltaNetSeedConfig:
    """Sizes of one call. K is padded to `block_k` lanes, V to a multiple of `block_v`; masks cut the state."""

    tokens: int
    key_heads: int
    value_heads: int
    key_dim: int
    value_dim: int
    sequences: int
    block_k: int = 128
    block_v: int = 128
    dtype: DType = bf16
    beta_dtype: DType = bf16
    scale: float | None = None
    use_qk_l2norm: bool = True

    @property
    def value_blocks(self) -> int:
        return -(-self.value_dim // self.block_v)


def gated_delta_net_seed_kernel(b: Builder, cfg: GatedDeltaNetSeedConfig) -> None:
    """One sequence, one value head, one block of V, on whole arrays."""
    a = _declare(b, cfg)
    p = b.pallas
    i_n, i_hv = p.div(a.i_nh, cfg.value_heads), p.rem(a.i_nh, cfg.value_heads)
    i_h = p.div(i_hv, cfg.value_heads // cfg.key_heads)
    bos = a.cu_seqlens[i_n]
    length = a.cu_seqlens[i_n + 1] - bos

    def lanes():
        return p.ds(a.i_v * cfg.block_v, cfg.block_v)

    def token(i: Value, state: Value) -> tuple[Value]:
        t = bos + i
        q = p.astype(a.q[0, t, i_h, :], f32)
        k = p.astype(a.k[0, t, i_h, :], f32)
        v = p.astype(a.v[0, t, i_hv, lanes()], f32)
        g = a.g[0, t, i_hv]
        beta = p.astype(a.beta[0, t, i_hv], f32)
        if cfg.use_qk_l2norm:
            q, k = _l2_normalise(b, q), _l2_normalise(b, k)
        q = q * (cfg.key_dim**-0.5 if cfg.scale is None else cfg.scale)
        state = state * b.exp(g)
        predicted = p.sum(state * k[:, None], 0)
        update = beta * (v - predicted)
        state = state + k[:, None] * update[None, :]
        o = p.sum(state * q[:, None], 0)
        a.o[0, t, i_hv, lanes()] = p.astype(o, cfg.dtype)
        return (state,)

    mask = _mask(b, cfg, a.i_v)
    state = p.where(mask, a.h0[i_n, i_hv, :, lanes()], 0.0)
    (state,) = p.fori_loop(0, length, token, (state,))
    a.ht[i_n, i_hv, :, lanes()] = state


def _declare(b: Builder, cfg: GatedDeltaNetSeedConfig) -> Args:
    value_lanes = cfg.value_blocks * cfg.block_v
    everything = Window()
    keys = Ref((1, cfg.tokens, cfg.key_heads, cfg.block_k), cfg.dtype, window=everything)
    values = Ref((1, cfg.tokens, cfg.value_heads, value_lanes), cfg.dtype, window=everything)
    states = Ref((cfg.sequences, cfg.value_heads, cfg.block_k, value_lanes), f32, window=everything)
    gates = Ref((1, cfg.tokens, cfg.value_heads), f32, window=everything)
    return b.declare_args(
        dict(
            i_v=Scalar(i32),
            i_nh=Scalar(i32),
            q=keys,
            k=keys,
            v=values,
            g=gates,
            beta=replace(gates, dtype=cfg.beta_dtype),
            h0=states,
            cu_seqlens=Ref((cfg.sequences + 1,), i32, memory_space=MemorySpace.SMEM),
            o=replace(values, role=Role.OUTPUT),
            ht=replace(states, role=Role.OUTPUT),
        ),
        grid=(cfg.value_blocks, cfg.sequences * cfg.value_heads),
        dimension_semantics=(arbitrary, arbitrary),
    )


def _mask(b: Builder, cfg: GatedDeltaNetSeedConfig, i_v: Value) -> Value:
    """Where the state's block lies inside K and V."""
    p = b.pallas
    rows = p.arange(cfg.block_k, i32)
    columns = i_v * cfg.block_v + p.arange(cfg.block_v, i32)
    in_k, in_v = rows < cfg.key_dim, columns < cfg.value_dim
    return in_k[:, None] & in_v[None, :]


def _l2_normalise(b: Builder, x: Value) -> Value:
    return x / b.sqrt(b.pallas.sum(x * x) + 1e-6)


KERNEL = Kernel(
    "fused_recurrent_gated_delta_rule_fwd_kernel",
    GatedDeltaNetSeedConfig,
    inputs=("q", "k", "v", "g", "beta", "h0", "cu_seqlens"),
    outputs=("o", "ht"),
    run=gated_delta_net_seed_kernel,
)
