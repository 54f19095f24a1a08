"""Arrays and options that do not fit are refused by the call, at the caller's line, with what would fit."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mosaic_tpu import zoo
from mosaic_tpu.kernel import ConfigError, InputError

from .conftest import ARRAYS, Refuses, array, attention_arrays, delta_net_arrays, matmul_arrays


def _call(name: str, arrays: dict[str, Any], **options: Any) -> Any:
    """Trace the call on abstract arrays; what is no array is given as it is."""
    abstract = {k: v for k, v in arrays.items() if isinstance(v, jax.ShapeDtypeStruct)}
    others = {k: v for k, v in arrays.items() if k not in abstract}
    return jax.eval_shape(lambda **a: zoo.KERNELS[name].function(**a, **others, **options), **abstract)


# Each row: changed arrays, and parts of the message and the hint.
MATMUL = [
    ({"x": array((8,), "float32")}, "x [8]", "x [M, K], y [K, N]"),
    ({"x": array((1, 8, 8), "float32")}, "x [1, 8, 8]", "x [M, K], y [K, N]"),
    ({"x": array((256, 100), "bfloat16")}, "do not multiply", "x [M, K], y [K, N]"),
    ({"x": array((0, 384), "bfloat16")}, "is empty", "at least 1"),
    ({"y": array((384, 128), "float32")}, "the result could be either", "out_dtype="),
    ({"x": [[1.0, 2.0]]}, "x is a list", "jnp.asarray(x)"),
    ({"y": None}, "y is a NoneType", "jnp.asarray(y)"),
    ({"x": array((256, 384), "complex64")}, "complex64", "4 to 32 bits"),
    ({"x": array((1024, 701), "bfloat16"), "y": array((701, 128), "bfloat16")}, "K=701", "pad K to 768"),
]
ATTENTION = [
    ({"q": array((24, 1024), "bfloat16")}, "'q' has shape (24, 1024)", "tokens, q_heads, head_dim"),
    ({"kv_pages": array((12, 16, 128), "bfloat16")}, "'kv_pages' has shape", "page_size"),
    ({"page_indices": array((3,), "int32")}, "'page_indices' has shape", "seqs, pages_per_seq"),
    ({"q": array((24, 8, 64), "bfloat16")}, "head_dim is 64 in 'q' and 128", "pad"),
    ({"kv_pages": array((12, 16, 3, 128), "bfloat16")}, "3 rows a token", "even"),
    ({"kv_lens": array((4,), "int32")}, "'kv_lens' has shape (4,)", "(3,)"),
    ({"cu_q_lens": array((3,), "int32")}, "'cu_q_lens' has shape (3,)", "(4,)"),
    ({"num_seqs": array((), "int32")}, "'num_seqs' has shape ()", "(1,)"),
    ({"kv_lens": array((3,), "uint32")}, "'kv_lens' is uint32", "int32"),
    ({"page_indices": array((3, 4), "int16")}, "'page_indices' is int16", "int32"),
    ({"cu_q_lens": array((4,), "float32")}, "'cu_q_lens' is float32", "int32"),
    ({"num_seqs": 3}, "num_seqs is a int", "jnp.asarray(num_seqs)"),
    ({"kv_pages": array((12, 16, 4, 128), "complex64")}, "complex64", "4 to 32 bits"),
]
DELTA_NET = [
    ({"q": array((24, 2, 128), "bfloat16")}, "q is [24, 2, 128]", "[1, T, H, K]"),
    ({"q": array((2, 24, 2, 128), "bfloat16")}, "a batch of 2", "end to end"),
    ({"q": array((1, 0, 2, 128), "bfloat16")}, "q is [1, 0, 2, 128]", "every size at least 1"),
    ({"k": array((1, 24, 1, 128), "bfloat16")}, "k is [1, 24, 1, 128]", "that of q"),
    ({"v": array((1, 23, 4, 128), "bfloat16")}, "v is [1, 23, 4, 128]", "one T with q"),
    ({"g": array((1, 24, 2), "float32")}, "g is [1, 24, 2]", "[1, T, HV]"),
    ({"beta": array((24, 4), "float32")}, "beta is [24, 4]", "[1, T, HV]"),
    ({"h0": array((3, 4, 64, 128), "float32")}, "h0 is [3, 4, 64, 128]", "[N, HV, K, V]"),
    ({"cu_seqlens": array((3,), "int32")}, "cu_seqlens is [3]", "N states of h0"),
    ({"cu_seqlens": array((4, 1), "int32")}, "cu_seqlens is [4, 1]", "[N + 1]"),
    ({"q": array((1, 24, 2, 128), "float32")}, "q, k, v are float32, bfloat16", "all bfloat16"),
    ({"g": array((1, 24, 4), "int32")}, "g is int32", "float"),
    ({"h0": array((3, 4, 128, 128), "bfloat16")}, "h0 is bfloat16", "astype"),
    ({"cu_seqlens": array((4,), "float32")}, "cu_seqlens is float32", "int"),
    ({"cu_seqlens": [0, 8, 16, 24]}, "cu_seqlens is a list", "jnp.asarray(cu_seqlens)"),
]
ROWS = [
    pytest.param(name, *row, id=f"{name}-{'-'.join(row[0])}-{i}")
    for name, rows in (("matmul", MATMUL), ("ragged_paged_attention", ATTENTION), ("gated_delta_net", DELTA_NET))
    for i, row in enumerate(rows)
]


@pytest.mark.parametrize(("name", "changed", "text", "hint"), ROWS)
def test_arrays_that_do_not_fit_are_refused(
    name: str, changed: dict[str, Any], text: str, hint: str, refuses: Refuses
) -> None:
    with refuses(InputError, f"{name}: ", text, hint=hint):
        _call(name, {**ARRAYS[name](), **changed})


@pytest.mark.parametrize("name", ARRAYS)
def test_arrays_that_fit_are_taken(name: str) -> None:
    assert jax.tree.leaves(_call(name, ARRAYS[name]()))


BAD_OPTIONS = [
    ("matmul", {"block_shape": (128,)}, InputError, "(128,)"),
    ("matmul", {"block_shape": 128}, InputError, "block_shape is 128"),
    ("matmul", {"block_shape": ()}, InputError, "block_shape is ()"),
    ("matmul", {"block_shape": (0, 128)}, ConfigError, "m=256 in blocks of 0"),
    ("matmul", {"block_shape": (128, 100)}, ConfigError, "block_n=100 does not divide n=128"),
    ("matmul", {"block_k": 100}, ConfigError, "block_k=100 does not divide k=384"),
    ("matmul", {"block_k": "256"}, ConfigError, "blocks of '256'"),
    ("matmul", {"out_dtype": "float63"}, InputError, "out_dtype is 'float63'"),
    ("matmul", {"out_dtype": "float64"}, ConfigError, "out_dtype is f64"),
    ("ragged_paged_attention", {"sm_scale": "1"}, InputError, "sm_scale is a str"),
    ("ragged_paged_attention", {"sm_scale": jnp.float32(1)}, InputError, "sm_scale is a "),
    ("ragged_paged_attention", {"sm_scale": float("nan")}, ConfigError, "sm_scale is nan"),
    ("ragged_paged_attention", {"soft_cap": 0.0}, ConfigError, "soft_cap is 0"),
    ("ragged_paged_attention", {"soft_cap": True}, InputError, "soft_cap is a bool"),
    ("ragged_paged_attention", {"mask_value": [0]}, InputError, "mask_value is a list"),
    ("ragged_paged_attention", {"k_scale": "x"}, InputError, "k_scale is a str"),
    ("ragged_paged_attention", {"sliding_window": 0}, ConfigError, "sliding_window is 0"),
    ("ragged_paged_attention", {"sliding_window": 2.5}, ConfigError, "sliding_window is 2.5"),
    ("ragged_paged_attention", {"sliding_window": "2"}, ConfigError, "sliding_window is '2'"),
    ("ragged_paged_attention", {"num_kv_pages_per_block": 5}, ConfigError, "blocks of 5 pages"),
    ("ragged_paged_attention", {"num_kv_pages_per_block": 0}, ConfigError, "num_kv_pages_per_block is 0"),
    ("ragged_paged_attention", {"num_queries_per_block": -1}, ConfigError, "num_queries_per_block is -1"),
    ("ragged_paged_attention", {"vmem_limit_bytes": 0}, ConfigError, "vmem_limit_bytes is 0"),
    ("ragged_paged_attention", {"vmem_limit_bytes": "16M"}, ConfigError, "vmem_limit_bytes is '16M'"),
    ("gated_delta_net", {"scale": "1"}, InputError, "scale is a str"),
    ("gated_delta_net", {"scale": jnp.float32(1)}, InputError, "scale is a "),
    ("gated_delta_net", {"use_qk_l2norm": 1}, ConfigError, "use_qk_l2norm is 1"),
    ("gated_delta_net", {"transpose_keys": None}, ConfigError, "transpose_keys is None"),
    ("gated_delta_net", {"block_tokens": 12}, ConfigError, "block_tokens=12"),
    ("gated_delta_net", {"block_tokens": 0}, ConfigError, "block_tokens is 0"),
    ("gated_delta_net", {"block_tokens": "8"}, ConfigError, "block_tokens is '8'"),
    ("gated_delta_net", {"block_heads": 3}, ConfigError, "block_heads=3 of 2"),
    ("gated_delta_net", {"block_v": 64}, ConfigError, "block_v=64"),
    ("gated_delta_net", {"vmem_limit_bytes": -1}, ConfigError, "vmem_limit_bytes is -1"),
]


@pytest.mark.parametrize(
    ("name", "options", "error", "text"),
    BAD_OPTIONS,
    ids=[f"{n}-{'-'.join(o)}-{i}" for i, (n, o, *_) in enumerate(BAD_OPTIONS)],
)
def test_options_that_do_not_fit_are_refused(
    name: str, options: dict[str, Any], error: type, text: str, refuses: Refuses
) -> None:
    with refuses(error, text):
        _call(name, ARRAYS[name](), **options)


GOOD_OPTIONS = [
    ("matmul", {"block_shape": (128, 128)}),
    ("matmul", {"block_shape": [256, 128], "block_k": 128}),
    ("matmul", {"out_dtype": jnp.float32}),
    ("ragged_paged_attention", {"sm_scale": 1}),
    ("ragged_paged_attention", {"sm_scale": np.float32(0.5), "mask_value": -1e9}),
    ("ragged_paged_attention", {"soft_cap": 30, "sliding_window": 4}),
    ("ragged_paged_attention", {"num_kv_pages_per_block": 4, "num_queries_per_block": 100}),
    ("gated_delta_net", {"scale": 1, "use_qk_l2norm": False, "transpose_keys": True}),
    ("gated_delta_net", {"block_tokens": 8, "block_heads": 2, "block_v": 256}),
]


@pytest.mark.parametrize(("name", "options"), GOOD_OPTIONS)
def test_options_that_fit_are_taken(name: str, options: dict[str, Any]) -> None:
    assert jax.tree.leaves(_call(name, ARRAYS[name](), **options))


def test_what_the_kernel_does_not_take_is_refused_with_what_it_takes(refuses: Refuses) -> None:
    with refuses(ConfigError, "head_dim is 64", hint="pad heads to a multiple of 128"):
        _call("ragged_paged_attention", attention_arrays(head_dim=64))
    with refuses(ConfigError, "q_dtype is f16", hint="bf16, f32"):
        _call("ragged_paged_attention", attention_arrays(dtype="float16"))
    with refuses(ConfigError, "8 query heads", hint="multiple of num_kv_heads"):
        _call("ragged_paged_attention", attention_arrays(kv_heads=3))
    with refuses(ConfigError, "u8 without scales", hint="k_scale and v_scale"):
        _call("ragged_paged_attention", attention_arrays(kv_dtype="uint8"))
    with refuses(InputError, "q, k, v are float16", hint="bfloat16"):
        _call("gated_delta_net", delta_net_arrays(dtype="float16"))
    with refuses(InputError, "v has 3 heads, q has 2", hint="multiple"):
        _call("gated_delta_net", delta_net_arrays(value_heads=3))
    with refuses(ConfigError, "x has element type u8", hint="cast first"):
        _call("matmul", matmul_arrays(dtype="uint8"))


def test_an_error_names_the_line_that_called_even_inside_of_a_dataclass(refuses: Refuses) -> None:
    from dataclasses import dataclass

    @dataclass
    class Layer:
        width: int

        def __post_init__(self) -> None:
            _call("matmul", matmul_arrays(k=self.width), block_k=128)

    with refuses(ConfigError, "block_k=128 does not divide k=100"):
        Layer(100)
