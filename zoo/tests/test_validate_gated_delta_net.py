"""Sequences of the gated delta net: bounds that the kernel would follow out of its arrays are refused."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given

from mosaic_tpu.kernel import InputError
from mosaic_tpu.zoo.validation import validate_gated_delta_net

from .conftest import Arrays, Refuses, delta_net_arrays

TOKENS = 24


def _call(bounds: Any, dtype: Any = np.int32) -> Arrays:
    """Shapes alone but for the bounds: nothing else is read."""
    return {**delta_net_arrays(TOKENS, seqs=len(bounds) - 1), "cu_seqlens": np.asarray(bounds, dtype)}


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint32])
@pytest.mark.parametrize(
    "bounds", [[0, 24], [0, 1, 2, 24], [0, 0, 24], [0, 24, 24], [0, 9, 9, 9, 24], [3, 9, 20], [0, 0], [24, 24]], ids=str
)
def test_good_bounds_are_accepted(bounds: list[int], dtype: Any) -> None:
    validate_gated_delta_net(**_call(bounds, dtype))


def test_jax_arrays_are_accepted() -> None:
    validate_gated_delta_net(**{**_call([0, 9, 24]), "cu_seqlens": jnp.asarray([0, 9, 24])})


@pytest.mark.parametrize(
    ("bounds", "text", "hint"),
    [
        ([-1, 24], "cu_seqlens starts at -1", "0 or later"),
        ([0, 25], "cu_seqlens ends at 25, there are 24 tokens", "at most T"),
        ([0, 9, 8, 24], "cu_seqlens falls from 9 to 8 at sequence 1", "an empty one repeats"),
        ([0, 25, 24], "cu_seqlens falls from 25 to 24 at sequence 1", "an empty one repeats"),
        ([5, 0], "cu_seqlens falls from 5 to 0 at sequence 0", "an empty one repeats"),
        ([0, -1], "cu_seqlens falls from 0 to -1 at sequence 0", "an empty one repeats"),
        ([2**31 - 1, -(2**31)], "cu_seqlens falls", "an empty one repeats"),
    ],
)
def test_bad_bounds_are_refused(bounds: list[int], text: str, hint: str, refuses: Refuses) -> None:
    with refuses(InputError, f"gated_delta_net: {text}", hint=hint):
        validate_gated_delta_net(**_call(bounds))


def test_shapes_are_checked_too(refuses: Refuses) -> None:
    with refuses(InputError, "cu_seqlens is [3], not [4]"):
        validate_gated_delta_net(**{**_call([0, 9, 20, 24]), "cu_seqlens": np.asarray([0, 9, 24], np.int32)})
    with refuses(InputError, "cu_seqlens is float64", hint="int"):
        validate_gated_delta_net(**_call([0, 24], np.float64))


def test_traced_bounds_are_refused() -> None:
    arrays = _call([0, 24])
    bounds = arrays.pop("cu_seqlens")
    with pytest.raises(InputError, match=r"cu_seqlens is traced.*\n.*\n.*outside of jit"):
        jax.jit(lambda b: validate_gated_delta_net(**arrays, cu_seqlens=b))(bounds)


valid = st.lists(st.integers(0, TOKENS), min_size=2, max_size=8).map(sorted)


@given(valid)
def test_any_rising_bounds_are_accepted(bounds: list[int]) -> None:
    validate_gated_delta_net(**_call(bounds))


@given(valid, st.data())
def test_any_one_corruption_is_refused(bounds: list[int], data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(bounds) - 1), "where")
    least, most = (bounds[at - 1] if at else 0), (bounds[at + 1] if at + 1 < len(bounds) else TOKENS)
    bounds[at] = data.draw(st.integers(-(2**31), least - 1) | st.integers(most + 1, 2**31 - 1), "what")
    with pytest.raises(InputError):
        validate_gated_delta_net(**_call(bounds))
