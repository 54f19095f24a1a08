# ruff: noqa: N801, N805 - a pair is a class that holds two functions
# pyright: basic
"""Reports from a running kernel, checks, and promises to the compiler about refs, op by op."""

from __future__ import annotations

from jax import lax
from jax.experimental import checkify
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from conformance.cases.cheat_sheet.pairs import Pairs, anywhere, out, smem, vmem
from mosaic_tpu.builder import f32, i32, u32

PAIRS = Pairs("reports")
#: Every kernel has an output, which these leave alone.
NOTHING = out(i32, (4,), space="smem")

# --- reports ----------------------------------------------------------------------------------------------------------

PAIRS.refs("log-message", "pl.debug_print('here')", "b.tpu_log('here')", o=NOTHING)
PAIRS.refs(
    "log-scalars",
    "pl.debug_print('{} and {} and {}', s[0], t[1], u[2])",
    "b.tpu_log('$s0 and $f1 and $u2', s[0], t[1], u[2], formatted=True)",
    uses=("load",),
    s=smem(i32),
    t=smem(f32),
    u=smem(u32),
    o=NOTHING,
)
PAIRS.refs(
    "log-scalars-after",
    "pl.debug_print('s', s[0], s[1])",
    "b.tpu_log('s', s[0], s[1])",
    uses=("load",),
    s=smem(i32),
    o=NOTHING,
)


@PAIRS.add(x=vmem(f32), o=NOTHING, uses=("load",))
class log_buffer:
    def pallas(x):
        pl.debug_print("x = {}", x[...])

    def ours(b, x):
        value = x[...]
        with b.region():
            buffer = b.alloca((8, 128), f32)
            zero = b.c_index(0)
            b.plain_vector_store(buffer, value, [zero, zero])
            b.log_buffer(buffer, "x = ")


if hasattr(pltpu, "trace_value"):
    for _d in (i32, f32):
        PAIRS.refs(
            f"traced-{_d}",
            "pltpu.trace_value('count', s[0])",
            "b.trace_value('count', s[0])",
            uses=("load",),
            s=smem(_d),
            o=NOTHING,
        )


@PAIRS.add(s=smem(i32), o=NOTHING, debug_checks=True, uses=("load", "gt"))
class check:
    def pallas(s):
        checkify.check(s[0] > 0, "too small", debug=True)

    def ours(b, s):
        failed = b.xori(s[0] > 0, b.lift(True))
        b.lift(0)  # the error's number in checkify
        b.assert_(b.xori(failed, b.lift(True)), "too small")


# --- promises ---------------------------------------------------------------------------------------------------------

if hasattr(pltpu, "annotate"):
    for _promise in ("no_store", "no_bank_conflict", "no_hazard", "no_hazard_no_deps"):
        PAIRS.refs(
            f"annotate-{_promise.replace('_', '-')}",
            f"o[...] = pltpu.annotate(x, {_promise}=True)[...]",
            f"o[...] = b.annotate(x, {_promise}=True)[...]",
            uses=("load", "store"),
            x=vmem(f32),
            o=out(f32),
        )

    @PAIRS.add(s=smem(i32), x=vmem(f32, (4, 8, 128)), o=out(f32), uses=("load", "store"))
    class annotate_a_slice:
        def pallas(s, x, o):
            o[...] = pltpu.annotate(x.at[s[0]], no_store=True, no_bank_conflict=True)[...]

        def ours(b, s, x, o):
            row = b.memref_squeeze(b.memref_slice(x, [s[0], 0, 0], [1, 8, 128]), (8, 128))
            o[...] = b.annotate(row, no_store=True, no_bank_conflict=True)[...]


if hasattr(pltpu, "has_memory_space"):

    @PAIRS.add(h=anywhere(f32), o=out(i32, (4,), space="smem"), uses=("store",))
    class has_memory_space:
        def pallas(h, o):
            o[0] = lax.convert_element_type(pltpu.has_memory_space(h, pltpu.VMEM), "int32")

        def ours(b, h, o):
            o[0] = b.memref_memory_space_is(h, "vmem").to(i32)
