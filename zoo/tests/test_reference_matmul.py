"""The reference of matmul is the product of the numbers that the arrays hold."""

from __future__ import annotations

from fractions import Fraction

import jax.numpy as jnp
import numpy as np
import pytest

from mosaic_tpu.zoo.references.matmul import matmul


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "float8_e4m3fn", "int8", "int4"])
def test_it_is_the_exact_product(dtype: str) -> None:
    rng = np.random.default_rng(0)
    x, y = (np.asarray(jnp.asarray(rng.integers(-7, 8, shape), dtype)) for shape in ((5, 7), (7, 3)))
    exact = [
        [
            float(sum(Fraction(float(a)) * Fraction(float(b)) for a, b in zip(row, column, strict=True)))
            for column in y.T
        ]
        for row in x
    ]
    assert matmul(x, y).tolist() == exact


def test_it_does_not_overflow_as_the_element_type_would() -> None:
    x = np.full((1, 4), 127, np.int8)
    assert matmul(x, x.T).item() == 4 * 127 * 127
    assert (x @ x.T).item() != 4 * 127 * 127


def test_it_keeps_what_float32_loses() -> None:
    x, y = np.asarray([[2.0**24, 1.0]], np.float32), np.ones((2, 1), np.float32)
    assert matmul(x, y).item() == 2**24 + 1
    assert (x @ y).item() == 2**24


def test_the_sides_must_fit() -> None:
    with pytest.raises(ValueError, match="matmul"):
        matmul(np.zeros((2, 3)), np.zeros((2, 3)))
