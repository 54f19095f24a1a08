"""Loops, branches, scopes, and what holds other programs."""

from __future__ import annotations

import contextlib
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import checkify
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from conformance.corpus.case import Cases

CASES = Cases("control")
_X = "f32[8,128]"

# --- loops -----------------------------------------------------------------------------------------------------------


def _sums(n: Any, x: jax.Array, **options: Any) -> jax.Array:
    return lax.fori_loop(0, n, lambda i, c: c + x * i, jnp.zeros_like(x), **options)


for _n, _unroll in ((4, 1), (4, True), (4, 2), (5, 2), (6, 4), (1, 1), (0, 1)):
    CASES.values(f"fori-{_n}-unroll-{_unroll}", ("scan",), lambda x, n=_n, u=_unroll: _sums(n, x, unroll=u), _X)
CASES.values("fori-dynamic", ("while",), lambda x, n: _sums(n, x), _X, "s32")
CASES.values(
    "fori-dynamic-start", ("while",), lambda x, n: lax.fori_loop(n, n + 4, lambda i, c: c + x * i, x), _X, "s32"
)
CASES.values("fori-start", ("scan",), lambda x: lax.fori_loop(2, 6, lambda i, c: c + x * i, x), _X)
CASES.values("fori-scalar-carry", ("scan",), lambda n: lax.fori_loop(0, 4, lambda i, c: c + i * n, n), "s32")
CASES.values(
    "fori-two-carries",
    ("scan",),
    lambda x, n: lax.fori_loop(0, 4, lambda i, c: (c[0] + x, c[1] + n), (x, n)),
    _X,
    "s32",
)
CASES.values(
    "fori-nested",
    ("scan",),
    lambda x: lax.fori_loop(0, 2, lambda i, c: lax.fori_loop(0, 3, lambda j, d: d + x * (i + j), c), x),
    _X,
)
CASES.values("scan-without-index", ("scan",), lambda x: lax.scan(lambda c, _: (c * 2, None), x, length=4)[0], _X)
CASES.values("while", ("while",), lambda n: lax.while_loop(lambda i: i < 100, lambda i: i * 2, n), "s32")
CASES.values(
    "while-vector",
    ("while",),
    lambda x, n: lax.while_loop(lambda c: c[0] < n, lambda c: (c[0] * 2, c[1] + x), (jnp.int32(1), x))[1],
    _X,
    "s32",
)


@CASES.refs(("scan", "get", "swap"), (_X,), (_X,))
def fori_over_rows(x: Any, o: Any) -> None:
    def row(i: Any, _: None) -> None:
        o[pl.ds(i, 1), :] = x[pl.ds(i, 1), :] * 2

    lax.fori_loop(0, 8, row, None)


@CASES.refs(("while", "get", "swap"), ("s32[4] smem", _X), (_X,))
def while_over_rows(n: Any, x: Any, o: Any) -> None:
    @pl.loop(0, n[0])
    def _(i: Any) -> None:
        o[i] = x[i]


@CASES.refs(("scan",), (_X,), (_X,))
def loop_unrolled(x: Any, o: Any) -> None:
    @pl.loop(0, 8, unroll=4)
    def _(i: Any) -> None:
        o[i] = x[i]


@CASES.refs(("scan",), (_X,), (_X,))
def loop_step(x: Any, o: Any) -> None:
    @pl.loop(0, 8, step=2)
    def _(i: Any) -> None:
        o[i] = x[i]


@CASES.refs(("while",), ("s32[4] smem",), ("s32[4] smem",))
def while_on_refs(x: Any, o: Any) -> None:
    def body(i: Any) -> Any:
        o[i] = x[i]
        return i + x[0]

    lax.while_loop(lambda i: x[i] > 0, body, 0)


# --- branches --------------------------------------------------------------------------------------------------------

CASES.values("cond", ("cond",), lambda p, x: lax.cond(p > 0, lambda: x * 2, lambda: x), "s32", _X)
CASES.values("cond-boolean", ("cond",), lambda p, x: lax.cond(p, lambda: x * 2, lambda: x), "pred", _X)
CASES.values(
    "cond-two-results", ("cond",), lambda p, x: lax.cond(p > 0, lambda: (x, p), lambda: (x * 2, p + 1)), "s32", _X
)
CASES.values(
    "switch-3", ("cond", "clamp"), lambda i, x: lax.switch(i, [lambda: x, lambda: x * 2, lambda: x * 3]), "s32", _X
)
CASES.values("switch-5", ("cond",), lambda i: lax.switch(i, [lambda n=n: jnp.int32(n) * i for n in range(5)]), "s32")
CASES.values(
    "cond-nested",
    ("cond",),
    lambda p, x: lax.cond(p > 0, lambda: lax.cond(p > 1, lambda: x, lambda: -x), lambda: x + 1),
    "s32",
    _X,
)
CASES.values(
    "cond-in-loop",
    ("cond", "scan"),
    lambda x: lax.fori_loop(0, 4, lambda i, c: lax.cond(i > 1, lambda: c + x, lambda: c), x),
    _X,
)
CASES.values("cond-constant", ("cond",), lambda x: lax.cond(jnp.bool_(True), lambda: x * 2, lambda: x), _X)


@CASES.refs(("cond",), ("s32[4] smem", _X), (_X,))
def when(s: Any, x: Any, o: Any) -> None:
    @pl.when(s[0] > 0)
    def _() -> None:
        o[...] = x[...]


@CASES.refs(("cond",), ("s32[4] smem", _X), (_X,))
def when_nested(s: Any, x: Any, o: Any) -> None:
    @pl.when(s[0] > 0)
    def _() -> None:
        @pl.when(s[1] > 0)
        def _() -> None:
            o[...] = x[...]


@CASES.refs(("cond", "program_id"), (_X,), (_X,), grid=(4,))
def when_first(x: Any, o: Any) -> None:
    @pl.when(pl.program_id(0) == 0)
    def _() -> None:
        o[...] = jnp.zeros_like(o)

    o[...] += x[...]


@CASES.refs(("cond",), ("s32[4] smem", _X), (_X,))
def switch_on_refs(s: Any, x: Any, o: Any) -> None:
    def stores(factor: int) -> Any:
        def store() -> None:
            o[...] = x[...] * factor

        return store

    lax.switch(s[0], [stores(n) for n in range(3)])


CASES.values(
    "platform_index",
    ("platform_index",),
    lambda x: lax.platform_dependent(x, mosaic=lambda x: x * 2, default=lambda x: x),
    _X,
)

# --- programs inside programs ----------------------------------------------------------------------------------------

CASES.values("jit", ("jit",), lambda x: jax.jit(lambda y: y * 2)(x), _X)
CASES.values("jit-twice", ("jit",), lambda x: (f := jax.jit(lambda y: y * 2 + 1))(f(x)), _X)


@jax.custom_jvp
def _twice(x: jax.Array) -> jax.Array:
    return x * 2


@jax.custom_vjp
def _thrice(x: jax.Array) -> jax.Array:
    return x * 3


_twice.defjvp(lambda xs, ts: (_twice(xs[0]), ts[0] * 2))
_thrice.defvjp(lambda x: (x * 3, None), lambda _, g: (g * 3,))
CASES.values("custom_jvp_call", ("custom_jvp_call",), lambda x: _twice(x), _X)
CASES.values("custom_vjp_call", ("custom_vjp_call",), lambda x: _thrice(x), _X)
CASES.values("grad-in-a-kernel", ("mul",), jax.grad(lambda x: jnp.sum(_twice(x) * _thrice(x))), _X)
CASES.values("vmap-in-a-kernel", ("dot_general",), jax.vmap(lambda x, y: x @ y), *["f32[2,128,128]"] * 2)


@CASES.refs(("run_scoped",), (_X,), (_X,))
def run_scoped(x: Any, o: Any) -> None:
    def body(buffer: Any) -> None:
        buffer[...] = x[...]
        o[...] = buffer[...] * 2

    pl.run_scoped(body, pltpu.VMEM((8, 128), jnp.float32))


@CASES.refs(("run_scoped",), (_X,), (_X,))
def run_scoped_gives_a_value(x: Any, o: Any) -> None:
    def body(buffer: Any, number: Any) -> Any:
        buffer[...] = x[...]
        number[0] = 3
        return buffer[...] * 2, number[0]

    value, number = pl.run_scoped(body, pltpu.VMEM((8, 128), jnp.float32), pltpu.SMEM((1,), jnp.int32))
    o[...] = value * number


@CASES.refs(("run_scoped",), (_X,), (_X,))
def run_scoped_nested(x: Any, o: Any) -> None:
    def outer(a: Any) -> None:
        def inner(b: Any) -> None:
            b[...] = a[...]
            o[...] = b[...]

        a[...] = x[...]
        pl.run_scoped(inner, pltpu.VMEM((8, 128), jnp.float32))

    pl.run_scoped(outer, pltpu.VMEM((8, 128), jnp.float32))


@CASES.refs(("run_scoped", "scan"), (_X,), (_X,))
def run_scoped_in_a_loop(x: Any, o: Any) -> None:
    @pl.loop(0, 4)
    def _(i: Any) -> None:
        def body(buffer: Any) -> None:
            buffer[...] = x[...] * i
            o[...] += buffer[...]

        pl.run_scoped(body, pltpu.VMEM((8, 128), jnp.float32))


@CASES.refs(("empty_ref",), (_X,), (_X,))
def empty_ref(x: Any, o: Any) -> None:
    buffer = jax.empty_ref(jax.ShapeDtypeStruct((8, 128), jnp.float32), memory_space=pltpu.VMEM)
    buffer[...] = x[...]
    o[...] = buffer[...]


@contextlib.contextmanager
def _poison() -> Any:
    with pl.enable_poison_buffers(True):
        yield


@CASES.refs(("run_scoped",), (_X,), (_X,), context=_poison)
def run_scoped_poisoned(x: Any, o: Any) -> None:
    def body(buffer: Any, number: Any) -> None:
        buffer[...] = x[...]
        o[...] = buffer[...] + number[0]

    pl.run_scoped(body, pltpu.VMEM((8, 128), jnp.float32), pltpu.SMEM((1,), jnp.float32))


@contextlib.contextmanager
def _checks() -> Any:
    with pl.enable_debug_checks(True):
        yield


@CASES.refs(("check",), ("s32[1] smem",), ("s32[1] smem",), context=_checks)
def debug_check(x: Any, o: Any) -> None:
    pl.debug_check(x[0] > 0, "x is not positive")
    o[0] = x[0]


@CASES.refs(("check",), ("s32[1] smem",), ("s32[1] smem",))
def debug_check_disabled(x: Any, o: Any) -> None:
    checkify.debug_check(x[0] > 0, "x is not positive")
    o[0] = x[0]
