"""Checks of the arrays given to ragged paged attention: shapes and types always, contents on request."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np
from jax.core import Tracer
from numpy.typing import NDArray

from mosaic_tpu.kernel import InputError
from mosaic_tpu.zoo.validation._arguments import check_arrays

_OP = "ragged_paged_attention"


def _refuse(summary: str, hint: str) -> NoReturn:
    raise InputError(summary, op=_OP, hint=hint)


def check_shapes(q: Any, kv_pages: Any, kv_lens: Any, page_indices: Any, cu_q_lens: Any, num_seqs: Any) -> None:
    """Refuse arrays whose shapes or types do not fit each other. Needs no contents: works under jit.

    Raises:
        InputError: what does not fit, and what would.
    """
    tables = {"kv_lens": kv_lens, "page_indices": page_indices, "cu_q_lens": cu_q_lens, "num_seqs": num_seqs}
    check_arrays(_OP, q=q, kv_pages=kv_pages, **tables)
    ranks = (
        ("q", q, "tokens, q_heads, head_dim"),
        ("kv_pages", kv_pages, "pages, page_size, 2 * kv_heads, head_dim"),
        ("page_indices", page_indices, "seqs, pages_per_seq"),
    )
    for name, array, dimensions in ranks:
        if len(array.shape) != len(dimensions.split(", ")):
            _refuse(f"{name!r} has shape {array.shape}", hint=f"[{dimensions}]")
    if q.shape[2] != kv_pages.shape[3]:
        _refuse(f"head_dim is {q.shape[2]} in 'q' and {kv_pages.shape[3]} in 'kv_pages'", hint="pad one to the other")
    if kv_pages.shape[2] % 2:
        _refuse(
            f"'kv_pages' has {kv_pages.shape[2]} rows a token", hint="K and V of each head, interleaved: an even number"
        )
    seqs = page_indices.shape[0]
    lengths = (("kv_lens", kv_lens, (seqs,)), ("cu_q_lens", cu_q_lens, (seqs + 1,)), ("num_seqs", num_seqs, (1,)))
    for name, array, shape in lengths:
        if tuple(array.shape) != shape:
            _refuse(f"{name!r} has shape {tuple(array.shape)}", hint=f"{shape}: 'page_indices' has {seqs} rows")
    for name, array in tables.items():
        if array.dtype != np.int32:
            _refuse(f"{name!r} is {array.dtype}", hint="int32")


def validate_ragged_paged_attention(
    q: Any, kv_pages: Any, kv_lens: Any, page_indices: Any, cu_q_lens: Any, num_seqs: Any
) -> None:
    """Check the contents of the tables of one call: what the kernel would read out of bounds, or wait for in vain.

    Reads the tables on the host: for tests and debugging, not for every step of a server.

    Args:
        q: queries; the shape alone is looked at.
        kv_pages: the cache; the shape alone is looked at.
        kv_lens: tokens of each sequence in the cache, the queries counted.
        page_indices: pages of each sequence.
        cu_q_lens: where each sequence's queries start, and where the last ends.
        num_seqs: how many sequences there are, one or more.

    Raises:
        InputError: what is wrong, at which sequence; or the arrays are traced.

    Example:
        >>> import numpy as np
        >>> i32 = np.int32
        >>> q, pages = np.zeros((8, 4, 128)), np.zeros((2, 16, 4, 128))
        >>> tables = np.array([20], i32), np.array([[1, 0]], i32), np.array([0, 8], i32), np.array([1], i32)
        >>> validate_ragged_paged_attention(q, pages, *tables)
    """
    tables = {"kv_lens": kv_lens, "page_indices": page_indices, "cu_q_lens": cu_q_lens, "num_seqs": num_seqs}
    for name, array in tables.items():
        if isinstance(array, Tracer):
            _refuse(f"{name!r} is traced: its contents are not known", hint="call this outside of jit")
    check_shapes(q, kv_pages, kv_lens, page_indices, cu_q_lens, num_seqs)
    max_seqs, pages_per_seq = page_indices.shape
    count = int(np.asarray(num_seqs)[0])
    if not 1 <= count <= max_seqs:
        _refuse(f"num_seqs is {count}", hint=f"from 1 to {max_seqs}, the rows of 'page_indices'")
    bounds = np.asarray(cu_q_lens)[: count + 1].astype(np.int64)
    lengths = np.asarray(kv_lens)[:count].astype(np.int64)
    _check_queries(bounds, q.shape[0])
    _check_lengths(bounds, lengths, kv_pages.shape[1], pages_per_seq)
    _check_pages(np.asarray(page_indices)[:count], lengths, kv_pages.shape[0], kv_pages.shape[1])


def _check_queries(bounds: NDArray[np.int64], tokens: int) -> None:
    if bounds[0] != 0:
        _refuse(f"cu_q_lens starts with {bounds[0]}", hint="a cumulative sum that starts with 0")
    for seq in np.flatnonzero(np.diff(bounds) < 0)[:1]:
        _refuse(f"cu_q_lens falls from {bounds[seq]} to {bounds[seq + 1]} at sequence {seq}", hint="it may only rise")
    if bounds[-1] > tokens:
        _refuse(f"the sequences have {bounds[-1]} queries together", hint=f"'q' has {tokens} rows")
    if bounds[-1] == bounds[-2]:
        # Where the queries before it fill their last block, its pages are copied and never waited for.
        _refuse(f"the last sequence, {bounds.size - 2}, has no queries", hint="leave it out; others may stay")


def _check_lengths(bounds: NDArray[np.int64], lengths: NDArray[np.int64], page_size: int, pages_per_seq: int) -> None:
    for seq, (q_len, kv_len) in enumerate(zip(np.diff(bounds), lengths, strict=True)):
        if kv_len < 1:
            _refuse(f"sequence {seq} has {kv_len} tokens", hint="leave out sequences without tokens")
        if q_len > kv_len:
            _refuse(
                f"sequence {seq} has {q_len} queries and {kv_len} tokens", hint="kv_lens counts the queries' own tokens"
            )
        if kv_len > pages_per_seq * page_size:
            _refuse(
                f"sequence {seq} has {kv_len} tokens",
                hint=f"'page_indices' has room for {pages_per_seq} pages of {page_size} tokens",
            )


def _check_pages(table: NDArray[np.int32], lengths: NDArray[np.int64], pages: int, page_size: int) -> None:
    starts = np.asarray([column * page_size for column in range(table.shape[1])], np.int64)
    used = np.less(starts[None, :], lengths[:, None])
    outside = np.logical_or(table < 0, table >= pages)
    for seq, column in np.argwhere(np.logical_and(used, outside))[:1]:
        _refuse(
            f"page_indices[{seq}, {column}] is {table[seq, column]}",
            hint=f"from 0 to {pages - 1}, the pages of 'kv_pages'",
        )


__all__ = ["check_shapes", "validate_ragged_paged_attention"]
