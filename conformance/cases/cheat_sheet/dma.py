# ruff: noqa: N801, N805 - a pair is a class that holds two functions
# pyright: basic
"""Copies and semaphores."""

from __future__ import annotations

from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from conformance.cases.cheat_sheet.pairs import Pairs, anywhere, out, scratch, sem, smem, vmem
from mosaic_tpu.builder import bf16, f32, i32

PAIRS = Pairs("dma")
COUNT = out(i32, (4,), space="smem")


def _copy(id, theirs, ours, shape=(8, 128), *, source=(8, 128), space="vmem", dtype=f32, sems=(), **more):
    """A copy from HBM to scratch, started and waited for; ``theirs`` and ``ours`` are the three refs."""
    PAIRS.refs(
        f"copy-{id}",
        f"copy = pltpu.make_async_copy({theirs})\ncopy.start()\ncopy.wait()",
        f"copy = b.pallas.async_copy({ours or theirs})\ncopy.start()\ncopy.wait()",
        uses=("at",),
        s=smem(i32),
        h=anywhere(dtype, source),
        o=out(dtype),
        v=scratch(dtype, shape, space),
        sem=sem("dma", sems),
        **more,
    )


DS = "b.pallas.ds"
_copy("whole", "h, v, sem", None)
_copy("bf16", "h, v, sem", None, (16, 128), source=(16, 128), dtype=bf16)
_copy("row", "h.at[3], v.at[0], sem", None)
_copy("rows", "h.at[2:6], v, sem", None, (4, 128))
_copy("scalar-row", "h.at[s[0]], v.at[s[1]], sem", None)
_copy("ds", "h.at[pl.ds(s[0], 4)], v, sem", f"h.at[{DS}(s[0], 4)], v, sem", (4, 128))
_copy("static-ds", "h.at[pl.ds(4, 4)], v.at[pl.ds(0, 4)], sem", f"h.at[{DS}(4, 4)], v.at[{DS}(0, 4)], sem")
_copy("sem-array", "h.at[1], v.at[0], sem.at[1]", None, sems=(2,))
_copy("sem-array-scalar", "h.at[s[0]], v.at[0], sem.at[s[1]]", None, sems=(2,))
_copy("sem-matrix", "h, v, sem.at[1, s[0]]", None, sems=(2, 4))
_copy("page", "h.at[s[0], pl.ds(0, 8), 1], v, sem", f"h.at[s[0], {DS}(0, 8), 1], v, sem", source=(4, 16, 2, 128))
_copy(
    "chain",
    "h.at[s[0]].at[pl.ds(s[1], 4)], v, sem",
    f"h.at[s[0]].at[{DS}(s[1], 4)], v, sem",
    (4, 128),
    source=(2, 8, 128),
)
_copy("two-static", "h.at[1, 2], v.at[3], sem", None, source=(2, 8, 128))
_copy(
    "dynamic-size", "h.at[pl.ds(0, s[0])], v.at[pl.ds(0, s[0])], sem", f"h.at[{DS}(0, s[0])], v.at[{DS}(0, s[0])], sem"
)
_copy(
    "dynamic-start-and-size",
    "h.at[pl.ds(s[1], s[0])], v.at[pl.ds(s[2], s[0])], sem",
    f"h.at[{DS}(s[1], s[0])], v.at[{DS}(s[2], s[0])], sem",
)
_copy("reshape", "h.reshape(16, 128), v, sem", "h.at[...].reshape(16, 128), v, sem", (16, 128), source=(2, 8, 128))
_copy("part-reshape", "h.at[1].reshape(4, 2, 128), v, sem", None, (4, 2, 128), source=(2, 8, 128))
_copy(
    "bitcast", "h.bitcast(jnp.int32), v.bitcast(jnp.int32), sem", "h.at[...].bitcast(i32), v.at[...].bitcast(i32), sem"
)
_copy("to-output", "h, o, sem", None)


@PAIRS.add(
    h=anywhere(f32, (2, 8, 128)),
    o=out(f32),
    t=scratch(f32, (2, 8, 128)),
    sems=sem("dma", (2,)),
    grid=(2,),
    uses=("at", "load", "store"),
)
class copy_double_buffer:
    def pallas(h, o, t, sems):
        i = pl.program_id(0)
        slot = lax.rem(i, 2)
        copy = pltpu.make_async_copy(h.at[i], t.at[slot], sems.at[slot])
        copy.start()
        copy.wait()
        o[...] = t[slot]

    def ours(b, i, h, o, t, sems):
        slot = b.pallas.rem(i, 2)
        copy = b.pallas.async_copy(h.at[i], t.at[slot], sems.at[slot])
        copy.start()
        copy.wait()
        o[...] = t[slot]


@PAIRS.add(h=anywhere(f32), o=out(f32), s=sem("dma"), uses=("at",))
class copy_priority:
    def pallas(h, o, s):
        copy = pltpu.make_async_copy(h, o, s)
        copy.start(priority=1)
        copy.wait()

    def ours(b, h, o, s):
        copy = b.pallas.async_copy(h, o, s)
        copy.start(priority=1)
        copy.wait()


@PAIRS.add(x=vmem(f32), o=out(f32, space="any"), s=sem("dma"), uses=())
class copy_out:
    def pallas(x, o, s):
        copy = pltpu.make_async_copy(x, o, s)
        copy.start()
        copy.wait()

    def ours(b, x, o, s):
        copy = b.pallas.async_copy(x, o, s)
        copy.start()
        copy.wait()


@PAIRS.add(h=anywhere(f32), o=out(f32), s=sem("dma"), uses=())
class copy_hbm:
    def pallas(h, o, s):
        pltpu.sync_copy(h, o)

    def ours(b, h, o, s):
        with b.pallas.run_scoped():
            copy = b.pallas.async_copy(h, o, b.sem_alloc("dma"))
            copy.start()
            copy.wait()


@PAIRS.add(o=COUNT, s=sem("regular"), uses=("store",))
class semaphores:
    def pallas(o, s):
        pl.semaphore_signal(s, 2)
        o[0] = pl.semaphore_read(s)
        pl.semaphore_wait(s, 2)

    def ours(b, o, s):
        b.pallas.semaphore_signal(s, 2)
        o[0] = b.pallas.semaphore_read(s)
        b.pallas.semaphore_wait(s, 2)


@PAIRS.add(n=smem(i32), o=COUNT, s=sem("regular", (4,)), uses=("at", "load", "store"))
class semaphores_in_an_array:
    def pallas(n, o, s):
        pl.semaphore_signal(s.at[1], n[0])
        pl.semaphore_signal(s.at[n[1]])
        o[0] = pl.semaphore_read(s.at[n[2]])
        pl.semaphore_wait(s.at[1], n[0])
        pl.semaphore_wait(s.at[n[1]])

    def ours(b, n, o, s):
        b.pallas.semaphore_signal(s.at[1], n[0])
        b.pallas.semaphore_signal(s.at[n[1]])
        o[0] = b.pallas.semaphore_read(s.at[n[2]])
        b.pallas.semaphore_wait(s.at[1], n[0])
        b.pallas.semaphore_wait(s.at[n[1]])


@PAIRS.add(h=anywhere(f32), o=out(f32, space="any"), send=sem("dma"), recv=sem("dma"), uses=())
class remote_copy:
    def pallas(h, o, send, recv):
        copy = pltpu.make_async_remote_copy(h, o, send, recv, device_id=1, device_id_type=pl.DeviceIdType.LOGICAL)
        copy.start()
        copy.wait_send()
        copy.wait_recv()

    def ours(b, h, o, send, recv):
        copy = b.pallas.async_remote_copy(h, o, send, recv, 1)
        copy.start()
        copy.wait_send()
        copy.wait_recv()


@PAIRS.add(
    n=smem(i32),
    h=anywhere(f32),
    o=out(f32, space="any"),
    send=sem("dma", (2,)),
    recv=sem("dma", (2,)),
    uses=("at", "load"),
)
class remote_copy_scalar:
    def pallas(n, h, o, send, recv):
        copy = pltpu.make_async_remote_copy(
            h.at[pl.ds(0, 4)],
            o.at[pl.ds(4, 4)],
            send.at[0],
            recv.at[n[1]],
            device_id=n[0],
            device_id_type=pl.DeviceIdType.LOGICAL,
        )
        copy.start()
        copy.wait_send()
        copy.wait_recv()

    def ours(b, n, h, o, send, recv):
        copy = b.pallas.async_remote_copy(
            h.at[b.pallas.ds(0, 4)], o.at[b.pallas.ds(4, 4)], send.at[0], recv.at[n[1]], n[0]
        )
        copy.start()
        copy.wait_send()
        copy.wait_recv()


@PAIRS.add(
    h=anywhere(f32, (2, 8, 128)),
    o=out(f32, (4, 8, 128), space="any"),
    send=sem("dma", (6,)),
    recv=sem("dma", (6,)),
    uses=("at",),
)
class remote_copy_static_parts:
    def pallas(h, o, send, recv):
        copy = pltpu.make_async_remote_copy(
            h.at[1], o.at[2], send.at[3], recv.at[4], device_id=5, device_id_type=pl.DeviceIdType.LOGICAL
        )
        copy.start()
        copy.wait()

    def ours(b, h, o, send, recv):
        copy = b.pallas.async_remote_copy(h.at[1], o.at[2], send.at[3], recv.at[4], 5)
        copy.start()
        copy.wait()


@PAIRS.add(n=smem(i32), o=COUNT, s=sem("regular"), communicates=True, uses=("load", "store"))
class remote_signal:
    def pallas(n, o, s):
        pl.semaphore_signal(s, 1, device_id=n[0], device_id_type=pl.DeviceIdType.LOGICAL)
        pl.semaphore_wait(s, 1)
        o[0] = 1

    def ours(b, n, o, s):
        b.pallas.semaphore_signal(s, 1, device_id=n[0])
        b.pallas.semaphore_wait(s, 1)
        o[0] = 1


@PAIRS.add(n=smem(i32), o=COUNT, collective_id=3, communicates=True, uses=("load", "store"))
class barrier:
    def pallas(n, o):
        barrier = pltpu.get_barrier_semaphore()
        pl.semaphore_signal(barrier, 1, device_id=n[0], device_id_type=pl.DeviceIdType.LOGICAL)
        pl.semaphore_wait(barrier, 1)
        o[0] = 1

    def ours(b, n, o):
        barrier = b.sem_barrier()
        b.pallas.semaphore_signal(barrier, 1, device_id=n[0])
        b.pallas.semaphore_wait(barrier, 1)
        o[0] = 1


@PAIRS.add(s=smem(i32), h=anywhere(f32, (2, 8, 128)), o=out(f32, (2, 8, 128)), uses=("at", "sync_copy"))
class copy_synchronous:
    def pallas(s, h, o):
        pltpu.sync_copy(h, o)
        pltpu.sync_copy(h.at[1], o.at[s[0]])
        pltpu.sync_copy(h.at[0, pl.ds(0, 4)], o.at[1, pl.ds(4, 4)])

    def ours(b, s, h, o):
        b.pallas.sync_copy(h, o)
        b.pallas.sync_copy(h.at[1], o.at[s[0]])
        b.pallas.sync_copy(h.at[0, b.pallas.ds(0, 4)], o.at[1, b.pallas.ds(4, 4)])


@PAIRS.add(s=smem(i32), x=anywhere(f32, (4, 8, 128)), o=out(f32), sems=sem("dma", (2,)), uses=("load", "at", "gt"))
class copy_in_branches:
    def pallas(s, x, o, sems):
        copy = pltpu.make_async_copy(x.at[2], o, sems.at[1])

        @pl.when(s[0] > 0)
        def _():
            copy.start()

        @pl.when(s[0] > 0)
        def _():
            copy.wait()

    def ours(b, s, x, o, sems):
        copy = b.pallas.async_copy(x.at[2], o, sems.at[1])
        with b.pallas.when(s[0] > 0):
            copy.start()
        with b.pallas.when(s[0] > 0):
            copy.wait()
