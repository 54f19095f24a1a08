"""Matmuls: the zoo's kernel and the jax wheel's, over all element types, and the wheel's grouped matmul."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np
from jax.experimental.pallas.ops.tpu.megablox.gmm import gmm

from conformance.cases import matmul as configs
from conformance.numerics.case import NumericsCase
from mosaic_tpu import zoo
from mosaic_tpu.zoo.tolerances import Array, Expected, Float64
from mosaic_tpu.zoo.tolerances.matmul import expected
from mosaic_tpu.zoo.tolerances.rounding import unit_roundoff

#: Configs of the wheel's own kernel: the zoo's has the same bytes for all of them.
WHEEL = ("bf16", "f32", "s8-to-s32", "f8e4m3-f8e5m2-to-f32")


def _numbers(rng: np.random.Generator, shape: Sequence[int], dtype: Any, out_dtype: Any) -> Array:
    """Floats around 0 whose products fit every type; integers, small where the sums have to fit 8 bits."""
    kind = np.dtype(dtype)
    if unit_roundoff(kind) == 0.0:
        top = 1 if np.dtype(out_dtype) == np.int8 else 7 if kind.name == "int4" else 127
        return rng.integers(-top, top + 1, shape).astype(kind)
    return (0.5 * rng.standard_normal(shape)).astype(kind)


def _case(kernel: str, function: Any, config: configs.MatmulConfig) -> NumericsCase:
    # Two blocks in each direction show all that more would.
    small = replace(
        config,
        m=min(config.m, 2 * config.bm),
        k=min(config.k, 2 * config.bk),
        n=min(config.n, 2 * config.bn),
    )
    out_dtype = config.out_dtype or config.dtype

    def inputs(rng: np.random.Generator) -> Sequence[Array]:
        return [_numbers(rng, shape.shape, shape.dtype, out_dtype) for shape in configs.args(small).values()]

    return NumericsCase(kernel, config.id, function, inputs, functools.partial(expected, out_dtype=out_dtype))


def _zoo(config: configs.MatmulConfig) -> NumericsCase:
    function = functools.partial(
        zoo.matmul, block_shape=(config.bm, config.bn), block_k=config.bk, out_dtype=config.out_dtype
    )
    return _case("matmul", function, config)


def _wheel(config: configs.MatmulConfig) -> NumericsCase:
    return _case("jax: matmul", configs.wheel_fn(config), config)


@dataclass(frozen=True)
class GmmConfig:
    """One grouped matmul: rows of `x`, group by group, each group with a matrix of its own."""

    id: str
    groups: tuple[int, ...]
    k: int = 256
    n: int = 256
    tiling: tuple[int, int, int] = (128, 128, 128)
    dtype: str = "bfloat16"
    out_dtype: str = "float32"
    transpose_rhs: bool = False


GMM_CONFIGS = [
    GmmConfig("groups across tiles", (100, 156, 7, 249)),
    GmmConfig("many groups in a tile", (1, 2, 3, 50, 64, 8, 60, 68), k=128),
    GmmConfig("empty groups", (0, 200, 0, 0, 56, 0)),
    GmmConfig("k and n across tiles", (90, 166), k=200, n=300),
    GmmConfig("transposed", (100, 156), transpose_rhs=True),
    GmmConfig("to bf16", (100, 28, 128), out_dtype="bfloat16"),
    GmmConfig("f32", (100, 156), dtype="float32"),
    GmmConfig("tiles of 64 rows", (33, 95), tiling=(64, 128, 256)),
]


def _gmm(config: GmmConfig) -> NumericsCase:
    def function(lhs: jax.Array, rhs: jax.Array, group_sizes: jax.Array) -> jax.Array:
        options = {"tiling": config.tiling, "transpose_rhs": config.transpose_rhs}
        return gmm(lhs, rhs, group_sizes, np.dtype(config.out_dtype), **options)

    def inputs(rng: np.random.Generator) -> Sequence[Array]:
        matrix = (config.n, config.k) if config.transpose_rhs else (config.k, config.n)
        lhs = _numbers(rng, (sum(config.groups), config.k), config.dtype, config.out_dtype)
        rhs = _numbers(rng, (len(config.groups), *matrix), config.dtype, config.out_dtype)
        return lhs, rhs, np.array(config.groups, np.int32)

    def results(lhs: Array, rhs: Array, group_sizes: Array) -> list[Expected]:
        ends = np.cumsum(group_sizes)
        pieces: list[Expected] = []
        for matrix, end, size in zip(rhs, ends, group_sizes, strict=True):
            rows = lhs[end - size : end]
            pieces += expected(rows, matrix.T if config.transpose_rhs else matrix, out_dtype=config.out_dtype)
        return [Expected(_joined([p.value for p in pieces]), _joined([np.asarray(p.tolerance) for p in pieces]))]

    return NumericsCase("jax: gmm", config.id, function, inputs, results)


def _joined(pieces: Sequence[Float64]) -> Float64:
    return np.concatenate(pieces)


CASES = [
    *map(_zoo, configs.WHEEL_CONFIGS),
    *(_wheel(config) for config in configs.WHEEL_CONFIGS if config.id in WHEEL),
    *map(_gmm, GMM_CONFIGS),
]
