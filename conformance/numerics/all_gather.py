"""The jax wheel's all-gather: four devices in a ring send halves of their shards both ways."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax.experimental.pallas import tpu as pltpu
from jax.experimental.pallas.ops.tpu.all_gather import all_gather
from jax.sharding import AbstractMesh, AxisType, NamedSharding, PartitionSpec

from conformance.numerics.case import NumericsCase
from mosaic_tpu.zoo.tolerances import Array, Expected

DEVICES = 4


@dataclass(frozen=True)
class AllGatherConfig:
    """Shards of ``rows`` rows."""

    id: str
    rows: int = 8
    lanes: int = 128
    dtype: str = "float32"
    memory_space: Any = pltpu.VMEM


CONFIGS = [
    AllGatherConfig("f32"),
    AllGatherConfig("f32, HBM", memory_space=pltpu.HBM),
    AllGatherConfig("bf16", rows=32, lanes=256, dtype="bfloat16"),
    AllGatherConfig("s8", rows=64, dtype="int8"),
]


def _case(config: AllGatherConfig) -> NumericsCase:
    mesh = AbstractMesh((DEVICES,), ("x",), axis_types=(AxisType.Auto,))
    function = functools.partial(all_gather, mesh=mesh, axis_name="x", memory_space=config.memory_space)
    whole = jax.ShapeDtypeStruct(
        (DEVICES * config.rows, config.lanes), config.dtype, sharding=NamedSharding(mesh, PartitionSpec("x"))
    )

    def inputs(rng: np.random.Generator) -> Sequence[Array]:
        return list(rng.integers(-100, 100, (DEVICES, config.rows, config.lanes)).astype(config.dtype))

    def expected(*shards: Array) -> list[Expected]:
        """The gathered array on each device, bit for bit."""
        return [Expected(np.stack(shards).astype(np.float64), 0.0)] * DEVICES

    return NumericsCase("jax: all_gather", config.id, function, inputs, expected, (whole,), devices=DEVICES)


CASES = [_case(config) for config in CONFIGS]
