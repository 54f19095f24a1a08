# ruff: noqa: N801, N805 - a pair is a class that holds two functions
# pyright: basic
"""Control flow: when, cond, loops, run_scoped, trace spans."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from conformance.cases.cheat_sheet.pairs import Pairs, anywhere, out, scratch, smem, vmem
from mosaic_tpu.builder import f32, i32

PAIRS = Pairs("control")
FOR, IF, IF_ELSE, WHILE = (
    "lax.fori_loop(0, T, body, init)",
    "if cond: …",
    "if cond: x = a else: x = b",
    "while cond:",
)
COUNT = out(i32, (4,), space="smem")

# --- conditions ------------------------------------------------------------------------------------------------------


@PAIRS.add(row=IF, s=smem(i32), x=vmem(f32), o=out(f32), uses=("gt", "load", "store"))
class when:
    def pallas(s, x, o):
        @pl.when(s[0] > 0)
        def _():
            o[...] = x[...]

    def ours(b, s, x, o):
        with b.pallas.when(s[0] > 0):
            o[...] = x[...]


@PAIRS.add(row=IF, o=out(f32), grid=(4,), uses=("eq", "store"))
class when_first_step:
    def pallas(o):
        @pl.when(pl.program_id(0) == 0)
        def _():
            o[...] = jnp.zeros((8, 128), jnp.float32)

    def ours(b, i, o):
        with b.pallas.when(i.eq(0)):
            o[...] = b.pallas.zeros((8, 128), f32)


@PAIRS.add(s=smem(i32), o=COUNT, uses=("gt", "lt", "bitwise_and", "store"))
class when_nested:
    def pallas(s, o):
        @pl.when(s[0] > 0)
        def _():
            @pl.when((s[1] > 0) & (s[2] < 5))
            def _():
                o[0] = 1

            o[1] = 2

    def ours(b, s, o):
        with b.pallas.when(s[0] > 0):
            with b.pallas.when((s[1] > 0) & (s[2] < 5)):
                o[0] = 1
            o[1] = 2


@PAIRS.add(row=IF_ELSE, s=smem(i32), o=COUNT, uses=("gt", "mul", "add"))
class cond:
    def pallas(s, o):
        o[0] = lax.cond(s[0] > 0, lambda: s[1] * 2, lambda: s[1] + 1)

    def ours(b, s, o):
        (o[0],) = b.pallas.cond(s[0] > 0, lambda: (s[1] * 2,), lambda: (s[1] + 1,))


@PAIRS.add(row=IF_ELSE, s=smem(i32), x=vmem(f32), o=out(f32), uses=("gt", "mul", "neg"))
class cond_vector:
    def pallas(s, x, o):
        value = x[...]
        o[...] = lax.cond(s[0] > 0, lambda v: v * 2.0, lambda v: -v, value)

    def ours(b, s, x, o):
        value = x[...]
        (o[...],) = b.pallas.cond(s[0] > 0, lambda: (value * 2.0,), lambda: (-value,))


@PAIRS.add(s=smem(i32), x=vmem(f32), o=out(f32), uses=("gt", "add"))
class cond_two_results:
    def pallas(s, x, o):
        value = x[...]
        n, v = lax.cond(s[0] > 0, lambda: (s[1], value), lambda: (s[2], value + 1.0))
        o[...] = v + n.astype(jnp.float32)

    def ours(b, s, x, o):
        value = x[...]
        n, v = b.pallas.cond(s[0] > 0, lambda: (s[1], value), lambda: (s[2], value + 1.0))
        o[...] = v + b.pallas.astype(n, f32)


@PAIRS.add(s=smem(i32), x=vmem(f32), o=out(f32), uses=("gt", "add", "mul"))
class cond_unchanged:
    def pallas(s, x, o):
        value = x[...]
        same, n = lax.cond(s[0] > 0, lambda: (value, s[1]), lambda: (value, s[2] + 1))
        o[...] = same * n.astype(jnp.float32)

    def ours(b, s, x, o):
        value = x[...]
        same, n = b.pallas.cond(s[0] > 0, lambda: (value, s[1]), lambda: (value, s[2] + 1))
        o[...] = same * b.pallas.astype(n, f32)


@PAIRS.add(s=smem(i32), x=vmem(f32), o=out(f32), uses=("gt", "mul"))
class cond_numbers:
    def pallas(s, x, o):
        o[...] = x[...] * lax.cond(s[0] > 0, lambda: 1.0, lambda: 0.5)

    def ours(b, s, x, o):
        o[...] = x[...] * b.pallas.cond(s[0] > 0, lambda: (1.0,), lambda: (0.5,))[0]


@PAIRS.add(s=smem(i32), o=COUNT, uses=("add",))
class cond_known:
    def pallas(s, o):
        o[0] = lax.cond(True, lambda: s[1] + 1, lambda: s[2])

    def ours(b, s, o):
        (o[0],) = b.pallas.cond(True, lambda: (s[1] + 1,), lambda: (s[2],))


@PAIRS.add(x=vmem(f32), o=out(f32), uses=("load", "store"))
class when_known:
    def pallas(x, o):
        @pl.when(True)
        def _():
            o[0:4] = x[0:4]

        @pl.when(False)
        def _():
            o[4:8] = x[4:8]

    def ours(b, x, o):
        @b.pallas.when(True)
        def _():
            o[0:4] = x[0:4]

        @b.pallas.when(False)
        def _():
            o[4:8] = x[4:8]


@PAIRS.add(row=IF, s=smem(i32), o=COUNT, uses=("gt", "store"))
class cond_side_effects:
    def pallas(s, o):
        def yes():
            o[0] = 1

        def no():
            o[0] = 2

        lax.cond(s[0] > 0, yes, no)

    def ours(b, s, o):
        def yes():
            o[0] = 1
            return ()

        def no():
            o[0] = 2
            return ()

        b.pallas.cond(s[0] > 0, yes, no)


# --- loops -----------------------------------------------------------------------------------------------------------


@PAIRS.add(row=FOR, o=COUNT, uses=("add",))
class fori_static:
    def pallas(o):
        o[0] = lax.fori_loop(0, 10, lambda i, c: c + i, 0)

    def ours(b, o):
        (o[0],) = b.pallas.fori_loop(0, 10, lambda i, c: (c + i,), (0,))


@PAIRS.add(row=FOR, s=smem(i32), o=COUNT, uses=("add",))
class fori_dynamic:
    def pallas(s, o):
        o[0] = lax.fori_loop(0, s[0], lambda i, c: c + i, 0)

    def ours(b, s, o):
        (o[0],) = b.pallas.fori_loop(0, s[0], lambda i, c: (c + i,), (0,))


@PAIRS.add(s=smem(i32), o=COUNT, uses=("add",))
class fori_dynamic_both:
    def pallas(s, o):
        o[0] = lax.fori_loop(s[0], s[1], lambda i, c: c + i, 0)

    def ours(b, s, o):
        (o[0],) = b.pallas.fori_loop(s[0], s[1], lambda i, c: (c + i,), (0,))


@PAIRS.add(s=smem(i32), o=COUNT, uses=("add",))
class fori_dynamic_lower:
    def pallas(s, o):
        o[0] = lax.fori_loop(s[0], 10, lambda i, c: c + i, 0)

    def ours(b, s, o):
        (o[0],) = b.pallas.fori_loop(s[0], 10, lambda i, c: (c + i,), (0,))


@PAIRS.add(x=vmem(f32), o=out(f32), uses=("store", "load"))
class fori_side_effects:
    def pallas(x, o):
        def body(i, _):
            o[i] = x[i]

        lax.fori_loop(0, 8, body, None)

    def ours(b, x, o):
        def body(i):
            o[i] = x[i]

        b.pallas.fori_loop(0, 8, body)


@PAIRS.add(x=vmem(f32), o=out(f32), uses=("add", "load", "mul"))
class fori_two_carries:
    def pallas(x, o):
        def body(i, carry):
            total, scale = carry
            return total + x[...] * scale, scale * 2.0

        total, _ = lax.fori_loop(0, 8, body, (jnp.zeros((8, 128), jnp.float32), 1.0))
        o[...] = total

    def ours(b, x, o):
        def body(i, total, scale):
            return total + x[...] * scale, scale * 2.0

        total, _ = b.pallas.fori_loop(0, 8, body, (b.pallas.zeros((8, 128), f32), 1.0))
        o[...] = total


@PAIRS.add(o=COUNT, uses=("add",))
class fori_from_3:
    def pallas(o):
        o[0] = lax.fori_loop(3, 10, lambda i, c: c + i, 0)

    def ours(b, o):
        (o[0],) = b.pallas.fori_loop(3, 10, lambda i, c: (c + i,), (0,))


@PAIRS.add(o=COUNT, uses=("add",))
class fori_unrolled:
    def pallas(o):
        o[0] = lax.fori_loop(0, 4, lambda i, c: c + i, 0, unroll=True)

    def ours(b, o):
        (o[0],) = b.pallas.fori_loop(0, 4, lambda i, c: (c + i,), (0,), unroll=True)


@PAIRS.add(x=vmem(f32), o=out(f32), uses=("mul", "load", "store"))
class fori_unrolled_refs:
    def pallas(x, o):
        def body(i, _):
            o[i] = x[i] * 2.0

        lax.fori_loop(2, 6, body, None, unroll=True)

    def ours(b, x, o):
        def body(i):
            o[i] = x[i] * 2.0

        b.pallas.fori_loop(2, 6, body, unroll=True)


@PAIRS.add(o=COUNT, uses=("add",))
class fori_partly_unrolled:
    def pallas(o):
        o[0] = lax.fori_loop(0, 8, lambda i, c: c + i, 0, unroll=2)

    def ours(b, o):
        (o[0],) = b.pallas.fori_loop(0, 8, lambda i, c: (c + i,), (0,), unroll=2)


@PAIRS.add(o=COUNT, uses=("add",))
class fori_partly_unrolled_rest:
    def pallas(o):
        o[0] = lax.fori_loop(0, 10, lambda i, c: c + i, 0, unroll=4)

    def ours(b, o):
        (o[0],) = b.pallas.fori_loop(0, 10, lambda i, c: (c + i,), (0,), unroll=4)


@PAIRS.add(o=COUNT, uses=("add",))
class fori_once:
    def pallas(o):
        o[0] = lax.fori_loop(0, 1, lambda i, c: c + 5, 0)

    def ours(b, o):
        (o[0],) = b.pallas.fori_loop(0, 1, lambda i, c: (c + 5,), (0,))


@PAIRS.add(o=COUNT, uses=("add",))
class fori_never:
    def pallas(o):
        o[0] = lax.fori_loop(0, 0, lambda i, c: c + 5, 7)

    def ours(b, o):
        (o[0],) = b.pallas.fori_loop(0, 0, lambda i, c: (c + 5,), (7,))


@PAIRS.add(o=COUNT, uses=("mul",))
class fori_from_3_counter_unused:
    def pallas(o):
        o[0] = lax.fori_loop(3, 10, lambda i, c: c * 2, 1)

    def ours(b, o):
        (o[0],) = b.pallas.fori_loop(3, 10, lambda i, c: (c * 2,), (1,))


@PAIRS.add(o=COUNT, uses=("mul",))
class fori_unrolled_counter_unused:
    def pallas(o):
        o[0] = lax.fori_loop(3, 6, lambda i, c: c * 2, 1, unroll=True)

    def ours(b, o):
        (o[0],) = b.pallas.fori_loop(3, 6, lambda i, c: (c * 2,), (1,), unroll=True)


@PAIRS.add(o=COUNT, uses=("mul",))
class fori_partly_unrolled_counter_unused:
    def pallas(o):
        o[0] = lax.fori_loop(3, 11, lambda i, c: c * 2, 1, unroll=2)

    def ours(b, o):
        (o[0],) = b.pallas.fori_loop(3, 11, lambda i, c: (c * 2,), (1,), unroll=2)


@PAIRS.add(s=smem(i32), o=COUNT, uses=("mul",))
class fori_dynamic_counter_unused:
    def pallas(s, o):
        o[0] = lax.fori_loop(1, s[0], lambda i, c: c * 2, 1)

    def ours(b, s, o):
        (o[0],) = b.pallas.fori_loop(1, s[0], lambda i, c: (c * 2,), (1,))


@PAIRS.add(s=smem(i32), o=COUNT, uses=("add", "sub"))
class fori_dynamic_trip:
    def pallas(s, o):
        o[0] = lax.fori_loop(0, pl.cdiv(s[1] - s[0], 128), lambda i, c: c + i, 0)

    def ours(b, s, o):
        (o[0],) = b.pallas.fori_loop(0, b.pallas.cdiv(s[1] - s[0], 128), lambda i, c: (c + i,), (0,))


@PAIRS.add(o=COUNT, uses=("add",))
class fori_never_counter:
    def pallas(o):
        o[0] = lax.fori_loop(2, 2, lambda i, c: c + i, 7)

    def ours(b, o):
        (o[0],) = b.pallas.fori_loop(2, 2, lambda i, c: (c + i,), (7,))


@PAIRS.add(o=COUNT, uses=("add",))
class fori_once_counter:
    def pallas(o):
        o[0] = lax.fori_loop(2, 3, lambda i, c: c + i, 7)

    def ours(b, o):
        (o[0],) = b.pallas.fori_loop(2, 3, lambda i, c: (c + i,), (7,))


@PAIRS.add(s=smem(i32), x=vmem(f32), o=out(f32), uses=("add", "mul", "load", "at"))
class fori_nested:
    def pallas(s, x, o):
        def outer(i, total):
            return total + lax.fori_loop(0, s[0], lambda j, t: t + x[j], jnp.zeros((128,), jnp.float32))

        o[0] = lax.fori_loop(0, 4, outer, jnp.zeros((128,), jnp.float32))

    def ours(b, s, x, o):
        def outer(i, total):
            return (total + b.pallas.fori_loop(0, s[0], lambda j, t: (t + x[j],), (b.pallas.zeros((128,), f32),))[0],)

        (o[0],) = b.pallas.fori_loop(0, 4, outer, (b.pallas.zeros((128,), f32),))


@PAIRS.add(s=smem(i32), o=COUNT, uses=("gt", "store"))
class fori_with_when:
    def pallas(s, o):
        def body(i, _):
            @pl.when(i > s[1])
            def _():
                o[0] = i

        lax.fori_loop(0, s[0], body, None)

    def ours(b, s, o):
        def body(i):
            with b.pallas.when(i > s[1]):
                o[0] = i

        b.pallas.fori_loop(0, s[0], body)


@PAIRS.add(row=FOR, s=smem(i32), o=COUNT, uses=("add",))
class fori_guide:
    """The guide's own loop: static bounds leave a dead counter behind, so here the end is known at run time."""

    def pallas(s, o):
        o[0] = lax.fori_loop(0, s[0], lambda i, c: c + i, 0)

    def ours(b, s, o):
        (o[0],) = b.pallas.fori_loop(0, s[0], lambda i, c: (c + i,), (0,))


@PAIRS.add(row=WHILE, o=COUNT, uses=("lt", "add"))
class while_loop:
    def pallas(o):
        o[0] = lax.while_loop(lambda i: i < 10, lambda i: i + 3, 0)

    def ours(b, o):
        (o[0],) = b.pallas.while_loop(lambda i: i < 10, lambda i: (i + 3,), (0,))


@PAIRS.add(row=WHILE, s=smem(i32), o=COUNT, uses=("lt", "add", "gt", "bitwise_and", "mul"))
class while_two_carries:
    def pallas(s, o):
        def condition(carry):
            i, n = carry
            return (i < s[0]) & (n > 0)

        i, n = lax.while_loop(condition, lambda c: (c[0] + 1, c[1] * 2), (0, s[1]))
        o[0] = i
        o[1] = n

    def ours(b, s, o):
        i, n = b.pallas.while_loop(lambda i, n: (i < s[0]) & (n > 0), lambda i, n: (i + 1, n * 2), (0, s[1]))
        o[0] = i
        o[1] = n


@PAIRS.add(row=WHILE, s=smem(i32), o=COUNT, uses=("lt",))
class while_guide:
    def pallas(s, o):
        o[0] = lax.while_loop(lambda i: i < s[0], lambda i: i + 3, 0)

    def ours(b, s, o):
        with b.while_([b.lift(0)]) as loop:
            with loop.before:
                (i,) = loop.before.carried
                loop.condition(i < s[0], i)
            with loop.after:
                (i,) = loop.after.carried
                loop.yield_(i + 3)
        o[0] = loop.results[0]


# --- scoped memory, spans --------------------------------------------------------------------------------------------


@PAIRS.add(x=vmem(f32), o=out(f32), uses=("load", "store", "mul"))
class run_scoped:
    def pallas(x, o):
        def body(tmp):
            tmp[...] = x[...] * 2.0
            o[...] = tmp[...]

        pl.run_scoped(body, pltpu.VMEM((8, 128), jnp.float32))

    def ours(b, x, o):
        with b.pallas.run_scoped():
            tmp = b.alloca((8, 128), f32)
            tmp[...] = x[...] * 2.0
            o[...] = tmp[...]


@PAIRS.add(h=anywhere(f32), o=out(f32), uses=("load", "store"))
class run_scoped_copy:
    def pallas(h, o):
        def body(tmp, sem):
            copy = pltpu.make_async_copy(h, tmp, sem)
            copy.start()
            copy.wait()
            o[...] = tmp[...]

        pl.run_scoped(body, pltpu.VMEM((8, 128), jnp.float32), pltpu.SemaphoreType.DMA)

    def ours(b, h, o):
        with b.pallas.run_scoped():
            tmp, sem = b.alloca((8, 128), f32), b.sem_alloc("dma")
            copy = b.pallas.async_copy(h, tmp, sem)
            copy.start()
            copy.wait()
            o[...] = tmp[...]


@PAIRS.add(o=COUNT, uses=("store", "load"))
class run_scoped_smem:
    def pallas(o):
        def body(tmp):
            tmp[0] = 3
            o[0] = tmp[0]

        pl.run_scoped(body, pltpu.SMEM((2,), jnp.int32))

    def ours(b, o):
        with b.pallas.run_scoped():
            tmp = b.alloca((2,), i32, "smem")
            tmp[0] = 3
            o[0] = tmp[0]


@PAIRS.add(x=vmem(f32), o=out(f32), uses=("add", "load", "store"))
class named_scope:
    def pallas(x, o):
        with jax.named_scope("addition"):
            o[...] = x[...] + 1.0

    def ours(b, x, o):
        b.trace_start(10, "addition")
        o[...] = x[...] + 1.0
        b.trace_stop()


@PAIRS.add(x=vmem(f32), o=out(f32), t=scratch(f32), uses=("add", "load", "store"))
class scratch_memory:
    def pallas(x, o, t):
        t[...] = x[...] + 1.0
        o[...] = t[...]

    def ours(b, x, o, t):
        t[...] = x[...] + 1.0
        o[...] = t[...]


@PAIRS.add(o=COUNT, t=scratch(i32, (4,), "smem"), uses=("load", "store"))
class scratch_smem:
    def both(o, t):
        t[0] = 5
        o[1] = t[0]
