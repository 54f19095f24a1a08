"""Kernels on which the fast engine once gave something else than the reference; numpy's own math says what is right."""

from __future__ import annotations

from typing import Any, Final

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from mosaic_tpu.sim import errors, read, simulate
from packages.sim.tests.conftest import TILE, lowered, ramp
from packages.sim.tests.rules_kit import kernel, memref, vector

X = ramp(*TILE)
ENGINES: Final = ("numpy", "xla")
M, V = memref(TILE, "f32"), vector(TILE, "f32")
TWO: Final = "memref<2xi32, #tpu.memory_space<smem>>"
#: ``%o`` is ``%x``; ``%c`` is whether the first scalar is not 0, ``%q`` the second one.
START: Final = f"""%v = vector.load %x[%zero, %zero] : {M}, {V}
vector.store %v, %o[%zero, %zero] : {M}, {V}
%b = arith.addf %v, %v : {V}
%one = arith.constant 1 : index
%i0 = arith.constant 0 : i32
%p = memref.load %s[%zero] : {TWO}
%q_i = memref.load %s[%one] : {TWO}
%q = arith.index_cast %q_i : i32 to index
%c = arith.cmpi ne, %p, %i0 : i32
"""
STORE: Final = f"vector.store %b, %o[%zero, %zero] : {M}, {V}"
SWITCH: Final = f"scf.index_switch %q\ncase 1 {{\n{STORE}\nscf.yield\n}}\ndefault {{\nscf.yield\n}}"
LOOP: Final = f"%n = arith.constant 100 : index\nscf.for %j = %zero to %n step %one {{\n{STORE}\n}}"
CALL: Final = f"func.call @f(%x, %o) : ({M}, {M}) -> ()"
CALLED: Final = f"""func.func @f(%x: {M}, %o: {M}) {{
%zero = arith.constant 0 : index
%one = arith.constant 1 : index
%n = arith.constant 100 : index
scf.for %j = %zero to %n step %one {{
%v = vector.load %o[%zero, %zero] : {M}, {V}
%w = vector.load %x[%zero, %zero] : {M}, {V}
%a = arith.addf %v, %w : {V}
vector.store %a, %o[%zero, %zero] : {M}, {V}
}}
return
}}
"""


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("taken", [0, 1])
@pytest.mark.parametrize(("body", "more", "times"), [(SWITCH, "", 2), (LOOP, "", 2), (CALL, CALLED, 101)])
def test_what_carries_memory_in_a_branch(body: str, more: str, times: int, taken: int, engine: Any) -> None:
    lines = f"{START}scf.if %c {{\n{body}\n}}"
    source = kernel([f"%s: {TWO}", f"%x: {M}", f"%o: {M}"], lines, more)
    made = simulate(source, np.array([taken, 1], np.int32), X, outputs=[(TILE, np.float32)], engine=engine).outputs[0]
    np.testing.assert_allclose(made, X * times if taken else X, rtol=1e-5)


def below(s: Any, x: Any, o: Any) -> None:
    """Reaches below row 0 in the first iteration, were it to run."""
    o[...] = jnp.zeros_like(o)

    def body(i: Any, _: Any) -> Any:
        @pl.when(s[i] > 0)
        def store() -> None:
            o[pl.ds((i - 1) * 8, 8), :] = x[pl.ds(i * 8, 8), :128]

    jax.lax.fori_loop(0, 2, body, None)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_negative_place_in_a_branch_that_is_not_taken(engine: Any) -> None:
    spec = pl.BlockSpec(memory_space=pltpu.VMEM)
    grid = pltpu.PrefetchScalarGridSpec(num_scalar_prefetch=1, grid=(), in_specs=[spec], out_specs=spec)
    call = pl.pallas_call(below, grid_spec=grid, out_shape=jax.ShapeDtypeStruct((16, 128), jnp.float32))
    x = ramp(16, 256)
    never, first = np.array([0, 1, 0], np.int32), np.array([1, 1, 0], np.int32)
    program = lowered(call, never, x)
    made = simulate(program, never, x, engine=engine).outputs[0]
    np.testing.assert_array_equal(made, np.concatenate([x[8:, :128], np.zeros((8, 128), np.float32)]))
    with pytest.raises(errors.OutOfBoundsError):
        simulate(program, first, x, engine=engine)


def double(x: Any, o: Any) -> None:
    o[...] = x[...] * 2


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("steps", [0, 1, 3])
def test_a_grid_of_as_many_steps_as_an_operand_says(steps: int, engine: Any) -> None:
    spec = pl.BlockSpec(TILE, lambda i: (0, 0))

    def function(n: Any, x: Any) -> Any:
        shape = jax.ShapeDtypeStruct(TILE, jnp.float32)
        aliases = {0: 0}
        return pl.pallas_call(
            double, grid=(n,), in_specs=[spec], out_specs=spec, out_shape=shape, input_output_aliases=aliases
        )(x)

    program = lowered(function, np.int32(0), X)
    made = simulate(program, np.int32(steps), X, engine=engine).outputs[0]
    np.testing.assert_array_equal(made, 2 * X if steps else X)
    with pytest.raises(errors.InputError, match="a bound of the grid is -1"):
        simulate(program, np.int32(-1), X, engine=engine)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("place", [1 << 29, 1 << 30, -(1 << 29), (1 << 31) - 1, 2, -1, 1])
def test_a_block_far_outside(place: int, engine: Any) -> None:
    """Counted in elements, its place does not fit into 32 bits."""
    of_block = pl.BlockSpec(TILE, lambda i, s: (s[i], 0))
    grid = pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=1, grid=(2,), in_specs=[of_block], out_specs=pl.BlockSpec(TILE, lambda i, s: (i, 0))
    )
    shape = jax.ShapeDtypeStruct((16, 128), jnp.float32)
    call = pl.pallas_call(lambda s, x, o: double(x, o), grid_spec=grid, out_shape=shape)
    x, places = ramp(16, 128), np.array([0, place], np.int32)
    program = lowered(call, places, x)
    if place == 1:
        np.testing.assert_array_equal(simulate(program, places, x, engine=engine).outputs[0], 2 * x)
        return
    with pytest.raises(errors.OutOfBoundsError):
        simulate(program, places, x, engine=engine)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("step", [0, -1, 1])
def test_a_step_known_beforehand(step: int, engine: Any) -> None:
    lines = f"""%b = arith.constant dense<1.0> : {V}
    %one = arith.constant 1 : index
    %other = arith.constant {1 - step} : index
    %step = arith.subi %one, %other : index
    %n = arith.constant 4 : index
    scf.for %j = %one to %n step %step {{
    {STORE}
    }}"""
    source = kernel([f"%o: {M}"], lines)
    if step == 1:
        assert simulate(source, outputs=[(TILE, np.float32)], engine=engine).outputs[0].sum() == 1024
        return
    with pytest.raises(errors.OutOfBoundsError, match="a loop whose step is not positive"):
        simulate(source, outputs=[(TILE, np.float32)], engine=engine)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("first", [0, 1])
def test_a_true_bit_extended_is_minus_one(first: int, engine: Any) -> None:
    lines = f"""{START}%yes = arith.constant true
    %no = arith.constant false
    %bit = arith.select %c, %yes, %no : i1
    %wide = arith.extsi %bit : i1 to i32
    %at = arith.index_cast %wide : i32 to index
    %r = vector.load %x[%at, %zero] : {M}, {vector((1, 128), "f32")}
    vector.store %r, %o[%zero, %zero] : {M}, {vector((1, 128), "f32")}"""
    source = kernel([f"%s: {TWO}", f"%x: {M}", f"%o: {M}"], lines)
    given = np.array([first, 0], np.int32), X
    if not first:
        np.testing.assert_array_equal(
            simulate(source, *given, outputs=[(TILE, np.float32)], engine=engine).outputs[0], X
        )
        return
    with pytest.raises(errors.OutOfBoundsError):
        simulate(source, *given, outputs=[(TILE, np.float32)], engine=engine)


@pytest.mark.parametrize("engine", ENGINES)
def test_the_smallest_integer_types_have_a_size(engine: Any) -> None:
    x = np.arange(-8, 8).astype(ml_dtypes.int4)[:, None].repeat(128, 1)
    of, made = memref((16, 128), "i4"), vector((16, 128), "i4")
    lines = f"""%v = vector.load %x[%zero, %zero] : {of}, {made}
    %a = math.absi %v : {made}
    vector.store %a, %o[%zero, %zero] : {of}, {made}"""
    found = simulate(kernel([f"%x: {of}", f"%o: {of}"], lines), x, outputs=[((16, 128), x.dtype)], engine=engine)
    wanted = np.abs(np.arange(-8, 8))
    wanted[0] = -8  # wraps
    np.testing.assert_array_equal(found.outputs[0].astype(np.int32), wanted[:, None].repeat(128, 1))


class Refusing:
    """No array, whatever it says."""

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise RuntimeError("no")


@pytest.mark.parametrize("engine", ENGINES)
def test_what_cannot_be_an_array(engine: Any) -> None:
    module = read(kernel([f"%x: {M}", f"%o: {M}"], START.split("%b")[0]))
    with pytest.raises(errors.InputError, match="a Refusing cannot be made an array"):
        simulate(module, Refusing(), outputs=[(TILE, np.float32)], engine=engine)


def test_the_fast_engine_refuses_empty_arrays() -> None:
    spec = pl.BlockSpec(TILE, lambda i: (0, 0))
    x = np.zeros((0, 128), np.float32)
    shape = jax.ShapeDtypeStruct(TILE, jnp.float32)
    call = pl.pallas_call(lambda x, o: double(o, o), grid=(1,), in_specs=[spec], out_specs=spec, out_shape=shape)
    with pytest.raises(errors.UnsupportedOpError, match="empty arrays"):
        simulate(lowered(call, x), x, engine="xla")


@pytest.mark.parametrize("engine", ENGINES)
def test_arrays_larger_than_the_machine(engine: Any) -> None:
    rows = 1 << 40
    source = kernel([f"%o: {memref((rows, 128), 'f32', 'any')}"], "")
    with pytest.raises(errors.LimitError):
        simulate(source, outputs=[((rows, 128), np.float32)], engine=engine)


@pytest.mark.parametrize("attribute", ["scalar_prefetch", "scratch_operands"])
def test_a_negative_number_of_arguments(attribute: str) -> None:
    source = kernel([f"%x: {M}", f"%o: {M}"], START.split("%b")[0])
    source = source.replace(") {", f") attributes {{{attribute} = -1 : i64}} {{", 1)
    with pytest.raises(errors.ModuleFormatError, match="is negative"):
        simulate(source, X, outputs=[(TILE, np.float32)])
