"""What the tests of hazards, windows and reports share: Pallas kernels, lowered for a TPU on any machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import jax
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jax.sharding import AbstractMesh, AxisType, NamedSharding, PartitionSpec

from mosaic_tpu.sim import Report, simulate, simulate_devices

type Array = np.ndarray[Any, Any]

MODES: Final = ("eager", "wait", "random")
TILE: Final = (8, 128)
HBM: Final = pl.BlockSpec(memory_space=pl.ANY)
DMA: Final = pltpu.SemaphoreType.DMA
REGULAR: Final = pltpu.SemaphoreType.REGULAR


def ramp(*shape: int, dtype: Any = np.float32) -> Array:
    """Numbers that are all different, where the dtype has as many."""
    return np.arange(np.prod(shape)).reshape(shape).astype(dtype)


def lowered(function: Callable[..., Any], *arrays: Any) -> str:
    """The StableHLO of a function, as JAX lowers it for a TPU."""
    shapes = [a if isinstance(a, jax.ShapeDtypeStruct) else jax.ShapeDtypeStruct(a.shape, a.dtype) for a in arrays]
    return jax.jit(function).trace(*shapes).lower(lowering_platforms=("tpu",)).as_text()


def run(
    kernel: Callable[..., None], *arrays: Array, scratch: Sequence[Any] = (), out: Any = None, **options: Any
) -> Report:
    """Simulate a kernel without a grid, whose arrays are in HBM; ``out`` is like the first array if not given."""
    like = arrays[0] if out is None else out
    call = pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct(like.shape, like.dtype),
        in_specs=[HBM] * len(arrays),
        out_specs=HBM,
        scratch_shapes=list(scratch),
    )
    return simulate(lowered(call, *arrays), *arrays, **options)


def on_devices(kernel: Callable[..., None], shards: Sequence[Array], *, scratch: Sequence[Any]) -> str:
    """The program of a kernel on devices along ``"x"``, a shard in the HBM of each."""
    count, shard = len(shards), shards[0]
    mesh = AbstractMesh((count,), ("x",), axis_types=(AxisType.Auto,))
    call = pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct(shard.shape, shard.dtype),
        in_specs=[HBM],
        out_specs=HBM,
        scratch_shapes=list(scratch),
        compiler_params=pltpu.CompilerParams(collective_id=0),
    )
    spec = PartitionSpec("x")
    mapped = jax.shard_map(call, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False)
    sharding = NamedSharding(mesh, spec)
    whole = jax.ShapeDtypeStruct((count * shard.shape[0], *shard.shape[1:]), shard.dtype, sharding=sharding)
    return lowered(mapped, whole)


def run_devices(program: str, shards: Sequence[Array], **options: Any) -> Report:
    """Simulate such a program."""
    return simulate_devices(program, [[s] for s in shards], **options)
