"""Style `idioms`: what `b.pallas` emits is written as it, byte for byte, and the rest as in style `ops`."""

from __future__ import annotations

import itertools
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from mosaic_tpu.lift import diff, lift
from mosaic_tpu.lift._lift import lifted
from mosaic_tpu.lift._source import given
from mosaic_tpu.lift.idioms import _index, _match
from mosaic_tpu.lift.idioms._form import Form
from mosaic_tpu.lift.idioms._template import templates
from mosaic_tpu.sim import ir

from .lift_kit import DOUBLE, SQUARE, VMEM, bytes_of, lowered, module, multiplied, wanted

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
    return lowered(call, COUNT, TILE)


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


WRITTEN = {
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
}


def lower(body: Callable[..., None]) -> Any:
    return kernel(body, *([pltpu.SemaphoreType.DMA((4,))] if body is copied else []))


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


# --- what only looks like one ----------------------------------------------------------------------------------------

ONE = "%one = arith.constant 1 : i32"
STORED = f"tpu.vector_store %y[%c0, %c0], %v {{strides = array<i32>}} : {VMEM}, vector<8x128xf32>,"
READ = ("%c0 = arith.constant 0 : index", f"%v = vector.load %x[%c0, %c0] : {VMEM}, vector<8x128xf32>")
BOUNDS = ("%low = arith.constant 0 : i32", "%n = arith.constant 4 : i32", "%high = arith.addi %low, %n : i32", ONE)
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
def test_source_is_clean_and_formatted(body: Callable[..., None] | None, tmp_path: Path) -> None:
    ruff = shutil.which("ruff")
    if ruff is None:
        pytest.skip("ruff is not installed")
    path = tmp_path / "lifted.py"
    path.write_text(lift(lower(body) if body else lowered(multiplied(), SQUARE, SQUARE), style="idioms"))
    select = "lint.select = ['E', 'W', 'F', 'I', 'N', 'UP', 'B', 'C4', 'PIE', 'RUF', 'SIM', 'RET', 'PERF', 'D']"
    dict_calls = "lint.flake8-comprehensions.allow-dict-calls-with-keyword-arguments = true"
    style = ["--isolated", "--config", "line-length = 120"]
    rules = ["--config", select, "--config", dict_calls, "--config", "lint.pydocstyle.convention = 'google'"]
    checked = subprocess.run([ruff, "check", *style, *rules, path], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout
    formatted = subprocess.run([ruff, "format", *style, "--diff", path], capture_output=True, text=True, check=False)
    assert formatted.returncode == 0, formatted.stdout
