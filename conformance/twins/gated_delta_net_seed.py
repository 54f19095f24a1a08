"""The seed's own form of the gated delta net: one program per value block, sequence and value head.

It lowers, and our builder's port of the seed's kernel must equal its body. The TPU compiler refuses it: it reads bf16
scalars from VMEM and indexes the tiled head dimension dynamically. Use `twins.gated_delta_net` to run.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu


def fused_recurrent_gated_delta_rule_fwd_kernel(
    q_ref,
    k_ref,
    v_ref,
    g_ref,
    beta_ref,
    h0_ref,
    cu_seqlens,
    o_ref,
    ht_ref,
    *,
    KEY_DIM: int,  # noqa: N803 (the names of the original kernel)
    VALUE_DIM: int,  # noqa: N803
    BK: int,  # noqa: N803
    BV: int,  # noqa: N803
    scale: float,
    use_qk_l2norm: bool,
):
    """The whole of one sequence, for one value head and one value block, on whole-array windows."""
    i_v = pl.program_id(0)
    i_nh = pl.program_id(1)
    H = q_ref.shape[2]  # noqa: N806
    HV = v_ref.shape[2]  # noqa: N806
    i_n = lax.div(i_nh, HV)
    i_hv = lax.rem(i_nh, HV)
    i_h = lax.div(i_hv, HV // H)
    bos = cu_seqlens[i_n]
    eos = cu_seqlens[i_n + 1]
    T = eos - bos  # noqa: N806

    o_k = jnp.arange(BK, dtype=jnp.int32)
    o_v = i_v * BV + jnp.arange(BV, dtype=jnp.int32)
    mask_k = o_k < KEY_DIM
    mask_v = o_v < VALUE_DIM
    mask_h = mask_k[:, None] & mask_v[None, :]
    b_h = jnp.where(mask_h, h0_ref[i_n, i_hv, :, pl.ds(i_v * BV, BV)], 0.0)

    def body(i, b_h):
        t = bos + i
        b_q = q_ref[0, t, i_h, :].astype(jnp.float32)
        b_k = k_ref[0, t, i_h, :].astype(jnp.float32)
        b_v = v_ref[0, t, i_hv, pl.ds(i_v * BV, BV)].astype(jnp.float32)
        b_g = g_ref[0, t, i_hv].astype(jnp.float32)
        b_beta = beta_ref[0, t, i_hv].astype(jnp.float32)
        if use_qk_l2norm:
            b_q = b_q / jnp.sqrt(jnp.sum(b_q * b_q) + 1e-6)
            b_k = b_k / jnp.sqrt(jnp.sum(b_k * b_k) + 1e-6)
        b_q = b_q * scale
        b_h = b_h * jnp.exp(b_g)
        predicted_v = jnp.sum(b_h * b_k[:, None], axis=0)
        b_u = b_beta * (b_v - predicted_v)
        b_h = b_h + b_k[:, None] * b_u[None, :]
        b_o = jnp.sum(b_h * b_q[:, None], axis=0)
        o_ref[0, t, i_hv, pl.ds(i_v * BV, BV)] = b_o.astype(o_ref.dtype)
        return b_h

    b_h = lax.fori_loop(0, T, body, b_h)
    ht_ref[i_n, i_hv, :, pl.ds(i_v * BV, BV)] = b_h


def fused_recurrent_gated_delta_rule_fwd(
    q: jax.Array,
    k: jax.Array,
    v: jax.Array,
    g: jax.Array,
    beta: jax.Array,
    h0: jax.Array,
    cu_seqlens: jax.Array,
    *,
    scale: float | None = None,
    use_qk_l2norm: bool = True,
    block_k: int | None = None,
    block_v: int = 128,
    interpret: bool | pltpu.InterpretParams = False,
) -> tuple[jax.Array, jax.Array]:
    """Grid (ceil(V / block_v), N·HV), whole arrays as windows in VMEM, `cu_seqlens` in SMEM.

    Arguments and results are those of `twins.gated_delta_net.gated_delta_net`, but outputs at tokens of no sequence are
    left as they were. A single block of K lanes, `block_k`, holds K; arrays are padded to it and to whole blocks of V.
    """
    K = q.shape[3]  # noqa: N806
    HV, V = v.shape[2:]  # noqa: N806
    block_k = K if block_k is None else block_k
    if block_k < K:
        raise ValueError(f"K={K} does not fit into block_k={block_k}")
    lanes = pl.cdiv(V, block_v) * block_v
    q, k = _padded(q, (1, 1, 1, block_k)), _padded(k, (1, 1, 1, block_k))
    v, h0 = _padded(v, (1, 1, 1, lanes)), _padded(h0, (1, 1, block_k, lanes))
    vmem = pl.BlockSpec(memory_space=pltpu.VMEM)
    o, ht = pl.pallas_call(
        functools.partial(
            fused_recurrent_gated_delta_rule_fwd_kernel,
            KEY_DIM=K,
            VALUE_DIM=V,
            BK=block_k,
            BV=block_v,
            scale=K**-0.5 if scale is None else scale,
            use_qk_l2norm=use_qk_l2norm,
        ),
        grid=(pl.cdiv(V, block_v), h0.shape[0] * HV),
        in_specs=[vmem, vmem, vmem, vmem, vmem, vmem, pl.BlockSpec(memory_space=pltpu.SMEM)],
        out_specs=[vmem, vmem],
        out_shape=[jax.ShapeDtypeStruct(v.shape, v.dtype), jax.ShapeDtypeStruct(h0.shape, jnp.float32)],
        compiler_params=pltpu.CompilerParams(dimension_semantics=("arbitrary", "arbitrary")),
        interpret=interpret,
    )(q, k, v, g, beta, h0, cu_seqlens)
    return o[..., :V], ht[:, :, :K, :V]


def _padded(x: jax.Array, sizes: tuple[int, ...]) -> jax.Array:
    """`x` with zeros at the ends of its dimensions, up to `sizes` where they are larger."""
    pads = [(0, max(0, size - old)) for size, old in zip(sizes, x.shape, strict=True)]
    return jnp.pad(x, pads) if any(high for _, high in pads) else x
