"""Gated delta net, recurrent forward, in plain Pallas: the twin that the zoo's kernel must equal byte for byte.

The state of all heads of a head block stays in VMEM while tokens stream past in blocks. A token block may hold several
sequences and a sequence may span many blocks: each grid step walks the sequences that touch its block, copies a
sequence's state in where it starts and out where it ends. Heads are unrolled statically, tokens are a loop, so that the
work of one token has enough independent chains to fill the vector unit.
"""

from __future__ import annotations

import dataclasses
import functools

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

LANES = 128
SUBLANES = 8


@dataclasses.dataclass(frozen=True)
class GatedDeltaNetPlan:
    """Static sizes of one call: the arrays, the blocks and the grid.

    `block_heads` counts query/key heads; `block_value_heads` is the matching number of value heads.
    `padded_value_dim` is the lane extent of the state in HBM, a multiple of `block_v`.
    """

    tokens: int
    key_heads: int
    value_heads: int
    key_dim: int
    value_dim: int
    sequences: int
    block_tokens: int
    block_heads: int
    block_v: int

    @property
    def group(self) -> int:
        """Value heads that share one query/key head."""
        return self.value_heads // self.key_heads

    @property
    def block_value_heads(self) -> int:
        return self.block_heads * self.group

    @property
    def padded_value_dim(self) -> int:
        return pl.cdiv(self.value_dim, self.block_v) * self.block_v

    @property
    def grid(self) -> tuple[int, int, int]:
        """Head blocks, value blocks, token blocks; the tokens run innermost because the state is carried over them."""
        return (
            self.key_heads // self.block_heads,
            pl.cdiv(self.value_dim, self.block_v),
            pl.cdiv(self.tokens, self.block_tokens),
        )


def plan_gated_delta_net(
    q_shape: tuple[int, ...],
    v_shape: tuple[int, ...],
    sequences: int,
    *,
    block_tokens: int = 128,
    block_heads: int | None = None,
    block_v: int = 128,
) -> GatedDeltaNetPlan:
    """Choose and check the block sizes for `q [1, T, H, K]` and `v [1, T, HV, V]`.

    `block_heads` defaults to eight query/key heads, or to all of them when eight does not divide their number.
    A `block_tokens` larger than T shrinks to T rounded up to a multiple of 8. Raises `ValueError` on sizes that the
    kernel does not support.
    """
    batch, tokens, key_heads, key_dim = q_shape
    if batch != 1 or v_shape[:2] != (1, tokens):
        raise ValueError(f"q and v must be [1, T, ...] with one T, got {q_shape} and {v_shape}")
    value_heads, value_dim = v_shape[2:]
    if value_heads % key_heads:
        raise ValueError(f"{value_heads} value heads are not a multiple of {key_heads} query/key heads")
    if tokens < 1 or sequences < 1:
        raise ValueError(f"need at least one token and one sequence, got {tokens} and {sequences}")
    if block_heads is None:
        block_heads = key_heads if key_heads % SUBLANES else SUBLANES
    if key_heads % block_heads or (block_heads != key_heads and block_heads % SUBLANES):
        raise ValueError(f"block_heads={block_heads} must be {key_heads}, or a multiple of 8 that divides it")
    if block_v % LANES:
        raise ValueError(f"block_v={block_v} must be a multiple of {LANES}")
    if block_tokens < SUBLANES or block_tokens % SUBLANES:
        raise ValueError(f"block_tokens={block_tokens} must be a positive multiple of {SUBLANES}")
    block_tokens = min(block_tokens, pl.cdiv(tokens, SUBLANES) * SUBLANES)
    return GatedDeltaNetPlan(
        tokens, key_heads, value_heads, key_dim, value_dim, sequences, block_tokens, block_heads, block_v
    )


def prepare_operands(
    plan: GatedDeltaNetPlan,
    q: jax.Array,
    k: jax.Array,
    v: jax.Array,
    g: jax.Array,
    beta: jax.Array,
    h0: jax.Array,
    cu_seqlens: jax.Array,
) -> tuple[jax.Array, ...]:
    """Bring the public arrays into the form the kernel reads, in the order of its operands.

    The leading 1 goes, the gates become f32 because SMEM holds 32-bit scalars only, and the state's lanes are padded
    when V is not a multiple of `block_v` because a DMA moves whole tiles.
    """
    pad = plan.padded_value_dim - plan.value_dim
    if pad:
        h0 = jnp.pad(h0, ((0, 0), (0, 0), (0, 0), (0, pad)))
    return (
        cu_seqlens.astype(jnp.int32),
        q[0],
        k[0],
        v[0],
        g[0].astype(jnp.float32),
        beta[0].astype(jnp.float32),
        h0.astype(jnp.float32),
    )


def finish_results(plan: GatedDeltaNetPlan, o: jax.Array, ht: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Undo `prepare_operands`: the leading 1 back on `o`, the padded lanes off `ht`."""
    return o[None], ht[..., : plan.value_dim]


def gated_delta_net_kernel(
    cu_seqlens_ref,
    q_ref,
    k_ref,
    v_ref,
    g_ref,
    beta_ref,
    h0_ref,
    o_ref,
    ht_ref,
    state_ref,
    sem,
    *,
    tokens: int,
    sequences: int,
    scale: float,
    use_qk_l2norm: bool,
    transpose_keys: bool,
):
    """One token block of one head block and one value block.

    Windows: q, k `[BT, BH, K]`, v, o `[BT, BHV, BV]` in VMEM, g, beta `[BT, HV]` f32 in SMEM; h0, ht `[N, HV, K, V']`
    f32 stay in HBM; `state_ref [BHV, K, BV]` f32 lives across the token blocks.
    """
    block_tokens, block_heads, _ = q_ref.shape
    _, block_value_heads, block_v = v_ref.shape
    group = block_value_heads // block_heads
    i_h = pl.program_id(0)
    i_v = pl.program_id(1)
    i_t = pl.program_id(2)
    first_head = i_h * block_value_heads
    begin = i_t * block_tokens
    end = lax.min(begin + block_tokens, tokens)

    def state_slice(ref, n):
        return ref.at[n, pl.ds(first_head, block_value_heads), :, pl.ds(i_v * block_v, block_v)]

    def clear(t, carry):
        o_ref[t] = jnp.zeros((block_value_heads, block_v), o_ref.dtype)
        return carry

    def step(t, carry):
        q = q_ref[t].astype(jnp.float32)
        k = k_ref[t].astype(jnp.float32)
        v = v_ref[t].astype(jnp.float32)
        if use_qk_l2norm:
            q = q / jnp.sqrt(jnp.sum(q * q, axis=1, keepdims=True) + 1e-6)
            k = k / jnp.sqrt(jnp.sum(k * k, axis=1, keepdims=True) + 1e-6)
        q = q * scale
        if transpose_keys:
            q = q.T
            k = k.T
        rows = []
        for h in range(block_heads):
            if transpose_keys:
                k_column = k[:, h : h + 1]
                q_column = q[:, h : h + 1]
            else:
                k_column = k[h][:, None]
                q_column = q[h][:, None]
            for hv in range(h * group, (h + 1) * group):
                decay = jnp.exp(jnp.full((1, block_v), g_ref[t, first_head + hv]))
                state = state_ref[hv] * decay
                predicted = jnp.sum(state * k_column, axis=0, keepdims=True)
                update = beta_ref[t, first_head + hv] * (v[hv : hv + 1] - predicted)
                state = state + k_column * update
                state_ref[hv] = state
                rows.append(jnp.sum(state * q_column, axis=0, keepdims=True))
        o_ref[t] = jnp.concatenate(rows, axis=0).astype(o_ref.dtype)
        return carry

    # Tokens of no sequence are skipped below; their outputs are zero.
    @pl.when((begin < cu_seqlens_ref[0]) | (end > cu_seqlens_ref[sequences]))
    def _():
        lax.fori_loop(0, block_tokens, clear, None)

    def sequence(n, carry):
        bos = cu_seqlens_ref[n]
        eos = cu_seqlens_ref[n + 1]
        lo = lax.max(bos, begin)
        hi = lax.min(eos, end)
        # An empty sequence belongs to the block it would start in, and the last block also takes those at T.
        starts = (bos >= begin) & ((bos < end) | (end == tokens))
        ends = (eos <= end) & (starts | (lo < hi))

        @pl.when(starts)
        def _():
            copy = pltpu.make_async_copy(state_slice(h0_ref, n), state_ref, sem)
            copy.start()
            copy.wait()

        lax.fori_loop(lo - begin, hi - begin, step, None)

        @pl.when(ends)
        def _():
            copy = pltpu.make_async_copy(state_ref, state_slice(ht_ref, n), sem)
            copy.start()
            copy.wait()

        return carry

    lax.fori_loop(0, sequences, sequence, None)


def gated_delta_net_call(
    plan: GatedDeltaNetPlan,
    dtype: jnp.dtype,
    *,
    scale: float,
    use_qk_l2norm: bool = True,
    transpose_keys: bool = False,
    vmem_limit_bytes: int | None = None,
    interpret: bool | pltpu.InterpretParams = False,
):
    """The `pallas_call` alone: takes what `prepare_operands` returns, gives `o [T, HV, V]` of `dtype` and `ht`."""
    p = plan
    qk_spec = pl.BlockSpec((p.block_tokens, p.block_heads, p.key_dim), lambda h, w, t, _: (t, h, 0))
    v_spec = pl.BlockSpec((p.block_tokens, p.block_value_heads, p.block_v), lambda h, w, t, _: (t, h, w))
    gate_spec = pl.BlockSpec((p.block_tokens, p.value_heads), lambda h, w, t, _: (t, 0), memory_space=pltpu.SMEM)
    state_spec = pl.BlockSpec(memory_space=pl.ANY)
    return pl.pallas_call(
        functools.partial(
            gated_delta_net_kernel,
            tokens=p.tokens,
            sequences=p.sequences,
            scale=scale,
            use_qk_l2norm=use_qk_l2norm,
            transpose_keys=transpose_keys,
        ),
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1,
            grid=p.grid,
            in_specs=[qk_spec, qk_spec, v_spec, gate_spec, gate_spec, state_spec],
            out_specs=[v_spec, state_spec],
            scratch_shapes=[
                pltpu.VMEM((p.block_value_heads, p.key_dim, p.block_v), jnp.float32),
                pltpu.SemaphoreType.DMA,
            ],
        ),
        out_shape=[
            jax.ShapeDtypeStruct((p.tokens, p.value_heads, p.value_dim), dtype),
            jax.ShapeDtypeStruct((p.sequences, p.value_heads, p.key_dim, p.padded_value_dim), jnp.float32),
        ],
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", "parallel", "arbitrary"),
            vmem_limit_bytes=vmem_limit_bytes,
        ),
        interpret=interpret,
        name="gated_delta_net",
    )


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
    block_tokens: int = 128,
    block_heads: int | None = None,
    block_v: int = 128,
    transpose_keys: bool = False,
    vmem_limit_bytes: int | None = None,
    interpret: bool | pltpu.InterpretParams = False,
) -> tuple[jax.Array, jax.Array]:
    """Gated delta net over ragged sequences, one token at a time.

    Per value head, from `S = h0[n]`: `S *= exp(g)`, `u = beta (v - k·S)`, `S += k ⊗ u`, `o = q·S`.

    Arguments: `q, k [1, T, H, K]` and `v [1, T, HV, V]` in bf16 or f32, HV a multiple of H; log-decay `g [1, T, HV]`;
    `beta [1, T, HV]` of any float type; `h0 [N, HV, K, V]` f32; `cu_seqlens [N + 1]` i32, non-decreasing, at most T.
    `scale` multiplies q and defaults to K^-1/2; `use_qk_l2norm` first divides q and k by sqrt(Σx² + 1e-6).
    `transpose_keys` takes the columns of q and k from one transpose per token instead of one relayout per head: fewer
    bundles on v4, v5e and v5p, more on v6e and tpu7x; the results are the same.

    Returns `o` like v, zero at tokens of no sequence, and `ht` like h0 (an empty sequence keeps its h0).
    """
    plan = plan_gated_delta_net(
        q.shape, v.shape, h0.shape[0], block_tokens=block_tokens, block_heads=block_heads, block_v=block_v
    )
    call = gated_delta_net_call(
        plan,
        v.dtype,
        scale=plan.key_dim**-0.5 if scale is None else scale,
        use_qk_l2norm=use_qk_l2norm,
        transpose_keys=transpose_keys,
        vmem_limit_bytes=vmem_limit_bytes,
        interpret=interpret,
    )
    return finish_results(plan, *call(*prepare_operands(plan, q, k, v, g, beta, h0, cu_seqlens)))
