"""Tables of ragged paged attention: what the kernel would read out of bounds, or wait for in vain, is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given

from mosaic_tpu.kernel import InputError
from mosaic_tpu.zoo.validation import validate_ragged_paged_attention

from .conftest import Arrays, Refuses

PAGE, PAGES, SEQS, PER_SEQ, TOKENS = 4, 10, 4, 3, 16
UNUSED = -7


def _call(q_lens: list[int], kv_lens: list[int], *, tokens: int = TOKENS) -> Arrays:
    """A valid call; what the kernel must not look at has impossible values."""
    used, tables = len(q_lens), np.full((SEQS, PER_SEQ), UNUSED, np.int32)
    for seq, kv_len in enumerate(kv_lens):
        tables[seq, : -(-kv_len // PAGE)] = np.arange(seq, seq + -(-kv_len // PAGE)) % PAGES
    lens, starts = np.full(SEQS, UNUSED, np.int32), np.full(SEQS + 1, UNUSED, np.int32)
    lens[:used], starts[: used + 1] = kv_lens, np.cumsum([0, *q_lens])
    return {
        "q": np.zeros((tokens, 2, 128), np.float32),
        "kv_pages": np.zeros((PAGES, PAGE, 2, 128), np.float32),
        "kv_lens": lens,
        "page_indices": tables,
        "cu_q_lens": starts,
        "num_seqs": np.asarray([used], np.int32),
    }


GOOD = {
    "prefill": ([8], [8]),
    "decode": ([1, 1, 1, 1], [1, 4, 5, 12]),
    "mixed": ([3, 1, 6], [11, 7, 6]),
    "one-token": ([1], [1]),
    "all-tokens": ([12, 4], [12, 4]),
    "full-pages": ([1], [PAGE * PER_SEQ]),
    "no-queries-before-others": ([0, 2, 0, 2], [3, 2, 1, 2]),
}


@pytest.mark.parametrize(("q_lens", "kv_lens"), GOOD.values(), ids=GOOD)
def test_good_tables_are_accepted(q_lens: list[int], kv_lens: list[int]) -> None:
    validate_ragged_paged_attention(**_call(q_lens, kv_lens))


def test_jax_arrays_are_accepted() -> None:
    validate_ragged_paged_attention(**{name: jnp.asarray(a) for name, a in _call([3, 1], [3, 8]).items()})


def test_shapes_alone_will_do_for_queries_and_cache() -> None:
    arrays = _call([3, 1], [3, 8])
    for name in ("q", "kv_pages"):
        arrays[name] = jax.ShapeDtypeStruct(arrays[name].shape, arrays[name].dtype)
    validate_ragged_paged_attention(**arrays)


def _put(name: str, index: Any, value: int) -> Callable[[Arrays], None]:
    def corrupt(arrays: Arrays) -> None:
        arrays[name][index] = value

    return corrupt


#: Corruptions of ``([3, 1, 6], [11, 7, 6])``, what is said of them, and the hint.
BAD = [
    (_put("num_seqs", 0, 0), "num_seqs is 0", "from 1 to 4"),
    (_put("num_seqs", 0, -1), "num_seqs is -1", "from 1 to 4"),
    (_put("num_seqs", 0, SEQS + 1), "num_seqs is 5", "from 1 to 4"),
    (_put("cu_q_lens", 0, 1), "cu_q_lens starts with 1", "starts with 0"),
    (_put("cu_q_lens", 0, -1), "cu_q_lens starts with -1", "starts with 0"),
    (_put("cu_q_lens", 1, 5), "cu_q_lens falls from 5 to 4 at sequence 1", "only rise"),
    (_put("cu_q_lens", 3, TOKENS + 1), "the sequences have 17 queries together", "16 rows"),
    (_put("cu_q_lens", 3, 4), "the last sequence, 2, has no queries", "leave it out"),
    (_put("cu_q_lens", 3, -1), "cu_q_lens falls from 4 to -1", "only rise"),
    (_put("kv_lens", 1, 0), "sequence 1 has 0 tokens", "leave out"),
    (_put("kv_lens", 2, -3), "sequence 2 has -3 tokens", "leave out"),
    (_put("kv_lens", 0, 2), "sequence 0 has 3 queries and 2 tokens", "queries' own tokens"),
    (_put("kv_lens", 0, PAGE * PER_SEQ + 1), "sequence 0 has 13 tokens", "3 pages of 4 tokens"),
    (_put("page_indices", (0, 2), PAGES), "page_indices[0, 2] is 10", "from 0 to 9"),
    (_put("page_indices", (1, 1), -1), "page_indices[1, 1] is -1", "from 0 to 9"),
    (_put("kv_lens", 1, 9), f"page_indices[1, 2] is {UNUSED}", "from 0 to 9"),
    (_put("num_seqs", 0, 4), f"cu_q_lens falls from 10 to {UNUSED} at sequence 3", "only rise"),
]


@pytest.mark.parametrize(("corrupt", "text", "hint"), BAD, ids=[row[1].replace(" ", "-") for row in BAD])
def test_bad_tables_are_refused(corrupt: Callable[[Arrays], None], text: str, hint: str, refuses: Refuses) -> None:
    arrays = _call([3, 1, 6], [11, 7, 6])
    corrupt(arrays)
    with refuses(InputError, f"ragged_paged_attention: {text}", hint=hint):
        validate_ragged_paged_attention(**arrays)


#: Changes of the same call that hurt nobody.
HARMLESS = [
    _put("page_indices", (1, 2), PAGES),
    _put("page_indices", (3, 0), PAGES),
    _put("kv_lens", 3, 10**6),
    _put("cu_q_lens", 4, 10**6),
    _put("page_indices", (0, 0), PAGES - 1),
    _put("kv_lens", 0, 9),
]


@pytest.mark.parametrize("change", HARMLESS)
def test_what_the_kernel_does_not_read_may_be_anything(change: Callable[[Arrays], None]) -> None:
    arrays = _call([3, 1, 6], [11, 7, 6])
    change(arrays)
    validate_ragged_paged_attention(**arrays)


def test_shapes_are_checked_too(refuses: Refuses) -> None:
    arrays = _call([3, 1], [3, 8])
    with refuses(InputError, "'kv_lens' has shape (3,)"):
        validate_ragged_paged_attention(**{**arrays, "kv_lens": arrays["kv_lens"][:3]})
    with refuses(InputError, "'page_indices' is int64", hint="int32"):
        validate_ragged_paged_attention(**{**arrays, "page_indices": arrays["page_indices"].astype(np.int64)})


@pytest.mark.parametrize("name", ["kv_lens", "page_indices", "cu_q_lens", "num_seqs"])
def test_traced_tables_are_refused(name: str) -> None:
    arrays = _call([3, 1], [3, 8])
    traced = arrays.pop(name)
    with pytest.raises(InputError, match=rf"'{name}' is traced.*\n.*\n.*outside of jit"):
        jax.jit(lambda a: validate_ragged_paged_attention(**arrays, **{name: a}))(traced)


@st.composite
def calls(draw: st.DrawFn) -> Arrays:
    """Valid calls with as many tokens as they have queries, or more."""
    q_lens = draw(st.lists(st.integers(0, 6), min_size=1, max_size=SEQS).filter(lambda lens: lens[-1] > 0))
    kv_lens = [draw(st.integers(max(1, q_len), PAGE * PER_SEQ)) for q_len in q_lens]
    return _call(q_lens, kv_lens, tokens=sum(q_lens) + draw(st.integers(0, 3)))


@given(calls())
def test_any_valid_call_is_accepted(arrays: Arrays) -> None:
    validate_ragged_paged_attention(**arrays)


@given(calls(), st.data())
def test_any_one_corruption_is_refused(arrays: Arrays, data: st.DataObject) -> None:
    used = int(arrays["num_seqs"][0])
    seq = data.draw(st.integers(0, used - 1), "sequence")
    kv_len, bounds = int(arrays["kv_lens"][seq]), arrays["cu_q_lens"]
    page = data.draw(st.integers(0, -(-kv_len // PAGE) - 1), "page")
    far = st.one_of(st.integers(-(2**31), -1), st.integers(PAGES, 2**31 - 1))
    corruption = data.draw(
        st.one_of(
            st.tuples(st.just("page_indices"), st.just((seq, page)), far),
            st.tuples(st.just("num_seqs"), st.just(0), st.integers(-(2**31), 0) | st.integers(SEQS + 1, 2**31 - 1)),
            st.tuples(st.just("kv_lens"), st.just(seq), st.integers(-(2**31), 0) | st.integers(13, 2**31 - 1)),
            st.tuples(st.just("cu_q_lens"), st.just(0), st.integers(-(2**31), 2**31 - 1).filter(bool)),
            st.tuples(st.just("cu_q_lens"), st.just(seq + 1), st.integers(-(2**31), int(bounds[seq]) - 1)),
            st.tuples(st.just("cu_q_lens"), st.just(used), st.integers(len(arrays["q"]) + 1, 2**31 - 1)),
        ),
        "corruption",
    )
    _put(*corruption)(arrays)
    with pytest.raises(InputError):
        validate_ragged_paged_attention(**arrays)
