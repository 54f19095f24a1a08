"""The seed guide's cheat-sheet: its Python column, by which pairs name its rows, and how it says that in Zig."""

from __future__ import annotations

from typing import Final

GUIDE: Final = {
    "pl.program_id(0)": "a.i_v, declared as .{ .scalar = .i32 }",
    "cu_seqlens[i]": "k.scalarLoad(a.cu_seqlens, &.{ k.toIndex(i) })",
    "lax.div(a, b)": "k.divsi(a, b)",
    "lax.rem(a, b)": "k.remsi(a, b)",
    "jnp.arange(N, dtype=jnp.int32)": "k.arange(N, .i32)",
    "o_k < KEY_DIM": "k.cmpi(.slt, o_k, dim_splat), o_k.lt(dim_splat)",
    "mask_k[:, None] & mask_v[None, :]": "k.andi(k.broadcastTo(k.shapeCast(…)), k.broadcastTo(…))",
    "jnp.where(mask, x, 0.0)": "k.select(mask, x, k.zeros(shape, dtype))",
    "q_ref[0, t, h, :].astype(jnp.float32)": "k.vectorLoadShape(…), .shapeCast(…), .to(.f32)",
    "q_ref[0, t, h, :] = b_o.astype(o_ref.dtype)": "k.vectorStoreAt(a.q, k.shapeCast(…), …)",
    "jnp.sqrt(jnp.sum(b_q * b_q) + 1e-6)": "k.sqrt(k.addf(k.reduceToScalar(.add, k.mulf(…), …), cst_eps))",
    "jnp.exp(b_g)": "k.exp(b_g)",
    "jnp.sum(b_h * b_k[:, None], axis=0)": "k.multiReduction(.add, k.mulf(…), cst_zero_v, &.{0})",
    "b_h * jnp.exp(b_g) (broadcast to <BK,BV>)": "k.mulf(b_h, k.broadcastTo(exp_g, &.{BK, BV}))",
    "b_beta * (b_v - predicted_v)": "k.mulf(k.broadcastTo(b_beta, …), k.subf(b_v, predicted_v))",
    "lax.fori_loop(0, T, body, init)": "k.openFor(c0_i32, T, c1_i32, .{init}), loop.yield(…)",
    "if cond: …": "k.openIf(cond), i.yieldThen(.{})",
    "if cond: x = a else: x = b": "k.openIfElse(cond, .{ty}), i.yieldThen(.{a}), i.yieldElse(.{b})",
    "while cond:": "k.openWhile(…), w.yieldBefore(cond, …), w.yieldAfter(…)",
    "pltpu.MemorySpace.SMEM": ".memory_space = .smem",
    "pl.BlockSpec(memory_space=…) (trivial window)": "the default RefSpec",
    "pl.BlockSpec(block_shape=(BM, BK), …)": ".window = .{ .block_shape = &.{BM, BK} }",
    "pl.BlockSpec(..., pipeline_mode=Buffered(2))": ".window = .{ .pipeline_mode = .double_buffered }",
}
