"""A traced value stays one: Python, numpy and jnp cannot look into it, and neither value nor argument is replaced."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

from mosaic_tpu.builder import Args, Builder, Value, f32
from mosaic_tpu.builder import errors as e

from .conftest import Raises


@pytest.mark.parametrize(
    "use",
    [
        bool,
        int,
        float,
        len,
        list,
        lambda v: v == 1,
        lambda v: v != 1,
        lambda v: v == v.builder.lift(1),
        lambda v: 1 in v,
        lambda v: [0, 1][v],
        lambda v: v and 1,
        lambda v: range(v),
        np.asarray,
        jnp.asarray,
    ],
)
def test_a_value_has_no_concrete_value(b: Builder, a: Args, raises: Raises, use: object) -> None:
    value: Value = b.lift(1)
    with raises(e.ConcreteValueError, "i32"):
        use(value)  # type: ignore[operator]


def test_numpy_leaves_its_scalars_arithmetic_to_us(b: Builder, a: Args) -> None:
    x = b.zeros((8, 128), f32)
    assert (np.float32(2) * x).shape == (2.0 * x).shape == (8, 128)


def test_an_argument_is_not_replaced(b: Builder, a: Args, raises: Raises) -> None:
    with raises(e.UnknownArgumentError, "args", hint="a.x[...] = value"):
        a.x = b.lift(1)


def test_the_same_value_equals_itself(b: Builder, a: Args) -> None:
    assert a.i == a.i
    assert a.i in [a.i]
    assert len({a.i, a.x, a.i}) == 2
