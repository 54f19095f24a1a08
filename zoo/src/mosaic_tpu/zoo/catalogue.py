"""The zoo's kernels by name, with presets: the default of each, and shapes of models."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from mosaic_tpu.zoo.api.gated_delta_net import gated_delta_net
from mosaic_tpu.zoo.api.matmul import matmul
from mosaic_tpu.zoo.api.ragged_paged_attention import ragged_paged_attention
from mosaic_tpu.zoo.kernels import gated_delta_net as _gdn
from mosaic_tpu.zoo.kernels import matmul as _matmul
from mosaic_tpu.zoo.kernels import ragged_paged_attention as _rpa
from mosaic_tpu.zoo.metadata import KernelInfo
from mosaic_tpu.zoo.references.gated_delta_net import gated_delta_net as _gdn_reference
from mosaic_tpu.zoo.references.matmul import matmul as _matmul_reference
from mosaic_tpu.zoo.references.ragged_paged_attention import ragged_paged_attention as _rpa_reference
from mosaic_tpu.zoo.validation.gated_delta_net import validate_gated_delta_net
from mosaic_tpu.zoo.validation.ragged_paged_attention import validate_ragged_paged_attention


def _llama_3_8b(tokens: int, queries: int, pages: int) -> _rpa.RaggedPagedAttentionConfig:
    return _rpa.RaggedPagedAttentionConfig(
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


def _qwen3_next(tokens: int) -> _gdn.GatedDeltaNetConfig:
    return _gdn.GatedDeltaNetConfig(
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
    function=matmul,
    kernel=_matmul.KERNEL,
    reference=_matmul_reference,
    validate=None,
    twin="jax.experimental.pallas.ops.tpu.matmul",
    presets=MappingProxyType(
        {
            "default": _matmul.MatmulConfig(m=2048, n=2048, k=2048),
            "llama-3-8b-mlp": _matmul.MatmulConfig(m=1024, n=14336, k=4096),
        }
    ),
)

_RPA: Final = KernelInfo(
    name="ragged_paged_attention",
    title="Ragged paged attention",
    summary="Attention of many sequences, prefill and decode mixed, over a paged KV cache.",
    tags=("attention", "serving", "DMA"),
    function=ragged_paged_attention,
    kernel=_rpa.KERNEL,
    reference=_rpa_reference,
    validate=validate_ragged_paged_attention,
    twin="jax.experimental.pallas.ops.tpu.ragged_paged_attention",
    presets=MappingProxyType(
        {
            "default": _rpa.RaggedPagedAttentionConfig(
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
)

_GDN: Final = KernelInfo(
    name="gated_delta_net",
    title="Gated delta net",
    summary="Recurrent linear attention with a gated delta rule over ragged sequences.",
    tags=("linear attention", "recurrent", "streaming"),
    function=gated_delta_net,
    kernel=_gdn.KERNEL,
    reference=_gdn_reference,
    validate=validate_gated_delta_net,
    twin="conformance/twins/gated_delta_net.py",
    presets=MappingProxyType(
        {
            "default": _gdn.GatedDeltaNetConfig(
                tokens=256, key_heads=2, value_heads=4, key_dim=128, value_dim=128, sequences=2, block_heads=2
            ),
            "qwen3-next": _qwen3_next(4096),
            "qwen3-next-decode": _qwen3_next(8),
        }
    ),
)

KERNELS: Final[Mapping[str, KernelInfo]] = MappingProxyType({info.name: info for info in (_MATMUL, _RPA, _GDN)})
