"""An all-gather around a ring of devices, through two buffers: who sends knows from the receiver when one is free."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Final

import jax
import numpy as np
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jax.sharding import AbstractMesh, AxisType, NamedSharding, PartitionSpec

from conformance.faults.fault import Array, Fault, Working
from mosaic_tpu.sim import errors

DEVICES: Final = 4
SHARD: Final = (8, 128)


def ring_kernel(x: Any, o: Any, slots: Any, copied: Any, sent: Any, received: Any, free: Any, *, fault: str) -> None:
    me = lax.axis_index("x")
    right, left = lax.rem(me + 1, DEVICES), lax.rem(me + DEVICES - 1, DEVICES)

    def copy(source: Any, target: Any) -> None:
        pltpu.async_copy(source, target, copied).wait()  # copy

    barrier = pltpu.get_barrier_semaphore()
    alone = fault == "no entry barrier"
    pl.semaphore_signal(barrier, 1, device_id=me if alone else left)
    pl.semaphore_signal(barrier, 1, device_id=me if alone else right)
    pl.semaphore_wait(barrier, 2)  # meet

    copy(x, slots.at[0])
    copy(x, o.at[me])
    for step in range(DEVICES - 1):
        here, there = step % 2, 1 - step % 2
        if (step or fault == "wait for a slot that was free") and fault != "no wait for a free slot":
            pl.semaphore_wait(free, 1)  # free
        send = pltpu.make_async_remote_copy(
            slots.at[here],
            slots.at[there],
            sent.at[here],
            received.at[there],
            device_id=right,
        )
        send.start()  # send
        if fault == "receive after the use":
            copy(slots.at[there], o.at[lax.rem(me + DEVICES - step - 1, DEVICES)])
        if fault != "no receive wait":
            send.wait_recv()
        if fault != "receive after the use":
            copy(slots.at[there], o.at[lax.rem(me + DEVICES - step - 1, DEVICES)])
        if fault != "no send wait":
            send.wait_send()
        last = step == DEVICES - 2
        if (not last or fault == "a slot too many") and fault != "no wait for a free slot":
            target = right if fault == "free slot signalled to the wrong device" else left
            pl.semaphore_signal(free, 1, device_id=target)  # give


def ring(x: jax.Array, *, fault: str) -> jax.Array:
    return pl.pallas_call(
        functools.partial(ring_kernel, fault=fault),
        out_shape=jax.ShapeDtypeStruct((DEVICES, *x.shape), x.dtype),
        in_specs=[pl.BlockSpec(memory_space=pl.ANY)],
        out_specs=pl.BlockSpec(memory_space=pl.ANY),
        scratch_shapes=[
            pltpu.VMEM((2, *x.shape), x.dtype),
            pltpu.SemaphoreType.DMA,
            pltpu.SemaphoreType.DMA((2,)),
            pltpu.SemaphoreType.DMA((2,)),
            pltpu.SemaphoreType.REGULAR,
        ],
        compiler_params=pltpu.CompilerParams(collective_id=0),
    )(x)


_MESH: Final = AbstractMesh((DEVICES,), ("x",), axis_types=(AxisType.Auto,))
_WHOLE: Final = jax.ShapeDtypeStruct(
    (DEVICES * SHARD[0], SHARD[1]), np.float32, sharding=NamedSharding(_MESH, PartitionSpec("x"))
)


def _build(fault: str) -> Callable[..., Any]:
    kernel = functools.partial(ring, fault=fault)
    return jax.shard_map(
        kernel, mesh=_MESH, in_specs=PartitionSpec("x"), out_specs=PartitionSpec(None), check_vma=False
    )


def _arrays() -> Sequence[Array]:
    return list(np.random.default_rng(0).standard_normal((DEVICES, *SHARD)).astype(np.float32))


KERNEL: Final = Working(
    "ring all-gather", _build, _arrays, lambda shards: [np.stack(shards)] * DEVICES, DEVICES, (_WHOLE,)
)

_planted = functools.partial(Fault, kernel=KERNEL)

FAULTS: Final = [
    _planted(
        "missing entry barrier",
        error=errors.MissingEntryBarrierError,
        planted="no entry barrier",
        line="# send",
        op="tpu.enqueue_dma",
        buffer="received[1]",
        says="before that device is known to have entered",
    ),
    _planted(
        "slot reuse between devices",
        error=errors.SlotReuseRaceError,
        planted="no wait for a free slot",
        line="# send",
        op="tpu.enqueue_dma",
        buffer="slots",
    ),
    _planted(
        "signal to a wrong device",
        error=errors.SlotReuseRaceError,
        planted="free slot signalled to the wrong device",
        line="# send",
        op="tpu.enqueue_dma",
        buffer="slots",
    ),
    _planted(
        "missing send wait",
        error=errors.SlotReuseRaceError,
        planted="no send wait",
        line="# send",
        op="tpu.enqueue_dma",
        buffer="slots",
    ),
    _planted(
        "missing receive wait",
        error=errors.MissingReceiveWaitError,
        planted="no receive wait",
        line="# copy",
        op="tpu.enqueue_dma",
        buffer="slots",
    ),
    _planted(
        "receive wait after the use",
        error=errors.MissingReceiveWaitError,
        planted="receive after the use",
        line="# copy",
        op="tpu.enqueue_dma",
        buffer="slots",
    ),
    _planted(
        "semaphore imbalance between devices",
        error=errors.SemaphoreImbalanceError,
        planted="a slot too many",
        line="# give",
        op="tpu.sem_signal",
        buffer="free",
    ),
    _planted(
        "deadlock between devices",
        error=errors.DeadlockError,
        planted="wait for a slot that was free",
        line="# free",
        op="tpu.sem_wait",
        buffer="free",
        says="for 1 of free, which has 0; device",
    ),
]
