# ruff: noqa: N801, N805 - a pair is a class that holds two functions
# pyright: basic
"""Control flow beyond the guide: switch, pl.loop, carries that stay as they are, nested scopes."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from conformance.cases.cheat_sheet.pairs import Pairs, anywhere, out, sem, smem, vmem
from mosaic_tpu.builder import f32, i32

PAIRS = Pairs("loops")
COUNT = out(i32, (4,), space="smem")
MESH = {"mesh_axes": '["d"]'}

# --- switch ----------------------------------------------------------------------------------------------------------

for count in (2, 3, 5):
    numbers = ", ".join(map(str, range(count)))
    PAIRS.refs(
        f"switch-{count}",
        f"o[0] = lax.switch(s[0], [lambda n=n: s[1] + n for n in ({numbers},)])",
        f"o[0] = b.pallas.switch(s[0], [lambda n=n: (s[1] + n,) for n in ({numbers},)])[0]",
        s=smem(i32),
        o=COUNT,
        uses=("add", "load", "store"),
    )


@PAIRS.add(s=smem(i32), x=vmem(f32), o=out(f32), uses=("mul", "neg", "load", "store"))
class switch_vector:
    def pallas(s, x, o):
        value = x[...]
        o[...] = lax.switch(s[0], [lambda: value, lambda: value * 2.0, lambda: -value])

    def ours(b, s, x, o):
        value = x[...]
        (o[...],) = b.pallas.switch(s[0], [lambda: (value,), lambda: (value * 2.0,), lambda: (-value,)])


@PAIRS.add(s=smem(i32), x=vmem(f32), o=out(f32), uses=("add", "mul", "load", "store"))
class switch_unchanged:
    def pallas(s, x, o):
        value = x[...]
        same, other, n = lax.switch(
            s[0], [lambda: (value, value, 3), lambda: (value, value * 2.0, 4), lambda: (value, value, s[1])]
        )
        o[...] = same + other * n.astype(jnp.float32)

    def ours(b, s, x, o):
        value = x[...]
        same, other, n = b.pallas.switch(
            s[0], [lambda: (value, value, 3), lambda: (value, value * 2.0, 4), lambda: (value, value, s[1])]
        )
        o[...] = same + other * b.pallas.astype(n, f32)


@PAIRS.add(s=smem(i32), o=COUNT, uses=("store",))
class switch_side_effects:
    def pallas(s, o):
        def case(n):
            o[n] = n

        lax.switch(s[0], [lambda: case(0), lambda: case(1), lambda: case(2)])

    def ours(b, s, o):
        def case(n):
            o[n] = n

        b.pallas.switch(s[0], [lambda: case(0), lambda: case(1), lambda: case(2)])


@PAIRS.add(s=smem(i32), o=COUNT, uses=("store",))
class switch_known:
    def pallas(s, o):
        o[0] = lax.switch(2, [lambda: s[0], lambda: s[1], lambda: s[2]])

    def ours(b, s, o):
        (o[0],) = b.pallas.switch(2, [lambda: (s[0],), lambda: (s[1],), lambda: (s[2],)])


# --- pl.loop ---------------------------------------------------------------------------------------------------------


@PAIRS.add(x=vmem(f32), o=out(f32), uses=("load", "store"))
class loop_static:
    def pallas(x, o):
        @pl.loop(0, 8)
        def _(i):
            o[i] = x[i]

    def ours(b, x, o):
        @b.pallas.loop(0, 8)
        def _(i):
            o[i] = x[i]


@PAIRS.add(x=vmem(f32), o=out(f32), uses=("load", "store"))
class loop_down:
    def pallas(x, o):
        @pl.loop(7, 2, step=-1)
        def _(i):
            o[i] = x[i]

    def ours(b, x, o):
        @b.pallas.loop(7, 2, step=-1)
        def _(i):
            o[i] = x[i]


@PAIRS.add(x=vmem(f32), o=out(f32), uses=("load", "store"))
class loop_unrolled_by_zero:
    def pallas(x, o):
        @pl.loop(np.int32(1), np.int32(3), unroll=0)
        def _(i):
            o[i] = x[i]

    def ours(b, x, o):
        @b.pallas.loop(np.int32(1), np.int32(3), unroll=0)
        def _(i):
            o[i] = x[i]


@PAIRS.add(x=vmem(f32), o=out(f32), uses=("load", "store"))
class loop_steps:
    def pallas(x, o):
        @pl.loop(1, 8, step=3)
        def _(i):
            o[i] = x[i]

    def ours(b, x, o):
        @b.pallas.loop(1, 8, step=3)
        def _(i):
            o[i] = x[i]


@PAIRS.add(x=vmem(f32), o=out(f32), uses=("load", "store"))
class loop_partly_unrolled:
    def pallas(x, o):
        @pl.loop(0, 8, step=2, unroll=2)
        def _(i):
            o[i] = x[i]

    def ours(b, x, o):
        @b.pallas.loop(0, 8, step=2, unroll=2)
        def _(i):
            o[i] = x[i]


@PAIRS.add(x=vmem(f32), o=out(f32), uses=("load", "store"))
class loop_unrolled:
    def pallas(x, o):
        @pl.loop(0, 4, unroll=True)
        def _(i):
            o[i] = x[i]

    def ours(b, x, o):
        @b.pallas.loop(0, 4, unroll=True)
        def _(i):
            o[i] = x[i]


@PAIRS.add(s=smem(i32), x=vmem(f32), o=out(f32), uses=("load", "store"))
class loop_dynamic:
    def pallas(s, x, o):
        @pl.loop(0, s[0])
        def _(i):
            o[i] = x[i]

    def ours(b, s, x, o):
        @b.pallas.loop(0, s[0])
        def _(i):
            o[i] = x[i]


@PAIRS.add(s=smem(i32), x=vmem(f32), o=out(f32), uses=("load", "store"))
class loop_dynamic_steps:
    def pallas(s, x, o):
        @pl.loop(s[0], s[1], step=2)
        def _(i):
            o[i] = x[i]

    def ours(b, s, x, o):
        @b.pallas.loop(s[0], s[1], step=2)
        def _(i):
            o[i] = x[i]


@PAIRS.add(s=smem(i32), x=vmem(f32), o=out(f32), uses=("load", "store"))
class loop_dynamic_step:
    def pallas(s, x, o):
        @pl.loop(0, 8, step=s[0])
        def _(i):
            o[i] = x[i]

    def ours(b, s, x, o):
        @b.pallas.loop(0, 8, step=s[0])
        def _(i):
            o[i] = x[i]


@PAIRS.add(x=vmem(f32), o=out(f32), uses=("load", "store", "add"))
class loop_carry:
    def pallas(x, o):
        @pl.loop(0, 8, init_carry=jnp.zeros((128,), jnp.float32))
        def total(i, carry):
            return carry + x[i]

        o[0] = total

    def ours(b, x, o):
        @b.pallas.loop(0, 8, init_carry=(b.pallas.zeros((128,), f32),))
        def total(i, carry):
            return (carry + x[i],)

        o[0] = total[0]


# --- carries that stay as they are -----------------------------------------------------------------------------------


@PAIRS.add(s=smem(i32), o=COUNT, uses=("add", "store"))
class fori_unchanged:
    def pallas(s, o):
        _, total = lax.fori_loop(0, 4, lambda i, c: (c[0], c[1] + c[0] + i), (s[0], 7))
        o[0] = total

    def ours(b, s, o):
        _, total = b.pallas.fori_loop(0, 4, lambda i, n, c: (n, c + n + i), (s[0], 7))
        o[0] = total


@PAIRS.add(s=smem(i32), o=COUNT, uses=("add", "store"))
class fori_unchanged_number:
    def pallas(s, o):
        total, _ = lax.fori_loop(0, 4, lambda i, c: (c[0] + c[1] + i, c[1]), (s[0], 7))
        o[0] = total

    def ours(b, s, o):
        total, _ = b.pallas.fori_loop(0, 4, lambda i, c, n: (c + n + i, n), (s[0], 7))
        o[0] = total


@PAIRS.add(s=smem(i32), o=COUNT, uses=("add", "store"))
class fori_unchanged_dynamic:
    def pallas(s, o):
        total, _ = lax.fori_loop(0, s[1], lambda i, c: (c[0] + c[1] + i, c[1]), (3, 7))
        o[0] = total

    def ours(b, s, o):
        total, _ = b.pallas.fori_loop(0, s[1], lambda i, c, n: (c + n + i, n), (3, 7))
        o[0] = total


@PAIRS.add(s=smem(i32), o=COUNT, uses=("add", "store"))
class fori_swapped:
    def pallas(s, o):
        first, second = lax.fori_loop(0, s[1], lambda i, c: (c[1], c[0] + i), (s[2], s[3]))
        o[0] = first
        o[1] = second

    def ours(b, s, o):
        first, second = b.pallas.fori_loop(0, s[1], lambda i, x, y: (y, x + i), (s[2], s[3]))
        o[0] = first
        o[1] = second


@PAIRS.add(s=smem(i32), o=COUNT, uses=("add", "lt", "store"))
class while_unchanged:
    def pallas(s, o):
        i, _, _ = lax.while_loop(lambda c: c[0] < c[1], lambda c: (c[0] + c[2], c[1], c[2]), (s[0], s[1], 5))
        o[0] = i

    def ours(b, s, o):
        i, _, _ = b.pallas.while_loop(lambda i, n, k: i < n, lambda i, n, k: (i + k, n, k), (s[0], s[1], 5))
        o[0] = i


@PAIRS.add(s=smem(i32), o=COUNT, uses=("add", "lt", "store", "gt"))
class while_side_effects:
    def pallas(s, o):
        def body(i):
            @pl.when(i > 2)
            def _():
                o[i] = i

            return i + 1

        lax.while_loop(lambda i: i < s[0], body, 0)

    def ours(b, s, o):
        def body(i):
            with b.pallas.when(i > 2):
                o[i] = i
            return (i + 1,)

        b.pallas.while_loop(lambda i: i < s[0], body, (0,))


# --- scopes, ids, semaphores -----------------------------------------------------------------------------------------


@PAIRS.add(h=anywhere(f32), o=out(f32), uses=("load", "store"))
class run_scoped_nested:
    def pallas(h, o):
        def outer(first, sems):
            pltpu.async_copy(h, first, sems.at[0]).wait()

            def inner(second, count):
                second[...] = first[...]
                pl.semaphore_signal(count, 1)
                pl.semaphore_wait(count, 1)
                o[...] = second[...]

            pl.run_scoped(inner, pltpu.VMEM((8, 128), jnp.float32), pltpu.SemaphoreType.REGULAR)

        pl.run_scoped(outer, pltpu.VMEM((8, 128), jnp.float32), pltpu.SemaphoreType.DMA((2,)))

    def ours(b, h, o):
        with b.pallas.run_scoped():
            first, sems = b.alloca((8, 128), f32), b.sem_alloc("dma", (2,))
            copy = b.pallas.async_copy(h, first, sems.at[0])
            copy.start()
            copy.wait()
            with b.pallas.run_scoped():
                second, count = b.alloca((8, 128), f32), b.sem_alloc()
                second[...] = first[...]
                b.pallas.semaphore_signal(count, 1)
                b.pallas.semaphore_wait(count, 1)
                o[...] = second[...]


@PAIRS.add(o=COUNT, grid=(4, 2), uses=("add", "store"))
class ids_and_sizes:
    def pallas(o):
        o[0] = pl.program_id(1) + pl.num_programs(1) + pl.program_id(0)

    def ours(b, o):
        o[0] = b.pallas.program_id(1) + b.pallas.num_programs(1) + b.pallas.program_id(0)


@PAIRS.add(n=smem(i32), o=COUNT, collective_id=3, communicates=True, uses=("load", "store"))
class barrier_semaphore:
    def pallas(n, o):
        barrier = pltpu.get_barrier_semaphore()
        pl.semaphore_signal(barrier, 1, device_id=n[0], device_id_type=pl.DeviceIdType.LOGICAL)
        pl.semaphore_wait(barrier, 1)
        o[0] = 1

    def ours(b, n, o):
        barrier = b.pallas.get_barrier_semaphore()
        b.pallas.semaphore_signal(barrier, 1, device_id=n[0])
        b.pallas.semaphore_wait(barrier, 1)
        o[0] = 1


@PAIRS.add(n=smem(i32), o=COUNT, s=sem("regular"), communicates=True, uses=("load", "store"))
class signal_a_core:
    def pallas(n, o, s):
        pl.semaphore_signal(s, n[1], core_index=1)
        pl.semaphore_signal(s, 2, device_id=n[0], device_id_type=pl.DeviceIdType.LOGICAL, core_index=n[2])
        pl.semaphore_wait(s, 1)
        o[0] = 1

    def ours(b, n, o, s):
        b.pallas.semaphore_signal(s, n[1], core_index=1)
        b.pallas.semaphore_signal(s, 2, device_id=n[0], core_index=n[2])
        b.pallas.semaphore_wait(s, 1)
        o[0] = 1


@PAIRS.add(n=smem(i32), o=COUNT, s=sem("regular", (2,)), communicates=True, metadata=MESH, uses=("at", "load", "store"))
class signal_on_a_mesh:
    def pallas(n, o, s):
        pl.semaphore_signal(s.at[0], 1, device_id={"d": n[0]})
        pl.semaphore_signal(s.at[n[1]], n[2], device_id={"d": 3})
        pl.semaphore_wait(s.at[0], 1)
        o[0] = 1

    def ours(b, n, o, s):
        mesh = {"d": 1}
        b.pallas.semaphore_signal(s.at[0], 1, device_id=b.pallas.on_mesh({"d": n[0]}, mesh))
        b.pallas.semaphore_signal(s.at[n[1]], n[2], device_id=b.pallas.on_mesh({"d": 3}, mesh))
        b.pallas.semaphore_wait(s.at[0], 1)
        o[0] = 1


@PAIRS.add(
    n=smem(i32),
    h=anywhere(f32),
    o=out(f32, space="any"),
    send=sem("dma"),
    recv=sem("dma"),
    communicates=True,
    metadata=MESH,
    uses=("at", "load"),
)
class remote_copy_on_a_mesh:
    def pallas(n, h, o, send, recv):
        copy = pltpu.make_async_remote_copy(h.at[0], o.at[1], send, recv, device_id={"d": n[0]})
        copy.start()
        copy.wait()

    def ours(b, n, h, o, send, recv):
        copy = b.pallas.async_remote_copy(h.at[0], o.at[1], send, recv, b.pallas.on_mesh({"d": n[0]}, mesh={"d": 1}))
        copy.start()
        copy.wait()


@PAIRS.add(o=COUNT, communicates=True, metadata=MESH, uses=("store",))
class where_on_a_mesh:
    def pallas(o):
        o[0] = lax.axis_index("d")

    def ours(b, o):
        o[0] = b.pallas.axis_index("d", mesh={"d": 1})


@PAIRS.add(s=smem(i32), o=COUNT, uses=("gt", "lt", "when", "load", "store"))
class checks_in_control_flow:
    def pallas(s, o):
        pl.debug_check(s[0] > 0, "positive")

        @pl.when(s[1] > 0)
        def _():
            pl.debug_check(s[2] < 4, "small")
            o[0] = 1

    def ours(b, s, o):
        b.pallas.debug_check(s[0] > 0, "positive")
        with b.pallas.when(s[1] > 0):
            b.pallas.debug_check(s[2] < 4, "small")
            o[0] = 1


@PAIRS.add(s=smem(i32), o=COUNT, debug_checks=True, uses=("gt", "lt", "when", "load", "store"))
class checks_enabled:
    def pallas(s, o):
        @pl.when(s[1] > 0)
        def _():
            pl.debug_check(s[2] < 4, "small")
            o[0] = 1

    def ours(b, s, o):
        with b.pallas.when(s[1] > 0):
            b.pallas.debug_check(s[2] < 4, "small", enabled=True)
            o[0] = 1


@PAIRS.add(s=smem(i32), o=COUNT, uses=("add", "store"))
class fori_unread_number:
    """A number that stays, and that the body does not read, has no constant in front of the loop."""

    def pallas(s, o):
        total, n = lax.fori_loop(0, 4, lambda i, c: (c[0] + s[0], c[1]), (3, 7))
        o[0] = total
        o[1] = n

    def ours(b, s, o):
        total, n = b.pallas.fori_loop(0, 4, lambda i, c, n: (c + s[0], n), (3, 7))
        o[0] = total
        o[1] = n


@PAIRS.add(s=smem(i32), o=COUNT, uses=("add", "store"))
class fori_unread_number_unused:
    def pallas(s, o):
        _, total = lax.fori_loop(0, 4, lambda i, c: (c[0], c[1] + i), (7, s[0]))
        o[0] = total

    def ours(b, s, o):
        _, total = b.pallas.fori_loop(0, 4, lambda i, n, c: (n, c + i), (7, s[0]))
        o[0] = total


@PAIRS.add(s=smem(i32), o=COUNT, uses=("add", "store"))
class fori_unread_number_dynamic:
    def pallas(s, o):
        n, total, k = lax.fori_loop(0, s[1], lambda i, c: (c[0], c[1] + c[2] + i, c[2]), (5, 3, 7))
        o[0] = total
        o[1] = n
        o[2] = k

    def ours(b, s, o):
        n, total, k = b.pallas.fori_loop(0, s[1], lambda i, n, c, k: (n, c + k + i, k), (5, 3, 7))
        o[0] = total
        o[1] = n
        o[2] = k


@PAIRS.add(s=smem(i32), o=COUNT, uses=("add", "store"))
class fori_number_of_a_loop_before:
    def pallas(s, o):
        carry = lax.fori_loop(0, 4, lambda i, c: (c[0] + i, c[1]), (1, 7))
        total, n = lax.fori_loop(0, 4, lambda i, c: (c[0] + i + c[1], c[1]), carry)
        o[0] = total
        o[1] = n

    def ours(b, s, o):
        carry = b.pallas.fori_loop(0, 4, lambda i, c, n: (c + i, n), (1, 7))
        total, n = b.pallas.fori_loop(0, 4, lambda i, c, n: (c + i + n, n), carry)
        o[0] = total
        o[1] = n


@PAIRS.add(s=smem(i32), o=COUNT, uses=("add", "gt", "store"))
class fori_number_in_a_branch:
    def pallas(s, o):
        total, n = lax.fori_loop(0, 4, lambda i, c: (c[0] + i, c[1]), (3, 7))

        @pl.when(s[0] > 0)
        def _():
            o[0] = n

        o[1] = n
        o[2] = total

    def ours(b, s, o):
        total, n = b.pallas.fori_loop(0, 4, lambda i, c, n: (c + i, n), (3, 7))
        with b.pallas.when(s[0] > 0):
            o[0] = n
        o[1] = n
        o[2] = total


@PAIRS.add(s=smem(i32), o=COUNT, uses=("add", "lt", "store"))
class while_unread_number:
    def pallas(s, o):
        i, n, k = lax.while_loop(lambda c: c[0] < s[1], lambda c: (c[0] + c[2], c[1], c[2]), (s[0], 9, 5))
        o[0] = i
        o[1] = n
        o[2] = k

    def ours(b, s, o):
        i, n, k = b.pallas.while_loop(lambda i, n, k: i < s[1], lambda i, n, k: (i + k, n, k), (s[0], 9, 5))
        o[0] = i
        o[1] = n
        o[2] = k
