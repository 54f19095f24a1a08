"""Every row of the seed guide's cheat-sheet and every idiom of ``b.pallas``, as pairs of micro-kernels.

Not here, because there is nothing to compare with:

- ``ref[-1]`` with a static negative index: Pallas hands the -1 to the load, which reads before the ref; ours counts
  from the end.
- The guide's ``reduce_to_scalar(kind, x, acc)``: it takes its start value as an argument, so that constant comes before
  the shape cast, while Pallas makes it after. ``b.pallas.sum`` does as Pallas does.
- A ``fori_loop`` or a value that nobody reads: JAX drops dead code before Pallas lowers it, a builder emits what it is
  told. (A loop's counter is the exception: it is always there in the source.)
- Kernels that signal other devices by mesh coordinates: they need the axes of a mesh, under which Pallas emits other
  ops. Those with logical ids are compared, on a mesh of one device.
"""

from __future__ import annotations

from typing import Final

from conformance.cases.cheat_sheet import control, dma, elementwise, guide, refs, shapes, windows
from conformance.cases.cheat_sheet.pairs import Pair

#: The guide's cheat-sheet, its Python column, in its order.
GUIDE_ROWS: Final = (
    "pl.program_id(0)",
    "cu_seqlens[i]",
    "lax.div(a, b)",
    "lax.rem(a, b)",
    "jnp.arange(N, dtype=jnp.int32)",
    "o_k < KEY_DIM",
    "mask_k[:, None] & mask_v[None, :]",
    "jnp.where(mask, x, 0.0)",
    "q_ref[0, t, h, :].astype(jnp.float32)",
    "q_ref[0, t, h, :] = b_o.astype(o_ref.dtype)",
    "jnp.sqrt(jnp.sum(b_q * b_q) + 1e-6)",
    "jnp.exp(b_g)",
    "jnp.sum(b_h * b_k[:, None], axis=0)",
    "b_h * jnp.exp(b_g) (broadcast to <BK,BV>)",
    "b_beta * (b_v - predicted_v)",
    "lax.fori_loop(0, T, body, init)",
    "if cond: …",
    "if cond: x = a else: x = b",
    "while cond:",
    "pltpu.MemorySpace.SMEM",
    "pl.BlockSpec(memory_space=…) (trivial window)",
    "pl.BlockSpec(block_shape=(BM, BK), …)",
    "pl.BlockSpec(..., pipeline_mode=Buffered(2))",
)

PAIRS: Final[tuple[Pair, ...]] = tuple(
    pair for module in (guide, elementwise, shapes, refs, control, dma, windows) for pair in module.PAIRS
)
