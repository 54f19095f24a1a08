"""Matmul configs: the kernel in the jax wheel, and the twin with a condition on the last step.

All lower on JAX 0.11.2 and on 0.12. Not here, because Pallas refuses them: unsigned operands.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

import jax
from jax.experimental.pallas.ops.tpu import matmul as wheel

from conformance.kernels.matmul import ScratchMatmulConfig
from conformance.twins import matmul as twin
from mosaic_tpu.builder import as_dtype
from mosaic_tpu.zoo.kernels import matmul as zoo

PARALLEL = ("parallel", "parallel", "arbitrary")


@dataclass(frozen=True)
class MatmulConfig:
    """One matmul: [m, k] × [k, n] in blocks of bm × bk and bk × bn."""

    id: str
    m: int = 256
    k: int = 256
    n: int = 256
    bm: int = 128
    bk: int = 128
    bn: int = 128
    dtype: str = "bfloat16"
    rhs_dtype: str | None = None
    out_dtype: str | None = None
    dimension_semantics: tuple[str, str, str] = PARALLEL


_COMMON = [
    MatmulConfig("bf16"),
    MatmulConfig("bf16-one-block", m=128, k=128, n=128),
    MatmulConfig("bf16-to-f32", out_dtype="float32"),
    MatmulConfig("bf16-512", m=2048, k=2048, n=2048, bm=512, bk=512, bn=512),
    MatmulConfig("bf16-256x128x384", m=512, k=384, n=768, bm=256, bk=128, bn=384),
    MatmulConfig("bf16-rows-16", m=32, k=512, n=256, bm=16, bk=256),
    MatmulConfig("bf16-whole-k", m=1024, k=1024, n=1024, bm=256, bk=1024, bn=256),
    MatmulConfig("f32", dtype="float32"),
    MatmulConfig("f32-rows-8", m=16, k=256, n=512, bm=8, bk=256, bn=256, dtype="float32"),
    MatmulConfig("f32-to-bf16", dtype="float32", out_dtype="bfloat16"),
    MatmulConfig("f32-256", m=512, k=1024, n=512, bm=256, bk=256, bn=256, dtype="float32"),
    MatmulConfig("s8-to-s32", dtype="int8", out_dtype="int32"),
    MatmulConfig("s8", dtype="int8"),
    MatmulConfig("s8-to-f32", m=512, k=512, n=512, bm=256, bk=256, bn=256, dtype="int8", out_dtype="float32"),
    MatmulConfig("s4-to-s32", dtype="int4", out_dtype="int32"),
    MatmulConfig("f8e4m3-to-f32", dtype="float8_e4m3fn", out_dtype="float32"),
    MatmulConfig("f8e5m2-to-bf16", dtype="float8_e5m2", out_dtype="bfloat16"),
    MatmulConfig("f8e4m3", m=512, k=512, n=512, bm=256, bk=256, bn=256, dtype="float8_e4m3fn"),
    MatmulConfig("f8e4m3-f8e5m2-to-f32", dtype="float8_e4m3fn", rhs_dtype="float8_e5m2", out_dtype="float32"),
    MatmulConfig("bf16-f8e4m3-to-bf16", rhs_dtype="float8_e4m3fn", out_dtype="bfloat16"),
    MatmulConfig("bf16-s8-to-f32", rhs_dtype="int8", out_dtype="float32"),
    MatmulConfig("f32-bf16-to-f32", dtype="float32", rhs_dtype="bfloat16", out_dtype="float32"),
    MatmulConfig("f16", dtype="float16"),
]
#: Configs of `jax.experimental.pallas.ops.tpu.matmul`, whose dimension semantics are fixed.
WHEEL_CONFIGS = list(_COMMON)
#: Configs of `conformance.twins.matmul`.
CONFIGS = [
    *_COMMON,
    MatmulConfig("bf16-all-arbitrary", dimension_semantics=("arbitrary", "arbitrary", "arbitrary")),
    MatmulConfig("bf16-second-arbitrary", dimension_semantics=("parallel", "arbitrary", "arbitrary")),
]


def args(config: MatmulConfig) -> dict[str, jax.ShapeDtypeStruct]:
    """The shapes and dtypes of the operands, in order."""
    return {
        "x": jax.ShapeDtypeStruct((config.m, config.k), config.dtype),
        "y": jax.ShapeDtypeStruct((config.k, config.n), config.rhs_dtype or config.dtype),
    }


def pallas_fn(config: MatmulConfig) -> Callable[..., jax.Array]:
    """The twin at `config`."""
    return functools.partial(
        twin.matmul,
        bm=config.bm,
        bn=config.bn,
        bk=config.bk,
        out_dtype=config.out_dtype,
        dimension_semantics=config.dimension_semantics,
    )


def wheel_fn(config: MatmulConfig) -> Callable[..., jax.Array]:
    """The jax wheel's kernel at `config`."""
    return functools.partial(
        wheel.matmul, block_shape=(config.bm, config.bn), block_k=config.bk, out_dtype=config.out_dtype
    )


def zoo_config(config: MatmulConfig) -> zoo.MatmulConfig:
    """The zoo's config."""
    return zoo.MatmulConfig(**_fields(config))


def scratch_config(config: MatmulConfig) -> ScratchMatmulConfig:
    """The config of `conformance.kernels.matmul`."""
    return ScratchMatmulConfig(**_fields(config), dimension_semantics=config.dimension_semantics)


def _fields(config: MatmulConfig) -> dict[str, object]:
    sizes = {"m": config.m, "n": config.n, "k": config.k}
    blocks = {"block_m": config.bm, "block_n": config.bn, "block_k": config.bk}
    dtypes = {
        "x_dtype": config.dtype,
        "y_dtype": config.rhs_dtype or config.dtype,
        "out_dtype": config.out_dtype or config.dtype,
    }
    return {**sizes, **blocks, **{name: as_dtype(dtype) for name, dtype in dtypes.items()}}
