"""`gated_delta_net`: the recurrent forward pass over ragged sequences."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from mosaic_tpu.builder import as_dtype
from mosaic_tpu.zoo.kernels.gated_delta_net import KERNEL, SUBLANES, GatedDeltaNetConfig
from mosaic_tpu.zoo.validation._arguments import optional_number
from mosaic_tpu.zoo.validation.gated_delta_net import check_shapes

type Abstract = jax.Array | jax.ShapeDtypeStruct


def gated_delta_net(
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
    block_tokens: int | None = None,
    block_heads: int | None = None,
    block_v: int | None = None,
    transpose_keys: bool = False,
    vmem_limit_bytes: int | None = None,
) -> tuple[jax.Array, jax.Array]:
    """Gated delta net over ragged sequences, one token at a time.

    Per value head, from ``S = h0[n]``: ``S *= exp(g)``, ``u = beta (v - k·S)``, ``S += k ⊗ u``, ``o = scale q·S``.

    Args:
        q: queries ``[1, T, H, K]``, bf16 or f32.
        k: keys, like q.
        v: values ``[1, T, HV, V]`` of the same dtype; HV is a multiple of H.
        g: log-decay ``[1, T, HV]``, at most 0; f32 keeps long memories.
        beta: how much of the error is corrected, ``[1, T, HV]``, 0 to 1.
        h0: states before the first token, ``[N, HV, K, V]`` f32.
        cu_seqlens: where sequences start and end along T, ``[N + 1]`` integers, not decreasing.
        scale: multiplies q; K^-1/2 if omitted.
        use_qk_l2norm: divide q and k by sqrt(Σx² + 1e-6) first.
        block_tokens: tokens in VMEM at a time, a multiple of 8; 128 if omitted.
        block_heads: query/key heads at a time: all of them, or a multiple of 8 that divides them; 8 if omitted.
        block_v: lanes of V at a time, a multiple of 128; 128 if omitted.
        transpose_keys: another way to the same result, faster on v4, v5e and v5p, slower on v6e and tpu7x.
        vmem_limit_bytes: VMEM the kernel may use; the compiler's default if omitted.

    Returns:
        ``o`` like v, zero at tokens of no sequence, and ``ht`` like h0; an empty sequence keeps its h0.

    Raises:
        InputError: the arrays do not fit each other. Contents of ``cu_seqlens`` are not looked at here: see
            `mosaic_tpu.zoo.validation.validate_gated_delta_net`.
        ConfigError: a block does not fit the sizes, or an option is not of its kind.
    """
    cfg = plan(
        q,
        k,
        v,
        g,
        beta,
        h0,
        cu_seqlens,
        scale=scale,
        use_qk_l2norm=use_qk_l2norm,
        block_tokens=block_tokens,
        block_heads=block_heads,
        block_v=block_v,
        transpose_keys=transpose_keys,
        vmem_limit_bytes=vmem_limit_bytes,
    )
    return finish(cfg, *KERNEL(cfg=cfg, **prepare(cfg, q, k, v, g, beta, h0, cu_seqlens)))


def plan(
    q: Abstract,
    k: Abstract,
    v: Abstract,
    g: Abstract,
    beta: Abstract,
    h0: Abstract,
    cu_seqlens: Abstract,
    *,
    scale: float | None = None,
    use_qk_l2norm: bool = True,
    block_tokens: int | None = None,
    block_heads: int | None = None,
    block_v: int | None = None,
    transpose_keys: bool = False,
    vmem_limit_bytes: int | None = None,
) -> GatedDeltaNetConfig:
    """The config of a call, with blocks chosen; only shapes and dtypes of the arrays are looked at."""
    check_shapes(q, k, v, g, beta, h0, cu_seqlens)
    _, tokens, key_heads, key_dim = q.shape
    value_heads, value_dim = v.shape[2:]
    whole_tiles = -(-tokens // SUBLANES) * SUBLANES
    block_tokens = 128 if block_tokens is None else block_tokens
    return GatedDeltaNetConfig(
        tokens=tokens,
        key_heads=key_heads,
        value_heads=value_heads,
        key_dim=key_dim,
        value_dim=value_dim,
        sequences=h0.shape[0],
        block_tokens=min(block_tokens, whole_tiles) if isinstance(block_tokens, int) else block_tokens,  # pyright: ignore[reportUnnecessaryIsInstance]
        block_heads=_default_heads(key_heads) if block_heads is None else block_heads,
        block_v=128 if block_v is None else block_v,
        dtype=as_dtype(v.dtype),
        scale=optional_number("gated_delta_net", "scale", scale),
        use_qk_l2norm=use_qk_l2norm,
        transpose_keys=transpose_keys,
        vmem_limit_bytes=vmem_limit_bytes,
    )


def _default_heads(key_heads: int) -> int:
    return key_heads if key_heads % SUBLANES else SUBLANES


def prepare(
    cfg: GatedDeltaNetConfig,
    q: jax.Array,
    k: jax.Array,
    v: jax.Array,
    g: jax.Array,
    beta: jax.Array,
    h0: jax.Array,
    cu_seqlens: jax.Array,
) -> dict[str, Any]:
    """The kernel's operands by name.

    The leading 1 goes, gates become f32 because SMEM holds 32-bit scalars only, and states are padded to whole blocks
    of V because a DMA moves whole tiles.
    """
    pad = cfg.padded_value_dim - cfg.value_dim
    widths = ((0, 0), (0, 0), (0, 0), (0, pad))
    return {
        "cu_seqlens": cu_seqlens.astype(jnp.int32),
        "q": q[0],
        "k": k[0],
        "v": v[0],
        "g": g[0].astype(jnp.float32),
        "beta": beta[0].astype(jnp.float32),
        "h0": jnp.pad(h0, widths) if pad else h0,  # pyright: ignore[reportUnknownMemberType]
    }


def finish(cfg: GatedDeltaNetConfig, o: jax.Array, ht: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Undo `prepare`: the leading 1 back on ``o``, the padded lanes off ``ht``."""
    return o[None], ht[..., : cfg.value_dim] if cfg.padded_value_dim > cfg.value_dim else ht
