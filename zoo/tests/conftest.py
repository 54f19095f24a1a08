"""What the zoo's tests share: abstract arrays, a small call of each kernel, and one check of every error's message."""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from mosaic_tpu.builder.errors import MosaicError

HERE = Path(__file__).parent

type Arrays = dict[str, Any]


def array(shape: tuple[int, ...], dtype: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, dtype)


def matmul_arrays(m: int = 256, k: int = 384, n: int = 128, dtype: Any = "bfloat16") -> Arrays:
    return {"x": array((m, k), dtype), "y": array((k, n), dtype)}


def attention_arrays(
    tokens: int = 24,
    q_heads: int = 8,
    kv_heads: int = 2,
    head_dim: int = 128,
    pages: int = 12,
    page_size: int = 16,
    seqs: int = 3,
    pages_per_seq: int = 4,
    dtype: Any = "bfloat16",
    kv_dtype: Any = "bfloat16",
) -> Arrays:
    return {
        "q": array((tokens, q_heads, head_dim), dtype),
        "kv_pages": array((pages, page_size, 2 * kv_heads, head_dim), kv_dtype),
        "kv_lens": array((seqs,), "int32"),
        "page_indices": array((seqs, pages_per_seq), "int32"),
        "cu_q_lens": array((seqs + 1,), "int32"),
        "num_seqs": array((1,), "int32"),
    }


def delta_net_arrays(
    tokens: int = 24,
    heads: int = 2,
    value_heads: int = 4,
    key_dim: int = 128,
    value_dim: int = 128,
    seqs: int = 3,
    dtype: Any = "bfloat16",
    gate_dtype: Any = "float32",
) -> Arrays:
    return {
        "q": array((1, tokens, heads, key_dim), dtype),
        "k": array((1, tokens, heads, key_dim), dtype),
        "v": array((1, tokens, value_heads, value_dim), dtype),
        "g": array((1, tokens, value_heads), gate_dtype),
        "beta": array((1, tokens, value_heads), dtype),
        "h0": array((seqs, value_heads, key_dim, value_dim), "float32"),
        "cu_seqlens": array((seqs + 1,), "int32"),
    }


#: One small call of each kernel.
ARRAYS: dict[str, Callable[..., Arrays]] = {
    "matmul": matmul_arrays,
    "ragged_paged_attention": attention_arrays,
    "gated_delta_net": delta_net_arrays,
}


def zeros(arrays: Arrays) -> Arrays:
    return {name: np.zeros(a.shape, a.dtype) for name, a in arrays.items()}


#: The ragged batch of `attention_arrays`, and of `delta_net_arrays`: sequences of 5, 1 and 18 tokens.
_COUNTS = {
    "kv_lens": [40, 17, 20],
    "page_indices": [[3, 0, 7, 1], [2, 5, 0, 0], [9, 11, 0, 0]],
    "cu_q_lens": [0, 5, 6, 24],
    "cu_seqlens": [0, 5, 6, 24],
    "num_seqs": [3],
}


def filled(arrays: Arrays) -> Arrays:
    """Random arrays of a call, decays and gates in their ranges."""
    rng = np.random.default_rng(0)

    def values(name: str, a: jax.ShapeDtypeStruct) -> Any:
        if name in _COUNTS:
            return np.array(_COUNTS[name], a.dtype)
        drawn = rng.standard_normal(a.shape)
        return {"g": -np.abs(drawn), "beta": 1 / (1 + np.exp(-drawn))}.get(name, drawn).astype(a.dtype)

    return {name: values(name, a) for name, a in arrays.items()}


type Refuses = Callable[..., AbstractContextManager[None]]


@pytest.fixture
def refuses() -> Refuses:
    """``with refuses(InputError, "x [3, 4]"):`` one line that fails, with all that a message promises.

    That is: the exact class, the given texts, the line of the test that called, and a hint.
    """

    @contextmanager
    def check(error: type[MosaicError], *texts: str, hint: str = "") -> Iterator[None]:
        with pytest.raises(error) as caught:
            yield
        assert caught.type is error
        message = str(caught.value)
        for text in texts:
            assert text in message, f"{text!r} is not in:\n{message}"
        mine = [
            f for f in traceback.extract_tb(caught.tb) if f.filename != __file__ and Path(f.filename).parent == HERE
        ]
        assert f"  at: {mine[-1].filename}:{mine[-1].lineno}\n" in message, (
            f"another line than {mine[-1]} in:\n{message}"
        )
        assert re.search(rf"^  hint: .*{re.escape(hint)}", message, re.MULTILINE), f"no such hint in:\n{message}"

    return check
