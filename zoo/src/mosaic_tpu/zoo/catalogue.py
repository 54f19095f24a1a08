"""The zoo's kernels by name, with presets: the default of each, and shapes of models."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from mosaic_tpu.zoo.metadata import KernelInfo, Parts


def _matmul() -> Parts:
    from mosaic_tpu.zoo.api.matmul import matmul
    from mosaic_tpu.zoo.examples.matmul import example
    from mosaic_tpu.zoo.kernels.matmul import KERNEL
    from mosaic_tpu.zoo.references.matmul import matmul as reference
    from mosaic_tpu.zoo.tolerances.matmul import expected

    return Parts(matmul, KERNEL, reference, expected, example)


def _ragged_paged_attention() -> Parts:
    from mosaic_tpu.zoo.api.ragged_paged_attention import ragged_paged_attention
    from mosaic_tpu.zoo.examples.ragged_paged_attention import example
    from mosaic_tpu.zoo.kernels.ragged_paged_attention import KERNEL
    from mosaic_tpu.zoo.references.ragged_paged_attention import ragged_paged_attention as reference
    from mosaic_tpu.zoo.tolerances.ragged_paged_attention import expected
    from mosaic_tpu.zoo.validation.ragged_paged_attention import validate_ragged_paged_attention

    return Parts(ragged_paged_attention, KERNEL, reference, expected, example, validate_ragged_paged_attention)


def _gated_delta_net() -> Parts:
    from mosaic_tpu.zoo.api.gated_delta_net import gated_delta_net, prepare
    from mosaic_tpu.zoo.examples.gated_delta_net import example
    from mosaic_tpu.zoo.kernels.gated_delta_net import KERNEL
    from mosaic_tpu.zoo.references.gated_delta_net import gated_delta_net as reference
    from mosaic_tpu.zoo.tolerances.gated_delta_net import expected
    from mosaic_tpu.zoo.validation.gated_delta_net import validate_gated_delta_net

    return Parts(gated_delta_net, KERNEL, reference, expected, example, validate_gated_delta_net, prepare)


def _llama_3_8b(tokens: int, queries: int, pages: int) -> dict[str, Any]:
    return dict(
        num_tokens=tokens,
        num_q_heads=32,
        num_kv_heads=8,
        head_dim=128,
        num_pages=256,
        page_size=16,
        max_num_seqs=16,
        pages_per_seq=32,
        num_kv_pages_per_block=pages,
        num_queries_per_block=queries,
        sm_scale=128**-0.5,
    )


def _qwen3_next(tokens: int) -> dict[str, Any]:
    return dict(
        tokens=tokens,
        key_heads=16,
        value_heads=32,
        key_dim=128,
        value_dim=128,
        sequences=8,
        block_tokens=min(tokens, 128),
    )


_MATMUL: Final = KernelInfo(
    name="matmul",
    title="Matmul",
    summary="x @ y in blocks, accumulated in f32 or i32.",
    tags=("linear algebra", "MXU"),
    twin="jax.experimental.pallas.ops.tpu.matmul",
    fields=MappingProxyType(
        {
            "default": dict(m=2048, n=2048, k=2048),
            "llama-3-8b-mlp": dict(m=1024, n=14336, k=4096),
        }
    ),
    parts=_matmul,
)

_RPA: Final = KernelInfo(
    name="ragged_paged_attention",
    title="Ragged paged attention",
    summary="Attention of many sequences, prefill and decode mixed, over a paged KV cache.",
    tags=("attention", "serving", "DMA"),
    twin="jax.experimental.pallas.ops.tpu.ragged_paged_attention",
    fields=MappingProxyType(
        {
            "default": dict(
                num_tokens=64,
                num_q_heads=8,
                num_kv_heads=2,
                head_dim=128,
                num_pages=64,
                page_size=16,
                max_num_seqs=4,
                pages_per_seq=16,
                num_kv_pages_per_block=4,
                num_queries_per_block=16,
            ),
            "llama-3-8b": _llama_3_8b(256, 32, 8),
            "llama-3-8b-decode": _llama_3_8b(16, 16, 16),
        }
    ),
    parts=_ragged_paged_attention,
)

_GDN: Final = KernelInfo(
    name="gated_delta_net",
    title="Gated delta net",
    summary="Recurrent linear attention with a gated delta rule over ragged sequences.",
    tags=("linear attention", "recurrent", "streaming"),
    twin="conformance/twins/gated_delta_net.py",
    fields=MappingProxyType(
        {
            "default": dict(
                tokens=256, key_heads=2, value_heads=4, key_dim=128, value_dim=128, sequences=2, block_heads=2
            ),
            "qwen3-next": _qwen3_next(4096),
            "qwen3-next-decode": _qwen3_next(8),
        }
    ),
    parts=_gated_delta_net,
)

KERNELS: Final[Mapping[str, KernelInfo]] = MappingProxyType({info.name: info for info in (_MATMUL, _RPA, _GDN)})
