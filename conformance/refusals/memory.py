"""Loads, stores and DMAs off the tiles, and memories that are too small."""

from __future__ import annotations

from typing import Any, Final

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from conformance.refusals.case import Refusal, hbm, ours, out, smem, theirs, vmem
from mosaic_tpu.aot import errors
from mosaic_tpu.builder import Builder, Role, SemaphoreKind, SemArray, f32
from mosaic_tpu.kernel import CallExtras

Shape = jax.ShapeDtypeStruct


@ours(s=smem(1), x=vmem(8, 512), o=out(8, 128))
def load_at_a_lane(b: Builder, a: Any) -> None:
    lane = b.to_index(b.scalar_load(a.s, (0,)))
    b.ref_store(a.o, b.vector_load(a.x, (b.c_index(0), lane), (8, 128)))  # refused


@ours(s=smem(1), x=vmem(8, 512), o=out(8, 128))
def load_at_a_tile(b: Builder, a: Any) -> None:
    lane = b.assume_multiple(b.to_index(b.scalar_load(a.s, (0,))), 128)
    b.ref_store(a.o, b.vector_load(a.x, (b.c_index(0), lane), (8, 128)))


_SCALAR_AND_ARRAY: Final = [pl.BlockSpec(memory_space=pltpu.SMEM), pl.BlockSpec(memory_space=pltpu.VMEM)]
_STORE: Final = (Shape((1,), jnp.int32), Shape((16, 128), jnp.bfloat16))


@theirs(*_STORE, out_shape=Shape((64, 128), jnp.bfloat16), in_specs=_SCALAR_AND_ARRAY)
def store_at_a_row(row: Any, x: Any, o: Any) -> None:
    o[pl.ds(row[0], 16), :] = x[...]  # refused


@theirs(*_STORE, out_shape=Shape((64, 128), jnp.bfloat16), in_specs=_SCALAR_AND_ARRAY)
def store_at_a_multiple(row: Any, x: Any, o: Any) -> None:
    o[pl.ds(pl.multiple_of(row[0], 16), 16), :] = x[...]


_LOAD: Final = (Shape((1,), jnp.int32), Shape((16, 256), jnp.float32))


@theirs(*_LOAD, out_shape=_LOAD[1], in_specs=_SCALAR_AND_ARRAY)
def load_an_element(row: Any, x: Any, o: Any) -> None:
    last = x[row[0], 255]  # refused
    o[...] = x[...] + last


@theirs(*_LOAD, out_shape=_LOAD[1], in_specs=_SCALAR_AND_ARRAY)
def load_its_row(row: Any, x: Any, o: Any) -> None:
    last = x[row[0], :][255]
    o[...] = x[...] + last


_SEMAPHORE: Final = SemArray((1,))


def _copy(b: Builder, source: Any, a: Any) -> None:
    copy = b.pallas.async_copy(source, a.o, a.sem.at[0])
    copy.start()
    copy.wait()


@ours(x=hbm(64, 256), o=hbm(8, 256, role=Role.OUTPUT), sem=_SEMAPHORE)
def copy_from_row_3(b: Builder, a: Any) -> None:
    rows = a.x.at[b.pallas.ds(3, 8)]
    copy = b.pallas.async_copy(rows, a.o, a.sem.at[0])
    copy.start()  # refused
    copy.wait()


@ours(x=hbm(64, 256), o=hbm(8, 256, role=Role.OUTPUT), sem=_SEMAPHORE)
def copy_from_row_8(b: Builder, a: Any) -> None:
    _copy(b, a.x.at[b.pallas.ds(8, 8)], a)


@ours(x=hbm(64, 256), o=hbm(64, 64, role=Role.OUTPUT), sem=_SEMAPHORE)
def copy_half_a_tile(b: Builder, a: Any) -> None:
    lanes = a.x.at[:, b.pallas.ds(0, 64)]
    copy = b.pallas.async_copy(lanes, a.o, a.sem.at[0])
    copy.start()  # refused
    copy.wait()


@ours(x=hbm(64, 256), o=hbm(64, 128, role=Role.OUTPUT), sem=_SEMAPHORE)
def copy_a_tile(b: Builder, a: Any) -> None:
    _copy(b, a.x.at[:, b.pallas.ds(0, 128)], a)


_HBM: Final = pl.BlockSpec(memory_space=pl.ANY)
_DMA: Final = {
    "in_specs": [pl.BlockSpec(memory_space=pltpu.SMEM), _HBM],
    "out_specs": _HBM,
    "scratch_shapes": [pltpu.SemaphoreType.DMA],
}
_ROWS: Final = (Shape((1,), jnp.int32), Shape((64, 256), jnp.float32))


@theirs(*_ROWS, out_shape=Shape((8, 256), jnp.float32), **_DMA)
def copy_from_any_row(row: Any, x: Any, o: Any, sem: Any) -> None:
    copy = pltpu.make_async_copy(x.at[pl.ds(row[0], 8)], o, sem)
    copy.start()  # refused
    copy.wait()


@theirs(*_ROWS, out_shape=Shape((8, 256), jnp.float32), **_DMA)
def copy_from_a_multiple(row: Any, x: Any, o: Any, sem: Any) -> None:
    copy = pltpu.make_async_copy(x.at[pl.ds(pl.multiple_of(row[0], 8), 8)], o, sem)
    copy.start()
    copy.wait()


@ours(x=vmem(8, 128), o=out(8, 128), kept=vmem(8192, 8192, role=Role.SCRATCH))
def scratch_of_256_mib(b: Builder, a: Any) -> None:
    x = b.ref_load(a.x)
    b.vector_store(a.kept, x, (b.c_index(0), b.c_index(0)))
    b.ref_store(a.o, x)


@ours(x=vmem(8, 128), o=out(8, 128), kept=vmem(1024, 1024, role=Role.SCRATCH))
def scratch_of_4_mib(b: Builder, a: Any) -> None:
    x = b.ref_load(a.x)
    b.vector_store(a.kept, x, (b.c_index(0), b.c_index(0)))
    b.ref_store(a.o, x)


@ours(x=vmem(8, 128), o=out(512, 1024), extras=CallExtras(vmem_limit_bytes=1 << 20))
def limit_of_1_mib(b: Builder, a: Any) -> None:
    b.ref_store(a.o, b.zeros((512, 1024), f32))


@ours(x=vmem(8, 128), o=out(512, 1024), extras=CallExtras(vmem_limit_bytes=3 << 20))
def limit_of_3_mib(b: Builder, a: Any) -> None:
    b.ref_store(a.o, b.zeros((512, 1024), f32))


@ours(x=vmem(8, 128), o=out(8, 128), table=smem(512, 1024, role=Role.SCRATCH))
def table_of_2_mib(b: Builder, a: Any) -> None:
    b.ref_store(a.o, b.ref_load(a.x))


@ours(x=vmem(8, 128), o=out(8, 128), table=smem(8, 128, role=Role.SCRATCH))
def table_of_4_kib(b: Builder, a: Any) -> None:
    b.ref_store(a.o, b.ref_load(a.x))


def _prefetched(count: int) -> Any:
    return theirs(
        Shape((count,), jnp.int32),
        Shape((8, 128), jnp.float32),
        out_shape=Shape((8, 128), jnp.float32),
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1,
            grid=(1,),
            in_specs=[pl.BlockSpec((8, 128), lambda i, pages: (0, 0))],
            out_specs=pl.BlockSpec((8, 128), lambda i, pages: (0, 0)),
        ),
    )


@_prefetched(1 << 19)
def prefetch_of_2_mib(pages: Any, x: Any, o: Any) -> None:
    o[...] = x[...] + pages[0].astype(jnp.float32)


@_prefetched(1 << 10)
def prefetch_of_4_kib(pages: Any, x: Any, o: Any) -> None:
    o[...] = x[...] + pages[0].astype(jnp.float32)


@ours(x=vmem(8, 128), o=out(8, 128), sem=SemArray((100_000,), SemaphoreKind.REGULAR))
def many_semaphores(b: Builder, a: Any) -> None:
    b.ref_store(a.o, b.ref_load(a.x))


@ours(x=vmem(8, 128), o=out(8, 128), sem=SemArray((4,), SemaphoreKind.REGULAR))
def few_semaphores(b: Builder, a: Any) -> None:
    b.ref_store(a.o, b.ref_load(a.x))


_UNPROVEN: Final = errors.AlignmentError
_OFF_TILE: Final = errors.DMAAlignmentError
CASES: Final = [
    Refusal(
        "load at any lane",
        _UNPROVEN,
        "tpu.vector_load",
        "dimension 1 is not known to be a multiple of 128",
        "assume_multiple(index, 128)",
        load_at_a_lane,
        load_at_a_tile,
    ),
    Refusal(
        "store at any row of bf16",
        _UNPROVEN,
        "tpu.vector_store",
        "dimension 0 is not known to be a multiple of 8",
        "multiple_of",
        store_at_a_row,
        store_at_a_multiple,
    ),
    Refusal(
        "element of any row", _UNPROVEN, "tpu.vector_load", "16x256xf32", "whole row", load_an_element, load_its_row
    ),
    Refusal(
        "DMA from row 3",
        _OFF_TILE,
        "tpu.memref_slice",
        "the offset of a slice in dimension 0",
        "multiples of 8",
        copy_from_row_3,
        copy_from_row_8,
    ),
    Refusal(
        "DMA of half a tile",
        _OFF_TILE,
        "tpu.memref_slice",
        "the size of a slice in dimension 1",
        "multiples of 128",
        copy_half_a_tile,
        copy_a_tile,
    ),
    Refusal(
        "DMA from any row",
        _OFF_TILE,
        "tpu.memref_slice",
        "multiple of the tile, 8",
        "multiple_of",
        copy_from_any_row,
        copy_from_a_multiple,
    ),
    Refusal(
        "scratch beyond VMEM", errors.VmemError, None, "256 MiB", "less scratch", scratch_of_256_mib, scratch_of_4_mib
    ),
    Refusal(
        "block beyond the limit",
        errors.ScopedVmemError,
        None,
        "limit is 1 MiB",
        "vmem_limit_bytes=3145728",
        limit_of_1_mib,
        limit_of_3_mib,
    ),
    Refusal("scratch beyond SMEM", errors.SmemError, None, "2 MiB", "HBM", table_of_2_mib, table_of_4_kib),
    Refusal("scalars beyond SMEM", errors.SmemError, None, "operand 0", "fewer", prefetch_of_2_mib, prefetch_of_4_kib),
    Refusal(
        "a hundred thousand semaphores",
        errors.SemaphoreMemoryError,
        None,
        "semaphore memory",
        "in turn",
        many_semaphores,
        few_semaphores,
    ),
]
