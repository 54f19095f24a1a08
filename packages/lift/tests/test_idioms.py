"""Style `idioms`: what `b.pallas` emits is written as it, byte for byte, and the rest as in style `ops`."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from typing import Any, Final

import jax
import jax.numpy as jnp
import pytest
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from mosaic_tpu.lift import build, diff, lift
from mosaic_tpu.lift._lift import lifted
from mosaic_tpu.lift._source import given
from mosaic_tpu.lift.idioms import _index, _match
from mosaic_tpu.lift.idioms._form import Form
from mosaic_tpu.lift.idioms._template import templates
from mosaic_tpu.sim import ir

from .lift_kit import DOUBLE, SQUARE, VMEM, bytes_of, lowered, module, multiplied, objections, wanted

pytestmark = pytest.mark.filterwarnings("ignore:.*(device_id_type|DeviceIdType).*:DeprecationWarning")
TILE = jax.ShapeDtypeStruct((8, 128), jnp.float32)
COUNT = jax.ShapeDtypeStruct((4,), jnp.int32)


def kernel(body: Callable[..., None], *scratch: Any) -> Any:
    """A function of counts in SMEM and an array in VMEM that runs a body on them."""
    call = pl.pallas_call(
        body,
        in_specs=[pl.BlockSpec(memory_space=pltpu.SMEM), pl.BlockSpec(memory_space=pltpu.VMEM)],
        out_shape=TILE,
        scratch_shapes=scratch,
    )
    function = call
    if body in SEMAPHORES and body is not copied:
        mesh, spec = jax.sharding.Mesh(jax.devices()[:1], ("d",)), jax.sharding.PartitionSpec()
        function = jax.shard_map(call, mesh=mesh, in_specs=(spec, spec), out_specs=spec, check_vma=False)
    return lowered(function, COUNT, TILE)


def add_up(s: Any, x: Any, o: Any) -> None:
    o[...] = lax.fori_loop(0, 4, lambda i, acc: acc + x[i], jnp.zeros((8, 128), jnp.float32))


def unrolled(s: Any, x: Any, o: Any) -> None:
    def body(i: Any, acc: Any) -> Any:
        o[i] = acc[0]
        return acc * 2.0

    o[...] = lax.fori_loop(0, 8, body, x[...], unroll=2)


def counted(s: Any, x: Any, o: Any) -> None:
    def body(i: Any, acc: Any) -> Any:
        return acc + x[i]

    o[...] = lax.fori_loop(s[0], s[1], body, x[...])


def without_a_counter(s: Any, x: Any, o: Any) -> None:
    o[...] = lax.fori_loop(0, 5, lambda i, acc: acc * 2.0, x[...])


def searched(s: Any, x: Any, o: Any) -> None:
    found, _ = lax.while_loop(lambda c: c[0] < s[1], lambda c: (c[0] * 2, c[1] + 1.0), (s[0], 0.0))
    o[found] = x[0]


def chosen(s: Any, x: Any, o: Any) -> None:
    o[...] = lax.cond(s[0] > 1, lambda: x[...] + 1.0, lambda: x[...] * 3.0)


def on_some_steps(s: Any, x: Any, o: Any) -> None:
    @pl.when(s[0] == 0)
    def _() -> None:
        o[...] = jnp.where(x[...] > 0.0, x[...], jnp.exp(x[...]) - 1.0)


def normalised(s: Any, x: Any, o: Any) -> None:
    o[...] = jax.nn.softmax(x[...], axis=-1)


def copied(s: Any, x: Any, o: Any, sem: Any) -> None:
    copy = pltpu.make_async_copy(x.at[pl.ds(s[0], 4)], o.at[pl.ds(4, 4)], sem.at[s[1]])
    copy.start()
    copy.wait()


def within_each_other(s: Any, x: Any, o: Any) -> None:
    """Values of the outer loop are read, for the last time, in the inner one."""

    def outer(i: Any, acc: Any) -> Any:
        row = x[i] + acc
        return lax.fori_loop(0, 3, lambda j, inner: inner * row + 1.0, acc)

    o[0] = lax.fori_loop(0, 4, outer, x[0])


def of_whole_arrays(s: Any, x: Any, o: Any) -> None:
    """What several steps make of an array, and of nothing."""
    rows = jax.nn.logsumexp(x[...], axis=1, keepdims=True) + jnp.linalg.norm(x[...], axis=1, keepdims=True)
    spread = jax.nn.standardize(x[...]) + lax.clamp(0.0, x[...], 1.0) * lax.integer_pow(x[...], 5)
    o[...] = rows + spread + jnp.roll(x[...], 3, 0) + jnp.eye(8, 128, k=1) * jnp.tri(8, 128)


def one_hot(s: Any, x: Any, o: Any) -> None:
    o[...] = jax.nn.one_hot(x[:, 0].astype(jnp.int32), 128)


def switched(s: Any, x: Any, o: Any) -> None:
    """What the branches read of their surroundings, the last of them read first."""
    shift = s[1]
    o[...] = lax.switch(s[0], [lambda n=n: x[...] * float(n + 2) + shift for n in range(4)])


def switched_without_results(s: Any, x: Any, o: Any) -> None:
    lax.switch(s[0], [lambda n=n: o.__setitem__(n, x[n]) for n in range(3)])


def in_scopes(s: Any, x: Any, o: Any) -> None:
    with jax.named_scope("outer"):
        row = x[0]
        with jax.named_scope('"inner"\\n'):
            row = row * 2.0
        with jax.named_scope("empty"):
            pass
        o[1] = row
    o[2] = row + 1.0


def in_a_scope_in_a_loop(s: Any, x: Any, o: Any) -> None:
    def body(i: Any, acc: Any) -> Any:
        with jax.named_scope("step"):
            return acc + x[i]

    o[0] = lax.fori_loop(0, 4, body, x[0])


def said(s: Any, x: Any, o: Any) -> None:
    pl.debug_print("at {} of {}{{}}", s[0], s[1])
    pl.debug_print("hello $5")
    pl.debug_print("no place", s[2])


def sent(s: Any, x: Any, o: Any, sem: Any) -> None:
    copy = pltpu.make_async_remote_copy(
        x, o, sem.at[s[0]], sem.at[3], device_id=s[1], device_id_type=pl.DeviceIdType.LOGICAL
    )
    copy.start()
    copy.wait()


def sent_and_waited_apart(s: Any, x: Any, o: Any, sem: Any) -> None:
    copy = pltpu.make_async_remote_copy(
        x.at[pl.ds(0, 4)], o.at[pl.ds(4, 4)], sem.at[0], sem.at[1], device_id=1, device_id_type=pl.DeviceIdType.LOGICAL
    )
    copy.start()
    copy.wait_recv()
    o[0] = x[0]
    copy.wait_send()


def signalled(s: Any, x: Any, o: Any, sem: Any) -> None:
    pl.semaphore_signal(sem.at[s[0]], 2, device_id=s[1], device_id_type=pl.DeviceIdType.LOGICAL)
    pl.semaphore_signal(sem.at[1], device_id=3, device_id_type=pl.DeviceIdType.LOGICAL)
    pl.semaphore_wait(sem.at[2], s[3])


def looped(s: Any, x: Any, o: Any) -> None:
    @pl.loop(0, 8)
    def _(i: Any) -> None:
        o[i] = x[i]

        @pl.loop(1, 7, step=3, unroll=1)
        def _(j: Any) -> None:
            o[j] = x[j] + x[i]

    @pl.loop(0, 4)
    def _(i: Any) -> None:
        o[0] = x[0]


def looped_by_hand(s: Any, x: Any, o: Any) -> None:
    """Not `pl.loop`: the counter is read too."""

    def body(i: Any, carry: None) -> None:
        o[1 + i * 2] = x[i]

    lax.fori_loop(0, 4, body, None)


def without_nans(s: Any, x: Any, o: Any) -> None:
    o[...] = jnp.where(jnp.isnan(x[...]), 0.0, x[...])


def compared(s: Any, x: Any, o: Any) -> None:
    o[...] = jnp.where(x[...] != o[...], 0.0, x[...])


def rounded(s: Any, x: Any, o: Any) -> None:
    given, random = x[...], pltpu.prng_random_bits((8, 128))
    bits = pltpu.bitcast(random, jnp.uint32)  # before JAX 0.12 an op
    o[...] = pltpu.stochastic_round(given, bits, target_dtype=jnp.bfloat16).astype(jnp.float32)


WRITTEN = {
    looped: """    @b.pallas.loop(1, 7, step=3)
        def _(i_2):""",
    looped_by_hand: "b.pallas.fori_loop(0, 4, body)",
    without_nans: "b.pallas.isnan(x)",
    compared: "x.ne(o)",
    rounded: "b.pallas.stochastic_round(x, b.pallas.bitcast(random, u32), bf16)",
    add_up: "b.pallas.fori_loop(0, 4, body, [",
    unrolled: "b.pallas.fori_loop(0, 8, body, [",
    without_a_counter: "b.pallas.fori_loop(0, 5, body, [",
    counted: "b.pallas.fori_loop(",
    searched: "b.pallas.while_loop(condition, body, [",
    chosen: "b.pallas.cond(",
    on_some_steps: "with b.pallas.when(",
    normalised: "b.pallas.softmax(",
    copied: "b.pallas.async_copy(",
    within_each_other: "body_2",
    of_whole_arrays: "b.pallas.standardize(",
    one_hot: "b.pallas.one_hot(",
    switched: ", [branch, branch_2, branch_3, branch_4], [",
    switched_without_results: "b.pallas.switch(s, [branch, branch_2, branch_3])",
    in_scopes: """with b.pallas.named_scope('"inner"\\\\n'):""",
    in_a_scope_in_a_loop: 'with b.pallas.named_scope("step"):',
    said: 'b.pallas.debug_print("at {} of {}{{}}", s, s_2)',
    sent: "b.pallas.async_remote_copy(a.x, a.o, a.sem.at[s], a.sem.at[3], s_2).start()",
    sent_and_waited_apart: "a.sem.at[0], a.sem.at[1], 1).start()",
    signalled: "b.pallas.semaphore_signal(a.sem.at[1], device_id=3)",
}
SEMAPHORES = {
    copied: pltpu.SemaphoreType.DMA((4,)),
    sent: pltpu.SemaphoreType.DMA((4,)),
    sent_and_waited_apart: pltpu.SemaphoreType.DMA((4,)),
    signalled: pltpu.SemaphoreType.REGULAR((4,)),
}


def lower(body: Callable[..., None]) -> Any:
    return kernel(body, *([SEMAPHORES[body]] if body in SEMAPHORES else []))


def test_a_view_is_tried_by_itself_where_it_is_no_part_of_a_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pallas makes the views of a copy anew for each op; canonical text has them once."""
    tried: list[str] = []

    def counted(forms: list[Form]) -> Any:
        tried.extend(form.source for form in forms if "async_copy" in form.source)
        return templates(forms)

    monkeypatch.setattr(_match, "templates", counted)
    _match.forget()
    fresh = lift(lower(copied), style="idioms")
    assert "b.pallas.async_copy(a.x.at[" in fresh
    assert len(tried) == 2
    text = build(fresh).text()
    shared = lift(text, style="idioms")
    assert "b.pallas.async_copy(input_1_view, output_0_view, sem_0_view).start()" in shared
    assert len(tried) > 2
    assert bytes_of(shared) == wanted(text)


@pytest.mark.parametrize("body", WRITTEN, ids=lambda body: body.__name__)
def test_what_pallas_lowered_is_written_as_its_idioms(body: Callable[..., None]) -> None:
    program = lower(body)
    (call,) = ir.calls_of(program)
    found = lifted(given(program), "idioms")
    assert found.attempts == 1
    assert found.idiomatic
    if body is not counted or jax.__version_info__ >= (0, 12):  # two loops in older versions
        assert WRITTEN[body] in found.text
    assert bytes_of(found.text) == wanted(call.body)


def test_a_kernel_reads_as_it_was_written() -> None:
    source = lift(lowered(multiplied(), SQUARE, SQUARE), style="idioms")
    for statement in (
        "    is_eq = a.k.eq(0)",
        "    with b.pallas.when(is_eq):",
        "        a.acc[...] = zeros",
        "    product = b.pallas.dot(x, w, preferred_element_type=f32)",
        "    plus = acc + product",
        "    exp = b.pallas.exp(acc)",
        "    exp = exp.to(bf16)",
        "    a.o_ref[...] = exp",
    ):
        assert f"{statement}\n" in source, source


def test_a_scope() -> None:
    """Pallas asks which TPU there is before it lowers one."""
    inside = '"tpu.trace_start"() {level = 10 : i32, message = "m"} : () -> ()'
    text = module(f'"tpu.region"() ({{ {inside} "tpu.yield"() : () -> () }}) : () -> ()')
    source = lift(text, style="idioms")
    assert "with b.pallas.run_scoped():" in source
    assert bytes_of(source) == wanted(text)


def test_functions_of_several_steps_are_found() -> None:
    source = lift(lower(of_whole_arrays), style="idioms")
    for call in (
        "logsumexp(x, 1, keepdims=True)",
        "norm(x_2, axis=1, keepdims=True)",
        "clamp(0.0, x_2, 1.0)",
        "integer_pow(x_3, 5)",
        "jnp_roll(x, 3, 0)",
        "eye(8, 128, k=1, dtype=f32)",
        "tri(8, 128, dtype=f32)",
    ):
        assert f"b.pallas.{re.sub(r'x(_[0-9])?,', 'x,', call)}" in re.sub(r"\bx_\d,", "x,", source), call


def test_results_are_called_the_same_in_both_styles() -> None:
    ops, idioms = (re.findall(r"^    (\w+) = ", lift(FUNCTIONS, style=style), re.MULTILINE) for style in STYLES)
    assert ops == idioms


def test_both_waits_for_what_was_sent_are_one() -> None:
    whole, apart = (lift(lower(body), style="idioms") for body in (sent, sent_and_waited_apart))
    if jax.__version_info__ >= (0, 12):  # before, a wait does not say what the other semaphore was
        assert ").wait()" in whole
        assert all(f").{wait}()" in apart for wait in ("wait_recv", "wait_send"))
    assert ").wait()" not in apart


PRINTED = f"""
  %b = memref.alloca() : {VMEM}
  %z = arith.constant 0 : index
  vector.store %v, %b[%z, %z] : {VMEM}, vector<8x128xf32>
  "tpu.log_buffer"(%b) <{{shape = array<i64: 8, 128>, tag = "x = "}}> : ({VMEM}) -> ()"""
SEMAPHORE = "memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>"


def copied_in_a_region(source: str = "%x") -> str:
    """A copy and the wait for it, of one source or another."""
    if jax.__version_info__ >= (0, 12):
        how = "operandSegmentSizes = array<i32: 1, 0, 1, 1, 0, 0, 0>, priority = 0 : i32, wait_target = true"
        wait = f'"tpu.wait_dma"({source}, %y, %s) <{{{how}, strict_ordering = false}}>'
        types = f"({VMEM}, {VMEM}, {SEMAPHORE})"
    else:
        sizes = "operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>"
        wait = f'"tpu.wait_dma2"(%s, {source}, %y) <{{{sizes}, strict_ordering = false}}>'
        types = f"({SEMAPHORE}, {VMEM}, {VMEM})"
    return f"""
  %s = tpu.sem_alloc : {SEMAPHORE}
  "tpu.enqueue_dma"(%x, %y, %s) <{{operandSegmentSizes = array<i32: 1, 0, 1, 1, 0, 0, 0>, priority = 0 : i32,
    strict_ordering = false}}> : ({VMEM}, {VMEM}, {SEMAPHORE}) -> ()
  {wait} : {types} -> ()"""


def region(inside: str, *before: str) -> str:
    return module(*before, f'"tpu.region"() ({{ {inside}\n "tpu.yield"() : () -> () }}) : () -> ()')


@pytest.mark.parametrize(
    ("inside", "written"),
    [
        (PRINTED, 'b.pallas.debug_print("x = {}", input_0)'),
        (copied_in_a_region(), "b.pallas.sync_copy(a.input_0, a."),
        (PRINTED.replace("%z]", "%c0]"), "with b.pallas.run_scoped():"),
        (PRINTED.replace("x = ", "x{} = "), "with b.pallas.run_scoped():"),
        (PRINTED + "\n  %k = arith.constant 0 : index", "with b.pallas.run_scoped():"),
        (copied_in_a_region("%y"), "with b.pallas.run_scoped():"),
    ],
    ids=["a print", "a copy", "a print elsewhere", "a print of braces", "more than a print", "a wait for another"],
)
def test_a_region_of_an_idiom_itself(inside: str, written: str) -> None:
    """Pallas asks which TPU there is before it lowers one."""
    text = region(inside, *READ)
    source = lift(text, style="idioms")
    assert written in source, source
    assert bytes_of(source) == wanted(text)
    assert objections(source) == ""


# --- what only looks like one ----------------------------------------------------------------------------------------

ONE = "%one = arith.constant 1 : i32"
STORED = f"tpu.vector_store %y[%c0, %c0], %v {{strides = array<i32>}} : {VMEM}, vector<8x128xf32>,"
READ = ("%c0 = arith.constant 0 : index", f"%v = vector.load %x[%c0, %c0] : {VMEM}, vector<8x128xf32>")
BOUNDS = ("%low = arith.constant 0 : i32", "%n = arith.constant 4 : i32", "%high = arith.addi %low, %n : i32", ONE)
STYLES: Final[tuple[Any, ...]] = ("ops", "idioms")
FUNCTIONS = module(
    "%v = arith.constant dense<2.0> : vector<8x128xf32>",
    *(f"%{op} = arith.{op} %v, %v : vector<8x128xf32>" for op in ("addf", "subf", "mulf", "divf", "remf", "minimumf")),
    "%one = arith.cmpf one, %v, %v : vector<8x128xf32>",
    "%oeq = arith.cmpf oeq, %v, %v : vector<8x128xf32>",
    "%olt = arith.cmpf olt, %v, %v : vector<8x128xf32>",
    *(f"%{op} = math.{op} %v : vector<8x128xf32>" for op in ("exp", "sin", "absf", "tanh", "round")),
    "%angle = math.atan2 %v, %v : vector<8x128xf32>",
    "%keep = arith.select %olt, %addf, %subf : vector<8x128xi1>, vector<8x128xf32>",
)
INDEX = "%d = tpu.device_id : i32"
CHOOSE = (
    "%first = arith.constant 0 : i32",
    "%last = arith.constant 1 : i32",
    "%m = arith.maxsi %d, %first : i32",
    "%p = arith.minsi %m, %last : i32",
    "%zero = arith.constant 0 : i32",
    "%c = arith.cmpi ne, %p, %zero : i32",
    "scf.if %c { %k = arith.constant 1 : index scf.yield } else { %k = arith.constant 2 : index scf.yield }",
)
SPAN = ('"tpu.trace_start"() {level = 10 : i32, message = "m"} : () -> ()', *READ, '"tpu.trace_stop"() : () -> ()')
OTHERS = {
    "a carry that goes on as it came": (
        module(
            *BOUNDS,
            "%r = scf.for %i = %low to %high step %one iter_args(%c = %n) -> (i32) : i32 { scf.yield %c : i32 }",
        ),
        "b.for_(",
    ),
    "a loop that is unrolled as often as it runs": (
        module(*BOUNDS, "scf.for %i = %low to %high step %one : i32 { scf.yield } {tpu.late_unroll = 4 : i32}"),
        "b.for_(",
    ),
    "a loop whose counter is read, and not left behind": (
        module(
            *BOUNDS,
            "scf.for %i = %low to %high step %one : i32 { %j = arith.addi %i, %i : i32 scf.yield }",
        ),
        "b.for_(",
    ),
    "a loop that does not count from 0, and whose counter nobody reads": (
        module(
            "%low = arith.constant 2 : i32",
            *BOUNDS[1:],
            "scf.for %i = %low to %high step %one : i32 { scf.yield }",
        ),
        "b.for_(",
    ),
    "a condition that hands on in another order": (
        module(
            "%m = arith.constant 1 : i32",
            "%n = arith.constant 2 : i32",
            "%r:2 = scf.while (%a = %m, %b = %n) : (i32, i32) -> (i32, i32) {",
            "  %go = arith.cmpi slt, %a, %b : i32",
            "  scf.condition(%go) %b, %a : i32, i32",
            "} do {",
            "^bb0(%p: i32, %q: i32):",
            "  scf.yield %p, %q : i32, i32",
            "}",
        ),
        "b.while_(",
    ),
    "a loop in steps of two": (
        module(
            "%low = arith.constant 0 : i32",
            "%n = arith.constant 4 : i32",
            "%high = arith.addi %low, %n : i32",
            "%two = arith.constant 2 : i32",
            "scf.for %i = %low to %high step %two : i32 { scf.yield }",
        ),
        "b.for_(",
    ),
    "a switch whose index is not kept within its branches": (
        module(INDEX, *CHOOSE[4:]).replace("%p", "%d"),
        "b.if_else(",
    ),
    "a switch that is kept within other bounds": (
        module(INDEX, CHOOSE[0], CHOOSE[1].replace(" 1 :", " 2 :"), *CHOOSE[2:]),
        "b.if_else(",
    ),
    "a switch whose clamped index is read": (module(INDEX, *CHOOSE, "%again = arith.addi %p, %p : i32"), "b.if_else("),
    "a span of another level": (module(*SPAN).replace("level = 10", "level = 9"), "b.trace_start(9"),
    "a span that nothing stops": (module(*SPAN[:-1]), "b.trace_start(10"),
    "a span that nothing starts": (module(*SPAN[1:]), "b.trace_stop("),
    "a report with a sign that is no place": (
        module(ONE, '"tpu.log"(%one) <{tag = "$s1", formatted = true}> : (i32) -> ()'),
        "b.tpu_log(",
    ),
    "a branch on another number": (
        module(
            "%c = arith.constant true",
            "%i = arith.extui %c : i1 to i32",
            ONE,
            "%p = arith.cmpi ne, %i, %one : i32",
            "scf.if %p { %c0 = arith.constant 0 : index scf.yield } else { scf.yield }",
        ),
        "b.if_(",
    ),
    "a store without the load that nobody reads": (module(*READ, STORED), "b.vector_store("),
    "a value inside that is read": (
        module(
            "%c = arith.constant 2.0 : f32",
            "%w = vector.broadcast %c : f32 to vector<8x128xf32>",
            *READ,
            "%t = arith.mulf %v, %w : vector<8x128xf32>",
            "%u = arith.addf %t, %w : vector<8x128xf32>",
        ),
        "filled",
    ),
    "flags": (module(ONE, "%0 = arith.addi %one, %one overflow<nsw> : i32"), "generic_op"),
}


@pytest.mark.parametrize(("text", "written"), OTHERS.values(), ids=OTHERS)
def test_what_no_idiom_emits_is_written_as_ops(text: str, written: str) -> None:
    source = lift(text, style="idioms")
    assert written in source
    assert bytes_of(source) == wanted(text)


def test_elements_that_the_builder_lacks_take_no_idiom_away() -> None:
    text = module(
        "%f = arith.constant 0.5 : f4E2M1FN",
        "%g = vector.broadcast %f : f4E2M1FN to vector<8x128xf4E2M1FN>",
        "%c = arith.constant 2.0 : f32",
        "%w = vector.broadcast %c : f32 to vector<8x128xf32>",
        *READ,
        "%t = arith.mulf %v, %w : vector<8x128xf32>",
    )
    found = lifted(given(text), "idioms")
    assert found.attempts == 1
    assert found.idiomatic
    assert bytes_of(found.text) == wanted(text)


def test_views_of_views_are_tried_only_so_often() -> None:
    """All ways to drop ones of both refs, each a view of a view of a view, would be thousands."""
    space = "#tpu.memory_space<any>"
    ops: list[str] = []
    for ref in "xy":
        shapes = [f"{'1x' * ones}8x128" for ones in (6, 4, 2, 0)]
        last = f"%{ref}"
        for level, (before, after) in enumerate(itertools.pairwise(shapes)):
            rank, kind = before.count("x") + 1, "f32"
            zeros = [f"%{ref}{level}c{n} = arith.constant 0 : i32" for n in range(rank)]
            names = ", ".join(f"%{ref}{level}c{n}" for n in range(rank))
            old, new = (f"memref<{s}x{kind}, {space}>" for s in (before, after))
            ops += [
                *zeros,
                f"%{ref}{level}s = tpu.memref_slice {last}[{names}] : {old} -> {old}",
                f"%{ref}{level} = tpu.memref_squeeze %{ref}{level}s : {old} -> {new}",
            ]
            last = f"%{ref}{level}"
    flat, semaphore = f"memref<8x128xf32, {space}>", "memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>"
    sizes = "operandSegmentSizes = array<i32: 1, 0, 1, 1, 0, 0, 0>"
    ops.append(
        f'"tpu.enqueue_dma"(%x2, %y2, %z) <{{{sizes}, priority = 0 : i32, strict_ordering = false}}> '
        f": ({flat}, {flat}, {semaphore}) -> ()"
    )
    whole = f"memref<1x1x1x1x1x1x8x128xf32, {space}>"
    text = module(*ops, arguments=f"%x: {whole}, %y: {whole}, %z: {semaphore}")
    copy = given(text).module.kernel.body.operations[-2]
    assert len(list(_index.views(copy.operands[0]))) > 20
    assert bytes_of(lift(text, style="idioms")) == wanted(text)
    assert bytes_of(lift(text, style="idioms")) == wanted(text)


def test_an_idiom_that_gives_other_bytes_is_written_as_ops(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is taken for a sum, and is a difference: running the source shows it."""
    tile = next(o.results[0].type for o in given(DOUBLE).module.kernel.operation.walk() if o.name == "vector.load")
    plus, minus = (_of(tile, sign) for sign in "+-")
    monkeypatch.setitem(_match._EMITTED, plus.key, templates([minus])[0])
    text = DOUBLE.replace("addf", "subf")
    monkeypatch.setitem(_match.PROPOSALS, "arith.subf", [lambda op, types: [plus]])
    found = lifted(given(text), "idioms")
    assert found.attempts == 2
    assert bytes_of(found.text) == wanted(text)
    assert "minus = input_0 - input_0" in found.text


def _of(type_: ir.Type, sign: str) -> Form:
    from mosaic_tpu.lift._code import Operator

    return Form((type_, type_), lambda xs: Operator(xs[0], sign, xs[1]), "sum")


def test_a_form_that_the_builder_refuses_is_none() -> None:
    """Forms are tried together: one that fails takes none of the others with it."""
    from mosaic_tpu.lift._code import Call, Text

    tile = next(o.results[0].type for o in given(DOUBLE).module.kernel.operation.walk() if o.name == "vector.load")
    good = _of(tile, "+")
    calls = {"sum": "7", "transpose": "(0,)", "reshape": "(3, 3)"}
    forms = [Form((tile,), lambda xs, c=c: Call(f"b.pallas.{c[0]}", *xs, Text(c[1]))) for c in calls.items()]
    emitted = templates([good, *forms, good])
    assert [t is None for t in emitted] == [False, True, True, True, False]


def test_a_diff_is_one_of_either_style() -> None:
    changed = diff(DOUBLE, DOUBLE.replace("addf", "mulf"), style="idioms")
    assert "-    plus = input_0 + input_0" in changed
    assert "+    times = input_0 * input_0" in changed
    assert "a.input_0[...]" in changed


@pytest.mark.parametrize("body", [*WRITTEN, None], ids=lambda body: body.__name__ if body else "multiplied")
def test_source_is_clean_and_formatted(body: Callable[..., None] | None) -> None:
    program = lower(body) if body else lowered(multiplied(), SQUARE, SQUARE)
    assert objections(lift(program, style="idioms")) == ""
