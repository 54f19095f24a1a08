"""Refs of booleans hold i32, as Pallas's do; what Pallas refuses of them is refused.

That loads, stores, windows and copies have Pallas's bytes, conformance/cases/cheat_sheet/booleans.py has.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mosaic_tpu.builder import Args, Builder, MosaicModule, Ref, Role, Window, body_text, f32, i1, i8, i32
from mosaic_tpu.builder import errors as e

from .conftest import Raises

jax = pytest.importorskip("jax", reason="Pallas is what the bytes are compared with")
pl = pytest.importorskip("jax.experimental.pallas")
pltpu = pytest.importorskip("jax.experimental.pallas.tpu")


def booleans(b: Builder) -> Args:
    return b.declare_args(
        {
            "flags": Ref((4,), i1, "smem", Role.SCALAR_PREFETCH),
            "x": Ref((8, 128), i1),
            "ints": Ref((8, 128), i32),
            "small": Ref((8, 128), i8),
            "y": Ref((8, 128), i1, role=Role.OUTPUT),
            "words": Ref((4,), i1, "smem", Role.SCRATCH),
        }
    )


@pytest.fixture
def a(b: Builder) -> Args:
    return booleans(b)


@pytest.mark.parametrize("given", [i1, "i1", "bool", bool, np.bool_, np.dtype(bool), jax.numpy.bool_])
@pytest.mark.parametrize("space", ["vmem", "smem", "any", "hbm"])
@pytest.mark.parametrize("role", list(Role))
def test_a_ref_of_booleans_is_memory_of_i32(b: Builder, given: Any, space: str, role: Role) -> None:
    ref = b.declare_args({"x": Ref((4,), given, space, role)}).x
    assert ref.dtype is i1
    assert str(ref.type) == f"memref<4xi32, #tpu.memory_space<{space}>>"


def test_windows_and_views_of_booleans_hold_booleans(b: Builder) -> None:
    window = Window((None, 8, 128))
    a = b.declare_args({"x": Ref((8, 128), i1, window=window), "y": Ref((8, 128), i1, role=Role.OUTPUT)})
    views = [a.x, a.x.at[2:4], a.y.at[2], b.memref_slice(a.y, [0, 0], [4, 128]), b.memory_space_cast(a.y, "any")]
    views += [b.alloca((8, 128), i1), b.annotate(a.y), b.memref_reshape(a.y, (2, 4, 128))]
    assert [view.dtype for view in views] == [i1] * len(views)
    assert "xi1" not in b.finish().text(canonical=False)


def test_ops_see_what_the_memory_holds(b: Builder, a: Args) -> None:
    loaded = [b.ref_load(a.x), b.tpu_vector_load(a.x), b.strided_load(a.x, [0, 0], [2, 1]), b.scalar_load(a.flags, [0])]
    assert [value.dtype for value in loaded] == [i32] * 4
    b.ref_store(a.y, loaded[0])
    b.strided_store(a.y, loaded[2], [0, 0], [2, 1])
    b.scalar_store(a.words, loaded[3], [1])
    b.finish().serialize()


def test_indices_load_and_store_booleans(b: Builder, a: Args) -> None:
    a.y[...] = True
    a.y[2] = a.x[3]
    a.words[0] = np.bool_(False)
    a.words[1] = a.flags[0]
    old = b.pallas.swap(a.words, a.x[0, 0], 1)
    assert (a.x[...].dtype, a.x[0].dtype, a.flags[0].dtype, old.dtype) == (i1,) * 4
    b.finish().serialize()


# --- what is refused -------------------------------------------------------------------------------------------------

X = jax.ShapeDtypeStruct((8, 128), "bool")
INTS = jax.ShapeDtypeStruct((8, 128), "int32")
TILE = (8, 128)


def _stored(ref: Any, index: Any, value: Any) -> None:
    ref[index] = value


#: Statements of x (booleans), n (i32), o and s (booleans, s in SMEM); what Pallas says of them, and what we do.
REFUSED: dict[str, tuple[Callable[..., Any], str, Callable[..., Any], str]] = {
    "bitcast": (
        lambda x, n, o, s: _stored(o, ..., x.bitcast(jax.numpy.int32)[...] > 0),
        "does not support bool",
        lambda b, a: a.x.at[...].bitcast(i32)[...],
        "i1 cannot be viewed as i32",
    ),
    "bitcast to i1": (
        lambda x, n, o, s: _stored(o, ..., n.bitcast(jax.numpy.bool_)[...]),
        "does not support bool",
        lambda b, a: a.ints.at[...].bitcast(i1)[...],
        "i32 cannot be viewed as i1",
    ),
    "bitcast to itself": (
        lambda x, n, o, s: _stored(o, ..., x.bitcast(jax.numpy.bool_)[...]),
        "tpu.memref_bitcast",
        lambda b, a: a.x.at[...].bitcast(i1)[...],
        "i1 cannot be viewed as i1",
    ),
    "reshape": (
        lambda x, n, o, s: _stored(o, slice(0, 2), x.reshape(4, 2, 128)[0]),
        "Element types don't match",
        lambda b, a: a.x.at[...].reshape(4, 2, 128)[...],
        "booleans cannot be reshaped",
    ),
    "mask": (
        lambda x, n, o, s: pltpu.store(o, x[...], mask=x[...]),
        "masked swap with non-32-bit data",
        lambda b, a: b.pallas.store(a.y, a.x[...], mask=a.x[...]),
        "masked stores need 32-bit elements",
    ),
    "integers": (
        lambda x, n, o, s: _stored(o, ..., n[...]),
        "Ref dtype: bool. Value dtype: int32",
        lambda b, a: _stored(a.y, ..., a.ints[...]),
        "holds i1, the value i32",
    ),
    "booleans into i32": (
        lambda x, n, o, s: _stored(n, ..., x[...]),
        "Ref dtype: int32. Value dtype: bool",
        lambda b, a: _stored(a.ints, ..., a.x[...]),
        "holds i32, the value i1",
    ),
    **{
        f"the number {number!r}": (
            lambda x, n, o, s, number=number: _stored(s, 0, number),
            "Ref dtype: bool. Value dtype: (int|float)32",
            lambda b, a, number=number: _stored(a.words, 0, number),
            f"the value is {number!r}",
        )
        for number in (0, 1, 1.0, np.int32(1))
    },
}


def _call(statement: Callable[..., Any]) -> Any:
    def kernel(x: Any, n: Any, o: Any, s: Any) -> None:
        statement(x, n, o, s)

    specs = {"out_specs": (pl.BlockSpec(), pl.BlockSpec(memory_space=pltpu.SMEM))}
    return pl.pallas_call(kernel, out_shape=(X, jax.ShapeDtypeStruct((4,), "bool")), **specs)


@pytest.mark.parametrize("name", REFUSED)
def test_what_pallas_refuses_of_booleans_is_refused(b: Builder, a: Args, raises: Raises, name: str) -> None:
    theirs, they_say, ours, we_say = REFUSED[name]
    with pytest.raises(Exception, match=they_say):  # of several classes
        _lowered(_call(theirs), X, INTS)
    with raises(e.DTypeError, we_say):
        ours(b, a)


def test_what_pallas_takes_beside_them_is_taken(b: Builder, a: Args) -> None:
    def statements(x: Any, n: Any, o: Any, s: Any) -> None:
        pltpu.store(n, n[...], mask=x[...])
        o[...] = x[...]
        s[0] = True
        s[1] = np.bool_(False)

    assert _lowered(_call(statements), X, INTS)
    b.pallas.store(a.ints, a.ints[...], mask=a.x[...])
    a.y[...] = a.x[...]
    a.words[0] = True
    a.words[1] = np.bool_(False)
    b.finish().serialize()


def test_a_number_may_be_stored_to_integers(b: Builder, a: Args) -> None:
    a.ints[...] = 1
    a.small[...] = np.int8(1)
    b.finish().serialize()


STORES: dict[str, Callable[[Builder, Args], None]] = {
    "tpu.vector_store": lambda b, a: b.ref_store(a.y, a.x[...]),
    "tpu.strided_store": lambda b, a: b.strided_store(a.y, a.x[0:4], [0, 0], [2, 1]),
    "vector.store": lambda b, a: b.plain_vector_store(a.y, a.x[...]),
    "memref.store": lambda b, a: b.scalar_store(a.words, a.flags[0], [0]),
}


@pytest.mark.parametrize("op", STORES)
def test_ops_store_no_booleans(b: Builder, a: Args, raises: Raises, op: str) -> None:
    with raises(e.DTypeError, op, "i32", "of booleans"):
        STORES[op](b, a)


def test_memory_of_booleans_has_no_other_view(b: Builder, a: Args, raises: Raises) -> None:
    for ref, dtype in ((a.x, f32), (a.x, i1), (a.ints, i1)):
        with raises(e.DTypeError, "tpu.memref_bitcast", hint="compare"):
            b.memref_bitcast(ref, dtype)
    assert b.memref_bitcast(a.ints, f32).dtype is f32


def test_a_copy_needs_memory_of_one_type(b: Builder, a: Args, raises: Raises) -> None:
    semaphore = b.sem_alloc("dma")
    b.enqueue_dma(a.ints, a.y, semaphore)
    with raises(e.DTypeError, "tpu.enqueue_dma", "of booleans"):
        b.enqueue_dma(a.small, a.y, semaphore)


# --- the one place where Pallas has memory of i1 ---------------------------------------------------------------------


def _lowered(call: Any, *shapes: Any) -> bytes:
    text = jax.jit(call).trace(*shapes).lower(lowering_platforms=("tpu",)).as_text()
    quoted = re.search(r'backend_config = "((?:[^"\\]|\\.)*)"', text)
    assert quoted
    config = json.loads(quoted[1].replace("\\22", '"').replace('\\"', '"'))
    return base64.b64decode(config["custom_call_config"]["body"])


def _printed() -> MosaicModule:
    b = Builder("kernel")
    a = b.declare_args({"x": Ref(TILE, i1), "y": Ref(TILE, i1, role=Role.OUTPUT)})
    b.pallas.debug_print("x = {}", a.x[...])
    return b.finish()


def test_a_print_of_booleans_has_pallas_s_memory() -> None:
    def kernel(x: Any, y: Any) -> None:
        del y
        pl.debug_print("x = {}", x[...])

    theirs, ours = body_text(_lowered(pl.pallas_call(kernel, out_shape=X), X)), body_text(_printed().serialize().body)
    assert ours == theirs
    assert "memref<8x128xi1" in ours
