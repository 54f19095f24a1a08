# ruff: noqa: N801, N805 - a pair is a class that holds two functions
# pyright: basic
"""Prints, spans, traced values, delays; and what stood in a ref before it was written."""

from __future__ import annotations

import jax

from conformance.cases.cheat_sheet.pairs import Pairs, out, smem, vmem
from mosaic_tpu.builder import bf16, f32, i8, i32, u32

PAIRS = Pairs("debug")
S, T, U = smem(i32), smem(f32), smem(u32)
for name, call, args in [
    ("text", "'hello'", {}),
    ("scalar", "'s = {}', s[0]", {"s": S}),
    ("scalars", "'{} and {}: {}', s[0], t[0], u[1]", {"s": S, "t": T, "u": U}),
    ("no-places", "'these', s[0], t[0]", {"s": S, "t": T}),
    ("braces-behind", "'{} of {{x}}', s[0]", {"s": S}),
    ("braces-before", "'{{x}} {}', s[0]", {"s": S}),
    ("braces-around", "'{{ {} }}', s[0]", {"s": S}),
    ("braces-alone", "'{{x}}'", {}),
]:
    PAIRS.refs(
        f"debug-print-{name}",
        f"pl.debug_print({call})",
        f"b.pallas.debug_print({call})",
        uses=("load",) * bool(args),
        **args,
        o=out(f32),
    )
for dtype, shape in ((f32, (8, 128)), (bf16, (16, 128)), (i8, (32, 128)), (f32, (128,)), (i32, (2, 8, 128))):
    PAIRS.refs(
        f"debug-print-vector-{dtype}-{len(shape)}d",
        "pl.debug_print('x = {}', x[...])",
        "b.pallas.debug_print('x = {}', x[...])",
        uses=("load",),
        x=vmem(dtype, shape),
        o=out(f32),
    )
for value, args in (("s[0]", {"s": S}), ("t[0]", {"t": T})):
    PAIRS.refs(
        f"trace-value-{value[0]}",
        f"pltpu.trace_value('value', {value})",
        f"b.pallas.trace_value('value', {value})",
        uses=("load",),
        **args,
        o=out(f32),
    )
PAIRS.refs("delay", "pl.delay(100)", "b.pallas.delay(100)", o=out(f32))
PAIRS.refs("delay-scalar", "pl.delay(s[0])", "b.pallas.delay(s[0])", uses=("load",), s=S, o=out(f32))


@PAIRS.add(x=vmem(f32), o=out(f32), uses=("load", "store", "mul"))
class span:
    def pallas(x, o):
        with jax.named_scope("twice"):
            o[...] = x[...] * 2.0

    def ours(b, x, o):
        with b.pallas.named_scope("twice"):
            o[...] = x[...] * 2.0


@PAIRS.add(x=vmem(f32), o=out(f32), uses=("load", "store", "mul", "add"))
class spans_nested:
    def pallas(x, o):
        with jax.named_scope("outer"):
            y = x[...] * 2.0
            with jax.named_scope("inner"):
                y = y + 1.0
            o[...] = y

    def ours(b, x, o):
        with b.pallas.named_scope("outer"):
            y = x[...] * 2.0
            with b.pallas.named_scope("inner"):
                y = y + 1.0
            o[...] = y


# --- swaps ------------------------------------------------------------------------------------------------------------

SWAPS = Pairs("refs")
USES = ("load", "store")
for name, index, shape in [
    ("whole", "...", (8, 128)),
    ("row", "2", (128,)),
    ("rows", "slice(2, 6)", (4, 128)),
    ("part", "(slice(0, 4), slice(0, 64))", (4, 64)),
    ("strided", "slice(0, 8, 2)", (4, 128)),
]:
    SWAPS.refs(
        f"swap-{name}",
        f"p[...] = jax.ref.swap(o, {index}, x[...])",
        f"p[...] = b.pallas.swap(o, x[...], {index})",
        uses=USES,
        x=vmem(f32, shape),
        o=out(f32),
        p=out(f32, shape),
    )


@SWAPS.add(s=S, x=vmem(f32, (128,)), o=out(f32), p=out(f32, (128,)), uses=USES)
class swap_scalar:
    def pallas(s, x, o, p):
        row = s[0]
        p[...] = jax.ref.swap(o, row, x[...])

    def ours(b, s, x, o, p):
        row = s[0]
        p[...] = b.pallas.swap(o, x[...], row)


SWAPS.refs(
    "swap-bf16",
    "p[...] = jax.ref.swap(o, ..., x[...])",
    "p[...] = b.pallas.swap(o, x[...])",
    uses=USES,
    x=vmem(bf16, (16, 128)),
    o=out(bf16, (16, 128)),
    p=out(bf16, (16, 128)),
)
SWAPS.refs(
    "swap-smem",
    "o[0] = jax.ref.swap(o, (1,), s[0])",
    "o[0] = b.pallas.swap(o, s[0], 1)",
    uses=USES,
    s=S,
    o=out(i32, (4,), space="smem"),
)
SWAPS.refs(
    "pltpu-load", "o[...] = pltpu.load(x)", "o[...] = b.pallas.load(x)", uses=("store",), x=vmem(f32), o=out(f32)
)
SWAPS.refs(
    "pltpu-load-slice",
    "o[...] = pltpu.load(x.at[pl.ds(2, 4)])",
    "o[...] = b.pallas.load(x, b.pallas.ds(2, 4))",
    uses=("store",),
    x=vmem(f32),
    o=out(f32, (4, 128)),
)
SWAPS.refs(
    "pltpu-store-strided",
    "pltpu.store(o.at[pl.ds(0, 4, 2)], x[...])",
    "b.pallas.store(o, x[...], b.pallas.ds(0, 4, 2))",
    uses=("load",),
    x=vmem(f32, (4, 128)),
    o=out(f32),
)
SWAPS.refs(
    "view-bitcast-widths",
    "o[...] = x.bitcast(jnp.int32)[...]",
    "o[...] = x.at[...].bitcast(i32)[...]",
    uses=("load", "store", "at"),
    x=vmem(bf16, (16, 128)),
    o=out(i32),
)
SWAPS.refs(
    "view-bitcast-slice",
    "o[...] = x.bitcast(jnp.int32).at[pl.ds(8, 8)][...]",
    "o[...] = x.at[...].bitcast(i32).at[b.pallas.ds(8, 8)][...]",
    uses=("load", "store", "at"),
    x=vmem(bf16, (32, 128)),
    o=out(i32),
)

PAIRS.pairs += [*SWAPS]
