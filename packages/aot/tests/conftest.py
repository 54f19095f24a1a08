"""What the tests share: small kernels, a cache folder of their own, the clock of a TPU, whether there is a compiler."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import jax
import jax.numpy as jnp
import pytest
from jax.experimental import pallas as pl

from mosaic_tpu.aot import _candidate, _pool, _tune

DOUBLE: Final = """
func.func @double(%x: memref<8x128xf32, #tpu.memory_space<vmem>>,
                  %y: memref<8x128xf32, #tpu.memory_space<vmem>>) attributes {tpu.core_type = #tpu.core_type<tc>} {
  %c0 = arith.constant 0 : index
  %0 = vector.load %x[%c0, %c0] : memref<8x128xf32, #tpu.memory_space<vmem>>, vector<8x128xf32>
  %1 = arith.addf %0, %0 : vector<8x128xf32>
  vector.store %1, %y[%c0, %c0] : memref<8x128xf32, #tpu.memory_space<vmem>>, vector<8x128xf32>
  return
}"""


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No result of one test reaches another, or the user's folder."""
    monkeypatch.setenv("MOSAIC_TPU_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture(scope="session", autouse=True)
def no_worker_left() -> Iterator[None]:
    yield
    _pool.close()


@pytest.fixture
def needs_compiler() -> None:
    if importlib.util.find_spec("libtpu") is None:
        pytest.skip("the TPU compiler is not installed: pip install 'mosaic-tpu-aot[tpu]'")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A TPU of the generation v5e, on which each config takes as long as it has blocks; which were timed."""
    timed: list[int] = []

    def seconds(kernel: Any, config: Any, scalars: Any) -> float:
        timed.append(config.block)
        return 1e-6 * 512 / config.block

    monkeypatch.setattr(_tune, "tpu_generation", lambda: "v5e")
    monkeypatch.setattr(_candidate, "measured", seconds)
    return timed


def lowered(function: Callable[..., Any], *shapes: jax.ShapeDtypeStruct) -> Any:
    """A function, lowered for a TPU on any machine."""
    return jax.jit(function).trace(*shapes).lower(lowering_platforms=("tpu",))


def doubled(rows: int = 64, dtype: Any = jnp.float32) -> Any:
    """A Pallas kernel over a grid, lowered."""

    def kernel(x_ref: Any, o_ref: Any) -> None:
        o_ref[...] = x_ref[...] * 2

    shape = jax.ShapeDtypeStruct((rows, 128), dtype)
    block = pl.BlockSpec((8, 128), lambda i: (i, 0))
    call = pl.pallas_call(kernel, out_shape=shape, grid=(rows // 8,), in_specs=[block], out_specs=block, name="doubled")
    return lowered(call, shape)


def multiplied(dtype: Any = jnp.bfloat16, out: Any = jnp.float32) -> Any:
    """A product of 128 × 128 matrices, lowered."""

    def kernel(x_ref: Any, y_ref: Any, o_ref: Any) -> None:
        o_ref[...] = jnp.dot(x_ref[...], y_ref[...], preferred_element_type=out)

    shape = jax.ShapeDtypeStruct((128, 128), dtype)
    call = pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((128, 128), out), name="multiplied")
    return lowered(call, shape, shape)


def several() -> Any:
    """A program of four calls: ``first``, a kernel named ``twice``, a sine of that name, and ``twice`` again."""

    def call(name: str, function: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def kernel(x_ref: Any, o_ref: Any) -> None:
            o_ref[...] = function(x_ref[...])

        shape, block = jax.ShapeDtypeStruct((64, 128), jnp.float32), pl.BlockSpec((8, 128), lambda i: (i, 0))
        return pl.pallas_call(kernel, out_shape=shape, grid=(8,), in_specs=[block], out_specs=block, name=name)

    first, twice, sine = call("first", lambda x: x + 1), call("twice", lambda x: x * 2), call("twice", jnp.sin)
    return lowered(lambda x: (twice(first(x)), twice(sine(x))), jax.ShapeDtypeStruct((64, 128), jnp.float32))
