"""Raw helpers of the SparseCore: the op they claim, and what even they refuse."""

from __future__ import annotations

from typing import Any

import pytest

from mosaic_tpu.builder import Args, Builder, bf16, f32, i1, i32
from mosaic_tpu.builder import errors as e

from .conftest import Raises, declare


@pytest.mark.parametrize(
    ("error", "words", "call"),
    [
        (e.KindError, "tpu.load", lambda b, a: b.tpu_load(a.i, [0], (8,), [True])),
        (e.ArityError, "indices", lambda b, a: b.tpu_load(a.x, [0], (8, 128), [True])),
        (e.AttributeValueError, "sublane mask", lambda b, a: b.tpu_load(a.x, [0, 0], (8, 128), [1])),
        (e.AttributeValueError, "sublane_stride", lambda b, a: b.tpu_load(a.x, [0, 0], (8, 128), [True], -1)),
        (e.KindError, "tpu.store", lambda b, a: b.tpu_store(a.x, a.i, [0, 0], [True])),
        (e.AttributeValueError, "add", lambda b, a: b.tpu_store(a.x, b.zeros((8, 128), f32), [0, 0], [True], add=1)),
        (e.ArityError, "1 indices", lambda b, a: b.vector_load_idx(a.x, [b.zeros((16,), i32)])),
        (e.ArityError, "sequence", lambda b, a: b.vector_load_idx(a.x, b.zeros((16,), i32))),
        (e.KindError, "vector", lambda b, a: b.vector_store_idx(a.x, a.i, [b.zeros((16,), i32)] * 2)),
        (e.ArityError, "dimension 2", lambda b, a: b.vector_expand_load(a.x, [0, 0], b.zeros((8, 128), i1), 2)),
        (
            e.ArityError,
            "dimension -3",
            lambda b, a: b.vector_compress_store(a.x, b.zeros((8, 128), f32), [0, 0], b.zeros((8, 128), i1), -3),
        ),
        (e.KindError, "ref", lambda b, a: b.expand_load_vreg(a.i, [0, 0], b.zeros((16,), i1))),
        (e.KindError, "vector", lambda b, a: b.compress_store_vreg(a.x, a.i, [0, 0], b.zeros((16,), i1))),
        (e.KindError, "ref", lambda b, a: b.enqueue_indirect_dma(a.i, a.x, a.i, a.sems)),
        (e.KindError, "ref", lambda b, a: b.wait_indirect_dma(a.i, a.x, a.x)),
        (e.ArityError, "0 indices", lambda b, a: b.fetch_and_add_sync(a.lens, [], a.i, a.i)),
        (e.KindError, "not a value", lambda b, a: b.fetch_and_add_sync(a.lens, [0], a.i, a.i)),
        (e.KindError, "vector", lambda b, a: b.scan_count(a.i, a.i)),
        (
            e.AttributeValueError,
            "no format",
            lambda b, a: b.pack_subelements([b.zeros((16,), f32)] * 2, (32,), bf16, [0, 1], "mixed"),
        ),
        (e.KindError, "vector", lambda b, a: b.unpack_subelements(a.i, (16,), f32, 0, "compressed")),
        (e.KindError, "ref", lambda b, a: b.shared_memref_slice(a.i, (8, 8))),
    ],
)
def test_bad_input_is_refused(b: Builder, raises: Raises, error: type[e.MosaicError], words: str, call: Any) -> None:
    a = declare(b, "sc_vector_subcore")
    with raises(error, words):
        call(b, a)


def test_the_verifier_says_where_an_op_may_run(b: Builder, a: Args) -> None:
    b.fetch_and_add_sync(a.lens, [b.lift(0)], b.lift(1), b.lift(0))
    with pytest.raises(e.VerificationError, match="SC vector subcore"):
        b.finish(verify=None)
