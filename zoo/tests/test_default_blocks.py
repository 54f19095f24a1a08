"""Blocks that nobody gave are legal for every shape, or the error says what the shape lacks."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, assume, given, settings

from mosaic_tpu.kernel import ConfigError, InputError
from mosaic_tpu.zoo.api import gated_delta_net, matmul, ragged_paged_attention
from mosaic_tpu.zoo.api._paged_attention_blocks import DEFAULT_VMEM, vmem_bytes
from mosaic_tpu.zoo.kernels import gated_delta_net as gdn
from mosaic_tpu.zoo.kernels import matmul as mm
from mosaic_tpu.zoo.kernels import ragged_paged_attention as rpa

from .conftest import array, attention_arrays, delta_net_arrays, matmul_arrays

slow = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much]
)
sizes = st.one_of(st.integers(1, 700), st.sampled_from([1024, 1536, 2048, 4096, 14336]))
dtypes = st.sampled_from(["float32", "bfloat16", "float16", "int8", "int4", "float8_e4m3fn"])


def _plan(module: Any, arrays: dict[str, Any], **options: Any) -> Any:
    """The config, or ``None`` for a shape that is refused as it should be."""
    try:
        return module.plan(**arrays, **options)
    except (InputError, ConfigError) as error:
        assert error.hint != type(error).default_hint
        return None


@slow
@given(m=sizes, k=sizes, n=sizes, dtype=dtypes)
def test_matmul(m: int, k: int, n: int, dtype: str) -> None:
    cfg = _plan(matmul, matmul_arrays(m, k, n, dtype))
    assume(cfg)
    assert (cfg.m, cfg.k, cfg.n) == (m, k, n)
    for size, block in ((m, cfg.block_m), (n, cfg.block_n), (k, cfg.block_k)):
        assert block == size or (size % block == 0 and block <= matmul.BLOCK)
    assert cfg.block_n == n or cfg.block_n % 128 == 0
    assert cfg.block_k == k or cfg.block_k % 128 == 0
    assert mm.KERNEL.inputs_of(cfg)


def test_matmul_of_a_size_that_no_block_divides_says_what_to_pad_to() -> None:
    with pytest.raises(InputError, match="pad M to 704 with zeros"):
        matmul.plan(**matmul_arrays(m=701, dtype="bfloat16"))
    assert matmul.plan(**matmul_arrays(m=704, dtype="bfloat16")).block_m == 352


def test_block_k_is_the_wheels_where_the_block_shape_is_given() -> None:
    arrays = matmul_arrays(m=256, k=1024, n=256)
    assert matmul.plan(**arrays, block_shape=(128, 128)).block_k == 256
    assert matmul.plan(**arrays).block_k == 512
    assert matmul.plan(**matmul_arrays(k=384), block_shape=(128, 128)).block_k == 384


@slow
@given(
    tokens=st.integers(1, 600),
    group=st.sampled_from([1, 2, 3, 4, 5, 8, 16]),
    kv_heads=st.sampled_from([1, 2, 3, 4, 8, 12, 16]),
    head_dim=st.sampled_from([64, 128, 256, 384]),
    page_size=st.sampled_from([1, 2, 7, 16, 32, 128, 256, 2048]),
    pages_per_seq=st.sampled_from([1, 2, 3, 8, 64]),
    dtype=st.sampled_from(["float32", "bfloat16", "float16"]),
    kv_dtype=st.sampled_from(["float32", "bfloat16", "float16", "int8", "uint8", "float8_e4m3fn", "int4", "bool"]),
    scaled=st.booleans(),
    vmem_limit_bytes=st.sampled_from([None, None, 1, 1 << 20, 100 << 20]),
)
def test_ragged_paged_attention(
    tokens: int, group: int, kv_heads: int, scaled: bool, vmem_limit_bytes: int | None, **shape: Any
) -> None:
    scales = {"k_scale": 0.5, "v_scale": 0.5} if scaled else {}
    arrays = attention_arrays(tokens, group * kv_heads, kv_heads, **shape)
    cfg = _plan(ragged_paged_attention, arrays, **scales, vmem_limit_bytes=vmem_limit_bytes)
    assume(cfg)
    assert 1 <= cfg.num_kv_pages_per_block <= cfg.pages_per_seq
    assert 1 <= cfg.num_queries_per_block <= tokens
    smallest = cfg.num_queries_per_block == 1 and cfg.num_kv_pages_per_block <= max(1, 3 // cfg.page_size)
    assert smallest or vmem_bytes(cfg) <= (vmem_limit_bytes or DEFAULT_VMEM)
    if cfg.num_kv_pages_per_block * cfg.head_block.kv_heads <= 32:  # the body is unrolled over both
        assert rpa.KERNEL.inputs_of(cfg)


def test_blocks_that_are_given_stay() -> None:
    arrays = attention_arrays(pages_per_seq=64, page_size=128)
    given_both = ragged_paged_attention.plan(**arrays, num_kv_pages_per_block=64, num_queries_per_block=512)
    assert (given_both.num_kv_pages_per_block, given_both.num_queries_per_block) == (64, 512)
    assert vmem_bytes(given_both) > DEFAULT_VMEM
    pages_alone = ragged_paged_attention.plan(**arrays, num_kv_pages_per_block=64)
    assert pages_alone.num_kv_pages_per_block == 64 and pages_alone.num_queries_per_block < 32


def test_more_vmem_gives_larger_blocks() -> None:
    arrays = attention_arrays(tokens=256, q_heads=64, kv_heads=8, head_dim=256, page_size=128, pages_per_seq=64)
    small, large = (ragged_paged_attention.plan(**arrays, vmem_limit_bytes=n << 20) for n in (8, 100))
    assert small.num_kv_pages_per_block < large.num_kv_pages_per_block


@slow
@given(
    tokens=st.integers(1, 300),
    heads=st.sampled_from([1, 2, 3, 4, 6, 7, 8, 16, 24]),
    group=st.sampled_from([1, 2, 3]),
    key_dim=st.sampled_from([1, 16, 40, 64, 128, 256]),
    value_dim=st.sampled_from([1, 16, 72, 128, 200, 256]),
    seqs=st.integers(1, 9),
    dtype=st.sampled_from(["float32", "bfloat16", "float16"]),
)
def test_gated_delta_net(tokens: int, heads: int, group: int, **shape: Any) -> None:
    cfg = _plan(gated_delta_net, delta_net_arrays(tokens, heads, heads * group, **shape))
    assume(cfg)
    assert cfg.block_tokens % 8 == 0 and cfg.block_tokens <= 128
    assert heads % cfg.block_heads == 0 and cfg.padded_value_dim >= cfg.value_dim
    if cfg.block_value_heads <= 12:  # the body is unrolled over them
        assert gdn.KERNEL.inputs_of(cfg)


def test_a_token_block_is_never_longer_than_the_tokens() -> None:
    arrays = delta_net_arrays(tokens=13)
    assert gated_delta_net.plan(**arrays).block_tokens == 16
    assert gated_delta_net.plan(**arrays, block_tokens=64).block_tokens == 16
    assert gated_delta_net.plan(**arrays, block_tokens=8).block_tokens == 8


def test_only_shapes_and_dtypes_are_looked_at() -> None:
    arrays = {**attention_arrays(), "kv_lens": array((3,), "int32")}
    assert hash(ragged_paged_attention.plan(**arrays)) == hash(ragged_paged_attention.plan(**arrays))
