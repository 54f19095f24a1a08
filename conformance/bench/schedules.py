"""Estimated cycles of each zoo kernel as ratios to its Pallas twin's and to the physical ideal, per generation.

Estimates are the TPU compiler's own where they can be trusted, else those of `mosaic_tpu.aot.specialize`
for one batch. They rank variants on one generation; nothing was measured on a TPU. The ideal is the roofline's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from conformance.cases import gated_delta_net, ragged_paged_attention
from conformance.cases.kernels import CASES
from conformance.harness.targets import REQUIRED
from mosaic_tpu import aot


@dataclass(frozen=True)
class Case:
    """A kernel case, and the scalars of one batch."""

    id: str
    scalars: tuple[Any, ...] = ()


def cases() -> list[Case]:
    """One or two of each kernel: the config of its conformance case, and a ragged batch that it takes."""
    attention = {c.id: c for c in ragged_paged_attention.CONFIGS}
    linear = {c.id: c for c in gated_delta_net.CONFIGS}
    return [
        Case("matmul-bf16-512"),
        *(
            Case(f"ragged_paged_attention-{id_}", attention_batch(ragged_paged_attention.args(attention[id_])))
            for id_ in ("bf16", "llama3-8b-decode")
        ),
        Case("gated_delta_net-bf16", linear_batch(gated_delta_net.args(linear["bf16"]))),
    ]


def attention_batch(shapes: Mapping[str, jax.ShapeDtypeStruct]) -> tuple[Any, ...]:
    """Sequences that share the queries, each with half of the tokens that its pages can hold."""
    seqs, per_seq = shapes["page_indices"].shape
    tokens, page_size = shapes["q"].shape[0], shapes["kv_pages"].shape[1]
    used = min(seqs, tokens)
    starts = np.minimum(np.arange(seqs + 1), used) * tokens // used
    kv_lens = np.maximum(np.diff(starts), per_seq * page_size // 2)
    tables = np.arange(seqs * per_seq).reshape(seqs, per_seq) % shapes["kv_pages"].shape[0]
    return tuple(np.asarray(a, np.int32) for a in (kv_lens, tables, starts, [0, 0], [used]))


def linear_batch(shapes: Mapping[str, jax.ShapeDtypeStruct]) -> tuple[Any, ...]:
    """Sequences of equal length."""
    (starts,) = shapes["cu_seqlens"].shape
    return (np.linspace(0, shapes["q"].shape[0], starts).astype(np.int32),)


def bench_schedules(show: Callable[[str], None]) -> list[dict[str, Any]]:
    """One row a case and generation."""
    rows: list[dict[str, Any]] = []
    for case in cases():
        ours, theirs = next(c for c in CASES if c.id == case.id).lowered()
        for target in REQUIRED:
            show(f"{case.id} for {target}")
            mine, twins = (aot.specialize(call.stablehlo, target, scalars=case.scalars) for call in (ours, theirs))
            trusted = mine.compiler.trustworthy
            cycles, others = ((s.compiler.cycles if trusted else s.cycles) or 0 for s in (mine, twins))
            rows.append(
                {
                    "kernel": case.id,
                    "target": target,
                    "cycles": round(cycles),
                    "by": "compiler" if trusted else "counted runs",
                    "counted / compiler": round(mine.cycles / cycles, 2) if trusted else None,
                    "ours / Pallas": round(cycles / others, 3),
                    "ours / ideal": round(cycles / mine.roofline.ideal_cycles, 2),
                    "bound": mine.roofline.bound,
                }
            )
    return rows
