"""The fast engine's rules, one Pallas kernel an op, against the same function in jnp."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from conformance.harness import pallas
from mosaic_tpu.sim import _compat, _parse
from mosaic_tpu.sim._module import Module
from mosaic_tpu.sim.xla import run_xla

SHAPE = (16, 128)


def module_of(body: bytes | str) -> Module:
    context = _compat.new_context()
    module = _compat.ir.Module.parse(body, context=context)
    _compat.deserialize(module)
    return _parse.parse(_compat.generic_text(module))


def numbers(dtype: Any, shape: tuple[int, ...] = SHAPE, low: float = -4, high: float = 4, seed: int = 0) -> np.ndarray:
    made = np.random.default_rng(seed).uniform(low, high, shape)
    return made.astype(dtype)


def run(function: Callable[..., Any], *inputs: np.ndarray) -> np.ndarray:
    """The outputs of a kernel that stores ``function(*inputs)``, on the fast engine."""
    shape = jax.eval_shape(function, *inputs)

    def kernel(*refs: Any) -> None:
        refs[-1][...] = function(*(r[...] for r in refs[:-1]))

    call = pl.pallas_call(kernel, out_shape=shape)
    module = module_of(pallas.lower(call, *inputs).body)
    result = run_xla(module, inputs, [(shape.shape, shape.dtype)])
    assert result.flag == 0
    return result.outputs[0]


def check(function: Callable[..., Any], *inputs: np.ndarray, tolerance: float = 2e-6) -> None:
    expected = np.asarray(jax.jit(function)(*inputs))
    found = run(function, *inputs)
    assert found.dtype == expected.dtype
    if np.issubdtype(expected.dtype, np.integer) or expected.dtype == np.bool_:
        np.testing.assert_array_equal(found, expected)
    else:
        wide = np.asarray(found, np.float64), np.asarray(expected, np.float64)
        np.testing.assert_allclose(*wide, rtol=tolerance, atol=tolerance)


FLOATS: dict[str, Callable[..., Any]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / y,
    "max": jnp.maximum,
    "min": jnp.minimum,
    "rem": lax.rem,
    "neg": lambda x, y: -x,
    "less": lambda x, y: jnp.where(x < y, x, y),
    "not equal": lambda x, y: jnp.where(x != y, x, y),
    "abs": lambda x, y: jnp.abs(x),
    "sign": lambda x, y: jnp.sign(x),
    "floor": lambda x, y: jnp.floor(x),
    "ceil": lambda x, y: jnp.ceil(x),
    "round": lambda x, y: lax.round(x, lax.RoundingMethod.AWAY_FROM_ZERO),
    "round even": lambda x, y: lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN),
    "is finite": lambda x, y: jnp.where(jnp.isfinite(x / (y - y)), x, y),
    "sum": lambda x, y: jnp.sum(x, axis=1, keepdims=True) + y,
    "sum of rows": lambda x, y: jnp.sum(x, axis=0, keepdims=True) + y,
    "sum of products": lambda x, y: jnp.sum(x * y[:, :1], axis=0, keepdims=True) + y,
    "largest": lambda x, y: jnp.max(x, axis=1, keepdims=True) + y,
    "smallest": lambda x, y: jnp.min(x, axis=0, keepdims=True) + y,
    "transpose": lambda x, y: x.T,
    "rows": lambda x, y: x[2:10],
    "join": lambda x, y: jnp.concatenate([x, y], 0),
    "broadcast": lambda x, y: jnp.broadcast_to(x[:1], SHAPE) + y,
    "roll": lambda x, y: pltpu.roll(x, 3, 0),
}
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "exp": jnp.exp,
    "exp2": jnp.exp2,
    "log": lambda x: jnp.log(jnp.abs(x)),
    "log1p": lambda x: jnp.log1p(jnp.abs(x)),
    "sqrt": lambda x: jnp.sqrt(jnp.abs(x)),
    "rsqrt": lambda x: lax.rsqrt(jnp.abs(x)),
    "sin": jnp.sin,
    "cos": jnp.cos,
    "tan": jnp.tan,
    "tanh": jnp.tanh,
    "logistic": jax.nn.sigmoid,
    "erf": lax.erf,
    "atan2": lambda x: jnp.arctan2(x, x + 1),
    "pow": lambda x: jnp.power(jnp.abs(x), jnp.float32(1.5)),
    "to i32": lambda x: x.astype(jnp.int32),
    "to bf16": lambda x: x.astype(jnp.bfloat16),
    "to bf16 and back": lambda x: x.astype(jnp.bfloat16).astype(jnp.float32),
    "to f16 and back": lambda x: (x * 1e-5).astype(jnp.float16).astype(jnp.float32) * 1e5,
    "bits": lambda x: lax.bitcast_convert_type(x, jnp.int32),
    "arg max": lambda x: jnp.argmax(x, axis=1, keepdims=True).astype(jnp.int32) + jnp.zeros(SHAPE, jnp.int32),
    "reduce precision": lambda x: lax.reduce_precision(x, 8, 10),
}
INTEGERS: dict[str, Callable[..., Any]] = {
    "add wraps": lambda x, y: x * 2**28 + y,
    "mul wraps": lambda x, y: x * y * 2**27,
    "and": lambda x, y: x & y,
    "or": lambda x, y: x | y,
    "xor": lambda x, y: x ^ y,
    "not": lambda x, y: ~x,
    "max": jnp.maximum,
    "min": jnp.minimum,
    "div": lambda x, y: lax.div(x, jnp.where(y == 0, 1, y)),
    "rem": lambda x, y: lax.rem(x, jnp.where(y == 0, 1, y)),
    "floor div": lambda x, y: x // jnp.where(y == 0, 1, y),
    "shift left": lambda x, y: x << (y & 7),
    "shift right": lambda x, y: x >> (y & 7),
    "shift right logical": lambda x, y: lax.shift_right_logical(x, y & 7),
    "unsigned": lambda x, y: (x.astype(jnp.uint32) >> 3).astype(jnp.int32) + y,
    "abs": lambda x, y: jnp.abs(x),
    "leading zeros": lambda x, y: lax.clz(x),
    "set bits": lambda x, y: lax.population_count(x),
    "to f32": lambda x, y: x.astype(jnp.float32),
    "to i8": lambda x, y: x.astype(jnp.int8),
    "to i16 and back": lambda x, y: x.astype(jnp.int16).astype(jnp.int32) + y,
    "select": lambda x, y: jnp.where(x <= y, x, -y),
    "iota": lambda x, y: x + lax.broadcasted_iota(jnp.int32, SHAPE, 0) * 7 + lax.broadcasted_iota(jnp.int32, SHAPE, 1),
}


@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16], ids=["f32", "bf16"])
def test_float_op(name: str, dtype: Any) -> None:
    x, y = numbers(dtype), numbers(dtype, seed=1)
    if dtype == jnp.bfloat16 and name in ("sign", "is finite"):
        pytest.skip("Pallas does not lower it")
    if dtype == jnp.bfloat16 and name == "sum of products":
        pytest.skip("jnp does not round the products to bf16")
    check(FLOATS[name], x, y, tolerance=2e-6 if dtype == jnp.float32 else 8e-3)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_function(name: str) -> None:
    check(FUNCTIONS[name], numbers(np.float32), tolerance=1e-5)


@pytest.mark.parametrize("name", INTEGERS)
def test_integer_op(name: str) -> None:
    check(INTEGERS[name], numbers(np.int32, low=-100, high=100), numbers(np.int32, low=-100, high=100, seed=1))


@pytest.mark.parametrize("op", [lambda x, y: x + y, lambda x, y: x * y, lambda x, y: x - y], ids=["add", "mul", "sub"])
def test_bf16_is_rounded_after_each_op(op: Callable[..., Any]) -> None:
    """Not once at the end, as XLA may when it is let."""
    x, y = numbers(jnp.bfloat16), numbers(jnp.bfloat16, seed=1)

    def rounded(a: np.ndarray) -> np.ndarray:
        return a.astype(jnp.bfloat16).astype(np.float32)

    wide = x.astype(np.float32), y.astype(np.float32)
    once = rounded(op(*wide))
    expected = rounded(op(once, wide[1]))
    found = run(lambda a, b: op(op(a, b), b), x, y)
    np.testing.assert_array_equal(found.astype(np.float32), expected)


@pytest.mark.parametrize(
    ("dtypes", "contract"),
    [
        ((jnp.bfloat16, jnp.bfloat16, jnp.float32), ((1,), (0,))),
        ((jnp.bfloat16, jnp.bfloat16, jnp.float32), ((1,), (1,))),
        ((jnp.float32, jnp.float32, jnp.float32), ((1,), (0,))),
        ((jnp.int8, jnp.int8, jnp.int32), ((1,), (0,))),
    ],
    ids=["bf16", "bf16 transposed", "f32 in bf16", "s8"],
)
def test_matmul(dtypes: tuple[Any, Any, Any], contract: tuple[tuple[int], tuple[int]]) -> None:
    a, b = numbers(dtypes[0], (128, 128)), numbers(dtypes[1], (128, 128), seed=1)
    found = run(lambda x, y: lax.dot_general(x, y, (contract, ((), ())), preferred_element_type=dtypes[2]), a, b)
    wide = [
        v.astype(jnp.bfloat16).astype(np.float64) if v.dtype == np.float32 else v.astype(np.float64) for v in (a, b)
    ]
    expected = wide[0] @ (wide[1] if contract[1] == (0,) else wide[1].T)
    np.testing.assert_allclose(found.astype(np.float64), expected, rtol=1e-5, atol=1e-4)


def test_matmul_at_highest_precision_is_f32() -> None:
    a, b = numbers(np.float32, (128, 128)), numbers(np.float32, (128, 128), seed=1)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    default = run(lambda x, y: jnp.dot(x, y), a, b)
    highest = run(lambda x, y: jnp.dot(x, y, precision=lax.Precision.HIGHEST), a, b)
    assert np.abs(highest - exact).max() < 1e-3 < np.abs(default - exact).max()


@pytest.mark.parametrize("packed", [jnp.bfloat16, jnp.int16, jnp.int8], ids=str)
def test_bitcast_packs_rows(packed: Any) -> None:
    """Word r holds the narrow rows from ``r * factor`` on, the first in the low bits."""
    words = np.random.default_rng(0).integers(-(2**31), 2**31, (8, 128), np.int32)
    factor = 4 // np.dtype(packed).itemsize
    bits = words.view(np.uint32)
    width = 32 // factor
    unsigned = np.dtype(f"uint{width}")
    narrow = np.stack([(bits >> (i * width)).astype(unsigned) for i in range(factor)], 1).reshape(8 * factor, 128)
    found = run(lambda x: pltpu.bitcast(x, packed), words)
    np.testing.assert_array_equal(found.view(unsigned), narrow)
    back = run(lambda x: pltpu.bitcast(x, jnp.int32), found)
    np.testing.assert_array_equal(back, words)


def test_dynamic_roll() -> None:
    def kernel(amount: Any, x: Any, o: Any) -> None:
        o[...] = pltpu.roll(x[...], amount[0], 1)

    spec = pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=1,
        grid=(1,),
        in_specs=[pl.BlockSpec(SHAPE, lambda i, a: (0, 0))],
        out_specs=pl.BlockSpec(SHAPE, lambda i, a: (0, 0)),
    )
    x = numbers(np.float32)
    call = pl.pallas_call(kernel, grid_spec=spec, out_shape=jax.ShapeDtypeStruct(SHAPE, np.float32))
    module = module_of(pallas.lower(call, np.zeros(1, np.int32), x).body)
    for amount in (0, 5, 127, 130):
        found = run_xla(module, [np.array([amount], np.int32), x], [(SHAPE, np.float32)]).outputs[0]
        np.testing.assert_array_equal(found, np.roll(x, amount, 1))
