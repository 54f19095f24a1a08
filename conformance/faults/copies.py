"""A kernel that scales an array block by block, with DMAs of its own and two buffers each way."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from conformance.faults.fault import Array, Fault, Working
from mosaic_tpu.sim import errors

ROWS: Final = 8
STEPS: Final = 5


def scale_kernel(
    x_hbm: Any, o_hbm: Any, x_vmem: Any, o_vmem: Any, arrived: Any, left: Any, done: Any, *, fault: str
) -> None:
    def fetch(step: Any) -> Any:
        slot = lax.rem(step, 2)
        place = 0 if fault == "fetch to the wrong slot" else slot
        return pltpu.make_async_copy(x_hbm.at[pl.ds(step * ROWS, ROWS)], x_vmem.at[place], arrived.at[slot])

    def store(step: Any) -> Any:
        slot = lax.rem(step, 2)
        if fault == "store of half a block":
            half = pl.ds(0, ROWS // 2)
            target = o_hbm.at[pl.ds(step * ROWS, ROWS // 2)]
            return pltpu.make_async_copy(o_vmem.at[slot, half], target, left.at[slot])
        return pltpu.make_async_copy(o_vmem.at[slot], o_hbm.at[pl.ds(step * ROWS, ROWS)], left.at[slot])

    def body(step: Any, _: Any) -> None:
        slot = lax.rem(step, 2)

        @pl.when(step + 1 < STEPS + (fault == "fetch past the end"))
        def prefetch() -> None:
            fetch(step + 1).start()

        if fault == "clear a slot that is being filled":
            x_vmem[1 - slot] = jnp.zeros((ROWS, 128), jnp.float32)  # clear
        if fault == "wait on the other slot's semaphore":
            pltpu.make_async_copy(x_hbm.at[pl.ds(0, ROWS)], x_vmem.at[slot], arrived.at[1 - slot]).wait()
        elif fault not in ("no wait for a fetch", "wait after the use"):
            fetch(step).wait()
        if fault == "wait twice":
            fetch(step).wait()  # again
        if fault == "fetch into the slot in use":
            fetch(jnp.minimum(step + 2, STEPS - 1)).start()

        @pl.when((step >= 2) & (fault != "store from a slot in flight"))
        def reuse() -> None:
            store(step - 2).wait()

        row = step if fault == "store past a buffer" else 0
        result = x_vmem[slot] * 2.0  # use
        o_vmem[slot, pl.ds(row, ROWS)] = result  # result
        if fault == "wait after the use":
            fetch(step).wait()

        @pl.when(step != (2 if fault == "a block left out" else -1))
        def write() -> None:
            store(step).start()

        if fault == "a block left out":

            @pl.when(step == 2)
            def stand_in() -> None:
                pltpu.make_async_copy(o_vmem.at[slot], o_hbm.at[pl.ds(0, ROWS)], left.at[slot]).start()

    if fault != "no fetch":
        fetch(0).start()
    lax.fori_loop(0, STEPS, body, None)
    store(STEPS - 2).wait()
    if fault != "no wait for the last store":
        store(STEPS - 1).wait()
    pl.semaphore_signal(done, 2 if fault == "one signal too many" else 1)  # signal
    pl.semaphore_wait(done, 2 if fault == "wait for more than is signalled" else 1)  # wait


def scale(x: jax.Array, *, fault: str) -> jax.Array:
    return pl.pallas_call(
        functools.partial(scale_kernel, fault=fault),
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        in_specs=[pl.BlockSpec(memory_space=pl.ANY)],
        out_specs=pl.BlockSpec(memory_space=pl.ANY),
        scratch_shapes=[
            pltpu.VMEM((2, ROWS, 128), x.dtype),
            pltpu.VMEM((2, ROWS, 128), x.dtype),
            pltpu.SemaphoreType.DMA((2,)),
            pltpu.SemaphoreType.DMA((2,)),
            pltpu.SemaphoreType.REGULAR,
        ],
    )(x)


def _arrays() -> Sequence[Array]:
    return [np.random.default_rng(0).standard_normal((STEPS * ROWS, 128)).astype(np.float32)]


def _build(fault: str) -> Callable[..., Any]:
    return functools.partial(scale, fault=fault)


KERNEL: Final = Working("double-buffered copy", _build, _arrays, lambda arrays: [arrays[0] * 2])

_planted = functools.partial(Fault, kernel=KERNEL)
_FETCH: Final = "fetch(step).wait()"

FAULTS: Final = [
    _planted(
        "read before wait",
        error=errors.ReadBeforeWaitError,
        planted="wait after the use",
        line="# use",
        op="vector.load",
        buffer="x_vmem",
        says="the DMA was started by tpu.enqueue_dma",
    ),
    _planted(
        "no wait for a fetch",
        error=errors.ReadBeforeWaitError,
        planted="no wait for a fetch",
        line="# use",
        op="vector.load",
        buffer="x_vmem",
    ),
    _planted(
        "wait on another slot's semaphore",
        error=errors.ReadBeforeWaitError,
        planted="wait on the other slot's semaphore",
        line="# use",
        op="vector.load",
        buffer="x_vmem",
    ),
    _planted(
        "slot reuse: fetch into the slot in use",
        error=errors.ReadBeforeWaitError,
        planted="fetch into the slot in use",
        line="# use",
        op="vector.load",
        buffer="x_vmem",
    ),
    _planted(
        "write to a destination in flight",
        error=errors.WriteToDestinationError,
        planted="clear a slot that is being filled",
        line="# clear",
        op="tpu.vector_store",
        buffer="x_vmem",
        says="the DMA was started by tpu.enqueue_dma",
    ),
    _planted(
        "DMA to the wrong slot",
        error=errors.WriteToDestinationError,
        planted="fetch to the wrong slot",
        line="fetch(step + 1).start()",
        op="tpu.enqueue_dma",
        buffer="x_vmem",
    ),
    _planted(
        "write to a source in flight",
        error=errors.WriteToSourceError,
        planted="store from a slot in flight",
        line="# result",
        op="tpu.vector_store",
        buffer="o_vmem",
    ),
    _planted(
        "missing wait",
        error=errors.MissingWaitError,
        planted="no wait for the last store",
        line="store(step).start()",
        op="tpu.enqueue_dma",
        buffer="semaphore left[0]",
    ),
    _planted(
        "wait without a DMA",
        error=errors.WaitWithoutDMAError,
        planted="no fetch",
        line=_FETCH,
        op="tpu.wait_dma",
        buffer="arrived[0]",
        says="has 0 bytes, the wait needs 4096",
    ),
    _planted(
        "double wait",
        error=errors.DoubleWaitError,
        planted="wait twice",
        line="# again",
        op="tpu.wait_dma",
        buffer="arrived[0]",
    ),
    _planted(
        "semaphore imbalance",
        error=errors.SemaphoreImbalanceError,
        planted="one signal too many",
        line="# signal",
        op="tpu.sem_signal",
        buffer="done",
        says="done is 1",
    ),
    _planted(
        "deadlock",
        error=errors.DeadlockError,
        planted="wait for more than is signalled",
        line="# wait",
        op="tpu.sem_wait",
        buffer="done",
        says="for 2 of done, which has 1",
    ),
    _planted(
        "DMA slice out of bounds",
        error=errors.OutOfBoundsError,
        planted="fetch past the end",
        line="fetch(step + 1).start()",
        op="tpu.memref_slice",
        buffer="x_hbm",
        says="index 40 of dimension 0, 8 long, in a size of 40",
    ),
    _planted(
        "store out of bounds",
        error=errors.OutOfBoundsError,
        planted="store past a buffer",
        line="# result",
        op="tpu.vector_store",
        buffer="o_vmem",
        says="index 1 of dimension 1, 8 long, in a size of 8",
    ),
    _planted(
        "unwritten block",
        error=errors.UnwrittenOutputError,
        planted="a block left out",
        line="store(step).start()",
        op="tpu.enqueue_dma",
        buffer="o_hbm",
        says="1024 of 5120 elements",
    ),
    _planted(
        "unwritten parts of blocks",
        error=errors.UnwrittenOutputError,
        planted="store of half a block",
        line="store(step).start()",
        op="tpu.enqueue_dma",
        buffer="o_hbm",
        says="2560 of 5120 elements",
    ),
]
